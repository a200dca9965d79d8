//! Memory that another process reads and writes at the same time.
//!
//! What is in it may change between any two looks, whatever the protocol says. So nobody gets a
//! reference to it: words are read and written as atomics, octets are copied out and in, and each
//! place is checked against the length of the memory. A file that its owner could still shorten is not mapped: its
//! pages would go, and a look at them would end this process (SIGBUS).
//!
//! Rust's rules for races speak of threads and not of other processes. Threads of this one cannot
//! share a mapping: it is not `Sync`.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use byname_lookup::prefetch;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use thiserror::Error;

/// Why a file is not mapped.
#[derive(Debug, Error)]
pub enum MapError {
    /// Its owner may shorten it.
    #[error("the memory is not sealed against shrinking (F_SEAL_SHRINK)")]
    Unsealed,
    /// It is shorter than it was said to be.
    #[error("the memory has {actual} octets instead of {claimed}")]
    Short {
        /// What it was said to have.
        claimed: u64,
        /// What it has.
        actual: u64,
    },
    /// The system refuses.
    #[error("the memory cannot be mapped: {0}")]
    System(#[from] io::Error),
}

/// A stretch of shared memory.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
    /// Not `Sync`; see the module.
    _one_thread: PhantomData<Cell<u8>>,
}

impl SharedMemory {
    /// New memory, of zeros, and the descriptor to share it by. Nobody can shorten or lengthen it.
    pub fn create(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = rustix::fs::memfd_create("byname-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = MmapOptions::new().len(bytes).map_raw(&fd)?;
        Ok((SharedMemory { map, _one_thread: PhantomData }, fd))
    }

    /// The first `bytes` octets of a peer's memory.
    pub fn map(fd: impl AsFd, bytes: u64) -> Result<Self, MapError> {
        // Before the length is asked for, which may only grow from here on.
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| MapError::Unsealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(MapError::Unsealed);
        }
        let stat = rustix::fs::fstat(&fd).map_err(io::Error::from)?;
        let actual = u64::try_from(stat.st_size).unwrap_or(0);
        let len = usize::try_from(bytes).ok().filter(|_| bytes > 0 && bytes <= actual);
        let len = len.ok_or(MapError::Short { claimed: bytes, actual })?;
        let map = MmapOptions::new().len(len).map_raw(&fd.as_fd()).map_err(MapError::System)?;
        Ok(SharedMemory { map, _one_thread: PhantomData })
    }

    /// Its length in octets.
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// The half word at an offset.
    ///
    /// # Panics
    /// As [`SharedMemory::u64_at`].
    #[inline]
    pub fn u16_at(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: `word` has checked the place; it lives as long as the mapping, which `self` owns. All
        // that this process does with this memory is atomic, or a copy by `read` and `write` of octets whose value
        // nobody relies on.
        unsafe { AtomicU16::from_ptr(self.word(offset)) }
    }

    /// The word at an offset.
    ///
    /// # Panics
    /// As [`SharedMemory::u64_at`].
    #[inline]
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in `u16_at`.
        unsafe { AtomicU32::from_ptr(self.word(offset)) }
    }

    /// The double word at an offset.
    ///
    /// # Panics
    /// If it is not whole in this memory, or not aligned: the caller has checked where its words
    /// are.
    #[inline]
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u16_at`.
        unsafe { AtomicU64::from_ptr(self.word(offset)) }
    }

    /// Copies octets out; `None`, and nothing is copied, where they are not all in this memory.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        let from = self.place(offset, to.len())?;
        // SAFETY: `place` has checked that so many octets are in the mapping, and `to` is exclusively
        // ours, so the two do not overlap. The peer may write while we read: then the copy has octets of both, as any
        // frame of a stranger might; it is looked at only after it was made.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies octets in; `None`, and nothing is copied, where this memory has no such place.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        let to = self.place(offset, from.len())?;
        // SAFETY: `place` has checked that so many octets are in the mapping. No reference to them exists but
        // to single atomics, so `from` is elsewhere. The peer may write there at the same time, and spoils its own frame.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Some(())
    }

    /// Asks the memory for the cache line at an offset, if there is one.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        if let Some(place) = self.place(offset, 1) {
            // SAFETY: the octet is in the mapping, and an `UnsafeCell` may be written by others; it is not read.
            prefetch::read(unsafe { &*place.cast::<UnsafeCell<u8>>() });
        }
    }

    #[inline]
    fn word<T>(&self, offset: usize) -> *mut T {
        let place = self.place(offset, size_of::<T>()).expect("the caller has checked where its words are");
        assert!(place.addr().is_multiple_of(align_of::<T>()), "words are aligned");
        place.cast()
    }

    /// Where `len` octets begin, if all of them are in this memory.
    #[inline]
    fn place(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        (end <= self.map.len()).then(|| self.map.as_mut_ptr().wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_one_end_writes_the_other_reads() {
        let (ours, fd) = SharedMemory::create(5000).expect("memory");
        let theirs = SharedMemory::map(&fd, 5000).expect("sealed");
        assert_eq!(theirs.bytes(), 5000);
        ours.write(4995, b"hello").expect("within");
        let mut octets = [0; 5];
        theirs.read(4995, &mut octets).expect("within");
        assert_eq!(&octets, b"hello");
        theirs.u16_at(6).store(7, Ordering::Relaxed);
        theirs.u64_at(8).store(u64::MAX, Ordering::Relaxed);
        assert_eq!((ours.u16_at(6).load(Ordering::Relaxed), ours.u32_at(12).load(Ordering::Relaxed)), (7, u32::MAX));
        ours.prefetch(4999);
        ours.prefetch(5000);
    }

    #[test]
    fn nothing_is_copied_beyond_the_end() {
        let (memory, _fd) = SharedMemory::create(64).expect("memory");
        let mut octets = [1; 10];
        for offset in [55, 64, 65, usize::MAX - 5, usize::MAX] {
            assert_eq!((memory.read(offset, &mut octets), memory.write(offset, &octets)), (None, None), "{offset}");
        }
        assert_eq!(octets, [1; 10]);
        assert_eq!(memory.read(64, &mut []), Some(()));
    }

    #[test]
    #[should_panic(expected = "where its words are")]
    fn words_beyond_the_end_are_a_mistake_of_the_caller() {
        SharedMemory::create(64).expect("memory").0.u64_at(57);
    }

    #[test]
    fn memory_that_may_go_is_not_mapped() {
        let unsealed = rustix::fs::memfd_create("t", MemfdFlags::ALLOW_SEALING).expect("memory");
        rustix::fs::ftruncate(&unsealed, 4096).expect("long");
        assert!(matches!(SharedMemory::map(&unsealed, 4096), Err(MapError::Unsealed)));
        let file = tempfile::tempfile().expect("a file");
        file.set_len(4096).expect("long");
        assert!(matches!(SharedMemory::map(&file, 4096), Err(MapError::Unsealed)));
        let (_memory, fd) = SharedMemory::create(4096).expect("memory");
        for claimed in [0, 4097, u64::MAX] {
            assert!(matches!(SharedMemory::map(&fd, claimed), Err(MapError::Short { actual: 4096, .. })), "{claimed}");
        }
        rustix::fs::ftruncate(&fd, 100).expect_err("sealed");
    }
}
