//! Draws the screen of `byname top`.

mod list;
mod page;

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline};

use super::columns::{byte_rate, rate};
use super::state::{State, Tab};
use crate::manage::table::count;
use crate::manage::text;

/// Smallest screen on which anything is drawn.
const SMALLEST: (u16, u16) = (24, 5);
/// Height from which there is a history of rates.
const TALL: u16 = 16;

const HELP: &[(&str, &str)] = &[
    ("1 2 3 4, Tab", "faces, prefixes, threads, drops"),
    ("Up Down, j k", "select a row; PgUp, PgDn, Home and End, too"),
    ("Enter", "show the face, or what is below the prefix"),
    ("Esc, Backspace", "back; then drop the filter"),
    ("Left Right", "list shorter or longer prefixes"),
    ("s S, r", "sort by the next or last column; reverse the order"),
    ("/", "filter by text; Enter keeps it, Esc drops it"),
    ("+ -", "measure over a longer or shorter time"),
    ("Space", "pause"),
    ("q", "quit"),
    ("", ""),
    ("Prefixes:", "the router samples packets while you look; a list"),
    ("", "has the prefixes with most packets, and no others."),
    ("Answered in:", "time from an Interest to its Data from elsewhere."),
];

/// How the screen looks.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whether there are colours.
    pub colours: bool,
    /// The router's address.
    pub address: String,
}

impl Look {
    fn coloured(&self, style: Style, colour: Color) -> Style {
        if self.colours { style.fg(colour) } else { style }
    }

    fn title(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn key(&self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
    }

    fn bad(&self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red)
    }

    fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn selected(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Draws everything. Notes how many rows a page has.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, look: &Look) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let summary = summary(state, look, area.width);
    let summary_rows = if area.height < 10 { 1 } else { summary.len() as u16 };
    let history_rows = if area.height >= TALL { 2 } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(summary_rows),
        Constraint::Length(history_rows),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [top, history, tabs, body, bottom] = parts.areas(area);
    frame.render_widget(Paragraph::new(summary), top);
    draw_history(frame, state, look, history);
    frame.render_widget(Paragraph::new(tab_line(state, look)), tabs);
    match (state.tab, state.face) {
        (Tab::Faces, Some(id)) => page::face(frame, state, id, look, body),
        (Tab::Prefixes, _) if !state.below.as_ref().is_empty() => page::prefix(frame, state, look, body),
        _ => list::draw(frame, state, look, body),
    }
    frame.render_widget(Paragraph::new(bottom_line(state, look, area.width)), bottom);
    if state.shows_help {
        draw_help(frame, look, area);
    }
}

/// The lines about the router as a whole.
fn summary(state: &State, look: &Look, width: u16) -> Vec<Line<'static>> {
    let report = &state.report;
    let mut first = vec![
        Span::styled(report.version.clone(), look.title()),
        Span::raw(format!(", up {}", text::duration(Duration::from_secs(report.uptime_ms / 1000)))),
    ];
    if width >= 80 {
        first.push(Span::styled(format!("  {}", look.address), look.faint()));
    }
    if state.is_paused {
        first.push(Span::styled("  paused", look.bad()));
    }
    let mut lines = vec![match &state.down {
        Some(why) => Line::styled(why.replace('\n', "; "), look.bad()),
        None => Line::from(first),
    }];
    let way = |word: &str, interests: f64, data: f64, nacks: f64, bytes: f64| {
        Line::from(vec![
            Span::styled(format!("{word:<4}"), look.key()),
            Span::raw(format!(
                "{:>6} Interests/s {:>6} Data/s {:>6} Nacks/s {:>9}/s",
                rate(interests),
                rate(data),
                rate(nacks),
                byte_rate(bytes)
            )),
        ])
    };
    let r = report.rates;
    lines.push(way("in", r.in_interests_per_s, r.in_data_per_s, r.in_nacks_per_s, r.in_bytes_per_s));
    lines.push(way("out", r.out_interests_per_s, r.out_data_per_s, r.out_nacks_per_s, r.out_bytes_per_s));
    let ratio = |part: f64, rest: f64| match part + rest {
        all if all > 0.0 => format!("{:.1} %", part * 100.0 / all),
        _ => "-".to_owned(),
    };
    let mut tables = vec![
        Span::raw(format!(
            "pending {}  store {}/{}, hits {}  answered {}",
            count(report.pit_entries),
            count(report.cs_entries),
            count(report.cs_capacity),
            ratio(report.cs_hits_per_s, report.cs_misses_per_s),
            ratio(report.satisfied_per_s, report.unsatisfied_per_s),
        )),
        Span::raw("  "),
    ];
    let drops = format!("drops {}/s", rate(report.drops_per_s));
    tables.push(if report.drops_per_s >= 0.05 { Span::styled(drops, look.bad()) } else { Span::raw(drops) });
    lines.push(Line::from(tables));
    if let Some(window) = &report.traffic {
        let times = [window.answer_p50_ms, window.answer_p90_ms, window.answer_p99_ms];
        let ms = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), milliseconds);
        lines.push(Line::raw(format!(
            "answered in: half {}, 90 % {}, 99 % {}",
            ms(times[0]),
            ms(times[1]),
            ms(times[2])
        )));
    }
    lines
}

fn milliseconds(ms: f64) -> String {
    if ms < 9.95 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// Interests per second, as bars.
fn draw_history(frame: &mut Frame<'_>, state: &State, look: &Look, area: Rect) {
    if area.height == 0 {
        return;
    }
    let greatest = state.history.iter().map(|(interests, _)| *interests).fold(0.0, f64::max);
    let title = format!("Interests/s, at most {} ", rate(greatest));
    let width = u16::try_from(title.chars().count()).unwrap_or(area.width).min(area.width / 2);
    let [words, bars] = Layout::horizontal([Constraint::Length(width), Constraint::Min(1)]).areas(area);
    frame.render_widget(Paragraph::new(Line::styled(title, look.faint())), words);
    let shown = state.history.len().min(usize::from(bars.width));
    let values: Vec<u64> =
        state.history.iter().skip(state.history.len() - shown).map(|(interests, _)| interests.round() as u64).collect();
    frame.render_widget(Sparkline::default().data(&values).style(look.coloured(Style::new(), Color::Green)), bars);
}

fn tab_line(state: &State, look: &Look) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, tab) in Tab::ALL.into_iter().enumerate() {
        let counted = match tab {
            Tab::Faces => format!(" {}", state.report.faces.len()),
            _ => String::new(),
        };
        let words = format!(" {} {}{counted} ", number + 1, tab.title());
        spans.push(if tab == state.tab { Span::styled(words, look.selected()) } else { Span::raw(words) });
    }
    if state.tab == Tab::Prefixes {
        spans.push(Span::raw(format!("  below {}", state.below)));
        if state.deeper > 1 {
            spans.push(Span::raw(format!(", {} components deeper", state.deeper)));
        }
    }
    Line::from(spans)
}

/// The filter, or what keys do.
fn bottom_line(state: &State, look: &Look, width: u16) -> Line<'static> {
    if state.edits_filter {
        return Line::from(vec![
            Span::styled("filter: ", look.key()),
            Span::raw(state.filter.clone()),
            Span::styled(" ", look.selected()),
        ]);
    }
    let mut words = String::from("? help  q quit");
    if width >= 60 {
        words = format!("{words}  Enter open  s sort  / filter  Space pause");
    }
    let every = format!("  every {:.1} s", state.interval.as_secs_f64());
    let mut spans = vec![Span::styled(words, look.faint()), Span::styled(every, look.faint())];
    if !state.filter.is_empty() {
        spans.insert(0, Span::styled(format!("filter: {}  ", state.filter), look.key()));
    }
    Line::from(spans)
}

fn draw_help(frame: &mut Frame<'_>, look: &Look, area: Rect) {
    let (width, height) = (70.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let line = |(keys, words): &(&str, &str)| {
        Line::from(vec![Span::styled(format!(" {keys:<15}"), look.key()), Span::raw((*words).to_owned())])
    };
    let lines: Vec<Line<'_>> = HELP.iter().map(line).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}
