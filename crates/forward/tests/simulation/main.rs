//! Whole forwarders in virtual time: workers joined by links that lose, delay, duplicate and corrupt packets, with
//! consumers and producers at the edge.
//!
//! `ledger` checks every packet that enters or leaves a worker. Data and Nacks go only where an Interest waits. Every
//! Interest is answered, refused or outlives its lifetime. Counters are right, limits hold, and the PIT is empty in the
//! end. `model` compares one worker with a forwarder made of lists. `shards` compares several workers behind a
//! dispatcher with a single one. `exchange` compares a worker whose tables are exchanged with one that keeps its own.
//! `threads` lets such workers run at different speeds with very popular names.

mod apps;
mod bursts;
mod exchange;
mod ledger;
mod model;
mod network;
mod shards;
mod threads;

use std::time::Duration;

use apps::{Flooder, consumer, producer};
use byname_embed::{AppId, Consumer, Faults, NodeId, Producer};
use byname_forward::worker::{CsPolicy, WorkerConfig};
use byname_wire::{NackReason, Name};
use network::Network;
use rand::RngExt;

fn names(prefix: &str, range: std::ops::Range<usize>) -> impl Iterator<Item = Name> {
    range.map(move |i| format!("{prefix}/item/{i}").parse().expect("a name"))
}

fn small() -> WorkerConfig {
    WorkerConfig { pit_entries_max: 512, cs_packets_max: 64, ..Default::default() }
}

#[test]
fn a_line_of_three_delivers_each_item_once() {
    let mut net = Network::new(1);
    let routers: Vec<_> = (0..3).map(|_| net.router(WorkerConfig::default())).collect();
    for pair in routers.windows(2) {
        let (up, _) = net.link(pair[0], pair[1], Faults::NONE);
        net.route(pair[0], "/p", &[up]);
    }
    let (server, face) = net.attach(routers[2], producer().freshness(Duration::from_secs(1)));
    net.route(routers[2], "/p", &[face]);
    let (consumer, _) = net.attach(routers[0], consumer(names("/p", 0..500), 2));
    net.settle();
    let fetched = net.app::<Consumer>(consumer).fetched();
    assert_eq!((fetched.names, fetched.interests, fetched.timeouts), (500, 500, 0));
    assert_eq!(net.app::<Producer>(server).interests(), 500);
}

/// Two lossy paths from left to right, and consumers on the left that ask for overlapping names.
fn diamond(
    seed: u64,
    faults: Faults,
    strategy: &str,
    config: &WorkerConfig,
    tries_max: usize,
) -> (Network, Vec<AppId>) {
    let mut net = Network::new(seed);
    let [left, up, down, right] = std::array::from_fn(|_| net.router(config.clone()));
    for (i, middle) in [up, down].into_iter().enumerate() {
        let (to_middle, _) = net.link(left, middle, faults);
        let (to_right, _) = net.link(middle, right, faults);
        net.route(middle, "/p", &[to_right]);
        net.route(left, ["/p/item", "/p"][i], &[to_middle]);
    }
    // All items have both paths; the upper one is cheaper.
    let (to_up, to_down) = (byname_forward::FaceId(256), byname_forward::FaceId(257));
    net.route(left, "/p/item", &[to_up, to_down]);
    let (_, face) = net.attach(right, producer().freshness(Duration::from_millis(100)));
    net.route(right, "/p", &[face]);
    for node in [left, up, down, right] {
        net.strategy(node, "/", strategy);
    }
    let consumers = (0..3u64)
        .map(|i| {
            let from = 100 * i as usize;
            let wishes = consumer(names("/p", from..from + 200), seed ^ i).tries_max(tries_max);
            net.attach(left, if i == 2 { wishes.can_be_prefix() } else { wishes }).0
        })
        .collect();
    (net, consumers)
}

#[test]
fn lossy_links_delay_consumers_but_cheat_none() {
    let faults = Faults {
        loss: 0.1,
        duplicates: 0.1,
        delay: Duration::from_millis(3),
        jitter: Duration::from_millis(20),
        ..Faults::NONE
    };
    for seed in 0..8 {
        for strategy in ["best-route", "multicast", "asf", "access", "random"] {
            let (mut net, consumers) = diamond(seed, faults, strategy, &small(), usize::MAX);
            net.run_for(Duration::from_secs(600));
            for &consumer in &consumers {
                let fetched = net.app::<Consumer>(consumer).fetched();
                assert_eq!(fetched.names, 200, "seed {seed}, {strategy}: {} sent", fetched.interests);
            }
            net.settle();
        }
    }
}

#[test]
fn corrupted_packets_break_no_rule() {
    let faults = Faults {
        loss: 0.02,
        duplicates: 0.05,
        corruption: 0.2,
        delay: Duration::from_millis(2),
        jitter: Duration::from_millis(10),
    };
    for seed in 0..10 {
        for cs_policy in [CsPolicy::Lru, CsPolicy::S3Fifo] {
            let config = WorkerConfig { cs_policy, ..small() };
            let (mut net, consumers) = diamond(seed, faults, "best-route", &config, 5);
            net.run_for(Duration::from_secs(60));
            let fetched: usize = consumers.iter().map(|&c| net.app::<Consumer>(c).fetched().names).sum();
            // Content stores may hold corrupted Data. Consumers give such names up.
            assert!(fetched > 200, "seed {seed}: {fetched}");
            net.settle();
        }
    }
}

#[test]
fn interests_that_go_round_in_circles_die() {
    for (strategy, ways_each) in [("best-route", 1), ("multicast", 4)] {
        let mut net = Network::new(5);
        let nodes: Vec<_> = (0..5).map(|_| net.router(small())).collect();
        let mut faces = vec![Vec::new(); 5];
        for i in 0..5 {
            for j in i + 1..5 {
                let (a, b) = net.link(nodes[i], nodes[j], Faults::NONE);
                faces[i].push(a);
                faces[j].push(b);
            }
        }
        for (i, &node) in nodes.iter().enumerate() {
            // Best route sends all Interests around one circle: its only face leads to the next node.
            let next = if i == 4 { faces[i][0] } else { faces[i][i] };
            let ways = if ways_each == 1 { vec![next] } else { faces[i].clone() };
            net.route(node, "/p", &ways);
            net.strategy(node, "/", strategy);
        }
        let (consumer, _) = net.attach(nodes[0], consumer(names("/p", 0..20), 6).lifetime(Duration::from_millis(300)));
        net.run_for(Duration::from_secs(5));
        net.app_mut::<Consumer>(consumer).stop();
        net.settle();
        let fetched = net.app::<Consumer>(consumer).fetched().clone();
        assert_eq!(fetched.names, 0);
        let sent: u64 = nodes.iter().map(|&n| net.ledger(n).interests_out()).sum();
        // Each node sends each Interest at most once along each path.
        let most = 5 * ways_each * fetched.interests as u64;
        assert!(sent <= most, "{strategy}: {sent} sent for {}", fetched.interests);
        assert!(sent >= 5 * 20, "{strategy}: they did go round");
    }
}

#[test]
fn on_a_shared_medium_nobody_repeats_what_all_have_heard() {
    for (seed, loss) in [(1, 0.0), (2, 0.1), (3, 0.1)] {
        let mut net = Network::new(seed);
        let nodes: [NodeId; 4] = std::array::from_fn(|_| net.router(small()));
        let faces = net.medium(&nodes, Faults { loss, jitter: Duration::from_millis(3), ..Faults::NONE });
        for (&node, &face) in nodes.iter().zip(&faces) {
            net.route(node, "/", &[face]);
            net.strategy(node, "/", "multicast");
        }
        let (_, face) = net.attach(nodes[3], producer());
        net.route(nodes[3], "/p", &[face]);
        let consumers: Vec<_> =
            (0..2).map(|i| net.attach(nodes[i], consumer(names("/p", 0..100), seed + i as u64)).0).collect();
        net.run_for(Duration::from_secs(200));
        for &consumer in &consumers {
            assert_eq!(net.app::<Consumer>(consumer).fetched().names, 100, "seed {seed}");
        }
        // A bystander hears every Interest and sends none: its only nexthop is their ingress.
        assert_eq!(net.ledger(nodes[2]).interests_out(), 0);
        net.settle();
    }
}

#[test]
fn without_a_producer_consumers_hear_nacks() {
    let mut net = Network::new(7);
    let [near, far] = std::array::from_fn(|_| net.router(small()));
    let (up, _) = net.link(near, far, Faults::NONE);
    net.route(near, "/", &[up]);
    let (consumer, _) = net.attach(near, consumer(names("/p", 0..50), 8));
    net.run_for(Duration::from_secs(2));
    let no_route = NackReason::NoRoute.number();
    assert!(net.app::<Consumer>(consumer).fetched().nacks[&no_route] >= 8);
    // One producer refuses, then another answers.
    let (refusing, face) = net.attach(far, producer().refusing(NackReason::Congestion));
    net.route(far, "/p", &[face]);
    net.run_for(Duration::from_secs(2));
    assert!(net.app::<Producer>(refusing).interests() > 0);
    assert!(net.app::<Consumer>(consumer).fetched().nacks[&NackReason::Congestion.number()] > 0);
    let (_, face) = net.attach(far, producer());
    net.route(far, "/p", &[face]);
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.app::<Consumer>(consumer).fetched().names, 50);
    net.settle();
}

#[test]
fn a_flood_of_distinct_names_fills_no_more_than_its_share() {
    let mut net = Network::new(9);
    let [near, far] = std::array::from_fn(|_| net.router(small()));
    let (up, _) = net.link(near, far, Faults::NONE);
    net.route(near, "/", &[up]);
    let (_, face) = net.attach(far, producer());
    net.route(far, "/p", &[face]);
    // The flood gets no answers, so its Interests stay until their lifetimes end.
    let (hole, face) = net.attach(far, Flooder { prefix: String::new(), names_per_ms: 0, left: 0 });
    net.route(far, "/flood", &[face]);
    net.attach(near, Flooder { prefix: "/flood".into(), names_per_ms: 20, left: 30_000 });
    let (polite, _) = net.attach(near, consumer(names("/p", 0..100), 10));
    net.run_for(Duration::from_secs(30));
    let fetched = net.app::<Consumer>(polite).fetched();
    assert_eq!((fetched.names, fetched.timeouts), (100, 0), "the flood does not hurt who asks little");
    let counters = net.forwarder(near).counters();
    let dropped = counters.drops.iter().find(|(reason, _)| *reason == "pit-full").expect("a reason").1;
    assert!(dropped > 20_000, "{dropped}");
    net.app_mut::<Flooder>(hole).left = 0;
    net.settle();
}

#[test]
fn routes_and_faces_change_under_traffic() {
    for seed in 0..5 {
        let faults = Faults { loss: 0.02, jitter: Duration::from_millis(4), ..Faults::NONE };
        let mut net = Network::new(seed);
        let [left, up, down, right] = std::array::from_fn(|_| net.router(small()));
        let (to_up, _) = net.link(left, up, faults);
        let (to_down, _) = net.link(left, down, faults);
        let (up_right, _) = net.link(up, right, faults);
        let (down_right, _) = net.link(down, right, faults);
        net.route(up, "/p", &[up_right]);
        net.route(down, "/p", &[down_right]);
        let (_, face) = net.attach(right, producer());
        net.route(right, "/", &[face]);
        net.route(left, "/", &[to_up]);
        let (consumer, _) = net.attach(left, consumer(names("/p", 0..2000), seed));
        for round in 0..40 {
            net.run_for(Duration::from_millis(50));
            let ways = if net.random().random_bool(0.5) { [to_up, to_down] } else { [to_down, to_up] };
            let prefix = ["/p", "/p/item", "/p/item/7", "/p/item/1999"][net.random().random_range(0..4)];
            let few = net.random().random_range(0..3);
            let ways: Vec<_> = ways[..few].iter().copied().filter(|way| net.forwarder(left).has_face(*way)).collect();
            net.route(left, prefix, &ways);
            if round == 20 {
                net.forwarder(left).remove_face(to_up);
                net.route(left, "/", &[to_down]);
            }
        }
        for prefix in ["/p", "/p/item", "/p/item/7", "/p/item/1999"] {
            net.route(left, prefix, &[]);
        }
        net.run_for(Duration::from_secs(120));
        assert_eq!(net.app::<Consumer>(consumer).fetched().names, 2000, "seed {seed}");
        net.settle();
    }
}

/// Routers in a ring with a chord, which learn all routes. The producer is opposite the consumers.
fn learning_ring(seed: u64, faults: Faults) -> (Network, [NodeId; 6], Vec<AppId>) {
    let mut net = Network::new(seed);
    let nodes: [NodeId; 6] = std::array::from_fn(|_| net.router(small()));
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)] {
        net.link(nodes[a], nodes[b], faults);
    }
    for node in nodes {
        net.strategy(node, "/", "self-learning");
    }
    let (_, face) = net.attach(nodes[3], producer().freshness(Duration::from_millis(100)));
    net.route(nodes[3], "/p", &[face]);
    net.announce(nodes[3], "/p");
    let consumers = [0, 5]
        .map(|at| net.attach(nodes[at], consumer(names("/p", 300 * at..300 * at + 200), seed ^ at as u64)).0)
        .into();
    (net, nodes, consumers)
}

#[test]
fn routers_learn_where_a_producer_is_and_flood_no_more() {
    let (mut net, nodes, consumers) = learning_ring(11, Faults::NONE);
    net.settle();
    for consumer in consumers {
        let fetched = net.app::<Consumer>(consumer).fetched();
        assert_eq!((fetched.names, fetched.timeouts), (200, 0));
    }
    let sent: u64 = nodes.iter().map(|&node| net.ledger(node).interests_out()).sum();
    // Each name takes three or four hops, including the one to the producer. The first few names were flooded.
    assert!((1200..1800).contains(&sent), "{sent} Interests for 400 names");
}

#[test]
fn learning_over_lossy_links_cheats_no_consumer() {
    for seed in 0..6 {
        let faults = Faults { loss: 0.05, duplicates: 0.05, jitter: Duration::from_millis(10), ..Faults::NONE };
        let (mut net, nodes, consumers) = learning_ring(seed, faults);
        net.run_for(Duration::from_millis(300));
        // The routers must find out that this route leads nowhere.
        net.route(nodes[2], "/p", &[]);
        net.run_for(Duration::from_secs(600));
        for consumer in consumers {
            assert_eq!(net.app::<Consumer>(consumer).fetched().names, 200, "seed {seed}");
        }
        net.settle();
    }
}
