//! How many packets each face may send, so that none takes the time of the others.

use std::collections::BTreeMap;

use byname_wire::FaceId;

/// Most faces with a bucket of their own. The one that waited longest makes room.
const FACES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Thousandths of a packet.
    tokens: u64,
    at_ms: u64,
}

/// A token bucket for each face.
#[derive(Debug)]
pub(crate) struct Buckets {
    per_second: u64,
    burst: u64,
    faces: BTreeMap<FaceId, Bucket>,
}

impl Buckets {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Buckets { per_second: u64::from(per_second), burst: u64::from(burst), faces: BTreeMap::new() }
    }

    /// Whether one more packet of this face may be looked at. A face with several neighbours has several shares.
    pub(crate) fn take(&mut self, face: FaceId, shares: usize, now_ms: u64) -> bool {
        let shares = shares.clamp(1, 64) as u64;
        let full = self.burst * 1000 * shares;
        if !self.faces.contains_key(&face) && self.faces.len() >= FACES_MAX {
            let oldest = self.faces.iter().min_by_key(|(_, bucket)| bucket.at_ms).map(|(face, _)| *face);
            oldest.map(|face| self.faces.remove(&face));
        }
        let bucket = self.faces.entry(face).or_insert(Bucket { tokens: full, at_ms: now_ms });
        let gained = now_ms.saturating_sub(bucket.at_ms).saturating_mul(self.per_second * shares);
        bucket.tokens = bucket.tokens.saturating_add(gained).min(full);
        bucket.at_ms = now_ms;
        let is_enough = bucket.tokens >= 1000;
        if is_enough {
            bucket.tokens -= 1000;
        }
        is_enough
    }

    pub(crate) fn forget(&mut self, face: FaceId) {
        self.faces.remove(&face);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_that_floods_does_not_take_from_others() {
        let mut buckets = Buckets::new(10, 20);
        let taken = (0..1000).filter(|_| buckets.take(FaceId(300), 1, 5000)).count();
        assert_eq!(taken, 20);
        assert!(buckets.take(FaceId(301), 1, 5000));
        let taken = (0..1000).filter(|i| buckets.take(FaceId(300), 1, 5000 + i)).count();
        assert_eq!(taken, 9);
        for face in 0..10_000 {
            assert!(buckets.take(FaceId(1000 + face), 1, 7000));
        }
        assert!(buckets.faces.len() <= FACES_MAX);
    }
}
