//! The part of a record that tables and plots need, whatever was measured.

use crate::timing::Spread;

/// A record of several repetitions.
pub trait Measured {
    /// Lookups, packets or frames per second, over the repetitions. Threads are added up.
    fn rate(&self) -> Spread;

    /// Number of threads.
    fn threads(&self) -> usize;

    /// The machine's limit: random cache lines per second from a table of the same size, if measured.
    fn machine_lines_per_s(&self) -> Option<f64>;

    /// Nanoseconds per lookup, packet or frame, on one thread.
    fn ns(&self) -> Spread {
        self.rate().dividing(self.threads() as f64 * 1e9)
    }

    /// The machine's nanoseconds per random cache line, on one thread.
    fn machine_ns(&self) -> Option<f64> {
        self.machine_lines_per_s().map(|lines| self.threads() as f64 * 1e9 / lines)
    }
}
