//! Software prefetch, on the processors that have one; nothing elsewhere.
#![allow(unsafe_code)]

/// Asks the memory for the cache line at `place`, into all levels of cache. Changes no result.
#[inline(always)]
pub fn read<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program can see and faults on no address; every
    // x86-64 processor has SSE, which it belongs to.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
