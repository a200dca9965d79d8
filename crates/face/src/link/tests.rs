//! Round trips and hostile fragments through whole link services.
