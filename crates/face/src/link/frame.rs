//! Frames for the wire: a header of our own, and a payload shared with other holders of the packet.

use byname_forward::{LinkFields, Packet};
use byname_wire::LpPacket;
use byname_wire::lp::TOKEN_HEADER_MAX;
use smallvec::SmallVec;

/// Bytes of a header that need no memory of their own.
const HEADER_BYTES: usize = 2 * TOKEN_HEADER_MAX;

/// A frame to send: the bytes of `header`, then those of `payload`.
#[derive(Debug, Clone)]
pub struct Frame {
    header: SmallVec<[u8; HEADER_BYTES]>,
    payload: Packet,
}

impl Frame {
    /// A network packet without a link header.
    pub fn bare(packet: Packet) -> Frame {
        Frame { header: SmallVec::new(), payload: packet }
    }

    /// A network packet whose link header has no field but this PIT token of up to 8 bytes.
    pub(super) fn with_token(token: (u64, u8), packet: Packet) -> Frame {
        let mut header = [0; HEADER_BYTES];
        let room = header.first_chunk_mut().expect("there is more room than that");
        let len = LpPacket::encode_token(token, packet.len(), room);
        Frame { header: SmallVec::from_buf_and_len(header, len), payload: packet }
    }

    /// The bytes, in two parts.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        (&self.header, &self.payload)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// Whether it has no bytes. A link service makes no such frame.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let (header, payload) = self.parts();
        // Most frames have no header, and even copying nothing is a call.
        if !header.is_empty() {
            out.extend_from_slice(header);
        }
        out.extend_from_slice(payload);
    }
}

/// Parts of a frame that stay the same when it is sent again.
#[derive(Debug, Clone)]
pub(super) struct FrameSpec {
    pub(super) sequence: Option<u64>,
    pub(super) index: u64,
    pub(super) count: u64,
    pub(super) fields: LinkFields,
    pub(super) payload: Packet,
}

impl FrameSpec {
    /// Header fields without TxSequence and Acks.
    pub(super) fn header(&self) -> LpPacket<'_> {
        let mut lp = self.fields.header();
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

/// Encodes a frame with this header and payload. The payload may be empty.
pub(super) fn encode(lp: &LpPacket<'_>, payload: Packet, scratch: &mut Vec<u8>) -> Frame {
    scratch.clear();
    lp.encode_header(payload.len(), scratch);
    Frame { header: SmallVec::from_slice(scratch), payload }
}
