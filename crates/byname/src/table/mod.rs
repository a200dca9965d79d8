//! `byname table`: files of rules that the router maps at its start (`[tables] bulk`), and of sets of tags (`[tags] bulk`).

pub mod rules;
mod tags;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_control::fib_writer::bulk::BulkFib;
use byname_lookup::file::{Opening, Place};
use byname_lookup::prefix::compact::{BulkLoader, BulkTable, NodeCounter, Options};
use byname_lookup::{Control, EntryId};
use byname_wire::{HashFunction, Name, NameHashKey, NameRef, NameView, PrefixHashes};
use clap::{Args, Subcommand, ValueEnum};
use ring::rand::{SecureRandom, SystemRandom};

use self::rules::Rules;
use crate::exit;
use crate::tools::parse_name;

/// Number of rules between two reports of progress.
pub const REPORTED: usize = 10_000_000;
/// Labels of a table at most. The last id of an entry marks removed rules.
const LABELS_MAX: usize = 65_535;

/// Options of `byname table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a table from a text file of rules: lines with a name and a label, or with tags and a label
    Build(BuildArgs),
    /// Check a table, and show what it has
    Show(ShowArgs),
    /// Look up a name in a table, or all sets that are among these tags
    Find(FindArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The rules: on each line a name and the label of its rule, which is the name whose route the rule follows
    #[arg(value_name = "RULES")]
    rules: PathBuf,
    /// The file to write
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Sort the rules first, which takes memory for all of them; otherwise they must be in NDN's canonical order
    #[arg(long)]
    sort: bool,
    /// The lines have sets of tags, whose order does not matter: /TAG/TAG LABEL
    #[arg(long, conflicts_with_all = ["sort", "hash"])]
    tags: bool,
    /// Hash function for names; the router uses the table's
    #[arg(long, value_enum, value_name = "FUNCTION", default_value = "siphash13", conflicts_with = "key_of")]
    hash: Hash,
    /// Use the hash key of this table instead of a new one
    #[arg(long, value_name = "TABLE")]
    key_of: Option<PathBuf>,
}

/// The file to show.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The table
    #[arg(value_name = "TABLE")]
    pub table: PathBuf,
}

#[derive(Debug, Args)]
struct FindArgs {
    /// The table
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// The name; or tags, as a packet has them: /TAG/TAG
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: Name,
}

/// A hash function for names.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Hash {
    /// Strangers cannot find names that collide
    Siphash13,
    /// The same, with more margin
    Siphash24,
    /// The fastest
    Aes,
}

impl From<Hash> for HashFunction {
    fn from(hash: Hash) -> Self {
        match hash {
            Hash::Siphash13 => HashFunction::SipHash13,
            Hash::Siphash24 => HashFunction::SipHash24,
            Hash::Aes => HashFunction::Aes,
        }
    }
}

/// Carries out a command about tables.
pub fn run(args: TableArgs) -> anyhow::Result<u8> {
    match args.command {
        Command::Build(args) if args.tags => tags::build(&args.rules, &args.table, args.key_of.as_deref()),
        Command::Build(args) => build(&args),
        Command::Show(args) if tags::are_in(&args.table) => tags::show(&args.table),
        Command::Show(args) => show(&args.table),
        Command::Find(args) if tags::are_in(&args.table) => tags::find(&args.table, &args.name),
        Command::Find(args) => find(&args.table, &args.name),
    }
}

/// The ids of labels, in the order in which they come.
#[derive(Default)]
pub struct Labels {
    ids: HashMap<Name, EntryId>,
    /// Their texts by id.
    pub texts: Vec<Box<[u8]>>,
}

impl Labels {
    /// The id of a label, which is a new one if the label is new.
    pub fn id(&mut self, label: NameRef<'_>) -> anyhow::Result<EntryId> {
        let label = label.to_name();
        if let Some(id) = self.ids.get(&label) {
            return Ok(*id);
        }
        anyhow::ensure!(self.texts.len() < LABELS_MAX, "a table has at most {LABELS_MAX} different labels");
        let id = EntryId(self.texts.len() as u32);
        self.texts.push(label.to_string().into_bytes().into());
        self.ids.insert(label, id);
        Ok(id)
    }
}

fn build(args: &BuildArgs) -> anyhow::Result<u8> {
    let key = key(args.hash, args.key_of.as_deref())?;
    let rules = Rules::open(&args.rules, args.sort)?;
    let (mut counter, mut labels) = (NodeCounter::default(), Labels::default());
    rules.each(&mut |name, label| {
        labels.id(label)?;
        counter.push(name).map_err(|error| out_of_order(error, args.sort))
    })?;
    let options = Options::default();
    let mut loader = BulkLoader::new(key, counter.nodes(), &options)?;
    let mut loaded = 0;
    rules.each(&mut |name, label| {
        loader.push(name, labels.id(label)?)?;
        loaded += 1;
        if loaded % REPORTED == 0 {
            eprintln!("{loaded} rules");
        }
        Ok(())
    })?;
    let mut table = loader.finish_table(&options)?;
    table.set_labels(labels.texts);
    table.save(&args.table)?;
    writeln!(std::io::stdout(), "{}: {} rules, {} labels", args.table.display(), table.len(), table.labels().len())?;
    Ok(exit::OK)
}

/// Tells what to do about rules out of order.
pub fn out_of_order(error: byname_lookup::BuildError, sorted: bool) -> anyhow::Error {
    match error {
        byname_lookup::BuildError::Unsorted if sorted => anyhow::anyhow!("this name has a rule already"),
        byname_lookup::BuildError::Unsorted => {
            anyhow::anyhow!("this name does not follow the one before in NDN's canonical order: try --sort")
        }
        error => error.into(),
    }
}

/// The hash key of a table, or a new one.
pub fn key(hash: Hash, of: Option<&Path>) -> anyhow::Result<NameHashKey> {
    Ok(match of {
        Some(table) => BulkTable::key_of(table).with_context(|| table.display().to_string())?,
        None => NameHashKey::with_function(hash.into(), secret()?),
    })
}

/// A random secret for a hash key.
pub fn secret() -> anyhow::Result<[u64; 2]> {
    let mut secret = [0; 16];
    SystemRandom::new().fill(&mut secret).map_err(|_| anyhow::anyhow!("the system provides no random numbers"))?;
    let secret = u128::from_ne_bytes(secret);
    Ok([secret as u64, (secret >> 64) as u64])
}

fn open(table: &Path) -> anyhow::Result<BulkFib> {
    // Checked in full, as the router does.
    Ok(BulkFib::open(table, Opening { place: Place::Mapped, checked: true }, 0)?)
}

fn show(path: &Path) -> anyhow::Result<u8> {
    let fib = open(path)?;
    let table = fib.table();
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let hash = match table.key().function() {
        HashFunction::SipHash13 => "siphash13",
        HashFunction::SipHash24 => "siphash24",
        HashFunction::Aes => "aes",
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "rules      {}", table.len())?;
    writeln!(out, "changes    {}", table.changed())?;
    writeln!(out, "bytes      {bytes}")?;
    writeln!(out, "name hash  {hash}")?;
    writeln!(out, "labels     {}", table.labels().len())?;
    for label in table.labels() {
        writeln!(out, "  {}", String::from_utf8_lossy(label))?;
    }
    Ok(exit::OK)
}

fn find(path: &Path, name: &Name) -> anyhow::Result<u8> {
    // Only a few lines are read.
    let opening = Opening { place: Place::Mapped, checked: false };
    let table = BulkTable::open(path, opening, &Options::default()).with_context(|| path.display().to_string())?;
    let mut hashes = PrefixHashes::default();
    let view = NameView::new(table.key(), name.as_ref(), &mut hashes);
    let Some(found) = table.query().longest_match(&view) else {
        return Err(exit::Failure::new(exit::NOT_FOUND, format!("no rule covers {name}")).into());
    };
    let label = table.labels().get(found.entry.0 as usize);
    let label = label.map_or(format!("entry {}", found.entry.0), |label| String::from_utf8_lossy(label).into_owned());
    writeln!(std::io::stdout(), "{} {label}", view.prefix(found.depth))?;
    Ok(exit::OK)
}
