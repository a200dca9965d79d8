//! Snapshots for operators: plain values.

use byname_wire::{FaceId, Name};

use crate::note::DownReason;
use crate::trees::Changes;

/// Everything that a router knows, without its prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The network.
    pub network: Name,
    /// This router.
    pub router: Name,
    /// When this router started, in seconds since the Unix epoch.
    pub boot: u64,
    /// Sequence number of its advertisement.
    pub advertisement: u64,
    /// Sequence number of its last publication of prefixes.
    pub publication: u64,
    /// Neighbours, by name.
    pub neighbours: Vec<NeighbourStatus>,
    /// Routers of the network, by name, without this one.
    pub routers: Vec<RouterStatus>,
    /// Number of prefixes of this host that are announced.
    pub local_prefixes: usize,
    /// Number of prefixes of the network.
    pub prefixes: usize,
    /// Number of prefixes with routes in the forwarder.
    pub fib_entries: usize,
    /// How often trees have changed, all together.
    pub tree_changes: Changes,
    /// Number of trees on which this router has a label.
    pub trees: usize,
    /// Counters since the start.
    pub counters: Counters,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// Its name.
    pub router: Name,
    /// Its start and the sequence number of its last advertisement.
    pub advertisement: (u64, u64),
    /// Number of routers in that advertisement. `None`: it has not been fetched yet.
    pub entries: Option<usize>,
    /// The faces to it.
    pub links: Vec<LinkStatus>,
    /// Routers that its advertisement says to be neighbours of it, and the cost of the link. Links that it does not use,
    /// because another way is shorter, are not told.
    pub reaches: Vec<(Name, u64)>,
}

/// State of the hellos on a link [RFC 5880 §4.1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HelloState {
    /// The neighbour has never said hello: ndnd, or hellos are off.
    Silent,
    /// Nothing is heard.
    Down,
    /// The neighbour is heard, and does not hear this router yet.
    Init,
    /// Both hear each other.
    Up,
}

/// A face to a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkStatus {
    /// The face.
    pub face: FaceId,
    /// URI as it was configured, or as the neighbour told it.
    pub uri: Option<String>,
    /// Whether the neighbour has configured this router, or only answers it.
    pub is_active: bool,
    /// Cost, with what policy adds.
    pub cost: u64,
    /// Hellos.
    pub hello: HelloState,
    /// Whether it works, and does not cost more because it was down recently.
    pub is_used: bool,
    /// Milliseconds until a damped link is used again.
    pub damped_ms: Option<u64>,
    /// Times that it went down.
    pub downs: u64,
    /// Why it went down last.
    pub last_down: Option<DownReason>,
    /// Milliseconds since the last sync Interest or hello.
    pub heard_ms: u64,
}

/// A router of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterStatus {
    /// Its name.
    pub router: Name,
    /// Cost to reach it. `None`: it is not reachable.
    pub cost: Option<u64>,
    /// Its nexthops.
    pub nexthops: Vec<NexthopStatus>,
    /// Its start, the last sequence number that is known, and the last that was fetched.
    pub publications: (u64, u64, u64),
    /// Number of its prefixes.
    pub prefixes: usize,
    /// Number of prefixes that it announces and may not, at most 64.
    pub outside_rights: usize,
    /// Whether its prefixes are those of an earlier start.
    pub is_stale: bool,
}

/// A nexthop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NexthopStatus {
    /// The neighbour.
    pub neighbour: Name,
    /// The face to it.
    pub face: FaceId,
    /// The cost through it.
    pub cost: u64,
    /// Whether it has the lowest cost. If not, it is an alternative.
    pub is_best: bool,
}

/// A prefix of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixStatus {
    /// The prefix.
    pub prefix: Name,
    /// The routers that announce it, and the cost that each tells.
    pub exits: Vec<(Name, u64)>,
    /// The routes in the forwarder, best first.
    pub nexthops: Vec<(FaceId, u64)>,
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub advertisement_syncs_in: u64,
    pub advertisement_syncs_out: u64,
    pub prefix_syncs_in: u64,
    pub prefix_syncs_out: u64,
    pub hellos_in: u64,
    pub hellos_out: u64,
    pub trees_in: u64,
    pub trees_out: u64,
    pub advertisements_in: u64,
    pub advertisements_out: u64,
    pub publications_in: u64,
    pub publications_out: u64,
    pub snapshots_in: u64,
    pub snapshots_out: u64,
    pub interests_out: u64,
    pub retries: u64,
    pub fetches_failed: u64,
    pub links_down: u64,
    pub links_damped: u64,
    pub routes_registered: u64,
    pub routes_unregistered: u64,
    /// Packets that cannot be decoded, or have a wrong name.
    pub malformed: u64,
    /// Packets that are not trusted.
    pub untrusted: u64,
    /// Packets that repeat what was said before, or claim what cannot be.
    pub replayed: u64,
    /// Packets of faces that send too many.
    pub flooded: u64,
    /// Prefixes and routers above a limit.
    pub over_limit: u64,
    /// Announcements that the certificate of their router, or the trust schema, does not permit.
    pub outside_rights: u64,
    /// Prefixes that policy does not accept or announce, and prefixes of this host that its own certificate does not permit.
    pub denied: u64,
    /// Stops of this process that the clock showed.
    pub stalls: u64,
}
