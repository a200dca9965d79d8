//! Routers joined only by shared memory, and a router whose peer is DPDK's driver. Applications use the routers' Unix
//! sockets.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Router;

fn router(socket: &Path, settings: &str) -> Router {
    Router::start_with(&format!("[[faces.memif]]\nsocket = \"{}\"\n{settings}\n", socket.display()))
}

/// The only face of the memif interface.
fn face(router: &Router) -> serde_json::Value {
    let faces = router.json("face list --scheme memif");
    let [face] = &faces.as_array().expect("a list")[..] else { panic!("one face: {faces}") };
    face.clone()
}

fn route(router: &Router, prefix: &str) {
    router.ok(&format!("route add {prefix} {}", face(router)["face_id"]));
}

#[test]
fn packets_cross_and_either_router_may_start_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let west = || {
        let west = router(&socket, "role = \"server\"\nsecret = \"psst\"");
        route(&west, "/demo");
        west
    };
    let east = || router(&socket, "role = \"client\"\nsecret = \"psst\"");
    // The client starts first and waits for the server.
    let first_east = east();
    let first_west = west();
    let server = first_east.serve("ping-server /demo", "/demo/ping", b"");
    assert!(first_west.reaches("/demo"));
    let text = first_west.ok("ping /demo -c 20 -i 5");
    assert!(text.contains("20 received, 0 nacked, 0% loss"), "{text}");

    let _file = first_west.fetches_whole(&first_east);

    drop(first_west);
    let second_west = west();
    assert!(second_west.reaches("/demo"), "after the server started again");
    drop((server, first_east));
    assert_ne!(second_west.run("ping /demo -c 1 --timeout 200").code, 0);
    let second_east = east();
    let _server = second_east.serve("ping-server /demo", "/demo/ping", b"");
    assert!(second_west.reaches("/demo"), "after the client started again");
    let told = second_west.ok("status");
    assert!(!told.contains("memif_peer"), "{told}");
}

#[test]
fn routers_with_two_threads_have_two_rings() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let settings = |more: &str| format!("{more}\n[threads]\ncount = 2\n");
    let west = router(&socket, &settings("role = \"server\""));
    let east = router(&socket, &settings("role = \"client\""));
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    let deadline = Instant::now() + Duration::from_secs(10);
    let faces = loop {
        let faces = west.json("face list --scheme memif");
        match &faces.as_array().expect("a list")[..] {
            [a, b] => break [a.clone(), b.clone()],
            _ => assert!(Instant::now() < deadline, "a face for each ring: {faces}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let uris = faces.each_ref().map(|face| face["remote_uri"].as_str().expect("a URI").to_owned());
    assert!(uris.iter().any(|uri| uri.ends_with("?id=0")) && uris.iter().any(|uri| uri.ends_with("?id=0&ring=1")));
    // By each ring.
    for face in &faces {
        west.ok(&format!("route add /demo {}", face["face_id"]));
        assert!(west.reaches("/demo"), "{face}");
        let text = west.ok("ping /demo -c 20 -i 5");
        assert!(text.contains("20 received, 0 nacked, 0% loss"), "{text}");
        let _file = west.fetches_whole(&east);
        west.ok(&format!("route remove /demo {}", face["face_id"]));
    }
    // An end with one thread has one ring.
    drop(east);
    let east = router(&socket, "role = \"client\"");
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    let first = faces.iter().find(|face| face["remote_uri"].as_str().is_some_and(|uri| uri.ends_with("?id=0")));
    west.ok(&format!("route add /demo {}", first.expect("a face")["face_id"]));
    assert!(west.reaches("/demo"));
    assert_eq!(east.json("face list --scheme memif").as_array().map(Vec::len), Some(1));
    let told = west.ok("status");
    assert!(!told.contains("memif_peer"), "{told}");
}

#[test]
fn a_router_that_hands_over_makes_the_face_anew_and_keeps_its_routes() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let mut west = router(&socket, "role = \"server\"");
    let mut east = router(&socket, "role = \"client\"");
    let _server = east.serve("ping-server /demo", "/demo/ping", b"");
    route(&west, "/demo");
    assert!(west.reaches("/demo"));
    let before = face(&west)["face_id"].clone();
    west.hand_over();
    assert_eq!(face(&west)["face_id"], before);
    assert!(west.reaches("/demo"), "after the server has handed over");
    east.hand_over();
    assert!(west.reaches("/demo"), "after the client has handed over");
}

#[test]
fn a_socket_in_use_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let _first = router(&socket, "");
    let config = folder.path().join("byname.toml");
    let text = format!(
        "[faces.unix]\npath = \"{}\"\n[faces.udp]\nport = 0\n[faces.tcp]\nport = 0\n[faces.websocket]\nport = 0\n\
         [metrics]\nenabled = false\n[[faces.memif]]\nsocket = \"{}\"\n",
        folder.path().join("nfd.sock").display(),
        socket.display()
    );
    std::fs::write(&config, text).expect("written");
    let done =
        Command::new(env!("CARGO_BIN_EXE_byname")).args(["run", "--ephemeral", "--config"]).arg(&config).output();
    let done = done.expect("it starts");
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && told.contains("[[faces.memif]]") && told.contains("is held by byname"), "{told}");
}

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts DPDK's test program, which sends back all packets that its memif driver receives. Returns `None`, with a
/// message, if the program is not installed.
fn testpmd(folder: &Path, device: &str) -> Option<Ending> {
    let log = std::fs::File::create(folder.join("testpmd.log")).expect("a file");
    let prefix = folder.file_name().expect("a name").to_string_lossy().replace('.', "");
    let command = Command::new("dpdk-testpmd")
        .args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "-l", "0,1", "--file-prefix", &prefix])
        .args(["--vdev", device, "--", "--forward-mode=io", "--port-topology=loop", "--auto-start"])
        .args(["--total-num-mbufs=4096", "--stats-period=1"])
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("second handle"))
        .stderr(log)
        .spawn();
    match command {
        Ok(child) => Some(Ending(child)),
        Err(error) => {
            eprintln!("skipped: dpdk-testpmd cannot be run here ({error}); on Debian: apt install dpdk");
            None
        }
    }
}

/// Checks that the peer sends back every packet.
fn echoes(router: &Router) {
    route(router, "/echo");
    let counts = || {
        let face = face(router);
        let count = |key: &str| face[key].as_u64().expect("a count");
        (count("out_interests"), count("in_interests"))
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while counts().1 == 0 {
        assert!(Instant::now() < deadline, "the peer sends nothing back: {}", face(router));
        router.run("ping /echo -c 1 --timeout 100");
    }
    let before = counts();
    router.run("ping /echo -c 50 -i 2 --timeout 100");
    let after = counts();
    assert_eq!((after.0 - before.0, after.1 - before.1), (50, 50), "{}", face(router));
    let told = router.ok("status");
    assert!(!told.contains("memif_"), "{told}");
}

#[test]
fn dpdk_s_driver_is_a_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let router = router(&socket, "id = 3");
    let device = format!("net_memif0,role=client,id=3,socket={},socket-abstract=no", socket.display());
    let Some(_testpmd) = testpmd(folder.path(), &device) else { return };
    echoes(&router);
}

#[test]
fn dpdk_s_driver_is_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let device = format!("net_memif0,role=server,id=0,socket={},socket-abstract=no", socket.display());
    let Some(_testpmd) = testpmd(folder.path(), &device) else { return };
    echoes(&router(&socket, "role = \"client\""));
}
