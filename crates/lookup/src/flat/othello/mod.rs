//! Othello: two values a name, combined by exclusive-or; the engine of [Concise §4].
//!
//! **Query half.** Two arrays of l-bit values; a name's entry is the exclusive-or of one value of
//! each, which two hash functions choose: the parallel group of [Concise §5.1], two cache lines
//! whatever l. Values are packed to l bits.
//!
//! **Control half.** A bipartite graph with a vertex for each value and an edge for each name.
//! While it has no cycle, values can be chosen for any entries; a change flips the values of the
//! smaller of the two trees that its edge joins. A name whose edge would close a cycle makes us
//! draw other hash functions.
//!
//! Differs from the paper:
//! - Names are split into *parts* of some ten thousand by the first bits of their digests, each an
//!   Othello of its own with its own hash functions. A part is built within the second-level
//!   cache, and a cycle, growth or a split touches no other. A query reads a descriptor more, of
//!   which there are few enough for the caches next to the core.
//! - The arrays have any number of cache lines, not powers of two of elements: 2.30 l bits a name
//!   when built, at any number of names, where the paper has 2.67 l to 4 l. A part that additions
//!   have filled to 91 % of its vertices of a side is made anew for a tenth more names.
//! - The hash functions are made from the 128-bit digest by one multiplication: names whose digests
//!   differ get apart under some seed, and strangers cannot make cycles.
//! - `journal` has what became of the version bits of [Concise §5.3].
//!
//! Digests must be a keyed hash's: a batch that would make more than 65,534 names begin alike in all
//! bits that may choose a part is refused whole, as [`BuildError::Skewed`]. So is a change for which
//! 384 hash functions, on ever more vertices, all close a cycle: what its batch did before is undone
//! (`batch`). Uniform digests have odds below 10^-600 of that, and no others are known that get there.
//!
//! Odds: names that the control half knows are never answered wrongly. All others get an arbitrary
//! entry [Concise §7.3].
//!
//! Cost: 2.3 to 2.6 l bits a name for the query half; while a table grows, up to twice as much
//! until all parts that share memory have been made anew. The control half takes 25 to 30 bytes a
//! name.

mod batch;
mod changes;
mod feed;
mod graph;
mod journal;
mod network;
mod place;
mod processor;
mod query;
mod replica;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use byname_wire::Digest;

use self::batch::Step;
use self::graph::EDGES_MAX;
use self::place::Width;
use super::FlatFib;
use crate::entry::EntryId;
pub use crate::instructions::Instructions;
use crate::memory::Pages;
use crate::update::{BuildError, Change, Control, Update};

pub use self::network::{Network, NetworkChange};
pub use self::replica::Replica;

/// Vertices of each side for a hundred names: the paper has 133 and 100 at least. The product
/// decides, so that equal sides are the smallest: c is 0.87, and half of all draws succeed.
const VERTICES_PERCENT: usize = 115;
/// Names for each hundred vertices of a side, the paper's c in percent, for which a part grows:
/// trees become large near 100.
const LOAD_PERCENT_MAX: usize = 91;
/// And below which it shrinks.
const LOAD_PERCENT_MIN: usize = 40;

/// How tables are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The paper's l: entries are below 2 to the power of this. 1 to 32.
    pub entry_bits: u32,
    /// Most names.
    pub names_max: usize,
    /// Most names of a part that is built in bulk; half as many more split it. 1 to 40,000.
    pub part_names: usize,
    /// Pages of query halves that are built in bulk.
    pub pages: Pages,
    /// What queries are computed with, if this processor has it: less is for tests.
    pub instructions: Instructions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entry_bits: 8,
            names_max: u32::MAX as usize,
            part_names: 1 << 15,
            pages: Pages::default(),
            instructions: Instructions::detect(),
        }
    }
}

impl Options {
    fn width(&self) -> Width {
        assert!((1..=40_000).contains(&self.part_names), "a part has 1 to 40,000 names");
        Width::new(self.entry_bits)
    }

    /// A part with more names is split.
    fn names_of_part_max(&self) -> usize {
        self.part_names * 3 / 2
    }
}

const _: () = assert!(40_000 * 3 / 2 < EDGES_MAX);

/// The control half of one table: a [`Network`] of one switch.
pub struct Othello {
    network: Network,
}

impl Othello {
    /// An empty table.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    ///
    /// # Panics
    /// If the options are out of their ranges.
    pub fn new(options: Options) -> Result<Self, BuildError> {
        Ok(Othello { network: Network::new(options, 1)? })
    }

    /// A table in which `entries[i]` is the entry of `names[i]`. Of equal names the last one counts.
    ///
    /// # Errors
    /// If there are too many names, an entry is too large, the kernel refuses memory on such pages,
    /// or the digests are not those of a keyed hash: [`BuildError::Skewed`].
    ///
    /// # Panics
    /// If the lengths differ, or the options are out of their ranges.
    pub fn construct(options: Options, names: &[Digest], entries: &[EntryId]) -> Result<Self, BuildError> {
        Ok(Othello { network: Network::construct(options, names, &[entries])? })
    }

    /// Names in the table.
    pub fn len(&self) -> usize {
        self.network.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.network.is_empty()
    }

    /// The entry of a name; `None`: no such name.
    pub fn entry(&self, name: Digest) -> Option<EntryId> {
        self.network.entry(0, name)
    }

    /// Memory of the control half, in bytes, the query half aside.
    pub fn memory_bytes(&self) -> usize {
        self.network.memory_bytes()
    }
}

impl Control<Digest> for Othello {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        self.network.query(0)
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        for change in changes {
            if let Change::Set(_, entry) = change {
                self.network.check_entry(*entry)?;
            }
        }
        self.network.apply_steps(changes.iter().map(|change| match change {
            Change::Set(name, entry) => Step::Set(*name, std::slice::from_ref(entry)),
            Change::Remove(name) => Step::Remove(*name),
        }))?;
        Ok(self.network.publish(0))
    }

    fn reclaim(&mut self) {
        // What readers may hold is counted with the query halves that they have.
    }
}
