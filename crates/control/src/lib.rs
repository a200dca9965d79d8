// Links that lead to source files in README.md lead to documentation on this page.
//! [`service`]: service
//! [`rib`]: rib
//! [`fib_writer`]: fib_writer
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod balance;
pub mod config;
pub mod fib_writer;
pub mod metrics;
pub mod mgmt;
pub mod own_names;
pub mod readvertise;
pub mod rib;
pub mod security;
pub mod service;
pub mod state;
pub mod tags;

pub use byname_mgmt::element;
