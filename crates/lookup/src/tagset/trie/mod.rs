//! The paper's engine: a prefix trie over filters, in one vector [TagNet §3.1, §3.2].
//!
//! **Trie.** A descriptor is the ascending list of its filter's bits, most popular first
//! ([`Options::permute`]), and the trie is that of these lists. A node takes eight bytes: its bit, the
//! least and the greatest weight below it, whether it is the last of its siblings, and where its
//! children begin; siblings lie side by side (`node`, `build`). A walk goes on below the nodes whose
//! bit the packet has, and prunes by weights (`walk`). A step is a node that is looked at.
//!
//! **Changes.** The entry of a descriptor that is there is replaced in its place, by one store, and a
//! removed one is marked so. New ones go into a list, which every packet is compared with; when it is
//! full, it becomes a trie of its own, and tries are merged so that each is at least 16 times as large
//! as all that came later. Small merges are part of [`Control::apply`](crate::Control::apply); large ones are handed out
//! ([`TagTrie::merge`]), to be done on a thread that has the time, while changes go on. If nobody asks
//! for them, `apply` does what is due when there are too many tries.
//!
//! Differs from the paper: a chain's terminator is one node with the chain's head
//! ([`Chains::Folded`]), where the paper keeps both; largest subsets of the same weight are told apart
//! by the documented rule, for which subtrees that can only be as good as the best must be entered
//! ([`Ties::Smallest`]), and are looked for below popular bits first ([`Descent::FirstSibling`]); what a packet may cost is bounded ([`Options::steps_max`]). The paper's trie
//! does not change.
//!
//! Descriptors whose filters are equal are one for this engine: the second is refused
//! ([`BuildError::Collision`]). That it is another one is told by 64 bits of a keyed hash of its tags:
//! two of the same filter are taken for the same descriptor with odds of 2^-64.
//!
//! Limits: 2^32 nodes, and as many halves of words of chains, in each trie; entry ids below 2^32 - 1.
//!
//! Cost: a merge, and a load, sorts: see [`Merge::run`]. The control half takes 12 bytes a
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

/// Entry ids are below this.
pub const ENTRIES_MAX: u32 = NO_ENTRY;
/// A removed descriptor's.
const NO_ENTRY: u32 = u32::MAX;
/// A trie is merged with what came later when it is not so many times as large.
const GROWTH: usize = 16;
/// Descriptors of a merge that is done by [`Control::apply`](crate::Control::apply) itself.
const SMALL: usize = 1 << 16;
/// Tries above which all merges that are due are.
const RUNS_MAX: usize = 8;

/// How a table is made, and walked through. The defaults are what the paper found best, and ours
/// where we differ.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pages of the tries.
    pub pages: Pages,
    /// Most descriptors.
    pub descriptors_max: usize,
    /// Bits are sorted by popularity [TagNet §3.2.1].
    pub permute: bool,
    /// What becomes of the ways that lead to one descriptor.
    pub chains: Chains,
    /// How nodes are laid out.
    pub layout: Layout,
    /// What a walk leaves out.
    pub prunings: Prunings,
    /// Where a walk for the largest subset goes first.
    pub descent: Descent,
    /// Which of several largest subsets is the one.
    pub ties: Ties,
    /// Most nodes that a packet's walk visits; what is left then is cut off. By default some
    /// milliseconds' worth.
    pub steps_max: u32,
    /// New descriptors that are kept in a list before they become a trie.
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

/// What becomes of *chains*: nodes below which there is one descriptor [TagNet §3.2.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chains {
    /// They stay nodes.
    Kept,
    /// The terminator moves to the chain's head, and links to the positions of the others.
    Removed,
    /// The same, and the terminator is one node with the head.
    Folded,
}

/// The order of a vector's nodes [TagNet §3.2.3].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// What is below the first sibling comes first.
    SiblingOrder,
    /// What is below the last sibling comes first: as a walk goes.
    SiblingReverseOrder,
}

/// The strategies of [TagNet §3.1.4].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prunings {
    /// Leave out what is heavier than the packet.
    pub by_weight: bool,
    /// Leave out what is heavier than the packet can still match.
    pub by_rest: bool,
    /// Leave out where the packet can match nothing larger than what was found.
    pub by_best: bool,
}

/// Which subtree of a list of siblings a walk for the largest subset enters first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descent {
    /// The last sibling's, as the paper's stack has it: what sibling reverse order lays out beside.
    LastSibling,
    /// The first sibling's: below the most popular bit are the largest subsets, with which more can
    /// be pruned.
    FirstSibling,
}

/// Which of several largest subsets is the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The smallest filter, as for all engines.
    Smallest,
    /// The first that the walk comes to, as in the paper: another for each layout.
    First,
}

/// The control half: one writer.
///
/// Readers that have an old query half when [`Update::Replace`] gives a new one must change before
/// the next [`Control::apply`](crate::Control::apply).
pub struct TagTrie {
    options: Options,
    secret: RandomState,
    /// From the oldest, which is the largest.
    runs: Vec<Owned>,
    list: ListWriter,
    descriptors: usize,
    merging: Option<UnderWay>,
    /// The query half, and whether readers have yet to be given it.
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

    /// A table of these descriptors; of one that comes twice the last counts. It takes 40 bytes for
    /// each beside the table.
    ///
    /// # Errors
    /// If an entry is out of range, two have the same filter, there are too many, or the kernel
    /// refuses memory.
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

    /// Nodes of all tries.
    pub fn nodes(&self) -> usize {
        self.runs.iter().map(|owned| owned.run.nodes_used).sum()
    }

    /// Memory of the control half alone, in bytes.
    pub fn control_bytes(&self) -> usize {
        let leaves: usize = self.runs.iter().map(|owned| owned.leaves.memory_bytes()).sum();
        size_of::<Self>() + leaves + self.list.memory_bytes()
    }

    /// A merge that is due, if none is under way: to be run, and given back to
    /// [`TagTrie::take`]. One that is dropped will be due again.
    pub fn merge(&mut self) -> Option<Merge> {
        if self.merging.as_ref().is_some_and(|merging| !merging.is_abandoned()) {
            return None;
        }
        self.merging = None;
        // A trie most of which was removed is worth it by itself.
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

    /// Puts what a merge has made in the place of what it was made from, with the changes since.
    ///
    /// # Errors
    /// If the kernel refuses memory; the table is as before then.
    ///
    /// # Panics
    /// If it is not the merge under way of this table.
    pub fn take(&mut self, merged: Merged) -> Result<Update<dyn TagsetFib>, BuildError> {
        let merging = self.merging.take().filter(|merging| merging.is(&merged));
        let UnderWay { runs, changed, .. } = merging.expect("the merge under way of this table");
        // What was removed before the merge and came back during it may have no place in the trie.
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
