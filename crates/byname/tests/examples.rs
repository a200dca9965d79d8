//! The programs in the client's folder `examples`, as users start them, beside a router.
//!
//! `cargo test --workspace` builds them. Their parts are tested in `client.rs`. The examples of other crates need no router,
//! and test themselves.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{PROGRAM, Router, finish};

const PATIENCE: Duration = Duration::from_secs(40);

/// An example's program, if it was built.
fn program(name: &str) -> Option<PathBuf> {
    let path = Path::new(PROGRAM).with_file_name("examples").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: the example {name} is not built; `cargo test --workspace` builds all");
    None
}

/// A running example.
struct Running {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the example starts");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().expect("piped"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Running { process, stdin, lines }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("piped"), "{line}").expect("it reads");
    }

    /// Waits for a line with this text. Returns whether there is one in time.
    fn prints(&self, text: &str, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return true;
            }
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command for an example of the client, beside a router.
fn beside(router: &Router, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("NDN_CLIENT_TRANSPORT", router.transport()).env("HOME", "/nonexistent");
    command
}

/// Runs a command until it succeeds. Returns what it prints.
fn eventually(what: &str, command: impl Fn() -> Command) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let done = finish(command());
        if done.code == 0 {
            return done.stdout;
        }
        assert!(Instant::now() < end, "{what}: {} {}", done.stdout, done.stderr);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn hello_examples_greet_each_other() {
    let router = Router::start();
    if let (Some(producer), Some(consumer)) = (program("hello_producer"), program("hello_consumer")) {
        let _producer = Running::start(beside(&router, &producer, &[]));
        let said = eventually("a greeting", || beside(&router, &consumer, &[]));
        assert!(said.starts_with("hello, number "), "{said}");
    }
    if let Some(both) = program("async_hello") {
        let said = finish(beside(&router, &both, &[]));
        assert!(said.code == 0 && said.stdout.contains("hello"), "{} {}", said.stdout, said.stderr);
    }
}

#[test]
fn the_example_fetches_a_file() {
    let router = Router::start();
    let Some(fetch) = program("fetch_file") else { return };
    let (source, copy) = (router.path("song"), router.path("copy"));
    let song: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    std::fs::write(&source, &song).expect("written");
    let _producer = router.serve(&format!("put /demo/song {}", source.display()), "/demo/song", b"");
    let done = finish(beside(&router, &fetch, &["/demo/song", &copy.display().to_string()]));
    assert_eq!(done.code, 0, "{} {}", done.stdout, done.stderr);
    assert!(std::fs::read(copy).expect("a file") == song);
    // It says how it is used.
    assert!(finish(beside(&router, &fetch, &[])).stderr.contains("usage: fetch_file NAME FILE"));
}

#[test]
fn chats_hear_each_other() {
    let router = Router::start();
    let Some(chat) = program("chat") else { return };
    router.ok("strategy set /example/chat /localhost/nfd/strategy/multicast");
    let mut members = ["alice", "bob"].map(|who| Running::start(beside(&router, &chat, &[who])));
    let [alice, bob] = &mut members;
    alice.say("good morning");
    assert!(bob.prints("alice: good morning", PATIENCE));
    bob.say("good evening");
    assert!(alice.prints("bob: good evening", PATIENCE));
}

#[test]
fn a_subscriber_prints_what_has_its_tags() {
    let router = Router::start();
    let Some(subscriber) = program("tag_subscriber") else { return };
    let subscriber = Running::start(beside(&router, &subscriber, &["concert", "classical"]));
    let end = Instant::now() + PATIENCE;
    // Messages before the subscription reach nobody.
    loop {
        let mut sender =
            router.command("tags send concert classical berlin").stdin(Stdio::piped()).spawn().expect("byname");
        sender.stdin.take().expect("piped").write_all(b"beethoven").expect("it reads");
        common::wait(&mut sender);
        if subscriber.prints("beethoven", Duration::from_millis(500)) {
            return;
        }
        assert!(Instant::now() < end, "nothing is heard");
    }
}
