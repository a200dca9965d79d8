//! Problems that `byname check` reports before `byname run` would, and errors of `run` when memory is refused.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, finish};

const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");
/// Any free ports, so that several routers may run at once.
const PORTS: &str =
    "[faces.udp]\nport = 0\n[faces.tcp]\nport = 0\n[faces.websocket]\nport = 0\n[metrics]\nenabled = false\n";

/// Runs `byname check` on this text, in a folder of its own.
fn check_in(folder: &Path, text: &str) -> Done {
    let file = folder.join("byname.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = Command::new(PROGRAM);
    command.arg("check").arg(file).current_dir(folder);
    finish(command)
}

fn check(text: &str) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    check_in(folder.path(), &text.replace("FOLDER", &folder.path().display().to_string()))
}

/// Checks that this text is refused, and that each of `told` is on its own line with its place.
fn is_refused(text: &str, told: &[(&str, &str)]) {
    let done = check(text);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    for (place, what) in told {
        let line = done.stderr.lines().find(|line| line.contains(what));
        let line = line.unwrap_or_else(|| panic!("no {what} in {}", done.stderr));
        assert!(line.contains(&format!("byname.toml:{place}: ")), "{line}");
    }
}

#[test]
fn tables_that_this_machine_cannot_hold_are_refused() {
    is_refused(
        "[tables]\npit_entries = 99999999999\ncs_bytes = \"900 TiB\"\n",
        &[("2:1", "tables.pit_entries = 99999999999 would take "), ("3:1", "tables.cs_bytes = ")],
    );
    is_refused("[general]\nface_events = 99999999999999\n", &[("2:1", "general.face_events")]);
    is_refused("[threads]\ncount = 2\nring_packets = 99999999999999\n", &[("3:1", "threads.ring_packets")]);
}

#[test]
fn what_this_machine_lacks_is_told_at_once_with_its_places() {
    is_refused(
        "[[faces.ethernet]]\ninterface = \"none0\"\n\
         [capture]\nfile = \"none/x.pcap\"\n\
         [faces.unix]\npath = \"FOLDER/byname.toml/x.sock\"\n\
         [rib]\nlocalhop_anchors = [\"a.ndncert\", \"b.ndncert\"]\n\
         [[authorization]]\nhmac_key = \"/k\"\nhmac_secret_file = \"none\"\nmodules = [\"rib\"]\n\
         [tags]\ngraph = \"none.gml\"\nnode = \"a\"\ntree = [{ id = 1, root = \"a\" }]\n",
        &[
            ("2:1", "there is no interface none0 here"),
            ("4:1", "there is no folder "),
            ("6:1", "byname.toml is not a folder"),
            ("8:21", "a.ndncert"),
            ("8:34", "b.ndncert"),
            ("11:1", "hmac_secret_file "),
            ("14:1", "none.gml"),
        ],
    );
    is_refused(
        "[metrics]\nlisten = \"127.0.0.1:6363\"\n[faces.websocket]\nport = 6363\n",
        &[("2:1", "[faces.tcp] and [metrics] both use TCP port 6363"), ("4:1", "[faces.tcp] and [faces.websocket]")],
    );
    if !cfg!(feature = "opentelemetry") {
        is_refused(
            "[metrics]\notlp = \"http://c:4318\"\n",
            &[("2:1", "--features opentelemetry`, or let a collector")],
        );
    }
    is_refused("[faces.unix]\npath = \"FOLDER/byname.toml\"\n", &[("2:1", "is not a socket")]);
}

#[test]
fn warnings_do_not_refuse() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of some length\n").expect("written");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let text = "[[authorization]]\nhmac_key = \"/k\"\nhmac_secret_file = \"secret\"\nmodules = [\"rib\"]\n\
                [faces.udp.multicast]\nenabled = true\ninterfaces = [\"none0\"]\n\
                [metrics]\nlisten = \"192.0.2.77:9626\"\n";
    let done = check_in(folder.path(), text);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("byname.toml:3:1: users other than its owner have access to "), "{}", done.stdout);
    assert!(done.stdout.contains("byname.toml:7:15: there is no interface none0"), "{}", done.stdout);
    assert!(done.stdout.contains("byname.toml:9:1: no interface here has the address 192.0.2.77"), "{}", done.stdout);
    assert!(done.stdout.ends_with("byname.toml: good, with 3 warnings\n"), "{}", done.stdout);
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let done = check_in(folder.path(), text);
    assert!(done.stdout.ends_with("byname.toml: good, with 2 warnings\n"), "{}", done.stdout);
}

/// Runs a router for a moment with a limited address space. Returns its exit code and output if it ended by itself.
fn run_within(folder: &Path, kib: u32, text: &str) -> Option<(Option<i32>, String)> {
    let file = folder.join("byname.toml");
    let log = folder.join("log");
    let socket = folder.join("nfd.sock");
    std::fs::write(&file, format!("{PORTS}[faces.unix]\npath = \"{}\"\n{text}", socket.display())).expect("written");
    let output = std::fs::File::create(&log).expect("a log");
    let mut process = Command::new("sh")
        .args(["-c", &format!("ulimit -v {kib} && exec \"$0\" run --config \"$1\""), PROGRAM])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a second handle"))
        .stderr(output)
        .spawn()
        .expect("a shell");
    let deadline = Instant::now() + Duration::from_secs(30);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    loop {
        if let Some(status) = process.try_wait().expect("a child") {
            return Some((status.code(), said()));
        }
        if said().contains("Ctrl-C ends it") {
            process.kill().expect("a child");
            process.wait().expect("a child");
            return None;
        }
        assert!(Instant::now() < deadline, "{}", said());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn refused_memory_is_an_error_with_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, setting) in [
        ("[tables]\npit_entries = 4000000\n", "tables.pit_entries"),
        ("[tables]\ncs_packets = 3000000\ncs_bytes = \"100 GiB\"\n", "tables.cs_packets"),
        ("[tables]\ndead_nonces = 99999999999\n", "tables.dead_nonces"),
        ("[general]\ninternal_queue_packets = 99999999999\n", "general.internal_queue_packets"),
        ("[general]\nface_events = 99999999999\n", "general.face_events"),
        ("[threads]\ncount = 2\nring_packets = 99999999999\n", "threads.ring_packets"),
    ] {
        let (code, said) = run_within(folder.path(), 600_000, text).expect("there is no room for that");
        assert_eq!(code, Some(2), "{text}{said}");
        assert!(said.contains(&format!("{setting} = ")), "{text}{said}");
        assert!(said.contains("`ulimit -v` leaves this process"), "{text}{said}");
    }
    // The table by itself would fit; with the rest of the process it does not.
    let (code, said) = run_within(folder.path(), 600_000, "[tables]\ndead_nonces = 60000000\n").expect("no room");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the system"), "{said}");
    // These sizes are too small for the defaults.
    for kib in [100, 150, 200].map(|mib| mib * 1024) {
        let (code, said) = run_within(folder.path(), kib, "").expect("there is no room");
        assert!(matches!(code, Some(1 | 2)), "{kib} KiB: {code:?} {said}");
        assert!(said.contains("error: "), "{kib} KiB: {said}");
    }
    assert_eq!(run_within(folder.path(), 2 << 20, ""), None);
}
