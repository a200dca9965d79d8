//! The interface between a port and a socket that moves frames. [`PacketSocket`](super::ring::PacketSocket) implements
//! it, [`XdpSocket`](super::xdp::XdpSocket), and `DpdkSocket` if built with DPDK.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use smallvec::SmallVec;

use super::OpenError;
use super::datagram::Path;
use super::interface::Interface;
use crate::mac_address::MacAddress;
use crate::port::Pushed;

const TAKEN_TRIES: u32 = 10;
const TAKEN_INTERVAL: Duration = Duration::from_millis(50);

/// Bytes of a VLAN tag.
pub const VLAN_TAG_BYTES: usize = 4;

/// Descriptors of a socket. A socket with several queues has more than one.
pub type Descriptors = SmallVec<[RawFd; 2]>;

/// A received frame.
pub struct Arrival<'a> {
    /// The whole frame, or the part that fits into a slot.
    pub bytes: &'a [u8],
    /// Whether it was longer than a slot.
    pub cut: bool,
    /// Whether it was for another station, or in a VLAN other than this interface's.
    pub elsewhere: bool,
    /// VLAN tag that the system has removed from the frame.
    pub vlan: Option<[u8; VLAN_TAG_BYTES]>,
    /// Whether it stands for several frames. Either its sender leaves the cutting to its network card, or this host's
    /// card has joined received frames. Only set on sockets for all frames.
    pub offloaded: bool,
}

/// Settings of a socket for frames of NDN, of any kind.
#[derive(Debug, Clone, Default)]
pub struct SocketConfig {
    /// Group whose frames the socket receives, in addition to frames to the interface's own address.
    pub group: Option<MacAddress>,
    /// Paths whose datagrams the socket receives, in addition to frames of NDN's EtherType.
    pub paths: Vec<Path>,
    /// Whether to put the interface into promiscuous mode.
    pub promiscuous: bool,
    /// Memory of the receive ring, in bytes.
    pub receive_ring_bytes: usize,
    /// Memory of the transmit ring, in bytes.
    pub transmit_ring_bytes: usize,
}

/// Frames of one interface, through rings in memory shared with the kernel. Receiving a burst costs no system call, and
/// sending one costs few.
pub trait FrameSocket: Send + Sized {
    /// Settings that only this kind of socket has.
    type Config: Clone + Send + Sync;

    /// Whether the socket must be polled, because no descriptor announces frames, room, or the end of the interface.
    const POLLED: bool = false;
    /// Whether all frames on the interface come here, and to nobody else.
    const HEARS_ALL: bool = false;
    /// Whether the kernel hears these frames too.
    const KERNEL_HEARS: bool = false;
    /// Of several sockets, whether `frames::fanout` tells to which one a frame comes. Otherwise the interface
    /// decides, and the frames of a station may move to another socket.
    const STEERS: bool = false;

    /// Finds the interface of this name, up or down.
    ///
    /// # Errors
    /// If there is none.
    fn find(name: &str, own: &Self::Config) -> Result<Interface, OpenError> {
        let _ = own;
        Interface::ethernet(name)
    }

    /// A socket for the frames of NDN on this interface.
    ///
    /// # Errors
    /// The process may not use it, or it cannot do what the settings ask for.
    fn for_port(interface: &Interface, config: &SocketConfig, own: &Self::Config) -> Result<Self, OpenError>;

    /// Number of sockets that can share this interface, at most `wanted`.
    fn count(interface: &Interface, own: &Self::Config, wanted: usize) -> usize {
        let _ = (interface, own, wanted);
        1
    }

    /// As many sockets for the frames of NDN on this interface, one for each thread. Each frame comes to one of them.
    /// They share the memory that the settings allow. The interface must be up. `count` is what
    /// [`FrameSocket::count`] has told.
    ///
    /// # Errors
    /// As [`FrameSocket::for_port`].
    fn for_threads(
        interface: &Interface,
        config: &SocketConfig,
        own: &Self::Config,
        count: usize,
    ) -> Result<Vec<Self>, OpenError> {
        debug_assert_eq!(count, 1);
        Ok(vec![Self::for_port(interface, config, own)?])
    }

    /// As [`FrameSocket::for_port`], but waits a little for what somebody else has: the system takes from a socket
    /// that has ended, this router's predecessor's perhaps, a moment later what it had.
    ///
    /// # Errors
    /// As [`FrameSocket::for_port`].
    fn wait_for(interface: &Interface, config: &SocketConfig, own: &Self::Config) -> Result<Self, OpenError> {
        while_taken(|| Self::for_port(interface, config, own))
    }

    /// Descriptors to register. The first is also the one to wait on for output. Polled sockets have none.
    fn descriptors(&self) -> Descriptors;

    /// Longest payload of a frame, in bytes.
    fn mtu(&self) -> usize;

    /// The error that made a descriptor ready, if any. For polled sockets, the reason why no frames pass, if any.
    fn take_error(&self) -> Option<io::Error>;

    /// Whether a frame waits in a receive ring.
    fn has_input(&self) -> bool;

    /// Shows up to `frames_max` frames to `visit`, those of each ring at once.
    fn receive(&mut self, frames_max: usize, visit: impl FnMut(&[Arrival<'_>]));

    /// Whether the transmit ring has a free slot.
    fn has_room(&mut self) -> bool;

    /// Puts a frame into the transmit ring, in parts: its first bytes, which include at least the addresses, and two
    /// pieces of the rest.
    fn push(&mut self, header: &[u8], payload: (&[u8], &[u8])) -> Pushed;

    /// Whether the ring holds frames of which [`FrameSocket::send`] must tell the kernel.
    fn has_unsent(&self) -> bool;

    /// Makes the kernel send the frames in the transmit ring. Returns false if it could not send all of them, and must
    /// be told again.
    ///
    /// # Errors
    /// If the interface is down or gone.
    fn send(&mut self) -> io::Result<bool>;

    /// Frames dropped since the last call because the receive ring was full.
    fn take_drops(&self) -> u64;
}

/// Opens something of an interface, and waits a little for what somebody else has; see [`FrameSocket::wait_for`].
pub(crate) fn while_taken<T>(open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
    for _ in 0..TAKEN_TRIES {
        match open() {
            Err(error) if error.is_taken() => std::thread::sleep(TAKEN_INTERVAL),
            opened => return opened,
        }
    }
    open()
}
