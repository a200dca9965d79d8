//! `byname top` against running routers: once, and on a terminal.

mod common;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{PROGRAM, Router, assert_documented, wait};

#[test]
fn one_measurement_has_the_documented_fields() {
    for threads in [1, 2] {
        let router = Router::start_with(&format!("[threads]\ncount = {threads}\n"));
        let _server = router.serve("ping-server /busy", "/busy/ping", b"");
        let mut pinging = router.command("ping /busy -i 5 -c 2000").stdout(Stdio::null()).spawn().expect("spawned");
        let top = router.json("top --once --interval 1s");
        let _ = pinging.kill();
        let _ = pinging.wait();
        assert_documented("top", &top);
        assert_documented("face rate", &top["faces"][0]);
        assert_documented("thread rate", &top["threads"][0]);
        // Few bursts are timed: with so little traffic, perhaps none.
        if let Some(stage) = top["threads"][0]["stages"].get(0) {
            assert_documented("stage time", stage);
        }
        let traffic = &top["traffic"];
        assert_documented("traffic", traffic);
        let prefixes = traffic["prefixes"].as_array().expect("a list");
        let busy = prefixes.iter().find(|prefix| prefix["prefix"] == "/busy/ping").unwrap_or_else(|| panic!("{top}"));
        assert_documented("prefix rate", busy);
        assert!(busy["interests_per_s"].as_f64().is_some_and(|rate| rate > 20.0), "{busy}");
        assert!(traffic["answer_p50_ms"].as_f64().is_some(), "{traffic}");
        assert!(top["in_interests_per_s"].as_f64().is_some_and(|rate| rate > 20.0), "{top}");
        assert_eq!(top["threads"].as_array().map(Vec::len), Some(threads));
        assert!(prefixes.iter().all(|prefix| prefix["prefix"] != "/localhost"), "{traffic}");
        let text = router.ok("top --once --interval 200ms");
        assert!(text.contains("PREFIX") && text.contains("fd://"), "{text}");
    }
}

#[test]
fn wrong_uses_say_what_to_do() {
    let router = Router::start();
    let done = router.run("top");
    assert!(done.code == 2 && done.stderr.contains("byname top --once"), "{}", done.stderr);
    for line in ["top --json", "top --interval 1ms", "top --interval soon"] {
        assert_eq!(router.run(line).code, 2, "{line}");
    }
    let socket = router.transport();
    drop(router);
    assert_eq!(common::finish(common::command_at(&socket, "top --once")).code, 4);
}

/// Size of the terminal, in rows and columns.
const SIZE: (u16, u16) = (30, 100);

/// `byname top` on a terminal, which `script` makes.
struct Screen {
    process: Child,
    output: std::sync::mpsc::Receiver<Vec<u8>>,
    terminal: vt100::Parser,
}

impl Screen {
    fn open(router: &Router, before: &str) -> Screen {
        let (rows, columns) = SIZE;
        let line = format!("stty cols {columns} rows {rows}; {before} exec {PROGRAM} top --interval 200ms");
        let mut command = Command::new("script");
        command
            .args(["-qfec", &line, "/dev/null"])
            .env("NDN_CLIENT_TRANSPORT", router.transport())
            .env("TERM", "xterm");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script of util-linux");
        let mut output = process.stdout.take().expect("piped");
        let (tell, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut part) {
                let _ = tell.send(part[..len].to_vec());
            }
        });
        Screen { process, output: shown, terminal: vt100::Parser::new(rows, columns, 0) }
    }

    fn press(&mut self, keys: &str) {
        self.process.stdin.as_mut().expect("piped").write_all(keys.as_bytes()).expect("it reads");
    }

    /// Waits until the terminal is as wanted.
    fn awaits(&mut self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so(self.terminal.screen()) {
            assert!(Instant::now() < end, "not {what}:\n{}", self.terminal.screen().contents());
            if let Ok(part) = self.output.recv_timeout(Duration::from_millis(100)) {
                self.terminal.process(&part);
            }
        }
    }

    /// Waits until a text is shown.
    fn sees(&mut self, text: &str) {
        self.awaits(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the program has left the terminal as it was.
    fn is_left(&mut self) {
        self.awaits("left", |screen| !screen.alternate_screen() && !screen.hide_cursor());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn on_a_terminal_it_shows_the_router_and_follows_a_restart() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: there is no script (package bsdutils)");
        return;
    }
    let mut router = Router::start();
    let _server = router.serve("ping-server /busy", "/busy/ping", b"");
    let mut pinging = router.command("ping /busy -i 5 -c 4000").stdout(Stdio::null()).spawn().expect("spawned");
    let mut screen = Screen::open(&router, "");
    screen.sees("1 Faces");
    screen.awaits("an alternate screen", vt100::Screen::alternate_screen);
    screen.sees("fd://");
    println!("{}", screen.terminal.screen().contents());
    screen.press("2");
    screen.sees("/busy");
    screen.press("\r");
    screen.sees("An Interest for this prefix would go:");
    screen.sees("/busy/ping");
    println!("{}", screen.terminal.screen().contents());
    screen.press("4");
    screen.sees("REASON");
    screen.press("?");
    screen.sees("Keys");
    screen.press("x1");
    let _ = pinging.kill();
    let _ = pinging.wait();
    router.kill();
    screen.sees("no forwarder answers");
    let router = router.start_again();
    screen.awaits("connected again", |screen| screen.contents().starts_with("byname "));
    screen.press("q");
    screen.is_left();
    assert_eq!(wait(&mut screen.process), 0);

    let mut screen = Screen::open(&router, "export NO_COLOR=1;");
    screen.sees("REMOTE");
    let is_coloured = |screen: &vt100::Screen| {
        let places = (0..SIZE.0).flat_map(|row| (0..SIZE.1).map(move |column| (row, column)));
        let mut cells = places.filter_map(|(row, column)| screen.cell(row, column));
        cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
    };
    assert!(!is_coloured(screen.terminal.screen()), "NO_COLOR");
    let status = Command::new("pkill").args(["-TERM", "-P", &screen.process.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "it runs below script");
    screen.is_left();
}

#[test]
fn drops_are_told_by_reason() {
    let router = Router::start();
    let name = "/a".parse().expect("a name");
    let interest = byname_wire::interest::InterestBuilder::new(name, 7).hop_limit(0).encode();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    peer.send_to(&interest, ("127.0.0.1", router.port)).expect("sent");
    let end = Instant::now() + Duration::from_secs(10);
    let top = loop {
        let top = router.json("top --once --interval 200ms");
        if !top["drops"].as_array().expect("a list").is_empty() {
            break top;
        }
        assert!(Instant::now() < end, "{top}");
    };
    assert_documented("drop rate", &top["drops"][0]);
    assert_eq!((&top["drops"][0]["reason"], &top["drops"][0]["packets"]), (&"hop-limit".into(), &1.into()));
}
