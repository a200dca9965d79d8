//! The result for one router, one kind of socket and one window.

use serde::Serialize;

use super::options::Port;

/// Medians over all rounds.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// Sockets between generator and router.
    pub port: Port,
    /// Number of packet threads of the router.
    pub threads: usize,
    /// Number of Interests outstanding at once, in the turns that measure processor time.
    pub window: usize,
    /// Exchanges per second with this window.
    pub exchanges_per_s: f64,
    /// Processor time that the router takes for an exchange with this window, in microseconds.
    pub cpu_us_per_exchange: f64,
    /// This time, over that of the first router.
    pub cpu_times: f64,
    /// The smallest and the largest of these ratios, over the rounds.
    pub cpu_times_range: [f64; 2],
    /// Interests per second in the turns that measure latency.
    pub rate: f64,
    /// Median time from Interest to Data at this rate, in microseconds.
    pub p50_us: f64,
    /// This time, over that of the first router.
    pub p50_times: f64,
    /// 99th percentile of the time from Interest to Data at this rate, in microseconds.
    pub p99_us: f64,
    /// This time, over that of the first router.
    pub p99_times: f64,
    /// Share of a processor that the router takes at this rate.
    pub low_rate_cpu_share: f64,
    /// Interests without an answer, in all turns.
    pub lost: u64,
}
