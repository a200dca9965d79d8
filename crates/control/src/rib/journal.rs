//! What a store needs of the RIB: a journal of changes, and routes that come back.
//!
//! Routes that an earlier process had may come back as *stale*: they work, and are removed at a set time unless they are
//! registered again before.

use std::sync::Arc;

use byname_forward::FaceId;
use byname_wire::NameRef;

use super::routes::{Entry, Layer, NEVER, RouteKind, StoredRoute};
use super::{Key, Rib, RibError, Route, check_face, route_of};
use crate::fib_writer::FibWriter;

/// A change of a route or nexthop, for a store; see [`Rib::keep_journal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The name's TLV-VALUE.
    pub name: Arc<[u8]>,
    /// The route as it is now, or as it was when it was removed.
    pub route: Route,
    /// Whether this is a nexthop of [`Rib::add_nexthop`].
    pub is_nexthop: bool,
    /// Whether it was removed.
    pub is_removed: bool,
}

impl Rib {
    /// Adds a route or nexthop that an earlier process had, unless there is one already. A stale one is removed at the
    /// time that [`Rib::remove_stale_at`] sets, unless it is registered again before. Returns whether it was added.
    pub fn restore(
        &mut self,
        fib: &mut FibWriter,
        name: NameRef<'_>,
        route: &Route,
        (is_nexthop, is_stale): (bool, bool),
    ) -> Result<bool, RibError> {
        let &Route { face, origin, cost, flags, expires_at_ms } = route;
        check_face(face)?;
        let layer = if is_nexthop { Layer::Fib } else { Layer::Rib };
        let kind = RouteKind { face, origin, cost, flags, layer, is_stale };
        let is_same = |route: &StoredRoute| self.kinds.get(route.kind).is_same_route(&kind);
        if self.entries.get(name.value()).is_some_and(|entry| entry.routes.as_slice().iter().any(is_same)) {
            return Ok(false);
        }
        self.insert(fib, name, kind, expires_at_ms.unwrap_or(NEVER)).map(|()| true)
    }

    /// Sets the time at which stale routes are removed, unless an earlier time is set.
    pub fn remove_stale_at(&mut self, ms: u64) {
        self.stale_until_ms = Some(self.stale_until_ms.map_or(ms, |earlier| earlier.min(ms)));
    }

    /// From now on, keeps every change of a route or nexthop for [`Rib::take_journal`], or no more.
    pub fn keep_journal(&mut self, keep: bool) {
        self.journal = keep.then(Vec::new);
    }

    /// Does `work` without keeping its changes.
    pub fn unrecorded<R>(&mut self, work: impl FnOnce(&mut Rib) -> R) -> R {
        let journal = self.journal.take();
        let done = work(self);
        self.journal = journal;
        done
    }

    /// Changes since the last call.
    pub fn take_journal(&mut self) -> Vec<JournalEntry> {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// All routes and nexthops of a face, as if they were added now. Searches the whole RIB.
    pub fn routes_of(&self, face: FaceId) -> Vec<JournalEntry> {
        let of_entry = |(name, entry): (&Key, &Entry)| {
            let routes =
                entry.routes.as_slice().iter().map(|route| (self.kinds.get(route.kind), route.expires_at_ms()));
            let of_face = routes.filter(|(kind, _)| kind.face == face);
            of_face.map(|(kind, at)| journal_entry(name, kind, at, false)).collect::<Vec<_>>()
        };
        self.entries.iter().flat_map(of_entry).collect()
    }

    pub(super) fn note_journal(&mut self, name: &[u8], kind: &RouteKind, expires_at_ms: u64, is_removed: bool) {
        if let Some(journal) = &mut self.journal {
            journal.push(journal_entry(name, kind, expires_at_ms, is_removed));
        }
    }
}

fn journal_entry(name: &[u8], kind: &RouteKind, expires_at_ms: u64, is_removed: bool) -> JournalEntry {
    let route = route_of(kind, expires_at_ms);
    JournalEntry { name: name.into(), route, is_nexthop: kind.layer == Layer::Fib, is_removed }
}
