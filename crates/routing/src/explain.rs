//! Answers why a prefix goes where it goes.

use byname_wire::{FaceId, Name};

use crate::policy::PolicyRule;

/// What is known of a prefix, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The name that was asked for.
    pub name: Name,
    /// The longest prefix of it that any router announces. `None`: there is none.
    pub prefix: Option<Name>,
    /// Whether this host announces that prefix, and at which cost.
    pub local: Option<LocalExit>,
    /// The routers that announce that prefix.
    pub exits: Vec<ExitReason>,
    /// Announcements of this name, or of a prefix of it, that are refused: the router may not announce them.
    pub outside_rights: Vec<(Name, Name)>,
    /// Every way to any of them.
    pub ways: Vec<WayReason>,
    /// The routes in the forwarder, best first.
    pub installed: Vec<(FaceId, u64)>,
}

/// This host as the place where a prefix is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalExit {
    /// The faces of applications, and the cost of each.
    pub faces: Vec<(FaceId, u64)>,
    /// Whether the network is told.
    pub is_announced: bool,
    /// Whether this router's certificate and the trust schema permit it.
    pub is_within_rights: bool,
    /// The rule that decided that.
    pub rule: Option<PolicyRule>,
}

/// A router that announces a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitReason {
    /// The router.
    pub router: Name,
    /// The cost that it tells.
    pub announced_cost: u64,
    /// The cost to reach it. `None`: it is not reachable.
    pub router_cost: Option<u64>,
    /// Whether its announcement is one of an earlier start.
    pub is_stale: bool,
    /// Whether policy accepts it.
    pub is_accepted: bool,
    /// The rule that decided that.
    pub rule: Option<PolicyRule>,
}

/// How a way is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WayUse {
    /// It has the lowest cost.
    Best,
    /// It is used if better ways fail: it cannot lead back.
    Alternative,
    /// It is not used: it might lead back.
    MayLoop,
    /// It is not used: settings want only the best ways.
    NotWanted,
    /// It is not used: a rule denies it.
    Denied,
}

/// A way to a router that announces a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayReason {
    /// The neighbour.
    pub neighbour: Name,
    /// Its usable faces.
    pub faces: Vec<FaceId>,
    /// The router that it leads to.
    pub exit: Name,
    /// The cost that the neighbour tells for that router. If the neighbour's best way is this router, it is that of
    /// its second-best.
    pub told_cost: u64,
    /// Cost of the link, without policy.
    pub link_cost: u64,
    /// The cost that policy adds.
    pub added_cost: u64,
    /// Cost of the whole way, to the application.
    pub cost: u64,
    /// How it is used.
    pub used: WayUse,
    /// The rule that added a cost or denied the way.
    pub rule: Option<PolicyRule>,
}
