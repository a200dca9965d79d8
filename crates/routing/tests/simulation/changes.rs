//! Cuts, partitions, restarts, loss and clocks that jump.

use byname_routing::config::Alternatives;
use byname_routing::note::DownReason;
use byname_routing::{Config, Event, Note};
use byname_wire::Name;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::checks::{check_alternatives, check_routes, next_link};
use crate::net::{Net, SECOND, face};

fn plain(_: &mut Config) {}

/// Without damping: tests cut links more often than operators.
fn undamped(config: &mut Config) {
    config.damping.enabled = false;
}

fn ring(nodes: usize, configure: impl Fn(&mut Config) + 'static) -> Net {
    let mut net = Net::new(nodes, 7, configure);
    for node in 0..nodes {
        net.connect(node, (node + 1) % nodes, true);
    }
    net
}

fn grid(side: usize, configure: impl Fn(&mut Config) + 'static) -> Net {
    let mut net = Net::new(side * side, 11, configure);
    for node in 0..side * side {
        if node % side + 1 < side {
            net.connect(node, node + 1, true);
        }
        if node + side < side * side {
            net.connect(node, node + side, true);
        }
    }
    net
}

fn count(net: &Net, node: usize, is_wanted: impl Fn(&Note) -> bool) -> usize {
    net.nodes[node].notes.iter().filter(|(_, note)| is_wanted(note)).count()
}

#[test]
fn a_line_where_only_one_side_configures_the_other() {
    let mut net = Net::new(4, 1, plain);
    for node in 0..3 {
        net.connect(node, node + 1, false);
    }
    net.announce(0, "/left");
    net.announce(3, "/right");
    net.run(5 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 0, "/right"), Some(0));
    assert_eq!(next_link(&net, 3, "/left"), Some(2));
    net.withdraw(0, "/left");
    net.run(2 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 3, "/left"), None);
    net.announce(0, "/left");
    net.run(2 * SECOND);
    assert_eq!(next_link(&net, 3, "/left"), Some(2));
}

#[test]
fn a_cut_ring_is_healed_at_once() {
    let mut net = ring(6, plain);
    net.announce(0, "/a");
    net.run(5 * SECOND);
    check_routes(&net);
    assert!(net.nodes.iter().all(|node| node.router.status().counters.links_down == 0));
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
    // A file's Interests go from 3, by 2 or 4, to 0.
    net.set_up(0, false);
    net.run(420);
    // The neighbour of the cut has no alternative. It knows already, and uses the other way or none.
    assert_ne!(next_link(&net, 1, "/a"), Some(0));
    net.run(500);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), Some(1));
    let is_hello = |note: &Note| matches!(note, Note::LinkDown { why: DownReason::Hello | DownReason::Told, .. });
    assert_eq!((count(&net, 0, is_hello), count(&net, 1, is_hello)), (1, 1));
    net.set_up(0, true);
    net.run(5 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
}

#[test]
fn alternatives_do_not_lead_back() {
    let mut net = grid(4, plain);
    net.announce(5, "/a");
    net.run(8 * SECOND);
    check_routes(&net);
    assert!(check_alternatives(&net, &"/a".parse().unwrap()) > 0);
    // The corner has two ways of equal cost.
    let routes = &net.nodes[0].fib[&"/a".parse::<Name>().unwrap()];
    assert_eq!(routes.values().collect::<Vec<_>>(), [&2, &2]);
}

#[test]
fn alternatives_of_random_graphs_do_not_lead_back() {
    for seed in 0..6 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut net = Net::new(14, seed, |config| config.hello.enabled = false);
        for node in 1..14 {
            net.connect(node, random.random_range(0..node), true);
        }
        for _ in 0..10 {
            let (a, b) = (random.random_range(0..14), random.random_range(0..14));
            if a != b {
                net.connect(a, b, true);
            }
        }
        // Two exits, at different costs.
        net.announce(0, "/a");
        net.announce(13, "/a");
        net.run(15 * SECOND);
        check_routes(&net);
        check_alternatives(&net, &"/a".parse().unwrap());
    }
}

#[test]
fn settings_choose_the_alternatives() {
    let faces = |alternatives: Alternatives| {
        let mut net = ring(5, move |config: &mut Config| config.alternatives = alternatives);
        net.announce(0, "/a");
        net.run(5 * SECOND);
        check_routes(&net);
        net.nodes[1].fib[&"/a".parse::<Name>().unwrap()].len()
    };
    assert_eq!([Alternatives::None, Alternatives::LoopFree, Alternatives::All].map(faces), [1, 1, 2]);
}

#[test]
fn a_partition_forgets_the_other_side_and_heals() {
    let mut net = grid(4, undamped);
    net.announce(0, "/west");
    net.announce(15, "/east");
    net.run(8 * SECOND);
    check_routes(&net);
    let cut: Vec<usize> = (0..net.links.len())
        .filter(|link| {
            let [a, b] = net.links[*link].ends;
            (a % 4 < 2) != (b % 4 < 2)
        })
        .collect();
    assert_eq!(cut.len(), 4);
    cut.iter().for_each(|link| net.set_up(*link, false));
    net.run(10 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 0, "/east"), None);
    // Both sides change meanwhile.
    net.announce(1, "/new");
    net.withdraw(15, "/east");
    net.announce(14, "/east2");
    net.run(10 * SECOND);
    cut.iter().for_each(|link| net.set_up(*link, true));
    net.run(40 * SECOND);
    check_routes(&net);
    assert!(next_link(&net, 15, "/new").is_some() && next_link(&net, 0, "/east2").is_some());
    assert_eq!(next_link(&net, 0, "/east"), None);
}

#[test]
fn lost_packets_delay_and_do_not_prevent() {
    let mut net = grid(4, undamped);
    net.links.iter_mut().for_each(|link| link.loss = 0.15);
    for node in 0..16 {
        net.announce(node, &format!("/p{node}"));
    }
    net.run(60 * SECOND);
    net.links.iter_mut().for_each(|link| link.loss = 0.0);
    net.run(20 * SECOND);
    check_routes(&net);
}

#[test]
fn a_restart_keeps_routes_until_applications_are_back() {
    let mut net = ring(5, plain);
    net.announce(0, "/a");
    net.announce(2, "/b");
    net.run(5 * SECOND);
    // Node 1 is on the way from 2 to 0.
    net.kill(1);
    net.run(100);
    net.start(1);
    for _ in 0..20 {
        net.run(100);
        assert_eq!(next_link(&net, 2, "/a"), Some(1));
        assert_eq!(next_link(&net, 1, "/a"), Some(0));
    }
    // The router that serves a prefix restarts.
    net.kill(0);
    net.run(100);
    net.start(0);
    net.run(5 * SECOND);
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
    net.announce(0, "/a");
    net.run(60 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
}

#[test]
fn prefixes_that_do_not_come_back_after_a_restart_are_dropped() {
    let mut net = ring(4, plain);
    net.announce(0, "/a");
    net.announce(0, "/b");
    net.run(5 * SECOND);
    net.kill(0);
    net.run(200);
    net.start(0);
    net.announce(0, "/b");
    net.run(10 * SECOND);
    assert_eq!(next_link(&net, 1, "/a"), Some(0), "it is kept for a while");
    net.run(30 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), None);
    assert_eq!(next_link(&net, 1, "/b"), Some(0));
}

#[test]
fn leftovers_of_an_earlier_run_are_removed() {
    let mut net = ring(4, plain);
    net.announce(0, "/a");
    net.run(5 * SECOND);
    net.kill(1);
    // A route that nobody needs any more.
    net.nodes[1].fib.entry("/gone".parse().unwrap()).or_default().insert(Some(face(0)), 9);
    net.run(200);
    net.start(1);
    net.run(5 * SECOND);
    assert!(net.nodes[1].fib.contains_key(&"/gone".parse::<Name>().unwrap()));
    net.run(30 * SECOND);
    check_routes(&net);
    assert!(!net.nodes[1].fib.contains_key(&"/gone".parse::<Name>().unwrap()));
}

#[test]
fn a_dead_router_is_forgotten() {
    let mut net = ring(5, plain);
    for node in 0..5 {
        net.announce(node, &format!("/p{node}"));
    }
    net.run(5 * SECOND);
    net.kill(2);
    net.run(40 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/p2"), None);
    assert_eq!(net.nodes[1].router.status().neighbours.len(), 1);
}

#[test]
fn without_hellos_dead_links_are_found_by_silence() {
    let mut net = ring(5, |config: &mut Config| config.hello.enabled = false);
    net.announce(0, "/a");
    net.run(5 * SECOND);
    net.set_up(0, false);
    net.run(10 * SECOND);
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
    net.run(30 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), Some(1));
    let is_silent = |note: &Note| matches!(note, Note::LinkDown { why: DownReason::Silent, .. });
    assert_eq!(count(&net, 1, is_silent), 1);
}

#[test]
fn a_link_that_flaps_is_left_alone_for_a_while() {
    let mut net = ring(4, plain);
    net.announce(0, "/a");
    net.run(5 * SECOND);
    for _ in 0..6 {
        net.set_up(0, false);
        net.run(SECOND);
        net.set_up(0, true);
        net.run(2 * SECOND);
    }
    assert_eq!(next_link(&net, 1, "/a"), Some(1));
    assert!(count(&net, 1, |note| matches!(note, Note::LinkDamped { .. })) > 0);
    assert!(net.nodes[1].router.status().neighbours.iter().flat_map(|n| &n.links).any(|link| link.damped_ms.is_some()));
    check_routes(&net);
    net.run(70 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
}

#[test]
fn a_process_that_stood_still_takes_nobody_for_dead() {
    let mut net = ring(4, plain);
    net.announce(0, "/a");
    net.run(5 * SECOND);
    // Short enough that its neighbours do not notice.
    net.nodes[1].stands_until_ms = net.now_ms + 120;
    net.run(5 * SECOND);
    assert_eq!(count(&net, 1, |note| matches!(note, Note::LinkDown { .. })), 0);
    // The clock jumps by an hour, forwards and back.
    for jump in [3_600_000, -3_600_000] {
        net.nodes[1].ahead_ms += jump;
        net.run(20 * SECOND);
        check_routes(&net);
        assert_eq!(count(&net, 1, |note| matches!(note, Note::LinkDown { .. })), 0);
        assert_eq!(next_link(&net, 1, "/a"), Some(0));
    }
    assert!(net.nodes[1].router.status().counters.stalls > 0);
}

#[test]
fn a_face_that_goes_down_is_not_waited_for() {
    let mut net = ring(4, plain);
    net.announce(0, "/a");
    net.run(5 * SECOND);
    net.set_up(0, false);
    net.tell(1, Event::FaceDown { face: face(0) });
    // No time has passed: the alternative was there before.
    assert_eq!(next_link(&net, 1, "/a"), Some(1));
    net.run(SECOND);
    assert_eq!(next_link(&net, 1, "/a"), Some(1));
    net.set_up(0, true);
    net.tell(1, Event::FaceUp { face: face(0) });
    net.run(5 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 1, "/a"), Some(0));
}

#[test]
fn random_changes_end_in_right_routes() {
    for seed in 0..4 {
        let mut random = StdRng::seed_from_u64(100 + seed);
        let mut net = grid(3, undamped);
        net.links.iter_mut().for_each(|link| link.loss = 0.02);
        for _ in 0..40 {
            let node = random.random_range(0..9);
            match random.random_range(0..6) {
                0 | 1 if !net.nodes[node].is_running => net.start(node),
                0 => net.announce(node, &format!("/p{}", random.random_range(0..5))),
                1 => net.withdraw(node, &format!("/p{}", random.random_range(0..5))),
                2 | 3 => {
                    let link = random.random_range(0..net.links.len());
                    net.set_up(link, random.random());
                }
                4 if net.nodes[node].is_running => net.kill(node),
                _ if !net.nodes[node].is_running => net.start(node),
                _ => net.run(5 * SECOND),
            }
            net.run(random.random_range(0..2000));
        }
        net.links.iter_mut().for_each(|link| link.loss = 0.0);
        net.run(100 * SECOND);
        check_routes(&net);
    }
}
