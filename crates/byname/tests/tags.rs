//! `byname tags`, as docs/tagset.md shows it, and as scripts use it.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{PROGRAM, Router, Server, finish, write_sample};
use serde_json::Value;

/// A shell in the router's folder that finds `byname` and the router.
fn shell(router: &Router, script: &str) -> Command {
    let mut shell = Command::new("sh");
    let programs = Path::new(PROGRAM).parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    shell
        .args(["-c", script])
        .current_dir(router.path(""))
        .env("PATH", format!("{programs}:{path}"))
        .env("NDN_CLIENT_TRANSPORT", format!("unix://{}", router.socket().display()));
    shell
}

/// Starts a command that stays connected, and waits until it is.
fn start(router: &Router, script: &str) -> (Server, BufReader<std::process::ChildStdout>) {
    let mut command = shell(router, &format!("exec {script}"));
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
    let mut told = String::new();
    BufReader::new(process.stderr.take().expect("piped")).read_line(&mut told).expect("a line");
    assert!(told.contains("Ctrl-C stops"), "{script}: {told}");
    let stdout = BufReader::new(process.stdout.take().expect("piped"));
    (Server::of(process), stdout)
}

/// Runs a command with this standard input. Returns its exit code and outputs.
fn run(router: &Router, arguments: &str, input: &[u8]) -> (i32, String, String) {
    let mut command = shell(router, &format!("byname tags {arguments}"));
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process: Child = piped.spawn().expect("a shell");
    // A command that refuses its arguments does not read.
    let _ = process.stdin.take().expect("piped").write_all(input);
    let output = process.wait_with_output().expect("an end");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// The shell blocks of docs/tagset.md.
fn blocks() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tagset.md");
    let text = std::fs::read_to_string(path).expect("a document");
    text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_music_server_of_the_document_plays_a_whole_song() {
    let router = Router::start();
    let song = write_sample(&router.path("song.ogg"), 30_000);
    let [server, player, ..] = &blocks()[..] else { panic!("docs/tagset.md shows a server and a player") };
    let (_server, _) = start(&router, server.trim());
    let done = finish(shell(&router, player));
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(std::fs::read(router.path("copy.ogg")).expect("a copy") == song, "it came whole");
}

#[test]
fn in_the_chat_of_the_document_all_hear_all() {
    let router = Router::start();
    let chat = blocks().pop().expect("docs/tagset.md shows a chat");
    let [listen, send] = chat.lines().collect::<Vec<_>>()[..] else { panic!("{chat}") };
    let listen = listen.strip_suffix(" &").expect("in the background");
    let mut listeners: Vec<_> = (0..3).map(|_| start(&router, &format!("{listen} --count 3"))).collect();
    let arguments = send.strip_prefix("byname tags ").expect("a command");
    for line in ["hi\n", "hello\n", "good day\n"] {
        assert_eq!(run(&router, arguments, line.as_bytes()).0, 0);
    }
    for (_, heard) in &mut listeners {
        let mut lines: Vec<String> = heard.lines().map(|line| line.expect("text")).collect();
        lines.sort();
        assert_eq!(lines, ["good day", "hello", "hi"]);
    }
}

#[test]
fn messages_reach_those_who_want_a_subset_of_their_tags() {
    let router = Router::start();
    let (_wants, mut heard) = start(&router, "byname tags listen concert classical --or jazz,tonight --json --count 2");
    for (arguments, payload) in
        [("concert", "no"), ("jazz concert", "no"), ("classical concert ninth", "first"), ("tonight jazz", "second")]
    {
        let (code, told, errors) = run(&router, &format!("send {arguments} --json"), payload.as_bytes());
        assert_eq!(code, 0, "{errors}");
        let sent: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((&sent["messages"], &sent["bytes"]), (&1.into(), &payload.len().into()));
    }
    for payload in ["first", "second"] {
        let mut line = String::new();
        heard.read_line(&mut line).expect("a line");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&message["payload"], &message["by_tags"]), (&payload.into(), &true.into()), "{line}");
    }
}

#[test]
fn a_question_is_answered_by_tags_and_then_by_address() {
    let router = Router::start();
    let (_server, _) = start(&router, "byname tags advertise concert --command 'tr a-z A-Z'");
    let (code, answer, errors) = run(&router, "ask concert tonight --json", b"who plays");
    assert_eq!(code, 0, "{errors}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["payload"], "WHO PLAYS");
    let to = answer["source"].as_str().expect("an address");
    assert_eq!(run(&router, &format!("ask --to {to}"), b"and where"), (0, "AND WHERE".into(), String::new()));
    let (code, locators, _) = run(&router, "locators --json", b"");
    assert_eq!(code, 0);
    let locators: Vec<String> = serde_json::from_str(&locators).expect("JSON");
    assert!(locators.len() == 1 && locators[0].starts_with("1:"), "{locators:?}");
}

#[test]
fn failures_say_what_is_wrong() {
    let router = Router::start();
    let (code, _, errors) = run(&router, "ask nobody --timeout 300", b"x");
    assert!(code == 3 && errors.contains("no answer within 300 ms"), "{code} {errors}");
    let (code, _, errors) = run(&router, "send tag", &[b'x'; 9000]);
    assert!(code == 1 && errors.contains("a packet carries at most"), "{code} {errors}");
    let (code, _, errors) = run(&router, "send tag --tree 9", b"x");
    assert!(code == 1 && errors.contains("not on tree 9"), "{code} {errors}");
    for arguments in ["send", "ask", "send a --to 1:05:256", "send --to nonsense", "send a --fan-out 0"] {
        assert_eq!(run(&router, arguments, b"x").0, 2, "{arguments}");
    }
    let too_many = (0..33).map(|tag| tag.to_string()).collect::<Vec<_>>().join(" ");
    let (code, _, errors) = run(&router, &format!("send {too_many}"), b"x");
    assert!(code == 1 && errors.contains("at most 32 tags"), "{code} {errors}");
}
