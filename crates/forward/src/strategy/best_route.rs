//! Best route: the cheapest nexthop. The next one follows when a consumer asks again or the nexthop refuses.

use byname_wire::NackReason;

use crate::pit_cs::PitEntry;
use crate::strategy::name::Parameters;
use crate::strategy::suppression::{Suppression, Verdict};
use crate::strategy::{Decision, Situation, Strategy, StrategyError, Why};
use crate::tables::Nexthop;
use crate::ticks::Ticks;

/// The strategy.
pub struct BestRoute {
    suppression: Suppression,
}

impl BestRoute {
    /// Takes the parameters in the strategy's name: those of suppression.
    pub fn new(parameters: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(BestRoute { suppression: Suppression::new(parameters)? })
    }
}

impl Strategy for BestRoute {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let verdict = self.suppression.decide(situation.now, pit);
        let (chosen, why) = match verdict {
            Verdict::Suppress => return decision.why = Why::Suppressed,
            Verdict::New => (situation.nexthops.first(), Why::Cheapest),
            Verdict::Again => (unused_or_oldest(situation.nexthops, pit), Why::NextOne),
        };
        decision.why = if chosen.is_some() { why } else { Why::NoNexthop };
        match chosen {
            Some(nexthop) => decision.forward.push(nexthop.face),
            None if verdict == Verdict::New => decision.refuse = Some(NackReason::NoRoute),
            // The Interest was already sent for other downstreams.
            None => {}
        }
    }

    fn quiet_until(&self, pit: &PitEntry) -> Option<Ticks> {
        self.suppression.ends(pit)
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        self.suppression.parameters().into()
    }
}

/// The cheapest nexthop that was not asked. Otherwise the one that was asked longest ago, first of those that have not refused:
/// a silent one may have lost the packet, and one that refused hardly has the Data now.
fn unused_or_oldest<'a>(nexthops: &'a [Nexthop], pit: &PitEntry) -> Option<&'a Nexthop> {
    nexthops.iter().find(|n| pit.out_record(n.face).is_none()).or_else(|| {
        nexthops.iter().min_by_key(|n| pit.out_record(n.face).map(|record| (record.nacked.is_some(), record.sent)))
    })
}
