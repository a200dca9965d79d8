//! Choices among faces of invented groups.

use std::collections::HashMap;

use super::*;

/// Places, and what each face would lose.
struct Rig {
    places: Places<u32>,
    standing: HashMap<FaceId, Standing>,
    next: u64,
    now: Ticks,
}

impl Rig {
    fn new(places_max: usize) -> Rig {
        Rig { places: Places::new(places_max), standing: HashMap::new(), next: 256, now: Ticks(0) }
    }

    /// Adds a face of this group, if it finds a place.
    fn come(&mut self, group: u32, stake: Stake) -> Option<FaceId> {
        // So slow that the rate of evictions does not matter.
        self.now = self.now + Duration::from_millis(1);
        if self.places.is_full() {
            let victim = self.places.choose(self.now, group, |id| self.standing[&id])?;
            assert!(self.places.remove(victim));
            self.standing.remove(&victim);
        }
        let id = FaceId(self.next);
        self.next += 1;
        self.places.add(id, group);
        self.standing.insert(id, Standing { stake, heard: self.now });
        Some(id)
    }

    fn has(&self, id: Option<FaceId>) -> bool {
        id.is_some_and(|id| self.standing.contains_key(&id))
    }
}

#[test]
fn a_flood_of_one_group_takes_nothing_from_others_and_refuses_no_newcomer() {
    for stake in [Stake::Nothing, Stake::Pending] {
        let mut rig = Rig::new(64);
        let silent = rig.come(1, Stake::Pending);
        for _ in 0..5_000 {
            rig.come(7, stake);
        }
        let newcomers: Vec<_> = (100..120).map(|group| rig.come(group, Stake::Pending)).collect();
        for _ in 0..5_000 {
            rig.come(7, stake);
        }
        assert!(rig.has(silent));
        assert!(newcomers.iter().all(|id| rig.has(*id)), "{stake:?}");
    }
}

#[test]
fn a_flood_of_all_groups_leaves_those_who_were_there_and_lets_newcomers_in() {
    let mut rig = Rig::new(64);
    let before: Vec<_> = (1..20).map(|group| rig.come(group, Stake::Pending)).collect();
    let talking = rig.come(20, Stake::Conversation);
    for group in 1_000..6_000 {
        assert!(rig.come(group, Stake::Pending).is_some(), "each gets a place, for a while");
    }
    assert!(before.iter().all(|id| rig.has(*id)) && rig.has(talking));
}

#[test]
fn who_waits_for_nothing_makes_room_before_who_waits() {
    let mut rig = Rig::new(64);
    let waiting: Vec<_> = (1..40).map(|group| rig.come(group, Stake::Pending)).collect();
    for group in 1_000..6_000 {
        assert!(rig.come(group, Stake::Nothing).is_some());
    }
    assert!(waiting.iter().all(|id| rig.has(*id)));
}

#[test]
fn a_large_group_that_waits_keeps_its_share_and_no_more() {
    let mut rig = Rig::new(64);
    let all: Vec<_> = (0..40).map(|_| rig.come(7, Stake::Pending)).collect();
    for group in 1_000..6_000 {
        rig.come(group, Stake::Pending);
    }
    assert_eq!(all.iter().filter(|id| rig.has(**id)).count(), 64 / SHARES);
}

#[test]
fn in_a_group_that_has_its_share_only_who_is_idle_makes_room() {
    let mut rig = Rig::new(4);
    let first: Vec<_> = (0..4).map(|_| rig.come(7, Stake::Nothing)).collect();
    assert_eq!(rig.come(7, Stake::Nothing), None);
    rig.now = rig.now + EVICT_IDLE;
    let standing = Standing { stake: Stake::Pending, heard: Ticks(0) };
    rig.standing.extend(first[1..].iter().flatten().map(|id| (*id, standing)));
    assert!(rig.come(7, Stake::Pending).is_some());
    assert!(!rig.has(first[0]));
    assert_eq!(rig.come(7, Stake::Nothing), None, "all wait for Data");
}

#[test]
fn faces_with_routes_are_no_one_s_victims() {
    let mut rig = Rig::new(4);
    for group in 0..4 {
        let id = rig.come(group, Stake::Pending).expect("a place");
        assert!(rig.places.remove(id));
        rig.places.count_routed(true);
    }
    assert_eq!(rig.come(9, Stake::Pending), None);
    rig.places.count_routed(false);
    let guest = rig.come(9, Stake::Pending);
    assert!(rig.come(10, Stake::Pending).is_some());
    assert!(!rig.has(guest));
}

#[test]
fn evictions_are_limited_in_number() {
    let mut rig = Rig::new(64);
    for group in 0..64 {
        rig.come(group, Stake::Nothing);
    }
    let now = rig.now + EVICT_IDLE;
    let mut evicted = 0;
    for n in 0..50_000 {
        let at = now + Duration::from_micros(20 * n);
        if let Some(victim) = rig.places.choose(at, 1_000 + n as u32, |id| rig.standing[&id]) {
            evicted += 1;
            let standing = rig.standing[&victim];
            rig.places.remove(victim);
            rig.places.add(FaceId(10_000 + n), 1_000 + n as u32);
            rig.standing.insert(FaceId(10_000 + n), standing);
        }
    }
    let expected = EVICTIONS_BURST + EVICTIONS_PER_SECOND;
    assert!((expected - 20..=expected + 20).contains(&evicted), "{evicted} in a second");
}

#[test]
fn nothing_is_left_of_faces_that_are_gone() {
    let mut rig = Rig::new(64);
    let mut alive = Vec::new();
    for n in 0..10_000u32 {
        alive.extend(rig.come(n * n % 41, [Stake::Nothing, Stake::Pending][n as usize % 2]));
        alive.retain(|id| rig.has(Some(*id)));
        if n % 3 == 0
            && let Some(id) = alive.pop()
        {
            assert!(rig.places.remove(id));
            rig.standing.remove(&id);
        }
        assert_eq!(alive.len(), rig.places.settled.len() + rig.places.guests.len());
        assert_eq!(rig.places.by_size.iter().map(|(size, _)| size).sum::<usize>(), alive.len());
    }
    alive.iter().for_each(|id| assert!(rig.places.remove(*id)));
    assert!(rig.places.is_empty());
}
