//! Software prefetch on processors that have it; elsewhere nothing.
#![allow(unsafe_code)]

/// Length of a cache line in bytes.
const LINE: usize = 64;

/// Prefetches the cache line at `place` into the second-level cache and those beyond. Changes no
/// result.
///
/// Not into the first level: a core waits for few first-level lines at once (16 where this was
/// measured), and for about three times as many of the second. With 32 to 128 random lines of a
/// large table prefetched, 112 to 126 million a second arrived, against 73 to 88 million.
#[inline(always)]
pub fn read<T>(place: &T) {
    read_at(std::ptr::from_ref(place).cast());
}

/// Prefetches all cache lines that `place` lies on, like [`read`].
#[cfg(feature = "lab")]
#[inline(always)]
pub fn read_all<T: ?Sized>(place: &T) {
    each_line(place, read_at);
}

/// Like [`read`], into the first level too. For lines that a worker reads within the same burst.
///
/// With ports running, a core's second level is busy with packets, and lines prefetched into it
/// alone came late: a router made 0.82 million exchanges by memif per second of its time, and 1.10
/// million with these. A worker alone, on large tables, is as fast either way.
#[inline(always)]
pub fn read_soon<T>(place: &T) {
    near_at(std::ptr::from_ref(place).cast());
}

/// Prefetches all cache lines that `place` lies on, like [`read_soon`].
#[inline(always)]
pub fn read_all_soon<T: ?Sized>(place: &T) {
    each_line(place, near_at);
}

/// Prefetches all cache lines that `place` lies on, for writing soon. Into the first level: the
/// lines written next are few.
#[inline(always)]
pub fn write_all<T: ?Sized>(place: &T) {
    each_line(place, write_at);
}

/// Calls `ask` with an address on each cache line that `place` lies on.
#[inline(always)]
fn each_line<T: ?Sized>(place: &T, ask: impl Fn(*const u8)) {
    let first = std::ptr::from_ref(place).cast::<u8>();
    let Some(last) = size_of_val(place).checked_sub(1) else { return };
    let lines = (first.addr() % LINE + last) / LINE;
    for line in 0..=lines {
        // The first line may begin before `place`, so clamp the last address.
        ask(first.wrapping_add((line * LINE).min(last)));
    }
}

/// Like [`read_at`], for a line that will be written.
#[inline(always)]
fn write_at(place: *const u8) {
    // By name: compilers turn `_mm_prefetch` with a hint to write into `prefetcht0`, unless they are told that the
    // processor has `prefetchw`. All processors of this architecture either have it or do nothing.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as for `read_at`.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Like [`read_at`], for a line that is wanted in the first level.
#[inline(always)]
fn near_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `read_at`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Prefetches the cache line at any address. The program sees no read.
#[inline(always)]
fn read_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and faults on no address; every
    // x86-64 processor has SSE, which it belongs to.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
