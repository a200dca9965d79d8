//! The data plane, without I/O and without threads of its own.
//!
//! A [`Worker`](worker::Worker) takes what ports received, and yields what they are to send.
#![deny(unsafe_code)]

pub mod face_table;
pub mod packet_pool;
pub mod port;
pub mod strategy;
pub mod tables;
pub mod ticks;
pub mod worker;

pub use byname_wire::FaceId;
pub use packet_pool::Packet;
pub use port::{LinkFields, Outgoing, Received};
pub use ticks::Ticks;
pub use worker::Worker;
