//! Tables and figures of the documents, from the records.
//!
//! A document has the markers `<!-- table: NAME -->` and `<!-- end -->` around each table. The text between them is
//! made from `docs/records/*.jsonl`. `docs/records/tables.toml` says which lines each table takes.
//!
//! The marker `<!-- figures: NAME -->` stands behind a passage of prose. `docs/records/figures.toml` says which line
//! each of its numbers is of. Cells in columns named `here` have no number without a marker.

mod figure;
mod lines;
mod numbers;
mod passages;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::de::DeserializeOwned;

use figure::Figures;
use lines::Lines;
use passages::{passages, unmarked};
use table::{Table, Tables};

/// Command to run when documents and records differ.
const MEND: &str = "cargo run -p byname-lab -- tables";
const OPEN: &str = "<!-- table: ";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- end -->";
/// Documents outside of docs.
const BESIDE: [&str; 2] = ["README.md", "crates/lookup/README.md"];
/// Words of a passage with a figure that is in no line of the records.
const NO_RECORD: &str = "no record";

/// Options of `byname-lab tables`.
#[derive(Args)]
pub struct Options {
    /// Write nothing; fail if a table or a figure differs from the records.
    #[arg(long)]
    check: bool,
    /// Root of the checkout.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    root: PathBuf,
}

/// Writes or checks the tables and the figures of README.md, of crates/lookup/README.md and of the files in docs.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let documents = documents(&options.root)?;
    let mut differences = Vec::new();
    for document in &documents {
        if options.check {
            differences.extend(document.differences());
        } else if document.text != document.made {
            let path = &document.path;
            fs::write(path, &document.made).with_context(|| format!("cannot write {}", path.display()))?;
            println!("{}", path.display());
        }
    }
    if differences.is_empty() { Ok(()) } else { bail!("{}\nrun: {MEND}", differences.join("\n")) }
}

/// A document with tables and figures.
struct Document {
    path: PathBuf,
    /// As it is.
    text: String,
    /// As the records have it.
    made: String,
    /// The tables and the passages that differ, and how.
    changed: Vec<String>,
}

/// The records, and how documents are made of them.
struct Sources {
    lines: Lines,
    tables: Vec<Table>,
    figures: Figures,
}

impl Document {
    /// Replaces all tables and figures of a document.
    fn new(path: PathBuf, sources: &Sources) -> anyhow::Result<Self> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (with_tables, mut changed) = sources.tables(&text).with_context(|| path.display().to_string())?;
        let (made, figures) = sources.figures(&with_tables).with_context(|| path.display().to_string())?;
        changed.extend(figures);
        if let [(line, number), ..] = unmarked(&made)[..] {
            bail!("{}:{line}: the number {number} has no marker `{}NAME -->`", path.display(), passages::OPEN);
        }
        Ok(Document { path, text, made, changed })
    }

    fn differences(&self) -> impl Iterator<Item = String> {
        self.changed.iter().map(|change| format!("{}: {change}", self.path.display()))
    }
}

impl Sources {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let folder = root.join("docs/records");
        let lines = Lines::read(&folder)?;
        let Tables { table: tables } = parse(&folder.join("tables.toml"))?;
        let mut names = HashSet::new();
        let twice = tables.iter().find(|table| !names.insert(table.name.as_str()));
        ensure!(twice.is_none(), "tables.toml: two tables have one name");
        let figures: Figures = parse(&folder.join("figures.toml"))?;
        figures.check(&lines).context("figures.toml")?;
        Ok(Sources { lines, tables, figures })
    }

    /// A text with the tables that the records make, and how its own differ.
    fn tables(&self, text: &str) -> anyhow::Result<(String, Vec<String>)> {
        let (mut rest, mut new, mut changed) = (text, String::new(), Vec::new());
        while let Some(at) = rest.find(OPEN) {
            let behind = &rest[at + OPEN.len()..];
            let (name, body) = behind.split_once(OPEN_END).context("a marker `<!-- table:` without its `-->`")?;
            let Some((old, after)) = body.split_once(CLOSE) else {
                bail!("the table `{name}` has no marker `{CLOSE}`")
            };
            let table = self.tables.iter().find(|table| table.name == name);
            let table = table.with_context(|| format!("tables.toml has no table `{name}`"))?.render(&self.lines)?;
            let table = format!("\n{table}");
            if old != table {
                let line = table.lines().find(|line| !old.lines().any(|old| old == *line)).unwrap_or("fewer lines");
                changed.push(format!("the table `{name}` differs from the records, which say:\n  {line}"));
            }
            new.push_str(&rest[..at]);
            new.extend([OPEN, name, OPEN_END, &table, CLOSE]);
            rest = after;
        }
        new.push_str(rest);
        Ok((new, changed))
    }

    /// A text with the figures that the records have, and how its own differ.
    fn figures(&self, text: &str) -> anyhow::Result<(String, Vec<String>)> {
        let (mut new, mut changed, mut behind) = (String::new(), Vec::new(), 0);
        for passage in passages(text)? {
            let name = passage.name;
            let numbers = self.figures.passage(name)?.numbers(&self.lines)?;
            let (told, known) = (passage.numbers.len(), numbers.len());
            ensure!(told == known, "the passage `{name}` has {told} numbers, and figures.toml has {known}");
            let says = text[passage.range.clone()].contains(NO_RECORD);
            ensure!(
                says == numbers.iter().any(|number| number.no_record),
                "the passage `{name}` has to say `{NO_RECORD}` if a figure has none, and only then"
            );
            for (place, number) in passage.numbers.into_iter().zip(&numbers) {
                let old = &text[place.clone()];
                if old != number.text {
                    let wanted = &number.text;
                    changed.push(format!("the passage `{name}` says {old} in place of {wanted}"));
                }
                new.extend([&text[behind..place.start], number.text.as_str()]);
                behind = place.end;
            }
        }
        new.push_str(&text[behind..]);
        Ok((new, changed))
    }
}

fn parse<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// All documents that may have tables or figures. Each table and each passage is in one at least.
fn documents(root: &Path) -> anyhow::Result<Vec<Document>> {
    let sources = Sources::read(root)?;
    let entries = fs::read_dir(root.join("docs")).context("cannot read the folder docs")?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.extend(BESIDE.map(|file| root.join(file)));
    paths.sort();
    let documents = paths.into_iter().map(|path| Document::new(path, &sources)).collect::<anyhow::Result<Vec<_>>>()?;
    let is_shown = |marker: &str| documents.iter().any(|document| document.text.contains(marker));
    for table in &sources.tables {
        let marker = format!("{OPEN}{}{OPEN_END}", table.name);
        ensure!(is_shown(&marker), "no document has the table `{}`: add `{marker}` and `{CLOSE}` to one", table.name);
    }
    for name in sources.figures.names() {
        let marker = format!("{}{name} -->", passages::OPEN);
        ensure!(is_shown(&marker), "no document has the passage `{name}`: add `{marker}` behind it");
    }
    Ok(documents)
}
