//! A builder makes tables for two routers that do not have their names.

use std::path::Path;

use byname_lookup::file::changes::{Changes, path_of};

use super::*;

/// `byname builder` at a router.
pub struct Builder {
    process: Child,
    log: PathBuf,
}

impl Builder {
    pub fn start(etcd: &Etcd, router: &Router, folder: &str) -> Builder {
        let log = router.path(&format!("{folder}.log"));
        let file = File::options().create(true).append(true).open(&log).expect("log");
        let process = Command::new(PROGRAM)
            .args(["builder", "--etcd", &etcd.url(), "--transport", &router.transport(), "--network", "/net"])
            .args(["--pause", "100", "--chunks"])
            .arg(router.path(folder))
            .arg("--chunks-from")
            .arg(etcd.chunks())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("start the builder");
        Builder { process, log }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two routers with their agents. The second one fetches through the first.
pub struct Pair {
    pub etcd: Etcd,
    pub routers: Vec<Router>,
    pub agents: Vec<Agent>,
}

pub const PAIR: [&str; 2] = ["r1", "r2"];

/// Changes a bit in the middle of a file.
pub fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // Not in place: the router has mapped it.
    std::fs::remove_file(path).expect("removed");
    std::fs::write(path, bytes).expect("written");
}

impl Pair {
    pub fn start(configuration: &str) -> Option<Pair> {
        let etcd = Etcd::start()?;
        let configuration = format!("{configuration}[fleet]\ntables = \"tables/fleet.toml\"\n");
        let routers: Vec<Router> = PAIR.iter().map(|_| Router::start_with(&configuration)).collect();
        let agents = (0..2).map(|at| agent(&etcd, &routers[at], PAIR[at])).collect();
        let [one, two] = [0, 1].map(|at: usize| routers[at].port);
        etcd.load(&format!(
            "link add r1 peer udp4://127.0.0.1:{two}\nlink add r2 peer udp4://127.0.0.1:{one}\n\
             link add r1 out udp4://127.0.0.1:9\n\
             group set west r1 peer:10\ngroup set east r1 out:20\ngroup set west r2 peer:5\ngroup set chunks r1 peer:50\ngroup set chunks r2 peer:50\n\
             route add /net/32=fleet chunks\n"
        ));
        etcd.wait_current(&PAIR);
        Some(Pair { etcd, routers, agents })
    }

    pub fn load(&self, rules: &str, options: &str) -> String {
        let file = self.etcd.file(rules);
        self.etcd.fleet(&format!("--patience 40 table load {options} {}", file.display()))
    }

    /// The way that a name has at a router: the port and the cost of its first nexthop.
    fn way(&self, router: usize, name: &str) -> String {
        let found = self.routers[router].json(&format!("route get {name}"));
        let first = &found["nexthops"][0];
        let port = first["remote_uri"].as_str().and_then(|uri| uri.rsplit(':').next());
        format!("{} {}", port.unwrap_or("none"), first["cost"])
    }

    /// Files of tables at a router.
    pub fn files(&self, router: usize) -> Vec<String> {
        let all = std::fs::read_dir(self.routers[router].path("tables")).expect("a folder");
        let names = all.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned());
        let is_table = |name: &String| !name.starts_with("fleet.toml") && !name.ends_with(".changes");
        let mut names: Vec<String> = names.filter(is_table).collect();
        names.sort();
        names
    }

    /// Number of changes beside the file of rules that a router uses.
    fn changes(&self, router: usize) -> Option<u64> {
        let text = std::fs::read_to_string(self.routers[router].path("tables/fleet.toml")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("bulk_changes = "))?.parse().ok()
    }

    /// The table of a router, with its changes.
    fn table(&self, router: usize) -> Option<Vec<u8>> {
        let path = self.routers[router].path("tables").join(self.files(router).first()?);
        let mut bytes = std::fs::read(&path).ok()?;
        Changes::read(&path, self.changes(router)).ok()?.put(0, &mut bytes);
        Some(bytes)
    }

    pub fn fetched(&self, node: &str) -> u64 {
        self.etcd.node(node).and_then(|node| node["chunks_fetched"].as_u64()).unwrap_or(0)
    }

    fn blocks(&self) -> u64 {
        let bytes = std::fs::metadata(self.routers[0].path("tables").join(&self.files(0)[0])).expect("a file").len();
        bytes.div_ceil(64 << 10)
    }
}

pub fn agent(etcd: &Etcd, router: &Router, node: &str) -> Agent {
    let settings = router.path("tables/fleet.toml").display().to_string();
    Agent::start_with(etcd, router, node, &["--tables", &settings])
}

fn many(count: usize, group: &str) -> String {
    (0..count).map(|n| format!("/names/{}/{n} {group}\n", n % 83)).collect()
}

#[test]
fn routers_forward_by_tables_whose_names_they_do_not_have() {
    const RULES: usize = 60_000;
    let Some(mut pair) = Pair::start("") else { return };
    let builder = Builder::start(&pair.etcd, &pair.routers[0], "builder");
    let said = pair.load(&(many(RULES, "west") + "/own east\n"), "world --built");
    assert!(said.contains("60001 rules") && said.contains(", built, ") && said.contains("2 of 2 live nodes"), "{said}");
    let ports = [0, 1].map(|at: usize| pair.routers[at].port);
    // One file for both, other nexthops at each: a group that a node does not have is no rule there.
    let ways = |pair: &Pair, name: &str| [0, 1].map(|at| pair.way(at, name));
    assert_eq!(ways(&pair, "/names/1/1/x"), [format!("{} 10", ports[1]), format!("{} 5", ports[0])]);
    assert_eq!(ways(&pair, "/own/x"), ["9 20".to_owned(), "none null".to_owned()]);
    assert_eq!(pair.way(0, "/names/1/0"), "none null", "no rule");
    assert_eq!(pair.files(0), pair.files(1));
    for node in PAIR {
        let report = pair.etcd.node(node).expect("it reports");
        assert_eq!(report["tables"]["world"]["rows"], 60_001, "{report}");
        assert!(report["routes"].as_u64().is_some_and(|routes| routes <= 4), "routes of groups only: {report}");
    }
    let list = pair.etcd.fleet("table list");
    assert!(list.starts_with("world  epoch 1, ") && list.contains("; built: 60001 rows, a file of "), "{list}");
    assert!(pair.etcd.fleet("status").contains("building    "));

    // The secret is in the files, which are for their owner alone, and in no chunk.
    let file = pair.routers[0].path("tables").join(&pair.files(0)[0]);
    let secret = std::fs::read(&file).expect("a file")[24..40].to_vec();
    assert!(secret.iter().any(|byte| *byte != 0));
    for folder in [pair.routers[0].path("builder"), pair.routers[1].path("agent.chunks")] {
        let mut chunks = 0;
        for chunk in std::fs::read_dir(&folder).expect("a folder") {
            let bytes = std::fs::read(chunk.expect("a chunk").path()).expect("a chunk");
            assert!(!bytes.windows(16).any(|window| window == secret), "{}", folder.display());
            chunks += 1;
        }
        assert!(chunks > 5, "{}", folder.display());
    }
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);

    // A group changes: one route at each node.
    pair.etcd.fleet("group set west r1 out:7");
    pair.etcd.wait_current(&PAIR);
    assert_eq!(ways(&pair, "/names/1/1"), ["9 7".to_owned(), format!("{} 5", ports[0])]);

    // Few rules change: few blocks do. Groups that a rule is the first of keep the others' numbers.
    let (before, blocks) = (pair.fetched("r2"), pair.blocks());
    pair.etcd.fleet("group set alone r2 peer:3");
    let said = pair.etcd.fleet("--patience 40 table add world /new/rule alone");
    assert!(said.contains("1 delta, built, ") && said.contains("2 of 2 live nodes"), "{said}");
    pair.etcd.fleet("--patience 40 table remove world /names/1/1");
    // The new group was built whole. After that, the names are in memory.
    let log = builder.log();
    assert_eq!((log.matches("rows built in").count(), log.matches("1 changes made in").count()), (2, 1), "{log}");
    assert!(log.contains("a patch of "), "{log}");
    assert_eq!(ways(&pair, "/new/rule"), ["none null".to_owned(), format!("{} 3", ports[0])]);
    assert_eq!(ways(&pair, "/names/1/1"), ["none null", "none null"]);
    let fetched = pair.fetched("r2") - before;
    assert!((3..blocks).contains(&fetched), "{fetched} of {blocks} blocks, twice");
    assert_eq!(pair.files(0).len(), 1, "old files are gone: {:?}", pair.files(0));

    // Everything but the routers is away. They forward, also after a restart.
    pair.agents.iter_mut().for_each(Agent::kill);
    drop(builder);
    pair.etcd.kill();
    let router = pair.routers.remove(1).start_again();
    pair.routers.insert(1, router);
    wait_until("the routes of groups are back", || pair.way(1, "/names/2/2").ends_with(" 5"));

    // All is back, and nothing is built again or fetched.
    pair.etcd.start_again();
    let builder = Builder::start(&pair.etcd, &pair.routers[0], "builder");
    pair.agents = (0..2).map(|at| agent(&pair.etcd, &pair.routers[at], PAIR[at])).collect();
    pair.etcd.wait_current(&PAIR);
    wait_until("it leads", || builder.log().contains("taken over as it is built"));
    assert_eq!(builder.log().matches("rows built in").count(), 2, "{}", builder.log());
    // Reports of the agents before go with their leases.
    wait_until("nothing is fetched", || (pair.fetched("r1"), pair.fetched("r2")) == (0, 0));
    pair.etcd.wait_current(&PAIR);

    // The table goes, and so do its rules, its file and the routes of groups.
    pair.etcd.fleet("table drop world");
    pair.etcd.wait_current(&PAIR);
    assert_eq!((ways(&pair, "/names/2/2"), pair.files(0)), (["none null".to_owned(), "none null".to_owned()], vec![]));
    for (at, routes) in [(0, 1), (1, 1)] {
        let left = pair.routers[at].json("route list --origin fleet");
        assert_eq!(left.as_array().map(Vec::len), Some(routes), "{left}");
    }
}

#[test]
fn builders_stand_in_for_each_other_and_damage_is_found() {
    let Some(mut pair) = Pair::start("") else { return };
    let status = |pair: &Pair| -> Value { serde_json::from_str(&pair.etcd.fleet("status --json")).expect("JSON") };
    // Nobody builds yet. All is as it was, and it is said.
    let file = pair.etcd.file(&many(20_000, "west"));
    let said = pair.etcd.fleet(&format!("--patience 1 table load world --built {}", file.display()));
    assert!(said.contains("not built yet"), "{said}");
    assert!(pair.etcd.fleet("table list").contains("; not built yet: see `byname builder`"));
    pair.etcd.wait_current(&PAIR);
    assert_eq!(pair.way(0, "/names/1/1"), "none null");

    let first = Builder::start(&pair.etcd, &pair.routers[0], "first");
    wait_until("it is built", || pair.etcd.fleet("table list").contains("; built: 20000 rows"));
    pair.etcd.wait_current(&PAIR);
    let (way, name) = (pair.way(0, "/names/1/1"), pair.files(0));
    assert!(way.ends_with(" 10"), "{way}");
    let second = Builder::start(&pair.etcd, &pair.routers[1], "second");
    wait_until("it stands by", || second.log().contains("another builder leads"));

    // The leader sleeps for longer than its lease. The other one fetches the blocks from agents, and takes over; with the same key, one
    // rule more is a part of the file only.
    let leader = status(&pair)["building"]["by"].clone();
    let pid = first.process.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &pid]).status().expect("kill").success());
    wait_until("the second leads", || second.log().contains("world: taken over as it is built"));
    assert_ne!(status(&pair)["building"]["by"], leader);
    assert_eq!(pair.files(0), name);
    pair.etcd.fleet("--patience 40 table add world /more west");
    assert!(pair.way(0, "/more").ends_with(" 10"));
    assert!(second.log().contains("20001 rows built"), "{}", second.log());
    // The first one wakes up, and does not lead.
    assert!(Command::new("kill").args(["-CONT", &pid]).status().expect("kill").success());
    wait_until("it sees that", || first.log().contains("the lead was lost"));
    wait_until("it stands by", || first.log().contains("another builder leads"));
    drop(first);

    // The leader is killed while it has something to build, and all of its chunks are gone. The next one has none of its own: it reads
    // the chunks of the table, and fetches blocks from agents.
    let file = pair.etcd.file(&many(20_000, "east"));
    drop(second);
    std::fs::remove_dir_all(pair.routers[1].path("second")).expect("removed");
    pair.etcd.fleet(&format!("--patience 0 table load world --built {}", file.display()));
    let third = Builder::start(&pair.etcd, &pair.routers[0], "third");
    wait_until("it is built", || pair.etcd.fleet("table list").contains("; built: 20000 rows"));
    pair.etcd.wait_current(&PAIR);
    assert_eq!(pair.way(0, "/names/1/1"), "9 20", "{}", third.log());

    // A damaged file, chunk and block at an agent: all are found out when the agent starts, and fetched again.
    pair.agents[1].kill();
    damage(&pair.routers[1].path("tables").join(&pair.files(1)[0]));
    for chunk in std::fs::read_dir(pair.routers[1].path("agent.chunks")).expect("a folder") {
        damage(&chunk.expect("a chunk").path());
    }
    pair.agents[1] = agent(&pair.etcd, &pair.routers[1], "r2");
    wait_until("the file is whole again", || pair.table(0).is_some() && pair.table(0) == pair.table(1));
    pair.etcd.wait_current(&PAIR);

    // Mistakes are explained.
    for (rules, line, code, part) in [
        ("/a west\n", "table load other --built", 1, "the table world is built already"),
        ("/a west\n", "table load world", 1, "the table world is of another kind"),
        ("/a west --capture\n", "table load flags --built", 2, "leave --no-inherit and --capture out"),
    ] {
        let done = pair.etcd.try_fleet(&format!("{line} {}", pair.etcd.file(rules).display()));
        assert_eq!(done.code, code, "{line}: {}", done.stderr);
        assert!(done.stderr.contains(part), "{line}: {}", done.stderr);
    }
}

/// Changes go beside the file that routers have mapped, while packets flow, agents are killed and changes are torn.
#[test]
fn changes_are_kept_beside_the_file_and_no_packet_is_lost() {
    let Some(mut pair) = Pair::start("") else { return };
    let _builder = Builder::start(&pair.etcd, &pair.routers[0], "builder");
    pair.load(&many(60_000, "west"), "world --built");
    let (base, port) = (pair.files(0), pair.routers[0].port);
    assert_eq!((pair.changes(0), pair.changes(1)), (Some(0), Some(0)));
    let _server = pair.routers[1].serve("ping-server --quiet /names/1/1", "/names/1/1/ping", b"");
    // Past both routers, by the rules of the file.
    let pings =
        pair.routers[0].command("ping --json --interval 2 --count 3000 /names/1/1").stdout(Stdio::piped()).spawn();
    let pings = pings.expect("start byname");
    for round in 1..=5 {
        pair.etcd.fleet(&format!("--patience 40 table add world /new/{round} west"));
        assert_eq!(pair.way(1, &format!("/new/{round}/x")), format!("{port} 5"));
        assert_eq!((pair.changes(0), pair.changes(1)), (Some(round), Some(round)));
    }
    let pings = pings.wait_with_output().expect("it ends");
    let pings: Value = serde_json::from_slice(&pings.stdout).expect("JSON");
    assert_eq!((&pings["received"], &pings["transmitted"]), (&Value::from(3_000), &Value::from(3_000)), "{pings}");
    assert_eq!((pair.files(0), pair.files(1)), (base.clone(), base.clone()));
    assert_eq!(pair.table(0), pair.table(1));

    // An agent is killed, and its last change is torn. Its router starts again without it, with the changes that it had.
    pair.agents[1].kill();
    let path = pair.routers[1].path("tables").join(&base[0]);
    let whole = std::fs::read(path_of(&path)).expect("changes");
    std::fs::write(path_of(&path), [&whole[..], &whole[64..200]].concat()).expect("written");
    let router = pair.routers.remove(1).start_again();
    pair.routers.insert(1, router);
    wait_until("the routes of groups are back", || pair.way(1, "/new/5").ends_with(" 5"));
    pair.etcd.try_fleet("--patience 1 table remove world /new/5");
    pair.agents[1] = agent(&pair.etcd, &pair.routers[1], "r2");
    wait_until("it goes on", || pair.changes(1) == Some(6));
    pair.etcd.wait_current(&PAIR);
    assert_eq!((pair.way(1, "/new/5"), pair.files(1)), ("none null".to_owned(), base.clone()));
    assert_eq!(pair.table(0), pair.table(1));

    // A change is damaged: the file is made of its blocks.
    pair.agents[1].kill();
    let mut damaged = std::fs::read(path_of(&path)).expect("changes");
    damaged[300] ^= 1;
    std::fs::write(path_of(&path), damaged).expect("written");
    pair.agents[1] = agent(&pair.etcd, &pair.routers[1], "r2");
    wait_until("it is whole again", || {
        pair.files(1).len() == 1 && pair.files(1) != base && pair.table(0) == pair.table(1)
    });
    pair.etcd.wait_current(&PAIR);
    assert_eq!(pair.changes(1), Some(0));
}

#[test]
fn flat_names_are_built_and_a_router_that_does_not_take_files_is_told() {
    let Some(mut pair) = Pair::start("") else { return };
    let _builder = Builder::start(&pair.etcd, &pair.routers[0], "builder");
    let names: String = (0..5_000).map(|n| format!("/object-{n} west\n")).collect();
    let said = pair.load(&names, "objects --flat /objects --check 12");
    assert!(said.contains("5000 names") && said.contains(", built, "), "{said}");
    let port = pair.routers[1].port;
    assert_eq!(pair.way(0, "/objects/object-7/x"), format!("{port} 10"));
    pair.etcd.fleet("--patience 40 table add objects /film.mp4 east");
    pair.etcd.fleet("--patience 40 table remove objects /object-7");
    assert_eq!(pair.way(0, "/objects/film.mp4"), "9 20");
    // With rules beside it.
    pair.load("/objects west\n/video west\n", "world --built");
    assert_eq!(pair.way(0, "/video/7"), format!("{port} 10"));
    assert_eq!(pair.way(0, "/objects/film.mp4"), "9 20");
    let list = pair.etcd.fleet("table list");
    assert!(list.contains("; flat names below /objects; built: 5000 rows"), "{list}");
    for (rules, line, part) in [
        ("/a/b west\n", "table load o --flat /o", "a flat name is one component"),
        ("/a west\n", "table load o --flat /objects", "the table objects has the flat names of this prefix already"),
        ("/a west\n", "table load objects --flat /o", "the table objects has names of another prefix"),
    ] {
        let file = pair.etcd.file(rules);
        let done = pair.etcd.try_fleet(&format!("{line} {}", file.display()));
        assert!(done.code != 0 && done.stderr.contains(part), "{line}: {}", done.stderr);
    }

    // A router whose configuration does not name the file. The agent says so, and takes its settings back.
    pair.agents[1].kill();
    let settings = pair.routers[1].path("elsewhere/fleet.toml");
    let text = settings.display().to_string();
    pair.agents[1] = Agent::start_with(&pair.etcd, &pair.routers[1], "r2", &["--tables", &text]);
    let failure = |pair: &Pair| pair.etcd.node("r2").and_then(|node| node["failure"].as_str().map(str::to_owned));
    wait_until("it says so", || failure(&pair).is_some_and(|why| why.contains("name this file in its configuration")));
    wait_until("they are gone", || !settings.exists());
    assert!(pair.way(1, "/video").ends_with(" 5"), "it has what it had");
    pair.agents[1].kill();
    pair.agents[1] = Agent::start(&pair.etcd, &pair.routers[1], "r2");
    let held = |pair: &Pair| pair.etcd.node("r2").and_then(|node| node["held"].as_str().map(str::to_owned));
    wait_until("it holds", || held(&pair).is_some_and(|why| why.contains("start the agent with --tables")));
}
