//! What goes to the wire: a header of our own, and a payload shared with whoever holds the packet.

use byname_forward::{LinkFields, Packet};
use byname_wire::LpPacket;
use smallvec::SmallVec;

/// A frame to send: the octets of `header`, then those of `payload`.
#[derive(Debug, Clone)]
pub struct Frame {
    header: SmallVec<[u8; 48]>,
    payload: Packet,
}

impl Frame {
    /// A network packet without a link header.
    pub fn bare(packet: Packet) -> Frame {
        Frame { header: SmallVec::new(), payload: packet }
    }

    /// Its octets, in two parts.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        (&self.header, &self.payload)
    }

    /// Its length in octets.
    pub fn len(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// Whether it has no octets; no frame that a link service makes is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends its octets.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let (header, payload) = self.parts();
        // Most have none, and to copy nothing is a call, too.
        if !header.is_empty() {
            out.extend_from_slice(header);
        }
        out.extend_from_slice(payload);
    }
}

/// All of a frame but what changes when it is sent again.
#[derive(Debug, Clone)]
pub(super) struct FrameSpec {
    pub(super) sequence: Option<u64>,
    pub(super) index: u64,
    pub(super) count: u64,
    pub(super) fields: LinkFields,
    pub(super) payload: Packet,
}

impl FrameSpec {
    /// The header fields, without TxSequence and Acks.
    pub(super) fn header(&self) -> LpPacket<'_> {
        let mut lp = header(&self.fields);
        (lp.sequence, lp.frag_index, lp.frag_count) = (self.sequence, self.index, self.count);
        lp
    }

    pub(super) fn encode(&self, tx_sequence: Option<u64>, acks: &[u64], scratch: &mut Vec<u8>) -> Frame {
        let mut lp = self.header();
        lp.tx_sequence = tx_sequence;
        lp.acks.extend_from_slice(acks);
        encode(&lp, self.payload.clone(), scratch)
    }
}

/// The header of a packet with these fields, whole.
pub(crate) fn header(fields: &LinkFields) -> LpPacket<'_> {
    LpPacket {
        frag_count: 1,
        pit_token: fields.pit_token,
        nack: fields.nack,
        next_hop_face_id: fields.next_hop_face_id,
        incoming_face_id: fields.incoming_face_id,
        congestion_mark: fields.congestion_mark,
        non_discovery: fields.non_discovery,
        prefix_announcement: fields.prefix_announcement.as_deref(),
        ..LpPacket::default()
    }
}

/// A frame of this header, with a payload or an empty one.
pub(super) fn encode(lp: &LpPacket<'_>, payload: Packet, scratch: &mut Vec<u8>) -> Frame {
    scratch.clear();
    lp.encode_header(payload.len(), scratch);
    Frame { header: SmallVec::from_slice(scratch), payload }
}
