//! The PIT and the content store in one hash table [So §2.4].
//!
//! Both are keyed by the full name, so that one lookup finds whichever is there. When Data
//! answers an Interest of its own name, the slot stays where it is in the index and turns from a
//! PIT entry into a CS entry, and the buffer that the Data was received into becomes the slot's
//! packet: nothing is inserted, removed or copied [So §2.4, §2.5].
//!
//! Differs: entries of one name with different selectors stand beside each other under one hash,
//! a tree finds Data below a prefix (`prefix_index`), and when the PIT is full, the face with the
//! largest share of it loses its oldest entry. It is full of entries, of downstreams, or of bytes.

mod ahead;
mod content_store;
mod cs_policy;
mod entry;
mod index;
mod limits;
mod list;
mod prefix_index;
mod shares;

use std::sync::Arc;

use byname_lookup::memory;
use byname_wire::name::component_type;
use byname_wire::name_hash::hash_name;
use byname_wire::{Component, FaceId, NameHashKey, NameView, PrefixHashes};

pub use cs_policy::Replacement;
pub use entry::{CsEntry, InRecord, Kind, OutRecord, PitEntry, Slot};

use crate::dispatch::ShortNames;
use crate::hot::SharedStore;
use crate::packet_pool::{MIN_BUFFER_BYTES, Packet};
use crate::ticks::Ticks;
use crate::worker::{CsPolicy, Prefetch, WorkerConfig};
use ahead::Ahead;
use index::Index;
use list::Links;
use prefix_index::PrefixIndex;
use shares::Shares;

/// Nodes of the prefix index that one Interest may walk.
const PREFIX_WALK_MAX: usize = 64;

/// Nodes of the prefix index for each Data that the content store may hold. Siblings take one or
/// two; names that are strangers to each other, one for each component.
const NODES_PER_DATA: usize = 8;

/// Slots for which address space is set aside at start; memory comes as they are used.
const SLOTS_AHEAD_MAX: usize = 1 << 22;

/// A slot's number.
pub type SlotId = u32;

/// What the table has for an Interest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// An Interest of the same name and selectors is pending.
    pub pending: Option<SlotId>,
    /// Data that answers it.
    pub data: Option<SlotId>,
}

/// What Data meets in the table.
#[derive(Debug, Default)]
pub struct Met {
    /// Pending Interests that it answers.
    pub pending: Vec<SlotId>,
    /// Data of the same name.
    pub stored: Option<SlotId>,
}

/// A name within a packet.
#[derive(Debug, Clone, Copy)]
pub struct NameRange {
    /// First octet of the name's TLV-VALUE in the packet.
    pub start: u16,
    /// Octets of the TLV-VALUE.
    pub len: u16,
}

/// The table.
pub struct PitCs {
    /// For the hash of full names, which no packet carries.
    key: NameHashKey,
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    index: Index,
    links: Links,
    shares: Shares,
    replacement: Replacement,
    prefix_index: PrefixIndex,
    pit_len: usize,
    pit_entries_max: usize,
    /// Memory of the Interests in the PIT.
    pit_bytes: usize,
    /// In-records beyond the first of each entry; as many are allowed as entries are.
    more_in_records: usize,
    /// Pending Interests with CanBePrefix.
    can_be_prefix: usize,
    /// The same by components of their names.
    can_be_prefix_at: Box<[u32]>,
    /// Where other threads see those of short names, if there are others.
    short_names: Option<ShortNames>,
    /// Data that other workers see, if there are others.
    shared_store: Option<Arc<SharedStore>>,
    /// Pending Interests for one Data by its digest.
    implicit_digests: usize,
    cs_bytes: usize,
    cs_bytes_max: usize,
    cs_packets_max: usize,
    cs_policy: CsPolicy,
    admit: bool,
    serve: bool,
    /// Whether memory is asked for ahead.
    prefetches: bool,
    /// Data that will have to leave as long as nobody asks for it: what is asked for ahead.
    victims: Ahead,
    /// The same of pending Interests, where the PIT is full.
    pending_victims: Ahead,
}

impl PitCs {
    /// An empty table.
    pub fn new(config: &WorkerConfig, key: NameHashKey) -> Self {
        let packets = packets_to_expect(config.cs_packets_max, config.cs_bytes_max);
        let entries = config.pit_entries_max.saturating_add(packets);
        PitCs {
            key,
            slots: memory::with_large_pages(entries.min(SLOTS_AHEAD_MAX)),
            free: Vec::new(),
            index: Index::new(entries),
            links: Links::default(),
            shares: Shares::default(),
            replacement: Replacement::new(config.cs_policy, packets),
            prefix_index: PrefixIndex::default(),
            pit_len: 0,
            pit_entries_max: config.pit_entries_max.max(1),
            pit_bytes: 0,
            more_in_records: 0,
            can_be_prefix: 0,
            can_be_prefix_at: vec![0; byname_wire::name::COMPONENTS_MAX + 1].into(),
            short_names: None,
            shared_store: None,
            implicit_digests: 0,
            cs_bytes: 0,
            cs_bytes_max: config.cs_bytes_max,
            cs_packets_max: config.cs_packets_max,
            cs_policy: config.cs_policy,
            admit: true,
            serve: true,
            prefetches: config.prefetch != Prefetch::None,
            victims: Ahead::default(),
            pending_victims: Ahead::default(),
        }
    }

    /// Lets other threads see which short names with CanBePrefix are pending, from now on.
    pub fn share_short_names(&mut self, short_names: ShortNames) {
        debug_assert_eq!(self.pit_len, 0);
        self.short_names = Some(short_names);
    }

    /// Pending Interests.
    pub fn pit_len(&self) -> usize {
        self.pit_len
    }

    /// Buckets of the index's longest chain.
    pub fn longest_chain(&self) -> usize {
        self.index.longest_chain()
    }

    /// A slot.
    pub fn slot(&self, slot: SlotId) -> &Slot {
        &self.slots[slot as usize]
    }

    /// A slot, to change; its kind and name must stay.
    pub fn slot_mut(&mut self, slot: SlotId) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Whether a pending Interest waits for the FIB.
    pub fn is_unrouted(&self, slot: SlotId) -> bool {
        self.slot(slot).pit().is_some_and(|pit| pit.unrouted)
    }

    /// Notes that a pending Interest waits for the FIB, or does no longer.
    pub fn set_unrouted(&mut self, slot: SlotId, unrouted: bool) {
        if let Some(pit) = self.slot_mut(slot).pit_mut() {
            pit.unrouted = unrouted;
        }
    }

    /// The pending Interest of this name and these selectors.
    pub fn find_pit(&self, name: &NameView<'_>, can_be_prefix: bool, must_be_fresh: bool) -> Option<SlotId> {
        let octets = name.name().value();
        self.index.find(name.full_hash(), |s| {
            let slot = &self.slots[s as usize];
            slot.hash == name.full_hash()
                && slot.pit().is_some_and(|p| p.can_be_prefix == can_be_prefix && p.must_be_fresh == must_be_fresh)
                && slot.name_octets() == octets
        })
    }

    /// Sees to it that Data is found by prefix, now and for a while.
    pub fn keep_prefix_index(&mut self, now: Ticks) {
        if !self.prefix_index.keep(now) {
            return;
        }
        let nodes_max = self.index_nodes_max();
        let mut hashes = PrefixHashes::default();
        for slot in 0..self.slots.len() as SlotId {
            let place = &self.slots[slot as usize];
            if matches!(place.kind, Kind::Cs(_)) {
                let name = NameView::new(&self.key, place.name(), &mut hashes);
                let node = self.prefix_index.insert(&name, slot, nodes_max);
                if let Kind::Cs(cs) = &mut self.slots[slot as usize].kind {
                    cs.node = node;
                }
            }
        }
    }

    /// Frees what has been of no use for a while. To be called now and then.
    pub fn drop_unused(&mut self, now: Ticks) {
        self.prefix_index.drop_unused(now);
    }

    /// What there is for an Interest: one lookup for the PIT and for Data of just its name
    /// [So §2.4]; then, where its selectors ask for it, Data below the name or of one digest.
    pub fn find(&self, name: &NameView<'_>, can_be_prefix: bool, must_be_fresh: bool, now: Ticks) -> Found {
        let octets = name.name().value();
        let mut found = Found::default();
        self.index.find(name.full_hash(), |s| {
            let slot = &self.slots[s as usize];
            if slot.hash != name.full_hash() || slot.name_octets() != octets {
                return false;
            }
            match &slot.kind {
                Kind::Pit(p) if p.can_be_prefix == can_be_prefix && p.must_be_fresh == must_be_fresh => {
                    found.pending = Some(s);
                }
                Kind::Cs(cs) if self.serve && (!must_be_fresh || now < cs.fresh_until) => found.data = Some(s),
                _ => {}
            }
            false
        });
        if found.data.is_none() && self.serve {
            found.data = self.find_other_data(name, can_be_prefix, must_be_fresh, now);
        }
        found
    }

    /// Data that answers an Interest of this name and has another.
    fn find_other_data(
        &self,
        name: &NameView<'_>,
        can_be_prefix: bool,
        must_be_fresh: bool,
        now: Ticks,
    ) -> Option<SlotId> {
        let answers = |s: u32| self.cs(s).is_some_and(|cs| !must_be_fresh || now < cs.fresh_until);
        if can_be_prefix {
            let octets = name.name().value();
            let below = self.prefix_index.find(name.full_hash(), PREFIX_WALK_MAX, |s| {
                answers(s) && self.slots[s as usize].name_octets().starts_with(octets)
            });
            if below.is_some() {
                return below;
            }
        }
        let (depth, digest) = implicit_digest(name)?;
        self.find_data_named(name, depth).filter(|&s| answers(s) && self.digest(s) == digest)
    }

    /// Whether Data's prefixes are looked up, beside its whole name, as long as no Interest with
    /// CanBePrefix comes.
    pub fn wants_prefixes_of_data(&self) -> bool {
        self.can_be_prefix != 0 || self.prefix_index.is_kept()
    }

    /// Finds the pending Interests that Data of this name answers, and the Data whose place it takes:
    /// one lookup for both. Without [`PitCs::wants_prefixes_of_data`], the name's prefixes need not have
    /// been hashed.
    pub fn find_satisfied(&self, name: &NameView<'_>, data: &[u8], met: &mut Met) {
        let octets = name.name().value();
        let Met { pending: found, stored } = met;
        found.clear();
        *stored = None;
        self.each_named(name.full_hash(), octets, |s, kind| match kind {
            Kind::Pit(_) => found.push(s),
            Kind::Cs(_) => *stored = Some(s),
            Kind::Free => {}
        });
        let depths = if self.can_be_prefix == 0 { 0 } else { name.len() };
        for depth in (0..depths).filter(|depth| self.can_be_prefix_at[*depth] != 0) {
            self.each_named(name.hash(depth), name.prefix(depth).value(), |s, kind| {
                if matches!(kind, Kind::Pit(pit) if pit.can_be_prefix) {
                    found.push(s);
                }
            });
        }
        if self.implicit_digests != 0 {
            let digest = byname_wire::digest::sha256(&[data]);
            let component = Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest };
            let full_name = name.name().to_name().join(component);
            self.each_named(hash_name(&self.key, full_name.as_ref()), full_name.value(), |s, kind| {
                if matches!(kind, Kind::Pit(_)) {
                    found.push(s);
                }
            });
        }
    }

    /// Puts another packet of the same Interest in the place of the one there is.
    pub fn replace_interest(&mut self, slot: SlotId, packet: Packet, name_start: u16) {
        self.pit_bytes += packet.memory_bytes();
        let s = &mut self.slots[slot as usize];
        s.name_start = name_start;
        self.pit_bytes -= std::mem::replace(&mut s.packet, packet).memory_bytes();
    }

    /// Adds a downstream to a pending Interest.
    pub fn add_in_record(&mut self, slot: SlotId, record: InRecord) {
        if let Some(pit) = self.slots[slot as usize].pit_mut() {
            pit.in_records.push(record);
            self.more_in_records += 1;
        }
    }

    /// Puts an Interest into the PIT; `entry` tells what else is known of it, of which `owner` is the
    /// owner.
    #[inline]
    pub fn insert_pit(
        &mut self,
        hash: u64,
        packet: Packet,
        name: NameRange,
        owner: FaceId,
        entry: impl FnOnce() -> PitEntry,
    ) -> SlotId {
        self.pit_bytes += packet.memory_bytes();
        let slot = self.allocate(hash, packet, name);
        self.slots[slot as usize].turn_into(Kind::Pit(entry()));
        self.count_pit(slot, true);
        self.index.insert(hash, slot);
        self.shares.add(&mut self.links, owner, slot);
        slot
    }

    /// Empties a slot.
    pub fn remove(&mut self, slot: SlotId) {
        match &self.slots[slot as usize].kind {
            Kind::Pit(_) => self.leave_pit(slot),
            Kind::Cs(cs) => {
                let node = cs.node;
                self.unshare(slot);
                self.prefix_index.remove(node);
                self.replacement.remove(&mut self.links, slot);
                self.cs_bytes -= self.slots[slot as usize].packet.memory_bytes();
            }
            Kind::Free => return,
        }
        self.index.remove(self.slots[slot as usize].hash, slot);
        let s = &mut self.slots[slot as usize];
        s.packet = Packet::empty();
        s.kind = Kind::Free;
        self.free.push(slot);
    }

    /// Slots of all pending Interests, in no order.
    pub fn pending(&self) -> impl Iterator<Item = SlotId> + '_ {
        (0..self.slots.len() as u32).filter(|&s| self.slots[s as usize].pit().is_some())
    }

    fn cs(&self, slot: SlotId) -> Option<&CsEntry> {
        match &self.slots[slot as usize].kind {
            Kind::Cs(entry) => Some(entry),
            _ => None,
        }
    }

    /// The Data whose name is the first `depth` components of `name`.
    fn find_data_named(&self, name: &NameView<'_>, depth: usize) -> Option<SlotId> {
        let (hash, octets) = (name.hash(depth), name.prefix(depth).value());
        self.index.find(hash, |s| {
            self.slots[s as usize].hash == hash
                && self.cs(s).is_some()
                && self.slots[s as usize].name_octets() == octets
        })
    }

    fn each_named(&self, hash: u64, octets: &[u8], mut visit: impl FnMut(SlotId, &Kind)) {
        self.index.find(hash, |s| {
            let slot = &self.slots[s as usize];
            if slot.hash == hash && slot.name_octets() == octets {
                visit(s, &slot.kind);
            }
            false
        });
    }

    fn digest(&self, slot: SlotId) -> byname_wire::digest::Sha256Digest {
        byname_wire::digest::sha256(&[&self.slots[slot as usize].packet])
    }

    /// A free slot, for a packet whose kind the caller sets.
    fn allocate(&mut self, hash: u64, packet: Packet, name: NameRange) -> SlotId {
        let slot = self.free.pop().unwrap_or_else(|| {
            let len = self.slots.len() + 1;
            memory::reserve(&mut self.slots, len);
            self.slots.push(Slot::default());
            (len - 1) as SlotId
        });
        let s = &mut self.slots[slot as usize];
        (s.hash, s.name_start, s.name_len) = (hash, name.start, name.len);
        s.packet.fill(packet);
        slot
    }

    fn count_pit(&mut self, slot: SlotId, enters: bool) {
        let slot = &self.slots[slot as usize];
        let Some(entry) = slot.pit() else { unreachable!("the caller has a PIT entry") };
        let one = if enters { 1 } else { usize::MAX };
        if entry.can_be_prefix {
            let depth = usize::from(entry.depth);
            let at = &mut self.can_be_prefix_at[depth];
            *at = if enters { *at + 1 } else { *at - 1 };
            self.can_be_prefix = self.can_be_prefix.wrapping_add(one);
            match &self.short_names {
                Some(shared) if enters => shared.enters(depth, slot.hash),
                Some(shared) => shared.leaves(depth, slot.hash),
                None => {}
            }
        }
        self.implicit_digests = self.implicit_digests.wrapping_add(if entry.has_implicit_digest { one } else { 0 });
        self.pit_len = self.pit_len.wrapping_add(one);
    }

    /// Undoes what a PIT entry has beside its slot and its place in the index. The caller changes its kind.
    fn leave_pit(&mut self, slot: SlotId) {
        self.count_pit(slot, false);
        let s = &self.slots[slot as usize];
        let Some(entry) = s.pit() else { unreachable!("it was counted as one") };
        self.more_in_records -= entry.in_records.len() - 1;
        self.pit_bytes -= s.packet.memory_bytes();
        self.shares.remove(&mut self.links, entry.owner(), slot);
    }

    fn index_nodes_max(&self) -> usize {
        packets_to_expect(self.cs_packets_max, self.cs_bytes_max).saturating_mul(NODES_PER_DATA).max(1024)
    }
}

/// Data that a content store within these limits may come to hold.
fn packets_to_expect(packets_max: usize, bytes_max: usize) -> usize {
    packets_max.min(bytes_max / MIN_BUFFER_BYTES).min(1 << 24)
}

/// The digest at the end of a full name, and the components before it.
fn implicit_digest<'a>(name: &NameView<'a>) -> Option<(usize, &'a [u8])> {
    if !name.ends_in_implicit_digest() {
        return None;
    }
    name.last().map(|last| (name.len() - 1, last.value))
}

#[cfg(test)]
mod tests;
