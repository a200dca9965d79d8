//! Routes: pages of the tree of names, a search, and the way of one name.

use byname_control::mgmt::Management;
use byname_control::mgmt::json::explain::{Explanation, faces_of};
use byname_control::mgmt::json::origin_word;
use byname_control::mgmt::tlv::route_flags;
use byname_control::rib::{BELOW_MAX, Branch, ListedRoute};
use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use hyper::StatusCode;
use serde::Serialize;

use super::answers::{Failure, to_json};
use super::faces::Faces;
use super::query::Query;
use super::questions::Questions;

/// Most names of a page.
const PAGE_MAX: usize = 200;
/// Most names that one question of a search examines.
const STEPS_MAX: usize = 20_000;
/// Longest text to search for.
const PART_BYTES_MAX: usize = 256;

/// A name in the tree.
#[derive(Serialize)]
struct Node {
    name: String,
    routes: Vec<Route>,
    nexthops: Vec<Nexthop>,
    below: usize,
    /// Whether there may be more below than was counted.
    below_more: bool,
}

#[derive(Serialize)]
struct Route {
    face_id: u64,
    origin: String,
    cost: u64,
    child_inherit: bool,
    capture: bool,
    expires_in_ms: Option<u64>,
    stale: bool,
}

#[derive(Serialize)]
struct Nexthop {
    face_id: u64,
    cost: u64,
}

#[derive(Serialize)]
struct Nodes {
    routes: u64,
    nodes: Vec<Node>,
    /// Where the next page begins, if there is one.
    next: Option<String>,
}

impl Node {
    fn of(branch: &Branch, management: &Management, now_ms: u64) -> Self {
        let route = |ListedRoute { route, is_stale }: &ListedRoute| Route {
            face_id: route.face.0,
            origin: origin_word(route.origin),
            cost: route.cost,
            child_inherit: route.flags & route_flags::CHILD_INHERIT != 0,
            capture: route.flags & route_flags::CAPTURE != 0,
            expires_in_ms: route.expires_at_ms.map(|at| at.saturating_sub(now_ms)),
            stale: *is_stale,
        };
        let nexthops = branch.group.map(|group| management.nexthops(group)).unwrap_or_default();
        Node {
            name: branch.name.to_string(),
            routes: branch.routes.iter().map(route).collect(),
            nexthops: nexthops.iter().map(|hop| Nexthop { face_id: hop.face.0, cost: hop.cost }).collect(),
            below: branch.below,
            below_more: branch.below == BELOW_MAX,
        }
    }
}

/// The children of a prefix. With `self`, the prefix itself comes first.
pub async fn tree(questions: &Questions, query: &Query) -> Result<String, Failure> {
    let (under, after) = (query.name("under")?, query.maybe_name("after")?);
    let count = query.number("limit", 100, PAGE_MAX)?.max(1);
    let with_self = query.text("self").is_some() && after.is_none();
    if after.as_ref().is_some_and(|after| after.as_ref().len() <= under.as_ref().len()) {
        return Err(Failure::malformed("`after` must be a child of `under`"));
    }
    let answer = questions.ask(move |management, now| {
        let rib = management.rib();
        let page = rib.branches(under.as_ref(), after.as_ref().map(|after| after.as_ref()), count);
        let own = with_self.then(|| rib.branch(under.as_ref()));
        let nodes = own.iter().chain(&page.items).map(|branch| Node::of(branch, management, now.ms)).collect();
        Nodes { routes: rib.len() as u64, nodes, next: page.next.map(|next| next.to_string()) }
    });
    Ok(to_json(&answer.await?))
}

/// Names that contain a text. A page may be empty and still not be the last one.
pub async fn find(questions: &Questions, query: &Query) -> Result<String, Failure> {
    let under = query.name("under")?;
    let part = query.text("part").unwrap_or("").as_bytes().to_vec();
    let count = query.number("limit", 50, PAGE_MAX)?.max(1);
    let after = query.text("after").filter(|after| !after.is_empty()).map(|after| HEX.decode(after.as_bytes()));
    let after = after.transpose().map_err(|_| Failure::malformed("`after` is no place in the list"))?;
    if part.len() > PART_BYTES_MAX {
        return Err(Failure::malformed("the text to search for is too long"));
    }
    let answer = questions.ask(move |management, now| {
        let rib = management.rib();
        let page = rib.find(under.as_ref(), &part, after.as_deref(), (count, STEPS_MAX));
        let nodes = page.items.iter().map(|branch| Node::of(branch, management, now.ms)).collect();
        Nodes { routes: rib.len() as u64, nodes, next: page.next.map(|next| HEX.encode(&next)) }
    });
    Ok(to_json(&answer.await?))
}

/// Where an Interest for a name would go now, and why.
pub async fn explain(questions: &Questions, faces: &Faces, query: &Query) -> Result<String, Failure> {
    let name = query.name("name")?;
    let answer = questions.ask(move |management, now| management.explain(&name, now)).await?;
    let answer = answer.map_err(|refused| {
        let code = u16::try_from(refused.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
        Failure::new(code.unwrap_or(StatusCode::BAD_GATEWAY), refused.text)
    })?;
    let uris = faces.uris(questions, &faces_of(&answer)).await?;
    Ok(to_json(&Explanation::new(answer, &uris)))
}
