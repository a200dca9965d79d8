// Links that lead to source files in README.md lead to documentation on this page.
//! [`server`]: server
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod connection;
mod limits;
mod metrics;
mod probes;
mod router;
pub mod server;

pub use metrics::Tell;
pub use probes::{Probe, Probes};
pub use server::{StartError, WebServer};

#[cfg(test)]
mod tests;
