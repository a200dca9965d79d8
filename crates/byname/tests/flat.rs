//! A file of flat names: made, checked, asked, and used by a router for the names below a prefix.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Done, Router, assert_documented, finish};

/// Runs `byname` with these words, in a folder.
fn byname(folder: &Path, line: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byname"));
    command.args(line.split_whitespace()).current_dir(folder);
    finish(command)
}

/// Makes a table of these lines.
fn build(folder: &Path, table: &str, lines: &str, options: &str) {
    std::fs::write(folder.join("names.txt"), lines).expect("written");
    let built = byname(folder, &format!("flat build names.txt {table} {options}"));
    assert_eq!(built.code, 0, "{}", built.stderr);
}

/// A copy of a table with one wrong byte, in a label.
fn damage(folder: &Path, table: &str, copy: &str) {
    let mut bytes = std::fs::read(folder.join(table)).expect("made");
    let label = bytes.windows(4).position(|bytes| bytes == b"/up/").expect("it has labels");
    bytes[label + 1] ^= 1;
    std::fs::write(folder.join(copy), bytes).expect("written");
}

/// A name that the table does not know.
fn unknown(folder: &Path, table: &str) -> String {
    let mut names = (0..100).map(|n| format!("unknown{n}"));
    names.find(|name| byname(folder, &format!("flat find {table} {name}")).code == 6).expect("checksums tell most")
}

#[test]
fn tables_of_flat_names_are_made_of_text_checked_and_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("names.txt"), "# names\nreport.pdf /up/1\na%2Fb /up/2\n\nc /up/1\n").expect("written");
    let built = byname(folder, "flat build names.txt x.flat");
    assert_eq!((built.code, &*built.stdout), (0, "x.flat: 3 names, 2 labels\n"), "{}", built.stderr);
    let shown = byname(folder, "flat show x.flat").stdout;
    for line in ["names        3\n", "check bits   8\n", "labels       2\n", "\n  /up/2\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(byname(folder, "flat find x.flat report.pdf").stdout, "report.pdf /up/1\n");
    assert_eq!(byname(folder, "flat find x.flat a%2Fb").stdout, "a%2Fb /up/2\n");
    assert_eq!(byname(folder, "flat find x.flat 612F62 --hex").stdout, "612F62 /up/2\n", "the same bytes");
    unknown(folder, "x.flat");
    for (lines, complaint) in [
        ("a /up/1\nb\n", "names.txt, line 2"),
        ("a/b /up/1\n", "not one generic component"),
        ("a up\n", "a name begins with '/'"),
        ("# none\n", "no name in it"),
    ] {
        std::fs::write(folder.join("names.txt"), lines).expect("written");
        let refused = byname(folder, "flat build names.txt y.flat");
        assert!(refused.code == 1 && refused.stderr.contains(complaint), "{}", refused.stderr);
    }
    damage(folder, "x.flat", "damaged.flat");
    let damaged = byname(folder, "flat show damaged.flat");
    assert!(damaged.code == 1 && damaged.stderr.contains("damaged"), "{}", damaged.stderr);
    build(folder, "any.flat", "a /up/1\n", "--check 0");
    let check = |unknown: &str| {
        let text = format!("[[flat]]\nprefix = \"/o\"\ntable = \"any.flat\"\n{unknown}");
        std::fs::write(folder.join("byname.toml"), text).expect("written");
        byname(folder, "check byname.toml")
    };
    let refused = check("");
    assert!(refused.code == 2 && refused.stderr.contains("no checksums"), "{}", refused.stderr);
    let good = check("unknown = \"any\"\n");
    assert!(!good.stderr.contains("any.flat"), "{}", good.stderr);
}

#[test]
fn a_router_tells_unknown_names_by_a_filter_or_by_all_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("names.txt"), "alpha /up/1\nbeta /up/1\n").expect("written");
    let built = byname(folder, "flat build names.txt x.flat --check 0 --filter 20 --exact x.names");
    assert_eq!(built.code, 0, "{}", built.stderr);
    let lines: Vec<_> = built.stdout.lines().collect();
    assert!(lines[1].starts_with("x.filter: a filter of 20 bits, "), "{lines:?}");
    assert!(lines[2].starts_with("x.names: the digests of all names, "), "{lines:?}");
    let [upstream, beyond] = [Router::start(), Router::start()];
    let uri = format!("udp4://127.0.0.1:{}", upstream.port);
    let served = ["alpha", "gamma"].map(|name| format!("/objects/{name}"));
    let _alpha = upstream.serve(&format!("ping-server {}", served[0]), &format!("{}/ping", served[0]), b"");
    let _gamma = beyond.serve(&format!("ping-server {}", served[1]), &format!("{}/ping", served[1]), b"");
    for (word, file) in [("filter", "x.filter"), ("exact", "x.names")] {
        let (table, file) = (folder.join("x.flat"), folder.join(file));
        let flat = format!("prefix = \"/objects\"\ntable = {table:?}\nunknown = \"{word}\"\n{word} = {file:?}\n");
        let router = Router::start_with(&format!("[[flat]]\n{flat}"));
        router.ok(&format!("route add /up/1 {uri}"));
        assert!(router.reaches(&served[0]), "{word}");
        // The table alone has the label /up/1 for all names.
        assert!(router.json(&format!("route get {}", served[1]))["label"].is_null(), "{word}");
        router.ok(&format!("route add /objects udp4://127.0.0.1:{}", beyond.port));
        assert!(router.reaches(&served[1]), "{word}");
        // Changes of names are exact, and need no file.
        router.ok("flat add /objects delta /up/1");
        assert_eq!(router.json("route get /objects/delta")["label"], "/up/1", "{word}");
    }
    let refused = byname(folder, "flat build names.txt x.filter --filter 8");
    assert!(refused.code == 1 && refused.stderr.contains("cannot be two files"), "{}", refused.stderr);
    // A file of another build has another key.
    assert_eq!(byname(folder, "flat build names.txt y.flat").code, 0);
    let text = "[[flat]]\nprefix = \"/o\"\ntable = \"y.flat\"\nunknown = \"exact\"\nexact = \"x.names\"\n";
    std::fs::write(folder.join("byname.toml"), text).expect("written");
    let refused = byname(folder, "check byname.toml");
    assert!(refused.code == 2 && refused.stderr.contains("is of another table than"), "{}", refused.stderr);
}

#[test]
fn a_router_forwards_flat_names_by_their_labels_and_takes_over_another_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    build(folder, "x.flat", "alpha /up/1\nbeta /up/2\n", "--check 16");
    let unknown = unknown(folder, "x.flat");
    let [one, two] = [Router::start(), Router::start()];
    let uris = [&one, &two].map(|upstream| format!("udp4://127.0.0.1:{}", upstream.port));
    let alpha = one.serve("ping-server /objects/alpha", "/objects/alpha/ping", b"");
    let _beta = two.serve("ping-server /objects/beta", "/objects/beta/ping", b"");
    let flat = format!("[[flat]]\nprefix = \"/objects\"\ntable = {:?}\n", folder.join("x.flat"));
    let router = Router::start_with(&flat);
    assert!(router.log().contains("2 flat names and 2 labels for /objects"), "{}", router.log());
    assert_eq!(router.run("ping /objects/alpha -c 1").code, 5, "no route for the label yet");
    router.ok(&format!("route add /up/1 {}", uris[0]));
    assert!(router.reaches("/objects/alpha"));
    assert_eq!(router.run("ping /objects/beta -c 1").code, 5);
    router.ok(&format!("route add /up/2 {}", uris[1]));
    assert!(router.reaches("/objects/beta"));
    let explained = router.json("route get /objects/alpha/ping");
    assert_eq!((&explained["rule"], &explained["label"]), (&"/objects/alpha".into(), &"/up/1".into()));
    assert_eq!(explained["routes"][0]["prefix"], "/up/1");
    let text = router.ok("route get /objects/alpha/ping");
    assert!(text.contains("a table of a few bits a name says: it forwards as /up/1 does"), "{text}");
    // A name that the table does not know is routed by the FIB.
    let unknown = format!("/objects/{unknown}");
    assert_eq!(router.run(&format!("ping {unknown} -c 1")).code, 5);
    let _unknown = two.serve(&format!("ping-server {unknown}"), &format!("{unknown}/ping"), b"");
    router.ok(&format!("route add /objects {}", uris[1]));
    assert!(router.reaches(&unknown));
    assert!(router.json(&format!("route get {unknown}/ping"))["label"].is_null());
    // A longer route wins.
    let own = router.serve("ping-server /objects/alpha/own", "/objects/alpha/own/ping", b"");
    assert!(router.reaches("/objects/alpha/own"));
    drop(own);
    // Another table, under traffic.
    build(folder, "y.flat", "alpha /up/2\nbeta /up/2\n", "--check 16");
    damage(folder, "y.flat", "damaged.flat");
    let use_table = |table: &str| {
        let path = router.path("byname.toml");
        let text = std::fs::read_to_string(&path).expect("the configuration");
        let (before, _) = text.split_once("[[flat]]").expect("it has one");
        let flat = format!("[[flat]]\nprefix = \"/objects\"\ntable = {:?}\n", folder.join(table));
        std::fs::write(path, format!("{before}{flat}")).expect("written");
        router.run("reload")
    };
    let refused = use_table("damaged.flat");
    assert!(refused.code != 0 && refused.stderr.contains("damaged"), "{}{}", refused.stdout, refused.stderr);
    assert!(router.reaches("/objects/alpha"), "the table of before goes on");
    drop(alpha);
    let _alpha = two.serve("ping-server /objects/alpha", "/objects/alpha/ping", b"");
    assert_eq!(router.json("route get /objects/alpha")["label"], "/up/1");
    let pings = router.command("ping /objects/beta -c 30 -i 20 -o 2000 --json");
    let pings = std::thread::spawn(|| finish(pings));
    let taken = use_table("y.flat");
    assert!(taken.code == 0 && taken.stdout.contains("[[flat]] /objects"), "{}{}", taken.stdout, taken.stderr);
    let pings = pings.join().expect("a thread that ends");
    let counts: serde_json::Value = serde_json::from_str(&pings.stdout).expect("statistics");
    assert_eq!((&counts["transmitted"], &counts["received"]), (&30.into(), &30.into()), "{}", pings.stderr);
    assert!(router.reaches("/objects/alpha"), "by the other face");
    assert_eq!(router.json("route get /objects/alpha")["label"], "/up/2");
}

#[test]
fn flat_names_change_by_commands_and_the_changes_outlive_the_router() {
    let [one, two] = [Router::start(), Router::start()];
    let uris = [&one, &two].map(|upstream| format!("udp4://127.0.0.1:{}", upstream.port));
    let state = tempfile::tempdir().expect("a folder");
    let file = state.path().join("state.db");
    let mut router = Router::start_with(&format!("[state]\nfile = {file:?}\n[[flat]]\nprefix = \"/objects\"\n"));
    for (label, uri) in [("/up/1", &uris[0]), ("/up/2", &uris[1])] {
        router.ok(&format!("route add {label} {uri}"));
    }
    let _servers = [
        one.serve("ping-server /objects/a", "/objects/a/ping", b""),
        two.serve("ping-server /objects/a", "/objects/a/ping", b""),
    ];
    assert_eq!(router.run("ping /objects/a -c 1").code, 5);
    assert_eq!(router.ok("flat add /objects a /up/1"), "flat-set name=/objects/a label=/up/1\n");
    assert!(router.reaches("/objects/a"));
    let way = |router: &Router| router.json("route get /objects/a/ping")["label"].clone();
    assert_eq!(way(&router), "/up/1");
    router.ok("flat alter /objects a /up/2");
    assert_eq!((way(&router), router.reaches("/objects/a")), ("/up/2".into(), true));
    let names = router.path("changes.txt");
    std::fs::write(&names, "# changes\nb /up/1\n\nc -\n").expect("written");
    assert_eq!(router.ok(&format!("flat load /objects {}", names.display())), "2 flat names changed\n");
    let listed = router.json("flat list");
    assert_documented("flat name", &listed[0]);
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    // What is wrong is said before anything changes.
    std::fs::write(&names, "d /up/1\ne\n").expect("written");
    let refused = router.run(&format!("flat load /objects {}", names.display()));
    assert!(
        refused.code == 1 && refused.stderr.contains("line 2: a line has a flat name and a label"),
        "{}",
        refused.stderr
    );
    let refused = router.run("flat add /elsewhere a /up/1");
    assert!(refused.code == 6 && refused.stderr.contains("[[flat]]"), "{}", refused.stderr);
    assert_eq!(router.json("flat list").as_array().map(Vec::len), Some(3));
    // A new process, and one that takes over.
    router = router.restart("-TERM");
    assert_eq!(router.json("flat list"), listed);
    assert_eq!((way(&router), router.reaches("/objects/a")), ("/up/2".into(), true));
    router.restart_by_command();
    assert_eq!(router.json("flat list"), listed);
    assert!(router.reaches("/objects/a"));
    router.ok("flat remove /objects a");
    assert_eq!(router.run("ping /objects/a -c 1").code, 5);
    assert_eq!(router.ok("flat reset /objects a"), "flat-reset name=/objects/a\n");
    assert_eq!(router.json("flat list").as_array().map(Vec::len), Some(2));
}
