//! Sets of tags that lead to groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byname_wire::Descriptor;

use crate::label::Label;
use crate::tags::TagSet;

/// The sets of an intent.
#[derive(Debug, Default)]
pub(super) struct Tags {
    groups: BTreeMap<TagSet, Label>,
    /// Nearly always one set each: two have the same digests only by an unlikely chance, or on purpose. Then they lead to
    /// both groups.
    sets: BTreeMap<Arc<Descriptor>, BTreeSet<TagSet>>,
}

impl Tags {
    /// Number of sets.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn contains(&self, set: &TagSet) -> bool {
        self.groups.contains_key(set)
    }

    /// Leads a set to a group, or to none. Returns how routers know it.
    pub(super) fn set(&mut self, set: TagSet, group: Option<Label>) -> Arc<Descriptor> {
        let descriptor = Arc::new(set.descriptor());
        match group {
            Some(group) => {
                self.sets.entry(descriptor.clone()).or_default().insert(set.clone());
                self.groups.insert(set, group);
            }
            None => {
                self.groups.remove(&set);
                if let Some(sets) = self.sets.get_mut(&descriptor) {
                    sets.remove(&set);
                    if sets.is_empty() {
                        self.sets.remove(&descriptor);
                    }
                }
            }
        }
        descriptor
    }

    /// The groups that packets with these tags are led to.
    pub(super) fn groups_of(&self, descriptor: &Descriptor) -> impl Iterator<Item = &Label> {
        self.sets.get(descriptor).into_iter().flatten().filter_map(|set| self.groups.get(set))
    }

    /// What leads to such groups.
    pub(super) fn to(&self, is_wanted: impl Fn(&Label) -> bool) -> impl Iterator<Item = Arc<Descriptor>> {
        let leads = move |descriptor: &&Arc<Descriptor>| self.groups_of(descriptor).any(&is_wanted);
        self.sets.keys().filter(leads).cloned()
    }
}
