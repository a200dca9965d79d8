//! The control side of flat switches [Concise §3.1]: what their controller decides, and how they are told.
//!
//! [`Controller`] has the control halves and no sockets; [`Agent`] has a switch's replica; between them
//! travel [`message`]s in a [`session`]. `forward::switch` forwards the frames.

mod agent;
mod controller;
pub mod message;
mod routes;
pub mod session;
mod tables;
#[cfg(test)]
mod tests;

pub use agent::{Agent, Told};
pub use controller::{Controller, ControllerCounters};
pub use tables::Engine;
