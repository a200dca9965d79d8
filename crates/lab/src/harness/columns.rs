//! Tables for a terminal with one column for each record.

use std::fmt;

use super::Measured;
use crate::table::Table;

/// A table under construction. The first record is the reference for the others.
pub struct Columns<'a, R> {
    records: &'a [R],
    table: Table,
}

impl<'a, R> Columns<'a, R> {
    /// Makes a table whose columns have these heads.
    pub fn new(records: &'a [R], head: impl Fn(&R) -> String) -> Self {
        let heads: Vec<_> = std::iter::once(String::new()).chain(records.iter().map(head)).collect();
        let heads: Vec<_> = heads.iter().map(String::as_str).collect();
        Columns { records, table: Table::new(&heads) }
    }

    /// Adds a row.
    pub fn row(&mut self, head: &str, cell: impl Fn(&R) -> String) {
        self.known(head, |record| Some(cell(record)));
    }

    /// Adds a row of what some records have; none if no record has it.
    pub fn known(&mut self, head: &str, cell: impl Fn(&R) -> Option<String>) {
        let cells: Vec<_> = self.records.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            self.table.add(std::iter::once(head.to_owned()).chain(cells).collect());
        }
    }
}

impl<R: Measured> Columns<'_, R> {
    /// Adds the rate with its extremes, and the speedup over the first record.
    pub fn rates(&mut self, head: &str, format: impl Fn(f64) -> String) {
        self.row(head, |record| format(record.rate().median));
        self.row("  slowest repetition", |record| format(record.rate().min));
        self.row("  fastest repetition", |record| format(record.rate().max));
        if let [first, _, ..] = self.records {
            let first = first.rate().median;
            self.row("  speedup over the first", |record| format!("{:.2}", record.rate().median / first));
        }
    }
}

impl<R> fmt::Display for Columns<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}
