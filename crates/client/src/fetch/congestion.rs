//! The congestion window: CUBIC [RFC 9438], counted in segments. Slow start ends by delay, as in HyStart++ [RFC 9406].
//!
//! Slow start that ends only with a loss overflows a queue first. On a local forwarder this takes milliseconds, long
//! before the forwarder's congestion marks take effect.
//!
//! Where round trips are short, the cubic curve is slow: it counts seconds. There the window grows as Reno's would, by
//! about half a segment in each round trip [RFC 9438 §4.3]. On one host, that is the usual case.
//!
//! Differs: a congestion mark and a timeout lower the window alike. As in ndn-cxx's fetcher, they lower it at most once
//! for the segments that were in flight at that moment; the caller keeps that account.

use std::time::Duration;

/// Multiplicative decrease.
const BETA: f64 = 0.7;
/// Growth rate of the window, in segments per second cubed.
const C: f64 = 0.4;
/// Growth of the window in a round trip, in segments, where Reno's is faster. With this decrease, it takes as large a share
/// as Reno with its own.
const RENO_STEP: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
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
    /// The window that Reno would have had since then.
    reno: f64,
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
            reno: 0.0,
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
            self.reno = self.window;
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
                self.reno += RENO_STEP / self.window;
                self.window = (self.window + step).max(self.reno);
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
        self.reno = self.window;
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

    /// The window after a decrease from this one and so many milliseconds, in steps of a round trip.
    fn regained(window: f64, rtt: Duration, ms: u64) -> usize {
        let mut cubic = Cubic::new(window, 100_000.0);
        cubic.on_congestion(Duration::ZERO);
        let mut now = Duration::ZERO;
        while now < Duration::from_millis(ms) {
            now += rtt;
            for _ in 0..cubic.window() {
                cubic.on_data(now, rtt);
            }
        }
        cubic.window()
    }

    #[test]
    fn regains_the_plateau_after_k_seconds_and_then_goes_beyond() {
        // K = cbrt(10,000 * 0.3 / 0.4) = 19.6 s
        let [after_5s, after_19s, after_40s] = [5_000, 19_600, 40_000].map(|ms| regained(10_000.0, RTT, ms));
        assert!((7_500..9_000).contains(&after_5s), "{after_5s}");
        assert!((9_950..10_050).contains(&after_19s), "{after_19s}");
        assert!(after_40s > 12_000, "{after_40s}");
    }

    #[test]
    fn where_round_trips_are_short_it_grows_by_half_a_segment_in_each() {
        // The curve would take K = 4.2 s.
        let round_trips = 60;
        let window = regained(100.0, Duration::from_micros(300), round_trips * 300 / 1000);
        let expected = 70 + (RENO_STEP * round_trips as f64) as usize;
        assert!((expected - 3..=expected + 1).contains(&window), "{window}");
    }
}
