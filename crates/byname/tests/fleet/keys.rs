//! Tags and rules of routing as keys of a fleet.

use super::*;

/// Whether a message with these tags, sent at one router, is heard at another one.
fn arrives(at: &Router, from: &Router, tags: &str) -> bool {
    let mut listener = at
        .command(&format!("tags listen {tags} --count 1 --for 3000"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start byname");
    // It needs a moment to advertise. A message that comes before is lost, so there are several.
    for _ in 0..25 {
        std::thread::sleep(Duration::from_millis(100));
        let mut sender = from.command(&format!("tags send {tags} more"));
        let mut sender = sender.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("start byname");
        // A sender that fails says so by its code.
        let _ = std::io::Write::write_all(&mut sender.stdin.take().expect("piped"), b"hello");
        assert!(sender.wait().expect("an end").success());
        if listener.try_wait().expect("a process").is_some() {
            break;
        }
    }
    let output = listener.wait_with_output().expect("an end");
    output.stdout == b"hello"
}

#[test]
fn tags_lead_to_the_links_of_a_group() {
    let Some(mut fleet) = Fleet::start() else { return };
    let tags = |etcd: &Etcd, node: &str| etcd.node(node).and_then(|node| node["tags"].as_u64());
    let said = fleet.etcd.fleet("tag add to-2 concert classical");
    assert!(said.contains("3 of 3 live nodes have it"), "{said}");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(NAMES.map(|name| tags(&fleet.etcd, name)), [Some(2), Some(0), Some(1)]);
    let [one, two, three] = &fleet.routers[..] else { panic!("three routers") };
    assert!(arrives(two, one, "classical concert") && arrives(two, three, "concert classical"));
    assert!(arrives(three, one, "classical concert"), "r1 has two links");
    assert!(!arrives(two, one, "classical"), "a packet needs all tags");
    // What the fleet prints can be loaded again.
    let shown = fleet.etcd.fleet("show");
    assert!(shown.ends_with("tag add to-2 classical concert\n"), "{shown}");
    fleet.etcd.load(&shown);
    assert_eq!(fleet.etcd.fleet("show"), shown);

    // Another group.
    fleet.etcd.fleet("tag add to-3 classical concert");
    fleet.etcd.wait_current(&NAMES);
    assert_eq!(NAMES.map(|name| tags(&fleet.etcd, name)), [Some(1), Some(0), Some(0)]);
    let [one, two, three] = &fleet.routers[..] else { panic!("three routers") };
    assert!(arrives(three, one, "classical concert") && !arrives(two, one, "classical concert"));

    // The router restarts. Its agent tells it the tags again, or the router would withdraw what it remembers.
    let router = fleet.routers.remove(0).restart("-TERM");
    fleet.routers.insert(0, router);
    fleet.etcd.wait_current(&NAMES);
    assert!(arrives(&fleet.routers[2], &fleet.routers[0], "classical concert"), "{}", fleet.agents[0].log());

    // An agent that was away takes back what is not wanted any more.
    fleet.agents[0].kill();
    fleet.etcd.fleet("--patience 1 tag remove concert classical");
    assert!(arrives(&fleet.routers[2], &fleet.routers[0], "classical concert"), "its router goes on");
    fleet.agents[0] = Agent::start(&fleet.etcd, &fleet.routers[0], "r1");
    wait_until("the agent has the intent", || tags(&fleet.etcd, "r1") == Some(0));
    fleet.etcd.wait_current(&NAMES);
    assert!(!arrives(&fleet.routers[2], &fleet.routers[0], "classical concert"));

    for (line, code, part) in [
        ("tag add no-such a", 6, "no node has a group no-such"),
        ("tag remove a", 6, "the intent does not have this"),
        (&format!("tag add to-3 {}", "x".repeat(256)), 2, "a tag has 1 to 255 bytes, not 256"),
    ] {
        let done = fleet.etcd.try_fleet(line);
        assert!(done.code == code && done.stderr.contains(part), "{line}: {} {}", done.code, done.stderr);
    }
}

#[test]
fn rules_of_routing_come_after_those_of_the_router() {
    let Some(etcd) = Etcd::start() else { return };
    let routing = |name: &str, more: &str| {
        format!(
            "[routing]\nnetwork = \"/net\"\nname = \"/net/{name}\"\nmulticast = false\ninsecure = true\n\
             hold_down = \"100 ms\"\n{more}\n[fleet]\ntables = \"tables/fleet.toml\"\n"
        )
    };
    let far = Router::start_with(&routing("b", ""));
    let link = format!("[[routing.neighbor]]\nface = \"udp4://127.0.0.1:{}\"\n", far.port);
    let near = Router::start_with(&routing("a", &format!("policy = [\"accept permit prefix /own\"]\n{link}")));
    let settings = near.path("tables/fleet.toml");
    let text = settings.display().to_string();
    let with_settings = || Agent::start_with(&etcd, &near, "r1", &["--tables", &text]);
    let mut agent = with_settings();
    etcd.fleet("link add r1 far udp4://127.0.0.1:9");
    etcd.wait_current(&["r1"]);

    let has_route = |prefix: &str| near.run(&format!("route show {prefix}")).code == 0;
    let servers = ["/own", "/video"]
        .map(|name| far.serve(&format!("ping-server --announce {name}"), &format!("{name}/ping"), b""));
    wait_until("both prefixes are known", || has_route("/own/ping") && has_route("/video/ping"));

    // Refused by the writer, with its words.
    let deny = etcd.file("policy set 'accept deny all'\n");
    let done = etcd.try_fleet(&format!("load {}", deny.display()));
    assert!(done.code == 2 && done.stderr.contains("needs prefix, exactly, origin or neighbour"), "{}", done.stderr);

    // Those of all nodes, which the router's own rules come before.
    let said = etcd.load("policy set 'accept  deny'\n");
    assert!(said.contains("1 of 1 live nodes have it"), "{said}");
    wait_until("it is denied", || !has_route("/video/ping"));
    assert!(has_route("/own/ping"), "the router's own rule comes first");
    // Those of the node come before those of all nodes.
    etcd.load("policy set 'accept permit prefix /video' 'announce deny prefix /private' --node r1\n");
    wait_until("it is permitted", || has_route("/video/ping"));
    let shown = etcd.fleet("show");
    assert!(
        shown.ends_with(
            "policy set 'accept permit prefix /video' 'announce deny prefix /private' --node r1\npolicy set 'accept deny'\n"
        ),
        "{shown}"
    );
    etcd.load(&shown);
    assert_eq!(etcd.fleet("show"), shown);

    // Without the agent, the router has its rules by its settings. Afterwards, they go.
    agent.kill();
    etcd.fleet("--patience 1 policy remove --node r1");
    assert!(has_route("/video/ping"));
    let mut agent = with_settings();
    wait_until("it is denied again", || !has_route("/video/ping"));
    etcd.fleet("policy remove");
    etcd.wait_current(&["r1"]);
    wait_until("no rule is left", || has_route("/video/ping"));
    let left = std::fs::read_to_string(&settings).expect("settings");
    assert!(!left.contains("policy"), "{left}");

    // An agent that writes no settings says so.
    agent.kill();
    let _agent = Agent::start(&etcd, &near, "r1");
    etcd.load("policy set 'announce deny prefix /x'\n");
    let failure = || etcd.node("r1").and_then(|node| node["failure"].as_str().map(str::to_owned));
    wait_until("it says so", || failure().is_some_and(|why| why.contains("start the agent with --tables")));
    drop(servers);
}
