// Links that lead to source files in README.md lead to documentation on this page.
//! [`worker`]: worker
//! [`tables`]: tables
//! [`strategy`]: strategy
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod asleep;
mod by_hash;
pub mod cached;
mod counters;
pub mod crossing;
mod dead_nonces;
pub mod dispatch;
pub mod explain;
pub mod face_table;
pub mod hot;
pub mod learning;
pub mod loans;
mod packet;
mod packet_pool;
mod pipeline;
mod pit_cs;
pub mod popular;
mod port;
pub mod resting;
pub mod ring;
pub mod rounds;
pub mod seat;
mod settings;
mod shard;
mod source_prefix;
pub mod stages;
pub mod strategy;
mod sync;
pub mod tables;
mod ticks;
mod timers;
pub mod trace;
mod whereabouts;
pub mod worker;

pub use byname_wire::FaceId;
pub use packet_pool::Packet;
pub use port::{LinkFields, Outgoing, Received};
pub use source_prefix::SourcePrefix;
pub use ticks::Ticks;
pub use whereabouts::{Network, Whereabouts};
pub use worker::Worker;
