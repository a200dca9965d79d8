//! `byname reload` and SIGHUP: what changes, what is refused, and what is undone.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");
const PATIENCE: Duration = Duration::from_secs(30);
const BASE: &str = "\
[faces.udp]\nport = 0\nipv6 = false\n\
[faces.udp.multicast]\nenabled = false\n\
[faces.tcp]\nport = 0\nipv6 = false\n\
[faces.websocket]\nlisten = false\n\
[faces.unix]\npath = \"SOCKET\"\n";
const NO_METRICS: &str = "[metrics]\nenabled = false\n";

struct Running {
    folder: TempDir,
    process: Child,
}

impl Running {
    fn start(more: &str) -> Running {
        let folder = tempfile::tempdir().expect("a folder");
        let log = std::fs::File::create(folder.path().join("log")).expect("a log");
        write(&folder, more);
        let process = Command::new(PROGRAM)
            .args(["run", "--config"])
            .arg(folder.path().join("byname.toml"))
            .env_remove("RUST_LOG")
            .env("STATE_DIRECTORY", folder.path().join("state"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("byname");
        let running = Running { folder, process };
        running.await_log("Ctrl-C ends it.\n");
        running
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn await_log(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "no {text:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn client(&self, line: &str) -> Output {
        Command::new(PROGRAM)
            .args(line.split_whitespace())
            .env("NDN_CLIENT_TRANSPORT", format!("unix://{}", self.folder.path().join("nfd.sock").display()))
            .output()
            .expect("byname")
    }

    /// Writes the file and reloads it. Returns whether that succeeded, and all that was said.
    fn reload(&self, more: &str, options: &str) -> (bool, String) {
        write(&self.folder, more);
        let done = self.client(&format!("reload {options}"));
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// What the configuration decides. Left out are counters, and faces of clients, which come and go.
    fn state(&self) -> String {
        let faces = self.list("face list");
        let faces = faces.lines().filter(|line| !line.contains("remote=fd://"));
        let faces: String = faces.map(|line| line.split("counters=").next().unwrap_or_default()).collect();
        let cs = self.list("cs info");
        let cs: String = cs.lines().filter(|line| !line.trim_start().starts_with('n')).collect();
        [faces, cs, self.list("route list"), self.list("fib"), self.list("channel"), self.list("strategy list")]
            .concat()
    }

    fn list(&self, line: &str) -> String {
        let done = self.client(line);
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write(folder: &TempDir, more: &str) {
    let socket = folder.path().join("nfd.sock").display().to_string();
    let text = format!("{}{more}", BASE.replace("SOCKET", &socket));
    std::fs::write(folder.path().join("byname.toml"), text).expect("written");
}

fn route(prefix: &str, port: u16) -> String {
    format!("[[route]]\nprefix = \"{prefix}\"\nface = \"udp4://127.0.0.1:{port}\"\n")
}

#[test]
fn changes_are_told_and_applied_and_those_of_management_stay() {
    let running = Running::start(&[NO_METRICS, &route("/old", 9)].concat());
    assert!(running.client("route add /mine udp4://127.0.0.1:10").status.success());
    let before = running.state();
    let new = [
        NO_METRICS,
        &route("/new", 11),
        "[tables]\nfib = \"two-stage\"\ncs_packets = 77\n[tables.strategies]\n\"/\" = \"best-route\"\n\"/new\" = \
         \"multicast\"\n",
    ]
    .concat();
    let (good, said) = running.reload(&new, "--dry-run");
    assert!(good && said.contains("tables.fib: \"compact\" -> \"two-stage\"\n"), "{said}");
    assert!(said.contains("[[route]] /old to udp4://127.0.0.1:9: removed\n"), "{said}");
    assert_eq!(running.state(), before, "a dry run changes nothing");
    let (good, said) = running.reload(&new, "");
    assert!(good && said.ends_with("reloaded\n"), "{said}");
    let after = running.state();
    for there in ["/new", "/mine", "127.0.0.1:11", "127.0.0.1:10", "77"] {
        assert!(after.contains(there), "{there}: {after}");
    }
    assert!(!after.contains("/old") && !after.contains("127.0.0.1:9 "), "{after}");
    let (good, said) = running.reload(&new, "");
    assert!(good && said.contains("no setting has changed"), "{said}");
}

#[test]
fn mistakes_and_refusals_leave_the_router_as_it_is() {
    let running = Running::start(&[NO_METRICS, &route("/old", 9)].concat());
    let before = running.state();
    let busy = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = busy.local_addr().expect("bound");
    let more = route("/new", 11);
    for (file, says) in [
        (format!("{more}[metrics"), "byname.toml:"),
        (format!("{more}[metrics]\nenabeld = true\n"), "unknown word `enabeld`"),
        (format!("{more}[rib]\nlocalhop_anchors = [\"gone.ndncert\"]\n"), "gone.ndncert"),
        (
            format!("{more}[threads]\nheavy_hitters = false\ncount = 2\n{NO_METRICS}"),
            "a restart is needed for threads.count",
        ),
        (format!("{more}[metrics]\nlisten = \"{address}\"\n"), "cannot serve HTTP"),
        (format!("{more}[rib]\nroutes_max = 2\n{NO_METRICS}"), "full"),
        (format!("{more}[tables]\npit_entries = 99999999999\n{NO_METRICS}"), "would take"),
        (format!("{more}[[face]]\nremote = \"memif:///nowhere?id=1\"\n{NO_METRICS}"), "memif"),
    ] {
        let (good, said) = running.reload(&file, "");
        assert!(!good && said.contains(says) && said.contains("nothing has changed"), "{says}: {said}");
        assert_eq!(running.state(), before, "{says}");
    }
    let (good, said) = running.reload(&format!("{more}[threads]\ncount = 2\n{NO_METRICS}"), "--partial");
    assert!(good && running.state().contains("/new"), "{said}");
}

#[test]
fn a_reload_that_nobody_confirms_is_undone() {
    let running = Running::start(&[NO_METRICS, &route("/old", 9)].concat());
    let new = [NO_METRICS, &route("/new", 11)].concat();
    let (good, said) = running.reload(&new, "--confirm-within 1s");
    assert!(good && running.list("route list").contains("/new"), "{said}");
    running.await_log("the reload is undone");
    let routes = running.list("route list");
    assert!(routes.contains("/old") && !routes.contains("/new"), "{routes}");
    assert!(!running.client("reload --confirm").status.success(), "nothing to confirm");
    let (good, said) = running.reload(&new, "--confirm-within 60s");
    assert!(good, "{said}");
    let (good, said) = running.reload(&new, "");
    assert!(!good && said.contains("waits for its confirmation"), "{said}");
    let restart = running.client("restart --timeout 20");
    let said = String::from_utf8_lossy(&restart.stderr).into_owned();
    assert!(!restart.status.success() && said.contains("no restart: the last reload waits"), "{said}");
    assert!(running.client("reload --confirm").status.success());
    assert!(running.list("route list").contains("/new"));
}

#[test]
fn a_signal_reloads_too_and_metrics_move() {
    let running = Running::start(NO_METRICS);
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
    write(&running.folder, &format!("{}[metrics]\nlisten = \"127.0.0.1:0\"\n", route("/hup", peer)));
    let sent = Command::new("kill").args(["-HUP", &running.process.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    running.await_log("the configuration is reloaded");
    assert!(running.list("route list").contains("/hup"));
    let (good, said) = running.reload(NO_METRICS, "");
    assert!(good && said.contains("metrics.enabled: true -> false"), "{said}");
    assert!(!running.list("route list").contains("/hup"));
}

#[test]
fn packets_flow_while_engines_are_exchanged() {
    let running = Running::start(NO_METRICS);
    let socket = format!("unix://{}", running.folder.path().join("nfd.sock").display());
    let mut server = Command::new(PROGRAM)
        .args(["ping-server", "/demo", "--transport", &socket])
        .stdout(Stdio::null())
        .spawn()
        .expect("byname");
    let deadline = Instant::now() + PATIENCE;
    while !running.list("route list").contains("/demo") {
        assert!(Instant::now() < deadline, "it registers");
    }
    let ping = Command::new(PROGRAM)
        .args(["ping", "/demo", "-c", "200", "-i", "5", "--transport", &socket])
        .stdout(Stdio::piped())
        .spawn()
        .expect("byname");
    for engine in
        ["learned", "two-stage", "level-pulling", "binary-search", "compact-exact", "longest-first", "compact"]
    {
        let (good, said) = running.reload(&format!("{NO_METRICS}[tables]\nfib = \"{engine}\"\n"), "");
        assert!(good && said.contains(engine), "{said}");
    }
    let done = ping.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let _ = server.kill();
    let _ = server.wait();
    assert!(done.status.success() && said.contains("200 received"), "{said}");
}
