//! Decides which packets may still go into a ring that fills.
//!
//! A face that sends faster than a worker works would fill the ring, and packets of other faces would mostly find no
//! room. So when a ring is half full, sources get equal shares of what goes in, and so do the faces of one source, until
//! it is less than half full again. As in the PIT, a source is a single face, or all faces of one source prefix or
//! interface. So a peer gains nothing by using many addresses.
//!
//! After a quarter of the ring has gone in, only sources below the mean share may add packets, and after an eighth of
//! one source, only faces below that source's mean. The rest is for those that send little, and have sent nothing
//! meanwhile.

use std::collections::HashMap;

use crate::FaceId;
use crate::face_table::FaceMap;
use crate::whereabouts::{Source, Whereabouts};

/// Packets that went in since the ring was half full, by source and face.
#[derive(Debug)]
pub struct Shares {
    /// Number of packets that go in before room is kept for other sources.
    freely: u64,
    of_sources: FaceMap<Share>,
    all: u64,
}

/// The packets of one source.
#[derive(Debug, Default)]
struct Share {
    of_faces: FaceMap<u64>,
    all: u64,
}

/// Whether one of `number` senders that have sent `all` packets together may send more, after `of_one` packets. Those
/// that are not below the mean may do so only while `all` is less than `freely`.
fn may_send(of_one: u64, number: usize, all: u64, freely: u64) -> bool {
    let times = of_one * number as u64;
    times < all || (times == all && all < freely)
}

impl Shares {
    /// Creates the shares of a ring for `ring_packets` packets.
    pub fn new(ring_packets: usize) -> Self {
        Shares { freely: (ring_packets as u64 / 4).max(2), of_sources: FaceMap::default(), all: 0 }
    }

    /// Whether a packet from this face may go in. If so, the packet counts. `source` is the face that stands for its
    /// source.
    pub fn take(&mut self, source: FaceId, face: FaceId) -> bool {
        let share = self.of_sources.get(&source);
        let of_source = share.map_or(0, |share| share.all);
        let sources = self.of_sources.len() + usize::from(share.is_none());
        let of_face = share.and_then(|share| share.of_faces.get(&face)).copied().unwrap_or_default();
        let faces = share.map_or(0, |share| share.of_faces.len()) + usize::from(of_face == 0);
        if !may_send(of_source, sources, self.all, self.freely) || !may_send(of_face, faces, of_source, self.freely / 2)
        {
            return false;
        }
        let share = self.of_sources.entry(source).or_default();
        share.of_faces.insert(face, of_face + 1);
        share.all += 1;
        self.all += 1;
        true
    }

    /// Starts anew, when the ring has room again.
    pub fn clear(&mut self) {
        if self.all > 0 {
            self.of_sources.clear();
            self.all = 0;
        }
    }
}

/// The sources of one thread's faces.
#[derive(Default)]
pub(super) struct Senders {
    /// The face that stands for each source, and the source's number of faces. Strangers choose their addresses, so this
    /// map's hash is keyed. The face may be gone by now: its number is not used again.
    sources: HashMap<Source, (FaceId, usize)>,
    /// Faces whose source may have several.
    faces: FaceMap<(Source, FaceId)>,
}

impl Senders {
    /// Notes a new face of this thread, whose peer is at `place`.
    pub fn enter(&mut self, face: FaceId, place: &Whereabouts) {
        let Some(source) = place.source() else { return };
        self.leave(face);
        let (first, faces) = self.sources.entry(source.clone()).or_insert((face, 0));
        *faces += 1;
        self.faces.insert(face, (source, *first));
    }

    /// Forgets a face.
    pub fn leave(&mut self, face: FaceId) {
        let Some((source, _)) = self.faces.remove(&face) else { return };
        if let Some((_, faces)) = self.sources.get_mut(&source) {
            *faces -= 1;
            if *faces == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// The face that stands for the source of this face.
    pub fn source_of(&self, face: FaceId) -> FaceId {
        self.faces.get(&face).map_or(face, |(_, first)| *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: FaceId = FaceId(256);
    const OTHER: FaceId = FaceId(257);
    const THIRD: FaceId = FaceId(300);

    /// How many of `packets` packets go in, of a source with one face.
    fn taken(shares: &mut Shares, face: FaceId, packets: usize) -> usize {
        (0..packets).filter(|_| shares.take(face, face)).count()
    }

    #[test]
    fn one_face_alone_leaves_room_for_others() {
        let mut shares = Shares::new(4096);
        assert_eq!(taken(&mut shares, ONE, 5000), 512);
        assert_eq!(taken(&mut shares, OTHER, 10), 10);
        assert_eq!(taken(&mut shares, ONE, 5000), 0);
        shares.clear();
        assert_eq!(taken(&mut shares, ONE, 5000), 512);
        assert!(Shares::new(1).take(ONE, ONE), "however small the ring");
    }

    #[test]
    fn many_faces_of_one_source_have_the_share_of_one_source() {
        let mut shares = Shares::new(4096);
        let flood = |shares: &mut Shares| (1000..3000).filter(|face| shares.take(ONE, FaceId(*face))).count();
        assert_eq!(flood(&mut shares), 1024, "each of its faces has sent one packet");
        // Another source may send as much.
        assert_eq!(taken(&mut shares, THIRD, 5000), 512);
        assert_eq!(flood(&mut shares), 0);
        // A face that sends little gets its packets through beside another of its own source.
        shares.clear();
        assert_eq!((0..5000).filter(|_| shares.take(ONE, ONE)).count(), 512);
        assert_eq!((0..10).filter(|_| shares.take(ONE, OTHER)).count(), 10);
        assert_eq!((0..5000).filter(|_| shares.take(ONE, ONE)).count(), 0);
    }

    #[test]
    fn a_face_that_sends_little_loses_nothing() {
        let mut shares = Shares::new(4096);
        for _ in 0..100 {
            assert!(taken(&mut shares, ONE, 500) + taken(&mut shares, THIRD, 500) <= 1000);
            assert!(shares.take(OTHER, OTHER));
        }
        assert!(shares.all <= 1024 + 200, "{shares:?}");
    }

    #[test]
    fn faces_that_send_alike_have_equal_shares() {
        // Of one source, and of one each.
        for source in [Some(ONE), None] {
            let mut shares = Shares::new(4096);
            let mut all = [0; 3];
            for _ in 0..1000 {
                for (face, taken) in [ONE, OTHER, THIRD].into_iter().zip(&mut all) {
                    *taken += usize::from(shares.take(source.unwrap_or(face), face));
                }
            }
            assert!(all.iter().all(|taken| taken.abs_diff(all[0]) <= 1) && all[0] > 150, "{all:?}");
        }
    }

    #[test]
    fn a_source_is_known_by_its_first_face_until_its_last_is_gone() {
        let host = |address: &str| Whereabouts::Host(address.parse().expect("an address with a port"));
        let mut senders = Senders::default();
        senders.enter(ONE, &host("192.0.2.1:1"));
        senders.enter(OTHER, &host("192.0.2.99:2"));
        senders.enter(THIRD, &host("192.0.3.1:1"));
        assert_eq!([ONE, OTHER, THIRD].map(|face| senders.source_of(face)), [ONE, ONE, THIRD]);
        senders.leave(ONE);
        assert_eq!(senders.source_of(OTHER), ONE);
        senders.enter(OTHER, &host("192.0.2.99:2"));
        assert_eq!(senders.source_of(OTHER), OTHER, "it was the last, and begins anew");
        senders.enter(ONE, &Whereabouts::Alone);
        assert_eq!(senders.source_of(ONE), ONE);
        [ONE, OTHER, THIRD].into_iter().for_each(|face| senders.leave(face));
        assert!(senders.faces.is_empty() && senders.sources.is_empty());
    }
}
