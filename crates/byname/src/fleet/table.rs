//! `byname fleet table` and `byname fleet serve`: tables that are too large for keys.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use byname_fleet::Stop;
use byname_fleet::etcd::Connection as Etcd;
use byname_fleet::key::Space;
use byname_fleet::label::Label;
use byname_fleet::table::delta::RowChange;
use byname_fleet::table::named;
use byname_fleet::table::sort::Sorter;
use byname_fleet::table::store::Store;
use byname_fleet::value::{BuiltHead, FlatNames, Route, TableForm, TableHead, TableKind, Value, row_prefix};
use byname_fleet::writer::{TableChanged, WriteError, Writer, built_heads, read_table, table_heads};
use byname_wire::Name;
use clap::Subcommand;
use indicatif::ProgressBar;

use super::lines::{Lines, opened, progress_of_rows, route};
use super::{parse_label, state_folder};
use crate::exit::{self, Failure};
use crate::table::rules::each_line;
use crate::tools::parse_name;
use crate::{Connection, process};

const EXAMPLES: &str = "\
Examples:
  byname fleet table load world rules.txt     lines such as: /example/video west
  byname fleet table load world rules.txt --built   one file, which `byname builder` makes: routers have no names
  byname fleet table load objects names.txt --flat /objects   lines such as: /report.pdf west
  byname fleet table load wishes sets.txt --tags   lines such as: /concert/classical west
  byname fleet table add world /example/radio west
  byname fleet table remove world /example/video /example/radio
  byname fleet table show world > rules.txt
  byname fleet serve                           lets agents fetch the chunks through this host's router

A table is one key, and its rules travel as chunks. docs/fleet.md has more.";

/// What to do with a table.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum TableCommand {
    /// Make the rules of a file the rules of a table, in place of those that it has
    Load {
        /// Name of the table
        #[arg(value_parser = parse_label)]
        table: Label,
        /// The rules, or - for standard input: on each line a prefix (with --tags: a set of tags) and a group, and perhaps
        /// --no-inherit or --capture
        file: PathBuf,
        /// Let `byname builder` make one file of all rules, which routers use without the names; a fleet has one such table
        #[arg(long)]
        built: bool,
        /// As --built, for flat names: the component after this prefix, which the lines write as /NAME; there may be 16 such
        /// tables
        #[arg(long, value_name = "PREFIX", value_parser = parse_name, conflicts_with = "built")]
        flat: Option<Name>,
        /// As --built, for sets of tags, which the lines write as /TAG/TAG in any order; a fleet has one such table
        #[arg(long, conflicts_with_all = ["built", "flat"])]
        tags: bool,
        /// Bits of the checksum of each flat name: an unknown name passes as known with odds of 2^-BITS; with 0, always
        #[arg(long, value_name = "BITS", default_value_t = 8, requires = "flat",
            value_parser = clap::value_parser!(u32).range(0..=16))]
        check: u32,
        /// Memory for sorting, in MiB; more lines than fit are sorted on disk, in the folder of `--chunks`
        #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..=65_536))]
        memory_max: u32,
    },
    /// Add a rule to a table, or change it. For a table of tags, a prefix is a set of tags: /TAG/TAG
    Add {
        /// Name of the table
        #[arg(value_parser = parse_label)]
        table: Label,
        /// The prefix
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// The group that it leads to
        #[arg(value_parser = parse_label)]
        group: Label,
        /// Do not pass this route on to longer prefixes that have their own routes
        #[arg(long)]
        no_inherit: bool,
        /// Do not take over routes of shorter prefixes, for this prefix and longer ones
        #[arg(long)]
        capture: bool,
    },
    /// Remove rules from a table
    Remove {
        /// Name of the table
        #[arg(value_parser = parse_label)]
        table: Label,
        /// The prefixes
        #[arg(value_parser = parse_name, required = true)]
        prefixes: Vec<Name>,
    },
    /// Make many changes of a table at once: lines as for `load`, and `- PREFIX` to remove a rule
    Change {
        /// Name of the table
        #[arg(value_parser = parse_label)]
        table: Label,
        /// The changes, or - for standard input
        file: PathBuf,
    },
    /// Remove a table with all of its rules
    Drop {
        /// Name of the table
        #[arg(value_parser = parse_label)]
        table: Label,
    },
    /// List tables
    List,
    /// Print the rules of a table, as `load` takes them
    Show {
        /// Name of the table
        #[arg(value_parser = parse_label)]
        table: Label,
    },
}

/// A change that is ready to be written.
pub enum TableWrite {
    Load(Label, TableForm, Box<Lines>),
    Change(Label, Vec<RowChange>),
    Drop(Label),
}

/// A command, with its files read.
pub enum Ready {
    Write(TableWrite),
    List,
    Show(Label),
}

impl TableCommand {
    /// Reads files, so that mistakes in them are told before anything is connected. Lines are sorted in the folder of `store`.
    pub fn ready(self, store: impl FnOnce() -> anyhow::Result<Store>) -> anyhow::Result<Ready> {
        Ok(Ready::Write(match self {
            TableCommand::List => return Ok(Ready::List),
            TableCommand::Show { table } => return Ok(Ready::Show(table)),
            TableCommand::Drop { table } => TableWrite::Drop(table),
            TableCommand::Load { table, file, built, flat, tags, check, memory_max } => {
                let form = match (built, flat) {
                    (false, None) if tags => TableForm { kind: TableKind::Tags, flat: None },
                    (false, None) => TableForm::routes(),
                    (true, _) => TableForm { kind: TableKind::Built, flat: None },
                    (false, Some(prefix)) => {
                        let flat = FlatNames { prefix: prefix.to_string(), check_bits: check };
                        TableForm { kind: TableKind::Flat, flat: Some(flat) }
                    }
                };
                let sorter = Sorter::new(store()?.folder(), (memory_max as usize) << 20);
                let lines = Lines::read(&file, &form, sorter)?;
                TableWrite::Load(table, form, Box::new(lines))
            }
            TableCommand::Change { table, file } => TableWrite::Change(table, rows(&file)?),
            TableCommand::Add { table, prefix, group, no_inherit, capture } => {
                let route = Route { group, inherit: !no_inherit, capture };
                TableWrite::Change(table, vec![(prefix.value().into(), Some(route.encode().into()))])
            }
            TableCommand::Remove { table, mut prefixes } => {
                prefixes.sort();
                prefixes.dedup();
                let changes = prefixes.into_iter().map(|prefix| (prefix.value().into(), None)).collect();
                TableWrite::Change(table, changes)
            }
        }))
    }
}

impl TableWrite {
    /// The table.
    pub fn table(&self) -> &Label {
        let (TableWrite::Load(table, ..) | TableWrite::Change(table, _) | TableWrite::Drop(table)) = self;
        table
    }

    /// Writes it. Returns what it did, in words, and the revision.
    pub async fn write(self, writer: &mut Writer, store: &Store) -> anyhow::Result<(String, i64)> {
        let (text, changed) = match self {
            TableWrite::Load(table, form, lines) => {
                let count = lines.len();
                let changed = lines.load(writer, store, &table, &form).await?;
                let what = match form.kind {
                    TableKind::Flat => "names",
                    TableKind::Tags => "sets of tags",
                    TableKind::Routes | TableKind::Built => "rules",
                };
                (format!("table {table}: {count} {what}"), changed)
            }
            TableWrite::Change(table, changes) => {
                let bar = progress_of_rows(None);
                let changed = writer.change_table(store, &table, &changes, &mut |rows| bar.set_position(rows)).await?;
                bar.finish_and_clear();
                (format!("table {table}: {} changed", counted(changes.len(), "rule")), changed)
            }
            TableWrite::Drop(table) => {
                let revision = writer.drop_table(&table).await?;
                (format!("table {table}: removed"), TableChanged { revision, ..TableChanged::default() })
            }
        };
        let TableChanged { revision, chunks, chunks_new, bytes_new, deltas } = changed;
        let mut text = text;
        if deltas > 0 {
            text += &format!(", {}", counted(deltas, "delta"));
        }
        if chunks > 0 {
            text += &format!(", {}, {chunks_new} of them new, with {bytes_new} bytes", counted(chunks, "chunk"));
        }
        Ok((text, revision))
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The folder with the chunks that this host has written.
pub fn store(folder: Option<&Path>, fleet: &Label) -> anyhow::Result<Store> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => state_folder("--chunks")?.join(format!("fleet-{fleet}.chunks")),
    };
    Store::open(&folder).with_context(|| folder.display().to_string())
}

fn row(text: &str) -> anyhow::Result<RowChange> {
    let (first, rest) = text.split_once(|char: char| char.is_ascii_whitespace()).unwrap_or((text, ""));
    let name = |text: &str| parse_name(text).map_err(anyhow::Error::msg);
    if first == "-" {
        let mut words = rest.split_ascii_whitespace();
        let (Some(prefix), None) = (words.next(), words.next()) else { anyhow::bail!("a removal is `- PREFIX`") };
        return Ok((name(prefix)?.value().into(), None));
    }
    let route = route(rest)?.encode();
    Ok((name(first)?.value().into(), Some(route.into())))
}

/// All lines of a file of changes, sorted by prefix. Each prefix is in one line.
fn rows(file: &Path) -> anyhow::Result<Vec<RowChange>> {
    let mut rows = BTreeMap::new();
    each_line(&mut opened(file, &ProgressBar::hidden())?, file, &mut |_, text| {
        let (key, value) = row(text)?;
        anyhow::ensure!(rows.insert(key, value).is_none(), "another line has the same prefix");
        Ok(())
    })
    .map_err(|error| Failure::new(exit::USAGE, format!("{error:#}")))?;
    Ok(rows.into_iter().collect())
}

/// Lists tables.
pub async fn list(etcd: &Etcd, space: &Space) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    let built = built_heads(etcd, space).await?;
    for (table, head) in table_heads(etcd, space).await? {
        match head {
            Some(head) => {
                let deltas = head.last - head.base;
                write!(out, "{table}  epoch {}, {deltas} deltas after manifest {}", head.epoch, head.manifest)?;
                writeln!(out, "{}", about_file(&head, built.get(&table).and_then(Option::as_ref)))?;
            }
            None => writeln!(out, "{table}  damaged: load it again")?,
        }
    }
    Ok(exit::OK)
}

/// What is built of a table, after the rest of its line.
fn about_file(head: &TableHead, built: Option<&BuiltHead>) -> String {
    let of = match &head.flat {
        Some(flat) => format!("; flat names below {}", flat.prefix),
        None if head.kind == TableKind::Tags => "; sets of tags".to_owned(),
        None => String::new(),
    };
    match built {
        _ if head.kind == TableKind::Routes => String::new(),
        None => format!("{of}; not built yet: see `byname builder`"),
        Some(built) => {
            let state = if built.state() == head.state() { "built" } else { "an earlier state is built" };
            format!("{of}; {state}: {} rows, a file of {} bytes", built.rows, built.bytes)
        }
    }
}

/// Prints the rules of a table.
pub async fn show(etcd: &Etcd, space: &Space, store: &Store, table: &Label) -> anyhow::Result<u8> {
    let whole = read_table(etcd, space, store, table).await?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    let read = whole.each(&mut |key, value| {
        let Route { group, inherit, capture } = Route::decode(value)?;
        let flags = [(!inherit, " --no-inherit"), (capture, " --capture")];
        let flags = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect::<String>();
        writeln!(out, "{} {group}{flags}", row_prefix(key)?).map_err(|error| {
            failed = Some(error);
            WriteError::Ended
        })
    });
    failed.map_or(Ok(()), Err)?;
    read?;
    out.flush()?;
    Ok(exit::OK)
}

/// Serves the chunks of a folder through this host's router, until a signal.
pub async fn serve(store: &Store, network: &Name, connection: &Connection) -> anyhow::Result<u8> {
    let router = byname_client::transport::Environment::of_process()
        .candidates(connection.transport.as_deref())
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    let stop = Arc::new(Stop::default());
    let on_signal = stop.clone();
    process::on_signal(move || on_signal.now(), || {})?;
    eprintln!("serving {} below {}; Ctrl-C stops", store.folder().display(), named::prefix(network));
    named::serve_until(router, store, network, stop.asked()).await?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rules_or_removals() {
        let read = |text: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("rules.txt");
            std::fs::write(&path, text).expect("write");
            rows(&path).map_err(|error| error.to_string())
        };
        let good = read("# c\n/a west\n/b east --capture --no-inherit\n- /c\n").expect("good");
        let values: Vec<_> = good
            .iter()
            .map(|(_, value)| value.as_deref().map(|value| Route::decode(value).expect("a route")))
            .collect();
        let route = |group: &str, inherit, capture| Some(Route { group: group.parse().unwrap(), inherit, capture });
        assert_eq!(values, [route("west", true, false), route("east", false, true), None]);
        for (text, part) in [
            ("/a west\n- /a\n", "line 2: another line has the same prefix"),
            ("/a\n", "line 1: a line has a prefix and a group"),
            ("a west\n", "line 1"),
            ("- /a /b", "line 1: a removal is"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
