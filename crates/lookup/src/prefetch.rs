//! Software prefetch, on the processors that have one; nothing elsewhere.
#![allow(unsafe_code)]

/// Octets of a cache line.
const LINE: usize = 64;

/// Asks the memory for the cache line at `place`, into the caches from the second level on. Changes
/// no result.
///
/// Not into the first: a core waits for few lines of that one at once (16 where this was measured),
/// and for some three times as many of the second. Random lines of a table beyond the caches came at
/// 112 to 126 million a second with 32 to 128 of them asked for ahead, against 73 to 88 million.
#[inline(always)]
pub fn read<T>(place: &T) {
    read_at(std::ptr::from_ref(place).cast());
}

/// Asks for all cache lines that `place` lies on, as [`read`].
#[inline(always)]
pub fn read_all<T: ?Sized>(place: &T) {
    each_line(place, read_at);
}

/// As [`read`], into the first level too: for what is read within the burst, as a worker does.
///
/// Beside ports, where a core's second level is busy with packets, what was asked for into that one alone came late: a
/// router made 0.82 million exchanges by memif a second of its time so, and 1.10 million with these. A worker alone, on tables
/// beyond the caches, is as fast either way.
#[inline(always)]
pub fn read_soon<T>(place: &T) {
    near_at(std::ptr::from_ref(place).cast());
}

/// Asks for all cache lines that `place` lies on, as [`read_soon`].
#[inline(always)]
pub fn read_all_soon<T: ?Sized>(place: &T) {
    each_line(place, near_at);
}

/// Asks for all cache lines that `place` lies on, to be written soon. Into the first level: what is
/// written next are a few lines, not a burst's.
#[inline(always)]
pub fn write_all<T: ?Sized>(place: &T) {
    each_line(place, write_at);
}

/// An address on each cache line that `place` lies on.
#[inline(always)]
fn each_line<T: ?Sized>(place: &T, ask: impl Fn(*const u8)) {
    let first = std::ptr::from_ref(place).cast::<u8>();
    let Some(last) = size_of_val(place).checked_sub(1) else { return };
    let lines = (first.addr() % LINE + last) / LINE;
    for line in 0..=lines {
        // An octet of each line, the first of which may begin before.
        ask(first.wrapping_add((line * LINE).min(last)));
    }
}

/// As [`read_at`], for a line that will be written.
#[inline(always)]
fn write_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `read_at`; a processor that does not know the hint takes it for another.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// As [`read_at`], for a line that is wanted in the first level.
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

/// Asks for the cache line at any address: nothing is read there that the program could see.
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
