//! Messages by tags and by locator [TagNet §2.1].
//!
//! The network may lose packets, as with datagrams: an application that wants an answer must repeat its request.

use std::num::NonZeroU16;

use byname_wire::Descriptor;
use byname_wire::tagnet::{Address, LocatorPacket, TagPacket, TagPacketBuilder};

/// Number of applications that a packet may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FanOutLimit {
    /// One: the application with the largest matching subset.
    One,
    /// At most so many applications that advertise a subset.
    Some(NonZeroU16),
    /// All applications that advertise a subset.
    All,
}

impl FanOutLimit {
    /// A packet with this limit.
    pub(crate) fn packet(self, descriptor: &Descriptor, source: Address, payload: &[u8]) -> Vec<u8> {
        let packet = TagPacketBuilder::new(source.locator.tree, descriptor).source(source).payload(payload);
        match self {
            FanOutLimit::One => packet.fan_out(NonZeroU16::MIN).encode(),
            FanOutLimit::Some(limit) => packet.fan_out(limit).encode(),
            FanOutLimit::All => packet.encode(),
        }
    }
}

/// A received message.
///
/// ```
/// use byname_client::tags::Message;
/// use byname_wire::tagnet::LocatorPacketBuilder;
///
/// let packet = LocatorPacketBuilder::new("1:05:256".parse()?).payload(b"hello").encode();
/// let message = Message::decode(&packet).ok_or("no message")?;
/// assert_eq!((message.payload, message.by_tags, message.source), (b"hello".to_vec(), false, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Destination of an answer.
    pub source: Option<Address>,
    /// Content of the packet.
    pub payload: Vec<u8>,
    /// Whether the packet was addressed by tags, and not by locator.
    pub by_tags: bool,
}

impl Message {
    /// The message in a packet, if it is one.
    pub fn decode(packet: &[u8]) -> Option<Message> {
        if let Ok(packet) = LocatorPacket::decode(packet) {
            return Some(Message { source: packet.source, payload: packet.payload.to_vec(), by_tags: false });
        }
        let packet = TagPacket::decode(packet).ok()?;
        Some(Message { source: packet.source, payload: packet.payload.to_vec(), by_tags: true })
    }
}
