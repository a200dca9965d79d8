//! What a slot of the PIT/CS holds.

use byname_lookup::prefetch;
use byname_wire::{FaceId, NackReason, NameRef, PitToken};
use smallvec::SmallVec;

use crate::packet_pool::Packet;
use crate::pit_cs::prefix_index::NodeId;
use crate::ticks::Ticks;

/// A downstream that waits for Data.
#[derive(Debug, Clone)]
pub struct InRecord {
    /// Where the Interest came from.
    pub face: FaceId,
    /// Its latest nonce.
    pub nonce: u32,
    /// When it came last.
    pub arrived: Ticks,
    /// When the downstream stops waiting.
    pub expiry: Ticks,
    /// What to echo with the answer.
    pub pit_token: PitToken,
}

/// An upstream that was asked.
#[derive(Debug, Clone, Copy)]
pub struct OutRecord {
    /// Where the Interest was sent.
    pub face: FaceId,
    /// Its latest nonce there.
    pub nonce: u32,
    /// When it was sent last.
    pub sent: Ticks,
    /// When the Interest is over for this upstream.
    pub expiry: Ticks,
    /// What the upstream answered, if it refused.
    pub nacked: Option<NackReason>,
}

/// A pending Interest.
#[derive(Debug)]
pub struct PitEntry {
    /// Data below the name may answer.
    pub can_be_prefix: bool,
    /// Cached Data must be fresh to answer.
    pub must_be_fresh: bool,
    /// Components of the name.
    pub depth: u8,
    /// The last component is an implicit digest.
    pub has_implicit_digest: bool,
    /// HopLimit of the slot's packet after this hop; the largest number when it has none.
    pub hops_left: u8,
    /// Nonce of the slot's packet, which is the latest that came.
    pub nonce: u32,
    /// Number of the strategy that serves it.
    pub strategy: u16,
    /// It was sent last where a consumer said (NextHopFaceId), not where the FIB says.
    pub directed: bool,
    /// The FIB has not been asked yet where its latest packet is to go.
    pub unrouted: bool,
    /// Hash of the FIB prefix it was forwarded by: the key of measurements.
    pub prefix_hash: u64,
    /// When it leaves the PIT.
    pub expiry: Ticks,
    /// Length of the present suppression interval of its strategy, in ns; 0 before the first.
    pub suppression_ns: u64,
    /// Downstreams, the first that asked first. There is one, and none leaves before the entry.
    pub in_records: SmallVec<[InRecord; 1]>,
    /// Upstreams.
    pub out_records: SmallVec<[OutRecord; 1]>,
}

impl PitEntry {
    /// The face whose share of the PIT it takes: the first that asked.
    pub fn owner(&self) -> FaceId {
        self.in_records[0].face
    }

    /// The record of an upstream.
    pub fn out_record(&self, face: FaceId) -> Option<&OutRecord> {
        self.out_records.iter().find(|r| r.face == face)
    }

    /// The latest time at which the Interest was sent anywhere.
    pub fn last_sent(&self) -> Option<Ticks> {
        self.out_records.iter().map(|r| r.sent).max()
    }

    /// The record of a downstream.
    pub fn in_record(&self, face: FaceId) -> Option<&InRecord> {
        self.in_records.iter().find(|r| r.face == face)
    }
}

/// A cached Data.
#[derive(Debug)]
pub struct CsEntry {
    /// Until when it satisfies MustBeFresh.
    pub fresh_until: Ticks,
    /// It was put where all workers see it.
    pub(super) is_shared: bool,
    /// Its place in the prefix index.
    pub(super) node: NodeId,
}

/// What a slot is.
#[derive(Debug, Default)]
pub enum Kind {
    /// Nothing.
    #[default]
    Free,
    /// A pending Interest; the slot's packet is the Interest.
    Pit(PitEntry),
    /// A cached Data; the slot's packet is the Data.
    Cs(CsEntry),
}

/// One place in the table: three cache lines, with room for one downstream and one upstream.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    /// Hash of the name.
    pub hash: u64,
    /// Where the name stands in the packet.
    pub name_start: u16,
    /// Octets of the name.
    pub name_len: u16,
    /// The Interest or Data; its buffer is the one it was received into. Empty when the slot is free.
    pub packet: Packet,
    /// PIT or CS.
    pub kind: Kind,
}

const _: () = assert!(size_of::<Slot>() == 192);

impl Slot {
    /// Makes it another kind. What it was is dropped first, so that nothing has to be dropped when the new kind
    /// comes: that is then written where it stays, part by part. Put together elsewhere and moved as a whole, it would
    /// be read back before its parts have reached the cache, and a processor waits until they and all stores before
    /// them have.
    #[inline(always)]
    pub(super) fn turn_into(&mut self, kind: Kind) {
        drop(std::mem::take(&mut self.kind));
        std::mem::forget(std::mem::replace(&mut self.kind, kind));
    }

    /// Asks the memory for the slot.
    pub fn prefetch(&self) {
        prefetch::read_all_soon(self);
    }

    /// Asks the memory for the name in the packet.
    pub fn prefetch_name(&self) {
        self.packet.prefetch(usize::from(self.name_start) + usize::from(self.name_len));
    }

    /// The name in octets.
    pub fn name_octets(&self) -> &[u8] {
        let start = usize::from(self.name_start);
        self.packet.get(start..start + usize::from(self.name_len)).unwrap_or_default()
    }

    /// The name.
    pub fn name(&self) -> NameRef<'_> {
        NameRef::new_checked_before(self.name_octets())
    }

    /// The pending Interest.
    pub fn pit(&self) -> Option<&PitEntry> {
        match &self.kind {
            Kind::Pit(entry) => Some(entry),
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
