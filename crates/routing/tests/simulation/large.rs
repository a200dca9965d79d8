//! Many routers and many prefixes. CI runs small networks. The environment variable `BYNAME_TEST_ROUTING_LONG` is a number
//! of routers, at most 1000, for large ones: one router then has a hundred times as many prefixes. Each test prints a
//! record as a line of JSON.

use std::time::{Duration, Instant};

use byname_routing::explain::WayUse;
use byname_routing::{Action, Command, Config, Event, Policy, Router};
use byname_wire::{FaceId, Name};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::checks::{check_routes, next_link};
use crate::net::{Net, Node, SECOND, face};

/// Number of routers in the long version.
fn long() -> Option<usize> {
    let number = std::env::var("BYNAME_TEST_ROUTING_LONG").ok()?;
    Some(number.parse().expect("BYNAME_TEST_ROUTING_LONG is a number of routers"))
}

/// Memory of this process that is resident, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A connected random graph in which every node has about `degree` links.
fn random_graph(nodes: usize, degree: usize, seed: u64, configure: impl Fn(&mut Config) + 'static) -> Net {
    let mut random = StdRng::seed_from_u64(seed);
    let mut net = Net::new(nodes, seed, configure);
    for node in 1..nodes {
        net.connect(node, random.random_range(0..node), true);
    }
    for _ in nodes - 1..nodes * degree / 2 {
        let (a, b) = (random.random_range(0..nodes), random.random_range(0..nodes));
        if a != b {
            net.connect(a, b, true);
        }
    }
    net
}

/// Lets time pass until all of these nodes have a route for a prefix, or have none. Returns how long it took.
fn run_until(net: &mut Net, prefix: &str, has_route: bool, longest_ms: u64) -> u64 {
    let from_ms = net.now_ms;
    let prefix: Name = prefix.parse().unwrap();
    let is_done = |net: &Net| {
        let others = net.nodes.iter().filter(|node| node.is_running && !node.served.contains(&prefix));
        others.clone().all(|node| node.fib.contains_key(&prefix) == has_route)
    };
    while !is_done(net) {
        assert!(net.now_ms - from_ms < longest_ms, "{prefix} takes too long");
        net.run(10);
    }
    net.now_ms - from_ms
}

/// Lets time pass. Returns how long after now the last route of any node changed, in ms.
fn settling_ms(net: &mut Net, for_ms: u64) -> u64 {
    let from_ms = net.now_ms;
    net.run(for_ms);
    net.routes_changed_ms.saturating_sub(from_ms)
}

#[test]
fn many_routers_converge() {
    let nodes = long().unwrap_or(40);
    let before = resident_bytes();
    let mut net = random_graph(nodes, 6, 3, |config: &mut Config| {
        // Hellos of so many links would be most of the work.
        config.hello.interval = Duration::from_secs(if long().is_some() { 5 } else { 1 });
        config.hello.slow_interval = config.hello.interval;
        config.damping.enabled = false;
    });
    net.announce(0, "/first");
    let began = Instant::now();
    let start_ms = run_until(&mut net, "/first", true, 600 * SECOND);
    let all_ms = settling_ms(&mut net, 60 * SECOND) + start_ms;
    let start_packets = net.packets;
    let knows_all = |node: &Node| node.router.status().routers.iter().filter(|r| r.cost.is_some()).count() == nodes - 1;
    assert!(net.nodes.iter().all(knows_all));
    let bytes = resident_bytes().saturating_sub(before);

    net.announce(nodes - 1, "/new");
    let announced_ms = run_until(&mut net, "/new", true, 120 * SECOND);
    net.withdraw(nodes - 1, "/new");
    let withdrawn_ms = run_until(&mut net, "/new", false, 120 * SECOND);

    // A link is cut, and both ends see it.
    let link = net.nodes[1].fib[&"/first".parse::<Name>().unwrap()].iter().min_by_key(|(face, cost)| (**cost, **face));
    let out = link.and_then(|(face, _)| *face).unwrap();
    let (peer, number) = (net.nodes[1].peer(out).unwrap(), out.0 as usize - face(0).0 as usize);
    let packets = net.packets;
    net.set_up(number, false);
    for end in [1, peer] {
        net.tell(end, Event::FaceDown { face: out });
    }
    let cut_ms = settling_ms(&mut net, 20 * SECOND);
    let cut_packets = net.packets - packets;
    check_routes(&net);
    assert!(net.nodes.iter().all(knows_all));
    net.set_up(number, true);
    for end in [1, peer] {
        net.tell(end, Event::FaceUp { face: out });
    }
    net.run(60 * SECOND);
    check_routes(&net);

    // The routing of a router with many links starts anew. Its forwarder goes on, and no route is lost meanwhile.
    let packets = net.packets;
    net.kill(1);
    net.run(500);
    net.start(1);
    let restart_ms = settling_ms(&mut net, 30 * SECOND);
    let restart_packets = net.packets - packets;
    assert!(net.nodes.iter().all(knows_all));
    check_routes(&net);

    // It dies.
    let packets = net.packets;
    net.kill(1);
    let death_ms = settling_ms(&mut net, 60 * SECOND);
    let death_packets = net.packets - packets;
    check_routes(&net);
    let is_known = |node: &Node| {
        node.is_running
            && node.router.status().routers.iter().any(|r| r.router == crate::net::router_name(1) && r.cost.is_some())
    };
    assert!(!net.nodes.iter().any(is_known));
    if long().is_some() {
        let record = serde_json::json!({
            "experiment": "routing-routers", "routers": nodes, "links": net.links.len(), "virtual_time": true,
            "start_ms": start_ms, "all_routes_ms": all_ms, "announced_ms": announced_ms, "withdrawn_ms": withdrawn_ms,
            "cut_ms": cut_ms, "restart_ms": restart_ms, "death_ms": death_ms,
            "start_packets_per_router": start_packets / nodes as u64, "cut_packets": cut_packets,
            "restart_packets": restart_packets, "death_packets": death_packets,
            "memory_bytes": bytes, "memory_bytes_per_router": bytes / nodes as u64,
            "wall_s": began.elapsed().as_secs(),
        });
        println!("{record}");
    }
}

#[test]
fn many_prefixes_of_one_router() {
    let prefixes = long().map_or(2_000, |routers| routers * 100);
    let mut net = Net::new(3, 5, |_: &mut Config| {});
    net.connect(0, 1, true);
    net.connect(1, 2, true);
    net.run(5 * SECOND);
    let before = resident_bytes();
    for i in 0..prefixes {
        net.announce(0, &format!("/example/of/an/application/{i}"));
    }
    let last = format!("/example/of/an/application/{}", prefixes - 1);
    let first_ms = run_until(&mut net, &last, true, 120 * SECOND);
    net.run(30 * SECOND);
    for node in 1..3 {
        assert_eq!(net.nodes[node].router.status().fib_entries, prefixes + 2, "{node}");
    }
    let bytes = resident_bytes().saturating_sub(before);
    // A router that starts later fetches a snapshot.
    net.kill(2);
    net.nodes[2].fib.clear();
    net.run(60 * SECOND);
    net.start(2);
    let late_ms = run_until(&mut net, &last, true, 120 * SECOND);
    net.run(5 * SECOND);
    let status = net.nodes[2].router.status();
    assert_eq!(status.fib_entries, prefixes + 2);
    assert!(status.counters.snapshots_in >= 1);
    // The way to all of them changes at once.
    net.set_up(0, false);
    let gone_ms = run_until(&mut net, &last, false, 60 * SECOND);
    net.run(10 * SECOND);
    assert_eq!(net.nodes[2].router.status().fib_entries, 1);
    if long().is_some() {
        let record = serde_json::json!({
            "experiment": "routing-prefixes", "virtual_time": true, "prefixes": prefixes, "announced_ms": first_ms, "late_ms": late_ms,
            "gone_ms": gone_ms, "memory_bytes_of_3_routers_and_forwarders": bytes,
        });
        println!("{record}");
    }
}

/// All actions that wait.
fn drain(router: &mut Router) -> Vec<Action> {
    std::iter::from_fn(|| router.next_action()).collect()
}

#[test]
fn a_dead_link_is_one_action_however_many_prefixes_there_are() {
    let prefixes = long().map_or(20_000, |routers| routers * 100);
    // A ring: from 1, the other way to 0 is an alternative.
    let mut net = Net::new(3, 5, |_: &mut Config| {});
    for node in 0..3 {
        net.connect(node, (node + 1) % 3, true);
    }
    net.run(5 * SECOND);
    for i in 0..prefixes {
        let prefix = format!("/app/{i}").parse().unwrap();
        net.tell(0, Event::Announced { prefix, face: FaceId(500), cost: 0 });
    }
    net.run(20 * SECOND);
    let moment = net.moment();
    let router = &mut net.nodes[1].router;
    assert_eq!(router.status().fib_entries, prefixes + 2);
    router.handle(Event::FaceDown { face: face(0) }, moment);
    let first = drain(router);
    assert!(first.contains(&Action::Suspend { face: face(0) }));
    let is_route = |action: &Action| matches!(action, Action::Register { .. } | Action::Unregister { .. });
    assert!(!first.iter().any(is_route) && first.len() < 10, "{}", first.len());
    // The routes follow, and no call takes long.
    let mut changes = 0;
    while !router.is_settled() {
        router.poll(moment);
        changes += drain(router).into_iter().filter(is_route).count();
    }
    // The other way was there before, so each prefix only loses a route.
    assert!((prefixes..prefixes + 10).contains(&changes), "{changes}");
}

#[test]
fn other_rules_take_effect_at_once() {
    let mut net = random_graph(6, 3, 9, |_: &mut Config| {});
    net.announce(0, "/a/private");
    net.announce(0, "/a/public");
    net.run(8 * SECOND);
    check_routes(&net);
    let rules = ["announce deny prefix /a/private"];
    net.tell(0, Event::Command(Command::SetPolicy(Policy::parse(rules).unwrap())));
    let refuse = ["accept deny prefix /a/public origin /net/r0000"];
    net.tell(5, Event::Command(Command::SetPolicy(Policy::parse(refuse).unwrap())));
    net.run(3 * SECOND);
    for node in 1..6 {
        assert_eq!(next_link(&net, node, "/a/private"), None, "{node}");
        assert_eq!(next_link(&net, node, "/a/public").is_some(), node != 5, "{node}");
    }
    let explanation = net.nodes[5].router.explain("/a/public/x".parse::<Name>().unwrap().as_ref());
    assert_eq!(explanation.prefix, Some("/a/public".parse().unwrap()));
    assert!(!explanation.exits[0].is_accepted);
    assert_eq!(explanation.exits[0].rule.as_ref().unwrap().to_string(), refuse[0]);
    net.tell(0, Event::Command(Command::SetPolicy(Policy::default())));
    net.tell(5, Event::Command(Command::SetPolicy(Policy::default())));
    net.run(3 * SECOND);
    check_routes(&net);
}

#[test]
fn rules_choose_between_neighbours() {
    // A ring: from 2, both 1 and 3 lead to 0.
    let mut net = Net::new(4, 3, |_: &mut Config| {});
    for node in 0..4 {
        net.connect(node, (node + 1) % 4, true);
    }
    net.announce(0, "/a");
    net.announce(0, "/b");
    net.run(5 * SECOND);
    let explain = |net: &Net, name: &str| net.nodes[2].router.explain(name.parse::<Name>().unwrap().as_ref());
    let uses = |net: &Net, name: &str| explain(net, name).ways.iter().map(|way| way.used).collect::<Vec<_>>();
    assert_eq!(uses(&net, "/a"), [WayUse::Best, WayUse::Best]);

    let rule = "accept deny prefix /a neighbour /net/r0001";
    net.tell(2, Event::Command(Command::SetPolicy(Policy::parse([rule]).unwrap())));
    net.run(SECOND);
    assert_eq!(next_link(&net, 2, "/a"), Some(2));
    assert_eq!(net.nodes[2].fib[&"/a".parse::<Name>().unwrap()].len(), 1);
    assert_eq!(net.nodes[2].fib[&"/b".parse::<Name>().unwrap()].len(), 2);
    let denied = &explain(&net, "/a").ways[0];
    assert_eq!((denied.used, denied.rule.as_ref().unwrap().to_string()), (WayUse::Denied, rule.to_owned()));

    let rule = "prefer cost 5 neighbour /net/r0001";
    net.tell(2, Event::Command(Command::SetPolicy(Policy::parse([rule]).unwrap())));
    net.run(SECOND);
    assert_eq!(uses(&net, "/a"), [WayUse::Best, WayUse::Alternative]);
    assert_eq!(explain(&net, "/a").ways.iter().map(|way| way.cost).collect::<Vec<_>>(), [2, 7]);
    assert_eq!(next_link(&net, 2, "/a"), Some(2));
    // The alternative is there before it is needed.
    net.set_up(2, false);
    net.run(300);
    assert_eq!(next_link(&net, 2, "/a"), Some(1));
    net.run(2 * SECOND);
    check_routes(&net);
}
