//! Plots of results, as SVG.
//!
//! An axis is logarithmic if its values span decades. Otherwise it starts at zero, so that lengths and heights can be
//! compared. An error bar goes from the slowest to the fastest repetition. Dashed lines are references: the papers'
//! figures in black, and the machine's own limit in grey. A reference far from all measured values does not stretch the
//! axis; the legend gives its value instead.

mod scale;

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::timing::Spread;
use scale::{Scale, number};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Axes<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;

const SIZE: (u32, u32) = (960, 560);
const FONT: (&str, u32) = ("sans-serif", 15);
/// Font of the caption, which has to fit one line.
const CAPTION_FONT: (&str, u32) = ("sans-serif", 12);
/// Approximate width of a letter of [`FONT`], because no font file is read.
const LETTER_WIDTH: i32 = 8;
/// Height of a row of the legend.
const ROW_HEIGHT: i32 = 22;
/// Share of a group's space that its bars take.
const BARS_SHARE: f64 = 0.8;
/// Share of a bar's space that it fills.
const BAR_SHARE: f64 = 0.92;
/// A reference further than this factor from all measured values does not stretch the axis.
const STRETCH_MAX: f64 = 2.5;
/// Half the width of an error bar's ends, in pixels.
const CAP: i32 = 4;
/// Dashes and gaps of references, in pixels, so that several of one colour can be told apart.
const DASHES: [(u32, u32); 3] = [(9, 5), (3, 4), (16, 5)];
/// End of the caption where there are error bars.
const ERROR_BARS: &str = "; error bars: slowest and fastest repetition";
/// Mark over a plot whose values say nothing about speed.
const QUICK: &str = "quick run: not a measurement";

/// Colours that colour-blind people can distinguish [Okabe and Ito 2008].
///
/// The last four are for plots with more than eight lines.
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

/// Grey, for what bounds all series.
const GREY: RGBColor = RGBColor(120, 120, 120);

/// A plot of lines over numbers, or of bars over categories.
pub struct Chart {
    title: String,
    x: X,
    /// The measured quantity, with its unit.
    y_label: String,
    series: Vec<Series>,
    references: Vec<Reference>,
}

enum X {
    /// Label of the axis, with its unit.
    Numbers(String),
    /// One group of bars for each category.
    Categories(Vec<String>),
}

/// Measured values.
struct Series {
    label: String,
    points: Vec<(f64, Spread)>,
}

/// Values to compare with, drawn dashed.
struct Reference {
    label: String,
    color: RGBColor,
    points: Vec<(f64, f64)>,
    place: Place,
}

/// Where a reference is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// A line across the whole plot, at the height of the only point.
    Plot,
    /// A line through the points, or across each category.
    Points,
    /// Across the bars of this series.
    Bars(usize),
}

impl Chart {
    /// Makes a plot of lines over an axis of numbers.
    pub fn lines(title: impl Into<String>, x_label: &str, y_label: &str) -> Self {
        Chart::new(title.into(), X::Numbers(x_label.to_owned()), y_label)
    }

    /// Makes a plot of bars: a group for each category, and in it a bar for each series.
    pub fn bars(title: impl Into<String>, categories: Vec<String>, y_label: &str) -> Self {
        Chart::new(title.into(), X::Categories(categories), y_label)
    }

    fn new(title: String, x: X, y_label: &str) -> Self {
        Chart { title, x, y_label: y_label.to_owned(), series: Vec::new(), references: Vec::new() }
    }

    /// Adds a line through these points.
    pub fn line<V: Into<Spread>>(&mut self, label: impl Into<String>, points: Vec<(f64, V)>) {
        let points = points.into_iter().map(|(x, y)| (x, y.into())).collect();
        self.series.push(Series { label: label.into(), points });
    }

    /// Adds a bar to each category; `None` leaves it out.
    pub fn bar<V: Into<Spread>>(&mut self, label: impl Into<String>, values: impl IntoIterator<Item = Option<V>>) {
        let points = (0..).zip(values).filter_map(|(i, value)| Some((f64::from(i), value?.into()))).collect();
        self.series.push(Series { label: label.into(), points });
    }

    /// Adds a paper's figures. In a plot of bars, `x` is the number of a category.
    pub fn paper(&mut self, label: impl Into<String>, points: Vec<(f64, f64)>) {
        self.refer(label, BLACK, points, Place::Points);
    }

    /// Adds a paper's figure as a line across the plot.
    pub fn paper_level(&mut self, label: impl Into<String>, y: f64) {
        self.refer(label, BLACK, vec![(0.0, y)], Place::Plot);
    }

    /// Adds a paper's figures for the bars that were added last; `None` where it has none.
    pub fn paper_of_bars(&mut self, label: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) {
        let points = (0..).zip(values).filter_map(|(i, value)| Some((f64::from(i), value?))).collect();
        self.refer(label, BLACK, points, Place::Bars(self.series.len().saturating_sub(1)));
    }

    /// Adds a bound that holds for all series.
    pub fn bound(&mut self, label: impl Into<String>, points: Vec<(f64, f64)>) {
        self.refer(label, GREY, points, Place::Points);
    }

    /// Adds the machine's rate of random reads. If an `x` has several rates, the highest counts.
    pub fn machine_rate(&mut self, points: impl IntoIterator<Item = (f64, f64)>) {
        self.bound("machine: random cache lines/s", best(points, |new, old| new > old));
    }

    /// Adds the machine's time of one random read. If an `x` has several times, the shortest counts.
    pub fn machine_time(&mut self, points: impl IntoIterator<Item = (f64, f64)>) {
        self.bound("machine: one random cache line", best(points, |new, old| new < old));
    }

    fn refer(&mut self, label: impl Into<String>, color: RGBColor, points: Vec<(f64, f64)>, place: Place) {
        if !points.is_empty() {
            self.references.push(Reference { label: label.into(), color, points, place });
        }
    }

    /// Writes the plot. The caption says where the values come from. `quick` marks values of a quick run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, path: &Path, caption: &str, quick: bool) -> anyhow::Result<()> {
        let mut svg = String::new();
        self.draw_onto(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(), caption, quick)?;
        Ok(std::fs::write(path, svg)?)
    }

    fn draw_onto(&self, area: &Area<'_>, caption: &str, quick: bool) -> anyhow::Result<()> {
        area.fill(&WHITE)?;
        let legend = self.legend();
        let head_height = 40 + ROW_HEIGHT * legend.last().map_or(0, |entry| entry.row + 1);
        let (head, rest) = area.split_vertically(head_height);
        let (body, foot) = rest.split_vertically(SIZE.1 as i32 - head_height - 28);
        self.draw_head(&head, &legend)?;
        let left = Pos::new(HPos::Left, VPos::Center);
        let repeated = self.series.iter().flat_map(|series| &series.points).any(|(_, y)| y.min < y.max);
        let caption = format!("{caption}{}", if repeated { ERROR_BARS } else { "" });
        foot.draw(&Text::new(caption, (20, 12), CAPTION_FONT.into_text_style(&foot).pos(left)))?;
        let mut axes = ChartBuilder::on(&body)
            .margin(12)
            .margin_bottom(0)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(self.x_scale(), self.y_scale())?;
        let mut mesh = axes.configure_mesh();
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
        self.draw_series(&mut axes)?;
        self.draw_references(&mut axes)?;
        if quick {
            let (width, height) = body.dim_in_pixel();
            let color = RED.mix(0.35);
            let style = ("sans-serif", 44).into_text_style(&body).color(&color);
            let place = (width as i32 / 2, height as i32 / 3);
            body.draw(&Text::new(QUICK, place, style.pos(Pos::new(HPos::Center, VPos::Center))))?;
        }
        Ok(())
    }

    fn draw_series(&self, axes: &mut Axes<'_, '_>) -> anyhow::Result<()> {
        for (i, series) in self.series.iter().enumerate() {
            let color = color(i);
            let medians = || series.points.iter().map(|(x, y)| (*x, y.median));
            match &self.x {
                X::Numbers(_) => {
                    axes.draw_series(LineSeries::new(medians(), color.stroke_width(2)))?;
                    axes.draw_series(medians().map(|at| Circle::new(at, 4, color.filled())))?;
                    draw_error_bars(axes, &series.points, color)?;
                }
                X::Categories(_) => {
                    let low = axes.y_range().start;
                    let bar = |(x, y)| {
                        let (left, right) = self.place_of_bar(i, x);
                        Rectangle::new([(left, low), (right, y)], color.filled())
                    };
                    axes.draw_series(medians().map(bar))?;
                    let center = |x| (self.place_of_bar(i, x).0 + self.place_of_bar(i, x).1) / 2.0;
                    let points: Vec<_> = series.points.iter().map(|(x, y)| (center(*x), *y)).collect();
                    draw_error_bars(axes, &points, BLACK)?;
                }
            }
        }
        Ok(())
    }

    fn draw_references(&self, axes: &mut Axes<'_, '_>) -> anyhow::Result<()> {
        let x_range = axes.x_range();
        for (number, reference) in self.references.iter().enumerate() {
            let inside = self.shown(reference);
            let level = |left: f64, right: f64, y: f64| vec![(left, y), (right, y)];
            if reference.place == Place::Points && matches!(self.x, X::Numbers(_)) {
                axes.draw_series(inside.iter().map(|at| Cross::new(*at, CAP, reference.color.stroke_width(2))))?;
            }
            let segments: Vec<_> = match (&self.x, reference.place) {
                (_, Place::Plot) => inside.iter().map(|(_, y)| level(x_range.start, x_range.end, *y)).collect(),
                (X::Numbers(_), _) => vec![inside],
                (X::Categories(_), Place::Points) => inside.iter().map(|(x, y)| level(*x, x + 1.0, *y)).collect(),
                (X::Categories(_), Place::Bars(series)) => {
                    let bars = inside.iter().map(|(x, y)| (self.place_of_bar(series, *x), *y));
                    bars.map(|((left, right), y)| level(left, right, y)).collect()
                }
            };
            let (size, spacing) = DASHES[number % DASHES.len()];
            for segment in segments {
                let style = reference.color.stroke_width(2);
                axes.draw_series(DashedLineSeries::new(segment, size, spacing, style))?;
            }
        }
        Ok(())
    }

    /// Draws title and legend.
    fn draw_head(&self, head: &Area<'_>, legend: &[Entry]) -> anyhow::Result<()> {
        let left = Pos::new(HPos::Left, VPos::Center);
        let title = ("sans-serif", 18).into_text_style(head).pos(left);
        head.draw(&Text::new(self.title.clone(), (20, 20), title))?;
        let style = FONT.into_text_style(head).pos(left);
        for Entry { row, x, label, swatch } in legend {
            let (x, y) = (*x, 46 + ROW_HEIGHT * row);
            match *swatch {
                Swatch::Filled(color) => head.draw(&Rectangle::new([(x, y - 5), (x + 18, y + 5)], color.filled()))?,
                Swatch::Dashed(color, (size, spacing)) => {
                    let mut from = x;
                    while from < x + 18 {
                        let to = (from + size as i32).min(x + 18);
                        head.draw(&PathElement::new([(from, y), (to, y)], color.stroke_width(2)))?;
                        from = to + spacing as i32;
                    }
                }
            }
            head.draw(&Text::new(label.clone(), (x + 24, y), style.clone()))?;
        }
        Ok(())
    }

    /// The entries of the legend. A single series without references needs none.
    fn legend(&self) -> Vec<Entry> {
        if self.series.len() + self.references.len() < 2 {
            return Vec::new();
        }
        let series = (0..).zip(&self.series).map(|(i, series)| (series.label.clone(), Swatch::Filled(color(i))));
        let references = self.references.iter().enumerate().map(|(i, reference)| {
            (self.label_of(reference), Swatch::Dashed(reference.color, DASHES[i % DASHES.len()]))
        });
        let (mut row, mut x) = (0, 20);
        let mut entries = Vec::new();
        for (label, swatch) in series.chain(references) {
            let width = 24 + LETTER_WIDTH * label.chars().count() as i32 + 20;
            if x > 20 && x + width > SIZE.0 as i32 - 20 {
                (row, x) = (row + 1, 20);
            }
            entries.push(Entry { row, x, label, swatch });
            x += width;
        }
        entries
    }

    /// A reference's label, with its values if none of them is on the plot.
    fn label_of(&self, reference: &Reference) -> String {
        let values = || reference.points.iter().map(|point| point.1);
        let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        match !self.shown(reference).is_empty() {
            true => reference.label.clone(),
            false if low < high => {
                format!("{}: {} to {}, off the plot", reference.label, number(low), number(high))
            }
            false => format!("{}: {}, off the plot", reference.label, number(high)),
        }
    }

    /// The smallest and the largest measured value.
    fn measured(&self) -> (f64, f64) {
        let values = self.series.iter().flat_map(|series| &series.points);
        values.fold((f64::INFINITY, 0.0f64), |(low, high), (_, y)| (low.min(y.min), high.max(y.max)))
    }

    fn x_scale(&self) -> Scale {
        match &self.x {
            X::Numbers(_) => Scale::of(self.series.iter().flat_map(|series| &series.points).map(|point| point.0)),
            X::Categories(categories) => Scale::of_categories(categories),
        }
    }

    fn y_scale(&self) -> Scale {
        Scale::of(self.y_values())
    }

    /// The points of a reference that lie within both axes.
    fn shown(&self, reference: &Reference) -> Vec<(f64, f64)> {
        let (x_scale, y_scale) = (self.x_scale(), self.y_scale());
        let is_within = |scale: &Scale, at: f64| scale.low <= at && at <= scale.high;
        let is_shown = |point: &&(f64, f64)| {
            is_within(&y_scale, point.1) && (reference.place == Place::Plot || is_within(&x_scale, point.0))
        };
        reference.points.iter().filter(is_shown).copied().collect()
    }

    /// Measured values and references, except for those that would stretch the axis.
    fn y_values(&self) -> impl Iterator<Item = f64> {
        let measured = self.measured();
        let of_series = self.series.iter().flat_map(|series| &series.points).flat_map(|(_, y)| [y.min, y.max]);
        let references = self.references.iter().flat_map(|reference| &reference.points).map(|point| point.1);
        of_series.chain(references.filter(move |value| is_near(*value, measured)))
    }

    /// Left and right end of a bar in category `x`.
    fn place_of_bar(&self, series: usize, x: f64) -> (f64, f64) {
        let width = BARS_SHARE / self.series.len() as f64;
        let left = x + (1.0 - BARS_SHARE) / 2.0 + width * series as f64;
        (left, left + width * BAR_SHARE)
    }
}

/// An entry of the legend.
struct Entry {
    row: i32,
    /// Its left end, in pixels.
    x: i32,
    label: String,
    swatch: Swatch,
}

#[derive(Clone, Copy)]
enum Swatch {
    Filled(RGBColor),
    Dashed(RGBColor, (u32, u32)),
}

fn color(series: usize) -> RGBColor {
    COLORS[series % COLORS.len()]
}

/// The points in order of `x`, and of several at one `x` the better one.
fn best(points: impl IntoIterator<Item = (f64, f64)>, is_better: fn(f64, f64) -> bool) -> Vec<(f64, f64)> {
    let mut best: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        match best.iter_mut().find(|point| point.0 == x) {
            Some(point) if is_better(y, point.1) => point.1 = y,
            Some(_) => {}
            None => best.push((x, y)),
        }
    }
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    best
}

/// Whether a reference is close enough to the measured values for the same axis.
fn is_near(value: f64, (low, high): (f64, f64)) -> bool {
    low / STRETCH_MAX <= value && value <= high * STRETCH_MAX
}

/// Draws a bar from the slowest to the fastest repetition, where they differ.
fn draw_error_bars(axes: &mut Axes<'_, '_>, points: &[(f64, Spread)], color: RGBColor) -> anyhow::Result<()> {
    let with_repetitions = || points.iter().filter(|(_, y)| y.min < y.max);
    let style = color.stroke_width(1);
    axes.draw_series(with_repetitions().map(|(x, y)| PathElement::new([(*x, y.min), (*x, y.max)], style)))?;
    let ends = with_repetitions().flat_map(|(x, y)| [(*x, y.min), (*x, y.max)]);
    axes.draw_series(ends.map(|end| EmptyElement::at(end) + PathElement::new([(-CAP, 0), (CAP, 0)], style)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(chart: &Chart, quick: bool) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plot.svg");
        chart.draw(&path, "a machine", quick).expect("a plot");
        std::fs::read_to_string(path).expect("the file is there")
    }

    #[test]
    fn a_chart_names_its_axes_and_series_and_labels_ticks() {
        let mut chart = Chart::lines("rate by size", "rules", "lookups/s");
        chart.line("compact", vec![(1e6, 3e7), (1e9, 1e7)]);
        chart.line("trie", vec![(1e6, 1e6)]);
        let svg = drawn(&chart, false);
        let texts = ["rate by size", "rules", "lookups/s", "compact", "trie", "1M", "10M", "100M", "1G", "a machine"];
        for text in texts.into_iter().chain(["polyline"]) {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains(QUICK) && drawn(&chart, true).contains(QUICK));
    }

    #[test]
    fn bars_stand_on_zero_and_are_left_out_where_there_is_no_value() {
        let mut chart = Chart::bars("pages", vec!["4k".to_owned(), "2m".to_owned()], "ns a lookup");
        chart.bar("always", [Some(100.0), Some(70.0)]);
        chart.bar("end", [Some(90.0), None]);
        let svg = drawn(&chart, false);
        let fill = |i: usize| format!("fill=\"#{:02X}{:02X}{:02X}\"", COLORS[i].0, COLORS[i].1, COLORS[i].2);
        // One more rectangle each for the legend.
        assert_eq!(svg.matches(&fill(0)).count(), 3, "{svg}");
        assert_eq!(svg.matches(&fill(1)).count(), 2, "{svg}");
    }

    #[test]
    fn an_error_bar_is_drawn_where_repetitions_differ() {
        let lines_of = |spread: Spread| {
            let mut chart = Chart::bars("rates", vec!["one".to_owned()], "lookups/s");
            chart.bar("compact", [Some(spread)]);
            drawn(&chart, false).matches("<polyline").count()
        };
        let once = lines_of(Spread::from(2.0));
        assert_eq!(lines_of(Spread { median: 2.0, min: 1.9, max: 2.0 }), once + 3, "a bar with two ends");
    }

    #[test]
    fn references_are_dashed_and_do_not_stretch_the_axis_far() {
        let mut chart = Chart::lines("rates", "rules", "lookups/s");
        chart.line("compact", vec![(1.0, 10.0), (2.0, 12.0)]);
        let plain = drawn(&chart, false).matches("<polyline").count();
        chart.paper("[Yuan]", vec![(1.0, 20.0), (2.0, 19.0)]);
        chart.machine_rate([(2.0, 500.0), (1.0, 800.0), (1.0, 900.0)]);
        let svg = drawn(&chart, false);
        assert!(svg.matches("<polyline").count() > plain + 10, "{svg}");
        assert!(svg.contains("[Yuan]") && svg.contains("cache lines/s: 500 to 900, off the plot"), "{svg}");
        assert!(chart.y_values().all(|value| value <= 20.0));
    }

    #[test]
    fn a_paper_s_figure_stands_on_its_bar() {
        let mut chart = Chart::bars("rates", vec!["none".to_owned(), "all".to_owned()], "packets/s");
        chart.bar("compact", [Some(4.0), Some(5.0)]);
        chart.bar("ours", [Some(4.0), Some(5.0)]);
        chart.paper_of_bars("[Yuan]", [None, Some(4.5)]);
        assert_eq!(chart.references[0].points, [(1.0, 4.5)]);
        assert_eq!(chart.references[0].place, Place::Bars(1));
        assert!(drawn(&chart, false).contains("[Yuan]"));
    }
}
