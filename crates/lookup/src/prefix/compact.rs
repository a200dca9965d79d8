//! byname's own engine.
