//! Frames that bypass the kernel's network stack: sockets of AF_XDP.
//!
//! A program of this crate runs for each frame that the interface hears (`program`), in the driver if the driver
//! supports that. It passes NDN frames to sockets whose rings are shared with the kernel (`rings`). All other frames go
//! the usual way. Sent frames go to the driver, and bypass the system's queues and the captures of other programs.
//!
//! If a card has several receive queues, each has a socket. The sockets of one thread share one memory for frames (a
//! shared UMEM), and the first one sends. Several threads share the program, and the queues are dealt out to them. A
//! packet socket that takes no frames holds the group membership, and reports when the interface disappears.
//!
//! Needs Linux 5.9, in which a program ends with the descriptor that attached it.

mod bpf;
mod program;
mod rings;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

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

/// The program of an interface, and the sockets that it knows.
struct Program {
    _attached: Attached,
    _sockets: SocketMap,
}

/// The sockets of an interface, or those of one thread.
pub struct XdpSocket {
    /// The first field, so that it is dropped first: frames must go to the kernel again before the sockets end. If
    /// other threads still hold it, the kernel drops an ended socket from the map by itself.
    _program: Arc<Program>,
    queues: Vec<Queue>,
    umem: Umem,
    /// Holds memberships, and reports when the interface disappears.
    watch: OwnedFd,
    /// Queue that is looked at first.
    first: usize,
    mtu: usize,
}

/// The sockets of one thread, before there is a program.
struct Opened {
    queues: Vec<Queue>,
    umem: Umem,
    watch: OwnedFd,
}

impl XdpSocket {
    /// Opens the sockets of all queues, for up to `threads` threads: each has a queue.
    fn open(interface: &Interface, config: &SocketConfig, mode: Mode, threads: usize) -> Result<Vec<Self>, XdpError> {
        let mtu = interface.mtu;
        let room = |frame_bytes: usize| frame_bytes - HEADROOM_BYTES - HEADER_BYTES;
        let Some(frame_bytes) = FRAME_BYTES.into_iter().find(|&frame_bytes| mtu <= room(frame_bytes)) else {
            return Err(XdpError::Mtu { mtu, max: room(FRAME_BYTES[1]) });
        };
        let count = queues_of(interface);
        let threads = threads.clamp(1, count as usize);
        let sockets = SocketMap::new(count)?;
        let mut opened = Vec::with_capacity(threads);
        for thread in 0..threads {
            let watch = watch(interface, config)?;
            let numbers: Vec<u32> = (0..count).skip(thread).step_by(threads).collect();
            let frames = |bytes: usize| (bytes / frame_bytes).max(FRAMES_MIN).next_power_of_two() as u32;
            let receive = frames(config.receive_ring_bytes / count as usize);
            let first = Frames { receive, transmit: frames(config.transmit_ring_bytes / threads) };
            let (umem, queues) = open_queues(interface, &numbers, first, mode, frame_bytes)?;
            for (number, queue) in numbers.iter().zip(&queues) {
                sockets.set(*number, queue.raw_fd())?;
            }
            opened.push(Opened { queues, umem, watch });
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
        let program = Arc::new(Program { _attached: attached, _sockets: sockets });
        let socket = |Opened { queues, umem, watch }| XdpSocket {
            _program: Arc::clone(&program),
            queues,
            umem,
            watch,
            first: 0,
            mtu,
        };
        Ok(opened.into_iter().map(socket).collect())
    }
}

/// Number of an interface's queues whose frames a port takes.
fn queues_of(interface: &Interface) -> u32 {
    queue_count(&interface.name).clamp(1, QUEUES_MAX)
}

/// Opens the memory for a thread's queues, and a socket for each. The first sends.
fn open_queues(
    interface: &Interface,
    numbers: &[u32],
    first: Frames,
    mode: Mode,
    frame_bytes: usize,
) -> Result<(Umem, Vec<Queue>), XdpError> {
    let others = Frames { transmit: 0, ..first };
    let total = first.all() + numbers.len().saturating_sub(1) * others.all();
    let umem = Umem::new(total, frame_bytes)?;
    let mut opened: Vec<Queue> = Vec::with_capacity(numbers.len());
    let mut at = 0;
    for &queue in numbers {
        let shared = opened.first().map(Queue::as_fd);
        let frames = if shared.is_none() { first } else { others };
        let binding = Binding { interface: interface.index, queue, flags: mode.flags(), shared };
        let queue = Queue::open(&umem, at, frames, binding).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOBUFS | Errno::NOMEM) => XdpError::Memory { bytes: total * frame_bytes },
            _ => XdpError::from(error),
        })?;
        opened.push(queue);
        at += frames.all();
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
        let failed = || OpenError::of_system(&interface.name, io::ErrorKind::NotFound.into());
        XdpSocket::for_threads(interface, config, mode, 1)?.pop().ok_or_else(failed)
    }

    fn count(interface: &Interface, _: &Mode, wanted: usize) -> usize {
        wanted.clamp(1, queues_of(interface) as usize)
    }

    fn for_threads(
        interface: &Interface,
        config: &SocketConfig,
        mode: &Mode,
        count: usize,
    ) -> Result<Vec<Self>, OpenError> {
        XdpSocket::open(interface, config, *mode, count)
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
