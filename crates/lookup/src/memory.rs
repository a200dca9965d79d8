//! Memory for tables: zeroed cache lines on pages of a chosen size, vectors on large pages, and
//! chunks that a caller cuts into pieces.
//!
//! A table larger than the TLB's reach pays a page walk for every random read. [Yuan §3.3.2]
//! measured 31 to 47 % less latency with pages of 2 MiB, and another 4 to 8 % less with 1 GiB.
#![allow(unsafe_code)]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use thiserror::Error;

use crate::sync::AtomicU64;

/// One cache line of eight words. Each word is read and written on its own.
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

const _: () = assert!(cfg!(loom) || size_of::<Line>() == 64);

/// The size of a table's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// 4 KiB on most machines.
    Small,
    /// 2 MiB where the kernel has them. The kernel decides (`madvise`).
    #[default]
    Large,
    /// 2 MiB, which the operator has reserved.
    Reserved2M,
    /// 1 GiB, which the operator has reserved.
    Reserved1G,
}

impl Pages {
    /// The command by which an operator reserves `bytes` on pages of this size. `None` if no
    /// reservation is needed.
    fn reservation(self, bytes: usize) -> Option<String> {
        let (shift, folder) = match self {
            Pages::Small | Pages::Large => return None,
            Pages::Reserved2M => (21, "hugepages-2048kB"),
            Pages::Reserved1G => (30, "hugepages-1048576kB"),
        };
        let pages = bytes.div_ceil(1 << shift);
        Some(format!("as root: echo {pages} > /sys/kernel/mm/hugepages/{folder}/nr_hugepages"))
    }
}

/// Cache lines, zero at first. The readers and the writer share them.
pub(crate) struct Lines {
    first: NonNull<Line>,
    len: usize,
    store: Store,
}

/// The allocation that holds the lines. Only [`Lines`] accesses it.
enum Store {
    Heap(#[allow(dead_code, reason = "kept alive, read through `Lines::first`")] HeapLines),
    #[cfg(target_os = "linux")]
    Mapped(memmap2::MmapMut),
}

/// Lines from the heap. Not a `Box`, because moving that would claim that no other pointer leads into it.
struct HeapLines(NonNull<[Line]>);

impl Drop for HeapLines {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box, and this is its only owner. `Lines`, through which alone others
        // reach the lines, is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: `first` points into `store`, which moves with it and may go to another thread. The memory
// holds atomics, which any thread may read and write.
unsafe impl Send for Lines {}
// SAFETY: as above.
unsafe impl Sync for Lines {}

/// A large page.
const LARGE_BYTES: usize = 1 << 21;
/// Tables smaller than this lie on the heap. A mapping of their own would waste most of a page.
const MAPPED_BYTES_MIN: usize = LARGE_BYTES;

impl Lines {
    /// `lines` lines on pages of the given size.
    ///
    /// # Errors
    /// If the kernel refuses. The error text says what to do.
    pub(crate) fn zeroed(lines: usize, pages: Pages) -> io::Result<Self> {
        let bytes = lines.checked_mul(size_of::<Line>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // A small table would leave most of a large page unused.
        let pages = if pages == Pages::Reserved1G && bytes < 1 << 29 { Pages::Large } else { pages };
        let reserved = pages.reservation(bytes).is_some();
        if cfg!(loom) || cfg!(miri) || !cfg!(target_os = "linux") || (bytes < MAPPED_BYTES_MIN && !reserved) {
            let store = (0..lines).map(|_| Line(std::array::from_fn(|_| AtomicU64::new(0)))).collect::<Box<[_]>>();
            let store = NonNull::from(Box::leak(store));
            return Ok(Lines { first: store.cast(), len: lines, store: Store::Heap(HeapLines(store)) });
        }
        #[cfg(target_os = "linux")]
        {
            let mut map = Self::map(bytes, pages)?;
            let first = NonNull::from(&mut map[..]).cast();
            Ok(Lines { first, len: lines, store: Store::Mapped(map) })
        }
        #[cfg(not(target_os = "linux"))]
        unreachable!("the heap was taken")
    }

    /// The lines that `file` holds from byte `offset` on, mapped: processes that map the same file
    /// share its memory. A line that is written becomes this process's own, and the file stays as
    /// it is.
    ///
    /// If the file is changed by another process meanwhile, its lines may change, too: words are
    /// then arbitrary, as in a damaged file. If it is cut, access to a line behind its new end ends
    /// the process.
    ///
    /// # Errors
    /// If the file has no such bytes, or the kernel refuses the mapping.
    ///
    /// # Panics
    /// If `offset` is not that of a line.
    #[cfg(target_os = "linux")]
    pub(crate) fn mapped(file: &std::fs::File, offset: u64, lines: usize) -> io::Result<Self> {
        assert!(offset.is_multiple_of(size_of::<Line>() as u64));
        let bytes = lines.checked_mul(size_of::<Line>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let end = offset.checked_add(bytes as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        if bytes == 0 || end > file.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: all access to the mapping is through `Line`, whose words are atomics that may have
        // any value. A change by another process is like a store by another thread.
        let mut map =
            unsafe { memmap2::MmapOptions::new().offset(offset).len(bytes).no_reserve_swap().map_copy(file)? };
        let first: NonNull<Line> = NonNull::from(&mut map[..]).cast();
        debug_assert!(first.is_aligned());
        Ok(Lines { first, len: lines, store: Store::Mapped(map) })
    }

    /// As [`Lines::zeroed`], for lines that are used from the first on, and perhaps never all. The
    /// first few hundred kilobytes then take as much memory as is used of them, and not a large page.
    pub(crate) fn growing(lines: usize, pages: Pages) -> io::Result<Self> {
        if pages != Pages::Large {
            return Self::zeroed(lines, pages);
        }
        let lines = Self::zeroed(lines, Pages::Small)?;
        #[cfg(target_os = "linux")]
        if let Store::Mapped(map) = &lines.store
            && map.len() > 2 * LARGE_BYTES
        {
            // As in `map`. The kernel uses large pages where a whole one fits into the rest.
            let _ = map.advise_range(memmap2::Advice::HugePage, LARGE_BYTES, map.len() - LARGE_BYTES);
        }
        Ok(lines)
    }

    #[cfg(target_os = "linux")]
    fn map(bytes: usize, pages: Pages) -> io::Result<memmap2::MmapMut> {
        let page_bits = match pages {
            Pages::Small | Pages::Large => None,
            Pages::Reserved2M => Some(21),
            Pages::Reserved1G => Some(30),
        };
        let mut options = memmap2::MmapOptions::new();
        match page_bits {
            Some(bits) => options.len(bytes.next_multiple_of(1 << bits)).huge(Some(bits)),
            None => options.len(bytes),
        };
        let map = options.map_anon().map_err(|error| match pages.reservation(bytes) {
            Some(command) => io::Error::new(error.kind(), format!("no pages of that size are left ({command})")),
            None => error,
        })?;
        if pages == Pages::Large {
            // An error means that the kernel has no such pages. Small pages work too, slower.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Ok(map)
    }

    /// Finds the pages of a mapped file ahead, without making them this process's own.
    #[cfg(target_os = "linux")]
    pub(crate) fn touch(&self) {
        if let Store::Mapped(map) = &self.store {
            // As in `prefault`: without the advice, pages come when they are read.
            let _ = map.advise(memmap2::Advice::PopulateRead);
        }
    }

    /// Touches each page, so that no lookup or change pays for a first touch.
    pub(crate) fn prefault(&self) {
        #[cfg(target_os = "linux")]
        if let Store::Mapped(map) = &self.store {
            // Kernels before Linux 5.14 do not know this advice. Pages then come when they are
            // touched.
            let _ = map.advise(memmap2::Advice::PopulateWrite);
        }
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        // SAFETY: `first` and `len` are those of the heap's box, or of a mapping that holds at least
        // `len` lines. A mapping begins at a page, or at a line of a mapped file, so it is aligned. `store` keeps either alive and
        // in place as long as `self`, whose borrow the slice has. `Line` is eight `AtomicU64`, for
        // which every bit pattern is valid. Only this slice gives access to the lines, so all
        // accesses are atomic.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

/// Bytes that are gathered for a while. The system gets them back with the drop, while an allocator
/// may keep what a vector leaves.
#[derive(Default)]
pub(crate) struct Scratch {
    store: Option<ScratchStore>,
    len: usize,
}

#[cfg(all(target_os = "linux", not(miri)))]
type ScratchStore = memmap2::MmapMut;
#[cfg(any(not(target_os = "linux"), miri))]
type ScratchStore = Vec<u8>;

impl Scratch {
    /// Room at first, in bytes. The system provides it only as it is used.
    const ROOM_MIN: usize = 1 << 18;

    /// Adds bytes.
    ///
    /// # Errors
    /// If the system refuses so many.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let len = self.len + bytes.len();
        if self.store.as_ref().is_none_or(|store| store.len() < len) {
            let mut larger = Self::room(len.next_power_of_two().max(Self::ROOM_MIN))?;
            larger[..self.len].copy_from_slice(self);
            self.store = Some(larger);
        }
        let store = self.store.as_mut().expect("it was made");
        store[self.len..len].copy_from_slice(bytes);
        self.len = len;
        Ok(())
    }

    fn room(bytes: usize) -> Result<ScratchStore, Refused> {
        #[cfg(all(target_os = "linux", not(miri)))]
        let store = memmap2::MmapMut::map_anon(bytes).map_err(|_| Refused { bytes });
        #[cfg(any(not(target_os = "linux"), miri))]
        let store = with_room(bytes).map(|mut store| {
            store.resize(bytes, 0);
            store
        });
        store
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.store.as_ref().map_or(&[], |store| &store[..self.len])
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.store.as_mut().map_or(&mut [], |store| &mut store[..self.len])
    }
}

/// The system refused memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the system refuses {bytes} bytes of memory")]
pub struct Refused {
    /// Number of bytes requested.
    pub bytes: usize,
}

/// An empty vector with room for `capacity` elements, on large pages where the kernel has them. The
/// system provides memory only as it is used.
///
/// # Errors
/// If the system refuses that much.
pub fn with_large_pages<T>(capacity: usize) -> Result<Vec<T>, Refused> {
    let table = with_room(capacity)?;
    advise(&table);
    Ok(table)
}

/// An empty vector with room for `capacity` elements.
///
/// # Errors
/// If the system refuses that much.
pub fn with_room<T>(capacity: usize) -> Result<Vec<T>, Refused> {
    let mut table = Vec::new();
    let refused = Refused { bytes: capacity.saturating_mul(size_of::<T>()) };
    table.try_reserve_exact(capacity).map(|()| table).map_err(|_| refused)
}

/// Makes room for `len` elements in total, on large pages.
pub fn reserve<T>(table: &mut Vec<T>, len: usize) {
    if table.capacity() < len {
        table.reserve(len - table.len());
        advise(table);
    }
}

/// Advises large pages wherever a whole one fits into the vector's memory.
fn advise<T>(table: &Vec<T>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let first = table.as_ptr().cast::<u8>();
        let before = first.align_offset(LARGE_BYTES);
        let bytes = (table.capacity() * size_of::<T>()).saturating_sub(before) & !(LARGE_BYTES - 1);
        if bytes > 0 {
            // SAFETY: these pages belong to the vector, and the advice changes their size, not
            // their contents.
            let _ = unsafe {
                rustix::mm::madvise(
                    first.wrapping_add(before).cast_mut().cast(),
                    bytes,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = table;
}

/// 2 MiB of zeroed memory, aligned to its size. The system provides memory only as it is used, and
/// gets it back when the chunk is dropped. The owner must drop it only when nothing points into it
/// any more.
pub struct Chunk(NonNull<u8>);

// SAFETY: a chunk is only an address. Any thread may ask for it or drop the chunk.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Size and alignment of a chunk in bytes.
    pub const BYTES: usize = LARGE_BYTES;

    /// A new chunk.
    ///
    /// # Errors
    /// If the system has no memory.
    pub fn zeroed() -> io::Result<Chunk> {
        Self::map().map(Chunk)
    }

    /// The address of byte `at`.
    ///
    /// # Panics
    /// If `at` is out of bounds.
    #[inline]
    pub fn place(&self, at: usize) -> NonNull<u8> {
        assert!(at < Self::BYTES);
        // SAFETY: the place is within the chunk.
        unsafe { self.0.add(at) }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn map() -> io::Result<NonNull<u8>> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // A mapping twice as large contains an aligned chunk, wherever the kernel puts it.
        // SAFETY: a new anonymous mapping.
        let first = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * Self::BYTES, access, MapFlags::PRIVATE)? };
        let before = first.cast::<u8>().align_offset(Self::BYTES);
        let chunk = first.wrapping_byte_add(before);
        // If the kernel refuses to take a part back, that part stays unused.
        // SAFETY: these parts of the new mapping lie before and behind the chunk; nobody uses them.
        unsafe {
            if before > 0 {
                let _ = munmap(first, before);
            }
            let _ = munmap(chunk.wrapping_byte_add(Self::BYTES), Self::BYTES - before);
        }
        NonNull::new(chunk.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    fn map() -> io::Result<NonNull<u8>> {
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(Self::LAYOUT) }).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    const LAYOUT: std::alloc::Layout = match std::alloc::Layout::from_size_align(Self::BYTES, Self::BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two is an alignment"),
    };
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the chunk belongs to its owner alone, who promised that nothing points into it.
        #[cfg(all(target_os = "linux", not(miri)))]
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), Self::BYTES) };
        // SAFETY: as above. The memory was allocated with this layout.
        #[cfg(any(not(target_os = "linux"), miri))]
        unsafe {
            std::alloc::dealloc(self.0.as_ptr(), Self::LAYOUT);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn lines_are_zero_and_keep_what_is_written() {
        let many = if cfg!(miri) { 100 } else { 100_000 };
        for (count, pages) in [(3, Pages::Small), (many, Pages::Small), (many, Pages::Large)] {
            let lines = Lines::zeroed(count, pages).expect("a few megabytes");
            lines.prefault();
            assert_eq!(lines.len(), count);
            assert!(lines.iter().all(|line| line.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)));
            lines[count - 1].0[7].store(5, Ordering::Relaxed);
            assert_eq!(lines[count - 1].0[7].load(Ordering::Relaxed), 5);
            assert_eq!(&lines[0] as *const Line as usize % 64, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "megabytes, by safe code")]
    fn gathered_bytes_are_those_that_were_added() {
        let (mut scratch, mut right) = (Scratch::default(), Vec::new());
        assert_eq!((&*scratch, scratch.len()), (&[][..], 0));
        for i in 0..20 {
            let bytes = vec![i; 99_999 * usize::from(i)];
            scratch.extend(&bytes).expect("some megabytes");
            right.extend(bytes);
        }
        assert!(*scratch == *right && right.len() > 4 * Scratch::ROOM_MIN);
        scratch[7] = 9;
        assert_eq!(scratch[7], 9);
    }

    /// Bytes on large pages in the mapping at this address, as the kernel counts them.
    #[cfg(target_os = "linux")]
    fn bytes_on_large_pages(address: usize) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds = range.map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)));
            if let Some((Ok(from), Ok(to))) = bounds {
                inside = (from..to).contains(&address);
            } else if inside && let Some(kib) = line.strip_prefix("AnonHugePages:") {
                return kib.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10;
            }
        }
        panic!("no mapping at {address:x}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no pages")]
    #[cfg(target_os = "linux")]
    fn tables_lie_on_pages_of_the_size_that_was_asked_for() {
        let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if !mode.contains("[madvise]") && !mode.contains("[always]") {
            eprintln!("skipped: this kernel has no transparent large pages");
            return;
        }
        let bytes = 16 << 20;
        let on_large_pages = |pages| {
            let lines = Lines::zeroed(bytes / size_of::<Line>(), pages).expect("16 MB");
            lines.prefault();
            bytes_on_large_pages(lines.as_ptr().addr())
        };
        // The ends of a mapping lie on small pages, and the kernel may lack some large ones.
        let large = on_large_pages(Pages::Large);
        assert!(large >= bytes / 2, "{large} of {bytes} bytes");
        if mode.contains("[madvise]") {
            assert_eq!(on_large_pages(Pages::Small), 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "four million elements")]
    fn vectors_on_large_pages_keep_what_they_hold() {
        let mut table = with_large_pages::<u64>(1 << 20).expect("a few megabytes");
        let first = table.as_ptr();
        table.extend(0..1 << 20);
        assert_eq!(table.as_ptr(), first);
        reserve(&mut table, 2 << 20);
        table.extend(1 << 20..2 << 20);
        assert!(table.iter().copied().eq(0..2 << 20));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri stops where a system refuses")]
    fn refused_vectors_say_how_much_was_asked_for() {
        assert_eq!(with_large_pages::<u64>(1 << 58), Err(Refused { bytes: 1 << 61 }));
        assert_eq!(with_room::<u64>(usize::MAX), Err(Refused { bytes: usize::MAX }));
    }

    #[test]
    fn chunks_are_aligned_zero_and_their_owners_alone() {
        let chunks: Vec<_> = (0..10).map(|_| Chunk::zeroed().expect("a few megabytes")).collect();
        for (i, chunk) in (1..).zip(&chunks) {
            assert_eq!(chunk.place(0).addr().get() % Chunk::BYTES, 0);
            for at in [0, 4096, Chunk::BYTES - 1] {
                // SAFETY: the chunk is this test's, and there is no reference into it.
                unsafe {
                    assert_eq!(chunk.place(at).read(), 0);
                    chunk.place(at).write(i);
                }
            }
        }
        // SAFETY: as above.
        let first = |chunk: &Chunk| unsafe { chunk.place(0).read() };
        assert!((1..).zip(&chunks).all(|(i, chunk)| first(chunk) == i));
        assert!(std::panic::catch_unwind(|| Chunk::zeroed().map(|chunk| chunk.place(Chunk::BYTES))).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no pages")]
    fn refused_pages_come_with_the_command_to_reserve_them() {
        // More than any machine has reserved.
        let Err(error) = Lines::zeroed(1 << 40, Pages::Reserved1G) else { panic!("64 TiB of reserved pages") };
        assert!(error.to_string().contains("nr_hugepages"), "{error}");
    }
}
