//! What the configuration file made, and what is stale, stays that in the next process.

use std::time::{Duration, Instant};

use super::common::Router;

/// The configuration of a router without its faces and routes, and with these.
fn write(router: &Router, more: &str) {
    let path = router.path("byname.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    let base = text.split("# Own").next().expect("there is a first part");
    std::fs::write(path, format!("{base}# Own\n{more}")).expect("written");
}

fn face(port: u16) -> String {
    format!("[[face]]\nremote = \"udp4://127.0.0.1:{port}\"\n")
}

fn route(prefix: &str, port: u16, cost: u64) -> String {
    format!("[[route]]\nprefix = \"{prefix}\"\nface = \"udp4://127.0.0.1:{port}\"\ncost = {cost}\n")
}

/// Prefixes and costs of the test's routes.
fn routes(router: &Router) -> Vec<(String, u64)> {
    let list = router.json("route list");
    let shown = list.as_array().expect("a list").iter();
    let of_test = shown.filter(|route| route["prefix"].as_str().is_some_and(|prefix| prefix.starts_with("/c/")));
    let mut all: Vec<(String, u64)> = of_test
        .map(|route| (route["prefix"].as_str().unwrap_or_default().to_owned(), route["cost"].as_u64().unwrap_or(99)))
        .collect();
    all.sort();
    all
}

fn expect(router: &Router, expected: &[(&str, u64)]) {
    let expected: Vec<(String, u64)> = expected.iter().map(|(prefix, cost)| ((*prefix).to_owned(), *cost)).collect();
    assert_eq!(routes(router), expected, "{}", router.log());
}

fn has_face(router: &Router, port: u16) -> bool {
    router.ok("face list").contains(&format!("remote=udp4://127.0.0.1:{port} "))
}

#[test]
fn what_the_file_no_longer_has_is_gone_after_a_restart() {
    let mut router = Router::start_with(&format!(
        "# Own\n{}{}{}{}{}",
        face(9),
        face(10),
        route("/c/stays", 9, 1),
        route("/c/goes", 9, 2),
        route("/c/elsewhere", 10, 3)
    ));
    router.ok("route add /c/command udp4://127.0.0.1:9 --cost 4");
    router.ok("route add /c/goes udp4://127.0.0.1:9 --cost 5 --origin client");
    write(&router, &format!("{}{}{}", face(9), route("/c/stays", 9, 7), route("/c/new", 9, 8)));
    router.hand_over();
    expect(&router, &[("/c/command", 4), ("/c/goes", 5), ("/c/new", 8), ("/c/stays", 7)]);
    assert!(has_face(&router, 9) && !has_face(&router, 10));
    // The new process knows which face is the file's, so a reload may close it, unless a command's route leads to it.
    router.ok("route remove /c/goes udp4://127.0.0.1:9 --origin client");
    write(&router, &format!("{}{}", face(9), face(11)));
    router.ok("reload");
    expect(&router, &[("/c/command", 4)]);
    router.ok("route remove /c/command udp4://127.0.0.1:9");
    write(&router, &face(11));
    router.ok("reload");
    expect(&router, &[]);
    assert!(!has_face(&router, 9) && has_face(&router, 11));
}

#[test]
fn routes_of_the_file_stay_out_of_the_store() {
    let own = format!("{}{}", face(9), route("/c/file", 9, 1));
    let mut router = Router::start_with(&format!("# Own\n{own}"));
    router.ok("route add /c/command udp4://127.0.0.1:9 --cost 4");
    router.hand_over();
    router.hand_over();
    expect(&router, &[("/c/command", 4), ("/c/file", 1)]);
    write(&router, &face(9));
    let router = router.restart("-KILL");
    expect(&router, &[("/c/command", 4)]);
}

#[test]
fn stale_routes_stay_stale_and_go_at_their_time() {
    let router = Router::start_with("[state]\nstale_for = \"2 s\"\n");
    router.ok("route add /c/stale udp4://127.0.0.1:9 --origin nlsr --cost 1");
    router.ok("route add /c/kept udp4://127.0.0.1:9 --cost 2");
    let mut router = router.restart("-KILL");
    let began = Instant::now();
    router.hand_over();
    let list = router.json("route list");
    let left: Vec<_> = list.as_array().expect("a list").iter().filter(|route| route["prefix"] == "/c/stale").collect();
    // On a slow machine its time may be over.
    assert!(left.iter().all(|route| route["stale"] == true), "{list}");
    assert!(!left.is_empty() || began.elapsed() > Duration::from_millis(1_900), "{list}");
    let deadline = Instant::now() + Duration::from_secs(10);
    while routes(&router).len() > 1 {
        assert!(Instant::now() < deadline, "{}", router.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    expect(&router, &[("/c/kept", 2)]);
}
