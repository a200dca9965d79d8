//! A list: titles, and the rows around the selected one.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::Look;
use crate::manage::table::cut;
use crate::top::columns::{Column, Row};
use crate::top::state::{Order, State, Tab};

/// Least width of text, before columns are left out.
const TEXT_MIN: usize = 16;

/// Draws the list of the current tab. Notes how many rows a page has.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, look: &Look, area: Rect) {
    state.page = usize::from(area.height.saturating_sub(1)).max(1);
    let (rows, columns) = (state.rows(), state.tab.columns());
    let widths = widths(columns, usize::from(area.width), &rows);
    let mut lines = vec![titles(state, look, columns, &widths)];
    let place = state.place(&rows);
    let first = place / state.page * state.page;
    for (at, row) in rows.iter().enumerate().skip(first).take(state.page) {
        let text = line(row.cells.iter().map(|cell| cell.text.as_str()), columns, &widths);
        let is_selected = at == place;
        lines.push(if is_selected {
            // The whole line, also behind its end.
            Line::styled(format!("{text:<width$}", width = usize::from(area.width)), look.selected())
        } else {
            Line::raw(text)
        });
    }
    if rows.is_empty() {
        lines.push(Line::styled(nothing(state), look.faint()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn nothing(state: &State) -> &'static str {
    match state.tab {
        _ if !state.filter.is_empty() => "nothing matches the filter (Esc drops it)",
        Tab::Prefixes if state.report.traffic.is_none() => "the router counts for the first time: wait some seconds",
        Tab::Prefixes => "no packets",
        Tab::Drops => "nothing was dropped",
        Tab::Faces | Tab::Threads => "none",
    }
}

fn titles(state: &State, look: &Look, columns: &[Column], widths: &[Option<usize>]) -> Line<'static> {
    let Order { column: sorted, reversed } = state.orders[state.tab as usize];
    let mut spans = Vec::new();
    for (at, (column, width)) in columns.iter().zip(widths).enumerate() {
        let Some(width) = width else { continue };
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        let title = cell(column.title, column, *width);
        let style = look.key();
        spans.push(if at == sorted {
            let arrow = if reversed { "^" } else { "v" };
            let marked = format!("{}{arrow}", column.title);
            let marked = if marked.chars().count() <= *width { cell(&marked, column, *width) } else { title };
            Span::styled(marked, style.patch(look.selected()))
        } else {
            Span::styled(title, style)
        });
    }
    Line::from(spans)
}

fn line<'t>(cells: impl Iterator<Item = &'t str>, columns: &[Column], widths: &[Option<usize>]) -> String {
    let shown =
        cells.zip(columns).zip(widths).filter_map(|((text, column), width)| Some(cell(text, column, (*width)?)));
    shown.collect::<Vec<_>>().join(" ")
}

/// A text in its column: numbers on the right.
fn cell(text: &str, column: &Column, width: usize) -> String {
    let text = cut(text, width);
    if column.width.is_some() { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// The widths of the columns; `None`: it is left out. Text gets what numbers leave, as far as it needs it.
fn widths(columns: &[Column], width: usize, rows: &[Row]) -> Vec<Option<usize>> {
    let longest = |at: usize| rows.iter().map(|row| row.cells[at].text.chars().count()).max().unwrap_or(0);
    let least = |column: &Column| column.width.map_or(TEXT_MIN, usize::from);
    let mut shown: Vec<bool> = vec![true; columns.len()];
    let needed = |shown: &[bool]| {
        let widths = columns.iter().zip(shown).filter(|(_, shown)| **shown).map(|(column, _)| least(column) + 1);
        widths.sum::<usize>().saturating_sub(1)
    };
    while needed(&shown) > width {
        let least_important = (0..columns.len()).filter(|at| shown[*at] && columns[*at].importance > 0);
        let Some(at) = least_important.max_by_key(|at| (columns[*at].importance, *at)) else { break };
        shown[at] = false;
    }
    let spare = width.saturating_sub(needed(&shown));
    let of = |at: usize| {
        let column = &columns[at];
        shown[at].then(|| match column.width {
            Some(width) => usize::from(width),
            None => longest(at).max(column.title.chars().count()).clamp(TEXT_MIN, TEXT_MIN + spare),
        })
    };
    (0..columns.len()).map(of).collect()
}
