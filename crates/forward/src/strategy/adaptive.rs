//! Adaptive: the upstream that measurements show to be fastest (NFD calls the strategy `asf`).
//!
//! Each FIB prefix has its own round-trip times. Interests go to the upstream with the lowest time. From time to time
//! an Interest also goes to another upstream, to measure that one. An upstream that refuses, or leaves several
//! Interests in a row unanswered, ranks last until it answers again.

use std::time::Duration;

use byname_wire::{FaceId, NackReason};

use crate::pit_cs::PitEntry;
use crate::strategy::measurements::Prefix;
use crate::strategy::name::Parameters;
use crate::strategy::suppression::{Suppression, Verdict};
use crate::strategy::{
    Answer, Decision, Lesson, Preferred, Situation, Strategy, StrategyError, Turn, Why, preference, refuse_if_all_have,
};
use crate::tables::Nexthop;

/// Maximum time between the first Interest of a prefix and the first probe.
const FIRST_PROBE: Duration = Duration::from_secs(5);
/// Default time between probes, and its minimum.
const PROBING_MS: i64 = 60_000;
const PROBING_MS_MIN: i64 = 1000;
/// Default time after which unused measurements are forgotten.
const LIFETIME_MS: i64 = 300_000;

/// The strategy.
pub struct Adaptive {
    suppression: Suppression,
    probing_interval: Duration,
    /// Number of unanswered Interests in a row after which an upstream counts as dead.
    silent_max: u32,
    /// Time after which unused measurements are forgotten.
    lifetime: Duration,
}

impl Adaptive {
    /// Takes the parameters in the strategy's name: `probing-interval` and `measurements-lifetime` in ms,
    /// `max-timeouts`, and those of suppression.
    pub fn new(parameters: &Parameters<'_>) -> Result<Self, StrategyError> {
        let suppression = Suppression::new(parameters)?;
        let probing_ms: i64 = parameters.value("probing-interval", PROBING_MS)?;
        if probing_ms < PROBING_MS_MIN {
            let text = format!("Probing interval must be >= {PROBING_MS_MIN} milliseconds");
            return Err(StrategyError::Parameters(text));
        }
        let silent_max: i64 = parameters.value("max-timeouts", 3)?;
        if silent_max < 0 {
            return Err(StrategyError::parameters("max-timeouts cannot be negative"));
        }
        let lifetime_ms: i64 = parameters.value("measurements-lifetime", LIFETIME_MS)?;
        if lifetime_ms <= probing_ms {
            return Err(StrategyError::Parameters(format!(
                "Measurements lifetime ({lifetime_ms} milliseconds) should be greater than the probing interval of \
                 {probing_ms} milliseconds"
            )));
        }
        let ms = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        Ok(Adaptive {
            suppression,
            probing_interval: ms(probing_ms),
            // As in NFD, 0 means the same as 1.
            silent_max: u32::try_from(silent_max).unwrap_or(u32::MAX).max(1),
            lifetime: ms(lifetime_ms),
        })
    }

    fn prefix<'a>(&self, situation: &'a mut Situation<'_>) -> &'a mut Prefix {
        situation.measurements.prefix(situation.prefix_hash, situation.now, self.lifetime)
    }

    /// Lower is better. Measured upstreams come first, then unmeasured ones by cost, then dead ones.
    fn rank(&self, prefix: &Prefix, nexthop: &Nexthop) -> (u8, Duration, u64) {
        match prefix.upstream(nexthop.face) {
            Some(u) if u.silent >= self.silent_max => (2, Duration::from_secs(u64::from(u.silent)), nexthop.cost),
            Some(u) if u.measured => (0, u.srtt, nexthop.cost),
            _ => (1, Duration::ZERO, nexthop.cost),
        }
    }

    /// Another upstream to probe, if it is time. An unmeasured one comes first, otherwise the next best one.
    fn probe(&self, situation: &mut Situation<'_>, best: FaceId) -> Option<FaceId> {
        let now = situation.now;
        let prefix = situation.measurements.prefix(situation.prefix_hash, now, self.lifetime);
        let probe_at = *prefix.probe_at.get_or_insert(now + self.probing_interval.min(FIRST_PROBE));
        if now < probe_at {
            return None;
        }
        let others = situation.nexthops.iter().filter(|n| n.face != best);
        let chosen = others.min_by_key(|n| {
            let unmeasured = prefix.upstream(n.face).is_none_or(|u| !u.measured && u.silent < self.silent_max);
            (!unmeasured, self.rank(prefix, n))
        })?;
        prefix.probe_at = Some(now + self.probing_interval);
        prefix.sent(chosen.face, now);
        Some(chosen.face)
    }
}

impl Strategy for Adaptive {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let verdict = self.suppression.decide(situation.now, pit);
        if verdict == Verdict::Suppress {
            return decision.why = Why::Suppressed;
        }
        let now = situation.now;
        let prefix = situation.measurements.prefix(situation.prefix_hash, now, self.lifetime);
        if verdict == Verdict::Again {
            // The consumer stopped waiting, so upstreams that should have answered count as silent.
            for record in pit.out_records.iter().filter(|r| r.nacked.is_none()) {
                let rto = prefix.upstream(record.face).map_or(Duration::from_secs(1), |u| u.rto());
                if now.since(record.sent) >= rto {
                    prefix.silent(record.face, 1, now);
                }
            }
        }
        let best = situation.nexthops.iter().min_by_key(|n| {
            let asked = verdict == Verdict::Again && pit.out_record(n.face).is_some();
            (asked, self.rank(prefix, n))
        });
        let Some(best) = best.map(|n| n.face) else {
            decision.why = Why::NoNexthop;
            // An Interest that was already sent for other downstreams stays pending.
            if verdict == Verdict::New {
                decision.refuse = Some(NackReason::NoRoute);
            }
            return;
        };
        prefix.sent(best, now);
        decision.forward.push(best);
        if verdict == Verdict::New && situation.nexthops.len() > 1 {
            decision.forward.extend(self.probe(situation, best));
        }
        decision.why = match decision.forward.len() {
            2 => Why::FastestAndProbe,
            _ if verdict == Verdict::Again => Why::NextOne,
            _ => Why::Fastest,
        };
    }

    fn after_nack(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let now = situation.now;
        let prefix = situation.measurements.prefix(situation.prefix_hash, now, self.lifetime);
        for record in pit.out_records.iter().filter(|r| r.nacked.is_some()) {
            prefix.silent(record.face, self.silent_max, now);
        }
        let unasked = situation.nexthops.iter().filter(|n| pit.out_record(n.face).is_none());
        if let Some(next) = unasked.min_by_key(|n| self.rank(prefix, n)) {
            decision.forward.push(next.face);
            decision.why = Why::Unasked;
        } else {
            refuse_if_all_have(pit, decision);
        }
    }

    fn before_satisfy(&mut self, situation: &mut Situation<'_>, pit: &PitEntry, answer: &Answer<'_>) -> Lesson {
        if let Some(record) = pit.out_record(answer.face) {
            let rtt = situation.now.since(record.sent);
            let now = situation.now;
            self.prefix(situation).answered(answer.face, rtt, now);
        }
        Lesson::default()
    }

    fn on_expiry(&mut self, situation: &mut Situation<'_>, pit: &PitEntry) {
        let now = situation.now;
        let prefix = self.prefix(situation);
        for record in pit.out_records.iter().filter(|r| r.nacked.is_none()) {
            prefix.silent(record.face, 1, now);
        }
    }

    fn measures(&self) -> bool {
        true
    }

    fn preference(&mut self, situation: &mut Situation<'_>) -> Vec<Preferred> {
        let known = situation.measurements.known(situation.prefix_hash, situation.now, self.lifetime);
        let (none, mut nexthops) = (Prefix::default(), situation.nexthops.to_vec());
        let prefix = known.unwrap_or(&none);
        nexthops.sort_by_key(|nexthop| self.rank(prefix, nexthop));
        let preferred = |nexthop: &Nexthop| {
            let upstream = prefix.upstream(nexthop.face);
            Preferred {
                rtt: upstream.filter(|upstream| upstream.measured).map(|upstream| upstream.srtt),
                silent: upstream.map_or(0, |upstream| upstream.silent),
                ..Preferred::unmeasured(nexthop, Turn::Later)
            }
        };
        preference::one_by_one(nexthops.iter().map(preferred).collect())
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let ms = |time: Duration| time.as_millis().to_string();
        let mut parameters = vec![
            ("probing-interval", ms(self.probing_interval)),
            ("max-timeouts", self.silent_max.to_string()),
            ("measurements-lifetime", ms(self.lifetime)),
        ];
        parameters.extend(self.suppression.parameters());
        parameters
    }
}
