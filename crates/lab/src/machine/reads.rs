//! The machine's rate of random reads, which limits any table.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use byname_lookup::prefetch;
use memmap2::{Advice, MmapMut, MmapOptions};

use super::{PageSize, cores, memory_free};
use crate::workload::Random;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Share of the free memory that the table may fill.
const MEMORY_SHARE: f64 = 0.9;
/// Number of reads between two readings of the clock.
const READS: usize = 4096;

/// Result of random reads from a table.
pub struct Reads {
    /// Cache lines read per second, by all threads together.
    pub lines_per_s: f64,
    /// Size of the table in bytes. It is smaller than asked for if the machine has less memory.
    pub bytes: usize,
}

/// Reads random cache lines from a table of `bytes` bytes on such pages (`None`: the heap's pages). Reads are
/// independent of each other: each thread keeps `burst` prefetches under way.
pub fn random_reads(
    bytes: usize,
    pages: Option<PageSize>,
    burst: usize,
    threads: usize,
    duration: Duration,
) -> anyhow::Result<Reads> {
    let map = table(bytes, pages)?;
    let barrier = Barrier::new(threads);
    let lines_per_s = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|thread| {
                let (map, barrier) = (&map, &barrier);
                scope.spawn(move || {
                    cores::pin(thread);
                    barrier.wait();
                    read(map, burst, Random::new(thread as u64), duration)
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("readers do not panic")).sum()
    });
    Ok(Reads { lines_per_s, bytes: map.len() })
}

fn read(map: &[u8], burst: usize, mut random: Random, duration: Duration) -> f64 {
    let lines = (map.len() / LINE) as u64;
    let mut under_way = vec![0usize; burst];
    let (mut sum, mut reads, mut slot) = (0u64, 0, 0);
    let start = Instant::now();
    loop {
        for _ in 0..READS {
            let at = random.below(lines) as usize * LINE;
            prefetch::read(&map[at]);
            let (word, _) = map[under_way[slot]..].split_first_chunk().expect("lines hold a word");
            sum = sum.wrapping_add(u64::from_le_bytes(*word));
            under_way[slot] = at;
            slot = if slot + 1 == burst { 0 } else { slot + 1 };
        }
        reads += READS;
        let elapsed = start.elapsed();
        if elapsed >= duration {
            black_box(sum);
            return reads as f64 / elapsed.as_secs_f64();
        }
    }
}

fn table(bytes: usize, pages: Option<PageSize>) -> anyhow::Result<MmapMut> {
    let mut options = MmapOptions::new();
    let page_bits = match pages {
        None | Some(PageSize::Small | PageSize::Large) => None,
        Some(PageSize::Reserved2M) => Some(21),
        Some(PageSize::Reserved1G) => Some(30),
    };
    let map = match page_bits {
        Some(bits) => options.len(bytes.next_multiple_of(1 << bits)).huge(Some(bits)).populate().map_anon(),
        None => options.len(bytes.min((memory_free() as f64 * MEMORY_SHARE) as usize).max(LINE)).map_anon(),
    };
    let mut map = map.context("not enough memory for the table of random reads")?;
    let advice = match pages {
        Some(PageSize::Small) => Some(Advice::NoHugePage),
        Some(PageSize::Large) => Some(Advice::HugePage),
        _ => None,
    };
    if let Some(advice) = advice {
        // Fails if the kernel has no huge pages; then all pages are small.
        let _ = map.advise(advice);
    }
    // Pages that were never written are all mapped to one page of zeros, which would stay in the cache.
    map.iter_mut().step_by(LINE).for_each(|byte| *byte = 1);
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tables_are_read_faster_than_large_ones() {
        let rate = |bytes| {
            let reads = random_reads(bytes, Some(PageSize::Small), 1, 1, Duration::from_millis(50));
            reads.expect("memory for a small table").lines_per_s
        };
        let (small, large) = (rate(1 << 14), rate(1 << 28));
        assert!(small > large, "{small} and {large} lines a second");
    }
}
