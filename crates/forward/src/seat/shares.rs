//! Decides which faces may still put packets into a ring that fills.
//!
//! A face that sends faster than a worker works would fill the ring, and packets of other faces would mostly find no
//! room. So when a ring is half full, faces get equal shares of what goes in, until it is less than half full again.
//! After a quarter of the ring has gone in, only faces below the mean share may add packets. The rest is for faces that
//! send little, and have sent nothing meanwhile.

use crate::FaceId;
use crate::face_table::FaceMap;

/// Packets that went in since the ring was half full, by face.
#[derive(Debug)]
pub struct Shares {
    /// Number of packets that go in before room is kept for other faces.
    freely: u64,
    of_faces: FaceMap<u64>,
    all: u64,
}

impl Shares {
    /// Creates the shares of a ring for `ring_packets` packets.
    pub fn new(ring_packets: usize) -> Self {
        Shares { freely: (ring_packets as u64 / 4).max(1), of_faces: FaceMap::default(), all: 0 }
    }

    /// Whether a packet from this face may go in. If so, the packet counts.
    pub fn take(&mut self, face: FaceId) -> bool {
        let of_face = self.of_faces.get(&face).copied().unwrap_or_default();
        let faces = self.of_faces.len() as u64 + u64::from(of_face == 0);
        let is_above = of_face * faces > self.all;
        let is_at_mean = of_face * faces == self.all;
        if is_above || (is_at_mean && self.all >= self.freely) {
            return false;
        }
        self.of_faces.insert(face, of_face + 1);
        self.all += 1;
        true
    }

    /// Starts anew, when the ring has room again.
    pub fn clear(&mut self) {
        if self.all > 0 {
            self.of_faces.clear();
            self.all = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: FaceId = FaceId(256);
    const OTHER: FaceId = FaceId(257);
    const THIRD: FaceId = FaceId(300);

    /// How many of `packets` packets go in.
    fn taken(shares: &mut Shares, face: FaceId, packets: usize) -> usize {
        (0..packets).filter(|_| shares.take(face)).count()
    }

    #[test]
    fn one_face_alone_leaves_a_quarter_of_a_ring() {
        let mut shares = Shares::new(4096);
        assert_eq!(taken(&mut shares, ONE, 5000), 1024);
        assert_eq!(taken(&mut shares, OTHER, 10), 10);
        assert_eq!(taken(&mut shares, ONE, 5000), 0);
        shares.clear();
        assert_eq!(taken(&mut shares, ONE, 5000), 1024);
        assert!(Shares::new(1).take(ONE), "however small the ring");
    }

    #[test]
    fn a_face_that_sends_little_loses_nothing() {
        let mut shares = Shares::new(4096);
        for _ in 0..100 {
            assert!(taken(&mut shares, ONE, 500) + taken(&mut shares, THIRD, 500) <= 1000);
            assert!(shares.take(OTHER));
        }
        assert!(shares.all <= 1024 + 200, "{shares:?}");
    }

    #[test]
    fn faces_that_send_alike_have_equal_shares() {
        let mut shares = Shares::new(4096);
        let mut all = [0; 3];
        for _ in 0..1000 {
            for (face, taken) in [ONE, OTHER, THIRD].into_iter().zip(&mut all) {
                *taken += usize::from(shares.take(face));
            }
        }
        assert!(all.iter().all(|taken| taken.abs_diff(all[0]) <= 1) && all[0] > 300, "{all:?}");
    }
}
