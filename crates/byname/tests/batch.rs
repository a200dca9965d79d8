//! `byname -f`: batches of management commands against a running forwarder.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Instant;

use common::{Done, Router, finish};

/// Environment variable with the number of routes in the test of speed.
const ROUTES: &str = "BYNAME_TEST_BATCH";

/// Runs a batch from a file of these lines.
fn batch(router: &Router, options: &str, lines: &str) -> Done {
    let file = router.path("batch");
    std::fs::write(&file, lines).expect("written");
    router.run(&format!("-f {} {options}", file.display()))
}

fn prefixes(router: &Router) -> Vec<String> {
    let routes = router.json("route list");
    let prefixes = routes.as_array().unwrap().iter().map(|route| route["prefix"].as_str().unwrap().to_owned());
    prefixes.filter(|prefix| prefix.starts_with("/b")).collect()
}

#[test]
fn a_batch_has_all_kinds_of_commands() {
    let router = Router::start();
    let done = batch(
        &router,
        "",
        "# words of byname and of nfdc, remarks and empty lines\n\nface create udp4://127.0.0.1:9\n\
         route add /b/1 udp4://127.0.0.1:9 cost 5\nroute add prefix /b/2 nexthop udp://127.0.0.1:9\n\
         route add '/b/3 x' udp4://127.0.0.1:10 --capture\n\
         route remove /b/2 udp4://127.0.0.1:9\nroute add /b/2 udp4://127.0.0.1:9 cost 7\n\
         route remove /b/none udp4://127.0.0.1:9\n\
         strategy set /b multicast\ncs config --capacity 77\nroute list /b",
    );
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{}", done.stdout);
    let words: Vec<&str> = done.stdout.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let expected = [
        "face-created",
        "route-add-accepted",
        "route-add-accepted",
        "face-created",
        "route-add-accepted",
        "route-removed",
        "route-add-accepted",
        "route-removed",
        "strategy-set",
        "cs-config-updated",
    ];
    assert_eq!(words[..expected.len()], expected, "in the order of the lines: {}", done.stdout);
    assert_eq!(words[expected.len()..].len(), 3, "`route list` sees the routes: {}", done.stdout);
    assert_eq!(prefixes(&router), ["/b/1", "/b/2", "/b/3%20x"]);
    assert_eq!(router.json("route show /b/2")[0]["cost"], 7);
}

#[test]
fn the_first_failure_ends_a_batch() {
    let router = Router::start();
    let done = batch(&router, "", "route add /b/1 9999\nroute list extra words\nroute add /b/2 9999\n");
    assert_eq!(done.code, 6, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("batch:1: error: there is no face 9999"), "{}", done.stderr);
    // A command that is not a route change waits for those before it.
    assert!(done.stderr.contains("nothing after this line was carried out"), "{}", done.stderr);
    assert!(prefixes(&router).is_empty());
    // Route changes do not wait.
    let many: String = (0..20).map(|i| format!("route add /b/{i} {}\n", if i == 9 { 9999 } else { 0xffff })).collect();
    router.ok("face create udp4://127.0.0.1:9");
    let face = router.json("face list udp4://127.0.0.1:9")[0]["face_id"].to_string();
    let done = batch(&router, "", &many.replace("65535", &face));
    assert_eq!(done.code, 6, "{}", done.stderr);
    assert!(done.stderr.contains("batch:10: error: there is no face 9999"), "{}", done.stderr);
    assert!(done.stderr.contains("commands up to line 20 had been sent"), "{}", done.stderr);
    assert_eq!(prefixes(&router).len(), 19, "as it says");
}

#[test]
fn all_failures_are_listed_if_it_goes_on() {
    let router = Router::start();
    router.ok("face create udp4://127.0.0.1:9");
    let long = "x".repeat(70_000);
    let lines = format!(
        "route add /b/1 9999\nrun\nroute add b 300\nroute add '/b\nping /b\n{long}\nface show 99999\n\
         route remove /b udp4://127.0.0.1:77\nroute add /b/2 udp4://127.0.0.1:9\nroute add /b/3 udp4://127.0.0.1:9 cost x\n\
         --transport x status\n"
    );
    let done = batch(&router, "--keep-going", &lines);
    assert_eq!(done.code, 6, "that of the first failure: {}", done.stderr);
    for (line, part) in [
        (1, "there is no face 9999"),
        (2, "'run' is not a management command"),
        (3, "a name begins with '/': try '/b'"),
        (4, "a quotation mark is not closed"),
        (5, "'ping /b' is not a management command"),
        (6, "longer than 64 KiB"),
        (7, "no face has id 99999"),
        (8, "no face leads to udp4://127.0.0.1:77"),
        (10, "invalid value 'x'"),
        (11, "--transport"),
    ] {
        let beginning = format!("batch:{line}: error: ");
        let said = done.stderr.lines().find(|said| said.contains(&beginning));
        assert!(said.is_some_and(|said| said.contains(part)), "{line}: {part} in {}", done.stderr);
    }
    assert!(done.stderr.ends_with("batch: 10 of 11 commands failed\n"), "{}", done.stderr);
    assert_eq!(prefixes(&router), ["/b/2"]);
}

#[test]
fn a_program_can_wait_for_each_answer() {
    let router = Router::start();
    let mut command = router.command("-f -");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("byname");
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    let mut next = || output.next().expect("an answer").expect("text");
    input.write_all(b"face create udp4://127.0.0.1:9\n").expect("written");
    assert!(next().starts_with("face-created"));
    for i in 0..3 {
        input.write_all(format!("route add /b/{i} udp4://127.0.0.1:9\n").as_bytes()).expect("written");
        assert!(next().starts_with(&format!("route-add-accepted prefix=/b/{i} ")));
    }
    // The end of the input ends a line, too.
    input.write_all(b"route remove /b/1 udp4://127.0.0.1:9").expect("written");
    drop(input);
    assert!(next().starts_with("route-removed prefix=/b/1 "));
    assert!(child.wait().expect("ended").success());
    assert_eq!(prefixes(&router), ["/b/0", "/b/2"]);
}

/// With several packet threads, commands in flight may overtake each other.
#[test]
fn changes_of_one_route_keep_their_order() {
    let router = Router::start_with("[threads]\ncount = 2\npin = false\nrest = false\n");
    router.ok("face create udp4://127.0.0.1:9");
    let lines: String = (0..600)
        .map(|i| {
            let (route, cost) = (i % 7, i);
            format!("route add /b/{route} udp4://127.0.0.1:9 cost {cost}\nroute remove /b/{route} udp4://127.0.0.1:9\n")
        })
        .chain((0..7).map(|route| format!("route add /b/{route} udp4://127.0.0.1:9 cost {route}\n")))
        .collect();
    let done = batch(&router, "", &lines);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let routes = router.json("route list");
    let costs = |route: &serde_json::Value| (route["prefix"].as_str().unwrap().to_owned(), route["cost"].as_u64());
    let mut found: Vec<_> = routes.as_array().unwrap().iter().map(costs).collect();
    found.retain(|(prefix, _)| prefix.starts_with("/b"));
    let expected: Vec<_> = (0..7).map(|route| (format!("/b/{route}"), Some(route))).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_batch_is_no_command_and_needs_a_router() {
    let router = Router::start();
    assert_eq!(router.run("-f /dev/null status").code, 2);
    assert_eq!(router.run("--keep-going status").code, 2);
    assert_eq!(router.run("-f /nonexistent/batch").code, 1);
    assert_eq!(router.run("-f /dev/null").code, 0);
    let absent = finish(common::command_at("unix:///nonexistent/nfd.sock", "-f /dev/null"));
    assert_eq!(absent.code, 4, "{}", absent.stderr);
}

/// Prints the rate with `--nocapture`. The bound is far below what a release build on an idle machine does.
#[test]
fn a_long_batch_is_fast() {
    let count: u32 = std::env::var(ROUTES).ok().and_then(|count| count.parse().ok()).unwrap_or(20_000);
    let router = Router::start();
    router.ok("face create udp4://127.0.0.1:9");
    let lines: String = (0..count).map(|i| format!("route add /b/site{i}/app udp4://127.0.0.1:9 cost 5\n")).collect();
    let start = Instant::now();
    let done = batch(&router, "", &lines);
    let took = start.elapsed().as_secs_f64();
    println!("{count} routes in {took:.2} s: {:.0} commands/s", f64::from(count) / took);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(done.stdout.lines().count(), count as usize);
    assert_eq!(prefixes(&router).len(), count as usize);
    assert!(f64::from(count) / took > 2_000.0, "{took} s");
}
