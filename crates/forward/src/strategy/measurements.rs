//! Round-trip times by prefix and upstream, for strategies that want them.

use std::time::Duration;

use byname_wire::FaceId;
use smallvec::SmallVec;

use crate::by_hash::ByHash;
use crate::ticks::Ticks;

/// Prefixes measured at most; the one not used longest of a few makes room.
const PREFIXES_MAX: usize = 16_384;
/// Faces measured for one prefix.
const FACES_MAX: usize = 64;
/// Prefixes looked at to find one to forget.
const VICTIMS: usize = 8;

/// What is known of one upstream.
#[derive(Debug, Clone, Copy)]
pub struct Upstream {
    /// Which.
    pub face: FaceId,
    /// Smoothed round-trip time [RFC 6298].
    pub srtt: Duration,
    /// Its variation.
    pub rttvar: Duration,
    /// Interests in a row that it did not answer.
    pub silent: u32,
    /// Whether a round-trip time has been measured.
    pub measured: bool,
}

impl Upstream {
    fn new(face: FaceId) -> Self {
        Upstream { face, srtt: Duration::ZERO, rttvar: Duration::ZERO, silent: 0, measured: false }
    }

    /// How long to wait for it.
    pub fn rto(&self) -> Duration {
        if !self.measured {
            return Duration::from_secs(1);
        }
        (self.srtt + 4 * self.rttvar).clamp(Duration::from_millis(10), Duration::from_secs(4))
    }

    fn sample(&mut self, rtt: Duration) {
        if self.measured {
            self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = (7 * self.srtt + rtt) / 8;
        } else {
            (self.srtt, self.rttvar, self.measured) = (rtt, rtt / 2, true);
        }
        self.silent = 0;
    }
}

/// What is known of one prefix.
#[derive(Debug, Clone, Default)]
pub struct Prefix {
    upstreams: SmallVec<[Upstream; 4]>,
    /// When another upstream was tried last.
    pub probed: Ticks,
    used: Ticks,
}

impl Prefix {
    /// An upstream, if anything is known of it.
    pub fn upstream(&self, face: FaceId) -> Option<&Upstream> {
        self.upstreams.iter().find(|u| u.face == face)
    }

    /// Data came after `rtt`.
    pub fn answered(&mut self, face: FaceId, rtt: Duration) {
        if let Some(upstream) = self.entry(face) {
            upstream.sample(rtt);
        }
    }

    /// Nothing came.
    pub fn silent(&mut self, face: FaceId, times: u32) {
        if let Some(upstream) = self.entry(face) {
            upstream.silent = upstream.silent.saturating_add(times);
        }
    }

    fn entry(&mut self, face: FaceId) -> Option<&mut Upstream> {
        if let Some(i) = self.upstreams.iter().position(|u| u.face == face) {
            return self.upstreams.get_mut(i);
        }
        if self.upstreams.len() == FACES_MAX {
            return None;
        }
        self.upstreams.push(Upstream::new(face));
        self.upstreams.last_mut()
    }
}

/// All measured prefixes, by the hash of their names.
#[derive(Default)]
pub struct Measurements {
    prefixes: ByHash<Prefix>,
}

impl Measurements {
    /// How many prefixes have measurements.
    pub fn count(&self) -> usize {
        self.prefixes.len()
    }

    /// The measurements of a prefix, made if there are none.
    pub fn prefix(&mut self, hash: u64, now: Ticks) -> &mut Prefix {
        if self.prefixes.len() >= PREFIXES_MAX && !self.prefixes.contains_key(&hash) {
            let victim = self.prefixes.iter().take(VICTIMS).min_by_key(|(_, p)| p.used).map(|(h, _)| *h);
            if let Some(victim) = victim {
                self.prefixes.remove(&victim);
            }
        }
        let prefix = self.prefixes.entry(hash).or_default();
        prefix.used = now;
        prefix
    }
}
