//! Adds many routes at once: those that an earlier process had.
//!
//! One route after the other would search the tree for each name, and for each of its prefixes. Here the names are
//! sorted, the tree is built from them in one pass, and another pass computes all rules. The FIB's engine makes room
//! for all of them first.

use std::collections::BTreeMap;

use byname_wire::Name;

use super::inherit::{Nexthops, nexthops, passed_down};
use super::routes::{Entry, Layer, NEVER, RouteKind, StoredRoute};
use super::{Key, ROUTE_COMPONENTS_MAX, Rib, Route, check_face, set_rule};
use crate::fib_writer::FibWriter;

/// With fewer new routes than this part of the tree, they are added one by one.
const FEW: usize = 16;

/// A route or nexthop that an earlier process had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returning {
    /// Its name.
    pub name: Name,
    /// The route.
    pub route: Route,
    /// Whether this is a nexthop of [`Rib::add_nexthop`].
    pub is_nexthop: bool,
    /// Whether it must be registered again; see [`Rib::remove_stale_at`].
    pub is_stale: bool,
}

impl Returning {
    fn kind(&self) -> RouteKind {
        let Route { face, origin, cost, flags, .. } = self.route;
        let layer = if self.is_nexthop { Layer::Fib } else { Layer::Rib };
        RouteKind { face, origin, cost, flags, layer, is_stale: self.is_stale }
    }
}

impl Rib {
    /// Adds all of these, as [`Rib::restore`] does it for one. Returns those that were not added.
    ///
    /// # Panics
    /// If a journal is kept.
    pub fn load(&mut self, fib: &mut FibWriter, mut routes: Vec<Returning>) -> Vec<Returning> {
        assert!(self.journal.is_none(), "routes that come back are no changes");
        if routes.len() < self.entries.len() / FEW {
            return self.load_singly(fib, routes);
        }
        routes.sort_by(|a, b| a.name.value().cmp(b.name.value()));
        let mut entries: Vec<(Key, Entry)> = Vec::with_capacity(routes.len());
        let (mut others, mut refused) = (Vec::new(), Vec::new());
        for one in routes {
            let name = one.name.value();
            if let Some((last, entry)) = entries.last_mut()
                && **last == *name
            {
                let (kind, key) = (one.kind(), last.clone());
                let is_same = |route: &StoredRoute| self.kinds.get(route.kind).is_same_route(&kind);
                if entry.routes.as_slice().iter().any(is_same) || !self.has_room_for(&one) {
                    refused.push(one);
                } else {
                    let stored = self.load_route(&key, &one);
                    entry.routes.push(stored);
                }
            } else if self.entries.contains_key(name) {
                others.push(one);
            } else if !self.has_room_for(&one) {
                refused.push(one);
            } else {
                let key: Key = name.into();
                self.depths[one.name.as_ref().len()] += 1;
                let stored = self.load_route(&key, &one);
                entries.push((key, Entry::new(stored)));
            }
        }
        let mut new: BTreeMap<Key, Entry> = entries.into_iter().collect();
        fib.expect(new.len());
        self.entries.append(&mut new);
        refused.append(&mut self.load_singly(fib, others));
        self.refresh_all(fib);
        refused
    }

    fn load_singly(&mut self, fib: &mut FibWriter, routes: Vec<Returning>) -> Vec<Returning> {
        let is_refused = |one: &Returning| {
            let added = self.restore(fib, one.name.as_ref(), &one.route, (one.is_nexthop, one.is_stale));
            !added.is_ok_and(|added| added)
        };
        routes.into_iter().filter(is_refused).collect()
    }

    fn has_room_for(&self, one: &Returning) -> bool {
        one.name.as_ref().len() <= ROUTE_COMPONENTS_MAX
            && check_face(one.route.face).is_ok()
            && self.stored < self.routes_max
    }

    fn load_route(&mut self, key: &Key, one: &Returning) -> StoredRoute {
        let (kind, expires_at_ms) = (one.kind(), one.route.expires_at_ms.unwrap_or(NEVER));
        self.note_added(key, &kind);
        self.note_deadline(key, expires_at_ms);
        StoredRoute::new(self.kinds.acquire(kind), expires_at_ms)
    }

    /// Computes the rules of all names.
    fn refresh_all(&mut self, fib: &mut FibWriter) {
        let (kinds, above) = (&self.kinds, Nexthops::new());
        let mut passed = Nexthops::new();
        if let Some(entry) = self.entries.get_mut(&[][..]) {
            set_rule(fib, Name::default().as_ref(), entry, &nexthops(kinds, entry, &above));
            passed = passed_down(kinds, entry, &above);
        }
        self.refresh_longer(fib, &[], passed);
    }
}
