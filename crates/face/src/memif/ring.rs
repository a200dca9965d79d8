//! One ring of an interface: the places of its words and slots, and the progress of both ends.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use super::shared::SharedMemory;

/// First word of each ring.
pub(super) const COOKIE: u32 = 0x03E3_1F20;
/// Offsets of the words in a ring's header.
pub(super) const COOKIE_AT: usize = 0;
pub(super) const FLAGS_AT: usize = 4;
pub(super) const HEAD_AT: usize = 6;
pub(super) const TAIL_AT: usize = 64;
/// Offset of the slots.
pub(super) const SLOTS_AT: usize = 128;
pub(super) const SLOT_BYTES: usize = 16;
/// Flag of a ring: its receiver wants no interrupts.
pub(super) const NO_INTERRUPTS: u16 = 1;
/// Flag of a slot: the frame continues in the next slot.
pub(super) const NEXT: u16 = 1;

/// Bytes of a ring with its slots.
pub(super) fn ring_bytes(slots: u16) -> usize {
    SLOTS_AT + usize::from(slots) * SLOT_BYTES
}

/// A decoded slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) flags: u16,
    pub(super) region: u16,
    pub(super) bytes: u32,
    pub(super) offset: u32,
}

impl Slot {
    pub(super) fn load(memory: &SharedMemory, at: usize) -> Slot {
        let first = memory.u64_at(at).load(Ordering::Relaxed).to_ne_bytes();
        let second = memory.u64_at(at + 8).load(Ordering::Relaxed).to_ne_bytes();
        let [f0, f1, r0, r1, b0, b1, b2, b3] = first;
        let [o0, o1, o2, o3, ..] = second;
        Slot {
            flags: u16::from_ne_bytes([f0, f1]),
            region: u16::from_ne_bytes([r0, r1]),
            bytes: u32::from_ne_bytes([b0, b1, b2, b3]),
            offset: u32::from_ne_bytes([o0, o1, o2, o3]),
        }
    }

    pub(super) fn store(self, memory: &SharedMemory, at: usize) {
        let ([f0, f1], [r0, r1]) = (self.flags.to_ne_bytes(), self.region.to_ne_bytes());
        let ([b0, b1, b2, b3], [o0, o1, o2, o3]) = (self.bytes.to_ne_bytes(), self.offset.to_ne_bytes());
        memory.u64_at(at).store(u64::from_ne_bytes([f0, f1, r0, r1, b0, b1, b2, b3]), Ordering::Relaxed);
        memory.u64_at(at + 8).store(u64::from_ne_bytes([o0, o1, o2, o3, 0, 0, 0, 0]), Ordering::Relaxed);
    }
}

/// A count of slots, modulo 2^16, in a word of its own. If two 16-bit counts are adjacent, compilers load both to read
/// one. A processor that has just stored one of them must then wait until all earlier stores, those of a whole frame,
/// have reached the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Index(u32);

impl Index {
    pub(super) fn new(value: u16) -> Index {
        Index(u32::from(value))
    }

    pub(super) fn value(self) -> u16 {
        self.0 as u16
    }

    /// Advances by `slots` slots.
    pub(super) fn plus(self, slots: u16) -> Index {
        Index::new(self.value().wrapping_add(slots))
    }

    /// Number of slots that it is ahead of another.
    pub(super) fn since(self, other: Index) -> u16 {
        self.value().wrapping_sub(other.value())
    }
}

/// One ring.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) region: usize,
    /// Offset in its region.
    pub(super) base: usize,
    pub(super) slots: u16,
    /// Offset of our buffers for it; only for clients.
    pub(super) buffers: usize,
    /// The next slot that we take or fill.
    pub(super) next: Index,
    /// `next` as the peer knows it.
    pub(super) told: Index,
    /// The peer's index when it was last read.
    pub(super) peer: Index,
    /// Wakes the receiver.
    pub(super) interrupt: OwnedFd,
}

impl Ring {
    /// A ring in which nothing was filled or taken.
    pub(super) fn new(region: usize, base: usize, slots: u16, buffers: usize, interrupt: OwnedFd) -> Ring {
        let [next, told, peer] = [Index::default(); 3];
        Ring { region, base, slots, buffers, next, told, peer, interrupt }
    }

    pub(super) fn slot_at(&self, index: Index) -> usize {
        self.base + SLOTS_AT + usize::from(index.value() & (self.slots - 1)) * SLOT_BYTES
    }

    pub(super) fn buffer_at(&self, index: Index, buffer_bytes: u32) -> u32 {
        // A client's memory is shorter than 4 GiB.
        self.buffers as u32 + u32::from(index.value() & (self.slots - 1)) * buffer_bytes
    }
}
