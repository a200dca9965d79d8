//! Time of a burst by stage: one burst in many is timed.
//!
//! Nothing here has a clock of its own. The worker's caller may lend it one
//! ([`Worker::time_stages`](crate::Worker::time_stages)). Without a clock, and in bursts that are not timed, a stage
//! costs one comparison.

use std::fmt;

use crate::rounds::Rounds;
use crate::ticks::Ticks;

/// One burst in this many is timed. A prime, so that timing does not fall into step with traffic that repeats in powers
/// of two.
pub const ONE_IN: u32 = 1021;

/// A part of the work on a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Ports take packets from the kernel, and link services reassemble them.
    Receive,
    /// One of several threads parses packets, and gives those whose home is elsewhere to other threads.
    Dispatch,
    /// A worker removes expired pending Interests.
    Timers,
    /// A worker parses packets, unless they were dispatched, and hashes the prefixes of their names.
    Parse,
    /// Packets meet the PIT and the content store. After this, Data only needs to be sent.
    PitCs,
    /// The remaining Interests are looked up in the FIB.
    Fib,
    /// Strategies decide where these Interests go.
    Strategy,
    /// Packets addressed by tags or by locator are forwarded.
    Addressed,
    /// Link services and ports send.
    Send,
}

/// Labels for metrics, in the order of [`Stage`].
const STAGES: [(Stage, &str); 9] = [
    (Stage::Receive, "receive"),
    (Stage::Dispatch, "dispatch"),
    (Stage::Timers, "timers"),
    (Stage::Parse, "parse"),
    (Stage::PitCs, "pit-cs"),
    (Stage::Fib, "fib"),
    (Stage::Strategy, "strategy"),
    (Stage::Addressed, "addressed"),
    (Stage::Send, "send"),
];

impl Stage {
    /// A label for metrics.
    pub fn label(self) -> &'static str {
        STAGES[self as usize].1
    }
}

/// Time and packets of one stage in the bursts that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTime {
    /// Number of packets that passed the stage.
    pub packets: u64,
    /// Time, in nanoseconds.
    pub ns: u64,
}

/// Time and packets of each stage in the bursts that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimes([StageTime; STAGES.len()]);

impl StageTimes {
    /// Time and packets of one stage.
    pub fn of(&self, stage: Stage) -> StageTime {
        self.0[stage as usize]
    }

    /// The stages that were timed, in the order in which packets pass them.
    pub fn all(&self) -> impl Iterator<Item = (Stage, StageTime)> {
        STAGES.map(|(stage, _)| stage).into_iter().zip(self.0).filter(|(_, time)| *time != StageTime::default())
    }

    /// Time of all stages, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.0.iter().map(|time| time.ns).sum()
    }

    /// Adds the times of other bursts.
    pub fn add(&mut self, other: &StageTimes) {
        for (sum, time) in self.0.iter_mut().zip(other.0) {
            sum.packets += time.packets;
            sum.ns += time.ns;
        }
    }

    /// The times that were added since `earlier`.
    pub fn since(&self, earlier: &StageTimes) -> StageTimes {
        let mut times = *self;
        for (time, before) in times.0.iter_mut().zip(earlier.0) {
            time.packets -= before.packets;
            time.ns -= before.ns;
        }
        times
    }
}

/// Times the stages of one burst in many, by a clock that its owner lends it. The default has no clock and never times.
#[derive(Default)]
pub struct Stopwatch {
    clock: Option<Box<dyn Fn() -> Ticks + Send + Sync>>,
    one_in: u32,
    /// Number of bursts to skip before the next is timed.
    left: u32,
    /// When the current stage began; `None` unless the burst is timed.
    began: Option<Ticks>,
    /// When the burst began, if it is timed, and the most packets that have passed a stage.
    burst: (Option<Ticks>, usize),
    times: StageTimes,
    rounds: Rounds,
}

impl Stopwatch {
    /// Times one burst in `one_in`, by `clock`.
    pub fn new(one_in: u32, clock: impl Fn() -> Ticks + Send + Sync + 'static) -> Self {
        assert!(one_in > 0);
        Stopwatch { clock: Some(Box::new(clock)), one_in, left: one_in - 1, ..Stopwatch::default() }
    }

    /// The time now, if there is a clock.
    pub fn read(&self) -> Option<Ticks> {
        self.clock.as_ref().map(|clock| clock())
    }

    /// A burst begins.
    #[inline]
    pub fn start(&mut self) {
        if self.left == 0 {
            self.began = self.clock.as_ref().map(|clock| clock());
            self.burst = (self.began, 0);
        }
    }

    /// A stage ends and the next begins. `packets` have passed it, in addition to those of earlier laps.
    #[inline]
    pub fn lap(&mut self, stage: Stage, packets: usize) {
        if let (Some(began), Some(clock)) = (self.began, &self.clock) {
            let now = clock();
            let time = &mut self.times.0[stage as usize];
            time.packets += packets as u64;
            self.burst.1 = self.burst.1.max(packets);
            time.ns += now.0.saturating_sub(began.0);
            self.began = Some(now);
        }
    }

    /// As [`Stopwatch::lap`], but does not record a stage without packets.
    #[inline]
    pub fn lap_if_any(&mut self, stage: Stage, packets: usize) {
        match packets {
            0 => self.skip(),
            _ => self.lap(stage, packets),
        }
    }

    /// Leaves out the time since the last lap, which belongs to no stage.
    #[inline]
    pub fn skip(&mut self) {
        if let (Some(_), Some(clock)) = (self.began, &self.clock) {
            self.began = Some(clock());
        }
    }

    /// The burst ends. An `idle` one does not count as a burst.
    #[inline]
    pub fn stop(&mut self, idle: bool) {
        if let (Some(ended), (Some(began), packets)) = (self.began.take(), self.burst)
            && !idle
        {
            self.rounds.add(packets as u64, began, ended);
        }
        if !idle {
            self.left = self.left.checked_sub(1).unwrap_or(self.one_in.saturating_sub(1));
        }
    }

    /// Whether this burst is timed.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.began.is_some()
    }

    /// The bursts that were timed, as a whole.
    pub fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// All times so far.
    pub fn times(&self) -> &StageTimes {
        &self.times
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopwatch").field("one_in", &self.one_in).field("times", &self.times).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A stopwatch whose clock advances by ten at each reading, and the number of readings.
    fn stopwatch(one_in: u32) -> (Stopwatch, Arc<AtomicU64>) {
        let looks = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&looks);
        (Stopwatch::new(one_in, move || Ticks(10 * clock.fetch_add(1, Ordering::Relaxed))), looks)
    }

    #[test]
    fn stages_stand_in_the_order_of_their_numbers() {
        for (i, (stage, _)) in STAGES.iter().enumerate() {
            assert_eq!(*stage as usize, i);
        }
    }

    #[test]
    fn one_burst_in_so_many_is_timed_and_others_look_at_no_clock() {
        let (mut stopwatch, looks) = stopwatch(3);
        for burst in 1..=9 {
            stopwatch.start();
            stopwatch.lap(Stage::Parse, 64);
            stopwatch.skip();
            stopwatch.lap(Stage::PitCs, 60);
            stopwatch.lap_if_any(Stage::Fib, 0);
            stopwatch.lap(Stage::PitCs, 2);
            stopwatch.stop(false);
            assert_eq!(looks.load(Ordering::Relaxed), burst / 3 * 6);
        }
        let times = stopwatch.times();
        assert_eq!(times.of(Stage::Parse), StageTime { packets: 3 * 64, ns: 3 * 10 });
        assert_eq!(times.of(Stage::PitCs), StageTime { packets: 3 * 62, ns: 3 * 20 });
        assert!(times.all().map(|(stage, _)| stage.label()).eq(["parse", "pit-cs"]));
        assert_eq!(times.ns(), 90);
    }

    #[test]
    fn idle_rounds_do_not_use_up_a_turn() {
        let (mut stopwatch, _) = stopwatch(2);
        for idle in [false, true, true, false, false, true] {
            stopwatch.start();
            stopwatch.lap_if_any(Stage::Receive, usize::from(!idle));
            stopwatch.stop(idle);
        }
        assert_eq!(stopwatch.times().of(Stage::Receive), StageTime { packets: 1, ns: 10 });
    }

    #[test]
    fn without_a_clock_nothing_is_timed() {
        let mut stopwatch = Stopwatch::default();
        for _ in 0..3 {
            stopwatch.start();
            stopwatch.lap(Stage::Parse, 1);
            stopwatch.stop(false);
        }
        assert_eq!(stopwatch.times(), &StageTimes::default());
    }

    #[test]
    fn times_add_up_and_come_apart() {
        let (mut stopwatch, _) = stopwatch(1);
        let mut burst = || {
            stopwatch.start();
            stopwatch.lap(Stage::Send, 5);
            stopwatch.stop(false);
            *stopwatch.times()
        };
        let (first, second) = (burst(), burst());
        let mut sum = first;
        sum.add(&second.since(&first));
        assert_eq!(sum, second);
        assert_eq!(second.of(Stage::Send), StageTime { packets: 10, ns: 20 });
    }
}
