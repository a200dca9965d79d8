//! The engines under test, and how to ask them.

use std::sync::Arc;

use byname_lookup::prefix::binary_search::{self, BinarySearch, Strategy};
use byname_lookup::prefix::compact::{self, BulkLoader, Compact};
use byname_lookup::prefix::learned::Learned;
use byname_lookup::prefix::level_pulling::{self, LevelPulling};
use byname_lookup::prefix::longest_first::{self, Prefetch};
use byname_lookup::prefix::two_stage::{self, StartDepth};
use byname_lookup::prefix::{HashRoom, LongestFirst, TwoStage};
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, PrefixMatch, Update};
use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Name, NameHashKey, NameView, PrefixHashes};

pub const KEY: NameHashKey = NameHashKey::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

/// Maximum number of rules that any test puts into a table.
pub const RULES_MAX: usize = 1 << 20;

pub type Engine = Box<dyn Control<Name, Query = dyn PrefixFib> + Send>;

/// A kind of engine: how to build one, and its limits.
pub struct Kind {
    pub name: &'static str,
    /// Components of the deepest rule. Names that are looked up may have [`COMPONENTS_MAX`].
    pub depth_max: usize,
    /// The largest entry id.
    pub entry_max: u32,
    /// Number of changes that a lookup may overlap and still be right. [`u64::MAX`] for any number.
    pub overlapped_max: u64,
    /// Maximum number of cache lines that one lookup may read in these tests' tables. `None` if the
    /// engine cannot tell.
    pub lines_max: Option<usize>,
    /// An empty table for [`RULES_MAX`] rules whose names are hashed with [`KEY`].
    pub build: fn() -> Engine,
}

/// All kinds. An engine that compares names is listed a second time with hashes so narrow that they
/// collide.
pub const ALL: &[Kind] = &[
    Kind {
        name: "longest_first",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || longest_first(4, Prefetch::AcrossBurst),
    },
    Kind {
        name: "longest_first, load 1",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || longest_first(1, Prefetch::None),
    },
    Kind {
        name: "longest_first, load 16",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // As above, with chains of up to five buckets.
        lines_max: Some(6 * (COMPONENTS_MAX + 1)),
        build: || longest_first(16, Prefetch::Cascade),
    },
    Kind {
        name: "compact, changes beside a bulk load",
        depth_max: compact::DEPTH_MAX,
        // The last id marks removed rules.
        entry_max: compact::ENTRIES_MAX - 2,
        overlapped_max: 3,
        // The search is binary in either layer, and is repeated for each removed rule on the way.
        lines_max: Some(4 * 2 * 6 * 6),
        build: bulk,
    },
    Kind {
        name: "two_stage",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || two_stage(4, StartDepth::MostLikely),
    },
    Kind {
        name: "two_stage, M = 1",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || two_stage(1, StartDepth::Fixed(1)),
    },
    Kind {
        name: "two_stage, M = 2",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // As above, with chains of up to five buckets.
        lines_max: Some(6 * (COMPONENTS_MAX + 1)),
        build: || two_stage(16, StartDepth::Fixed(2)),
    },
    Kind {
        name: "two_stage, M = 3",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || two_stage(4, StartDepth::Fixed(3)),
    },
    Kind {
        name: "two_stage, M = 5",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || two_stage(4, StartDepth::Fixed(5)),
    },
    Kind {
        name: "two_stage, M by three quarters",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // It is tried four times.
        overlapped_max: 3,
        // A bucket, perhaps one more, and a rule at each depth.
        lines_max: Some(3 * (COMPONENTS_MAX + 1)),
        build: || two_stage(4, StartDepth::CumulativeThreshold(0.75)),
    },
    Kind {
        name: "learned",
        depth_max: COMPONENTS_MAX,
        entry_max: u32::MAX,
        // Runs never change.
        overlapped_max: u64::MAX,
        // In each of three runs, at each depth: two levels of the model, hashes, and the rest.
        lines_max: Some(3 * 8 * (COMPONENTS_MAX + 1)),
        build: || Box::new(Learned::new(KEY, RULES_MAX)),
    },
    Kind {
        name: "compact",
        depth_max: compact::DEPTH_MAX,
        entry_max: compact::ENTRIES_MAX - 1,
        overlapped_max: 3,
        // Two lines for each of eight probes.
        lines_max: Some(16),
        build: || compact(compact::Options::default()),
    },
    Kind {
        name: "compact, exact",
        depth_max: compact::DEPTH_MAX,
        entry_max: compact::ENTRIES_MAX - 1,
        overlapped_max: 3,
        lines_max: Some(16),
        build: || compact(compact::Options { exact: true, ..compact::Options::default() }),
    },
    Kind {
        name: "compact, exact, fingerprints of 3 bits",
        depth_max: compact::DEPTH_MAX,
        entry_max: compact::ENTRIES_MAX - 1,
        overlapped_max: 3,
        lines_max: Some(16),
        build: || compact(compact::Options { exact: true, fingerprint_bits: 3, ..compact::Options::default() }),
    },
    by_length("binary_search", || binary_search(Strategy::AtEnd, binary_search::Prefetch::All, 20)),
    by_length("binary_search, always", || binary_search(Strategy::Always, binary_search::Prefetch::First, 20)),
    by_length("binary_search, pipelined", || binary_search(Strategy::AtEnd, binary_search::Prefetch::Burst, 20)),
    by_length("binary_search, pipelined, always", || {
        binary_search(Strategy::Always, binary_search::Prefetch::Burst, 20)
    }),
    by_length("binary_search, fingerprints of 2 bits", || {
        binary_search(Strategy::AtEnd, binary_search::Prefetch::None, 2)
    }),
    by_length("binary_search, fingerprints of 1 bit, pipelined, always", || {
        binary_search(Strategy::Always, binary_search::Prefetch::Burst, 1)
    }),
    by_length("binary_search, fingerprints of 1 bit, pipelined", || {
        binary_search(Strategy::AtEnd, binary_search::Prefetch::Burst, 1)
    }),
    by_length("level_pulling, T = 64", || level_pulling(64, Strategy::AtEnd, binary_search::Prefetch::All, 20)),
    by_length("level_pulling, T = 4", || level_pulling(4, Strategy::Always, binary_search::Prefetch::Burst, 20)),
    by_length("level_pulling, T = 1", || level_pulling(1, Strategy::AtEnd, binary_search::Prefetch::Burst, 20)),
    by_length("level_pulling, T = 1, fingerprints of 2 bits", || {
        level_pulling(1, Strategy::AtEnd, binary_search::Prefetch::None, 2)
    }),
];

fn longest_first(load_factor: usize, prefetch: Prefetch) -> Engine {
    let options = longest_first::Options { rules_max: RULES_MAX, load_factor, prefetch, ..Default::default() };
    Box::new(LongestFirst::with_options(KEY, options).expect("pages of any size"))
}

fn compact(options: compact::Options) -> Engine {
    let options = compact::Options { rules_max: RULES_MAX, ..options };
    Box::new(Compact::new(KEY, &options).expect("pages of any size"))
}

/// A bulk load of rules that the tests use, too, all of which were removed.
fn bulk() -> Engine {
    let letters = |depth: u32, bits: u32| {
        let components = (0..depth).map(|i| if bits >> i & 1 == 0 { "/a" } else { "/b" });
        components.collect::<String>().parse::<Name>()
    };
    let rules = (0..5).flat_map(|depth| (0..1 << depth).map(move |bits| letters(depth, bits)));
    let mut rules: Vec<_> = rules.map(|rule| rule.unwrap_or_default()).collect();
    rules.sort();
    rules.dedup();
    let options = compact::Options::default();
    let mut loader = BulkLoader::new(KEY, 2 * rules.len(), &options).expect("a little memory");
    for rule in &rules {
        loader.push(rule.as_ref(), EntryId(7)).expect("sorted, and room");
    }
    let mut table = loader.finish_table(&options).expect("a little memory");
    table.apply(&rules.into_iter().map(Change::Remove).collect::<Vec<_>>()).expect("room");
    Box::new(table)
}

fn two_stage(load_factor: usize, start_depth: StartDepth) -> Engine {
    let table = longest_first::Options { rules_max: RULES_MAX, load_factor, ..Default::default() };
    let options = two_stage::Options { table, start_depth };
    Box::new(TwoStage::with_options(KEY, options).expect("pages of any size"))
}

const fn by_length(name: &'static str, build: fn() -> Engine) -> Kind {
    Kind {
        name,
        depth_max: COMPONENTS_MAX,
        entry_max: binary_search::ENTRIES_MAX - 1,
        // It tries eight times, and starting points that move count as changes, too.
        overlapped_max: 3,
        // Eight tables with a chain of four buckets each, where each slot may need a comparison of
        // the longest names here, 2,400 bytes.
        lines_max: Some(8 * 4 * (1 + 7 * 40)),
        build,
    }
}

fn tables(strategy: Strategy, prefetch: binary_search::Prefetch, fingerprint_bits: u32) -> binary_search::Options {
    binary_search::Options { strategy, prefetch, fingerprint_bits, rules_max: RULES_MAX, ..Default::default() }
}

fn binary_search(strategy: Strategy, prefetch: binary_search::Prefetch, fingerprint_bits: u32) -> Engine {
    let options = tables(strategy, prefetch, fingerprint_bits);
    Box::new(BinarySearch::new(KEY, options).expect("pages of any size"))
}

fn level_pulling(
    children: u32,
    strategy: Strategy,
    prefetch: binary_search::Prefetch,
    fingerprint_bits: u32,
) -> Engine {
    let tables = tables(strategy, prefetch, fingerprint_bits);
    let options = level_pulling::Options { children, tables, ..Default::default() };
    Box::new(LevelPulling::new(KEY, options).expect("pages of any size"))
}

/// An engine and the query half that its readers would have.
pub struct Subject {
    pub engine: Engine,
    pub fib: Arc<dyn PrefixFib>,
}

impl Subject {
    pub fn new(kind: &Kind) -> Self {
        let engine = (kind.build)();
        let fib = engine.query();
        Subject { engine, fib }
    }

    /// Applies a batch like the forwarder: readers get the new query half at once.
    pub fn apply(&mut self, changes: &[Change<Name>]) -> Result<(), BuildError> {
        if let Update::Replace(fib) = self.engine.apply(changes)? {
            self.fib = fib;
        }
        Ok(())
    }
}

pub fn longest(fib: &dyn PrefixFib, name: &Name) -> Option<PrefixMatch> {
    let mut prefixes = PrefixHashes::default();
    fib.longest_match(&NameView::new(&KEY, name.as_ref(), &mut prefixes))
}

pub fn lines_read(fib: &dyn PrefixFib, name: &Name) -> Option<usize> {
    let mut prefixes = PrefixHashes::default();
    fib.lines_read(&NameView::new(&KEY, name.as_ref(), &mut prefixes))
}

/// The same for a burst of names that the engine hashes itself.
pub fn longest_of_names(fib: &dyn PrefixFib, names: &[Name], room: &mut HashRoom) -> Vec<Option<PrefixMatch>> {
    let mut out = vec![None; names.len()];
    let names: Vec<_> = names.iter().map(Name::as_ref).collect();
    fib.longest_match_names(&KEY, &names, room, &mut out);
    out
}

/// Hashed names, for repeated lookups in bursts.
pub struct Burst<'a> {
    names: &'a [Name],
    prefixes: Vec<PrefixHashes>,
}

impl<'a> Burst<'a> {
    pub fn new(names: &'a [Name]) -> Self {
        let mut prefixes = vec![PrefixHashes::default(); names.len()];
        for (name, prefixes) in names.iter().zip(&mut prefixes) {
            NameView::new(&KEY, name.as_ref(), prefixes);
        }
        Burst { names, prefixes }
    }

    /// Hashes no deeper than the rules of `fib`.
    pub fn cut(names: &'a [Name], fib: &dyn PrefixFib) -> Self {
        let mut prefixes = vec![PrefixHashes::default(); names.len()];
        let refs: Vec<_> = names.iter().map(Name::as_ref).collect();
        PrefixHashes::fill_burst_to(fib.depth_max(), &KEY, &refs, &mut prefixes);
        Burst { names, prefixes }
    }

    /// Hashes the prefixes that `fib` probes. The other places hold digests of other names.
    pub fn at_depths(names: &'a [Name], fib: &dyn PrefixFib) -> Self {
        let mut prefixes = vec![PrefixHashes::default(); names.len()];
        let refs: Vec<_> = names.iter().map(Name::as_ref).collect();
        let others: Vec<_> = refs.iter().rev().copied().collect();
        PrefixHashes::fill_burst(&KEY, &others, &mut prefixes);
        PrefixHashes::fill_burst_where(|_| fib.depths(), &KEY, &refs, &mut prefixes);
        Burst { names, prefixes }
    }

    pub fn views(&self) -> Vec<NameView<'_>> {
        let pairs = self.names.iter().zip(&self.prefixes);
        pairs.map(|(name, prefixes)| NameView::from_filled(name.as_ref(), prefixes)).collect()
    }

    pub fn longest(&self, fib: &dyn PrefixFib) -> Vec<Option<PrefixMatch>> {
        let mut out = vec![None; self.names.len()];
        fib.longest_match_burst(&self.views(), &mut out);
        out
    }
}
