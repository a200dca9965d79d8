//! The control half that engines on a [`RuleTable`] share: digests, admission, growth, and reuse of
//! places.
//!
//! Either the table doubles as rules come, limited by [So §4.2]'s load factor, or it has all its
//! buckets from the start. Readers of an old table keep seeing it as it was when it was replaced:
//! rules that both tables share do not change until they are reclaimed.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use byname_wire::name_hash::{DEPTHS, DepthSet, digest_name};
use byname_wire::{Name, NameHashKey, NameRef};

use super::PrefixFib;
use super::rule_array::{CHUNK, Rule, RuleArray, RuleKey};
use super::rule_table::{Prefetch, RuleTable};
use crate::bucket::{BucketArray, OverflowExhausted, Shape};
use crate::entry::EntryId;
use crate::memory::Pages;
use crate::update::{BuildError, Change, Update};

/// Number of buckets of an empty table.
const BUCKETS_MIN: usize = if cfg!(loom) { 1 } else { 16 };
/// How many digests ahead buckets are prefetched.
const PREFETCH_AHEAD: usize = 8;

/// The options of the engines of [So §2.2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Maximum number of rules.
    pub rules_max: usize,
    /// Maximum mean number of rules a bucket: 1 to 64. [So §4.2] finds 4 best. Above 4, many rules
    /// lie in overflow buckets, and most probes read several lines.
    pub load_factor: usize,
    /// Makes the buckets for `rules_max` rules at the start, so that a full table has exactly
    /// `load_factor` rules a bucket. Otherwise the table doubles, and has between half the load
    /// factor and all of it.
    pub preallocate: bool,
    /// The buckets to prefetch.
    #[cfg(feature = "lab")]
    pub prefetch: Prefetch,
    /// Pages for the buckets.
    pub pages: Pages,
    /// Probes each depth that the paper's algorithm probes, including depths without rules.
    #[cfg(feature = "lab")]
    pub probe_empty_depths: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rules_max: 1 << 20,
            load_factor: 4,
            preallocate: false,
            #[cfg(feature = "lab")]
            prefetch: Prefetch::default(),
            pages: Pages::default(),
            #[cfg(feature = "lab")]
            probe_empty_depths: false,
        }
    }
}

impl Options {
    fn prefetch(&self) -> Prefetch {
        #[cfg(feature = "lab")]
        {
            self.prefetch
        }
        #[cfg(not(feature = "lab"))]
        {
            Prefetch::default()
        }
    }

    fn probes_empty_depths(&self) -> bool {
        #[cfg(feature = "lab")]
        {
            self.probe_empty_depths
        }
        #[cfg(not(feature = "lab"))]
        {
            false
        }
    }
}

/// The memory of a table in bytes, by the rows of [So, Table 4].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableMemory {
    /// Buckets that hashes choose.
    pub buckets: usize,
    /// Overflow ("dynamic") buckets in use.
    pub overflow: usize,
    /// The rules that slots point to.
    pub entries: usize,
    /// Names that the control half keeps.
    pub names: usize,
}

/// A change of one rule, hashed.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) key: RuleKey,
    /// The virtual rule above the rule, which is stored too.
    pub(crate) above: Option<RuleKey>,
    /// `None` if the rule is removed.
    pub(crate) entry: Option<EntryId>,
}

/// The one writer of a [`RuleTable`].
pub(crate) struct RuleWriter {
    key: NameHashKey,
    options: Options,
    pub(crate) table: Arc<RuleTable>,
    /// Number of rules in the table, and how many of them are virtual.
    stored: usize,
    virtuals: usize,
    depth_rules: [u32; DEPTHS],
    overflow_used: usize,
    /// By index: the half of each rule's digest that the query half stores only in part.
    checks: Vec<Box<[u64]>>,
    /// Indices that no reader can hold.
    free: Vec<u32>,
    /// Indices that were removed since the last reclaim.
    retired: Vec<u32>,
    /// Indices from here on were never used.
    unused_from: u32,
    /// The current batch has made a new table.
    replaced: bool,
}

impl RuleWriter {
    /// An empty table with room for `room` rules, including those that are removed but not
    /// reclaimed.
    pub(crate) fn new(key: NameHashKey, options: Options, room: usize, start_depth: usize) -> io::Result<Self> {
        assert!(room < 1 << 32, "indices are 32 bits");
        assert!((1..=64).contains(&options.load_factor), "a load factor is 1 to 64");
        let primary = if options.preallocate { options.rules_max.div_ceil(options.load_factor) } else { 0 };
        let shape = Shape::for_load(primary.max(BUCKETS_MIN), options.load_factor);
        let buckets = BucketArray::new(shape, options.pages)?;
        let depths = if options.probes_empty_depths() { DepthSet::all_but_root() } else { DepthSet::EMPTY };
        let rules = Arc::new(RuleArray::new(room));
        Ok(RuleWriter {
            key,
            options,
            table: Arc::new(RuleTable::new(buckets, rules, depths, start_depth, options.prefetch())),
            stored: 0,
            virtuals: 0,
            depth_rules: [0; DEPTHS],
            overflow_used: 0,
            checks: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            unused_from: 0,
            replaced: false,
        })
    }

    /// Number of rules without virtual ones.
    pub(crate) fn rules(&self) -> usize {
        self.stored - self.virtuals
    }

    pub(crate) fn virtuals(&self) -> usize {
        self.virtuals
    }

    pub(crate) fn memory(&self) -> TableMemory {
        let line = 64;
        TableMemory {
            buckets: self.table.buckets.shape().primary * line,
            overflow: self.overflow_used * line,
            entries: self.table.rules.memory_bytes(),
            names: 0,
        }
    }

    /// Memory of both halves, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let checks = self.checks.iter().map(|chunk| size_of_val(&**chunk)).sum::<usize>();
        let vectors = self.checks.capacity() * size_of::<Box<[u64]>>()
            + (self.free.capacity() + self.retired.capacity()) * size_of::<u32>();
        size_of::<Self>() + checks + vectors + self.table.memory_bytes()
    }

    /// The key of a rule for `name`.
    pub(crate) fn key_of(&self, name: NameRef<'_>) -> Result<RuleKey, BuildError> {
        let depth = name.len();
        if depth >= DEPTHS {
            return Err(BuildError::TooDeep { depth });
        }
        let digest = digest_name(&self.key, name);
        Ok(RuleKey { hash: digest.hash, depth, check: digest.check })
    }

    /// The index and the rule of exactly this key.
    pub(crate) fn find(&self, key: &RuleKey) -> Option<(u32, Rule)> {
        self.table.find(key, &mut ()).filter(|&(index, _)| self.check(index) == key.check)
    }

    /// Hashes a change.
    pub(crate) fn prepare(&self, change: &Change<Name>) -> Result<Prepared, BuildError> {
        let (name, entry) = change.parts();
        Ok(Prepared { key: self.key_of(name.as_ref())?, above: None, entry })
    }

    /// Prefetches the buckets that a change some steps later will need.
    pub(crate) fn prefetch(&self, changes: &[Prepared], at: usize) {
        if let Some(later) = changes.get(at + PREFETCH_AHEAD) {
            self.table.buckets.prefetch(later.key.hash);
        }
    }

    /// Begins a batch that has not made a new table yet.
    pub(crate) fn begin_batch(&mut self) {
        self.replaced = false;
    }

    /// Refuses a batch that cannot be applied as a whole; otherwise makes sure that it can be.
    /// `places` is the number of indices that it may need in addition to one for each rule and
    /// virtual rule that it stores.
    pub(crate) fn admit(&mut self, changes: &[Prepared], places: usize) -> Result<(), BuildError> {
        self.begin_batch();
        let sets = || changes.iter().filter(|change| change.entry.is_some());
        let mut stores: Vec<_> = sets().flat_map(|change| [Some(change.key), change.above]).flatten().collect();
        let places = places + stores.len();
        stores.sort_unstable();
        stores.dedup();
        let fresh = self.fresh(&stores)?;
        // No more rules are added than are newly stored or stop being virtual.
        if self.rules() + sets().count() > self.options.rules_max {
            self.refuse_overfull(changes)?;
        }
        self.refuse_without_room(places)?;
        self.grow_for(fresh)
    }

    /// Refuses to store what the query half could not tell apart. Returns how many of `stores`,
    /// which are sorted and distinct, are not stored yet.
    pub(crate) fn fresh(&self, stores: &[RuleKey]) -> Result<usize, BuildError> {
        if stores.windows(2).any(|pair| pair[0].looks_like(&pair[1])) {
            return Err(BuildError::Collision);
        }
        let mut fresh = 0;
        for (i, key) in stores.iter().enumerate() {
            if let Some(later) = stores.get(i + PREFETCH_AHEAD) {
                self.table.buckets.prefetch(later.hash);
            }
            match self.table.find(key, &mut ()) {
                Some((index, _)) if self.check(index) != key.check => return Err(BuildError::Collision),
                Some(_) => {}
                None => fresh += 1,
            }
        }
        Ok(fresh)
    }

    pub(crate) fn refuse_without_room(&self, places: usize) -> Result<(), BuildError> {
        let room = self.free.len() + self.table.rules.capacity() - self.unused_from as usize;
        if places > room { Err(BuildError::Full { rules: self.rules() }) } else { Ok(()) }
    }

    /// Counts exactly: a batch may add a rule twice, or remove rules to make room for others.
    fn refuse_overfull(&self, changes: &[Prepared]) -> Result<(), BuildError> {
        let mut present = HashMap::new();
        let mut rules = self.rules();
        for change in changes {
            let there = present
                .entry(change.key)
                .or_insert_with(|| self.find(&change.key).is_some_and(|(_, rule)| rule.entry.is_some()));
            match (*there, change.entry) {
                (false, Some(_)) if rules == self.options.rules_max => {
                    return Err(BuildError::Full { rules: self.rules() });
                }
                (false, Some(_)) => rules += 1,
                (true, None) => rules -= 1,
                _ => {}
            }
            *there = change.entry.is_some();
        }
        Ok(())
    }

    /// Makes the buckets for `fresh` more rules.
    pub(crate) fn grow_for(&mut self, fresh: usize) -> Result<(), BuildError> {
        let needed = (self.stored + fresh).div_ceil(self.options.load_factor);
        let mut primary = self.table.buckets.shape().primary;
        // A preallocated table keeps its buckets, however many virtual rules are added.
        if needed > primary && !self.options.preallocate {
            while primary < needed {
                primary *= 2;
            }
            self.rebuild(Shape::for_load(primary, self.options.load_factor), self.options.pages)?;
        }
        Ok(())
    }

    /// The effect of the batch on the query half.
    pub(crate) fn update(&self) -> Update<dyn PrefixFib> {
        if self.replaced { Update::Replace(self.table.clone()) } else { Update::Patched }
    }

    /// Stores a rule that is not there. Returns its index.
    pub(crate) fn insert(&mut self, key: &RuleKey, rule: Rule) -> u32 {
        let index = self.write(key, rule);
        while let Err(OverflowExhausted) = self.table.buckets.insert(key.hash, index, &mut self.overflow_used) {
            // Rare, so any pages will do, as for any other allocation.
            let shape = self.table.buckets.shape();
            let larger = Shape { overflow: shape.overflow * 2, ..shape };
            self.rebuild(larger, Pages::Large).expect("memory for a table as large as this one");
        }
        self.stored += 1;
        self.virtuals += usize::from(rule.entry.is_none());
        self.depth_rules[key.depth] += 1;
        if self.depth_rules[key.depth] == 1 {
            self.table.depths.insert(key.depth);
        }
        index
    }

    /// Replaces the rule `old`, which has the same key. Returns the new index.
    pub(crate) fn replace(&mut self, key: &RuleKey, old: (u32, Rule), rule: Rule) -> u32 {
        let index = self.write(key, rule);
        self.table.buckets.replace(key.hash, old.0, index);
        self.retired.push(old.0);
        self.virtuals += usize::from(rule.entry.is_none());
        self.virtuals -= usize::from(old.1.entry.is_none());
        index
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, key: &RuleKey, old: (u32, Rule)) {
        self.table.buckets.remove(key.hash, old.0);
        self.retired.push(old.0);
        self.stored -= 1;
        self.virtuals -= usize::from(old.1.entry.is_none());
        self.depth_rules[key.depth] -= 1;
        let probed_empty = self.options.probes_empty_depths() && key.depth > 0;
        if self.depth_rules[key.depth] == 0 && !probed_empty {
            self.table.depths.remove(key.depth);
        }
    }

    /// Makes places of rules that were taken out free: no reader holds them.
    pub(crate) fn reclaim(&mut self) {
        self.free.append(&mut self.retired);
        // A withdrawal of millions must not keep its list for ever.
        self.retired.shrink_to(CHUNK);
    }

    fn check(&self, index: u32) -> u64 {
        self.checks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Writes a rule at an index that no slot holds.
    fn write(&mut self, key: &RuleKey, rule: Rule) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.unused_from += 1;
            self.unused_from - 1
        });
        let chunk = index as usize / CHUNK;
        if self.checks.len() == chunk {
            self.checks.push(vec![0; CHUNK].into());
        }
        self.checks[chunk][index as usize % CHUNK] = key.check;
        self.table.rules.write(index, key, rule);
        index
    }

    /// Puts all rules into a new bucket array. Readers of the old one see it as it is now.
    fn rebuild(&mut self, mut shape: Shape, pages: Pages) -> io::Result<()> {
        'larger: loop {
            let buckets = BucketArray::new(shape, pages)?;
            let mut overflow_used = 0;
            for index in self.table.buckets.indices() {
                let hash = self.table.rules.hash(index).expect("a stored index leads to a written rule");
                if buckets.insert(hash, index, &mut overflow_used).is_err() {
                    shape.overflow *= 2;
                    continue 'larger;
                }
            }
            self.overflow_used = overflow_used;
            self.table = Arc::new(self.table.over(buckets));
            self.replaced = true;
            return Ok(());
        }
    }
}
