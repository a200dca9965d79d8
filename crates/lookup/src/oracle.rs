//! The slow, obviously right version of each kind of table.

use std::collections::HashMap;
use std::sync::Arc;

use byname_wire::{Name, NameView};

use crate::entry::EntryId;
use crate::prefix::{PrefixFib, PrefixMatch};
use crate::update::{BuildError, Change, Control, Update};

/// A map of whole names, asked for each prefix of a name from the longest down.
///
/// What every prefix engine is tested against. Each batch of changes copies the map.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    rules: HashMap<Name, EntryId>,
}

impl Oracle {
    /// No rules.
    pub fn new() -> Self {
        Oracle::default()
    }
}

impl PrefixFib for Oracle {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        (0..=name.len()).rev().find_map(|depth| {
            let entry = *self.rules.get(&name.prefix(depth).to_name())?;
            Some(PrefixMatch { entry, depth })
        })
    }

    fn memory_bytes(&self) -> usize {
        let names: usize = self.rules.keys().map(|name| name.value().len()).sum();
        names + self.rules.capacity() * size_of::<(Name, EntryId)>()
    }
}

impl Control<Name> for Oracle {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        Arc::new(self.clone())
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        for change in changes {
            match change {
                Change::Set(name, entry) => self.rules.insert(name.clone(), *entry),
                Change::Remove(name) => self.rules.remove(name),
            };
        }
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {}
}
