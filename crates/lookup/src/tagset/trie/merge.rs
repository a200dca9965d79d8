//! Merges tries while the table continues to change.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use byname_wire::Filter;

use super::Options;
use super::build::{Item, build};
use super::run::{Leaf, Leaves, Run};
use crate::update::BuildError;

/// A trie, with the data that its writer needs.
#[derive(Clone)]
pub(super) struct Owned {
    pub(super) run: Arc<Run>,
    pub(super) leaves: Arc<Leaves>,
    /// Number of descriptors that were not removed.
    pub(super) live: usize,
}

impl Owned {
    pub(super) fn of(options: &Options, items: Vec<Item>) -> Result<Self, BuildError> {
        let live = items.len();
        let (run, leaves) = build(options, items)?;
        // A descriptor that came twice counts once.
        let live = live.min(run.descriptors);
        Ok(Owned { run: Arc::new(run), leaves: Arc::new(leaves), live })
    }
}

/// All descriptors of some tries that were not removed.
pub(super) fn items(of: &[Owned]) -> Vec<Item> {
    let mut items = Vec::with_capacity(of.iter().map(|owned| owned.live).sum());
    of.iter().for_each(|owned| owned.run.for_each(&owned.leaves, &mut |item| items.push(item)));
    items
}

/// Work that any thread may do: [`Merge::run`].
///
/// It holds the tries that it merges. Changes continue meanwhile.
pub struct Merge {
    pub(super) of: Vec<Owned>,
    pub(super) options: Options,
    pub(super) token: Arc<()>,
}

/// The result of a merge.
pub struct Merged {
    pub(super) owned: Owned,
    pub(super) token: Arc<()>,
}

impl Merge {
    /// Number of descriptors that it reads.
    pub fn descriptors(&self) -> usize {
        self.of.iter().map(|owned| owned.live).sum()
    }

    /// Merges several tries into one. Takes as long as loading that many descriptors, and 40 bytes
    /// for each in addition to the old tries and the new one.
    ///
    /// # Errors
    /// If the kernel refuses memory, or if there are more than a trie can number.
    pub fn run(self) -> Result<Merged, BuildError> {
        Ok(Merged { owned: Owned::of(&self.options, items(&self.of))?, token: self.token })
    }
}

/// The writer's record of a merge in progress.
pub(super) struct UnderWay {
    /// The tries that are merged.
    pub(super) runs: Range<usize>,
    token: Weak<()>,
    /// Changes in these tries since the merge began.
    pub(super) changed: HashMap<Filter, Leaf>,
}

impl UnderWay {
    pub(super) fn new(runs: Range<usize>, token: &Arc<()>) -> Self {
        UnderWay { runs, token: Arc::downgrade(token), changed: HashMap::new() }
    }

    /// Whether the merge was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.token.strong_count() == 0
    }

    pub(super) fn is(&self, merged: &Merged) -> bool {
        std::ptr::eq(self.token.as_ptr(), Arc::as_ptr(&merged.token))
    }
}
