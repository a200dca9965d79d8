//! Longest name prefix match in 11 bytes a rule and little more than one cache line. byname's own
//! engine, and its default.
//!
//! **Search.** The rules form a trie of components. Only the nodes of the *compacted* trie have
//! entries: rules, and prefixes below which rules branch. A node's entry is stored under the hash
//! of one prefix on the edge that leads to the node. This prefix is the node's *handle*: the one
//! whose depth is divisible by the largest power of two. This is the z-fast trie of Belazzougui,
//! Boldi, Pagh and Vigna, over components instead of bits. A binary search over depths that always
//! probes the fattest remaining depth passes every handle on a name's path. It finds the deepest
//! node above a name in at most ⌈log2(k+1)⌉ probes for k components, like [Yuan §3.1], but with one
//! entry for each node instead of one marker for each level of each rule. An entry holds its node's
//! depth, whether anything is below (if not, the search ends at once), and the answer for names
//! that end here: the node's own rule, or the rule that it inherits.
//!
//! **Table.** Buckets are one cache line with six entries of ten bytes (`part`). Each handle has
//! two buckets; a filter in the first line tells whether the second must be read. Buckets are
//! filled to 94 %. A burst of names is searched in rounds, so that the lines of all names are
//! fetched at the same time.
//!
//! **Odds of a wrong match.** The query half keeps no names. An entry matches if its 16-bit tag agrees with the
//! handle's, and its fingerprint of 41 bits with the node's prefix (36 bits if the answer is inherited). Both come from
//! the check half of a keyed 128-bit hash; the other half chooses the bucket. A probe compares at most six entries, and
//! six more if the filter says so; the average is five and a half. For a name that no rule covers, the probability of a
//! wrong match is 2^-54.5 a probe, and at worst 2^-53.4 (2^-48.4 if all twelve inherit), whatever the number of rules.
//! Ten million foreign names of seven components a second, with three probes each, cause one wrong match in 27 years.
//! Without the key, nobody can do better than guess. Two *rules* are never confused. If two entries look alike, the
//! second insertion is refused ([`BuildError::Collision`]), and so is a rule that a lookup does not find after its
//! insertion. If even these odds are too high, [`Options::exact`] compares whole names.
//!
//! **Changes.** The control half keeps the trie with all whole names. A change writes a few words
//! in an order that gives every overlapping lookup the answer from before or from after. A lookup
//! that overlaps several changes is repeated; a counter that names with the same first component
//! share detects this. After eight tries the answer stands, which takes a writer that never pauses.
//!
//! Limits: rules of at most 32 components (NFD refuses deeper ones, too), entry ids below 65,536,
//! 2^32 - 2 nodes, and 32 GiB of names.
//!
//! Cost: the query half takes 11.4 bytes a node, and up to 14 just after a part has grown. There
//! are at most twice as many nodes as rules, and as many if rules do not branch below each other.
//! The control half takes about 40 bytes a node, 24 more for rules that have others below them, and
//! the names.

mod bulk;
mod bulk_table;
mod change;
mod edges;
mod exact;
mod image;
mod levels;
mod live;
mod names;
mod part;
mod query;
mod table;
mod tags;
mod trie;
mod word;

use std::sync::Arc;

use byname_wire::{Name, NameHashKey, NameRef, NameView, PrefixHashes};

use self::levels::Levels;
use self::query::{STRIPES, Shared};
use self::table::Table;
use self::trie::{Spot, Trie};
use super::PrefixFib;
use crate::entry::EntryId;
use crate::memory::Pages;
use crate::update::{BuildError, Change, Control, Update};

pub use self::bulk::{BulkLoader, NodeCounter};
pub use self::bulk_table::{BulkTable, Translation};
pub use self::live::{LiveLoader, LiveTable};

/// Maximum depth of a rule.
pub const DEPTH_MAX: usize = 32;
/// Entry ids are below this.
pub const ENTRIES_MAX: u32 = word::ENTRIES_MAX;
/// How many changes ahead names are hashed and memory is prefetched.
const AHEAD: usize = 16;

/// Number of a node of the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeId(u32);

/// How to build a table.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum number of rules.
    pub rules_max: usize,
    /// Pages of the query half.
    pub pages: Pages,
    /// The share of its room that a [`BulkLoader`] fills, in percent; 1 to 99. With more, loading
    /// takes longer and more probes read a second line.
    pub fill_percent: u32,
    /// Readers compare whole names, which excludes wrong matches and costs two cache lines and the
    /// name for each lookup. Not for a [`BulkLoader`], which keeps no names.
    pub exact: bool,
    /// Number of fingerprint bits that are compared, 1 to 41. With fewer, wrong matches become
    /// likely.
    #[cfg(feature = "lab")]
    pub fingerprint_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rules_max: 1 << 31,
            pages: Pages::default(),
            fill_percent: 94,
            exact: false,
            #[cfg(feature = "lab")]
            fingerprint_bits: word::FINGERPRINT_BITS,
        }
    }
}

impl Options {
    /// The bits of a word that readers compare.
    fn fingerprint_mask(&self) -> u64 {
        #[cfg(feature = "lab")]
        let bits = self.fingerprint_bits;
        #[cfg(not(feature = "lab"))]
        let bits = word::FINGERPRINT_BITS;
        word::fingerprint_mask(bits)
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
    /// Readers compare names, so entries may look alike.
    exact: bool,
    /// An entry was written that looks like another.
    collided: bool,
    trie: Trie,
    table: Table,
    shared: Arc<Shared>,
    /// Scratch space for hashing names from the trie.
    scratch: Box<PrefixHashes>,
    /// Scratch space for hashing the names of changes.
    ahead: Vec<PrefixHashes>,
}

impl Compact {
    /// An empty table for names hashed with `key`.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    ///
    /// # Panics
    /// If the fingerprints do not have 1 to 41 bits, with the feature `lab`.
    pub fn new(key: NameHashKey, options: &Options) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared::new(options.fingerprint_mask(), STRIPES, Levels::new()));
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

    /// The entry of exactly this rule.
    pub fn entry_of(&self, name: NameRef<'_>) -> Option<EntryId> {
        if name.len() > DEPTH_MAX {
            return None;
        }
        let mut hashes = PrefixHashes::default();
        match self.trie.find(&NameView::new(&self.key, name, &mut hashes)) {
            Spot::At(node) => self.trie.rule(node),
            _ => None,
        }
    }

    /// All rules in no order: the TLV-VALUE of each name, and its entry.
    pub fn rules(&self) -> impl Iterator<Item = (&[u8], EntryId)> {
        self.trie.rules()
    }

    /// Refuses changes that no table could apply.
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

    /// Applies changes in order. If one fails, the earlier ones are undone.
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

    /// Prefetches what changes of these names will read. When a round over all names is done, the
    /// next addresses have arrived.
    fn prefetch<'a>(&self, views: impl Iterator<Item = NameView<'a>> + Clone) {
        views.clone().for_each(|view| self.trie.prefetch(&view));
        views.clone().for_each(|view| self.trie.prefetch_node(&view));
        for view in views.filter(|view| !view.is_empty()) {
            // If the first component is new, the handle will be here.
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
        // A rule may add a branch above it.
        self.table.reserve(2 * sets, self.trie.ids() + 2 * sets, |node| self.trie.key(node).hash)?;
        self.change_all(changes)?;
        let replaced = self.table.finish(|node| self.trie.key(node).hash)?;
        Ok(if replaced { Update::Replace(self.query()) } else { Update::Patched })
    }

    fn expect(&mut self, rules: usize) -> Result<(), BuildError> {
        let rules = rules.min(self.rules_max.saturating_sub(self.rules));
        // `reserve` doubles this number, because parts fill unevenly. A quarter more than the fair share is enough here.
        Ok(self.table.reserve(rules / 8 * 5, self.trie.ids() + rules, |node| self.trie.key(node).hash)?)
    }

    fn reclaim(&mut self) {
        // Entries carry their identity, and no memory that readers hold is used again.
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
