//! Suppression of Interests that consumers send again too soon, with an interval that grows.

use std::time::Duration;

use crate::pit_cs::PitEntry;
use crate::strategy::{Parameter, StrategyError};
use crate::ticks::Ticks;

/// What to do with an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is pending upstream.
    New,
    /// It was sent again, and it is time to do so too.
    Again,
    /// It was sent again too soon.
    Suppress,
}

/// Exponential suppression, as NFD's RetxSuppressionExponential.
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
    /// Takes a parameter if it is one of suppression's (`retx-suppression-initial`,
    /// `-multiplier`, `-max`; times in ms). False if it is not.
    pub fn parameter(&mut self, (key, value): Parameter<'_>) -> Result<bool, StrategyError> {
        let ms = || value.parse().map(Duration::from_millis).map_err(|_| StrategyError::BadParameters);
        match key {
            "retx-suppression-initial" => self.initial = ms()?,
            "retx-suppression-max" => self.max = ms()?,
            "retx-suppression-multiplier" => {
                self.multiplier = value.parse().map_err(|_| StrategyError::BadParameters)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the values make sense together.
    pub fn check(self) -> Result<Self, StrategyError> {
        let good = self.initial > Duration::ZERO
            && self.initial <= self.max
            && (1.0..f64::INFINITY).contains(&self.multiplier);
        if good { Ok(self) } else { Err(StrategyError::BadParameters) }
    }

    /// Decides on an Interest, and lengthens the interval when it may go again.
    pub fn decide(&self, now: Ticks, pit: &mut PitEntry) -> Verdict {
        let Some(last) = pit.last_sent().filter(|_| pit.out_records.iter().any(|r| r.expiry > now)) else {
            return Verdict::New;
        };
        let interval = if pit.suppression_ns == 0 { self.initial } else { Duration::from_nanos(pit.suppression_ns) };
        if now.since(last) < interval {
            return Verdict::Suppress;
        }
        let next = Duration::try_from_secs_f64(interval.as_secs_f64() * self.multiplier);
        let next = next.map_or(self.max, |next| next.min(self.max));
        pit.suppression_ns = u64::try_from(next.as_nanos()).unwrap_or(u64::MAX);
        Verdict::Again
    }
}

/// Reads parameters that are all suppression's.
pub fn only_suppression(parameters: &[Parameter<'_>]) -> Result<Suppression, StrategyError> {
    let mut suppression = Suppression::default();
    for parameter in parameters {
        if !suppression.parameter(*parameter)? {
            return Err(StrategyError::BadParameters);
        }
    }
    suppression.check()
}
