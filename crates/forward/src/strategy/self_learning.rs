//! Self-learning: floods Interests until Data shows where it comes from.
//!
//! An Interest without a route is a *discovery* Interest and is flooded to all neighbors. A router that has a route
//! forwards the Interest along it, marked as non-discovery. The Data that returns carries a prefix announcement, and
//! each router on its path makes a route from that. [NFD, "Self-Learning Strategy"; NDNLPv2, "Self-Learning"]
//!
//! Differs from NFD's: Interests that are sent again too soon are suppressed. A flood reaches a bounded number of
//! faces. A Nack goes downstream only when all upstreams have refused. A route is renewed when Data comes along it.

use std::time::Duration;

use byname_wire::NackReason;

use crate::learning::Taught;
use crate::pit_cs::PitEntry;
use crate::strategy::name::Parameters;
use crate::strategy::suppression::{Suppression, Verdict};
use crate::strategy::{
    Answer, Decision, Lesson, Preferred, Situation, Strategy, StrategyError, Turn, Why, preference, refuse_if_all_have,
};

/// Minimum time between two notices about Data along one route.
const RENEWAL: Duration = Duration::from_secs(60);
/// How long the time of the last notice is remembered.
const LIFETIME: Duration = Duration::from_secs(600);

/// The strategy.
pub struct SelfLearning {
    suppression: Suppression,
}

impl SelfLearning {
    /// The strategy, which takes no parameters.
    pub fn new(parameters: &Parameters<'_>) -> Result<Self, StrategyError> {
        parameters.none()?;
        Ok(SelfLearning { suppression: Suppression::default() })
    }
}

impl Strategy for SelfLearning {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let is_discovery = !pit.non_discovery;
        pit.wants_announcement |= is_discovery;
        if self.suppression.decide(situation.now, pit) == Verdict::Suppress {
            return decision.why = Why::Suppressed;
        }
        if situation.is_routed {
            pit.non_discovery = true;
            decision.why = Why::All;
            decision.forward.extend(situation.nexthops.iter().map(|n| n.face));
        } else if is_discovery {
            decision.flood = true;
            return decision.why = Why::Flood;
        }
        if decision.forward.is_empty() {
            decision.why = Why::NoNexthop;
        }
        if decision.forward.is_empty() && pit.out_records.is_empty() {
            decision.refuse = Some(NackReason::NoRoute);
        }
    }

    fn after_nack(&mut self, _situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        refuse_if_all_have(pit, decision);
    }

    fn before_satisfy(&mut self, situation: &mut Situation<'_>, pit: &PitEntry, answer: &Answer<'_>) -> Lesson {
        match pit.out_record(answer.face) {
            Some(record) if record.non_discovery => {
                let now = situation.now;
                let prefix = situation.measurements.prefix(situation.prefix_hash, now, LIFETIME);
                let due = prefix.is_due(answer.face, now, RENEWAL);
                Lesson { tell: due.then_some(Taught::Answered), announce: pit.wants_announcement }
            }
            Some(_) => Lesson { tell: answer.is_announced.then_some(Taught::Announced), announce: false },
            None => Lesson::default(),
        }
    }

    fn measures(&self) -> bool {
        true
    }

    fn learns_routes(&self) -> bool {
        true
    }

    fn preference(&mut self, situation: &mut Situation<'_>) -> Vec<Preferred> {
        preference::all(situation, Turn::First)
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        self.suppression.parameters().into()
    }
}
