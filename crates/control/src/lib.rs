//! The control side: RIB, NFD management protocol, configuration and metrics.
#![forbid(unsafe_code)]

pub mod mgmt;
