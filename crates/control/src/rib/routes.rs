//! Compact storage of routes: the RIB may hold millions.

use std::collections::HashMap;

use byname_forward::FaceId;
use byname_lookup::EntryId;

/// Flag of a route: longer prefixes inherit it.
pub(super) const CHILD_INHERIT: u64 = 1;
/// Flag of a route: this name and longer ones inherit nothing from shorter prefixes.
pub(super) const CAPTURE: u64 = 2;
/// Deadline of a route that never expires.
pub(super) const NEVER: u64 = u64::MAX;

/// The layer that a route belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Set by `fib` commands. Overrides the RIB at its own name, and is not inherited.
    Fib,
    /// Set by `rib` commands.
    Rib,
}

/// A route without its name and its deadline. Most routes of a face have the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RouteKind {
    pub face: FaceId,
    pub origin: u64,
    pub cost: u64,
    pub flags: u64,
    pub layer: Layer,
    /// Whether an earlier process had the route, and nobody has confirmed it since.
    pub is_stale: bool,
}

impl RouteKind {
    pub fn inherits(&self) -> bool {
        self.layer == Layer::Rib && self.flags & CHILD_INHERIT != 0
    }
    pub fn captures(&self) -> bool {
        self.layer == Layer::Rib && self.flags & CAPTURE != 0
    }
    /// Whether a route of kind `other` replaces one of this kind.
    pub fn is_same_route(&self, other: &RouteKind) -> bool {
        (self.face, self.origin, self.layer) == (other.face, other.origin, other.layer)
    }
}

/// Index of a [`RouteKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KindId(u32);

/// All kinds in use, each once.
#[derive(Default)]
pub(super) struct Kinds {
    ids: HashMap<RouteKind, KindId>,
    /// Indexed by id, with the number of routes that use the kind.
    slots: Vec<(RouteKind, u32)>,
    free: Vec<KindId>,
}

impl Kinds {
    pub fn get(&self, id: KindId) -> &RouteKind {
        &self.slots[id.0 as usize].0
    }

    /// Returns the id of a kind, and counts one more use of it.
    pub fn acquire(&mut self, kind: RouteKind) -> KindId {
        let id = *self.ids.entry(kind).or_insert_with(|| match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = (kind, 0);
                id
            }
            None => {
                self.slots.push((kind, 0));
                KindId(u32::try_from(self.slots.len() - 1).expect("there are fewer routes than that"))
            }
        });
        self.slots[id.0 as usize].1 += 1;
        id
    }

    /// Counts one use less. The id becomes free with the last use.
    pub fn release(&mut self, id: KindId) {
        let (kind, uses) = &mut self.slots[id.0 as usize];
        *uses -= 1;
        if *uses == 0 {
            self.ids.remove(kind);
            self.free.push(id);
        }
    }
}

/// One route: 12 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredRoute {
    pub kind: KindId,
    /// The two halves of a `u64`, to reduce alignment to 4 bytes.
    expires_at_ms: [u32; 2],
}

impl StoredRoute {
    pub fn new(kind: KindId, expires_at_ms: u64) -> Self {
        StoredRoute { kind, expires_at_ms: [(expires_at_ms >> 32) as u32, expires_at_ms as u32] }
    }
    pub fn expires_at_ms(&self) -> u64 {
        u64::from(self.expires_at_ms[0]) << 32 | u64::from(self.expires_at_ms[1])
    }
}

/// The routes of one name. Most names have one.
#[derive(Debug)]
pub(super) enum Routes {
    One(StoredRoute),
    // Boxed twice on purpose: an unboxed vector would make every entry 8 bytes larger.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<StoredRoute>>),
}

impl Routes {
    pub fn as_slice(&self) -> &[StoredRoute] {
        match self {
            Routes::One(route) => std::slice::from_ref(route),
            Routes::Many(routes) => routes,
        }
    }
    pub fn as_mut_slice(&mut self) -> &mut [StoredRoute] {
        match self {
            Routes::One(route) => std::slice::from_mut(route),
            Routes::Many(routes) => routes,
        }
    }
    pub fn push(&mut self, route: StoredRoute) {
        match self {
            Routes::One(first) => *self = Routes::Many(Box::new(vec![*first, route])),
            Routes::Many(routes) => routes.push(route),
        }
    }
    /// Keeps the routes for which `keep` returns true. There may be none left.
    pub fn retain(&mut self, mut keep: impl FnMut(&StoredRoute) -> bool) {
        match self {
            Routes::One(route) => {
                if !keep(route) {
                    *self = Routes::Many(Box::default());
                }
            }
            Routes::Many(routes) => {
                routes.retain(keep);
                if let [last] = routes[..] {
                    *self = Routes::One(last);
                }
            }
        }
    }
}

/// The RIB entry of one name: 24 bytes.
#[derive(Debug)]
pub(super) struct Entry {
    pub routes: Routes,
    /// Group of the name's rule in the FIB. `u32::MAX` means no group.
    group: u32,
}

impl Entry {
    pub fn new(route: StoredRoute) -> Self {
        Entry { routes: Routes::One(route), group: u32::MAX }
    }
    pub fn group(&self) -> Option<EntryId> {
        (self.group != u32::MAX).then_some(EntryId(self.group))
    }
    pub fn set_group(&mut self, group: Option<EntryId>) {
        self.group = group.map_or(u32::MAX, |g| g.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_small() {
        assert_eq!(size_of::<StoredRoute>(), 12);
        assert_eq!(size_of::<Entry>(), 24);
    }

    #[test]
    fn kinds_are_shared_and_their_ids_used_again() {
        let kind =
            |face| RouteKind { face: FaceId(face), origin: 0, cost: 1, flags: 1, layer: Layer::Rib, is_stale: false };
        let mut kinds = Kinds::default();
        let (a, b, c) = (kinds.acquire(kind(1)), kinds.acquire(kind(1)), kinds.acquire(kind(2)));
        assert_eq!(a, b);
        assert_ne!(a, c);
        kinds.release(a);
        assert_eq!(kinds.get(b), &kind(1));
        kinds.release(b);
        assert_eq!(kinds.acquire(kind(3)), a);
        assert_eq!((kinds.slots.len(), kinds.ids.len()), (2, 2));
    }

    #[test]
    fn deadlines_keep_all_their_bits() {
        let id = KindId(0);
        for ms in [0, 1, u64::from(u32::MAX), 1 << 40 | 5, NEVER] {
            assert_eq!(StoredRoute::new(id, ms).expires_at_ms(), ms);
        }
    }
}
