//! Tables of results for a terminal.

use std::fmt;

/// Rows of text in aligned columns.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table with these column headings.
    pub fn new(heads: &[&str]) -> Self {
        Table { rows: vec![heads.iter().map(|&head| head.to_owned()).collect()] }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of cells is not that of the headings.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.add(cells.into());
    }

    /// Adds a row with a cell for each heading.
    ///
    /// # Panics
    /// If the number of cells is not that of the headings.
    pub fn add(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a cell for each head");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        // Numbers are aligned right, so that their last digits line up.
        let is_number =
            |cell: &String| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
        let right: Vec<_> = (0..columns).map(|c| self.rows[1..].iter().all(|row| is_number(&row[c]))).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&right) {
                let padding = " ".repeat(width - cell.chars().count());
                line += &if right { format!("{padding}{cell}  ") } else { format!("{cell}{padding}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats a count: `64 M`, `1.5 M`, `16 Mi`, `300`.
pub fn count(n: u64) -> String {
    let (unit, sign) = match n {
        0..10_000 => return n.to_string(),
        _ if n.is_multiple_of(1 << 20) => (f64::from(1 << 20), "Mi"),
        _ if n.is_multiple_of(1 << 10) && !n.is_multiple_of(1000) => (f64::from(1 << 10), "Ki"),
        10_000..1_000_000 => (1e3, "k"),
        1_000_000..1_000_000_000 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let scaled = n as f64 / unit;
    if scaled.fract() == 0.0 { format!("{scaled} {sign}") } else { format!("{scaled:.1} {sign}") }
}

/// Formats a rate in millions.
pub fn millions(rate: f64) -> String {
    format!("{:.2}", rate / 1e6)
}

/// The name of a choice on the command line.
pub fn word(choice: impl clap::ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The relative change from `before` to `after`: `-12 %`.
pub fn change(before: f64, after: f64) -> String {
    format!("{:+.0} %", (after / before - 1.0) * 100.0)
}

/// Formats a share of one as `45 %`; empty if unknown.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0))
}

/// Formats a number with `decimals` decimals; empty if unknown.
pub fn optional(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(String::new, |number| format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() {
        let mut table = Table::new(&["engine", "rate"]);
        table.row(["compact".to_owned(), "9".to_owned()]);
        table.row(["trie".to_owned(), "12.5".to_owned()]);
        assert_eq!(table.to_string(), "engine   rate\ncompact     9\ntrie     12.5\n");
    }

    #[test]
    fn counts_are_short() {
        let decimal = [(0, "0"), (9_999, "9999"), (310_516, "310.5 k"), (64_000_000, "64 M"), (1_500_000_000, "1.5 G")];
        let binary = [(1 << 18, "256 Ki"), (64 << 20, "64 Mi")];
        for (n, text) in decimal.into_iter().chain(binary) {
            assert_eq!(count(n), text);
        }
    }
}
