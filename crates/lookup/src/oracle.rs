//! A slow and obviously correct version of each kind of table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Descriptor, Digest, Name, NameView};

use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::prefix::{PrefixFib, PrefixMatch};
use crate::tagset::{Effort, TagQuery, TagsetFib};
use crate::update::{BuildError, Change, Control, Update};

/// A map of whole names, which is asked for each prefix of a name, longest first.
///
/// Every prefix engine is tested against it. A batch of changes copies the map if a reader still
/// holds an earlier query half.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    /// Keyed by the encoded name. Components delimit themselves, so no two names share an encoding.
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

/// A map of digests. Every flat engine is tested against it. It answers `None` for unknown names.
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

/// A list of descriptors, each of which is compared with every packet. Every tag-set engine is
/// tested against it. One step is one comparison.
#[derive(Debug, Clone, Default)]
pub struct TagsetOracle {
    descriptors: Arc<BTreeMap<Descriptor, EntryId>>,
}

impl TagsetOracle {
    /// No descriptors.
    pub fn new() -> Self {
        TagsetOracle::default()
    }

    /// Descriptors in the table.
    pub fn len(&self) -> usize {
        self.descriptors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    fn subsets(&self, query: TagQuery<'_>) -> impl Iterator<Item = (&Descriptor, EntryId)> {
        let is_match = move |descriptor: &Descriptor| match query.tags {
            Some(tags) => descriptor.tags().iter().all(|tag| tags.contains(tag)),
            None => descriptor.filter().is_subset(&query.filter),
        };
        self.descriptors
            .iter()
            .filter(move |(descriptor, _)| is_match(descriptor))
            .map(|(descriptor, entry)| (descriptor, *entry))
    }

    fn whole_effort(&self) -> Effort {
        Effort { steps: self.len() as u32, cut_off: false }
    }
}

impl TagsetFib for TagsetOracle {
    fn all_subsets(&self, query: &TagQuery<'_>, visit: &mut dyn FnMut(EntryId) -> ControlFlow<()>) -> Effort {
        // There is nothing more to do, whether the visitor stopped it or not.
        let _ = self.subsets(*query).try_for_each(|(_, entry)| visit(entry));
        self.whole_effort()
    }

    fn largest_subset(
        &self,
        query: &TagQuery<'_>,
        accept: &mut dyn FnMut(EntryId) -> bool,
    ) -> (Option<EntryId>, Effort) {
        let largest = self
            .subsets(*query)
            .filter(|(_, entry)| accept(*entry))
            .min_by_key(|(descriptor, _)| (Reverse(descriptor.filter().weight()), descriptor.filter(), *descriptor));
        (largest.map(|(_, entry)| entry), self.whole_effort())
    }

    fn memory_bytes(&self) -> usize {
        let tags: usize = self.descriptors.keys().map(|descriptor| size_of_val(descriptor.tags())).sum();
        tags + self.len() * size_of::<(Descriptor, EntryId)>()
    }
}

impl Control<Descriptor> for TagsetOracle {
    type Query = dyn TagsetFib;

    fn query(&self) -> Arc<Self::Query> {
        Arc::new(self.clone())
    }

    fn apply(&mut self, changes: &[Change<Descriptor>]) -> Result<Update<Self::Query>, BuildError> {
        let descriptors = Arc::make_mut(&mut self.descriptors);
        for change in changes {
            match change {
                Change::Set(descriptor, entry) => descriptors.insert(descriptor.clone(), *entry),
                Change::Remove(descriptor) => descriptors.remove(descriptor),
            };
        }
        Ok(Update::Replace(self.query()))
    }

    fn reclaim(&mut self) {}
}
