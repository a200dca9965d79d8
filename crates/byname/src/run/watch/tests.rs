use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use byname_control::config::Config;
use byname_face::pulse::{Doing, Pulse};

use super::*;
use crate::odd_port::OddPort;
use crate::run::{self, health::Phase};

/// Runs in a process of its own, as a child of the next test: the service manager is in its environment.
#[test]
#[ignore = "hangs: the next test runs it"]
fn a_packet_thread_hangs() {
    let config: Config = toml_of("[threads]\ncount = 2\npin = false\n");
    run::start_log(&config.log).expect("a log");
    let authorizer = config.authorizer().expect("no files");
    let mut forwarder = run::start_forwarder(&config, authorizer, Vec::new(), Vec::new()).expect("threads");
    let health = Arc::<Health>::default();
    health.set(Phase::Ready);
    let probes = health.probes();
    let control = forwarder.control.take_pulse();
    let _watch = Watch::start(forwarder.pulses, control, health, Duration::from_millis(20)).expect("a thread");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!((probes.live)(), Ok(()), "threads that sleep go on");
    // The call returns only when the port has started, so another thread makes it.
    let handle = forwarder.handle.clone();
    let never_ends = || std::thread::sleep(Duration::from_secs(600));
    let stuck = OddPort { name: "stuck", on_start: || (), on_receive: Some(never_ends) };
    std::thread::spawn(move || handle.add_ports(1, vec![Box::new(stuck)]));
    let deadline = Instant::now() + Duration::from_secs(20);
    while (probes.live)().is_ok() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    eprintln!("live: {:?}", (probes.live)());
    // The forwarder cannot end any more.
    std::process::exit(0);
}

fn toml_of(text: &str) -> Config {
    Config::parse(text, std::path::Path::new("test")).expect("a configuration")
}

#[test]
fn a_thread_that_hangs_is_reported_and_the_process_restarted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "run::watch::tests::a_packet_thread_hangs", "--ignored", "--nocapture"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .output()
        .expect("this test again");
    let said = String::from_utf8_lossy(&child.stderr) + String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    // The first thread runs the loop of the one that rests, so it stands still, too.
    for part in
        ["byname-packet1 does not go on (stage receive, port stuck)", "live: Err(\"byname-packets does not go on"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    manager.set_nonblocking(true).expect("set");
    let mut told = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(len) = manager.recv(&mut buffer) {
        told.push(String::from_utf8(buffer[..len].to_vec()).expect("text"));
    }
    let fed = told.iter().take_while(|message| message.trim() == "WATCHDOG=1").count();
    assert!(fed > 0, "{told:?}");
    assert!(told[fed].contains("STATUS=byname-packet") && told[fed].contains("WATCHDOG=trigger"), "{told:?}");
    assert_eq!(told.len(), fed + 1, "it is not fed any more: {told:?}");
}

#[test]
fn the_control_thread_has_more_time() {
    let mut control = Pulse::new("control");
    control.note(Doing::Commit);
    let health = Arc::<Health>::default();
    health.set(Phase::Ready);
    let probes = health.probes();
    let thread = Thread { pulse: control.watched(), patience: CONTROL, is_reported: false };
    let mut watcher = Watcher { threads: vec![thread], health, feeding: None, fed: None, is_well: true };
    let looks = |watcher: &mut Watcher, times: u32| (0..times).for_each(|_| watcher.look());
    // The first reading only learns the word.
    looks(&mut watcher, REPORTED);
    assert_eq!((probes.ready)(), Ok(()));
    looks(&mut watcher, 1);
    assert_eq!(((probes.live)(), (probes.ready)()), (Ok(()), Err("control does not go on (stage commit)".into())));
    looks(&mut watcher, CONTROL - REPORTED);
    assert_eq!((probes.live)(), Err("control does not go on (stage commit)".into()));
    control.note(Doing::Nothing);
    looks(&mut watcher, 1);
    assert_eq!(((probes.live)(), (probes.ready)()), (Ok(()), Ok(())));
}
