//! The state of packet threads: how busy they are, and their counters.

use byname_forward::Ticks;
use byname_forward::rounds::Rounds;
use byname_forward::seat::RingStatus;
use byname_forward::worker::WorkerCounters;

use super::IoLoop;

/// A load is measured over at least this time, in nanoseconds, unless the thread is younger.
const PERIOD_NS: u64 = 5_000_000_000;

/// State of one packet thread.
#[derive(Debug, Clone, Default)]
pub struct ThreadStatus {
    /// How busy it is.
    pub activity: Activity,
    /// Counters of its worker. The drops include those of its ports and rings, and the stages those outside of the
    /// worker.
    pub counters: WorkerCounters,
    /// The rounds that were timed.
    pub rounds: Rounds,
    /// State of its rings; `None` if it is alone.
    pub rings: Option<RingStatus>,
    /// Number of faces that it owns now.
    pub faces: u64,
    /// Number of times that a face came here from another thread.
    pub faces_come: u64,
    /// Number of times that a face left for another thread.
    pub faces_left: u64,
    /// Number of the memory node of its processor; `None` if it is not bound to one.
    pub node: Option<u32>,
}

/// How busy a packet thread is. The first thread also works for threads that rest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// Share of its time that it has worked lately: in the last 5 to 10 seconds, or in more if it slept or rested.
    pub load: f64,
    /// Packets that its worker has handled per second, in about the same time; 0 for a thread that is alone.
    pub packets_per_s: f64,
    /// Time that it has worked since the start, in nanoseconds.
    pub busy_ns: u64,
    /// Number of times that it slept until something happened.
    pub sleeps: u64,
    /// Number of times that it began to rest.
    pub rests: u64,
}

/// Packets that the busiest thread's worker has handled lately, over the mean of all threads: 1 if all handled as many.
/// `None` if there is one thread, or nothing was handled lately.
pub fn imbalance(threads: &[ThreadStatus]) -> Option<f64> {
    let rates = || threads.iter().map(|thread| thread.activity.packets_per_s);
    let (sum, busiest) = (rates().sum::<f64>(), rates().fold(0.0, f64::max));
    (threads.len() > 1 && sum > 0.0).then(|| busiest * threads.len() as f64 / sum)
}

/// How fast a count has grown lately: in the last 5 to 10 seconds, or since it was noted last before that.
#[derive(Default)]
pub(super) struct Lately {
    /// Begin of the current period and of the one before it, each with the count then.
    periods: [(Ticks, u64); 2],
}

impl Lately {
    /// Begins a new period if the current one is over.
    pub fn note(&mut self, now: Ticks, count: impl FnOnce() -> u64) {
        if now.0.saturating_sub(self.periods[0].0.0) >= PERIOD_NS {
            self.periods = [(now, count()), self.periods[0]];
        }
    }

    /// Growth for each nanosecond, up to `count` now.
    pub fn per_ns(&mut self, now: Ticks, count: u64) -> f64 {
        self.note(now, || count);
        let (since, before) = self.periods[1];
        count.saturating_sub(before) as f64 / now.0.saturating_sub(since.0).max(1) as f64
    }
}

/// Counts the time that a thread works. Its clock is the loop's: a round ends when the next begins.
#[derive(Default)]
pub(super) struct WorkTime {
    busy_ns: u64,
    /// Begin of the current round.
    last: Ticks,
    lately: Lately,
    pub sleeps: u64,
    pub rests: u64,
}

impl WorkTime {
    /// Notes that a round begins now, and whether the last one had work.
    pub fn begin_round(&mut self, now: Ticks, was_busy: bool) {
        if was_busy {
            self.busy_ns += now.0.saturating_sub(self.last.0);
        }
        self.last = now;
        self.lately.note(now, || self.busy_ns);
    }

    /// Time that the thread has worked, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// The thread's activity until now.
    pub fn activity(&mut self, now: Ticks) -> Activity {
        // A thread that rests begins no rounds, but may be asked.
        let load = self.lately.per_ns(now, self.busy_ns).min(1.0);
        Activity { load, packets_per_s: 0.0, busy_ns: self.busy_ns, sleeps: self.sleeps, rests: self.rests }
    }
}

impl IoLoop {
    /// State of this loop's thread.
    pub(super) fn thread_status(&mut self) -> ThreadStatus {
        let mut counters = WorkerCounters::default();
        self.seat.ask(|worker| counters = worker.counters());
        counters.add_drops(&self.drops());
        counters.stages.add(self.stopwatch.times());
        let handled = self.seat.handled().unwrap_or_default();
        let packets_per_s = 1e9 * self.handled.per_ns(self.now, handled);
        ThreadStatus {
            activity: Activity { packets_per_s, ..self.work_time.activity(self.now) },
            counters,
            rounds: *self.stopwatch.rounds(),
            rings: self.seat.rings(),
            faces: self.faces.len() as u64,
            faces_come: self.faces_come,
            faces_left: self.faces_left_for,
            node: self.node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds of 1 ms for `ms`, from `from_ms`.
    fn run(time: &mut WorkTime, from_ms: u64, ms: u64, busy: bool) {
        time.begin_round(Ticks::from_ms(from_ms), false);
        (from_ms + 1..=from_ms + ms).for_each(|at| time.begin_round(Ticks::from_ms(at), busy));
    }

    #[test]
    fn the_load_is_that_of_the_last_seconds() {
        let mut time = WorkTime::default();
        run(&mut time, 0, 1000, true);
        run(&mut time, 1000, 1000, false);
        let activity = time.activity(Ticks::from_ms(2000));
        assert_eq!((activity.load, activity.busy_ns), (0.5, 1_000_000_000));
        run(&mut time, 2000, 20_000, true);
        assert_eq!(time.activity(Ticks::from_ms(22_000)).load, 1.0);
        run(&mut time, 22_000, 20_000, false);
        let activity = time.activity(Ticks::from_ms(42_000));
        assert_eq!((activity.load, activity.busy_ns), (0.0, 21_000_000_000));
    }

    #[test]
    fn time_without_rounds_is_not_work() {
        let mut time = WorkTime::default();
        run(&mut time, 0, 4000, true);
        // The thread rests, or sleeps.
        let activity = time.activity(Ticks::from_ms(8000));
        assert_eq!((activity.load, activity.busy_ns), (0.5, 4_000_000_000));
        time.begin_round(Ticks::from_ms(100_000), false);
        assert_eq!(time.activity(Ticks::from_ms(100_000)).busy_ns, 4_000_000_000);
    }

    #[test]
    fn the_imbalance_is_that_of_the_busiest() {
        let thread = |packets_per_s| ThreadStatus {
            activity: Activity { packets_per_s, ..Activity::default() },
            ..ThreadStatus::default()
        };
        assert_eq!(imbalance(&[thread(10.0), thread(10.0)]), Some(1.0));
        assert_eq!(imbalance(&[thread(3.0), thread(1.0), thread(0.0), thread(0.0)]), Some(3.0));
        assert_eq!(imbalance(&[thread(0.0), thread(0.0)]), None);
        assert_eq!(imbalance(&[thread(7.0)]), None);
    }

    #[test]
    fn what_was_long_ago_counts_no_more() {
        let mut lately = Lately::default();
        let rate = |lately: &mut Lately, ms: u64, count: u64| (1e9 * lately.per_ns(Ticks::from_ms(ms), count)).round();
        assert_eq!(rate(&mut lately, 1000, 5000), 5000.0, "since the start");
        for second in 1..=30 {
            lately.note(Ticks::from_ms(1000 * second), || 5000);
        }
        assert_eq!(rate(&mut lately, 30_000, 5000), 0.0);
        let at_32_s = rate(&mut lately, 32_000, 5700);
        assert!((70.0..=140.0).contains(&at_32_s), "700 in the last 5 to 10 s: {at_32_s}");
        assert_eq!(rate(&mut lately, 32_000, 0), 0.0, "a count that went back");
    }
}
