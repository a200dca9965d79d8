//! Keys and questions, packed.

use std::collections::HashMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use serde::Serialize;

use super::{Answer, value};
use crate::workload::{Random, text};

/// A kind of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Table {
    /// The longest prefix of a path.
    Prefix,
    /// The longest prefix of an IPv4 address.
    Ip,
    /// A number for exactly this key.
    Flat,
    /// Sets of tags that are subsets of a set.
    Tags,
}

/// Questions of one measurement at most.
const QUESTIONS_MAX: usize = 1 << 20;

/// Strings in one buffer, each with a line feed behind it.
#[derive(Default)]
pub struct Packed {
    text: String,
    ends: Vec<usize>,
}

impl Packed {
    /// The lines of a text.
    pub fn lines(text: String) -> Self {
        let mut ends = Vec::with_capacity(text.matches('\n').count());
        ends.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        Packed { text, ends }
    }

    /// Each string as a line.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn push(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
        self.text.push('\n');
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// String `i`.
    pub fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start..self.ends[i] - 1]
    }

    /// All strings.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Mean length of a string, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.text.len() as f64 / self.len() as f64 - 1.0
    }

    /// The same strings, each once, in the order of their bytes.
    fn sorted(&self) -> Self {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by_key(|i| self.get(*i as usize));
        order.dedup_by_key(|i| self.get(*i as usize));
        let mut sorted = Packed::default();
        sorted.text.reserve_exact(self.text.len());
        sorted.ends.reserve_exact(order.len());
        order.into_iter().for_each(|i| sorted.push(&[self.get(i as usize)]));
        sorted
    }
}

/// Keys and questions, as text.
pub struct Prepared {
    /// Each once, in the order of their bytes, or in that of addresses.
    pub keys: Packed,
    /// In random order.
    pub questions: Packed,
}

impl Prepared {
    /// Makes them from the real data, or without.
    pub fn new(table: Table, data: &Path, made: bool, wanted: u64, seed: u64) -> anyhow::Result<Self> {
        ensure!(wanted > 0, "a table needs a key");
        let keys = match table {
            Table::Prefix => domains(data, made, wanted, true)?,
            Table::Flat => domains(data, made, wanted, false)?,
            Table::Ip => routes(data, made, wanted)?,
            Table::Tags => tag_sets(data, made, wanted)?,
        };
        let questions = match table {
            Table::Prefix => below(&keys, seed),
            Table::Flat => same(&keys, seed),
            Table::Ip => addresses(&parse_routes(&keys)?, seed),
            Table::Tags => tag_questions(&keys, seed),
        };
        Ok(Prepared { keys, questions })
    }

    /// Writes them into a folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        for (file, packed) in [("keys", &self.keys), ("questions", &self.questions)] {
            fs::write(folder.join(file), packed.text()).context("cannot write the keys for another process")?;
        }
        Ok(())
    }

    /// Reads them. This leaves no holes in the memory where tables are built.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let read = |file| fs::read_to_string(folder.join(file)).context("cannot read the keys");
        Ok(Prepared { keys: Packed::lines(read("keys")?), questions: Packed::lines(read("questions")?) })
    }
}

/// Domains: as they are, or as paths from the top-level domain down.
pub(super) fn domains(data: &Path, made: bool, wanted: u64, as_paths: bool) -> anyhow::Result<Packed> {
    let file = data.join("domains_tb0hdan.txt.xz");
    let bytes = if made { made_domains().into_bytes() } else { text::read(&file)? };
    let lines: Vec<&str> = text::lines(&bytes).collect();
    ensure!(!lines.is_empty(), "{} has no domains", file.display());
    let wanted = wanted as usize;
    // A few spread over the list, or the whole list again with a number.
    let step = lines.len() as f64 / wanted.min(lines.len()) as f64;
    let mut keys = Packed::default();
    for i in 0..wanted {
        let (round, at) = (i / lines.len(), i % lines.len());
        let line = if wanted < lines.len() { lines[(i as f64 * step) as usize] } else { lines[at] };
        let number = if round == 0 { String::new() } else { round.to_string() };
        if as_paths {
            let labels = line.rsplit('.').chain([&*number]).filter(|label| !label.is_empty());
            let parts: Vec<&str> = labels.flat_map(|label| ["/", label]).collect();
            keys.push(&parts);
        } else {
            keys.push(&[&number, line]);
        }
    }
    Ok(keys.sorted())
}

/// Made of few words, where there are no real data.
fn made_domains() -> String {
    (0..2000).map(|i| format!("host{}.site{}.{}\n", i % 7, i / 3, ["net", "org", "example"][i % 3])).collect()
}

/// A key in random order, with one more component.
fn below(keys: &Packed, seed: u64) -> Packed {
    let mut questions = Packed::default();
    draw(keys.len(), seed).for_each(|i| questions.push(&[keys.get(i), "/index.html"]));
    questions
}

/// Keys in random order.
fn same(keys: &Packed, seed: u64) -> Packed {
    let mut questions = Packed::default();
    draw(keys.len(), seed).for_each(|i| questions.push(&[keys.get(i)]));
    questions
}

/// Numbers of keys, at random.
fn draw(keys: usize, seed: u64) -> impl Iterator<Item = usize> {
    let mut random = Random::new(seed);
    (0..QUESTIONS_MAX.min(8 * keys)).map(move |_| random.below(keys as u64) as usize)
}

/// The deepest key above each question, by a map of all keys.
pub fn right_prefixes(keys: &Packed, questions: &[&str]) -> Vec<Answer> {
    let rules: HashMap<&str, usize> = keys.iter().zip(0..).collect();
    let right = |question: &&str| {
        let ends = question.match_indices('/').map(|(at, _)| at).chain([question.len()]);
        ends.filter_map(|end| rules.get(&question[..end])).next_back().map(|key| value(*key))
    };
    questions.iter().map(right).collect()
}

/// An IPv4 prefix: its address, and its length in bits.
pub type Prefix = (u32, u8);

/// The prefixes of a routing table, or some of them, as text.
fn routes(data: &Path, made: bool, wanted: u64) -> anyhow::Result<Packed> {
    let mut routes = if made {
        let mut random = Random::new(5);
        let mut prefix = || {
            let len = 8 + random.below(17) as u8;
            ((random.bits() as u32) >> (32 - len) << (32 - len), len)
        };
        (0..3000).map(|_| prefix()).collect()
    } else {
        read_routes(&data.join("routes_ipv4_20080501.dat.gz"))?
    };
    routes.sort_unstable();
    routes.dedup();
    let (all, wanted) = (routes.len(), (wanted as usize).min(routes.len()));
    let mut some = Packed::default();
    for (address, len) in (0..wanted).map(|i| routes[i * all / wanted]) {
        some.push(&[&format!("{}/{len}", Ipv4Addr::from_bits(address))]);
    }
    Ok(some)
}

/// The prefixes of texts.
pub fn parse_routes(routes: &Packed) -> anyhow::Result<Vec<Prefix>> {
    let mut parsed = Vec::with_capacity(routes.len());
    for route in routes.iter() {
        parsed.push(parse_route(route).with_context(|| format!("{route} is no prefix"))?);
    }
    Ok(parsed)
}

fn parse_route(route: &str) -> Option<Prefix> {
    let (address, len) = route.split_once('/')?;
    let (address, len) = (address.parse::<Ipv4Addr>().ok()?, len.parse::<u8>().ok()?);
    (len <= 32).then_some((address.to_bits() & mask(len), len))
}

fn read_routes(file: &Path) -> anyhow::Result<Vec<Prefix>> {
    use std::io::Read as _;
    let packed = fs::File::open(file).with_context(|| crate::workload::cannot_read(file))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes)?;
    let lines = text::lines(&bytes).filter(|line| !line.starts_with(';'));
    let routes = lines.map(|line| parse_route(line.split_once('\t')?.0));
    routes.collect::<Option<Vec<_>>>().with_context(|| format!("{} has no such prefixes", file.display()))
}

/// The bits of a prefix of this length.
pub fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Random addresses below prefixes, as text.
fn addresses(routes: &[Prefix], seed: u64) -> Packed {
    let (mut random, mut addresses) = (Random::new(seed ^ 9), Packed::default());
    for i in draw(routes.len(), seed) {
        let address = routes[i].0 | random.bits() as u32 & !mask(routes[i].1);
        addresses.push(&[&Ipv4Addr::from_bits(address).to_string()]);
    }
    addresses
}

/// The addresses of texts.
pub fn parse_addresses(addresses: &Packed) -> anyhow::Result<Vec<u32>> {
    let mut parsed = Vec::with_capacity(addresses.len());
    for address in addresses.iter() {
        parsed.push(address.parse::<Ipv4Addr>().with_context(|| format!("{address} is no address"))?.to_bits());
    }
    Ok(parsed)
}

/// The longest prefix of each address, by a map of all prefixes.
pub fn right_routes(routes: &[Prefix], addresses: &[u32]) -> Vec<Answer> {
    let rules: HashMap<Prefix, usize> = routes.iter().copied().zip(0..).collect();
    let right = |address: &u32| (0..=32).rev().find_map(|len| rules.get(&(address & mask(len), len)));
    addresses.iter().map(|address| right(address).map(|key| value(*key))).collect()
}

/// Sets of tags, each line one, tags separated by bars. Each set once; at most 32 tags.
fn tag_sets(data: &Path, made: bool, wanted: u64) -> anyhow::Result<Packed> {
    let file = data.join("tags_cldr.txt.xz");
    let made_sets = || (0..3000u32).map(|i| format!("x\ta{}|b{}|c{}\n", i % 50, i % 37, i / 40)).collect::<String>();
    let bytes = if made { made_sets().into_bytes() } else { text::read(&file)? };
    let mut sets = Packed::default();
    for line in text::lines(&bytes) {
        let tags = line.split_once('\t').map_or(line, |(_, tags)| tags);
        let mut tags: Vec<&str> = tags.split('|').collect();
        tags.sort_unstable();
        tags.dedup();
        if tags.len() <= 32 {
            sets.push(&[&tags.join("|")]);
        }
    }
    let sets = sets.sorted();
    let (all, wanted) = (sets.len(), (wanted as usize).min(sets.len()));
    ensure!(wanted > 0, "{} has no sets", file.display());
    let mut some = Packed::default();
    (0..wanted).for_each(|i| some.push(&[sets.get(i * all / wanted)]));
    Ok(some)
}

/// The tags of a set, and up to three of another.
fn tag_questions(sets: &Packed, seed: u64) -> Packed {
    let mut questions = Packed::default();
    let mut random = Random::new(seed ^ 3);
    for i in draw(sets.len(), seed).take(QUESTIONS_MAX / 8) {
        let other = sets.get(random.below(sets.len() as u64) as usize);
        let mut tags: Vec<&str> = sets.get(i).split('|').chain(other.split('|').take(3)).collect();
        tags.sort_unstable();
        tags.dedup();
        tags.truncate(32);
        questions.push(&[&tags.join("|")]);
    }
    questions
}
