//! Chooses the on-demand face that makes room for a newcomer when all places are taken.
//!
//! Senders forge addresses, so a newcomer must not cost a peer a face that it is about to use:
//!
//! 1. A face with routes has no place here, and is never evicted.
//! 2. A group holds the faces of all addresses that one sender may forge. The group with the most faces makes room for
//!    a newcomer whose group has fewer. If it has no more than its share of all places, it gives up only faces that are
//!    not kept; if it has more, any face. A newcomer of a group that has its share replaces only a face of its own
//!    group that has been idle for [`EVICT_IDLE`].
//! 3. Otherwise some faces are chosen at random, and the one with least to lose makes room. A face that waits for
//!    nothing goes before one in a conversation, and that before one that waits for Data. A UDP sender loses nothing
//!    with a face that waits for nothing: its next packet creates another.
//! 4. Three quarters of the places are for *settled* faces. A settled face is kept as long as it waits for Data or
//!    takes part in a conversation. The last quarter is for *guests*, of which none is kept. So faces from before a
//!    flood stay. During a flood from all addresses at once, each newcomer still gets a place for a while.
//! 5. At most [`EVICTIONS_PER_SECOND`] faces are evicted per second, because each eviction costs the router work.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use byname_forward::face_table::FaceMap;
use byname_forward::{FaceId, Ticks};
use rand::RngExt;
use rand::rngs::SmallRng;
use smallvec::SmallVec;

/// A face that heard nothing for this long takes part in no conversation.
pub const EVICT_IDLE: Duration = Duration::from_secs(10);
/// Maximum number of faces evicted per second. Each takes about 10 µs of the packet thread, and of the control thread.
const EVICTIONS_PER_SECOND: u32 = 20_000;
/// Maximum number of evictions without a pause.
const EVICTIONS_BURST: u32 = 2_000;
/// Number of faces chosen at random from one list.
const SAMPLES: usize = 8;
/// A group with more than this fraction of all places, 1/SHARES, gives up any of its faces.
const SHARES: usize = 8;

/// The loss of a peer whose face is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stake {
    /// Nothing: it waits for nothing.
    Nothing,
    /// Its part in a conversation: it was heard recently, after answers.
    Conversation,
    /// Data that it waits for.
    Pending,
}

/// State of a face by which the choice is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub stake: Stake,
    /// Time at which the peer was last heard.
    pub heard: Ticks,
}

/// Position of a face in the lists.
struct Place<G> {
    group: G,
    is_settled: bool,
    /// Index among the settled faces, or among the guests.
    in_list: usize,
    /// Index in its group.
    in_group: usize,
}

/// The places of one port. `G` identifies a group.
pub(super) struct Places<G> {
    /// Number of places, for faces with and without routes.
    places_max: usize,
    /// Number of faces with routes, which are in no list here.
    routed: usize,
    places: FaceMap<Place<G>>,
    settled: Vec<FaceId>,
    guests: Vec<FaceId>,
    /// Senders choose their groups, so this map's hash is keyed.
    groups: HashMap<G, Vec<FaceId>>,
    by_size: BTreeSet<(usize, G)>,
    rng: SmallRng,
    /// Number of evictions that are allowed now, and the time of that computation.
    allowance: (u32, Ticks),
}

impl<G: Copy + Eq + Hash + Ord> Places<G> {
    pub fn new(places_max: usize) -> Self {
        Places {
            places_max,
            routed: 0,
            places: FaceMap::default(),
            settled: Vec::new(),
            guests: Vec::new(),
            groups: HashMap::new(),
            by_size: BTreeSet::new(),
            rng: rand::make_rng(),
            allowance: (EVICTIONS_BURST, Ticks(0)),
        }
    }

    /// Whether a face must be removed before another is added.
    pub fn is_full(&self) -> bool {
        self.places.len() + self.routed >= self.places_max
    }

    /// Whether all lists are empty.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let lists = self.places.len() + self.settled.len() + self.guests.len();
        lists + self.groups.len() + self.by_size.len() + self.routed == 0
    }

    /// Gives a place to a face without routes.
    pub fn add(&mut self, id: FaceId, group: G) {
        let places = self.places_max.saturating_sub(self.routed);
        let is_settled = self.settled.len() < places - places.div_ceil(4);
        let members = self.groups.entry(group).or_default();
        let list = if is_settled { &mut self.settled } else { &mut self.guests };
        self.places.insert(id, Place { group, is_settled, in_list: list.len(), in_group: members.len() });
        list.push(id);
        self.by_size.remove(&(members.len(), group));
        members.push(id);
        self.by_size.insert((members.len(), group));
    }

    /// Takes a face's place away. Returns false if it has none.
    pub fn remove(&mut self, id: FaceId) -> bool {
        let Some(place) = self.places.remove(&id) else { return false };
        let list = if place.is_settled { &mut self.settled } else { &mut self.guests };
        list.swap_remove(place.in_list);
        if let Some(moved) = list.get(place.in_list).and_then(|moved| self.places.get_mut(moved)) {
            moved.in_list = place.in_list;
        }
        let members = self.groups.get_mut(&place.group).expect("each face is in its group");
        self.by_size.remove(&(members.len(), place.group));
        members.swap_remove(place.in_group);
        if let Some(moved) = members.get(place.in_group).and_then(|moved| self.places.get_mut(moved)) {
            moved.in_group = place.in_group;
        }
        match members.len() {
            0 => drop(self.groups.remove(&place.group)),
            rest => drop(self.by_size.insert((rest, place.group))),
        }
        true
    }

    /// Counts one more face with routes, or one less.
    pub fn count_routed(&mut self, has_routes: bool) {
        self.routed = if has_routes { self.routed + 1 } else { self.routed - 1 };
    }

    /// Chooses the face to evict for a newcomer of this group. `None`: the newcomer is refused.
    pub fn choose(&mut self, now: Ticks, newcomer: G, standing: impl Fn(FaceId) -> Standing) -> Option<FaceId> {
        if !self.may_evict(now) {
            return None;
        }
        let victim = self.find_victim(now, newcomer, standing)?;
        self.allowance.0 -= 1;
        Some(victim)
    }

    fn find_victim(&mut self, now: Ticks, newcomer: G, standing: impl Fn(FaceId) -> Standing) -> Option<FaceId> {
        let share = (self.places_max / SHARES).max(1);
        let own = self.groups.get(&newcomer).map_or(0, Vec::len);
        let &(largest, group) = self.by_size.last()?;
        if largest > own + 1 {
            let sample = sample(&mut self.rng, &self.groups[&group]);
            let victim =
                self.least_at_stake(&sample, &standing, |place, stake| largest <= share && is_kept(place, stake));
            if victim.is_some() {
                return victim;
            }
        }
        if own >= share {
            let sample = sample(&mut self.rng, &self.groups[&newcomer]);
            let victim = self.least_at_stake(&sample, &standing, |_, stake| stake != Stake::Nothing)?;
            return (now.since(standing(victim).heard) >= EVICT_IDLE).then_some(victim);
        }
        let mut both = sample(&mut self.rng, &self.settled);
        both.extend(sample(&mut self.rng, &self.guests));
        self.least_at_stake(&both, &standing, is_kept)
    }

    /// Chooses among the faces that are not kept: least at stake first, then the largest group. Faces that wait for
    /// nothing are also ordered by when they were last heard, oldest first.
    fn least_at_stake(
        &self,
        sample: &[FaceId],
        standing: impl Fn(FaceId) -> Standing,
        is_kept: impl Fn(&Place<G>, Stake) -> bool,
    ) -> Option<FaceId> {
        let candidates = sample.iter().filter_map(|id| {
            let (place, Standing { stake, heard }) = (self.places.get(id)?, standing(*id));
            // Chance decides among faces with something at stake. Otherwise peers with a long round trip would always
            // lose.
            let heard = if stake == Stake::Nothing { heard } else { Ticks(0) };
            let size = self.groups.get(&place.group).map_or(0, Vec::len);
            (!is_kept(place, stake)).then_some(((stake, Reverse(size), heard), *id))
        });
        candidates.min_by_key(|(key, _)| *key).map(|(_, id)| id)
    }

    /// Whether the rate allows one more eviction.
    fn may_evict(&mut self, now: Ticks) -> bool {
        let (left, since) = self.allowance;
        let interval = Duration::from_secs(1) / EVICTIONS_PER_SECOND;
        let more = (now.since(since).as_nanos() / interval.as_nanos()).min(EVICTIONS_BURST.into()) as u32;
        self.allowance = match left + more {
            // The rest of an interval counts for the next one, unless the allowance is full.
            all if all < EVICTIONS_BURST => (all, since + interval * more),
            _ => (EVICTIONS_BURST, now),
        };
        self.allowance.0 > 0
    }
}

/// Whether a face stays while no group has more than its share.
fn is_kept<G>(place: &Place<G>, stake: Stake) -> bool {
    place.is_settled && stake != Stake::Nothing
}

/// Some of these faces; all of them if they are few.
fn sample(rng: &mut SmallRng, faces: &[FaceId]) -> SmallVec<[FaceId; 2 * SAMPLES]> {
    if faces.len() <= SAMPLES {
        return SmallVec::from_slice(faces);
    }
    (0..SAMPLES).map(|_| faces[rng.random_range(0..faces.len())]).collect()
}

#[cfg(test)]
mod tests;
