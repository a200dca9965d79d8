//! Time, which callers hand to the core.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byname_trust::Moment;

/// A moment on two clocks.
///
/// ```
/// use std::time::Duration;
/// use byname_client::Now;
///
/// let start = Now { elapsed: Duration::ZERO, unix: Duration::from_secs(1_795_000_000) };
/// let later = start.after(Duration::from_secs(2));
/// assert_eq!(later.elapsed, Duration::from_secs(2));
/// assert_eq!(later.unix, Duration::from_secs(1_795_000_002));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time on a monotonic clock. Its zero is any moment before the first call.
    pub elapsed: Duration,
    /// Time since the Unix epoch.
    pub unix: Duration,
}

impl Now {
    /// This long after this moment.
    pub fn after(self, wait: Duration) -> Now {
        Now { elapsed: self.elapsed + wait, unix: self.unix + wait }
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(self) -> u64 {
        as_ms(self.unix)
    }

    /// The moment, as validators take it.
    pub(crate) fn moment(self) -> Moment {
        Moment { ms: as_ms(self.elapsed), unix_ms: self.unix_ms() }
    }
}

/// Milliseconds of a duration.
pub(crate) fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The clocks of this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Clock(Instant::now())
    }

    pub(crate) fn now(self) -> Now {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { elapsed: self.0.elapsed(), unix }
    }
}
