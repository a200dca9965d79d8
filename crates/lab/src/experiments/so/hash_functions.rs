//! Hash functions on names [So §2.1, Table 1], compared with current ones.
//!
//! The names have 10 to 60 random characters: 64K names in a table of 64K chained buckets. byname's functions hash all
//! prefixes of a name in one pass. The others hash each prefix separately, and the caller gives them the ends of the
//! prefixes. Functions without a key against hash flooding are included only for comparison.
//!
//! Differs: names are encoded components of 3 to 9 characters, where the paper hashes strings. The AES function
//! computes the hash of a whole name only together with all prefixes, so both columns are equal. The paper's
//! incremental cycles count each further byte, which is not the cost of all prefixes.

use std::hash::{BuildHasher as _, Hasher as _};
use std::hint::black_box;
use std::time::Instant;

use byname_wire::{Component, HashFunction, Name, NameHashKey, NameRef, NameView, PrefixHashes};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;

use super::SO;
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::table::Table;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "so-hash-functions",
    title: "hash functions on names",
    source: "[So §2.1] Table 1",
    needs: Needs { rules: &[65_536], quick_rules: &[65_536], bytes_per_rule: 1000, data: &[], minutes: 1 },
    run,
};

const BURST: usize = 32;
const NONE: u32 = u32::MAX;

/// A name and the ends of its prefixes.
struct Sample {
    name: Name,
    ends: Vec<usize>,
}

type Whole = dyn Fn(&[Sample], &mut Vec<u64>);
type Prefixes = dyn Fn(&[Sample], &mut [PrefixHashes]);

/// A function under test. Each call takes a burst, so that the cost of the call does not matter.
struct Function {
    label: &'static str,
    /// Pushes the hash of each whole name.
    whole: Box<Whole>,
    /// Computes the hashes of all prefixes of each name.
    prefixes: Box<Prefixes>,
}

#[derive(Serialize)]
struct Record {
    function: &'static str,
    names: usize,
    ns_per_byte_whole: f64,
    ns_per_byte_prefixes: f64,
    ns_per_name_prefixes: f64,
    ns_per_table_lookup: f64,
    chain_mean: f64,
    chain_max: usize,
    empty_buckets: f64,
    collisions: usize,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let seconds = context.seconds() / 3.0;
    let names = context.rules().into_iter().max().unwrap_or_default() as usize;
    let samples = samples(names);
    let heads =
        ["function", "ns/byte", "all prefixes", "ns/name", "ns/lookup", "mean chain", "longest", "empty", "collisions"];
    let mut table = Table::new(&heads);
    let mut bars = Vec::new();
    for function in functions() {
        let record = measure(&function, &samples, seconds);
        context.record(&record)?;
        table.row([
            record.function.to_owned(),
            format!("{:.2}", record.ns_per_byte_whole),
            format!("{:.2}", record.ns_per_byte_prefixes),
            format!("{:.1}", record.ns_per_name_prefixes),
            format!("{:.1}", record.ns_per_table_lookup),
            format!("{:.2}", record.chain_mean),
            record.chain_max.to_string(),
            format!("{:.2} %", 100.0 * record.empty_buckets),
            record.collisions.to_string(),
        ]);
        bars.push((record.function.to_owned(), record.ns_per_name_prefixes));
    }
    add_paper(&mut table);
    print!("{table}");
    println!("{SO}; its cycles are ns at 2.0 GHz here");
    let labels = bars.iter().map(|bar: &(String, f64)| bar.0.clone()).collect();
    let mut chart = Chart::bars("Hashes of all prefixes of a name", labels, "ns a name");
    chart.bar("all prefixes", bars.iter().map(|bar| Some(bar.1)));
    context.plot(&chart)
}

/// Adds the paper's rows, converted from cycles to ns.
fn add_paper(table: &mut Table) {
    for (label, byte, lookup, chain, longest, empty, equal) in [
        ("[So] CityHash64", 4.80, 296.66, 1.57, 7, 36.98, 0),
        ("[So] SipHash", 5.94, 421.96, 1.58, 7, 36.69, 0),
        ("[So] MD5", 15.23, 906.53, 1.58, 8, 37.34, 0),
        ("[So] CRC32", 4.77, 323.23, 1.58, 7, 37.17, 1),
    ] {
        table.row([
            label.to_owned(),
            format!("{:.2}", byte / 2.0),
            String::new(),
            String::new(),
            format!("{:.1}", lookup / 2.0),
            format!("{chain:.2}"),
            longest.to_string(),
            format!("{empty:.2} %"),
            equal.to_string(),
        ]);
    }
}

/// Distinct names of 10 to 60 characters.
fn samples(count: usize) -> Vec<Sample> {
    let mut random = StdRng::seed_from_u64(1);
    let mut seen = std::collections::HashSet::new();
    let mut samples = Vec::with_capacity(count);
    while samples.len() < count {
        let mut left: usize = random.random_range(10..=60);
        let (mut value, mut ends) = (Vec::new(), Vec::new());
        while left > 0 {
            let len = random.random_range(3..=9).min(left);
            let text: Vec<u8> = (0..len).map(|_| random.random_range(b'a'..=b'z')).collect();
            Component::generic(&text).push(&mut value);
            ends.push(value.len());
            left -= len;
        }
        let name = NameRef::new(&value).expect("components make a name").to_name();
        if seen.insert(name.clone()) {
            samples.push(Sample { name, ends });
        }
    }
    samples
}

fn functions() -> Vec<Function> {
    let rapid = rapidhash::v3::RapidSecrets::seed(1);
    let fold = foldhash::quality::FixedState::with_seed(1);
    let polymur = polymur_hash::PolymurHash::new(1);
    vec![
        keyed("SipHash-2-4", HashFunction::SipHash24),
        keyed("SipHash-1-3", HashFunction::SipHash13),
        keyed("AES rounds", HashFunction::Aes),
        portable_aes(),
        plain("rapidhash", move |bytes| rapidhash::v3::rapidhash_v3_seeded(bytes, &rapid)),
        plain("foldhash", move |bytes| {
            let mut hasher = fold.build_hasher();
            hasher.write(bytes);
            hasher.finish()
        }),
        // Almost universal: two names of n bytes collide with a proven probability of about n / 2^60.
        plain("PolymurHash", move |bytes| polymur.hash(bytes)),
    ]
}

/// One of byname's functions, on bursts.
fn keyed(label: &'static str, function: HashFunction) -> Function {
    let key = NameHashKey::with_function(function, [1, 2]);
    let prefixes = move |burst: &[Sample], out: &mut [PrefixHashes]| {
        let names: smallvec::SmallVec<[NameRef<'_>; BURST]> = burst.iter().map(|sample| sample.name.as_ref()).collect();
        PrefixHashes::fill_burst(&key, &names, &mut out[..names.len()]);
    };
    match function {
        HashFunction::Aes => by_prefixes(label, prefixes),
        _ => Function {
            label,
            whole: Box::new(move |burst, out| {
                out.extend(burst.iter().map(|sample| byname_wire::name_hash::hash_name(&key, sample.name.as_ref())));
            }),
            prefixes: Box::new(prefixes),
        },
    }
}

fn portable_aes() -> Function {
    let key = NameHashKey::with_function(HashFunction::Aes, [1, 2]);
    by_prefixes("AES without AES", move |burst, out| {
        for (sample, out) in burst.iter().zip(out) {
            out.fill_portable(&key, sample.name.as_ref());
        }
    })
}

/// A function that can hash a whole name only together with its prefixes.
fn by_prefixes(label: &'static str, prefixes: impl Fn(&[Sample], &mut [PrefixHashes]) + Clone + 'static) -> Function {
    let all = prefixes.clone();
    let scratch = std::cell::RefCell::new(vec![PrefixHashes::default(); BURST]);
    let whole = move |burst: &[Sample], out: &mut Vec<u64>| {
        let mut scratch = scratch.borrow_mut();
        all(burst, &mut scratch);
        out.extend(
            burst
                .iter()
                .zip(&*scratch)
                .map(|(sample, hashes)| NameView::from_filled(sample.name.as_ref(), hashes).full_hash()),
        );
    };
    Function { label, whole: Box::new(whole), prefixes: Box::new(prefixes) }
}

/// A function of bytes, which hashes each prefix separately.
fn plain(label: &'static str, hash: impl Fn(&[u8]) -> u64 + Clone + 'static) -> Function {
    let each = hash.clone();
    Function {
        label,
        whole: Box::new(move |burst, out| out.extend(burst.iter().map(|sample| hash(sample.name.value())))),
        prefixes: Box::new(move |burst, _| {
            for sample in burst {
                for end in &sample.ends {
                    black_box(each(&sample.name.value()[..*end]));
                }
            }
        }),
    }
}

fn measure(function: &Function, samples: &[Sample], seconds: f64) -> Record {
    let bytes: usize = samples.iter().map(|sample| sample.name.value().len()).sum();
    let mut hashes = Vec::with_capacity(samples.len());
    let whole = ns_per_pass(seconds, || {
        hashes.clear();
        samples.chunks(BURST).for_each(|burst| (function.whole)(burst, &mut hashes));
    });
    let mut out = vec![PrefixHashes::default(); BURST];
    let prefixes = ns_per_pass(seconds, || {
        samples.chunks(BURST).for_each(|burst| (function.prefixes)(burst, black_box(&mut out)));
    });
    let table = Chained::new(&hashes);
    let mut asked = Vec::with_capacity(BURST);
    let lookups = ns_per_pass(seconds, || {
        for (i, sample) in samples.iter().enumerate() {
            asked.clear();
            (function.whole)(std::slice::from_ref(sample), &mut asked);
            let found = table.find(asked[0], |entry| samples[entry].name == sample.name);
            assert_eq!(found, Some(i), "every name is in the table");
        }
    });
    let mut distinct = hashes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let chains: Vec<usize> = table.chains().filter(|len| *len > 0).collect();
    Record {
        function: function.label,
        names: samples.len(),
        ns_per_byte_whole: whole / bytes as f64,
        ns_per_byte_prefixes: prefixes / bytes as f64,
        ns_per_name_prefixes: prefixes / samples.len() as f64,
        ns_per_table_lookup: lookups / samples.len() as f64,
        chain_mean: samples.len() as f64 / chains.len() as f64,
        chain_max: chains.iter().copied().max().unwrap_or_default(),
        empty_buckets: 1.0 - chains.len() as f64 / samples.len() as f64,
        collisions: samples.len() - distinct.len(),
    }
}

/// The median time of a pass, in ns.
fn ns_per_pass(seconds: f64, mut pass: impl FnMut()) -> f64 {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < 3 || start.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        pass();
        times.push(start.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The paper's table: as many chained buckets as entries. Each entry stores its hash.
struct Chained {
    first: Vec<u32>,
    /// The hash of each entry, and the next entry of its bucket.
    entries: Vec<(u64, u32)>,
}

impl Chained {
    fn new(hashes: &[u64]) -> Self {
        let mut table = Chained { first: vec![NONE; hashes.len()], entries: Vec::with_capacity(hashes.len()) };
        for (i, hash) in hashes.iter().enumerate() {
            let bucket = table.bucket(*hash);
            table.entries.push((*hash, table.first[bucket]));
            table.first[bucket] = i as u32;
        }
        table
    }

    fn bucket(&self, hash: u64) -> usize {
        (hash % self.first.len() as u64) as usize
    }

    fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        self.chain(self.bucket(hash)).find(|&i| self.entries[i].0 == hash && is_it(i))
    }

    fn chain(&self, bucket: usize) -> impl Iterator<Item = usize> {
        let entry = |i: u32| (i != NONE).then_some(i as usize);
        std::iter::successors(entry(self.first[bucket]), move |&i| entry(self.entries[i].1))
    }

    fn chains(&self) -> impl Iterator<Item = usize> {
        (0..self.first.len()).map(|bucket| self.chain(bucket).count())
    }
}
