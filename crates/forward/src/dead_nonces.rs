//! The dead nonce list: it remembers Interests that left the PIT recently and detects those that loop back.
//!
//! A set-associative table of fixed size. Each bucket is one cache line of eight digests of (name hash, nonce),
//! replaced first in, first out. When too many Interests leave within its lifetime, the table forgets some early. Such
//! an Interest can loop once more, and the PIT then catches it again. HopLimit bounds the rest.

use std::time::Duration;

use byname_lookup::memory::{self, Refused};
use byname_lookup::prefetch;

use crate::ticks::Ticks;

/// How long a nonce stays dead, as in NFD.
pub const LIFETIME: Duration = Duration::from_secs(6);

const WAYS: usize = 8;
/// Bits of a cell that hold the time of insertion, in units of 2^26 ns (67 ms). The digest has the rest.
const TIME_BITS: u32 = 16;
const TIME_SHIFT: u32 = 26;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Bucket {
    /// The digest in the upper bits, the time of insertion in the lowest. Zero means empty.
    cells: [u64; WAYS],
}

/// Nonces of Interests that have left the PIT.
pub struct DeadNonces {
    buckets: Vec<Bucket>,
    /// The way that the next insertion into a full bucket replaces.
    next_way: usize,
}

impl DeadNonces {
    /// A list that remembers about `entries` nonces.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(entries: usize) -> Result<Self, Refused> {
        let len = (entries / WAYS).next_power_of_two();
        let mut buckets = memory::with_large_pages(len)?;
        buckets.resize(len, Bucket { cells: [0; WAYS] });
        Ok(DeadNonces { buckets, next_way: 0 })
    }

    /// Remembers an Interest.
    pub fn insert(&mut self, now: Ticks, name_hash: u64, nonce: u32) {
        let (bucket, digest) = self.place(name_hash, nonce);
        let cell = digest | time_of(now);
        self.next_way = (self.next_way + 1) % WAYS;
        let cells = &mut self.buckets[bucket].cells;
        let way = cells
            .iter()
            .position(|c| *c == 0 || *c >> TIME_BITS == digest >> TIME_BITS || expired(*c, now))
            .unwrap_or(self.next_way);
        cells[way] = cell;
    }

    /// Whether the Interest is remembered.
    pub fn contains(&self, now: Ticks, name_hash: u64, nonce: u32) -> bool {
        let (bucket, digest) = self.place(name_hash, nonce);
        self.buckets[bucket].cells.iter().any(|c| *c >> TIME_BITS == digest >> TIME_BITS && !expired(*c, now))
    }

    /// Prefetches what the other functions will read.
    pub fn prefetch(&self, name_hash: u64, nonce: u32) {
        prefetch::read_soon(&self.buckets[self.place(name_hash, nonce).0]);
    }

    fn place(&self, name_hash: u64, nonce: u32) -> (usize, u64) {
        // The name hash is keyed. Strangers choose the nonce, so a multiplication spreads it over the hash.
        let mixed =
            (name_hash ^ u64::from(nonce).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let digest = (mixed ^ mixed >> 29) & !((1 << TIME_BITS) - 1);
        // The low bits of a product depend only on the low bits of its factors, and strangers could keep those equal.
        let bucket = (mixed ^ mixed >> 32) as usize & (self.buckets.len() - 1);
        // Never zero, which means empty.
        (bucket, digest | 1 << TIME_BITS)
    }
}

fn time_of(now: Ticks) -> u64 {
    now.0 >> TIME_SHIFT & ((1 << TIME_BITS) - 1)
}

fn expired(cell: u64, now: Ticks) -> bool {
    let age = time_of(now).wrapping_sub(cell) & ((1 << TIME_BITS) - 1);
    // The time in a cell wraps after 73 minutes. A cell that old may then count as fresh for 6 s.
    age > (LIFETIME.as_nanos() as u64) >> TIME_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_for_its_lifetime() {
        let mut list = DeadNonces::new(1024).expect("a few kilobytes");
        let t = Ticks::from_ms(1000);
        list.insert(t, 0xabcd, 1);
        assert!(list.contains(t + Duration::from_secs(5), 0xabcd, 1));
        assert!(!list.contains(t + Duration::from_secs(5), 0xabcd, 2));
        assert!(!list.contains(t + Duration::from_secs(5), 0xabce, 1));
        assert!(!list.contains(t + Duration::from_secs(7), 0xabcd, 1));
    }

    #[test]
    fn holds_about_what_it_is_made_for() {
        // Consecutive nonces, and nonces of a stranger who keeps the low bits equal.
        for step in [1, 1 << 16] {
            let mut list = DeadNonces::new(65_536).expect("a few hundred kilobytes");
            for nonce in 0..30_000 {
                list.insert(Ticks(0), 0x1234_5678_9abc_def0, nonce * step);
            }
            let known = |n: &u32| list.contains(Ticks(0), 0x1234_5678_9abc_def0, *n * step);
            let kept = (0..30_000).filter(known).count();
            assert!(kept > 29_000, "{kept}");
            let wrong = (30_000..65_000).filter(known).count();
            assert_eq!(wrong, 0);
        }
    }
}
