//! Longest prefix match by learned indexes: a model predicts where a key lies in a sorted array,
//! and a search around that position finds it.
//!
//! [Hasegawa, reference 17] learns the positions of IPv4 prefixes ([`ipv4`]). This engine does the
//! same for names, which is our step. The keys are the sorted keyed hashes of the names of rules of
//! all depths. A query goes from the longest prefix down, over the depths at which rules exist,
//! like the baseline of [So §2.3].
//!
//! Why hashes? Keys in the order of names would need one search and a chain of covering rules. But
//! names in their own order share prefixes of any length, so a key of few bytes tells nothing, and
//! whoever registers names chooses how badly. Keyed hashes are spread evenly whatever the names
//! are. Nobody without the key can make the model large or a search long. The model then only
//! learns the random deviation of uniform numbers from a straight line, which is little. The engine
//! shows what learned indexes cost for names; it does not beat a hash table.
//!
//! **Tiers.** Runs never change. A change makes a new smallest run. A run that has outgrown its
//! share is merged into the next of three, each about as many times as large as the one before.
//! Readers get all runs at once, so no lookup sees a part of a batch.
//!
//! **Odds of a wrong match.** All 128 bits of the keyed digest are compared. A name that no rule
//! covers is mistaken for one of n rules with probability n / 2^128 a probe. Two rules that share
//! the first 64 bits are refused ([`BuildError::Collision`]). Among a million rules, the
//! probability of that is 2^-25.
//!
//! Differs: see [`ipv4`] and the module `model` for the replacement of the paper's neural network.
//!
//! Cost: 24 bytes a rule and 0.1 for the model. A probe searches three runs, two of them small. In
//! the large run it reads the model, which stays in caches, and one or two lines of hashes. A
//! change copies the smallest run and causes its share of the two larger merges. Each merge moves,
//! for one change, as many records as the square root of a 256th of the rules: 250 for 16 million.
//! A merge of all rules pauses the writer, never a reader, and takes their memory twice.

pub mod ipv4;
mod model;
mod run;

use std::sync::Arc;

use byname_wire::name_hash::{DEPTHS, DepthSet, Digest, digest_name};
use byname_wire::{Name, NameHashKey, NameView};

use self::model::Window;
use self::run::{Record, Run};
use super::depth_set::SharedDepthSet;
use super::{BURST_MAX, PrefixFib, PrefixMatch};
use crate::count::{Count, Counts};
use crate::entry::EntryId;
use crate::update::{BuildError, Change, Control, Update};

/// Number of records in the smallest run before it is merged.
const RECENT_MAX: usize = 256;

/// The query half.
struct Table {
    /// Each run holds what changed since the next one. A rule found in one run is not looked up in
    /// the next.
    recent: Arc<Run>,
    middle: Arc<Run>,
    old: Arc<Run>,
    depths: DepthSet,
}

/// The state of one name's search.
#[derive(Clone, Copy, Default)]
struct Search {
    /// The depth to probe next.
    depth: usize,
    /// The window of the oldest run that will be searched.
    old: Window,
}

impl Table {
    /// The rule with this hash.
    #[inline]
    fn find(&self, hash: u64, count: &mut impl Count) -> Option<(u64, EntryId)> {
        let record = self.find_newer(hash, count).or_else(|| self.old.find(hash, count))?;
        record.entry.map(|entry| (record.digest.check, entry))
    }

    #[inline]
    fn find_newer(&self, hash: u64, count: &mut impl Count) -> Option<Record> {
        self.recent.find(hash, count).or_else(|| self.middle.find(hash, count))
    }

    #[inline]
    fn probe_down(&self, name: &NameView<'_>, count: &mut impl Count) -> Option<PrefixMatch> {
        self.depths.down_from(name.len()).find_map(|depth| {
            count.probe();
            let Digest { hash, check } = name.digest(depth);
            let (_, entry) = self.find(hash, count).filter(|&(other, _)| other == check)?;
            Some(PrefixMatch { entry, depth })
        })
    }

    /// Aims the walk at the deepest depth with rules up to `depth_max`, and prefetches its lines.
    #[inline]
    fn aim(&self, name: &NameView<'_>, depth_max: usize) -> Option<Search> {
        let depth = self.depths.down_from(depth_max).next()?;
        Some(Search { depth, old: self.old.aim(name.hash(depth)) })
    }

    /// Probes the position that was aimed at.
    #[inline]
    fn probe(&self, name: &NameView<'_>, search: &Search) -> Option<PrefixMatch> {
        let Digest { hash, check } = name.digest(search.depth);
        let newer = self.find_newer(hash, &mut ());
        let record = newer.or_else(|| self.old.find_in(&search.old, hash, &mut ()))?;
        let entry = record.entry.filter(|_| record.digest.check == check)?;
        Some(PrefixMatch { entry, depth: search.depth })
    }
}

impl PrefixFib for Table {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        self.probe_down(name, &mut ())
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        assert!(names.len() <= BURST_MAX);
        out.fill(None);
        let mut searches = [Search::default(); BURST_MAX];
        let mut active = [0u8; BURST_MAX];
        let mut left = 0;
        for (i, name) in names.iter().enumerate() {
            if let Some(search) = self.aim(name, name.len()) {
                (searches[i], active[left]) = (search, i as u8);
                left += 1;
            }
        }
        // One depth of each name at a time: while one name's lines are fetched, the others' are
        // searched.
        while left > 0 {
            let mut kept = 0;
            for at in 0..left {
                let i = usize::from(active[at]);
                out[i] = self.probe(&names[i], &searches[i]);
                let shallower = if out[i].is_none() { searches[i].depth.checked_sub(1) } else { None };
                if let Some(search) = shallower.and_then(|depth| self.aim(&names[i], depth)) {
                    (searches[i], active[kept]) = (search, i as u8);
                    kept += 1;
                }
            }
            left = kept;
        }
    }

    fn depth_max(&self) -> usize {
        self.depths.deepest()
    }

    fn lines_read(&self, name: &NameView<'_>) -> Option<usize> {
        let mut counts = Counts::default();
        self.probe_down(name, &mut counts);
        Some(counts.lines)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.recent.memory_bytes() + self.middle.memory_bytes() + self.old.memory_bytes()
    }
}

/// The control half: one writer.
pub struct Learned {
    key: NameHashKey,
    rules_max: usize,
    rules: usize,
    depth_rules: [u32; DEPTHS],
    table: Arc<Table>,
}

/// A change with its hash.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    record: Record,
    depth: usize,
}

/// A batch that was checked against the table.
struct Admitted {
    /// Ascending by hash, and only records that change something.
    records: Vec<Record>,
    rules: usize,
    depth_rules: [u32; DEPTHS],
}

impl Learned {
    /// An empty table for at most `rules_max` rules, for names hashed with `key`. It takes every
    /// entry id, and rules of up to 128 components.
    ///
    /// # Panics
    /// If `rules_max` is above 2^31.
    pub fn new(key: NameHashKey, rules_max: usize) -> Self {
        assert!(rules_max <= 1 << 31, "positions are 32 bits");
        let empty = Arc::new(Run::empty());
        let table = Table { recent: empty.clone(), middle: empty.clone(), old: empty, depths: DepthSet::EMPTY };
        Learned { key, rules_max, rules: 0, depth_rules: [0; DEPTHS], table: Arc::new(table) }
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
        size_of::<Self>() + self.table.memory_bytes()
    }

    fn prepare(&self, change: &Change<Name>) -> Result<Prepared, BuildError> {
        let (name, entry) = match change {
            Change::Set(name, entry) => (name.as_ref(), Some(*entry)),
            Change::Remove(name) => (name.as_ref(), None),
        };
        let depth = name.len();
        if depth >= DEPTHS {
            return Err(BuildError::TooDeep { depth });
        }
        Ok(Prepared { record: Record { digest: digest_name(&self.key, name), entry }, depth })
    }

    /// Refuses a batch that cannot be applied as a whole, and leaves out changes without effect.
    fn admit(&self, prepared: &[Prepared]) -> Result<Admitted, BuildError> {
        let mut admitted =
            Admitted { records: Vec::with_capacity(prepared.len()), rules: self.rules, depth_rules: self.depth_rules };
        for same_hash in prepared.chunk_by(|a, b| a.record.digest.hash == b.record.digest.hash) {
            let Digest { hash, .. } = same_hash[0].record.digest;
            let there = self.table.find(hash, &mut ());
            let mut taken_by = there.map(|(check, _)| check);
            let last_words = same_hash.chunk_by(|a, b| a.record.digest == b.record.digest).filter_map(<[_]>::last);
            for &Prepared { record, depth } in last_words {
                let is_there = there.is_some_and(|(check, _)| check == record.digest.check);
                match record.entry {
                    Some(_) if *taken_by.get_or_insert(record.digest.check) != record.digest.check => {
                        return Err(BuildError::Collision);
                    }
                    Some(_) if !is_there => {
                        admitted.rules += 1;
                        admitted.depth_rules[depth] += 1;
                    }
                    Some(entry) if there.is_some_and(|(_, old)| old == entry) => continue,
                    Some(_) => {}
                    None if is_there => {
                        admitted.rules -= 1;
                        admitted.depth_rules[depth] -= 1;
                    }
                    None => continue,
                }
                admitted.records.push(record);
            }
        }
        if admitted.rules > self.rules_max {
            return Err(BuildError::Full { rules: self.rules });
        }
        Ok(admitted)
    }

    /// The table with these records added.
    fn table_with(&self, records: Vec<Record>, depths: DepthSet) -> Table {
        let Table { recent, middle, old, .. } = &*self.table;
        let recent = Run::merged(recent, records.into_iter(), true);
        if recent.len() <= RECENT_MAX {
            return Table { recent: Arc::new(recent), middle: middle.clone(), old: old.clone(), depths };
        }
        let empty = Arc::new(Run::empty());
        let middle = Run::merged(middle, recent.records(), true);
        // The geometric mean: both merges then move the same number of records for each change.
        if middle.len() <= (old.len() * RECENT_MAX).isqrt().max(RECENT_MAX * RECENT_MAX.isqrt()) {
            return Table { recent: empty, middle: Arc::new(middle), old: old.clone(), depths };
        }
        let old = Arc::new(Run::merged(old, middle.records(), false));
        Table { recent: empty.clone(), middle: empty, old, depths }
    }
}

impl Control<Name> for Learned {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.table.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let mut prepared = changes.iter().map(|change| self.prepare(change)).collect::<Result<Vec<_>, _>>()?;
        // The sort is stable: of several changes of one rule, the last counts.
        prepared.sort_by_key(|change| change.record.digest);
        let Admitted { records, rules, depth_rules } = self.admit(&prepared)?;
        if records.is_empty() {
            return Ok(Update::Patched);
        }
        let depths = SharedDepthSet::new(DepthSet::EMPTY);
        (0..DEPTHS).filter(|&depth| depth_rules[depth] > 0).for_each(|depth| depths.insert(depth));
        self.table = Arc::new(self.table_with(records, depths.load()));
        (self.rules, self.depth_rules) = (rules, depth_rules);
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {
        // A run is freed with the last reader that has it.
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
