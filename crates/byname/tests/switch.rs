//! Hosts on three switches, in network namespaces: `byname demo switch` as a test, and what switches and
//! controllers say when something is wrong.

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Whether namespaces may be made, and there is a `ping`; says so if not.
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

#[test]
fn hosts_on_three_switches_reach_each_other_wherever_they_move() {
    if !namespaces() {
        return;
    }
    let Output { status, stdout, stderr } = Command::new(PROGRAM).args(["demo", "switch"]).output().expect("it starts");
    let (told, errors) = (text(&stdout), text(&stderr));
    println!("{told}");
    assert!(status.success() && errors.is_empty(), "{told}\n{errors}");
    // Seven times five pings without loss, and a move that cost a few.
    assert_eq!(told.matches("5 packets transmitted, 5 received, 0% packet loss").count(), 7, "{told}");
    let moved = told.lines().find(|line| line.trim_start().starts_with("ping ")).expect("pings while bob moves");
    let received: usize =
        moved.split(", ").nth(1).and_then(|part| part.split(' ').next()?.parse().ok()).expect("a count");
    assert!((40..=80).contains(&received), "{moved}");
    assert!(told.contains("Mbit/s over") || told.contains("skipped: there is no program iperf3"), "{told}");
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
