//! The core against an oracle: clients, elections, a router that refuses, forgets and goes away, in virtual time from a seed.
//!
//! The oracle has the tables alone, and says at once what each operation comes to. Always: the core accepts what the oracle
//! accepts. When an operation is programmed in FIB and its entry was not changed since, the router has exactly what the oracle
//! wants for it. Each operation gets the results that it must have, once. At the end, without faults, the router has what the
//! oracle wants, and nothing else.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use std::collections::BTreeMap;

/// What a router has, with the changes that it has not carried out yet.
#[derive(Default)]
struct FakeRouter {
    has: BTreeMap<Key, Vec<Atom>>,
    asked: Vec<Change>,
}

impl FakeRouter {
    fn carry_out(&mut self, change: &Change) {
        let atoms = self.has.entry(change.key.clone()).or_default();
        atoms.retain(|atom| match (atom, &change.atom) {
            (Atom::Route { uri, .. }, Atom::Route { uri: other, .. }) | (Atom::Tags(uri), Atom::Tags(other)) => {
                uri != other
            }
            (Atom::Label(_), Atom::Label(_)) => false,
            _ => true,
        });
        if change.adds {
            atoms.push(change.atom.clone());
        }
        if atoms.is_empty() {
            self.has.remove(&change.key);
        }
    }

    /// What can be read: not the tags.
    fn listed(&self) -> Vec<(Key, Vec<Atom>)> {
        let is_read = |(key, _): &(&Key, &Vec<Atom>)| !matches!(key, Key::Tags(_));
        self.has.iter().filter(is_read).map(|(key, atoms)| (key.clone(), atoms.clone())).collect()
    }
}

/// The tables.
#[derive(Default, Clone)]
struct Oracle {
    hops: BTreeMap<u64, String>,
    groups: BTreeMap<u64, Vec<(u64, u64)>>,
    entries: BTreeMap<Key, u64>,
}

impl Oracle {
    /// Whether an operation succeeds.
    fn apply(&mut self, verb: Verb, entry: &Entry) -> bool {
        match entry {
            Entry::NextHop { index, uri } => match verb {
                Verb::Delete => {
                    let is_used = self.groups.values().flatten().any(|(member, _)| member == index);
                    if !is_used {
                        self.hops.remove(index);
                    }
                    !is_used
                }
                Verb::Replace if !self.hops.contains_key(index) => false,
                _ => {
                    self.hops.insert(*index, uri.clone());
                    true
                }
            },
            Entry::Group { id, members } => match verb {
                Verb::Delete => {
                    let is_used = self.entries.values().any(|group| group == id);
                    if !is_used {
                        self.groups.remove(id);
                    }
                    !is_used
                }
                Verb::Replace if !self.groups.contains_key(id) => false,
                _ if members.is_empty() || members.iter().any(|(index, _)| !self.hops.contains_key(index)) => false,
                _ => {
                    self.groups.insert(*id, members.clone());
                    true
                }
            },
            Entry::Route { key, group, .. } => match verb {
                Verb::Delete => {
                    self.entries.remove(key);
                    true
                }
                Verb::Replace if !self.entries.contains_key(key) => false,
                _ if !self.groups.contains_key(group) => false,
                _ => {
                    self.entries.insert(key.clone(), *group);
                    true
                }
            },
        }
    }

    fn of_group(&self, key: &Key, group: u64) -> Vec<Atom> {
        let flags = u64::from(matches!(key, Key::Prefix(_)));
        let members = self.groups.get(&group).into_iter().flatten();
        let mut atoms: Vec<Atom> = members
            .map(|(index, cost)| {
                let uri: Arc<str> = self.hops[index].as_str().into();
                if let Key::Tags(_) = key { Atom::Tags(uri) } else { Atom::Route { uri, cost: *cost, flags } }
            })
            .collect();
        sort(&mut atoms);
        atoms
    }

    /// What the router should have for a key.
    fn wants(&self, key: &Key) -> Vec<Atom> {
        match (key, self.entries.get(key)) {
            (Key::Label(group), _) => {
                let is_used = self.entries.iter().any(|(key, of)| of == group && matches!(key, Key::Flat(_)));
                if is_used { self.of_group(key, *group) } else { Vec::new() }
            }
            (_, None) => Vec::new(),
            (Key::Flat(_), Some(group)) => vec![Atom::Label(*group)],
            (_, Some(group)) => self.of_group(key, *group),
        }
    }
}

fn sort(atoms: &mut [Atom]) {
    atoms.sort_by_key(|atom| format!("{atom:?}"));
}

/// An operation that waits for its last result.
struct Open {
    key: Option<Key>,
    /// Number of changes of the oracle when it was asked.
    version: u64,
    rib: bool,
}

struct World {
    rng: StdRng,
    now: u64,
    core: Core,
    router: FakeRouter,
    is_connected: bool,
    oracle: Oracle,
    version: u64,
    /// When each key, or something that it leads to, was changed last.
    changed: BTreeMap<Key, u64>,
    sessions: Vec<(SessionId, u128)>,
    open: BTreeMap<(SessionId, u64), Open>,
    flushes: Vec<u64>,
    next_id: u64,
    highest: u128,
    primary: Option<SessionId>,
    counts: [u64; 5],
}

const FIB: Params = Params { persistence: Persistence::Preserve, ack: Ack::RibAndFib };

impl World {
    fn new(seed: u64) -> Self {
        World {
            rng: StdRng::seed_from_u64(seed),
            now: 0,
            core: Core::new(Limits { hold_ms: 0, in_flight_max: 8, ..Limits::default() }, 0),
            router: FakeRouter::default(),
            is_connected: false,
            oracle: Oracle::default(),
            version: 0,
            changed: BTreeMap::new(),
            sessions: Vec::new(),
            open: BTreeMap::new(),
            flushes: Vec::new(),
            next_id: 1,
            highest: 0,
            primary: None,
            counts: [0; 5],
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn random_key(&mut self) -> Key {
        let number = self.rng.random_range(0..6);
        match self.rng.random_range(0..3) {
            0 => prefix(&format!("/a/{number}")),
            1 => flat(&format!("/o/{number}")),
            _ => Key::Tags([format!("t{number}")].into()),
        }
    }

    fn random_operation(&mut self) -> (Verb, Entry) {
        let verb = match self.rng.random_range(0..10) {
            0..6 => Verb::Add,
            6 => Verb::Replace,
            _ => Verb::Delete,
        };
        let entry = match self.rng.random_range(0..10) {
            0..2 => {
                let index = self.rng.random_range(1..5);
                // Different indices have different addresses.
                let uri = format!("udp4://192.0.2.{index}:{}", self.rng.random_range(1..3));
                Entry::NextHop { index, uri }
            }
            2..4 => {
                let (one, other) = (self.rng.random_range(1..5), self.rng.random_range(1..5));
                let mut members = vec![(one, self.rng.random_range(0..3))];
                if one != other {
                    members.push((other, 1));
                }
                Entry::Group { id: self.rng.random_range(1..4), members }
            }
            _ => to(self.random_key(), self.rng.random_range(1..4)),
        };
        (verb, entry)
    }

    /// Notes which keys are not any more as they were.
    fn note_changes(&mut self, before: &Oracle) {
        self.version += 1;
        let labels = (1..4).map(Key::Label);
        let keys: BTreeSet<Key> =
            before.entries.keys().chain(self.oracle.entries.keys()).cloned().chain(labels).collect();
        for key in keys {
            if before.wants(&key) != self.oracle.wants(&key) {
                self.changed.insert(key, self.version);
            }
        }
    }

    fn operate(&mut self) {
        if self.sessions.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.sessions.len());
        let (session, election) = self.sessions[at];
        let (verb, entry) = self.random_operation();
        let id = self.next_id;
        self.next_id += 1;
        let may = self.primary == Some(session);
        let before = self.oracle.clone();
        let works = may && self.oracle.apply(verb, &entry);
        self.note_changes(&before);
        let key = match &entry {
            Entry::Route { key, .. } => Some(key.clone()),
            _ => None,
        };
        self.core.operation(session, Operation { id, verb, entry: entry.clone(), election_id: election });
        if works {
            self.open.insert((session, id), Open { key, version: self.version, rib: false });
        }
        let replies = self.core.take_replies();
        let failed = replies.iter().any(|reply| matches!(reply, Reply::Result(_, of, Status::Failed(_)) if *of == id));
        assert_eq!(failed, !works, "{verb:?} {entry:?}: {replies:?}");
        self.counts[usize::from(works)] += 1;
        self.hear(replies);
    }

    fn hear(&mut self, replies: Vec<Reply>) {
        for reply in replies {
            match reply {
                Reply::Result(_, _, Status::Failed(_)) | Reply::Params(_) => {}
                Reply::Election(_, highest) => assert_eq!(highest, self.highest),
                Reply::Close(_, reason) => panic!("{reason}"),
                Reply::Flushed(number) => {
                    assert!(self.flushes.contains(&number), "a flush is done once");
                    self.flushes.retain(|other| *other != number);
                    self.counts[4] += 1;
                }
                Reply::Result(session, id, Status::RibProgrammed) => {
                    let open = self.open.get_mut(&(session, id)).expect("an operation that works");
                    assert!(!std::mem::replace(&mut open.rib, true), "once");
                }
                Reply::Result(session, id, status) => {
                    let open = self.open.remove(&(session, id)).expect("one last result");
                    assert!(open.rib, "the RIB comes first");
                    if status != Status::FibProgrammed {
                        self.counts[3] += 1;
                        continue;
                    }
                    self.counts[2] += 1;
                    let Some(key) = open.key else { continue };
                    let since = self.changed.get(&key).copied().unwrap_or(0);
                    if since <= open.version {
                        self.is_right(&key);
                        if let Some(group) =
                            self.oracle.entries.get(&key).copied().filter(|_| matches!(key, Key::Flat(_)))
                        {
                            let label = Key::Label(group);
                            if self.changed.get(&label).copied().unwrap_or(0) <= open.version {
                                self.is_right(&label);
                            }
                        }
                    }
                }
            }
        }
    }

    fn is_right(&self, key: &Key) {
        let mut has = self.router.has.get(key).cloned().unwrap_or_default();
        sort(&mut has);
        assert_eq!(has, self.oracle.wants(key), "{key:?}");
    }

    fn sessions_change(&mut self) {
        match self.rng.random_range(0..4) {
            0 if self.sessions.len() < 3 => {
                let session = self.core.open().expect("room");
                self.core.params(session, FIB);
                self.sessions.push((session, 0));
            }
            1 if !self.sessions.is_empty() => {
                let at = self.rng.random_range(0..self.sessions.len());
                let (session, _) = self.sessions.remove(at);
                self.core.closed(session);
                self.open.retain(|(of, _), _| *of != session);
                self.primary = self.primary.filter(|primary| *primary != session);
            }
            _ if !self.sessions.is_empty() => {
                let at = self.rng.random_range(0..self.sessions.len());
                let (session, before) = self.sessions[at];
                let election = before.max(self.highest.saturating_sub(1)).max(1) + self.rng.random_range(0..2_u128);
                self.sessions[at].1 = election;
                if election >= self.highest {
                    (self.highest, self.primary) = (election, Some(session));
                }
                self.core.election(session, election);
            }
            _ => {}
        }
        let replies = self.core.take_replies();
        self.hear(replies);
    }

    fn flush(&mut self) {
        let before = self.oracle.clone();
        self.oracle = Oracle::default();
        self.note_changes(&before);
        let number = self.core.flush(None).expect("it overrides");
        self.flushes.push(number);
        let replies = self.core.take_replies();
        self.hear(replies);
    }

    /// The router takes changes and answers some of those it has, in any order.
    fn router_works(&mut self, faults: bool) {
        if !self.is_connected {
            return;
        }
        while let Some(change) = self.core.next_change(self.now) {
            // A flat name never gets a label that leads nowhere.
            if let (Key::Flat(_), Atom::Label(group), true) = (&change.key, &change.atom, change.adds) {
                assert!(self.router.has.contains_key(&Key::Label(*group)), "label {group} first");
            }
            self.router.asked.push(change);
        }
        let count = self.rng.random_range(0..=self.router.asked.len());
        for _ in 0..count {
            let at = self.rng.random_range(0..self.router.asked.len());
            let change = self.router.asked.swap_remove(at);
            let refuses = faults && self.chance(10);
            if !refuses {
                self.router.carry_out(&change);
            }
            let result = if refuses { Err("refused".into()) } else { Ok(()) };
            self.core.done(self.now, &change, result);
            let replies = self.core.take_replies();
            self.hear(replies);
        }
        let replies = self.core.take_replies();
        self.hear(replies);
    }

    fn disturb(&mut self) {
        if !self.is_connected {
            self.connect();
            return;
        }
        // Some of what was asked still happens.
        for change in std::mem::take(&mut self.router.asked) {
            if self.chance(50) {
                self.router.carry_out(&change);
            }
        }
        if self.chance(30) {
            // A restart that loses what is not kept.
            let lost: Vec<Key> = self.router.has.keys().filter(|_| self.rng.random_range(0..3) == 0).cloned().collect();
            lost.iter().for_each(|key| drop(self.router.has.remove(key)));
        }
        self.is_connected = false;
        self.core.router_lost();
    }

    fn connect(&mut self) {
        self.is_connected = true;
        self.core.router_is(self.now, self.router.listed());
    }

    fn run(mut self, steps: u32) -> [u64; 5] {
        for _ in 0..steps {
            self.now += self.rng.random_range(0..50);
            match self.rng.random_range(0..100) {
                0..50 => self.operate(),
                50..88 => self.router_works(true),
                88..94 => self.sessions_change(),
                94..99 => self.disturb(),
                _ => self.flush(),
            }
        }
        // Without faults, everything comes to rest.
        if !self.is_connected {
            self.connect();
        }
        for _ in 0..1_000 {
            self.now += 1_000;
            self.router_works(false);
        }
        assert!(self.core.is_idle() && self.core.next_wake().is_none());
        assert_eq!((self.open.len(), self.flushes.len()), (0, 0), "everything is answered");
        let keys: Vec<Key> = self.router.has.keys().chain(self.oracle.entries.keys()).cloned().collect();
        keys.iter().for_each(|key| self.is_right(key));
        assert_eq!(self.core.len(), self.oracle.entries.len());
        assert_eq!(self.core.subjects.values().filter(|subject| !subject.is_settled()).count(), 0);
        self.counts
    }
}

#[test]
fn the_router_has_what_the_tables_say() {
    let seeds = std::env::var("BYNAME_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seeds.map_or(1..21, |seed: u64| seed..seed + 1);
    let mut counts = [0; 5];
    for seed in seeds {
        println!("seed {seed}");
        let of_seed = World::new(seed).run(4_000);
        counts.iter_mut().zip(of_seed).for_each(|(sum, count)| *sum += count);
    }
    for (what, count) in ["refused", "accepted", "programmed", "failed in FIB", "flushed"].iter().zip(counts) {
        assert!(count > 10, "{count} were {what}: the test tries too little");
    }
}
