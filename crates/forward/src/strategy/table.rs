//! Strategies by namespace: longest prefix match over the few choices that there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use byname_wire::name_hash::{DepthSet, hash_name};
use byname_wire::{Name, NameHashKey, NameView};

use crate::by_hash::ByHash;
use crate::strategy::{Strategy, StrategyChoice, build, default_name};

/// Up to this many choices are compared with a name by its bytes, one after the other. Then the name need not be hashed
/// for them.
const COMPARED_MAX: usize = 8;

/// Strategies and the prefixes that chose them.
pub struct StrategyTable {
    strategies: Vec<(Name, Box<dyn Strategy>)>,
    choices: Choices,
    /// The strategy of `/`.
    root: usize,
}

/// The prefixes except the root, and the places of their strategies in `strategies`.
enum Choices {
    /// Deepest prefix first.
    Few(Vec<Choice>),
    Many {
        by_hash: ByHash<(Name, usize)>,
        depths: DepthSet,
    },
}

impl Choices {
    const NONE: Choices = Choices::Few(Vec::new());
}

struct Choice {
    prefix: Name,
    /// The first bytes of the prefix, which differ for most names, and a mask of the bits that they take.
    first: u64,
    mask: u64,
    strategy: usize,
}

impl Choice {
    fn new(prefix: Name, strategy: usize) -> Choice {
        let bytes = prefix.value().len().min(8);
        let mask = if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        Choice { first: first_bytes(prefix.value()), mask, prefix, strategy }
    }

    #[inline]
    fn is_for(&self, bytes: &[u8], first: u64) -> bool {
        first & self.mask == self.first && bytes.starts_with(self.prefix.value())
    }
}

/// The first eight bytes, padded with zeros if there are fewer.
#[inline]
fn first_bytes(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded
    });
    u64::from_le_bytes(first)
}

impl Default for StrategyTable {
    fn default() -> Self {
        let strategy =
            build(default_name().as_ref(), &NameHashKey::new([0, 0])).expect("the default strategy's name is ours");
        StrategyTable { strategies: vec![(default_name(), strategy)], choices: Choices::NONE, root: 0 }
    }
}

impl StrategyTable {
    /// Replaces all choices. Strategies that are chosen again keep their state. Names of unknown strategies are
    /// skipped; management checks names before.
    pub fn set(&mut self, key: &NameHashKey, choices: &[StrategyChoice]) {
        let mut old = std::mem::take(self);
        self.strategies.clear();
        let (mut chosen, mut of_root) = (BTreeMap::new(), None);
        for choice in choices {
            let Some(strategy) = self.place(&mut old, &choice.strategy, key) else { continue };
            if choice.prefix.as_ref().is_empty() {
                of_root = Some(strategy);
                continue;
            }
            chosen.insert(choice.prefix.clone(), strategy);
        }
        self.choices = if chosen.len() <= COMPARED_MAX {
            let mut few: Vec<_> = chosen.into_iter().map(|(prefix, strategy)| Choice::new(prefix, strategy)).collect();
            few.sort_by_key(|choice| Reverse(choice.prefix.as_ref().len()));
            Choices::Few(few)
        } else {
            let mut depths = DepthSet::EMPTY;
            chosen.keys().for_each(|prefix| depths.insert(prefix.as_ref().len()));
            let by_hash =
                chosen.into_iter().map(|(prefix, strategy)| (hash_name(key, prefix.as_ref()), (prefix, strategy)));
            Choices::Many { by_hash: by_hash.collect(), depths }
        };
        self.root = of_root.unwrap_or_else(|| {
            self.place(&mut old, &default_name(), key).expect("the default strategy's name is ours")
        });
    }

    /// Names are hashed with another key from now on. Strategies keep their numbers and lose what they know by hash.
    pub fn rekey(&mut self, key: &NameHashKey) {
        for (name, strategy) in &mut self.strategies {
            *strategy = build(name.as_ref(), key).expect("it was built from this name before");
        }
        if let Choices::Many { by_hash, .. } = &mut self.choices {
            let chosen = std::mem::take(by_hash).into_values();
            *by_hash = chosen.map(|choice| (hash_name(key, choice.0.as_ref()), choice)).collect();
        }
    }

    /// Number of choices, including the one for `/`.
    pub fn count(&self) -> usize {
        1 + match &self.choices {
            Choices::Few(few) => few.len(),
            Choices::Many { by_hash, .. } => by_hash.len(),
        }
    }

    /// Depths at which a name must be hashed to choose its strategy.
    pub fn depths(&self) -> DepthSet {
        match &self.choices {
            Choices::Few(_) => DepthSet::EMPTY,
            Choices::Many { depths, .. } => *depths,
        }
    }

    /// Whether any of the strategies learns from Data.
    pub fn measures(&self) -> bool {
        self.strategies.iter().any(|(_, strategy)| strategy.measures())
    }

    /// The number of the strategy that serves a name, which must be hashed at least at [`StrategyTable::depths`].
    pub fn choose(&self, name: &NameView<'_>) -> usize {
        match &self.choices {
            Choices::Few(few) => {
                let bytes = name.name().value();
                let first = first_bytes(bytes);
                few.iter().find(|choice| choice.is_for(bytes, first)).map_or(self.root, |choice| choice.strategy)
            }
            Choices::Many { by_hash, depths } => {
                for depth in depths.down_from(name.len()) {
                    if let Some((prefix, strategy)) = by_hash.get(&name.hash(depth))
                        && prefix.value() == name.prefix(depth).value()
                    {
                        return *strategy;
                    }
                }
                self.root
            }
        }
    }

    /// A strategy by its number.
    pub fn strategy(&mut self, number: usize) -> &mut dyn Strategy {
        &mut *self.strategies[number].1
    }

    /// The full name of a strategy.
    pub fn name(&self, number: usize) -> &Name {
        &self.strategies[number].0
    }

    /// The number of a strategy: it is there already, is taken from `old`, or is made.
    fn place(&mut self, old: &mut StrategyTable, name: &Name, key: &NameHashKey) -> Option<usize> {
        if let Some(place) = self.strategies.iter().position(|(n, _)| n == name) {
            return Some(place);
        }
        let strategy = match old.strategies.iter().position(|(n, _)| n == name) {
            Some(i) => old.strategies.swap_remove(i).1,
            None => build(name.as_ref(), key).ok()?,
        };
        self.strategies.push((name.clone(), strategy));
        Some(self.strategies.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use byname_wire::{Component, PrefixHashes};
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    #[test]
    fn few_and_many_choices_agree_with_a_search_through_all() {
        let mut rng = SmallRng::seed_from_u64(1);
        let key = NameHashKey::new([3, 5]);
        let name = |rng: &mut SmallRng, depth_max| {
            let components = ["a", "b", "localhost", "longer than eight bytes"];
            let depth = rng.random_range(0..=depth_max);
            Name::from_components(
                (0..depth).map(|_| Component::generic(components[rng.random_range(0..components.len())].as_bytes())),
            )
        };
        let strategies: Vec<Name> = crate::strategy::all_names().collect();
        for count in (0..4 * COMPARED_MAX).chain([COMPARED_MAX; 20]) {
            let choices: Vec<StrategyChoice> = (0..count)
                .map(|_| StrategyChoice {
                    prefix: name(&mut rng, 3),
                    strategy: strategies[rng.random_range(0..3usize)].clone(),
                })
                .collect();
            let mut table = StrategyTable::default();
            table.set(&key, &choices);
            for _ in 0..200 {
                let name = name(&mut rng, 5);
                let mut hashes = PrefixHashes::default();
                let number = table.choose(&NameView::new(&key, name.as_ref(), &mut hashes));
                let is_for = |choice: &&StrategyChoice| choice.prefix.as_ref().is_prefix_of(&name.as_ref());
                // The last of several choices for one prefix counts.
                let expected = choices.iter().filter(is_for).max_by_key(|choice| choice.prefix.as_ref().len());
                let expected = expected.map_or(default_name(), |choice| choice.strategy.clone());
                assert_eq!(table.strategies[number].0, expected, "{name} of {count} choices");
            }
        }
    }
}
