//! `byname flat`: files of flat names with labels, which the router looks up below a prefix (`[[flat]]`), and changes of
//! names in a running router.

mod change;

use std::fs::File;
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_lookup::file::{Opening, Place};
use byname_lookup::flat::known::{Exact, FILTER_BITS_MAX, Filter};
use byname_lookup::flat::labelled::{self, LabelledTable};
use byname_wire::name::component_type;
use byname_wire::{HashFunction, Name, NameHashKey};
use clap::{Args, Subcommand};

use crate::Connection;
use crate::exit;
use crate::table::rules::each_line;
use crate::table::{Labels, REPORTED, ShowArgs, secret};
use crate::tools::parse_name;

/// Options of `byname flat`.
#[derive(Debug, Args)]
pub struct FlatArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a table from text: lines with a flat name and a label
    Build(BuildArgs),
    /// Check a table, and show what it has
    Show(ShowArgs),
    /// Look up the label of a flat name in a table
    Find(FindArgs),
    #[command(flatten)]
    Change(change::Command),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The names, or - for standard input: on each line a flat name and its label, which is the name whose route it follows
    #[arg(value_name = "NAMES")]
    names: PathBuf,
    /// The file to write
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Bits of the checksum of each name: an unknown name passes as known with odds of 2^-BITS; with 0, always
    #[arg(long, value_name = "BITS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=16))]
    check: u32,
    /// Names are bytes in hexadecimal digits, such as digests; otherwise they are components of a URI
    #[arg(long)]
    hex: bool,
    /// Also make a filter, beside the table and with the ending .filter: an unknown name passes it with odds of 2^-BITS
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=i64::from(FILTER_BITS_MAX)))]
    filter: Option<u32>,
    /// Also write the digests of all names to a file: no unknown name passes it
    #[arg(long, value_name = "FILE")]
    exact: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct FindArgs {
    /// The table
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// The flat name
    #[arg(value_name = "NAME")]
    name: String,
    /// The name is bytes in hexadecimal digits
    #[arg(long)]
    hex: bool,
}

/// Carries out a command about tables of flat names.
pub fn run(args: FlatArgs, connection: &Connection) -> anyhow::Result<u8> {
    match args.command {
        Command::Build(args) => build(&args),
        Command::Show(args) => show(&args.table),
        Command::Find(args) => find(&args),
        Command::Change(command) => change::run(command, connection),
    }
}

/// The bytes of a flat name.
fn flat_name(text: &str, hex: bool) -> anyhow::Result<Vec<u8>> {
    if hex {
        return bytes_of_hex(text).with_context(|| format!("{text:?} is not a number of bytes in hexadecimal digits"));
    }
    let parsed: Result<Name, _> = format!("/{text}").parse();
    let name = parsed.with_context(|| format!("{text:?} is not a component of a name"))?;
    let components: Vec<_> = name.as_ref().components().collect();
    match components[..] {
        [component] if component.typ == component_type::GENERIC && !text.contains('/') => Ok(component.value.to_vec()),
        _ => anyhow::bail!(
            "{text:?} is not one generic component of a name: flat names are the component after a prefix"
        ),
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

/// A file of names, or standard input.
fn opened(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(stdin().lock()));
    }
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
}

fn build(args: &BuildArgs) -> anyhow::Result<u8> {
    let filter = args.filter.map(|bits| (bits, args.table.with_extension("filter")));
    let files = filter.iter().map(|(_, path)| path).chain(&args.exact);
    if let Some(path) = files.clone().find(|path| **path == args.table) {
        anyhow::bail!("{} cannot be two files: give the table another name", path.display());
    }
    if let (Some((_, filter)), Some(exact)) = (&filter, &args.exact)
        && filter == exact
    {
        anyhow::bail!("{} cannot be two files: give the exact names another name", exact.display());
    }
    let key = NameHashKey::with_function(HashFunction::default(), secret()?);
    let (mut names, mut labels) = (Vec::new(), Labels::default());
    each_line(&mut opened(&args.names)?, &args.names, &mut |_, text| {
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(label), None) = (words.next(), words.next(), words.next()) else {
            anyhow::bail!("a line has a flat name and a label: report.pdf /upstream/1");
        };
        let label = parse_name(label).map_err(anyhow::Error::msg)?;
        names.push((key.digest_bytes(&flat_name(name, args.hex)?), labels.id(label.as_ref())?));
        if names.len().is_multiple_of(REPORTED) {
            eprintln!("{} names read", names.len());
        }
        Ok(())
    })?;
    anyhow::ensure!(!names.is_empty(), "{}: there is no name in it", args.names.display());
    let labels = labelled::Labels { texts: labels.texts, check_bits: args.check };
    let mut reported = 0;
    let mut progress = |done: usize| {
        if done / REPORTED > reported {
            reported = done / REPORTED;
            eprintln!("{done} names of {} in the table", names.len());
        }
    };
    labelled::save((&args.table, &key), &labels, &names, &mut progress)
        .with_context(|| args.table.display().to_string())?;
    let (table, count) = (args.table.display(), labels.texts.len());
    writeln!(std::io::stdout(), "{table}: {} names, {count} labels", names.len())?;
    let digests = names.iter().map(|(digest, _)| *digest);
    if let Some((bits, path)) = &filter {
        Filter::save((path, &key), *bits, digests.clone(), &mut |_| {}).with_context(|| path.display().to_string())?;
        tell_size(path, names.len(), &format!("a filter of {bits} bits"))?;
    }
    if let Some(path) = &args.exact {
        Exact::save((path, &key), digests).with_context(|| path.display().to_string())?;
        tell_size(path, names.len(), "the digests of all names")?;
    }
    Ok(exit::OK)
}

/// Prints what a file beside the table has.
fn tell_size(path: &Path, names: usize, what: &str) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    writeln!(
        std::io::stdout(),
        "{}: {what}, {:.2} bits a name",
        path.display(),
        bytes as f64 * 8.0 / names.max(1) as f64
    )?;
    Ok(())
}

fn open(path: &Path, checked: bool) -> anyhow::Result<LabelledTable> {
    LabelledTable::open(path, Opening { place: Place::Mapped, checked }).with_context(|| path.display().to_string())
}

fn show(path: &Path) -> anyhow::Result<u8> {
    // Checked in full, as the router does.
    let table = open(path, true)?;
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let mut out = std::io::stdout().lock();
    writeln!(out, "names        {}", table.names())?;
    writeln!(out, "bytes        {bytes}")?;
    writeln!(out, "bits a name  {:.2}", bytes as f64 * 8.0 / table.names().max(1) as f64)?;
    writeln!(out, "check bits   {}", table.labels().check_bits)?;
    writeln!(out, "labels       {}", table.labels().texts.len())?;
    for label in &table.labels().texts {
        writeln!(out, "  {}", String::from_utf8_lossy(label))?;
    }
    Ok(exit::OK)
}

fn find(args: &FindArgs) -> anyhow::Result<u8> {
    // Only one line of memory is read.
    let table = open(&args.table, false)?;
    let entry = table.query().entry(table.key().digest_bytes(&flat_name(&args.name, args.hex)?));
    let Some(label) = entry.and_then(|entry| table.labels().texts.get(entry.0 as usize)) else {
        return Err(exit::Failure::new(exit::NOT_FOUND, format!("the table does not know {}", args.name)).into());
    };
    writeln!(std::io::stdout(), "{} {}", args.name, String::from_utf8_lossy(label))?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_names_are_one_generic_component_or_hexadecimal() {
        let good = [("report.pdf", false, &b"report.pdf"[..]), ("a%2Fb", false, b"a/b"), ("00fF", true, &[0, 255])];
        for (text, hex, bytes) in good {
            assert_eq!(flat_name(text, hex).expect(text), bytes);
        }
        for (text, hex) in [("a/b", false), ("a/", false), ("32=a", false), ("%zz", false), ("0", true), ("é0", true)]
        {
            assert!(flat_name(text, hex).is_err(), "{text}");
        }
    }
}
