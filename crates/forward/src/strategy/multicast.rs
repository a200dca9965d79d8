//! Multicast: every nexthop.

use byname_wire::NackReason;

use crate::pit_cs::PitEntry;
use crate::strategy::suppression::{Suppression, Verdict, only_suppression};
use crate::strategy::{Decision, Parameter, Situation, Strategy, StrategyError};

/// The strategy.
pub struct Multicast {
    suppression: Suppression,
}

impl Multicast {
    /// From the parameters in its name.
    pub fn new(parameters: &[Parameter<'_>]) -> Result<Self, StrategyError> {
        Ok(Multicast { suppression: only_suppression(parameters)? })
    }
}

impl Strategy for Multicast {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        if situation.nexthops.is_empty() {
            // Where others hear the same, one of them may know the way: only refuse what is not
            // on its way already.
            if pit.out_records.is_empty() {
                decision.refuse = Some(NackReason::NoRoute);
            }
            return;
        }
        let verdict = self.suppression.decide(situation.now, pit);
        let wanted = situation.nexthops.iter().filter(|n| match verdict {
            Verdict::New | Verdict::Again => true,
            // A nexthop that was not asked yet (it was the ingress of the first Interest, say) is.
            Verdict::Suppress => pit.out_record(n.face).is_none(),
        });
        decision.forward.extend(wanted.map(|n| n.face));
    }
}
