//! `byname gribi serve` beside a running router, and clients of it: the tool, and the library.

mod common;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use byname_gribi::block_on;
use byname_gribi::client::{Client, ClientError, Session, Target};
use byname_gribi::convert::group;
use byname_gribi::core::{Ack, Params, Persistence};
use byname_gribi::proto::operation::{Entry, Kind};
use byname_gribi::proto::result::Status;
use byname_gribi::proto::{EntryKind, FlatEntry, NextHop, PrefixEntry, TagsEntry};
use common::authority::Authority;
use common::{Done, PROGRAM, Router, free_port};

const PATIENCE: Duration = Duration::from_secs(60);

/// `byname gribi serve` of a router.
struct Server {
    process: Child,
    port: u16,
    log: PathBuf,
    /// Options of clients.
    options: Vec<String>,
}

impl Server {
    fn start(router: &Router) -> Server {
        Server::start_with(router, "127.0.0.1", &[], Vec::new())
    }

    fn start_with(router: &Router, host: &str, more: &[&str], options: Vec<String>) -> Server {
        let (port, log) = (free_port(), router.path("gribi.log"));
        let file = File::options().create(true).append(true).open(&log).expect("log");
        let process = Command::new(PROGRAM)
            .args(["gribi", "serve", "--listen", &format!("{host}:{port}"), "--transport", &router.transport()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("start the server");
        let server = Server { process, port, log, options };
        wait_until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn scheme(&self) -> &str {
        if self.options.is_empty() { "http" } else { "https" }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["gribi", "--server", &format!("{}://127.0.0.1:{}", self.scheme(), self.port)]);
        command.args(&self.options).args(line.split(' ')).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Done {
        common::finish(self.command(line))
    }

    fn ok(&self, line: &str) -> String {
        let Done { code, stdout, stderr } = self.run(line);
        assert_eq!(code, 0, "byname gribi {line}: {stdout}\n{stderr}\n{}", self.log());
        stdout
    }

    fn refused(&self, line: &str, why: &str) {
        let done = self.run(line);
        assert!(done.code == 1 && done.stderr.contains(why), "byname gribi {line}: {} {}", done.code, done.stderr);
    }

    fn target(&self) -> Target {
        Target { endpoint: format!("http://127.0.0.1:{}", self.port), ca_pem: None, identity_pem: None }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Routes of clients in a router, as `PREFIX COST`.
fn routes(router: &Router) -> Vec<String> {
    let routes = router.json("route list --origin gribi");
    let of = |route: &serde_json::Value| format!("{} {}", route["prefix"].as_str().unwrap_or_default(), route["cost"]);
    let mut routes: Vec<String> = routes.as_array().expect("a list").iter().map(of).collect();
    routes.sort();
    routes
}

#[test]
fn the_tool_programs_a_router_that_forwards_by_it() {
    let (router, other) = (Router::start(), Router::start());
    let _producer = other.serve("ping-server /video", "/video/ping", b"");
    let server = Server::start(&router);
    let to_other = format!("udp4://127.0.0.1:{}", other.port);
    server.ok(&format!("add next-hop 1 {to_other}"));
    server.ok("add next-hop 2 udp4://127.0.0.1:1");
    server.ok("add group 7 1:10");
    server.ok("add prefix /video 7");
    // It is acknowledged when packets are forwarded by it.
    assert!(router.reaches("/video"));
    server.ok("add prefix /other 7 --capture --no-inherit");
    server.ok("replace group 7 1:5 2:20");
    assert_eq!(routes(&router), ["/other 20", "/other 5", "/video 20", "/video 5"]);

    let shown = server.ok("get");
    let expected = format!(
        "add next-hop 1 {to_other}\nadd next-hop 2 udp4://127.0.0.1:1\nadd group 7 1:5 2:20\n\
         add prefix /other 7 --no-inherit --capture\nadd prefix /video 7\n"
    );
    assert_eq!(shown, expected);
    let json: serde_json::Value = serde_json::from_str(&server.ok("get prefix --json")).expect("JSON");
    assert_eq!((json[1]["name"].as_str(), json[1]["programmed"].as_bool()), (Some("/video"), Some(true)));

    server.refused("delete group 7", "2 entries lead to group 7");
    server.refused("add group 8 3", "no next-hop 3");
    server.refused("replace prefix /none 7", "no such entry");
    server.refused("add prefix /localhost/nfd/x 7", "belong to the router");
    server.refused("add flat /objects/x 7", "the router refuses: 404");
    server.ok("add tags a,b 7");
    assert_eq!(server.ok("get tags"), "add tags a,b 7\n");
    assert_eq!(server.run("add prefix /a").code, 2);
    server.ok("delete flat /objects/x");
    server.ok("delete tags a,b");
    server.ok("delete prefix /other");
    assert_eq!(routes(&router), ["/video 20", "/video 5"]);

    // Another controller takes over.
    assert_eq!(server.ok("elect 5"), "5\n");
    server.refused("add prefix /b 7", "the primary client has the election id 5, and this one 1");
    assert_eq!(server.run("elect 4").code, 1);
    server.ok("add prefix /b 7 --election 6");
    server.refused("flush", "the highest election id is 6");
    server.ok("flush --override");
    assert_eq!((routes(&router), server.ok("get")), (vec![], String::new()));
}

const PRESERVE: Params = Params { persistence: Persistence::Preserve, ack: Ack::RibAndFib };

fn prefix(name: &str, next_hop_group: u64) -> Entry {
    Entry::Prefix(PrefixEntry { name: name.to_owned(), next_hop_group, ..PrefixEntry::default() })
}

fn hop(index: u64, port: u16) -> Entry {
    Entry::NextHop(NextHop { index, uri: format!("udp4://127.0.0.1:{port}") })
}

/// Carries out operations, and returns the last status of each, in the order in which they were sent.
async fn last_statuses(session: &mut Session, entries: Vec<(Kind, Entry)>) -> Result<Vec<Status>, ClientError> {
    let operations: Vec<_> = entries.into_iter().map(|(kind, entry)| session.operation(kind, entry)).collect();
    let ids: Vec<u64> = operations.iter().map(|operation| operation.id).collect();
    session.send(operations).await?;
    let mut statuses = std::collections::HashMap::new();
    while statuses.len() < ids.len() {
        let result = session.result().await?;
        if result.status() != Status::RibProgrammed {
            assert!(statuses.insert(result.id, result.status()).is_none(), "one last result");
        }
    }
    Ok(ids.iter().map(|id| statuses[id]).collect())
}

fn add(entry: Entry) -> (Kind, Entry) {
    (Kind::Add, entry)
}

#[test]
fn routes_outlive_the_server_and_the_router_and_are_claimed_again() {
    let router = Router::start();
    let mut server = Server::start(&router);
    let lines = "add next-hop 1 udp4://127.0.0.1:1\nadd group 1 1\nadd prefix /kept 1\nadd prefix /old 1\n";
    std::fs::write(router.path("lines"), lines).expect("write");
    let said = server.ok(&format!("load {}", router.path("lines").display()));
    assert!(said.starts_with("4 operations programmed, 0 failed"), "{said}");
    assert_eq!(routes(&router), ["/kept 0", "/old 0"]);
    server.kill();
    assert_eq!(routes(&router), ["/kept 0", "/old 0"], "nobody removes them");

    // A server that begins again knows nothing, and leaves them for a while.
    let server = Server::start_with(&router, "127.0.0.1", &["--hold", "5"], Vec::new());
    server.ok("add next-hop 1 udp4://127.0.0.1:1");
    server.ok("add group 1 1");
    server.ok("add prefix /kept 1");
    assert!(routes(&router).contains(&"/kept 0".to_owned()));
    wait_until("what nobody claims has gone", || routes(&router) == ["/kept 0"]);

    // While the router is away, the server takes operations; they are programmed when it is back.
    let mut router = router;
    router.end("-TERM");
    let mut adding = server.command("add prefix /late 1").stderr(Stdio::null()).spawn().expect("start");
    wait_until("the server has it", || server.ok("get prefix").contains("/late"));
    assert!(server.ok("get prefix").contains("add prefix /late 1  # not programmed"));
    let router = router.start_again();
    assert_eq!(common::wait(&mut adding), 0);
    assert_eq!(routes(&router), ["/kept 0", "/late 0"]);
    assert!(!router.ok("route list --origin gribi").contains("stale"));
}

#[test]
fn entries_of_a_session_go_with_it() {
    let router = Router::start();
    let server = Server::start(&router);
    block_on(async {
        let client = Client::connect(&server.target()).await.expect("connect");
        let params = Params { persistence: Persistence::Delete, ack: Ack::RibAndFib };
        let mut session = client.modify(params, 3).await.expect("a session");
        assert!(session.is_primary());
        let entries = vec![
            add(hop(1, 1)),
            add(Entry::NextHopGroup(group(1, &[(1, 0)]))),
            add(prefix("/a", 1)),
            add(prefix("bad", 1)),
        ];
        let statuses = last_statuses(&mut session, entries).await.expect("results");
        assert_eq!(statuses, [Status::FibProgrammed, Status::FibProgrammed, Status::FibProgrammed, Status::Failed]);
        assert_eq!(routes(&router), ["/a 0"]);
        let other = client.modify(PRESERVE, 4).await.expect_err("other parameters");
        assert!(other.to_string().contains("differ"), "{other}");
        assert_eq!(client.get_all(EntryKind::All).await.expect("a list").len(), 3);
        drop(session);
    })
    .expect("a runtime");
    wait_until("the routes have gone", || routes(&router).is_empty());
    assert_eq!(server.ok("get"), "");
}

#[test]
fn flat_names_and_tags_lead_to_groups() {
    let producer = Router::start();
    let _producer = producer.serve("ping-server /objects/x", "/objects/x/ping", b"");
    let folder = tempfile::tempdir().expect("temporary directory");
    let graph = folder.path().join("network.txt");
    std::fs::write(&graph, "a b\n").expect("write");
    let router = Router::start_with(&format!(
        "[[flat]]\nprefix = \"/objects\"\nchanges_max = 100\n\n[tags]\ngraph = {graph:?}\nnode = \"a\"\n\
         [[tags.tree]]\nid = 1\nroot = \"a\"\n"
    ));
    let server = Server::start(&router);
    block_on(async {
        let client = Client::connect(&server.target()).await.expect("connect");
        let mut session = client.modify(PRESERVE, 1).await.expect("a session");
        let flat = |name: &str| Entry::Flat(FlatEntry { name: name.to_owned(), next_hop_group: 1 });
        let tags = TagsEntry { tag: vec!["news".into(), "sport".into()], next_hop_group: 1 };
        let entries = vec![
            add(hop(1, producer.port)),
            add(Entry::NextHopGroup(group(1, &[(1, 0)]))),
            add(flat("/objects/x")),
            add(Entry::Tags(tags.clone())),
        ];
        assert_eq!(last_statuses(&mut session, entries).await.expect("results"), [Status::FibProgrammed; 4]);
        assert!(router.reaches("/objects/x"));
        assert_eq!(router.json("status")["general"]["descriptors"], 1, "{}", router.json("status"));
        let entries = vec![(Kind::Delete, flat("/objects/x")), (Kind::Delete, Entry::Tags(tags))];
        assert_eq!(last_statuses(&mut session, entries).await.expect("results"), [Status::FibProgrammed; 2]);
        wait_until("the label has gone", || routes(&router).is_empty());
        assert!(!router.reaches("/objects/x"));
    })
    .expect("a runtime");
}

#[test]
fn many_operations_are_acknowledged_in_a_stream() {
    let router = Router::start();
    let server = Server::start(&router);
    let count = 20_000;
    let mut lines = String::from("add next-hop 1 udp4://127.0.0.1:1\nadd group 1 1:3\n");
    (0..count).for_each(|number| lines += &format!("add prefix /many/{number} 1\n"));
    let file = router.path("lines");
    std::fs::write(&file, &lines).expect("write");
    let said = server.ok(&format!("load {}", file.display()));
    println!("{said}");
    assert!(said.starts_with(&format!("{} operations programmed, 0 failed", count + 2)), "{said}");
    assert_eq!(routes(&router).len(), count);
    // A changed group is one operation, and reaches all of its entries.
    server.ok("replace group 1 1:4");
    assert!(routes(&router).iter().all(|route| route.ends_with(" 4")));
    server.ok("flush");
    assert_eq!(routes(&router).len(), 0);
    std::fs::write(&file, "add prefix /a 9\nadd prefix\n").expect("write");
    let done = server.run(&format!("load {}", file.display()));
    assert!(done.code == 2 && done.stderr.contains("line 2: the key of the prefix is missing"), "{}", done.stderr);
}

#[test]
fn strangers_are_kept_out() {
    let router = Router::start();
    let serve = |line: &str| {
        common::finish({
            let mut command = router.command(&format!("gribi serve {line}"));
            command.stdin(Stdio::null());
            command
        })
    };
    let done = serve("--listen 0.0.0.0:0");
    assert!(done.code == 1 && done.stderr.contains("not a loopback address"), "{}", done.stderr);

    let authority = Authority::new();
    let (server_pem, server_key) = authority.issue("localhost");
    let (client_pem, client_key) = authority.issue("controller");
    let write = |name: &str, text: &str| {
        let path = router.path(name);
        std::fs::write(&path, text).expect("write");
        path.display().to_string()
    };
    let (ca, cert, key) = (write("ca", &authority.pem), write("server", &server_pem), write("server.key", &server_key));
    let (own, own_key) = (write("client", &client_pem), write("client.key", &client_key));
    let done = serve(&format!("--listen 0.0.0.0:0 --tls-certificate {cert} --tls-key {key}"));
    assert!(done.code == 1 && done.stderr.contains("not a loopback address"), "{}", done.stderr);

    let options = ["--ca", &ca, "--certificate", &own, "--key", &own_key].map(str::to_owned).to_vec();
    let more = ["--tls-certificate", &cert, "--tls-key", &key, "--client-ca", &ca];
    let server = Server::start_with(&router, "0.0.0.0", &more, options);
    server.ok("add next-hop 1 udp4://127.0.0.1:1");
    assert_eq!(server.ok("get"), "add next-hop 1 udp4://127.0.0.1:1\n");
    let url = format!("https://127.0.0.1:{}", server.port);
    let without = common::finish({
        let mut command = Command::new(PROGRAM);
        command.args(["gribi", "--server", &url, "--ca", &ca, "get"]).stdin(Stdio::null());
        command
    });
    assert_eq!(without.code, 1, "without a certificate: {}", without.stdout);
    assert_eq!(server.run("get --server http://127.0.0.1:1").code, 1);
}

#[test]
fn hostile_requests_are_refused_and_others_go_on() {
    let router = Router::start();
    let server = Server::start_with(&router, "127.0.0.1", &["--sessions-max", "2", "--entries-max", "1"], Vec::new());
    block_on(async {
        let client = Client::connect(&server.target()).await.expect("connect");
        let mut session = client.modify(PRESERVE, 1).await.expect("a session");
        // Too many operations in one request end that session alone.
        let mut other = client.modify(PRESERVE, 1).await.expect("a session");
        let third = client.modify(PRESERVE, 1).await.expect_err("too many");
        assert!(third.to_string().contains("2 sessions, as many as there may be"), "{third}");
        let many = (0..20_000).map(|_| other.operation(Kind::Add, prefix("/a", 1))).collect();
        let _ = other.send(many).await;
        let error = other.result().await.expect_err("too many");
        assert!(error.to_string().contains("at most 16384 operations"), "{error}");
        assert!(session.elect(0).await.expect_err("zero").to_string().contains("must not be 0"));
        let mut session = client.modify(PRESERVE, 2).await.expect("a session");
        let long = format!("/{}", "x".repeat(9_000));
        let entries = vec![
            add(hop(1, 1)),
            add(Entry::NextHopGroup(group(1, &[(1, 0)]))),
            add(prefix(&long, 1)),
            add(prefix(&"/x".repeat(40), 1)),
            add(prefix("/b", 1)),
            (Kind::Unspecified, prefix("/a", 1)),
            (Kind::Delete, prefix(&"/x".repeat(40), 1)),
            add(prefix("/a", 1)),
        ];
        let statuses = last_statuses(&mut session, entries).await.expect("results");
        let (failed, programmed) = (Status::Failed, Status::FibProgrammed);
        // Too deep a prefix is the router's affair; meanwhile it takes the room of the one entry.
        let deep = statuses[3];
        assert!(deep == Status::FibFailed || deep == programmed, "{deep:?}");
        assert_eq!(statuses, [programmed, programmed, failed, deep, failed, failed, programmed, programmed]);
        assert_eq!(routes(&router), ["/a 0"]);
    })
    .expect("a runtime");
}
