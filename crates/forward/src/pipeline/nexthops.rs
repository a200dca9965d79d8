//! The nexthops that a pending Interest may be sent to, and the strategy's choice among them.

use byname_lookup::EntryId;
use byname_wire::FaceId;

use crate::face_table::{FaceTable, LinkType, Scope};
use crate::packet::{LOCALHOP, LOCALHOST};
use crate::pipeline::interest::OwnRules;
use crate::pit_cs::{InRecord, PitCs, PitEntry, SlotId};
use crate::shard::Shard;
use crate::strategy::{Decision, Situation, Strategy};
use crate::tables::Nexthop;
use crate::ticks::Ticks;

impl Shard {
    /// Finds the nexthops of a FIB entry that the pending Interest may be sent to; none without an entry.
    pub(super) fn find_usable(&mut self, slot: SlotId, ingress: FaceId, entry: Option<EntryId>) {
        self.nexthops.clear();
        if let Some(entry) = entry {
            self.tables.nexthops(entry, &mut self.nexthops);
            if let Some(own) = self.own_rules(slot, ingress, entry) {
                self.follow_own_rules(own);
            }
        }
        self.nexthops.retain(is_usable(&self.table, &self.faces, slot, ingress));
    }

    /// An Interest that has crossed goes where this node's rules say. So does one that the other node refused, because all
    /// that it could do is to send it back.
    #[cold]
    fn follow_own_rules(&mut self, own: OwnRules) {
        if own.has_crossed {
            self.nexthops.clear();
        }
        let Some(entry) = own.entry else { return };
        let mut nexthops = Vec::new();
        self.tables.nexthops(entry, &mut nexthops);
        nexthops.retain(|own| self.nexthops.iter().all(|other| other.face != own.face));
        self.nexthops.append(&mut nexthops);
    }

    /// Lets the strategy of a pending Interest decide where to send it: `ask` calls the strategy. The caller carries
    /// out the decision, which is empty if the Interest is no longer pending. `entry` is the Interest's FIB entry.
    #[inline]
    pub(super) fn ask_strategy(
        &mut self,
        now: Ticks,
        slot: SlotId,
        ingress: FaceId,
        entry: Option<EntryId>,
        ask: impl FnOnce(&mut dyn Strategy, &mut Situation<'_>, &mut PitEntry, &mut Decision),
    ) {
        self.find_usable(slot, ingress, entry);
        self.decision.clear();
        let Some((name, pit)) = self.table.slot_mut(slot).pending_mut() else { return };
        let mut situation = Situation {
            now,
            name,
            nexthops: &self.nexthops,
            is_routed: entry.is_some(),
            prefix_hash: pit.prefix_hash,
            measurements: &mut self.measurements,
        };
        ask(self.strategies.strategy(usize::from(pit.strategy)), &mut situation, pit, &mut self.decision);
    }

    /// Whether a pending Interest that may be sent nowhere has nexthops but no hops left to reach them. Changes the
    /// entry, so the caller must remove it next.
    #[cold]
    pub(super) fn dies_of_hop_limit(&mut self, slot: SlotId, ingress: FaceId, entry: Option<EntryId>) -> bool {
        let Some(pit) = self.table.slot_mut(slot).pit_mut().filter(|pit| pit.hops_left == 0) else { return false };
        pit.hops_left = 1;
        self.find_usable(slot, ingress, entry);
        !self.nexthops.is_empty()
    }
}

/// Whether a pending Interest may be sent to a nexthop.
pub(super) fn is_usable(table: &PitCs, faces: &FaceTable, slot: SlotId, ingress: FaceId) -> impl Fn(&Nexthop) -> bool {
    let slot = table.slot(slot);
    let name = slot.name_bytes();
    let from_local = |pit: &PitEntry| {
        let local = |r: &InRecord| faces.get(&r.face).is_some_and(|f| f.scope == Scope::Local);
        pit.in_records.iter().any(local)
    };
    // A packet may leave to a non-local face if it has hops left and its scope does not forbid it.
    let may_leave = slot.pit().is_some_and(|pit| {
        pit.hops_left > 0 && !name.starts_with(LOCALHOST) && (!name.starts_with(LOCALHOP) || from_local(pit))
    });
    move |n| {
        faces.get(&n.face).is_some_and(|face| {
            (n.face != ingress || face.link_type == LinkType::AdHoc) && (may_leave || face.scope == Scope::Local)
        })
    }
}
