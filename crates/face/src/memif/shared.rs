//! Memory that another process reads and writes at the same time.
//!
//! The memory may change between any two reads, whatever the protocol says. So there are no references to it. Words are
//! read and written as atomics, bytes are copied, and each place is checked against the length of the memory. A file
//! that its owner could still shorten is not mapped: its pages would disappear, and an access to them would end this
//! process (SIGBUS).
//!
//! Rust's rules for races are about threads, not about other processes. Threads of this process cannot share a mapping,
//! because it is not `Sync`.
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

/// Reason why a file is not mapped.
#[derive(Debug, Error)]
pub enum MapError {
    /// Its owner may shorten it.
    #[error("the memory is not sealed against shrinking (F_SEAL_SHRINK)")]
    Unsealed,
    /// It is shorter than claimed.
    #[error("the memory has {actual} bytes instead of {claimed}")]
    Short {
        /// Claimed length, in bytes.
        claimed: u64,
        /// Actual length, in bytes.
        actual: u64,
    },
    /// The system refuses.
    #[error("the memory cannot be mapped: {0}")]
    System(#[from] io::Error),
}

/// A region of shared memory.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
    /// Makes the type not `Sync`; see the module.
    _one_thread: PhantomData<Cell<u8>>,
}

impl SharedMemory {
    /// Creates memory of zeros, and the descriptor to share it. Nobody can shorten or lengthen it.
    pub fn create(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = rustix::fs::memfd_create("byname-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = MmapOptions::new().len(bytes).map_raw(&fd)?;
        Ok((SharedMemory { map, _one_thread: PhantomData }, fd))
    }

    /// Maps the first `bytes` bytes of a peer's memory.
    pub fn map(fd: impl AsFd, bytes: u64) -> Result<Self, MapError> {
        // Check the seals before the length, which can only grow from here on.
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

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// The 16-bit word at an offset.
    ///
    /// # Panics
    /// As [`SharedMemory::u64_at`].
    #[inline]
    pub fn u16_at(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: `word` has checked the place, which lives as long as the mapping, and `self` owns that. This process
        // accesses the memory only with atomics, or copies bytes with `read` and `write` whose values nobody relies on.
        unsafe { AtomicU16::from_ptr(self.word(offset)) }
    }

    /// The 32-bit word at an offset.
    ///
    /// # Panics
    /// As [`SharedMemory::u64_at`].
    #[inline]
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in `u16_at`.
        unsafe { AtomicU32::from_ptr(self.word(offset)) }
    }

    /// The 64-bit word at an offset.
    ///
    /// # Panics
    /// If it is not completely in this memory, or not aligned. The caller must check the places of its words first.
    #[inline]
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u16_at`.
        unsafe { AtomicU64::from_ptr(self.word(offset)) }
    }

    /// Copies bytes out. Returns `None`, and copies nothing, if they are not all in this memory.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        let from = self.place(offset, to.len())?;
        // SAFETY: `place` has checked that all these bytes are in the mapping. `to` is exclusively ours, so the two do
        // not overlap. If the peer writes at the same time, the copy holds a mix of old and new bytes. That is
        // harmless: a stranger's frame may hold any bytes, and only the finished copy is parsed.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies bytes in. Returns `None`, and copies nothing, if the place is not completely in this memory.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        let to = self.place(offset, from.len())?;
        // SAFETY: `place` has checked that all these bytes are in the mapping. The only references into the mapping are
        // to single atomics, so `from` is elsewhere. If the peer writes there at the same time, it spoils its own
        // frame.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Some(())
    }

    /// Prefetches the cache line at an offset, if there is one.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        if let Some(place) = self.place(offset, 1) {
            // SAFETY: the byte is in the mapping, and others may write to an `UnsafeCell`. The byte is not read.
            prefetch::read(unsafe { &*place.cast::<UnsafeCell<u8>>() });
        }
    }

    #[inline]
    fn word<T>(&self, offset: usize) -> *mut T {
        let place = self.place(offset, size_of::<T>()).expect("the caller has checked where its words are");
        assert!(place.addr().is_multiple_of(align_of::<T>()), "words are aligned");
        place.cast()
    }

    /// Pointer to `len` bytes at `offset`, if all of them are in this memory.
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
        let mut bytes = [0; 5];
        theirs.read(4995, &mut bytes).expect("within");
        assert_eq!(&bytes, b"hello");
        theirs.u16_at(6).store(7, Ordering::Relaxed);
        theirs.u64_at(8).store(u64::MAX, Ordering::Relaxed);
        assert_eq!((ours.u16_at(6).load(Ordering::Relaxed), ours.u32_at(12).load(Ordering::Relaxed)), (7, u32::MAX));
        ours.prefetch(4999);
        ours.prefetch(5000);
    }

    #[test]
    fn nothing_is_copied_beyond_the_end() {
        let (memory, _fd) = SharedMemory::create(64).expect("memory");
        let mut bytes = [1; 10];
        for offset in [55, 64, 65, usize::MAX - 5, usize::MAX] {
            assert_eq!((memory.read(offset, &mut bytes), memory.write(offset, &bytes)), (None, None), "{offset}");
        }
        assert_eq!(bytes, [1; 10]);
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
