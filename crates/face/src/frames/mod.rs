//! Frames of one network interface: their format, and the sockets that move them.
//!
//! ```text
//! socket      FrameSocket: the operations that a port needs
//! ring        ... by packet sockets with rings (`packet_mmap`)
//! xdp         ... by sockets of AF_XDP
//! dpdk        ... by drivers of DPDK, where this was built with it
//! frame       NDN in frames of its own EtherType
//! datagram    NDN in UDP, in frames
//! neighbor    the station that frames to a host go to
//! fanout      several packet sockets that share the frames of an interface
//! conditions  the frames that a port takes; `filter` checks them for packet sockets, `xdp::program` for AF_XDP
//! offload     checksums that a sender left to its network card
//! interface   interfaces by name
//! ```
//!
//! Ethernet faces, memif faces and the flat switch are built on these.

mod conditions;
pub mod datagram;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub(crate) mod fanout;
pub(crate) mod filter;
pub mod frame;
pub mod interface;
pub mod neighbor;
mod offload;
mod open_error;
pub mod ring;
pub mod socket;
pub mod xdp;

pub use open_error::OpenError;
