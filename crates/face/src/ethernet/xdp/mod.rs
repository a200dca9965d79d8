//! Frames past the kernel's network stack: sockets of AF_XDP.
//!
//! A program of ours runs for each frame that the interface hears (`program`), in its driver where that can, and
//! gives those of NDN to sockets whose rings are shared with the kernel (`rings`). All other frames go where they
//! went before. What is sent goes to the driver past the system's queues, and past captures of other programs.
//!
//! A card with several receive queues has a socket for each, in one memory for frames (a shared UMEM); the first
//! one sends. A packet socket, which takes no frame, holds the membership in the group and hears of the
//! interface's end.
//!
//! Needs Linux 5.9, for programs that end with the descriptor that attached them.

mod bpf;
mod program;
mod rings;

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, SockFilter, Socket, Type};
use thiserror::Error;

use super::config::{EthernetConfig, OpenError};
use super::frame::{ETHER_TYPE, HEADER_BYTES};
use super::interface::Interface;
use super::ring::{bind, join, mtu};
use super::socket::{Arrival, Descriptors, FrameSocket, Pushed};
use bpf::{Attached, SocketMap};
use rings::{Binding, Frames, HEADROOM_BYTES, Queue, Umem, queue_count};

/// Most queues of an interface that a port takes frames of.
const QUEUES_MAX: u32 = 64;
/// Fewest frames of a queue, each way.
const FRAMES_MIN: usize = 64;
/// Frames of the smaller and the larger length that the kernel takes.
const FRAME_BYTES: [usize; 2] = [1 << 11, 1 << 12];

/// How frames come to the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The first of the others that can be had.
    #[default]
    Auto,
    /// The card writes into the sockets' memory, and reads from it.
    ZeroCopy,
    /// The driver runs the program, and the kernel copies frames.
    Copy,
    /// The program runs behind the driver, when the kernel has made of the frame what it always does: on any
    /// interface, and no faster than packet sockets.
    Generic,
}

impl Mode {
    fn flags(self) -> u16 {
        match self {
            Mode::Auto => 0,
            Mode::ZeroCopy => libc::XDP_ZEROCOPY,
            Mode::Copy | Mode::Generic => libc::XDP_COPY,
        }
    }
}

/// Why an interface has no socket of this kind.
#[derive(Debug, Error)]
pub enum XdpError {
    /// The process may not.
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
    /// Somebody else's program is there, or somebody else's socket.
    #[error(
        "another program is attached to it already, or takes a queue of it: `ip link show` tells which, \
         `ip link set dev NAME xdp off` removes it; or write port = \"packet-mmap\""
    )]
    Taken,
    /// Its frames are longer than the sockets take.
    #[error(
        "its MTU is {mtu}, and a frame of XDP has room for {max}: `ip link set dev NAME mtu {max}`, \
         or write port = \"packet-mmap\""
    )]
    Mtu {
        /// The interface's.
        mtu: usize,
        /// The longest there may be.
        max: usize,
    },
    /// The memory for frames may not be held in place.
    #[error(
        "the system does not let the process hold {bytes} octets of memory in place: write smaller receive_ring and \
         transmit_ring, or allow more (`ulimit -l`, LimitMEMLOCK=infinity in the systemd unit)"
    )]
    Memory {
        /// What was asked for.
        bytes: usize,
    },
    /// The driver refuses.
    #[error(
        "the interface or its driver cannot do this ({error}): write xdp_mode = \"auto\" or \"generic\", \
         or port = \"packet-mmap\""
    )]
    Refused {
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl From<io::Error> for XdpError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => XdpError::NotPermitted,
            Some(libc::EAFNOSUPPORT | libc::ENOSYS | libc::ENOPROTOOPT) => XdpError::Unknown,
            Some(libc::EBUSY | libc::EEXIST) => XdpError::Taken,
            _ => XdpError::Refused { error },
        }
    }
}

/// The sockets of an interface.
pub struct XdpSocket {
    /// First, so that it ends first: frames go to the kernel again when the sockets end.
    _attached: Attached,
    _sockets: SocketMap,
    queues: Vec<Queue>,
    umem: Umem,
    /// Holds memberships and hears of the interface's end.
    watch: Socket,
    /// The queue that is looked at first.
    first: usize,
    mtu: usize,
}

impl XdpSocket {
    fn open(interface: &Interface, config: &EthernetConfig) -> Result<Self, XdpError> {
        let watch = watch(interface, config)?;
        let mtu = mtu(&watch, &interface.name)?;
        let room = |frame_bytes: usize| frame_bytes - HEADROOM_BYTES - HEADER_BYTES;
        let Some(frame_bytes) = FRAME_BYTES.into_iter().find(|&frame_bytes| mtu <= room(frame_bytes)) else {
            return Err(XdpError::Mtu { mtu, max: room(FRAME_BYTES[1]) });
        };
        let (umem, queues) = open_queues(interface, config, frame_bytes)?;
        let sockets = SocketMap::new(queues.len() as u32)?;
        for (number, queue) in (0..).zip(&queues) {
            sockets.set(number, queue.raw_fd())?;
        }
        let paths = config.datagrams.iter().map(|peer| peer.path);
        let program = program::program(interface.address, config.group, paths, sockets.as_raw_fd());
        let attach = |native| Attached::new(&program, interface.index, native);
        let attached = match config.xdp_mode {
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

/// The memory, and a socket for each queue.
fn open_queues(
    interface: &Interface,
    config: &EthernetConfig,
    frame_bytes: usize,
) -> Result<(Umem, Vec<Queue>), XdpError> {
    let queues = queue_count(&interface.name).clamp(1, QUEUES_MAX);
    let frames = |bytes: usize| (bytes / frame_bytes).max(FRAMES_MIN).next_power_of_two() as u32;
    let receive = frames(config.receive_ring_bytes / queues as usize);
    let first = Frames { receive, transmit: frames(config.transmit_ring_bytes) };
    let others = Frames { receive, transmit: 0 };
    let total = first.all() + (queues as usize - 1) * others.all();
    let umem = Umem::new(total, frame_bytes)?;
    let binding = Binding { interface: interface.index, queue: 0, flags: config.xdp_mode.flags(), shared: None };
    let queue = Queue::open(&umem, 0, first, binding).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => XdpError::Memory { bytes: total * frame_bytes },
        _ => XdpError::from(error),
    })?;
    let shared = Some(queue.raw_fd());
    let mut opened = vec![queue];
    for queue in 1..queues {
        let at = first.all() + (queue as usize - 1) * others.all();
        let binding = Binding { queue, shared, ..binding };
        opened.push(Queue::open(&umem, at, others, binding)?);
    }
    Ok((umem, opened))
}

/// A packet socket that takes no frame.
fn watch(interface: &Interface, config: &EthernetConfig) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    socket.set_nonblocking(true)?;
    let nothing = SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
    socket.attach_filter(&[nothing])?;
    // Bound to no protocol it would not hear of the interface's end.
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
    fn for_port(interface: &Interface, config: &EthernetConfig) -> Result<Self, OpenError> {
        XdpSocket::open(interface, config)
            .map_err(|reason| OpenError::Xdp { interface: interface.name.clone(), reason })
    }

    fn descriptors(&self) -> Descriptors {
        self.queues.iter().map(Queue::raw_fd).chain([self.watch.as_raw_fd()]).collect()
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn take_error(&self) -> Option<io::Error> {
        let watch = self.watch.take_error().unwrap_or_else(Some);
        watch.or_else(|| self.queues.iter().find_map(Queue::take_error))
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
                // The next one is not to wait behind this one again.
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
