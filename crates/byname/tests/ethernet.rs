//! Routers joined only by Ethernet: virtual cables, in a separate network namespace for each test. Applications use the
//! routers' Unix sockets.

mod common;

use std::process::Command;

use byname_face::system::enter_new_network;
use common::Router;

const GROUP: &str = "ether://[01:00:5e:00:17:aa]";

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) -> bool {
    let command = Command::new("ip").args(arguments.split_whitespace()).output();
    command.is_ok_and(|done| done.status.success())
}

/// Moves this thread, and all processes that it starts, into a namespace with cables from `west` to `middle-w` and from
/// `middle-e` to `east`. Prints a message and returns false if this is not allowed.
fn cables() -> bool {
    cables_with_queues(1)
}

/// As [`cables`]. Each end has so many queues in each direction.
fn cables_with_queues(queues: usize) -> bool {
    let each = format!("numrxqueues {queues} numtxqueues {queues}");
    let cable = |(a, b): (&str, u8), (c, d): (&str, u8)| {
        let end = |name: &str, station: u8| format!("{name} address 02:00:00:00:00:{station:02x} {each}");
        ip(&format!("link add dev {} type veth peer name {}", end(a, b), end(c, d)))
    };
    let made = enter_new_network().is_ok()
        && ip("link set lo up")
        && cable(("west", 1), ("middle-w", 2))
        && cable(("middle-e", 3), ("east", 4))
        && ["west", "middle-w", "middle-e", "east"].iter().all(|name| ip(&format!("link set {name} up")));
    if !made {
        eprintln!("skipped: network namespaces and virtual cables are not allowed here");
    }
    made
}

fn router(interfaces: &[&str]) -> Router {
    router_of("packet-mmap", interfaces)
}

/// A router with Ethernet ports of this kind.
fn router_of(port: &str, interfaces: &[&str]) -> Router {
    router_with(1, port, interfaces)
}

/// As [`router_of`], with this number of packet threads.
fn router_with(threads: usize, port: &str, interfaces: &[&str]) -> Router {
    let mut config = format!("[threads]\ncount = {threads}\n[faces.dpdk]\neal = [\"--no-huge\"]\n");
    for (n, name) in interfaces.iter().enumerate() {
        config += &format!("[[faces.ethernet]]\ninterface = \"{name}\"\nport = \"{port}\"\n");
        if port == "dpdk" {
            config += &format!("dpdk_device = \"net_af_packet{n},iface={name}\"\n");
        }
    }
    Router::start_with(&config)
}

/// Adds a route to a station. `station` is the last byte of its address.
fn route(router: &Router, prefix: &str, station: u8, interface: &str) {
    let remote = format!("ether://[02:00:00:00:00:{station:02x}]");
    let face = router.json(&format!("face create {remote} --local dev://{interface}"));
    router.ok(&format!("route add {prefix} {}", face["face_id"]));
}

/// The id of a router's face to the group on an interface.
fn group(router: &Router, interface: &str) -> u64 {
    let faces = router.json(&format!("face list {GROUP} --local dev://{interface}"));
    faces[0]["face_id"].as_u64().unwrap_or_else(|| panic!("no face to the group: {faces}"))
}

#[test]
fn a_router_that_hands_over_makes_its_faces_anew_and_keeps_their_routes() {
    for port in ["packet-mmap", "xdp"] {
        if !cables() {
            return;
        }
        let (mut west, east) = (router_of(port, &["west"]), router_of(port, &["middle-w"]));
        let _server = east.serve("ping-server /demo", "/demo/ping", b"");
        route(&west, "/demo", 2, "west");
        route(&west, "/elsewhere", 9, "west");
        assert!(west.reaches("/demo"), "{}", west.log());
        let faces = || {
            let list = west.json("face list --scheme ether");
            let id = |face: &serde_json::Value| (face["face_id"].clone(), face["remote_uri"].clone());
            list.as_array().expect("a list").iter().map(id).collect::<Vec<_>>()
        };
        let (before, routes) = (faces(), west.json("route list"));
        assert_eq!(before.len(), 3, "two stations and the group");
        west.hand_over();
        let faces = west.json("face list --scheme ether");
        assert_eq!(west.json("route list"), routes);
        for (id, remote) in before {
            let is_same = |face: &serde_json::Value| face["face_id"] == id && face["remote_uri"] == remote;
            assert!(faces.as_array().expect("a list").iter().any(is_same), "{id} to {remote}: {faces}");
        }
        assert!(west.reaches("/demo"), "{}", west.log());
    }
}

#[test]
fn interests_and_data_cross_three_routers() {
    assert_crossing(["packet-mmap"; 3]);
}

#[test]
fn interests_and_data_cross_three_routers_by_xdp() {
    assert_crossing(["xdp"; 3]);
}

#[test]
fn routers_with_ports_of_different_kinds_understand_each_other() {
    assert_crossing(["packet-mmap", "xdp", "packet-mmap"]);
}

#[test]
fn routers_with_two_threads_have_two_queues_of_each_interface() {
    assert_crossing_with_threads(["packet-mmap", "xdp", "packet-mmap"]);
    assert_crossing_with_threads(["xdp", "packet-mmap", "xdp"]);
}

/// As [`assert_crossing`], with two threads in each router.
fn assert_crossing_with_threads(ports: [&str; 3]) {
    if !cables_with_queues(2) {
        return;
    }
    let west = router_with(2, ports[0], &["west"]);
    let middle = router_with(2, ports[1], &["middle-w", "middle-e"]);
    let east = router_with(2, ports[2], &["east"]);
    assert_crossing_by(&west, &middle, &east);
    let log = middle.log();
    assert!(log.matches(", 2 queues)").count() == 2, "{log}");
    // The interface goes down and comes back under both threads.
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    assert!(ip("link set middle-w down") && ip("link set middle-w up"));
    assert!(west.reaches("/demo"), "{}", middle.log());
    for router in [&west, &middle, &east] {
        let told = router.ok("status");
        assert!(!told.contains("ethernet_hand_over_full"), "{told}");
    }
}

#[cfg(feature = "dpdk")]
#[test]
fn interests_and_data_cross_three_routers_by_dpdk() {
    // At most one router with DPDK: in two processes in one namespace, the driver may create the same numbers.
    assert_crossing(["packet-mmap", "dpdk", "xdp"]);
}

/// Checks that Interests and Data cross three routers with these ports.
fn assert_crossing(ports: [&str; 3]) {
    if !cables() {
        return;
    }
    let west = router_of(ports[0], &["west"]);
    let middle = router_of(ports[1], &["middle-w", "middle-e"]);
    let east = router_of(ports[2], &["east"]);
    assert_crossing_by(&west, &middle, &east);
}

/// Checks that Interests and Data cross these routers.
fn assert_crossing_by(west: &Router, middle: &Router, east: &Router) {
    route(west, "/demo", 2, "west");
    route(middle, "/demo", 4, "middle-e");
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    let text = west.ok("ping /demo -c 20 -i 5");
    assert!(text.contains("20 received, 0 nacked, 0% loss"), "{text}");

    let _file = west.fetches_whole(east);

    // Each station that the router heard has exactly one face.
    let faces = middle.json("face list --scheme ether");
    assert_eq!(faces.as_array().map(Vec::len), Some(4), "two groups, west on demand, east: {faces}");
    for router in [west, middle, east] {
        let told = router.ok("status");
        assert!(!told.contains("ethernet_ring_full"), "{told}");
    }
}

#[test]
fn the_group_joins_routers_that_know_no_address() {
    if !cables() {
        return;
    }
    let (west, middle, east) = (router(&["west"]), router(&["middle-w", "middle-e"]), router(&["east"]));
    west.ok(&format!("route add /demo {}", group(&west, "west")));
    middle.ok(&format!("route add /demo {}", group(&middle, "middle-e")));
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    let text = west.ok("ping /demo -c 20 -i 5");
    assert!(text.contains("20 received, 0 nacked, 0% loss"), "{text}");
    let big = vec![b'x'; 8000];
    let _poke = east.serve("poke /demo/big", "/demo/big", &big);
    assert!(west.ok("peek /demo/big --payload").into_bytes() == big);
}

#[test]
fn a_router_that_starts_again_and_a_link_that_fails_are_survived() {
    if !cables() {
        return;
    }
    let (west, east) = (router(&["west"]), router(&["east"]));
    route(&west, "/demo", 2, "west");
    let middle = || {
        let middle = router(&["middle-w", "middle-e"]);
        route(&middle, "/demo", 4, "middle-e");
        middle
    };
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    let first = middle();
    assert!(west.reaches("/demo"));
    drop(first);
    assert_ne!(west.run("ping /demo -c 1 --timeout 200").code, 0);
    let _second = middle();
    assert!(west.reaches("/demo"), "after the router in the middle");
    assert!(ip("link set middle-e down"));
    assert_ne!(west.run("ping /demo -c 1 --timeout 200").code, 0);
    assert!(ip("link set middle-e up"));
    assert!(west.reaches("/demo"), "after the link");
}

#[test]
fn interfaces_come_and_go_by_reload() {
    const STATION: &str = "ether://[02:00:00:00:00:02]";
    for (threads, port) in [(1, "packet-mmap"), (2, "packet-mmap"), (1, "xdp")] {
        if !cables_with_queues(threads) {
            return;
        }
        let east = router_with(threads, port, &["middle-w"]);
        let _server = east.serve("ping-server /demo", "/demo/ping", b"");
        let west = router_with(threads, port, &[]);
        let file = west.path("byname.toml");
        let bare = std::fs::read_to_string(&file).expect("a configuration");
        let reload = |more: &str| {
            std::fs::write(&file, format!("{bare}{more}")).expect("written");
            west.ok("reload")
        };
        let faces = || west.json("face list --scheme ether").as_array().expect("a list").len();
        let cable = format!(
            "[[faces.ethernet]]\ninterface = \"west\"\nport = \"{port}\"\n\
             [[face]]\nremote = \"{STATION}\"\nlocal = \"dev://west\"\n\
             [[route]]\nprefix = \"/demo\"\nface = \"{STATION}\"\n"
        );
        assert_eq!(faces(), 0);
        let said = reload(&cable);
        assert!(said.contains("[[faces.ethernet]]") && said.contains("added"), "{said}");
        assert!(west.reaches("/demo"), "{port}: {}", west.log());
        assert_eq!(faces(), 2, "the station and the group");
        // The interface is opened anew, and its face has its route again.
        let said = reload(&cable.replace("port =", "mtu = 1400\nport ="));
        assert!(said.contains("changed"), "{said}");
        assert!(west.reaches("/demo"), "{port}, changed: {}", west.log());
        let said = reload("");
        assert!(said.contains("removed"), "{said}");
        assert_eq!(faces(), 0);
        assert_ne!(west.run("ping /demo -c 1 --timeout 200").code, 0);
        // Nobody else has the interface open: it can be opened again.
        reload(&cable);
        assert!(west.reaches("/demo"), "{port}, again: {}", west.log());
    }
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    if !cables() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("byname.toml");
    let failing = |program: &[&str], interface: &str, port: &str| {
        let socket = folder.path().join("nfd.sock");
        let text = format!(
            "[faces.unix]\npath = \"{}\"\n[[faces.ethernet]]\ninterface = \"{interface}\"\nport = {port}\n\
             [metrics]\nenabled = false\n",
            socket.display()
        );
        std::fs::write(&config, text).expect("written");
        let byname = [env!("CARGO_BIN_EXE_byname"), "run", "--ephemeral", "--config"];
        let line: Vec<&str> = program.iter().copied().chain(byname).collect();
        let done = Command::new(line[0]).args(&line[1..]).arg(&config).output().expect("it starts");
        assert!(!done.status.success());
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let told = failing(&[], "none", "\"packet-mmap\"");
    assert!(told.contains("there is no interface none here; `ip link` lists"), "{told}");
    let told = failing(&["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"], "west", "\"packet-mmap\"");
    assert!(told.contains("CAP_NET_RAW") && told.contains("setcap cap_net_raw+ep"), "{told}");
    let told = failing(
        &["setpriv", "--bounding-set", "-net_admin,-sys_admin", "--inh-caps", "-net_admin,-sys_admin"],
        "west",
        "\"xdp\"",
    );
    assert!(told.contains("CAP_BPF") && told.contains("setcap cap_net_raw,cap_net_admin,cap_bpf+ep"), "{told}");
    let dpdk = |device: &str, eal: &str| {
        failing(&[], "wan0", &format!("\"dpdk\"\ndpdk_device = \"{device}\"\n[faces.dpdk]\neal = [\"{eal}\"]"))
    };
    if cfg!(feature = "dpdk") {
        let told = dpdk("0000:ff:1f.7", "--no-huge");
        assert!(told.contains("device \"0000:ff:1f.7\" (No such device") && told.contains("dpdk-devbind.py"), "{told}");
        let told = dpdk("net_null0", "--no-such-argument");
        assert!(told.contains("does not take these arguments: --no-such-argument"), "{told}");
        // The folder for files on huge pages does not exist.
        let told = dpdk("net_null0", "--huge-dir=/nowhere");
        assert!(told.contains("huge pages") && told.contains("--no-huge"), "{told}");
    } else {
        let told = dpdk("0000:ff:1f.7", "--no-huge");
        assert!(told.contains("built without it") && told.contains("--features dpdk"), "{told}");
    }
}
