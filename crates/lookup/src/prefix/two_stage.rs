//! Longest prefix match in two stages, starting at a depth that most rules do not exceed.
//!
//! Implements [So §2.3] on the table of [So §2.2]. A lookup starts at depth M. For each prefix of M
//! components with deeper rules, the table stores their maximum depth (MD). If no rule has exactly
//! these M components, a *virtual* rule, which no name matches, stores it. A name that finds
//! nothing at M has no deeper match. A name that finds something continues from MD, not from its
//! own last component (Algorithm 1, in `rule_table`).
//!
//! M changes while lookups run, as the paper outlines. The writer adds the virtual rules of the new
//! M, then publishes M. It removes those of the old M in [`Control::reclaim`], when no reader can
//! be on a walk that began with the old M.
//!
//! Differs:
//! - The root `/` may be a rule. Depths without rules are not probed.
//! - MD decreases only in [`Control::reclaim`]. Until then a too large MD costs probes, but changes
//!   no answer.
//! - M is chosen again after as many changes as there were rules at the last choice, but not before 64 changes. It
//!   moves in one pass over all rules. The amortized work for a change is constant, but that one call of
//!   [`Control::apply`] takes as long as hashing all rules. Readers do not notice.
//!
//! Limits: entry ids may have any 32 bits. The control half keeps the names of all rules, because
//! another M needs their prefixes.
//!
//! Cost: at most MD probes, where MD is the greatest of the table and at least M, and one more for
//! `/`. A hostile name of any length that matches nothing at M takes M probes and one. A probe
//! reads one cache line (overflow chains aside), and one more if the tag matches. Bytes: each rule
//! and each virtual rule costs what it costs in [`LongestFirst`](super::LongestFirst). The control
//! half adds the name, and about 70 bytes for each prefix of M components with deeper rules.

mod stage;
mod start;

use std::io;
use std::sync::Arc;

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::name_hash::DEPTHS;
use byname_wire::{Name, NameHashKey, NameView};

use self::stage::Stage;
use super::PrefixFib;
use super::longest_first;
use super::rule_array::{CHUNK, Rule, RuleKey};
use super::rule_writer::{Prepared, RuleWriter, TableMemory};
use crate::update::{BuildError, Change, Control, Update};

pub use self::start::{StartDepth, cumulative_threshold, most_likely};

/// Room for rules and the virtual rules of two start depths, twice: removed rules keep their places
/// until they are reclaimed.
const ROOM_FACTOR: usize = 8;
/// Minimum number of changes before M is chosen again.
const CHOICE_CHANGES_MIN: usize = 64;

/// Options of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Options of the table. They count rules without virtual ones.
    pub table: longest_first::Options,
    /// How M is chosen.
    pub start_depth: StartDepth,
}

/// The control half: one writer.
///
/// A reader must replace its query half (by that of [`Update::Replace`]) before the next
/// [`Control::apply`] or [`Control::reclaim`]. Places of removed rules are reused after that.
pub struct TwoStage {
    writer: RuleWriter,
    /// Names of rules, by index.
    names: Vec<Option<Name>>,
    /// Number of rules at each depth.
    depth_rules: [usize; DEPTHS],
    start: StartDepth,
    /// For the start depth.
    stage: Stage,
    /// For the previous start depth, which readers may still use.
    retiring: Option<Stage>,
    /// The start depth to move to, once no earlier one is retiring.
    wanted: usize,
    /// Prefixes whose maximum depth has decreased.
    fallen: Vec<RuleKey>,
    rules_at_choice: usize,
    changes_since_choice: usize,
}

impl TwoStage {
    /// An empty table, for names hashed with `key`.
    ///
    /// # Errors
    /// If there are no pages of the requested size.
    ///
    /// # Panics
    /// If `options` has more than 2^28 rules, or a load factor or start depth out of its range.
    pub fn with_options(key: NameHashKey, options: Options) -> io::Result<Self> {
        let depth_rules = [0; DEPTHS];
        let start_depth = options.start_depth.choose(&depth_rules);
        assert_start_depth(start_depth);
        let room = options.table.rules_max.max(CHUNK) * ROOM_FACTOR;
        Ok(TwoStage {
            writer: RuleWriter::new(key, options.table, room, start_depth)?,
            names: Vec::new(),
            depth_rules,
            start: options.start_depth,
            stage: Stage::new(start_depth),
            retiring: None,
            wanted: start_depth,
            fallen: Vec::new(),
            rules_at_choice: 0,
            changes_since_choice: 0,
        })
    }

    /// Number of rules, without virtual ones.
    pub fn len(&self) -> usize {
        self.writer.rules()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// M.
    pub fn start_depth(&self) -> usize {
        self.stage.depth()
    }

    /// Number of virtual rules: the FIB expansion of [So, Table 5].
    pub fn virtual_entries(&self) -> usize {
        self.writer.virtuals()
    }

    /// Number of probes ("FIB lookups" in [So, Table 5]) of a lookup of `name`.
    pub fn probes(&self, name: &NameView<'_>) -> usize {
        self.writer.table.counts(name).probes
    }

    /// Memory of both halves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let names = self.names.capacity() * size_of::<Option<Name>>() + self.memory().names;
        let stages = [Some(&self.stage), self.retiring.as_ref()];
        let stages = stages.into_iter().flatten().map(Stage::memory_bytes).sum::<usize>();
        let fallen = self.fallen.capacity() * size_of::<RuleKey>();
        self.writer.memory_bytes() + names + stages + fallen
    }

    /// The memory of the table, by the rows of [So, Table 4].
    pub fn memory(&self) -> TableMemory {
        let names = self.names.iter().flatten().map(|name| name.value().len()).sum();
        TableMemory { names, ..self.writer.memory() }
    }

    /// Moves the start depth to `depth`, 1 to 128, permanently: no heuristic changes it any more.
    ///
    /// If the last move was not reclaimed yet, the first [`Control::apply`] after that makes this
    /// one.
    ///
    /// # Errors
    /// If there is no room for the virtual rules, or one of them cannot be told from another rule.
    ///
    /// # Panics
    /// If `depth` is out of its range.
    pub fn set_start_depth(&mut self, depth: usize) -> Result<Update<dyn PrefixFib>, BuildError> {
        assert_start_depth(depth);
        self.writer.begin_batch();
        self.move_start(depth)?;
        self.start = StartDepth::Fixed(depth);
        Ok(self.writer.update())
    }

    fn prepare(&self, change: &Change<Name>) -> Result<Prepared, BuildError> {
        let mut prepared = self.writer.prepare(change)?;
        if prepared.key.depth > self.start_depth() {
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            prepared.above = Some(self.writer.key_of(name.as_ref().prefix(self.start_depth()))?);
        }
        Ok(prepared)
    }

    fn change(&mut self, change: &Prepared, name: &Name) {
        match (self.writer.find(&change.key), change.entry) {
            (Some((_, rule)), entry) if rule.entry == entry => {}
            (None, None) => {}
            (old, Some(_)) => {
                self.writer.table.begin_change();
                self.set(change, old, name);
            }
            (Some(old), None) => {
                self.writer.table.begin_change();
                self.remove(change, old);
            }
        }
    }

    /// The rule is stored before what leads to it, so that a reader either finds it or is not led
    /// to it.
    fn set(&mut self, change: &Prepared, old: Option<(u32, Rule)>, name: &Name) {
        let depth_max = old.map_or(0, |(_, rule)| rule.depth_max);
        let rule = Rule { entry: change.entry, depth_max };
        let index = match old {
            Some(old) => self.writer.replace(&change.key, old, rule),
            None => self.writer.insert(&change.key, rule),
        };
        if let Some((index, _)) = old {
            self.keep_name(index, None);
        }
        self.keep_name(index, Some(name.clone()));
        if old.is_some_and(|(_, rule)| rule.entry.is_some()) {
            return;
        }
        self.depth_rules[change.key.depth] += 1;
        if let Some(above) = change.above {
            self.stage.add(above, change.key.depth);
            self.cover(&above, change.key.depth);
        }
    }

    /// Removes a rule. The data that leads lookups to the rule stays until the rule is gone.
    fn remove(&mut self, change: &Prepared, old: (u32, Rule)) {
        let key = &change.key;
        let stages = [Some(&self.stage), self.retiring.as_ref()];
        if stages.into_iter().flatten().any(|stage| stage.depth_max(key).is_some()) {
            self.writer.replace(key, old, Rule { entry: None, ..old.1 });
        } else {
            self.writer.remove(key, old);
        }
        self.keep_name(old.0, None);
        self.depth_rules[key.depth] -= 1;
        let Some(above) = change.above else { return };
        self.stage.remove(&above, key.depth);
        match (self.stage.depth_max(&above), self.writer.find(&above)) {
            (None, Some(covering)) if covering.1.entry.is_none() => self.writer.remove(&above, covering),
            (depth_max, _) if depth_max < Some(key.depth) => self.fallen.push(above),
            _ => {}
        }
    }

    /// Makes the rule at the start depth lead to at least `depth`. The rule is virtual if there is
    /// none.
    fn cover(&mut self, prefix: &RuleKey, depth: usize) {
        match self.writer.find(prefix) {
            Some((index, rule)) if rule.depth_max < depth => self.writer.table.rules.set_depth_max(index, depth),
            Some(_) => {}
            None => {
                self.writer.insert(prefix, Rule { entry: None, depth_max: depth });
            }
        }
    }

    /// Removes a virtual rule that the start depth does not need, or makes the maximum depth exact.
    /// For [`Control::reclaim`], when no reader uses another start depth or another table.
    fn settle(&mut self, prefix: &RuleKey) {
        match (self.writer.find(prefix), self.stage.depth_max(prefix)) {
            (Some(old), None) if old.1.entry.is_none() => self.writer.remove(prefix, old),
            (Some((index, _)), depth_max) => self.writer.table.rules.set_depth_max(index, depth_max.unwrap_or(0)),
            (None, _) => {}
        }
    }

    fn keep_name(&mut self, index: u32, name: Option<Name>) {
        let index = index as usize;
        if index >= self.names.len() {
            self.names.resize(index + 1, None);
        }
        self.names[index] = name;
    }

    /// If enough rules have changed, chooses the start depth again and moves there.
    fn choose_start(&mut self, changes: usize) {
        self.changes_since_choice += changes;
        if !matches!(self.start, StartDepth::Fixed(_))
            && self.changes_since_choice >= self.rules_at_choice.max(CHOICE_CHANGES_MIN)
        {
            self.wanted = self.start.choose(&self.depth_rules);
            self.rules_at_choice = self.len();
            self.changes_since_choice = 0;
        }
        // The move was refused. All answers stay right, and the next choice may find room.
        if self.move_start(self.wanted).is_err() {
            self.wanted = self.start_depth();
        }
    }

    fn move_start(&mut self, depth: usize) -> Result<(), BuildError> {
        if depth == self.start_depth() || self.retiring.is_some() {
            self.wanted = depth;
            return Ok(());
        }
        let stage = self.stage_at(depth)?;
        let mut prefixes: Vec<_> = stage.prefixes().copied().collect();
        prefixes.sort_unstable();
        let fresh = self.writer.fresh(&prefixes)?;
        self.writer.refuse_without_room(fresh)?;
        self.writer.grow_for(fresh)?;
        for prefix in &prefixes {
            self.cover(prefix, stage.depth_max(prefix).expect("there are rules below"));
        }
        self.writer.table.set_start_depth(depth);
        self.retiring = Some(std::mem::replace(&mut self.stage, stage));
        self.wanted = depth;
        Ok(())
    }

    fn stage_at(&self, depth: usize) -> Result<Stage, BuildError> {
        let mut stage = Stage::new(depth);
        for name in self.names.iter().flatten().map(Name::as_ref) {
            let len = name.len();
            if len > depth {
                stage.add(self.writer.key_of(name.prefix(depth))?, len);
            }
        }
        Ok(stage)
    }
}

fn assert_start_depth(depth: usize) {
    assert!((1..=COMPONENTS_MAX).contains(&depth), "a start depth is 1 to {COMPONENTS_MAX}");
}

impl Control<Name> for TwoStage {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.writer.table.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let prepared = changes.iter().map(|change| self.prepare(change)).collect::<Result<Vec<_>, _>>()?;
        // Removing a rule may leave a virtual one.
        let removals = prepared.iter().filter(|change| change.entry.is_none()).count();
        self.writer.admit(&prepared, removals)?;
        for (i, (change, hashed)) in changes.iter().zip(&prepared).enumerate() {
            self.writer.prefetch(&prepared, i);
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            self.change(hashed, name);
        }
        self.choose_start(changes.len());
        Ok(self.writer.update())
    }

    fn reclaim(&mut self) {
        self.writer.reclaim();
        let retiring = self.retiring.take();
        let prefixes = retiring.iter().flat_map(Stage::prefixes).copied().chain(std::mem::take(&mut self.fallen));
        for prefix in prefixes.collect::<Vec<_>>() {
            self.settle(&prefix);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
