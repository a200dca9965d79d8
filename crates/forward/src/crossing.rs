//! Packets on their way from one thread to another, in as few cache lines as possible.
//!
//! A thread that hands a packet over has its cache line, and the other thread needs it: each line crosses between two
//! processors. So a [`Parcel`] is one line, and a [`Departure`] is no more. A packet's rare link fields, and long PIT
//! tokens, travel in a box.

use byname_wire::interest::HopLimit;
use byname_wire::{FaceId, PitToken};

use crate::packet::{Copies, DataInfo, InterestInfo, NameRange, Parsed};
use crate::packet_pool::Packet;
use crate::port::{LinkFields, Outgoing, Received};

/// Bytes of a packet from another thread to prefetch: most names end before.
const NAME_BYTES: usize = 128;

/// Link fields, without the face that a packet came from: a short PIT token, or all fields in a box.
#[derive(Debug)]
struct Brief {
    whole: Option<Box<LinkFields>>,
    token: u64,
}

impl Brief {
    const NONE: Brief = Brief { whole: None, token: 0 };

    /// Moves the fields, except `incoming_face_id`, to this place, which has none. Returns the number of the token's bytes.
    #[inline]
    fn fill_from(&mut self, fields: &mut LinkFields) -> u8 {
        if let LinkFields {
            pit_token,
            nack: None,
            next_hop_face_id: None,
            incoming_face_id: _,
            no_cache: false,
            congestion_mark: 0,
            non_discovery: false,
            prefix_announcement: None,
        } = fields
            && let Some((token, bytes)) = pit_token.to_word()
        {
            self.token = token;
            return bytes;
        }
        self.fill_whole(fields);
        0
    }

    #[cold]
    fn fill_whole(&mut self, fields: &mut LinkFields) {
        self.whole = Some(Box::new(std::mem::take(fields)));
    }

    /// Puts the fields to the place of `fields`, which are none.
    #[inline]
    fn put(&mut self, token_bytes: u8, fields: &mut LinkFields) {
        match self.whole.take() {
            None => fields.pit_token.set_word(self.token, token_bytes),
            Some(whole) => *fields = *whole,
        }
    }
}

/// What a parcel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A packet that is addressed by tags or locator, and not parsed yet.
    Addressed,
    Interest,
    Nack,
    Data(Copies),
}

/// Meaning of the bits of [`Parcel::marks`]: the last is for Data, the others are for Interests.
mod mark {
    pub const CAN_BE_PREFIX: u8 = 1;
    pub const MUST_BE_FRESH: u8 = 1 << 1;
    pub const FORWARDING_HINT: u8 = 1 << 2;
    pub const NONCE: u8 = 1 << 3;
    pub const HOP_LIMIT: u8 = 1 << 4;
    pub const HOT: u8 = 1 << 5;
    pub const SPREAD: u8 = 1 << 6;
    pub const HASHED: u8 = 1 << 7;
}

/// A packet on its way to a worker. It is parsed, unless it is addressed by tags or locator.
// Each field is written where it will be read, and none is wider than what was written: see `Received::append`.
#[derive(Debug)]
#[repr(align(64))]
pub struct Parcel {
    face: FaceId,
    packet: Packet,
    fields: Brief,
    /// Lifetime of an Interest, or freshness of Data.
    time_ms: u64,
    name: NameRange,
    /// Nonce of an Interest, if marked.
    nonce: u32,
    hop_limit_offset: u16,
    hop_limit: u8,
    marks: u8,
    kind: Kind,
    token_bytes: u8,
}

const _: () = assert!(size_of::<Parcel>() == 64);

impl Parcel {
    /// No packet yet.
    pub(crate) const fn empty() -> Parcel {
        Parcel {
            face: FaceId(0),
            packet: Packet::empty(),
            fields: Brief::NONE,
            time_ms: 0,
            name: NameRange { start: 0, len: 0 },
            nonce: 0,
            hop_limit_offset: 0,
            hop_limit: 0,
            marks: 0,
            kind: Kind::Addressed,
            token_bytes: 0,
        }
    }

    /// A packet that is addressed by tags or locator.
    pub(crate) fn addressed(received: &mut Received) -> Parcel {
        let mut parcel = Parcel::empty();
        parcel.pack(received);
        parcel
    }

    /// The face that received it.
    pub fn face(&self) -> FaceId {
        self.face
    }

    /// Prefetches the part of the packet that its worker reads first. It is in the caches of another processor.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.packet.prefetch_from_afar(NAME_BYTES);
    }

    /// Whether the same packet also went to its home. If so, this copy may be lost.
    pub fn is_further_copy(&self) -> bool {
        self.kind == Kind::Data(Copies::Further)
    }

    /// Whether it is an Interest that any worker may answer.
    pub fn is_spread(&self) -> bool {
        self.is(mark::SPREAD)
    }

    fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether it is an Interest.
    pub(crate) fn is_interest(&self) -> bool {
        self.kind == Kind::Interest
    }

    /// The packet, and the place of its name if it is parsed. If it is an Interest that any worker could answer, it is one
    /// for its home from now on.
    pub(crate) fn stray(&mut self) -> Option<(&Packet, NameRange)> {
        if self.is_spread() {
            self.marks = (self.marks & !mark::SPREAD) | mark::HOT;
        }
        (self.kind != Kind::Addressed).then_some((&self.packet, self.name))
    }

    /// Moves the packet to a place that is [`Received::empty`].
    #[inline]
    pub(crate) fn unpack(&mut self, received: &mut Received) {
        received.face = self.face;
        received.packet.fill(self.packet.take());
        if !self.is(mark::HASHED) {
            self.fields.put(self.token_bytes, &mut received.fields);
        }
    }

    /// Tells what is known of the packet to `take`, which puts it in its place at once (see [`Received::append`]).
    /// Returns false if it is not parsed.
    #[inline(always)]
    pub(crate) fn tell(&self, take: impl FnOnce(Parsed)) -> bool {
        match self.kind {
            Kind::Addressed => return false,
            Kind::Interest => take(Parsed::Interest(self.interest())),
            Kind::Nack => take(Parsed::Nack(self.interest())),
            Kind::Data(copies) => {
                take(Parsed::Data(DataInfo { name: self.name, freshness_ms: self.time_ms, copies }));
            }
        }
        true
    }

    /// The place of its name, if it is parsed.
    pub(crate) fn name(&self) -> NameRange {
        self.name
    }

    /// See [`Handed::hash`].
    pub(crate) fn hash(&self) -> Option<u64> {
        self.is(mark::HASHED).then_some(self.fields.token)
    }

    /// The Interest, if any worker may answer it.
    pub(crate) fn spread(&self) -> Option<InterestInfo> {
        self.is_spread().then(|| self.interest())
    }

    #[inline(always)]
    fn interest(&self) -> InterestInfo {
        let hop_limit = HopLimit { value: self.hop_limit, offset: usize::from(self.hop_limit_offset) };
        InterestInfo {
            name: self.name,
            can_be_prefix: self.is(mark::CAN_BE_PREFIX),
            must_be_fresh: self.is(mark::MUST_BE_FRESH),
            has_forwarding_hint: self.is(mark::FORWARDING_HINT),
            nonce: self.is(mark::NONCE).then_some(self.nonce),
            lifetime_ms: self.time_ms,
            hop_limit: self.is(mark::HOP_LIMIT).then_some(hop_limit),
            is_hot: self.is(mark::HOT),
        }
    }

    #[inline]
    fn pack(&mut self, received: &mut Received) {
        self.face = received.face;
        self.packet.fill(received.packet.take());
        self.token_bytes = self.fields.fill_from(&mut received.fields);
    }

    #[inline]
    fn note(&mut self, info: &InterestInfo, is_spread: bool) {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        self.name = info.name;
        self.time_ms = info.lifetime_ms;
        self.nonce = info.nonce.unwrap_or(0);
        if let Some(HopLimit { value, offset }) = info.hop_limit {
            // Packets are shorter than 2^16 bytes, so offsets in them fit 16 bits.
            (self.hop_limit, self.hop_limit_offset) = (value, offset as u16);
        }
        self.marks = bit(info.can_be_prefix, mark::CAN_BE_PREFIX)
            | bit(info.must_be_fresh, mark::MUST_BE_FRESH)
            | bit(info.has_forwarding_hint, mark::FORWARDING_HINT)
            | bit(info.nonce.is_some(), mark::NONCE)
            | bit(info.hop_limit.is_some(), mark::HOP_LIMIT)
            | bit(info.is_hot, mark::HOT)
            | bit(is_spread, mark::SPREAD);
    }
}

/// A parsed packet for another worker, where it was received. Built into a [`Parcel`] at its destination: a packet that
/// is written elsewhere first and then moved as a whole stalls the processor, see [`Received::append`].
pub(crate) struct Handed<'a> {
    pub received: &'a mut Received,
    pub parsed: &'a Parsed,
    /// Whether it is an Interest that any worker may answer.
    pub is_spread: bool,
    /// For Data whose name selected the home: the hash of this name under the dispatchers' key, if it is known. It takes the
    /// place of the PIT token, which nobody reads any more.
    pub hash: Option<u64>,
}

impl<'a> Handed<'a> {
    /// A packet of which no more is known.
    pub fn new(received: &'a mut Received, parsed: &'a Parsed) -> Self {
        Handed { received, parsed, is_spread: false, hash: None }
    }

    /// Moves the packet to a parcel that is [`Parcel::empty`].
    #[inline]
    pub fn fill(self, parcel: &mut Parcel) {
        if self.hash.is_some() {
            self.received.fields.pit_token = PitToken::default();
        }
        parcel.pack(self.received);
        parcel.kind = match self.parsed {
            Parsed::Interest(info) => {
                parcel.note(info, self.is_spread);
                Kind::Interest
            }
            Parsed::Nack(info) => {
                parcel.note(info, false);
                Kind::Nack
            }
            Parsed::Data(info) => {
                (parcel.name, parcel.time_ms) = (info.name, info.freshness_ms);
                if let Some(hash) = self.hash
                    && parcel.fields.whole.is_none()
                {
                    (parcel.fields.token, parcel.marks) = (hash, mark::HASHED);
                }
                Kind::Data(info.copies)
            }
        };
    }
}

impl From<Handed<'_>> for Parcel {
    fn from(handed: Handed<'_>) -> Parcel {
        let mut parcel = Parcel::empty();
        handed.fill(&mut parcel);
        parcel
    }
}

/// A packet on its way to the thread that owns the face to send it on.
#[derive(Debug)]
pub struct Departure {
    face: FaceId,
    packet: Packet,
    /// The face that it came from, or [`NO_FACE`].
    incoming_face_id: u64,
    fields: Brief,
    token_bytes: u8,
}

const _: () = assert!(size_of::<Departure>() <= 64);

/// No face has this number: they are counted up from [`FaceId::FIRST`].
const NO_FACE: u64 = u64::MAX;

impl Departure {
    /// No packet yet.
    pub const fn empty() -> Departure {
        Departure {
            face: FaceId(0),
            packet: Packet::empty(),
            incoming_face_id: NO_FACE,
            fields: Brief::NONE,
            token_bytes: 0,
        }
    }

    /// Moves a packet to the place of this one, which is empty. Leaves an empty packet.
    #[inline]
    pub fn fill_from(&mut self, outgoing: &mut Outgoing) {
        self.face = outgoing.face;
        self.packet.fill(outgoing.packet.take());
        self.incoming_face_id = outgoing.fields.incoming_face_id.map_or(NO_FACE, |face| face.0);
        self.token_bytes = self.fields.fill_from(&mut outgoing.fields);
    }

    /// Appends the packet to `output`.
    #[inline]
    pub fn append_to(&mut self, output: &mut Vec<Outgoing>) {
        let outgoing = Outgoing::append(output);
        outgoing.face = self.face;
        outgoing.packet.fill(self.packet.take());
        self.fields.put(self.token_bytes, &mut outgoing.fields);
        outgoing.fields.incoming_face_id = (self.incoming_face_id != NO_FACE).then_some(FaceId(self.incoming_face_id));
    }

    /// Prefetches the first `bytes` bytes of the packet, which are in the caches of another processor.
    #[inline]
    pub(crate) fn prefetch(&self, bytes: usize) {
        self.packet.prefetch_from_afar(bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
