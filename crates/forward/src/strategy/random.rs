//! Random: any nexthop, with equal probability.
//!
//! As in NFD, no Interest is suppressed: a pending one that is sent again goes to another random nexthop. Differs:
//! after a Nack, another nexthop is tried first.

use byname_wire::NackReason;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use smallvec::SmallVec;

use crate::pit_cs::PitEntry;
use crate::strategy::name::Parameters;
use crate::strategy::{
    Decision, Preferred, Situation, Strategy, StrategyError, Turn, Why, preference, refuse_if_all_have,
};
use crate::tables::Nexthop;

/// The strategy.
pub struct AnyNexthop {
    random: SmallRng,
}

impl AnyNexthop {
    /// The strategy, which takes no parameters.
    pub fn new(parameters: &Parameters<'_>, seed: u64) -> Result<Self, StrategyError> {
        parameters.none()?;
        Ok(AnyNexthop { random: SmallRng::seed_from_u64(seed) })
    }

    fn one_of<'a>(&mut self, nexthops: impl Iterator<Item = &'a Nexthop>) -> Option<&'a Nexthop> {
        let nexthops: SmallVec<[&Nexthop; 8]> = nexthops.collect();
        nexthops.choose(&mut self.random).copied()
    }
}

impl Strategy for AnyNexthop {
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        let chosen = self.one_of(situation.nexthops.iter());
        decision.why = if chosen.is_some() { Why::Random } else { Why::NoNexthop };
        match chosen {
            Some(nexthop) => decision.forward.push(nexthop.face),
            None if pit.out_records.is_empty() => decision.refuse = Some(NackReason::NoRoute),
            // The Interest was already sent for other downstreams.
            None => {}
        }
    }

    fn after_nack(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        match self.one_of(situation.nexthops.iter().filter(|n| pit.out_record(n.face).is_none())) {
            Some(nexthop) => {
                decision.forward.push(nexthop.face);
                decision.why = Why::Unasked;
            }
            None => refuse_if_all_have(pit, decision),
        }
    }

    fn preference(&mut self, situation: &mut Situation<'_>) -> Vec<Preferred> {
        preference::all(situation, Turn::AtRandom)
    }
}
