//! Ports that move bytes, and the loop that drives a worker with them.
#![deny(unsafe_code)]

pub mod ethernet;
mod event_queue;
pub mod face;
pub mod fault;
pub mod io_loop;
pub mod link;
pub mod memif;
pub mod memory;
pub mod pcap;
mod peers;
pub mod port;
pub mod socket_file;
pub mod stream;
pub mod switch;
pub mod udp;
pub mod uri;
pub mod waker;

pub use byname_wire::mac_address;
pub use face::{FaceEvent, FaceRequest, FaceStatus, LinkFlags};
pub use io_loop::{
    ForwarderHandle, InternalFace, IoConfig, RingStatus, Running, StartError, WorkerStatus, Workers, start,
};
pub use port::{Port, PortContext, Readiness};
pub use uri::FaceUri;
pub use waker::LoopWaker;
