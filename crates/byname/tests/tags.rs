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

/// `byname` in a folder, without a router.
fn byname(folder: &Path, arguments: &str) -> common::Done {
    let mut command = Command::new(PROGRAM);
    command.args(arguments.split(' ')).current_dir(folder);
    finish(command)
}

#[test]
fn sets_of_a_file_lead_where_the_routes_of_their_labels_lead() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let build = |table: &str, lines: &str| {
        std::fs::write(folder.join("sets.txt"), lines).expect("written");
        byname(folder, &format!("table build --tags sets.txt {table}"))
    };
    let built = build("x.tags", "# two applications\n/classical/concert /up/1\n/jazz /up/2\n/tonight/jazz /up/1\n");
    assert_eq!((built.code, &*built.stdout), (0, "x.tags: 3 sets of tags, 2 labels\n"), "{}", built.stderr);
    let shown = byname(folder, "table show x.tags").stdout;
    assert!(shown.starts_with("sets of tags 3\n") && shown.ends_with("labels       2\n  /up/1\n  /up/2\n"), "{shown}");
    assert_eq!(byname(folder, "table find x.tags /ninth/concert/classical").stdout, "/up/1\n");
    assert_eq!(byname(folder, "table find x.tags /jazz/tonight").stdout, "/up/1\n/up/2\n");
    assert_ne!(byname(folder, "table find x.tags /concert").code, 0);
    for (lines, part) in [
        ("/a/b /up/1\n/b/a /up/2\n", "sets.txt, line 2"),
        ("/32=a /up/1\n", "plain components"),
        ("/ /up/1\n", "1 to 32 tags"),
        ("/a\n", "line 1"),
    ] {
        let refused = build("y.tags", lines);
        assert!(refused.code == 1 && refused.stderr.contains(part), "{lines}: {}", refused.stderr);
    }
    // Damage, and a file of another kind.
    let mut bytes = std::fs::read(folder.join("x.tags")).expect("a table");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(folder.join("damaged.tags"), bytes).expect("written");
    std::fs::write(folder.join("rules.txt"), "/a /up/1\n").expect("written");
    assert_eq!(byname(folder, "table build rules.txt rules.table").code, 0);
    for (text, part) in [
        ("bulk = \"none.tags\"", "No such file"),
        ("bulk = \"rules.table\"", "a table of kind 1"),
        ("bulk = \"x.tags\"\nengine = \"trie\"", "only the engine \"rare-tag\""),
    ] {
        std::fs::write(folder.join("byname.toml"), format!("[tags]\n{text}\n")).expect("written");
        let refused = byname(folder, "check byname.toml");
        assert!(refused.code == 2 && refused.stderr.contains(part), "{text}: {}", refused.stderr);
    }

    let [one, two] = [Router::start(), Router::start()];
    let uris = [&one, &two].map(|upstream| format!("udp4://127.0.0.1:{}", upstream.port));
    let router = Router::start_with(&format!("[tags]\nbulk = {:?}\n", folder.join("x.tags")));
    assert!(router.log().contains("has 3 sets of tags and 2 labels"), "{}", router.log());
    let listen = "byname tags listen concert classical --or jazz --or mark --for 60000";
    let ((_one, mut at_one), (_two, mut at_two)) = (start(&one, listen), start(&two, listen));
    let send = |tags: &str, payload: &str| {
        let (code, _, errors) = run(&router, &format!("send {tags}"), format!("{payload}\n").as_bytes());
        assert_eq!(code, 0, "{errors}");
    };
    let heard = |from: &mut BufReader<std::process::ChildStdout>| {
        let mut line = String::new();
        from.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    };
    send("jazz", "lost: its label has no route");
    for (label, uri) in ["/up/1", "/up/2"].iter().zip(&uris) {
        router.ok(&format!("route add {label} {uri}"));
    }
    send("classical concert ninth", "for one");
    send("jazz tonight", "for both");
    assert_eq!([heard(&mut at_one), heard(&mut at_one)], ["for one", "for both"]);
    assert_eq!(heard(&mut at_two), "for both");
    // An application beside the file; and to one of all, that with the largest set.
    let (_own, mut own) = start(&router, "byname tags listen jazz tonight late --for 60000");
    send("jazz tonight late", "for all three");
    send("jazz tonight late --fan-out 1", "for the largest set");
    assert_eq!([heard(&mut own), heard(&mut own)], ["for all three", "for the largest set"]);
    assert_eq!([heard(&mut at_one), heard(&mut at_two)], ["for all three", "for all three"]);
    // A label follows its route.
    router.ok(&format!("route remove /up/2 {}", uris[1]));
    router.ok(&format!("route add /up/2 {}", uris[0]));
    send("jazz", "now for one");
    assert_eq!(heard(&mut at_one), "now for one");

    // Another file takes its place, and a damaged one does not.
    assert_eq!(build("y.tags", "/mark /up/3\n/classical /up/2\n").code, 0);
    let use_table = |table: &str| {
        let path = router.path("byname.toml");
        let text = std::fs::read_to_string(&path).expect("the configuration");
        let (before, _) = text.split_once("[tags]").expect("it has them");
        std::fs::write(path, format!("{before}[tags]\nbulk = {:?}\n", folder.join(table))).expect("written");
        router.run("reload")
    };
    let refused = use_table("damaged.tags");
    assert!(refused.code != 0 && refused.stderr.contains("damaged"), "{}{}", refused.stdout, refused.stderr);
    send("jazz tonight late", "as before");
    assert_eq!([heard(&mut at_one), heard(&mut own)], ["as before", "as before"]);
    router.ok(&format!("route add /up/3 {}", uris[1]));
    let taken = use_table("y.tags");
    assert!(taken.code == 0 && taken.stdout.contains("tags.bulk"), "{}{}", taken.stdout, taken.stderr);
    send("mark", "the end for two");
    send("concert classical", "the end for one");
    send("jazz tonight late", "the end here");
    assert_eq!(
        [heard(&mut at_one), heard(&mut at_two), heard(&mut own)],
        ["the end for one", "the end for two", "the end here"]
    );
}
