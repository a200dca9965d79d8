//! Tries that are made into one while the table goes on changing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

use byname_wire::Filter;

use super::Options;
use super::build::{Item, build};
use super::run::{Leaf, Leaves, Run};
use crate::update::BuildError;

/// A trie with what its writer needs.
#[derive(Clone)]
pub(super) struct Owned {
    pub(super) run: Arc<Run>,
    pub(super) leaves: Arc<Leaves>,
    /// Descriptors that were not removed.
    pub(super) live: usize,
}

impl Owned {
    pub(super) fn of(options: &Options, items: Vec<Item>) -> Result<Self, BuildError> {
        let live = items.len();
        let (run, leaves) = build(options, items)?;
        // Of descriptors that came twice one is there.
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

/// Work that may be done on any thread: [`Merge::run`].
///
/// It holds the tries that it is made from. Changes go on meanwhile.
pub struct Merge {
    pub(super) of: Vec<Owned>,
    pub(super) options: Options,
    pub(super) token: Arc<()>,
}

/// What came of it.
pub struct Merged {
    pub(super) owned: Owned,
    pub(super) token: Arc<()>,
}

impl Merge {
    /// Descriptors that it goes through.
    pub fn descriptors(&self) -> usize {
        self.of.iter().map(|owned| owned.live).sum()
    }

    /// Makes one trie of several: as long as loading as many descriptors, at 40 bytes each beside
    /// the old tries and the new one.
    ///
    /// # Errors
    /// If the kernel refuses memory, or there are more than a trie can number.
    pub fn run(self) -> Result<Merged, BuildError> {
        Ok(Merged { owned: Owned::of(&self.options, items(&self.of))?, token: self.token })
    }
}

/// A merge under way, as the writer knows it.
pub(super) struct UnderWay {
    /// The tries that are merged.
    pub(super) runs: Range<usize>,
    token: Weak<()>,
    /// What changed in them since.
    pub(super) changed: HashMap<Filter, Leaf>,
}

impl UnderWay {
    pub(super) fn new(runs: Range<usize>, token: &Arc<()>) -> Self {
        UnderWay { runs, token: Arc::downgrade(token), changed: HashMap::new() }
    }

    /// Whoever had it has dropped it.
    pub(super) fn is_abandoned(&self) -> bool {
        self.token.strong_count() == 0
    }

    pub(super) fn is(&self, merged: &Merged) -> bool {
        std::ptr::eq(self.token.as_ptr(), Arc::as_ptr(&merged.token))
    }
}
