//! The management commands against a running forwarder.

mod common;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;

use common::{Router, assert_documented, command_at, finish, free_port};
use serde_json::Value;

#[test]
fn status_has_all_parts() {
    let router = Router::start();
    let status = router.json("status");
    for part in ["general", "channels", "faces", "fib", "rib", "cs", "strategies"] {
        assert!(status.get(part).is_some(), "{part}");
    }
    assert!(status["general"]["version"].as_str().unwrap().contains("byname"));
    assert!(status["general"]["uptime_ms"].as_u64().unwrap() < 60_000);
    let channels: Vec<&str> =
        status["channels"].as_array().unwrap().iter().map(|c| c["local_uri"].as_str().unwrap()).collect();
    assert!(channels.iter().any(|uri| uri.starts_with("unix://")), "{channels:?}");
    assert!(channels.iter().any(|uri| uri.starts_with("tcp4://")), "{channels:?}");
    let text = router.ok("status");
    for title in ["General status:", "Channels:", "Faces:", "FIB:", "RIB:", "CS information:", "Strategy choices:"] {
        assert!(text.contains(title), "{title} in {text}");
    }
    assert!(router.ok("status show").contains("nPitEntries="));
    assert!(router.ok("channel").contains("unix://"));
}

/// Each object has exactly the fields that `docs/json.md` lists.
#[test]
fn json_has_the_documented_fields() {
    let router = Router::start();
    router.ok("route add /a udp4://127.0.0.1:9");
    let status = router.json("status");
    for (what, object) in [
        ("general", &status["general"]),
        ("thread", &status["general"]["threads"][0]),
        ("channel", &status["channels"][0]),
        ("face", &status["faces"][0]),
        ("FIB entry", &status["fib"][0]),
        ("route", &status["rib"][0]),
        ("content store", &status["cs"]),
        ("strategy choice", &status["strategies"][0]),
        ("face outcome", &router.json("face create udp4://127.0.0.1:10")),
    ] {
        assert_documented(what, object);
    }
}

#[test]
fn status_tells_where_time_goes_and_what_was_dropped() {
    for (threads, outside_of_worker) in [(1, "send"), (2, "dispatch")] {
        let router = Router::start_with(&format!("[threads]\ncount = {threads}\n"));
        let _server = router.serve("ping-server /s", "/s/ping", b"");
        let stages = |object: &Value| -> Vec<String> {
            let stages = object["stages"].as_array().unwrap();
            stages.iter().for_each(|stage| assert_documented("stage", stage));
            stages.iter().map(|stage| stage["stage"].as_str().unwrap().to_owned()).collect()
        };
        // Each packet is a burst of its own, unless the system delays the router.
        let after_pings = || {
            router.ok("ping /s -c 600 -i 1");
            router.json("status")
        };
        let is_timed = |status: &Value| {
            let threads = status["general"]["threads"].as_array().unwrap();
            let timed: Vec<String> = threads.iter().flat_map(stages).collect();
            ["pit-cs", outside_of_worker].iter().all(|stage| timed.iter().any(|timed| timed == stage))
        };
        let status = std::iter::repeat_with(after_pings).take(10).find(is_timed).expect("some rounds are timed");
        let text = router.ok("status");
        for part in ["Threads:\n  thread=0 load=", "% sleeps=", "stage=pit-cs", &format!("stage={outside_of_worker}")] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for part in ["packets={home=", "waiting={in=", "imbalance="] {
            assert_eq!(text.contains(part), threads > 1, "{part} in {text}");
        }
        let malformed = |status: &Value| {
            let drops = status["general"]["drops"].as_array().unwrap();
            drops.iter().for_each(|drops| assert_documented("drops", drops));
            drops.iter().find(|drops| drops["reason"] == "malformed").map(|drops| drops["packets"].as_u64().unwrap())
        };
        assert_eq!(malformed(&status), None);
        // An Interest without a name. The router receives it before the command that asks for the count.
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[5, 0], ("127.0.0.1", router.port)).unwrap();
        assert_eq!(malformed(&router.json("status")), Some(1));
        let text = router.ok("status");
        assert!(text.contains("Drops:\n  ") && text.contains("\n  malformed=1\n"), "{text}");
    }
}

#[test]
fn faces_come_change_and_go() {
    let router = Router::start();
    let created = router.json("face create udp://localhost:7777");
    assert_eq!(created["action"], "face-created");
    assert_eq!(created["remote_uri"], "udp4://127.0.0.1:7777");
    assert_eq!(created["persistency"], "persistent");
    let id = created["face_id"].as_u64().unwrap();
    assert!(id >= 256);

    let again = router.json("face create udp4://127.0.0.1:7777");
    assert_eq!((&again["action"], again["face_id"].as_u64()), (&Value::from("face-exists"), Some(id)));
    let changed = router.json("face create remote udp4://127.0.0.1:7777 persistency permanent reliability on");
    assert_eq!(changed["action"], "face-updated");
    let face = router.json(&format!("face show {id}"));
    assert_eq!(face["persistency"], "permanent");
    assert_eq!(face["reliability"], true);

    let listed = router.json("face list udp4://127.0.0.1:7777");
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert!(router.json("face list scheme unix").as_array().unwrap().iter().all(|f| f["face_id"] != id));
    assert!(router.ok("face").contains("remote=udp4://127.0.0.1:7777"));

    assert!(router.ok("face destroy udp4://127.0.0.1:7777").starts_with("face-destroyed id="));
    let done = router.run(&format!("face show {id}"));
    assert_eq!(done.code, 6);
    assert!(done.stderr.contains("byname face list"), "{}", done.stderr);
    assert_eq!(router.run(&format!("face destroy {id}")).code, 6);
}

#[test]
fn routes_come_and_go() {
    let router = Router::start();
    let text = router.ok("route add prefix /a/b nexthop udp://127.0.0.1:7001 cost 7 capture");
    assert!(text.contains("face-created id=") && text.contains("route-add-accepted prefix=/a/b"), "{text}");
    let routes = router.json("route show /a/b");
    assert_eq!(routes.as_array().unwrap().len(), 1);
    let face = routes[0]["face_id"].as_u64().unwrap();
    assert_eq!((&routes[0]["origin"], routes[0]["cost"].as_u64()), (&Value::from("static"), Some(7)));
    assert_eq!((routes[0]["child_inherit"].as_bool(), routes[0]["capture"].as_bool()), (Some(true), Some(true)));

    // The same face, found by its URI, gets another route, which expires.
    router.ok("route add /a/c udp4://127.0.0.1:7001 --no-inherit --expires 60000");
    let routes = router.json("route list /a");
    assert_eq!(routes.as_array().unwrap().len(), 2);
    let c = routes.as_array().unwrap().iter().find(|route| route["prefix"] == "/a/c").unwrap();
    assert_eq!(c["face_id"].as_u64(), Some(face));
    assert_eq!(c["child_inherit"], false);
    assert!((1..=60_000).contains(&c["expires_in_ms"].as_u64().unwrap()));
    assert_eq!(router.json(&format!("route list nexthop {face}")).as_array().unwrap().len(), 2);
    assert_eq!(router.json("route list --origin nlsr").as_array().unwrap().len(), 0);
    let fib = router.json("fib");
    let entry = fib.as_array().unwrap().iter().find(|entry| entry["prefix"] == "/a/b").unwrap();
    assert_eq!(entry["nexthops"][0]["face_id"].as_u64(), Some(face));
    assert_eq!(entry["nexthops"][0]["cost"], 7);

    assert!(router.ok("route remove /a/b udp4://127.0.0.1:7001").contains("route-removed prefix=/a/b"));
    let done = router.run(&format!("route remove /a/b {face}"));
    assert_eq!(done.code, 6, "{}", done.stderr);
    assert_eq!(router.run("route show /a/b").code, 6);
    // Routes disappear with their face.
    router.ok(&format!("face destroy {face}"));
    assert_eq!(router.run("route show /a/c").code, 6);
}

#[test]
fn the_content_store_is_configured_and_erased() {
    let router = Router::start();
    let config = router.json("cs config capacity 5000 serve off");
    assert_eq!((config["capacity"].as_u64(), config["serve"].as_bool()), (Some(5000), Some(false)));
    let info = router.json("cs");
    assert_eq!((info["capacity"].as_u64(), info["serve"].as_bool()), (Some(5000), Some(false)));
    assert_eq!(info["admit"], true);
    router.ok("cs config --serve on");

    let server = router.serve("ping-server /s", "/s/ping", b"");
    router.ok("ping /s -c 3 -i 10");
    assert!(router.json("cs info")["entries"].as_u64().unwrap() >= 3);
    assert_eq!(router.json("cs erase /s 2")["count"], 2);
    assert_eq!(router.json("cs erase prefix /s")["count"], 1);
    assert_eq!(server.interrupt(), 0);
}

#[test]
fn strategies_are_set_and_unset() {
    let router = Router::start();
    let set = router.json("strategy set /live multicast");
    assert!(set["strategy"].as_str().unwrap().starts_with("/localhost/nfd/strategy/multicast/v="), "{set}");
    let effective = router.json("strategy show /live/now");
    assert_eq!(effective["prefix"], "/live");
    router.ok("strategy unset prefix /live");
    assert_eq!(router.json("strategy show /live/now")["prefix"], "/");
    let done = router.run("strategy set /live no-such");
    assert_eq!(done.code, 6);
    assert!(done.stderr.contains("in use are"), "{}", done.stderr);
    assert_eq!(router.run("strategy unset /").code, 2);
}

#[test]
fn strangers_are_told_why_they_may_not() {
    let router = Router::start();
    let transport = format!("udp://127.0.0.1:{}", router.port);
    let done = finish(command_at(&transport, "ping-server /a"));
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("cannot register /a/ping over udp") && done.stderr.contains("403"), "{}", done.stderr);
}

#[test]
fn errors_say_what_to_do() {
    let at = |transport: &str, line: &str| finish(command_at(transport, line));
    let done = at("unix:///nonexistent/nfd.sock", "status");
    assert_eq!(done.code, 4);
    assert!(done.stderr.contains("no forwarder answers on unix:///nonexistent/nfd.sock"), "{}", done.stderr);
    assert!(done.stderr.contains("byname run"), "{}", done.stderr);

    let done = at("tcp://127.0.0.1:1", "face");
    assert_eq!(done.code, 4);
    let done = at("gopher://x", "face");
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("unix:///run/nfd/nfd.sock"), "{}", done.stderr);
    let done = at("unix:///nonexistent", "ping demo");
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("try '/demo'"), "{}", done.stderr);
    for line in ["nonsense", "route add /a", "face create router", "get /a --tries 0", "put /a"] {
        assert_eq!(at("unix:///nonexistent", line).code, 2, "{line}");
    }
    for line in ["--help", "route add --help", "get -h", "--version"] {
        let done = at("unix:///nonexistent", line);
        assert_eq!(done.code, 0, "{line}");
        assert!(!done.stdout.is_empty(), "{line}");
    }
    let version = at("unix:///nonexistent", "--version").stdout;
    assert!(version.starts_with(concat!("byname ", env!("CARGO_PKG_VERSION"))), "{version}");
    if Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.git")).exists() {
        let commit = version.trim_end().split_once(" (").and_then(|(_, rest)| rest.strip_suffix(')'));
        assert!(commit.is_some_and(|c| c.len() >= 7 && c.bytes().all(|b| b.is_ascii_hexdigit())), "{version}");
    }
}

#[test]
fn a_face_to_nobody_is_refused_with_the_reason_unless_it_is_permanent() {
    let router = Router::start();
    let nobody = format!("tcp4://127.0.0.1:{}", free_port());
    let done = router.run(&format!("face create {nobody}"));
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("Connection failed: Connection refused"), "{}", done.stderr);
    assert!(done.stderr.contains("504"), "{}", done.stderr);
    assert!(!router.ok("face list").contains(&nobody));
    // A route that needs this face fails as well.
    assert_ne!(router.run(&format!("route add /a {nobody}")).code, 0);
    assert!(router.ok(&format!("face create {nobody} permanent")).contains("face-created"));
    assert!(router.ok("face list").contains(&nobody));
}

#[test]
fn other_commands_go_on_while_a_face_waits_for_its_connection() {
    let router = Router::start();
    // The listener's queue is full: the system neither accepts nor refuses connections.
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let listener = socket.expect("a socket");
    rustix::net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bound");
    rustix::net::listen(&listener, 0).expect("listens");
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().expect("an address");
    let _first = TcpStream::connect(address).expect("the line has room for one");
    let mut command = router.command(&format!("face create tcp4://{address}"));
    let create = command.stdout(std::process::Stdio::piped()).spawn().expect("byname");
    for _ in 0..3 {
        assert!(!router.ok("face list").contains(&format!("tcp4://{address}")));
    }
    // The system repeats the connection request after a second.
    let _accepted = (listener.accept().expect("the first"), listener.accept().expect("the router"));
    let output = create.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(router.ok("face list").contains(&format!("tcp4://{address}")));
    // The face exists now.
    let again = router.ok(&format!("face create tcp4://{address}"));
    assert!(again.contains("face-exists"), "{again}");
}
