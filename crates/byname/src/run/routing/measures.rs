//! What routing tells the web server: counters for metrics, and the network for the dashboard's map.

use std::sync::{Arc, Mutex, PoisonError};

use byname_control::metrics::{RoutingCounts, Snapshot};
use byname_routing::Status;
use byname_trust::validator;
use byname_web::{RoutingMap, Tell};

use crate::manage::routing::report::Map;

/// What routing told last. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Measures {
    latest: Arc<Mutex<Option<Latest>>>,
}

#[derive(Debug)]
struct Latest {
    counts: RoutingCounts,
    map: Map,
}

impl Measures {
    /// Publishes counters, and the network. `uri_of` knows the URIs of faces.
    pub fn publish<'a>(
        &self,
        status: &Status,
        uri_of: impl Fn(u64) -> Option<&'a str>,
        trust: validator::Counters,
        (refused, ends_ms): (u64, Option<u64>),
    ) {
        let counters = status.counters;
        let links = || status.neighbours.iter().flat_map(|neighbour| &neighbour.links);
        let counts = RoutingCounts {
            neighbors: status.neighbours.len() as u64,
            links_used: links().filter(|link| link.is_used).count() as u64,
            routers: status.routers.iter().filter(|router| router.cost.is_some()).count() as u64,
            prefixes: status.prefixes as u64,
            local_prefixes: status.local_prefixes as u64,
            fib_entries: status.fib_entries as u64,
            packets: vec![
                ("in", "advertisement_sync", counters.advertisement_syncs_in),
                ("out", "advertisement_sync", counters.advertisement_syncs_out),
                ("in", "prefix_sync", counters.prefix_syncs_in),
                ("out", "prefix_sync", counters.prefix_syncs_out),
                ("in", "hello", counters.hellos_in),
                ("out", "hello", counters.hellos_out),
                ("in", "advertisement", counters.advertisements_in),
                ("out", "advertisement", counters.advertisements_out),
                ("in", "publication", counters.publications_in),
                ("out", "publication", counters.publications_out),
                ("in", "snapshot", counters.snapshots_in),
                ("out", "snapshot", counters.snapshots_out),
                ("in", "tree", counters.trees_in),
                ("out", "tree", counters.trees_out),
            ],
            refused: vec![
                ("malformed", counters.malformed),
                ("untrusted", counters.untrusted),
                ("replayed", counters.replayed),
                ("flood", counters.flooded),
                ("limit", counters.over_limit),
                ("policy", counters.denied),
                ("rights", counters.outside_rights),
            ],
            links_down: counters.links_down,
            links_damped: counters.links_damped,
            trees: status.trees as u64,
            tree_changes: vec![
                ("root", status.tree_changes.roots),
                ("parent", status.tree_changes.parents),
                ("label", status.tree_changes.labels),
            ],
            fetches_failed: counters.fetches_failed,
            commands_refused: refused,
            certificates_fetched: trust.interests,
            certificate_ends_s: ends_ms.map(|ms| ms / 1_000),
        };
        let latest = Latest { counts, map: Map::of(status, uri_of) };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(latest);
    }

    /// Adds the latest counters to the snapshots that `ask` asks for.
    pub fn added_to(
        self,
        ask: impl Fn(Tell) -> bool + Send + Sync + 'static,
    ) -> impl Fn(Tell) -> bool + Send + Sync + 'static {
        move |tell: Tell| {
            let routing = self.latest();
            ask(Box::new(move |snapshot| tell(Snapshot { routing, ..snapshot })))
        }
    }

    /// The latest counters. `None`: routing is off.
    fn latest(&self) -> Option<RoutingCounts> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|latest| latest.counts.clone())
    }

    /// The network as routing told it last, in JSON. It tells nothing while it is off.
    pub fn map(&self) -> RoutingMap {
        let latest = Arc::clone(&self.latest);
        Arc::new(move || {
            let latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
            // Only maps with odd keys have no JSON, and there are none.
            latest.as_ref().and_then(|latest| serde_json::to_value(&latest.map).ok())
        })
    }

    /// Routing has ended.
    pub fn clear(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
