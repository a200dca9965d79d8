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
    /// Time that it has worked since the start, in nanoseconds.
    pub busy_ns: u64,
    /// Number of times that it slept until something happened.
    pub sleeps: u64,
    /// Number of times that it began to rest.
    pub rests: u64,
}

/// Packets that the busiest thread's worker handled, over the mean of all threads: 1 if all handled as many. `None` if
/// there is one thread, or nothing was handled.
pub fn imbalance(threads: &[ThreadStatus]) -> Option<f64> {
    let handled = |status: &ThreadStatus| status.rings.map_or(0, |rings| rings.home + rings.taken);
    let sum: u64 = threads.iter().map(handled).sum();
    let busiest = threads.iter().map(handled).max()?;
    (threads.len() > 1 && sum > 0).then(|| (busiest * threads.len() as u64) as f64 / sum as f64)
}

/// Counts the time that a thread works. Its clock is the loop's: a round ends when the next begins.
#[derive(Default)]
pub(super) struct WorkTime {
    busy_ns: u64,
    /// Begin of the current round.
    last: Ticks,
    /// Begin of the current period and of the one before it, each with the time worked until then.
    periods: [(Ticks, u64); 2],
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
        self.end_period(now);
    }

    /// Time that the thread has worked, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// The thread's activity until now.
    pub fn activity(&mut self, now: Ticks) -> Activity {
        // A thread that rests begins no rounds.
        self.end_period(now);
        let (since, busy_before) = self.periods[1];
        let busy_ns = self.busy_ns - busy_before;
        let time_ns = now.0.saturating_sub(since.0).max(1);
        let load = (busy_ns as f64 / time_ns as f64).min(1.0);
        Activity { load, busy_ns: self.busy_ns, sleeps: self.sleeps, rests: self.rests }
    }

    fn end_period(&mut self, now: Ticks) {
        if now.0.saturating_sub(self.periods[0].0.0) >= PERIOD_NS {
            self.periods = [(now, self.busy_ns), self.periods[0]];
        }
    }
}

impl IoLoop {
    /// State of this loop's thread.
    pub(super) fn thread_status(&mut self) -> ThreadStatus {
        let mut counters = WorkerCounters::default();
        self.seat.ask(|worker| counters = worker.counters());
        counters.add_drops(&self.drops());
        counters.stages.add(self.stopwatch.times());
        ThreadStatus {
            activity: self.work_time.activity(self.now),
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
        let thread = |home, taken| ThreadStatus {
            rings: Some(RingStatus { home, taken, ..RingStatus::default() }),
            ..ThreadStatus::default()
        };
        assert_eq!(imbalance(&[thread(5, 5), thread(10, 0)]), Some(1.0));
        assert_eq!(imbalance(&[thread(1, 2), thread(0, 1), thread(0, 0), thread(0, 0)]), Some(3.0));
        assert_eq!(imbalance(&[thread(0, 0), thread(0, 0)]), None);
        assert_eq!(imbalance(&[ThreadStatus::default()]), None);
    }
}
