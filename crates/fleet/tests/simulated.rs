//! Fleets of agents in virtual time, with faults drawn from a seed, against an oracle that computes tables from whole
//! revisions of the intent.
//!
//! What is checked, after each step:
//!
//! - Each route in a router is one that the oracle has, at this node, for one of the revisions from the one that the agent
//!   last applied to the one that it has read. "No node ever has rules of no revision."
//! - An agent that says that it has applied a revision has exactly the routes that the oracle has for it.
//! - An agent that says that it has added a revision has all routes that the oracle has for it, and uses no others of their
//!   prefixes.
//! - A prefix that has routes in all of these revisions always has a route in the router.
//! - Files that builders have made of tables, of prefixes and of tags, come late, and with them the routes of groups. A router uses those of one
//!   revision.
//! - A table is changed by deltas and loaded again, deltas become manifests, and chunks come late or never. The oracle knows
//!   which rows each state of the table has.
//! - An agent removes routes of the fleet only, and before the grace period is over only those that are not wanted in the last
//!   revision that it knows to be settled.

mod oracle;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use byname_fleet::agent::{Agent, Change, Event, Existing, LEFT_COST, Options, Ticket};
use byname_fleet::intent::{Attributes, Kept, TOLD};
use byname_fleet::key::{Key, Space};
use byname_fleet::label::Label;
use byname_fleet::table::content::Content;
use byname_fleet::table::delta::{Delta, RowChange};
use byname_fleet::table::{Digest, Rows};
use byname_fleet::value::{
    BuiltHead, Down, Group, Head, Link, Nexthop, Route, Settled, TableHead, TableKind, TagRoute, Value,
};
use byname_lookup::file::secret::{SECRET_BYTES, Secret};
use byname_wire::{Descriptor, Name};
use oracle::{Keys, Table};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const NODES: [&str; 3] = ["r1", "r2", "r3"];
const GRACE_MS: u64 = 5_000;

fn space() -> Space {
    Space::new(&"main".parse().unwrap())
}

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

/// etcd: all its revisions, and from which one on they may be watched.
struct Etcd {
    history: Vec<(Keys, Vec<Event>)>,
    /// What the oracle says: the tables of all nodes for each revision.
    tables: Vec<BTreeMap<&'static str, Option<Table>>>,
    compacted: usize,
    /// Rows of the table by its state, and those of manifests by their names.
    states: BTreeMap<Digest, Rows>,
    manifests: BTreeMap<Digest, Rows>,
}

impl Etcd {
    fn table_head(&self) -> Option<TableHead> {
        let (value, _) = self.history.last().unwrap().0.get(&space().key(&Key::Table(label("t"))))?;
        TableHead::decode(value).ok()
    }

    fn delta_keys(&self) -> Vec<Key> {
        let keys = self.history.last().unwrap().0.keys().filter_map(|key| space().decode(key).ok());
        keys.filter(|key| matches!(key, Key::Delta { .. })).collect()
    }

    /// A whole table, whose chunks somebody has.
    fn load_table(&mut self, epoch: u64, state: Digest, rows: Rows, last: u64) -> Vec<(Key, Option<Vec<u8>>)> {
        let manifest = Digest::of(format!("{}", self.manifests.len()).as_bytes());
        self.states.insert(state, rows.clone());
        self.manifests.insert(manifest, rows);
        let kind = TableKind::Routes;
        let head = TableHead { kind, flat: None, epoch, manifest, base: last, base_state: state, last, state };
        let mut changes: Vec<_> = self.delta_keys().into_iter().map(|key| (key, None)).collect();
        changes.push((Key::Table(label("t")), Some(head.encode())));
        changes
    }

    /// One delta more. Sometimes it gets lost.
    fn change_table(&mut self, head: TableHead, change: RowChange, lost: bool) -> Vec<(Key, Option<Vec<u8>>)> {
        let (delta, state) = Delta::encode(head.epoch, head.state, &[change]).remove(0);
        let mut content = Content { state: head.state(), rows: self.states[&head.state].clone() };
        content.apply(head.last + 1, &Delta::decode(&delta).unwrap()).unwrap();
        assert_eq!(content.state.digest, state);
        self.states.insert(state, content.rows);
        let key = Key::Delta { table: label("t"), sequence: head.last + 1 };
        let head = TableHead { last: head.last + 1, state, ..head };
        let mut changes = vec![(Key::Table(label("t")), Some(head.encode()))];
        if !lost {
            changes.push((key, Some(delta)));
        }
        changes
    }

    fn revision(&self) -> i64 {
        self.history.len() as i64 - 1
    }

    fn write(&mut self, changes: Vec<(Key, Option<Vec<u8>>)>) -> i64 {
        let mut keys = self.history.last().unwrap().0.clone();
        let revision = self.revision() + 1;
        let mut events = Vec::new();
        for (key, value) in changes {
            let key = space().key(&key);
            match &value {
                Some(value) => drop(keys.insert(key.clone(), (value.clone(), revision))),
                None => drop(keys.remove(&key)),
            }
            events.push(Event { key, value, revision });
        }
        self.history.push((keys, events));
        self.tables.push(
            NODES
                .iter()
                .map(|node| (*node, oracle::table(&self.history[revision as usize].0, node, &self.states)))
                .collect(),
        );
        revision
    }

    fn all(&self) -> Vec<Event> {
        let keys = self.history.last().unwrap().0.iter();
        keys.map(|(key, (value, revision))| Event { key: key.clone(), value: Some(value.clone()), revision: *revision })
            .collect()
    }

    /// A route that an agent removes without waiting for the grace period is not wanted when all live nodes have added.
    fn check_settled(&self, node: &Node, change: &Change) {
        let (Some((prefix, uri)), Some(next)) = (removed(change), node.agent.watch_from()) else { return };
        let keys = &self.history[next as usize - 1].0;
        let settled = keys.get(&space().key(&Key::Settled)).map(|(value, _)| Settled::decode(value).unwrap().revision);
        let settled = settled.expect("nothing is settled yet");
        let table = self.table(node.name, settled).expect("a revision that agents hold for is not settled");
        let wanted = table.iter().any(|(of, to, _)| *of == prefix && *to == uri);
        assert!(!wanted, "node {}: {prefix} {uri} is removed, and wanted in revision {settled}", node.name);
    }

    fn head(&self) -> Option<i64> {
        self.history.last().unwrap().0.get(&space().key(&Key::Head)).map(|(_, revision)| *revision)
    }

    /// The oracle: the table of a node for a revision, from scratch. `None`: agents must hold what they have.
    fn table(&self, node: &str, revision: i64) -> Option<&Table> {
        self.tables[revision as usize][node].as_ref()
    }
}

/// A router and its agent, and how far its watch is.
struct Node {
    name: &'static str,
    agent: Agent,
    connected: bool,
    routes: BTreeMap<(Name, Arc<str>), Attributes>,
    /// Names in `routes` that stand for tags.
    tags: BTreeMap<Name, Descriptor>,
    /// Names of files of tables that the router uses.
    files: BTreeSet<String>,
    under_way: VecDeque<(Ticket, Change)>,
    /// Next revision that the watch brings. `None`: there is no connection to etcd.
    watch: Option<usize>,
    /// The last revision whose table the router was equal to.
    base: i64,
    /// Whether the router itself has removed routes since.
    lost_face: bool,
    /// The prefix whose routes the agent removes because the grace period is over.
    unsettled: Option<Name>,
    alive: bool,
}

struct Fleet {
    rng: SmallRng,
    seed: u64,
    now: u64,
    etcd: Etcd,
    nodes: Vec<Node>,
    applied: usize,
    held: usize,
    reread: usize,
    settled_removals: usize,
    fetched: usize,
    brought: usize,
    lost_deltas: usize,
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let nodes = NODES.map(|name| Node {
            name,
            agent: agent(name),
            connected: false,
            routes: BTreeMap::new(),
            tags: BTreeMap::new(),
            files: BTreeSet::new(),
            under_way: VecDeque::new(),
            watch: None,
            base: 0,
            lost_face: false,
            unsettled: None,
            alive: true,
        });
        let nothing = NODES.iter().map(|node| (*node, None)).collect();
        let etcd = Etcd {
            history: vec![(Keys::new(), Vec::new())],
            tables: vec![nothing],
            compacted: 0,
            states: BTreeMap::new(),
            manifests: BTreeMap::new(),
        };
        Fleet {
            rng: SmallRng::seed_from_u64(seed),
            seed,
            now: 0,
            etcd,
            nodes: nodes.into(),
            applied: 0,
            held: 0,
            reread: 0,
            settled_removals: 0,
            fetched: 0,
            brought: 0,
            lost_deltas: 0,
        }
    }

    /// Rows of a table, of prefixes that may also have keys of their own.
    fn row(&mut self) -> RowChange {
        let prefix: Name = format!("/{}", 3 + self.pick(6)).parse().unwrap();
        let group = label(["west", "east"][self.pick(2)]);
        let route = Route { group, inherit: true, capture: false }.encode();
        (prefix.value().into(), (self.pick(4) > 0).then(|| route.into()))
    }

    fn write_table(&mut self) {
        let head = self.etcd.table_head();
        let mut changes = match (self.pick(8), head) {
            (0, Some(_)) => {
                let mut changes: Vec<_> = self.etcd.delta_keys().into_iter().map(|key| (key, None)).collect();
                changes.push((Key::Table(label("t")), None));
                changes
            }
            // The same state in another manifest.
            (1 | 2, Some(head)) if self.etcd.delta_keys().len() as u64 == head.last - head.base => {
                let rows = self.etcd.states[&head.state].clone();
                self.etcd.load_table(head.epoch, head.state, rows, head.last)
            }
            (3.., Some(head)) if head.last - head.base < 60 => {
                let lost = self.pick(12) == 0;
                self.lost_deltas += usize::from(lost);
                let row = self.row();
                self.etcd.change_table(head, row, lost)
            }
            (_, head) => {
                let rows = (0..self.pick(6)).map(|_| self.row());
                let rows: Rows = rows.filter_map(|(key, value)| Some((key, value?))).collect();
                let (epoch, last) = head.map_or((1, 0), |head| (head.epoch + 1, head.last));
                let state = Digest::of(&self.rng.random::<[u8; 32]>());
                self.etcd.load_table(epoch, state, rows, last)
            }
        };
        changes.push((Key::Head, Some(Head { format: 1, by: String::new() }.encode())));
        self.etcd.write(changes);
    }

    /// Somebody has the chunks, or nobody answers.
    fn fetch(&mut self, which: usize) {
        let fails = self.pick(3) == 0;
        let (now, manifests) = (self.now, &self.etcd.manifests);
        let node = &mut self.nodes[which];
        if let Some(wanted) = node.agent.wanted_tables().first().filter(|_| node.alive) {
            let rows = if fails { Err("nobody answers".to_owned()) } else { Ok(manifests[&wanted.manifest].clone()) };
            node.agent.table(now, wanted, rows);
            self.fetched += usize::from(!fails);
        }
        let files = if node.alive { node.agent.wanted_files() } else { Vec::new() };
        for file in &files {
            let result = if fails { Err("nobody answers".to_owned()) } else { Ok(Kept::whole(file.name())) };
            node.agent.file(now, file, result);
            self.brought += usize::from(!fails);
        }
    }

    fn pick(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }

    /// The first intent: all links, and a group of them.
    fn begin(&mut self) {
        let mut changes = vec![(Key::Head, Some(Head { format: 1, by: String::new() }.encode()))];
        for node in NODES.map(label) {
            for (number, link) in ["a", "b", "c"].into_iter().enumerate() {
                let key = Key::Link { node: node.clone(), link: label(link) };
                changes.push((key, Some(Link { uri: format!("udp4://192.0.2.{number}:6363") }.encode())));
            }
            let nexthops = vec![Nexthop { link: label("a"), cost: 0 }];
            changes.push((Key::Group { group: label("west"), node }, Some(Group { nexthops }.encode())));
        }
        self.etcd.write(changes);
    }

    /// A change of the intent, of one to three keys.
    fn write(&mut self) {
        let mut changes = BTreeMap::new();
        for _ in 0..=self.pick(3) {
            let node = label(NODES[self.pick(3)]);
            let link = label(["a", "b", "c"][self.pick(3)]);
            let group = label(["west", "east"][self.pick(2)]);
            let prefix: Name = format!("/{}", self.pick(6)).parse().unwrap();
            let tags = Key::Tags(["/a", "/b", "/a/b"][self.pick(3)].parse().unwrap());
            let (key, value) = match self.pick(15) {
                0 => {
                    let uri = format!("udp4://192.0.2.{}:6363", self.pick(5));
                    (Key::Link { node, link }, Some(Link { uri }.encode()))
                }
                1 => (Key::Down { node, link }, Some(Down { reason: String::new() }.encode())),
                2 | 3 => (Key::Down { node, link }, None),
                4 | 5 => {
                    let links = ["a", "b", "c"];
                    let count = 1 + self.pick(3);
                    let cost = self.pick(3) as u64;
                    let nexthops = links[..count].iter().map(|link| Nexthop { link: label(link), cost }).collect();
                    (Key::Group { group, node }, Some(Group { nexthops }.encode()))
                }
                6 => (Key::Group { group, node }, None),
                7 if self.pick(12) == 0 => (Key::Route(prefix), Some(b"{".to_vec())),
                7..=9 => (Key::Route(prefix), Some(Route { group, inherit: true, capture: false }.encode())),
                12 if self.pick(12) == 0 => (tags, Some(b"{".to_vec())),
                12 | 13 => (tags, Some(TagRoute { group }.encode())),
                14 => (tags, None),
                _ => (Key::Route(prefix), None),
            };
            changes.insert(key, value);
        }
        // Somebody sees what is damaged, and soon repairs it.
        let keys = &self.etcd.history.last().unwrap().0;
        let damaged: Vec<Key> =
            keys.iter().filter(|(_, (value, _))| value == b"{").map(|(key, _)| space().decode(key).unwrap()).collect();
        if self.pick(2) == 0 {
            changes.extend(damaged.into_iter().map(|key| (key, None)));
        }
        changes.insert(Key::Head, Some(Head { format: 1, by: String::new() }.encode()));
        self.etcd.write(changes.into_iter().collect());
    }

    /// A builder has made a file of a table, or the table is dropped.
    fn write_file(&mut self) {
        let (table, kind) = [("wishes", TableKind::Tags), ("world", TableKind::Built)][self.pick(2)];
        let head = BuiltHead {
            kind,
            flat: None,
            epoch: 1,
            sequence: 1,
            state: Digest::of(b"state"),
            blocks: Digest::of(&[self.pick(4) as u8]),
            patch: None,
            bytes: 1,
            rows: 1,
            secret: Secret::new([0; SECRET_BYTES]),
        };
        let head = (self.pick(3) > 0).then(|| head.encode());
        let by = Head { format: 1, by: String::new() }.encode();
        self.etcd.write(vec![(Key::Built(label(table)), head), (Key::Head, Some(by))]);
    }

    /// The writer settles the intent if all live nodes have added it.
    fn settle(&mut self) {
        let Some(head) = self.etcd.head() else { return };
        if self.nodes.iter().filter(|node| node.alive).all(|node| node.agent.report().added >= head) {
            self.etcd.write(vec![(Key::Settled, Some(Settled { revision: head }.encode()))]);
        }
    }

    fn step(&mut self) {
        self.now += self.rng.random_range(0..400);
        let which = self.pick(3);
        match self.pick(60) {
            // Seldom, because agents hold until they have it.
            0 if self.pick(20) == 0 => self.write_file(),
            0 => self.write(),
            1 => self.write_table(),
            2..=5 => self.settle(),
            6 => self.nodes[which].watch = None,
            7 if self.pick(4) == 0 => self.etcd.compacted = self.etcd.history.len() - 1,
            // The agent is killed. What was under way is made or not.
            8 if self.pick(4) == 0 => {
                self.disconnect(which);
                let node = &mut self.nodes[which];
                node.agent = agent(node.name);
                node.watch = None;
                node.alive = !node.alive;
            }
            // The connection to the router.
            9 if self.pick(4) == 0 => self.disconnect(which),
            // A face is gone, with its routes.
            10 if self.pick(10) == 0 => {
                let uri = format!("udp4://192.0.2.{}:6363", self.pick(5));
                self.disconnect(which);
                self.nodes[which].routes.retain(|(_, of), _| **of != *uri);
                self.nodes[which].lost_face = true;
            }
            11 => self.ask(which),
            12..=20 => self.watch(which),
            21..=24 => self.fetch(which),
            _ => self.work(which),
        }
        let Fleet { nodes, etcd, seed, .. } = self;
        for node in nodes.iter_mut() {
            check(node, etcd, *seed);
        }
        self.applied += self.nodes.iter().filter(|node| node.base == self.etcd.head().unwrap_or(0)).count();
        self.held += self.nodes.iter().filter(|node| node.agent.report().held.is_some()).count();
    }

    fn disconnect(&mut self, which: usize) {
        while let Some((_, change)) = self.nodes[which].under_way.pop_front() {
            if self.rng.random() {
                make(&mut self.nodes[which], &change);
            }
        }
        let node = &mut self.nodes[which];
        node.agent.router_lost();
        node.connected = false;
    }

    /// The question that shows whether a watch was lost.
    fn ask(&mut self, which: usize) {
        let (head, now) = (self.etcd.head(), self.now);
        let node = &mut self.nodes[which];
        if node.alive && node.watch.is_some() {
            node.agent.head_is(now, now, head);
        }
    }

    fn watch(&mut self, which: usize) {
        let revisions = self.etcd.history.len();
        let take = 1 + self.pick(3);
        let node = &mut self.nodes[which];
        if !node.alive {
            return;
        }
        let Some(from) = node.agent.watch_from() else {
            node.agent.snapshot(self.now, self.etcd.revision(), self.etcd.all());
            node.watch = Some(revisions);
            self.reread += 1;
            return;
        };
        let next = *node.watch.get_or_insert(from as usize);
        if next >= revisions {
            return;
        }
        if next < self.etcd.compacted {
            node.agent.compacted();
            node.watch = None;
            return;
        }
        let upto = (next + take).min(revisions);
        let events: Vec<Event> =
            self.etcd.history[next..upto].iter().flat_map(|(_, events)| events.iter().cloned()).collect();
        node.agent.events(self.now, &events);
        node.watch = Some(upto);
    }

    fn work(&mut self, which: usize) {
        let fails = self.pick(8) == 0;
        let begins = self.rng.random::<bool>();
        let now = self.now;
        let node = &mut self.nodes[which];
        if !node.alive {
            return;
        }
        if !node.connected {
            node.connected = true;
            let mut existing = Existing::default();
            for ((prefix, uri), attributes) in &node.routes {
                match node.tags.get(prefix) {
                    Some(tags) => existing.tags.push((tags.clone(), uri.clone(), *attributes)),
                    None => existing.routes.push((prefix.clone(), uri.clone(), *attributes)),
                }
            }
            node.agent.router_connected(now, existing);
        } else if begins {
            let unsettled = node.agent.report().unsettled;
            if let Some((ticket, change)) = node.agent.next_change(now) {
                if let Some((prefix, _)) = removed(&change) {
                    if node.agent.report().unsettled > unsettled {
                        // And the other routes of this prefix, which follow.
                        node.unsettled = Some(prefix);
                    } else if node.unsettled.as_ref() != Some(&prefix) {
                        node.unsettled = None;
                        self.settled_removals += 1;
                        self.etcd.check_settled(node, &change);
                    }
                }
                node.under_way.push_back((ticket, change));
            }
        } else if !node.under_way.is_empty() {
            let place = now as usize % node.under_way.len();
            let (ticket, change) = node.under_way.remove(place).unwrap();
            let result = if fails {
                Err("refused".to_owned())
            } else {
                make(node, &change);
                Ok(())
            };
            node.agent.done(now, ticket, result);
        }
    }
}

fn agent(name: &str) -> Agent {
    Agent::new(Options {
        grace_ms: GRACE_MS,
        in_flight_max: 4,
        takes_files: true,
        ..Options::new(space(), label(name))
    })
}

fn make(node: &mut Node, change: &Change) {
    match change {
        Change::Register { prefix, uri, attributes } => {
            node.routes.insert((prefix.clone(), uri.clone()), *attributes);
        }
        Change::Advertise { tags, uri } => {
            let name = oracle::name_of(tags);
            node.tags.insert(name.clone(), Descriptor::clone(tags));
            node.routes.insert((name, uri.clone()), TOLD);
        }
        Change::UseFiles { files, .. } => node.files = files.iter().map(|file| file.kept.name.clone()).collect(),
        change => {
            let Some((prefix, uri)) = removed(change) else { return };
            assert!(node.routes.remove(&(prefix.clone(), uri.clone())).is_some(), "{prefix} {uri} is not the fleet's");
        }
    }
}

/// The route that a change removes.
fn removed(change: &Change) -> Option<(Name, Arc<str>)> {
    match change {
        Change::Unregister { prefix, uri } => Some((prefix.clone(), uri.clone())),
        Change::Withdraw { tags, uri } => Some((oracle::name_of(tags), uri.clone())),
        _ => None,
    }
}

fn check(node: &mut Node, etcd: &Etcd, seed: u64) {
    let mut has: Table = node.routes.iter().map(|((prefix, uri), of)| (prefix.clone(), uri.clone(), of.cost)).collect();
    has.extend(node.files.iter().map(|file| (oracle::name_of_file(file), "".into(), 0)));
    let report = node.agent.report();
    let context = format!("seed {seed}, node {}, {report:?}", node.name);
    if node.connected && report.applied > node.base && report.applied == report.seen {
        assert_eq!(Some(&has), etcd.table(node.name, report.applied), "{context}: applied");
        node.base = report.applied;
        node.lost_face = false;
    }
    if node.connected && report.added > 0 && report.added == report.seen {
        let wanted = etcd.table(node.name, report.added).expect("an intent that holds agents cannot be added");
        assert!(wanted.is_subset(&has), "{context}: added, but {:?} are missing", wanted.difference(&has));
        let keys = &etcd.history[node.agent.watch_from().map_or(report.seen, |next| next - 1) as usize].0;
        let settled = keys.get(&space().key(&Key::Settled)).map(|(value, _)| Settled::decode(value).unwrap().revision);
        // Tags have no costs, and go both ways.
        let routes = has.iter().filter(|(prefix, ..)| !node.tags.contains_key(prefix));
        for (prefix, uri, cost) in routes.filter(|_| settled < Some(report.seen)) {
            let is_wanted = wanted.iter().any(|(of, to, _)| of == prefix && to == uri);
            let others = wanted.iter().any(|(of, ..)| of == prefix);
            let used = *cost < LEFT_COST && !is_wanted && others && !has_failed(keys, node.name, uri);
            assert!(!used, "{context}: added, but {prefix} {uri} is still used");
        }
    }
    // What was read last, by this agent or by one before it.
    let tables: Vec<&Table> = (node.base..=etcd.revision()).filter_map(|at| etcd.table(node.name, at)).collect();
    for (prefix, uri, cost) in &has {
        // One that is about to go has a higher cost.
        let route = &(prefix.clone(), uri.clone(), if *cost >= LEFT_COST { cost - LEFT_COST } else { *cost });
        assert!(tables.iter().any(|table| table.contains(route)), "{context}: {route:?} is of no revision");
    }
    if etcd.table(node.name, node.base).is_some() && !node.lost_face {
        let has_way = |table: &Table, prefix: &Name| table.iter().any(|(of, ..)| of == prefix);
        for (prefix, ..) in tables[0] {
            let always = tables.iter().all(|table| has_way(table, prefix));
            assert!(!always || has_way(&has, prefix), "{context}: {prefix} has lost its last route");
        }
    }
}

/// Whether a link with this address has failed: the router does not use the face then.
fn has_failed(keys: &Keys, node: &str, uri: &str) -> bool {
    ["a", "b", "c"].map(label).into_iter().any(|link| {
        let (node, link) = (label(node), link);
        let of = keys.get(&space().key(&Key::Link { node: node.clone(), link: link.clone() }));
        of.is_some_and(|(value, _)| Link::decode(value).unwrap().uri == uri)
            && keys.contains_key(&space().key(&Key::Down { node, link }))
    })
}

#[test]
fn no_node_ever_has_rules_of_no_revision() {
    let (mut applied, mut held, mut reread, mut settled) = (0, 0, 0, 0);
    let (mut fetched, mut lost, mut brought) = (0, 0, 0);
    for seed in 0..90 {
        let mut fleet = Fleet::new(seed);
        fleet.begin();
        for _ in 0..1_500 {
            fleet.step();
        }
        // Faults end: all nodes reach the intent, once it has no damaged keys.
        let repair = |prefix: usize| (Key::Route(format!("/{prefix}").parse().unwrap()), None);
        let mut changes: Vec<_> = (0..3).map(repair).collect();
        changes.extend(["/a", "/b", "/a/b"].map(|tags| (Key::Tags(tags.parse().unwrap()), None)));
        let good = Route { group: label("west"), inherit: true, capture: false }.encode();
        changes.extend((3..6).map(|prefix| (Key::Route(format!("/{prefix}").parse().unwrap()), Some(good.clone()))));
        changes.push((Key::Head, Some(Head { format: 1, by: String::new() }.encode())));
        // And one more table, if a delta of this one was lost.
        let epoch = fleet.etcd.table_head().map_or(1, |head| head.epoch + 1);
        let rows: Rows = (0..4).map(|_| fleet.row()).filter_map(|(key, value)| Some((key, value?))).collect();
        changes.extend(fleet.etcd.load_table(epoch, Digest::of(b"last"), rows, 1_000));
        let last = fleet.etcd.write(changes);
        for node in &mut fleet.nodes {
            node.alive = true;
        }
        for _ in 0..2_000 {
            fleet.now += 50;
            for which in 0..3 {
                fleet.watch(which);
                fleet.fetch(which);
                fleet.work(which);
            }
        }
        for node in &mut fleet.nodes {
            let report = node.agent.report();
            assert_eq!((report.applied, report.held), (last, None), "seed {seed}, node {}", node.name);
            check(node, &fleet.etcd, seed);
            assert_eq!(node.base, last);
        }
        applied += fleet.applied;
        held += fleet.held;
        reread += fleet.reread;
        settled += fleet.settled_removals;
        fetched += fleet.fetched;
        lost += fleet.lost_deltas;
        brought += fleet.brought;
    }
    // The faults happened, and agents reached the intent in between.
    assert!(applied > 1_000 && held > 1_000 && reread > 200 && settled > 50, "{applied} {held} {reread} {settled}");
    assert!(fetched > 500 && lost > 20 && brought > 100, "{fetched} {lost} {brought}");
}

/// Keys and values that somebody has damaged: an agent changes nothing while there is one, does not keep more than it may, and
/// goes on when they are gone.
#[test]
fn damaged_keys_and_values_are_held_and_bounded() {
    const KEYS_MAX: usize = 40;
    let good: Vec<(Key, Vec<u8>)> = vec![
        (Key::Head, Head { format: 1, by: "t".to_owned() }.encode()),
        (Key::Link { node: label("r1"), link: label("a") }, Link { uri: "udp4://192.0.2.1:1".to_owned() }.encode()),
        (
            Key::Group { group: label("west"), node: label("r1") },
            Group { nexthops: vec![Nexthop { link: label("a"), cost: 1 }] }.encode(),
        ),
        (Key::Route("/a".parse().unwrap()), Route { group: label("west"), inherit: true, capture: false }.encode()),
        (Key::Tags("/a/b".parse().unwrap()), TagRoute { group: label("west") }.encode()),
    ];
    let mut held = 0;
    for seed in 0..300 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut agent = Agent::new(Options { keys_max: KEYS_MAX, ..Options::new(space(), label("r1")) });
        agent.router_connected(0, Existing::default());
        agent.snapshot(0, 1, Vec::new());
        let mut written = BTreeSet::new();
        let mut revision = 1;
        for _ in 0..60 {
            let (key, value) = &good[rng.random_range(0..good.len())];
            let (mut key, mut value) = (space().key(key), value.clone());
            let of = if rng.random() { &mut key } else { &mut value };
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..of.len());
                match rng.random_range(0..4) {
                    0 => of[at] = rng.random(),
                    1 => of.truncate(at.max(1)),
                    2 => of.insert(at, rng.random()),
                    _ => of[at] ^= 1 << rng.random_range(0..8),
                }
            }
            revision += 1;
            written.insert(key.clone());
            agent.events(0, &[Event { key, value: Some(value), revision }]);
            if let Some((ticket, _)) = agent.next_change(0) {
                assert_eq!(agent.report().held, None, "seed {seed}");
                agent.done(0, ticket, Ok(()));
            } else {
                held += 1;
            }
        }
        // Gone again. If there were too many, some were not kept, and the agent must read all again.
        let too_many = agent.report().held.is_some_and(|held| held.contains("more than 40 keys"));
        let mut events: Vec<Event> = written
            .into_iter()
            .map(|key| Event { key, value: None, revision: revision + 1 })
            .chain(good.iter().map(|(key, value)| Event {
                key: space().key(key),
                value: Some(value.clone()),
                revision: revision + 1,
            }))
            .collect();
        if too_many {
            events.retain(|event| event.value.is_some());
            agent.snapshot(0, revision + 1, events);
        } else {
            agent.events(0, &events);
        }
        let mut changes = BTreeSet::new();
        for now in [0, 100_000] {
            while let Some((ticket, change)) = agent.next_change(now) {
                changes.insert(format!("{change:?}"));
                agent.done(now, ticket, Ok(()));
            }
        }
        let report = agent.report();
        let here = (report.held, report.applied, report.routes, report.tags);
        assert_eq!(here, (None, revision + 1, 1, 1), "seed {seed}: {changes:?}");
    }
    assert!(held > 1_000, "{held}");
}
