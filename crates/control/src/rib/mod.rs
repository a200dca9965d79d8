//! The RIB: routes by name, face and origin, and the FIB rules computed from them.
//!
//! Names are sorted by their encoding, so that all names with a common prefix are adjacent. A change recomputes its own
//! name. It recomputes longer names only if the nexthops that they inherit have changed.
//!
//! Cost of a change at a leaf: O(depth · log n), where only depths with entries count. Memory: 110 to 130 bytes per
//! name, in addition to the name. Routes with a deadline take 24 to 48 bytes more.

mod behind;
mod handover;
mod inherit;
mod journal;
mod load;
mod routes;
mod suspended;
#[cfg(test)]
mod tests;
mod tree;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet, VecDeque, btree_map};
use std::ops::Bound;
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;
use byname_lookup::EntryId;
use byname_wire::{Name, NameRef};
use thiserror::Error;

pub use self::behind::RouteBehind;
pub(crate) use self::handover::route_of_record;
pub use self::journal::JournalEntry;
pub use self::load::Returning;
pub use self::tree::{BELOW_MAX, Branch, Page};

use self::inherit::{Nexthops, nexthops, passed_down};
use self::routes::{CHILD_INHERIT, Entry, Kinds, Layer, NEVER, RouteKind, StoredRoute};
use crate::fib_writer::FibWriter;

/// Most components of a route's name, as in NFD.
pub const ROUTE_COMPONENTS_MAX: usize = 32;
/// Most routes of a face with a list of names. When a face with more routes goes, the RIB is searched in steps.
const FACE_NAMES_MAX: usize = 256;
/// Number of names that one search step examines.
const SEARCH_STEP: usize = 2048;

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Face that it leads to.
    pub face: FaceId,
    /// Origin of the route. A face may have one route of each origin.
    pub origin: u64,
    /// Lower is better.
    pub cost: u64,
    /// See [`crate::mgmt::tlv::route_flags`].
    pub flags: u64,
    /// When it expires, in ms on the caller's clock. `None`: never.
    pub expires_at_ms: Option<u64>,
}

/// Why a route was not added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RibError {
    /// The configured number of routes is reached.
    #[error("the RIB is full: {routes} routes")]
    Full {
        /// Routes in it.
        routes: usize,
    },
    /// The FIB has no room for another distinct group of nexthops.
    #[error("the FIB is full")]
    FibFull,
    /// The name has too many components.
    #[error("a route's prefix cannot exceed {ROUTE_COMPONENTS_MAX} components")]
    TooDeep,
    /// The name belongs to the forwarder's management.
    #[error("names at or below {own} belong to this router's management and cannot be registered")]
    OwnName {
        /// The prefix reserved for the forwarder.
        own: Name,
    },
    /// The face is one of the forwarder's own.
    #[error("FaceId {face} is reserved: it is no nexthop")]
    ReservedFace {
        /// The face.
        face: FaceId,
    },
}

/// An observed route was added or removed; see [`Rib::observe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEvent {
    /// Its name.
    pub name: Name,
    /// Its face.
    pub face: FaceId,
    /// Its origin.
    pub origin: u64,
    /// Whether the route was added; otherwise it was removed.
    pub added: bool,
}

type Key = Arc<[u8]>;

/// The routes of one face.
#[derive(Default)]
struct FaceRoutes {
    count: usize,
    /// Names that have or had a route of this face. `None` if there were too many.
    names: Option<Vec<Key>>,
}

/// A search for routes to remove: those of removed faces, and stale ones.
#[derive(Default)]
struct Search {
    faces: HashSet<FaceId>,
    /// Whether it removes stale routes.
    stale: bool,
    /// The last name examined so far.
    done: Option<Key>,
}

impl Search {
    fn removes(&self, kind: &RouteKind) -> bool {
        self.faces.contains(&kind.face) || self.stale && kind.is_stale
    }
}

/// All routes. Changes go to the FIB through the [`FibWriter`], which the caller commits.
pub struct Rib {
    entries: BTreeMap<Key, Entry>,
    kinds: Kinds,
    /// Entries by number of components.
    depths: [u32; ROUTE_COMPONENTS_MAX + 1],
    faces: FaceMap<FaceRoutes>,
    /// Faces that got their first route or lost their last one; see [`Rib::take_routed`].
    routed: BTreeSet<FaceId>,
    deadlines: BinaryHeap<Reverse<(u64, Key)>>,
    /// Number of routes with a deadline. The heap also holds outdated deadlines.
    expiring: usize,
    searches: VecDeque<Search>,
    /// When stale routes are removed.
    stale_until_ms: Option<u64>,
    /// Faces that are not used where there are others, and until when.
    suspended: BTreeMap<FaceId, u64>,
    journal: Option<Vec<JournalEntry>>,
    /// Number of routes in [`Layer::Rib`].
    routes: usize,
    /// Number of routes in both layers.
    stored: usize,
    routes_max: usize,
    /// Prefixes of the forwarder's own management.
    own: Vec<Name>,
    observed: Vec<(Option<u64>, Name)>,
    events: Vec<RouteEvent>,
}

impl Rib {
    /// An empty RIB for at most `routes_max` routes.
    pub fn new(routes_max: usize) -> Self {
        Rib {
            entries: BTreeMap::new(),
            kinds: Kinds::default(),
            depths: [0; ROUTE_COMPONENTS_MAX + 1],
            faces: FaceMap::default(),
            routed: BTreeSet::new(),
            deadlines: BinaryHeap::new(),
            expiring: 0,
            searches: VecDeque::new(),
            stale_until_ms: None,
            suspended: BTreeMap::new(),
            journal: None,
            routes: 0,
            stored: 0,
            routes_max,
            own: Vec::new(),
            observed: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes
    }

    /// Whether the RIB has no routes.
    pub fn is_empty(&self) -> bool {
        self.routes == 0
    }

    /// From now on, keeps [`RouteEvent`]s for [`Rib::take_events`]. Observed are all routes of this origin (`None`: of
    /// any origin), and all routes for exactly this name.
    pub fn observe(&mut self, origin: Option<u64>, name: Name) {
        if !self.observed.contains(&(origin, name.clone())) {
            self.observed.push((origin, name));
        }
    }

    /// Events of observed routes since the last call.
    pub fn take_events(&mut self) -> Vec<RouteEvent> {
        std::mem::take(&mut self.events)
    }

    /// Faces that gained their first route or lost their last one since the last call.
    pub fn take_routed(&mut self) -> BTreeSet<FaceId> {
        std::mem::take(&mut self.routed)
    }

    /// Changes the largest number of routes.
    ///
    /// # Errors
    /// There are more routes already.
    pub fn limit(&mut self, routes_max: usize) -> Result<(), RibError> {
        if self.stored > routes_max {
            return Err(RibError::Full { routes: self.stored });
        }
        self.routes_max = routes_max;
        Ok(())
    }
    /// The route for exactly this name with this face and origin.
    pub fn route(&self, name: NameRef<'_>, face: FaceId, origin: u64) -> Option<Route> {
        let (key, entry) = self.entries.get_key_value(name.value())?;
        let entry = RibEntryRef { rib: self, name: key, entry };
        entry.routes().map(|listed| listed.route).find(|route| (route.face, route.origin) == (face, origin))
    }

    /// The group of the rule for exactly this name in the FIB, if there is one.
    pub fn group(&self, name: NameRef<'_>) -> Option<EntryId> {
        self.entries.get(name.value())?.group()
    }

    /// Whether any route or nexthop leads to this face.
    pub fn has_routes(&self, face: FaceId) -> bool {
        self.faces.contains_key(&face)
    }

    /// Whether a route or nexthop for exactly this name leads to the face.
    pub fn leads_to(&self, name: NameRef<'_>, face: FaceId) -> bool {
        let entry = self.entries.get(name.value());
        entry.is_some_and(|e| e.routes.as_slice().iter().any(|route| self.kinds.get(route.kind).face == face))
    }

    /// Whether there is this route, stale or not, whenever it expires.
    pub fn has_route(&self, name: NameRef<'_>, route: &Route) -> bool {
        let Route { face, origin, cost, flags, .. } = *route;
        let wanted = RouteKind { face, origin, cost, flags, layer: Layer::Rib, is_stale: false };
        let is_it = |kind: &RouteKind| RouteKind { is_stale: false, ..*kind } == wanted;
        let entry = self.entries.get(name.value());
        entry.is_some_and(|e| e.routes.as_slice().iter().any(|route| is_it(self.kinds.get(route.kind))))
    }

    /// Reserves a prefix for the forwarder's own management. Routes at or below it are refused from then on, except
    /// those of [`Rib::register_hub`].
    pub fn keep_own(&mut self, fib: &mut FibWriter, prefix: Name) -> Result<(), RibError> {
        // Origin and flags are those that NFD lists. No name inherits from this layer.
        let kind = RouteKind {
            face: FaceId::INTERNAL,
            origin: 0,
            cost: 0,
            flags: CHILD_INHERIT,
            layer: Layer::Fib,
            is_stale: false,
        };
        self.insert(fib, prefix.as_ref(), kind, NEVER)?;
        self.own.push(prefix);
        Ok(())
    }

    /// The reserved management prefix that covers this name.
    pub fn own_prefix_of(&self, name: NameRef<'_>) -> Option<&Name> {
        self.own.iter().find(|own| own.as_ref().is_prefix_of(&name))
    }

    /// Adds a route, or replaces the route with the same face and origin.
    pub fn register(&mut self, fib: &mut FibWriter, name: NameRef<'_>, route: &Route) -> Result<(), RibError> {
        self.check_own(name, route.face)?;
        self.insert_route(fib, name, route)
    }

    /// Adds a route for a prefix that [`Rib::keep_own`] has reserved. The nexthop of management remains, as the last
    /// one.
    pub fn register_hub(&mut self, fib: &mut FibWriter, own: NameRef<'_>, route: &Route) -> Result<(), RibError> {
        check_face(route.face)?;
        self.insert_route(fib, own, route)
    }

    /// The face of the route that [`Rib::register_hub`] added for this prefix.
    pub fn hub(&self, own: NameRef<'_>) -> Option<FaceId> {
        let routes = self.entries.get(own.value())?.routes.as_slice();
        routes.iter().map(|route| self.kinds.get(route.kind).face).find(|&face| face != FaceId::INTERNAL)
    }

    fn insert_route(&mut self, fib: &mut FibWriter, name: NameRef<'_>, route: &Route) -> Result<(), RibError> {
        let &Route { face, origin, cost, flags, expires_at_ms } = route;
        let kind = RouteKind { face, origin, cost, flags, layer: Layer::Rib, is_stale: false };
        self.insert(fib, name, kind, expires_at_ms.unwrap_or(NEVER))
    }

    /// Removes a route. Returns false if it does not exist.
    pub fn unregister(&mut self, fib: &mut FibWriter, name: NameRef<'_>, face: FaceId, origin: u64) -> bool {
        let of = |kind: &RouteKind| (kind.face, kind.origin, kind.layer) == (face, origin, Layer::Rib);
        self.remove(fib, name.value(), |kind, _| of(kind)) > 0
    }

    /// Adds a nexthop to the FIB without a RIB route, or changes its cost. The nexthop is removed with its face or by
    /// [`Rib::remove_nexthop`].
    pub fn add_nexthop(
        &mut self,
        fib: &mut FibWriter,
        name: NameRef<'_>,
        face: FaceId,
        cost: u64,
    ) -> Result<(), RibError> {
        self.check_own(name, face)?;
        self.insert(fib, name, RouteKind { face, origin: 0, cost, flags: 0, layer: Layer::Fib, is_stale: false }, NEVER)
    }

    /// Removes a nexthop that [`Rib::add_nexthop`] added. Returns false if it does not exist.
    pub fn remove_nexthop(&mut self, fib: &mut FibWriter, name: NameRef<'_>, face: FaceId) -> bool {
        self.remove(fib, name.value(), |kind, _| (kind.face, kind.layer) == (face, Layer::Fib)) > 0
    }

    /// Removes all routes of a face. If there are many, forwarding to the face ends at once, and [`Rib::search_step`]
    /// removes the routes.
    pub fn remove_face(&mut self, fib: &mut FibWriter, face: FaceId) {
        self.resume(fib, face);
        let Some(FaceRoutes { names, .. }) = self.faces.remove(&face) else { return };
        if let Some(names) = names {
            for name in names {
                self.remove(fib, &name, |kind, _| kind.face == face);
            }
            return;
        }
        fib.detach_face(face);
        match self.searches.back_mut() {
            Some(search) if search.done.is_none() => search.faces.insert(face),
            _ => {
                self.searches.push_back(Search { faces: [face].into(), ..Search::default() });
                true
            }
        };
    }

    /// Performs one step of removing stale routes and those of removed faces. Returns false when nothing is left to do.
    pub fn search_step(&mut self, fib: &mut FibWriter) -> bool {
        let Some(mut search) = self.searches.pop_front() else { return false };
        let from = search.done.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let step: Vec<Key> =
            self.entries.range::<[u8], _>((from, Bound::Unbounded)).take(SEARCH_STEP).map(|(k, _)| k.clone()).collect();
        for name in &step {
            let is_dead = |route: &StoredRoute| search.removes(self.kinds.get(route.kind));
            if self.entries[name].routes.as_slice().iter().any(is_dead) {
                self.remove(fib, name, |kind, _| search.removes(kind));
            }
        }
        if step.len() == SEARCH_STEP {
            search.done = step.last().cloned();
            self.searches.push_front(search);
        }
        !self.searches.is_empty()
    }

    /// Deadline of the next route to expire. It may be outdated if that route was removed or refreshed.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let expires = self.deadlines.peek().map(|Reverse((at, _))| *at);
        expires.into_iter().chain(self.stale_until_ms).chain(self.suspended.values().copied()).min()
    }

    /// Removes routes that are due at `now_ms`, for at most `names_max` names. If stale routes are due,
    /// [`Rib::search_step`] removes them. Suspended faces that are due are used again.
    pub fn expire(&mut self, fib: &mut FibWriter, now_ms: u64, names_max: usize) {
        self.resume_due(fib, now_ms);
        if self.stale_until_ms.take_if(|at| *at <= now_ms).is_some() {
            self.searches.push_back(Search { stale: true, ..Search::default() });
        }
        for _ in 0..names_max {
            if self.deadlines.peek().is_none_or(|Reverse((at, _))| *at > now_ms) {
                break;
            }
            if let Some(Reverse((_, name))) = self.deadlines.pop() {
                self.remove(fib, &name, |_, route| route.expires_at_ms() <= now_ms);
            }
        }
    }

    /// All names after `after`, in the order of their encodings, with their routes.
    pub fn entries_after(&self, after: Option<&[u8]>) -> impl Iterator<Item = RibEntryRef<'_>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.entries.range::<[u8], _>((from, Bound::Unbounded));
        range.map(|(name, entry)| RibEntryRef { rib: self, name, entry })
    }

    /// Refuses a route that would replace the forwarder's own management.
    fn check_own(&self, name: NameRef<'_>, face: FaceId) -> Result<(), RibError> {
        check_face(face)?;
        self.own_prefix_of(name).map_or(Ok(()), |own| Err(RibError::OwnName { own: own.clone() }))
    }

    fn insert(
        &mut self,
        fib: &mut FibWriter,
        name: NameRef<'_>,
        kind: RouteKind,
        expires_at_ms: u64,
    ) -> Result<(), RibError> {
        let depth = name.len();
        if depth > ROUTE_COMPONENTS_MAX {
            return Err(RibError::TooDeep);
        }
        if !fib.has_room() {
            return Err(RibError::FibFull);
        }
        let above = self.inherited(name.value(), depth);
        let mut is_new_name = false;
        let (key, passed_before) = match self.entries.entry(name.value().into()) {
            btree_map::Entry::Vacant(_) if self.stored >= self.routes_max => {
                return Err(RibError::Full { routes: self.stored });
            }
            btree_map::Entry::Vacant(vacant) => {
                is_new_name = true;
                let key = vacant.key().clone();
                vacant.insert(Entry::new(StoredRoute::new(self.kinds.acquire(kind), expires_at_ms)));
                (key, None)
            }
            btree_map::Entry::Occupied(mut occupied) => {
                let passed = passed_down(&self.kinds, occupied.get(), &above);
                let routes = &mut occupied.get_mut().routes;
                let same = |route: &&mut StoredRoute| self.kinds.get(route.kind).is_same_route(&kind);
                if let Some(route) = routes.as_mut_slice().iter_mut().find(same) {
                    self.expiring -= usize::from(route.expires_at_ms() != NEVER);
                    let old = std::mem::replace(route, StoredRoute::new(self.kinds.acquire(kind), expires_at_ms));
                    let is_as_before = old.kind == route.kind && old.expires_at_ms() == expires_at_ms;
                    self.kinds.release(old.kind);
                    let key = occupied.key().clone();
                    // Daemons repeat their registrations.
                    if !is_as_before {
                        self.note_journal(&key, &kind, expires_at_ms, false);
                    }
                    self.note_deadline(&key, expires_at_ms);
                    self.refresh(fib, name, depth, &above, &passed);
                    return Ok(());
                }
                if self.stored >= self.routes_max {
                    return Err(RibError::Full { routes: self.stored });
                }
                routes.push(StoredRoute::new(self.kinds.acquire(kind), expires_at_ms));
                (occupied.key().clone(), Some(passed))
            }
        };
        self.depths[depth] += u32::from(is_new_name);
        self.note_added(&key, &kind);
        self.note_journal(&key, &kind, expires_at_ms, false);
        self.note_deadline(&key, expires_at_ms);
        self.refresh(fib, name, depth, &above, passed_before.as_ref().unwrap_or(&above));
        Ok(())
    }

    /// Removes the routes of a name for which `which` returns true. Returns their number.
    fn remove(&mut self, fib: &mut FibWriter, name: &[u8], which: impl Fn(&RouteKind, &StoredRoute) -> bool) -> usize {
        let selects = |kinds: &Kinds, route: &StoredRoute| which(kinds.get(route.kind), route);
        let Some(entry) = self.entries.get(name) else { return 0 };
        if !entry.routes.as_slice().iter().any(|route| selects(&self.kinds, route)) {
            return 0;
        }
        let name_ref = NameRef::new(name).expect("the RIB's keys are names");
        let depth = name_ref.len();
        let above = self.inherited(name, depth);
        let passed = passed_down(&self.kinds, &self.entries[name], &above);
        let entry = self.entries.get_mut(name).expect("looked up just now");
        let mut removed = Vec::new();
        entry.routes.retain(|route| {
            let goes = selects(&self.kinds, route);
            if goes {
                removed.push(*route);
            }
            !goes
        });
        let emptied = entry.routes.as_slice().is_empty();
        if emptied {
            let mut group = entry.group();
            fib.clear(name_ref, &mut group);
            self.entries.remove(name);
            self.depths[depth] -= 1;
        }
        for route in &removed {
            let kind = *self.kinds.get(route.kind);
            self.kinds.release(route.kind);
            self.note_removed(name_ref, &kind, route.expires_at_ms());
            self.note_journal(name, &kind, route.expires_at_ms(), true);
        }
        if emptied {
            if above != passed {
                self.refresh_longer(fib, name, above);
            }
        } else {
            self.refresh(fib, name_ref, depth, &above, &passed);
        }
        removed.len()
    }

    /// Nexthops that an entry of this name inherits.
    fn inherited(&self, name: &[u8], depth: usize) -> Nexthops {
        let mut above = Nexthops::new();
        if self.depths[..depth].iter().all(|&entries| entries == 0) {
            return above;
        }
        let name = NameRef::new(name).expect("the RIB's keys are names");
        for shorter in (0..depth).filter(|&d| self.depths[d] > 0) {
            if let Some(entry) = self.entries.get(name.prefix(shorter).value()) {
                above = passed_down(&self.kinds, entry, &above);
            }
        }
        above
    }

    /// Updates the FIB after a change of this entry. The entry inherits `above`. Before the change, it passed down
    /// `passed_before`.
    fn refresh(
        &mut self,
        fib: &mut FibWriter,
        name: NameRef<'_>,
        depth: usize,
        above: &Nexthops,
        passed_before: &Nexthops,
    ) {
        let entry = self.entries.get_mut(name.value()).expect("the caller has it");
        set_rule(fib, name, entry, &nexthops(&self.kinds, entry, above));
        let passed = passed_down(&self.kinds, entry, above);
        let has_longer = self.depths[(depth + 1).min(self.depths.len())..].iter().any(|&entries| entries > 0);
        if has_longer && passed != *passed_before {
            self.refresh_longer(fib, name.value(), passed);
        }
    }

    /// Updates the FIB for all names longer than `name`, which passes `passed` down to them.
    fn refresh_longer(&mut self, fib: &mut FibWriter, name: &[u8], passed: Nexthops) {
        // Prefixes of the current name that have entries, with the nexthops that they pass down.
        let mut path: Vec<(Key, Nexthops)> = Vec::new();
        let range = self.entries.range_mut::<[u8], _>((Bound::Excluded(name), Bound::Unbounded));
        for (key, entry) in range.take_while(|(key, _)| key.starts_with(name)) {
            while path.pop_if(|(shorter, _)| !key.starts_with(shorter)).is_some() {}
            let above = path.last().map_or(&passed, |(_, passed)| passed);
            let key_ref = NameRef::new(key).expect("the RIB's keys are names");
            set_rule(fib, key_ref, entry, &nexthops(&self.kinds, entry, above));
            let passed = passed_down(&self.kinds, entry, above);
            path.push((key.clone(), passed));
        }
    }

    fn note_added(&mut self, name: &Key, kind: &RouteKind) {
        self.stored += 1;
        self.routes += usize::from(kind.layer == Layer::Rib);
        self.note_event(kind, true, name);
        let face = self.faces.entry(kind.face).or_insert_with(|| FaceRoutes { count: 0, names: Some(Vec::new()) });
        face.count += 1;
        if face.count == 1 {
            self.routed.insert(kind.face);
        }
        if let Some(names) = &mut face.names {
            names.push(name.clone());
            // The list still has names whose route was removed. Drop them before counting.
            if names.len() > 2 * face.count + 8 {
                names.sort_unstable();
                names.dedup();
                let of_face = |route: &StoredRoute| self.kinds.get(route.kind).face == kind.face;
                names.retain(|name| self.entries.get(name).is_some_and(|e| e.routes.as_slice().iter().any(of_face)));
            }
            if names.len() > FACE_NAMES_MAX {
                face.names = None;
            }
        }
    }

    fn note_removed(&mut self, name: NameRef<'_>, kind: &RouteKind, expires_at_ms: u64) {
        self.stored -= 1;
        self.routes -= usize::from(kind.layer == Layer::Rib);
        self.expiring -= usize::from(expires_at_ms != NEVER);
        self.note_event(kind, false, name.value());
        if let Some(face) = self.faces.get_mut(&kind.face) {
            face.count -= 1;
            if face.count == 0 {
                self.faces.remove(&kind.face);
                self.routed.insert(kind.face);
            }
        }
    }

    fn note_event(&mut self, kind: &RouteKind, added: bool, name: &[u8]) {
        let is_observed = |(origin, observed): &(Option<u64>, Name)| {
            origin.is_none_or(|origin| origin == kind.origin) || observed.value() == name
        };
        if kind.layer == Layer::Rib && self.observed.iter().any(is_observed) {
            let name = NameRef::new(name).expect("the RIB's keys are names").to_name();
            self.events.push(RouteEvent { name, face: kind.face, origin: kind.origin, added });
        }
    }

    fn note_deadline(&mut self, name: &Key, expires_at_ms: u64) {
        if expires_at_ms == NEVER {
            return;
        }
        self.expiring += 1;
        self.deadlines.push(Reverse((expires_at_ms, name.clone())));
        // Each refresh of a route leaves its old deadline in the heap.
        if self.deadlines.len() > 2 * self.expiring + 1024 {
            let entries = &self.entries;
            self.deadlines.retain(|Reverse((at, name))| {
                entries.get(name).is_some_and(|e| e.routes.as_slice().iter().any(|r| r.expires_at_ms() == *at))
            });
        }
    }
}

/// Refuses the forwarder's reserved faces.
fn check_face(face: FaceId) -> Result<(), RibError> {
    if face < FaceId::FIRST { Err(RibError::ReservedFace { face }) } else { Ok(()) }
}

fn route_of(kind: &RouteKind, expires_at_ms: u64) -> Route {
    let &RouteKind { face, origin, cost, flags, .. } = kind;
    Route { face, origin, cost, flags, expires_at_ms: Some(expires_at_ms).filter(|&at| at != NEVER) }
}

fn set_rule(fib: &mut FibWriter, name: NameRef<'_>, entry: &mut Entry, nexthops: &Nexthops) {
    let mut group = entry.group();
    fib.set(name, &mut group, nexthops);
    entry.set_group(group);
}

/// A route in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedRoute {
    /// The route.
    pub route: Route,
    /// Whether an earlier process had it, and nobody has confirmed it since.
    pub is_stale: bool,
}

/// A name in the RIB.
pub struct RibEntryRef<'a> {
    rib: &'a Rib,
    name: &'a Key,
    entry: &'a Entry,
}

impl<'a> RibEntryRef<'a> {
    /// The name's TLV-VALUE, for [`Rib::entries_after`]. It is shared, not copied.
    pub fn key(&self) -> Arc<[u8]> {
        self.name.clone()
    }
    /// The name.
    pub fn name(&self) -> NameRef<'a> {
        NameRef::new(self.name).expect("the RIB's keys are names")
    }
    /// Its routes, without the nexthops that `fib` commands added. There may be none. Stale routes have the time at which
    /// they will be removed.
    pub fn routes(&self) -> impl Iterator<Item = ListedRoute> + use<'a> {
        let (kinds, routes) = (&self.rib.kinds, self.entry.routes.as_slice());
        // Among the nexthops without a RIB route, only the router's own is listed.
        let is_listed = |kind: &RouteKind| kind.layer == Layer::Rib || kind.face == FaceId::INTERNAL;
        let stale_until_ms = self.rib.stale_until_ms.unwrap_or(NEVER);
        routes.iter().filter(move |route| is_listed(kinds.get(route.kind))).map(move |route| {
            let kind = kinds.get(route.kind);
            let latest_ms = if kind.is_stale { stale_until_ms } else { NEVER };
            let route = route_of(kind, route.expires_at_ms().min(latest_ms));
            ListedRoute { route, is_stale: kind.is_stale }
        })
    }
    /// The group of its rule in the FIB, if there is one.
    pub fn group(&self) -> Option<EntryId> {
        self.entry.group()
    }
}
