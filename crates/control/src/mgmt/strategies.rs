//! The module `strategy-choice`.

use std::collections::BTreeMap;

use byname_forward::strategy::{self, StrategyChoice, StrategyError};
use byname_wire::{Name, NameRef};

use super::tlv::ControlResponse;
use crate::rib::ROUTE_COMPONENTS_MAX;

/// Most strategy choices. Each worker looks them up in a hash table, one depth after the other.
const CHOICES_MAX: usize = 65_536;

/// Strategy choices by prefix. There is always one for `/`.
pub(super) struct StrategyChoices {
    choices: BTreeMap<Name, Name>,
    /// Those of the configuration.
    configured: BTreeMap<Name, Name>,
    changed: bool,
}

impl StrategyChoices {
    /// Takes these choices, except those with an unknown strategy. Adds the default for `/` if necessary.
    pub fn new(choices: impl IntoIterator<Item = (Name, Name)>) -> Self {
        let known = |(prefix, name): (Name, Name)| Some((prefix, strategy::instance_name(name.as_ref()).ok()?));
        let mut choices: BTreeMap<_, _> = choices.into_iter().filter_map(known).collect();
        choices.entry(Name::default()).or_insert_with(strategy::default_name);
        StrategyChoices { configured: choices.clone(), choices, changed: true }
    }

    /// Says which choices the configuration file has. Those with an unknown strategy count for nothing.
    pub fn set_configured(&mut self, configured: Vec<(Name, Name)>) {
        self.configured = StrategyChoices::new(configured).choices;
    }

    /// Sets the strategy of a prefix. Returns the strategy's full name.
    pub fn set(&mut self, prefix: &Name, name: NameRef<'_>) -> Result<Name, ControlResponse> {
        if prefix.as_ref().len() > ROUTE_COMPONENTS_MAX {
            let text = format!("Prefix cannot exceed {ROUTE_COMPONENTS_MAX} components");
            return Err(ControlResponse::new(414, text));
        }
        let instance = strategy::instance_name(name).map_err(|error| match error {
            StrategyError::Unknown => ControlResponse::new(404, "Strategy not registered"),
            why => ControlResponse::new(409, format!("Error instantiating strategy: {why}")),
        })?;
        if self.choices.len() >= CHOICES_MAX && !self.choices.contains_key(prefix) {
            return Err(ControlResponse::new(507, format!("There are {CHOICES_MAX} strategy choices already")));
        }
        self.changed |= self.choices.insert(prefix.clone(), instance.clone()).as_ref() != Some(&instance);
        Ok(instance)
    }

    /// Removes the choice of a prefix other than `/`. The prefix then inherits the choice of the next shorter one.
    /// Returns whether there was a choice to remove.
    pub fn unset(&mut self, prefix: &Name) -> bool {
        let removed = !prefix.as_ref().is_empty() && self.choices.remove(prefix).is_some();
        self.changed |= removed;
        removed
    }

    /// All choices, if they have changed since the last call.
    pub fn take_changed(&mut self) -> Option<Vec<StrategyChoice>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let choice =
            |(prefix, strategy): (&Name, &Name)| StrategyChoice { prefix: prefix.clone(), strategy: strategy.clone() };
        Some(self.choices.iter().map(choice).collect())
    }

    /// Prefixes whose strategy differs from the configuration, with the strategy. `None`: the choice was removed.
    pub fn changes(&self) -> impl Iterator<Item = (&Name, Option<&Name>)> {
        let changed = self.choices.iter().filter(|(prefix, strategy)| self.configured.get(prefix) != Some(strategy));
        let removed = self.configured.keys().filter(|prefix| !self.choices.contains_key(prefix));
        changed.map(|(prefix, strategy)| (prefix, Some(strategy))).chain(removed.map(|prefix| (prefix, None)))
    }

    /// The prefix whose choice serves a name.
    pub fn covering(&self, name: NameRef<'_>) -> Name {
        let prefixes = (0..=name.len()).rev().map(|depth| name.prefix(depth).to_name());
        prefixes.into_iter().find(|prefix| self.choices.contains_key(prefix)).unwrap_or_default()
    }

    /// Prefixes and the full names of their strategies.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.choices.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().expect("a test's own name")
    }

    #[test]
    fn choices_are_checked_and_only_changes_are_passed_on() {
        let mut choices = StrategyChoices::new([]);
        assert_eq!(choices.take_changed().map(|c| c.len()), Some(1));
        let multicast = name("/localhost/nfd/strategy/multicast");
        let instance = choices.set(&name("/a"), multicast.as_ref()).expect("a strategy");
        assert!(multicast.as_ref().is_prefix_of(&instance.as_ref()) && instance != multicast);
        assert_eq!(choices.take_changed().map(|c| c.len()), Some(2));
        choices.set(&name("/a"), instance.as_ref()).expect("a strategy");
        assert!(choices.take_changed().is_none());
        let code = |outcome: Result<Name, ControlResponse>| outcome.err().map(|r| r.code);
        assert_eq!(code(choices.set(&name("/a"), name("/localhost/nfd/strategy/none").as_ref())), Some(404));
        let refusal = |strategy: &str, choices: &mut StrategyChoices| {
            choices.set(&name("/a"), name(strategy).as_ref()).expect_err("refused")
        };
        let old = refusal("/localhost/nfd/strategy/best-route/v=1", &mut choices);
        let text = "Error instantiating strategy: best-route does not support version 1; its version is 5";
        assert_eq!((old.code, &*old.text), (409, text));
        let low = refusal("/localhost/nfd/strategy/asf/v=5/probing-interval~5", &mut choices);
        let text = "Error instantiating strategy: Probing interval must be >= 1000 milliseconds";
        assert_eq!((low.code, &*low.text), (409, text));
        assert_eq!(code(choices.set(&name(&"/x".repeat(33)), multicast.as_ref())), Some(414));
        choices.unset(&name("/a"));
        choices.unset(&name("/b"));
        choices.unset(&Name::default());
        assert_eq!(choices.take_changed().map(|c| c.len()), Some(1));
    }
}
