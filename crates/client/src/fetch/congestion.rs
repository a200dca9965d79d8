//! The congestion window: CUBIC [RFC 9438], counted in segments. Slow start ends by delay, as in HyStart++ [RFC 9406].
//!
//! Slow start that ends only with a loss overflows a queue first. On a local forwarder this takes milliseconds, long
//! before the forwarder's congestion marks take effect.
//!
//! Differs: a congestion mark and a timeout lower the window alike. As in ndn-cxx's fetcher, they lower it at most once
//! for the segments that were in flight at that moment; the caller keeps that account. There is no TCP-friendly region:
//! consumers of one forwarder compete with their like.

use std::time::Duration;

/// Multiplicative decrease.
const BETA: f64 = 0.7;
/// Growth rate of the window, in segments per second cubed.
const C: f64 = 0.4;
/// Slow start ends when this many samples in a row are late ...
const LATE_SAMPLES: u32 = 8;
/// ... by an eighth of the shortest round-trip time, within these limits.
const LATE_BY_MIN: Duration = Duration::from_millis(4);
const LATE_BY_MAX: Duration = Duration::from_millis(16);
/// Minimum window.
const WINDOW_MIN: f64 = 2.0;

/// State of CUBIC. Times count from the beginning of the transfer.
///
/// ```
/// use std::time::Duration;
/// use byname_client::fetch::congestion::Cubic;
///
/// let mut cubic = Cubic::new(16.0, 2048.0);
/// cubic.on_data(Duration::from_millis(20), Duration::from_millis(20));
/// assert_eq!(cubic.window(), 17);
/// cubic.on_congestion(Duration::from_millis(40));
/// assert_eq!(cubic.window(), 11);
/// ```
#[derive(Debug, Clone)]
pub struct Cubic {
    window: f64,
    window_max: f64,
    slow_start_threshold: f64,
    /// Window before the last decrease: the plateau of the curve.
    plateau: f64,
    /// Time of the last decrease or of the end of slow start; `None` in the first slow start.
    decreased_at: Option<Duration>,
    rtt_min: Duration,
    late_samples: u32,
}

impl Cubic {
    /// A window of `initial` segments that never grows above `max`.
    pub fn new(initial: f64, max: f64) -> Self {
        Cubic {
            window: initial.clamp(WINDOW_MIN, max.max(WINDOW_MIN)),
            window_max: max.max(WINDOW_MIN),
            slow_start_threshold: f64::INFINITY,
            plateau: 0.0,
            decreased_at: None,
            rtt_min: Duration::MAX,
            late_samples: 0,
        }
    }

    /// Number of segments that may be in flight.
    pub fn window(&self) -> usize {
        self.window as usize
    }

    /// Takes the round-trip time of a segment that was requested once.
    pub fn on_rtt(&mut self, rtt: Duration, now: Duration) {
        self.rtt_min = self.rtt_min.min(rtt);
        let late_by = (self.rtt_min / 8).clamp(LATE_BY_MIN, LATE_BY_MAX);
        self.late_samples = if rtt > self.rtt_min + late_by { self.late_samples + 1 } else { 0 };
        if self.decreased_at.is_none() && self.late_samples >= LATE_SAMPLES {
            self.plateau = self.window;
            self.slow_start_threshold = self.window;
            self.decreased_at = Some(now);
        }
    }

    /// Grows the window for a segment that arrived.
    pub fn on_data(&mut self, now: Duration, rtt: Duration) {
        match self.decreased_at {
            Some(since) if self.window >= self.slow_start_threshold => {
                let k = (self.plateau * (1.0 - BETA) / C).cbrt();
                let t = (now.saturating_sub(since) + rtt).as_secs_f64();
                let target = C * (t - k).powi(3) + self.plateau;
                // Grow by at most half a window in each round trip. Otherwise a long pause would end in a burst.
                let step = ((target - self.window) / self.window).clamp(0.01 / self.window, 0.5);
                self.window += step;
            }
            _ => self.window += 1.0,
        }
        self.window = self.window.min(self.window_max);
    }

    /// Lowers the window for a segment that was lost or marked.
    pub fn on_congestion(&mut self, now: Duration) {
        // Fast convergence: leave room for newcomers when the window shrinks again before its plateau.
        self.plateau = if self.window < self.plateau { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(WINDOW_MIN);
        self.slow_start_threshold = self.window;
        self.decreased_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn slow_start_doubles_each_round_trip_up_to_the_limit() {
        let mut cubic = Cubic::new(4.0, 100.0);
        for _ in 0..4 {
            cubic.on_data(RTT, RTT);
        }
        assert_eq!(cubic.window(), 8);
        for _ in 0..1000 {
            cubic.on_data(RTT, RTT);
        }
        assert_eq!(cubic.window(), 100);
    }

    #[test]
    fn slow_start_ends_when_a_queue_builds_up() {
        let mut cubic = Cubic::new(100.0, 10_000.0);
        let base = Duration::from_micros(200);
        cubic.on_rtt(base, base);
        let late = base + LATE_BY_MIN + base;
        for i in 0..LATE_SAMPLES {
            assert_eq!(cubic.decreased_at, None, "{i}");
            cubic.on_rtt(late, late);
        }
        let window = cubic.window();
        for _ in 0..window {
            cubic.on_data(late, late);
        }
        assert_eq!(cubic.window(), window, "no longer doubles");
        // One sample without delay means that there is no queue.
        let mut cubic = Cubic::new(100.0, 10_000.0);
        cubic.on_rtt(base, base);
        for i in 0..100 {
            cubic.on_rtt(if i % LATE_SAMPLES == 0 { base } else { late }, late);
        }
        assert_eq!(cubic.decreased_at, None);
    }

    #[test]
    fn decreases_to_seven_tenths_and_never_below_two() {
        let mut cubic = Cubic::new(100.0, 1000.0);
        cubic.on_congestion(RTT);
        assert_eq!(cubic.window(), 70);
        for _ in 0..100 {
            cubic.on_congestion(RTT);
        }
        assert_eq!(cubic.window(), 2);
    }

    #[test]
    fn regains_the_plateau_after_k_seconds_and_then_goes_beyond() {
        let mut cubic = Cubic::new(100.0, 10_000.0);
        cubic.on_congestion(Duration::ZERO);
        // K = cbrt(100 * 0.3 / 0.4) = 4.2 s
        let mut at = |from_ms: u64, to_ms: u64| {
            for ms in (from_ms..to_ms).step_by(50) {
                for _ in 0..cubic.window() {
                    cubic.on_data(Duration::from_millis(ms), RTT);
                }
            }
            cubic.window()
        };
        let after_2s = at(0, 2_000);
        let after_4s = at(2_000, 4_200);
        let after_9s = at(4_200, 9_000);
        assert!((80..100).contains(&after_2s), "{after_2s}");
        assert!((97..104).contains(&after_4s), "{after_4s}");
        assert!(after_9s > 130, "{after_9s}");
    }
}
