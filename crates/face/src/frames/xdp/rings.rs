//! Sockets of AF_XDP. Frames lie in our memory, which the kernel reads and writes (UMEM), and four rings say who owns
//! each frame. Two rings give frames to the kernel: to receive into (fill), and to send. Two rings give them back:
//! received frames, and frames that were sent (completion).
//!
//! A frame's address is always in exactly one place: in one of the rings, in `Transmit::free`, or with the kernel. Only
//! the holder of the address reads and writes the frame.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use byname_forward::asleep::after_giving;
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpOptionsFlags, XdpRingFlags,
    XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with, sockopt};
use smallvec::SmallVec;

use crate::frames::ring::{open_raw, take_error};
use crate::frames::socket::Arrival;

/// Bytes that the kernel leaves free before a received frame.
pub(super) const HEADROOM_BYTES: usize = 256;
/// Frames shown at once without heap memory.
const ARRIVALS: usize = 64;
/// Consecutive send calls without effect after which sending is left for later.
const IDLE_SENDS_MAX: u32 = 2;

/// Memory for frames of one length, which is a power of two.
pub(super) struct Umem {
    map: MmapRaw,
    frame_bytes: usize,
}

impl Umem {
    pub(super) fn new(frames: usize, frame_bytes: usize) -> io::Result<Self> {
        assert!(frame_bytes.is_power_of_two());
        let bytes = frames.checked_mul(frame_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapMut::map_anon(bytes)?.into();
        Ok(Umem { map, frame_bytes })
    }

    /// Addresses of frames with these numbers.
    fn addresses(&self, frames: Range<usize>) -> impl Iterator<Item = u64> {
        frames.map(|frame| (frame * self.frame_bytes) as u64)
    }

    /// Pointer to `len` bytes at an address, all within one frame.
    ///
    /// # Panics
    /// If the bytes are not within one frame. The kernel and this module make no such addresses.
    fn bytes(&self, address: u64, len: usize) -> *mut u8 {
        let start = address as usize;
        assert!(start < self.map.len() && start % self.frame_bytes + len <= self.frame_bytes);
        // SAFETY: the mapping is a whole number of frames, so bytes within a frame are within the mapping.
        unsafe { self.map.as_mut_ptr().add(start) }
    }

    /// Address of the frame that contains an address.
    fn frame_of(&self, address: u64) -> u64 {
        address & !(self.frame_bytes as u64 - 1)
    }
}

/// One ring: descriptors, a producer index and a consumer index. `next` is our next index.
struct Ring<T> {
    map: MmapRaw,
    offsets: XdpRingOffset,
    /// Offset of the flags.
    flags: u64,
    slots: u32,
    next: u32,
    descriptors: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring of the socket.
    ///
    /// # Safety
    /// `offsets` must be those of the socket's ring at `page_offset`. That ring must have `slots` slots, a power of
    /// two, for `T`.
    unsafe fn map(socket: &OwnedFd, page_offset: u64, offsets: XdpRingOffset, slots: u32) -> io::Result<Self> {
        // Missing before Linux 5.4.
        let flags = offsets.flags.ok_or(Errno::NOPROTOOPT)?;
        let len = offsets.desc as usize + slots as usize * size_of::<T>();
        let map = MmapOptions::new().offset(page_offset).len(len).populate().map_raw(socket)?;
        Ok(Ring { map, offsets, flags, slots, next: 0, descriptors: PhantomData })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset as usize + size_of::<AtomicU32>() <= self.map.len());
        // SAFETY: the kernel gave the offsets of these words, which are aligned and within the mapping (see `map`). The
        // kernel and we access them as one word. They live as long as the mapping, which `self` owns.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(offset as usize).cast()) }
    }

    /// Index of the producer.
    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    /// Index of the consumer.
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Whether the kernel wants to be woken for new descriptors.
    fn wants_wakeup(&self) -> bool {
        // The kernel sets the flag, then checks the ring again.
        let flags = || XdpRingFlags::from_bits_retain(self.word(self.flags).load(Ordering::Relaxed));
        after_giving(|| flags().contains(XdpRingFlags::XDP_RING_NEED_WAKEUP))
    }

    fn slot(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & (self.slots - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has `slots` descriptors from `desc` on (see `map`), and the masked index is less than
        // that.
        unsafe { self.map.as_mut_ptr().add(at).cast() }
    }

    /// Puts a descriptor into the ring, which must have room. [`Ring::publish`] shows it to the kernel.
    fn put(&mut self, descriptor: T) {
        debug_assert!(self.next.wrapping_sub(self.consumer().load(Ordering::Acquire)) < self.slots);
        // SAFETY: the slot is aligned, because the kernel aligns `desc` to cache lines. The slot is less than a ring's
        // length after the consumer, so nobody reads it before it is published.
        unsafe { self.slot(self.next).write(descriptor) };
        self.next = self.next.wrapping_add(1);
    }

    fn publish(&self) {
        self.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel has still to take descriptors that we put in.
    fn is_pending(&self) -> bool {
        self.consumer().load(Ordering::Acquire) != self.next
    }

    /// Number of descriptors that the kernel has put in and we have not taken out.
    fn available(&self) -> u32 {
        self.producer().load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// The available descriptor that is `ahead` of the next.
    fn peek(&self, ahead: u32) -> T {
        // SAFETY: aligned as in `put`. The kernel has written the descriptor, and does not write it again before its
        // release.
        unsafe { self.slot(self.next.wrapping_add(ahead)).read() }
    }

    /// Takes out `count` descriptors, which the kernel may overwrite from now on.
    fn release(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.consumer().store(self.next, Ordering::Release);
    }
}

/// Numbers of frames of a queue, which are powers of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frames {
    pub(super) receive: u32,
    /// Zero if the queue does not send.
    pub(super) transmit: u32,
}

impl Frames {
    pub(super) fn all(self) -> usize {
        self.receive as usize + self.transmit as usize
    }
}

/// Rings to send with.
struct Transmit {
    ring: Ring<XdpDesc>,
    completion: Ring<u64>,
    free: Vec<u64>,
    /// Whether the kernel sends directly from these frames, when it is ready.
    zero_copy: bool,
    unsent: bool,
}

/// A socket for one queue of an interface.
pub(super) struct Queue {
    socket: OwnedFd,
    receive: Ring<XdpDesc>,
    fill: Ring<u64>,
    transmit: Option<Transmit>,
    dropped: std::cell::Cell<u64>,
}

/// Queue to which a socket is bound, and the mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<'a> {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// `XDP_COPY`, `XDP_ZEROCOPY`, or zero for the best possible mode. Used by the first socket of a UMEM.
    pub(super) flags: SocketAddrXdpFlags,
    /// First socket of the UMEM, if the UMEM is shared with it.
    pub(super) shared: Option<BorrowedFd<'a>>,
}

impl Queue {
    /// Opens a queue's socket. It gets `frames` of the UMEM, from the number `first` on.
    pub(super) fn open(umem: &Umem, first: usize, frames: Frames, binding: Binding<'_>) -> io::Result<Self> {
        assert!((first + frames.all()) * umem.frame_bytes <= umem.map.len());
        assert!(frames.receive.is_power_of_two() && (frames.transmit == 0 || frames.transmit.is_power_of_two()));
        let socket = open_raw(AddressFamily::XDP)?;
        if binding.shared.is_none() {
            let region = XdpUmemReg {
                addr: umem.map.as_mut_ptr().addr() as u64,
                len: umem.map.len() as u64,
                chunk_size: umem.frame_bytes as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            };
            sockopt::set_xdp_umem_reg(&socket, region)?;
        }
        sockopt::set_xdp_umem_fill_ring_size(&socket, frames.receive)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, frames.transmit.max(1))?;
        sockopt::set_xdp_rx_ring_size(&socket, frames.receive)?;
        if frames.transmit > 0 {
            sockopt::set_xdp_tx_ring_size(&socket, frames.transmit)?;
        }
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        // SAFETY: these are the offsets of this socket's rings. The numbers of slots were requested above, and the
        // descriptors have these types.
        let (receive, mut fill) = unsafe {
            (
                Ring::map(&socket, XDP_PGOFF_RX_RING, offsets.rx, frames.receive)?,
                Ring::map(&socket, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, frames.receive)?,
            )
        };
        let transmit = match frames.transmit {
            0 => None,
            // SAFETY: as above.
            slots => Some(unsafe {
                (
                    Ring::map(&socket, XDP_PGOFF_TX_RING, offsets.tx, slots)?,
                    Ring::map(&socket, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, slots)?,
                )
            }),
        };
        let behind = first + frames.receive as usize;
        umem.addresses(first..behind).for_each(|address| fill.put(address));
        fill.publish();
        bind(&socket, binding)?;
        let options = sockopt::xdp_options(&socket)?;
        let transmit = transmit.map(|(ring, completion)| Transmit {
            ring,
            completion,
            free: umem.addresses(behind..first + frames.all()).collect(),
            zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            unsent: false,
        });
        if transmit.is_some() {
            // Frames that the kernel has copied and not sent count against this limit.
            let bytes = frames.transmit as usize * umem.frame_bytes;
            let _ = sockopt::set_socket_send_buffer_size_force(&socket, bytes);
        }
        Ok(Queue { socket, receive, fill, transmit, dropped: 0.into() })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn take_error(&self) -> Option<io::Error> {
        take_error(&self.socket)
    }

    pub(super) fn has_input(&self) -> bool {
        self.receive.available() > 0
    }

    /// Shows up to `frames_max` frames to `visit` in one call. Returns their number.
    pub(super) fn receive(&mut self, umem: &Umem, frames_max: usize, visit: impl FnOnce(&[Arrival<'_>])) -> usize {
        let taken = self.receive.available().min(u32::try_from(frames_max).unwrap_or(u32::MAX));
        if taken == 0 {
            return 0;
        }
        let mut arrivals = SmallVec::<[Arrival<'_>; ARRIVALS]>::new();
        for ahead in 0..taken {
            let descriptor = self.receive.peek(ahead);
            let len = descriptor.len as usize;
            // SAFETY: `bytes` has checked the range. The frame came out of the receive ring, so it is ours until it
            // goes into the fill ring below. No other descriptor holds it, so nobody writes it meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(umem.bytes(descriptor.addr, len), len) };
            arrivals.push(Arrival { bytes, cut: false, elsewhere: false, vlan: None, offloaded: false });
        }
        visit(&arrivals);
        drop(arrivals);
        for ahead in 0..taken {
            // There is room: the ring has a slot for each receive frame.
            self.fill.put(umem.frame_of(self.receive.peek(ahead).addr));
        }
        self.receive.release(taken);
        self.fill.publish();
        if self.fill.wants_wakeup() {
            // The call only tells the kernel to go on.
            let _ = rustix::net::recv(&self.socket, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        taken as usize
    }

    /// Whether there is room for a frame to send.
    pub(super) fn has_room(&mut self) -> bool {
        self.transmit.as_mut().is_some_and(|transmit| {
            if transmit.free.is_empty() {
                transmit.collect();
            }
            !transmit.free.is_empty()
        })
    }

    /// Puts a frame to send into the ring, which must have room. The frame must fit.
    ///
    /// # Panics
    /// If there is no room, or the frame does not fit.
    pub(super) fn put(&mut self, umem: &Umem, parts: [&[u8]; 3]) {
        let transmit = self.transmit.as_mut().expect("whoever puts frames in has asked for frames to send");
        let address = transmit.free.pop().expect("there is room");
        let len = parts.iter().map(|part| part.len()).sum();
        // SAFETY: `bytes` has checked the range. The frame was free, so it is ours until it goes into the ring.
        let mut rest = unsafe { std::slice::from_raw_parts_mut(umem.bytes(address, len), len) };
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        transmit.ring.put(XdpDesc { addr: address, len: len as u32, options: XdpDescOptions::empty() });
        transmit.unsent = true;
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.transmit.as_ref().is_some_and(|transmit| transmit.unsent)
    }

    /// Makes the kernel send the frames in the ring. Returns false if it has not taken all.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        let Some(transmit) = self.transmit.as_mut().filter(|transmit| transmit.unsent) else { return Ok(true) };
        transmit.ring.publish();
        let mut idle = 0;
        while transmit.ring.is_pending() && transmit.ring.wants_wakeup() && idle < IDLE_SENDS_MAX {
            let before = transmit.ring.consumer().load(Ordering::Relaxed);
            // The call only tells the kernel to go on.
            match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) if transmit.zero_copy => break,
                // The kernel takes a limited number at a time, or lacks memory for more now.
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let moved = transmit.ring.consumer().load(Ordering::Relaxed) != before;
            idle = if moved { 0 } else { idle + 1 };
        }
        transmit.unsent = idle > 0 && transmit.ring.is_pending();
        transmit.collect();
        Ok(!transmit.unsent)
    }

    /// Frames that this queue lost for lack of room since the last call.
    pub(super) fn take_drops(&self) -> u64 {
        let Ok(statistics) = sockopt::xdp_statistics(&self.socket) else { return 0 };
        let now = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0);
        now.saturating_sub(self.dropped.replace(now))
    }
}

impl Transmit {
    /// Takes back the frames that were sent.
    fn collect(&mut self) {
        let sent = self.completion.available();
        self.free.extend((0..sent).map(|ahead| self.completion.peek(ahead)));
        self.completion.release(sent);
    }
}

/// Binds a socket to a queue.
fn bind(socket: &OwnedFd, binding: Binding<'_>) -> io::Result<()> {
    let address = |flags| SocketAddrXdp::new(flags, binding.interface, binding.queue);
    let bound = match binding.shared {
        // Sockets that share a UMEM get the mode of the first one.
        Some(shared_umem_fd) => {
            let addr = address(SocketAddrXdpFlags::XDP_SHARED_UMEM);
            rustix::net::bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd })
        }
        None => rustix::net::bind(socket, &address(binding.flags | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP)),
    };
    Ok(bound?)
}

/// Request and answer of ethtool's command for the queues of an interface.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Request to a network device: `struct ifreq` with a pointer.
#[repr(C)]
struct Request<'a> {
    /// Name of the interface, with a zero behind it.
    name: [u8; libc::IFNAMSIZ],
    channels: &'a mut Channels,
    rest: [u8; 16],
}

/// Number of receive queues of an interface; 1 if the interface does not tell.
pub(super) fn queue_count(interface: &str) -> u32 {
    const GET_CHANNELS: u32 = 0x3c;
    const ETHTOOL: Opcode = libc::SIOCETHTOOL as Opcode;
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut request = Request { name: [0; libc::IFNAMSIZ], channels: &mut channels, rest: [0; 16] };
    if interface.len() >= request.name.len() {
        return 1;
    }
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    let Ok(socket) = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None) else { return 1 };
    // SAFETY: netdevice(7) says that this operation takes such a request. Its name ends with a zero, and it points to
    // the struct that this command reads and fills in.
    let done = unsafe { ioctl(&socket, Updater::<ETHTOOL, _>::new(&mut request)) };
    if done.is_ok() { channels.receive.saturating_add(channels.combined).max(1) } else { 1 }
}
