//! A builder makes a table of sets of tags, which routers have as a file.

use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdout;

use super::builder::{Builder, PAIR, Pair, agent, damage};
use super::*;

/// An application at a router that prints the messages with the tag `probe`.
struct Application {
    process: Child,
    heard: BufReader<ChildStdout>,
}

impl Application {
    fn start(router: &Router) -> Application {
        let mut command = router.command("tags listen probe --for 300000");
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start an application");
        let mut told = String::new();
        BufReader::new(process.stderr.take().expect("piped")).read_line(&mut told).expect("a line");
        assert!(told.contains("Ctrl-C stops"), "{told}");
        let heard = BufReader::new(process.stdout.take().expect("piped"));
        Application { process, heard }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.heard.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a message with these tags and `probe`.
fn send(from: &Router, tags: &str, payload: &str) {
    let mut command = from.command(&format!("tags send {tags} probe"));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("start byname");
    process.stdin.take().expect("piped").write_all(format!("{payload}\n").as_bytes()).expect("it reads");
    assert!(process.wait().expect("an end").success(), "{tags}");
}

/// Sets of two tags: that of each number leads to one of two groups.
fn sets(count: usize) -> String {
    (0..count).map(|n| format!("/n-{n}/topic-{} {}\n", n % 83, ["west", "south"][n % 2])).collect()
}

#[test]
fn packets_with_tags_follow_a_table_that_a_builder_has_made() {
    const SETS: usize = 5_000;
    let Some(mut pair) = Pair::start("") else { return };
    let third = Router::start();
    let builder = Builder::start(&pair.etcd, &pair.routers[0], "builder");
    // `west` leads from the first router to the second one, and `south` to a third one, which is in no fleet.
    pair.etcd.load(&format!("link add r1 third udp4://127.0.0.1:{}\ngroup set south r1 third:1\n", third.port));
    let said = pair.load(&sets(SETS), "wishes --tags");
    assert!(said.contains("5000 sets of tags") && said.contains(", built, "), "{said}");
    assert!(said.contains("2 of 2 live nodes"), "{said}");
    let list = pair.etcd.fleet("table list");
    assert!(list.contains("; sets of tags; built: 5000 rows"), "{list}");
    assert!(pair.files(0) == pair.files(1) && pair.files(0)[0].ends_with(".tags"), "{:?}", pair.files(0));
    for node in PAIR {
        let report = pair.etcd.node(node).expect("it reports");
        assert_eq!((&report["tables"]["wishes"]["rows"], &report["tags"]), (&5_000.into(), &0.into()), "{report}");
    }
    let (mut west, mut south) = (Application::start(&pair.routers[1]), Application::start(&third));
    for n in [0, 1, 82, 83, 2_500, 4_998, 4_999] {
        send(&pair.routers[0], &format!("topic-{} n-{n}", n % 83), &n.to_string());
        let to = if n % 2 == 0 { &mut west } else { &mut south };
        assert_eq!(to.hear(), n.to_string());
    }
    // A part of a set is not enough, and packets may be of two sets.
    send(&pair.routers[0], "n-1 topic-2", "nobody");
    send(&pair.routers[0], "n-1 topic-1 n-84", "both");
    send(&pair.routers[0], "n-1 topic-1 n-0 topic-0", "each");
    assert_eq!(south.hear(), "both", "n-84 has the same topic");
    assert_eq!((west.hear(), south.hear()), ("both".to_owned(), "each".to_owned()));
    assert_eq!(west.hear(), "each");
    // `show` prints what `load` takes, and a set has one line whatever the order of its tags.
    let shown = pair.etcd.fleet("table show wishes");
    assert_eq!(shown.lines().count(), SETS);
    assert!(shown.lines().any(|line| line == "/n-7/topic-7 south"), "{}", &shown[..200]);

    // Other groups of sets are lines of the file; a set more is another file.
    let patched = || builder.log().matches("a patch of ").count();
    let before = patched();
    pair.etcd.fleet("--patience 40 table add wishes /topic-7/n-7 west");
    assert_eq!(patched(), before + 1, "{}", builder.log());
    send(&pair.routers[0], "n-7 topic-7", "changed");
    assert_eq!(west.hear(), "changed");
    let file = pair.etcd.file("/topic-0/n-0 south\n- /n-2/topic-2\n/late/for/ever west\n");
    pair.etcd.fleet(&format!("--patience 40 table change wishes {}", file.display()));
    send(&pair.routers[0], "n-2 topic-2", "nobody");
    send(&pair.routers[0], "ever late for", "new");
    send(&pair.routers[0], "n-0 topic-0", "moved");
    assert_eq!((west.hear(), south.hear()), ("new".to_owned(), "moved".to_owned()));

    // A failed link, and another group: one route at the node, whatever the number of sets.
    pair.etcd.fleet("group set west r1 third:1");
    pair.etcd.wait_current(&PAIR);
    send(&pair.routers[0], "n-4 topic-4", "all go south");
    assert_eq!(south.hear(), "all go south");
    pair.etcd.fleet("group set west r1 peer:1 third:2");
    pair.etcd.fleet("link down r1 third");
    pair.etcd.wait_current(&PAIR);
    send(&pair.routers[0], "n-4 topic-4", "not to the failed one");
    assert_eq!(west.hear(), "not to the failed one");
    pair.etcd.fleet("link up r1 third");
    pair.etcd.wait_current(&PAIR);
    send(&pair.routers[0], "n-4 topic-4", "to both");
    assert_eq!((west.hear(), south.hear()), ("to both".to_owned(), "to both".to_owned()));

    // The file and all blocks are damaged at an agent: some may be of earlier tables. It finds that out when it starts, and
    // fetches them again.
    pair.agents[1].kill();
    damage(&pair.routers[1].path("tables").join(&pair.files(1)[0]));
    for chunk in std::fs::read_dir(pair.routers[1].path("agent.chunks")).expect("a folder") {
        damage(&chunk.expect("a chunk").path());
    }
    pair.agents[1] = agent(&pair.etcd, &pair.routers[1], "r2");
    let read = |at: usize| std::fs::read(pair.routers[at].path("tables").join(pair.files(at).first()?)).ok();
    wait_until("the file is whole again", || read(0).is_some() && read(0) == read(1));
    pair.etcd.wait_current(&PAIR);
    assert!(pair.fetched("r2") > 0, "damaged blocks were fetched");

    for (rules, line, code, part) in [
        ("/a west\n", "table load other --tags", 1, "routers have one built table of tags"),
        ("/a west\n", "table load wishes --built", 1, "the table wishes is of another kind"),
        ("/a/b west\n/b/a west\n", "table load wishes --tags", 2, "line 2: another line has the same prefix"),
        ("/a/b west\n/b/a west\n", "table change wishes", 1, "/a/b is there twice"),
    ] {
        let done = pair.etcd.try_fleet(&format!("{line} {}", pair.etcd.file(rules).display()));
        assert!(done.code == code && done.stderr.contains(part), "{line}: {} {}", done.code, done.stderr);
    }

    // Beside a table of prefixes. Then the table of tags goes.
    pair.load("/video west\n", "world --built");
    assert_eq!(pair.files(0).len(), 2);
    send(&pair.routers[0], "n-7 topic-7", "still");
    assert_eq!(west.hear(), "still");
    pair.etcd.fleet("table drop wishes");
    pair.etcd.wait_current(&PAIR);
    send(&pair.routers[0], "n-7 topic-7", "nobody");
    let mut own = Application::start(&pair.routers[0]);
    send(&pair.routers[0], "n-7 topic-7", "only here");
    assert_eq!((own.hear(), pair.files(0).len()), ("only here".to_owned(), 1));
}
