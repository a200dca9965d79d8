//! Time as management and the validator see it.

/// A moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds on a monotonic clock.
    pub ms: u64,
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
}
