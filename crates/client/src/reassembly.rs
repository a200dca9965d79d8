//! Reassembles NDNLPv2 fragments. Memory is bounded: the oldest message is dropped first.

use std::collections::VecDeque;

use byname_wire::lp::LpPacket;
use byname_wire::{NackReason, PACKET_BYTES_MAX, PitToken};

/// Maximum number of incomplete messages. A new one replaces the oldest.
const MESSAGES_MAX: usize = 64;
/// Maximum number of fragments of a packet: enough for a packet of legal size at a usual MTU.
const FRAGMENTS_MAX: u64 = 64;

/// A received network packet, with the link fields that clients use.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// The Interest or Data; with `nack`, the refused Interest.
    pub packet: &'a [u8],
    /// Token to repeat in the answer.
    pub pit_token: PitToken,
    /// Set if the forwarder refuses `packet`.
    pub nack: Option<NackReason>,
    /// Congestion on the path to here; 0: none.
    pub congestion_mark: u64,
}

impl<'a> Incoming<'a> {
    /// A packet without link fields.
    pub fn bare(packet: &'a [u8]) -> Self {
        Incoming { packet, pit_token: PitToken::NONE, nack: None, congestion_mark: 0 }
    }
}

#[derive(Debug)]
struct Message {
    /// Sequence of the fragment with index 0.
    first: u64,
    parts: Vec<Option<Vec<u8>>>,
    pit_token: PitToken,
    nack: Option<NackReason>,
    congestion_mark: u64,
}

/// Fragments of incomplete packets.
///
/// ```
/// use byname_client::{Fields, Outbox, Reassembly};
/// use byname_wire::data::DataBuilder;
///
/// let packet = DataBuilder::new("/example".parse()?).content(vec![7; 3000]).encode();
/// let mut outbox = Outbox::new(Some(1400), 0);
/// outbox.push(&packet, Fields::default());
/// let (mut reassembly, mut whole) = (Reassembly::default(), Vec::new());
/// for frame in outbox.frames() {
///     reassembly.accept(frame, |incoming| whole = incoming.packet.to_vec());
/// }
/// assert_eq!(whole, packet);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Reassembly {
    messages: VecDeque<Message>,
}

impl Reassembly {
    /// Takes a frame, and calls `packet` if the frame completes a packet. Malformed frames are ignored.
    pub fn accept(&mut self, frame: &[u8], packet: impl FnOnce(Incoming<'_>)) {
        let Ok(lp) = LpPacket::decode(frame) else { return };
        let Some(fragment) = lp.fragment else { return };
        if lp.frag_count == 1 {
            return packet(Incoming {
                packet: fragment,
                pit_token: lp.pit_token,
                nack: lp.nack,
                congestion_mark: lp.congestion_mark,
            });
        }
        let Some(message) = self.insert(&lp, fragment) else { return };
        let whole: Vec<u8> = message.parts.into_iter().flatten().flatten().collect();
        if whole.len() <= PACKET_BYTES_MAX {
            packet(Incoming {
                packet: &whole,
                pit_token: message.pit_token,
                nack: message.nack,
                congestion_mark: message.congestion_mark,
            });
        }
    }

    /// Stores a fragment. Returns its message when that is complete.
    fn insert(&mut self, lp: &LpPacket<'_>, fragment: &[u8]) -> Option<Message> {
        let sequence = lp.sequence?;
        if lp.frag_count > FRAGMENTS_MAX || lp.frag_index >= lp.frag_count || fragment.len() > PACKET_BYTES_MAX {
            return None;
        }
        let count = lp.frag_count as usize;
        let first = sequence.wrapping_sub(lp.frag_index);
        let at = match self.messages.iter().position(|m| m.first == first && m.parts.len() == count) {
            Some(at) => at,
            None => {
                if self.messages.len() == MESSAGES_MAX {
                    self.messages.pop_front();
                }
                self.messages.push_back(Message {
                    first,
                    parts: vec![None; count],
                    pit_token: PitToken::NONE,
                    nack: None,
                    congestion_mark: 0,
                });
                self.messages.len() - 1
            }
        };
        let message = &mut self.messages[at];
        if lp.frag_index == 0 {
            message.pit_token = lp.pit_token;
            message.nack = lp.nack;
        }
        message.congestion_mark = message.congestion_mark.max(lp.congestion_mark);
        message.parts[lp.frag_index as usize] = Some(fragment.to_vec());
        if message.parts.iter().all(Option::is_some) { self.messages.remove(at) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::{Fields, Outbox};

    fn fragments(packet: &[u8], first_sequence: u64) -> Vec<Vec<u8>> {
        let mut outbox = Outbox::new(Some(1400), first_sequence);
        let pit_token = PitToken::new(&[1, 2, 3]).unwrap();
        outbox.push(packet, Fields { pit_token, congestion_mark: 0 });
        outbox.frames().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn puts_interleaved_messages_together_in_any_order() {
        let (a, b) = (vec![1u8; 5000], vec![2u8; 3000]);
        let (mut a_frames, b_frames) = (fragments(&a, u64::MAX - 1), fragments(&b, 70));
        a_frames.reverse();
        let mut reassembly = Reassembly::default();
        let mut got = Vec::new();
        for i in 0..a_frames.len().max(b_frames.len()) {
            for frame in [a_frames.get(i), b_frames.get(i)].into_iter().flatten() {
                reassembly.accept(frame, |p| got.push((p.packet.to_vec(), p.pit_token.as_slice().to_vec())));
            }
        }
        assert_eq!(got, [(b, vec![1, 2, 3]), (a, vec![1, 2, 3])]);
        assert!(reassembly.messages.is_empty());
    }

    #[test]
    fn never_completed_messages_stay_bounded() {
        let mut reassembly = Reassembly::default();
        for i in 0..1000 {
            reassembly.accept(&fragments(&[7; 3000], i * 100)[0], |_| panic!("incomplete"));
        }
        assert_eq!(reassembly.messages.len(), MESSAGES_MAX);
    }

    #[test]
    fn hostile_counts_are_ignored() {
        let mut reassembly = Reassembly::default();
        for (index, count) in [(0, u64::MAX), (5, 2), (0, 65)] {
            let mut frame = Vec::new();
            let lp = LpPacket {
                fragment: Some(b"x"),
                sequence: Some(1),
                frag_index: index,
                frag_count: count,
                ..LpPacket::default()
            };
            lp.encode(&mut frame);
            reassembly.accept(&frame, |_| panic!("not a packet"));
        }
        reassembly.accept(b"\xff\xff", |_| panic!("not a packet"));
        assert!(reassembly.messages.is_empty());
    }
}
