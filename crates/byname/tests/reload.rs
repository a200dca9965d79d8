//! `byname reload` and SIGHUP: what changes, what is refused, and what is undone.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
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

/// What changes in `status --json` although nobody changes the router: clocks, packets of the command itself and of the
/// router's own commands, and the times that threads have worked.
const VOLATILE: [&str; 22] = [
    "current_time_ms",
    "uptime_ms",
    "name_tree_entries",
    "pit_entries",
    "in_interests",
    "in_data",
    "in_nacks",
    "in_bytes",
    "out_interests",
    "out_data",
    "out_nacks",
    "out_bytes",
    "satisfied_interests",
    "unsatisfied_interests",
    "in_malformed",
    "out_drops",
    "expires_in_ms",
    "hits",
    "misses",
    "drops",
    "imbalance",
    "threads",
];

/// Removes these keys everywhere.
fn forget(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !keys.contains(&key.as_str()));
            object.values_mut().for_each(|value| forget(value, keys));
        }
        Value::Array(array) => array.iter_mut().for_each(|value| forget(value, keys)),
        _ => {}
    }
}

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

    /// `status --json`, except what time and the asking command change: [`VOLATILE`], and faces of clients.
    fn state(&self) -> String {
        let mut report: Value = serde_json::from_str(&self.list("status --json")).expect("JSON");
        if let Some(faces) = report["faces"].as_array_mut() {
            faces.retain(|face| !face["remote_uri"].as_str().unwrap_or_default().starts_with("fd://"));
        }
        forget(&mut report, &VOLATILE);
        serde_json::to_string_pretty(&report).expect("JSON")
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
        (format!("{more}[tables]\nfib_start_depth = 0\n{NO_METRICS}"), "a start depth is a number"),
        (format!("{more}[tables.strategies]\n\"/\" = \"none\"\n{NO_METRICS}"), "none"),
        (format!("{more}[network]\nproducer_regions = [7]\n{NO_METRICS}"), "7"),
        (format!("{more}[[faces.ethernet]]\ninterface = \"nowhere0\"\n{NO_METRICS}"), "there is no interface nowhere0"),
        (format!("{more}[[faces.memif]]\nsocket = \"/proc/none/m.sock\"\n{NO_METRICS}"), "/proc/none"),
        (
            format!(
                "{more}[tags]\ngraph = \"gone.txt\"\nnode = \"a\"\n[[tags.tree]]\nid = 1\nroot = \"a\"\n{NO_METRICS}"
            ),
            "gone.txt",
        ),
        // Tables have been exchanged, and an interface is open, when the last step fails.
        (
            format!(
                "{more}[tables]\nname_hash = \"aes\"\npit_entries = 1000\ncs_packets = 9\ncs_policy = \"s3-fifo\"\n\
                 accept_unasked_data = true\n{}[metrics]\nlisten = \"{address}\"\n",
                memif(&running.folder.path().join("m.sock"), "server")
            ),
            "cannot serve HTTP",
        ),
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
fn a_reload_that_cuts_the_operator_off_is_undone() {
    let running = Running::start(NO_METRICS);
    let add = || running.client("route add /mine udp4://127.0.0.1:9");
    let no_rights = [NO_METRICS, "[[authorization]]\nsigner = \"any\"\nmodules = [\"cs\"]\n"].concat();
    let (good, said) = running.reload(&no_rights, "--confirm-within 5s");
    assert!(good, "{said}");
    let refused = add();
    assert!(!refused.status.success(), "{refused:?}");
    assert!(!running.client("reload --confirm").status.success(), "it may not even confirm");
    running.await_log("the reload is undone");
    assert!(add().status.success(), "{}", running.log());
}

#[test]
fn levels_of_the_log_change_at_once() {
    let running = Running::start(NO_METRICS);
    let (good, said) = running.reload(&[NO_METRICS, "[log]\nlevel = \"warn\"\n"].concat(), "");
    assert!(good && said.contains("log.level: \"info\" -> \"warn\""), "{said}");
    assert!(running.client("route add /quiet udp4://127.0.0.1:9").status.success());
    let (good, said) = running.reload(NO_METRICS, "");
    assert!(good, "{said}");
    assert!(running.client("route add /loud udp4://127.0.0.1:9").status.success());
    running.await_log("a route was added prefix=/loud");
    assert!(!running.log().contains("/quiet"), "{}", running.log());
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

fn memif(socket: &std::path::Path, role: &str) -> String {
    format!("[[faces.memif]]\nsocket = \"{}\"\nrole = \"{role}\"\n", socket.display())
}

#[test]
fn packets_flow_while_engines_and_tables_are_exchanged() {
    for threads in ["", "[threads]\ncount = 2\nshared_pit = true\n"] {
        exchange_under_traffic(threads);
    }
}

fn exchange_under_traffic(threads: &str) {
    let running = Running::start(&[NO_METRICS, threads].concat());
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
    let settings =
        ["learned", "two-stage", "level-pulling", "binary-search", "compact-exact", "longest-first", "compact"]
            .map(|engine| format!("fib = \"{engine}\""));
    let more = [
        "name_hash = \"aes\"",
        "name_hash = \"siphash24\"\nfib = \"two-stage\"\nfib_start_depth = 3",
        "fib = \"two-stage\"\nfib_start_depth = \"most-likely\"",
        "pit_entries = 500\ndead_nonces = 5000",
        "cs_policy = \"s3-fifo\"\ncs_bytes = \"1 MiB\"\ncs_packets = 100",
        "accept_unasked_data = true",
    ];
    for tables in settings.into_iter().chain(more.map(str::to_owned)) {
        let (good, said) = running.reload(&format!("{NO_METRICS}{threads}[tables]\n{tables}\n"), "");
        assert!(good && said.ends_with("reloaded\n"), "{tables}: {said}");
    }
    assert!(running.state().contains("\"capacity\": 65536"), "{}", running.state());
    let done = ping.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let _ = server.kill();
    let _ = server.wait();
    assert!(done.status.success() && said.contains("200 received"), "{said}");
}

#[test]
fn messages_flow_while_the_engine_of_descriptors_is_exchanged() {
    let running = Running::start(NO_METRICS);
    let socket = format!("unix://{}", running.folder.path().join("nfd.sock").display());
    let mut server = Command::new(PROGRAM)
        .args(["tags", "advertise", "concert", "--command", "echo here", "--transport", &socket])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("byname");
    let ask = || running.client("tags ask concert tonight --timeout 2000");
    let deadline = Instant::now() + PATIENCE;
    while !ask().status.success() {
        assert!(Instant::now() < deadline, "it advertises: {}", running.log());
    }
    let over = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(Ordering::SeqCst) {
                let done = ask();
                let said = String::from_utf8_lossy(&done.stdout).into_owned();
                assert!(done.status.success() && said.trim() == "here", "question {asked}: {done:?}");
                asked += 1;
            }
            asked
        });
        let tags = [
            "engine = \"trie\"",
            "engine = \"rare-tag\"",
            "engine = \"trie\"\nsteps_max = 5000",
            "engine = \"trie\"\ndescriptors_max = 500",
            "descriptors_max = 5000",
        ];
        let told: Vec<_> =
            tags.repeat(3).iter().map(|tags| running.reload(&format!("{NO_METRICS}[tags]\n{tags}\n"), "")).collect();
        over.store(true, Ordering::SeqCst);
        for (good, said) in told {
            assert!(good && said.ends_with("reloaded\n"), "{said}");
        }
        asking.join().expect("each question is answered")
    });
    let _ = server.kill();
    let _ = server.wait();
    assert!(asked > 1, "{asked} questions");
}

#[test]
fn interfaces_come_and_go_with_their_faces_and_routes() {
    let east = Running::start(NO_METRICS);
    let west = Running::start(NO_METRICS);
    let before = west.state();
    let socket = east.folder.path().join("memif.sock");
    let (good, said) = east.reload(&[NO_METRICS, &memif(&socket, "server")].concat(), "");
    assert!(good && said.contains("[[faces.memif]]") && said.contains("added"), "{said}");
    let with_route = |role| {
        let route = format!("[[route]]\nprefix = \"/demo\"\nface = \"memif://{}?id=0\"\n", socket.display());
        [NO_METRICS, &memif(&socket, role), &route].concat()
    };
    let (good, said) = west.reload(&with_route("client"), "");
    assert!(good, "{said}");
    let at = |running: &Running| format!("unix://{}", running.folder.path().join("nfd.sock").display());
    let mut server = Command::new(PROGRAM)
        .args(["ping-server", "/demo", "--transport", &at(&east)])
        .stdout(Stdio::null())
        .spawn()
        .expect("byname");
    let reaches = || {
        let deadline = Instant::now() + PATIENCE;
        while !west.client("ping /demo -c 1 --timeout 500").status.success() {
            assert!(Instant::now() < deadline, "{}\n{}", west.log(), west.list("face list"));
        }
    };
    reaches();
    // Another size of the rings: the interface is opened anew, and its face has its route again.
    let changed = with_route("client").replace("role =", "ring = 512\nrole =");
    let (good, said) = west.reload(&changed, "");
    assert!(good && said.contains("changed"), "{said}");
    reaches();
    let (good, said) = west.reload(NO_METRICS, "");
    assert!(good && said.contains("removed"), "{said}");
    assert!(west.client("cs erase /").status.success());
    assert_eq!(west.state(), before, "the face and its route are gone");
    let (good, said) = west.reload(&changed, "--confirm-within 1s");
    assert!(good, "{said}");
    reaches();
    west.await_log("the reload is undone");
    assert!(west.client("cs erase /").status.success());
    assert_eq!(west.state(), before);
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn a_command_keeps_its_route_where_a_route_of_the_file_goes() {
    let face = "udp4://127.0.0.1:9";
    let running = Running::start(&[NO_METRICS, &route("/shared", 9)].concat());
    // The route of the file, which this command replaces, and one through another face.
    assert!(running.client(&format!("route add /shared {face} cost 5")).status.success());
    assert!(running.client("route add /shared udp4://127.0.0.1:10").status.success());
    let before = running.list("route list");
    let (good, said) = running.reload(NO_METRICS, "");
    assert!(good && said.contains("[[route]] /shared to udp4://127.0.0.1:9: removed"), "{said}");
    assert_eq!(running.list("route list"), before);
    assert!(running.list("face list").contains(face), "its face stays with it");
    // A route that nobody has replaced goes, and so does its face.
    let (good, said) = running.reload(&[NO_METRICS, &route("/own", 11)].concat(), "");
    assert!(good && running.list("route list").contains("/own"), "{said}");
    let (good, said) = running.reload(NO_METRICS, "");
    assert!(good, "{said}");
    assert_eq!(running.list("route list"), before);
    assert!(!running.list("face list").contains("udp4://127.0.0.1:11"));
}

#[test]
fn another_daemon_is_told_of_the_routes_that_there_are() {
    let daemon = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    daemon.set_read_timeout(Some(PATIENCE)).expect("set");
    let to_daemon = route("/other/nlsr", daemon.local_addr().expect("bound").port());
    let running = Running::start(&[NO_METRICS, &to_daemon].concat());
    assert!(running.client("route add /demo udp4://127.0.0.1:9 origin client").status.success());
    let other = "[rib.readvertise]\nprefix = \"/other/nlsr\"\n";
    let (good, said) = running.reload(&[NO_METRICS, &to_daemon, other].concat(), "");
    assert!(good && said.contains("[rib.readvertise]: changed"), "{said}");
    let mut packet = [0; 2000];
    let has = |packet: &[u8], word: &[u8]| packet.windows(word.len()).any(|window| window == word);
    loop {
        let length = daemon.recv(&mut packet).expect("a registration comes");
        if has(&packet[..length], b"register") && has(&packet[..length], b"demo") {
            break;
        }
    }
    let (good, said) = running.reload(&[NO_METRICS, &to_daemon, "[rib.readvertise]\nenabled = false\n"].concat(), "");
    assert!(good, "{said}");
}

#[test]
fn a_router_joins_and_leaves_trees_by_reload() {
    let running = Running::start(NO_METRICS);
    let before = running.state();
    std::fs::write(running.folder.path().join("network.txt"), "a b\n").expect("written");
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
    let tags = format!(
        "[tags]\ngraph = \"network.txt\"\nnode = \"a\"\nallow_unsigned_neighbors = true\n[[tags.tree]]\nid = 7\n\
         root = \"a\"\n[[tags.neighbor]]\nnode = \"b\"\nface = \"udp4://127.0.0.1:{peer}\"\n"
    );
    let (good, said) = running.reload(&[NO_METRICS, &tags].concat(), "");
    assert!(good && said.contains("tags.graph"), "{said}");
    assert!(running.list("face list").contains(&format!("127.0.0.1:{peer}")), "the neighbour has a face");
    let (good, said) = running.reload(NO_METRICS, "");
    assert!(good, "{said}");
    assert_eq!(running.state(), before, "the face was made for the tree");
}
