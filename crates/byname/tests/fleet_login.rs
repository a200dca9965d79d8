//! Fleets whose etcd wants certificates or logins: what works, and what is said when it does not. Skipped where etcd is missing.

mod common;

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use byname_fleet::etcd::messages::RangeRequest;
use byname_fleet::etcd::{Endpoints, Login};
use common::authority::Authority;
use common::{Done, PROGRAM, Router, finish};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// One member of etcd.
struct Etcd {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Etcd {
    /// Starts etcd with these options, or says why the test is skipped.
    fn start(scheme: &str, options: impl FnOnce(&Path) -> Vec<String>) -> Option<Etcd> {
        for (program, package, version) in [("etcd", "etcd-server", "--version"), ("etcdctl", "etcd-client", "version")]
        {
            if Command::new(program).arg(version).stdout(Stdio::null()).status().is_err() {
                println!("skipped: {program} is missing (on Debian: apt install {package})");
                return None;
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let (port, peer) = (free(), format!("http://127.0.0.1:{}", free()));
        let client = format!("{scheme}://127.0.0.1:{port}");
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--logger", "zap"])
            .args(options(folder.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).expect("a log"))
            .spawn()
            .expect("start etcd");
        let etcd = Etcd { folder, process, port };
        wait_until("etcd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(etcd)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with this text. Returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        file(self.folder.path(), name, text)
    }

    /// `byname fleet` with these options.
    fn fleet(&self, options: &str, words: &str) -> Done {
        let mut command = Command::new(PROGRAM);
        command.arg("fleet").args(options.split_whitespace()).arg("--chunks").arg(self.path("chunks"));
        command.args(words.split_whitespace());
        finish(command)
    }

    fn refuses(&self, options: &str, words: &str, parts: &[&str]) {
        let done = self.fleet(options, words);
        assert_eq!(done.code, 1, "{options}: {}", done.stdout);
        for part in parts {
            assert!(done.stderr.contains(part), "{options}: {part}: {}", done.stderr);
        }
        assert_eq!(done.stderr.trim_end().lines().count(), 1, "{}", done.stderr);
    }
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("write");
    path.display().to_string()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `byname agent` of a router.
struct Agent(Child, PathBuf);

impl Agent {
    fn start(router: &Router, node: &str, options: &str) -> Agent {
        let log = router.path(&format!("{node}.log"));
        let process = Command::new(PROGRAM)
            .args(["agent", "--node", node, "--transport", &router.transport(), "--grace", "1"])
            .args(options.split_whitespace())
            .arg("--state")
            .arg(router.path("agent.json"))
            .arg("--chunks")
            .arg(router.path("agent.chunks"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("start the agent");
        Agent(process, log)
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.0.id().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Lines of an intent in which r1 leads `/a` to a neighbour.
const INTENT: &str = "link add r1 out udp4://192.0.2.1:6363\ngroup set g r1 out\nroute add /a g\n";

#[test]
fn etcd_with_certificates() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.issue("etcd.example");
    let Some(etcd) = Etcd::start("https", |folder| {
        let files = [
            ("--cert-file", file(folder, "etcd.pem", &certificate)),
            ("--key-file", file(folder, "etcd.key", &key)),
            ("--trusted-ca-file", file(folder, "ca.pem", &authority.pem)),
            ("--client-cert-auth", "true".to_owned()),
        ];
        files.into_iter().map(|(option, value)| format!("{option}={value}")).collect()
    }) else {
        return;
    };
    let identity = |name: &str, of: &Authority| {
        let (certificate, key) = of.issue("client");
        let certificate = etcd.file(&format!("{name}.pem"), &certificate);
        format!("--etcd-certificate {certificate} --etcd-key {}", etcd.file(&format!("{name}.key"), &key))
    };
    let (client, stranger) = (identity("client", &authority), identity("stranger", &other));
    let at = |host: &str| format!("--etcd https://{host}:{}", etcd.port);
    let (ca, wrong) = (etcd.path("ca.pem").display().to_string(), etcd.file("other.pem", &other.pem));
    let good = format!("{} --etcd-ca {ca} {client}", at("127.0.0.1"));

    let router = Router::start();
    let _agent = Agent::start(&router, "r1", &good);
    let lines = etcd.file("intent", INTENT);
    let done = etcd.fleet(&good, &format!("load {lines}"));
    assert_eq!(done.code, 0, "{}", done.stderr);
    wait_until("the route is there", || router.run("route show /a").code == 0);

    let ca_and = |host: &str, identity: &str| format!("{} --etcd-ca {ca} {identity}", at(host));
    etcd.refuses(
        &format!("{} --etcd-ca {wrong} {client}", at("127.0.0.1")),
        "show",
        &["cannot connect to etcd at https://127.0.0.1", "the authority of its certificate is not in --etcd-ca"],
    );
    etcd.refuses(&ca_and("localhost", &client), "show", &["use a name in --etcd that its certificate has"]);
    etcd.refuses(&ca_and("127.0.0.1", ""), "show", &["a client's certificate of its own authority"]);
    etcd.refuses(&ca_and("127.0.0.1", &stranger), "show", &["a client's certificate of its own authority"]);
    etcd.refuses(&format!("--etcd http://127.0.0.1:{}", etcd.port), "show", &["or wants https://"]);
    // What is no certificate is told before anything is connected.
    let bad = etcd.file("bad.pem", "nothing");
    etcd.refuses(&format!("{} --etcd-ca {bad} {client}", at("127.0.0.1")), "show", &["bad.pem has no certificate"]);
}

/// The commands of docs/fleet.md, as they are there.
fn documented_commands() -> Vec<String> {
    let page = include_str!("../../../docs/fleet.md");
    let (_, rest) = page.split_once("etcdctl role add fleet-reader").expect("the commands");
    let (rest, _) = rest.split_once("```").expect("the end of the block");
    format!("etcdctl role add fleet-reader{rest}").lines().map(str::to_owned).collect()
}

#[test]
fn etcd_with_logins() {
    let Some(etcd) = Etcd::start("http", |_| vec!["--auth-token-ttl=2".to_owned()]) else { return };
    let url = format!("http://127.0.0.1:{}", etcd.port);
    for user in ["root", "r1", "alice"] {
        etcd.file(&format!("{user}.password"), &format!("{user}-secret\n"));
    }
    let login = |user: &str| {
        format!(
            "--etcd {url} --etcd-user {user} --etcd-password-file {}",
            etcd.path(&format!("{user}.password")).display()
        )
    };
    // Before there are users.
    etcd.refuses(&login("r1"), "show", &["run `etcdctl auth enable`"]);
    for line in documented_commands() {
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .current_dir(etcd.folder.path())
            .env("ETCDCTL_API", "3")
            .env("ETCDCTL_ENDPOINTS", &url);
        let output = command.output().expect("sh");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    let router = Router::start();
    let agent = Agent::start(&router, "r1", &login("r1"));
    let lines = etcd.file("intent", INTENT);
    let done = etcd.fleet(&login("alice"), &format!("load {lines}"));
    assert_eq!(done.code, 0, "{}", done.stderr);
    wait_until("r1 has it, and says so", || etcd.fleet(&login("alice"), "status").stdout.contains("up to date"));
    wait_until("the route is there", || router.run("route show /a").code == 0);

    // An agent can read what is wanted, and write what it reports itself. That is all.
    etcd.refuses(&login("r1"), "route remove /a", &["permission denied: this user has no right to these keys"]);
    etcd.refuses(&login("r1"), "status", &["permission denied: this user has no right to these keys"]);
    let other = Agent::start(&router, "r2", &login("r1"));
    wait_until("an agent with another's user says so", || {
        other.log().contains("permission denied: this user has no right")
    });
    drop(other);
    etcd.refuses(&format!("--etcd {url}"), "show", &["it wants a login: give --etcd-user and --etcd-password-file"]);
    let wrong = etcd.file("wrong.password", "wrong");
    let options = format!("--etcd {url} --etcd-user r1 --etcd-password-file {wrong}");
    etcd.refuses(&options, "show", &["see --etcd-user, and the file that --etcd-password-file names"]);

    // Tokens end. An agent that has slept logs in again.
    agent.signal("-STOP");
    std::thread::sleep(Duration::from_secs(4));
    let done = etcd.fleet(&login("alice"), "--patience 0 route add /b g");
    assert_eq!(done.code, 0, "{}", done.stderr);
    agent.signal("-CONT");
    wait_until("the second route is there", || router.run("route show /b").code == 0);
    byname_fleet::block_on(async {
        let user = Some(("r1".to_owned(), "r1-secret".to_owned()));
        let mut endpoints = Endpoints::new(Login { endpoints: vec![url.clone()], user, ..Login::default() });
        let connection = endpoints.connect().await.expect("connect");
        let question = RangeRequest { key: b"/byname/main/want/head".to_vec(), ..RangeRequest::default() };
        connection.range(question.clone()).await.expect("a token");
        tokio::time::sleep(Duration::from_secs(4)).await;
        let error = connection.range(question.clone()).await.expect_err("the token has ended").to_string();
        assert!(error.contains("invalid auth token"), "{error}");
        endpoints.connect().await.expect("connect again").range(question).await.expect("another token");
    })
    .expect("a runtime");
}
