//! The content store's own part of the table: admission, eviction and limits of Data.

use std::sync::Arc;

use byname_wire::name_hash::{Digest, digest_name};
use byname_wire::{NameRef, NameView, PrefixHashes};

use super::index::Index;
use super::prefix_index::NodeId;
use super::{CsEntry, Kind, PitCs, Replacement, SlotId};
use crate::counters::CsInfo;
use crate::hot::{SharedReader, SharedStore};
use crate::packet::{NameRange, name_in};
use crate::packet_pool::Packet;
use crate::settings::packets_to_expect;
use crate::ticks::Ticks;

impl PitCs {
    /// State of the content store, without the numbers of hits and misses.
    pub fn cs_info(&self) -> CsInfo {
        CsInfo {
            packets_max: self.cs_packets_max as u64,
            admit: self.admit,
            serve: self.serve,
            packets: self.replacement.len() as u64,
            bytes: self.cs_bytes as u64,
            hits: 0,
            misses: 0,
        }
    }

    /// Puts Data into the content store, in place of `stored`, Data of the same name. `pending`, a satisfied PIT entry
    /// of the same name, becomes the CS entry; without one, a slot is added. `hashes` are those of the Data's name,
    /// which lies at `range`. Returns the slot, which may already be free again if the store is very small.
    pub fn admit(
        &mut self,
        hashes: &PrefixHashes,
        packet: Packet,
        range: NameRange,
        fresh_until: Ticks,
        pending: Option<SlotId>,
        stored: Option<SlotId>,
    ) -> SlotId {
        debug_assert!(self.admits());
        let mut was_shared = false;
        let name = NameView::from_filled(name_in(&packet, range), hashes);
        let (hash, digest) = (name.full_hash(), name.digest(name.len()));
        debug_assert_eq!(self.find_data_named(&name, name.len()), stored);
        if let Some(old) = stored {
            was_shared = self.unshare(old);
            self.remove(old);
        }
        self.cs_bytes += packet.memory_bytes();
        let slot = match pending {
            Some(slot) => {
                self.leave_pit(slot);
                let s = &mut self.slots[slot as usize];
                (s.packet, s.name_start, s.name_len) = (packet, range.start, range.len);
                slot
            }
            None => {
                let home = self.residence.as_ref().map(|residence| residence.enter_name(name_in(&packet, range)));
                let slot = self.allocate(hash, packet, range, home.unwrap_or_default());
                self.index.insert(hash, slot);
                slot
            }
        };
        let node = if self.prefix_index.is_kept() {
            let name = NameView::from_filled(self.slots[slot as usize].name(), hashes);
            self.prefix_index.insert(&name, slot, self.index_nodes_max())
        } else {
            NodeId::NONE
        };
        self.slots[slot as usize].turn_into(Kind::Cs(CsEntry { fresh_until, is_shared: false, node }));
        if was_shared {
            self.share(slot, digest);
        }
        self.replacement.insert(&mut self.links, slot, hash);
        self.evict();
        slot
    }

    /// Whether the content store admits Data at all.
    pub fn admits(&self) -> bool {
        self.admit && self.cs_packets_max > 0
    }

    /// Notes that the Data in `slot` answered an Interest.
    pub fn used(&mut self, slot: SlotId) {
        self.replacement.used(&mut self.links, slot);
    }

    /// Shares Data of hot names with other workers, through `store`.
    pub fn share_through(&mut self, store: Arc<SharedStore>) {
        self.shared_store = Some(SharedReader::new(store));
    }

    /// Data of this name from the shared store.
    pub fn shared_data(&mut self, name: Digest, bytes: &[u8], must_be_fresh: bool, now: Ticks) -> Option<Packet> {
        self.shared_store.as_mut().filter(|_| self.serve)?.get(name, bytes, must_be_fresh, now)
    }

    /// Number of Data packets that all workers share.
    pub fn shared_len(&self) -> u64 {
        self.shared_store.as_ref().map_or(0, |store| store.len())
    }

    /// Puts Data, whose name has this digest, into the shared store. Only the name's home may call this.
    pub fn share(&mut self, data: SlotId, name: Digest) {
        let Some(store) = &self.shared_store else { return };
        store.expect_turnover(self.packets_when_full());
        if store.contains(name) {
            return;
        }
        let slot = &mut self.slots[data as usize];
        let range = NameRange { start: slot.name_start, len: slot.name_len };
        if let Kind::Cs(cs) = &mut slot.kind {
            cs.is_shared |= store.insert(name, &slot.packet, range, cs.fresh_until);
        }
    }

    /// Number of Data packets in a full store, if further ones are as large as those that it has.
    fn packets_when_full(&self) -> usize {
        let bytes = self.cs_bytes.div_ceil(self.replacement.len().max(1)).max(1);
        self.cs_packets_max.min(self.cs_bytes_max / bytes)
    }

    /// Removes Data from the shared store. Returns whether it was there.
    pub(super) fn unshare(&mut self, data: SlotId) -> bool {
        let slot = &mut self.slots[data as usize];
        let Kind::Cs(cs) = &mut slot.kind else { return false };
        if !std::mem::take(&mut cs.is_shared) {
            return false;
        }
        let name = digest_name(&self.key, slot.name());
        self.shared_store.as_ref().is_some_and(|store| store.remove(name))
    }

    /// Changes limits and switches of the content store.
    pub fn cs_config(&mut self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) {
        self.admit = admit.unwrap_or(self.admit);
        self.serve = serve.unwrap_or(self.serve);
        if let Some(packets_max) = packets_max.filter(|p| *p != self.cs_packets_max) {
            self.cs_packets_max = packets_max;
            self.evict();
            self.resize();
        }
    }

    /// Erases up to `count_max` Data packets below a prefix. Returns how many it erased and whether more are left.
    pub fn erase(&mut self, prefix: NameRef<'_>, count_max: usize) -> (usize, bool) {
        let below = |s: &SlotId| self.cs(*s).is_some() && prefix.is_prefix_of(&self.slots[*s as usize].name());
        let mut found: Vec<SlotId> =
            (0..self.slots.len() as SlotId).filter(below).take(count_max.saturating_add(1)).collect();
        let more = found.len() > count_max;
        found.truncate(count_max);
        for &slot in &found {
            self.remove(slot);
        }
        (found.len(), more)
    }

    /// Evicts Data until the store is within its limits.
    pub(super) fn evict(&mut self) {
        while self.replacement.len() > self.cs_packets_max || self.cs_bytes > self.cs_bytes_max {
            let Some(slot) = self.replacement.victim(&mut self.links) else { return };
            if self.prefetch.is_on() {
                self.victims.prefetch_after(slot, &self.slots, &self.links, &self.index);
            }
            self.replacement.evicted(slot, self.slots[slot as usize].hash);
            self.remove(slot);
        }
    }

    /// Rebuilds the index and the replacement order for the current limits.
    fn resize(&mut self) {
        let packets = packets_to_expect(self.cs_packets_max, self.cs_bytes_max);
        // If there is no memory for new ones, the current ones continue to work, only slower.
        let Ok(index) = Index::new(self.pit_entries_max.saturating_add(packets)) else { return };
        let Ok(mut replacement) = Replacement::new(self.cs_policy, packets) else { return };
        self.index = index;
        for slot in 0..self.slots.len() as u32 {
            let hash = self.slots[slot as usize].hash;
            match self.slots[slot as usize].kind {
                Kind::Free => continue,
                Kind::Pit(_) => {}
                Kind::Cs(_) => {
                    self.replacement.remove(&mut self.links, slot);
                    replacement.insert(&mut self.links, slot, hash);
                }
            }
            self.index.insert(hash, slot);
        }
        self.replacement = replacement;
    }
}
