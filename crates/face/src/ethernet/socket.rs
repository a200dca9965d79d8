//! What a port needs of a socket that moves frames: [`PacketSocket`](super::ring::PacketSocket) is one,
//! [`XdpSocket`](super::xdp::XdpSocket) another, `DpdkSocket` a third where this was built with DPDK.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use smallvec::SmallVec;

use super::config::{EthernetConfig, OpenError};
use super::interface::Interface;

const TAKEN_TRIES: u32 = 10;
const TAKEN_INTERVAL: Duration = Duration::from_millis(50);

/// Octets of a VLAN's tag.
pub const VLAN_TAG_BYTES: usize = 4;

/// Descriptors of a socket; more than one where it has several queues.
pub type Descriptors = SmallVec<[RawFd; 2]>;

/// A frame as it arrived.
pub struct Arrival<'a> {
    /// All of it, or what fits into a slot.
    pub octets: &'a [u8],
    /// It was longer than a slot.
    pub cut: bool,
    /// It was for another station, or in a VLAN that is not this interface's.
    pub elsewhere: bool,
    /// The tag of a VLAN, which the system takes out of the frame.
    pub vlan: Option<[u8; VLAN_TAG_BYTES]>,
    /// It stands for several: the sender leaves it to its network card to cut it, or this host's card has
    /// joined what it received. Told of sockets for all frames only.
    pub offloaded: bool,
}

/// What became of a frame to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring.
    Done,
    /// The ring is full.
    Full,
    /// It is longer than the interface takes.
    TooLong,
}

/// Frames of one interface, through rings in memory that the kernel shares: a burst costs no system call to
/// receive, and few to send.
pub trait FrameSocket: Send + Sized {
    /// Whether no descriptor tells of frames, of room for more, and of the interface's end, so that whoever uses it
    /// looks by itself.
    const POLLED: bool = false;
    /// Whether all that the interface hears comes here, and to nobody else.
    const HEARS_ALL: bool = false;
    /// Whether the kernel hears what comes here, too.
    const KERNEL_HEARS: bool = false;

    /// The interface that the settings name, up or down.
    ///
    /// # Errors
    /// There is none.
    fn find(config: &EthernetConfig) -> Result<Interface, OpenError> {
        Interface::ethernet(&config.interface)
    }

    /// A socket for the frames of NDN on this interface.
    ///
    /// # Errors
    /// The process may not use it, or it cannot do what the settings ask for.
    fn for_port(interface: &Interface, config: &EthernetConfig) -> Result<Self, OpenError>;

    /// As [`FrameSocket::for_port`], but waits a little for what somebody else has: the system takes from a socket
    /// that has ended, this router's predecessor's perhaps, a moment later what it had.
    ///
    /// # Errors
    /// As [`FrameSocket::for_port`].
    fn wait_for(interface: &Interface, config: &EthernetConfig) -> Result<Self, OpenError> {
        for _ in 0..TAKEN_TRIES {
            match Self::for_port(interface, config) {
                Err(error) if error.is_taken() => std::thread::sleep(TAKEN_INTERVAL),
                opened => return opened,
            }
        }
        Self::for_port(interface, config)
    }

    /// Its descriptors, for registration; the first is also the one to wait on for output. Of sockets that are
    /// polled: none.
    fn descriptors(&self) -> Descriptors;

    /// Longest payload of a frame, in octets.
    fn mtu(&self) -> usize;

    /// The error that made a descriptor ready, if one did; of sockets that are polled, why no frame passes, if so.
    fn take_error(&self) -> Option<io::Error>;

    /// Whether a frame waits in a receive ring.
    fn has_input(&self) -> bool;

    /// Shows up to `frames_max` frames to `visit`, those of each ring at once.
    fn receive(&mut self, frames_max: usize, visit: impl FnMut(&[Arrival<'_>]));

    /// Whether the transmit ring has a free slot.
    fn has_room(&mut self) -> bool;

    /// Puts a frame into the transmit ring, in parts: its first octets, at least the addresses, and two
    /// pieces of what follows.
    fn push(&mut self, header: &[u8], payload: (&[u8], &[u8])) -> Pushed;

    /// Whether frames are in the ring that [`FrameSocket::send`] is to tell the kernel of.
    fn has_unsent(&self) -> bool;

    /// Has the kernel send what is in the transmit ring; false where it could not send all of it, and is to
    /// be told again.
    ///
    /// # Errors
    /// The interface is down, or gone.
    fn send(&mut self) -> io::Result<bool>;

    /// Frames dropped since this was called last because the receive ring was full.
    fn take_drops(&self) -> u64;
}
