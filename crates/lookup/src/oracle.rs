//! The slow, obviously right version of each kind of table.

use std::collections::HashMap;
use std::sync::Arc;

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Digest, Name, NameView};

use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::prefix::{PrefixFib, PrefixMatch};
use crate::update::{BuildError, Change, Control, Update};

/// A map of whole names, asked for each prefix of a name from the longest down.
///
/// What every prefix engine is tested against. A batch of changes copies the map if somebody still
/// holds an earlier query half.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    /// By the encoded name: components delimit themselves, so that no two names share one.
    rules: Arc<HashMap<Box<[u8]>, EntryId>>,
}

impl Oracle {
    /// No rules.
    pub fn new() -> Self {
        Oracle::default()
    }

    /// Rules in the table.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl PrefixFib for Oracle {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        (0..=name.len()).rev().find_map(|depth| {
            let entry = *self.rules.get(name.prefix(depth).value())?;
            Some(PrefixMatch { entry, depth })
        })
    }

    fn depth_max(&self) -> usize {
        COMPONENTS_MAX
    }

    fn memory_bytes(&self) -> usize {
        let names: usize = self.rules.keys().map(|name| name.len()).sum();
        names + self.rules.capacity() * size_of::<(Box<[u8]>, EntryId)>()
    }
}

impl Control<Name> for Oracle {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        Arc::new(self.clone())
    }

    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        let rules = Arc::make_mut(&mut self.rules);
        for change in changes {
            match change {
                Change::Set(name, entry) => rules.insert(name.value().into(), *entry),
                Change::Remove(name) => rules.remove(name.value()),
            };
        }
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {}
}

/// A map of digests: what every flat engine is tested against. It answers `None` for names that it
/// does not know.
#[derive(Debug, Clone, Default)]
pub struct FlatOracle {
    names: Arc<HashMap<Digest, EntryId>>,
}

impl FlatOracle {
    /// No names.
    pub fn new() -> Self {
        FlatOracle::default()
    }

    /// Names in the table.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl FlatFib for FlatOracle {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        self.names.get(&name).copied()
    }

    fn memory_bytes(&self) -> usize {
        self.names.capacity() * size_of::<(Digest, EntryId)>()
    }
}

impl Control<Digest> for FlatOracle {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        Arc::new(self.clone())
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        let names = Arc::make_mut(&mut self.names);
        for change in changes {
            match change {
                Change::Set(name, entry) => names.insert(*name, *entry),
                Change::Remove(name) => names.remove(name),
            };
        }
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {}
}
