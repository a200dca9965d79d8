//! Hosts on three switches, in network namespaces: runs `byname demo switch`, and checks the errors of switches and
//! controllers.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use byname_switch::control::message::{ToController, ToSwitch};
use byname_switch::control::session::{Greeting, Hello, Secret, SessionError, read_frame};
use byname_switch::key::KeyKind;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether namespaces can be created and `ping` is installed. Prints a message if not.
fn namespaces() -> bool {
    let runs = |line: &[&str]| Command::new(line[0]).args(&line[1..]).output().is_ok_and(|done| done.status.success());
    let allowed = runs(&["unshare", "--net", "ip", "link", "add", "dev", "a", "type", "veth", "peer", "name", "b"]);
    let ping = runs(&["ping", "-V"]);
    if !allowed {
        eprintln!("skipped: network namespaces and virtual cables are not allowed here");
    } else if !ping {
        eprintln!("skipped: there is no ping");
    }
    allowed && ping
}

/// Runs the demonstration with this number of threads in each switch and this key. Returns what it printed.
fn demo(threads: &str, key: &str) -> String {
    demo_with_pings(threads, key, 7)
}

/// As [`demo`], with so many times five pings.
fn demo_with_pings(threads: &str, key: &str, pings: usize) -> String {
    let Output { status, stdout, stderr } =
        Command::new(PROGRAM).args(["demo", "switch", "--threads", threads, "--key", key]).output().expect("it starts");
    let (told, errors) = (text(&stdout), text(&stderr));
    println!("{told}");
    assert!(status.success() && errors.is_empty(), "{told}\n{errors}");
    // Five pings each without loss, and some lost pings during the move.
    assert_eq!(told.matches("5 packets transmitted, 5 received, 0% packet loss").count(), pings, "{told}");
    let moved = told.lines().find(|line| line.trim_start().starts_with("ping ")).expect("pings while bob moves");
    let received: usize =
        moved.split(", ").nth(1).and_then(|part| part.split(' ').next()?.parse().ok()).expect("a count");
    assert!((40..=80).contains(&received), "{moved}");
    assert!(told.contains("Mbit/s over") || told.contains("skipped: there is no program iperf3"), "{told}");
    told
}

#[test]
fn hosts_on_three_switches_reach_each_other_wherever_they_move() {
    if namespaces() {
        assert!(!demo("1", "mac").contains("thread="));
    }
}

#[test]
fn hosts_on_switches_of_several_threads_reach_each_other_too() {
    if namespaces() {
        let told = demo("2", "mac");
        let lines: Vec<_> = told.lines().filter(|line| line.trim_start().starts_with("thread=")).collect();
        // Under load, a ring may fill. All other frames cross.
        assert!(lines.len() == 6 && lines.iter().all(|line| !line.contains(" given=0 ")), "{told}");
    }
}

#[test]
fn hosts_of_one_vlan_reach_each_other_and_no_others() {
    if namespaces() {
        assert!(demo("1", "vlan-mac").contains("in another segment: it reaches nobody"));
    }
}

#[test]
fn hosts_of_one_vxlan_network_reach_each_other_and_no_others() {
    if namespaces() {
        // Two more pings with an endpoint of the system's own.
        assert!(demo_with_pings("2", "vxlan", 9).contains("in another segment: it reaches nobody"));
    }
}

#[test]
fn hosts_with_ipv6_addresses_reach_each_other_by_these() {
    if namespaces() {
        let told = demo("1", "ipv6");
        assert!(told.contains("(fd00::1) is at port s1-h1"), "{told}");
    }
}

#[test]
fn switches_for_gtp_carry_everything_else_too() {
    if namespaces() {
        demo("1", "gtp");
    }
}

#[test]
fn what_is_wrong_with_a_switch_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |command: &str, config: &str, more: &[&str]| {
        let path = folder.path().join("config.toml");
        std::fs::write(&path, config).expect("written");
        let done = Command::new(PROGRAM).args([command, "--config"]).arg(&path).args(more).output().expect("it starts");
        assert!(!done.status.success(), "{}", text(&done.stdout));
        text(&done.stderr)
    };
    let switch = "name = \"s1\"\ncontroller = \"unix:///nonexistent/c.sock\"\nports = [\"none\"]\n";
    let told = run("switch", switch, &[]);
    assert!(told.contains("there is no network interface none; `ip link` lists them"), "{told}");
    let told = run("switch", switch, &["--status"]);
    assert!(told.contains("add `status = \"/run/byname/s1.sock\"`"), "{told}");
    let told = run("switch", &format!("{switch}status = \"s1.sock\"\n"), &["--status"]);
    assert!(told.contains("no switch answers at"), "{told}");
    let told = run("switch-controller", "listen = [\"tcp://127.0.0.1:0\"]\nswitches = [\"s1\"]\n", &[]);
    assert!(told.contains("a controller on TCP needs `secret_file`"), "{told}");
    let told = run("switch-controller", "listn = []\n", &[]);
    assert!(told.contains("did you mean `listen`?"), "{told}");
}

const SECRET: &str = "a secret of sixteen bytes or more";

/// A controller for one switch, on TCP, with a limit on descriptors. Dropping this ends it.
struct ControllerProcess(Child);

impl ControllerProcess {
    fn start(folder: &Path, address: SocketAddr, descriptors: usize) -> Self {
        let text = format!(
            "listen = [\"tcp://{address}\"]\nswitches = [\"s1\"]\nsecret_file = \"secret\"\n\
             switch_addresses = [\"127.0.0.1\"]\n"
        );
        std::fs::write(folder.join("secret"), SECRET).expect("written");
        std::fs::write(folder.join("net.toml"), text).expect("written");
        let command = format!("ulimit -n {descriptors}; exec {PROGRAM} switch-controller --config net.toml");
        let shell = Command::new("sh").args(["-c", &command]).current_dir(folder).stdout(Stdio::null()).spawn();
        ControllerProcess(shell.expect("a shell"))
    }
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Performs a switch's handshake. Returns the first message to the switch.
fn meet(address: SocketAddr, name: &str, secret: &str, key: KeyKind) -> Result<ToSwitch, SessionError> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let hello = Hello { key, name: name.into(), ports: vec!["eth0".into()] };
    let (greeting, framed) = Greeting::new(&Secret::new(secret.as_bytes()), &hello)?;
    stream.write_all(&framed)?;
    let (mut session, _) = greeting.welcomed(&read_frame(&mut stream)?)?;
    stream.write_all(&session.to_controller.seal(&ToController::Alive.encode()))?;
    let told = session.to_switch.open(&read_frame(&mut stream)?)?;
    Ok(ToSwitch::decode(&told).expect("a message"))
}

/// A connection from an address of this host that sends nothing.
fn silent_stranger(to: SocketAddr, n: u8) -> Option<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
    bind(&socket, &SocketAddr::from(([127, 0, 2, n], 0))).ok()?;
    // The system waits for the connection no longer than for room to send.
    set_socket_timeout(&socket, Timeout::Send, Some(Duration::from_secs(5))).ok()?;
    connect(&socket, &to).ok()?;
    Some(socket.into())
}

/// Whether the controller sends the switch its orders.
fn is_served(told: &Result<ToSwitch, SessionError>) -> bool {
    matches!(told, Ok(ToSwitch::Plan(_) | ToSwitch::Table(_)))
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Waits until a controller serves a switch.
fn serves(address: SocketAddr) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if is_served(&meet(address, "s1", SECRET, KeyKind::Mac)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn silent_strangers_keep_no_switch_out() {
    let (folder, address) = (tempfile::tempdir().expect("a folder"), free_address());
    let _controller = ControllerProcess::start(folder.path(), address, 1024);
    assert!(serves(address));
    // No stranger has waited for long when the switch connects, so no timeout helps the switch.
    let mut strangers = std::collections::VecDeque::new();
    for n in 0..600u16 {
        strangers.push_back(silent_stranger(address, (n % 100) as u8 + 1));
        if strangers.len() > 100 {
            strangers.pop_front();
        }
        if n % 60 == 59 {
            let told = meet(address, "s1", SECRET, KeyKind::Mac);
            assert!(is_served(&told), "after {n} strangers: {told:?}");
        }
    }
    let told = meet(address, "s9", SECRET, KeyKind::Mac).expect("an answer");
    assert_eq!(told, ToSwitch::Refused("there is no \"s9\" among its `switches`".into()));
    let told = meet(address, "s1", SECRET, KeyKind::Ipv6).expect("an answer");
    let why =
        "the controller forwards by the key \"mac\", and the switch by \"ipv6\": write the same `key` in both files";
    assert_eq!(told, ToSwitch::Refused(why.into()));
    let told = meet(address, "s1", "another secret", KeyKind::Mac);
    assert!(matches!(told, Err(SessionError::Connection(_))), "{told:?}");
}

#[test]
fn a_controller_without_descriptors_accepts_again_when_it_has_some() {
    let (folder, address) = (tempfile::tempdir().expect("a folder"), free_address());
    let _controller = ControllerProcess::start(folder.path(), address, 24);
    assert!(serves(address));
    let strangers: Vec<_> = (1..100).map(|n| silent_stranger(address, n)).collect();
    assert!(strangers.iter().flatten().count() > 50);
    assert!(serves(address), "strangers have a few seconds");
}
