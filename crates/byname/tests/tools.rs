//! ping, peek and poke, get and put through a running forwarder.

mod common;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Router, Server, assert_documented, finish, interrupt, wait, write_sample};

#[test]
fn pings_are_answered_and_counted() {
    let router = Router::start();
    let server = router.serve("ping-server /demo --count 5", "/demo/ping", b"");
    let text = router.ok("ping /demo -c 3 -i 20 -n 100");
    assert_eq!(text.matches("content from /demo: seq=10").count(), 3, "{text}");
    assert!(text.contains("3 transmitted, 3 received, 0 nacked, 0% loss"), "{text}");
    assert!(text.contains("rtt min/avg/max/mdev = "), "{text}");
    let statistics = router.json("ping /demo -c 2 -i 20");
    assert_documented("ping statistics", &statistics);
    assert_eq!(statistics["received"], 2);
    assert!(statistics["rtt_avg_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(server.wait(), 0, "ends after five");

    let done = router.run("ping /demo -c 1");
    assert_eq!(done.code, 5, "{}", done.stdout);
    assert!(done.stdout.contains("nack from /demo") && done.stdout.contains("100% loss"), "{}", done.stdout);
}

#[test]
fn a_silent_producer_times_out() {
    let router = Router::start();
    router.ok("route add /silent udp4://127.0.0.1:9");
    let done = router.run("ping /silent -c 2 -i 10 --timeout 200");
    assert_eq!(done.code, 3, "{}", done.stdout);
    assert_eq!(done.stdout.matches("timeout from /silent").count(), 2, "{}", done.stdout);
    let done = router.run("peek /silent --lifetime 200");
    assert_eq!(done.code, 3);
    assert!(done.stderr.contains("no answer to /silent"), "{}", done.stderr);
}

#[test]
fn ctrl_c_ends_a_ping_with_its_statistics() {
    let router = Router::start();
    let _server = router.serve("ping-server /demo", "/demo/ping", b"");
    let mut ping = router.command("ping /demo -i 20").stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&ping);
    assert_eq!(wait(&mut ping), 0);
    let mut text = String::new();
    ping.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("0% loss"), "{text}");
}

#[test]
fn what_is_poked_can_be_peeked() {
    let router = Router::start();
    let poke = router.serve("poke /p/hello -x 5000 -F", "/p/hello", b"hello\n");
    assert_eq!(router.ok("peek /p/hello --prefix --fresh --payload"), "hello\n");
    assert_eq!(poke.wait(), 0, "ends when its packet is taken");

    // From the content store: there is no route. The packet is described as JSON.
    assert_eq!(router.ok("peek /p --prefix --payload"), "hello\n");
    let packet = router.json("peek /p/hello");
    assert_documented("packet", &packet);
    assert_eq!((packet["name"].as_str(), packet["content_text"].as_str()), (Some("/p/hello"), Some("hello\n")));
    assert_eq!(packet["freshness_ms"], 5000);
    assert_eq!(packet["final_block"], "hello");
    let digest = packet["implicit_sha256"].as_str().unwrap();
    assert_eq!(router.ok(&format!("peek -p /p/hello/sha256digest={digest}")), "hello\n");

    // Output that is not a terminal gets the whole packet.
    let wire = router.command("peek /p/hello").output().unwrap().stdout;
    assert_eq!(wire[0], 0x06);
    let done = router.run("peek /nobody/here");
    assert_eq!(done.code, 5);
    assert!(done.stderr.contains("no route"), "{}", done.stderr);
    assert_eq!(router.run("poke /q -w 100").code, 3);
}

#[test]
fn files_go_through_whole() {
    let router = Router::start();
    let (source, target) = (router.path("source"), router.path("target"));
    write_sample(&source, 20_000_001);
    let mut server = router.serve(&format!("put /file {} --json", source.display()), "/file", b"");
    let publication = server.json();
    assert_documented("publication", &publication);
    let transfer = router.json(&format!("get /file -o {}", target.display()));
    assert_documented("transfer", &transfer);
    assert_eq!(transfer["sha256"], publication["sha256"]);
    assert_eq!(transfer["bytes"], 20_000_001);
    assert_eq!(transfer["segments"], 2501);
    assert!(transfer["name"].as_str().unwrap().starts_with("/file/v="));
    assert!(std::fs::read(&target).unwrap() == std::fs::read(&source).unwrap());
    assert!(!router.path("target.part").exists() && !router.path("target.part.json").exists());

    // The same to standard output, with the version in the name, and by prefix discovery.
    let versioned = transfer["name"].as_str().unwrap();
    for line in [format!("get {versioned} -q"), "get /file --discovery prefix -q".into()] {
        let output = router.command(&line).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout == std::fs::read(&source).unwrap(), "{line}");
    }
    assert_eq!(server.interrupt(), 0);
}

#[test]
fn an_interrupted_transfer_goes_on() {
    let router = Router::start();
    let (source, target) = (router.path("source"), router.path("target"));
    let bytes = write_sample(&source, 20_000_000);
    let server = router.serve(&format!("put /file {}", source.display()), "/file", b"");
    let first = half_a_transfer(&router, "");
    interrupt(&first);
    let done = Server::of(first).finish();
    assert_eq!(done.code, 130);
    assert!(done.stderr.contains("run the same command again to resume"), "{}", done.stderr);
    let kept = std::fs::metadata(router.path("target.part")).unwrap().len();
    assert!((1_000_000..20_000_000).contains(&kept), "{kept}");

    let transfer = router.json(&format!("get /file -o {}", target.display()));
    assert_eq!(transfer["resumed_bytes"].as_u64(), Some(kept));
    assert!(std::fs::read(&target).unwrap() == bytes);
    drop(server);
}

/// A `get` of /file into `target` that is about half done. A small window makes it slow enough.
fn half_a_transfer(router: &Router, options: &str) -> Child {
    let line = format!("get /file -o {} --window-max 1 {options}", router.path("target").display());
    let mut get = router.command(&line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::fs::metadata(router.path("target.part")).map_or(0, |metadata| metadata.len()) < 1_000_000 {
        assert!(Instant::now() < deadline && get.try_wait().unwrap().is_none(), "too slow, or too fast");
        std::thread::sleep(Duration::from_millis(1));
    }
    get
}

#[test]
fn who_is_served_and_who_serves_hears_that_the_router_ended() {
    let mut router = Router::start();
    let source = router.path("source");
    write_sample(&source, 20_000_000);
    let _put = router.serve(&format!("put /file {}", source.display()), "/file", b"");
    let servers = [router.serve("ping-server /demo", "/demo/ping", b""), router.serve("poke /lone", "/lone", b"alone")];
    let get = Server::of(half_a_transfer(&router, "--outage-max 0"));
    router.kill();
    for done in servers.map(Server::finish).into_iter().chain([get.finish()]) {
        assert_eq!(done.code, 4, "{}", done.stderr);
        let told = "closed the connection: it ended, or closed this face; check it with `byname status`";
        assert!(done.stderr.contains(told), "{}", done.stderr);
    }
}

#[test]
fn a_file_that_is_put_and_fetched_outlives_the_router() {
    let mut router = Router::start();
    let (source, target) = (router.path("source"), router.path("target"));
    let bytes = write_sample(&source, 20_000_000);
    let server = router.serve(&format!("put /file {}", source.display()), "/file", b"");
    let get = Server::of(half_a_transfer(&router, ""));
    for _ in 0..2 {
        router.kill();
        std::thread::sleep(Duration::from_millis(700));
        router = router.start_again();
        let deadline = Instant::now() + Duration::from_secs(30);
        while router.run("route show /file").code != 0 {
            assert!(Instant::now() < deadline, "the file is not served again");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let done = get.finish();
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(std::fs::read(&target).unwrap() == bytes);
    // The versions are the same after the restarts.
    router.ok(&format!("get /file -o {}", target.display()));
    assert!(std::fs::read(&target).unwrap() == bytes);
    interrupt(server.process());
    let done = server.finish();
    assert_eq!(done.code, 0, "{}", done.stderr);
    for told in ["the forwarder is gone", "the forwarder is back; /file is served again", "served "] {
        assert!(done.stderr.contains(told), "{}", done.stderr);
    }
}

#[test]
fn a_route_to_no_face_says_what_to_do() {
    let router = Router::start();
    let done = router.run("route add /b 999");
    assert_eq!(done.code, 6, "{}", done.stderr);
    assert!(done.stderr.contains("there is no face 999: `byname face list`"), "{}", done.stderr);
}

#[test]
fn a_demonstration_that_needs_root_says_so() {
    // Root without capabilities has no more rights than other users.
    let rights = ["--bounding-set=-all", "--inh-caps=-all"];
    let as_nobody = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(rights).arg(program);
        command
    };
    let can_give_up = as_nobody("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    let program = env!("CARGO_BIN_EXE_byname");
    let mut command = if can_give_up { as_nobody(program) } else { Command::new(program) };
    command.args(["demo", "switch"]);
    let done = finish(command);
    let has_rights = !can_give_up && done.code == 0;
    assert!(has_rights || done.stderr.contains("run `sudo byname demo switch`"), "{}{}", done.stdout, done.stderr);
}

#[test]
fn a_terminal_gets_text_only() {
    let router = Router::start();
    let _text = router.serve("put /text -", "/text", "caf\u{e9}\n".as_bytes());
    let _binary = router.serve("put /binary -", "/binary", b"\x1b[2J");
    // `script` gives the command a terminal and prints the terminal's contents.
    let on_terminal = |line: &str| {
        let line = format!("{} {line} -q", env!("CARGO_BIN_EXE_byname"));
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        script.env("NDN_CLIENT_TRANSPORT", router.transport());
        finish(script)
    };
    let text = on_terminal("get /text");
    assert_eq!((text.code, text.stdout.as_str()), (0, "caf\u{e9}\r\n"));
    let binary = on_terminal("get /binary");
    assert_eq!(binary.code, 1);
    assert!(!binary.stdout.contains('\x1b') && binary.stdout.contains("-o FILE"), "{:?}", binary.stdout);
    let asked = on_terminal("get /binary -o -");
    assert_eq!((asked.code, asked.stdout.as_str()), (0, "\x1b[2J"));
}

#[test]
fn every_transport_carries_files() {
    let router = Router::start();
    let (source, target) = (router.path("source"), router.path("target"));
    let bytes = write_sample(&source, 2_000_000);
    for (index, transport) in [
        router.transport(),
        format!("tcp://127.0.0.1:{}", router.port),
        format!("udp://127.0.0.1:{}", router.port),
        format!("ws://127.0.0.1:{}", router.websocket_port),
    ]
    .iter()
    .enumerate()
    {
        // UDP faces are not local, so a local application must add the route to the producer.
        let producer = if transport.starts_with("udp") { router.transport() } else { transport.clone() };
        let prefix = format!("/file/{index}");
        let _server = router.serve_over(&producer, &format!("put {prefix} {}", source.display()), &prefix, b"");
        let line = format!("--transport {transport} get {prefix} -q -o {}", target.display());
        let done = finish(router.command(&line));
        assert_eq!(done.code, 0, "{transport}: {}", done.stderr);
        assert!(std::fs::read(&target).unwrap() == bytes, "{transport}");
    }
}

#[test]
fn small_and_empty_files() {
    let router = Router::start();
    for (prefix, content) in [("/empty", &b""[..]), ("/small", b"x")] {
        let _server = router.serve(&format!("put {prefix} -"), prefix, content);
        let output = router.command(&format!("get {prefix} -q")).output().unwrap();
        assert!(output.status.success(), "{prefix}");
        assert_eq!(output.stdout, content, "{prefix}");
    }
    // A single packet without segments is an object, too.
    let _poke = router.serve("poke /lone -x 1000", "/lone", b"alone");
    let output = router.command("get /lone -q --discovery prefix").output().unwrap();
    assert_eq!(output.stdout, b"alone");
}

#[test]
fn a_missing_object_is_an_error_with_its_name() {
    let router = Router::start();
    let done = router.run("get /missing -o /dev/null/x");
    assert_eq!(done.code, 5);
    assert!(done.stderr.contains("cannot find /missing"), "{}", done.stderr);
    let done = router.run("put /a /nonexistent");
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("cannot open /nonexistent"), "{}", done.stderr);
}
