//! Packets to one application.

use super::address::Address;
use super::{DEFAULT_HOP_LIMIT, Elements, types};
use crate::interest::HopLimit;
use crate::tlv::{self, DecodeError};

/// A parsed locator-addressed packet. All borrows are from the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocatorPacket<'a> {
    /// HopLimit, and where its byte stands.
    pub hop_limit: HopLimit,
    /// The application that it goes to.
    pub destination: Address,
    /// The application that answers go to.
    pub source: Option<Address>,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> LocatorPacket<'a> {
    /// Parses one locator-addressed packet that fills `wire`.
    ///
    /// # Errors
    /// If an element is missing, malformed, or unknown and critical, as `docs/tagset.md` specifies.
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        let mut elements = Elements::of_packet(wire, types::LOCATOR_PACKET)?;
        let hop_limit = elements.hop_limit()?;
        let destination = Address::decode(elements.require(types::DESTINATION)?.0)?;
        let source = elements.take(types::SOURCE)?.map(|(value, _)| Address::decode(value)).transpose()?;
        let payload = elements.take(types::PAYLOAD)?.map_or(&[][..], |(value, _)| value);
        elements.finish()?;
        Ok(LocatorPacket { hop_limit, destination, source, payload })
    }
}

/// Builds locator-addressed packets.
#[derive(Debug, Clone, Copy)]
pub struct LocatorPacketBuilder<'a> {
    hop_limit: u8,
    destination: Address,
    source: Option<Address>,
    payload: &'a [u8],
}

impl<'a> LocatorPacketBuilder<'a> {
    /// An empty packet to this application.
    pub fn new(destination: Address) -> Self {
        LocatorPacketBuilder { hop_limit: DEFAULT_HOP_LIMIT, destination, source: None, payload: &[] }
    }
    /// Sets HopLimit.
    pub fn hop_limit(mut self, hops: u8) -> Self {
        self.hop_limit = hops;
        self
    }
    /// Sets the address that answers go to.
    pub fn source(mut self, source: Address) -> Self {
        self.source = Some(source);
        self
    }
    /// Sets the payload.
    pub fn payload(mut self, payload: &'a [u8]) -> Self {
        self.payload = payload;
        self
    }
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut wire = Vec::with_capacity(self.payload.len() + 80);
        tlv::push_nested(&mut wire, types::LOCATOR_PACKET, |out| {
            tlv::push_tlv(out, types::HOP_LIMIT, &[self.hop_limit]);
            self.destination.push(out, types::DESTINATION);
            if let Some(source) = self.source {
                source.push(out, types::SOURCE);
            }
            if !self.payload.is_empty() {
                tlv::push_tlv(out, types::PAYLOAD, self.payload);
            }
        });
        wire
    }
}
