//! Axes: where values lie, and which ticks they have.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::Ranged;

/// An axis whose largest value is this many times its smallest is logarithmic.
const LOG_RATIO_MIN: f64 = 30.0;

/// An axis: maps values to pixels, and has ticks.
pub struct Scale {
    log: bool,
    /// The axis goes from here
    pub low: f64,
    /// to here.
    pub high: f64,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    /// An axis for these values.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        if low > 0.0 && high / low >= LOG_RATIO_MIN {
            Self::logarithmic(low, high)
        } else {
            Self::linear(if high > 0.0 { high } else { 1.0 })
        }
    }

    fn linear(high: f64) -> Self {
        let rough = high / 6.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * magnitude).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let high = (high * 1.04 / step).ceil() * step;
        let ticks = (0..=(high / step).round() as u32).map(|i| f64::from(i) * step);
        Scale { log: false, low: 0.0, high, ticks: ticks.map(|at| (at, number(at))).collect() }
    }

    fn logarithmic(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        // With few decades there is room for more ticks.
        let between: &[f64] = if last - first <= 4 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks = (first..=last).flat_map(|decade| between.iter().map(move |m| m * 10f64.powi(decade)));
        let (low, high) = (low / 1.3, high * 1.3);
        let ticks = ticks.filter(|at| (low..=high).contains(at)).map(|at| (at, number(at)));
        Scale { log: true, low, high, ticks: ticks.collect() }
    }

    /// An axis of categories. Category `i` takes the range from `i` to `i + 1`.
    pub fn of_categories(categories: &[String]) -> Self {
        let ticks = (0..).zip(categories).map(|(i, category)| (f64::from(i) + 0.5, category.clone()));
        Scale { log: false, low: 0.0, high: categories.len().max(1) as f64, ticks: ticks.collect() }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|tick| tick.0 == *value).map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

/// Formats a number for an axis: up to two decimals and a suffix for the magnitude.
pub fn number(value: f64) -> String {
    let (scale, sign) = match value.abs() {
        v if v >= 0.9995e9 => (1e9, "G"),
        v if v >= 0.9995e6 => (1e6, "M"),
        v if v >= 0.9995e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = format!("{:.2}", value / scale);
    format!("{}{sign}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_logarithmic_where_values_span_decades() {
        assert!(Scale::of([1e6, 1e9].into_iter()).log);
        let linear = Scale::of([1.0, 16.0].into_iter());
        assert!(!linear.log && linear.low == 0.0);
        assert_eq!(linear.ticks[0], (0.0, "0".to_owned()));
        assert!(linear.high >= 16.0 && linear.ticks.len() < 10, "{:?}", linear.ticks);
        assert!(!Scale::of([0.0, 1e9].into_iter()).log, "zero has no logarithm");
        assert!(Scale::of(std::iter::empty()).high > 0.0);
    }

    #[test]
    fn numbers_are_short() {
        let texts =
            [(0.0, "0"), (0.25, "0.25"), (8.0, "8"), (1500.0, "1500"), (64e6, "64M"), (1e9, "1G"), (2.5e4, "25k")];
        for (value, text) in texts {
            assert_eq!(number(value), text);
        }
    }
}
