//! Frames waiting to be sent, so that a burst leaves in one system call.

use byname_wire::lp::LpPacket;
use byname_wire::{NackReason, PACKET_BYTES_MAX, PitToken};
use thiserror::Error;

/// NDNLPv2 fields that clients send.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields {
    /// Token of the Interest that this packet answers.
    pub pit_token: PitToken,
    /// Congestion mark to pass on; 0: none.
    pub congestion_mark: u64,
}

/// A packet is larger than routers accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the packet has {bytes} bytes, and NDN carries at most {bytes_max}; send less in it, or publish an object")]
pub struct PacketTooLarge {
    /// Its size.
    pub bytes: usize,
    /// Largest size.
    pub bytes_max: usize,
}

impl PacketTooLarge {
    /// Refuses a packet that is too large.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn check(packet: &[u8]) -> Result<(), PacketTooLarge> {
        let (bytes, bytes_max) = (packet.len(), PACKET_BYTES_MAX);
        if bytes > bytes_max { Err(PacketTooLarge { bytes, bytes_max }) } else { Ok(()) }
    }
}

/// Maximum size of a fragment's header: sequence, index, count, token and congestion mark.
const FRAGMENT_HEADER_MAX: usize = 80;

/// Encoded frames in sending order.
///
/// ```
/// use byname_client::{Fields, Outbox, interest};
///
/// let mut outbox = Outbox::new(None, 0);
/// outbox.push(&interest(&"/example".parse()?).encode(), Fields::default());
/// assert_eq!(outbox.frames().count(), 1);
/// outbox.clear();
/// assert!(outbox.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Number of bytes that a stream has taken already.
    taken: usize,
    ends: Vec<usize>,
    /// Maximum frame size, on transports that cannot carry every packet whole.
    mtu: Option<usize>,
    sequence: u64,
}

impl Outbox {
    /// Creates an outbox whose frames have at most `mtu` bytes. Larger packets are fragmented.
    pub fn new(mtu: Option<usize>, first_sequence: u64) -> Self {
        Outbox { mtu, sequence: first_sequence, ..Outbox::default() }
    }

    /// Queues an Interest or Data.
    pub fn push(&mut self, packet: &[u8], fields: Fields) {
        let header = LpPacket {
            fragment: Some(packet),
            frag_count: 1,
            pit_token: fields.pit_token,
            congestion_mark: fields.congestion_mark,
            ..LpPacket::default()
        };
        match self.mtu {
            Some(mtu) if header.header_len(packet.len()) + packet.len() > mtu => {
                self.push_fragments(packet, header, mtu)
            }
            _ => self.push_frame(&header),
        }
    }

    /// Queues a Nack of `interest`.
    pub fn push_nack(&mut self, interest: &[u8], reason: NackReason, pit_token: PitToken) {
        self.push_frame(&LpPacket {
            fragment: Some(interest),
            frag_count: 1,
            nack: Some(reason),
            pit_token,
            ..LpPacket::default()
        });
    }

    /// The frames.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    /// All frames in one run of bytes, as streams send them, without those that a stream has taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// A stream has taken so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Whether no frame is queued.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes the frames and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.ends.clear();
    }

    fn push_frame(&mut self, frame: &LpPacket<'_>) {
        frame.encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn push_fragments(&mut self, packet: &[u8], header: LpPacket<'_>, mtu: usize) {
        let chunks = packet.chunks(mtu.saturating_sub(FRAGMENT_HEADER_MAX).max(256));
        let count = chunks.len() as u64;
        for (index, chunk) in chunks.enumerate() {
            let mut frame = if index == 0 { header.clone() } else { LpPacket::default() };
            frame.fragment = Some(chunk);
            frame.sequence = Some(self.sequence);
            frame.frag_index = index as u64;
            frame.frag_count = count;
            self.sequence = self.sequence.wrapping_add(1);
            self.push_frame(&frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_only_what_does_not_fit() {
        let mut outbox = Outbox::new(Some(1400), u64::MAX);
        let small = [0x06, 0x02, 0x07, 0x00];
        outbox.push(&small, Fields::default());
        assert_eq!(outbox.bytes(), small);
        outbox.clear();
        assert!(outbox.is_empty());

        let large = vec![7u8; 3000];
        let token = PitToken::new(b"token").unwrap();
        outbox.push(&large, Fields { pit_token: token, congestion_mark: 1 });
        let frames: Vec<_> = outbox.frames().map(|frame| LpPacket::decode(frame).unwrap()).collect();
        assert_eq!(frames.len(), 3);
        assert!(outbox.frames().all(|frame| frame.len() <= 1400));
        assert_eq!(frames[0].pit_token, token);
        assert_eq!(frames[0].congestion_mark, 1);
        assert!(frames[1].pit_token.is_empty());
        assert_eq!(frames[1].sequence, Some(0));
        assert!(frames.iter().enumerate().all(|(i, f)| (f.frag_index, f.frag_count) == (i as u64, 3)));
        let whole: Vec<u8> = frames.iter().flat_map(|f| f.fragment.unwrap()).copied().collect();
        assert_eq!(whole, large);
    }

    #[test]
    fn streams_never_fragment() {
        let mut outbox = Outbox::new(None, 0);
        outbox.push(&[7u8; 8800], Fields::default());
        assert_eq!(outbox.frames().count(), 1);
    }
}
