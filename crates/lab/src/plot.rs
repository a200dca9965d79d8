//! Plots of results, as SVG.
//!
//! An axis is logarithmic where its values span decades, and starts at zero elsewhere, so that
//! lengths and heights compare.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (960, 540);
const FONT: (&str, u32) = ("sans-serif", 15);
/// Width of one letter of [`FONT`], about: no font file is read to find out.
const LETTER_WIDTH: i32 = 8;
/// An axis whose largest value is this many times its smallest is logarithmic.
const LOG_RATIO_MIN: f64 = 30.0;
/// Of the place of one group of bars, what the bars take.
const BARS_SHARE: f64 = 0.8;

/// Colours that people who see colours differently tell apart [Okabe and Ito 2008].
///
/// The last four are for plots with more lines than those eight.
const COLORS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
    RGBColor(118, 42, 131),
    RGBColor(140, 140, 140),
    RGBColor(140, 81, 10),
    RGBColor(165, 219, 160),
];

/// A plot of lines over numbers, or of bars over categories.
pub struct Chart {
    title: String,
    x: X,
    /// What is measured, with its unit.
    y_label: String,
    series: Vec<Series>,
}

enum X {
    /// Label of the axis, with its unit.
    Numbers(String),
    /// A group of bars for each.
    Categories(Vec<String>),
}

struct Series {
    label: String,
    points: Vec<(f64, f64)>,
}

impl Chart {
    /// Lines, over an axis of numbers.
    pub fn lines(title: impl Into<String>, x_label: &str, y_label: &str) -> Self {
        Chart {
            title: title.into(),
            x: X::Numbers(x_label.to_owned()),
            y_label: y_label.to_owned(),
            series: Vec::new(),
        }
    }

    /// Groups of bars: a group for each category, in it a bar for each series.
    pub fn bars(title: impl Into<String>, categories: Vec<String>, y_label: &str) -> Self {
        Chart { title: title.into(), x: X::Categories(categories), y_label: y_label.to_owned(), series: Vec::new() }
    }

    /// Adds a line through these points.
    pub fn line(&mut self, label: impl Into<String>, points: Vec<(f64, f64)>) {
        self.series.push(Series { label: label.into(), points });
    }

    /// Adds a bar to each category; no bar where there is no value.
    pub fn bar(&mut self, label: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) {
        let points = (0..).zip(values).filter_map(|(i, value)| Some((f64::from(i), value?))).collect();
        self.series.push(Series { label: label.into(), points });
    }

    /// Writes the plot.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let mut svg = String::new();
        self.draw_onto(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())?;
        Ok(std::fs::write(path, svg)?)
    }

    fn draw_onto(&self, area: &Area<'_>) -> anyhow::Result<()> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x_scale = match &self.x {
            X::Numbers(_) => Scale::of(points().map(|p| p.0)),
            X::Categories(categories) => Scale::of_categories(categories),
        };
        let y_scale = Scale::of(points().map(|p| p.1));
        let y_low = y_scale.low;
        area.fill(&WHITE)?;
        let (head, body) = area.split_vertically(34 + 22 * self.legend_rows().len() as u32);
        self.draw_head(&head)?;
        let mut chart = ChartBuilder::on(&body)
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(x_scale, y_scale)?;
        let mut mesh = chart.configure_mesh();
        match &self.x {
            X::Numbers(label) => mesh.x_desc(label),
            X::Categories(_) => mesh.disable_x_mesh(),
        };
        mesh.y_desc(&self.y_label)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_desc_style(FONT)
            .label_style(FONT)
            .draw()?;
        for (series, color) in self.series.iter().zip(COLORS.iter().cycle()) {
            if let X::Numbers(_) = &self.x {
                chart.draw_series(LineSeries::new(series.points.iter().copied(), color.stroke_width(2)))?;
                chart.draw_series(series.points.iter().map(|&at| Circle::new(at, 4, color.filled())))?;
            }
        }
        if let X::Categories(_) = &self.x {
            let width = BARS_SHARE / self.series.len() as f64;
            for (i, (series, color)) in self.series.iter().zip(COLORS.iter().cycle()).enumerate() {
                let left = (1.0 - BARS_SHARE) / 2.0 + width * i as f64;
                chart.draw_series(series.points.iter().map(|&(x, y)| {
                    Rectangle::new([(x + left, y_low), (x + left + width * 0.92, y)], color.filled())
                }))?;
            }
        }
        Ok(())
    }

    /// Title and legend.
    fn draw_head(&self, head: &Area<'_>) -> anyhow::Result<()> {
        let left = Pos::new(HPos::Left, VPos::Center);
        let title = ("sans-serif", 18).into_text_style(head).pos(left);
        head.draw(&Text::new(self.title.clone(), (20, 20), title))?;
        let style = FONT.into_text_style(head).pos(left);
        for (row, members) in (0..).zip(self.legend_rows()) {
            let (mut x, y) = (20, 44 + 22 * row);
            for i in members {
                let label = &self.series[i].label;
                head.draw(&Rectangle::new([(x, y - 5), (x + 18, y + 5)], COLORS[i % COLORS.len()].filled()))?;
                head.draw(&Text::new(label.clone(), (x + 24, y), style.clone()))?;
                x += legend_width(label);
            }
        }
        Ok(())
    }

    /// The series that each row of the legend names; one series needs no legend.
    fn legend_rows(&self) -> Vec<Vec<usize>> {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        if self.series.len() < 2 {
            return rows;
        }
        let mut room = 0;
        for (i, series) in self.series.iter().enumerate() {
            room -= legend_width(&series.label);
            if room < 0 || rows.is_empty() {
                rows.push(Vec::new());
                room = SIZE.0 as i32 - 40 - legend_width(&series.label);
            }
            rows.last_mut().expect("a row was pushed").push(i);
        }
        rows
    }
}

fn legend_width(label: &str) -> i32 {
    24 + LETTER_WIDTH * label.chars().count() as i32 + 20
}

/// An axis: from values to pixels, and where it has its ticks.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
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
        // With few decades there is room for ticks between them.
        let between: &[f64] = if last - first <= 4 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks = (first..=last).flat_map(|decade| between.iter().map(move |m| m * 10f64.powi(decade)));
        let (low, high) = (low / 1.3, high * 1.3);
        let ticks = ticks.filter(|at| (low..=high).contains(at)).map(|at| (at, number(at)));
        Scale { log: true, low, high, ticks: ticks.collect() }
    }

    /// The place of category `i` is from `i` to `i + 1`.
    fn of_categories(categories: &[String]) -> Self {
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

/// A number as an axis has it: three digits and a sign for the magnitude.
fn number(value: f64) -> String {
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

    fn drawn(chart: &Chart) -> String {
        let folder = std::env::temp_dir().join(format!("byname-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for files of tests");
        let path = folder.join(format!("{}.svg", chart.title));
        chart.draw(&path).expect("a plot");
        std::fs::read_to_string(path).expect("the file is there")
    }

    #[test]
    fn a_chart_names_its_axes_and_series_and_labels_ticks() {
        let mut chart = Chart::lines("rate by size", "rules", "lookups/s");
        chart.line("compact", vec![(1e6, 3e7), (1e9, 1e7)]);
        chart.line("trie", vec![(1e6, 1e6)]);
        let svg = drawn(&chart);
        for text in ["rate by size", "rules", "lookups/s", "compact", "trie", "1M", "10M", "100M", "1G", "polyline"] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn bars_stand_on_zero_and_are_left_out_where_there_is_no_value() {
        let mut chart = Chart::bars("pages", vec!["4k".to_owned(), "2m".to_owned()], "ns a lookup");
        chart.bar("always", [Some(100.0), Some(70.0)]);
        chart.bar("end", [Some(90.0), None]);
        let svg = drawn(&chart);
        let color = |i: usize| format!("fill=\"#{:02X}{:02X}{:02X}\"", COLORS[i].0, COLORS[i].1, COLORS[i].2);
        // One more each for the legend.
        assert_eq!(svg.matches(&color(0)).count(), 3, "{svg}");
        assert_eq!(svg.matches(&color(1)).count(), 2, "{svg}");
    }

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
