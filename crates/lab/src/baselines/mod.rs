//! Simple tables, each an afternoon's work, to compare byname's engines with.
//!
//! A lock separates readers and writer: readers wait while rules change.
//!
//! The lab hands every engine a [`NameView`] whose prefixes are already hashed. These tables do not use those hashes.
//! Computing them costs at most 5 % of a lookup in these tables.

mod component_trie;
mod hashmap;
mod patricia;

use std::sync::{Arc, PoisonError, RwLock};

use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, PrefixMatch, Update};
use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Name, NameRef, NameView};

pub use component_trie::ComponentTrie;
pub use hashmap::LongestFirstMap;
pub use patricia::Patricia;

/// A single-threaded table. [`Locked`] makes an engine from it.
pub trait Table: Default + Send + Sync + 'static {
    /// Adds the rule, or replaces its entry.
    fn set(&mut self, rule: NameRef<'_>, entry: EntryId);
    /// Removes the rule, if there is one.
    fn remove(&mut self, rule: NameRef<'_>);
    /// Finds the deepest rule that covers `name`.
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch>;
    /// Memory asked of the allocator, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// A [`Table`] behind a lock. It serves as both halves of an engine.
pub struct Locked<T>(Arc<Shared<T>>);

struct Shared<T>(RwLock<T>);

impl<T: Table> Default for Locked<T> {
    fn default() -> Self {
        Locked(Arc::new(Shared(RwLock::new(T::default()))))
    }
}

impl<T: Table> PrefixFib for Shared<T> {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).longest_match(name)
    }

    fn longest_match_burst(&self, names: &[NameView<'_>], out: &mut [Option<PrefixMatch>]) {
        assert_eq!(names.len(), out.len());
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for (name, found) in names.iter().zip(out) {
            *found = table.longest_match(name);
        }
    }

    fn depth_max(&self) -> usize {
        COMPONENTS_MAX
    }

    fn memory_bytes(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).memory_bytes()
    }
}

impl<T: Table> Control<Name> for Locked<T> {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.0.clone()
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let mut table = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            match change {
                Change::Set(name, entry) => table.set(name.as_ref(), *entry),
                Change::Remove(name) => table.remove(name.as_ref()),
            }
        }
        Ok(Update::Patched)
    }

    fn reclaim(&mut self) {}
}

/// The encoded component at position `depth`, counted from 1.
fn component<'a>(name: &NameView<'a>, depth: usize) -> &'a [u8] {
    &name.prefix(depth).value()[name.prefix(depth - 1).value().len()..]
}

#[cfg(test)]
mod tests {
    use byname_lookup::oracle::Oracle;
    use byname_lookup::prefix::BURST_MAX;
    use byname_wire::{Component, NameHashKey, PrefixHashes};

    use super::*;

    type Engine = Box<dyn Control<Name, Query = dyn PrefixFib>>;

    fn all_baselines() -> Vec<(&'static str, Engine)> {
        vec![
            ("hashmap", Box::new(Locked::<LongestFirstMap>::default())),
            ("component_trie", Box::new(Locked::<ComponentTrie>::default())),
            ("patricia", Box::new(Locked::<Patricia>::default())),
        ]
    }

    fn answers(fib: &dyn PrefixFib, names: &[Name]) -> Vec<Option<PrefixMatch>> {
        let key = NameHashKey::new([1, 2]);
        let mut prefixes = vec![PrefixHashes::default(); names.len()];
        let views: Vec<_> = names.iter().zip(&mut prefixes).map(|(n, p)| NameView::new(&key, n.as_ref(), p)).collect();
        let mut out = vec![None; names.len()];
        fib.longest_match_burst(&views, &mut out);
        out
    }

    /// Generates names with a seed. The names use few distinct components, so they share prefixes and nest. Some
    /// components are empty, and some are a prefix of another in bytes.
    struct Names(u64);

    impl Names {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        fn name(&mut self, depth_max: u64) -> Name {
            const COMPONENTS: [&[u8]; 7] = [b"", b"a", b"ab", b"abc", b"b", b"\x08\x01a", b"long enough to be split"];
            (0..self.below(depth_max + 1)).fold(Name::default(), |name, _| match self.below(8) {
                7 => name.join_number(54, self.below(3)),
                i => name.join(Component::generic(COMPONENTS[i as usize])),
            })
        }
    }

    #[test]
    fn every_baseline_answers_as_the_oracle_while_it_grows_and_shrinks() {
        for (which, mut engine) in all_baselines() {
            let (mut oracle, mut names) = (Oracle::new(), Names(11));
            for round in 0..60 {
                let sets_in_10 = [9, 5, 1][round / 20];
                let changes: Vec<_> = (0..300)
                    .map(|_| match names.below(10) < sets_in_10 {
                        true => Change::Set(names.name(5), EntryId(names.below(1000) as u32)),
                        false => Change::Remove(names.name(5)),
                    })
                    .collect();
                assert!(matches!(engine.apply(&changes), Ok(Update::Patched)));
                oracle.apply(&changes).expect("the oracle takes all");
                for _ in 0..20 {
                    let asked: Vec<_> = (0..BURST_MAX).map(|_| names.name(7)).collect();
                    let found = answers(&*engine.query(), &asked);
                    assert_eq!(found, answers(&oracle, &asked), "{which}, round {round}");
                }
            }
        }
    }

    #[test]
    fn a_table_that_has_lost_all_rules_is_as_small_as_it_was() {
        for (which, mut engine) in all_baselines() {
            let mut names = Names(5);
            let rules: Vec<_> = (0..500).map(|_| names.name(6)).collect();
            let fill = |engine: &mut Engine| {
                let sets: Vec<_> = rules.iter().map(|rule| Change::Set(rule.clone(), EntryId(1))).collect();
                engine.apply(&sets).expect("a lock takes all");
                engine.query().memory_bytes()
            };
            let full = fill(&mut engine);
            let removals: Vec<_> = rules.iter().cloned().map(Change::Remove).collect();
            engine.apply(&removals).expect("removing needs no room");
            assert!(answers(&*engine.query(), &rules).iter().all(Option::is_none), "{which}");
            assert!(engine.query().memory_bytes() < full, "{which}");
            assert_eq!(fill(&mut engine), full, "{which}: nothing is left behind");
        }
    }
}
