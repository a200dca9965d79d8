//! Where an Interest for a name would go, and why.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::{nack_word, origin_word};
use crate::mgmt::tlv::explain::{self as tlv, RouteExplanation, selectors, turn};
use crate::mgmt::tlv::route_flags;

/// The whole explanation. These are the fields of `byname route get --json`, and of the dashboard.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Explanation {
    pub name: String,
    pub rule: Option<String>,
    /// `None` unless the rule is a name of a flat namespace.
    pub label: Option<String>,
    pub routes: Vec<RouteBehind>,
    pub strategy: Strategy,
    pub nexthops: Vec<Nexthop>,
    pub content_store: Stored,
    pub pending: Vec<Pending>,
    pub thread: u64,
    pub threads: u64,
}

/// A route behind the rule.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct RouteBehind {
    pub prefix: String,
    pub face_id: u64,
    pub remote_uri: Option<String>,
    /// `None` if a `fib` command set the nexthop.
    pub origin: Option<String>,
    pub cost: u64,
    pub child_inherit: bool,
    pub capture: bool,
    pub expires_in_ms: Option<u64>,
    pub stale: bool,
    pub used: bool,
}

/// The strategy that decides, and the prefix that it was chosen for.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Strategy {
    pub name: String,
    pub prefix: String,
    pub parameters: BTreeMap<String, String>,
}

/// A nexthop, in the order in which the strategy would use them.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Nexthop {
    pub face_id: u64,
    pub remote_uri: Option<String>,
    pub cost: u64,
    /// `first`, `at-random`, `later` or `never`.
    pub turn: &'static str,
    pub rtt_us: Option<u64>,
    pub silent: u64,
}

/// What the content store knows of the name.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Stored {
    pub serve: bool,
    pub stored: bool,
    pub bytes: Option<u64>,
    pub fresh_for_ms: Option<u64>,
    pub stored_below: Option<bool>,
}

/// An Interest of this name that is pending.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Pending {
    pub can_be_prefix: bool,
    pub must_be_fresh: bool,
    pub expires_in_ms: u64,
    pub downstreams: Vec<Downstream>,
    pub further_downstreams: u64,
    pub upstreams: Vec<Upstream>,
}

/// A face that waits for Data.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Downstream {
    pub face_id: u64,
    pub remote_uri: Option<String>,
    pub expires_in_ms: u64,
}

/// A face that was asked.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Upstream {
    pub face_id: u64,
    pub remote_uri: Option<String>,
    pub since_ms: u64,
    pub nack: Option<&'static str>,
}

/// All faces that an explanation names.
pub fn faces_of(answer: &RouteExplanation) -> BTreeSet<u64> {
    let routes = answer.routes.iter().map(|route| route.face_id);
    let nexthops = answer.nexthops.iter().map(|nexthop| nexthop.face_id);
    let pending = answer.pending.iter().flat_map(|pending| {
        let downstreams = pending.downstreams.iter().map(|downstream| downstream.face_id);
        downstreams.chain(pending.upstreams.iter().map(|upstream| upstream.face_id))
    });
    routes.chain(nexthops).chain(pending).collect()
}

impl Explanation {
    /// From the protocol, with the URIs of faces as far as they are known.
    pub fn new(answer: RouteExplanation, uris: &HashMap<u64, String>) -> Self {
        let uri = |face_id: u64| uris.get(&face_id).cloned();
        let route = |route: tlv::RouteBehind| RouteBehind {
            prefix: route.name.to_string(),
            face_id: route.face_id,
            remote_uri: uri(route.face_id),
            origin: route.is_nexthop.is_none().then(|| origin_word(route.origin)),
            cost: route.cost,
            child_inherit: route.flags & route_flags::CHILD_INHERIT != 0,
            capture: route.flags & route_flags::CAPTURE != 0,
            expires_in_ms: route.expiration_period_ms,
            stale: route.is_stale == Some(1),
            used: route.is_used == 1,
        };
        let nexthop = |nexthop: tlv::Preferred| Nexthop {
            face_id: nexthop.face_id,
            remote_uri: uri(nexthop.face_id),
            cost: nexthop.cost,
            turn: match nexthop.turn {
                turn::FIRST => "first",
                turn::AT_RANDOM => "at-random",
                turn::LATER => "later",
                _ => "never",
            },
            rtt_us: nexthop.rtt_us,
            silent: nexthop.silent.unwrap_or(0),
        };
        let pending = |pending: tlv::Pending| Pending {
            can_be_prefix: pending.selectors & selectors::CAN_BE_PREFIX != 0,
            must_be_fresh: pending.selectors & selectors::MUST_BE_FRESH != 0,
            expires_in_ms: pending.expires_in_ms,
            downstreams: pending
                .downstreams
                .iter()
                .map(|d| Downstream { face_id: d.face_id, remote_uri: uri(d.face_id), expires_in_ms: d.expires_in_ms })
                .collect(),
            further_downstreams: pending.further,
            upstreams: pending
                .upstreams
                .iter()
                .map(|u| Upstream {
                    face_id: u.face_id,
                    remote_uri: uri(u.face_id),
                    since_ms: u.since_ms,
                    nack: u.nack.map(nack_word),
                })
                .collect(),
        };
        Explanation {
            name: answer.name.to_string(),
            rule: answer.rule.map(|rule| rule.to_string()),
            label: answer.label.map(|label| label.to_string()),
            routes: answer.routes.into_iter().map(route).collect(),
            strategy: Strategy {
                name: answer.strategy.0.to_string(),
                prefix: answer.strategy_prefix.to_string(),
                parameters: answer.parameters.into_iter().map(|p| (p.name, p.value)).collect(),
            },
            nexthops: answer.nexthops.into_iter().map(nexthop).collect(),
            content_store: Stored {
                serve: answer.serves == 1,
                stored: answer.stored_bytes.is_some(),
                bytes: answer.stored_bytes,
                fresh_for_ms: answer.stored_fresh_for_ms,
                stored_below: answer.stored_below.map(|below| below == 1),
            },
            pending: answer.pending.into_iter().map(pending).collect(),
            thread: answer.home,
            threads: answer.threads,
        }
    }
}
