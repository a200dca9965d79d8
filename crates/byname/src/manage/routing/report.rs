//! What routing tells operators: the types of the answers, which `--json` prints as they are. `docs/json.md` documents
//! the field names.

use byname_routing::explain::{Explanation, WayUse};
use byname_routing::status::{HelloState, PrefixStatus, RouterStatus, Status as CoreStatus};
use byname_routing::trees::{Changes, Place, PlaceNeighbour};
use byname_wire::{Component, Name};
use serde::{Deserialize, Serialize};

/// Prefixes in one answer. Further ones are asked for.
pub const PAGE: usize = 500;
/// Most links and most routers of a map.
const MAP_MAX: usize = 150;

/// The prefix of the questions: `/localhost/nlsr/byname`.
pub fn questions() -> Name {
    Name::from_components(["localhost", "nlsr", "byname"].iter().map(|word| Component::generic(word.as_bytes())))
}

/// Routing as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Status {
    pub network: String,
    pub router: String,
    pub boot: u64,
    pub advertisement: u64,
    pub publication: u64,
    /// Name of this router's certificate; `None` without security.
    pub certificate: Option<String>,
    pub certificate_ends_ms: Option<u64>,
    pub neighbors: usize,
    pub links_used: usize,
    pub routers: usize,
    pub routers_reachable: usize,
    pub prefixes: usize,
    pub local_prefixes: usize,
    pub routes: usize,
    /// Whether the router has all routes that routing wants.
    pub settled: bool,
    pub malformed: u64,
    pub untrusted: u64,
    pub replayed: u64,
    pub flooded: u64,
    pub over_limit: u64,
    pub denied: u64,
    /// Announcements that the certificate of their router, or the trust schema, does not permit.
    pub outside_rights: u64,
    pub links_down: u64,
    pub links_damped: u64,
}

/// A face to a neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Neighbor {
    pub router: String,
    pub face_id: u64,
    pub uri: Option<String>,
    pub cost: u64,
    /// Whether it works, and does not cost more because it was down recently.
    pub used: bool,
    /// `up`, `init`, `down`, or `silent` if the neighbour says no hellos.
    pub hello: String,
    pub damped_ms: Option<u64>,
    pub downs: u64,
    pub last_down: Option<String>,
    pub heard_ms: u64,
}

/// A router of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RouterSeen {
    pub router: String,
    /// `None`: it is not reachable.
    pub cost: Option<u64>,
    pub nexthops: Vec<Nexthop>,
    pub prefixes: usize,
    /// Number of prefixes that it announces and may not, at most 64.
    pub outside_rights: usize,
    pub stale: bool,
    /// If it is a neighbour: the links that it tells of, without those to this router.
    pub links: Vec<FarLink>,
}

/// A link of a neighbour to another router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FarLink {
    pub router: String,
    pub cost: u64,
}

/// The network as this router knows it, for pages that draw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Map {
    pub network: String,
    pub router: String,
    /// Number of links to neighbours.
    pub links_total: usize,
    pub links: Vec<Neighbor>,
    /// Number of other routers.
    pub routers_total: usize,
    /// The nearest first.
    pub routers: Vec<RouterSeen>,
}

/// A nexthop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Nexthop {
    pub face_id: u64,
    pub cost: u64,
}

/// A router that announces a prefix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Exit {
    pub router: String,
    pub cost: u64,
}

/// A prefix of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Prefix {
    pub prefix: String,
    pub exits: Vec<Exit>,
    pub nexthops: Vec<Nexthop>,
}

/// This router's place on a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TreePlace {
    pub tree: u32,
    pub root: String,
    /// Cost of the way to the root.
    pub cost: u64,
    /// Number of routers in the part of the tree below this router, with it.
    pub nodes: u32,
    pub label: Option<String>,
    /// Number of earlier labels that are still valid.
    pub earlier_labels: usize,
    /// How often another router became the root, since the start.
    pub root_changes: u64,
    /// How often the way to the same root led through another router.
    pub repairs: u64,
    /// How often this router got a label.
    pub labelings: u64,
    pub neighbors: Vec<TreeNeighbor>,
}

/// A neighbour on a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TreeNeighbor {
    pub router: String,
    pub face_id: u64,
    pub parent: bool,
    /// Whether both have agreed on a secret, so that descriptors flow.
    pub secure: bool,
}

/// The places on all trees, and how often each has changed.
pub fn trees(places: &[Place], changes: &[Changes]) -> Vec<TreePlace> {
    let neighbor = |of: &PlaceNeighbour| TreeNeighbor {
        router: of.router.to_string(),
        face_id: of.face.0,
        parent: of.is_parent,
        secure: of.secret.is_some(),
    };
    let place = |(place, changes): (&Place, &Changes)| TreePlace {
        tree: place.tree.0,
        root: place.root.to_string(),
        cost: place.cost,
        nodes: place.nodes,
        label: place.label.map(|label| label.to_string()),
        earlier_labels: place.earlier_labels(),
        root_changes: changes.roots,
        repairs: changes.parents,
        labelings: changes.labels,
        neighbors: place.neighbours.iter().map(neighbor).collect(),
    };
    places.iter().zip(changes).map(place).collect()
}

/// Some prefixes, and the encoded name after which the next ones come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Page {
    pub prefixes: Vec<Prefix>,
    pub next: Option<String>,
}

/// Why a name goes where it goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Explained {
    pub name: String,
    /// The longest announced prefix of it.
    pub prefix: Option<String>,
    pub local: Option<Local>,
    pub exits: Vec<ExplainedExit>,
    /// Announcements that are refused, because their routers may not make them.
    pub outside_rights: Vec<Outside>,
    pub ways: Vec<Way>,
    pub nexthops: Vec<Nexthop>,
}

/// This host as the place where a prefix is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Local {
    pub faces: Vec<Nexthop>,
    pub announced: bool,
    /// Whether this router's certificate and the trust schema permit it.
    pub within_rights: bool,
    pub rule: Option<String>,
}

/// A router that announces the prefix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExplainedExit {
    pub router: String,
    pub announced_cost: u64,
    pub router_cost: Option<u64>,
    pub stale: bool,
    pub accepted: bool,
    pub rule: Option<String>,
}

/// An announcement that its router may not make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Outside {
    pub router: String,
    pub prefix: String,
}

/// A way to a router that announces the prefix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Way {
    pub neighbor: String,
    pub face_ids: Vec<u64>,
    pub exit: String,
    pub cost: u64,
    pub told_cost: u64,
    pub link_cost: u64,
    pub added_cost: u64,
    /// `best`, `alternative`, `may-loop`, `not-wanted` or `denied`.
    pub used: String,
    pub rule: Option<String>,
}

impl Status {
    /// From what the protocol and the application know.
    pub fn of(status: &CoreStatus, certificate: Option<(String, u64)>, routes: usize, settled: bool) -> Self {
        let counters = &status.counters;
        let links = status.neighbours.iter().flat_map(|neighbour| &neighbour.links);
        Status {
            network: status.network.to_string(),
            router: status.router.to_string(),
            boot: status.boot,
            advertisement: status.advertisement,
            publication: status.publication,
            certificate_ends_ms: certificate.as_ref().map(|(_, ends_ms)| *ends_ms),
            certificate: certificate.map(|(name, _)| name),
            neighbors: status.neighbours.len(),
            links_used: links.filter(|link| link.is_used).count(),
            routers: status.routers.len(),
            routers_reachable: status.routers.iter().filter(|router| router.cost.is_some()).count(),
            prefixes: status.prefixes,
            local_prefixes: status.local_prefixes,
            routes,
            settled,
            malformed: counters.malformed,
            untrusted: counters.untrusted,
            replayed: counters.replayed,
            flooded: counters.flooded,
            over_limit: counters.over_limit,
            denied: counters.denied,
            outside_rights: counters.outside_rights,
            links_down: counters.links_down,
            links_damped: counters.links_damped,
        }
    }
}

/// All links to neighbours. `uri_of` knows the URIs of faces.
pub fn neighbors<'a>(status: &CoreStatus, uri_of: impl Fn(u64) -> Option<&'a str>) -> Vec<Neighbor> {
    let links =
        status.neighbours.iter().flat_map(|neighbour| neighbour.links.iter().map(move |link| (neighbour, link)));
    let neighbor =
        |(neighbour, link): (&byname_routing::status::NeighbourStatus, &byname_routing::status::LinkStatus)| Neighbor {
            router: neighbour.router.to_string(),
            face_id: link.face.0,
            uri: link.uri.clone().or_else(|| uri_of(link.face.0).map(str::to_owned)),
            cost: link.cost,
            used: link.is_used,
            hello: hello_word(link.hello).to_owned(),
            damped_ms: link.damped_ms,
            downs: link.downs,
            last_down: link.last_down.map(|why| why.to_string()),
            heard_ms: link.heard_ms,
        };
    links.map(neighbor).collect()
}

/// All routers of the network, without this one.
pub fn routers(status: &CoreStatus) -> Vec<RouterSeen> {
    status.routers.iter().map(|router| seen(status, router)).collect()
}

fn seen(status: &CoreStatus, router: &RouterStatus) -> RouterSeen {
    // Both lists are in the order of names.
    let neighbour = status.neighbours.binary_search_by(|neighbour| neighbour.router.cmp(&router.router));
    let reaches = neighbour.map(|place| &status.neighbours[place].reaches[..]).unwrap_or_default();
    RouterSeen {
        router: router.router.to_string(),
        cost: router.cost,
        nexthops: router.nexthops.iter().map(|hop| Nexthop { face_id: hop.face.0, cost: hop.cost }).collect(),
        prefixes: router.prefixes,
        outside_rights: router.outside_rights,
        stale: router.is_stale,
        links: reaches.iter().map(|(router, cost)| FarLink { router: router.to_string(), cost: *cost }).collect(),
    }
}

impl Map {
    /// From what the protocol knows. At most [`MAP_MAX`] links and routers, the nearest.
    pub fn of<'a>(status: &CoreStatus, uri_of: impl Fn(u64) -> Option<&'a str>) -> Self {
        let mut links = neighbors(status, uri_of);
        let mut routers: Vec<&RouterStatus> = status.routers.iter().collect();
        let totals = (links.len(), routers.len());
        links.sort_by_key(|link| (!link.used, link.cost));
        links.truncate(MAP_MAX);
        routers.sort_by_key(|router| router.cost.unwrap_or(u64::MAX));
        routers.truncate(MAP_MAX);
        Map {
            network: status.network.to_string(),
            router: status.router.to_string(),
            links_total: totals.0,
            links,
            routers_total: totals.1,
            routers: routers.into_iter().map(|router| seen(status, router)).collect(),
        }
    }
}

/// Some prefixes.
pub fn page(prefixes: &[PrefixStatus]) -> Page {
    let prefix = |status: &PrefixStatus| Prefix {
        prefix: status.prefix.to_string(),
        exits: status.exits.iter().map(|(router, cost)| Exit { router: router.to_string(), cost: *cost }).collect(),
        nexthops: status.nexthops.iter().map(|(face, cost)| Nexthop { face_id: face.0, cost: *cost }).collect(),
    };
    let next = prefixes.last().filter(|_| prefixes.len() == PAGE).map(|last| last.prefix.to_string());
    Page { prefixes: prefixes.iter().map(prefix).collect(), next }
}

impl Explained {
    /// From what the protocol knows.
    pub fn of(explanation: &Explanation) -> Self {
        let nexthop = |(face, cost): &(byname_wire::FaceId, u64)| Nexthop { face_id: face.0, cost: *cost };
        let exits = explanation.exits.iter().map(|exit| ExplainedExit {
            router: exit.router.to_string(),
            announced_cost: exit.announced_cost,
            router_cost: exit.router_cost,
            stale: exit.is_stale,
            accepted: exit.is_accepted,
            rule: exit.rule.as_ref().map(ToString::to_string),
        });
        let outside = explanation.outside_rights.iter();
        let outside =
            outside.map(|(router, prefix)| Outside { router: router.to_string(), prefix: prefix.to_string() });
        let ways = explanation.ways.iter().map(|way| Way {
            neighbor: way.neighbour.to_string(),
            face_ids: way.faces.iter().map(|face| face.0).collect(),
            exit: way.exit.to_string(),
            cost: way.cost,
            told_cost: way.told_cost,
            link_cost: way.link_cost,
            added_cost: way.added_cost,
            used: use_word(way.used).to_owned(),
            rule: way.rule.as_ref().map(ToString::to_string),
        });
        let local = explanation.local.as_ref().map(|local| Local {
            faces: local.faces.iter().map(nexthop).collect(),
            announced: local.is_announced,
            within_rights: local.is_within_rights,
            rule: local.rule.as_ref().map(ToString::to_string),
        });
        Explained {
            name: explanation.name.to_string(),
            prefix: explanation.prefix.as_ref().map(Name::to_string),
            local,
            exits: exits.collect(),
            outside_rights: outside.collect(),
            ways: ways.collect(),
            nexthops: explanation.installed.iter().map(nexthop).collect(),
        }
    }
}

fn hello_word(state: HelloState) -> &'static str {
    match state {
        HelloState::Silent => "silent",
        HelloState::Down => "down",
        HelloState::Init => "init",
        HelloState::Up => "up",
    }
}

fn use_word(used: WayUse) -> &'static str {
    match used {
        WayUse::Best => "best",
        WayUse::Alternative => "alternative",
        WayUse::MayLoop => "may-loop",
        WayUse::NotWanted => "not-wanted",
        WayUse::Denied => "denied",
    }
}
