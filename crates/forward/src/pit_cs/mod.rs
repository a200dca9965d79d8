//! The PIT and the content store in one hash table [So §2.4].
//!
//! Both are keyed by the full name, so one lookup finds either. When Data answers an Interest of its own name, the slot
//! turns from a PIT entry into a CS entry and keeps its place in the index. The buffer that the Data was received into
//! becomes the slot's packet. So nothing is inserted, removed or copied [So §2.4, §2.5].
//!
//! Differs: entries of one name with different selectors have separate slots under one hash. A tree finds Data below a
//! prefix (`prefix_index`). When the PIT is full of entries, of downstreams, or of bytes, the source with the largest
//! share of it loses its oldest entry.

mod ahead;
mod content_store;
mod cs_policy;
mod entry;
mod free;
mod index;
mod limits;
mod list;
mod moving;
mod passing;
mod prefix_index;
mod shared;
mod shares;

use byname_lookup::memory::{self, Refused};
use byname_wire::name::component_type;
use byname_wire::name_hash::hash_name;
use byname_wire::{Component, NameHashKey, NameView, PrefixHashes};

pub use cs_policy::Replacement;
pub use entry::{CsEntry, InRecord, Kind, OutRecord, PitEntry, Slot};
pub use limits::PIT_BYTES_PER_ENTRY;
pub use moving::{Age, Moved, MovedEntry};

use crate::dispatch::{Home, Place, Residence, ShortNames};
use crate::hot::SharedReader;
use crate::packet::NameRange;
use crate::packet_pool::Packet;
use crate::settings::{CsPolicy, Prefetch, WorkerConfig, packets_to_expect};
use crate::ticks::Ticks;
use crate::whereabouts::SourceId;
use ahead::Ahead;
use free::FreeSlots;
use index::Index;
use list::Links;
use prefix_index::PrefixIndex;
use shares::Shares;

/// Maximum of nodes of the prefix index that one Interest may visit.
const PREFIX_WALK_MAX: usize = 64;

/// Number of prefix index nodes for each Data packet that the content store may hold. Names with common parents take
/// one or two nodes. Names without common parents take one for each component.
const NODES_PER_DATA: usize = 8;

/// Maximum of slots whose address space is reserved at the start. Memory comes as they are used.
pub(crate) const SLOTS_AHEAD_MAX: usize = 1 << 22;

/// Number of a slot.
pub type SlotId = u32;

/// The slots that an Interest finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// A pending Interest with the same name and selectors.
    pub pending: Option<SlotId>,
    /// Data that answers it.
    pub data: Option<SlotId>,
}

/// The slots that Data meets.
#[derive(Debug, Default)]
pub struct Met {
    /// Pending Interests that it answers.
    pub pending: Vec<SlotId>,
    /// Stored Data with the same name.
    pub stored: Option<SlotId>,
}

/// The PIT and the content store.
pub struct PitCs {
    /// Hashes full names, which no packet carries.
    key: NameHashKey,
    slots: Vec<Slot>,
    free: FreeSlots,
    index: Index,
    links: Links,
    shares: Shares,
    replacement: Replacement,
    prefix_index: PrefixIndex,
    pit_len: usize,
    pit_entries_max: usize,
    /// Memory of the Interests in the PIT, in bytes.
    pit_bytes: usize,
    /// Number of in-records beyond the first of each entry; the maximum is the maximum of entries.
    more_in_records: usize,
    /// Number of pending Interests with CanBePrefix.
    can_be_prefix: usize,
    /// Number of pending Interests with CanBePrefix, by depth of their names.
    can_be_prefix_at: Box<[u32]>,
    /// Shows other threads the pending short names; `None` for a worker that is alone.
    short_names: Option<ShortNames>,
    /// Claims the names of the entries; `None` for a worker whose names have their homes by a hash.
    residence: Option<Residence>,
    /// The store of Data that all workers see; `None` for a worker that is alone.
    shared_store: Option<SharedReader>,
    /// Number of pending Interests with an implicit digest.
    implicit_digests: usize,
    cs_bytes: usize,
    cs_bytes_max: usize,
    cs_packets_max: usize,
    cs_policy: CsPolicy,
    admit: bool,
    serve: bool,
    pub prefetch: Prefetch,
    /// The next Data packets to evict, which are prefetched.
    victims: Ahead,
    /// The next pending Interests to evict from a full PIT.
    pending_victims: Ahead,
    /// Whether entries may still come from an earlier table.
    is_filling: bool,
}

impl PitCs {
    /// An empty table.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(config: &WorkerConfig, key: NameHashKey) -> Result<Self, Refused> {
        let packets = packets_to_expect(config.cs_packets_max, config.cs_bytes_max);
        let entries = config.entries_max();
        Ok(PitCs {
            key,
            slots: memory::with_large_pages(entries.min(SLOTS_AHEAD_MAX))?,
            free: FreeSlots::default(),
            index: Index::new(entries)?,
            links: Links::default(),
            shares: Shares::default(),
            replacement: Replacement::new(config.cs_policy, packets)?,
            prefix_index: PrefixIndex::default(),
            pit_len: 0,
            pit_entries_max: config.pit_entries_max.max(1),
            pit_bytes: 0,
            more_in_records: 0,
            can_be_prefix: 0,
            can_be_prefix_at: vec![0; byname_wire::name::COMPONENTS_MAX + 1].into(),
            short_names: None,
            residence: None,
            shared_store: None,
            implicit_digests: 0,
            cs_bytes: 0,
            cs_bytes_max: config.cs_bytes_max,
            cs_packets_max: config.cs_packets_max,
            cs_policy: config.cs_policy,
            admit: true,
            serve: true,
            prefetch: Prefetch::default(),
            victims: Ahead::default(),
            pending_victims: Ahead::default(),
            is_filling: false,
        })
    }

    /// Lets other threads see, from now on, which short names with CanBePrefix are pending.
    pub fn share_short_names(&mut self, short_names: ShortNames) {
        debug_assert_eq!(self.pit_len, 0);
        self.short_names = Some(short_names);
    }

    /// Claims the names of entries from now on.
    pub fn claim_names(&mut self, residence: Residence) {
        debug_assert_eq!(self.pit_len, 0);
        self.residence = Some(residence);
    }

    /// Claims the names of entries, if that is wanted.
    pub fn residence(&self) -> Option<&Residence> {
        self.residence.as_ref()
    }

    /// As [`PitCs::residence`], to change.
    pub fn residence_mut(&mut self) -> Option<&mut Residence> {
        self.residence.as_mut()
    }

    /// Number of pending Interests.
    pub fn pit_len(&self) -> usize {
        self.pit_len
    }

    /// Number of buckets in the index's longest chain.
    #[cfg(feature = "lab")]
    pub fn longest_chain(&self) -> usize {
        self.index.longest_chain()
    }

    /// A slot.
    pub fn slot(&self, slot: SlotId) -> &Slot {
        &self.slots[slot as usize]
    }

    /// A slot, to change. Its kind and name must stay.
    pub fn slot_mut(&mut self, slot: SlotId) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Whether a pending Interest waits for its route.
    pub fn is_unrouted(&self, slot: SlotId) -> bool {
        self.slot(slot).pit().is_some_and(|pit| pit.unrouted)
    }

    /// Notes whether a pending Interest waits for its route.
    pub fn set_unrouted(&mut self, slot: SlotId, unrouted: bool) {
        if let Some(pit) = self.slot_mut(slot).pit_mut() {
            pit.unrouted = unrouted;
        }
    }

    /// The pending Interest with this name and these selectors.
    pub fn find_pit(&self, name: &NameView<'_>, can_be_prefix: bool, must_be_fresh: bool) -> Option<SlotId> {
        let bytes = name.name().value();
        self.index.find(name.full_hash(), |s| {
            let slot = &self.slots[s as usize];
            slot.hash == name.full_hash()
                && slot.pit().is_some_and(|p| p.can_be_prefix == can_be_prefix && p.must_be_fresh == must_be_fresh)
                && slot.name_bytes() == bytes
        })
    }

    /// Keeps the prefix index for a while, and builds it if there is none.
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

    /// Frees the prefix index after it was not used for a while. To be called regularly.
    pub fn drop_unused(&mut self, now: Ticks) {
        self.prefix_index.drop_unused(now);
    }

    /// Finds the slots for an Interest. One lookup finds the PIT entry and Data with exactly its name [So §2.4]. Then,
    /// if its selectors ask for it, further lookups find Data below the name or with one digest.
    pub fn find(&self, name: &NameView<'_>, can_be_prefix: bool, must_be_fresh: bool, now: Ticks) -> Found {
        let bytes = name.name().value();
        let mut found = Found::default();
        self.index.find(name.full_hash(), |s| {
            let slot = &self.slots[s as usize];
            if slot.hash != name.full_hash() || slot.name_bytes() != bytes {
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

    /// Data with another name that answers an Interest for this name.
    fn find_other_data(
        &self,
        name: &NameView<'_>,
        can_be_prefix: bool,
        must_be_fresh: bool,
        now: Ticks,
    ) -> Option<SlotId> {
        let answers = |s: u32| self.cs(s).is_some_and(|cs| !must_be_fresh || now < cs.fresh_until);
        if can_be_prefix {
            let bytes = name.name().value();
            let below = self.prefix_index.find(name.full_hash(), PREFIX_WALK_MAX, |s| {
                answers(s) && self.slots[s as usize].name_bytes().starts_with(bytes)
            });
            if below.is_some() {
                return below;
            }
        }
        let (depth, digest) = implicit_digest(name)?;
        self.find_data_named(name, depth).filter(|&s| answers(s) && self.digest(s) == digest)
    }

    /// Whether Data must also be looked up by the prefixes of its name. The answer is valid until the next Interest
    /// with CanBePrefix comes.
    pub fn wants_prefixes_of_data(&self) -> bool {
        self.can_be_prefix != 0 || self.prefix_index.is_kept() || self.is_filling
    }

    /// Whether Data below a prefix can be found.
    pub fn has_prefix_index(&self) -> bool {
        self.prefix_index.is_kept()
    }

    /// Whether Data whose name has this hash under the dispatchers' key may answer a pending Interest; false is certain.
    /// The answer is valid until the next Interest comes.
    pub fn may_satisfy(&self, hash: u64) -> bool {
        let has_key = self.short_names.as_ref().is_some_and(|names| names.has_key(&self.key));
        !has_key || self.wants_prefixes_of_data() || self.implicit_digests != 0 || self.first_candidate(hash).is_some()
    }

    /// Finds the pending Interests that Data of this name answers, and the stored Data that it replaces, in one lookup.
    /// Without [`PitCs::wants_prefixes_of_data`], the prefixes of the name need not be hashed.
    pub fn find_satisfied(&self, name: &NameView<'_>, data: &[u8], met: &mut Met) {
        let bytes = name.name().value();
        let Met { pending: found, stored } = met;
        found.clear();
        *stored = None;
        self.each_named(name.full_hash(), bytes, |s, kind| match kind {
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

    /// Replaces the packet of a pending Interest by another packet of the same Interest.
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

    /// Puts an Interest from `source` into the PIT. Its name has this home, if the worker claims names. `entry` makes the
    /// rest of its entry.
    #[inline]
    pub fn insert_pit(
        &mut self,
        hash: u64,
        packet: Packet,
        name: NameRange,
        (source, home): (SourceId, Home),
        entry: impl FnOnce() -> PitEntry,
    ) -> SlotId {
        self.pit_bytes += packet.memory_bytes();
        let home = self.residence.as_ref().map_or(Place::NONE, |residence| residence.enter(home));
        let slot = self.allocate(hash, packet, name, home);
        self.slots[slot as usize].turn_into(Kind::Pit(entry()));
        self.count_pit(slot, true);
        self.index.insert(hash, slot);
        self.shares.add(&mut self.links, source, slot);
        slot
    }

    /// Frees a slot.
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
        if let Some(residence) = &mut self.residence {
            residence.leave(s.home);
        }
        s.packet = Packet::empty();
        s.kind = Kind::Free;
        self.free.push(slot);
    }

    /// Slots of all pending Interests, in no particular order.
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
        let (hash, bytes) = (name.hash(depth), name.prefix(depth).value());
        self.index.find(hash, |s| {
            self.slots[s as usize].hash == hash && self.cs(s).is_some() && self.slots[s as usize].name_bytes() == bytes
        })
    }

    fn each_named(&self, hash: u64, bytes: &[u8], mut visit: impl FnMut(SlotId, &Kind)) {
        self.index.find(hash, |s| {
            let slot = &self.slots[s as usize];
            if slot.hash == hash && slot.name_bytes() == bytes {
                visit(s, &slot.kind);
            }
            false
        });
    }

    fn digest(&self, slot: SlotId) -> byname_wire::digest::Sha256Digest {
        byname_wire::digest::sha256(&[&self.slots[slot as usize].packet])
    }

    /// Takes a free slot for a packet, whose entry is counted at `home`. The caller sets its kind.
    fn allocate(&mut self, hash: u64, packet: Packet, name: NameRange, home: Place) -> SlotId {
        let slot = self.free.pop().unwrap_or_else(|| {
            let len = self.slots.len() + 1;
            memory::reserve(&mut self.slots, len);
            self.slots.push(Slot::default());
            (len - 1) as SlotId
        });
        let s = &mut self.slots[slot as usize];
        (s.hash, s.name_start, s.name_len, s.home) = (hash, name.start, name.len, home);
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
                Some(shared) if enters => shared.enters(depth, slot.name(), (&self.key, slot.hash)),
                Some(shared) => shared.leaves(depth, slot.name(), (&self.key, slot.hash)),
                None => {}
            }
        }
        self.implicit_digests = self.implicit_digests.wrapping_add(if entry.has_implicit_digest { one } else { 0 });
        self.pit_len = self.pit_len.wrapping_add(one);
    }

    /// Removes a PIT entry from everything except its slot and the index. The caller changes the slot's kind.
    fn leave_pit(&mut self, slot: SlotId) {
        self.count_pit(slot, false);
        let s = &self.slots[slot as usize];
        let Some(entry) = s.pit() else { unreachable!("it was counted as one") };
        self.more_in_records -= entry.in_records.len() - 1;
        self.pit_bytes -= s.packet.memory_bytes();
        self.shares.remove(&mut self.links, entry.source, slot);
    }

    fn index_nodes_max(&self) -> usize {
        packets_to_expect(self.cs_packets_max, self.cs_bytes_max).saturating_mul(NODES_PER_DATA).max(1024)
    }
}

/// The digest at the end of a full name, and the number of components before it.
fn implicit_digest<'a>(name: &NameView<'a>) -> Option<(usize, &'a [u8])> {
    if !name.ends_in_implicit_digest() {
        return None;
    }
    name.last().map(|last| (name.len() - 1, last.value))
}

#[cfg(test)]
mod tests;
