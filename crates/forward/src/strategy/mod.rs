//! Forwarding strategies: one file for each, behind one trait.
//!
//! A strategy decides and the worker acts. The worker asks the strategy when an Interest misses the content store and
//! when an upstream refuses. It tells the strategy when Data arrives or the Interest expires.

mod access;
mod adaptive;
mod best_route;
mod measurements;
mod multicast;
mod name;
mod preference;
mod random;
mod self_learning;
mod suppression;
mod table;

use byname_wire::name_hash::hash_name;
use byname_wire::{FaceId, NackReason, Name, NameHashKey, NameRef};
use smallvec::SmallVec;

pub(crate) use measurements::Measurements;
pub use name::{StrategyError, WORDS, all_names};
pub use preference::{Preferred, Turn, Why};
pub(crate) use table::StrategyTable;

use crate::learning::Taught;
use crate::pit_cs::PitEntry;
use crate::strategy::name::{Parameters, Program};
use crate::tables::Nexthop;
use crate::ticks::Ticks;

/// Input of a strategy's decision.
pub(crate) struct Situation<'a> {
    /// The current time.
    pub now: Ticks,
    /// The Interest's name.
    pub name: NameRef<'a>,
    /// Nexthops of the FIB entry that this Interest may be sent to, by rising cost. They exclude the face it came from
    /// and faces beyond its scope or hop limit.
    pub nexthops: &'a [Nexthop],
    /// Whether the FIB has an entry for the Interest, even if none of its nexthops may be used.
    pub is_routed: bool,
    /// Hash of the FIB entry's prefix: the key of measurements.
    pub prefix_hash: u64,
    /// Measurements of all prefixes.
    pub measurements: &'a mut Measurements,
}

impl<'a> Situation<'a> {
    /// For a pending Interest that ends and is not sent again.
    pub(crate) fn at_end(
        now: Ticks,
        name: NameRef<'a>,
        prefix_hash: u64,
        measurements: &'a mut Measurements,
    ) -> Situation<'a> {
        Situation { now, name, nexthops: &[], is_routed: false, prefix_hash, measurements }
    }
}

/// A strategy's decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Send the Interest to these faces.
    pub forward: SmallVec<[FaceId; 4]>,
    /// Refuse the Interest to all downstreams and drop it.
    pub refuse: Option<NackReason>,
    /// Send the Interest to all neighbors, as far as scope and hop limit allow.
    pub flood: bool,
    /// Call [`Strategy::after_wait`] at this time, if the Interest is still pending.
    pub wake_at: Option<Ticks>,
    /// Why, for traces.
    pub why: Why,
}

impl Decision {
    /// Resets the decision to doing nothing.
    pub fn clear(&mut self) {
        self.forward.clear();
        (self.refuse, self.flood, self.wake_at, self.why) = (None, false, None, Why::Nothing);
    }
}

/// Data that answers a pending Interest.
pub(crate) struct Answer<'a> {
    /// The upstream that it came from.
    pub face: FaceId,
    /// Its name.
    pub name: NameRef<'a>,
    /// Whether it came with a prefix announcement.
    pub is_announced: bool,
}

/// How Data that arrived bears on routes.
#[derive(Debug, Default)]
pub(crate) struct Lesson {
    /// The notice for the control side, if any.
    pub tell: Option<Taught>,
    /// Whether to send a prefix announcement along with the Data.
    pub announce: bool,
}

/// A forwarding strategy. One instance serves all prefixes that chose it with the same parameters.
pub(crate) trait Strategy: Send {
    /// An Interest found no Data. It is new, or pending and sent again.
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision);

    /// An upstream refused, and its out-record says so. The default tries the best nexthop not asked yet. It refuses
    /// downstream when all upstreams have refused.
    fn after_nack(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        if let Some(next) = situation.nexthops.iter().find(|n| pit.out_record(n.face).is_none()) {
            decision.forward.push(next.face);
            decision.why = Why::Unasked;
        } else {
            refuse_if_all_have(pit, decision);
        }
    }

    /// The time of [`Decision::wake_at`] has come.
    fn after_wait(&mut self, _situation: &mut Situation<'_>, _pit: &mut PitEntry, _decision: &mut Decision) {}

    /// Data arrived.
    fn before_satisfy(&mut self, _situation: &mut Situation<'_>, _pit: &PitEntry, _answer: &Answer<'_>) -> Lesson {
        Lesson::default()
    }

    /// The Interest ends without an answer.
    fn on_expiry(&mut self, _situation: &mut Situation<'_>, _pit: &PitEntry) {}

    /// The time until which [`Strategy::after_interest`] does nothing at all, whatever the Interest and its face.
    /// `None` if the strategy does not know. Only a strategy that does not measure may know.
    fn quiet_until(&self, _pit: &PitEntry) -> Option<Ticks> {
        None
    }

    /// Whether the strategy needs [`Strategy::before_satisfy`] and [`Strategy::on_expiry`].
    fn measures(&self) -> bool {
        false
    }

    /// Whether a Nack of an upstream that has no route shows that our route is wrong.
    fn learns_routes(&self) -> bool {
        false
    }

    /// The nexthops in the order in which a new Interest would use them now. The default goes by cost.
    fn preference(&mut self, situation: &mut Situation<'_>) -> Vec<Preferred> {
        preference::one_by_one(preference::all(situation, Turn::Later))
    }

    /// The parameters in effect, by their names in the strategy's name.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Refuses downstream with the mildest reason once all upstreams have refused.
fn refuse_if_all_have(pit: &PitEntry, decision: &mut Decision) {
    if pit.out_records.iter().any(|r| r.nacked.is_none()) {
        decision.why = Why::Waits;
        return;
    }
    let severity = |r: &NackReason| match r {
        NackReason::Congestion => 0,
        NackReason::Duplicate => 1,
        NackReason::NoRoute => 2,
        NackReason::None => 3,
    };
    decision.refuse = pit.out_records.iter().filter_map(|r| r.nacked).min_by_key(severity);
    decision.why = Why::AllRefused;
}

/// The choice of a strategy for a namespace.
#[derive(Debug, Clone)]
pub struct StrategyChoice {
    /// The namespace.
    pub prefix: Name,
    /// The strategy's full instance name, as returned by [`instance_name`].
    pub strategy: Name,
}

/// The strategy of `/` unless another is chosen.
pub fn default_name() -> Name {
    name::full_name(name::BEST_ROUTE)
}

/// The full name (including version and parameters) of the strategy that `name` asks for:
/// `/localhost/nfd/strategy/best-route` gives `/localhost/nfd/strategy/best-route/v=5`.
///
/// # Errors
/// If there is no such strategy or version, or it does not take these parameters.
pub fn instance_name(name: NameRef<'_>) -> Result<Name, StrategyError> {
    let parsed = name::parse(name)?;
    make(parsed.program, &parsed.parameters, &NameHashKey::new([0, 0]), 0)?;
    Ok(parsed.instance)
}

/// Makes the strategy of an instance name. `key` is the key that names are hashed with.
pub(crate) fn build(name: NameRef<'_>, key: &NameHashKey) -> Result<Box<dyn Strategy>, StrategyError> {
    let parsed = name::parse(name)?;
    make(parsed.program, &parsed.parameters, key, hash_name(key, name))
}

fn make(
    program: Program,
    parameters: &Parameters<'_>,
    key: &NameHashKey,
    seed: u64,
) -> Result<Box<dyn Strategy>, StrategyError> {
    Ok(match program {
        name::BEST_ROUTE => Box::new(best_route::BestRoute::new(parameters)?),
        name::MULTICAST => Box::new(multicast::Multicast::new(parameters)?),
        name::ACCESS => Box::new(access::Access::new(parameters, *key)?),
        name::SELF_LEARNING => Box::new(self_learning::SelfLearning::new(parameters)?),
        name::RANDOM => Box::new(random::AnyNexthop::new(parameters, seed)?),
        _ => Box::new(adaptive::Adaptive::new(parameters)?),
    })
}

#[cfg(test)]
mod tests;
