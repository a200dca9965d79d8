//! What happens to a packet: the pipelines of NFD's developer guide, one file for each type, and
//! TagNet's.

mod addressed;
mod data;
mod interest;
mod nack;
mod nexthops;
mod spread;

pub(crate) use addressed::{Addressed, Reached};
pub(crate) use interest::Miss;

use byname_wire::interest::HopLimit;
use byname_wire::{Data, DecodeError, Interest, NameRef, PrefixHashes, tagnet};

use crate::counters::Drop;
use crate::packet_pool::Packet;
use crate::pit_cs::NameRange;
use crate::port::Received;

/// Name prefixes with a meaning for scope, as they are encoded.
const LOCALHOST: &[u8] = b"\x08\x09localhost";
const LOCALHOP: &[u8] = b"\x08\x08localhop";

/// What parsing found out about a packet, free of borrows.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// An Interest.
    Interest(InterestInfo),
    /// A Data packet.
    Data(DataInfo),
    /// An Interest that the peer refuses.
    Nack(InterestInfo),
}

impl Parsed {
    /// Where the packet's name is.
    pub fn name(&self) -> NameRange {
        match self {
            Parsed::Interest(info) | Parsed::Nack(info) => info.name,
            Parsed::Data(info) => info.name,
        }
    }

    /// What an Interest says that arrives, or comes back refused.
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
    /// Many ask for this name: cached Data of it is to be shared.
    pub is_hot: bool,
}

/// Fields of Data that forwarding needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataInfo {
    pub name: NameRange,
    pub freshness_ms: u64,
    pub copies: Copies,
}

/// Whether other workers have the same Data: it is to be counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// None has.
    Lone,
    /// Others have; this one is to be counted.
    First,
    /// Another one is counted.
    Further,
}

/// Parses what a port received, to where `take` puts it at once (see [`Received::append`]), and notes in
/// `hashes` where the components of its name end. False if it is addressed by tags or locator.
#[inline(always)]
pub(crate) fn parse_unaddressed(
    received: &Received,
    hashes: &mut PrefixHashes,
    take: impl FnOnce(Parsed),
) -> Result<bool, Drop> {
    if tagnet::is_tagnet(&received.packet) {
        return Ok(false);
    }
    let octets: &[u8] = &received.packet;
    let reason = |error: DecodeError| match error {
        DecodeError::TooManyComponents => Drop::TooManyComponents,
        _ => Drop::Malformed,
    };
    match octets.first() {
        Some(0x05) => {
            let interest = Interest::decode_noting(octets, hashes).map_err(reason)?;
            let info = interest_info(&interest);
            take(if received.fields.nack.is_some() { Parsed::Nack(info) } else { Parsed::Interest(info) });
        }
        Some(0x06) if received.fields.nack.is_none() => {
            let data = Data::decode_noting(octets, hashes).map_err(reason)?;
            let name = name_range(data.name_offset, data.name);
            take(Parsed::Data(DataInfo { name, freshness_ms: data.freshness_ms, copies: Copies::Lone }));
        }
        _ => return Err(Drop::Malformed),
    }
    Ok(true)
}

#[inline]
fn interest_info(interest: &Interest<'_>) -> InterestInfo {
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

/// Packets are below 2^16 octets, so their parts are.
fn name_range(start: usize, name: NameRef<'_>) -> NameRange {
    NameRange { start: start as u16, len: name.value().len() as u16 }
}

/// The name in a packet that was parsed.
pub(crate) fn name_in(packet: &Packet, range: NameRange) -> NameRef<'_> {
    let start = usize::from(range.start);
    NameRef::new_checked_before(&packet[start..start + usize::from(range.len)])
}

/// Lowers a HopLimit that is not 0.
pub(crate) fn lower_hop_limit(packet: &mut Packet, hop_limit: HopLimit) {
    patch(packet, hop_limit.offset, &[hop_limit.value - 1]);
}

/// Overwrites octets of a packet, in place unless others hold its buffer.
fn patch(packet: &mut Packet, offset: usize, octets: &[u8]) {
    if packet.unshared_mut().is_none() {
        *packet = Packet::copy_from(packet);
    }
    let packet = packet.unshared_mut().expect("nobody else holds it");
    packet[offset..offset + octets.len()].copy_from_slice(octets);
}
