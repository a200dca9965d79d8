//! The RIB: routes by name, face and origin, and what the FIB makes of them.
//!
//! Names are kept in the order of their encodings, in which all longer names with a common prefix
//! stand together. A change recomputes its own name, and longer names only where what they
//! inherit has changed.
//!
//! Cost of a leaf: O(depth · log n) [the depths at which there are names at all], 110 to 130 bytes
//! beyond the name. Routes with a deadline take 24 to 48 bytes more.

mod inherit;
mod routes;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque, btree_map};
use std::ops::Bound;
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;
use byname_lookup::EntryId;
use byname_wire::{Name, NameRef};
use thiserror::Error;

use self::inherit::{Nexthops, nexthops, passed_down};
use self::routes::{Entry, Kinds, Layer, NEVER, RouteKind, StoredRoute};
use crate::fib_writer::FibWriter;

/// Most components of a route's name, as in NFD.
pub const ROUTE_COMPONENTS_MAX: usize = 32;
/// A face with more routes has no list of them: when it goes, the RIB is searched, in steps.
const FACE_NAMES_MAX: usize = 256;
/// Names that one step of that search looks at.
const SEARCH_STEP: usize = 2048;

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub face: FaceId,
    /// Who set it: one face may have a route of each origin.
    pub origin: u64,
    /// Lower is better.
    pub cost: u64,
    /// See [`crate::mgmt::tlv::route_flags`].
    pub flags: u64,
    /// When it goes, in ms on the caller's clock; `None`: never.
    pub expires_at_ms: Option<u64>,
}

/// Why a route is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RibError {
    /// The configured number of routes is reached.
    #[error("the RIB is full: {routes} routes")]
    Full {
        /// Routes in it.
        routes: usize,
    },
    /// The FIB has no room for another combination of nexthops.
    #[error("the FIB is full")]
    FibFull,
    /// The name has too many components.
    #[error("a route's prefix cannot exceed {ROUTE_COMPONENTS_MAX} components")]
    TooDeep,
}

/// A route that somebody observes came or went; see [`Rib::observe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEvent {
    /// Its name.
    pub name: Name,
    /// Its face.
    pub face: FaceId,
    /// Its origin.
    pub origin: u64,
    /// Came, or went.
    pub added: bool,
}

type Key = Arc<[u8]>;

/// The routes of one face.
#[derive(Default)]
struct FaceRoutes {
    count: usize,
    /// Names that have or had a route of it; `None` when there were too many.
    names: Option<Vec<Key>>,
}

/// A search for the routes of faces that are gone.
#[derive(Default)]
struct Search {
    faces: HashSet<FaceId>,
    /// Names up to this one have been looked at.
    done: Option<Key>,
}

/// All routes. Changes go to the FIB by the [`FibWriter`], which the caller commits.
pub struct Rib {
    entries: BTreeMap<Key, Entry>,
    kinds: Kinds,
    /// Entries by number of components.
    depths: [u32; ROUTE_COMPONENTS_MAX + 1],
    faces: FaceMap<FaceRoutes>,
    deadlines: BinaryHeap<Reverse<(u64, Key)>>,
    /// Routes with a deadline; the heap has outdated ones besides.
    expiring: usize,
    searches: VecDeque<Search>,
    /// Routes of the layer [`Layer::Rib`].
    routes: usize,
    /// Routes of both layers.
    stored: usize,
    routes_max: usize,
    observed: Option<(u64, Name)>,
    events: Vec<RouteEvent>,
}

impl Rib {
    /// An empty RIB for at most so many routes.
    pub fn new(routes_max: usize) -> Self {
        Rib {
            entries: BTreeMap::new(),
            kinds: Kinds::default(),
            depths: [0; ROUTE_COMPONENTS_MAX + 1],
            faces: FaceMap::default(),
            deadlines: BinaryHeap::new(),
            expiring: 0,
            searches: VecDeque::new(),
            routes: 0,
            stored: 0,
            routes_max,
            observed: None,
            events: Vec::new(),
        }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.routes == 0
    }

    /// From now on, keeps [`RouteEvent`]s of routes of this origin, and of any routes for this very
    /// name, for [`Rib::take_events`].
    pub fn observe(&mut self, origin: u64, name: Name) {
        self.observed = Some((origin, name));
    }

    /// What happened to observed routes since the last call.
    pub fn take_events(&mut self) -> Vec<RouteEvent> {
        std::mem::take(&mut self.events)
    }

    /// Adds a route, or replaces the one of the same face and origin.
    pub fn register(&mut self, fib: &mut FibWriter, name: NameRef<'_>, route: &Route) -> Result<(), RibError> {
        let &Route { face, origin, cost, flags, expires_at_ms } = route;
        let kind = RouteKind { face, origin, cost, flags, layer: Layer::Rib };
        self.insert(fib, name, kind, expires_at_ms.unwrap_or(NEVER))
    }

    /// Removes a route; false if there is none such.
    pub fn unregister(&mut self, fib: &mut FibWriter, name: NameRef<'_>, face: FaceId, origin: u64) -> bool {
        let of = |kind: &RouteKind| (kind.face, kind.origin, kind.layer) == (face, origin, Layer::Rib);
        self.remove(fib, name.value(), |kind, _| of(kind)) > 0
    }

    /// Adds a nexthop past the RIB, or changes its cost. It goes with its face, or by
    /// [`Rib::remove_nexthop`].
    pub fn add_nexthop(
        &mut self,
        fib: &mut FibWriter,
        name: NameRef<'_>,
        face: FaceId,
        cost: u64,
    ) -> Result<(), RibError> {
        self.insert(fib, name, RouteKind { face, origin: 0, cost, flags: 0, layer: Layer::Fib }, NEVER)
    }

    /// Removes a nexthop that [`Rib::add_nexthop`] has added; false if there is none such.
    pub fn remove_nexthop(&mut self, fib: &mut FibWriter, name: NameRef<'_>, face: FaceId) -> bool {
        self.remove(fib, name.value(), |kind, _| (kind.face, kind.layer) == (face, Layer::Fib)) > 0
    }

    /// Removes all routes of a face. Where there are many, forwarding to it ends at once, and the
    /// routes go by and by: see [`Rib::search_step`].
    pub fn remove_face(&mut self, fib: &mut FibWriter, face: FaceId) {
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
                self.searches.push_back(Search { faces: [face].into(), done: None });
                true
            }
        };
    }

    /// Goes on with removing the routes of faces that are gone; false when there is nothing left
    /// to do.
    pub fn search_step(&mut self, fib: &mut FibWriter) -> bool {
        let Some(mut search) = self.searches.pop_front() else { return false };
        let from = search.done.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let step: Vec<Key> =
            self.entries.range::<[u8], _>((from, Bound::Unbounded)).take(SEARCH_STEP).map(|(k, _)| k.clone()).collect();
        for name in &step {
            let is_dead = |route: &StoredRoute| search.faces.contains(&self.kinds.get(route.kind).face);
            if self.entries[name].routes.as_slice().iter().any(is_dead) {
                self.remove(fib, name, |kind, _| search.faces.contains(&kind.face));
            }
        }
        if step.len() == SEARCH_STEP {
            search.done = step.last().cloned();
            self.searches.push_front(search);
        }
        !self.searches.is_empty()
    }

    /// When the next route expires, or something that was to expire already has gone otherwise.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes what is due at `now_ms`, up to `names_max` names of it.
    pub fn expire(&mut self, fib: &mut FibWriter, now_ms: u64, names_max: usize) {
        for _ in 0..names_max {
            if self.next_deadline_ms().is_none_or(|at| at > now_ms) {
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
                    self.kinds.release(old.kind);
                    let key = occupied.key().clone();
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
        self.note_deadline(&key, expires_at_ms);
        self.refresh(fib, name, depth, &above, passed_before.as_ref().unwrap_or(&above));
        Ok(())
    }

    /// Removes the routes of a name that `which` selects; returns how many.
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

    /// What an entry of this name inherits.
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

    /// Brings the FIB up to date after a change of this entry, which inherits `above`, and passed
    /// `passed_before` down until now.
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

    /// Brings the FIB up to date for all names that `name` is a prefix of, and to which it passes
    /// `passed`.
    fn refresh_longer(&mut self, fib: &mut FibWriter, name: &[u8], passed: Nexthops) {
        // The prefixes of the name at hand that have entries, and what they pass down.
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
        if let Some(names) = &mut face.names {
            names.push(name.clone());
            // Names that lost their route are still in the list.
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
            }
        }
    }

    fn note_event(&mut self, kind: &RouteKind, added: bool, name: &[u8]) {
        let Some((origin, observed_name)) = &self.observed else { return };
        if kind.layer == Layer::Rib && (*origin == kind.origin || observed_name.value() == name) {
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
        // Each refresh of a route leaves an outdated deadline behind.
        if self.deadlines.len() > 2 * self.expiring + 1024 {
            let entries = &self.entries;
            self.deadlines.retain(|Reverse((at, name))| {
                entries.get(name).is_some_and(|e| e.routes.as_slice().iter().any(|r| r.expires_at_ms() == *at))
            });
        }
    }
}

fn set_rule(fib: &mut FibWriter, name: NameRef<'_>, entry: &mut Entry, nexthops: &Nexthops) {
    let mut group = entry.group();
    fib.set(name, &mut group, nexthops);
    entry.set_group(group);
}

/// A name in the RIB.
pub struct RibEntryRef<'a> {
    rib: &'a Rib,
    name: &'a Key,
    entry: &'a Entry,
}

impl<'a> RibEntryRef<'a> {
    /// The name's TLV-VALUE, for [`Rib::entries_after`]; shared, not copied.
    pub fn key(&self) -> Arc<[u8]> {
        self.name.clone()
    }
    /// The name.
    pub fn name(&self) -> NameRef<'a> {
        NameRef::new(self.name).expect("the RIB's keys are names")
    }
    /// Its routes, without nexthops that `fib` commands have added. May be none.
    pub fn routes(&self) -> impl Iterator<Item = Route> + use<'a> {
        let (kinds, routes) = (&self.rib.kinds, self.entry.routes.as_slice());
        routes.iter().filter(|route| kinds.get(route.kind).layer == Layer::Rib).map(|route| {
            let &RouteKind { face, origin, cost, flags, .. } = kinds.get(route.kind);
            let expires_at_ms = Some(route.expires_at_ms()).filter(|&at| at != NEVER);
            Route { face, origin, cost, flags, expires_at_ms }
        })
    }
    /// The group of its rule in the FIB, if it has one.
    pub fn group(&self) -> Option<EntryId> {
        self.entry.group()
    }
}
