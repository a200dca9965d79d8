//! Times of steps, each over a burst.

use std::time::{Duration, Instant};

use crate::timing::median;

/// A step of a packet's way that is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Receive,
    /// Receiving, parsing and pushing to another core.
    Give,
    /// An Interest is sent on, or Data answers.
    Forward,
    /// The same for packets that are first taken from another core.
    TakeAndForward,
    Pending,
    Hit,
    HotHit,
    PushOutput,
    Send,
    /// Sending what is first taken from another core.
    TakeAndSend,
}

const STEPS: usize = Step::TakeAndSend as usize + 1;

/// Times of each step, in nanoseconds for each packet.
#[derive(Default)]
pub struct Samples([Vec<f64>; STEPS]);

impl Samples {
    /// Times a step. It returns its number of packets; without any, the time is not counted.
    pub fn time(&mut self, step: Step, work: impl FnOnce() -> usize) {
        let begin = Instant::now();
        let packets = work();
        self.add(step, begin.elapsed(), packets);
    }

    /// Adds a time for some packets; for none it is not counted.
    pub fn add(&mut self, step: Step, time: Duration, packets: usize) {
        if packets > 0 {
            self.0[step as usize].push(time.as_nanos() as f64 / packets as f64);
        }
    }

    /// Forgets all, when warming up is over.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }

    /// The median time of a step; 0 if it was never timed.
    pub fn ns(&self, step: Step) -> f64 {
        let times = &self.0[step as usize];
        if times.is_empty() { 0.0 } else { median(times) }
    }

    /// How much longer a step took than these together. Noise may make it shorter.
    pub fn beyond(&self, step: Step, others_ns: f64) -> f64 {
        (self.ns(step) - others_ns).max(0.0)
    }
}
