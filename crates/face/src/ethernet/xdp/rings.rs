//! Sockets of AF_XDP: frames in memory of ours that the kernel reads and writes (UMEM), and four rings that say
//! whose each frame is. Two give the kernel frames: to receive into (fill), and to send. Two give them back: with
//! what was received, and when they were sent (completion).
//!
//! A frame's address is in one place at a time: in one of the rings, in `Queue::free`, or with the kernel. Whoever
//! has it reads and writes the frame, nobody else does.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use byname_forward::asleep::after_giving;
use libc::{xdp_desc, xdp_mmap_offsets, xdp_ring_offset};
use memmap2::{MmapMut, MmapOptions, MmapRaw};
use smallvec::SmallVec;
use socket2::{Domain, Socket, Type};

use crate::ethernet::ring::interface_request;
use crate::ethernet::socket::Arrival;

/// What the kernel leaves free before a frame that it receives.
pub(super) const HEADROOM_BYTES: usize = 256;
/// Frames shown at once without memory from the heap.
const ARRIVALS: usize = 64;
/// Calls to send in a row that sent nothing after which it is left for later.
const IDLE_SENDS_MAX: u32 = 2;

/// Memory for frames of one length, a power of two.
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

    /// Addresses of frames, by their numbers.
    fn addresses(&self, frames: Range<usize>) -> impl Iterator<Item = u64> {
        frames.map(|frame| (frame * self.frame_bytes) as u64)
    }

    /// Where octets are that begin at an address and lie within one frame.
    ///
    /// # Panics
    /// If they do not: the kernel gives out no such addresses, and we make none.
    fn octets(&self, address: u64, len: usize) -> *mut u8 {
        let start = address as usize;
        assert!(start < self.map.len() && start % self.frame_bytes + len <= self.frame_bytes);
        // SAFETY: the mapping has a whole number of frames, so that what is within a frame is within it.
        unsafe { self.map.as_mut_ptr().add(start) }
    }

    /// The address of the frame that an address is within.
    fn frame_of(&self, address: u64) -> u64 {
        address & !(self.frame_bytes as u64 - 1)
    }
}

/// One ring: descriptors, an index of whoever puts them in, another of whoever takes them out. `next` is ours.
struct Ring<T> {
    map: MmapRaw,
    offsets: xdp_ring_offset,
    slots: u32,
    next: u32,
    descriptors: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring that the socket was given.
    ///
    /// # Safety
    /// `offsets` are those of the socket's ring at `page_offset`, which has so many slots, a power of two, for `T`.
    unsafe fn map(socket: &Socket, page_offset: u64, offsets: xdp_ring_offset, slots: u32) -> io::Result<Self> {
        let len = offsets.desc as usize + slots as usize * size_of::<T>();
        let map = MmapOptions::new().offset(page_offset).len(len).populate().map_raw(socket)?;
        Ok(Ring { map, offsets, slots, next: 0, descriptors: PhantomData })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset as usize + size_of::<AtomicU32>() <= self.map.len());
        // SAFETY: the kernel has told where these words are, which are within the mapping (see `map`) and aligned; it
        // reads and writes them as one word, as we do, and they live as long as the mapping, which `self` owns.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(offset as usize).cast()) }
    }

    /// Index of whoever puts descriptors in.
    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    /// Index of whoever takes them out.
    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Whether the kernel wants to be woken for what is put in.
    fn wants_wakeup(&self) -> bool {
        // The kernel sets the flag, then looks once more.
        after_giving(|| self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0)
    }

    fn slot(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & (self.slots - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has `slots` descriptors from `desc` on (see `map`), and the index is below that.
        unsafe { self.map.as_mut_ptr().add(at).cast() }
    }

    /// Puts a descriptor in, for which there must be room; [`Ring::publish`] shows it to the kernel.
    fn put(&mut self, descriptor: T) {
        debug_assert!(self.next.wrapping_sub(self.consumer().load(Ordering::Acquire)) < self.slots);
        // SAFETY: the slot is aligned, for the kernel aligns `desc` to cache lines; and nobody reads it before it is
        // published, as it is behind the consumer by less than the ring's length.
        unsafe { self.slot(self.next).write(descriptor) };
        self.next = self.next.wrapping_add(1);
    }

    fn publish(&self) {
        self.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel has not taken out all that we have put in.
    fn is_pending(&self) -> bool {
        self.consumer().load(Ordering::Acquire) != self.next
    }

    /// Descriptors that the kernel has put in and we have not taken out.
    fn available(&self) -> u32 {
        self.producer().load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// A descriptor that is available, `ahead` of the next.
    fn peek(&self, ahead: u32) -> T {
        // SAFETY: aligned as in `put`; the kernel has put it in and does not write it again before it is released.
        unsafe { self.slot(self.next.wrapping_add(ahead)).read() }
    }

    /// Takes out so many, which the kernel may write over from now on.
    fn release(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.consumer().store(self.next, Ordering::Release);
    }
}

/// How many frames a queue has; powers of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frames {
    pub(super) receive: u32,
    /// Zero: it does not send.
    pub(super) transmit: u32,
}

impl Frames {
    pub(super) fn all(self) -> usize {
        self.receive as usize + self.transmit as usize
    }
}

/// The rings to send with.
struct Transmit {
    ring: Ring<xdp_desc>,
    completion: Ring<u64>,
    free: Vec<u64>,
    /// The kernel sends from the frames themselves, when it is ready to.
    zero_copy: bool,
    unsent: bool,
}

/// A socket for one queue of an interface.
pub(super) struct Queue {
    socket: Socket,
    receive: Ring<xdp_desc>,
    fill: Ring<u64>,
    transmit: Option<Transmit>,
    dropped: std::cell::Cell<u64>,
}

/// What a queue's socket is bound to, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// `XDP_COPY`, `XDP_ZEROCOPY`, or zero for what can be had; of the first socket of a UMEM.
    pub(super) flags: u16,
    /// The first socket of the UMEM, to share that.
    pub(super) shared: Option<RawFd>,
}

impl Queue {
    /// Opens a socket of a queue, which has these frames of the UMEM from `first` on.
    pub(super) fn open(umem: &Umem, first: usize, frames: Frames, binding: Binding) -> io::Result<Self> {
        assert!((first + frames.all()) * umem.frame_bytes <= umem.map.len());
        assert!(frames.receive.is_power_of_two() && (frames.transmit == 0 || frames.transmit.is_power_of_two()));
        let socket = Socket::new(Domain::from(libc::AF_XDP), Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        if binding.shared.is_none() {
            let region = libc::xdp_umem_reg {
                addr: umem.map.as_mut_ptr().addr() as u64,
                len: umem.map.len() as u64,
                chunk_size: umem.frame_bytes as u32,
                headroom: 0,
                flags: 0,
                tx_metadata_len: 0,
            };
            set(&socket, libc::XDP_UMEM_REG, &region)?;
        }
        set(&socket, libc::XDP_UMEM_FILL_RING, &frames.receive)?;
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &frames.transmit.max(1))?;
        set(&socket, libc::XDP_RX_RING, &frames.receive)?;
        if frames.transmit > 0 {
            set(&socket, libc::XDP_TX_RING, &frames.transmit)?;
        }
        let offsets: xdp_mmap_offsets = option(&socket, libc::XDP_MMAP_OFFSETS)?;
        // SAFETY: these are the offsets that this socket's rings have, with the slots that were just asked for and
        // what each of them is for.
        let (receive, mut fill) = unsafe {
            (
                Ring::map(&socket, libc::XDP_PGOFF_RX_RING as u64, offsets.rx, frames.receive)?,
                Ring::map(&socket, libc::XDP_UMEM_PGOFF_FILL_RING, offsets.fr, frames.receive)?,
            )
        };
        let transmit = match frames.transmit {
            0 => None,
            // SAFETY: as above.
            slots => Some(unsafe {
                (
                    Ring::map(&socket, libc::XDP_PGOFF_TX_RING as u64, offsets.tx, slots)?,
                    Ring::map(&socket, libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, slots)?,
                )
            }),
        };
        let behind = first + frames.receive as usize;
        umem.addresses(first..behind).for_each(|address| fill.put(address));
        fill.publish();
        bind(&socket, binding)?;
        let options: libc::xdp_options = option(&socket, libc::XDP_OPTIONS)?;
        let transmit = transmit.map(|(ring, completion)| Transmit {
            ring,
            completion,
            free: umem.addresses(behind..first + frames.all()).collect(),
            zero_copy: options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            unsent: false,
        });
        if transmit.is_some() {
            // What the kernel has copied and not sent counts against this.
            let bytes = frames.transmit as usize * umem.frame_bytes;
            let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBufForce, &bytes);
        }
        Ok(Queue { socket, receive, fill, transmit, dropped: 0.into() })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap_or_else(Some)
    }

    pub(super) fn has_input(&self) -> bool {
        self.receive.available() > 0
    }

    /// Shows up to `frames_max` frames to `visit`, all at once; returns how many.
    pub(super) fn receive(&mut self, umem: &Umem, frames_max: usize, visit: impl FnOnce(&[Arrival<'_>])) -> usize {
        let taken = self.receive.available().min(u32::try_from(frames_max).unwrap_or(u32::MAX));
        if taken == 0 {
            return 0;
        }
        let mut arrivals = SmallVec::<[Arrival<'_>; ARRIVALS]>::new();
        for ahead in 0..taken {
            let descriptor = self.receive.peek(ahead);
            let len = descriptor.len as usize;
            // SAFETY: `octets` has checked the range. The frame came out of the receive ring, so that it is ours until
            // it goes into the fill ring below, and it is in no other descriptor, so that nobody writes it meanwhile.
            let octets = unsafe { std::slice::from_raw_parts(umem.octets(descriptor.addr, len), len) };
            arrivals.push(Arrival { octets, cut: false, elsewhere: false, vlan: None, offloaded: false });
        }
        visit(&arrivals);
        drop(arrivals);
        for ahead in 0..taken {
            // There is room: the ring has a slot for each frame to receive into.
            self.fill.put(umem.frame_of(self.receive.peek(ahead).addr));
        }
        self.receive.release(taken);
        self.fill.publish();
        if self.fill.wants_wakeup() {
            // SAFETY: of no octets at no address; this only tells the kernel to go on.
            unsafe { libc::recv(self.raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
        }
        taken as usize
    }

    /// Whether a frame to send can be put in.
    pub(super) fn has_room(&mut self) -> bool {
        self.transmit.as_mut().is_some_and(|transmit| {
            if transmit.free.is_empty() {
                transmit.collect();
            }
            !transmit.free.is_empty()
        })
    }

    /// Puts a frame to send in, for which there must be room and which must fit.
    ///
    /// # Panics
    /// If not.
    pub(super) fn put(&mut self, umem: &Umem, parts: [&[u8]; 3]) {
        let transmit = self.transmit.as_mut().expect("whoever puts frames in has asked for frames to send");
        let address = transmit.free.pop().expect("there is room");
        let len = parts.iter().map(|part| part.len()).sum();
        // SAFETY: `octets` has checked the range. The frame was free, so that it is ours until it goes into the ring.
        let mut rest = unsafe { std::slice::from_raw_parts_mut(umem.octets(address, len), len) };
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        transmit.ring.put(xdp_desc { addr: address, len: len as u32, options: 0 });
        transmit.unsent = true;
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.transmit.as_ref().is_some_and(|transmit| transmit.unsent)
    }

    /// Has the kernel send what was put in; false where it has not taken all.
    pub(super) fn send(&mut self) -> io::Result<bool> {
        let fd = self.raw_fd();
        let Some(transmit) = self.transmit.as_mut().filter(|transmit| transmit.unsent) else { return Ok(true) };
        transmit.ring.publish();
        let mut idle = 0;
        while transmit.ring.is_pending() && transmit.ring.wants_wakeup() && idle < IDLE_SENDS_MAX {
            let before = transmit.ring.consumer().load(Ordering::Relaxed);
            // SAFETY: of no octets at no address; this only tells the kernel to go on.
            if unsafe { libc::send(fd, std::ptr::null::<c_void>(), 0, libc::MSG_DONTWAIT) } < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    // It takes so many at a time, or has no memory for more now.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {}
                    _ => return Err(error),
                }
            } else if transmit.zero_copy {
                break;
            }
            let moved = transmit.ring.consumer().load(Ordering::Relaxed) != before;
            idle = if moved { 0 } else { idle + 1 };
        }
        transmit.unsent = idle > 0 && transmit.ring.is_pending();
        transmit.collect();
        Ok(!transmit.unsent)
    }

    /// Frames that this queue lost since it was asked last, as it had no room for them.
    pub(super) fn take_drops(&self) -> u64 {
        let Ok(statistics) = option::<libc::xdp_statistics>(&self.socket, libc::XDP_STATISTICS) else { return 0 };
        let now = statistics.rx_dropped + statistics.rx_ring_full;
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

/// Sets an option of these sockets, whose value is a `T`.
fn set<T>(socket: &Socket, name: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to `len` octets that live here; the kernel reads them only.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, name, std::ptr::from_ref(value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What can be asked for: numbers only, so that any octets are a value.
trait Answer: Copy {}
impl Answer for xdp_mmap_offsets {}
impl Answer for libc::xdp_options {}
impl Answer for libc::xdp_statistics {}

/// Asks for an option of these sockets.
fn option<T: Answer>(socket: &Socket, name: c_int) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are to what `len` says, and to `len` itself, which live here.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, name, value.as_mut_ptr().cast(), &raw mut len) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zero at first, of which the kernel has written a part or all, and any octets are a value.
    Ok(unsafe { value.assume_init() })
}

/// Binds a socket to a queue.
fn bind(socket: &Socket, binding: Binding) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // The others have what the first has asked for.
        sxdp_flags: match binding.shared {
            Some(_) => libc::XDP_SHARED_UMEM,
            None => binding.flags | libc::XDP_USE_NEED_WAKEUP,
        },
        sxdp_ifindex: binding.interface,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: binding.shared.unwrap_or(0) as u32,
    };
    // SAFETY: the pointer is to an address of the length given, which lives here.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What ethtool asks of an interface, and is told.
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

/// Receive queues of an interface; 1 where it does not tell.
pub(super) fn queue_count(interface: &str) -> u32 {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let Ok(mut request) = interface_request(interface) else { return 1 };
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    let Ok(socket) = Socket::new(Domain::IPV4, Type::DGRAM, None) else { return 1 };
    // SAFETY: the request has a name that ends with a zero, and points to what this command takes and fills in; both
    // live here.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if done == 0 { channels.receive.saturating_add(channels.combined).max(1) } else { 1 }
}
