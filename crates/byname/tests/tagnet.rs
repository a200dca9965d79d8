//! Packets by tags and by locator between processes: the demonstrations, and `byname trees`.

use std::process::{Command, Output};

fn byname(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_byname")).args(args).output().expect("it starts");
    let text = |octets: Vec<u8>| String::from_utf8(octets).expect("text");
    (status.code().expect("no signal"), text(stdout), text(stderr))
}

/// Runs a demonstration, once for each number of threads that may forward.
fn demo(name: &str, check: impl Fn(&str)) {
    for workers in ["0", "1", "2"] {
        let (code, told, errors) = byname(&["demo", name, "--workers", workers]);
        assert!(code == 0 && errors.is_empty(), "{workers} workers: {told}{errors}");
        assert!(told.lines().last().is_some_and(|line| line.ends_with(" Data came by name, none missing.")), "{told}");
        check(&told);
    }
}

#[test]
fn a_player_pulls_a_song_by_tags_and_then_by_locator() {
    demo("pull", |told| {
        assert!(told.contains("The player has the song, 256000 octets, as it is at the server."), "{told}");
    });
}

#[test]
fn news_is_pushed_to_those_who_asked_for_it() {
    demo("push", |told| {
        let lines = |line: &str| told.lines().filter(|told| *told == line).count();
        for name in ["Clara", "Robert"] {
            assert_eq!(lines(&format!("  {name} hears: Beethoven's ninth, tonight at eight")), 1, "{told}");
        }
        assert_eq!(lines("  Robert hears: and the tenth, tomorrow"), 1, "{told}");
        assert!(!told.contains("Billie hears:") && lines("  Clara hears: and the tenth, tomorrow") == 0, "{told}");
    });
}

#[test]
fn trees_are_shown_and_a_router_is_told_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("network.txt");
    std::fs::write(&graph, "a b\nb c\nb d\n").expect("written");
    let graph = graph.to_str().expect("text");
    let (code, told, errors) = byname(&["trees", "--graph", graph, "--root", "a", "--root", "d"]);
    assert_eq!((code, told.lines().count()), (0, 9), "{told}{errors}");
    let (code, told, _) = byname(&["trees", "--graph", graph, "--root", "a", "--node", "b"]);
    assert_eq!(code, 0, "{told}");
    let addresses = told.replace("ADDRESS", "192.0.2.1");
    let config = folder.path().join("byname.toml");
    std::fs::write(&config, addresses).expect("written");
    let (code, told, errors) = byname(&["check", config.to_str().expect("text")]);
    assert_eq!(code, 0, "{told}{errors}");
    let (code, _, errors) = byname(&["trees", "--graph", graph, "--root", "zurich"]);
    assert!(code == 2 && errors.contains("0 nodes named \"zurich\""), "{code} {errors}");
}
