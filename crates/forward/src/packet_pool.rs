//! Packet buffers: taken from a pool, shared by count, given back on drop.
//!
//! A [`Packet`] is a stretch of a pooled buffer. Cloning shares it: the content store keeps the
//! very buffer that the port received into [So §2.5]. Buffers come in a few size classes; each
//! thread keeps a bounded stock of free ones, so that the path of a packet neither locks nor
//! allocates. What a stock lacks or can't hold, many at a time, is in chunks that all threads share.
//!
//! A buffer counts parts, not packets, and each packet holds some of its parts (weighted reference
//! counting [Bevan, "Distributed garbage collection using reference counting", 1987]). Cloning
//! halves a packet's parts and writes nothing that threads share; one that holds all parts is
//! alone, which a load tells. What is left is one locked instruction for each packet that is
//! dropped while others share its buffer. A locked instruction waits until all stores before it
//! have reached the cache, and here that is where tables beyond the caches are written.
#![allow(unsafe_code)]

#[cfg(not(loom))]
mod chunks;
mod stock;

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use byname_lookup::prefetch;

use crate::sync::{AtomicU64, Ordering, fence};

/// Memory of a buffer of each class, in octets: whole cache lines. The last holds the largest packet
/// and its link header.
const CLASS_BYTES: [usize; 6] = [256, 640, 1280, 2304, 4608, 9280];
/// Memory that a packet takes, at least.
pub(crate) const MIN_BUFFER_BYTES: usize = CLASS_BYTES[0];
/// Octets in the largest packet.
const OCTETS_MAX: usize = 9216;
/// Octets of a buffer that are asked for ahead: behind them, the processor goes on by itself sooner than
/// it could be asked.
const ASKED_BYTES: usize = 1280;

/// Parts of a buffer that a packet begins with.
const PARTS: u64 = 1 << 15;

/// What stands before a buffer's octets, in its first cache line.
#[repr(C, align(16))]
struct Header {
    /// Parts that packets hold.
    parts: AtomicU64,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(cfg!(loom) || HEADER_BYTES == 16);
const _: () = assert!(OCTETS_MAX <= octets_of(CLASS_BYTES.len() - 1));

/// Room for octets in a buffer.
const fn octets_of(class: usize) -> usize {
    // Whatever a model's header takes.
    CLASS_BYTES[class] - 16
}

fn class_of(len: usize) -> Option<usize> {
    (0..CLASS_BYTES.len()).find(|class| len <= octets_of(*class))
}

/// A buffer that nobody holds, or whose holders count their parts.
#[derive(Clone, Copy)]
struct Buffer(NonNull<Header>);

impl Buffer {
    /// Asks the memory for the buffer, of this class, to be written: for the whole of most.
    #[inline]
    fn prefetch(self, class: usize) {
        let bytes = CLASS_BYTES[class].min(ASKED_BYTES);
        // SAFETY: so much is the buffer's own, and is not looked at.
        prefetch::write_all(unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), bytes) });
    }

    fn octets(self) -> NonNull<u8> {
        // SAFETY: octets follow the header in the same memory.
        unsafe { self.0.cast::<u8>().add(HEADER_BYTES) }
    }
}

/// A packet: read-only while shared.
// Two words, which compilers keep in registers: a structure of narrower fields is written field by
// field and then moved as a whole, for which a processor waits until all stores before have reached
// the cache.
pub struct Packet {
    /// `None`: there are no octets.
    buffer: Option<Buffer>,
    stretch: Cell<Stretch>,
}

const _: () = assert!(size_of::<Packet>() == 16);

/// Which octets of a buffer a packet has, and what else is known of it: from the lowest bit up, 16 of
/// the first octet, 16 of the end, 16 of the parts that are this packet's, and the buffer's class.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Stretch(u64);

impl Stretch {
    /// Of a packet's first octets, with all parts of its buffer.
    const fn whole(class: usize, len: usize) -> Stretch {
        Stretch(((class as u64) << 48) | (PARTS << 32) | ((len as u64) << 16))
    }

    fn start(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    fn end(self) -> usize {
        ((self.0 >> 16) & 0xffff) as usize
    }

    fn parts(self) -> u64 {
        (self.0 >> 32) & 0xffff
    }

    fn class(self) -> usize {
        (self.0 >> 48) as usize
    }

    fn with_octets(self, range: Range<usize>) -> Stretch {
        Stretch(((self.0 >> 32) << 32) | ((range.end as u64) << 16) | range.start as u64)
    }

    fn with_parts(self, parts: u64) -> Stretch {
        Stretch((self.0 & !(0xffff << 32)) | (parts << 32))
    }
}

// SAFETY: a packet reaches its buffer's octets by reading alone, unless it holds all parts, when no
// other packet of that buffer is left, in whichever thread. What others did with theirs happened
// before: they gave up their parts by a release, and to see them gone is an acquire.
unsafe impl Send for Packet {}

impl Packet {
    /// No packet: no octets, and no buffer.
    pub(crate) const fn empty() -> Packet {
        Packet { buffer: None, stretch: Cell::new(Stretch(0)) }
    }

    /// A packet holding a copy of `octets`.
    ///
    /// # Panics
    /// If there are more than the largest buffer holds (9,216).
    #[inline]
    pub fn copy_from(octets: &[u8]) -> Packet {
        Packet::build(octets.len(), |buffer| buffer.copy_from_slice(octets))
    }

    /// A packet of `len` octets, written by `fill` (what it leaves is unspecified).
    ///
    /// # Panics
    /// If `len` is above 9,216.
    #[inline]
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Packet {
        let class = class_of(len).filter(|_| len <= OCTETS_MAX).expect("caller keeps packets within 9,216 octets");
        let buffer = stock::take(class);
        // SAFETY: the buffer is valid, and in nobody else's hands: no packet holds it, and it has left
        // the stock.
        unsafe { buffer.0.as_ref() }.parts.store(PARTS, Ordering::Relaxed);
        // SAFETY: so many octets lie in the buffer, are zeros at least, and nobody else reaches them. If
        // `fill` panics, the buffer is lost.
        fill(unsafe { std::slice::from_raw_parts_mut(buffer.octets().as_ptr(), len) });
        Packet { buffer: Some(buffer), stretch: Cell::new(Stretch::whole(class, len)) }
    }

    /// The same buffer, narrowed to `range` of this packet.
    pub fn slice(self, range: Range<usize>) -> Packet {
        assert!(range.start <= range.end && range.end <= self.len());
        let stretch = self.stretch.get();
        self.stretch.set(stretch.with_octets(stretch.start() + range.start..stretch.start() + range.end));
        self
    }

    /// Puts a packet in the place of this one, which is empty and is not looked at: it may just have been written
    /// with others as a whole, and to read it alone a processor waits until all stores before have reached the cache.
    #[inline]
    pub fn fill(&mut self, packet: Packet) {
        debug_assert!(self.buffer.is_none(), "a buffer would be lost");
        std::mem::forget(std::mem::replace(self, packet));
    }

    /// This packet; what stays in its place is empty.
    pub(crate) fn take(&mut self) -> Packet {
        std::mem::take(self)
    }

    /// The octets, if nobody else holds this packet's buffer.
    #[inline]
    pub fn unshared_mut(&mut self) -> Option<&mut [u8]> {
        let buffer = self.buffer.filter(|_| self.is_alone())?;
        // SAFETY: `start..end` lies in the buffer, whose octets were zeros at least; and this packet,
        // which is borrowed mutably, is the only one that reaches them.
        Some(unsafe {
            let Range { start, end } = self.range();
            std::slice::from_raw_parts_mut(buffer.octets().add(start).as_ptr(), end - start)
        })
    }

    /// Memory that this packet's buffer takes, in bytes.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        if self.buffer.is_some() { CLASS_BYTES[self.stretch.get().class()] } else { 0 }
    }

    /// Asks the memory for the first `len` octets, and for the count of parts.
    #[inline]
    pub(crate) fn prefetch(&self, len: usize) {
        if let Some(buffer) = self.buffer {
            let end = octets_of(self.stretch.get().class()).min(self.range().start + len).max(1);
            // SAFETY: so many octets lie in the buffer, and are not looked at. The first of them is in
            // the line of the header.
            prefetch::read_all_soon(unsafe { std::slice::from_raw_parts(buffer.octets().as_ptr(), end) });
        }
    }

    /// Whether no other packet has this one's buffer.
    #[inline]
    fn is_alone(&self) -> bool {
        // SAFETY: the buffer is valid as long as a packet holds a part of it.
        let parts = |buffer: Buffer| unsafe { buffer.0.as_ref() }.parts.load(Ordering::Acquire);
        self.buffer.is_none_or(|buffer| parts(buffer) == self.stretch.get().parts())
    }

    /// Which octets of its buffer it has.
    #[inline]
    fn range(&self) -> Range<usize> {
        let stretch = self.stretch.get();
        stretch.start()..stretch.end()
    }
}

/// No packet.
impl Default for Packet {
    fn default() -> Self {
        Packet::empty()
    }
}

/// Shares the buffer.
impl Clone for Packet {
    #[inline]
    fn clone(&self) -> Packet {
        let stretch = self.stretch.get();
        let given = match stretch.parts() {
            1 => self.more_parts(),
            parts => {
                self.stretch.set(stretch.with_parts(parts - parts / 2));
                parts / 2
            }
        };
        Packet { buffer: self.buffer, stretch: Cell::new(stretch.with_parts(given)) }
    }
}

impl Packet {
    /// Parts for a clone, where this packet has none to spare.
    #[cold]
    fn more_parts(&self) -> u64 {
        if let Some(buffer) = self.buffer {
            // SAFETY: this packet holds a part. Relaxed: whoever takes parts away does so later, from
            // this thread or from one that the clone was handed to.
            unsafe { buffer.0.as_ref() }.parts.fetch_add(PARTS, Ordering::Relaxed);
        }
        PARTS
    }
}

impl Deref for Packet {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        let Some(buffer) = self.buffer else { return &[] };
        // SAFETY: `start..end` lies in the buffer, whose octets were zeros at least, and which stays
        // as long as this packet; nobody writes to it while there is another packet of it, nor
        // through this one while it is borrowed.
        unsafe {
            let Range { start, end } = self.range();
            std::slice::from_raw_parts(buffer.octets().add(start).as_ptr(), end - start)
        }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        let own = self.stretch.get().parts();
        // SAFETY: this packet's parts keep the buffer until they are taken away.
        let parts = unsafe { &buffer.0.as_ref().parts };
        // All parts: nobody else can take any away, or clone. Else one locked instruction, after which
        // the buffer is not ours to look at unless these were the last.
        if parts.load(Ordering::Acquire) != own {
            if parts.fetch_sub(own, Ordering::Release) != own {
                return;
            }
            fence(Ordering::Acquire);
        }
        stock::keep(buffer, self.stretch.get().class());
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} octets)", self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

/// A model's buffers come one by one, and go as soon as nobody holds them.
#[cfg(loom)]
mod chunks {
    use std::alloc::Layout;

    use super::{Buffer, Header, octets_of};
    use crate::sync::{AtomicU64, alloc};

    pub(super) const BATCH: usize = 1;

    fn layout(class: usize) -> Layout {
        Layout::from_size_align(size_of::<Header>() + octets_of(class), 64).expect("classes are small")
    }

    pub(super) fn take(class: usize, stock: &mut Vec<Buffer>) {
        // SAFETY: the layout has a size; and a header fits, aligned, at the start of the memory.
        stock.push(unsafe {
            let header = alloc::alloc_zeroed(layout(class)).cast::<Header>();
            header.write(Header { parts: AtomicU64::new(0) });
            Buffer(std::ptr::NonNull::new(header).expect("there is memory"))
        });
    }

    pub(super) fn give(class: usize, buffers: &mut [Buffer]) {
        for buffer in buffers {
            // SAFETY: nobody holds it, and it was made with this layout.
            unsafe {
                buffer.0.drop_in_place();
                alloc::dealloc(buffer.0.as_ptr().cast(), layout(class));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell;
    use std::sync::Arc;

    /// Stands for a buffer's octets: loom sees who reads them, and who writes.
    struct Octets(UnsafeCell<()>);

    // SAFETY: loom checks each access; that is what the model is for.
    unsafe impl Sync for Octets {}

    /// Three packets of one buffer, the last of which is written to when it is alone, and all dropped,
    /// each in a thread of its own: loom would tell a buffer that is lost, or freed twice.
    #[test]
    fn a_packet_that_is_alone_has_seen_the_others_go() {
        loom::model(|| {
            let octets = Arc::new(Octets(UnsafeCell::new(())));
            let mut packet = Packet::copy_from(b"octets");
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (share, octets) = (packet.clone(), octets.clone());
                    loom::thread::spawn(move || {
                        octets.0.with(|_| assert_eq!(*share, *b"octets"));
                        drop(share);
                    })
                })
                .collect();
            if let Some(first) = packet.unshared_mut() {
                octets.0.with_mut(|_| first[0] = b'O');
            }
            drop(packet);
            others.into_iter().for_each(|other| other.join().expect("it does not panic"));
        });
    }
}
