//! Adaptive: the upstream that answers soonest, by measurement (NFD calls it `asf`).
//!
//! Each prefix of the FIB has its own round-trip times. Interests go to the upstream with the
//! lowest; now and then one goes to another too, to know how that one does. An upstream that
//! lets several Interests in a row go unanswered, or refuses, comes last until it answers again.

use std::time::Duration;

use byname_wire::{FaceId, NackReason};

use crate::pit_cs::PitEntry;
use crate::strategy::measurements::Prefix;
use crate::strategy::suppression::{Suppression, Verdict};
use crate::strategy::{Decision, Parameter, Situation, Strategy, StrategyError};
use crate::tables::Nexthop;

/// Time between the first Interest of a prefix and the first probe, at most.
const FIRST_PROBE: Duration = Duration::from_secs(5);

/// The strategy.
pub struct Adaptive {
    suppression: Suppression,
    probing_interval: Duration,
    /// Unanswered Interests in a row after which an upstream counts as dead.
    silent_max: u32,
}

impl Adaptive {
    /// From the parameters in its name: `probing-interval` in ms, `max-timeouts`, and
    /// suppression's.
    pub fn new(parameters: &[Parameter<'_>]) -> Result<Self, StrategyError> {
        let mut suppression = Suppression::default();
        let mut probing_interval = Duration::from_secs(60);
        let mut silent_max = 3;
        for &(key, value) in parameters {
            match key {
                "probing-interval" => {
                    let ms = value.parse().map_err(|_| StrategyError::BadParameters)?;
                    probing_interval = Duration::from_millis(ms);
                }
                "max-timeouts" => silent_max = value.parse().map_err(|_| StrategyError::BadParameters)?,
                _ if suppression.parameter((key, value))? => {}
                _ => return Err(StrategyError::BadParameters),
            }
        }
        if probing_interval < Duration::from_millis(1000) || silent_max == 0 {
            return Err(StrategyError::BadParameters);
        }
        Ok(Adaptive { suppression: suppression.check()?, probing_interval, silent_max })
    }

    /// Lower is better: dead ones last, unmeasured ones by cost after those that answer.
    fn rank(&self, prefix: &Prefix, nexthop: &Nexthop) -> (u8, Duration, u64) {
        match prefix.upstream(nexthop.face) {
            Some(u) if u.silent >= self.silent_max => (2, Duration::from_secs(u64::from(u.silent)), nexthop.cost),
            Some(u) if u.measured => (0, u.srtt, nexthop.cost),
            _ => (1, Duration::ZERO, nexthop.cost),
        }
    }

    /// Another upstream to try, if it is time: one never measured first, else the one whose
    /// measurement is next best.
    fn probe(&self, situation: &mut Situation<'_>, best: FaceId) -> Option<FaceId> {
        let now = situation.now;
        let prefix = situation.measurements.prefix(situation.prefix_hash, now);
        if prefix.probed.0 == 0 {
            // The first Interest of this prefix: the first probe comes soon.
            prefix.probed = now - self.probing_interval.saturating_sub(FIRST_PROBE);
            return None;
        }
        if now.since(prefix.probed) < self.probing_interval {
            return None;
        }
        let others = situation.nexthops.iter().filter(|n| n.face != best);
        let chosen = others.min_by_key(|n| {
            let unmeasured = prefix.upstream(n.face).is_none_or(|u| !u.measured && u.silent < self.silent_max);
            (!unmeasured, self.rank(prefix, n))
        })?;
        prefix.probed = now;
        Some(chosen.face)
    }
}

impl Strategy for Adaptive {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let verdict = self.suppression.decide(situation.now, pit);
        if verdict == Verdict::Suppress {
            return;
        }
        let prefix = situation.measurements.prefix(situation.prefix_hash, situation.now);
        if verdict == Verdict::Again {
            // The consumer gave up waiting: so do we with upstreams that should have answered.
            for record in pit.out_records.iter().filter(|r| r.nacked.is_none()) {
                let rto = prefix.upstream(record.face).map_or(Duration::from_secs(1), |u| u.rto());
                if situation.now.since(record.sent) >= rto {
                    prefix.silent(record.face, 1);
                }
            }
        }
        let best = situation.nexthops.iter().min_by_key(|n| {
            let asked = verdict == Verdict::Again && pit.out_record(n.face).is_some();
            (asked, self.rank(prefix, n))
        });
        let Some(best) = best.map(|n| n.face) else {
            // One that is on its way for others already goes on.
            if verdict == Verdict::New {
                decision.refuse = Some(NackReason::NoRoute);
            }
            return;
        };
        decision.forward.push(best);
        if verdict == Verdict::New && situation.nexthops.len() > 1 {
            decision.forward.extend(self.probe(situation, best));
        }
    }

    fn after_nack(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let prefix = situation.measurements.prefix(situation.prefix_hash, situation.now);
        for record in pit.out_records.iter().filter(|r| r.nacked.is_some()) {
            prefix.silent(record.face, self.silent_max);
        }
        let unasked = situation.nexthops.iter().filter(|n| pit.out_record(n.face).is_none());
        if let Some(next) = unasked.min_by_key(|n| self.rank(prefix, n)) {
            decision.forward.push(next.face);
        } else if pit.out_records.iter().all(|r| r.nacked.is_some()) {
            decision.refuse = super::least_severe(pit);
        }
    }

    fn before_satisfy(&mut self, situation: &mut Situation<'_>, pit: &PitEntry, upstream: FaceId) {
        if let Some(record) = pit.out_record(upstream) {
            let rtt = situation.now.since(record.sent);
            situation.measurements.prefix(situation.prefix_hash, situation.now).answered(upstream, rtt);
        }
    }

    fn on_expiry(&mut self, situation: &mut Situation<'_>, pit: &PitEntry) {
        let prefix = situation.measurements.prefix(situation.prefix_hash, situation.now);
        for record in pit.out_records.iter().filter(|r| r.nacked.is_none()) {
            prefix.silent(record.face, 1);
        }
    }

    fn measures(&self) -> bool {
        true
    }
}
