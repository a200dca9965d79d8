//! State that survives the process.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::Router;
use serde_json::Value;

const CS: &str = "[tables]\ncs_packets = 1000\n";

/// Prefix, origin, cost, whether it is stale, and the remote URI of the face of each route that is not the router's own.
fn routes(router: &Router) -> Vec<(String, String, u64, bool, String)> {
    let faces = router.json("face list");
    let remote_of = |id: &Value| {
        let face = faces.as_array().expect("a list").iter().find(|face| face["face_id"] == *id).expect("it exists");
        face["remote_uri"].as_str().expect("text").to_owned()
    };
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let all = router.json("route list");
    let others = all.as_array().expect("a list").iter().filter(|route| route["face_id"].as_u64() >= Some(256));
    others
        .map(|route| {
            let stale = route["stale"].as_bool().expect("a bool");
            let cost = route["cost"].as_u64().expect("a number");
            (text(&route["prefix"]), text(&route["origin"]), cost, stale, remote_of(&route["face_id"]))
        })
        .collect()
}

fn route(prefix: &str, origin: &str, cost: u64, stale: bool, port: u16) -> (String, String, u64, bool, String) {
    (prefix.to_owned(), origin.to_owned(), cost, stale, format!("udp4://127.0.0.1:{port}"))
}

fn state(router: &Router) -> String {
    router.json("status show")["state"].as_str().expect("text").to_owned()
}

#[test]
fn what_commands_made_is_there_after_a_crash() {
    let configuration = "[[face]]\nremote = \"udp4://127.0.0.1:9\"\n[[route]]\nprefix = \"/fixed\"\n\
                         face = \"udp4://127.0.0.1:9\"\n";
    let router = Router::start_with(configuration);
    assert!(state(&router).starts_with("kept in "), "{}", state(&router));
    router.ok("face create udp4://127.0.0.1:8 permanent --mtu 1400");
    router.ok("route add /static udp4://127.0.0.1:8 --cost 3");
    router.ok("route add /daemon udp4://127.0.0.1:8 --origin nlsr --cost 4");
    router.ok("route add /on-configured udp4://127.0.0.1:9 --cost 5");
    router.ok("route add /gone udp4://127.0.0.1:7");
    router.ok("route add /removed udp4://127.0.0.1:8");
    router.ok("face destroy udp4://127.0.0.1:7");
    router.ok("route remove /removed udp4://127.0.0.1:8");
    router.ok("strategy set /s multicast");
    router.ok("strategy set /t multicast");
    router.ok("strategy unset /t");
    router.ok("cs config --capacity 77 --serve off");
    // On demand: it ends with the application.
    drop(router.serve("ping-server /app", "/app/ping", b""));
    let before = router.json("face list");

    let router = router.start_again();
    let expected = [
        route("/daemon", "nlsr", 4, true, 8),
        route("/fixed", "static", 0, false, 9),
        route("/on-configured", "static", 5, false, 9),
        route("/static", "static", 3, false, 8),
    ];
    let mut there = routes(&router);
    there.sort();
    assert_eq!(there, expected, "{}", router.log());
    let settings = |faces: &Value| {
        let face = faces.as_array().expect("a list").iter().find(|face| face["remote_uri"] == "udp4://127.0.0.1:8");
        let face = face.expect("it is there").clone();
        ["mtu", "persistency", "flags", "congestion_marking"].map(|key| face[key].clone())
    };
    assert_eq!(settings(&router.json("face list")), settings(&before));
    let cs = router.json("cs info");
    assert_eq!(
        (cs["capacity"].as_u64(), cs["serve"].as_bool(), cs["admit"].as_bool()),
        (Some(77), Some(false), Some(true))
    );
    let strategies = router.ok("strategy list");
    assert!(strategies.contains("prefix=/s ") && !strategies.contains("prefix=/t "), "{strategies}");

    // Confirmed: it is no longer stale, in this run and in the next one.
    assert!(router.ok("route show /daemon").contains("stale=yes"));
    router.ok("route add /daemon udp4://127.0.0.1:8 --origin nlsr --cost 4");
    assert!(!router.ok("route show /daemon").contains("stale"));
    // In an orderly end the faces end, too. They must stay in the store.
    let router = router.restart("-TERM");
    assert_eq!(routes(&router).len(), 4, "{}", router.log());
}

#[test]
fn the_file_rules_over_the_store() {
    let router = Router::start_with(CS);
    router.ok("route add /a udp4://127.0.0.1:8 --cost 3");
    router.ok("cs config --capacity 5");
    router.ok("strategy set / multicast");
    let path = router.path("byname.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    let more = "[tables.strategies]\n\"/\" = \"best-route\"\n[[route]]\nprefix = \"/a\"\nface = \"udp4://127.0.0.1:8\"\n\
                cost = 9\n";
    std::fs::write(&path, text + more).expect("written");
    let router = router.start_again();
    assert_eq!(routes(&router), [route("/a", "static", 9, false, 8)]);
    assert_eq!(router.json("cs info")["capacity"], 1000);
    assert!(router.ok("strategy show /").contains("best-route"));
}

#[test]
fn stale_routes_go_after_their_time() {
    let router = Router::start_with("[state]\nstale_for = \"2 s\"\n");
    router.ok("route add /daemon udp4://127.0.0.1:8 --origin nlsr");
    router.ok("route add /static udp4://127.0.0.1:8");
    let router = router.start_again();
    assert_eq!(routes(&router).len(), 2);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while routes(&router).len() > 1 {
        assert!(std::time::Instant::now() < deadline, "{}", router.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let router = router.start_again();
    assert_eq!(routes(&router), [route("/static", "static", 0, false, 8)]);
}

#[test]
fn a_router_starts_whatever_the_store_is() {
    let router = Router::start();
    router.ok("route add /a udp4://127.0.0.1:8");
    let store = PathBuf::from(state(&router).strip_prefix("kept in ").expect("a path"));
    // A second router says so, and keeps nothing.
    let second = Router::start_with(&format!("[state]\nfile = \"{}\"\n", store.display()));
    assert!(state(&second).contains("in use by another router"), "{}", state(&second));
    assert!(second.log().contains("another router") && routes(&second).is_empty(), "{}", second.log());
    second.ok("route add /b udp4://127.0.0.1:8");
    drop(second);

    let router = router.restart("-TERM");
    assert_eq!(routes(&router), [route("/a", "static", 0, false, 8)]);
    let mut router = router;
    router.kill();
    std::fs::write(&store, b"no database at all".repeat(1000)).expect("written");
    let router = router.start_again();
    assert!(router.log().contains("was damaged") && routes(&router).is_empty(), "{}", router.log());
    router.ok("route add /c udp4://127.0.0.1:8");
    let router = router.start_again();
    assert_eq!(routes(&router), [route("/c", "static", 0, false, 8)]);
}

/// A router whose folder for state is mounted by `mount`, in a mount namespace of its own. `None` without rights for
/// that.
fn router_with_mount(mount: &str) -> Option<Router> {
    let may = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !may.is_ok_and(|done| done.status.success()) {
        println!("skipped: this user may not mount file systems");
        return None;
    }
    let script = format!("set -e; mkdir -p \"$STATE_DIRECTORY\"; cd \"$STATE_DIRECTORY\"; {mount}; exec \"$0\" \"$@\"");
    let mut program = Command::new("unshare");
    program.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_byname")]);
    Some(Router::start_by(program, ""))
}

/// Registers this many routes.
fn register(router: &Router, count: usize, cost: u64) {
    let line = |n| format!("route add /bulk/{n} udp4://127.0.0.1:8 --cost {cost}\n");
    let batch = router.path("batch");
    std::fs::write(&batch, (0..count).map(line).collect::<String>()).expect("written");
    router.ok(&format!("-f {}", batch.display()));
}

fn until(what: &str, router: &Router, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "not {what}: {}\n{}", state(router), router.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_full_disk_is_said_and_its_changes_are_kept_when_there_is_room() {
    let Some(router) =
        router_with_mount("mount -t tmpfs -o size=300k none .; head -c 240k /dev/zero > \"$STATE_DIRECTORY/filler\"")
    else {
        return;
    };
    // A change of its cost is a change of a route, so the log grows each time.
    let cost = std::cell::Cell::new(0);
    until("full", &router, || {
        cost.set(cost.get() + 1);
        register(&router, 500, cost.get());
        state(&router).starts_with("not kept for now")
    });
    router.ok("route add /last udp4://127.0.0.1:8");
    assert!(router.log().contains("the state does not reach the disk"), "{}", router.log());
    let there = routes(&router);
    assert_eq!(there.len(), 501);
    // The folder as the router sees it.
    let folder = format!("/proc/{}/root{}", router.pid(), router.path("state").display());
    std::fs::remove_file(format!("{folder}/filler")).expect("removed");
    until("kept again", &router, || state(&router).starts_with("kept in "));
    let copy = tempfile::tempdir().expect("a folder");
    // The file system ends with the router. What it leaves if it stops now is what a crash leaves.
    router.signal("-STOP");
    for file in ["state.db", "state.db-wal", "state.db-log"] {
        std::fs::copy(format!("{folder}/{file}"), copy.path().join(file)).expect("copied");
    }
    router.signal("-CONT");
    drop(router);
    let file = copy.path().join("state.db");
    let other = Router::start_with(&format!("[state]\nfile = \"{}\"\n", file.display()));
    assert_eq!(routes(&other), there);
}

#[test]
fn what_is_in_the_log_and_what_is_in_the_database_comes_back() {
    let router = Router::start();
    register(&router, 300, 1);
    let store = router.path("state");
    let folded = || std::fs::metadata(store.join("state.db")).expect("a file").len() > 8_192;
    // An idle router moves the log into the database. SQLite's own log has it first.
    let wal = || std::fs::metadata(store.join("state.db-wal")).expect("a file").len() > 16_384;
    until("folded", &router, || folded() || wal());
    register(&router, 400, 2);
    let mut router = router;
    router.kill();
    assert!(store.join("state.db-log").exists());
    let router = router.start_again();
    let there = routes(&router);
    assert!(there.len() == 400 && there.iter().all(|route| route.2 == 2), "{there:?}");
    let router = router.restart("-TERM");
    assert_eq!(routes(&router).len(), 400);
    assert!(router.log().contains("400 routes from the last run"), "{}", router.log());
}

#[test]
fn on_a_read_only_file_system_the_state_is_read_and_not_kept() {
    let Some(router) = router_with_mount("mount -t tmpfs -o ro none .") else { return };
    assert!(state(&router).starts_with("not kept: "), "{}", state(&router));
    assert!(router.log().contains("forgotten at the next restart"), "{}", router.log());
    router.ok("route add /a udp4://127.0.0.1:8");
    drop(router);

    let mut first = Router::start();
    first.ok("route add /a udp4://127.0.0.1:8");
    // A crash leaves changes in the log beside the database.
    first.kill();
    assert!(first.path("state/state.db-wal").exists());
    let from = first.path("state");
    let mount = format!("mount --bind {0} .; cd {0}; mount -o remount,ro,bind \"$STATE_DIRECTORY\"", from.display());
    let router = router_with_mount(&mount).expect("it went before");
    assert_eq!(routes(&router), [route("/a", "static", 0, false, 8)], "{}", router.log());
    assert!(state(&router).starts_with("not kept: "), "{}", state(&router));
}

/// As docs/operating.md says.
#[test]
fn a_backup_can_be_put_back() {
    let mut router = Router::start();
    let shell = |folder: PathBuf, script: &str| {
        let done = Command::new("sh").args(["-c", script]).current_dir(folder).status().expect("a shell");
        assert!(done.success(), "{script}");
    };
    router.ok("route add /kept udp4://127.0.0.1:8 --cost 3");
    router.end("-TERM");
    shell(router.path(""), "mkdir backup && cp state/state.db* backup");
    let mut router = router.start_again();
    router.ok("route remove /kept udp4://127.0.0.1:8");
    router.ok("route add /later udp4://127.0.0.1:8");
    // A crash leaves a log beside the database, which does not belong to the backup.
    router.kill();
    shell(router.path(""), "test -s state/state.db-log && rm state/state.db* && cp backup/state.db* state");
    let router = router.start_again();
    assert_eq!(routes(&router), [route("/kept", "static", 3, false, 8)], "{}", router.log());
}

#[test]
fn an_ephemeral_router_forgets() {
    let router = Router::start_with("[state]\nenabled = false\n");
    router.ok("route add /a udp4://127.0.0.1:8");
    assert!(state(&router).contains("enabled = false"));
    assert!(!router.path("state/state.db").exists());
    assert!(routes(&router.start_again()).is_empty());
    let help = Command::new(env!("CARGO_BIN_EXE_byname")).args(["run", "--help"]).output().expect("byname");
    assert!(String::from_utf8_lossy(&help.stdout).contains("--ephemeral"));
}
