//! What passes between ports and a worker: network packets with their link fields.
//!
//! Ports (crate `face`) reassemble, acknowledge and strip the link protocol; a worker never sees
//! a fragment.

use byname_wire::{FaceId, NackReason, PitToken};

use crate::packet_pool::Packet;

/// Fields of the link header that concern forwarding.
#[derive(Debug, Clone)]
pub struct LinkFields {
    /// Downstream's token on Interests; echoed on Data and Nacks.
    pub pit_token: PitToken,
    /// The packet is an Interest that is refused.
    pub nack: Option<NackReason>,
    /// Received, on faces with local fields: send this Interest there.
    pub next_hop_face_id: Option<FaceId>,
    /// Sent, on faces with local fields: where the packet came from.
    pub incoming_face_id: Option<FaceId>,
    /// Received, on faces with local fields: do not cache this Data.
    pub no_cache: bool,
    /// Congestion mark, carried along.
    pub congestion_mark: u64,
    /// Self-learning: do not flood this Interest.
    pub non_discovery: bool,
    /// Self-learning: a prefix announcement (a Data packet) that rides on Data.
    pub prefix_announcement: Option<Packet>,
}

impl LinkFields {
    /// No fields.
    const fn none() -> LinkFields {
        LinkFields {
            pit_token: PitToken::NONE,
            nack: None,
            next_hop_face_id: None,
            incoming_face_id: None,
            no_cache: false,
            congestion_mark: 0,
            non_discovery: false,
            prefix_announcement: None,
        }
    }
}

/// No fields.
impl Default for LinkFields {
    fn default() -> Self {
        LinkFields::none()
    }
}

/// A whole network packet as a port received it, without its link header.
#[derive(Debug)]
pub struct Received {
    /// The face it came in on.
    pub face: FaceId,
    /// Its link fields.
    pub fields: LinkFields,
    /// Checked no further than that one element of a known type fills it.
    pub packet: Packet,
}

impl Received {
    /// Appends a packet without octets, to be filled in where it lies. A packet that is written
    /// elsewhere, field by field, and then moved as a whole makes a processor wait until all that was
    /// written before has reached the cache.
    #[inline]
    pub fn append(input: &mut Vec<Received>) -> &mut Received {
        // A constant, so that nothing is written elsewhere first.
        input.push(const { Received { face: FaceId(0), fields: LinkFields::none(), packet: Packet::empty() } });
        input.last_mut().expect("one was pushed")
    }

    /// This packet; what stays in its place is empty.
    pub(crate) fn take(&mut self) -> Received {
        Received { face: self.face, fields: std::mem::take(&mut self.fields), packet: self.packet.take() }
    }
}

/// A network packet to send.
#[derive(Debug)]
pub struct Outgoing {
    /// The face to send on.
    pub face: FaceId,
    /// Its link fields.
    pub fields: LinkFields,
    /// The bare packet.
    pub packet: Packet,
}

impl Outgoing {
    /// Appends a packet without octets, to be filled in where it lies, as [`Received::append`].
    #[inline]
    pub fn append(output: &mut Vec<Outgoing>) -> &mut Outgoing {
        output.push(const { Outgoing { face: FaceId(0), fields: LinkFields::none(), packet: Packet::empty() } });
        output.last_mut().expect("one was pushed")
    }

    /// This packet; what stays in its place is empty.
    pub fn take(&mut self) -> Outgoing {
        Outgoing { face: self.face, fields: std::mem::take(&mut self.fields), packet: self.packet.take() }
    }
}
