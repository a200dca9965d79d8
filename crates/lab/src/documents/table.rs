//! A table of a document: which lines of the records it takes, and how it looks.

use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::lines::{Conditions, Line, Lines, joined};

/// The file `tables.toml` beside the records.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// The tables, in any order.
    pub table: Vec<Table>,
}

/// One table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Name in the marker of the document.
    pub name: String,
    /// Conditions on the lines of all cells.
    #[serde(default, rename = "where")]
    conditions: Conditions,
    /// Heads of the columns of words.
    heads: Vec<String>,
    rows: Vec<Row>,
    columns: Vec<Column>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// One word for each of the table's heads.
    words: Vec<String>,
    #[serde(default, rename = "where")]
    conditions: Conditions,
    /// Conditions that lead to this row's line to compare with, in columns that compare.
    #[serde(default)]
    over: Conditions,
}

/// A column of figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Column {
    head: String,
    field: String,
    /// Field in place of `field` where a line lacks that.
    #[serde(default)]
    or: Option<String>,
    /// Lines that lack the figure leave the cell empty.
    #[serde(default)]
    optional: bool,
    #[serde(default, rename = "where")]
    conditions: Conditions,
    /// Show how many times the figure of another line this is: the line with these conditions in place of the cell's.
    over: Option<Conditions>,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    decimals: usize,
    /// Text behind the figure.
    #[serde(default)]
    unit: String,
    #[serde(default)]
    show: Show,
}

/// How a cell summarizes the lines that match.
#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Show {
    /// The latest.
    #[default]
    Latest,
    /// The least and the most of all.
    Range,
    /// How many there are.
    Count,
}

fn one() -> f64 {
    1.0
}

impl Table {
    /// The table in Markdown, with the origin of each row.
    ///
    /// # Errors
    /// If a row has no line, or a line lacks a figure.
    pub fn render(&self, lines: &Lines) -> anyhow::Result<String> {
        let rows = self.rows.iter().map(|row| {
            let words = row.words.join(", ");
            self.row(row, lines).with_context(|| format!("the row '{words}' of the table `{}`", self.name))
        });
        let rows = rows.collect::<anyhow::Result<Vec<_>>>()?;
        let (_, first) = rows.first().with_context(|| format!("the table `{}` has no row", self.name))?;
        let one_origin = rows.iter().all(|(_, origin)| origin == first);
        let mut heads = self.heads.clone();
        heads.extend(self.columns.iter().map(|column| column.head.clone()));
        let mut alignment = vec!["---"; self.heads.len()];
        alignment.resize(heads.len(), "---:");
        if !one_origin {
            heads.push("measured on".to_owned());
            alignment.push("---");
        }
        let mut text = String::new();
        writeln!(text, "| {} |\n| {} |", heads.join(" | "), alignment.join(" | "))?;
        for (cells, origin) in &rows {
            let origin = if one_origin { String::new() } else { format!(" {origin} |") };
            writeln!(text, "| {} |{origin}", cells.join(" | "))?;
        }
        if one_origin {
            writeln!(text, "\nMeasured on: {first}.")?;
        }
        Ok(text)
    }

    /// The cells of a row, and where its figures come from.
    fn row(&self, row: &Row, lines: &Lines) -> anyhow::Result<(Vec<String>, String)> {
        ensure!(row.words.len() == self.heads.len(), "it needs {} words", self.heads.len());
        let mut cells = row.words.clone();
        let mut origins: Vec<String> = Vec::new();
        for column in &self.columns {
            let conditions = joined(&[&self.conditions, &row.conditions, &column.conditions]);
            let (cell, used) = column.cell(&conditions, &row.over, lines)?;
            for line in used {
                let origin = line.provenance();
                if !origins.contains(&origin) {
                    origins.push(origin);
                }
            }
            cells.push(cell);
        }
        ensure!(!origins.is_empty(), "no line of the records matches");
        Ok((cells, origins.join("; ")))
    }
}

impl Column {
    /// The text of a cell, and the lines that it is made of. A cell without lines is empty.
    fn cell<'a>(
        &self,
        conditions: &Conditions,
        row_over: &Conditions,
        lines: &'a Lines,
    ) -> anyhow::Result<(String, Vec<&'a Line>)> {
        let mut found: Vec<_> = lines.matching(conditions).collect();
        if self.optional {
            found.retain(|line| self.figure(line).is_ok());
        }
        let Some(latest) = found.last().copied() else { return Ok((String::new(), Vec::new())) };
        match self.show {
            Show::Latest => {
                let mut figure = self.figure(latest)?;
                if let Some(other) = &self.over {
                    let conditions = joined(&[conditions, other, row_over]);
                    let other = lines.matching(&conditions).next_back();
                    figure /= self.figure(other.context("no line to compare with")?)?;
                }
                Ok((self.format(figure), vec![latest]))
            }
            Show::Range => {
                let figures = found.iter().map(|line| self.figure(line)).collect::<anyhow::Result<Vec<_>>>()?;
                let least = self.format(figures.iter().copied().fold(f64::INFINITY, f64::min));
                let most = self.format(figures.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                let bare = least.strip_suffix(&self.unit).unwrap_or(&least);
                Ok((if least == most { most } else { format!("{bare} to {most}") }, found))
            }
            Show::Count => Ok((found.len().to_string(), found)),
        }
    }

    fn figure(&self, line: &Line) -> anyhow::Result<f64> {
        let number = line.number(&self.field).or_else(|| line.number(self.or.as_deref()?));
        let Some(number) = number else { bail!("its line has no number `{}`", self.field) };
        Ok(number * self.scale)
    }

    fn format(&self, figure: f64) -> String {
        format(figure, self.decimals) + &self.unit
    }
}

/// A figure with its decimals, and with commas between thousands.
pub fn format(figure: f64, decimals: usize) -> String {
    let text = format!("{figure:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        let left = whole.len() - i;
        if i > 0 && left.is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}
