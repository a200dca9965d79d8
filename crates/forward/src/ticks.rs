//! Time, which callers pass as an argument.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since some fixed moment: monotonic, read once per burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The time `ms` milliseconds after zero.
    pub const fn from_ms(ms: u64) -> Ticks {
        Ticks(ms.saturating_mul(1_000_000))
    }
    /// Time since `earlier`; zero if `earlier` is later than this time.
    pub fn since(self, earlier: Ticks) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Ticks {
    type Output = Ticks;
    fn add(self, d: Duration) -> Ticks {
        Ticks(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Ticks {
    type Output = Ticks;
    fn sub(self, d: Duration) -> Ticks {
        Ticks(self.0.saturating_sub(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}
