//! Longest prefix match in two stages, from a depth that most rules do not exceed.
//!
//! Implements [So §2.3] on the table of [So §2.2]. A lookup starts at depth M. Below each prefix
//! of M components that has deeper rules, the table says how deep they go (MD); where no rule of M
//! components is, a *virtual* rule, which no name matches, says it. So a name that finds nothing at
//! M has no deeper match, and one that does goes on from MD, not from its own last component
//! (Algorithm 1, in `rule_table`).
//!
//! M changes while lookups run, as the paper outlines: the virtual rules of the new M come first,
//! then M is published; those of the old M go in [`Control::reclaim`], when no reader can be on a
//! walk that began with it.
//!
//! Differs:
//! - The root `/` is a rule, and depths without rules are not probed
//!   ([`Options::probe_empty_depths`](super::longest_first::Options::probe_empty_depths) does).
//! - MD falls in [`Control::reclaim`]: until then an MD that is too large costs probes and no
//!   answer.
//! - M is chosen again after as many changes as there were rules at the last choice, at least 64,
//!   and moves by one pass over all rules: constant work a change in the long run, but one call
//!   of [`Control::apply`] takes as long as all rules take to hash. Readers do not notice.
//!
//! Entry ids of 32 bits are all taken. The control half keeps the names of all rules: another M
//! needs their prefixes.
//!
//! Cost: at most MD probes, MD being the greatest of the table and at least M, and one more for
//! `/`; a hostile name of any length that matches nothing at M takes M (and one). A probe is one
//! cache line (overflow chains aside), and one more where the tag agrees. Bytes a rule: as
//! [`LongestFirst`](super::LongestFirst) for the rule and for each virtual rule, and for the
//! control half the name and about 70 a prefix of M components that has deeper rules.

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

/// Rules and the virtual rules of two start depths, twice over: those that were taken out keep
/// their place until they are reclaimed.
const ROOM_FACTOR: usize = 8;
/// M is not chosen again before so many changes.
const CHOICE_CHANGES_MIN: usize = 64;

/// What one may choose.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Of the table. Rules there are rules that are not virtual.
    pub table: longest_first::Options,
    /// How M is chosen.
    pub start_depth: StartDepth,
}

/// The control half: one writer.
///
/// Whoever looks up through a query half must get it anew (from [`Update::Replace`]) before the
/// next [`Control::apply`] or [`Control::reclaim`]: places of removed rules are used again
/// afterwards.
pub struct TwoStage {
    writer: RuleWriter,
    /// Of rules, by their index.
    names: Vec<Option<Name>>,
    /// Rules of each depth.
    depth_rules: [usize; DEPTHS],
    start: StartDepth,
    /// That of the start depth.
    stage: Stage,
    /// That of the start depth before, for which readers may still be on their way.
    retiring: Option<Stage>,
    /// The start depth to move to, once none is retiring.
    wanted: usize,
    /// Prefixes whose maximum depth has fallen.
    fallen: Vec<RuleKey>,
    rules_at_choice: usize,
    changes_since_choice: usize,
}

impl TwoStage {
    /// An empty table, for names hashed under `key`.
    ///
    /// # Errors
    /// If there are no pages of the size asked for.
    ///
    /// # Panics
    /// If `options` has more than 2^28 rules, or a load factor or a start depth out of its range.
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

    /// Rules in the table, virtual ones aside.
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

    /// Virtual rules in the table: the FIB expansion of [So, Table 5].
    pub fn virtual_entries(&self) -> usize {
        self.writer.virtuals()
    }

    /// Probes ("FIB lookups" in [So, Table 5]) that a lookup of `name` takes.
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

    /// What the table takes, by the rows of [So, Table 4].
    pub fn memory(&self) -> TableMemory {
        let names = self.names.iter().flatten().map(|name| name.value().len()).sum();
        TableMemory { names, ..self.writer.memory() }
    }

    /// Moves the start depth to `depth`, 1 to 128, for good: no heuristic changes it any more.
    ///
    /// If the last move was not reclaimed yet, this one is made by the first
    /// [`Control::apply`] after it is.
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

    /// The rule comes before what leads to it, so that a reader on its way finds it or is led past.
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

    /// The rule goes before what leads to it.
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

    /// Makes a rule at the start depth, virtual if there is none, lead at least as deep as `depth`.
    fn cover(&mut self, prefix: &RuleKey, depth: usize) {
        match self.writer.find(prefix) {
            Some((index, rule)) if rule.depth_max < depth => self.writer.table.rules.set_depth_max(index, depth),
            Some(_) => {}
            None => {
                self.writer.insert(prefix, Rule { entry: None, depth_max: depth });
            }
        }
    }

    /// Takes out a virtual rule that the start depth does not need; otherwise makes the maximum
    /// depth exact. For [`Control::reclaim`], when nobody looks with another start depth or at
    /// another table.
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

    /// Chooses the start depth again, if rules have changed enough, and moves there.
    fn choose_start(&mut self, changes: usize) {
        self.changes_since_choice += changes;
        if !matches!(self.start, StartDepth::Fixed(_))
            && self.changes_since_choice >= self.rules_at_choice.max(CHOICE_CHANGES_MIN)
        {
            self.wanted = self.start.choose(&self.depth_rules);
            self.rules_at_choice = self.len();
            self.changes_since_choice = 0;
        }
        // Refused: all answers are right as it is, and the next choice may find room.
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
        // A rule that is removed may leave a virtual one.
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
