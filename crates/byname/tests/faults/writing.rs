//! A writer of the intent that changes something all the time, and another one that sleeps and wakes up too late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use byname_fleet::etcd::{Connection, Endpoints, EtcdError};
use byname_fleet::key::{Key, Space};
use byname_fleet::label::Label;
use byname_fleet::value::{Down, Group, Link, Nexthop, Route, TagRoute, Value};
use byname_fleet::writer::{Write, WriteError, Writer, nodes};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::Shared;
use crate::cluster::{Cluster, MEMBERS};
use crate::history::{Attempt, NODES, Outcome};

/// Producers to which `/mark` leads in turn.
pub const MARKS: u32 = 8;
/// How long a writer waits for all nodes.
const SETTLE: Duration = Duration::from_millis(1_500);
/// Longer than a lease, which begins again when a leader is elected.
const WAIT: Duration = Duration::from_secs(30);
/// No writer ends without a word before so many changes: nobody can write until its lease has ended.
const CHANGES: u32 = 30;
/// Prefixes, sets of tags and groups that change without traffic.
const OTHERS: usize = 5;

fn label(text: &str) -> Label {
    text.parse().expect("a label")
}

fn space() -> Space {
    Space::new(&label("main"))
}

fn group(name: &str, node: &str, nexthops: &[(String, u64)]) -> (Key, Option<Vec<u8>>) {
    let nexthops = nexthops.iter().map(|(link, cost)| Nexthop { link: label(link), cost: *cost }).collect();
    (Key::Group { group: label(name), node: label(node) }, Some(Group { nexthops }.encode()))
}

/// The first intent: links of all nodes, and two prefixes with traffic. `/mark` leads to a producer beside each router,
/// another one after each change. `/way` leads from r1 over r2 or r3.
fn first(uris: &BTreeMap<(&str, String), String>) -> BTreeMap<Key, Option<Vec<u8>>> {
    let mut changes = BTreeMap::new();
    for ((node, link), uri) in uris {
        let key = Key::Link { node: label(node), link: label(link) };
        changes.insert(key, Some(Link { uri: uri.clone() }.encode()));
    }
    for node in NODES {
        changes.extend([group("mark", node, &[("p0".to_owned(), 1)])]);
    }
    changes.extend([group("way", "r1", &[("to-r2".to_owned(), 1)]), group("way", "r2", &[("end".to_owned(), 1)])]);
    for name in ["mark", "way"] {
        let route = Route { group: label(name), inherit: true, capture: false };
        changes.insert(Key::Route(format!("/{name}").parse().expect("a name")), Some(route.encode()));
    }
    changes
}

/// A change of some keys that nobody uses. Each costs a command or two at each node.
fn others(rng: &mut SmallRng) -> (Key, Option<Vec<u8>>) {
    let node = NODES[rng.random_range(0..3)];
    let number = rng.random_range(0..OTHERS);
    let prefix = || format!("/other/{number}").parse().expect("a name");
    let tags = || Key::Tags(["/a", "/b", "/a/b", "/c/d", "/a/c/d"][number].parse().expect("a set"));
    match rng.random_range(0..11) {
        8 | 9 => {
            let group = label(&format!("g{}", rng.random_range(0..2)));
            (tags(), Some(TagRoute { group }.encode()))
        }
        10 => (tags(), None),
        0 | 1 => {
            let route = Route { group: label(&format!("g{}", rng.random_range(0..2))), inherit: true, capture: false };
            (Key::Route(prefix()), Some(route.encode()))
        }
        2 => (Key::Route(prefix()), None),
        3 => (Key::Group { group: label(&format!("g{}", number % 2)), node: label(node) }, None),
        4 => (
            Key::Down { node: label(node), link: label(&format!("p{number}")) },
            Some(Down { reason: String::new() }.encode()),
        ),
        5 => (Key::Down { node: label(node), link: label(&format!("p{number}")) }, None),
        _ => {
            let first = rng.random_range(0..MARKS);
            let count = rng.random_range(1..4);
            let links = (first..first + count).map(|link| (format!("p{}", link % MARKS), rng.random_range(0..9)));
            group(&format!("g{}", number % 2), node, &links.collect::<Vec<_>>())
        }
    }
}

/// How a writer ends.
enum End {
    /// As it should, perhaps with the revision of its last change.
    Proper(Option<i64>),
    Killed,
    /// It is stopped, and will go on later.
    Asleep,
}

/// What a writer does, beginning with its first intent.
pub struct Script {
    pub shared: Arc<Shared>,
    pub rng: SmallRng,
    pub number: u32,
    asleep: Vec<tokio::task::JoinHandle<()>>,
}

impl Script {
    pub fn new(shared: Arc<Shared>, seed: u64) -> Script {
        Script { shared, rng: SmallRng::seed_from_u64(seed ^ 0x77), number: 0, asleep: Vec::new() }
    }

    /// Writes until the test ends. Afterwards one more, which must go well. Returns its revision.
    pub async fn run(mut self, uris: BTreeMap<(&'static str, String), String>) -> i64 {
        let mut begun = Some(first(&uris));
        loop {
            let is_over = self.shared.faults_are_over();
            let result = self.turn(&mut begun, is_over).await;
            match result {
                Ok(Some(revision)) if is_over => {
                    for sleeper in self.asleep.drain(..) {
                        sleeper.await.expect("the late writer");
                    }
                    return revision;
                }
                Ok(_) => {}
                Err(error) => {
                    self.shared.log(&format!("writer: {error}"));
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    /// One writer, from its begin to its end.
    async fn turn(
        &mut self,
        begun: &mut Option<BTreeMap<Key, Option<Vec<u8>>>>,
        is_last: bool,
    ) -> Result<Option<i64>, WriteError> {
        let connection = Endpoints::new(Cluster::login(self.rng.random_range(0..MEMBERS))).connect_any().await?;
        let by = format!("writer {}", self.number);
        let mut writer = Writer::begin(connection.clone(), space(), by, WAIT).await?;
        self.shared.writers_begun.fetch_add(1, Ordering::SeqCst);
        match self.write(&connection, &mut writer, begun, is_last).await {
            Ok(End::Proper(last)) => {
                writer.end().await?;
                Ok(last)
            }
            Ok(End::Killed) => Ok(None),
            Ok(End::Asleep) => {
                let sleeper = wake_up(self.shared.clone(), writer, self.number + 1_000_000);
                self.asleep.push(tokio::spawn(sleeper));
                Ok(None)
            }
            Err(error) => {
                for _ in 0..5 {
                    let login = Cluster::login(self.rng.random_range(0..MEMBERS));
                    if let Ok(other) = Endpoints::new(login).connect_any().await
                        && writer.end_over(&other).await.is_ok()
                    {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                Err(error)
            }
        }
    }

    async fn write(
        &mut self,
        connection: &Connection,
        writer: &mut Writer,
        begun: &mut Option<BTreeMap<Key, Option<Vec<u8>>>>,
        is_last: bool,
    ) -> Result<End, WriteError> {
        if let Some(changes) = begun.take() {
            let revision = self.attempt(writer, changes.clone()).await.inspect_err(|_| *begun = Some(changes))?;
            self.settle(connection, writer, revision, SETTLE).await?;
        }
        if is_last {
            let revision = self.attempt(writer, BTreeMap::new()).await?;
            self.settle(connection, writer, revision, WAIT).await?;
            return Ok(End::Proper(Some(revision)));
        }
        for _ in 0..self.rng.random_range(5..20) {
            match self.rng.random_range(0..10) {
                0 | 1 => self.move_way(connection, writer).await?,
                2..=5 => {
                    let changes = (0..self.rng.random_range(1..4)).map(|_| others(&mut self.rng)).collect();
                    let _ = self.attempt(writer, changes).await?;
                }
                6..=8 => {
                    let revision = self.attempt(writer, BTreeMap::new()).await?;
                    self.settle(connection, writer, revision, SETTLE).await?;
                    // Time in which nothing but one revision is in force.
                    tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..600))).await;
                }
                // The writer is killed while it waits for an answer, or sleeps for too long.
                _ if self.number > CHANGES && self.shared.may_end_writer() => {
                    if self.rng.random() {
                        let soon = Duration::from_micros(self.rng.random_range(0..3_000));
                        let _ = tokio::time::timeout(soon, self.attempt(writer, BTreeMap::new())).await;
                        self.shared.log("writer: killed");
                        return Ok(End::Killed);
                    }
                    self.shared.log("writer: sleeps");
                    return Ok(End::Asleep);
                }
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..60))).await;
        }
        Ok(End::Proper(None))
    }

    /// Makes these changes, and one of `/mark` at all nodes, so that no two attempts are the same.
    async fn attempt(
        &mut self,
        writer: &mut Writer,
        changes: BTreeMap<Key, Option<Vec<u8>>>,
    ) -> Result<i64, WriteError> {
        self.number += 1;
        attempt(&self.shared, writer, changes, self.number).await
    }

    /// Settles a revision if all live nodes have added it in time. Returns whether they have.
    async fn settle(
        &mut self,
        connection: &Connection,
        writer: &mut Writer,
        revision: i64,
        patience: Duration,
    ) -> Result<bool, WriteError> {
        let begun = std::time::Instant::now();
        loop {
            let late = late(connection, revision).await?;
            if late.is_empty() {
                writer.settle(revision, Duration::ZERO).await?;
                return Ok(true);
            }
            if begun.elapsed() > patience {
                self.shared.log(&format!("writer: {late:?} are late with revision {revision}"));
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Moves the way of `/way` to the other router: first that one gets its routes. When it has them, r1 leads there.
    async fn move_way(&mut self, connection: &Connection, writer: &mut Writer) -> Result<(), WriteError> {
        let key = space().key(&Key::Group { group: label("way"), node: label("r1") });
        let now = connection.read_all(&key, 10).await?.kvs;
        let now = Group::decode(&now[0].value).expect("the group of r1").nexthops[0].link.to_string();
        let (old, new) = if now == "to-r2" { ("r2", "r3") } else { ("r3", "r2") };
        let changes = BTreeMap::from([group("way", new, &[("end".to_owned(), 1)])]);
        let revision = self.attempt(writer, changes).await?;
        if self.settle(connection, writer, revision, SETTLE).await? {
            let cost = self.rng.random_range(0..1_000);
            let gone = Key::Group { group: label("way"), node: label(old) };
            let changes = BTreeMap::from([group("way", "r1", &[(format!("to-{new}"), cost)]), (gone, None)]);
            let revision = self.attempt(writer, changes).await?;
            self.settle(connection, writer, revision, SETTLE).await?;
        }
        Ok(())
    }
}

async fn attempt(
    shared: &Shared,
    writer: &mut Writer,
    mut changes: BTreeMap<Key, Option<Vec<u8>>>,
    number: u32,
) -> Result<i64, WriteError> {
    for node in NODES {
        changes.extend([group("mark", node, &[(format!("p{}", number % MARKS), u64::from(number))])]);
    }
    let encoded = changes.iter().map(|(key, value)| (space().key(key), value.clone())).collect();
    let at = {
        let mut history = shared.history.lock().expect("no panic");
        let sent = shared.now();
        history.attempts.push(Attempt { sent, changes: encoded, outcome: Outcome::Unknown });
        history.attempts.len() - 1
    };
    let result = writer.write(changes.into_iter().map(|(key, value)| Write { key, value }).collect()).await;
    let outcome = match &result {
        Ok(revision) => Outcome::Written(*revision),
        Err(WriteError::Fenced) => Outcome::Refused,
        Err(_) => Outcome::Unknown,
    };
    shared.history.lock().expect("no panic").attempts[at].outcome = outcome;
    result
}

/// A writer that has slept until another one has begun must not write any more.
async fn wake_up(shared: Arc<Shared>, mut writer: Writer, number: u32) {
    let begun = shared.writers_begun.load(Ordering::SeqCst);
    while shared.writers_begun.load(Ordering::SeqCst) == begun {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    match attempt(&shared, &mut writer, BTreeMap::new(), number).await {
        Ok(revision) => shared.failed(format!("a writer that does not lead any more has written revision {revision}")),
        Err(WriteError::Fenced) => shared.fenced(),
        Err(error) => shared.log(&format!("the late writer: {error}")),
    }
}

/// Nodes with a lease that do not have all routes of this revision.
async fn late(connection: &Connection, revision: i64) -> Result<Vec<Label>, EtcdError> {
    let nodes = nodes(connection, &space()).await?.into_iter();
    Ok(nodes.filter(|(_, report)| report.added < revision).map(|(node, _)| node).collect())
}

/// Waits until all nodes report that they have applied this revision. Returns those that have not in time.
pub async fn wait_applied(revision: i64, patience: Duration) -> Vec<String> {
    let begun = std::time::Instant::now();
    loop {
        let reports = match Endpoints::new(Cluster::login(0)).connect_any().await {
            Ok(connection) => nodes(&connection, &space()).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let has = |node: &str| reports.iter().any(|(of, report)| of.as_str() == node && report.applied == revision);
        if NODES.iter().all(|node| has(node)) {
            return Vec::new();
        }
        if begun.elapsed() > patience {
            return reports.into_iter().map(|(node, report)| format!("{node}: {report:?}")).collect();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
