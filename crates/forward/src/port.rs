//! Packets between ports and a worker: whole network packets with their link fields.
//!
//! Ports (crate `face`) reassemble, acknowledge and strip the link protocol. A worker never sees a fragment.

use byname_wire::{FaceId, LpPacket, NackReason, PitToken};

use crate::packet_pool::Packet;

/// Fields of the link header that concern forwarding.
#[derive(Debug, Clone)]
pub struct LinkFields {
    /// The downstream's token of an Interest; its Data and Nacks echo the token.
    pub pit_token: PitToken,
    /// Present on a Nack: the packet is an Interest that the sender refuses.
    pub nack: Option<NackReason>,
    /// Received, on faces with local fields: send this Interest to that face.
    pub next_hop_face_id: Option<FaceId>,
    /// Sent, on faces with local fields: the face that the packet came from.
    pub incoming_face_id: Option<FaceId>,
    /// Received, on faces with local fields: do not cache this Data.
    pub no_cache: bool,
    /// Congestion mark, passed on.
    pub congestion_mark: u64,
    /// Self-learning: do not flood this Interest.
    pub non_discovery: bool,
    /// Self-learning: the prefix announcement (a Data packet) that Data carries.
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

    /// Moves all fields to `to`, which has none.
    #[inline]
    fn move_to(&mut self, to: &mut LinkFields) {
        let Self {
            pit_token, nack, next_hop_face_id, incoming_face_id, no_cache, congestion_mark, non_discovery, ..
        } = *self;
        to.pit_token = pit_token;
        to.nack = nack;
        to.next_hop_face_id = next_hop_face_id;
        to.incoming_face_id = incoming_face_id;
        to.no_cache = no_cache;
        to.congestion_mark = congestion_mark;
        to.non_discovery = non_discovery;
        if let Some(announcement) = self.prefix_announcement.take() {
            to.prefix_announcement = Some(announcement);
        }
    }

    /// The header of an unfragmented packet with these fields, as the peer gets it.
    #[inline]
    pub fn header(&self) -> LpPacket<'_> {
        LpPacket {
            pit_token: self.pit_token,
            nack: self.nack,
            next_hop_face_id: self.next_hop_face_id,
            incoming_face_id: self.incoming_face_id,
            congestion_mark: self.congestion_mark,
            non_discovery: self.non_discovery,
            prefix_announcement: self.prefix_announcement.as_deref(),
            ..LpPacket::default()
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
    /// The face that received it.
    pub face: FaceId,
    /// Its link fields.
    pub fields: LinkFields,
    /// Checked only so far: it is filled by one element of a known type.
    pub packet: Packet,
}

impl Received {
    /// No packet yet.
    pub(crate) const fn empty() -> Received {
        Received { face: FaceId(0), fields: LinkFields::none(), packet: Packet::empty() }
    }

    /// Appends a packet without bytes, for the caller to fill in place. A packet that is written elsewhere field by
    /// field and then moved as a whole stalls the processor: the move waits until all earlier stores have reached the
    /// cache.
    #[inline]
    pub fn append(input: &mut Vec<Received>) -> &mut Received {
        // A constant, so that nothing is written elsewhere first.
        input.push(const { Received::empty() });
        input.last_mut().expect("one was pushed")
    }

    /// Takes this packet and leaves an empty one in its place.
    pub(crate) fn take(&mut self) -> Received {
        let mut taken = Received::empty();
        taken.fill_from(self);
        taken
    }

    /// Moves a packet to the place of this one, which is empty. Leaves an empty packet.
    #[inline]
    pub(crate) fn fill_from(&mut self, other: &mut Received) {
        self.face = other.face;
        other.fields.move_to(&mut self.fields);
        self.packet.fill(other.packet.take());
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
    /// No packet yet.
    pub(crate) const fn empty() -> Outgoing {
        Outgoing { face: FaceId(0), fields: LinkFields::none(), packet: Packet::empty() }
    }

    /// Appends a packet without bytes, for the caller to fill in place; see [`Received::append`].
    #[inline]
    pub fn append(output: &mut Vec<Outgoing>) -> &mut Outgoing {
        output.push(const { Outgoing::empty() });
        output.last_mut().expect("one was pushed")
    }

    /// Takes this packet and leaves an empty one in its place.
    pub fn take(&mut self) -> Outgoing {
        let mut taken = Outgoing::empty();
        taken.fill_from(self);
        taken
    }

    /// Moves a packet to the place of this one, which is empty. Leaves an empty packet.
    #[inline]
    pub(crate) fn fill_from(&mut self, other: &mut Outgoing) {
        self.face = other.face;
        other.fields.move_to(&mut self.fields);
        self.packet.fill(other.packet.take());
    }
}
