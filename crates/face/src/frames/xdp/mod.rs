//! Frames that bypass the kernel's network stack: sockets of AF_XDP.
//!
//! A program of this crate runs for each frame that the interface hears (`program`), in the driver if the driver
//! supports that. It passes NDN frames to sockets whose rings are shared with the kernel (`rings`). All other frames go
//! the usual way. Sent frames go to the driver, and bypass the system's queues and the captures of other programs.
//!
//! If a card has several receive queues, each has a socket. The sockets share one memory for frames (a shared UMEM),
//! and the first one sends. A packet socket that takes no frames holds the group membership, and reports when the
//! interface disappears.
//!
//! Needs Linux 5.9, in which a program ends with the descriptor that attached it.

mod bpf;
mod program;
mod rings;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::xdp::SocketAddrXdpFlags;
use thiserror::Error;

use super::OpenError;
use super::filter;
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use super::interface::Interface;
use super::ring::{bind, join, open_raw, take_error};
use super::socket::{Arrival, Descriptors, FrameSocket, SocketConfig};
use crate::port::Pushed;
use crate::system::attach_filter;
use bpf::{Attached, SocketMap};
use rings::{Binding, Frames, HEADROOM_BYTES, Queue, Umem, queue_count};

/// Maximum number of an interface's queues whose frames a port takes.
const QUEUES_MAX: u32 = 64;
/// Minimum number of frames of a queue in each direction.
const FRAMES_MIN: usize = 64;
/// The two frame lengths that the kernel supports.
const FRAME_BYTES: [usize; 2] = [1 << 11, 1 << 12];

/// How frames come to the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The first of the other modes that works.
    #[default]
    Auto,
    /// The card reads and writes the sockets' memory.
    ZeroCopy,
    /// The driver runs the program, and the kernel copies frames.
    Copy,
    /// The program runs after the driver, when the kernel has built its usual packet buffer. Works on any interface,
    /// and is no faster than packet sockets.
    Generic,
}

impl Mode {
    fn flags(self) -> SocketAddrXdpFlags {
        match self {
            Mode::Auto => SocketAddrXdpFlags::empty(),
            Mode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
            Mode::Copy | Mode::Generic => SocketAddrXdpFlags::XDP_COPY,
        }
    }
}

/// Reason why an interface has no AF_XDP socket.
#[derive(Debug, Error)]
pub enum XdpError {
    /// The process lacks the capabilities.
    #[error(
        "the process needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, or once, as root, \
         `setcap cap_net_raw,cap_net_admin,cap_bpf+ep` on the program, or AmbientCapabilities=CAP_NET_RAW \
         CAP_NET_ADMIN CAP_BPF in the systemd unit; with port = \"packet-mmap\" CAP_NET_RAW is enough"
    )]
    NotPermitted,
    /// The kernel has no such sockets.
    #[error(
        "this system has no AF_XDP sockets (Linux 5.9, built with CONFIG_XDP_SOCKETS): write port = \"packet-mmap\""
    )]
    Unknown,
    /// Another program or another socket uses the interface.
    #[error(
        "another program is attached to it already, or takes a queue of it: `ip link show` tells which, \
         `ip link set dev NAME xdp off` removes it; or write port = \"packet-mmap\""
    )]
    Taken,
    /// The interface's frames are too long for the sockets.
    #[error(
        "its MTU is {mtu}, and a frame of XDP has room for {max}: `ip link set dev NAME mtu {max}`, \
         or write port = \"packet-mmap\""
    )]
    Mtu {
        /// MTU of the interface.
        mtu: usize,
        /// Largest possible MTU.
        max: usize,
    },
    /// The process may not lock the memory for frames.
    #[error(
        "the system does not let the process hold {bytes} bytes of memory in place: write smaller receive_ring and \
         transmit_ring, or allow more (`ulimit -l`, LimitMEMLOCK=infinity in the systemd unit)"
    )]
    Memory {
        /// Bytes that were requested.
        bytes: usize,
    },
    /// The driver refuses.
    #[error(
        "the interface or its driver cannot do this ({error}): write xdp_mode = \"auto\" or \"generic\", \
         or port = \"packet-mmap\""
    )]
    Refused {
        /// Error of the system.
        #[source]
        error: io::Error,
    },
}

impl From<io::Error> for XdpError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => XdpError::NotPermitted,
            Some(Errno::AFNOSUPPORT | Errno::NOSYS | Errno::NOPROTOOPT) => XdpError::Unknown,
            Some(Errno::BUSY | Errno::EXIST) => XdpError::Taken,
            _ => XdpError::Refused { error },
        }
    }
}

/// The sockets of an interface.
pub struct XdpSocket {
    /// The first field, so that it is dropped first: frames must go to the kernel again before the sockets end.
    _attached: Attached,
    _sockets: SocketMap,
    queues: Vec<Queue>,
    umem: Umem,
    /// Holds memberships, and reports when the interface disappears.
    watch: OwnedFd,
    /// Queue that is looked at first.
    first: usize,
    mtu: usize,
}

impl XdpSocket {
    fn open(interface: &Interface, config: &SocketConfig, mode: Mode) -> Result<Self, XdpError> {
        let watch = watch(interface, config)?;
        let mtu = interface.mtu;
        let room = |frame_bytes: usize| frame_bytes - HEADROOM_BYTES - HEADER_BYTES;
        let Some(frame_bytes) = FRAME_BYTES.into_iter().find(|&frame_bytes| mtu <= room(frame_bytes)) else {
            return Err(XdpError::Mtu { mtu, max: room(FRAME_BYTES[1]) });
        };
        let (umem, queues) = open_queues(interface, config, mode, frame_bytes)?;
        let sockets = SocketMap::new(queues.len() as u32)?;
        for (number, queue) in (0..).zip(&queues) {
            sockets.set(number, queue.raw_fd())?;
        }
        let paths = config.paths.iter().copied();
        let program = program::program(interface.address, config.group, paths, sockets.as_raw_fd());
        let attach = |native| Attached::new(&program, interface.index, native);
        let attached = match mode {
            Mode::Generic => attach(false)?,
            Mode::ZeroCopy | Mode::Copy => attach(true)?,
            Mode::Auto => attach(true).map_err(XdpError::from).or_else(|error| match error {
                XdpError::Refused { .. } => Ok(attach(false)?),
                error => Err(error),
            })?,
        };
        Ok(XdpSocket { _attached: attached, _sockets: sockets, queues, umem, watch, first: 0, mtu })
    }
}

/// Opens the memory, and a socket for each queue.
fn open_queues(
    interface: &Interface,
    config: &SocketConfig,
    mode: Mode,
    frame_bytes: usize,
) -> Result<(Umem, Vec<Queue>), XdpError> {
    let queues = queue_count(&interface.name).clamp(1, QUEUES_MAX);
    let frames = |bytes: usize| (bytes / frame_bytes).max(FRAMES_MIN).next_power_of_two() as u32;
    let receive = frames(config.receive_ring_bytes / queues as usize);
    let first = Frames { receive, transmit: frames(config.transmit_ring_bytes) };
    let others = Frames { receive, transmit: 0 };
    let total = first.all() + (queues as usize - 1) * others.all();
    let umem = Umem::new(total, frame_bytes)?;
    let binding = Binding { interface: interface.index, queue: 0, flags: mode.flags(), shared: None };
    let queue = Queue::open(&umem, 0, first, binding).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOBUFS | Errno::NOMEM) => XdpError::Memory { bytes: total * frame_bytes },
        _ => XdpError::from(error),
    })?;
    let mut opened = vec![queue];
    for queue in 1..queues {
        let at = first.all() + (queue as usize - 1) * others.all();
        let binding = Binding { queue, shared: Some(opened[0].as_fd()), ..binding };
        let other = Queue::open(&umem, at, others, binding)?;
        opened.push(other);
    }
    Ok((umem, opened))
}

/// A packet socket that takes no frame.
fn watch(interface: &Interface, config: &SocketConfig) -> io::Result<OwnedFd> {
    let socket = open_raw(AddressFamily::PACKET)?;
    attach_filter(&socket, &filter::NOTHING)?;
    // Without a protocol it would not be told when the interface disappears.
    bind(&socket, interface.index, ETHER_TYPE)?;
    if let Some(group) = config.group {
        join(&socket, interface.index, libc::PACKET_MR_MULTICAST, group)?;
    }
    if config.promiscuous {
        join(&socket, interface.index, libc::PACKET_MR_PROMISC, interface.address)?;
    }
    Ok(socket)
}

impl FrameSocket for XdpSocket {
    type Config = Mode;

    fn for_port(interface: &Interface, config: &SocketConfig, mode: &Mode) -> Result<Self, OpenError> {
        XdpSocket::open(interface, config, *mode)
            .map_err(|reason| OpenError::Xdp { interface: interface.name.clone(), reason })
    }

    fn descriptors(&self) -> Descriptors {
        self.queues.iter().map(Queue::raw_fd).chain([self.watch.as_raw_fd()]).collect()
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn take_error(&self) -> Option<io::Error> {
        take_error(&self.watch).or_else(|| self.queues.iter().find_map(Queue::take_error))
    }

    fn has_input(&self) -> bool {
        self.queues.iter().any(Queue::has_input)
    }

    fn receive(&mut self, frames_max: usize, mut visit: impl FnMut(&[Arrival<'_>])) {
        let mut left = frames_max;
        for turn in 0..self.queues.len() {
            let queue = (self.first + turn) % self.queues.len();
            left -= self.queues[queue].receive(&self.umem, left, &mut visit);
            if left == 0 {
                // The next queue must not wait behind this one again.
                self.first = (queue + 1) % self.queues.len();
                return;
            }
        }
    }

    fn has_room(&mut self) -> bool {
        self.queues[0].has_room()
    }

    fn push(&mut self, header: &[u8], payload: (&[u8], &[u8])) -> Pushed {
        let parts = [header, payload.0, payload.1];
        if parts.iter().map(|part| part.len()).sum::<usize>() > HEADER_BYTES + self.mtu {
            return Pushed::TooLong;
        }
        if !self.has_room() {
            return Pushed::Full;
        }
        self.queues[0].put(&self.umem, parts);
        Pushed::Done
    }

    fn has_unsent(&self) -> bool {
        self.queues[0].has_unsent()
    }

    fn send(&mut self) -> io::Result<bool> {
        self.queues[0].send()
    }

    fn take_drops(&self) -> u64 {
        self.queues.iter().map(Queue::take_drops).sum()
    }
}
