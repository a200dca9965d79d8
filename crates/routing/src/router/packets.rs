//! Packets that arrive, and Interests with Data inside.

use byname_wire::data::DataBuilder;
use byname_wire::interest::{Interest, InterestBuilder};
use byname_wire::{Data, FaceId, Name};

use crate::action::Action;

use super::checks::Check;
use super::{NEIGHBOURS, NETWORK, Router};

/// Hops of what only neighbours may hear: out of this forwarder, and into the other's.
pub(super) const HOPS_TO_NEIGHBOUR: u8 = 2;

impl Router {
    pub(super) fn on_interest(&mut self, wire: &[u8], face: FaceId) {
        let Ok(interest) = Interest::decode(wire) else { return self.malformed() };
        let is_below = |prefix: &Name| prefix.as_ref().is_prefix_of(&interest.name);
        if self.names.managements.iter().any(is_below) {
            return self.on_management(&interest, face);
        }
        if is_below(&self.names.prefix_sync_interest) {
            return self.on_prefix_sync(&interest, face);
        }
        if is_below(&self.names.sync_active) {
            return self.on_advertisement_sync(&interest, face, true);
        }
        if is_below(&self.names.sync_passive) {
            return self.on_advertisement_sync(&interest, face, false);
        }
        if is_below(&self.names.hello) {
            return self.on_hello(&interest, face);
        }
        if is_below(&self.names.tree) {
            return self.on_trees(&interest, face);
        }
        if let Some(wire) = self.objects.answer(&interest, &self.signer) {
            self.act(Action::SendData { wire });
        }
    }

    pub(super) fn on_data(&mut self, wire: &[u8]) {
        let Ok(data) = Data::decode(wire) else { return self.malformed() };
        if let Some(segment) = self.fetcher.on_data(&data) {
            let face = segment.face;
            self.check(Check::Segment(segment), &data, face, NETWORK);
        }
    }

    pub(super) fn send_fetches(&mut self) {
        let now_ms = self.now_ms();
        let random = &mut self.random;
        let interests = self.fetcher.send(now_ms, || rand::RngExt::random(random));
        for (wire, face) in interests {
            self.act(Action::SendInterest { wire, face });
        }
    }

    /// Whether one more packet of a face may be looked at.
    pub(super) fn may_look(&mut self, face: FaceId, kind: usize) -> bool {
        let now_ms = self.now_ms();
        let on_face = self.neighbours.values().filter(|neighbour| neighbour.link(face).is_some()).count();
        // On a link that many share, each hears what all say to each other.
        let is_within = face != FaceId::NONE && self.buckets[kind].take(face, on_face * on_face, now_ms);
        self.counters.flooded += u64::from(!is_within);
        is_within
    }

    /// The Data inside an Interest that a neighbour sent.
    pub(super) fn inner_data<'a>(&mut self, interest: &Interest<'a>, face: FaceId, kind: usize) -> Option<Data<'a>> {
        debug_assert!(kind == NEIGHBOURS || kind == NETWORK);
        if !self.may_look(face, kind) {
            return None;
        }
        let parameters = interest.application_parameters.filter(|_| interest.parameters_digest_matches());
        let data = parameters.and_then(|parameters| Data::decode(parameters).ok());
        if data.is_none() {
            self.malformed();
        }
        data
    }

    /// Signs Data without freshness: what travels inside an Interest.
    pub(super) fn sign(&self, name: Name, content: Vec<u8>) -> Option<Vec<u8>> {
        self.signer.sign_data(&DataBuilder::new(name).content(content)).ok()
    }

    /// Sends Data inside an Interest to the neighbours on a face.
    pub(super) fn send_to_neighbours(&mut self, name: Name, data: &[u8], face: FaceId, lifetime_ms: u64) {
        let interest = InterestBuilder::new(name, self.nonce())
            .lifetime_ms(lifetime_ms)
            .hop_limit(HOPS_TO_NEIGHBOUR)
            .application_parameters(data.to_vec());
        self.act(Action::SendInterest { wire: interest.encode(), face: Some(face) });
    }
}
