//! Exit codes: those of each subcommand, as `--help` and docs/json.md list them.

mod common;

use std::process::Command;

use common::{PROGRAM, Router, command_at, finish};

const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const TIMEOUT: i32 = 3;
const NO_FORWARDER: i32 = 4;
const REFUSED: i32 = 5;
const NOT_FOUND: i32 = 6;

/// Subcommands that `byname --help` lists.
fn subcommands() -> Vec<String> {
    let help = finish(with("--help")).stdout;
    let lines = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.map(|line| line.split_whitespace().next().expect("a word").to_owned());
    let names: Vec<String> = names.take_while(|name| name != "man").filter(|name| !name.starts_with('-')).collect();
    assert!(names.len() > 25, "{names:?}");
    names
}

fn with(line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace()).env("HOME", "/nonexistent");
    command
}

/// Carries out each line, and compares its code.
fn assert_codes(run: impl Fn(&str) -> common::Done, lines: &[(&str, i32)]) {
    let wrong: Vec<String> = lines
        .iter()
        .filter_map(|(line, code)| {
            let done = run(line);
            // What fails says why, and not on standard output, where scripts read. Pings are what `ping` prints.
            let is_told = *code == OK || line.starts_with("ping ") || !done.stderr.trim().is_empty();
            (done.code != *code || !is_told)
                .then(|| format!("byname {line}: {} and not {code}: {}{}", done.code, done.stdout, done.stderr))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_running_router() {
    let router = Router::start();
    let _server = router.serve("ping-server /served", "/served/ping", b"");
    // Nobody listens there.
    router.ok("route add /silent udp4://127.0.0.1:9");
    assert_codes(
        |line| router.run(line),
        &[
            ("status", OK),
            ("status show --json", OK),
            ("face", OK),
            ("face list", OK),
            ("face list --scheme unix", OK),
            ("face show 1", OK),
            ("face show 99999", NOT_FOUND),
            ("face show udp4://192.0.2.1", NOT_FOUND),
            ("face show somewhere", USAGE),
            ("face create nowhere", USAGE),
            ("face create ftp://192.0.2.1", FAILED),
            ("face create tcp4://127.0.0.1:1", FAILED),
            ("face move 99999 0", NOT_FOUND),
            ("face destroy 99999", NOT_FOUND),
            ("face destroy udp4://192.0.2.1", NOT_FOUND),
            ("channel", OK),
            ("fib", OK),
            ("route", OK),
            ("route list", OK),
            ("route list --nexthop 99999", NOT_FOUND),
            ("route list --nexthop udp4://127.0.0.1:9", OK),
            ("route show /silent", OK),
            ("route show /no/route", NOT_FOUND),
            ("route get /silent/a", OK),
            ("route get /nowhere", OK),
            ("route get silent", USAGE),
            ("route add /a 99999", NOT_FOUND),
            ("route add /a 1 --cost much", USAGE),
            ("route add /b udp4://127.0.0.1:9", OK),
            ("route remove /b udp4://127.0.0.1:9", OK),
            ("route remove /b udp4://127.0.0.1:9", NOT_FOUND),
            ("route remove /b 99999", NOT_FOUND),
            ("cs", OK),
            ("cs info", OK),
            ("cs config --capacity 100", OK),
            ("cs config --admit maybe", USAGE),
            ("cs erase /a", OK),
            ("strategy", OK),
            ("strategy show /a", OK),
            ("strategy set /a best-route", OK),
            ("strategy set /a no-such-strategy", NOT_FOUND),
            ("strategy unset /a", OK),
            ("strategy unset /", USAGE),
            ("reload", OK),
            ("top --once --interval 200ms", OK),
            ("top", USAGE),
            ("trace / --for 100ms", OK),
            ("trace no-name", USAGE),
            ("ping /served -c 1", OK),
            ("ping /silent -c 1 --timeout 100", TIMEOUT),
            ("ping /nowhere -c 1", REFUSED),
            ("peek /nowhere", REFUSED),
            ("peek /silent --lifetime 100", TIMEOUT),
            ("get /nowhere -o /dev/null", REFUSED),
            ("put /a /no/such/file", FAILED),
            ("-f /no/such/file", FAILED),
        ],
    );
}

#[test]
fn no_router() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("written");
    let address = format!("unix://{}", folder.path().join("none.sock").display());
    let put = format!("put /a {}", file.display());
    let lines = [
        "status",
        "face list",
        "channel",
        "fib",
        "route list",
        "route get /a",
        "cs info",
        "strategy list",
        "reload",
        "restart",
        "top --once",
        "trace /",
        "ping /a",
        "ping-server /a",
        "peek /a",
        "poke /a",
        "get /a -o /dev/null",
        put.as_str(),
    ];
    assert_codes(|line| finish(command_at(&address, line)), &lines.map(|line| (line, NO_FORWARDER)));
    assert_codes(|line| finish(command_at("nonsense", line)), &[("status", USAGE)]);
}

#[test]
fn commands_that_ask_no_router() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("good.toml"), "").expect("written");
    std::fs::write(path("bad.toml"), "no = [").expect("written");
    std::fs::write(path("graph.txt"), "a b\n").expect("written");
    let lines = [
        ("default-config".to_owned(), OK),
        (format!("check {}", path("good.toml")), OK),
        (format!("check {}", path("bad.toml")), USAGE),
        (format!("check {}", path("none.toml")), USAGE),
        (format!("run --config {}", path("bad.toml")), USAGE),
        (format!("trees --graph {} --root a", path("graph.txt")), OK),
        (format!("trees --graph {} --root c", path("graph.txt")), USAGE),
        (format!("trees --graph {} --root a", path("none.txt")), USAGE),
        ("trees".to_owned(), USAGE),
        ("completions bash".to_owned(), OK),
        ("completions cobol".to_owned(), USAGE),
        (format!("man {}", path("")), OK),
        ("demo".to_owned(), USAGE),
        ("demo net 1".to_owned(), USAGE),
        ("key".to_owned(), USAGE),
        ("table".to_owned(), USAGE),
        ("run --transport tcp://h".to_owned(), USAGE),
        ("--json".to_owned(), USAGE),
        ("no-such-command".to_owned(), USAGE),
        ("--version".to_owned(), OK),
    ];
    let lines: Vec<(&str, i32)> = lines.iter().map(|(line, code)| (line.as_str(), *code)).collect();
    assert_codes(|line| finish(with(line)), &lines);
}

#[test]
fn each_subcommand_has_help_and_refuses_what_it_does_not_know() {
    for name in subcommands() {
        for line in [format!("help {name}"), format!("{name} --help")] {
            let done = finish(with(&line));
            assert_eq!(done.code, OK, "byname {line}: {}", done.stderr);
            assert!(done.stdout.contains(&format!("byname {name}")), "byname {line}: {}", done.stdout);
        }
        assert_codes(|line| finish(with(line)), &[(&format!("{name} --no-such-option"), USAGE)]);
    }
}

#[test]
fn documents_list_the_codes_of_help() {
    let help = finish(with("--help")).stdout;
    let document = include_str!("../../../docs/json.md");
    for code in [0, 1, 2, 3, 4, 5, 6, 101, 130] {
        assert!(help.contains(&format!("  {code} ")) || help.contains(&format!("   {code} ")), "{code} in {help}");
        assert!(document.contains(&format!("| {code} |")), "{code}");
    }
}
