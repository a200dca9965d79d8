//! Longest name prefix match in 11 bytes a rule and little more than one cache line: byname's own
//! engine, and its default.
//!
//! **Search.** The rules make a trie of components; only the nodes of the *compacted* trie count:
//! rules, and prefixes below which rules branch. Each node has one entry, stored under the hash of
//! one prefix on the edge that leads to it, its *handle*: the prefix whose depth most powers of two
//! divide (the z-fast trie of Belazzougui, Boldi, Pagh and Vigna, over components in place of
//! bits). A binary search over depths that always probes the fattest depth left passes every
//! handle on a name's way, so that it finds the deepest node above a name in at most
//! ⌈log2(k+1)⌉ probes for k components, like [Yuan §3.1], with one entry for each node instead of
//! one marker for each level of each rule. An entry tells its node's depth, whether anything is
//! below (if not, the search ends at once), and the answer for names that end here: the node's own
//! rule or the one it inherits.
//!
//! **Table.** Buckets of one cache line with six entries of ten octets (`part`), two buckets for
//! each handle, a filter in the line so that the second is read only when it must be; filled to
//! 94 %. A burst of names is searched in rounds, so that the lines of all are on their way at once.
//! Where a reader's names have no deep rules, they are hashed no deeper than the first probe, which
//! finds nothing ([`PrefixFib::longest_match_names`]).
//!
//! **Odds.** The query half keeps no names. An entry matches when its 16-bit tag, of the handle,
//! and its fingerprint of 41 bits, of the node's own prefix, do (36 bits where the answer is
//! inherited); both are of the check half of a keyed 128-bit hash, while the other half chooses the
//! bucket. A probe compares with at most six entries, and six more if the filter says so, on
//! average five and a half: for a name that no rule covers the odds of a wrong match are 2^-54.5 a
//! probe, 2^-53.4 at worst (2^-48.4 if all twelve inherit), whatever the number of rules. Ten
//! million foreign names of seven components a second, three probes each, are matched wrongly once
//! in 27 years. Nobody without the key can do better than guess. *Rules* are not confused with each
//! other: two whose entries look alike are found when the second is inserted, which is refused
//! ([`BuildError::Collision`]), as is a rule that is not found after its insertion. Where even that
//! is too much, [`Options::exact`] compares whole names.
//!
//! **Changes.** The control half keeps the trie with all names whole. One change writes a few words
//! in such an order that a lookup which overlaps it gives the answer of before or of after; one that
//! overlaps several is repeated, as a counter shared by names of the same first component tells.
//! After eight tries the answer stands: only a writer that never pauses gets that far.
//!
//! Limits: rules of at most 32 components (the field's limit too: NFD refuses deeper ones), entry
//! ids below 65,536, 2^32 - 2 nodes, 32 GiB of names.
//!
//! Cost: 11.4 bytes a node for the query half, up to 14 just after a part has grown; there are at
//! most twice as many nodes as rules, and as many where rules do not branch below each other. The
//! control half takes about 40 bytes a node, 24 more where rules go on below it, and the names.

mod bulk;
mod change;
mod edges;
mod exact;
mod levels;
mod names;
mod part;
mod query;
mod table;
mod tags;
mod trie;
mod word;

use std::sync::Arc;

use byname_wire::{Name, NameHashKey, NameRef, NameView, PrefixHashes};

use self::query::Shared;
use self::table::Table;
use self::trie::Trie;
use super::PrefixFib;
use crate::entry::EntryId;
use crate::memory::Pages;
use crate::update::{BuildError, Change, Control, Update};

pub use self::bulk::BulkLoader;

/// Deepest rule.
pub const DEPTH_MAX: usize = 32;
/// Entry ids are below this.
pub const ENTRIES_MAX: u32 = word::ENTRIES_MAX;
/// Changes that are hashed, and whose memory is asked for, ahead of the first.
const AHEAD: usize = 16;

/// Number of a node of the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeId(u32);

/// How a table is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most rules.
    pub rules_max: usize,
    /// Pages of the query half.
    pub pages: Pages,
    /// How much of its room a [`BulkLoader`] means to fill, in percent; 1 to 99. More takes longer to
    /// load, and lets more probes read a second line.
    pub fill_percent: u32,
    /// Readers compare whole names: a wrong match is out of the question, at two cache lines and the
    /// name for each lookup. Not for a [`BulkLoader`], which keeps no names.
    pub exact: bool,
    /// Bits of a fingerprint that are compared, 1 to 41. Fewer than all make wrong matches likely:
    /// for tests.
    pub fingerprint_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rules_max: 1 << 31,
            pages: Pages::default(),
            fill_percent: 94,
            exact: false,
            fingerprint_bits: word::FINGERPRINT_BITS,
        }
    }
}

/// The control half: one writer.
///
/// Readers that have an old query half when [`Update::Replace`] gives a new one must change before
/// the next [`Control::apply`].
pub struct Compact {
    key: NameHashKey,
    rules_max: usize,
    rules: usize,
    /// Readers compare names: entries may look alike.
    exact: bool,
    /// An entry was written that looks like another's.
    collided: bool,
    trie: Trie,
    table: Table,
    shared: Arc<Shared>,
    /// For hashing names that the trie keeps.
    scratch: Box<PrefixHashes>,
    /// For hashing the names of changes.
    ahead: Vec<PrefixHashes>,
}

impl Compact {
    /// An empty table for names hashed under `key`.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    ///
    /// # Panics
    /// If the options' fingerprints are not of 1 to 41 bits.
    pub fn new(key: NameHashKey, options: &Options) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared::new(word::fingerprint_mask(options.fingerprint_bits)));
        Ok(Compact {
            key,
            rules_max: options.rules_max,
            rules: 0,
            collided: false,
            trie: Trie::new(),
            table: Table::new(shared.clone(), options.pages, options.exact)?,
            exact: options.exact,
            shared,
            scratch: Box::default(),
            ahead: vec![PrefixHashes::default(); AHEAD],
        })
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.trie.memory_bytes() + self.table.memory_bytes() + self.table.query().memory_bytes()
    }

    /// Refuses what cannot be applied whatever the table holds.
    fn check(changes: &[Change<Name>]) -> Result<(), BuildError> {
        for change in changes {
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            match change {
                Change::Set(name, _) if name.as_ref().len() > DEPTH_MAX => {
                    return Err(BuildError::TooDeep { depth: name.as_ref().len() });
                }
                Change::Set(_, entry) if entry.0 >= ENTRIES_MAX => {
                    return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: ENTRIES_MAX });
                }
                _ => debug_assert!(name.value().len() <= usize::from(u16::MAX)),
            }
        }
        Ok(())
    }

    /// Applies changes in order; those that were applied when one fails are undone.
    fn change_all(&mut self, changes: &[Change<Name>]) -> Result<(), BuildError> {
        let mut undo = Vec::with_capacity(changes.len());
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut failed = Ok(());
        'batch: for some in changes.chunks(AHEAD) {
            let names = some.iter().map(|(Change::Set(name, _) | Change::Remove(name))| name.as_ref());
            for (name, hashes) in names.clone().zip(&mut ahead) {
                hashes.fill(&self.key, name);
            }
            let views = names.zip(&ahead).map(|(name, hashes)| NameView::from_filled(name, hashes));
            self.prefetch(views.clone());
            for (view, change) in views.zip(some) {
                let entry = if let Change::Set(_, entry) = change { Some(*entry) } else { None };
                match self.change(&view, entry) {
                    Ok(previous) => undo.push(previous),
                    Err(error) => {
                        failed = Err(error);
                        break 'batch;
                    }
                }
            }
        }
        self.ahead = ahead;
        if failed.is_err() {
            for (previous, change) in undo.into_iter().zip(changes).rev() {
                let (Change::Set(name, _) | Change::Remove(name)) = change;
                self.change_named(name.as_ref(), previous).expect("what was there before has room");
            }
        }
        failed
    }

    fn change_named(&mut self, name: NameRef<'_>, entry: Option<EntryId>) -> Result<Option<EntryId>, BuildError> {
        let mut hashes = PrefixHashes::default();
        self.change(&NameView::new(&self.key, name, &mut hashes), entry)
    }

    /// Asks for what changes of these names will read: what must be read to know the next address
    /// has come when the round over all names is done.
    fn prefetch<'a>(&self, views: impl Iterator<Item = NameView<'a>> + Clone) {
        views.clone().for_each(|view| self.trie.prefetch(&view));
        views.clone().for_each(|view| self.trie.prefetch_node(&view));
        for view in views.filter(|view| !view.is_empty()) {
            // A name of a new first component will have its handle here.
            let fresh = || view.hash(query::fattest(0, view.len()));
            self.table.prefetch(self.trie.prefetch_name(&view).unwrap_or_else(fresh));
        }
    }
}

impl Control<Name> for Compact {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.table.query().clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        Self::check(changes)?;
        let sets = changes.iter().filter(|change| matches!(change, Change::Set(..))).count();
        // A rule may bring a branch above it.
        self.table.reserve(2 * sets, self.trie.ids() + 2 * sets, |node| self.trie.key(node).hash)?;
        self.change_all(changes)?;
        let replaced = self.table.finish(|node| self.trie.key(node).hash)?;
        Ok(if replaced { Update::Replace(self.query()) } else { Update::Patched })
    }

    fn reclaim(&mut self) {
        // Entries tell by themselves whose they are: nothing that readers hold is used again.
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
