// Links that lead to source files in README.md lead to documentation on this page.
//! [`key`]: key
//! [`switch`]: switch
//! [`control`]: control
//! [`ports`]: ports
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod control;
mod counters;
pub mod frame;
mod held;
pub mod key;
mod packet;
pub mod ports;
mod reports;
mod role;
pub mod run;
pub mod segments;
pub mod switch;
