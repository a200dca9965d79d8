//! Reads the lines of a table, in any order and of any number, and loads them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_fleet::label::Label;
use byname_fleet::table::sort::{SortError, Sorted, Sorter, ValueId};
use byname_fleet::table::store::Store;
use byname_fleet::value::{Route, TableForm, TableKind, Value};
use byname_fleet::writer::{TableChanged, WriteError, Writer};
use indicatif::{ProgressBar, ProgressStyle};

use super::parse_label;
use crate::exit::{self, Failure};
use crate::table::rules::each_line;
use crate::tools::parse_name;

/// Most spellings of groups with their words that are remembered.
const SPELLINGS_MAX: usize = 1 << 16;

/// The lines of a file, sorted.
pub struct Lines {
    file: PathBuf,
    sorted: Sorted,
}

impl Lines {
    /// Reads a file, or standard input. Each prefix is in one line.
    pub fn read(file: &Path, form: &TableForm, mut sorter: Sorter) -> anyhow::Result<Self> {
        let bar = ProgressBar::new(std::fs::metadata(file).map_or(0, |about| about.len()));
        bar.set_style(style("reading lines {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"));
        let mut check = form.check()?;
        // Most lines have a group that others have.
        let mut spellings: HashMap<Box<str>, ValueId> = HashMap::new();
        let mut input = opened(file, &bar)?;
        let read = each_line(&mut input, file, &mut |number, text| {
            let (prefix, rest) = text.split_once(|char: char| char.is_ascii_whitespace()).unwrap_or((text, ""));
            let known = spellings.get(rest).copied();
            let route = if known.is_none() { Some(route(rest)?.encode()) } else { None };
            let name = parse_name(prefix).map_err(anyhow::Error::msg)?;
            let value = match (known, route) {
                (Some(value), _) => value,
                (None, route) => {
                    let route = route.unwrap_or_default();
                    check.row(&form.key(name.as_ref())?, &route)?;
                    let value = sorter.value(&route)?;
                    if spellings.len() == SPELLINGS_MAX {
                        spellings.clear();
                    }
                    spellings.insert(rest.into(), value);
                    value
                }
            };
            if form.kind == TableKind::Flat {
                byname_fleet::value::flat_name(name.value())?;
            }
            Ok(sorter.push(&form.key(name.as_ref())?, value, number)?)
        });
        read.map_err(|error| match error.downcast_ref::<SortError>() {
            Some(SortError::Folder { .. }) => Failure::new(exit::FAILED, format!("{:#}", error.root_cause())),
            _ => Failure::new(exit::USAGE, format!("{error:#}")),
        })?;
        bar.finish_and_clear();
        let sorted = sorter.finish().map_err(|error| failure(file, &error))?;
        Ok(Lines { file: file.to_owned(), sorted })
    }

    /// Number of rules.
    pub fn len(&self) -> u64 {
        self.sorted.rows
    }

    /// Makes them the rules of a table.
    pub async fn load(
        self,
        writer: &mut Writer,
        store: &Store,
        table: &Label,
        form: &TableForm,
    ) -> anyhow::Result<TableChanged> {
        let Lines { file, sorted } = self;
        let bar = progress_of_rows(Some(sorted.rows));
        let rows = move |each: &mut byname_fleet::writer::EachRow<'_>| sorted.each(each);
        let changed = writer.load_table(store, table, form, rows, &mut |rows| bar.set_position(rows)).await;
        bar.finish_and_clear();
        changed.map_err(|error| match &error {
            WriteError::Sort(sort) => failure(&file, sort).into(),
            _ => error.into(),
        })
    }
}

fn failure(file: &Path, error: &SortError) -> Failure {
    match error {
        SortError::Twice { .. } => Failure::new(exit::USAGE, format!("{}, {error}", file.display())),
        _ => Failure::new(exit::FAILED, error.to_string()),
    }
}

/// A bar on a terminal for rules that become chunks. Without a number of rules, it only counts.
pub fn progress_of_rows(rows: Option<u64>) -> ProgressBar {
    match rows {
        Some(rows) => ProgressBar::new(rows)
            .with_style(style("writing chunks {wide_bar} {human_pos} of {human_len} rules, {per_sec}, {eta} left")),
        None => ProgressBar::no_length().with_style(style("writing chunks, {human_pos} rules, {per_sec}")),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template that is written here")
}

/// A file, or standard input. What is read is shown by `bar`.
pub fn opened(path: &Path, bar: &ProgressBar) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(bar.wrap_read(stdin().lock()))));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(BufReader::with_capacity(1 << 20, bar.wrap_read(file))))
}

/// A group, and perhaps words about the route.
pub fn route(text: &str) -> anyhow::Result<Route> {
    let mut words = text.split_ascii_whitespace();
    let Some(group) = words.next() else { anyhow::bail!("a line has a prefix and a group: /example/video west") };
    let mut route = Route { group: parse_label(group).map_err(anyhow::Error::msg)?, inherit: true, capture: false };
    for word in words {
        match word {
            "--no-inherit" => route.inherit = false,
            "--capture" => route.capture = true,
            _ => anyhow::bail!("'{word}' is neither --no-inherit nor --capture"),
        }
    }
    Ok(route)
}

#[cfg(test)]
mod tests {
    use byname_fleet::value::FlatNames;

    use super::*;

    fn read(text: &str, form: &TableForm) -> Result<Vec<(Vec<u8>, Route)>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rules.txt");
        std::fs::write(&path, text).expect("write");
        let lines = Lines::read(&path, form, Sorter::new(folder.path(), 0)).map_err(|error| format!("{error:#}"))?;
        let (count, mut rows) = (lines.len(), Vec::new());
        lines
            .sorted
            .each(|key, value| {
                rows.push((key.to_vec(), Route::decode(value).expect("a route")));
                Ok::<(), SortError>(())
            })
            .map_err(|error| error.to_string())?;
        assert_eq!(rows.len() as u64, count);
        Ok(rows)
    }

    #[test]
    fn lines_are_sorted_rules() {
        let routes = TableForm::routes();
        let good = read("# c\n/b  east   --capture --no-inherit\n\n/a\twest\r\n", &routes).expect("good");
        let row = |uri: &str, group: &str, inherit, capture| {
            let name: byname_wire::Name = uri.parse().expect("a name");
            (name.value().to_vec(), Route { group: group.parse().expect("a label"), inherit, capture })
        };
        assert_eq!(good, [row("/a", "west", true, false), row("/b", "east", false, true)]);
        assert_eq!(read("", &routes), Ok(Vec::new()));
        for (text, part) in [
            ("/a west\n/b west\n/a east\n", "rules.txt, line 3: another line has the same prefix"),
            ("# c\n/a\n", "line 2: a line has a prefix and a group"),
            ("a west\n", "line 1: a name begins with '/'"),
            ("/a West\n", "line 1"),
            ("/a west --deny\n", "neither --no-inherit nor --capture"),
            ("- /a\n", "line 1"),
        ] {
            let error = read(text, &routes).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn lines_that_a_table_cannot_have_are_told() {
        let built = TableForm { kind: TableKind::Built, flat: None };
        let flat = FlatNames { prefix: "/objects".to_owned(), check_bits: 8 };
        let flat = TableForm { kind: TableKind::Flat, flat: Some(flat) };
        assert_eq!(read("/a/b west\n/c west\n", &built).expect("good").len(), 2);
        assert_eq!(read("/a west\n/c west\n", &flat).expect("good").len(), 2);
        let tags = TableForm { kind: TableKind::Tags, flat: None };
        let good = read("/concert/classical west\n/jazz west\n", &tags).expect("good");
        let keys: Vec<String> =
            good.iter().map(|(key, _)| byname_fleet::value::row_prefix(key).expect("a name").to_string()).collect();
        assert_eq!(keys, ["/jazz", "/classical/concert"], "sorted as names are");
        for (text, form, part) in [
            (
                "/a west\n/b west --capture\n",
                &built,
                "line 2: a row of the table cannot be read: rules of a built table",
            ),
            ("/a west\n/b/c west\n", &flat, "line 2: a row of the table cannot be read: a flat name is one component"),
            ("/a/b west\n/b/a west\n", &tags, "line 2: another line has the same prefix"),
            ("/a west\n/32=b west\n", &tags, "line 2: a row of the table cannot be read: the tags are not"),
            ("/ west\n", &tags, "line 1: a row of the table cannot be read: a set has 1 to 32 tags"),
            ("/a west\n/ east\n", &flat, "line 2: a row of the table cannot be read: a flat name is one component"),
        ] {
            let error = read(text, form).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
