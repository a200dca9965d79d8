//! Which descriptors cover which: `{a}` covers `{a, b}`, because each packet that matches the larger set matches the
//! smaller one, too.
//!
//! Each descriptor stands at one of its tags, to be found as a subset, and at all of them, to be found as a superset. A
//! search looks at the descriptors at one tag, or at each tag of a set, and compares them.
//!
//! Cost: as many entries as a descriptor has tags, and one. A search takes time in proportion to the descriptors that
//! stand at its tags.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use byname_wire::Descriptor;
use byname_wire::tagset::TagDigest;

/// Known descriptors, by their tags.
#[derive(Debug, Default)]
pub(super) struct Covering {
    /// Each at the tag that had the fewest when it came. `None`: it has no tags.
    at_one: HashMap<Option<TagDigest>, BTreeSet<Arc<Descriptor>>>,
    /// Each at all of its tags.
    at_all: HashMap<TagDigest, BTreeSet<Arc<Descriptor>>>,
}

impl Covering {
    /// Notes a descriptor that is not there yet.
    pub(super) fn insert(&mut self, descriptor: &Arc<Descriptor>) {
        let length = |tag: &TagDigest| self.at_one.get(&Some(*tag)).map_or(0, BTreeSet::len);
        let place = descriptor.tags().iter().copied().min_by_key(length);
        self.at_one.entry(place).or_default().insert(Arc::clone(descriptor));
        for tag in descriptor.tags() {
            self.at_all.entry(*tag).or_default().insert(Arc::clone(descriptor));
        }
    }

    /// Forgets a descriptor.
    pub(super) fn remove(&mut self, descriptor: &Descriptor) {
        for place in places(descriptor) {
            if let Some(there) = self.at_one.get_mut(&place)
                && there.remove(descriptor)
                && there.is_empty()
            {
                self.at_one.remove(&place);
            }
        }
        for tag in descriptor.tags() {
            if let Some(there) = self.at_all.get_mut(tag)
                && there.remove(descriptor)
                && there.is_empty()
            {
                self.at_all.remove(tag);
            }
        }
    }

    /// The descriptors that cover this one.
    pub(super) fn subsets<'a>(&'a self, of: &'a Descriptor) -> impl Iterator<Item = &'a Arc<Descriptor>> {
        let there = places(of).filter_map(|place| self.at_one.get(&place)).flatten();
        there.filter(|one| ***one != *of && one.is_subset(of))
    }

    /// The descriptors that this one covers.
    pub(super) fn supersets<'a>(&'a self, of: &'a Descriptor) -> impl Iterator<Item = &'a Arc<Descriptor>> {
        let at = |tag: &TagDigest| self.at_all.get(tag);
        let rarest = of.tags().iter().min_by_key(|tag| at(tag).map_or(0, BTreeSet::len));
        let at_rarest = rarest.and_then(at).into_iter().flatten();
        let all = self.at_one.values().flatten().filter(move |_| rarest.is_none());
        at_rarest.chain(all).filter(|one| ***one != *of && of.is_subset(one))
    }
}

/// Where a subset of a descriptor may stand in [`Covering::at_one`].
fn places(descriptor: &Descriptor) -> impl Iterator<Item = Option<TagDigest>> + '_ {
    descriptor.tags().iter().copied().map(Some).chain([None])
}
