//! The lines of all records, and how a table finds its own.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

/// Fields that a line must have, with their values. An object matches if its own fields do.
pub type Conditions = Map<String, Value>;

/// One line of a file of records.
pub struct Line {
    /// Date and time of the measurement; the date alone, from the name of the file, if the line has none.
    date: String,
    fields: Map<String, Value>,
}

impl Line {
    fn new(file: &str, number: usize, text: &str) -> anyhow::Result<Self> {
        let Value::Object(mut fields) = serde_json::from_str(text)? else { bail!("no object") };
        let date = fields.get("date").and_then(Value::as_str).or_else(|| file.get(..10));
        let date = date.unwrap_or_default().to_owned();
        // Lines of old records may lack what tells them apart. A table names these by their place.
        fields.insert("file".to_owned(), file.into());
        fields.insert("line".to_owned(), number.into());
        Ok(Line { date, fields })
    }

    fn matches(&self, conditions: &Conditions) -> bool {
        // Such runs do not measure speed. A table names them to get them.
        let unasked =
            |field: &str, value: Value| !conditions.contains_key(field) && self.fields.get(field) == Some(&value);
        if unasked("quick", true.into()) || unasked("profile", "debug".into()) {
            return false;
        }
        conditions.iter().all(|(field, wanted)| self.fields.get(field).is_some_and(|found| equals(found, wanted)))
    }

    /// A number of this line.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.fields.get(field)?.as_f64()
    }

    /// The machine, the day and the commit: `EPYC, 2026-11-22, 08dfb59`.
    pub fn provenance(&self) -> String {
        let text = |field: &str| self.fields.get(field).and_then(Value::as_str).unwrap_or_default();
        let brands = ["Intel(R) ", "AMD ", "(R)", " Processor", " CPU", " @"];
        let cpu = brands.iter().fold(text("cpu").to_owned(), |cpu, brand| cpu.replace(brand, ""));
        // Early records of `wire` have the commit of the router as its label.
        let label = Some(text("forwarder")).filter(|label| label.starts_with(|c: char| c.is_ascii_digit()));
        let commit = Some(text("commit")).filter(|commit| !commit.is_empty()).or(label);
        let mut words = vec![cpu, self.date.chars().take(10).collect()];
        words.push(commit.map_or("no commit".to_owned(), short));
        if self.fields.get("clean") == Some(&Value::Bool(false)) {
            words.push("with changes".to_owned());
        }
        words.extend((text("profile") == "debug").then(|| "debug build".to_owned()));
        words.extend(Some(text("rustflags")).filter(|flags| !flags.is_empty()).map(str::to_owned));
        words.extend((!text("source").is_empty()).then(|| "from a diary".to_owned()));
        words.join(", ")
    }
}

/// A commit in seven digits, and what stands behind it.
fn short(commit: &str) -> String {
    let (hash, rest) = commit.split_at(commit.find(' ').unwrap_or(commit.len()));
    format!("{}{rest}", &hash[..hash.len().min(7)])
}

fn equals(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| found.get(field).is_some_and(|found| equals(found, wanted)))
        }
        (Value::Number(found), Value::Number(wanted)) => found.as_f64() == wanted.as_f64(),
        _ => found == wanted,
    }
}

/// All lines of a folder, the oldest first.
pub struct Lines(Vec<Line>);

impl Lines {
    /// Reads all files of JSON lines in a folder.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut lines = Vec::new();
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        paths.sort();
        for path in paths {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            for (number, text) in (1..).zip(text.lines()) {
                let line = Line::new(&file, number, text).with_context(|| format!("{file}:{number} is no record"))?;
                lines.push(line);
            }
        }
        // The sort is stable: lines of one day stay in the order of files and of lines.
        lines.sort_by(|a, b| a.date.cmp(&b.date));
        Ok(Lines(lines))
    }

    /// The lines that match, the oldest first.
    pub fn matching<'a>(&'a self, conditions: &Conditions) -> impl DoubleEndedIterator<Item = &'a Line> {
        self.0.iter().filter(|line| line.matches(conditions))
    }

    /// A number of the latest line that matches and has it.
    pub fn latest(&self, conditions: &Conditions, field: &str) -> anyhow::Result<f64> {
        let latest = self.matching(conditions).filter_map(|line| line.number(field)).next_back();
        latest.with_context(|| format!("no line has `{field}`"))
    }
}

/// Joins conditions. The last one on a field holds. Conditions on objects are joined field by field.
pub fn joined(all: &[&Conditions]) -> Conditions {
    let mut joined = Conditions::new();
    for (field, wanted) in all.iter().flat_map(|conditions| conditions.iter()) {
        let wanted = match (joined.get(field), wanted) {
            (Some(Value::Object(before)), Value::Object(wanted)) => Value::Object(self::joined(&[before, wanted])),
            _ => wanted.clone(),
        };
        joined.insert(field.clone(), wanted);
    }
    joined
}
