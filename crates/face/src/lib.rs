// Links that lead to source files in README.md lead to documentation on this page.
//! [`port`]: port
//! [`io_loop`]: io_loop
//! [`link`]: link
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod desk;
pub mod ethernet;
mod event_queue;
pub mod face;
pub mod fault;
pub mod frames;
pub mod handover;
pub mod io_loop;
pub mod lent;
pub mod link;
pub mod memif;
pub mod memory;
mod netlink;
pub mod nodes;
pub mod pcap;
mod peers;
pub mod port;
pub mod pulse;
pub mod socket_file;
mod spread;
pub mod stream;
pub mod system;
pub mod udp;
pub mod uri;
pub mod waker;

pub use byname_wire::mac_address;
pub use face::{FaceEvent, FaceRequest, FaceStatus, LinkFlags};
pub use io_loop::{
    Activity, Explained, ForwarderHandle, IoConfig, LinkTotals, Queue, Registration, RingStatus, Running, StartError,
    ThreadStatus, Workers, imbalance, start,
};
pub use memory::{InternalFace, InternalSender};
pub use netlink::own_addresses;
pub use port::{Port, PortContext, Readiness};
pub use uri::FaceUri;
pub use waker::LoopWaker;
