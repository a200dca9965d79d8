//! Metrics of the routing protocol.

use std::fmt;

use super::{Writer, word};

/// Counters of routing at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutingCounts {
    /// Neighbours.
    pub neighbors: u64,
    /// Links to them that routes go through.
    pub links_used: u64,
    /// Routers that are reachable.
    pub routers: u64,
    /// Prefixes of the network.
    pub prefixes: u64,
    /// Prefixes of this host that are announced.
    pub local_prefixes: u64,
    /// Prefixes with routes of the protocol.
    pub fib_entries: u64,
    /// Packets: direction, kind and number.
    pub packets: Vec<(&'static str, &'static str, u64)>,
    /// Packets, prefixes and routers that were refused: reason and number.
    pub refused: Vec<(&'static str, u64)>,
    /// Times that a link went down.
    pub links_down: u64,
    /// Times that a link was damped.
    pub links_damped: u64,
    /// Trees on which this router has a label.
    pub trees: u64,
    /// Changes of trees: what has changed, and how often.
    pub tree_changes: Vec<(&'static str, u64)>,
    /// Objects of other routers that could not be fetched.
    pub fetches_failed: u64,
    /// Commands about routes that the router refused.
    pub commands_refused: u64,
    /// Interests for certificates.
    pub certificates_fetched: u64,
    /// End of this router's certificate, in seconds since the Unix epoch. `None`: it has none.
    pub certificate_ends_s: Option<u64>,
}

impl RoutingCounts {
    pub(super) fn encode(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.gauge("routing_neighbors", "Neighbors in routing", self.neighbors)?;
        to.gauge("routing_links_used", "Links to neighbors that routes go through", self.links_used)?;
        to.gauge("routing_routers", "Other routers of the network that are reachable", self.routers)?;
        to.gauge("routing_prefixes", "Prefixes of the network", self.prefixes)?;
        to.gauge("routing_local_prefixes", "Prefixes of this host that are announced", self.local_prefixes)?;
        to.gauge("routing_fib_entries", "Prefixes with routes of the routing protocol", self.fib_entries)?;
        let packets = self.packets.iter().map(|(direction, kind, count)| {
            ([("direction", (*direction).to_owned()), ("type", (*kind).to_owned())], *count)
        });
        to.family("routing_packets", "Packets of the routing protocol", packets)?;
        let refused = self.refused.iter().map(|(reason, count)| ([("reason", word(reason))], *count));
        to.family("routing_refused", "Packets, prefixes and routers that routing refused", refused)?;
        to.counter("routing_links_down", "Times that a link to a neighbor went down", self.links_down)?;
        to.counter("routing_links_damped", "Times that a link flapped, and was left alone", self.links_damped)?;
        to.gauge("routing_trees", "Trees on which this router has a label", self.trees)?;
        let changes = self.tree_changes.iter().map(|(what, count)| ([("type", word(what))], *count));
        to.family(
            "routing_tree_changes",
            "Changes of trees: of the root, of the way there, of this router's label",
            changes,
        )?;
        to.counter("routing_fetches_failed", "Objects of other routers that did not arrive", self.fetches_failed)?;
        to.counter("routing_commands_refused", "Commands about routes that were refused", self.commands_refused)?;
        to.counter(
            "routing_certificate_interests",
            "Interests for certificates of routers",
            self.certificates_fetched,
        )?;
        match self.certificate_ends_s {
            Some(ends) => {
                to.gauge("routing_certificate_ends_seconds", "End of this router's certificate, since 1970", ends)
            }
            None => Ok(()),
        }
    }
}
