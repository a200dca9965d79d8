//! A shard's notes about the packets of the current burst.

use byname_lookup::EntryId;
use byname_wire::FaceId;

use crate::packet::Parsed;
use crate::pit_cs::SlotId;
use crate::port::Received;
use crate::ticks::Ticks;

/// The packets of a burst: first those that this thread received, then those that other threads gave it.
pub(crate) struct Burst<'a> {
    own: &'a mut [Received],
    given: &'a mut [Received],
}

impl<'a> Burst<'a> {
    pub fn new(own: &'a mut [Received], given: &'a mut [Received]) -> Self {
        Burst { own, given }
    }

    #[inline]
    pub fn packet(&self, at: usize) -> &Received {
        if at < self.own.len() { &self.own[at] } else { &self.given[at - self.own.len()] }
    }

    #[inline]
    pub fn packet_mut(&mut self, at: usize) -> &mut Received {
        if at < self.own.len() { &mut self.own[at] } else { &mut self.given[at - self.own.len()] }
    }
}

/// A parsed packet of the burst.
pub(crate) struct Staged {
    /// Its place in the burst.
    pub at: usize,
    /// Its place among the names that were hashed.
    pub place: usize,
    pub parsed: Parsed,
}

/// The memory that a packet needs.
pub(crate) struct Wanted {
    /// Hash of the packet's name.
    pub hash: u64,
    /// Nonce of an Interest.
    pub nonce: Option<u32>,
    /// The slot that the packet will most likely find: known from the second step on.
    pub slot: Option<SlotId>,
}

/// An Interest that missed the content store, on its way to the FIB and its strategy.
pub(crate) struct Miss {
    /// Its PIT entry, which stays until the Interest is routed.
    pub slot: SlotId,
    /// The index of its prefix hashes.
    pub place: usize,
    pub ingress: FaceId,
    pub expiry: Ticks,
    pub congestion_mark: u64,
    pub non_discovery: bool,
    pub route: Route,
}

/// How the nexthops of an Interest are found.
pub(crate) enum Route {
    /// By the FIB and its own name.
    Fib,
    /// The FIB entry and the hash of its prefix, if there is one.
    Entry(Option<(EntryId, u64)>),
    /// The face that the consumer chose.
    Face(FaceId),
}

impl Miss {
    /// Whether it still needs a FIB lookup.
    pub fn wants_fib(&self) -> bool {
        matches!(self.route, Route::Fib)
    }

    /// The FIB entry of its route.
    pub fn entry(&self) -> Option<EntryId> {
        match self.route {
            Route::Entry(entry) => entry.map(|(entry, _)| entry),
            Route::Fib | Route::Face(_) => None,
        }
    }

    /// Sets the result of its FIB lookup.
    pub fn set_route(&mut self, entry: Option<(EntryId, u64)>) {
        self.route = Route::Entry(entry);
    }
}
