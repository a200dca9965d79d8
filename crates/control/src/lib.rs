//! The control side: RIB, NFD management protocol, configuration and metrics.
#![forbid(unsafe_code)]

pub mod config;
pub mod fib_writer;
pub mod metrics;
pub mod mgmt;
pub mod readvertise;
pub mod rib;
pub mod security;
pub mod service;
pub mod switch;
pub mod tags;
