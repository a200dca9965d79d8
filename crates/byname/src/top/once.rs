//! `byname top --once`: one measurement, as text or JSON.

use std::io::Write;
use std::time::{Duration, Instant};

use super::columns::{self, Column, Row};
use super::report::Report;
use super::source::Source;
use super::state::{State, Tab};
use crate::manage::table;

/// Width of a line that is no terminal's.
const WIDTH: usize = 132;
/// Rows of each list as text. JSON has all.
const ROWS: usize = 20;
/// The router's window is this long; see `byname_forward::popular`.
const WINDOW: Duration = byname_forward::popular::WINDOW;

/// Measures over `interval`, and prints the result.
pub fn run(source: &mut Source, interval: Duration, json: bool) -> anyhow::Result<()> {
    let first = source.sample()?;
    let began = Instant::now();
    std::thread::sleep(interval);
    let mut last = source.sample()?;
    // The router has begun to count by prefix with the first question, unless others look, too.
    if last.traffic.as_ref().is_some_and(|traffic| traffic.window_ms == 0) {
        std::thread::sleep((WINDOW + Duration::from_millis(50)).saturating_sub(began.elapsed()));
        last = source.sample()?;
    }
    let report = Report::new(Some(&first), &last);
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        out.write_all(text(report, interval).as_bytes())?;
    }
    Ok(out.flush()?)
}

/// All lists, one below the other.
fn text(report: Report, interval: Duration) -> String {
    let width = table::terminal_width().unwrap_or(WIDTH);
    let mut state = State::new(interval);
    let mut text = format!(
        "{}\nin   {} Interests/s, {} Data/s\nout  {} Interests/s, {} Data/s\npending {}, drops {}/s\n",
        report.version,
        columns::rate(report.rates.in_interests_per_s),
        columns::rate(report.rates.in_data_per_s),
        columns::rate(report.rates.out_interests_per_s),
        columns::rate(report.rates.out_data_per_s),
        report.pit_entries,
        columns::rate(report.drops_per_s),
    );
    state.report = report;
    for tab in Tab::ALL {
        state.tab = tab;
        let rows = state.rows();
        if !rows.is_empty() {
            text += &format!("\n{}", list(tab.columns(), &rows, width));
        }
        if rows.len() > ROWS {
            text += &format!("and {} more; --json has all\n", rows.len() - ROWS);
        }
    }
    text
}

fn list(columns: &[Column], rows: &[Row], width: usize) -> String {
    let columns: Vec<table::Column> = columns
        .iter()
        .map(|column| match column.width {
            Some(_) => table::Column::Number(column.title),
            None => table::Column::Text(column.title),
        })
        .collect();
    let cells = rows.iter().take(ROWS).map(|row| row.cells.iter().map(|cell| cell.text.clone()).collect());
    table::Table::new(&columns).rows(cells).text(width)
}
