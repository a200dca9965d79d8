//! Consumer and producer in one thread.

use std::time::{Duration, Instant};

use anyhow::bail;
use byname_wire::{Data, LpPacket};
use hdrhistogram::Histogram;

use super::endpoint::{self, Endpoint, Frames};
use super::packets::{Answers, Names};

/// Number of slots for outstanding Interests.
const SLOTS: usize = 1 << 16;
/// Maximum number of outstanding Interests: far below the number of slots.
const OUTSTANDING_MAX: usize = SLOTS / 4;
/// An Interest without an answer after this time counts as lost.
const LOST_AFTER: Duration = Duration::from_millis(1000);

/// When Interests leave.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// As soon as fewer than this number are outstanding.
    Window(usize),
    /// At this rate, one by one. Meanwhile the generator waits without using its core, so that a forwarder may use it.
    PerSecond(f64),
}

impl Pace {
    /// Time from `elapsed` to the next Interest, with `asked` sent so far. `None`: nobody waits.
    fn until_next(self, elapsed: Duration, asked: u64) -> Option<Duration> {
        match self {
            Pace::Window(_) => None,
            Pace::PerSecond(rate) => {
                let next = Duration::try_from_secs_f64((asked + 1) as f64 / rate).unwrap_or(Duration::MAX);
                Some(next.saturating_sub(elapsed))
            }
        }
    }

    /// Number of Interests that are due: after `elapsed`, with `asked` sent so far and `outstanding` of them unanswered.
    fn due(self, elapsed: Duration, asked: u64, outstanding: usize) -> usize {
        match self {
            Pace::Window(window) => window.saturating_sub(outstanding),
            Pace::PerSecond(rate) => {
                let due = ((elapsed.as_secs_f64() * rate) as u64).saturating_sub(asked);
                // A forwarder that does not answer is not asked without end.
                usize::try_from(due).unwrap_or(usize::MAX).min(OUTSTANDING_MAX.saturating_sub(outstanding))
            }
        }
    }
}

/// Results of a run.
pub struct Exchanges {
    /// Number of Interests answered by Data.
    pub answered: u64,
    /// Number of Interests not answered in time.
    pub lost: u64,
    /// Number of Interests answered by a Nack.
    pub nacks: u64,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Time from Interest to Data, in ns.
    pub latency_ns: Histogram<u64>,
}

#[derive(Clone, Copy)]
struct Pending {
    number: u32,
    sent: Option<Instant>,
}

/// The load generator.
pub struct Generator {
    consumer: Endpoint,
    producer: Endpoint,
    names: Names,
    answers: Answers,
    /// Answers to the Interests that the producer received last.
    frames: Frames,
    pending: Vec<Pending>,
    /// The highest number of a name so far; higher ones are new.
    fresh: u32,
    random: u32,
}

impl Generator {
    /// Makes a generator with two faces.
    pub fn new(consumer: Endpoint, producer: Endpoint, names: Names, payload: usize) -> Self {
        let pending = vec![Pending { number: 0, sent: None }; SLOTS];
        let random = std::process::id() | 1;
        Generator {
            consumer,
            producer,
            names,
            answers: Answers::new(payload),
            frames: Frames::default(),
            pending,
            fresh: 0,
            random,
        }
    }

    /// Asks for the first `names` names once, so that the content store holds their Data.
    pub fn fill(&mut self, names: u32) -> anyhow::Result<()> {
        self.pending.iter_mut().for_each(|p| p.sent = None);
        let (mut next, mut outstanding) = (0, 0);
        let mut last = Instant::now();
        while next < names || outstanding > 0 {
            while next < names && outstanding < 32 {
                self.ask(next, Instant::now())?;
                (next, outstanding) = (next + 1, outstanding + 1);
            }
            self.consumer.flush()?;
            self.serve()?;
            let got = self.collect(|_| {})?.answered;
            outstanding -= got;
            if got > 0 {
                last = Instant::now();
            } else if last.elapsed() > LOST_AFTER {
                bail!("the forwarder stopped answering while the content store was filled");
            }
        }
        self.fresh = self.fresh.max(names);
        Ok(())
    }

    /// Sends Interests at this pace for `time`: for new names, or for the first `names` names in turn.
    pub fn run(&mut self, pace: Pace, time: Duration, names: Option<u32>) -> anyhow::Result<Exchanges> {
        if let Pace::Window(window) = pace {
            assert!(window <= OUTSTANDING_MAX, "windows are far below the number of slots");
        }
        self.pending.iter_mut().for_each(|p| p.sent = None);
        let mut total = Exchanges {
            answered: 0,
            lost: 0,
            nacks: 0,
            seconds: 0.0,
            latency_ns: Histogram::new_with_bounds(1, 10_000_000_000, 3)?,
        };
        let start = Instant::now();
        let (mut asked, mut outstanding, mut next) = (0, 0usize, 0u32);
        let mut looked_for_lost = start;
        loop {
            let now = Instant::now();
            if now - start >= time {
                total.seconds = (now - start).as_secs_f64();
                return Ok(total);
            }
            for _ in 0..pace.due(now - start, asked, outstanding) {
                let number = match names {
                    None => {
                        self.fresh = self.fresh.wrapping_add(1);
                        self.fresh
                    }
                    Some(names) => {
                        next = (next + 1) % names;
                        next
                    }
                };
                self.ask(number, now)?;
                (asked, outstanding) = (asked + 1, outstanding + 1);
            }
            self.consumer.flush()?;
            self.serve()?;
            let latencies = &mut total.latency_ns;
            let got = self.collect(|latency| latencies.saturating_record(latency.as_nanos() as u64))?;
            total.answered += got.answered as u64;
            total.nacks += got.nacks as u64;
            outstanding -= got.answered + got.nacks;
            if now - looked_for_lost > LOST_AFTER {
                looked_for_lost = now;
                let lost = self.forget_lost(now);
                total.lost += lost as u64;
                outstanding -= lost;
            }
            let elapsed = start.elapsed();
            if let Some(left) = pace.until_next(elapsed, asked) {
                endpoint::wait([&mut self.consumer, &mut self.producer], left.min(time.saturating_sub(elapsed)))?;
            }
        }
    }

    fn ask(&mut self, number: u32, now: Instant) -> anyhow::Result<()> {
        // The xorshift32 generator.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.pending[number as usize % SLOTS] = Pending { number, sent: Some(now) };
        self.consumer.push(self.names.interest(number, self.random))
    }

    /// Answers the Interests that have reached the producer.
    fn serve(&mut self) -> anyhow::Result<()> {
        let Generator { producer, answers, frames, .. } = self;
        frames.bytes.clear();
        frames.lens.clear();
        producer.receive(|frame| {
            let answer = LpPacket::decode(frame).ok().and_then(|lp| answers.answer(&lp, &mut frames.bytes));
            frames.lens.extend(answer);
        })?;
        producer.send(frames)
    }

    /// Processes the packets that have reached the consumer.
    fn collect(&mut self, mut latency: impl FnMut(Duration)) -> anyhow::Result<Collected> {
        let mut got = Collected { answered: 0, nacks: 0 };
        let now = Instant::now();
        let (names, pending) = (&self.names, &mut self.pending);
        self.consumer.receive(|frame| {
            let Ok(lp) = LpPacket::decode(frame) else { return };
            if lp.nack.is_some() {
                got.nacks += 1;
                return;
            }
            let Some(data) = lp.fragment.and_then(|f| Data::decode(f).ok()) else { return };
            let Some(number) = names.number(&data) else { return };
            let slot = &mut pending[number as usize % SLOTS];
            if slot.number == number
                && let Some(sent) = slot.sent.take()
            {
                latency(now - sent);
                got.answered += 1;
            }
        })?;
        Ok(got)
    }

    fn forget_lost(&mut self, now: Instant) -> usize {
        let mut lost = 0;
        for slot in &mut self.pending {
            if slot.sent.is_some_and(|sent| now - sent > LOST_AFTER) {
                slot.sent = None;
                lost += 1;
            }
        }
        lost
    }
}

struct Collected {
    answered: usize,
    nacks: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_filled_and_a_rate_is_kept() {
        let second = Duration::from_secs(1);
        assert_eq!(Pace::Window(64).due(second, 1000, 60), 4);
        assert_eq!(Pace::Window(64).due(second, 1000, 64), 0);
        assert_eq!(Pace::PerSecond(1000.0).due(second / 2, 498, 0), 2);
        assert_eq!(Pace::PerSecond(1000.0).due(second, 1000, 7), 0);
        assert_eq!(Pace::PerSecond(1e9).due(second, 0, OUTSTANDING_MAX), 0);
        assert_eq!(Pace::Window(64).until_next(second, 1000), None);
        assert_eq!(Pace::PerSecond(1000.0).until_next(second, 1000), Some(second / 1000));
        assert_eq!(Pace::PerSecond(1000.0).until_next(second, 500), Some(Duration::ZERO));
        assert_eq!(Pace::PerSecond(f64::MIN_POSITIVE).until_next(second, 0), Some(Duration::MAX - second));
    }
}
