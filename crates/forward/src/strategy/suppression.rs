//! Suppression of Interests that consumers send again too soon, with a growing interval.

use std::time::Duration;

use crate::pit_cs::PitEntry;
use crate::strategy::StrategyError;
use crate::strategy::name::Parameters;
use crate::ticks::Ticks;

/// The decision about an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is not pending at any upstream.
    New,
    /// It was sent again, and may go upstream again.
    Again,
    /// It was sent again too soon.
    Suppress,
}

/// Exponential suppression, as NFD's RetxSuppressionExponential. The strategy word of a PIT entry is the length of its
/// current interval in ns, or 0 before the first.
#[derive(Debug, Clone, Copy)]
pub struct Suppression {
    initial: Duration,
    multiplier: f64,
    max: Duration,
}

impl Default for Suppression {
    fn default() -> Self {
        Suppression { initial: Duration::from_millis(10), multiplier: 2.0, max: Duration::from_millis(250) }
    }
}

impl Suppression {
    /// Takes the parameters `retx-suppression-initial`, `-max` (both in ms) and `-multiplier`.
    pub fn new(parameters: &Parameters<'_>) -> Result<Self, StrategyError> {
        let default = Suppression::default();
        let ms = |name, default: Duration| {
            let ms = parameters.value(name, i64::try_from(default.as_millis()).unwrap_or(i64::MAX))?;
            Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
        };
        let initial = ms("retx-suppression-initial", default.initial)?;
        let max = ms("retx-suppression-max", default.max)?;
        let multiplier = parameters.value("retx-suppression-multiplier", default.multiplier)?;
        if initial.is_zero() {
            return Err(StrategyError::parameters("Retx suppression initial interval must be > 0"));
        }
        if max < initial {
            return Err(StrategyError::parameters("Retx suppression max interval must be >= initial interval"));
        }
        // This refuses NaN, too.
        if !(1.0..=f64::INFINITY).contains(&multiplier) {
            return Err(StrategyError::parameters("Retx suppression multiplier must be >= 1"));
        }
        Ok(Suppression { initial, multiplier, max })
    }

    /// The parameters in effect.
    pub fn parameters(&self) -> [(&'static str, String); 3] {
        [
            ("retx-suppression-initial", self.initial.as_millis().to_string()),
            ("retx-suppression-max", self.max.as_millis().to_string()),
            ("retx-suppression-multiplier", self.multiplier.to_string()),
        ]
    }

    fn interval(&self, pit: &PitEntry) -> Duration {
        if pit.strategy_word == 0 { self.initial } else { Duration::from_nanos(pit.strategy_word) }
    }

    /// The time before which Interests are suppressed; `None` if the next one is not.
    pub fn ends(&self, pit: &PitEntry) -> Option<Ticks> {
        let expiry = pit.out_records.iter().map(|r| r.expiry).max()?;
        Some(expiry.min(pit.last_sent()? + self.interval(pit)))
    }

    /// Decides on an Interest, and lengthens the interval when the Interest may go again.
    pub fn decide(&self, now: Ticks, pit: &mut PitEntry) -> Verdict {
        let interval = self.interval(pit);
        let verdict = verdict(now, pit, interval);
        if verdict == Verdict::Again {
            let next = Duration::try_from_secs_f64(interval.as_secs_f64() * self.multiplier);
            let next = next.map_or(self.max, |next| next.min(self.max));
            pit.strategy_word = u64::try_from(next.as_nanos()).unwrap_or(u64::MAX);
        }
        verdict
    }
}

/// Decides on an Interest by a fixed interval.
#[inline]
pub fn verdict(now: Ticks, pit: &PitEntry, interval: Duration) -> Verdict {
    let Some(last) = pit.last_sent().filter(|_| pit.out_records.iter().any(|r| r.expiry > now)) else {
        return Verdict::New;
    };
    if now.since(last) < interval { Verdict::Suppress } else { Verdict::Again }
}
