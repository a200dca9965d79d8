//! A fleet of three routers with their agents, and one member of etcd. Skipped where etcd is missing.

#[path = "fleet/builder.rs"]
mod builder;
#[path = "fleet/built_tags.rs"]
mod built_tags;
mod common;
#[path = "fleet/keys.rs"]
mod keys;

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use byname_client::Link;
use byname_client::management::dataset;
use byname_client::transport::Environment;
use byname_fleet::etcd::{Endpoints, Login};
use byname_fleet::key::{Key, Space};
use byname_fleet::value::{Group, Nexthop, Value as _};
use byname_fleet::writer::{Write, Writer};
use common::{Done, PROGRAM, Router};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

struct Etcd {
    folder: TempDir,
    ports: (u16, u16),
    process: Child,
}

impl Etcd {
    /// Starts etcd, or says why the test is skipped.
    fn start() -> Option<Etcd> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: etcd is missing (on Debian: apt install etcd-server)");
            return None;
        }
        let folder = tempfile::tempdir().expect("temporary directory");
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let ports = (free(), free());
        let process = Etcd::spawn(&folder, ports);
        let etcd = Etcd { folder, ports, process };
        etcd.wait();
        Some(etcd)
    }

    fn spawn(folder: &TempDir, ports: (u16, u16)) -> Child {
        let (client, peer) = (format!("http://127.0.0.1:{}", ports.0), format!("http://127.0.0.1:{}", ports.1));
        let log = File::options().create(true).append(true).open(folder.path().join("log")).expect("log");
        Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--logger", "zap"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start etcd")
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.0)
    }

    fn wait(&self) {
        let login = Login { endpoints: vec![self.url()], ..Login::default() };
        let answers = || {
            byname_fleet::block_on(async {
                let connection = Endpoints::new(login.clone()).connect().await?;
                connection.read_all(b"/", 1).await
            })
        };
        wait_until("etcd answers", || answers().is_ok_and(|answer| answer.is_ok()));
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn start_again(&mut self) {
        self.process = Etcd::spawn(&self.folder, self.ports);
        self.wait();
    }

    /// `byname fleet …`, which must succeed.
    fn fleet(&self, line: &str) -> String {
        let Done { code, stdout, stderr } = self.try_fleet(line);
        assert_eq!(code, 0, "byname fleet {line}: {stdout}\n{stderr}");
        stdout
    }

    fn try_fleet(&self, line: &str) -> Done {
        let output = Command::new(PROGRAM)
            .args(["fleet", "--etcd", &self.url(), "--chunks"])
            .arg(self.chunks())
            .args(line.split(' '))
            .stdin(Stdio::null())
            .output()
            .expect("start byname");
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Chunks of the writer.
    fn chunks(&self) -> PathBuf {
        self.folder.path().join("chunks")
    }

    /// A file with these lines.
    fn file(&self, lines: &str) -> PathBuf {
        let path = self.folder.path().join("lines");
        std::fs::write(&path, lines).expect("write");
        path
    }

    fn load(&self, lines: &str) -> String {
        let path = self.folder.path().join("intent");
        std::fs::write(&path, lines).expect("write");
        self.fleet(&format!("load {}", path.display()))
    }

    /// What a node reports.
    fn node(&self, name: &str) -> Option<Value> {
        let status: Value = serde_json::from_str(&self.fleet("status --json")).expect("JSON");
        status["nodes"].as_array()?.iter().find(|node| node["node"] == name).cloned()
    }

    fn wait_current(&self, names: &[&str]) {
        for name in names {
            wait_until(&format!("{name} is up to date"), || {
                self.node(name).is_some_and(|node| node["current"] == true)
            });
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `byname agent` of a router.
struct Agent {
    process: Child,
    log: PathBuf,
}

impl Agent {
    fn start(etcd: &Etcd, router: &Router, node: &str) -> Agent {
        Agent::start_with(etcd, router, node, &[])
    }

    fn start_with(etcd: &Etcd, router: &Router, node: &str, more: &[&str]) -> Agent {
        let log = router.path("agent.log");
        let file = File::options().create(true).append(true).open(&log).expect("log");
        let process = Command::new(PROGRAM)
            .args(["agent", "--node", node, "--etcd", &etcd.url(), "--transport", &router.transport()])
            .arg("--state")
            .arg(router.path("agent.json"))
            .arg("--chunks")
            .arg(router.path("agent.chunks"))
            .args(["--network", "/net"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("start the agent");
        Agent { process, log }
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Three routers, each with a link to both others, and two groups.
struct Fleet {
    etcd: Etcd,
    routers: Vec<Router>,
    agents: Vec<Agent>,
}

const NAMES: [&str; 3] = ["r1", "r2", "r3"];

impl Fleet {
    fn start() -> Option<Fleet> {
        let etcd = Etcd::start()?;
        let routers: Vec<Router> = NAMES.iter().map(|_| Router::start()).collect();
        let agents = NAMES.iter().zip(&routers).map(|(name, router)| Agent::start(&etcd, router, name)).collect();
        let fleet = Fleet { etcd, routers, agents };
        fleet.etcd.load(&fleet.links());
        fleet.etcd.wait_current(&NAMES);
        Some(fleet)
    }

    fn links(&self) -> String {
        let mut lines = String::from("# links and groups\n");
        for (from, name) in NAMES.iter().enumerate() {
            for (to, other) in NAMES.iter().enumerate().filter(|(to, _)| *to != from) {
                let port = self.routers[to].port;
                lines += &format!("link add {name} to-{other} udp4://127.0.0.1:{port}\n");
            }
        }
        lines + "group set to-2 r1 to-r2:10 to-r3:20\ngroup set to-2 r3 to-r2:10\ngroup set to-3 r1 to-r3:5\n"
    }

    /// Routes of the fleet in a router, as `PREFIX PORT COST`.
    fn routes(&self, router: usize) -> Vec<String> {
        let router = &self.routers[router];
        let faces = router.json("face list");
        let uri = |id: &Value| {
            let face = faces.as_array()?.iter().find(|face| face["face_id"] == *id)?;
            Some(face["remote_uri"].as_str()?.rsplit(':').next()?.to_owned())
        };
        let routes = router.json("route list --origin fleet");
        let mut routes: Vec<String> = routes
            .as_array()
            .expect("a list")
            .iter()
            .map(|route| {
                format!(
                    "{} {} {}",
                    route["prefix"].as_str().unwrap_or_default(),
                    uri(&route["face_id"]).unwrap_or_default(),
                    route["cost"]
                )
            })
            .collect();
        routes.sort();
        routes
    }

    fn port(&self, router: usize) -> u16 {
        self.routers[router].port
    }
}

#[test]
fn routers_follow_the_intent_and_a_link_that_fails() {
    let Some(fleet) = Fleet::start() else { return };
    let (etcd, two, three) = (&fleet.etcd, fleet.port(1), fleet.port(2));
    let said = etcd.fleet("route add /video to-2");
    assert!(said.contains("1 change written, revision ") && said.contains("3 of 3 live nodes have it"), "{said}");
    assert_eq!(fleet.routes(0), [format!("/video {two} 10"), format!("/video {three} 20")]);
    assert_eq!((fleet.routes(1), fleet.routes(2)), (vec![], vec![format!("/video {two} 10")]));

    etcd.fleet("link down r1 to-r2");
    etcd.wait_current(&NAMES);
    assert_eq!(fleet.routes(0), [format!("/video {three} 20")]);
    etcd.fleet("link up r1 to-r2");
    assert_eq!(fleet.routes(0), [format!("/video {two} 10"), format!("/video {three} 20")]);

    // Another group: the new way is there before the old one goes.
    etcd.fleet("route add /video to-3 --capture");
    etcd.wait_current(&NAMES);
    assert_eq!(fleet.routes(0), [format!("/video {three} 5")]);
    assert_eq!(fleet.routers[0].json("route list --origin fleet")[0]["capture"], true);
    assert_eq!(fleet.routes(2), [""; 0]);

    // What the fleet prints can be loaded again.
    let shown = etcd.fleet("show");
    assert!(shown.ends_with("route add /video to-3 --capture\n"), "{shown}");
    etcd.load(&shown);
    assert_eq!(etcd.fleet("show"), shown);

    // Steps: each is written when all nodes have the one before, and none when one has not.
    let said = etcd.load("group set w r1 to-r3:1\nwait\nroute add /w w\n");
    assert_eq!(said.matches("3 of 3 live nodes have it").count(), 2, "{said}");
    etcd.load("route remove /w\ngroup remove w r1\n");
    fleet.agents[2].signal("-STOP");
    let file = etcd.file("route add /w to-2\nwait\nroute remove /w\n");
    let done = etcd.try_fleet(&format!("--patience 1 load {}", file.display()));
    assert!(done.code == 1 && done.stderr.contains("the step after `wait` was not written"), "{}", done.stderr);
    fleet.agents[2].signal("-CONT");
    etcd.fleet("route remove /w");
    assert_eq!(etcd.fleet("show"), shown);

    // Mistakes are explained, and change nothing.
    for (line, code, part) in [
        ("route add /x no-such", 6, "no node has a group no-such"),
        ("group set g r1 nowhere:5", 6, "node r1 has no link nowhere"),
        ("route remove /x", 6, "the intent does not have this"),
        ("link add r1 l 192.0.2.1", 2, "no FaceUri"),
    ] {
        let done = etcd.try_fleet(line);
        assert_eq!(done.code, code, "{line}: {}", done.stderr);
        assert!(done.stderr.contains(part) && done.stderr.lines().count() == 1, "{line}: {}", done.stderr);
    }
    assert_eq!(etcd.fleet("show"), shown);
}

#[test]
fn routers_forward_without_etcd_and_without_agents() {
    let Some(mut fleet) = Fleet::start() else { return };
    let _server = fleet.routers[1].serve("ping-server /video", "/video/ping", b"");
    fleet.etcd.fleet("route add /video to-2");
    assert!(fleet.routers[0].reaches("/video"));
    let before = fleet.routes(0);

    fleet.etcd.kill();
    fleet.agents[0].kill();
    assert!(fleet.routers[0].reaches("/video"), "neither etcd nor an agent");
    // The router comes back by itself, with its routes, and they are not stale.
    let router = fleet.routers.remove(0).start_again();
    fleet.routers.insert(0, router);
    wait_until("the routes are back", || fleet.routes(0) == before);
    assert!(fleet.routers[0].reaches("/video"));
    assert!(!fleet.routers[0].ok("route list --origin fleet").contains("stale"));
    let done = fleet.etcd.try_fleet("route remove /video");
    assert!(done.code == 1 && done.stderr.contains("cannot connect to etcd at http://127.0.0.1"), "{}", done.stderr);

    // etcd is back, and so is the agent: all go on.
    fleet.etcd.start_again();
    fleet.agents[0] = Agent::start(&fleet.etcd, &fleet.routers[0], "r1");
    fleet.etcd.fleet("route remove /video");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!((fleet.routes(0), fleet.routes(2)), (vec![], vec![]));
}

#[test]
fn an_agent_that_comes_back_removes_what_is_left_and_nothing_else() {
    let Some(mut fleet) = Fleet::start() else { return };
    fleet
        .etcd
        .load("route add /old to-2\nroute add /kept to-2\nstrategy set /old multicast\nstrategy set /own random\n");
    fleet.etcd.wait_current(&NAMES);
    let face = format!("udp4://127.0.0.1:{}", fleet.port(1));
    let router = &fleet.routers[0];
    router.ok(&format!("route add /old {face} --cost 7"));
    router.ok(&format!("route add /mine {face}"));
    router.ok("strategy set /mine multicast");
    assert!(router.ok("strategy show /old/x").contains("multicast"));

    fleet.agents[0].kill();
    fleet.etcd.load("route remove /old\nstrategy unset /old\nstrategy unset /own\n");
    assert_eq!(fleet.routes(0).len(), 4, "nobody has told the router");
    fleet.agents[0] = Agent::start(&fleet.etcd, &fleet.routers[0], "r1");
    fleet.etcd.wait_current(&NAMES);
    let (two, three) = (fleet.port(1), fleet.port(2));
    assert_eq!(fleet.routes(0), [format!("/kept {two} 10"), format!("/kept {three} 20")]);
    let router = &fleet.routers[0];
    let mut own: Vec<String> = router
        .json("route list --origin static")
        .as_array()
        .expect("a list")
        .iter()
        .map(|route| format!("{} {}", route["prefix"].as_str().unwrap_or_default(), route["cost"]))
        .collect();
    own.sort();
    assert_eq!(own, ["/mine 0", "/old 7"]);
    let strategies = router.ok("strategy list");
    assert!(
        strategies.contains("/mine") && !strategies.contains("/old") && !strategies.contains("/own"),
        "{strategies}"
    );
}

#[test]
fn compaction_and_a_damaged_value_lead_to_the_head_and_to_nothing() {
    let Some(mut fleet) = Fleet::start() else { return };
    if Command::new("etcdctl").arg("version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: etcdctl is missing (on Debian: apt install etcd-client)");
        return;
    }
    let etcdctl = |etcd: &Etcd, words: &[&str]| {
        let mut command = Command::new("etcdctl");
        let output = command.env("ETCDCTL_API", "3").args(["--endpoints", &etcd.url()]).args(words).output();
        let output = output.expect("etcdctl");
        assert!(output.status.success(), "etcdctl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let reads = |etcd: &Etcd| etcd.node("r1").map(|node| node["reads"].as_u64());
    assert_eq!(reads(&fleet.etcd), Some(Some(1)));
    // The agents sleep, and their watches are lost with etcd.
    fleet.agents.iter().for_each(|agent| agent.signal("-STOP"));
    fleet.etcd.kill();
    fleet.etcd.start_again();
    fleet.etcd.fleet("--patience 0 route add /a to-2");
    let status: Value = serde_json::from_str(&fleet.etcd.fleet("status --json")).expect("JSON");
    let revision = status["revision"].as_i64().expect("a revision");
    etcdctl(&fleet.etcd, &["compact", &(revision + 1).to_string()]);
    fleet.agents.iter().for_each(|agent| agent.signal("-CONT"));
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(reads(&fleet.etcd), Some(Some(2)), "{}", fleet.agents[0].log());
    assert_eq!(fleet.routes(0).len(), 2);

    // A value that nobody can read: all is held. It is said which one.
    etcdctl(&fleet.etcd, &["put", "/byname/main/want/routes/b", "{"]);
    etcdctl(&fleet.etcd, &["del", "/byname/main/want/routes/a"]);
    wait_until("the agent says what it holds for", || {
        let held = fleet.etcd.node("r1").and_then(|node| node["held"].as_str().map(str::to_owned));
        held.is_some_and(|held| held.starts_with("/byname/main/want/routes/b: "))
    });
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(fleet.routes(0).len(), 2, "held for longer than the grace period");
    assert!(fleet.etcd.fleet("status").contains("holds what it has: /byname/main/want/routes/b: "));
    let done = fleet.etcd.try_fleet("show");
    assert!(done.code == 1 && done.stdout.contains("# damaged: /byname/main/want/routes/b"), "{}", done.stdout);
    fleet.etcd.fleet("route remove /b");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(fleet.routes(0), [""; 0]);
}

/// `byname fleet serve` at a router, or `byname fleet copy --follow`.
struct Server(Child);

impl Server {
    fn start(etcd: &Etcd, router: &Router) -> Server {
        let process = Command::new(PROGRAM)
            .args(["fleet", "serve", "--network", "/net", "--transport", &router.transport(), "--chunks"])
            .arg(etcd.chunks())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the server");
        Server(process)
    }

    /// Copies chunks of the writer.
    fn copying(etcd: &Etcd, to: &str) -> Server {
        let mut command = Command::new(PROGRAM);
        command.args(["fleet", "--chunks"]).arg(etcd.chunks()).args(["copy", "--follow", to]);
        Server(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("start byname"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rules of a table, without those of `step` that leave `rest`.
fn rules(count: usize, step: usize, rest: usize) -> String {
    (0..count).filter(|n| n % step != rest).map(|n| format!("/table/{n} to-2\n")).collect()
}

#[test]
fn tables_travel_as_chunks_through_the_routers() {
    const RULES: usize = 30_000;
    let Some(mut fleet) = Fleet::start() else { return };
    let of = |etcd: &Etcd, node: &str, what: &str| etcd.node(node).and_then(|node| node[what].as_u64()).unwrap_or(0);
    // Chunks are at r1. r3 asks r2, which asks r1.
    fleet.etcd.load(
        "group set chunks r2 to-r1:0\ngroup set chunks r3 to-r2:0\nroute add /net/32=fleet chunks\n\
         route add /table/7 to-3\n",
    );
    let server = Server::start(&fleet.etcd, &fleet.routers[0]);
    let file = fleet.etcd.file(&rules(RULES, 3, 0));
    let said = fleet.etcd.fleet(&format!("table load world {}", file.display()));
    assert!(said.starts_with("table world: 20000 rules, ") && said.contains(" chunks, "), "{said}");
    fleet.etcd.wait_current(&NAMES);
    // r1 has two ways, r2 none, and r3 one; with the rule that is a key of its own, and the way to chunks.
    assert_eq!(of(&fleet.etcd, "r1", "routes"), 2 * 20_000 - 1);
    assert_eq!((of(&fleet.etcd, "r2", "routes"), of(&fleet.etcd, "r3", "routes")), (1, 20_000));
    let three = fleet.port(2);
    let ways = |fleet: &Fleet, prefix: &str| -> Vec<String> {
        fleet.routes(0).into_iter().filter(|route| route.starts_with(&format!("{prefix} "))).collect()
    };
    assert_eq!(ways(&fleet, "/table/7"), [format!("/table/7 {three} 5")], "its own key goes before the table");
    assert_eq!(ways(&fleet, "/table/4").len(), 2);
    assert!(fleet.etcd.fleet("table list").starts_with("world  epoch 1, 0 deltas after manifest "));

    // Changes are deltas, and need no chunks.
    let fetched = of(&fleet.etcd, "r2", "chunks_fetched");
    assert!(fetched > 4, "{fetched}");
    assert!(fleet.etcd.fleet("table add world /new/rule to-3").contains("1 delta"));
    fleet.etcd.fleet("table remove world /table/1 /table/2");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(ways(&fleet, "/new/rule"), [format!("/new/rule {three} 5")]);
    assert_eq!((ways(&fleet, "/table/1"), ways(&fleet, "/table/2")), (vec![], vec![]));
    assert_eq!(of(&fleet.etcd, "r2", "chunks_fetched"), fetched);
    let shown = fleet.etcd.fleet("table show world");
    assert_eq!(shown.lines().count(), 20_000 - 2 + 1);

    // One node is away, and the table is loaded again with one rule less. It fetches what differs.
    fleet.agents[2].kill();
    let file = fleet.etcd.file(&shown.replace("/table/4 to-2\n", ""));
    fleet.etcd.fleet(&format!("table load world {}", file.display()));
    fleet.agents[2] = Agent::start(&fleet.etcd, &fleet.routers[2], "r3");
    fleet.etcd.wait_current(&NAMES);
    // The manifest, and the chunks of the four rules that differ.
    let again = of(&fleet.etcd, "r3", "chunks_fetched");
    assert!((2..=1 + 4).contains(&again) && again < fetched, "{again}, before {fetched}");
    assert_eq!((of(&fleet.etcd, "r3", "routes"), ways(&fleet, "/table/4")), (20_000 - 3, vec![]));

    // Nobody has the chunks: all nodes keep what they have, and say what they wait for.
    drop(server);
    let file = fleet.etcd.file("/other to-3\n");
    let said = fleet.etcd.fleet(&format!("--patience 1 table load world {}", file.display()));
    assert!(said.contains("0 of 3 live nodes have it") && said.contains("table world: "), "{said}");
    assert_eq!(of(&fleet.etcd, "r1", "routes"), 2 * (20_000 - 3));
    let _server = Server::start(&fleet.etcd, &fleet.routers[0]);
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(fleet.routes(0), [format!("/other {three} 5"), format!("/table/7 {three} 5")]);

    // Mistakes are explained.
    let bad = fleet.etcd.file("/a to-2\n/a to-3\n");
    for (line, code, part) in [
        (format!("table load world {}", bad.display()), 2, "line 2: another line has the same prefix"),
        ("table add no-such /a to-2".to_owned(), 1, "the fleet has no table no-such"),
        ("table drop no-such".to_owned(), 1, "the fleet has no table no-such"),
        ("table show no-such".to_owned(), 1, "the fleet has no table no-such"),
    ] {
        let done = fleet.etcd.try_fleet(&line);
        assert_eq!(done.code, code, "{line}: {}", done.stderr);
        assert!(done.stderr.contains(part), "{line}: {}", done.stderr);
    }
    fleet.etcd.fleet("table drop world");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(fleet.routes(0), [format!("/table/7 {three} 5")]);
}

#[test]
fn agents_take_chunks_from_folders_and_serve_them_and_deltas_become_manifests() {
    let Some(mut fleet) = Fleet::start() else { return };
    // Only r1's agent sees the copy of the writer's folder. Others fetch from it.
    fleet.agents[0].kill();
    let copied = format!("file://{}/copied", fleet.etcd.folder.path().display());
    fleet.agents[0] = Agent::start_with(&fleet.etcd, &fleet.routers[0], "r1", &["--chunks-from", &copied]);
    let copying = Server::copying(&fleet.etcd, &copied);
    fleet.etcd.load("group set chunks r2 to-r1:0\ngroup set chunks r3 to-r1:0\nroute add /net/32=fleet chunks\n");
    let file = fleet.etcd.file(&rules(100, 100, 0));
    fleet.etcd.fleet(&format!("table load world {}", file.display()));
    fleet.etcd.wait_current(&NAMES);
    for number in 0..66 {
        fleet.etcd.fleet(&format!("--patience 0 table add world /later/{number} to-2"));
    }
    fleet.etcd.wait_current(&NAMES);
    assert!(fleet.etcd.fleet("table list").starts_with("world  epoch 1, 2 deltas after manifest "));
    assert_eq!(fleet.routes(2).len(), 1 + 99 + 66);
    drop(copying);
    // The last chunks may not have been copied yet. Nothing is copied twice.
    fleet.etcd.fleet(&format!("copy {copied}"));
    let said = fleet.etcd.fleet(&format!("copy {copied}"));
    assert!(said.starts_with("0 chunks copied to ") && said.contains(" are there"), "{said}");
    let done = fleet.etcd.try_fleet("copy ftp://example/chunks");
    assert!(done.code == 2 && done.stderr.contains("neither a folder nor the URL"), "{}", done.stderr);
    // A node that comes back with nothing.
    fleet.agents[2].kill();
    std::fs::remove_dir_all(fleet.routers[2].path("agent.chunks")).expect("remove");
    fleet.agents[2] = Agent::start(&fleet.etcd, &fleet.routers[2], "r3");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(fleet.routes(2).len(), 1 + 99 + 66);
    let node = fleet.etcd.node("r3").expect("r3");
    assert_eq!((&node["tables"]["world"]["sequence"], &node["chunks_fetched"]), (&66.into(), &2.into()), "{node}");
}

#[test]
fn writers_take_turns_and_a_late_one_is_fenced() {
    let Some(etcd) = Etcd::start() else { return };
    let space = Space::new(&"main".parse().expect("a label"));
    byname_fleet::block_on(async {
        let login = Login { endpoints: vec!["http://127.0.0.1:1".to_owned(), etcd.url()], ..Login::default() };
        // The first endpoint does not exist.
        let connection = Endpoints::new(login).connect_any().await.expect("the second endpoint");
        let write = || vec![Write { key: Key::Route("/a".parse().expect("a name")), value: None }];
        let begin = |wait| Writer::begin(connection.clone(), space.clone(), "first".to_owned(), wait);
        let mut first = begin(Duration::ZERO).await.expect("nobody else writes");
        let busy = begin(Duration::from_millis(100)).await.expect_err("the first has not ended").to_string();
        assert!(busy.starts_with("first is writing"), "{busy}");
        first.write(write()).await.expect("it leads");
        // Its lease ends, as if it had been stopped for long; and another one begins.
        let leader = connection.read_all(&space.leader(), 1).await.expect("read");
        let lease = leader.kvs[0].lease;
        let revoked = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &etcd.url(), "lease", "revoke", &format!("{lease:x}")])
            .status();
        if !revoked.is_ok_and(|status| status.success()) {
            println!("skipped in part: etcdctl is missing (on Debian: apt install etcd-client)");
            return;
        }
        let mut second = begin(Duration::ZERO).await.expect("the first is gone");
        let fenced = first.write(write()).await.expect_err("it does not lead any more").to_string();
        assert!(fenced.starts_with("the right to write was lost"), "{fenced}");
        second.write(write()).await.expect("it leads");
        second.end().await.expect("end");
        begin(Duration::ZERO).await.expect("the second has ended").end().await.expect("end");
    })
    .expect("a runtime");
}

#[test]
fn the_demonstration_runs() {
    let output = Command::new(PROGRAM).args(["demo", "fleet"]).stdin(Stdio::null()).output().expect("start byname");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if stderr.contains("needs etcd in the path") {
        println!("skipped: etcd is missing (on Debian: apt install etcd-server)");
        return;
    }
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for part in ["3 of 3 live nodes have it", "a ping is answered without etcd", "geneva has no route any more"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}

/// Time from a change of a group, which is one key, until the FIB of every router shows it. Prints p50 and p99.
#[test]
fn a_changed_group_is_soon_in_all_tables() {
    let Some(fleet) = Fleet::start() else { return };
    let changes: usize = std::env::var("BYNAME_TEST_CHANGES").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let lines = "group set g r1 to-r2:0\ngroup set g r2 to-r3:0\ngroup set g r3 to-r2:0\nroute add /timed g\n";
    fleet.etcd.load(lines);
    fleet.etcd.wait_current(&NAMES);
    let mut links: Vec<Link> = fleet
        .routers
        .iter()
        .map(|router| {
            let candidates = Environment::of_process().candidates(Some(&router.transport())).expect("an address");
            Link::connect(&candidates).expect("connect")
        })
        .collect();
    let mut times: Vec<Duration> = Vec::new();
    byname_fleet::block_on(async {
        let login = Login { endpoints: vec![fleet.etcd.url()], ..Login::default() };
        let connection = Endpoints::new(login).connect().await.expect("connect");
        let space = Space::new(&"main".parse().expect("a label"));
        let mut writer =
            Writer::begin(connection, space, "the test".to_owned(), Duration::from_secs(5)).await.expect("begin");
        for cost in 1_001..=1_000 + changes as u64 {
            let write = |(node, link): (&str, &str)| Write {
                key: Key::Group { group: "g".parse().expect("a label"), node: node.parse().expect("a label") },
                value: Some(Group { nexthops: vec![Nexthop { link: link.parse().expect("a label"), cost }] }.encode()),
            };
            let begun = Instant::now();
            let ways = [("r1", "to-r2"), ("r2", "to-r3"), ("r3", "to-r2")];
            writer.write(ways.map(write).into()).await.expect("write");
            for link in &mut links {
                loop {
                    let fib = dataset(link, "fib", "list", None).expect("the FIB");
                    let entries: Vec<byname_mgmt::FibEntry> = byname_mgmt::decode_list(&fib).expect("entries");
                    let timed = entries.iter().find(|entry| entry.name.to_string() == "/timed").expect("the prefix");
                    if timed.next_hop_records.iter().any(|record| record.cost == cost) {
                        break;
                    }
                    assert!(begun.elapsed() < PATIENCE, "a change does not arrive");
                }
            }
            times.push(begun.elapsed());
        }
        writer.end().await.expect("end");
    })
    .expect("a runtime");
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{changes} changes of a group, 3 routers: p50 {:.1} ms, p99 {:.1} ms", at(50), at(99));
    // A quiet machine takes some ms. This is about agents that wait for something.
    assert!(at(50) < 1_000.0, "{times:?}");
}
