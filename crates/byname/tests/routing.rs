//! Networks of routers that find their routes themselves, on this host.

mod common;

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byname_trust::{Certificate, Signer, Terms, issue, read_private_key, wrapped_base64};
use byname_wire::{Component, Name};
use common::{PROGRAM, Router, assert_documented, write_sample};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Folders with the keys of these routers of `/net`.
fn keys(routers: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut command = std::process::Command::new(PROGRAM);
    command.args(["key", "--folder", &at("anchor"), "network", "/net", "--out", &at("of"), "--type", "ed25519"]);
    let made = command.args(routers).output().expect("byname key");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

/// The configuration of a router with these neighbours, by their ports.
fn of(name: &str, keys: &Path, neighbors: &[u16]) -> String {
    let mut text = format!(
        "[routing]\nnetwork = \"/net\"\nname = \"/net/{name}\"\nmulticast = false\nkeys = \"{}\"\n\
         advertise_interval = \"1 s\"\ndead_interval = \"3 s\"\nhold_down = \"100 ms\"\n",
        keys.display()
    );
    for port in neighbors {
        text += &format!("[[routing.neighbor]]\nface = \"udp4://127.0.0.1:{port}\"\n");
    }
    text
}

fn key_of(keys: &TempDir, name: &str) -> PathBuf {
    keys.path().join("of").join(name)
}

fn start(keys: &TempDir, name: &str, neighbors: &[u16]) -> Router {
    Router::start_with(&of(name, &key_of(keys, name), neighbors))
}

/// A router whose two packet threads both work.
fn start_with_two_threads(keys: &TempDir, name: &str, neighbors: &[u16]) -> Router {
    let threads = "[threads]\ncount = 2\npin = false\nrest = false\n";
    Router::start_with(&(of(name, &key_of(keys, name), neighbors) + threads))
}

fn neighbors(router: &Router) -> Vec<Value> {
    router.json("routing neighbors").as_array().expect("a list").clone()
}

fn status(router: &Router, field: &str) -> u64 {
    router.json("routing")[field].as_u64().unwrap_or_else(|| panic!("a number: {field}"))
}

fn has_route(router: &Router, prefix: &str) -> bool {
    router.run(&format!("route show {prefix}")).code == 0
}

/// A link that can be cut: passes datagrams between a router that sends to it and another one.
struct Cable {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Cable {
    fn to(port: u16) -> Cable {
        let near = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
        far.connect(("127.0.0.1", port)).expect("an address");
        let cable = Cable { port: near.local_addr().expect("an address").port(), is_cut: Arc::default() };
        let caller: Arc<std::sync::Mutex<Option<SocketAddr>>> = Arc::default();
        let (near_back, far_back) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
        let (is_cut, known) = (Arc::clone(&cable.is_cut), Arc::clone(&caller));
        // The threads end with the process.
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                // A router that has ended refuses datagrams. The next one may be taken.
                let Ok((len, from)) = near.recv_from(&mut buffer) else { continue };
                *known.lock().expect("a lock") = Some(from);
                if !is_cut.load(Ordering::Relaxed) {
                    let _ = far.send(&buffer[..len]);
                }
            }
        });
        let is_cut = Arc::clone(&cable.is_cut);
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                let Ok(len) = far_back.recv(&mut buffer) else { continue };
                if let (Some(to), false) = (*caller.lock().expect("a lock"), is_cut.load(Ordering::Relaxed)) {
                    let _ = near_back.send_to(&buffer[..len], to);
                }
            }
        });
        cable
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

#[test]
fn three_routers_in_a_line_find_each_other_and_what_they_serve() {
    let keys = keys(&["a", "b", "c"]);
    let far = start(&keys, "c", &[]);
    let middle = start(&keys, "b", &[far.port]);
    let near = start(&keys, "a", &[middle.port]);
    let server = far.serve("ping-server --announce /app/far", "/app/far/ping", b"");
    wait_until("the route over three routers", || has_route(&near, "/app/far/ping"));
    assert!(near.reaches("/app/far"), "{}", near.log());
    let _other = near.serve("ping-server --announce /app/near", "/app/near/ping", b"");
    wait_until("the route back", || has_route(&far, "/app/near/ping"));
    assert!(far.reaches("/app/near"));

    let (whole, links) = (middle.json("routing"), neighbors(&middle));
    assert_documented("routing status", &whole);
    assert_eq!((whole["router"].as_str(), whole["neighbors"].as_u64()), (Some("/net/b"), Some(2)));
    assert!(whole["certificate"].as_str().is_some_and(|name| name.starts_with("/net/b/32=DV/KEY/")), "{whole}");
    assert_eq!((links.len(), whole["untrusted"].as_u64()), (2, Some(0)));
    links.iter().for_each(|link| assert_documented("routing neighbor", link));
    wait_until("hellos", || neighbors(&middle).iter().all(|link| link["hello"] == "up" && link["used"] == true));
    let routers = near.json("routing routers");
    assert_documented("routing router", &routers[0]);
    assert_eq!(routers.as_array().map(Vec::len), Some(2));
    let prefixes = near.json("routing prefixes");
    let found = prefixes.as_array().expect("a list").iter().find(|prefix| prefix["prefix"] == "/app/far/ping");
    assert_documented("routing prefix", found.expect("the prefix"));
    let explained = near.json("routing explain /app/far/ping/1");
    assert_documented("routing explanation", &explained);
    assert_documented("routing exit", &explained["exits"][0]);
    assert_documented("routing way", &explained["ways"][0]);
    assert_documented("routing nexthop", &explained["nexthops"][0]);
    assert_eq!(explained["prefix"], "/app/far/ping");
    assert!(near.ok("routing explain /app/far/ping/x").contains("/net/c announces it"), "{explained}");
    assert!(near.ok("routing explain /nothing").contains("no router"));
    assert!(near.ok("routing neighbours").contains("/net/b face "));

    drop(server);
    wait_until("the withdrawal", || !has_route(&near, "/app/far/ping"));
}

#[test]
fn a_cut_link_is_replaced_while_a_file_is_fetched() {
    replace_a_cut_link(start);
}

#[test]
fn a_cut_link_is_replaced_by_routers_with_two_threads() {
    replace_a_cut_link(start_with_two_threads);
}

fn replace_a_cut_link(start: fn(&TempDir, &str, &[u16]) -> Router) {
    let keys = keys(&["a", "b", "c"]);
    let far = start(&keys, "c", &[]);
    let middle = start(&keys, "b", &[far.port]);
    let cable = Cable::to(far.port);
    let near = start(&keys, "a", &[middle.port, cable.port]);
    let original = far.path("sample");
    let sample = write_sample(&original, 3_000_000);
    let put = format!("put --announce /app/file {} --segment-size 1000", original.display());
    let _server = far.serve(&put, "/app/file", b"");
    wait_until("the direct way", || {
        let ways = near.json("routing explain /app/file");
        let best = |way: &Value| way["used"] == "best" && way["neighbor"] == "/net/c";
        ways["ways"].as_array().is_some_and(|ways| ways.iter().any(best))
    });
    let copy = near.path("copy");
    let mut fetch = near.command(&format!("get /app/file -o {}", copy.display())).spawn().expect("byname get");
    std::thread::sleep(Duration::from_millis(100));
    cable.cut(true);
    assert_eq!(common::wait(&mut fetch), 0, "{}", near.log());
    assert!(std::fs::read(&copy).expect("a file") == sample, "the file came whole");
    wait_until("the cut is seen", || {
        neighbors(&near).iter().any(|link| link["used"] == false) || near.log().contains("is down")
    });
    cable.cut(false);
    wait_until("the link is used again", || {
        let best = near.json("routing explain /app/file");
        best["ways"]
            .as_array()
            .is_some_and(|ways| ways.iter().any(|way| way["used"] == "best" && way["neighbor"] == "/net/c"))
    });
    assert!(near.reaches("/app/file") || has_route(&near, "/app/file"));
}

#[test]
fn neighbors_come_and_go_by_command_and_by_reload() {
    let keys = keys(&["a", "b", "c"]);
    let (one, two) = (start(&keys, "b", &[]), start(&keys, "c", &[]));
    let near = start(&keys, "a", &[]);
    let uri = |router: &Router| format!("udp4://127.0.0.1:{}", router.port);
    let is_neighbor = |name: &str| neighbors(&near).iter().any(|link| link["router"] == name && link["used"] == true);
    near.ok(&format!("routing neighbors add {}", uri(&one)));
    wait_until("the neighbor of the command", || is_neighbor("/net/b"));
    let configuration = near.path("byname.toml");
    let before = std::fs::read_to_string(&configuration).expect("read");
    std::fs::write(&configuration, format!("{before}[[routing.neighbor]]\nface = \"{}\"\n", uri(&two)))
        .expect("written");
    near.ok("reload");
    wait_until("the neighbor of the reload", || is_neighbor("/net/c"));
    near.ok(&format!("routing neighbors remove {}", uri(&one)));
    wait_until("its end", || !is_neighbor("/net/b"));
    std::fs::write(&configuration, before).expect("written");
    near.ok("reload");
    wait_until("the other's end", || !is_neighbor("/net/c"));
    let done = near.run("routing neighbors add unix:///x");
    assert_ne!(done.code, 0, "{}", done.stdout);
    let without = Router::start();
    let done = without.run(&format!("routing neighbors add {}", uri(&one)));
    assert!(done.code != 0 && done.stderr.contains("no part in routing"), "{}", done.stderr);
}

#[test]
fn strangers_are_not_believed() {
    let (ours, theirs) = (keys(&["a", "b"]), keys(&["x", "b"]));
    let victim = start(&ours, "a", &[]);
    let right = start(&ours, "b", &[victim.port]);
    // Each has a key of another network of the same name; the last one has no key.
    let forger = start(&theirs, "x", &[victim.port]);
    let impostor = start(&theirs, "b", &[victim.port]);
    let open = of("y", Path::new(""), &[victim.port]);
    let unsigned = Router::start_with(&open.replace("[routing]", "[routing]\ninsecure = true"));
    let _servers = [&forger, &impostor, &unsigned]
        .map(|router| router.serve("ping-server --announce /stolen", "/stolen/ping", b""));
    let _server = right.serve("ping-server --announce /right", "/right/ping", b"");
    wait_until("the right neighbor", || has_route(&victim, "/right/ping"));
    wait_until("refusals", || status(&victim, "untrusted") >= 6);
    let links = neighbors(&victim);
    assert!(links.iter().all(|link| link["router"] == "/net/b"), "{links:?}");
    assert!(!has_route(&victim, "/stolen/ping"));
    assert_eq!(status(&victim, "routers_reachable"), 1);
    assert!(victim.reaches("/right"));
}

/// The certificate of an identity in a folder of keys, and its file.
fn certificate(folder: &Path, identity: &str) -> (Certificate, PathBuf) {
    let identity: Name = identity.parse().expect("a name");
    let paths = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut certificates = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "ndncert"))
        .map(|path| (Certificate::load(&path).expect("a certificate"), path));
    certificates.find(|(found, _)| found.identity() == identity).expect("it was made")
}

/// Gives a router another certificate, which ends after so long. `byname key` counts in days.
fn certify(keys: &TempDir, name: &str, valid_for: Duration) {
    let (anchor, path) = certificate(&keys.path().join("anchor"), "/net");
    let pkcs8 = read_private_key(&path.with_extension("key")).expect("the anchor's key");
    let signer = Signer::from_pkcs8(anchor.key_name, &pkcs8).expect("a signer");
    let (own, path) = certificate(&key_of(keys, name), &format!("/net/{name}/32=DV"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let valid = (now - Duration::from_secs(3600), now + valid_for);
    let terms = Terms { issuer: Component::generic(b"net"), version: now.as_millis() as u64, valid };
    let packet = issue(&own.key_name, own.data().content, &signer, terms).expect("a certificate");
    std::fs::write(path, wrapped_base64(&packet)).expect("written");
}

const DAY: Duration = Duration::from_secs(24 * 3600);
/// A certificate that ends while a test runs.
const SHORT: Duration = Duration::from_secs(25);

#[test]
fn a_renewed_certificate_goes_on_without_a_break_and_an_expired_one_does_not() {
    let keys = keys(&["a", "b", "c"]);
    let begin = Instant::now();
    certify(&keys, "b", SHORT);
    certify(&keys, "c", SHORT);
    let (renewed, expiring) = (start(&keys, "b", &[]), start(&keys, "c", &[]));
    let near = start(&keys, "a", &[renewed.port, expiring.port]);
    let servers = [(&renewed, "/app/b"), (&expiring, "/app/c")].map(|(router, prefix)| {
        router.serve(&format!("ping-server --announce {prefix}"), &format!("{prefix}/ping"), b"")
    });
    wait_until("both routes", || has_route(&near, "/app/b/ping") && has_route(&near, "/app/c/ping"));
    assert!(begin.elapsed() < SHORT, "this machine is too slow for this test");
    let own = |router: &Router| router.json("routing")["certificate"].as_str().expect("a name").to_owned();
    let before = own(&renewed);
    assert!(renewed.log().contains("ends in 0 days"), "{}", renewed.log());
    certify(&keys, "b", DAY);
    renewed.ok("reload");
    wait_until("the new certificate", || own(&renewed) != before);

    // Pings go on past the end of the first certificate.
    let left = (SHORT + Duration::from_secs(4)).saturating_sub(begin.elapsed());
    let count = left.as_millis() / 50;
    let told = near.json(&format!("ping /app/b -c {count} -i 50 --timeout 2000"));
    assert_eq!(told["received"].as_u64(), told["transmitted"].as_u64(), "{told}");
    let links = neighbors(&near);
    let link = |name: &str| links.iter().find(|link| link["router"] == name);
    assert!(link("/net/b").is_some_and(|link| link["used"] == true && link["downs"] == 0), "{links:?}");

    wait_until("the expired one's end", || !has_route(&near, "/app/c/ping"));
    assert!(neighbors(&near).iter().all(|link| link["router"] != "/net/c" || link["used"] == false));
    assert!(status(&near, "untrusted") > 0);
    certify(&keys, "c", DAY);
    expiring.ok("reload");
    wait_until("its return", || has_route(&near, "/app/c/ping") && near.reaches("/app/c"));
    drop(servers);
}

#[test]
fn a_revoked_router_is_left_at_run_time() {
    let keys = keys(&["a", "b", "c"]);
    let list = keys.path().join("revoked");
    std::fs::write(&list, "").expect("written");
    let (stolen, other) = (start(&keys, "b", &[]), start(&keys, "c", &[]));
    let trust = format!("[trust]\nrevoked = \"{}\"\n", list.display());
    let near = Router::start_with(&(of("a", &key_of(&keys, "a"), &[stolen.port, other.port]) + &trust));
    let _servers = [(&stolen, "/app/b"), (&other, "/app/c")].map(|(router, prefix)| {
        router.serve(&format!("ping-server --announce {prefix}"), &format!("{prefix}/ping"), b"")
    });
    wait_until("both routes", || has_route(&near, "/app/b/ping") && has_route(&near, "/app/c/ping"));
    assert!(near.reaches("/app/b") && near.reaches("/app/c"));
    assert_eq!(status(&near, "untrusted"), 0);

    let revoke = |name: &str| {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(["key", "--folder"]).arg(keys.path().join("anchor")).args(["revoke", name, "--list"]).arg(&list);
        assert!(command.output().expect("byname key").status.success());
    };
    revoke("/net/b/32=DV");
    near.ok("reload");
    wait_until("its end", || !has_route(&near, "/app/b/ping"));
    assert!(has_route(&near, "/app/c/ping") && near.reaches("/app/c"), "{}", near.log());
    wait_until("refusals", || status(&near, "untrusted") > 0);
    assert!(neighbors(&near).iter().all(|link| link["router"] != "/net/b" || link["used"] == false));
    // It goes on saying that it is there, and is not believed.
    let before = status(&near, "untrusted");
    wait_until("more refusals", || status(&near, "untrusted") > before + 2);
    assert!(!has_route(&near, "/app/b/ping"));
    // An entry that was a mistake is taken back.
    std::fs::write(&list, "").expect("written");
    near.ok("reload");
    wait_until("its return", || has_route(&near, "/app/b/ping") && near.reaches("/app/b"));
}

#[test]
fn a_network_speaks_the_messages_of_dv2_if_all_are_told_to() {
    let keys = keys(&["a", "b", "c"]);
    let dv2 = |name: &str, neighbors: &[u16]| {
        let text = of(name, &key_of(&keys, name), neighbors).replacen("multicast", "protocol = \"dv2\"\nmulticast", 1);
        Router::start_with(&text)
    };
    let far = dv2("b", &[]);
    let near = dv2("a", &[far.port]);
    let other = start(&keys, "c", &[far.port]);
    let _server = far.serve("ping-server --announce /app", "/app/ping", b"");
    wait_until("the route", || has_route(&near, "/app/ping"));
    assert!(near.reaches("/app"));
    assert_eq!((status(&near, "untrusted"), status(&near, "malformed")), (0, 0));
    // One that speaks `main` has ways to routers, and hears of no prefixes.
    wait_until("a way", || status(&other, "routers_reachable") == 2);
    assert!(!has_route(&other, "/app/ping"));
}

/// The rules of ndn-dv's schema, and who may announce `/video`.
const SCHEMA: &str = r#"
#network: "net"
#router: #network/router
#said: /"localhop"/#router/"32=DV"/"32=ADV"/_ <= #router_cert
#prefixes: #network/"32=DV"/"32=PFS"/#router/_/_ <= #router_cert
#video: "video"/router/"ping"/"32=PA" <= #router_cert
#network_cert: #network/#KEY
#router_cert: #router/"32=DV"/#KEY <= #network_cert
#KEY: "KEY"/_/_/_
"#;

#[test]
fn a_router_announces_only_what_certificate_and_schema_permit() {
    let keys = keys(&["a", "b"]);
    let file = keys.path().join("net.trust");
    std::fs::write(&file, SCHEMA).expect("written");
    let far = start(&keys, "b", &[]);
    let _servers = ["/video/b", "/bank"]
        .map(|prefix| far.serve(&format!("ping-server --announce {prefix}"), &format!("{prefix}/ping"), b""));
    let with = |schema: &str| of("a", &key_of(&keys, "a"), &[far.port]).replacen("multicast", schema, 1);
    let near = Router::start_with(&with(&format!("schema = \"{}\"\nmulticast", file.display())));
    wait_until("the route that the schema permits", || has_route(&near, "/video/b/ping"));
    wait_until("the refusal", || status(&near, "outside_rights") > 0);
    let explained = near.json("routing explain /bank/ping/1");
    assert_eq!(explained["outside_rights"][0]["prefix"], "/bank/ping", "{explained}");
    assert_eq!(explained["outside_rights"][0]["router"], "/net/b");
    assert_documented("routing explanation", &explained);
    assert_documented("routing status", &near.json("routing"));
    let text = near.ok("routing explain /bank/ping/1");
    assert!(text.contains("refused: /net/b announces /bank/ping"), "{text}");
    assert!(!has_route(&near, "/bank/ping") && near.reaches("/video/b") && !near.reaches("/bank"));
    // Another schema counts at once, also for what was announced before.
    std::fs::write(&file, SCHEMA.replace("\"video\"/router/", "\"bank\"/")).expect("written");
    near.ok("reload");
    wait_until("the other way round", || has_route(&near, "/bank/ping") && !has_route(&near, "/video/b/ping"));
    assert!(near.reaches("/bank"));

    // A certificate restricts its own router, too, and what it binds survives a renewal.
    let key = |more: &[&str]| {
        let at = |name: &str| keys.path().join(name).display().to_string();
        let mut command = std::process::Command::new(PROGRAM);
        command.args(["key", "--folder", &at("anchor"), "network", "/net", "b", "--out", &at("of")]).args(more);
        let made = command.output().expect("byname key");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        far.ok("reload");
    };
    key(&["--announce", "b=/video"]);
    wait_until("the withdrawal", || !has_route(&near, "/bank/ping"));
    key(&[]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(!has_route(&near, "/bank/ping"));
    let text = far.ok("routing explain /bank/ping");
    assert!(text.contains("this router's certificate or the trust schema does not permit it"), "{text}");
    key(&["--announce", "b=/"]);
    wait_until("its return", || has_route(&near, "/bank/ping"));
}

#[test]
fn routing_works_where_not_everybody_may_command_the_router() {
    let keys = keys(&["a", "b"]);
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), b"a secret of the operator").expect("written");
    let rights = format!(
        "[[authorization]]\nmodules = [\"rib\"]\nhmac_key = \"/net/operator/KEY/1\"\nhmac_secret_file = \"{}\"\n",
        secret.path().display()
    );
    let far = start(&keys, "b", &[]);
    let with_tree = of("a", &key_of(&keys, "a"), &[far.port]).replacen("multicast", "trees = 1\nmulticast", 1);
    let near = Router::start_with(&(with_tree + &rights));
    let _server = far.serve("ping-server --announce /app", "/app/ping", b"");
    wait_until("a place on a tree", || near.json("routing trees")[0]["label"].is_string());
    wait_until("the route", || has_route(&near, "/app/ping"));
    assert!(near.reaches("/app"), "{}", near.log());
    assert!(!near.log().contains("refuses"), "routing has all rights that it needs: {}", near.log());
    assert_ne!(near.run(&format!("routing neighbors add udp4://127.0.0.1:{}", far.port)).code, 0, "nobody may");
}

#[test]
fn keys_that_cannot_be_used_are_told() {
    let keys = keys(&["a"]);
    let check = |text: &str| {
        let file = keys.path().join("byname.toml");
        std::fs::write(&file, text).expect("written");
        let done = std::process::Command::new(PROGRAM).arg("check").arg(&file).output().expect("byname check");
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
    };
    let good = of("a", &key_of(&keys, "a"), &[]);
    assert!(check(&good).contains(": good"), "{}", check(&good));
    let other = of("b", &key_of(&keys, "a"), &[]);
    assert!(check(&other).contains("byname key network /net b"), "{}", check(&other));
    let rule = good.replace("multicast", "policy = [\"accept maybe\"]\nmulticast");
    assert!(check(&rule).contains("permit or deny"), "{}", check(&rule));
}

/// Asks an application that wants these tags, until it answers.
fn ask(router: &Router, tags: &str) -> bool {
    let mut command = router.command(&format!("tags ask {tags} --timeout 300"));
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = piped.spawn().expect("byname tags");
    // A router without trees refuses before it reads.
    let _ = process.stdin.take().expect("piped").write_all(b"who plays");
    let output = process.wait_with_output().expect("an end");
    output.status.success() && output.stdout.starts_with(b"WHO PLAYS")
}

#[test]
fn packets_with_tags_arrive_on_trees_that_routers_make_also_after_a_cut() {
    let keys = keys(&["a", "b", "c", "d"]);
    let with_trees = |name: &str, neighbors: &[u16], more: &str| {
        let text = of(name, &key_of(&keys, name), neighbors);
        let text = text.replacen("multicast = false\n", &format!("multicast = false\ntrees = 2\n{more}"), 1);
        Router::start_with(&text)
    };
    // A ring: a - b - d and a - c - d. The root is a, so d has a parent that can fail.
    let root = with_trees("a", &[], "tree_priority = 1\n");
    let (one, other) = (with_trees("b", &[root.port], ""), with_trees("c", &[root.port], ""));
    let cables = [Cable::to(one.port), Cable::to(other.port)];
    let far = with_trees("d", &[cables[0].port, cables[1].port], "");

    let parent = |router: &Router| -> Option<String> {
        let trees = router.json("routing trees");
        let tree = trees.as_array()?.iter().find(|tree| tree["tree"] == 1 && tree["root"] == "/net/a")?;
        let neighbor = tree["neighbors"].as_array()?.iter().find(|of| of["parent"] == true && of["secure"] == true)?;
        tree["label"].as_str()?;
        Some(neighbor["router"].as_str()?.to_owned())
    };
    wait_until("a parent", || parent(&far).is_some());
    let mut server = far.command("tags advertise concert --command").arg("tr a-z A-Z").spawn().expect("byname tags");
    wait_until("an answer over two hops", || ask(&root, "concert tonight"));
    wait_until("an answer over one hop", || ask(&one, "concert tonight"));
    let trees = root.json("routing trees");
    assert_eq!(trees.as_array().map(Vec::len), Some(2));
    assert_documented("routing tree", &trees[0]);
    assert_documented("tree neighbor", &trees[0]["neighbors"][0]);
    assert_eq!(trees[0]["nodes"], 4);
    assert!(root.ok("routing trees").contains("tree 1 root /net/a cost 0, 4 routers here and below"));

    let before = parent(&far).expect("a parent");
    cables[usize::from(before != "/net/b")].cut(true);
    wait_until("another parent", || parent(&far).is_some_and(|now| now != before));
    wait_until("an answer after the cut", || ask(&root, "concert tonight"));
    // Again and again, not by chance.
    assert!((0..5).all(|_| ask(&root, "concert tonight")), "{}", root.log());
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn trees_end_and_begin_by_reload() {
    let keys = keys(&["a", "b"]);
    let text = |name: &str, neighbors: &[u16]| {
        let text = of(name, &key_of(&keys, name), neighbors);
        text.replacen("multicast = false\n", "multicast = false\ntrees = 2\n", 1)
    };
    let far = Router::start_with(&text("b", &[]));
    let near = Router::start_with(&text("a", &[far.port]));
    let on_both = || {
        let trees = near.json("routing trees");
        let with_label = |tree: &Value| tree["label"].is_string() && tree["neighbors"][0]["secure"] == true;
        trees.as_array().is_some_and(|trees| trees.len() == 2 && trees.iter().all(with_label))
    };
    wait_until("both trees", on_both);
    let advertise = || far.command("tags advertise concert --command").arg("tr a-z A-Z").spawn().expect("byname tags");
    let mut server = advertise();
    wait_until("an answer", || ask(&near, "concert tonight"));
    let reload = |trees: &str| {
        for router in [&near, &far] {
            let path = router.path("byname.toml");
            let before = std::fs::read_to_string(&path).expect("read");
            let line = before.lines().find(|line| line.starts_with("trees = ")).expect("set");
            std::fs::write(&path, before.replacen(line, trees, 1)).expect("written");
            router.ok("reload");
        }
    };
    reload("trees = 0");
    for router in [&near, &far] {
        wait_until("no trees", || router.json("routing trees").as_array().is_some_and(Vec::is_empty));
    }
    wait_until("no answer", || !ask(&near, "concert tonight"));
    // Routing itself has begun anew, and works.
    let links = || neighbors(&near).iter().any(|link| link["router"] == "/net/b" && link["used"] == true);
    wait_until("the neighbor", links);

    let _ = server.kill();
    let _ = server.wait();
    reload("trees = 2");
    wait_until("both trees again", on_both);
    let mut server = advertise();
    wait_until("an answer again", || ask(&near, "concert tonight"));
    let _ = server.kill();
    let _ = server.wait();
}
