// Links that lead to source files in README.md lead to documentation on this page.
//! [`server`]: server
//! [`dashboard`]: dashboard
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod answer;
mod connection;
pub mod dashboard;
mod limits;
mod metrics;
mod probes;
#[cfg(feature = "opentelemetry")]
pub mod push;
mod router;
pub mod server;

pub use dashboard::{Access, DashboardConfig, RoutingMap};
pub use metrics::Tell;
pub use probes::{Probe, Probes};
pub use server::{StartError, WebServer};

#[cfg(test)]
mod tests;
