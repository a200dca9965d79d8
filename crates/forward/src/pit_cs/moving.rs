//! Entries on their way from one table to another: see `shard::exchange`.
//!
//! They move newest first, each to the end of its new order. So entries keep their order, and those that came in the
//! meantime stay before them. If the new table is smaller, the least valuable Data has no room.

use byname_wire::{NameView, PrefixHashes};

use super::free::FreeSlots;
use super::prefix_index::NodeId;
use super::{CsEntry, Kind, PitCs, PitEntry, Slot, SlotId};
use crate::dispatch::Place;
use crate::packet::NameRange;
use crate::packet_pool::Packet;
use crate::ticks::Ticks;

/// The place of an entry in the order of its new table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// A packet asks for it now.
    Newest,
    /// Its turn to move has come.
    Oldest,
}

/// An entry that was taken out of a table.
pub struct Moved {
    /// Hash of its name in that table.
    pub hash: u64,
    /// The Interest or Data.
    pub packet: Packet,
    /// The name in the packet.
    pub range: NameRange,
    /// Where the entry is counted.
    pub(crate) home: Place,
    /// The rest.
    pub entry: MovedEntry,
}

/// The kinds of entries.
pub enum MovedEntry {
    /// A pending Interest.
    Pending(PitEntry),
    /// Cached Data.
    Data {
        /// As [`CsEntry::fresh_until`].
        fresh_until: Ticks,
        /// Whether it was used again.
        in_main: bool,
        /// Whether other workers could answer with it.
        was_shared: bool,
    },
}

impl PitCs {
    /// Makes room for this many entries, so that the first of them need not wait for the system's memory.
    pub fn make_room(&mut self, entries: usize) {
        debug_assert!(self.slots.is_empty());
        self.links.make_room(entries);
        self.slots.resize_with(entries, Slot::default);
        self.free = FreeSlots::below(entries);
    }

    /// Takes the place of a table whose entries will come.
    pub fn succeed(&mut self, old: &mut PitCs) {
        self.short_names = old.short_names.clone();
        old.pass_claims(self);
        self.shared_store = old.shared_store.clone();
        (self.admit, self.serve, self.prefetch) = (old.admit, old.serve, old.prefetch);
        self.is_filling = true;
    }

    /// From now on, `other` counts the entries of names, which also counts those of this table.
    pub fn pass_claims(&mut self, other: &mut PitCs) {
        other.residence = self.residence.take();
    }

    /// No more entries will come.
    pub fn is_filled(&mut self) {
        self.is_filling = false;
    }

    /// The next entry to move: a pending Interest, or Data if none is left. Nothing is added to this table any more.
    pub fn next_to_move(&mut self) -> Option<SlotId> {
        let data = || self.replacement.most_valuable().map(|(slot, _)| slot);
        self.shares.newest().or_else(data)
    }

    /// Takes an entry out.
    pub fn take(&mut self, slot: SlotId) -> Option<Moved> {
        let entry = match &self.slots[slot as usize].kind {
            Kind::Free => return None,
            Kind::Pit(_) => {
                self.leave_pit(slot);
                match std::mem::take(&mut self.slots[slot as usize].kind) {
                    Kind::Pit(entry) => MovedEntry::Pending(entry),
                    _ => unreachable!("seen above"),
                }
            }
            Kind::Cs(cs) => {
                let (fresh_until, node) = (cs.fresh_until, cs.node);
                let was_shared = self.unshare(slot);
                let in_main = self.replacement.is_in_main(slot);
                self.prefix_index.remove(node);
                self.replacement.remove(&mut self.links, slot);
                self.cs_bytes -= self.slots[slot as usize].packet.memory_bytes();
                MovedEntry::Data { fresh_until, in_main, was_shared }
            }
        };
        let s = &mut self.slots[slot as usize];
        s.kind = Kind::Free;
        let (hash, home, packet) = (s.hash, s.home, std::mem::take(&mut s.packet));
        let range = NameRange { start: s.name_start, len: s.name_len };
        self.index.remove(hash, slot);
        self.free.push(slot);
        Some(Moved { hash, packet, range, home, entry })
    }

    /// Whether there is room for this many further downstreams besides the first of an entry.
    pub fn has_room_for_downstreams(&self, further: usize) -> bool {
        self.more_in_records + further <= self.pit_entries_max
    }

    /// The pending Interest to evict where there is no room for downstreams.
    pub fn oldest_of_largest(&mut self) -> Option<SlotId> {
        self.shares.oldest_of_largest()
    }

    /// Adds a pending Interest from another table. There is room for it.
    pub(crate) fn adopt_pending(
        &mut self,
        hash: u64,
        packet: Packet,
        (range, home): (NameRange, Place),
        entry: PitEntry,
        age: Age,
    ) -> SlotId {
        let source = entry.source;
        self.pit_bytes += packet.memory_bytes();
        self.more_in_records += entry.in_records.len() - 1;
        let slot = self.allocate(hash, packet, range, home);
        self.slots[slot as usize].turn_into(Kind::Pit(entry));
        self.count_pit(slot, true);
        self.index.insert(hash, slot);
        match age {
            Age::Newest => self.shares.add(&mut self.links, source, slot),
            Age::Oldest => self.shares.add_oldest(&mut self.links, source, slot),
        }
        slot
    }

    /// Adds Data from another table. Returns its slot, unless there is no room for it.
    pub(crate) fn adopt_data(
        &mut self,
        hash: u64,
        packet: Packet,
        (range, home): (NameRange, Place),
        (fresh_until, in_main): (Ticks, bool),
        age: Age,
    ) -> Option<SlotId> {
        let is_full =
            self.replacement.len() >= self.cs_packets_max || self.cs_bytes + packet.memory_bytes() > self.cs_bytes_max;
        if is_full && age == Age::Oldest {
            if let Some(residence) = &mut self.residence {
                residence.leave(home);
            }
            return None;
        }
        self.cs_bytes += packet.memory_bytes();
        let slot = self.allocate(hash, packet, range, home);
        self.index.insert(hash, slot);
        let mut node = NodeId::NONE;
        if self.prefix_index.is_kept() {
            let (mut hashes, nodes_max) = (PrefixHashes::default(), self.index_nodes_max());
            let name = NameView::new(&self.key, self.slots[slot as usize].name(), &mut hashes);
            node = self.prefix_index.insert(&name, slot, nodes_max);
        }
        self.slots[slot as usize].turn_into(Kind::Cs(CsEntry { fresh_until, is_shared: false, node }));
        match age {
            Age::Newest => self.replacement.insert(&mut self.links, slot, hash),
            Age::Oldest => self.replacement.insert_oldest(&mut self.links, slot, in_main),
        }
        self.evict();
        matches!(self.slots[slot as usize].kind, Kind::Cs(_)).then_some(slot)
    }

    /// The entries with exactly this name.
    pub fn entries_named(&self, name: &NameView<'_>, mut visit: impl FnMut(SlotId)) {
        self.each_named(name.full_hash(), name.name().value(), |slot, _| visit(slot));
    }
}
