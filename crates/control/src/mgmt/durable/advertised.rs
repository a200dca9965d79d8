//! Descriptors that applications behind lasting faces advertise.
//!
//! After a restart they are stale: used at once, and withdrawn unless the application advertises them again in time.

use std::collections::BTreeSet;

use byname_forward::FaceId;
use byname_wire::Descriptor;

use super::{Durable, Management, Restored};
use crate::state::Change;
use crate::state::records::AdvertisementRecord;

/// Descriptors of an earlier process that nobody has advertised again.
#[derive(Debug, Default)]
pub(super) struct Stale {
    descriptors: BTreeSet<(FaceId, Descriptor)>,
    until_ms: u64,
    /// Those that wait until the router is on a tree.
    before_trees: Vec<(FaceId, Vec<AdvertisementRecord>)>,
}

impl Durable {
    fn advertisement(&mut self, face: FaceId, descriptor: Descriptor) -> Option<AdvertisementRecord> {
        Some(AdvertisementRecord { face: self.number(face)?, descriptor })
    }

    /// Sets when stale descriptors are withdrawn.
    pub(super) fn withdraw_stale_at(&mut self, ms: u64) {
        self.stale.until_ms = ms;
    }

    /// When stale descriptors are withdrawn.
    pub(in crate::mgmt) fn next_deadline_ms(&self) -> Option<u64> {
        (!self.stale.descriptors.is_empty()).then_some(self.stale.until_ms)
    }

    pub(super) fn forget_stale(&mut self, face: FaceId) {
        self.stale.descriptors.retain(|(of, _)| *of != face);
        self.stale.before_trees.retain(|(of, _)| *of != face);
    }
}

impl Management {
    /// An application has advertised these descriptors. `new` are those that it did not advertise before.
    pub(in crate::mgmt) fn keep_advertised(&mut self, face: FaceId, all: &[Descriptor], new: Vec<Descriptor>) {
        self.know_face(face);
        for descriptor in all {
            self.durable.stale.descriptors.remove(&(face, descriptor.clone()));
        }
        for descriptor in new {
            if let Some(record) = self.durable.advertisement(face, descriptor) {
                self.durable.push(Change::Advertisement(record));
            }
        }
    }

    /// An application has withdrawn these descriptors.
    pub(in crate::mgmt) fn keep_withdrawn(&mut self, face: FaceId, descriptors: Vec<Descriptor>) {
        self.know_face(face);
        for descriptor in descriptors {
            self.durable.stale.descriptors.remove(&(face, descriptor.clone()));
            if let Some(record) = self.durable.advertisement(face, descriptor) {
                self.durable.push(Change::ForgetAdvertisement(record));
            }
        }
    }

    /// Whether a descriptor came back from the store, and nobody has advertised it again.
    pub(in crate::mgmt) fn is_stale(&self, face: FaceId, descriptor: &Descriptor) -> bool {
        // There is no key to look up without a copy, and mostly there is nothing to look up.
        let stale = &self.durable.stale.descriptors;
        !stale.is_empty() && stale.contains(&(face, descriptor.clone()))
    }

    /// Advertises what came back from the store for a face.
    pub(in crate::mgmt) fn advertisements_are_back(
        &mut self,
        face: FaceId,
        advertisements: Vec<AdvertisementRecord>,
        restored: &mut Restored,
    ) {
        restored.descriptors += advertisements.len();
        if !self.tags.has_trees() {
            self.durable.stale.before_trees.push((face, advertisements));
            return;
        }
        for record in advertisements {
            match self.tags.advertise(face, vec![record.descriptor.clone()]) {
                Ok(()) => drop(self.durable.stale.descriptors.insert((face, record.descriptor))),
                Err(error) => {
                    tracing::warn!(%face, "a descriptor does not come back: {error}");
                    self.durable.push(Change::ForgetAdvertisement(record));
                }
            }
        }
    }

    /// Advertises what came back before the router was on a tree.
    pub(in crate::mgmt) fn advertise_again(&mut self) {
        for (face, advertisements) in std::mem::take(&mut self.durable.stale.before_trees) {
            self.advertisements_are_back(face, advertisements, &mut Restored::default());
        }
    }

    /// Withdraws descriptors that nobody has advertised again in time.
    pub(in crate::mgmt) fn withdraw_stale(&mut self, now_ms: u64) {
        if self.durable.next_deadline_ms().is_none_or(|at| at > now_ms) {
            return;
        }
        for (face, descriptor) in std::mem::take(&mut self.durable.stale.descriptors) {
            self.tags.withdraw(face, vec![descriptor.clone()]);
            self.keep_withdrawn(face, vec![descriptor]);
        }
    }
}
