//! Parsed packets: the fields that forwarding needs, without a borrow.

mod addressed;

pub(crate) use addressed::{Addressed, LocatorInfo, TagInfo};

use byname_wire::interest::HopLimit;
use byname_wire::{Data, DecodeError, Interest, NameRef, PrefixHashes, tagnet};

use crate::counters::DropReason;
use crate::packet_pool::Packet;
use crate::port::Received;

/// Encoded name prefixes that limit the scope of packets.
pub(crate) const LOCALHOST: &[u8] = b"\x08\x09localhost";
pub(crate) const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// The place of a name within a packet.
#[derive(Debug, Clone, Copy)]
pub struct NameRange {
    /// First byte of the name's TLV-VALUE in the packet.
    pub start: u16,
    /// Length of the TLV-VALUE, in bytes.
    pub len: u16,
}

/// The result of parsing a packet; it borrows nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parsed {
    /// An Interest.
    Interest(InterestInfo),
    /// A Data packet.
    Data(DataInfo),
    /// An Interest that the peer refused.
    Nack(InterestInfo),
}

impl Parsed {
    /// The place of the name in the packet.
    pub fn name(&self) -> NameRange {
        match self {
            Parsed::Interest(info) | Parsed::Nack(info) => info.name,
            Parsed::Data(info) => info.name,
        }
    }

    /// Whether the same packet also went to its home.
    pub fn is_further_copy(&self) -> bool {
        matches!(self, Parsed::Data(info) if info.copies == Copies::Further)
    }

    /// The fields of an Interest or of the Interest in a Nack.
    pub fn interest(&self) -> Option<&InterestInfo> {
        match self {
            Parsed::Interest(info) | Parsed::Nack(info) => Some(info),
            Parsed::Data(_) => None,
        }
    }
}

/// Fields of an Interest that forwarding needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterestInfo {
    pub name: NameRange,
    pub can_be_prefix: bool,
    pub must_be_fresh: bool,
    pub has_forwarding_hint: bool,
    pub nonce: Option<u32>,
    pub lifetime_ms: u64,
    pub hop_limit: Option<HopLimit>,
    /// Many Interests ask for this name: its cached Data goes into the shared store.
    pub is_hot: bool,
}

/// Fields of Data that forwarding needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataInfo {
    pub name: NameRange,
    pub freshness_ms: u64,
    pub copies: Copies,
}

/// Whether other workers got a copy of the same Data, which is counted only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// There is no other copy.
    Lone,
    /// There are other copies; this one is counted.
    First,
    /// Another copy is counted.
    Further,
    /// There is no other copy. A worker that nobody had asked for it counted it, and passed it on to the home of its name.
    Passed,
}

/// Parses a received packet and hands the result to `take`, which puts it in its place at once (see
/// [`Received::append`]). Notes in `hashes` where the components of the name end. Returns false for a packet that is
/// addressed by tags or locator.
#[inline(always)]
pub(crate) fn parse_unaddressed(
    received: &Received,
    hashes: &mut PrefixHashes,
    take: impl FnOnce(Parsed),
) -> Result<bool, DropReason> {
    if tagnet::is_tagnet(&received.packet) {
        return Ok(false);
    }
    let bytes: &[u8] = &received.packet;
    let reason = |error: DecodeError| match error {
        DecodeError::TooManyComponents => DropReason::TooManyComponents,
        _ => DropReason::Malformed,
    };
    match bytes.first() {
        Some(0x05) => {
            let interest = Interest::decode_noting(bytes, hashes).map_err(reason)?;
            let info = interest_info(&interest);
            take(if received.fields.nack.is_some() { Parsed::Nack(info) } else { Parsed::Interest(info) });
        }
        Some(0x06) if received.fields.nack.is_none() => {
            let data = Data::decode_noting(bytes, hashes).map_err(reason)?;
            let name = name_range(data.name_offset, data.name);
            take(Parsed::Data(DataInfo { name, freshness_ms: data.freshness_ms, copies: Copies::Lone }));
        }
        _ => return Err(DropReason::Malformed),
    }
    Ok(true)
}

#[inline]
pub(crate) fn interest_info(interest: &Interest<'_>) -> InterestInfo {
    InterestInfo {
        name: name_range(interest.name_offset, interest.name),
        can_be_prefix: interest.can_be_prefix,
        must_be_fresh: interest.must_be_fresh,
        has_forwarding_hint: !interest.forwarding_hint_value.is_empty(),
        nonce: interest.nonce,
        lifetime_ms: interest.lifetime_or_default_ms(),
        hop_limit: interest.hop_limit,
        is_hot: false,
    }
}

/// Packets are shorter than 2^16 bytes, so offsets in them fit 16 bits.
pub(crate) fn name_range(start: usize, name: NameRef<'_>) -> NameRange {
    NameRange { start: start as u16, len: name.value().len() as u16 }
}

/// The name in a parsed packet.
pub(crate) fn name_in(packet: &Packet, range: NameRange) -> NameRef<'_> {
    let start = usize::from(range.start);
    NameRef::new_checked_before(&packet[start..start + usize::from(range.len)])
}

/// Lowers a HopLimit, which must not be 0.
pub(crate) fn lower_hop_limit(packet: &mut Packet, hop_limit: HopLimit) {
    patch(packet, hop_limit.offset, &[hop_limit.value - 1]);
}

/// Overwrites bytes of a packet: in place, or in a copy if other packets share its buffer.
pub(crate) fn patch(packet: &mut Packet, offset: usize, bytes: &[u8]) {
    if packet.unshared_mut().is_none() {
        *packet = Packet::copy_from(packet);
    }
    let packet = packet.unshared_mut().expect("nobody else holds it");
    packet[offset..offset + bytes.len()].copy_from_slice(bytes);
}
