//! Multicast: every nexthop.

use byname_wire::NackReason;

use crate::pit_cs::PitEntry;
use crate::strategy::name::Parameters;
use crate::strategy::suppression::{Suppression, Verdict};
use crate::strategy::{Decision, Preferred, Situation, Strategy, StrategyError, Turn, Why, preference};

/// The strategy.
pub struct Multicast {
    suppression: Suppression,
}

impl Multicast {
    /// Takes the parameters in the strategy's name: those of suppression.
    pub fn new(parameters: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(Multicast { suppression: Suppression::new(parameters)? })
    }
}

impl Strategy for Multicast {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        if situation.nexthops.is_empty() {
            decision.why = Why::NoNexthop;
            // Refuse only an Interest that was sent nowhere. If it was sent before, one of the upstreams may still
            // answer.
            if pit.out_records.is_empty() {
                decision.refuse = Some(NackReason::NoRoute);
            }
            return;
        }
        let verdict = self.suppression.decide(situation.now, pit);
        let wanted = situation.nexthops.iter().filter(|n| match verdict {
            Verdict::New | Verdict::Again => true,
            // A nexthop that was not asked yet gets the Interest. For example, it may be the ingress of the first one.
            Verdict::Suppress => pit.out_record(n.face).is_none(),
        });
        decision.forward.extend(wanted.map(|n| n.face));
        decision.why = match verdict {
            Verdict::Suppress if decision.forward.is_empty() => Why::Suppressed,
            Verdict::Suppress => Why::Unasked,
            Verdict::New | Verdict::Again => Why::All,
        };
    }

    fn preference(&mut self, situation: &mut Situation<'_>) -> Vec<Preferred> {
        preference::all(situation, Turn::First)
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        self.suppression.parameters().into()
    }
}
