//! The routes behind a rule of the FIB: its own and the inherited ones.

use std::collections::HashSet;

use byname_forward::FaceId;
use byname_wire::{Name, NameRef};

use super::inherit::inherits_from_above;
use super::routes::{Entry, Layer, NEVER};
use super::{Rib, Route, route_of};

/// A route that takes part in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteBehind {
    /// Its own name: that of the rule, or a shorter one.
    pub name: Name,
    /// The route.
    pub route: Route,
    /// Whether an earlier process had it, and nobody has confirmed it since.
    pub is_stale: bool,
    /// Whether a `fib` command set it. It then has no origin.
    pub is_nexthop: bool,
    /// Whether the rule has its nexthop and cost from this route. Otherwise another route to the same face counts.
    pub is_used: bool,
}

impl Rib {
    /// The routes behind the rule of exactly this name, by the rules of `inherit`: those of the name,
    /// then those that it inherits, nearest first.
    pub fn behind(&self, rule: NameRef<'_>) -> Vec<RouteBehind> {
        let Some(entry) = self.entries.get(rule.value()) else { return Vec::new() };
        let (mut found, mut decided) = (Vec::new(), HashSet::new());
        self.push_routes(&mut found, &mut decided, rule, entry, false);
        let mut goes_up = inherits_from_above(&self.kinds, entry);
        for depth in (0..rule.len()).rev().filter(|&depth| self.depths[depth] > 0) {
            if !goes_up {
                break;
            }
            let name = rule.prefix(depth);
            let Some(entry) = self.entries.get(name.value()) else { continue };
            self.push_routes(&mut found, &mut decided, name, entry, true);
            goes_up = !entry.routes.as_slice().iter().any(|route| self.kinds.get(route.kind).captures());
        }
        found
    }

    /// Adds the routes of one name, and notes which faces have their route now.
    fn push_routes(
        &self,
        found: &mut Vec<RouteBehind>,
        decided: &mut HashSet<FaceId>,
        name: NameRef<'_>,
        entry: &Entry,
        only_inherited: bool,
    ) {
        let mut routes: Vec<_> = entry.routes.as_slice().iter().map(|r| (*self.kinds.get(r.kind), r)).collect();
        routes.retain(|(kind, _)| kind.inherits() || !only_inherited);
        // A nexthop of a `fib` command comes before routes, then the cheapest route counts.
        routes.sort_by_key(|(kind, _)| (kind.layer, kind.cost, kind.face, kind.origin));
        for (kind, stored) in routes {
            let latest_ms = self.stale_until_ms.filter(|_| kind.is_stale).unwrap_or(NEVER);
            found.push(RouteBehind {
                name: name.to_name(),
                route: route_of(&kind, stored.expires_at_ms().min(latest_ms)),
                is_stale: kind.is_stale,
                is_nexthop: kind.layer == Layer::Fib,
                is_used: decided.insert(kind.face),
            });
        }
    }
}
