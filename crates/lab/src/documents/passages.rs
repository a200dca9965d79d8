//! Passages of a document: cells and paragraphs whose numbers come from the records.
//!
//! The marker `<!-- figures: NAME -->` stands behind a passage, where readers of the page do not see it. A passage
//! starts with its cell of a table, its item of a list or its paragraph, or behind the marker before.

use std::ops::Range;

use anyhow::Context as _;

use super::numbers::numbers;

/// Start of a marker.
pub const OPEN: &str = "<!-- figures: ";
const CLOSE: &str = " -->";
/// Columns with this head have no number without a marker.
const COLUMN: &str = "here";

/// A passage of a document.
pub struct Passage<'a> {
    /// Name in its marker.
    pub name: &'a str,
    /// Its place in the document.
    pub range: Range<usize>,
    /// Places of its numbers in the document.
    pub numbers: Vec<Range<usize>>,
}

/// All passages of a document, the first one first.
pub fn passages(text: &str) -> anyhow::Result<Vec<Passage<'_>>> {
    let (mut found, mut behind) = (Vec::new(), 0);
    while let Some(at) = text[behind..].find(OPEN).map(|at| behind + at) {
        let start = behind.max(block(&text[..at]));
        let marker = &text[at + OPEN.len()..];
        let end = marker.find(CLOSE).context("a marker `<!-- figures:` without its `-->`")?;
        let moved = |number: Range<usize>| start + number.start..start + number.end;
        let numbers = numbers(&text[start..at]).into_iter().map(moved).collect();
        found.push(Passage { name: &marker[..end], range: start..at, numbers });
        behind = at + OPEN.len() + end + CLOSE.len();
    }
    Ok(found)
}

/// Start of the last cell, item or paragraph of a text.
fn block(text: &str) -> usize {
    let line = text.rfind('\n').map_or(0, |end| end + 1);
    if text[line..].starts_with('|') {
        return text.rfind("| ").map_or(line, |bar| bar + 1);
    }
    let paragraph = text.rfind("\n\n").map_or(0, |end| end + 2);
    let items = text[paragraph..].match_indices("- ").map(|(at, _)| paragraph + at);
    let starts_line = |at: &usize| text[..*at].trim_end_matches(' ').ends_with('\n');
    items.filter(starts_line).last().unwrap_or(paragraph)
}

/// The numbers of cells that must have a marker and have none, each with its line.
pub fn unmarked(text: &str) -> Vec<(usize, &str)> {
    let (mut column, mut found) = (None, Vec::new());
    for (place, line) in (1..).zip(text.lines()) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if cells.len() < 2 {
            column = None;
        } else if column.is_none() {
            column = Some(cells.iter().position(|cell| *cell == COLUMN));
        } else if let Some(cell) = column.flatten().and_then(|column: usize| cells.get(column)) {
            let behind = cell.rfind(OPEN).unwrap_or(0);
            found.extend(numbers(&cell[behind..]).into_iter().map(|number| (place, &cell[behind..][number])));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Twice 2 of 4,
and 5.<!-- figures: a --> Then 6 <!-- figures: b -->

- one 1
  and 11 <!-- figures: c -->

| paper | here |
| --- | --- |
| 7 | 8 to 9 <!-- figures: d --> |
| 7 | `10` |
| 7 | 12 <!-- figures: e --> and 13 |

| other |
| --- |
| 14 |
";

    #[test]
    fn a_passage_is_a_cell_an_item_or_a_paragraph() {
        let found = passages(TEXT).expect("all markers are closed");
        let found: Vec<_> =
            found.iter().map(|p| (p.name, p.numbers.iter().map(|n| &TEXT[n.clone()]).collect())).collect();
        let expected: [(&str, Vec<&str>); 5] = [
            ("a", vec!["2", "4", "5"]),
            ("b", vec!["6"]),
            ("c", vec!["1", "11"]),
            ("d", vec!["8", "9"]),
            ("e", vec!["12"]),
        ];
        assert_eq!(found, expected);
        assert!(passages("<!-- figures: x").is_err());
    }

    #[test]
    fn a_cell_of_the_column_has_no_number_behind_its_marker() {
        assert_eq!(unmarked(TEXT), [(11, "13")]);
    }
}
