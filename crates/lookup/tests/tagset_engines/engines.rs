//! The engines under test.

use std::sync::Arc;

use byname_lookup::oracle::TagsetOracle;
use byname_lookup::prefix::compact::Translation;
use byname_lookup::tagset::rare_tag::{Options, RareTag};
use byname_lookup::tagset::trie::{self, Chains, Descent, Layout, Prunings, TagTrie};
use byname_lookup::{BuildError, Change, Control, EntryId, Instructions, Pages, TagsetFib, Update};
use byname_wire::Descriptor;

pub type Engine = Box<dyn Control<Descriptor, Query = dyn TagsetFib> + Send>;

/// The parts of a descriptor that an engine stores, and so the possible queries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Its tags: packets may have tags, or only a filter.
    Tags,
    /// Its filter: packets are matched by filters, and the second descriptor with the same filter
    /// is refused.
    Filters,
}

/// A kind of engine: how to build one, and its limits.
pub struct Kind {
    pub name: &'static str,
    pub keeps: Keeps,
    /// The largest entry id.
    pub entry_max: u32,
    /// Maximum number of steps for a packet. [`u32::MAX`] for any number.
    pub steps_max: u32,
    /// An empty table.
    pub build: fn() -> Engine,
}

/// All kinds, including variants that force an engine to do what it rarely does.
pub const ALL: &[Kind] = &[
    // For the traits' own implementation of bursts.
    Kind {
        name: "oracle",
        keeps: Keeps::Tags,
        entry_max: u32::MAX,
        steps_max: u32::MAX,
        build: || Box::new(TagsetOracle::new()),
    },
    rare_tag("rare_tag", u32::MAX, || build_rare_tag(Options { steps_max: u32::MAX, ..Options::default() })),
    rare_tag("rare_tag, AVX2", u32::MAX, || build_rare_tag(split_early(Instructions::Avx2))),
    rare_tag("rare_tag, portable", u32::MAX, || build_rare_tag(split_early(Instructions::Portable))),
    rare_tag("rare_tag, nodes split early", u32::MAX, || build_rare_tag(split_early(Instructions::Avx512))),
    rare_tag("rare_tag, 300 steps", 300, || {
        build_rare_tag(Options { steps_max: 300, pages: Pages::Small, ..Options::default() })
    }),
    rare_tag("rare_tag above a file", u32::MAX, || {
        build_above(Options { steps_max: u32::MAX, pages: Pages::Small, ..Options::default() })
    }),
    rare_tag("rare_tag above a file, 300 steps", 300, || {
        build_above(Options { steps_max: 300, pages: Pages::Small, members_max: 1, ..Options::default() })
    }),
    trie("trie", u32::MAX, || build_trie(unlimited(512))),
    // Lists that soon become tries, and tries that are merged all the time.
    trie("trie, lists of 3", u32::MAX, || build_trie(unlimited(3))),
    trie("trie, chains kept", u32::MAX, || {
        build_trie(trie::Options {
            chains: Chains::Kept,
            layout: Layout::SiblingOrder,
            descent: Descent::LastSibling,
            prunings: Prunings { by_weight: true, by_rest: false, by_best: true },
            ..unlimited(3)
        })
    }),
    trie("trie, chains removed", u32::MAX, || {
        let prunings = Prunings { by_weight: false, by_rest: true, by_best: false };
        build_trie(trie::Options { chains: Chains::Removed, prunings, ..unlimited(8) })
    }),
    trie("trie, nothing pruned or permuted", u32::MAX, || {
        let prunings = Prunings { by_weight: false, by_rest: false, by_best: false };
        build_trie(trie::Options { permute: false, prunings, ..unlimited(8) })
    }),
    trie("trie, 20 steps", 20, || build_trie(trie::Options { steps_max: 20, ..unlimited(8) })),
];

const fn trie(name: &'static str, steps_max: u32, build: fn() -> Engine) -> Kind {
    Kind { name, keeps: Keeps::Filters, entry_max: trie::ENTRIES_MAX - 1, steps_max, build }
}

/// A trie with lists of `list_max` descriptors.
fn unlimited(list_max: usize) -> trie::Options {
    trie::Options { steps_max: u32::MAX, list_max, ..trie::Options::default() }
}

fn build_trie(options: trie::Options) -> Engine {
    Box::new(TagTrie::new(&options).expect("a little memory"))
}

const fn rare_tag(name: &'static str, steps_max: u32, build: fn() -> Engine) -> Kind {
    Kind { name, keeps: Keeps::Tags, entry_max: u32::MAX, steps_max, build }
}

/// Makes children for every two members of a node that share a tag.
fn split_early(instructions: Instructions) -> Options {
    let options = Options { steps_max: u32::MAX, pages: Pages::Small, ..Options::default() };
    Options { members_max: 1, instructions, ..options }
}

fn build_rare_tag(options: Options) -> Engine {
    Box::new(RareTag::new(0x5851_f42d_4c95_7f2d, &options).expect("a little memory"))
}

/// Entries below this may be in the lower table.
const TRANSLATED: u32 = 4096;

/// Two tables, of which the lower one has other entries, as a file's labels do. Half of the descriptors are there.
struct Above {
    beside: RareTag,
    lower: RareTag,
    query: Arc<dyn TagsetFib>,
}

fn build_above(options: Options) -> Engine {
    let [beside, lower] =
        [0x1d8e_4e27_c47d_124f, 0x9216_d5d9_8979_fb1b].map(|secret| RareTag::new(secret, &options).expect("a little"));
    let entries: Vec<_> = (0..TRANSLATED).rev().map(|entry| Some(EntryId(entry))).collect();
    let query = beside.above(&lower, &Translation::new(&entries));
    Box::new(Above { beside, lower, query })
}

impl Control<Descriptor> for Above {
    type Query = dyn TagsetFib;

    fn query(&self) -> Arc<Self::Query> {
        self.query.clone()
    }

    fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<Update<Self::Query>, BuildError> {
        let is_lower = |descriptor: &Descriptor| descriptor.tags().iter().fold(0, |sum, tag| sum ^ tag.0) % 2 == 0;
        let (mut beside, mut lower) = (Vec::new(), Vec::new());
        for change in changes {
            let (descriptor, entry) = change.parts();
            let (to, from, entry) = match entry {
                Some(entry) if entry.0 < TRANSLATED && is_lower(descriptor) => {
                    (&mut lower, &mut beside, Some(EntryId(TRANSLATED - 1 - entry.0)))
                }
                entry => (&mut beside, &mut lower, entry),
            };
            to.push(entry.map_or_else(|| change.clone(), |entry| Change::Set(descriptor.clone(), entry)));
            from.push(Change::Remove(descriptor.clone()));
        }
        self.lower.apply(&lower)?;
        self.beside.apply(&beside)
    }

    fn reclaim(&mut self) {
        self.beside.reclaim();
        self.lower.reclaim();
    }
}

/// An engine and the query half that its readers would have.
pub struct Subject {
    pub engine: Engine,
    pub fib: Arc<dyn TagsetFib>,
}

impl Subject {
    pub fn new(kind: &Kind) -> Self {
        let engine = (kind.build)();
        let fib = engine.query();
        Subject { engine, fib }
    }

    /// Applies a batch like the forwarder: readers get the new query half at once.
    pub fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<(), BuildError> {
        if let Update::Replace(fib) = self.engine.apply(changes)? {
            self.fib = fib;
        }
        Ok(())
    }
}
