//! How rules are added, changed and removed.
//!
//! Each single write moves every lookup from the answer before the change to the answer after it. A
//! rule is found only through all of its markers, and a marker that leads nowhere gives the answer
//! that the search would have found without it.

use std::io;
use std::sync::Arc;

use byname_wire::name_hash::{DEPTHS, hash_name};
use byname_wire::{NameRef, NameView, PrefixHashes};

use super::level::Level;
use super::name_store::{EntryRef, Forwarding, SHARED_MAX};
use super::rule_trie::Parting;
use super::search::{Hit, leading_sums};
use super::table::Table;
use super::{BinarySearch, Use};
use crate::entry::EntryId;
use crate::prefix::PrefixMatch;
use crate::prefix::level_pulling::Pulled;

/// Number of buckets of a table that are rebuilt together, so that their name entries are fetched
/// together.
const REBUILD_GROUP: usize = 8;

/// A set of lengths from 1 to 128.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lengths(u128);

impl Lengths {
    fn shorter_than(length: usize) -> Self {
        Lengths((1 << (length - 1)) - 1)
    }
    fn with(self, length: usize) -> Self {
        Lengths(self.0 | 1 << (length - 1))
    }
    fn has(self, length: usize) -> bool {
        self.0 >> (length - 1) & 1 == 1
    }
    fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let length = (left != 0).then(|| left.trailing_zeros() as usize + 1)?;
            left &= left - 1;
            Some(length)
        })
    }
}

impl BinarySearch {
    /// Prefetches the buckets of a change.
    pub(super) fn prefetch(&self, name: &NameView<'_>) {
        for depth in leading_sums(name.len()) {
            if let Some(level) = self.table.level(depth) {
                level.prefetch(name.hash(depth));
            }
        }
    }

    /// The entry of the rule `name`, if there is one.
    pub(super) fn entry_of(&self, name: &NameView<'_>) -> Option<EntryId> {
        let depth = name.len();
        let covered_by = match depth {
            0 => self.table.shared.root(),
            _ => {
                let slot = self.table.find(name, depth)?;
                self.table.names.entry(slot.entry()).forwarding(depth).covered_by
            }
        };
        covered_by.filter(|found| found.depth == depth).map(|found| found.entry)
    }

    /// Applies one change.
    pub(super) fn change(&mut self, name: &NameView<'_>, entry: Option<EntryId>) {
        let old = self.entry_of(name);
        if old == entry {
            return;
        }
        self.rules += usize::from(old.is_none());
        self.rules -= usize::from(entry.is_none());
        self.table.shared.count_change();
        let parting = match (old, entry) {
            _ if name.is_empty() => {
                self.table.shared.set_root(entry);
                None
            }
            (None, Some(entry)) => Some((self.insert(name, entry), true)),
            (Some(_), Some(entry)) => {
                self.replace(name, entry);
                None
            }
            (_, None) => Some((self.remove(name), false)),
        };
        self.table.shared.count_change();
        if let Some((parting, came)) = parting
            && self.pulling.is_some()
        {
            self.count_child(name, parting, came);
        }
    }

    fn insert(&mut self, name: &NameView<'_>, entry: EntryId) -> Parting {
        let depth = name.len();
        let rule = PrefixMatch { entry, depth };
        // The markers and the rule itself that no other rule has already.
        let mut own = [(0, Forwarding { covered_by: None, rules_below: 0 }); SHARED_MAX];
        let mut count = 0;
        for length in leading_sums(depth) {
            match self.table.find(name, length) {
                Some(slot) if length == depth => {
                    self.update(Hit { entry: slot.entry(), depth }, |marker| marker.covered_by = Some(rule));
                }
                Some(_) => self.hold_marker(name, length),
                None => {
                    own[count] = (length, self.fresh(name, length, rule));
                    count += 1;
                }
            }
        }
        let at = self.names.add(&self.table.names, name.name(), depth, &own[..count]);
        for (length, _) in own[..count].iter().rev() {
            self.place(name.hash(*length), *length, at, *length == depth);
        }
        for length in self.pulled_lengths(name).iter() {
            if !leading_sums(depth).any(|sum| sum == length) {
                self.hold_marker(name, length);
            }
        }
        let parting = self.trie.insert(&self.table.names, name.name().value(), at);
        self.names.set_rule(&self.table.names, at, true);
        self.pass_down(name, Some(rule));
        parting
    }

    /// The rule that a new marker of `rule`, or the rule itself, forwards to.
    fn fresh(&self, name: &NameView<'_>, length: usize, rule: PrefixMatch) -> Forwarding {
        if length == rule.depth {
            return Forwarding { covered_by: Some(rule), rules_below: 0 };
        }
        Forwarding { covered_by: self.table.match_up_to(name, length - 1), rules_below: 1 }
    }

    fn replace(&mut self, name: &NameView<'_>, entry: EntryId) {
        let depth = name.len();
        let rule = Some(PrefixMatch { entry, depth });
        let slot = self.table.find(name, depth).expect("a rule is in its table");
        self.update(Hit { entry: slot.entry(), depth }, |own| own.covered_by = rule);
        self.pass_down(name, rule);
    }

    fn remove(&mut self, name: &NameView<'_>) -> Parting {
        let depth = name.len();
        let covered_by = self.table.match_up_to(name, depth - 1);
        self.pass_down(name, covered_by);
        let slot = self.table.find(name, depth).expect("a rule is in its table");
        let own = Hit { entry: slot.entry(), depth };
        if self.table.names.entry(own.entry).forwarding(depth).rules_below == 0 {
            self.drop_marker(name.hash(depth), own);
        } else {
            self.update(own, |marker| marker.covered_by = covered_by);
        }
        for length in self.markers(name).iter() {
            self.release_marker(name, length);
        }
        let (at, parting) = self.trie.remove(name.name().value());
        self.names.set_rule(&self.table.names, at, false);
        parting
    }

    /// Gives the markers below a rule, down to the next rules, what they inherit now.
    fn pass_down(&mut self, name: &NameView<'_>, covered_by: Option<PrefixMatch>) {
        let depth = name.len();
        let mut below = self.trie.below(&self.table.names, name.name().value());
        let mut buffer = RuleBuffer::default();
        while let Some(rule) = below.next_uncovered(&self.trie) {
            let rule = buffer.read(self, rule);
            for length in self.markers(&rule).iter().filter(|&length| length > depth) {
                let slot = self.table.find(&rule, length).expect("a rule has its markers");
                self.update(Hit { entry: slot.entry(), depth: length }, |marker| {
                    if marker.covered_by.is_none_or(|above| above.depth <= depth) {
                        marker.covered_by = covered_by;
                    }
                });
            }
        }
    }

    /// The lengths at which the rule `name` has markers.
    fn markers(&self, name: &NameView<'_>) -> Lengths {
        let sums = leading_sums(name.len()).take_while(|&sum| sum < name.len());
        sums.fold(self.pulled_lengths(name), Lengths::with)
    }

    /// The lengths at which the rule `name` has markers because of popular prefixes above it: the
    /// prefix's own and the next.
    fn pulled_lengths(&self, name: &NameView<'_>) -> Lengths {
        let Some(pulling) = &self.pulling else { return Lengths(0) };
        let names = &self.table.names;
        let above = pulling.above(name, |hit| names.entry(hit.entry).starts_with(name.prefix(hit.depth).value(), &()));
        let lengths = above.fold(Lengths(0), |lengths, depth| lengths.with(depth).with(depth + 1));
        Lengths(lengths.0 & Lengths::shorter_than(name.len().max(1)).0)
    }

    /// One more rule has its marker at this length of `name`.
    fn hold_marker(&mut self, name: &NameView<'_>, length: usize) {
        let Some(slot) = self.table.find(name, length) else {
            let covered_by = self.table.match_up_to(name, length - 1);
            let marker = [(length, Forwarding { covered_by, rules_below: 1 })];
            let at = self.names.add(&self.table.names, name.prefix(length), length, &marker);
            return self.place(name.hash(length), length, at, false);
        };
        self.update(Hit { entry: slot.entry(), depth: length }, |marker| marker.rules_below += 1);
        if slot.is_leaf() {
            self.existing_level(length).set_leaf(name.hash(length), slot.entry(), false);
        }
    }

    /// One rule less has its marker at this length of `name`.
    fn release_marker(&mut self, name: &NameView<'_>, length: usize) {
        let slot = self.table.find(name, length).expect("a rule has its markers");
        let hit = Hit { entry: slot.entry(), depth: length };
        let left = self.update(hit, |marker| marker.rules_below -= 1);
        match left.covered_by {
            _ if left.rules_below > 0 => {}
            Some(rule) if rule.depth == length => {
                self.existing_level(length).set_leaf(name.hash(length), slot.entry(), true);
            }
            _ => self.drop_marker(name.hash(length), hit),
        }
    }

    fn update(&self, hit: Hit, change: impl FnOnce(&mut Forwarding)) -> Forwarding {
        let entry = self.table.names.entry(hit.entry);
        let mut forwarding = entry.forwarding(hit.depth);
        change(&mut forwarding);
        entry.set_forwarding(hit.depth, forwarding);
        forwarding
    }

    fn existing_level(&self, length: usize) -> &Level {
        self.table.level(length).expect("the table of a prefix that is there")
    }

    /// Puts a prefix into the table of its length.
    fn place(&mut self, hash: u64, length: usize, at: EntryRef, leaf: bool) {
        let options = &self.options;
        let capacity =
            self.table.level_or(length, || Level::somewhere(0, options.pages, options.fingerprint_bits())).capacity();
        let mut full = self.uses[length].prefixes >= capacity;
        while full || {
            let level = self.table.level(length).expect("made above");
            level.insert(hash, at, leaf, &mut self.uses[length].overflow_used).is_err()
        } {
            self.rebuild(length);
            full = false;
        }
        self.uses[length].prefixes += 1;
        if length > self.table.shared.deepest() {
            self.table.shared.set_deepest(length);
        }
    }

    /// Removes a prefix from the table of its length.
    fn drop_marker(&mut self, hash: u64, hit: Hit) {
        self.existing_level(hit.depth).remove(hash, hit.entry);
        self.names.drop_marker(&self.table.names, hit.entry, hit.depth);
        self.uses[hit.depth].prefixes -= 1;
        let deepest = self.table.shared.deepest();
        if hit.depth == deepest && self.uses[deepest].prefixes == 0 {
            let next = (0..deepest).rev().find(|&length| self.uses[length].prefixes > 0);
            self.table.shared.set_deepest(next.unwrap_or(0));
        }
    }

    /// Makes the tables for the expected rules.
    pub(super) fn make_expected_levels(&self) -> io::Result<()> {
        let mut prefixes = [0; DEPTHS];
        for expected in &self.options.expected {
            for length in leading_sums(expected.components.min(DEPTHS - 1)) {
                prefixes[length] += expected.rules;
            }
        }
        for (length, &prefixes) in prefixes.iter().enumerate().filter(|(_, prefixes)| **prefixes > 0) {
            let level = Level::new(prefixes, self.options.pages, self.options.fingerprint_bits())?;
            self.table.level_or(length, || level);
        }
        Ok(())
    }

    /// Moves the prefixes of one length to a table of twice the size, and sends readers there.
    fn rebuild(&mut self, length: usize) {
        let old = self.table.level(length).expect("the table of a prefix that is there").clone();
        let (mut name, mut slots) = (Vec::new(), Vec::new());
        let mut capacity = old.capacity();
        'larger: loop {
            capacity *= 2;
            let new = Level::somewhere(capacity, self.options.pages, self.options.fingerprint_bits());
            let mut overflow_used = 0;
            for first in (0..old.buckets_in_all()).step_by(REBUILD_GROUP) {
                slots.clear();
                slots.extend(old.slots_of(first..old.buckets_in_all().min(first + REBUILD_GROUP)));
                slots.iter().for_each(|slot| self.table.names.prefetch(slot.entry()));
                for slot in &slots {
                    self.table.names.entry(slot.entry()).copy_name(&mut name);
                    let hash = hash_name(&self.key, NameRef::new_checked_before(&name).prefix(length));
                    if new.insert(hash, slot.entry(), slot.is_leaf(), &mut overflow_used).is_err() {
                        continue 'larger;
                    }
                }
            }
            self.uses[length] = Use { overflow_used, ..self.uses[length] };
            let mut next = self.table.fork();
            next.set_level(length, new);
            return self.publish(next);
        }
    }

    fn publish(&mut self, next: Table) {
        let next = Arc::new(next);
        self.table.replace_by(next.clone());
        self.table = next;
    }

    /// After a rule was added or removed: counts the children of the prefix above the component in
    /// which the rule differs from all others. Makes that prefix a starting point, or ends that.
    fn count_child(&mut self, name: &NameView<'_>, parting: Parting, came: bool) {
        let Parting::Sibling { bytes } = parting else { return };
        let depth = (0..name.len()).rev().find(|&depth| name.prefix(depth).value().len() <= bytes);
        let Some(depth) = depth.filter(|&depth| depth > 0) else { return };
        let pulling = self.pulling.as_mut().expect("called where there is one");
        if came && pulling.child_came(name, depth) {
            self.pull(name, depth);
        } else if !came && pulling.child_went(name, depth) {
            self.unpull(name, depth);
        }
    }

    /// Makes the first `depth` components of `name` a starting point: every rule below it gets
    /// markers at this length and the next.
    fn pull(&mut self, name: &NameView<'_>, depth: usize) {
        self.table.shared.count_change();
        let mut below = self.trie.below(&self.table.names, name.prefix(depth).value());
        let mut buffer = RuleBuffer::default();
        while let Some(rule) = below.next(&self.trie) {
            let rule = buffer.read(self, rule);
            let markers = self.markers(&rule);
            for length in [depth, depth + 1] {
                if length < rule.len() && !markers.has(length) {
                    self.hold_marker(&rule, length);
                }
            }
        }
        let slot = self.table.find(name, depth).expect("the rules below have their markers there");
        let hashes = (1..=depth).map(|depth| name.hash(depth)).collect();
        self.change_start(|pulled| pulled.push(Pulled { hashes, hit: Hit { entry: slot.entry(), depth } }));
        self.table.shared.count_change();
    }

    /// Undoes [`BinarySearch::pull`].
    fn unpull(&mut self, name: &NameView<'_>, depth: usize) {
        self.table.shared.count_change();
        let slot = self.table.find(name, depth).expect("the rules below have their markers there");
        self.change_start(|pulled| {
            pulled.retain(|pulled| (pulled.hit.entry, pulled.hit.depth) != (slot.entry(), depth))
        });
        self.table.shared.count_change();
        // Counts as another change: a reader that began at this prefix and misses its markers looks
        // up again.
        self.table.shared.count_change();
        let mut below = self.trie.below(&self.table.names, name.prefix(depth).value());
        let mut buffer = RuleBuffer::default();
        while let Some(rule) = below.next(&self.trie) {
            let rule = buffer.read(self, rule);
            let markers = self.markers(&rule);
            for length in [depth, depth + 1] {
                if length < rule.len() && !markers.has(length) {
                    self.release_marker(&rule, length);
                }
            }
        }
        self.table.shared.count_change();
    }

    fn change_start(&mut self, change: impl FnOnce(&mut Vec<Pulled>)) {
        let pulling = self.pulling.as_mut().expect("called where there is one");
        pulling.change(change);
        let mut next = self.table.fork();
        next.start = Some(pulling.trie());
        self.publish(next);
    }
}

/// Room for the name of a visited rule, and for its hashes.
#[derive(Default)]
struct RuleBuffer {
    name: Vec<u8>,
    /// Large, so it is made for the first rule only.
    hashes: Option<Box<PrefixHashes>>,
}

impl RuleBuffer {
    fn read<'a>(&'a mut self, engine: &BinarySearch, rule: EntryRef) -> NameView<'a> {
        engine.table.names.entry(rule).copy_name(&mut self.name);
        let hashes = self.hashes.get_or_insert_default();
        NameView::new(&engine.key, NameRef::new_checked_before(&self.name), hashes)
    }
}
