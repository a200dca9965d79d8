//! Tables for people: headers, alignment, and widths that fit the terminal.

use std::io::IsTerminal;

use super::paint;

/// Width of a terminal that does not tell its own.
const USUAL_WIDTH: usize = 80;
/// Least width of a column that is cut.
const WIDTH_MIN: usize = 8;
/// Space between columns.
const GAP: usize = 2;

/// Width of the terminal that standard output is. `None`: it is none, but a pipe or a file.
pub fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    Some(terminal_size::terminal_size().map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0)).max(40))
}

/// How a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Text, cut in the middle if the table is too wide.
    Text(&'static str),
    /// A short word, never cut.
    Word(&'static str),
    /// A number, aligned to the right and never cut.
    Number(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Text(title) | Column::Word(title) | Column::Number(title) => title,
        }
    }
}

/// Rows of cells below titles.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Column]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Adds rows.
    pub fn rows(mut self, rows: impl Iterator<Item = Vec<String>>) -> Self {
        rows.for_each(|row| self.row(row));
        self
    }

    /// The table in at most `width` characters, as far as columns can be cut.
    pub fn text(&self, width: usize) -> String {
        let widths = self.widths(width);
        let titles = self.columns.iter().map(|column| column.title().to_owned());
        let mut text = format!("{}\n", paint::key(&self.line(titles, &widths)));
        for row in &self.rows {
            text += &self.line(row.iter().cloned(), &widths);
            text.push('\n');
        }
        text
    }

    fn line(&self, cells: impl Iterator<Item = String>, widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, column), &width) in cells.zip(&self.columns).zip(widths) {
            let cell = cut(&cell, width);
            let space = " ".repeat(width.saturating_sub(cell.chars().count()));
            line += &match column {
                Column::Number(_) => format!("{space}{cell}"),
                _ => format!("{cell}{space}"),
            };
            line += &" ".repeat(GAP);
        }
        line.trim_end().to_owned()
    }

    /// The width of each column. If all are too wide, the widest columns of text lose first.
    fn widths(&self, width: usize) -> Vec<usize> {
        let len = |text: &str| text.chars().count();
        let widest = |place: usize| self.rows.iter().map(|row| len(&row[place])).max().unwrap_or(0);
        let columns = self.columns.iter().enumerate();
        let mut widths: Vec<usize> = columns.map(|(place, column)| widest(place).max(len(column.title()))).collect();
        let sum = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        while sum(&widths) > width {
            let can_be_cut =
                |place: &usize| matches!(self.columns[*place], Column::Text(_)) && widths[*place] > WIDTH_MIN;
            let Some(place) = (0..widths.len()).filter(can_be_cut).max_by_key(|place| widths[*place]) else { break };
            widths[place] -= 1;
        }
        widths
    }
}

/// A text in at most `width` characters. The beginning and the end stay: both tell most of a name or URI.
pub fn cut(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
}

/// A number for people: `1234`, `12.3k`, `4.56M`.
pub fn count(number: u64) -> String {
    human(number, 10_000, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// A size for people: `512 B`, `12.3 kB`.
pub fn bytes(number: u64) -> String {
    human(number, 1000, 1000.0, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

/// Numbers below `exact` stay as they are. Others have three digits and a unit.
fn human(number: u64, exact: u64, step: f64, units: &[&str]) -> String {
    if number < exact {
        return format!("{number}{}", units[0]);
    }
    let (mut value, mut unit) = (number as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (number, text) in
            [(0, "0"), (9999, "9999"), (10_000, "10.0k"), (999_499, "999k"), (999_500, "1.00M"), (u64::MAX, "18.4E")]
        {
            assert_eq!(count(number), text);
        }
        for (number, text) in [(999, "999 B"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (123_456_789, "123 MB")] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn a_table_fits_and_numbers_are_on_the_right() {
        let table = Table::new(&[Column::Number("FACE"), Column::Text("REMOTE"), Column::Word("KIND")]).rows(
            [("7", "udp4://192.0.2.1:6363"), ("1000", "x")]
                .into_iter()
                .map(|(face, remote)| vec![face.to_owned(), remote.to_owned(), "local".to_owned()]),
        );
        assert_eq!(
            table.text(80),
            "FACE  REMOTE                 KIND\n   7  udp4://192.0.2.1:6363  local\n1000  x                      local\n"
        );
        let narrow = table.text(24);
        assert!(narrow.lines().all(|line| line.chars().count() <= 24), "{narrow}");
        assert!(narrow.contains("udp4:/…1:6363") || narrow.contains("udp4:…:6363"), "{narrow}");
        assert!(table.text(1).contains("local"), "words and numbers are never cut");
    }
}
