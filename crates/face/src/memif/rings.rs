//! Two rings of an interface, one in each direction, and the frames in their buffers. An interface may have several
//! such pairs, each in a mapping of the memory that is its own.
//!
//! A ring is a header (a cookie, flags, and two indices on separate cache lines) and slots of 16 bytes, whose number is
//! a power of two. A slot describes a buffer: its region, offset and length, and whether the frame continues in the
//! next slot. All buffers belong to the client. To send, the client fills buffers and moves `head`, and the server
//! gives them back with `tail`. To receive, the client lends empty buffers with `head`, and the server fills them and
//! moves `tail`. Indices count slots, modulo 2^16.
//!
//! The peer can write anywhere, at any time. So each index and each word of a slot is read once, and checked after
//! that. Values that are known here, such as the places of our own buffers, are never read from the memory. A frame is
//! copied once before it is parsed. A peer whose indices or slots are invalid has committed a [`Breach`], and is
//! disconnected.
//!
//! A receiver that polls its ring sets a flag in the ring, and its peer makes no system call. Before the receiver
//! sleeps, it clears the flag. An eventfd then wakes it.

#[cfg(test)]
mod tests;

use std::fs::read_link;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

use byname_forward::Packet;
use byname_forward::asleep::{after_giving, before_looking};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use smallvec::{SmallVec, smallvec};

use super::breach::Breach;
use super::message::AddRing;
use super::ring::{COOKIE, COOKIE_AT, FLAGS_AT, HEAD_AT, Index, NEXT, NO_INTERRUPTS, Ring, Slot, TAIL_AT, ring_bytes};
use super::shared::SharedMemory;
pub use crate::port::Pushed;

/// Binary logarithm of the minimum number of slots.
pub const SLOTS_LOG2_MIN: u8 = 3;
/// Binary logarithm of the maximum number of slots, as in DPDK.
pub const SLOTS_LOG2_MAX: u8 = 14;
/// Bytes of the longest frame that is received: the largest buffer of [`Packet`].
pub const FRAME_BYTES_MAX: usize = 9216;
/// Target of the link in /proc for an eventfd.
const EVENTFD_LINK: &str = "anon_inode:[eventfd]";

/// One of the two ends of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Listens, and uses the client's memory.
    Server,
    /// Connects, and brings the memory.
    Client,
}

/// A pair of rings of a connected interface.
#[derive(Debug)]
pub struct Rings {
    role: Role,
    regions: Vec<SharedMemory>,
    receive: Ring,
    transmit: Ring,
    /// Length of our buffers; only for clients.
    buffer_bytes: u32,
    /// Frames dropped because they were longer than [`FRAME_BYTES_MAX`].
    pub too_long: u64,
}

/// Description of a client's memory and rings for the server.
pub(super) struct Offer {
    pub(super) memory: OwnedFd,
    pub(super) bytes: u64,
    /// The ring from the client and the ring to the client, of each pair.
    pub(super) rings: Vec<[(AddRing, OwnedFd); 2]>,
}

impl Rings {
    /// Creates a client's end: new memory with `pairs` pairs of rings of `2^slots_log2` slots each, and a buffer of
    /// `buffer_bytes` for each slot. Creates fewer pairs if that were too much memory.
    pub(super) fn create(slots_log2: u8, buffer_bytes: u32, pairs: u16) -> io::Result<(Vec<Rings>, Offer)> {
        let slots = 1u16 << slots_log2;
        let sizes = |pairs: u16| {
            let rings = 2 * usize::from(pairs);
            let buffers = (rings * ring_bytes(slots)).next_multiple_of(4096);
            (buffers, buffers + rings * usize::from(slots) * buffer_bytes as usize)
        };
        let fits = |pairs: &u16| u32::try_from(sizes(*pairs).1).is_ok();
        let Some(pairs) = (1..=pairs.max(1)).rev().find(fits) else {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "the buffers of a ring have 2 GiB or more"));
        };
        let (buffers, bytes) = sizes(pairs);
        let (memory, fd) = SharedMemory::create(bytes)?;
        let (mut here, mut told) = (Vec::new(), Vec::new());
        let mut memory = Some(memory);
        for index in 0..pairs {
            let memory = match memory.take() {
                Some(memory) => memory,
                None => SharedMemory::map(&fd, bytes as u64).map_err(io::Error::other)?,
            };
            let (rings, of_pair) = Rings::create_pair(memory, index, slots_log2, buffer_bytes, buffers)?;
            here.push(rings);
            told.push(of_pair);
        }
        Ok((here, Offer { memory: fd, bytes: bytes as u64, rings: told }))
    }

    /// One of the pairs in new memory, whose buffers begin at `buffers`, and its description.
    fn create_pair(
        memory: SharedMemory,
        index: u16,
        slots_log2: u8,
        buffer_bytes: u32,
        buffers: usize,
    ) -> io::Result<(Rings, [(AddRing, OwnedFd); 2])> {
        let slots = 1u16 << slots_log2;
        let ring = |number: usize| -> io::Result<(Ring, OwnedFd)> {
            let interrupt = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let base = number * ring_bytes(slots);
            memory.u32_at(base + COOKIE_AT).store(COOKIE, Ordering::Relaxed);
            let shared = interrupt.try_clone()?;
            let buffers = buffers + number * usize::from(slots) * buffer_bytes as usize;
            Ok((Ring::new(0, base, slots, buffers, interrupt), shared))
        };
        let first = 2 * usize::from(index);
        let ((transmit, transmit_interrupt), (receive, receive_interrupt)) = (ring(first)?, ring(first + 1)?);
        let told = |ring: &Ring, from_client| AddRing {
            from_client,
            index,
            region: 0,
            offset: ring.base as u32,
            slots_log2,
            private_header_bytes: 0,
        };
        let rings = [(told(&transmit, true), transmit_interrupt), (told(&receive, false), receive_interrupt)];
        let regions = vec![memory];
        Ok((Rings { role: Role::Client, regions, receive, transmit, buffer_bytes, too_long: 0 }, rings))
    }

    /// Creates a server's end, in the memory and at the places that the client has described.
    pub(super) fn join(
        regions: Vec<SharedMemory>,
        from_client: (AddRing, OwnedFd),
        to_client: (AddRing, OwnedFd),
    ) -> Result<Rings, Breach> {
        let (receive, transmit) = (joined(&regions, from_client)?, joined(&regions, to_client)?);
        Ok(Rings { role: Role::Server, regions, receive, transmit, buffer_bytes: 0, too_long: 0 })
    }

    /// Begins after both ends have agreed. A client lends all its empty buffers only now, because some servers clear
    /// the indices when they connect.
    pub(super) fn begin(&mut self) {
        self.stop_interrupts();
        if self.role == Role::Client {
            for index in 0..self.receive.slots {
                self.lend(Index::new(index));
            }
            self.head_of(&self.receive).store(self.receive.slots, Ordering::Release);
        }
    }

    /// Descriptor that becomes readable when frames arrive after a request for interrupts. Wait for its edges and never
    /// read it, because a peer could make the read block.
    pub fn interrupt(&self) -> &OwnedFd {
        &self.receive.interrupt
    }

    /// Asks the peer for interrupts when frames arrive. Earlier frames may come without one, so check for input once
    /// more after this.
    pub fn ask_interrupts(&self) {
        before_looking(|| self.flags_of(&self.receive).store(0, Ordering::Relaxed));
    }

    /// Tells the peer to send no interrupts, because we poll the ring.
    pub fn stop_interrupts(&self) {
        self.flags_of(&self.receive).store(NO_INTERRUPTS, Ordering::Relaxed);
    }

    /// Whether frames have arrived.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.receive.peer != self.receive.next || self.arrival_index(Ordering::Relaxed) != self.receive.next
    }

    /// Passes up to `frames_max` frames to `visit`, each in a buffer of its own.
    ///
    /// # Errors
    /// If the peer broke the rules. Frames that were passed before are valid.
    pub fn receive(&mut self, frames_max: usize, mut visit: impl FnMut(Packet)) -> Result<(), Breach> {
        self.receive.peer = self.arrival_index(Ordering::Acquire);
        let slots = self.receive.slots;
        if self.receive.peer.since(self.receive.next) > slots {
            return Err(Breach::Index);
        }
        let mut done = Ok(());
        for _ in 0..frames_max {
            if self.receive.peer == self.receive.next || done.is_err() {
                break;
            }
            done = self.take_frame(&mut visit);
        }
        if self.receive.told != self.receive.next {
            self.receive.told = self.receive.next;
            let index = match self.role {
                Role::Server => self.tail_of(&self.receive),
                Role::Client => self.head_of(&self.receive),
            };
            let lent = if self.role == Role::Client { slots } else { 0 };
            index.store(self.receive.next.plus(lent).value(), Ordering::Release);
        }
        done
    }

    /// Copies a frame, in parts, into the transmit ring. [`Rings::send`] then sends it. A frame is too long if it does
    /// not fit into all buffers together.
    ///
    /// # Errors
    /// If the peer broke the rules.
    pub fn push(&mut self, parts: [&[u8]; 3]) -> Result<Pushed, Breach> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut free = self.free(1)?;
        let (mut slots, mut copied) = (0, 0);
        let first = self.transmit.next;
        while copied < len {
            if slots == free {
                free = self.free(slots + 1)?;
                if slots == free {
                    let all = free == self.transmit.slots;
                    return Ok(if all { Pushed::TooLong } else { Pushed::Full });
                }
            }
            let index = first.plus(slots);
            let at = self.transmit.slot_at(index);
            let mut slot = match self.role {
                Role::Client => {
                    let offset = self.transmit.buffer_at(index, self.buffer_bytes);
                    Slot { flags: 0, region: 0, bytes: self.buffer_bytes, offset }
                }
                Role::Server => Slot::load(&self.regions[self.transmit.region], at),
            };
            slot.bytes = slot.bytes.min((len - copied) as u32);
            self.fill(slot, &parts, copied)?;
            copied += slot.bytes as usize;
            slot.flags = if copied < len { NEXT } else { 0 };
            slot.store(&self.regions[self.transmit.region], at);
            slots += 1;
        }
        self.transmit.next = first.plus(slots);
        Ok(Pushed::Done)
    }

    /// Shows pushed frames to the peer, and wakes the peer if it sleeps.
    pub fn send(&mut self) {
        if self.transmit.told == self.transmit.next {
            return;
        }
        self.transmit.told = self.transmit.next;
        let index = match self.role {
            Role::Server => self.tail_of(&self.transmit),
            Role::Client => self.head_of(&self.transmit),
        };
        index.store(self.transmit.next.value(), Ordering::Release);
        if after_giving(|| self.flags_of(&self.transmit).load(Ordering::Relaxed) & NO_INTERRUPTS == 0) {
            wake(&self.transmit.interrupt);
        }
    }

    /// Whether pushed frames were not shown to the peer yet.
    pub fn has_unsent(&self) -> bool {
        self.transmit.told != self.transmit.next
    }

    /// Takes the frame that begins at the next slot. At least one slot must have arrived.
    #[inline]
    fn take_frame(&mut self, visit: &mut impl FnMut(Packet)) -> Result<(), Breach> {
        let slot = self.take_slot(self.receive.next)?;
        if slot.flags & NEXT != 0 {
            return self.take_chain(slot, visit);
        }
        self.receive.next = self.receive.next.plus(1);
        self.prefetch_next();
        let len = slot.bytes as usize;
        if len > FRAME_BYTES_MAX {
            self.too_long += 1;
            return Ok(());
        }
        let mut whole = None;
        let packet = Packet::build(len, |to| whole = self.copy_out(slot, to));
        whole.ok_or(Breach::Buffer)?;
        visit(packet);
        Ok(())
    }

    /// Takes the frame that begins with the next slot, `first`, and continues in other slots.
    #[cold]
    fn take_chain(&mut self, first: Slot, visit: &mut impl FnMut(Packet)) -> Result<(), Breach> {
        let available = self.receive.peer.since(self.receive.next);
        let mut parts: SmallVec<[Slot; 8]> = smallvec![first];
        let mut len = first.bytes as usize;
        while parts.last().is_some_and(|slot| slot.flags & NEXT != 0) {
            if parts.len() == usize::from(available) {
                return Err(Breach::Chain);
            }
            let slot = self.take_slot(self.receive.next.plus(parts.len() as u16))?;
            len = len.saturating_add(slot.bytes as usize);
            parts.push(slot);
        }
        self.receive.next = self.receive.next.plus(parts.len() as u16);
        if len > FRAME_BYTES_MAX {
            self.too_long += 1;
            return Ok(());
        }
        let mut whole = Some(());
        let packet = Packet::build(len, |mut to| {
            for slot in &parts {
                let (part, rest) = to.split_at_mut(slot.bytes as usize);
                whole = whole.and(self.copy_out(*slot, part));
                to = rest;
            }
        });
        whole.ok_or(Breach::Buffer)?;
        visit(packet);
        Ok(())
    }

    /// Reads a slot that has arrived. Also lends it again, although the peer does not see that yet.
    #[inline]
    fn take_slot(&self, index: Index) -> Result<Slot, Breach> {
        let at = self.receive.slot_at(index);
        let mut slot = Slot::load(&self.regions[self.receive.region], at);
        match self.role {
            // We know the places of our own buffers.
            Role::Client if slot.bytes > self.buffer_bytes => return Err(Breach::Buffer),
            Role::Client => {
                (slot.region, slot.offset) = (0, self.receive.buffer_at(index, self.buffer_bytes));
                self.lend(index);
            }
            // Some clients send a long frame now and then, and leave this flag in place for later short frames.
            Role::Server if slot.flags & NEXT != 0 => {
                Slot { flags: 0, ..slot }.store(&self.regions[self.receive.region], at);
            }
            Role::Server => {}
        }
        Ok(slot)
    }

    #[inline]
    fn copy_out(&self, slot: Slot, to: &mut [u8]) -> Option<()> {
        self.regions.get(usize::from(slot.region))?.read(slot.offset as usize, to)
    }

    /// Prefetches the beginning of the next frame while this one is copied.
    fn prefetch_next(&self) {
        if self.receive.next == self.receive.peer {
            return;
        }
        let at = self.receive.slot_at(self.receive.next);
        let slot = Slot::load(&self.regions[self.receive.region], at);
        if let Some(region) = self.regions.get(usize::from(slot.region)) {
            region.prefetch(slot.offset as usize);
            region.prefetch((slot.offset as usize).saturating_add(64));
        }
    }

    /// Describes one of our empty buffers in the receive ring.
    fn lend(&self, index: Index) {
        let offset = self.receive.buffer_at(index, self.buffer_bytes);
        let slot = Slot { flags: 0, region: 0, bytes: self.buffer_bytes, offset };
        slot.store(&self.regions[0], self.receive.slot_at(index));
    }

    /// Copies the part of a frame after its first `from` bytes into a buffer, as far as it fits.
    fn fill(&self, slot: Slot, parts: &[&[u8]; 3], from: usize) -> Result<(), Breach> {
        let region = self.regions.get(usize::from(slot.region)).ok_or(Breach::Buffer)?;
        let (mut at, mut room, mut skip) = (slot.offset as usize, slot.bytes as usize, from);
        for part in parts {
            let rest = &part[skip.min(part.len())..];
            skip = skip.saturating_sub(part.len());
            let piece = &rest[..rest.len().min(room)];
            region.write(at, piece).ok_or(Breach::Buffer)?;
            // `write` has checked that this is within the region.
            (at, room) = (at + piece.len(), room - piece.len());
        }
        Ok(())
    }

    /// Number of slots that can be filled. Reads the peer's index only if fewer than `wanted` are known.
    #[inline]
    fn free(&mut self, wanted: u16) -> Result<u16, Breach> {
        let known = self.free_with(self.transmit.peer);
        if known >= wanted { Ok(known) } else { self.look_for_free(known) }
    }

    /// Number of slots that can be filled, given the peer's index.
    #[inline]
    fn free_with(&self, peer: Index) -> u16 {
        let Ring { next, slots, .. } = &self.transmit;
        match self.role {
            Role::Server => peer.since(*next),
            Role::Client => slots.wrapping_sub(next.since(peer)),
        }
    }

    fn look_for_free(&mut self, known: u16) -> Result<u16, Breach> {
        let index = match self.role {
            Role::Server => self.head_of(&self.transmit),
            Role::Client => self.tail_of(&self.transmit),
        };
        let peer = Index::new(index.load(Ordering::Acquire));
        let free = self.free_with(peer);
        // The index can only advance, by no more than the number of slots.
        if free > self.transmit.slots || free < known {
            return Err(Breach::Index);
        }
        self.transmit.peer = peer;
        Ok(free)
    }

    /// Index up to which slots hold frames for us.
    #[inline]
    fn arrival_index(&self, order: Ordering) -> Index {
        Index::new(match self.role {
            Role::Server => self.head_of(&self.receive).load(order),
            Role::Client => self.tail_of(&self.receive).load(order),
        })
    }

    fn head_of(&self, ring: &Ring) -> &AtomicU16 {
        self.regions[ring.region].u16_at(ring.base + HEAD_AT)
    }

    fn tail_of(&self, ring: &Ring) -> &AtomicU16 {
        self.regions[ring.region].u16_at(ring.base + TAIL_AT)
    }

    fn flags_of(&self, ring: &Ring) -> &AtomicU16 {
        self.regions[ring.region].u16_at(ring.base + FLAGS_AT)
    }
}

#[cfg(test)]
impl Rings {
    /// Memory of the first region, for tests that write lies into it.
    pub(super) fn memory(&self) -> &SharedMemory {
        &self.regions[0]
    }
}

/// A ring at the place that the client has described.
fn joined(regions: &[SharedMemory], (told, interrupt): (AddRing, OwnedFd)) -> Result<Ring, Breach> {
    let sound = (1..=SLOTS_LOG2_MAX).contains(&told.slots_log2) && told.private_header_bytes == 0;
    let (region, base) = (usize::from(told.region), told.offset as usize);
    let memory = regions.get(region).filter(|_| sound && base.is_multiple_of(8)).ok_or(Breach::Ring)?;
    let slots = 1u16 << told.slots_log2;
    if base + ring_bytes(slots) > memory.bytes() || memory.u32_at(base + COOKIE_AT).load(Ordering::Relaxed) != COOKIE {
        return Err(Breach::Ring);
    }
    memory.u16_at(base + TAIL_AT).store(0, Ordering::Relaxed);
    Ok(Ring::new(region, base, slots, 0, interrupt))
}

/// Whether a descriptor from the peer is an eventfd. Writing to another kind of file could block.
pub(super) fn is_eventfd(fd: &OwnedFd) -> bool {
    read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).is_ok_and(|link| link == Path::new(EVENTFD_LINK))
}

/// Wakes the peer. Does nothing if the eventfd's counter is full, as the write could then block. Only the peer could
/// have filled it.
fn wake(interrupt: &OwnedFd) {
    let mut fds = [PollFd::from_borrowed_fd(interrupt.as_fd(), PollFlags::OUT)];
    let asked = rustix::event::poll(&mut fds, Some(&Timespec::default()));
    if asked.is_ok() && fds[0].revents().contains(PollFlags::OUT) {
        // A write that fails finds the counter full.
        let _ = rustix::io::write(interrupt, &1u64.to_ne_bytes());
    }
}
