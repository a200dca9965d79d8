//! Othello, the engine of [Concise §4]: a name's entry is the exclusive-or of two values.
//!
//! **Query half.** There are two arrays of l-bit values. A name's entry is the exclusive-or of one
//! value of each array, and two hash functions choose the values. This is the parallel group of
//! [Concise §5.1]: two cache lines for any l. Values are packed to l bits.
//!
//! **Control half.** A bipartite graph has a vertex for each value and an edge for each name. While
//! the graph has no cycle, there are values for any entries. A change flips the values of the
//! smaller of the two trees that the name's edge joins. If a name's edge would close a cycle, other
//! hash functions are drawn.
//!
//! Differs from the paper:
//! - The first bits of their digests divide the names into *parts* of about ten thousand. Each part
//!   is an Othello with its own hash functions. A part is built within the second-level cache, and
//!   a cycle, growth or a split affects no other part. A query also reads a descriptor; there are
//!   few enough of them for the caches next to the core.
//! - The arrays have any number of cache lines, where the paper needs a power of two of elements. A
//!   new table takes 2.30 l bits a name at any number of names, where the paper's takes 2.67 l to 4
//!   l. A part that additions have filled to 91 % of the vertices of a side is rebuilt for a tenth
//!   more names.
//! - One multiplication derives the hash functions from the 128-bit digest. Some seed separates any
//!   two names whose digests differ, and strangers cannot make cycles.
//! - `journal` replaces the version bits of [Concise §5.3].
//!
//! The digests must come from a keyed hash. A batch is refused as a whole with
//! [`BuildError::Skewed`] if more than 65,534 names would agree in all bits that may choose a part.
//! The same holds for a change for which 384 hash functions, on more and more vertices, all close a
//! cycle; the batch's earlier changes are undone (`batch`). For uniform digests the probability of
//! that is below 10^-600.
//!
//! Correctness: names that the control half knows always get their entries. All others get an
//! arbitrary entry [Concise §7.3].
//!
//! Cost: 2.3 to 2.6 l bits a name for the query half. A growing table takes up to twice as much
//! until all parts that share memory have been rebuilt. The control half takes 25 to 30 bytes a
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
use crate::instructions::Instructions;
use crate::memory::Pages;
use crate::update::{BuildError, Change, Control, Update};

pub use self::network::{Network, NetworkChange};
pub use self::replica::Replica;

/// Vertices of each side for each hundred names. The paper has 133 and at least 100. The product of
/// both sides decides, so equal sides are smallest: c is 0.87, and half of all draws succeed.
const VERTICES_PERCENT: usize = 115;
/// Names for each hundred vertices of a side (the paper's c in percent) above which a part grows.
/// Near 100, trees become large.
const LOAD_PERCENT_MAX: usize = 91;
/// The same number, below which a part shrinks.
const LOAD_PERCENT_MIN: usize = 40;

/// How tables are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The paper's l: entries are below 2^l. 1 to 32.
    pub entry_bits: u32,
    /// Maximum number of names.
    pub names_max: usize,
    /// Maximum number of names of a part that is built in bulk. Half as many more split it. 1 to
    /// 40,000.
    pub part_names: usize,
    /// Pages of query halves that are built in bulk.
    pub pages: Pages,
    /// Instructions for queries, if this processor has them. Tests use fewer.
    #[cfg(feature = "lab")]
    pub instructions: Instructions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entry_bits: 8,
            names_max: u32::MAX as usize,
            part_names: 1 << 15,
            pages: Pages::default(),
            #[cfg(feature = "lab")]
            instructions: Instructions::detect(),
        }
    }
}

impl Options {
    fn width(&self) -> Width {
        assert!((1..=40_000).contains(&self.part_names), "a part has 1 to 40,000 names");
        Width::new(self.entry_bits)
    }

    /// The instructions for queries, which this processor has.
    fn instructions(&self) -> Instructions {
        let most = Instructions::detect();
        #[cfg(feature = "lab")]
        let most = most.min(self.instructions);
        most
    }

    /// A part with more names is split.
    fn names_of_part_max(&self) -> usize {
        self.part_names * 3 / 2
    }
}

const _: () = assert!(40_000 * 3 / 2 < EDGES_MAX);

/// The control half of one table: a [`Network`] with one switch.
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
    /// If an option is out of its range.
    pub fn new(options: Options) -> Result<Self, BuildError> {
        Ok(Othello { network: Network::new(options, 1)? })
    }

    /// A table in which `entries[i]` is the entry of `names[i]`. If a name comes twice, the last
    /// one counts.
    ///
    /// # Errors
    /// If there are too many names, an entry is too large, the kernel refuses memory on such pages,
    /// or the digests do not come from a keyed hash: [`BuildError::Skewed`].
    ///
    /// # Panics
    /// If the lengths differ, or an option is out of its range.
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

    /// The entry of a name. `None` if the table does not have it.
    pub fn entry(&self, name: Digest) -> Option<EntryId> {
        self.network.entry(0, name)
    }

    /// Memory of the control half in bytes, without the query half.
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
        // Parts that readers may still hold are counted with their query halves.
    }
}
