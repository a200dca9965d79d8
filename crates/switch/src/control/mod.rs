//! The control side of flat switches [Concise §3.1]: their controller and its protocol.
//!
//! [`Controller`] has the control halves and no sockets. [`Agent`] has a switch's replica. They exchange [`message`]s
//! in a [`session`]. [`switch`](crate::switch) forwards the frames.

pub mod admission;
mod agent;
mod config;
mod controller;
pub mod message;
mod routes;
pub mod session;
mod tables;
#[cfg(test)]
mod tests;

pub use agent::{Agent, Told};
pub use config::{
    ControllerAddress, PortName, SwitchConfig, SwitchHost, SwitchLink, SwitchNetwork, SwitchSegment, SwitchTunnel,
};
pub use controller::{Controller, ControllerCounters};
pub use tables::Engine;
