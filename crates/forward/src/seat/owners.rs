//! The thread that owns each face, and faces that move from one thread to another.
//!
//! Threads number their faces in steps, so the number of a face says which thread made it ([`owner`]). A small table
//! names the faces that have moved since. Each thread has a table of its own, and changes it between two rounds. So
//! nothing is shared, and a packet costs a look at a table that is mostly empty.
//!
//! A face moves in steps, each of which begins when the one before it has ended on all threads:
//!
//! 1. The old thread takes nothing more from the peer, and holds back what it has to send there ([`Owners::leave`]).
//!    All workers handle the packets that this thread has given them so far ([`Seat::tell_all_after`]).
//! 2. The new thread holds back what it has to send to the peer ([`Owners::moves`]).
//! 3. The remaining threads give their output to the new thread from now on. They must not do so earlier: the new
//!    thread would pass it on to the old one, and it could overtake what they gave the old one before.
//! 4. The old thread takes what others gave it before ([`Seat::take_output`]), and passes on what it has held
//!    ([`Owners::left`]).
//! 5. The new thread sends what the old one held, then what it has held itself ([`Owners::arrived`]), and takes input.
//!
//! So packets from the peer and packets to it keep their order, and none is lost. If more than [`HELD_MAX`] packets are
//! held back, further ones are dropped and counted.

use super::{Crossing, Seat, owner};
use crate::face_table::FaceMap;
use crate::{FaceId, Outgoing};

/// Packets that a thread holds back for one face that moves.
pub const HELD_MAX: usize = 16_384;

/// One thread's knowledge of the owners of faces.
#[derive(Debug, Default)]
pub struct Owners {
    threads: usize,
    /// Faces that another thread owns than the one that made them.
    moved: FaceMap<usize>,
    /// Faces that leave this thread or come to it, with the packets that wait for them.
    moving: FaceMap<Vec<Outgoing>>,
    drops: u64,
}

impl Owners {
    /// The owners when no face has moved.
    pub fn new(threads: usize) -> Self {
        Owners { threads, ..Owners::default() }
    }

    /// The thread that owns a face.
    #[inline]
    pub fn of(&self, face: FaceId) -> usize {
        let made_by = owner(face, self.threads);
        if self.moved.is_empty() { made_by } else { self.moved.get(&face).copied().unwrap_or(made_by) }
    }

    /// Whether another thread owns the face than the one that made it.
    pub fn has_moved(&self, face: FaceId) -> bool {
        self.moved.contains_key(&face)
    }

    /// Notes the owner of a face.
    pub fn set(&mut self, face: FaceId, thread: usize) {
        if owner(face, self.threads) == thread {
            self.moved.remove(&face);
        } else {
            self.moved.insert(face, thread);
        }
    }

    /// Forgets the owner of a face that is gone.
    pub fn forget(&mut self, face: FaceId) {
        self.moved.remove(&face);
    }

    /// Gives a packet to the thread that owns its face, or holds it back if the face is about to come or go. Returns
    /// false if this thread is the owner, and the packet stays.
    pub fn pass_on(&mut self, seat: &mut Seat, outgoing: &mut Outgoing) -> bool {
        if !self.moving.is_empty()
            && let Some(held) = self.moving.get_mut(&outgoing.face)
        {
            if held.len() < HELD_MAX {
                held.push(outgoing.take());
            } else {
                self.drops += 1;
            }
            return true;
        }
        let owner = self.of(outgoing.face);
        if owner == seat.number() {
            return false;
        }
        seat.send_to(owner, outgoing);
        true
    }

    /// The face leaves this thread: holds its packets back.
    pub fn leave(&mut self, face: FaceId) {
        self.moving.entry(face).or_default();
    }

    /// Another thread's face moves to thread `to`. If that is this thread, `here`, holds its packets back.
    pub fn moves(&mut self, face: FaceId, to: usize, here: usize) {
        self.set(face, to);
        if to == here {
            self.leave(face);
        }
    }

    /// The face is on its way to thread `to`. Returns the packets held back for it.
    pub fn left(&mut self, face: FaceId, to: usize) -> Vec<Outgoing> {
        self.set(face, to);
        self.arrived(face)
    }

    /// The face is here. Returns the packets held back for it.
    pub fn arrived(&mut self, face: FaceId) -> Vec<Outgoing> {
        self.moving.remove(&face).unwrap_or_default()
    }

    /// Packets dropped because too many were held back.
    pub fn drops(&self) -> u64 {
        self.drops
    }
}

impl Seat {
    /// Takes all that other threads have published so far to send on this thread's faces.
    pub fn take_output(&mut self, outgoing: &mut Vec<Outgoing>) {
        let Some(crossing) = &mut self.crossing else { return };
        let Crossing { links, departing, .. } = &mut **crossing;
        for link in links.iter_mut().flatten() {
            while link.take_departures(departing, outgoing) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use byname_lookup::Control;
    use byname_lookup::oracle::Oracle;
    use byname_wire::NameHashKey;

    use super::super::Workers;
    use super::*;
    use crate::tables::Tables;
    use crate::worker::WorkerConfig;
    use crate::{LinkFields, Packet, Worker};

    const FACE: FaceId = FaceId(260);

    fn outgoing(face: FaceId) -> Outgoing {
        Outgoing { face, fields: LinkFields::default(), packet: Packet::copy_from(&[5, 0]) }
    }

    #[test]
    fn only_faces_away_from_home_take_room() {
        let mut owners = Owners::new(3);
        assert_eq!((owners.of(FACE), owners.of(FaceId::INTERNAL)), (1, 0));
        owners.moves(FACE, 2, 0);
        assert_eq!((owners.of(FACE), owners.of(FaceId(263)), owners.has_moved(FACE)), (2, 1, true));
        owners.moves(FACE, 1, 0);
        assert!(owners.moved.is_empty());
        owners.set(FACE, 0);
        owners.forget(FACE);
        assert_eq!((owners.of(FACE), owners.moved.len()), (1, 0));
    }

    #[test]
    fn packets_for_a_face_that_comes_wait_in_order_and_not_without_bound() {
        let tables = Arc::new(Tables::new(Oracle::default().query()));
        let worker = Worker::new(WorkerConfig::default(), NameHashKey::new([1, 2]), tables, 1);
        let mut seat = Workers::from(worker).seats().expect("there is memory").remove(0);
        let mut owners = Owners::new(1);
        assert!(!owners.pass_on(&mut seat, &mut outgoing(FACE)), "it is here");
        owners.moves(FACE, 0, 0);
        for _ in 0..HELD_MAX + 7 {
            assert!(owners.pass_on(&mut seat, &mut outgoing(FACE)));
        }
        assert!(!owners.pass_on(&mut seat, &mut outgoing(FaceId(261))), "other faces do not wait");
        assert_eq!((owners.arrived(FACE).len(), owners.drops()), (HELD_MAX, 7));
        assert!(!owners.pass_on(&mut seat, &mut outgoing(FACE)));
    }
}
