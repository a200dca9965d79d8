//! Round-trip times by prefix and upstream, for strategies that need them.

use std::time::Duration;

use byname_wire::FaceId;
use smallvec::SmallVec;

use crate::by_hash::ByHash;
use crate::ticks::Ticks;

/// Maximum of measured prefixes. Beyond it, the least recently used of a few prefixes is forgotten.
const PREFIXES_MAX: usize = 16_384;
/// Maximum of faces measured for one prefix.
const FACES_MAX: usize = 64;
/// Number of prefixes to compare when one must be forgotten.
const VICTIMS: usize = 8;

/// Measurements of one upstream.
#[derive(Debug, Clone, Copy)]
pub struct Upstream {
    /// The upstream's face.
    pub face: FaceId,
    /// Smoothed round-trip time [RFC 6298].
    pub srtt: Duration,
    /// Variation of the round-trip time.
    pub rttvar: Duration,
    /// Number of Interests in a row that it did not answer.
    pub silent: u32,
    /// Whether a round-trip time has been measured.
    pub measured: bool,
    /// When an Interest was last sent there or answered.
    used: Ticks,
}

impl Upstream {
    fn new(face: FaceId, now: Ticks) -> Self {
        Upstream { face, srtt: Duration::ZERO, rttvar: Duration::ZERO, silent: 0, measured: false, used: now }
    }

    /// How long to wait for an answer.
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

/// Measurements of one prefix.
#[derive(Debug, Clone, Default)]
pub struct Prefix {
    upstreams: SmallVec<[Upstream; 4]>,
    /// When to probe another upstream next; `None` before the first Interest.
    pub probe_at: Option<Ticks>,
    used: Ticks,
}

impl Prefix {
    /// An upstream, if it has measurements.
    pub fn upstream(&self, face: FaceId) -> Option<&Upstream> {
        self.upstreams.iter().find(|u| u.face == face)
    }

    /// Notes that an Interest is sent to an upstream, so that its measurements are kept.
    pub fn sent(&mut self, face: FaceId, now: Ticks) {
        if let Some(upstream) = self.upstreams.iter_mut().find(|u| u.face == face) {
            upstream.used = now;
        }
    }

    /// Notes that Data arrived after `rtt`.
    pub fn answered(&mut self, face: FaceId, rtt: Duration, now: Ticks) {
        if let Some(upstream) = self.entry(face, now) {
            upstream.sample(rtt);
            upstream.used = now;
        }
    }

    /// Notes that no answer arrived.
    pub fn silent(&mut self, face: FaceId, times: u32, now: Ticks) {
        if let Some(upstream) = self.entry(face, now) {
            upstream.silent = upstream.silent.saturating_add(times);
        }
    }

    /// Forgets measurements that are older than `lifetime`.
    fn forget(&mut self, now: Ticks, lifetime: Duration) {
        if now.since(self.used) >= lifetime {
            *self = Prefix::default();
        }
        self.upstreams.retain(|u| now.since(u.used) < lifetime);
    }

    /// Whether an action that is done once per `interval` is due for an upstream. If so, notes that it is done now.
    pub fn is_due(&mut self, face: FaceId, now: Ticks, interval: Duration) -> bool {
        match self.upstreams.iter_mut().find(|u| u.face == face) {
            Some(upstream) if now.since(upstream.used) < interval => false,
            Some(upstream) => {
                upstream.used = now;
                true
            }
            None => self.entry(face, now).is_some(),
        }
    }

    /// The upstream whose Data arrived last.
    pub fn last_answered(&self) -> Option<&Upstream> {
        self.upstreams.iter().filter(|u| u.measured).max_by_key(|u| u.used)
    }

    fn entry(&mut self, face: FaceId, now: Ticks) -> Option<&mut Upstream> {
        if let Some(i) = self.upstreams.iter().position(|u| u.face == face) {
            return self.upstreams.get_mut(i);
        }
        if self.upstreams.len() == FACES_MAX {
            return None;
        }
        self.upstreams.push(Upstream::new(face, now));
        self.upstreams.last_mut()
    }
}

/// All measured prefixes, by the hash of their names.
#[derive(Default)]
pub struct Measurements {
    prefixes: ByHash<Prefix>,
}

impl Measurements {
    /// Number of prefixes with measurements.
    pub fn count(&self) -> usize {
        self.prefixes.len()
    }

    /// The measurements of a prefix that are younger than `lifetime`, if there are any.
    pub fn known(&mut self, hash: u64, now: Ticks, lifetime: Duration) -> Option<&Prefix> {
        let prefix = self.prefixes.get_mut(&hash)?;
        prefix.forget(now, lifetime);
        Some(prefix)
    }

    /// The measurements of a prefix that are younger than `lifetime`; empty ones are added if there are none.
    pub fn prefix(&mut self, hash: u64, now: Ticks, lifetime: Duration) -> &mut Prefix {
        if self.prefixes.len() >= PREFIXES_MAX && !self.prefixes.contains_key(&hash) {
            let victim = self.prefixes.iter().take(VICTIMS).min_by_key(|(_, p)| p.used).map(|(h, _)| *h);
            if let Some(victim) = victim {
                self.prefixes.remove(&victim);
            }
        }
        let prefix = self.prefixes.entry(hash).or_default();
        prefix.forget(now, lifetime);
        prefix.used = now;
        prefix
    }
}
