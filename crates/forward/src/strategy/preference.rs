//! What a strategy tells about itself: the nexthops in its order, its parameters, and why it decided as it did.

use std::time::Duration;

use byname_wire::FaceId;

use crate::strategy::Situation;
use crate::tables::Nexthop;

/// When a strategy uses a nexthop for an Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// At once.
    First,
    /// At once, if chance chooses it among the others with this turn.
    AtRandom,
    /// If the Interest comes again, or those before refuse or stay silent.
    Later,
    /// Not at all: the face is unknown here, or the scope of the name forbids it.
    Never,
}

/// A nexthop as its strategy sees it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preferred {
    /// The face.
    pub face: FaceId,
    /// The cost of its route.
    pub cost: u64,
    /// When the strategy uses it.
    pub turn: Turn,
    /// The smoothed round-trip time, if the strategy has measured it.
    pub rtt: Option<Duration>,
    /// Number of Interests in a row that it left unanswered, as far as the strategy counts them.
    pub silent: u32,
}

impl Preferred {
    /// A nexthop without measurements.
    pub fn unmeasured(nexthop: &Nexthop, turn: Turn) -> Self {
        Preferred { face: nexthop.face, cost: nexthop.cost, turn, rtt: None, silent: 0 }
    }
}

/// All nexthops, with the same turn.
pub(crate) fn all(situation: &Situation<'_>, turn: Turn) -> Vec<Preferred> {
    situation.nexthops.iter().map(|nexthop| Preferred::unmeasured(nexthop, turn)).collect()
}

/// The first nexthop at once, and the others later.
pub(crate) fn one_by_one(mut order: Vec<Preferred>) -> Vec<Preferred> {
    for (place, preferred) in order.iter_mut().enumerate() {
        preferred.turn = if place == 0 { Turn::First } else { Turn::Later };
    }
    order
}

/// Why a strategy decided as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Why {
    /// It did nothing.
    #[default]
    Nothing,
    /// The cheapest nexthop.
    Cheapest,
    /// The Interest came again: a nexthop not asked yet, or the one asked longest ago.
    NextOne,
    /// The Interest came again too soon.
    Suppressed,
    /// All nexthops.
    All,
    /// The nexthop with the lowest round-trip time.
    Fastest,
    /// The nexthop with the lowest round-trip time, and another one to measure it.
    FastestAndProbe,
    /// The nexthop that answered last.
    LastWorking,
    /// Chance.
    Random,
    /// No route: all neighbours, to discover one.
    Flood,
    /// An upstream refused or was silent: nexthops not asked yet.
    Unasked,
    /// No nexthop may be used.
    NoNexthop,
    /// No nexthop is left, but upstreams that were asked before may answer.
    Waits,
    /// All upstreams have refused.
    AllRefused,
}

impl Why {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Why::Nothing => "nothing to do",
            Why::Cheapest => "cheapest nexthop",
            Why::NextOne => "asked again: next nexthop",
            Why::Suppressed => "asked again too soon: suppressed",
            Why::All => "all nexthops",
            Why::Fastest => "lowest round-trip time",
            Why::FastestAndProbe => "lowest round-trip time, and a probe",
            Why::LastWorking => "answered last",
            Why::Random => "at random",
            Why::Flood => "no route: flooded to discover one",
            Why::Unasked => "nexthops not asked yet",
            Why::NoNexthop => "no usable nexthop",
            Why::Waits => "upstreams asked before may still answer",
            Why::AllRefused => "all upstreams have refused",
        }
    }
}
