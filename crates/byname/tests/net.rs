//! `byname demo net`: networks in namespaces and on the loopback interface, and what is left of them afterwards.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, PROGRAM, assert_documented, finish, wait};
use serde_json::Value;

/// A running network, with a folder for temporary files of its own.
struct Net {
    process: Child,
    told: String,
    temporary: PathBuf,
}

fn byname(temporary: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).env("TMPDIR", temporary).env("HOME", temporary);
    command
}

fn done(temporary: &Path, words: &[&str]) -> Done {
    finish(byname(temporary, words))
}

impl Net {
    /// Starts a network, and waits until it is ready.
    fn start(temporary: &Path, words: &[&str]) -> Net {
        let mut command = byname(temporary, &[&["demo", "net"], words].concat());
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawned");
        let mut net = Net { process, told: String::new(), temporary: temporary.to_owned() };
        for line in BufReader::new(net.process.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            net.told += &format!("{line}\n");
            if line == "Ctrl-C ends it." {
                return net;
            }
        }
        panic!("no network: {}", net.told);
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    /// Routers that end one after another do not tell of each other.
    fn assert_ends_in_silence(&mut self) {
        self.signal("-TERM");
        assert_eq!(wait(&mut self.process), 0);
        let mut messages = String::new();
        self.process.stderr.take().expect("piped").read_to_string(&mut messages).expect("text");
        assert_eq!(messages, "");
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = done(&self.temporary, &["demo", "net", "stop"]);
    }
}

/// Processes that have this folder in their command line.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("text");
    let lines = std::fs::read_dir("/proc").expect("Linux").flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder)).collect()
}

fn assert_nothing_left(temporary: &Path) {
    let end = Instant::now() + Duration::from_secs(5);
    while !processes_of(temporary).is_empty() {
        assert!(Instant::now() < end, "{:?}", processes_of(temporary));
        std::thread::sleep(Duration::from_millis(20));
    }
    let left: Vec<_> = std::fs::read_dir(temporary).expect("a folder").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn http(address: &str) -> String {
    let (host, path) = address.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
    let mut connection = TcpStream::connect(host).expect("connected");
    write!(connection, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("written");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Looks at a ring of five routers, ends it, and finds nothing left.
fn try_ring(words: &[&str], place: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path();
    let mut net = Net::start(temporary, &[&["5", "--topology", "ring", "--delay", "4ms"], words].concat());
    assert!(net.told.starts_with(&format!("5 routers in a ring, {place}")), "{}", net.told);
    let list = done(temporary, &["demo", "net", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).expect("JSON");
    let routers = list["routers"].as_array().expect("a list");
    assert_eq!(routers.len(), 5);
    assert_documented("network", &list);
    assert_documented("demo router", &routers[0]);
    let page = http(list["page"].as_str().expect("an address"));
    for router in routers {
        let address = router["http"].as_str().expect("an address");
        assert!(page.contains(&format!("href=\"{address}/\"")), "{page}");
        assert!(http(&format!("{address}/metrics")).contains("byname_build_info"), "{address}");
    }
    // Two links there and two back, and no answer from a store on the way.
    let ping = ["demo", "net", "shell", "r1", "--", "byname", "ping", "/net/r3", "-c", "2", "-i", "20", "--json"];
    let pinged = done(temporary, &ping);
    let statistics: Value = serde_json::from_str(&pinged.stdout).unwrap_or_else(|_| panic!("{}", pinged.stderr));
    assert_eq!(statistics["received"], 2, "{statistics}");
    assert!(statistics["rtt_min_ms"].as_f64().is_some_and(|ms| ms >= 16.0), "{statistics}");
    let shell = ["demo", "net", "shell", "r4", "--", "sh", "-c", "echo $BYNAME_ROUTER $NDN_CLIENT_TRANSPORT"];
    let told = done(temporary, &shell).stdout;
    assert!(told.starts_with("r4 unix:///") && told.trim().ends_with("/r4.sock"), "{told}");
    assert_eq!(done(temporary, &["demo", "net", "shell", "r9"]).code, 6);
    let second = done(temporary, &["demo", "net", "2"]);
    assert!(second.code == 1 && second.stderr.contains("`byname demo net stop` ends it"), "{}", second.stderr);
    net.assert_ends_in_silence();
    assert_nothing_left(temporary);
    assert_eq!(done(temporary, &["demo", "net", "list"]).code, 4);
}

#[test]
fn a_ring_in_namespaces_or_else_on_loopback() {
    let is_root = Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|status| status.success());
    try_ring(&[], if is_root { "each in a network namespace" } else { "all on the loopback interface" });
}

#[test]
fn a_ring_on_loopback() {
    try_ring(&["--loopback"], "all on the loopback interface");
}

#[test]
fn routers_find_their_ways_themselves_with_keys_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path();
    let mut net = Net::start(temporary, &["4", "--topology", "ring", "--routing"]);
    assert!(net.told.contains("The routers have found their ways in "), "{}", net.told);
    assert!(net.told.contains(", which find their ways themselves"), "{}", net.told);
    let at = |router: &str, words: &[&str]| {
        done(temporary, &[&["demo", "net", "shell", router, "--", "byname"], words].concat())
    };
    assert_eq!(at("r1", &["ping", "/net/r3", "-c", "2", "-i", "20"]).code, 0, "over two links");
    let status: Value = serde_json::from_str(&at("r1", &["routing", "--json"]).stdout).expect("JSON");
    assert!(status["certificate"].as_str().is_some_and(|name| name.starts_with("/net/r1/32=DV/KEY/")), "{status}");
    assert_eq!((status["routers_reachable"].as_u64(), status["untrusted"].as_u64()), (Some(3), Some(0)));
    // A neighbor tells of its other link, and the map of the dashboard shows it.
    let routers: Value = serde_json::from_str(&at("r1", &["routing", "routers", "--json"]).stdout).expect("JSON");
    let second = routers.as_array().expect("a list").iter().find(|router| router["router"] == "/net/r2").expect("r2");
    assert_documented("routing router", second);
    assert_eq!(second["links"], serde_json::json!([{ "router": "/net/r3", "cost": 1 }]), "{routers}");
    let list: Value = serde_json::from_str(&done(temporary, &["demo", "net", "list", "--json"]).stdout).expect("JSON");
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = http(&format!("{}/api/v1/map", list["routers"][0]["http"].as_str().expect("an address")));
        let map: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
        let routing = &map["routing"];
        let links = routing["routers"].as_array().map(|routers| routers.iter().map(|router| router["links"].clone()));
        if links.is_some_and(|mut links| links.any(|link| link == second["links"])) {
            assert_eq!((&routing["router"], &routing["routers_total"]), (&"/net/r1".into(), &3.into()), "{map}");
            assert_eq!((&routing["links_total"], &routing["links"][0]["used"]), (&2.into(), &true.into()), "{map}");
            break;
        }
        assert!(Instant::now() < end, "{map}");
        std::thread::sleep(Duration::from_millis(100));
    }
    net.assert_ends_in_silence();
    assert_nothing_left(temporary);
}

#[test]
fn a_killed_network_is_cleaned_up_by_the_next_or_by_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path();
    let crash = |net: &mut Net| {
        net.signal("-KILL");
        net.process.wait().expect("ended");
        assert_eq!(done(temporary, &["demo", "net", "list"]).code, 4, "nobody keeps it");
        assert_eq!(processes_of(temporary).len(), 3, "its routers go on");
    };
    let mut first = Net::start(temporary, &["3"]);
    crash(&mut first);
    let mut second = Net::start(temporary, &["3", "--topology", "grid"]);
    assert!(second.told.starts_with("An earlier network had left 3 routers"), "{}", second.told);
    crash(&mut second);
    let stopped = done(temporary, &["demo", "net", "stop"]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (0, "the network has ended\n"));
    assert_nothing_left(temporary);
    // A network that runs is ended, too, and its process with it.
    let mut third = Net::start(temporary, &["2", "--loopback"]);
    let stopped = done(temporary, &["demo", "net", "stop"]);
    assert_eq!((stopped.code, wait(&mut third.process)), (0, 0), "{}", stopped.stderr);
    assert_nothing_left(temporary);
    assert_eq!(done(temporary, &["demo", "net", "stop"]).stdout, "there is no network\n");
}

#[test]
fn topologies_come_from_files_and_bad_ones_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let temporary = folder.path();
    let graph = temporary.join("small.gml");
    let text = "graph [ node [ id 4 label \"Geneva\" ] node [ id 5 label \"Zurich\" ] node [ id 6 label \"Lugano\" ] \
                edge [ source 4 target 5 ] edge [ source 5 target 6 ] ]";
    std::fs::write(&graph, text).expect("written");
    let topology = graph.to_str().expect("text");
    {
        let net = Net::start(temporary, &["--topology", topology, "--loss", "0.05", "--loopback"]);
        assert!(net.told.contains("3 routers of a file") && net.told.contains("shell r2  Zurich"), "{}", net.told);
        let ping =
            ["demo", "net", "shell", "geneva", "--", "byname", "ping", "/net/r3", "-c", "1", "--timeout", "2000"];
        assert!((0..5).any(|_| done(temporary, &ping).code == 0), "some are lost, and not all");
    }
    for (words, why) in [
        (&["--topology", "no-such-file"][..], "neither line, ring or grid"),
        (&["1"], "at least two routers"),
        (&["5000"], "too many"),
        (&["7", "--topology", topology], "has 3 routers"),
        (&["--loss", "2"], "from 0 (no packet) to 1"),
        (&["--delay", "1h"], "at most 10s"),
    ] {
        let refused = done(temporary, &[&["demo", "net"], words].concat());
        assert!(refused.code == 2 && refused.stderr.contains(why), "{words:?}: {} {}", refused.code, refused.stderr);
    }
}
