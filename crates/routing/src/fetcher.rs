//! Fetches objects in segments, with a bound for all of them together.
//!
//! Objects take turns. Objects that others only say to exist have half of the bound, and fewer tries: whoever claims many
//! that do not exist does not stop those that do. A segment without an answer is asked for again, a few times. Each segment's signature is checked
//! before it counts: the fetcher gives it out, and is told the result.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type::SEGMENT;
use byname_wire::{Data, FaceId, Name, NameRef};

use crate::ids::RouterId;
use crate::names;

/// Segments of one object that are asked for at once.
const WINDOW: usize = 16;
/// How often a segment is asked for.
const TRIES: u32 = 4;
/// How often that of an object is asked for that may not exist.
const TRIES_OF_CLAIMS: u32 = 2;
/// Segments of ndnd have 8000 bytes. An object of many more segments than that is a bad one.
const SEGMENT_BYTES_MIN: usize = 512;
/// Interest lifetime, in retry intervals.
const LIFETIME_MAX_MS: u64 = 4_000;

/// What an object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Advertisement {
        router: RouterId,
        boot: u64,
        seq: u64,
    },
    /// Metadata of a router's snapshots.
    Metadata {
        router: RouterId,
        boot: u64,
    },
    Snapshot {
        router: RouterId,
        boot: u64,
        version: u64,
    },
    Publication {
        router: RouterId,
        boot: u64,
        seq: u64,
    },
}

impl Purpose {
    pub(crate) fn router(self) -> RouterId {
        match self {
            Purpose::Advertisement { router, .. }
            | Purpose::Metadata { router, .. }
            | Purpose::Snapshot { router, .. }
            | Purpose::Publication { router, .. } => router,
        }
    }

    pub(crate) fn boot(self) -> u64 {
        match self {
            Purpose::Advertisement { boot, .. }
            | Purpose::Metadata { boot, .. }
            | Purpose::Snapshot { boot, .. }
            | Purpose::Publication { boot, .. } => boot,
        }
    }

    fn is_metadata(self) -> bool {
        matches!(self, Purpose::Metadata { .. })
    }
}

/// Number of an object that is being fetched. It is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FetchId(u64);

/// A segment that arrived and whose signature is to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) fetch: FetchId,
    number: u64,
    last: Option<u64>,
    content: Vec<u8>,
    /// Face that the object was asked for on.
    pub(crate) face: Option<FaceId>,
}

/// The end of a fetch. `None`: it failed.
pub(crate) type Ended = (Purpose, Option<Vec<u8>>);

#[derive(Debug)]
struct Fetch {
    purpose: Purpose,
    /// Name without segment.
    base: Name,
    face: Option<FaceId>,
    /// Only others say that it exists.
    is_claim: bool,
    bytes_max: usize,
    bytes: usize,
    /// Number of the last segment, once known.
    last: Option<u64>,
    got: BTreeMap<u64, Vec<u8>>,
    /// Segments that were asked for, with the times of trying. The deadline is `None` while a signature is checked.
    asked: BTreeMap<u64, (u32, Option<u64>)>,
    next: u64,
    is_queued: bool,
}

/// Bounds of the fetcher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) in_flight: usize,
    pub(crate) bytes: usize,
    pub(crate) timeout_ms: u64,
}

/// All objects that are being fetched.
#[derive(Debug)]
pub(crate) struct Fetcher {
    bounds: Bounds,
    fetches: BTreeMap<FetchId, Fetch>,
    by_name: BTreeMap<Name, FetchId>,
    /// Objects that have something to ask for, in turn: those that exist, and those that others claim.
    queues: [VecDeque<FetchId>; 2],
    /// Segments to ask for again. They have their place within the bound already.
    again: VecDeque<(FetchId, u64)>,
    timeouts: BTreeSet<(u64, FetchId, u64)>,
    /// Interests without an answer, for both.
    in_flight: [usize; 2],
    bytes: usize,
    last_id: u64,
    pub(crate) retries: u64,
}

impl Fetcher {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Fetcher {
            bounds,
            fetches: BTreeMap::new(),
            by_name: BTreeMap::new(),
            queues: [VecDeque::new(), VecDeque::new()],
            again: VecDeque::new(),
            timeouts: BTreeSet::new(),
            in_flight: [0, 0],
            bytes: 0,
            last_id: 0,
            retries: 0,
        }
    }

    /// Begins to fetch an object. `base` is its name without segment; of metadata, the name without version. Nothing
    /// happens if it is being fetched already. `is_claim`: only others say that it exists.
    pub(crate) fn start(
        &mut self,
        purpose: Purpose,
        base: Name,
        face: Option<FaceId>,
        bytes_max: usize,
        is_claim: bool,
    ) {
        if self.by_name.contains_key(&base) {
            return;
        }
        self.last_id += 1;
        let id = FetchId(self.last_id);
        self.by_name.insert(base.clone(), id);
        let fetch = Fetch {
            purpose,
            base,
            face,
            is_claim,
            bytes_max,
            bytes: 0,
            last: None,
            got: BTreeMap::new(),
            asked: BTreeMap::new(),
            next: 0,
            is_queued: true,
        };
        self.fetches.insert(id, fetch);
        self.queues[usize::from(is_claim)].push_back(id);
    }

    /// Stops fetching what is not wanted any more.
    pub(crate) fn cancel(&mut self, is_unwanted: impl Fn(&Purpose) -> bool) {
        let ids: Vec<FetchId> =
            self.fetches.iter().filter(|(_, fetch)| is_unwanted(&fetch.purpose)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| drop(self.remove(id)));
    }

    fn remove(&mut self, id: FetchId) -> Option<Fetch> {
        let fetch = self.fetches.remove(&id)?;
        self.by_name.remove(&fetch.base);
        for (number, (_, deadline)) in &fetch.asked {
            if let Some(deadline) = deadline {
                self.timeouts.remove(&(*deadline, id, *number));
            }
        }
        self.in_flight[usize::from(fetch.is_claim)] -= fetch.asked.len();
        self.bytes -= fetch.bytes;
        Some(fetch)
    }

    /// Takes Data. Returns the segment if an object waits for it.
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> Option<Segment> {
        let number = names::last_number(data.name, SEGMENT)?;
        let found = |dropped: usize| self.by_name.get(&names::without_last(data.name, dropped).to_name()).copied();
        // `<object>/seg=<number>`, or `<object>/32=metadata/v=<version>/seg=0`.
        let id = found(1).or_else(|| found(2))?;
        let fetch = self.fetches.get_mut(&id)?;
        let number = if fetch.purpose.is_metadata() { 0 } else { number };
        let (_, deadline) = fetch.asked.get_mut(&number)?;
        // While a signature is checked, another copy changes nothing.
        let at = deadline.take()?;
        self.timeouts.remove(&(at, id, number));
        let last = data.final_block.filter(|last| last.typ == SEGMENT).and_then(|last| last.number());
        Some(Segment { fetch: id, number, last, content: data.content.to_vec(), face: fetch.face })
    }

    /// What an object is for. `None`: it is not being fetched any more.
    pub(crate) fn purpose(&self, id: FetchId) -> Option<Purpose> {
        self.fetches.get(&id).map(|fetch| fetch.purpose)
    }

    /// The signature of a segment was checked. Returns the end of its object, if this was it.
    pub(crate) fn checked(&mut self, segment: Segment, is_trusted: bool, now_ms: u64) -> Option<Ended> {
        let Segment { fetch: id, number, last, content, .. } = segment;
        let fetch = self.fetches.get_mut(&id)?;
        if !is_trusted {
            // Another copy may be good. The one that was bad may be in a cache for a while.
            if let Some((_, deadline)) = fetch.asked.get_mut(&number) {
                let at = now_ms.saturating_add(self.bounds.timeout_ms);
                *deadline = Some(at);
                self.timeouts.insert((at, id, number));
            }
            return None;
        }
        fetch.asked.remove(&number)?;
        self.in_flight[usize::from(fetch.is_claim)] -= 1;
        fetch.last = fetch.last.or(last);
        let segments_max = (fetch.bytes_max / SEGMENT_BYTES_MIN + 1) as u64;
        let is_bad = fetch.last.is_none_or(|last| last >= segments_max || number > last);
        fetch.bytes += content.len();
        self.bytes += content.len();
        if is_bad || fetch.bytes > fetch.bytes_max || self.bytes > self.bounds.bytes {
            return self.remove(id).map(|fetch| (fetch.purpose, None));
        }
        fetch.got.insert(number, content);
        if fetch.last.is_some_and(|last| fetch.got.len() as u64 == last + 1) {
            let fetch = self.remove(id)?;
            return Some((fetch.purpose, Some(fetch.got.into_values().collect::<Vec<_>>().concat())));
        }
        self.enqueue(id);
        None
    }

    /// There is no way for an Interest. It counts as a timeout, a little later.
    pub(crate) fn on_nack(&mut self, name: NameRef<'_>, now_ms: u64) {
        let (base, number) = match names::last_number(name, SEGMENT) {
            Some(number) => (names::without_last(name, 1).to_name(), number),
            None => (name.to_name(), 0),
        };
        let Some(id) = self.by_name.get(&base).copied() else { return };
        let Some((_, Some(deadline))) = self.fetches.get_mut(&id).and_then(|fetch| fetch.asked.get_mut(&number)) else {
            return;
        };
        let soon = now_ms.saturating_add(self.bounds.timeout_ms / 4).min(*deadline);
        self.timeouts.remove(&(*deadline, id, number));
        self.timeouts.insert((soon, id, number));
        *deadline = soon;
    }

    fn enqueue(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id)
            && !fetch.is_queued
            && fetch.has_more()
        {
            fetch.is_queued = true;
            self.queues[usize::from(fetch.is_claim)].push_back(id);
        }
    }

    /// Gives up what had no answer too often.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some((_, id, number)) = self.timeouts.first().copied().filter(|(at, ..)| *at <= now_ms) {
            self.timeouts.pop_first();
            let Some(fetch) = self.fetches.get_mut(&id) else { continue };
            let Some((tries, deadline)) = fetch.asked.get_mut(&number) else { continue };
            *deadline = None;
            if *tries >= if fetch.is_claim { TRIES_OF_CLAIMS } else { TRIES } {
                ended.extend(self.remove(id).map(|fetch| (fetch.purpose, None)));
                continue;
            }
            self.again.push_back((id, number));
            self.retries += 1;
        }
        ended
    }

    /// The Interests to send now. `nonce` gives a random number for each.
    pub(crate) fn send(&mut self, now_ms: u64, mut nonce: impl FnMut() -> u32) -> Vec<(Vec<u8>, Option<FaceId>)> {
        let mut interests = Vec::new();
        while let Some((id, number)) = self.again.pop_front() {
            interests.extend(self.ask(id, number, now_ms, nonce()));
        }
        for kind in [0, 1] {
            while self.has_room(kind) {
                let Some(id) = self.queues[kind].pop_front() else { break };
                let Some(fetch) = self.fetches.get_mut(&id) else { continue };
                fetch.is_queued = false;
                let Some(number) = fetch.next_segment() else { continue };
                self.in_flight[kind] += 1;
                fetch.asked.insert(number, (0, None));
                interests.extend(self.ask(id, number, now_ms, nonce()));
                self.enqueue(id);
            }
        }
        interests
    }

    /// Asks for a segment that has a place within the bound.
    fn ask(&mut self, id: FetchId, number: u64, now_ms: u64, nonce: u32) -> Option<(Vec<u8>, Option<FaceId>)> {
        let fetch = self.fetches.get_mut(&id)?;
        let (tries, deadline) = fetch.asked.get_mut(&number)?;
        // Each try waits longer, so that a slow way is not flooded.
        let timeout_ms = self.bounds.timeout_ms << (*tries).min(3);
        let at = now_ms.saturating_add(timeout_ms);
        *tries += 1;
        *deadline = Some(at);
        self.timeouts.insert((at, id, number));
        Some((fetch.interest(number, nonce, timeout_ms.min(LIFETIME_MAX_MS)), fetch.face))
    }

    fn has_room(&self, kind: usize) -> bool {
        self.in_flight[kind] < self.bounds.in_flight.div_ceil(2)
    }

    /// When something is due. `u64::MAX`: never.
    pub(crate) fn due_ms(&self) -> u64 {
        self.timeouts.first().map_or(u64::MAX, |(at, ..)| *at)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.again.is_empty() && [0, 1].into_iter().all(|kind| self.queues[kind].is_empty() || !self.has_room(kind))
    }
}

impl Fetch {
    fn has_more(&self) -> bool {
        self.asked.len() < WINDOW && self.peek().is_some()
    }

    fn peek(&self) -> Option<u64> {
        match self.last {
            // The first segment says how many there are.
            None => (self.next == 0).then_some(0),
            Some(last) => (self.next <= last).then_some(self.next),
        }
    }

    fn next_segment(&mut self) -> Option<u64> {
        if self.asked.len() >= WINDOW {
            return None;
        }
        let number = self.peek()?;
        self.next = number + 1;
        Some(number)
    }

    fn interest(&self, number: u64, nonce: u32, lifetime_ms: u64) -> Vec<u8> {
        if self.purpose.is_metadata() {
            let interest = InterestBuilder::new(self.base.clone(), nonce).can_be_prefix(true).must_be_fresh(true);
            return interest.lifetime_ms(lifetime_ms).encode();
        }
        InterestBuilder::new(names::segment(&self.base, number), nonce).lifetime_ms(lifetime_ms).encode()
    }
}

#[cfg(test)]
mod tests;
