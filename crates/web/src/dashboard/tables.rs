//! Smaller tables: listeners, strategies, trees, descriptors, the last commands, and the map.

use std::collections::BTreeSet;

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::strategy;
use byname_wire::Descriptor;
use byname_wire::tagset::TagDigest;
use serde::Serialize;
use serde_json::json;

use super::RoutingMap;
use super::answers::{Failure, to_json};
use super::faces::{Faces, Rates};
use super::live::ContentStore;
use super::query::Query;
use super::questions::Questions;

/// Most items of a page.
const PAGE_MAX: usize = 200;
/// Largest offset in the list of descriptors, which is walked from its begin.
const SKIP_MAX: usize = 1_000_000;
/// Most neighbours on the map: the busiest.
const NEIGHBORS_MAX: usize = 60;

/// Addresses on which the router listens.
pub async fn channels(questions: &Questions) -> Result<String, Failure> {
    let channels = questions.ask(|management, _| management.channels()).await?;
    Ok(json!({ "channels": channels }).to_string())
}

/// State of the content store.
pub async fn content_store(questions: &Questions) -> Result<String, Failure> {
    let totals = questions.ask(|management, now| management.totals(now)).await?;
    Ok(to_json(&ContentStore::of(&totals.counters.cs)))
}

/// Strategy choices, and the strategies that there are.
pub async fn strategies(questions: &Questions, query: &Query) -> Result<String, Failure> {
    let part = query.text("search").unwrap_or("").to_owned();
    let (skip, count) = (query.number("offset", 0, usize::MAX)?, query.number("limit", 100, PAGE_MAX)?);
    let page = questions.ask(move |management, _| management.strategy_choices(&part, skip, count)).await?;
    let choice = |(prefix, strategy): &(byname_wire::Name, byname_wire::Name)| json!({ "prefix": prefix.to_string(), "strategy": strategy.to_string() });
    let known: Vec<String> = strategy::all_names().map(|name| name.to_string()).collect();
    Ok(json!({
        "choices": page.items.iter().map(choice).collect::<Vec<_>>(),
        "next": page.next,
        "known": known,
    })
    .to_string())
}

/// The trees that this router is on.
pub async fn trees(questions: &Questions, faces: &Faces) -> Result<String, Failure> {
    let ask = questions.ask(|management, _| (management.tags().tree_views(), management.tags().len()));
    let (views, descriptors) = ask.await?;
    let ids: BTreeSet<u64> = views.iter().flat_map(|tree| tree.neighbors.iter().map(|(face, _)| face.0)).collect();
    let uris = faces.uris(questions, &ids).await?;
    let neighbor = |(face, is_signed): &(byname_forward::FaceId, bool)| json!({ "face_id": face.0, "remote_uri": uris.get(&face.0), "signed": is_signed });
    let trees: Vec<_> = views
        .iter()
        .map(|tree| {
            let neighbors: Vec<_> = tree.neighbors.iter().map(neighbor).collect();
            json!({ "tree": tree.id.0, "label": tree.label.map(|label| label.to_string()), "neighbors": neighbors })
        })
        .collect();
    Ok(json!({ "trees": trees, "descriptors": descriptors }).to_string())
}

/// Descriptors. With `tags`, those that a packet with these tags, separated by commas, would meet.
pub async fn descriptors(questions: &Questions, query: &Query) -> Result<String, Failure> {
    let tags: Vec<String> = query.text("tags").unwrap_or("").split(',').map(str::trim).map(str::to_owned).collect();
    let asked: Vec<String> = tags.into_iter().filter(|tag| !tag.is_empty()).collect();
    let asked_descriptor = Descriptor::of(&asked).map_err(|error| Failure::malformed(error.to_string()))?;
    let is_search = !asked.is_empty();
    let (skip, count) = (query.number("offset", 0, usize::MAX)?, query.number("limit", 100, PAGE_MAX)?);
    if skip > SKIP_MAX {
        return Err(Failure::malformed(format!("`offset` is at most {SKIP_MAX}; `tags` finds what is beyond")));
    }
    let ask = questions.ask(move |management, _| {
        let fits = |one: &Descriptor| !is_search || one.is_subset(&asked_descriptor);
        management.tags().descriptors(fits, skip, count)
    });
    let page = ask.await?;
    // Digests of tags that the asker knows are shown as these tags.
    let known: Vec<(TagDigest, &String)> = asked.iter().map(|tag| (TagDigest::of(tag.as_bytes()), tag)).collect();
    let word = |digest: &TagDigest| {
        let tag = known.iter().find(|(of, _)| of == digest);
        tag.map_or_else(|| format!("{:08x}", digest.0), |(_, tag)| (*tag).clone())
    };
    let descriptor = |(descriptor, nexthops): &(Descriptor, Vec<byname_forward::tables::TreeFace>)| {
        let nexthops: Vec<_> =
            nexthops.iter().map(|hop| json!({ "tree": hop.tree.0, "face_id": hop.face.0 })).collect();
        json!({ "tags": descriptor.tags().iter().map(word).collect::<Vec<_>>(), "nexthops": nexthops })
    };
    let items: Vec<_> = page.items.iter().map(descriptor).collect();
    Ok(json!({ "descriptors": items, "next": page.next }).to_string())
}

/// The last commands after a number.
pub async fn audit(questions: &Questions, query: &Query) -> Result<String, Failure> {
    let after = query.number("after", 0, usize::MAX)? as u64;
    let lines = questions.ask(move |management, _| management.recent_commands(after)).await?;
    let last = lines.last().map_or(after, |(number, _)| *number);
    // Each line is JSON itself.
    let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    Ok(format!("{{\"last\":{last},\"lines\":[{}]}}", lines.join(",")))
}

#[derive(Serialize)]
struct Neighbor {
    face_id: u64,
    remote_uri: String,
    local_uri: String,
    group: bool,
    up: bool,
    /// Trees on which it is a neighbour.
    trees: Vec<u32>,
    #[serde(flatten)]
    rates: Rates,
}

/// The network as far as this router knows it: its neighbours, what binds it to them, its applications, and what routing
/// knows of other routers.
pub async fn map(questions: &Questions, faces: &Faces, routing: &RoutingMap) -> Result<String, Failure> {
    let ask = questions.ask(|management, _| (management.tags().tree_views(), management.hub()));
    let (trees, hub) = ask.await?;
    let reading = faces.reading(questions).await?;
    let is_neighbor = |face: &&byname_face::FaceStatus| face.scope == Scope::NonLocal;
    let rate = |id| {
        let rates = reading.rates(id);
        rates.in_packets_per_s + rates.out_packets_per_s
    };
    let mut neighbors: Vec<_> = reading.faces().iter().filter(is_neighbor).collect();
    let total = neighbors.len();
    neighbors.sort_by(|a, b| rate(b.id).total_cmp(&rate(a.id)));
    neighbors.truncate(NEIGHBORS_MAX);
    let on_trees = |id| {
        let of_tree = |tree: &&byname_control::tags::TreeView| tree.neighbors.iter().any(|(face, _)| *face == id);
        trees.iter().filter(of_tree).map(|tree| tree.id.0).collect()
    };
    let neighbor = |face: &&byname_face::FaceStatus| Neighbor {
        face_id: face.id.0,
        remote_uri: face.remote.to_string(),
        local_uri: face.local.to_string(),
        group: face.link_type != LinkType::PointToPoint,
        up: face.up,
        trees: on_trees(face.id),
        rates: reading.rates(face.id),
    };
    let applications = reading.faces().iter().filter(|face| face.scope == Scope::Local && face.id.0 >= 256).count();
    Ok(json!({
        "neighbors": neighbors.iter().map(neighbor).collect::<Vec<_>>(),
        "total": total,
        "applications": applications,
        "routing": routing(),
        "hub": hub.map(|face| face.0),
        "trees": trees.iter().map(|tree| json!({ "tree": tree.id.0, "label": tree.label.map(|label| label.to_string()) })).collect::<Vec<_>>(),
    })
    .to_string())
}
