//! A fleet of three routers and three members of etcd under faults drawn from a seed, with traffic and a writer all the
//! time, and a checker of all that happened ([`history`]).
//!
//! - No router ever has routes of no revision, and one that reports a revision as applied has exactly its routes.
//! - Each Interest is answered by the producer of a revision that is in force, and none is lost: neither when etcd loses its
//!   leader, nor when a way moves from one router to another.
//! - Acknowledged changes stay, refused ones never appear, and a writer whose lease has ended is refused.
//! - When the faults are over, all routers soon have the intent.
//!
//! Members are killed, paused, cut off from each other and from clients, and run out of disk space. One gets another
//! monotonic clock, in a time namespace. The wall clock is that of the whole machine, so it is left alone. Agents, routers
//! and writers are killed, and etcd's history is compacted under the watch of an agent that sleeps.
//!
//! `BYNAME_TEST_SEED` is the first seed, and `BYNAME_TEST_SEEDS` their number. `BYNAME_TEST_LOGS` prints what agents say. Needs root and etcd.

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod history;
#[path = "../../../fleet/tests/oracle/mod.rs"]
mod oracle;
mod traffic;
mod writing;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use byname_fleet::agent::Event;
use byname_fleet::etcd::{Connection, Endpoints, EtcdError, Login};
use cluster::{Cluster, MEMBERS};
use common::{PROGRAM, Router};
use history::{History, NODES, Revision};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use writing::{MARKS, Script, wait_applied};

/// Set in the process that is alone in its namespaces.
const INSIDE: &str = "BYNAME_TEST_INSIDE";
/// Time in which all routers have the intent after the last fault.
const CONVERGE: Duration = Duration::from_secs(40);
/// Writers that are killed or sleep: each costs the time of a lease.
const WRITERS_ENDED: usize = 1;

/// What all threads of the test share.
struct Shared {
    begun: Instant,
    history: Mutex<History>,
    faults_over: AtomicBool,
    over: AtomicBool,
    writers_begun: AtomicUsize,
    writers_ended: AtomicUsize,
    fenced: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            begun: Instant::now(),
            history: Mutex::default(),
            faults_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
            writers_begun: AtomicUsize::new(0),
            writers_ended: AtomicUsize::new(0),
            fenced: AtomicUsize::new(0),
            failures: Mutex::default(),
        })
    }

    /// Time since the beginning, in µs.
    fn now(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn log(&self, text: &str) {
        println!("{:8.3} {text}", self.begun.elapsed().as_secs_f64());
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn faults_are_over(&self) -> bool {
        self.faults_over.load(Ordering::SeqCst)
    }

    /// Whether one more writer may end without a word.
    fn may_end_writer(&self) -> bool {
        !self.faults_are_over() && self.writers_ended.fetch_add(1, Ordering::SeqCst) < WRITERS_ENDED
    }

    fn fenced(&self) {
        self.log("the late writer was refused");
        self.fenced.fetch_add(1, Ordering::SeqCst);
    }

    fn failed(&self, failure: String) {
        self.failures.lock().expect("no panic").push(failure);
    }
}

/// `byname agent` of a router. Dropping this ends it.
struct Agent(Child);

impl Agent {
    fn start(router: &Router, node: &str) -> Agent {
        let log = File::options().create(true).append(true).open(router.path("agent.log")).expect("a log");
        let process = Command::new(PROGRAM)
            // Removals wait for all nodes, however long a fault takes.
            .args(["agent", "--node", node, "--grace", "120", "--transport", &router.transport()])
            .args(["--etcd", &Cluster::login(0).endpoints.join(",")])
            .arg("--state")
            .arg(router.path("agent.json"))
            .arg("--chunks")
            .arg(router.path("agent.chunks"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start the agent");
        Agent(process)
    }

    fn signal(&self, signal: &str) {
        cluster::run(&["kill", signal, &self.0.id().to_string()]);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Notes all revisions, as this member's watch brings them.
async fn record(shared: Arc<Shared>, member: usize) {
    let login = Login { endpoints: vec![Cluster::url(member)], ..Login::default() };
    let mut next = 1;
    while !shared.is_over() {
        if let Ok(connection) = Endpoints::new(login.clone()).connect().await {
            let _ = follow(&shared, &connection, &mut next).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn follow(shared: &Shared, connection: &Connection, next: &mut i64) -> Result<(), EtcdError> {
    let mut watch = connection.watch(b"/byname/main/", *next).await?;
    while !shared.is_over() {
        let response = match watch.next().await {
            // Another member's watch has brought it: see `Faults::compact`.
            Err(EtcdError::Compacted { .. }) => {
                *next += 1;
                return Ok(());
            }
            other => other?,
        };
        let read = shared.now();
        let mut history = shared.history.lock().expect("no panic");
        let mut of = BTreeMap::<i64, Vec<Event>>::new();
        for event in response.events {
            let Some(kv) = event.kv else { continue };
            let value = (event.kind == 0).then_some(kv.value);
            of.entry(kv.mod_revision).or_default().push(Event { key: kv.key, value, revision: kv.mod_revision });
        }
        for (revision, events) in of {
            *next = revision + 1;
            let seen = history.revisions.entry(revision).or_insert_with(|| Revision { read, events: events.clone() });
            if seen.events != events {
                shared.failed(format!("members of etcd say other things of revision {revision}"));
            }
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    KillMember,
    PauseMember,
    KillLeader,
    CutLeaderFromOthers,
    CutMemberFromOthers,
    CutAll,
    CutMemberFromClients,
    FillDisk,
    MoveClock,
    Compact,
    KillAgent,
    PauseAgent,
    KillRouter,
}

const FAULTS: [Fault; 13] = [
    Fault::KillMember,
    Fault::PauseMember,
    Fault::KillLeader,
    Fault::CutLeaderFromOthers,
    Fault::CutMemberFromOthers,
    Fault::CutAll,
    Fault::CutMemberFromClients,
    Fault::FillDisk,
    Fault::MoveClock,
    Fault::Compact,
    Fault::KillAgent,
    Fault::PauseAgent,
    Fault::KillRouter,
];

struct Faults {
    shared: Arc<Shared>,
    rng: SmallRng,
    cluster: Cluster,
    routers: Vec<Option<Router>>,
    agents: Vec<Option<Agent>>,
}

impl Faults {
    fn pause(&mut self, from_ms: u64, to_ms: u64) {
        thread::sleep(Duration::from_millis(self.rng.random_range(from_ms..to_ms)));
    }

    fn inject(&mut self, fault: Fault) {
        let which = self.rng.random_range(0..3);
        let leader = self.cluster.leader().unwrap_or(which);
        let member = match fault {
            Fault::KillLeader | Fault::CutLeaderFromOthers => leader,
            _ => which,
        };
        self.shared.log(&format!("{fault:?} {}", which.max(member) + 1));
        match fault {
            Fault::KillMember | Fault::KillLeader => {
                self.cluster.kill(member);
                self.pause(500, 2_500);
                self.cluster.begin(member);
            }
            Fault::PauseMember => {
                self.cluster.signal(member, "-STOP");
                self.pause(500, 3_000);
                self.cluster.signal(member, "-CONT");
            }
            Fault::CutMemberFromOthers | Fault::CutLeaderFromOthers => {
                self.cluster.cable(member, "peers", "down");
                self.pause(1_500, 4_000);
                self.cluster.cable(member, "peers", "up");
            }
            Fault::CutAll => {
                (0..MEMBERS).for_each(|member| self.cluster.cable(member, "peers", "down"));
                self.pause(1_000, 3_000);
                (0..MEMBERS).for_each(|member| self.cluster.cable(member, "peers", "up"));
            }
            Fault::CutMemberFromClients => {
                self.cluster.cable(member, "clients", "down");
                self.pause(2_000, 6_000);
                self.cluster.cable(member, "clients", "up");
            }
            Fault::FillDisk => {
                self.cluster.fill_disk(member);
                self.pause(1_500, 3_000);
                let ended = self.cluster.has_ended(member);
                self.cluster.free_disk(member);
                self.shared.log(&format!("the member without space has {}", if ended { "ended" } else { "gone on" }));
                if ended {
                    self.cluster.begin(member);
                }
            }
            Fault::MoveClock => {
                let clock_s = self.rng.random_range(1_000..10_000_000);
                if !self.cluster.move_clock(member, clock_s) {
                    self.shared.log("skipped in part: this system has no time namespaces");
                }
            }
            Fault::Compact => self.compact(which),
            Fault::KillAgent => {
                self.agents[which] = None;
                self.pause(0, 2_000);
                let router = self.routers[which].as_ref().expect("a router");
                self.agents[which] = Some(Agent::start(router, NODES[which]));
            }
            Fault::PauseAgent => {
                let agent = self.agents[which].as_ref().expect("an agent").0.id().to_string();
                cluster::run(&["kill", "-STOP", &agent]);
                self.pause(200, 3_000);
                cluster::run(&["kill", "-CONT", &agent]);
            }
            Fault::KillRouter => {
                let since = self.shared.now();
                let router = self.routers[which].take().expect("a router");
                self.routers[which] = Some(router.start_again());
                // An Interest that was in it takes its time.
                let until = self.shared.now() + 1_000_000;
                self.shared.history.lock().expect("no panic").excused.push((since, until));
            }
        }
    }

    /// Throws away history that a sleeping agent has not read, and that the test has.
    fn compact(&mut self, which: usize) {
        self.agents[which].as_ref().expect("an agent").signal("-STOP");
        self.pause(500, 2_000);
        let read = self.shared.history.lock().expect("no panic").revisions.keys().next_back().copied().unwrap_or(1);
        for member in 0..MEMBERS {
            if self.cluster.etcdctl(member, &["compact", &read.to_string()]).status.success() {
                break;
            }
        }
        for member in 0..MEMBERS {
            self.cluster.etcdctl(member, &["defrag"]);
        }
        self.agents[which].as_ref().expect("an agent").signal("-CONT");
    }
}

fn run_seed(seed: u64) {
    println!("seed {seed}");
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::start(folder.path());
    let shared = Shared::new();
    let routers: Vec<Router> = NODES.iter().map(|_| Router::start()).collect();

    // Links and producers.
    let mut uris = BTreeMap::new();
    let mut producers = BTreeMap::new();
    for mark in 0..MARKS {
        let uri = traffic::produce(mark);
        producers.insert(uri.clone(), mark);
        uris.extend(NODES.map(|node| ((node, format!("p{mark}")), uri.clone())));
    }
    for (at, node) in [(1, "r2"), (2, "r3")] {
        let (end, producer) = (traffic::produce(100 + at), 100 + at);
        let router = format!("udp4://127.0.0.1:{}", routers[at as usize].port);
        producers.extend([(end.clone(), producer), (router.clone(), producer)]);
        uris.extend([((node, "end".to_owned()), end), (("r1", format!("to-{node}")), router)]);
    }
    shared.history.lock().expect("no panic").producers = producers;

    let recorders: Vec<_> = (0..MEMBERS)
        .map(|member| {
            let shared = shared.clone();
            thread::spawn(move || byname_fleet::block_on(record(shared, member)).expect("a runtime"))
        })
        .collect();
    let agents = NODES.iter().zip(&routers).map(|(node, router)| Some(Agent::start(router, node))).collect();
    let writer = {
        let script = Script::new(shared.clone(), seed);
        thread::spawn(move || byname_fleet::block_on(script.run(uris)).expect("a runtime"))
    };
    let has = |router: usize, prefix: &str| routers[router].run(&format!("route show {prefix}")).code == 0;
    let deadline = Instant::now() + CONVERGE;
    while !((0..3).all(|router| has(router, "/mark")) && has(0, "/way") && has(1, "/way")) {
        assert!(Instant::now() < deadline, "there is no first intent\n{}", cluster.log(0));
        thread::sleep(Duration::from_millis(50));
    }
    shared.log("traffic begins");
    let mut threads: Vec<_> =
        (0..3).map(|node| traffic::ping(&shared, node, routers[node].socket(), "/mark")).collect();
    threads.push(traffic::ping(&shared, 0, routers[0].socket(), "/way"));
    threads.extend((0..3).map(|node| traffic::look(&shared, node, routers[node].transport())));

    let routers = routers.into_iter().map(Some).collect();
    let rng = SmallRng::seed_from_u64(seed);
    let mut faults = Faults { shared: shared.clone(), rng, cluster, routers, agents };
    let mut order = FAULTS;
    order.shuffle(&mut faults.rng);
    for fault in order {
        faults.inject(fault);
        faults.pause(0, 1_000);
    }
    shared.log("the faults are over");
    for member in 0..MEMBERS {
        if faults.cluster.has_ended(member) {
            shared.log(&format!("member {} has ended:\n{}", member + 1, faults.cluster.log(member)));
            faults.cluster.begin(member);
        }
    }
    shared.faults_over.store(true, Ordering::SeqCst);
    let last = writer.join().expect("the writer");
    let (late, keys) = byname_fleet::block_on(async {
        let late = wait_applied(last, CONVERGE).await;
        let connection = Endpoints::new(Cluster::login(0)).connect_any().await.expect("etcd");
        // Recorders have read what was there by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        (late, connection.read_all(b"/byname/main/", 100_000).await.expect("all keys"))
    })
    .expect("a runtime");
    let end = keys.header.as_ref().map_or(0, |header| header.revision);
    let deadline = Instant::now() + CONVERGE;
    while shared.history.lock().expect("no panic").revisions.keys().next_back().is_none_or(|read| *read < end) {
        assert!(Instant::now() < deadline, "the watches bring no revision {end}");
        thread::sleep(Duration::from_millis(20));
    }
    shared.over.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("traffic"));

    let mut history = std::mem::take(&mut *shared.history.lock().expect("no panic"));
    history.revisions.retain(|revision, _| *revision <= end);
    history.last = keys.kvs.into_iter().map(|kv| (kv.key, (kv.value, kv.mod_revision))).collect();
    let mut found = shared.failures.lock().expect("no panic").clone();
    found.extend(late.into_iter().map(|late| format!("after all faults, revision {last} is not applied: {late}")));
    found.extend(history.violations());
    shared.log(&format!(
        "{} revisions, {} changes tried, {} looks at routers, {} Interests, {} late writers refused",
        history.revisions.len(),
        history.attempts.len(),
        history.samples.len(),
        history.pings.len(),
        shared.fenced.load(Ordering::SeqCst),
    ));
    drop(recorders);
    if !found.is_empty() || std::env::var_os("BYNAME_TEST_LOGS").is_some() {
        for (at, router) in faults.routers.iter().enumerate() {
            let router = router.as_ref().expect("a router");
            let log = std::fs::read_to_string(router.path("agent.log")).unwrap_or_default();
            println!("agent {}:\n{log}", NODES[at]);
        }
    }
    if !found.is_empty() {
        let count = found.len();
        found.truncate(30);
        panic!("seed {seed}: {count} violations:\n{}", found.join("\n"));
    }
    assert!(
        history.attempts.len() > 5 && history.samples.len() > 100 && history.pings.len() > 500,
        "too little happened"
    );
}

#[test]
fn a_fleet_under_faults_never_has_routes_of_no_revision() {
    if let Some(why) = cluster::missing() {
        println!("skipped: {why}");
        return;
    }
    let number = |variable, default| std::env::var(variable).map_or(default, |text| text.parse().expect("a number"));
    let (first, seeds) = (number("BYNAME_TEST_SEED", 1), number("BYNAME_TEST_SEEDS", 1));
    if std::env::var_os(INSIDE).is_some() {
        run_seed(first);
        return;
    }
    for seed in first..first + seeds {
        // Alone in its namespaces, which take all processes and cables with them.
        let output = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(std::env::current_exe().expect("this program"))
            .args(["--exact", "a_fleet_under_faults_never_has_routes_of_no_revision", "--nocapture"])
            .env(INSIDE, "1")
            .env("BYNAME_TEST_SEED", seed.to_string())
            .output()
            .expect("start unshare");
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{said}");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
