//! PIT entries that all workers share: a table of places, each behind a lock of one word.
//!
//! The home of a name keeps the pending Interest in its own PIT, with all that concerns upstreams. For a hot name it
//! *opens* a shared entry, with the name, the downstreams and the nonces. While the entry is open, any worker may *join*
//! a further Interest: it checks that Interest for loops, and adds or renews a downstream. The home *closes* the entry
//! before it does anything with the pending Interest, and takes over all that has joined. So an Interest is in one place
//! at a time: either in a shared entry or in its home's PIT. [Hasegawa, "Algorithms of NIC and PIT"] has the same three
//! fields in a shared entry: a name, a lock and faces.
//!
//! An Interest may join only if its home would send nothing for it, because the strategy suppresses it
//! (`Strategy::quiet_until`). Otherwise it goes home. It also goes home if the lock is taken, if the entry is full, or if
//! its downstream would wait for less time than before. So an entry never expires earlier than its home expects.
//!
//! Only the home of a name opens its entry, so no name is in two places. A name takes an empty place of its set. If
//! there is none, the entry stays closed: pending Interests are never evicted from here. A set's tags say which names
//! may be there, in one cache line. The whole name decides under the lock.

use std::sync::Arc;

use byname_wire::name_hash::Digest;
use byname_wire::{FaceId, PitToken};

use super::lock::WordLock;
use crate::packet::InterestInfo;
use crate::packet_pool::Packet;
use crate::sync::{AtomicU64, Ordering};
use crate::ticks::Ticks;

/// Number of places in a set.
const WAYS: usize = if cfg!(loom) { 1 } else { 8 };
/// Maximum of downstreams that join an entry before its home must take them over.
pub(crate) const JOINED_MAX: usize = if cfg!(loom) { 2 } else { 64 };
/// Maximum of downstreams of an entry, joined or not.
pub(crate) const DOWNSTREAMS_MAX: usize = 256;

/// A downstream that joined, and waits for Data.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub face: FaceId,
    pub nonce: u32,
    pub arrived: Ticks,
    pub expiry: Ticks,
    pub pit_token: PitToken,
}

/// A downstream of the pending Interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Downstream {
    pub face: FaceId,
    /// The latest nonce that it sent.
    pub nonce: u32,
    /// When it stops waiting.
    pub expiry: Ticks,
}

/// A pending Interest, as its home opens it.
pub(crate) struct Pending<'a> {
    pub name: &'a [u8],
    pub must_be_fresh: bool,
    /// The home sends nothing for further Interests before this time.
    pub quiet_until: Ticks,
    /// When the pending Interest expires.
    pub expiry: Ticks,
}

/// All that has joined an entry, for its home.
#[derive(Default)]
pub(crate) struct Joined {
    /// Downstreams, in the order in which they joined first.
    pub waiting: Vec<Waiting>,
    /// The latest Interest, with its HopLimit lowered.
    pub latest: Option<(Packet, InterestInfo)>,
}

/// What a worker may do with an Interest for a hot name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may join.
    Joins,
    /// It loops: another downstream or an upstream has the same nonce.
    Loops,
}

/// One entry, behind its lock.
#[derive(Default)]
struct Entry {
    is_open: bool,
    must_be_fresh: bool,
    name: Vec<u8>,
    quiet_until: Ticks,
    expiry: Ticks,
    downstreams: Vec<Downstream>,
    /// Nonces that were sent upstream.
    sent: Vec<u32>,
    joined: Joined,
}

/// An open entry that an Interest may join, as far as its home's strategy and its time are concerned.
pub(crate) struct Opened<'a> {
    entry: &'a mut Entry,
    /// The place of the Interest's face among the downstreams.
    known: Option<usize>,
}

impl Opened<'_> {
    /// Whether an Interest loops. `is_repeatable`: the face's peer may send the same Interest again.
    pub fn verdict(&self, nonce: u32, is_repeatable: bool) -> Verdict {
        let entry = &self.entry;
        let again = is_repeatable && self.known.is_some_and(|at| entry.downstreams[at].nonce == nonce);
        let is_here = || entry.downstreams.iter().any(|d| d.nonce == nonce) || entry.sent.contains(&nonce);
        if !again && is_here() { Verdict::Loops } else { Verdict::Joins }
    }

    /// Adds a downstream, or renews one.
    pub fn join(&mut self, waiting: Waiting, packet: Packet, info: InterestInfo) {
        let entry = &mut *self.entry;
        let downstream = Downstream { face: waiting.face, nonce: waiting.nonce, expiry: waiting.expiry };
        match self.known {
            Some(at) => entry.downstreams[at] = downstream,
            None => entry.downstreams.push(downstream),
        }
        entry.expiry = entry.expiry.max(waiting.expiry);
        match entry.joined.waiting.iter_mut().find(|joined| joined.face == waiting.face) {
            Some(joined) => *joined = waiting,
            None => entry.joined.waiting.push(waiting),
        }
        entry.joined.latest = Some((packet, info));
    }
}

impl Entry {
    /// The entry for an Interest that may join it. `expiry` is when the Interest's downstream would stop waiting.
    fn admit(&mut self, interest: &Asking<'_>) -> Option<Opened<'_>> {
        let is_its = self.is_open && self.must_be_fresh == interest.must_be_fresh && self.name == interest.name;
        if !is_its || interest.now >= self.quiet_until.min(self.expiry) {
            return None;
        }
        let known = self.downstreams.iter().position(|d| d.face == interest.face);
        let waits_longer = known.is_none_or(|at| self.downstreams[at].expiry <= interest.expiry);
        let has_joined = || self.joined.waiting.iter().any(|joined| joined.face == interest.face);
        let has_room = (self.joined.waiting.len() < JOINED_MAX || has_joined())
            && (known.is_some() || self.downstreams.len() < DOWNSTREAMS_MAX);
        (waits_longer && has_room).then_some(Opened { entry: self, known })
    }
}

/// An Interest for a hot name, as a worker asks for its entry.
pub(crate) struct Asking<'a> {
    pub name: &'a [u8],
    pub must_be_fresh: bool,
    pub face: FaceId,
    pub now: Ticks,
    /// When its downstream stops waiting.
    pub expiry: Ticks,
}

/// The places that a name may have, in one cache line.
#[repr(align(64))]
struct Set {
    /// One half of the digest of each name in the set; 0 means none.
    tags: [AtomicU64; WAYS],
}

/// The number of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceId(u32);

/// The lock of an entry is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// PIT entries that all workers share; see the module.
pub struct SharedPit {
    /// The number of sets is a power of two.
    sets: Box<[Set]>,
    /// [`WAYS`] places for each set.
    places: Box<[WordLock<Entry>]>,
    open: AtomicU64,
}

impl SharedPit {
    /// An empty table for at least this many entries.
    pub(crate) fn new(entries: usize) -> Arc<Self> {
        let sets = entries.max(1).div_ceil(WAYS).next_power_of_two();
        let set = |_| Set { tags: std::array::from_fn(|_| AtomicU64::new(0)) };
        Arc::new(SharedPit {
            sets: (0..sets).map(set).collect(),
            places: (0..sets * WAYS).map(|_| WordLock::new(Entry::default())).collect(),
            open: AtomicU64::new(0),
        })
    }

    /// Number of open entries.
    pub(crate) fn len(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether an entry of this name seems to be open.
    #[inline]
    pub(crate) fn contains(&self, name: Digest) -> bool {
        self.place_of(name).is_some()
    }

    /// Runs `work` with the open entry that an Interest may join. `None` if there is none.
    ///
    /// # Errors
    /// If the lock is taken.
    pub(crate) fn with<R>(
        &self,
        name: Digest,
        interest: &Asking<'_>,
        work: impl FnOnce(Opened<'_>) -> R,
    ) -> Result<Option<R>, Busy> {
        let Some(place) = self.place_of(name) else { return Ok(None) };
        self.places[place].try_with(|entry| entry.admit(interest).map(work)).ok_or(Busy)
    }

    /// Opens an entry for a pending Interest, with its downstreams and the nonces that were sent upstream. Returns the
    /// entry's place, or `None` if there is no room. Only the name's home may call this, while the name has no entry.
    pub(crate) fn open(
        &self,
        name: Digest,
        pending: &Pending<'_>,
        downstreams: impl Iterator<Item = Downstream>,
        sent: impl Iterator<Item = u32>,
    ) -> Option<PlaceId> {
        let set = self.set_of(name);
        let tags = &self.sets[set].tags;
        let way = (0..WAYS).find(|way| tags[*way].load(Ordering::Relaxed) == 0)?;
        let place = set * WAYS + way;
        let opened = self.places[place].try_with(|entry| {
            // Another home may have been faster.
            if std::mem::replace(&mut entry.is_open, true) {
                return false;
            }
            entry.must_be_fresh = pending.must_be_fresh;
            (entry.quiet_until, entry.expiry) = (pending.quiet_until, pending.expiry);
            entry.name.clear();
            entry.name.extend_from_slice(pending.name);
            entry.downstreams.clear();
            entry.downstreams.extend(downstreams);
            entry.sent.clear();
            entry.sent.extend(sent);
            self.open.fetch_add(1, Ordering::Relaxed);
            tags[way].store(tag(name), Ordering::Release);
            true
        });
        (opened == Some(true)).then_some(PlaceId(place as u32))
    }

    /// Closes an entry, and moves all that has joined it to `joined`, which must be empty. Only the home that opened the
    /// entry may call this.
    ///
    /// # Errors
    /// If the lock is taken. Then the entry is still open.
    pub(crate) fn close(&self, place: PlaceId, joined: &mut Joined) -> Result<(), Busy> {
        let place = place.0 as usize;
        let closed = self.places[place].try_with(|entry| {
            self.sets[place / WAYS].tags[place % WAYS].store(0, Ordering::Relaxed);
            self.open.fetch_sub(1, Ordering::Relaxed);
            entry.is_open = false;
            std::mem::swap(&mut entry.joined, joined);
        });
        closed.ok_or(Busy)
    }

    fn set_of(&self, name: Digest) -> usize {
        name.check as usize & (self.sets.len() - 1)
    }

    #[inline]
    fn place_of(&self, name: Digest) -> Option<usize> {
        let set = self.set_of(name);
        let tags = &self.sets[set].tags;
        (0..WAYS).find(|way| tags[*way].load(Ordering::Relaxed) == tag(name)).map(|way| set * WAYS + way)
    }
}

/// The tag of a name in its set, never 0.
fn tag(name: Digest) -> u64 {
    name.hash.max(1)
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
