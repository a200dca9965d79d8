//! The order of packets. What a thread sends on a face must leave in that order, wherever the face is. What a face
//! receives must reach each home in that order, unless its name is hot.

use std::collections::HashMap;

use byname_forward::{FaceId, Outgoing};
use byname_wire::Interest;

/// Checks the order of packets.
#[derive(Default)]
pub struct Order {
    /// Number of packets that each thread has sent on each face.
    sent: HashMap<(u64, FaceId), u64>,
    /// Number of the last of these that has left.
    left: HashMap<(u64, FaceId), u64>,
    /// Faces that sent Interests, by nonce.
    askers: HashMap<u32, FaceId>,
    /// The greatest nonce that each thread has sent to the producer, by the face that it came from.
    nonces: HashMap<(u64, FaceId), u32>,
}

/// Threads are fewer. A packet that has left a worker carries its number times this, plus its thread, as a mark.
const MARK: u64 = 64;

impl Order {
    /// A face has sent an Interest.
    pub fn asks(&mut self, face: FaceId, nonce: u32) {
        self.askers.insert(nonce, face);
    }

    /// A thread's worker sends a packet.
    pub fn sends(&mut self, thread: u64, outgoing: &mut Outgoing, checks_nonces: bool) {
        let number = self.sent.entry((thread, outgoing.face)).or_default();
        *number += 1;
        outgoing.fields.congestion_mark = *number * MARK + thread;
        if checks_nonces && outgoing.packet[0] == 5 {
            let nonce = Interest::decode(&outgoing.packet).expect("an Interest").nonce.expect("a nonce");
            let last = self.nonces.entry((thread, self.askers[&nonce])).or_default();
            assert!(nonce >= *last, "{nonce} overtook {last}");
            *last = nonce;
        }
    }

    /// A packet leaves on its face.
    pub fn leaves(&mut self, outgoing: &Outgoing) {
        let mark = outgoing.fields.congestion_mark;
        let (number, thread) = (mark / MARK, mark % MARK);
        let last = self.left.entry((thread, outgoing.face)).or_default();
        assert!(number > *last, "{number} was overtaken by {last}, both from thread {thread} to {}", outgoing.face);
        *last = number;
    }
}
