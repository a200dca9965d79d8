//! Packet buffers: taken from a pool, shared by reference counting, returned on drop.
//!
//! A [`Packet`] is a part of a pooled buffer. A clone shares the buffer, so the content store keeps the very buffer
//! that the port received into [So §2.5]. Buffers come in a few size classes. Each thread keeps a bounded stock of free
//! buffers, so that a packet's path neither locks nor allocates. A stock exchanges buffers in batches with chunks that
//! all threads share.
//!
//! A buffer counts parts, not packets, and each packet holds some of its parts (weighted reference counting [Bevan,
//! "Distributed garbage collection using reference counting", 1987]). Cloning halves a packet's parts and writes
//! nothing that threads share. A packet that holds all parts is the only one, and a plain load shows this. One locked
//! instruction remains, for each packet that is dropped while others share its buffer. A locked instruction waits until
//! all earlier stores have reached the cache. Here these stores go to tables that are larger than the caches.
#![allow(unsafe_code)]

#[cfg(not(loom))]
mod chunks;
mod stock;

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use byname_lookup::prefetch;

use crate::sync::{AtomicU64, Ordering, fence};

/// Memory of a buffer of each class, in bytes: whole pairs of cache lines, which a processor fetches together. Most
/// Interests fit the first class, and most Data does not. So the buffers of a class are in use for about equally long, and
/// come back in the order of their addresses. The last class holds the largest packet and its link header.
const CLASS_BYTES: [usize; 7] = [128, 256, 640, 1280, 2304, 4608, 9344];
/// Least memory that a packet takes, in bytes.
pub(crate) const MIN_BUFFER_BYTES: usize = CLASS_BYTES[0];
/// Most memory that a packet takes, in bytes.
pub(crate) const MAX_BUFFER_BYTES: usize = CLASS_BYTES[CLASS_BYTES.len() - 1];
/// Bytes in the largest packet.
const BYTES_MAX: usize = 9216;
/// Bytes of a buffer to prefetch. Beyond them, the processor's own prefetcher is faster than our requests.
const ASKED_BYTES: usize = 1280;

/// Parts of a buffer that a new packet holds.
const PARTS: u64 = 1 << 15;

/// Header of a buffer, in its first cache line.
#[repr(C, align(16))]
struct Header {
    /// Number of parts that packets hold.
    parts: AtomicU64,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(cfg!(loom) || HEADER_BYTES == 16);
const _: () = assert!(BYTES_MAX <= bytes_of(CLASS_BYTES.len() - 1));

/// Bytes that a buffer of a class holds.
const fn bytes_of(class: usize) -> usize {
    // 16 for the header, even where a model's header is larger.
    CLASS_BYTES[class] - 16
}

fn class_of(len: usize) -> Option<usize> {
    (0..CLASS_BYTES.len()).find(|class| len <= bytes_of(*class))
}

/// A buffer: either no packet holds it, or its packets count their parts.
#[derive(Clone, Copy)]
struct Buffer(NonNull<Header>);

impl Buffer {
    /// Prefetches the buffer for writing: the whole of most buffers. `class` must be its class.
    #[inline]
    fn prefetch(self, class: usize) {
        let bytes = CLASS_BYTES[class].min(ASKED_BYTES);
        // SAFETY: the buffer owns this many bytes, and this code does not look at them.
        prefetch::write_all(unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>(), bytes) });
    }

    fn bytes(self) -> NonNull<u8> {
        // SAFETY: the bytes follow the header in the same memory.
        unsafe { self.0.cast::<u8>().add(HEADER_BYTES) }
    }
}

/// A packet: read-only while other packets share its buffer.
// Two words, which compilers keep in registers. A structure of narrower fields is written field by field and then moved
// as a whole. That move waits until all earlier stores have reached the cache.
pub struct Packet {
    /// `None`: there are no bytes.
    buffer: Option<Buffer>,
    stretch: Cell<Stretch>,
}

const _: () = assert!(size_of::<Packet>() == 16);

/// The packet's byte range and the rest of its state. From the lowest bit up: 16 bits of the first byte's offset, 16 of
/// the end, 16 of this packet's parts, then the buffer's class.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Stretch(u64);

impl Stretch {
    /// The first `len` bytes of a buffer, with all of its parts.
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

    fn with_bytes(self, range: Range<usize>) -> Stretch {
        Stretch(((self.0 >> 32) << 32) | ((range.end as u64) << 16) | range.start as u64)
    }

    fn with_parts(self, parts: u64) -> Stretch {
        Stretch((self.0 & !(0xffff << 32)) | (parts << 32))
    }
}

// SAFETY: a packet only reads its buffer's bytes, unless it holds all parts. Then no other packet of that buffer is
// left in any thread. Accesses by earlier packets happened before: they gave up their parts by a release, and this
// packet sees that by an acquire.
unsafe impl Send for Packet {}

impl Packet {
    /// An empty packet: no bytes and no buffer.
    pub(crate) const fn empty() -> Packet {
        Packet { buffer: None, stretch: Cell::new(Stretch(0)) }
    }

    /// A packet holding a copy of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is longer than the largest packet (9,216 bytes).
    #[inline]
    pub fn copy_from(bytes: &[u8]) -> Packet {
        Packet::build(bytes.len(), |buffer| buffer.copy_from_slice(bytes))
    }

    /// A packet of `len` bytes that `fill` writes. Bytes that `fill` leaves out have unspecified values.
    ///
    /// # Panics
    /// If `len` is above 9,216.
    #[inline]
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Packet {
        let class = class_of(len).filter(|_| len <= BYTES_MAX).expect("caller keeps packets within 9,216 bytes");
        let buffer = stock::take(class);
        // SAFETY: the buffer is valid, and only this function reaches it: no packet holds it, and it has left the
        // stock.
        unsafe { buffer.0.as_ref() }.parts.store(PARTS, Ordering::Relaxed);
        // SAFETY: `len` bytes lie in the buffer, they are initialized (zeros at first), and nothing else reaches them.
        // If `fill` panics, the buffer is lost.
        fill(unsafe { std::slice::from_raw_parts_mut(buffer.bytes().as_ptr(), len) });
        Packet { buffer: Some(buffer), stretch: Cell::new(Stretch::whole(class, len)) }
    }

    /// Narrows this packet to `range` of its bytes, in the same buffer.
    pub fn slice(self, range: Range<usize>) -> Packet {
        assert!(range.start <= range.end && range.end <= self.len());
        let stretch = self.stretch.get();
        self.stretch.set(stretch.with_bytes(stretch.start() + range.start..stretch.start() + range.end));
        self
    }

    /// Puts `packet` in the place of this one, which must be empty. Does not read this packet: it may just have been
    /// written together with others as a whole, and then a narrower read waits until all earlier stores have reached
    /// the cache.
    #[inline]
    pub fn fill(&mut self, packet: Packet) {
        debug_assert!(self.buffer.is_none(), "a buffer would be lost");
        std::mem::forget(std::mem::replace(self, packet));
    }

    /// Takes this packet and leaves an empty one in its place.
    pub(crate) fn take(&mut self) -> Packet {
        std::mem::take(self)
    }

    /// The bytes, if no other packet shares this packet's buffer.
    #[inline]
    pub fn unshared_mut(&mut self) -> Option<&mut [u8]> {
        let buffer = self.buffer.filter(|_| self.is_alone())?;
        // SAFETY: `start..end` lies in the buffer, and its bytes are initialized (zeros at first). This packet is
        // borrowed mutably, and no other packet reaches them.
        Some(unsafe {
            let Range { start, end } = self.range();
            std::slice::from_raw_parts_mut(buffer.bytes().add(start).as_ptr(), end - start)
        })
    }

    /// Memory of this packet's buffer, in bytes.
    #[inline]
    pub fn memory_bytes(&self) -> usize {
        if self.buffer.is_some() { CLASS_BYTES[self.stretch.get().class()] } else { 0 }
    }

    /// Prefetches the first `len` bytes and the count of parts.
    #[inline]
    pub(crate) fn prefetch(&self, len: usize) {
        if let Some(buffer) = self.buffer {
            let end = bytes_of(self.stretch.get().class()).min(self.range().start + len).max(1);
            // SAFETY: this many bytes lie in the buffer, and this code does not look at them. The first of them is in
            // the header's cache line.
            prefetch::read_all_soon(unsafe { std::slice::from_raw_parts(buffer.bytes().as_ptr(), end) });
        }
    }

    /// As [`Packet::prefetch`], for a packet from another thread: the count of parts is written soon.
    #[inline]
    pub(crate) fn prefetch_from_afar(&self, len: usize) {
        if let Some(buffer) = self.buffer {
            // SAFETY: the header is valid as long as a packet holds a part of the buffer.
            prefetch::write_all(unsafe { buffer.0.as_ref() });
        }
        self.prefetch(len);
    }

    /// Whether no other packet shares this one's buffer.
    #[inline]
    fn is_alone(&self) -> bool {
        // SAFETY: the buffer is valid as long as a packet holds a part of it.
        let parts = |buffer: Buffer| unsafe { buffer.0.as_ref() }.parts.load(Ordering::Acquire);
        self.buffer.is_none_or(|buffer| parts(buffer) == self.stretch.get().parts())
    }

    /// The range of this packet's bytes in its buffer.
    #[inline]
    fn range(&self) -> Range<usize> {
        let stretch = self.stretch.get();
        stretch.start()..stretch.end()
    }
}

/// An empty packet.
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
    /// Adds parts to a packet that has none to spare: half of them for a clone, the others for later clones. Returns the
    /// clone's.
    #[cold]
    fn more_parts(&self) -> u64 {
        if let Some(buffer) = self.buffer {
            // SAFETY: this packet holds a part. Relaxed: parts are taken away later, by this thread or by one that the
            // clone was handed to.
            unsafe { buffer.0.as_ref() }.parts.fetch_add(PARTS, Ordering::Relaxed);
        }
        let stretch = self.stretch.get();
        self.stretch.set(stretch.with_parts(stretch.parts() + PARTS / 2));
        PARTS / 2
    }
}

impl Deref for Packet {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        let Some(buffer) = self.buffer else { return &[] };
        // SAFETY: `start..end` lies in the buffer, its bytes are initialized (zeros at first), and the buffer lives as
        // long as this packet. The bytes are not written while another packet shares the buffer, nor through this
        // packet while it is borrowed.
        unsafe {
            let Range { start, end } = self.range();
            std::slice::from_raw_parts(buffer.bytes().add(start).as_ptr(), end - start)
        }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        let own = self.stretch.get().parts();
        // SAFETY: this packet's parts keep the buffer alive until they are taken away.
        let parts = unsafe { &buffer.0.as_ref().parts };
        // A packet that holds all parts is the only one: no other can drop parts or clone. Otherwise, after the locked
        // instruction, the buffer is not ours any more unless these parts were the last.
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
        write!(f, "Packet({} bytes)", self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

/// A model's buffers are allocated one by one, and freed as soon as no packet holds them.
#[cfg(loom)]
mod chunks {
    use std::alloc::Layout;

    use super::{Buffer, Header, bytes_of};
    use crate::sync::{AtomicU64, alloc};

    pub(super) const BATCH: usize = 1;

    fn layout(class: usize) -> Layout {
        Layout::from_size_align(size_of::<Header>() + bytes_of(class), 64).expect("classes are small")
    }

    pub(super) fn take(class: usize, stock: &mut Vec<Buffer>) {
        // SAFETY: the layout is not of size zero, and an aligned header fits at the start of the memory.
        stock.push(unsafe {
            let header = alloc::alloc_zeroed(layout(class)).cast::<Header>();
            header.write(Header { parts: AtomicU64::new(0) });
            Buffer(std::ptr::NonNull::new(header).expect("there is memory"))
        });
    }

    pub(super) fn give(class: usize, buffers: &mut [Buffer]) {
        for buffer in buffers {
            // SAFETY: no packet holds the buffer, and it was allocated with this layout.
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

    /// Stands for a buffer's bytes: loom tracks who reads and writes them.
    struct Bytes(UnsafeCell<()>);

    // SAFETY: loom checks each access; the model exists for that.
    unsafe impl Sync for Bytes {}

    /// Three packets of one buffer, dropped in a thread each. The one that is left alone is written to. Loom would
    /// report a buffer that is lost or freed twice.
    #[test]
    fn a_packet_that_is_alone_has_seen_the_others_go() {
        loom::model(|| {
            let bytes = Arc::new(Bytes(UnsafeCell::new(())));
            let mut packet = Packet::copy_from(b"bytes");
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (share, bytes) = (packet.clone(), bytes.clone());
                    loom::thread::spawn(move || {
                        bytes.0.with(|_| assert_eq!(*share, *b"bytes"));
                        drop(share);
                    })
                })
                .collect();
            if let Some(first) = packet.unshared_mut() {
                bytes.0.with_mut(|_| first[0] = b'O');
            }
            drop(packet);
            others.into_iter().for_each(|other| other.join().expect("it does not panic"));
        });
    }
}
