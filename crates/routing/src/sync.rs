//! When to send prefix sync Interests [State Vector Sync v3, "State Sync"].
//!
//! Each router says now and then what it knows to exist, and at once when it publishes something. A router that receives
//! an outdated vector waits a short random time. If no other router answers meanwhile, it answers itself.
//!
//! Differs: a router that gets a new neighbour tells only this neighbour all that it knows. If that is news there, the
//! neighbour tells the network. So parts of a network that find each other need not wait for the next regular time. ndnd
//! does not do that, so the router also tells the network by itself, a little later.
//!
//! Differs: a vector of many routers does not fit into a packet, and the specification does not split it. Then each
//! Interest has a part: what changed last, and others in turn. A router that is missing in a part is not a sign that its
//! sender is outdated. ndnd sends vectors of any size, and cannot run with so many routers.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::config::Timing;

/// The largest vector that is sent whole, in bytes.
pub(crate) const VECTOR_BYTES_MAX: usize = 6_500;

/// Decay of the suppression time.
const DECAY: f64 = 10.0;

/// The result of comparing a vector that arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    /// It lacks something.
    pub(crate) is_outdated: bool,
    /// All that it lacks is so new that its sender may learn it by itself.
    pub(crate) is_excused: bool,
}

/// When to send.
#[derive(Debug)]
pub(crate) struct SyncTimer {
    send_ms: u64,
    /// Another router may answer first.
    is_suppressed: bool,
    /// Routers that were outdated in vectors that arrived meanwhile, and have not been told since.
    lacks: bool,
}

impl SyncTimer {
    /// A timer that is due at once.
    pub(crate) fn new(now_ms: u64) -> Self {
        SyncTimer { send_ms: now_ms, is_suppressed: false, lacks: false }
    }

    pub(crate) fn due_ms(&self) -> u64 {
        self.send_ms
    }

    pub(crate) fn is_suppressed(&self) -> bool {
        self.is_suppressed
    }

    /// Something was published: send at once.
    pub(crate) fn hasten(&mut self, now_ms: u64) {
        self.send_ms = self.send_ms.min(now_ms);
        self.lacks = true;
    }

    /// There is a new neighbour: send soon, unless a vector shows that everybody knows everything.
    pub(crate) fn send_by(&mut self, at_ms: u64) {
        self.send_ms = self.send_ms.min(at_ms);
    }

    /// A vector arrived.
    pub(crate) fn receive(&mut self, found: Found, timing: &Timing, random: &mut StdRng, now_ms: u64) {
        if !found.is_outdated {
            self.rest(timing, random, now_ms);
        } else if !found.is_excused && !self.is_suppressed {
            self.is_suppressed = true;
            self.lacks = true;
            self.send_ms = now_ms + suppression_ms(timing, random);
        }
    }

    /// A neighbour told something new to this router alone: the others shall hear it soon, from this router unless another
    /// one tells them. Returns whether this router began to wait.
    pub(crate) fn spread(&mut self, timing: &Timing, random: &mut StdRng, now_ms: u64) -> bool {
        let begins = !self.is_suppressed;
        if begins {
            self.is_suppressed = true;
            self.send_ms = self.send_ms.min(now_ms + suppression_ms(timing, random));
        }
        self.lacks = true;
        begins
    }

    /// While suppressed, others have said all that this router knows.
    pub(crate) fn satisfied(&mut self) {
        self.lacks = false;
    }

    /// The time has come. Returns whether to send.
    pub(crate) fn expire(&mut self, timing: &Timing, random: &mut StdRng, now_ms: u64) -> bool {
        if now_ms < self.send_ms {
            return false;
        }
        let sends = !self.is_suppressed || self.lacks;
        self.rest(timing, random, now_ms);
        sends
    }

    /// Waits for the next regular time.
    fn rest(&mut self, timing: &Timing, random: &mut StdRng, now_ms: u64) {
        self.is_suppressed = false;
        self.lacks = false;
        let period_ms = timing.prefix_sync.as_millis() as u64;
        let jitter_ms = period_ms / 10;
        self.send_ms = now_ms + period_ms - jitter_ms + random.random_range(0..=2 * jitter_ms);
    }
}

fn suppression_ms(timing: &Timing, random: &mut StdRng) -> u64 {
    let constant = timing.suppression.as_millis() as f64;
    let value = random.random::<f64>() * constant;
    (constant * (1.0 - ((value - constant) / (constant / DECAY)).exp())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn outdated_vectors_are_answered_after_a_short_time_unless_others_do() {
        let (timing, mut random) = (Timing::default(), StdRng::seed_from_u64(1));
        let mut timer = SyncTimer::new(0);
        assert!(timer.expire(&timing, &mut random, 0));
        assert!((27_000..=33_000).contains(&timer.due_ms()), "{}", timer.due_ms());
        let outdated = Found { is_outdated: true, is_excused: false };
        timer.receive(outdated, &timing, &mut random, 1000);
        let due = timer.due_ms();
        assert!(timer.is_suppressed() && (1000..=1200).contains(&due), "{due}");
        assert!(timer.expire(&timing, &mut random, due));

        timer.receive(outdated, &timing, &mut random, 2000);
        timer.satisfied();
        let due = timer.due_ms();
        assert!(!timer.expire(&timing, &mut random, due));

        assert!(timer.spread(&timing, &mut random, 2500) && !timer.spread(&timing, &mut random, 2500));
        assert!(timer.due_ms() <= 2700);
        let due = timer.due_ms();
        assert!(timer.expire(&timing, &mut random, due));

        timer.receive(Found { is_outdated: true, is_excused: true }, &timing, &mut random, 3000);
        assert!(!timer.is_suppressed() && timer.due_ms() > 20_000);
    }

    #[test]
    fn most_routers_wait_long_so_that_few_answer() {
        let (timing, mut random) = (Timing::default(), StdRng::seed_from_u64(1));
        let times: Vec<u64> = (0..1000).map(|_| suppression_ms(&timing, &mut random)).collect();
        assert!(times.iter().all(|ms| *ms <= 200));
        assert!(times.iter().filter(|ms| **ms > 150).count() > 800);
    }
}
