//! Longest name prefix match by binary search over prefix lengths.
//!
//! Implements [Yuan §3]. There is a hash table for each prefix length (`level`). A lookup probes
//! them in the order of a binary search tree (`search`), at most ⌈log2(k+1)⌉ for rules of up to k
//! components. A rule leaves a *marker* in each table that its own search passes, because the
//! search would otherwise turn the wrong way there. A marker stores the match that its prefix
//! inherits, so a lookup never backtracks. A *leaf* bit ends the search at a rule that is no other
//! rule's marker. Tables hold 20-bit fingerprints and lead to name entries (`name_store`), which a
//! rule and its markers share. Answers are exact: the lookup compares the names' bytes, at each
//! match or at the end ([`Strategy`]).
//!
//! Differs:
//! - 32-bit places of 16 bytes replace the paper's 44-bit pointers.
//! - For k other than 2^n - 1, the tree is that of the next such k without the missing lengths. It
//!   is as deep, and no marker moves when the first deeper rule arrives. Lengths without a table
//!   are not probed.
//! - Tables grow. A table that is full or out of overflow buckets is rebuilt at twice its size. The
//!   old table sends its readers on, so that they see later changes.
//! - Rules change while readers look up. Markers count the rules that need them. A trie of names on
//!   the control side (`rule_trie`) finds the rules below a prefix. A lookup that overlaps at most
//!   one change gives the answer from before or after it. A lookup that overlaps more is repeated.
//!   The eighth try stands, which takes a writer that never pauses for the length of a lookup.
//! - [`Prefetch::Burst`] is not in the paper: the searches of a burst run side by side.
//! - `/` may be a rule. No marker inherits it, so it changes in one write.
//!
//! Limits: entry ids below 2^24, names of up to 8,800 bytes, and 64 GiB of names.
//!
//! Cost, in bytes a rule. The query half takes 17.6 for each table in which the rule has a slot
//! that no other rule shares (three for seven random components). It also takes an entry of 8
//! bytes, 8 for each such slot, and the name, rounded up to 16. The control side takes 12. With
//! seven components of 6 to 10 bytes that is 164 and 12. A rule that is added, changed or removed
//! visits those below it that no other rule covers.

mod changes;
mod level;
mod name_store;
mod rule_trie;
mod search;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use byname_wire::name_hash::DEPTHS;
use byname_wire::{Name, NameHashKey, NameView, PACKET_BYTES_MAX, PrefixHashes};

use self::level::FINGERPRINT_BITS;
use self::name_store::Writer;
use self::rule_trie::RuleTrie;
use self::table::Table;
use super::PrefixFib;
use super::level_pulling::Pulling;
use crate::entry::EntryId;
use crate::memory::{Lines, Pages};
use crate::update::{BuildError, Change, Control, Update};

pub(super) use self::name_store::EntryRef;
pub(super) use self::search::Hit;

/// Entry ids must be below this.
pub const ENTRIES_MAX: u32 = 1 << 24;
/// Number of changes whose hashes and buckets are prefetched together.
const GROUP: usize = 8;

/// When names are compared [Yuan §3.2.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// At each match of a fingerprint.
    Always,
    /// Once, when the fingerprints have led to an answer. If that is a false positive, the name is
    /// looked up again as with [`Strategy::Always`]. This needs hashes that strangers cannot
    /// predict, like all of byname's.
    #[default]
    AtEnd,
}

/// Cache lines to prefetch [Yuan §3.3.3].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefetch {
    /// None.
    None,
    /// For each name, the bucket that is read first.
    First,
    /// For each name, the buckets of all lengths, a few of which will be read.
    #[default]
    All,
    /// For all names of a burst, what each reads next, while the others continue. Not in the paper.
    Burst,
}

/// How to build a table.
#[derive(Debug, Clone)]
pub struct Options {
    /// When names are compared.
    pub strategy: Strategy,
    /// The cache lines to prefetch.
    pub prefetch: Prefetch,
    /// The pages of tables and names. When the table outgrows reserved pages, it takes
    /// [`Pages::Large`].
    pub pages: Pages,
    /// Maximum number of rules.
    pub rules_max: usize,
    /// The expected rules, by their number of components, so that the tables need not grow.
    pub expected: Vec<Expected>,
    /// Number of fingerprint bits that are compared, at most 20. Fewer collide more.
    #[cfg(feature = "lab")]
    pub fingerprint_bits: u32,
}

/// An expected number of rules with a number of components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Number of components of each rule.
    pub components: usize,
    /// Number of rules.
    pub rules: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            strategy: Strategy::default(),
            prefetch: Prefetch::default(),
            pages: Pages::default(),
            rules_max: 1 << 30,
            expected: Vec::new(),
            #[cfg(feature = "lab")]
            fingerprint_bits: FINGERPRINT_BITS,
        }
    }
}

impl Options {
    /// Number of fingerprint bits that are compared.
    fn fingerprint_bits(&self) -> u32 {
        #[cfg(feature = "lab")]
        {
            self.fingerprint_bits
        }
        #[cfg(not(feature = "lab"))]
        {
            FINGERPRINT_BITS
        }
    }
}

/// The control half: one writer.
pub struct BinarySearch {
    key: NameHashKey,
    options: Options,
    table: Arc<Table>,
    /// Indexed by length.
    uses: Box<[Use]>,
    names: Writer,
    trie: RuleTrie,
    rules: usize,
    pulling: Option<Pulling>,
    /// Hashes of the current changes. Kept, because they are large.
    hashes: Vec<PrefixHashes>,
}

/// How full the table of one length is.
#[derive(Clone, Copy, Default)]
struct Use {
    prefixes: usize,
    overflow_used: usize,
}

impl BinarySearch {
    /// An empty table for names hashed with `key`.
    ///
    /// # Errors
    /// If the kernel refuses pages for the expected rules.
    ///
    /// # Panics
    /// If a fingerprint has more than 20 bits, with the feature `lab`.
    pub fn new(key: NameHashKey, options: Options) -> io::Result<Self> {
        Self::with_pulling(key, options, None)
    }

    pub(super) fn with_pulling(key: NameHashKey, options: Options, pulling: Option<Pulling>) -> io::Result<Self> {
        assert!(options.fingerprint_bits() <= FINGERPRINT_BITS, "slots have room for 20 bits");
        let table = Table::new(&options, pulling.as_ref().map(Pulling::trie))?;
        let engine = BinarySearch {
            key,
            options,
            table: Arc::new(table),
            uses: vec![Use::default(); DEPTHS].into(),
            names: Writer::default(),
            trie: RuleTrie::default(),
            rules: 0,
            pulling,
            hashes: Vec::new(),
        };
        engine.make_expected_levels()?;
        Ok(engine)
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// Prefixes in all tables: rules and markers.
    pub fn prefixes(&self) -> usize {
        self.uses.iter().map(|level| level.prefixes).sum()
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let pulling = self.pulling.as_ref().map_or(0, Pulling::memory_bytes);
        size_of::<Self>() + self.table.memory_bytes() + self.names.memory_bytes() + self.trie.memory_bytes() + pulling
    }

    /// Number of tables that a lookup of `name` probes.
    pub fn hash_lookups(&self, name: &NameView<'_>) -> usize {
        self.table.count(name).lookups.get()
    }

    /// Number of prefixes below which searches begin.
    pub(super) fn starting_points(&self) -> usize {
        self.pulling.as_ref().map_or(0, Pulling::len)
    }

    /// Refuses a batch that cannot be applied as a whole.
    fn admit(&self, changes: &[Change<Name>]) -> Result<(), BuildError> {
        let (mut sets, mut bytes) = (0, 0);
        for change in changes {
            let (name, entry) = change.parts();
            let depth = name.as_ref().len();
            if depth >= DEPTHS {
                return Err(BuildError::TooDeep { depth });
            }
            if name.value().len() > PACKET_BYTES_MAX {
                return Err(BuildError::Memory { reason: format!("a name of {} bytes", name.value().len()) });
            }
            let Some(EntryId(entry)) = entry else { continue };
            if entry >= ENTRIES_MAX {
                return Err(BuildError::EntryOutOfRange { entry, entries_max: ENTRIES_MAX });
            }
            sets += 1;
            bytes += name.value().len();
        }
        if !self.names.has_room(sets, bytes) {
            return Err(BuildError::Memory { reason: "the store of names is full".to_owned() });
        }
        if self.rules + sets > self.options.rules_max { self.refuse_overfull(changes) } else { Ok(()) }
    }

    /// Counts exactly: a batch may add a rule twice, or remove rules to make room for others.
    fn refuse_overfull(&self, changes: &[Change<Name>]) -> Result<(), BuildError> {
        let (mut present, mut rules) = (HashMap::new(), self.rules);
        let mut hashes = PrefixHashes::default();
        for change in changes {
            let (name, entry) = change.parts();
            let there = present.entry(name).or_insert_with(|| {
                let view = NameView::new(&self.key, name.as_ref(), &mut hashes);
                self.entry_of(&view).is_some()
            });
            match (*there, entry) {
                (false, Some(_)) if rules == self.options.rules_max => {
                    return Err(BuildError::Full { rules: self.rules });
                }
                (false, Some(_)) => rules += 1,
                (true, None) => rules -= 1,
                _ => {}
            }
            *there = entry.is_some();
        }
        Ok(())
    }
}

impl Control<Name> for BinarySearch {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.table.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        self.admit(changes)?;
        let before = self.table.clone();
        let mut hashes = std::mem::take(&mut self.hashes);
        for group in changes.chunks(GROUP) {
            hashes.resize(group.len().max(hashes.len()), PrefixHashes::default());
            for (change, hashes) in group.iter().zip(&mut hashes) {
                self.prefetch(&NameView::new(&self.key, change.parts().0.as_ref(), hashes));
            }
            for (change, hashes) in group.iter().zip(&hashes) {
                let (name, entry) = change.parts();
                self.change(&NameView::from_filled(name.as_ref(), hashes), entry);
            }
        }
        self.hashes = hashes;
        Ok(if Arc::ptr_eq(&before, &self.table) { Update::Patched } else { Update::Replace(self.query()) })
    }

    fn reclaim(&mut self) {
        self.names.reclaim(&self.table.names);
    }
}

/// Lines on the requested pages, or on ordinary ones if reserved pages have run out.
///
/// # Panics
/// If the system is out of memory.
fn lines_somewhere(lines: usize, pages: Pages) -> Lines {
    Lines::zeroed(lines, pages).or_else(|_| Lines::zeroed(lines, Pages::Large)).expect("the system is out of memory")
}
