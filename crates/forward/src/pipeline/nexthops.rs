//! Which nexthops a pending Interest may be sent to.

use byname_lookup::EntryId;
use byname_wire::FaceId;

use crate::face_table::{FaceTable, LinkType, Scope};
use crate::pipeline::{LOCALHOP, LOCALHOST};
use crate::pit_cs::{InRecord, PitCs, PitEntry, SlotId};
use crate::tables::Nexthop;
use crate::worker::Worker;

impl Worker {
    /// Finds the nexthops of a FIB entry, if there is one, that the pending Interest may be sent to.
    pub(super) fn find_usable(&mut self, slot: SlotId, ingress: FaceId, entry: Option<EntryId>) {
        match entry {
            Some(entry) => self.tables.nexthops(entry, &mut self.nexthops),
            None => self.nexthops.clear(),
        }
        self.nexthops.retain(is_usable(&self.table, &self.faces, slot, ingress));
    }
}

/// Whether a pending Interest may be sent to a nexthop.
pub(super) fn is_usable(table: &PitCs, faces: &FaceTable, slot: SlotId, ingress: FaceId) -> impl Fn(&Nexthop) -> bool {
    let slot = table.slot(slot);
    let name = slot.name_octets();
    let from_local = |pit: &PitEntry| {
        let local = |r: &InRecord| faces.get(&r.face).is_some_and(|f| f.scope == Scope::Local);
        pit.in_records.iter().any(local)
    };
    // What may go to a face that is not local: hops left, and no scope that forbids it.
    let may_leave = slot.pit().is_some_and(|pit| {
        pit.hops_left > 0 && !name.starts_with(LOCALHOST) && (!name.starts_with(LOCALHOP) || from_local(pit))
    });
    move |n| {
        faces.get(&n.face).is_some_and(|face| {
            (n.face != ingress || face.link_type == LinkType::AdHoc) && (may_leave || face.scope == Scope::Local)
        })
    }
}
