//! Figures in the prose of a document: which lines of the records they are made of.

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use toml::{Table, Value};

use super::lines::{Conditions, Lines, joined};
use super::table::format;

/// The file `figures.toml` beside the records.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// How many figures of all passages have no record.
    no_record: usize,
    /// The passages, in any order.
    passage: Vec<Passage>,
}

/// The numbers of a cell or of a paragraph, in their order.
#[derive(Deserialize)]
pub struct Passage {
    /// Name in the marker of the document.
    pub name: String,
    /// Why no number of this passage needs a record.
    because: Option<String>,
    numbers: Vec<Value>,
    /// Keys of every figure that does not have them itself.
    #[serde(flatten)]
    common: Table,
}

/// A number of a passage.
pub struct Number {
    /// As the document has to say it.
    pub text: String,
    /// Whether somebody measured it and no line of the records has it.
    pub no_record: bool,
}

/// A figure that is made of the records.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    #[serde(rename = "where", default)]
    conditions: Conditions,
    field: String,
    /// Compare with the line that has these conditions in place of the figure's.
    over: Option<Conditions>,
    /// Field of that line, if it is another.
    over_field: Option<String>,
    /// Subtract the figure of the line that has these conditions in place of the figure's.
    minus: Option<Conditions>,
    /// Field of that line, if it is another.
    minus_field: Option<String>,
    /// How a comparison is told. It is a ratio if this is not given.
    percent: Option<Percent>,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default)]
    decimals: usize,
    #[serde(default)]
    show: Show,
    /// With `show`: summarize the latest line of each of these conditions, and not all lines.
    each: Option<Vec<Conditions>>,
    /// Write `+` before a figure above zero.
    #[serde(default)]
    signed: bool,
}

/// A ratio in per cent.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Percent {
    /// 80 for 0.8.
    Of,
    /// 20 for 1.2.
    More,
    /// 20 for 0.8.
    Less,
}

/// Summary of the lines that match.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Show {
    #[default]
    Latest,
    Least,
    Most,
}

fn one() -> f64 {
    1.0
}

impl Figures {
    /// Checks that names differ, that every figure can be made, and the count of those without a record.
    pub fn check(&self, lines: &Lines) -> anyhow::Result<()> {
        let mut no_record = 0;
        for passage in &self.passage {
            let twice = self.passage.iter().filter(|other| other.name == passage.name).count() > 1;
            ensure!(!twice, "two passages are named `{}`", passage.name);
            no_record += passage.numbers(lines)?.iter().filter(|number| number.no_record).count();
        }
        ensure!(
            no_record == self.no_record,
            "{no_record} figures have no record, and figures.toml says {}: measure them, or change `no_record`",
            self.no_record
        );
        Ok(())
    }

    /// The passage of a name.
    pub fn passage(&self, name: &str) -> anyhow::Result<&Passage> {
        let passage = self.passage.iter().find(|passage| passage.name == name);
        passage.with_context(|| format!("figures.toml has no passage `{name}`"))
    }

    /// The names of all passages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.passage.iter().map(|passage| passage.name.as_str())
    }
}

impl Passage {
    /// The numbers of this passage, as the records have them.
    ///
    /// # Errors
    /// If no line matches and has the field of a figure.
    pub fn numbers(&self, lines: &Lines) -> anyhow::Result<Vec<Number>> {
        let all_written = self.numbers.iter().all(Value::is_str);
        ensure!(
            all_written == self.because.is_some(),
            "the passage `{}` needs either a figure of the records or a reason, `because`",
            self.name
        );
        let numbers = (1..).zip(&self.numbers).map(|(place, number)| {
            self.number(number, lines).with_context(|| format!("number {place} of the passage `{}`", self.name))
        });
        numbers.collect()
    }

    fn number(&self, number: &Value, lines: &Lines) -> anyhow::Result<Number> {
        let keys = match number {
            Value::String(text) => return Ok(Number { text: text.clone(), no_record: false }),
            Value::Table(keys) => keys,
            _ => bail!("a number is a text or a table"),
        };
        if let (Some(Value::String(text)), 1) = (keys.get("no_record"), keys.len()) {
            return Ok(Number { text: text.clone(), no_record: true });
        }
        let mut merged = self.common.clone();
        for (key, value) in keys {
            match (merged.get_mut(key), value) {
                (Some(Value::Table(common)), Value::Table(own)) if key == "where" => common.extend(own.clone()),
                _ => drop(merged.insert(key.clone(), value.clone())),
            }
        }
        let figure = Figure::deserialize(merged)?;
        Ok(Number { text: figure.text(lines)?, no_record: false })
    }
}

impl Figure {
    fn text(&self, lines: &Lines) -> anyhow::Result<String> {
        let summary: fn(f64, f64) -> f64 = match self.show {
            Show::Latest => |_, later| later,
            Show::Least => f64::min,
            Show::Most => f64::max,
        };
        let figures = self.figures(lines)?;
        let figure = figures.into_iter().reduce(summary).with_context(|| format!("no line has `{}`", self.field))?;
        let text = format(figure, self.decimals);
        // `-0` and `+0` are no figures.
        let is_zero = !text.contains(|c: char| ('1'..='9').contains(&c));
        let sign = if self.signed && figure > 0.0 && !is_zero { "+" } else { "" };
        Ok(format!("{sign}{}", if is_zero { text.trim_start_matches('-') } else { &text }))
    }

    /// The figures to summarize, the latest at the end.
    fn figures(&self, lines: &Lines) -> anyhow::Result<Vec<f64>> {
        let Some(each) = &self.each else {
            let all = lines.matching(&self.conditions).filter_map(|line| line.number(&self.field));
            return all.map(|figure| self.derived(figure, &self.conditions, lines)).collect();
        };
        let latest = each.iter().map(|own| {
            let conditions = joined(&[&self.conditions, own]);
            self.derived(lines.latest(&conditions, &self.field)?, &conditions, lines)
        });
        latest.collect()
    }

    /// A line's figure, compared as the document compares it.
    fn derived(&self, figure: f64, conditions: &Conditions, lines: &Lines) -> anyhow::Result<f64> {
        let other = |own: &Conditions, field: &Option<String>| {
            let field = field.as_deref().unwrap_or(&self.field);
            lines.latest(&joined(&[conditions, own]), field).context("the line to compare with")
        };
        let mut figure = figure;
        if let Some(minus) = &self.minus {
            figure -= other(minus, &self.minus_field)?;
        }
        if let Some(over) = &self.over {
            figure /= other(over, &self.over_field)?;
        }
        Ok(match self.percent {
            None => figure * self.scale,
            Some(Percent::Of) => 100.0 * figure,
            Some(Percent::More) => 100.0 * (figure - 1.0),
            Some(Percent::Less) => 100.0 * (1.0 - figure),
        })
    }
}
