//! The paper's engine: a prefix trie over filters, in one vector [TagNet §3.1, §3.2].
//!
//! **Trie.** A descriptor is the ascending list of its filter's bits, most popular first
//! ([`Options::permute`]), and the trie contains these lists. A node takes eight bytes: its bit,
//! the smallest and the largest weight below it, whether it is the last of its siblings, and where
//! its children begin. Siblings lie side by side (`node`, `build`). A walk continues below the
//! nodes whose bit the packet has, and prunes by weights (`walk`). One step is one node examined.
//!
//! **Changes.** The entry of an existing descriptor is replaced in place, by one store; a removed
//! descriptor is marked in the same way. New descriptors go into a list, with which every packet is
//! compared. A full list becomes a trie of its own. Tries are merged so that each is at least 16
//! times as large as everything newer. [`Control::apply`](crate::Control::apply) does small merges
//! itself. It hands out large ones ([`TagTrie::merge`]), which any thread may run while changes
//! continue. If nobody asks for them, `apply` does the merges that are due when there are too many
//! tries.
//!
//! Differs from the paper in four points. A chain's terminator and its head are one node
//! ([`Chains::Folded`]), where the paper keeps both. The documented rule decides among largest
//! subsets of the same weight, so a walk must also enter subtrees that can only equal the best
//! ([`Ties::Smallest`]), and it searches below popular bits first ([`Descent::FirstSibling`]). The
//! cost of a packet is bounded ([`Options::steps_max`]). And the paper's trie cannot change.
//!
//! For this engine, descriptors with equal filters are the same, so the second is refused
//! ([`BuildError::Collision`]). A 64-bit keyed hash of its tags tells that it is another one. Two
//! descriptors with the same filter are mistaken for one with probability 2^-64.
//!
//! Limits: 2^32 nodes, and as many half words of chains, in each trie; entry ids below 2^32 - 1.
//!
//! Cost: a merge, like a load, sorts: see [`Merge::run`]. The control half takes 12 bytes a
//! descriptor.

mod build;
mod changes;
mod list;
mod merge;
mod node;
mod order;
mod query;
mod run;
mod walk;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use byname_wire::Descriptor;

use self::build::Item;
use self::changes::Place;
use self::list::ListWriter;
use self::merge::{Owned, UnderWay};
use self::query::Query;
use self::run::Leaf;
use super::TagsetFib;
use crate::entry::EntryId;
use crate::memory::Pages;
use crate::update::{BuildError, Update};

pub use self::merge::{Merge, Merged};

/// Entry ids must be below this.
pub const ENTRIES_MAX: u32 = NO_ENTRY;
/// The entry of a removed descriptor.
const NO_ENTRY: u32 = u32::MAX;
/// A trie is merged with everything newer unless it is this many times as large.
const GROWTH: usize = 16;
/// Maximum number of descriptors of a merge that [`Control::apply`](crate::Control::apply) does
/// itself.
const SMALL: usize = 1 << 16;
/// With more tries than this, `apply` does all merges that are due.
const RUNS_MAX: usize = 8;

/// How to build and walk a table. The defaults are what the paper found best, and ours where we
/// differ.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pages of the tries.
    pub pages: Pages,
    /// Maximum number of descriptors.
    pub descriptors_max: usize,
    /// Sorts bits by popularity [TagNet §3.2.1].
    pub permute: bool,
    /// Treatment of chains.
    pub chains: Chains,
    /// The order of nodes.
    pub layout: Layout,
    /// The prunings of a walk.
    pub prunings: Prunings,
    /// The subtree that a walk for the largest subset enters first.
    pub descent: Descent,
    /// The choice among several largest subsets.
    pub ties: Ties,
    /// Maximum number of nodes that a packet's walk visits; the rest is cut off. The default allows
    /// a few milliseconds.
    pub steps_max: u32,
    /// Maximum number of new descriptors in the list, before it becomes a trie.
    pub list_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pages: Pages::default(),
            descriptors_max: 1 << 31,
            permute: true,
            chains: Chains::Folded,
            layout: Layout::SiblingReverseOrder,
            prunings: Prunings { by_weight: true, by_rest: true, by_best: true },
            descent: Descent::FirstSibling,
            ties: Ties::Smallest,
            steps_max: 1 << 18,
            list_max: 512,
        }
    }
}

/// Treatment of *chains*: nodes below which there is one descriptor [TagNet §3.2.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chains {
    /// They stay nodes.
    Kept,
    /// The terminator moves to the chain's head, and refers to the positions of the others.
    Removed,
    /// The same, and the terminator is one node with the head.
    Folded,
}

/// The order of a vector's nodes [TagNet §3.2.3].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The children of the first sibling come first.
    SiblingOrder,
    /// The children of the last sibling come first, in the order of a walk.
    SiblingReverseOrder,
}

/// The strategies of [TagNet §3.1.4].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prunings {
    /// Skips descriptors that are heavier than the packet.
    pub by_weight: bool,
    /// Skips descriptors that are heavier than the packet can still match.
    pub by_rest: bool,
    /// Skips subtrees in which the packet can match nothing larger than the best so far.
    pub by_best: bool,
}

/// The subtree that a walk for the largest subset enters first, in a list of siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descent {
    /// The last sibling's, like the paper's stack. Sibling reverse order places it next.
    LastSibling,
    /// The first sibling's. The largest subsets are below the most popular bit, and finding them
    /// early prunes more.
    FirstSibling,
}

/// The choice among several largest subsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The smallest filter, as for all engines.
    Smallest,
    /// The first that the walk reaches, as in the paper. It depends on the layout.
    First,
}

/// The control half: one writer.
///
/// Readers that have an old query half when [`Update::Replace`] gives a new one must change before
/// the next [`Control::apply`](crate::Control::apply).
pub struct TagTrie {
    options: Options,
    secret: RandomState,
    /// Oldest first, which is the largest.
    runs: Vec<Owned>,
    list: ListWriter,
    descriptors: usize,
    merging: Option<UnderWay>,
    /// The query half, and whether readers still need it.
    query: Arc<Query>,
    is_stale: bool,
}

impl TagTrie {
    /// An empty table.
    ///
    /// # Errors
    /// If the kernel refuses memory.
    pub fn new(options: &Options) -> Result<Self, BuildError> {
        Self::load(options, [])
    }

    /// A table of these descriptors. If one comes twice, the last one counts. Needs 40 bytes for
    /// each in addition to the table.
    ///
    /// # Errors
    /// If an entry is out of range, two descriptors have the same filter, there are too many, or
    /// the kernel refuses memory.
    pub fn load(
        options: &Options,
        descriptors: impl IntoIterator<Item = (Descriptor, EntryId)>,
    ) -> Result<Self, BuildError> {
        let secret = RandomState::new();
        let mut items = Vec::new();
        for (descriptor, entry) in descriptors {
            check_entry(entry)?;
            let leaf = Leaf { entry: Some(entry), print: secret.hash_one(&descriptor) };
            items.push(Item { filter: descriptor.filter(), leaf });
        }
        let runs = if items.is_empty() { Vec::new() } else { vec![Owned::of(options, items)?] };
        let descriptors = runs.iter().map(|owned| owned.live).sum();
        if descriptors > options.descriptors_max {
            return Err(BuildError::Full { rules: options.descriptors_max });
        }
        let list = ListWriter::new(options.list_max)?;
        let query = Arc::new(query(options, &runs, &list));
        let options = options.clone();
        Ok(TagTrie { options, secret, runs, list, descriptors, merging: None, query, is_stale: false })
    }

    /// Descriptors in the table.
    pub fn len(&self) -> usize {
        self.descriptors
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.descriptors == 0
    }

    /// Number of nodes of all tries.
    pub fn nodes(&self) -> usize {
        self.runs.iter().map(|owned| owned.run.nodes_used).sum()
    }

    /// Memory of the control half alone, in bytes.
    pub fn control_bytes(&self) -> usize {
        let leaves: usize = self.runs.iter().map(|owned| owned.leaves.memory_bytes()).sum();
        size_of::<Self>() + leaves + self.list.memory_bytes()
    }

    /// A merge that is due, if none is in progress. The caller runs it and gives it back to
    /// [`TagTrie::take`]. A merge that is dropped will be due again.
    pub fn merge(&mut self) -> Option<Merge> {
        if self.merging.as_ref().is_some_and(|merging| !merging.is_abandoned()) {
            return None;
        }
        self.merging = None;
        // A trie most of which was removed is worth a merge by itself.
        let wasteful = self.runs.iter().position(|owned| 2 * owned.live < owned.run.descriptors);
        let first = self.due(0, usize::MAX, 0).min(wasteful.unwrap_or(usize::MAX));
        let of = self.runs[first..].to_vec();
        if of.is_empty() {
            return None;
        }
        let token = Arc::new(());
        self.merging = Some(UnderWay::new(first..self.runs.len(), &token));
        Some(Merge { of, options: self.options.clone(), token })
    }

    /// Replaces the merged tries by the result of the merge, with the changes made since.
    ///
    /// # Errors
    /// If the kernel refuses memory. The table is then as before.
    ///
    /// # Panics
    /// If it is not this table's merge in progress.
    pub fn take(&mut self, merged: Merged) -> Result<Update<dyn TagsetFib>, BuildError> {
        let merging = self.merging.take().filter(|merging| merging.is(&merged));
        let UnderWay { runs, changed, .. } = merging.expect("the merge under way of this table");
        // A descriptor that was removed before the merge and added during it may have no place in
        // the trie.
        let lost: Vec<_> = changed
            .iter()
            .filter(|(filter, leaf)| leaf.entry.is_some() && merged.owned.run.find(**filter).is_none())
            .collect();
        self.reserve(lost.len())?;
        self.runs.splice(runs.clone(), [merged.owned]);
        for (&filter, &leaf) in &changed {
            match self.runs[runs.start].run.find(filter) {
                Some(place) => self.set(filter, Place::Run(runs.start, place), leaf),
                None if leaf.entry.is_some() => self.list.push(filter, leaf),
                None => {}
            }
        }
        self.renew();
        Ok(self.update())
    }
}

fn query(options: &Options, runs: &[Owned], list: &ListWriter) -> Query {
    let runs = runs.iter().map(|owned| owned.run.clone()).collect();
    Query { options: options.clone(), runs, list: list.list.clone() }
}

fn check_entry(entry: EntryId) -> Result<(), BuildError> {
    match entry.0 {
        ENTRIES_MAX => Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: ENTRIES_MAX }),
        _ => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
