//! Forwarding strategies: one file each, behind one trait.
//!
//! A strategy decides; the worker does. It is asked when an Interest misses the content store,
//! when an upstream refuses, and told when Data comes or nothing does.

mod adaptive;
mod best_route;
mod measurements;
mod multicast;
mod suppression;
mod table;

use byname_wire::{FaceId, NackReason, Name, NameRef, name::component_type};
use smallvec::SmallVec;
use thiserror::Error;

pub use measurements::Measurements;
pub use table::StrategyTable;

use crate::pit_cs::PitEntry;
use crate::tables::Nexthop;
use crate::ticks::Ticks;

/// What a strategy may look at.
pub struct Situation<'a> {
    /// Now.
    pub now: Ticks,
    /// Nexthops of the FIB entry that may be used for this Interest, by rising cost: not where it
    /// came from, and within scope and hop limit.
    pub nexthops: &'a [Nexthop],
    /// Hash of the FIB entry's prefix: the key of measurements.
    pub prefix_hash: u64,
    /// What was measured of each prefix.
    pub measurements: &'a mut Measurements,
}

/// What a strategy wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Send the Interest to these faces.
    pub forward: SmallVec<[FaceId; 4]>,
    /// Refuse it to all downstreams, and drop it.
    pub refuse: Option<NackReason>,
}

impl Decision {
    /// Back to nothing.
    pub fn clear(&mut self) {
        self.forward.clear();
        self.refuse = None;
    }
}

/// A forwarding strategy. One instance serves all prefixes that chose it with the same parameters.
pub trait Strategy: Send {
    /// An Interest found no Data: a new one, or one that is pending and was sent again.
    fn after_interest(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision);

    /// An upstream refused, and its out-record says so. The default tries the best nexthop not
    /// asked yet, and refuses downstream when all upstreams have.
    fn after_nack(&mut self, situation: &mut Situation<'_>, pit: &mut PitEntry, decision: &mut Decision) {
        if let Some(next) = situation.nexthops.iter().find(|n| pit.out_record(n.face).is_none()) {
            decision.forward.push(next.face);
        } else if pit.out_records.iter().all(|r| r.nacked.is_some()) {
            decision.refuse = least_severe(pit);
        }
    }

    /// Data came from `upstream`.
    fn before_satisfy(&mut self, _situation: &mut Situation<'_>, _pit: &PitEntry, _upstream: FaceId) {}

    /// The Interest ends unanswered.
    fn on_expiry(&mut self, _situation: &mut Situation<'_>, _pit: &PitEntry) {}

    /// Whether the strategy wants [`Strategy::before_satisfy`] and [`Strategy::on_expiry`].
    fn measures(&self) -> bool {
        false
    }
}

/// The reason to pass downstream when all upstreams refused: the mildest.
fn least_severe(pit: &PitEntry) -> Option<NackReason> {
    let severity = |r: &NackReason| match r {
        NackReason::Congestion => 0,
        NackReason::Duplicate => 1,
        NackReason::NoRoute => 2,
        NackReason::None => 3,
    };
    pit.out_records.iter().filter_map(|r| r.nacked).min_by_key(severity)
}

/// Why a strategy name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StrategyError {
    /// No such strategy, or no such version of it.
    #[error("no such strategy")]
    Unknown,
    /// Its parameters are malformed.
    #[error("malformed strategy parameters")]
    BadParameters,
}

/// Which strategy serves which names.
#[derive(Debug, Clone)]
pub struct StrategyChoice {
    /// The namespace.
    pub prefix: Name,
    /// The strategy's full instance name, as from [`instance_name`].
    pub strategy: Name,
}

/// Version of all our strategies, that of NFD's.
const VERSION: u64 = 5;
/// Strategies by their last generic component.
const NAMES: [&str; 3] = ["best-route", "multicast", "asf"];

/// The strategy of `/` where nothing else is chosen.
pub fn default_name() -> Name {
    full_name(NAMES[0], &[])
}

/// Names of all strategies, with their versions.
pub fn all_names() -> impl Iterator<Item = Name> {
    NAMES.into_iter().map(|n| full_name(n, &[]))
}

/// The full name (version and parameters included) of the strategy that `name` asks for:
/// `/localhost/nfd/strategy/best-route` gives `/localhost/nfd/strategy/best-route/v=5`.
/// A version up to ours asks for ours.
pub fn instance_name(name: NameRef<'_>) -> Result<Name, StrategyError> {
    let (kind, parameters) = parse(name)?;
    build(name)?;
    Ok(full_name(kind, &parameters))
}

/// Makes the strategy of an instance name.
pub(crate) fn build(name: NameRef<'_>) -> Result<Box<dyn Strategy>, StrategyError> {
    let (kind, parameters) = parse(name)?;
    Ok(match kind {
        "best-route" => Box::new(best_route::BestRoute::new(&parameters)?),
        "multicast" => Box::new(multicast::Multicast::new(&parameters)?),
        _ => Box::new(adaptive::Adaptive::new(&parameters)?),
    })
}

/// A parameter: `key~value` in a component.
type Parameter<'a> = (&'a str, &'a str);

fn parse<'a>(name: NameRef<'a>) -> Result<(&'static str, Vec<Parameter<'a>>), StrategyError> {
    let root: Name = "/localhost/nfd/strategy".parse().expect("a literal name");
    if !root.as_ref().is_prefix_of(&name) {
        return Err(StrategyError::Unknown);
    }
    let mut components = name.components().skip(3);
    let kind = components.next().ok_or(StrategyError::Unknown)?;
    let kind = NAMES
        .into_iter()
        .find(|n| kind.typ == component_type::GENERIC && n.as_bytes() == kind.value)
        .ok_or(StrategyError::Unknown)?;
    if let Some(version) = components.next() {
        let number = version.number().filter(|_| version.typ == component_type::VERSION);
        if number.is_none_or(|v| v > VERSION) {
            return Err(StrategyError::Unknown);
        }
    }
    let parameters = components
        .map(|c| std::str::from_utf8(c.value).ok()?.split_once('~'))
        .collect::<Option<Vec<_>>>()
        .ok_or(StrategyError::BadParameters)?;
    Ok((kind, parameters))
}

fn full_name(kind: &str, parameters: &[Parameter<'_>]) -> Name {
    let root: Name = format!("/localhost/nfd/strategy/{kind}").parse().expect("kinds are plain words");
    parameters.iter().fold(root.join_number(component_type::VERSION, VERSION), |name, (key, value)| {
        name.join(byname_wire::Component::generic(format!("{key}~{value}").as_bytes()))
    })
}

#[cfg(test)]
mod tests;
