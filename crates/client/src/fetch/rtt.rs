//! Round-trip time and retransmission timeout [RFC 6298].

use std::time::Duration;

/// Shortest timeout: a forwarder may itself wait a while before it tries another path.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Longest timeout: after this time, Interests have expired on the way.
const RTO_MAX: Duration = Duration::from_secs(4);
/// Timeout before the first sample.
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// Estimates the round-trip time and the retransmission timeout.
///
/// ```
/// use std::time::Duration;
/// use byname_client::fetch::rtt::RttEstimator;
///
/// let mut rtt = RttEstimator::default();
/// rtt.sample(Duration::from_millis(100), 1);
/// assert_eq!(rtt.rto(), Duration::from_millis(300));
/// ```
#[derive(Debug, Clone)]
pub struct RttEstimator {
    smoothed: Option<f64>,
    variation: f64,
    rto: Duration,
}

impl Default for RttEstimator {
    fn default() -> Self {
        RttEstimator { smoothed: None, variation: 0.0, rto: RTO_INITIAL }
    }
}

impl RttEstimator {
    /// Takes the round-trip time of a segment that was requested once. With `in_flight` segments in flight, there are
    /// many samples in each round trip, so each sample counts less.
    pub fn sample(&mut self, rtt: Duration, in_flight: usize) {
        let rtt = rtt.as_secs_f64();
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2.0;
            }
            Some(smoothed) => {
                let samples = (in_flight as f64 / 2.0).max(1.0);
                self.variation += ((smoothed - rtt).abs() - self.variation) / 4.0 / samples;
                self.smoothed = Some(smoothed + (rtt - smoothed) / 8.0 / samples);
            }
        }
        let rto = self.smoothed.unwrap_or(rtt) + 4.0 * self.variation;
        self.rto = Duration::from_secs_f64(rto).clamp(RTO_MIN, RTO_MAX);
    }

    /// Doubles the timeout until the next sample.
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(RTO_MAX);
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn smoothed(&self) -> Duration {
        Duration::from_secs_f64(self.smoothed.unwrap_or(0.0))
    }

    /// The retransmission timeout.
    pub fn rto(&self) -> Duration {
        self.rto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_samples_within_its_limits() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(), RTO_INITIAL);
        rtt.sample(Duration::from_millis(100), 1);
        assert_eq!(rtt.rto(), Duration::from_millis(300));
        for _ in 0..200 {
            rtt.sample(Duration::from_millis(500), 1);
        }
        assert!((495..=500).contains(&rtt.smoothed().as_millis()));
        assert!((500..600).contains(&rtt.rto().as_millis()), "{:?}", rtt.rto());
        for _ in 0..200 {
            rtt.sample(Duration::from_micros(100), 1);
        }
        assert_eq!(rtt.rto(), RTO_MIN);
        for _ in 0..10 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), RTO_MAX);
        rtt.sample(Duration::from_micros(100), 1);
        assert_eq!(rtt.rto(), RTO_MIN);
    }
}
