//! Routes that pass to another process, or come from one.

use byname_forward::FaceId;
use byname_wire::NameRef;

use super::routes::{Layer, NEVER};
use super::{Rib, Route};
use crate::state::records::{RouteRecord, layer};
use byname_trust::Moment;

impl Rib {
    /// All routes and nexthops but the router's own, as records, in the order of their names.
    pub fn records(&self, now: Moment) -> impl Iterator<Item = RouteRecord> {
        self.entries.iter().flat_map(move |(name, entry)| {
            let name = NameRef::new(name).expect("the RIB's keys are names");
            entry.routes.as_slice().iter().filter_map(move |route| {
                let kind = self.kinds.get(route.kind);
                let expires_at_ms = Some(route.expires_at_ms()).filter(|&at| at != NEVER);
                (kind.face != FaceId::INTERNAL).then(|| RouteRecord {
                    name: name.to_name(),
                    face: kind.face.0,
                    layer: if kind.layer == Layer::Fib { layer::FIB } else { layer::RIB },
                    origin: kind.origin,
                    cost: kind.cost,
                    flags: kind.flags,
                    expires_unix_ms: expires_at_ms.map(|at| now.unix_ms_at(at)),
                    stale_until_unix_ms: self.stale_until_ms.filter(|_| kind.is_stale).map(|at| now.unix_ms_at(at)),
                })
            })
        })
    }

    /// Faces that routes or nexthops lead to.
    pub fn faces(&self) -> Vec<FaceId> {
        self.faces.keys().copied().filter(|face| *face != FaceId::INTERNAL).collect()
    }

    /// Lets [`Rib::take_routed`] return all faces with routes once more. The forwarder may not have known them before.
    pub fn tell_routed_again(&mut self) {
        self.routed.extend(self.faces.keys());
    }
}

/// The route of a record.
pub(crate) fn route_of_record(record: &RouteRecord, now: Moment) -> Route {
    let left_ms = |at: u64| at.saturating_sub(now.unix_ms);
    Route {
        face: FaceId(record.face),
        origin: record.origin,
        cost: record.cost,
        flags: record.flags,
        expires_at_ms: record.expires_unix_ms.map(|at| now.ms.saturating_add(left_ms(at))),
    }
}
