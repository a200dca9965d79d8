//! A file of rules: made, checked, asked, and mapped by a router.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Done, Router, finish};

/// Runs `byname` with these words, in a folder.
fn byname(folder: &Path, line: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byname"));
    command.args(line.split_whitespace()).current_dir(folder);
    finish(command)
}

#[test]
fn tables_are_made_of_text_checked_and_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "# rules\n/net/example/video /up/2\n/com/example /up/1\n/com/example/x/y /up/2\n";
    std::fs::write(folder.path().join("rules.txt"), text).expect("written");
    let refused = byname(folder.path(), "table build rules.txt x.table");
    assert!(refused.code == 1 && refused.stderr.contains("rules.txt, line 3") && refused.stderr.contains("--sort"));
    let built = byname(folder.path(), "table build --sort rules.txt x.table");
    assert_eq!((built.code, &*built.stdout), (0, "x.table: 3 rules, 2 labels\n"), "{}", built.stderr);
    let shown = byname(folder.path(), "table show x.table").stdout;
    assert!(
        shown.contains("rules      3\n") && shown.contains("name hash  siphash13\n") && shown.contains("\n  /up/2\n")
    );
    assert_eq!(byname(folder.path(), "table find x.table /com/example/x/y/z").stdout, "/com/example/x/y /up/2\n");
    assert_eq!(byname(folder.path(), "table find x.table /com/example/x").stdout, "/com/example /up/1\n");
    assert_eq!(byname(folder.path(), "table find x.table /org").code, 6);
    // Another table with the same key.
    let again = byname(folder.path(), "table build --sort --key-of x.table rules.txt y.table");
    assert_eq!(again.code, 0, "{}", again.stderr);
    let key = |file: &str| std::fs::read(folder.path().join(file)).expect("made")[24..44].to_vec();
    assert_eq!(key("x.table"), key("y.table"));
    let mut bytes = std::fs::read(folder.path().join("x.table")).expect("made");
    let last = bytes.len() - 4096;
    bytes.truncate(last);
    std::fs::write(folder.path().join("cut.table"), bytes).expect("written");
    let cut = byname(folder.path(), "table show cut.table");
    assert!(cut.code == 1 && cut.stderr.contains(" bytes"), "{}", cut.stderr);
    std::fs::write(folder.path().join("byname.toml"), "[tables]\nbulk = \"rules.txt\"\n").expect("written");
    let checked = byname(folder.path(), "check byname.toml");
    assert!(checked.code == 2 && checked.stderr.contains("this file has no table"), "{}", checked.stderr);
}

#[test]
fn a_router_forwards_by_the_rules_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("rules.txt"), "/bulk/example /up/1\n/other /up/2\n").expect("written");
    let built = byname(folder.path(), "table build --sort --hash siphash24 rules.txt x.table");
    assert_eq!(built.code, 0, "{}", built.stderr);
    let upstream = Router::start();
    let _server = upstream.serve("ping-server /bulk/example", "/bulk/example/ping", b"");
    let uri = format!("udp4://127.0.0.1:{}", upstream.port);
    let bulk = format!("[tables]\nbulk = {:?}\n", folder.path().join("x.table"));
    let router = Router::start_with(&bulk);
    assert!(router.log().contains("2 rules and 2 labels"), "{}", router.log());
    assert_eq!(router.run("ping /bulk/example -c 1").code, 5, "no route for the label yet");
    router.ok(&format!("route add /up/1 {uri}"));
    assert!(router.reaches("/bulk/example"));
    assert_eq!(router.run("ping /other -c 1").code, 5);
    router.ok(&format!("route remove /up/1 {uri}"));
    assert_eq!(router.run("ping /bulk/example -c 1").code, 5);
    // Routes below and above the file's rules are as ever.
    let _own = router.serve("ping-server /bulk/example/own", "/bulk/example/own/ping", b"");
    assert!(router.reaches("/bulk/example/own"));
}
