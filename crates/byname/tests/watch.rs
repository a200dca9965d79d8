//! What a router tells those who watch over it: the service manager, supervisors over HTTP, the audit log and the log.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Router, command_at, finish, free_port};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// Status code and text of an answer over HTTP. `None` while nobody listens.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.trim().to_owned()))
}

fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A router with a service manager, which is this test. Its start takes as long as a connection is being made.
fn started_by_a_manager(folder: &Path, port: u16, neighbour: &str) -> (Child, UnixDatagram) {
    let manager = UnixDatagram::bind(folder.join("notify")).expect("a socket");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let config = format!(
        "[faces.udp]\nlisten = false\n[faces.tcp]\nlisten = false\n[faces.websocket]\nlisten = false\n\
         [faces.unix]\npath = \"{0}/nfd.sock\"\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n\
         [[face]]\nremote = \"{neighbour}\"\npersistency = \"persistent\"\n",
        folder.display()
    );
    std::fs::write(folder.join("byname.toml"), config).expect("written");
    let child = Command::new(env!("CARGO_BIN_EXE_byname"))
        .args(["run", "--config"])
        .arg(folder.join("byname.toml"))
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .env("STATE_DIRECTORY", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("log")).expect("a log"))
        .spawn()
        .expect("byname");
    (child, manager)
}

#[test]
fn supervisors_hear_when_a_router_is_ready_and_lives() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    // A listener whose queue is full: the connection is made when there is room.
    let listener = rustix_listener();
    let address = listener.local_addr().expect("bound");
    let filling = TcpStream::connect(address).expect("the first fits");
    let neighbour = format!("tcp4://{address}");
    let (mut child, manager) = started_by_a_manager(folder.path(), port, &neighbour);
    let starting = wait_for("it answers while it starts", || get(port, "/readyz"));
    assert_eq!(starting, (503, "the router is starting".into()));
    assert_eq!(get(port, "/livez"), Some((200, "ok".into())));
    drop((listener.accept(), filling));
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    wait_for("it is ready", || get(port, "/readyz").filter(|answer| *answer == (200, "ok".into())));
    let mut next = || {
        let mut message = [0; 4096];
        let len = manager.recv(&mut message).unwrap_or_else(|error| panic!("{error}: {}", log()));
        String::from_utf8(message[..len].to_vec()).expect("text")
    };
    // It feeds the watchdog while it starts, too.
    let ready =
        std::iter::repeat_with(&mut next).find(|message| !message.starts_with("WATCHDOG=1")).expect("a message");
    assert!(ready.contains("READY=1\n") && ready.contains("STATUS=forwarding"), "{ready}");
    assert_eq!(next().trim(), "WATCHDOG=1");
    assert!(Command::new("kill").arg(child.id().to_string()).status().expect("kill").success());
    let ending =
        std::iter::repeat_with(&mut next).find(|message| !message.starts_with("WATCHDOG=1")).expect("a message");
    assert!(ending.contains("STOPPING=1\n"), "{ending}");
    assert_eq!(common::wait(&mut child), 0, "{}", log());
}

/// A listener with room for one connection that nobody has accepted.
fn rustix_listener() -> std::net::TcpListener {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("bound");
    listen(&socket, 0).expect("it listens");
    socket.into()
}

fn audit_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))).collect()
}

#[test]
fn each_command_is_in_the_audit_log_with_its_outcome() {
    let router = Router::start_with("[audit]\nto = \"audit.jsonl\"\n");
    router.ok("face create udp4://127.0.0.1:9");
    router.ok("route add /a udp4://127.0.0.1:9 --cost 5");
    assert_ne!(router.run("route add /a 99999").code, 0);
    router.ok("strategy set /a multicast");
    // The answer to this one has to wait for a connection, which is refused.
    let closed = free_port();
    assert_ne!(router.run(&format!("face create tcp4://127.0.0.1:{closed}")).code, 0);
    let path = router.path("audit.jsonl");
    let lines = wait_for("all commands", || Some(audit_lines(&path)).filter(|lines| lines.len() >= 6));
    let said = |line: &Value| (line["command"].as_str().unwrap().to_owned(), line["code"].as_u64().unwrap());
    let expected = [
        ("faces/create", 200),
        ("faces/create", 409),
        ("rib/register", 200),
        ("rib/register", 410),
        ("strategy-choice/set", 200),
        ("faces/create", 504),
    ];
    assert_eq!(lines.iter().map(said).collect::<Vec<_>>(), expected.map(|(command, code)| (command.to_owned(), code)));
    for line in &lines {
        assert!(line["remote"].as_str().unwrap().starts_with("fd://"), "{line}");
        assert!(line["face"].as_u64().unwrap() >= 256 && line["key"].is_null(), "{line}");
    }
    assert_eq!(lines[2]["parameters"]["name"], "/a");
    assert_eq!(lines[2]["parameters"]["cost"], 5);
    assert!(lines[5]["text"].as_str().unwrap().contains("refused"), "{}", lines[5]);
}

#[test]
fn the_log_tells_changes_and_sums_up_storms() {
    let router = Router::start_with("[audit]\nto = \"audit.jsonl\"\n");
    router.ok("face create udp4://127.0.0.1:9");
    router.ok("route add /a udp4://127.0.0.1:9");
    router.ok("strategy set /a multicast");
    for part in ["a face was created", "a route was added prefix=/a", "a strategy was set prefix=/a"] {
        assert!(router.log().contains(part), "{part} in {}", router.log());
    }
    let count = 20_000;
    let batch: String = (0..count).map(|i| format!("route add /storm/{i} udp4://127.0.0.1:9\n")).collect();
    std::fs::write(router.path("batch"), batch).expect("written");
    let mut command = command_at(&router.transport(), "");
    command.arg("-f").arg(router.path("batch"));
    let started = Instant::now();
    assert_eq!(finish(command).code, 0);
    let seconds = started.elapsed().as_secs() as usize + 2;
    let log = wait_for("a summary", || Some(router.log()).filter(|log| log.contains("routes added")));
    let lines = log.lines().filter(|line| line.contains("/storm") || line.contains("in the last second also")).count();
    assert!(lines <= 11 * seconds, "{lines} lines in {seconds} s");
    // The audit log has all of them, or says how many are lost.
    let path = router.path("audit.jsonl");
    wait_for("all lines", || {
        let text = std::fs::read_to_string(&path).ok()?;
        // The last line may be incomplete.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let weight = |line: Value| line["lost"].as_u64().unwrap_or(1);
        (lines.map(weight).sum::<u64>() >= count).then_some(())
    });
}
