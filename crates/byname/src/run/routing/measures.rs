//! Counters of routing, for the server of metrics.

use std::sync::{Arc, Mutex, PoisonError};

use byname_control::metrics::{RoutingCounts, Snapshot};
use byname_routing::Status;
use byname_trust::validator;
use byname_web::Tell;

/// The latest counters. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Measures {
    latest: Arc<Mutex<Option<RoutingCounts>>>,
}

impl Measures {
    /// Publishes counters.
    pub fn publish(&self, status: &Status, trust: validator::Counters, refused: u64, ends_ms: Option<u64>) {
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
            ],
            refused: vec![
                ("malformed", counters.malformed),
                ("untrusted", counters.untrusted),
                ("replayed", counters.replayed),
                ("flood", counters.flooded),
                ("limit", counters.over_limit),
                ("policy", counters.denied),
            ],
            links_down: counters.links_down,
            links_damped: counters.links_damped,
            fetches_failed: counters.fetches_failed,
            commands_refused: refused,
            certificates_fetched: trust.interests,
            certificate_ends_s: ends_ms.map(|ms| ms / 1_000),
        };
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
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
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Routing has ended.
    pub fn clear(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
