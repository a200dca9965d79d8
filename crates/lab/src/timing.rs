//! Rates and times of work in bursts.

use std::ops::Range;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::machine::cores;

/// Number of bursts between two readings of the clock.
const BURSTS: usize = 32;

/// Burst times are recorded up to this value.
const BURST_NS_MAX: u64 = 60_000_000_000;

/// Maximum number of answers to check.
const SAMPLE: usize = 1 << 17;

/// Repeats a step until the time is over. The step returns its number of names. Returns names per second.
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

/// Repeats a step for each reader on its own core. Returns the sum of the rates.
pub fn rate_of_all<R: Send>(readers: &mut [R], duration: Duration, step: impl Fn(&mut R) -> usize + Sync) -> f64 {
    on_cores(readers, |reader| rate(duration, || step(reader))).into_iter().sum()
}

/// Starts all workers together, each on its own core. Returns their results.
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

/// Times each step separately, in nanoseconds.
fn times(duration: Duration, mut step: impl FnMut() + Send) -> Histogram<u64> {
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

/// The p99 time of a step, in nanoseconds.
pub fn p99_ns(duration: Duration, step: impl FnMut() + Send) -> u64 {
    times(duration, step).value_at_quantile(0.99)
}

/// Start positions of the bursts of a sample.
pub fn sample(names: usize, burst: usize) -> std::iter::StepBy<Range<usize>> {
    let stride = (names / SAMPLE).max(1);
    (0..names).step_by(stride * burst)
}

/// Result of comparing answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checked {
    /// Number of answers compared.
    pub checked: u64,
    /// Number of wrong answers.
    pub wrong: u64,
}

/// Results of repetitions: their median, the smallest and the largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Summarizes the repetitions, of which there is at least one.
    pub fn of(repetitions: &[f64]) -> Self {
        let min = repetitions.iter().copied().fold(f64::INFINITY, f64::min);
        let max = repetitions.iter().copied().fold(0.0, f64::max);
        Spread { median: median(repetitions), min, max }
    }

    /// `whole` divided by each: rates become times, and the fastest repetition the shortest time.
    pub fn dividing(self, whole: f64) -> Self {
        Spread { median: whole / self.median, min: whole / self.max, max: whole / self.min }
    }

    /// Each times `factor`, which is not negative.
    pub fn times(self, factor: f64) -> Self {
        Spread { median: self.median * factor, min: self.min * factor, max: self.max * factor }
    }
}

impl From<f64> for Spread {
    /// A single value, of no repetitions.
    fn from(value: f64) -> Self {
        Spread { median: value, min: value, max: value }
    }
}

/// The median: the middle number, or the mean of the two in the middle.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    low.midpoint(high)
}
