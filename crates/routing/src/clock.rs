//! The router's own time.
//!
//! It is the monotonic clock without the time during which this process stood still: while nothing was received,
//! nothing can be concluded about neighbours. So after a suspended machine wakes up, no neighbour is dead.

use byname_trust::Moment;

/// A call that comes later than this after it was due shows that the process stood still, or waited for a processor. It
/// is much shorter than the time after which a link is down, so that many short waits do not add up to that.
const TOLERANCE_MS: u64 = 20;

/// The router's own time, in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    now_ms: u64,
    unix_ms: u64,
    /// Own time minus the monotonic clock.
    offset_ms: i128,
}

impl Clock {
    pub(crate) fn new(now: Moment) -> Self {
        // Not 0, so that times in the past exist.
        const START_MS: u64 = 1 << 32;
        Clock { now_ms: START_MS, unix_ms: now.unix_ms, offset_ms: i128::from(START_MS) - i128::from(now.ms) }
    }

    /// Goes on to a moment. `due_ms` is when the router wanted to be called at the latest. Returns whether the process
    /// stood still in between.
    pub(crate) fn advance(&mut self, now: Moment, due_ms: u64) -> bool {
        self.unix_ms = now.unix_ms;
        let latest = due_ms.max(self.now_ms).saturating_add(TOLERANCE_MS);
        let raw = i128::from(now.ms) + self.offset_ms;
        let own = raw.clamp(i128::from(self.now_ms), i128::from(latest));
        self.offset_ms += own - raw;
        self.now_ms = own as u64;
        own < raw
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(crate) fn unix_seconds(&self) -> u64 {
        self.unix_ms / 1000
    }

    pub(crate) fn unix_micros(&self) -> u64 {
        self.unix_ms.saturating_mul(1000)
    }

    /// The time on the monotonic clock.
    pub(crate) fn monotonic_ms(&self, own_ms: u64) -> u64 {
        (i128::from(own_ms) - self.offset_ms).clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment { ms, unix_ms: 5_000 + ms }
    }

    #[test]
    fn time_that_passes_without_a_call_does_not_count() {
        let mut clock = Clock::new(at(1000));
        let start = clock.now_ms();
        assert!(!clock.advance(at(1400), start + 500));
        assert_eq!(clock.now_ms(), start + 400);
        // An hour of sleep: only the time until the call was due counts, and a little more.
        assert!(clock.advance(at(3_601_400), start + 500));
        assert_eq!(clock.now_ms(), start + 520);
        assert_eq!(clock.monotonic_ms(start + 620), 3_601_500);
        assert_eq!(clock.unix_seconds(), 3606);
    }

    #[test]
    fn time_does_not_go_back() {
        let mut clock = Clock::new(at(1000));
        let start = clock.now_ms();
        clock.advance(at(1050), start + 500);
        assert!(!clock.advance(at(20), start + 500));
        assert_eq!(clock.now_ms(), start + 50);
        clock.advance(at(30), start + 500);
        assert_eq!(clock.now_ms(), start + 60);
    }
}
