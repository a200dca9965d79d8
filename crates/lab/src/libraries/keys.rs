//! The keys, packed, so that they leave no holes in the memory where tables are built.

use std::collections::HashMap;
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

/// Strings in one buffer.
#[derive(Default)]
pub struct Packed {
    text: String,
    ends: Vec<usize>,
}

impl Packed {
    fn push(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// String `i`.
    pub fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start..self.ends[i]]
    }

    /// All strings.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Mean length of a string, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.text.len() as f64 / self.len() as f64
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

/// Domains: as they are, or as paths from the top-level domain down.
pub fn domains(data: &Path, made: bool, wanted: u64, as_paths: bool) -> anyhow::Result<Packed> {
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
pub fn below(keys: &Packed, seed: u64) -> Packed {
    let mut questions = Packed::default();
    draw(keys.len(), seed).for_each(|i| questions.push(&[keys.get(i), "/index.html"]));
    questions
}

/// Keys in random order.
pub fn same(keys: &Packed, seed: u64) -> Packed {
    let mut questions = Packed::default();
    draw(keys.len(), seed).for_each(|i| questions.push(&[keys.get(i)]));
    questions
}

/// Numbers of keys, at random.
pub fn draw(keys: usize, seed: u64) -> impl Iterator<Item = usize> {
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

/// The prefixes of a routing table, or some of them.
pub fn routes(data: &Path, made: bool, wanted: u64) -> anyhow::Result<Vec<Prefix>> {
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
    Ok((0..wanted).map(|i| routes[i * all / wanted]).collect())
}

fn read_routes(file: &Path) -> anyhow::Result<Vec<Prefix>> {
    use std::io::Read as _;
    let packed = std::fs::File::open(file).with_context(|| crate::workload::cannot_read(file))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes)?;
    let routes = text::lines(&bytes).filter(|line| !line.starts_with(';')).map(|line| {
        let (prefix, _) = line.split_once('\t')?;
        let (address, len) = prefix.split_once('/')?;
        let (address, len) = (address.parse::<std::net::Ipv4Addr>().ok()?, len.parse::<u8>().ok()?);
        (len <= 32).then_some((address.to_bits() & mask(len), len))
    });
    routes.collect::<Option<Vec<_>>>().with_context(|| format!("{} has no such prefixes", file.display()))
}

/// The bits of a prefix of this length.
pub fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Random addresses below prefixes.
pub fn addresses(routes: &[Prefix], seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed ^ 9);
    draw(routes.len(), seed).map(|i| routes[i].0 | random.bits() as u32 & !mask(routes[i].1)).collect()
}

/// The longest prefix of each address, by a map of all prefixes.
pub fn right_routes(routes: &[Prefix], addresses: &[u32]) -> Vec<Answer> {
    let rules: HashMap<Prefix, usize> = routes.iter().copied().zip(0..).collect();
    let right = |address: &u32| (0..=32).rev().find_map(|len| rules.get(&(address & mask(len), len)));
    addresses.iter().map(|address| right(address).map(|key| value(*key))).collect()
}

/// Sets of tags, each line one, tags separated by bars. Each set once; at most 32 tags.
pub fn tag_sets(data: &Path, made: bool, wanted: u64) -> anyhow::Result<Packed> {
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
pub fn tag_questions(sets: &Packed, seed: u64) -> Packed {
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
