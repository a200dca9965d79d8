//! Which strategy serves which names: longest prefix match over the few choices there are.

use byname_wire::name_hash::{DepthSet, hash_name};
use byname_wire::{Name, NameHashKey, NameView};

use crate::by_hash::ByHash;
use crate::strategy::{Strategy, StrategyChoice, build, default_name};

/// Strategies and the prefixes that chose them.
pub struct StrategyTable {
    strategies: Vec<(Name, Box<dyn Strategy>)>,
    /// From a prefix's hash to its name and the strategy's place in `strategies`.
    choices: ByHash<(Name, usize)>,
    /// Depths at which there is a choice, without the root.
    depths: DepthSet,
    /// The strategy of `/`.
    root: usize,
}

impl Default for StrategyTable {
    fn default() -> Self {
        let strategy = build(default_name().as_ref()).expect("the default strategy's name is ours");
        StrategyTable {
            strategies: vec![(default_name(), strategy)],
            choices: ByHash::default(),
            depths: DepthSet::EMPTY,
            root: 0,
        }
    }
}

impl StrategyTable {
    /// Replaces all choices. Strategies that stay chosen keep their state; names that are no
    /// strategy's are passed over (management checks them before).
    pub fn set(&mut self, key: &NameHashKey, choices: &[StrategyChoice]) {
        let mut old = std::mem::take(self);
        self.strategies.clear();
        for choice in choices {
            let Some(strategy) = self.place(&mut old, &choice.strategy) else { continue };
            if choice.prefix.as_ref().is_empty() {
                self.root = strategy;
                continue;
            }
            self.depths.insert(choice.prefix.as_ref().len());
            self.choices.insert(hash_name(key, choice.prefix.as_ref()), (choice.prefix.clone(), strategy));
        }
        if !choices.iter().any(|c| c.prefix.as_ref().is_empty()) {
            self.root = self.place(&mut old, &default_name()).expect("the default strategy's name is ours");
        }
    }

    /// How many choices there are, the one for `/` included.
    pub fn count(&self) -> usize {
        self.choices.len() + 1
    }

    /// No choice is for a name of more components.
    pub fn depth_max(&self) -> usize {
        self.depths.deepest()
    }

    /// Depths of the choices, but for the one for `/`.
    pub fn depths(&self) -> DepthSet {
        self.depths
    }

    /// Whether any of the strategies learns from what comes.
    pub fn measures(&self) -> bool {
        self.strategies.iter().any(|(_, strategy)| strategy.measures())
    }

    /// The number of the strategy that serves a name.
    pub fn choose(&self, name: &NameView<'_>) -> usize {
        for depth in self.depths.down_from(name.len()) {
            if let Some((prefix, strategy)) = self.choices.get(&name.hash(depth))
                && prefix.value() == name.prefix(depth).value()
            {
                return *strategy;
            }
        }
        self.root
    }

    /// The one strategy, if all names have the same.
    pub fn only(&self) -> Option<usize> {
        (self.depths == DepthSet::EMPTY).then_some(self.root)
    }

    /// A strategy by its number.
    pub fn strategy(&mut self, number: usize) -> &mut dyn Strategy {
        &mut *self.strategies[number].1
    }

    /// The place of a strategy among ours: there already, taken from `old`, or made.
    fn place(&mut self, old: &mut StrategyTable, name: &Name) -> Option<usize> {
        if let Some(place) = self.strategies.iter().position(|(n, _)| n == name) {
            return Some(place);
        }
        let strategy = match old.strategies.iter().position(|(n, _)| n == name) {
            Some(i) => old.strategies.swap_remove(i).1,
            None => build(name.as_ref()).ok()?,
        };
        self.strategies.push((name.clone(), strategy));
        Some(self.strategies.len() - 1)
    }
}
