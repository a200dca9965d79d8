//! Rates and times of work that is done burst by burst.

use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::machine::cores;

/// Bursts between two looks at the clock.
const BURSTS: usize = 32;

/// No burst takes a minute; what does is counted as this.
const BURST_NS_MAX: u64 = 60_000_000_000;

/// Answers to check; all, if there are fewer names.
const SAMPLE: usize = 1 << 17;

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
pub fn rate_of_all<R: Send>(readers: &mut [R], duration: Duration, step: impl Fn(&mut R) -> usize + Sync) -> f64 {
    on_cores(readers, |reader| rate(duration, || step(reader))).into_iter().sum()
}

/// Lets all workers begin at once, each on a core of its own. Returns what they found.
pub fn on_cores<R: Send, T: Send>(workers: &mut [R], work: impl Fn(&mut R) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(workers.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .enumerate()
            .map(|(thread, worker)| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    cores::pin(thread);
                    barrier.wait();
                    work(worker)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("engines do not panic")).collect()
    })
}

/// Times each step by itself, in nanoseconds.
pub fn times(duration: Duration, mut step: impl FnMut() + Send) -> Histogram<u64> {
    std::thread::scope(|scope| {
        let timed = scope.spawn(|| {
            cores::pin(0);
            let mut times = Histogram::new_with_bounds(1, BURST_NS_MAX, 3).expect("these bounds are allowed");
            let start = Instant::now();
            let mut last = start;
            while last - start < duration {
                step();
                let now = Instant::now();
                times.saturating_record((now - last).as_nanos() as u64);
                last = now;
            }
            times
        });
        timed.join().expect("engines do not panic")
    })
}

/// Where the bursts of a sample begin.
pub fn sample(names: usize, burst: usize) -> std::iter::StepBy<Range<usize>> {
    let stride = (names / SAMPLE).max(1);
    (0..names).step_by(stride * burst)
}

/// What comparing answers found out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checked {
    /// Answers compared.
    pub checked: u64,
    /// Those that were wrong.
    pub wrong: u64,
}

/// The middle one, or the mean of the two in the middle.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    low.midpoint(high)
}
