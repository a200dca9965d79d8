//! The data plane, without I/O and without threads of its own.
//!
//! A [`Worker`] takes what ports received, and yields what they are to send.
#![deny(unsafe_code)]

pub mod asleep;
mod by_hash;
pub mod counters;
mod dead_nonces;
pub mod dispatch;
pub mod face_table;
pub mod hot;
pub mod packet_pool;
mod pipeline;
mod pit_cs;
pub mod port;
pub mod publish;
pub mod ring;
pub mod stages;
pub mod strategy;
pub mod switch;
mod sync;
pub mod tables;
pub mod ticks;
mod timers;
pub mod worker;

pub use byname_wire::FaceId;
pub use packet_pool::Packet;
pub use port::{LinkFields, Outgoing, Received};
pub use ticks::Ticks;
pub use worker::Worker;
