//! Packets that are addressed by tags or by locator [TagNet §2.1].
//!
//! `docs/tagset.md` specifies these packets and gives the reasons. They are TLV elements with types
//! that NDN leaves to applications. One face therefore carries them beside NDN packets, and stock
//! forwarders drop them as packets of an unknown type.
//!
//! Routers keep no state for these packets, so a packet carries everything that a router needs. A
//! tag-addressed packet names its tree and its fan-out limit, and every packet has a hop limit.
//! There is no nonce: on a tree a packet crosses each edge at most once. If a configured graph is
//! not a tree, the hop limit ends loops.

mod address;
mod locator_packet;
mod tag_packet;
#[cfg(test)]
mod tests;

pub use address::{Address, AddressError, Endpoint};
pub use locator_packet::{LocatorPacket, LocatorPacketBuilder};
pub use tag_packet::{FanOut, TagList, TagPacket, TagPacketBuilder, TagSet};

use crate::PACKET_BYTES_MAX;
use crate::interest::HopLimit;
use crate::tlv::{self, DecodeError, Reader, Tlv};

/// HopLimit of a packet whose sender sets none.
pub const DEFAULT_HOP_LIMIT: u8 = 64;

/// TLV-TYPE numbers. All but HopLimit are critical by NDN's rule, because they are odd or below 32.
pub mod types {
    #![allow(missing_docs)]
    pub const TAG_PACKET: u64 = 0xc1;
    pub const LOCATOR_PACKET: u64 = 0xc3;
    pub const TREE: u64 = 0xc5;
    pub const TAGS: u64 = 0xc7;
    pub const FILTER: u64 = 0xc9;
    pub const FAN_OUT: u64 = 0xcb;
    pub const DESTINATION: u64 = 0xcd;
    pub const SOURCE: u64 = 0xcf;
    pub const LABEL: u64 = 0xd1;
    pub const ENDPOINT: u64 = 0xd3;
    /// The same number, and the same meaning, as in an Interest.
    pub const HOP_LIMIT: u64 = crate::tlv::types::HOP_LIMIT;
    /// The same number as Data's Content.
    pub const PAYLOAD: u64 = crate::tlv::types::CONTENT;
}

/// Whether a packet is tag-addressed or locator-addressed, by its type.
#[inline]
pub fn is_tagnet(packet: &[u8]) -> bool {
    const TAG_PACKET: u8 = types::TAG_PACKET as u8;
    const LOCATOR_PACKET: u8 = types::LOCATOR_PACKET as u8;
    matches!(packet.first(), Some(&TAG_PACKET | &LOCATOR_PACKET))
}

/// Reads the elements of a packet of type `typ` that fills `wire`, in the order of the
/// specification.
struct Elements<'a> {
    wire: &'a [u8],
    reader: Reader<'a>,
    next: Option<Tlv<'a>>,
}

impl<'a> Elements<'a> {
    fn of_packet(wire: &'a [u8], typ: u64) -> Result<Self, DecodeError> {
        if wire.len() > PACKET_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        Self::new(wire, tlv::decode_only(wire, typ)?)
    }

    /// Reads the elements of `value`, which ends where `wire` ends.
    fn new(wire: &'a [u8], value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let next = reader.next_tlv()?;
        Ok(Elements { wire, reader, next })
    }

    /// If the next element has type `typ`: its value, and where the value begins.
    #[inline]
    fn take(&mut self, typ: u64) -> Result<Option<(&'a [u8], usize)>, DecodeError> {
        while let Some(tlv) = self.next {
            let end = self.wire.len() - self.reader.rest().len();
            if tlv.typ == typ {
                self.next = self.reader.next_tlv()?;
                return Ok(Some((tlv.value, end - tlv.value.len())));
            }
            if is_known(tlv.typ) {
                break;
            }
            self.skip(tlv)?;
        }
        Ok(None)
    }

    fn require(&mut self, typ: u64) -> Result<(&'a [u8], usize), DecodeError> {
        self.take(typ)?.ok_or(DecodeError::Missing(typ))
    }

    fn hop_limit(&mut self) -> Result<HopLimit, DecodeError> {
        match self.require(types::HOP_LIMIT)? {
            (&[value], offset) => Ok(HopLimit { value, offset }),
            _ => Err(DecodeError::BadValue(types::HOP_LIMIT)),
        }
    }

    /// Skips the elements that are left, or refuses them if one is critical.
    fn finish(mut self) -> Result<(), DecodeError> {
        while let Some(tlv) = self.next {
            self.skip(tlv)?;
        }
        Ok(())
    }

    fn skip(&mut self, tlv: Tlv<'a>) -> Result<(), DecodeError> {
        if tlv::is_critical(tlv.typ) || is_known(tlv.typ) {
            return Err(DecodeError::UnexpectedCritical(tlv.typ));
        }
        self.next = self.reader.next_tlv()?;
        Ok(())
    }
}

/// Whether these packets use this number, in this place or another.
fn is_known(typ: u64) -> bool {
    matches!(typ, types::HOP_LIMIT | types::PAYLOAD) || (types::TREE..=types::ENDPOINT).contains(&typ) && typ & 1 == 1
}
