//! The work that is timed: names out of a buffer, parsed, hashed and looked up in bursts.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use byname_lookup::prefix::BURST_MAX;
use byname_lookup::{PrefixFib, PrefixMatch};
use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};
use hdrhistogram::Histogram;
use smallvec::SmallVec;

use super::cores;
use crate::workload::NameSet;

/// Bursts between two looks at the clock.
const BURSTS: usize = 32;

/// No burst takes a minute; what does is counted as this.
const BURST_NS_MAX: u64 = 60_000_000_000;

type Names<'a> = SmallVec<[NameRef<'a>; BURST_MAX]>;

/// Walks over the names, burst by burst, again and again.
pub struct Reader<'a> {
    names: &'a NameSet,
    key: &'a NameHashKey,
    burst: usize,
    at: usize,
    hashes: Vec<PrefixHashes>,
    out: [Option<PrefixMatch>; BURST_MAX],
}

impl<'a> Reader<'a> {
    /// Begins at name `start`.
    pub fn new(names: &'a NameSet, key: &'a NameHashKey, burst: usize, start: usize) -> Self {
        Reader { names, key, burst, at: start, hashes: vec![PrefixHashes::default(); burst], out: [None; BURST_MAX] }
    }

    /// Looks up a burst. Returns which names it was; [`Reader::answers`] are theirs.
    #[inline]
    pub fn look_up(&mut self, fib: &dyn PrefixFib) -> Range<usize> {
        let (range, names) = self.hash_next(fib.depth_max());
        let hashed = names.iter().zip(&self.hashes);
        let views: SmallVec<[_; BURST_MAX]> = hashed.map(|(name, h)| NameView::from_filled(*name, h)).collect();
        fib.longest_match_burst(&views, &mut self.out[..range.len()]);
        range
    }

    /// Parses and hashes a burst as deep as `fib` asks, no more. Returns how many names it has.
    #[inline]
    pub fn hash(&mut self, fib: &dyn PrefixFib) -> usize {
        let (range, _) = self.hash_next(fib.depth_max());
        black_box(&self.hashes);
        range.len()
    }

    /// What the last burst was answered with.
    #[inline]
    pub fn answers(&self) -> &[Option<PrefixMatch>] {
        &self.out
    }

    /// Counts the cache lines that each name of a burst needs; `None` where the engine cannot.
    pub fn count_lines(&mut self, fib: &dyn PrefixFib) -> Option<(usize, usize)> {
        let (range, names) = self.hash_next(fib.depth_max());
        let hashed = names.iter().zip(&self.hashes);
        let lines: Option<usize> = hashed.map(|(name, h)| fib.lines_read(&NameView::from_filled(*name, h))).sum();
        Some((range.len(), lines?))
    }

    #[inline]
    fn hash_next(&mut self, depth_max: usize) -> (Range<usize>, Names<'a>) {
        if self.at >= self.names.len() {
            self.at = 0;
        }
        let range = self.at..(self.at + self.burst).min(self.names.len());
        self.at = range.end;
        self.names.prefetch(range.end..(range.end + self.burst).min(self.names.len()));
        let parsed = range.clone().map(|i| self.names.parse(i).expect("generated names are well-formed"));
        let names: Names<'a> = parsed.collect();
        PrefixHashes::fill_burst_to(depth_max, self.key, &names, &mut self.hashes[..names.len()]);
        (range, names)
    }
}

/// Repeats a step, which returns how many names it took, until the time is over. Returns names a
/// second.
pub fn rate(duration: Duration, mut step: impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    let mut names = 0;
    loop {
        names += (0..BURSTS).map(|_| step()).sum::<usize>();
        let elapsed = start.elapsed();
        if elapsed >= duration {
            return names as f64 / elapsed.as_secs_f64();
        }
    }
}

/// Repeats a step of each reader on a core of its own. Returns the sum of their rates.
pub fn rate_of_all(
    readers: &mut [Reader<'_>],
    duration: Duration,
    step: impl Fn(&mut Reader<'_>) -> usize + Sync,
) -> f64 {
    let barrier = Barrier::new(readers.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = readers
            .iter_mut()
            .enumerate()
            .map(|(thread, reader)| {
                let (barrier, step) = (&barrier, &step);
                scope.spawn(move || {
                    cores::pin(thread);
                    barrier.wait();
                    rate(duration, || step(reader))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("engines do not panic")).sum()
    })
}

/// Times each burst by itself, in nanoseconds.
pub fn times(reader: &mut Reader<'_>, fib: &dyn PrefixFib, duration: Duration) -> Histogram<u64> {
    std::thread::scope(|scope| {
        let timed = scope.spawn(|| {
            cores::pin(0);
            let mut times = Histogram::new_with_bounds(1, BURST_NS_MAX, 3).expect("these bounds are allowed");
            let start = Instant::now();
            let mut last = start;
            while last - start < duration {
                reader.look_up(fib);
                black_box(reader.answers());
                let now = Instant::now();
                times.saturating_record((now - last).as_nanos() as u64);
                last = now;
            }
            times
        });
        timed.join().expect("engines do not panic")
    })
}
