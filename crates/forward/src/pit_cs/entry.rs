//! Entries of the PIT/CS and the slots that hold them.

use byname_lookup::prefetch;
use byname_wire::{FaceId, NackReason, NameRef, PitToken};
use smallvec::SmallVec;

use crate::dispatch::Place;
use crate::packet_pool::Packet;
use crate::pit_cs::prefix_index::NodeId;
use crate::ticks::Ticks;
use crate::whereabouts::SourceId;

/// A downstream that waits for Data.
#[derive(Debug, Clone)]
pub struct InRecord {
    /// The face that the Interest came from.
    pub face: FaceId,
    /// The latest nonce that it sent.
    pub nonce: u32,
    /// When it came last.
    pub arrived: Ticks,
    /// When the downstream stops waiting.
    pub expiry: Ticks,
    /// The token to echo in the answer.
    pub pit_token: PitToken,
}

/// An upstream that an Interest was sent to.
#[derive(Debug, Clone, Copy)]
pub struct OutRecord {
    /// The face that the Interest was sent to.
    pub face: FaceId,
    /// The latest nonce sent there.
    pub nonce: u32,
    /// When it was sent last.
    pub sent: Ticks,
    /// When the Interest expires for this upstream.
    pub expiry: Ticks,
    /// The reason of the upstream's Nack, if it refused.
    pub nacked: Option<NackReason>,
    /// Whether it was sent along a route, not to discover one (self-learning).
    pub non_discovery: bool,
}

/// A pending Interest.
#[derive(Debug)]
pub struct PitEntry {
    /// Whether Data below the name may answer.
    pub can_be_prefix: bool,
    /// Whether cached Data must be fresh to answer.
    pub must_be_fresh: bool,
    /// Number of components of the name.
    pub depth: u8,
    /// Whether the last component is an implicit digest.
    pub has_implicit_digest: bool,
    /// HopLimit of the slot's packet after this hop; the largest number if the packet has none.
    pub hops_left: u8,
    /// Nonce of the slot's packet, which is the latest that came.
    pub nonce: u32,
    /// Number of the strategy that serves it.
    pub strategy: u16,
    /// Whether a consumer chose where it was sent last (NextHopFaceId), not the FIB.
    pub directed: bool,
    /// Whether its latest packet still waits for its route.
    pub unrouted: bool,
    /// The source whose share of the PIT it uses: that of the first face that asked.
    pub source: SourceId,
    /// Whether its latest packet follows routes and discovers none (self-learning).
    pub non_discovery: bool,
    /// Whether a downstream wants to discover the route (self-learning).
    pub wants_announcement: bool,
    /// Hash of the FIB prefix that it was forwarded by: the key of measurements.
    pub prefix_hash: u64,
    /// When it leaves the PIT.
    pub expiry: Ticks,
    /// State that its strategy keeps; 0 at first.
    pub strategy_word: u64,
    /// Downstreams. The first of them asked first and stays as long as the entry.
    pub in_records: SmallVec<[InRecord; 1]>,
    /// Upstreams.
    pub out_records: SmallVec<[OutRecord; 1]>,
}

impl PitEntry {
    /// The face that asked first.
    pub fn owner(&self) -> FaceId {
        self.in_records[0].face
    }

    /// The record of an upstream.
    pub fn out_record(&self, face: FaceId) -> Option<&OutRecord> {
        self.out_records.iter().find(|r| r.face == face)
    }

    /// The latest time at which the Interest was sent to any upstream.
    pub fn last_sent(&self) -> Option<Ticks> {
        self.out_records.iter().map(|r| r.sent).max()
    }

    /// The record of a downstream.
    pub fn in_record(&self, face: FaceId) -> Option<&InRecord> {
        self.in_records.iter().find(|r| r.face == face)
    }
}

/// A cached Data packet.
#[derive(Debug)]
pub struct CsEntry {
    /// The time until which it satisfies MustBeFresh.
    pub fresh_until: Ticks,
    /// Whether it is in the shared store.
    pub(super) is_shared: bool,
    /// Its node in the prefix index.
    pub(super) node: NodeId,
}

/// The content of a slot.
#[derive(Debug, Default)]
pub enum Kind {
    /// Nothing.
    #[default]
    Free,
    /// A pending Interest; the slot's packet is the Interest.
    Pit(PitEntry),
    /// A cached Data packet, which is the slot's packet.
    Cs(CsEntry),
}

/// One place in the table: three cache lines, with room for one downstream and one upstream.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    /// Hash of the name.
    pub hash: u64,
    /// Offset of the name in the packet.
    pub name_start: u16,
    /// Length of the name in bytes.
    pub name_len: u16,
    /// Where its entry is counted as one of its name.
    pub(crate) home: Place,
    /// The Interest or Data, in the buffer that it was received into. Empty if the slot is free.
    pub packet: Packet,
    /// The entry of the PIT or the CS.
    pub kind: Kind,
}

const _: () = assert!(size_of::<Slot>() == 192);

impl Slot {
    /// Changes its kind. The old content is dropped first. Then the new kind needs no drop and is written directly in
    /// place, part by part. If it were built elsewhere and moved as a whole, it would be read back before its parts
    /// have reached the cache. The processor would wait for these and all earlier stores.
    #[inline(always)]
    pub(super) fn turn_into(&mut self, kind: Kind) {
        drop(std::mem::take(&mut self.kind));
        std::mem::forget(std::mem::replace(&mut self.kind, kind));
    }

    /// Prefetches the slot.
    pub fn prefetch(&self) {
        prefetch::read_all_soon(self);
    }

    /// Prefetches the name in the packet.
    pub fn prefetch_name(&self) {
        self.packet.prefetch(usize::from(self.name_start) + usize::from(self.name_len));
    }

    /// The bytes of the name.
    pub fn name_bytes(&self) -> &[u8] {
        let start = usize::from(self.name_start);
        self.packet.get(start..start + usize::from(self.name_len)).unwrap_or_default()
    }

    /// The name.
    pub fn name(&self) -> NameRef<'_> {
        NameRef::new_checked_before(self.name_bytes())
    }

    /// The pending Interest.
    pub fn pit(&self) -> Option<&PitEntry> {
        match &self.kind {
            Kind::Pit(entry) => Some(entry),
            _ => None,
        }
    }

    /// The name, and the pending Interest to change.
    pub fn pending_mut(&mut self) -> Option<(NameRef<'_>, &mut PitEntry)> {
        let start = usize::from(self.name_start);
        let name = self.packet.get(start..start + usize::from(self.name_len)).unwrap_or_default();
        match &mut self.kind {
            Kind::Pit(entry) => Some((NameRef::new_checked_before(name), entry)),
            _ => None,
        }
    }

    /// The pending Interest, to change.
    pub fn pit_mut(&mut self) -> Option<&mut PitEntry> {
        match &mut self.kind {
            Kind::Pit(entry) => Some(entry),
            _ => None,
        }
    }
}
