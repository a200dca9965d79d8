//! Time, which callers hand in.

/// A moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds on a monotonic clock.
    pub ms: u64,
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

impl Moment {
    /// Milliseconds since the Unix epoch at a time of the monotonic clock.
    pub fn unix_ms_at(&self, ms: u64) -> u64 {
        self.unix_ms.saturating_add(ms).saturating_sub(self.ms)
    }
}
