//! Machines that are so busy that packets and hellos come late.

use byname_routing::{Config, Note};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::checks::{arrives, check_routes, next_link};
use crate::net::{Net, SECOND};

/// The grid of ten routers of `tests/clients/measure_convergence.py`. The first link is between the first two.
fn grid_of_ten(seed: u64) -> Net {
    let mut net = Net::new(10, seed, |_: &mut Config| {});
    for node in (0..9).filter(|node| (node + 1) % 4 != 0) {
        net.connect(node, node + 1, true);
    }
    (0..6).for_each(|node| drop(net.connect(node, node + 4, true)));
    net
}

/// Lets time pass while forwarders do not run now and then. Returns how many of the pings of the first router were lost,
/// one each 10 ms.
fn pings_lost(net: &mut Net, random: &mut StdRng, for_ms: u64, longest_ms: u64) -> u64 {
    let mut lost = 0;
    for _ in 0..for_ms / 10 {
        // A node is deaf about once in three seconds.
        for node in 0..net.nodes.len() {
            if net.nodes[node].deaf_until_ms <= net.now_ms && random.random_range(0..300) == 0 {
                net.nodes[node].deaf_until_ms = net.now_ms + random.random_range(50..=longest_ms);
            }
        }
        net.run(10);
        let is_lost = !arrives(net, 0, "/far");
        lost += u64::from(is_lost);
        if is_lost && std::env::var("DBG").is_ok() {
            let hops: Vec<_> = (0..10).map(|n| net.nodes[n].next_hops(&"/far".parse().unwrap(), None).first().copied().flatten().and_then(|f| net.nodes[n].peer(f))).collect();
            let deaf: Vec<_> = (0..10).filter(|n| net.nodes[*n].deaf_until_ms > net.now_ms).collect();
            println!("{} hops {hops:?} deaf {deaf:?}", net.now_ms);
            for n in [0, 1, 4, 5] { for (at, note) in &net.nodes[n].notes { if net.now_ms - at < 1000 { println!("   {n} {at} {note}"); } } }
        }
    }
    lost
}

#[test]
fn late_hellos_do_not_take_the_only_way() {
    let mut net = Net::new(3, 7, |_: &mut Config| {});
    net.connect(0, 1, true);
    net.connect(1, 2, true);
    net.announce(2, "/a");
    net.run(5 * SECOND);
    // Often enough for damping.
    for _ in 0..8 {
        net.nodes[1].deaf_until_ms = net.now_ms + 420;
        for _ in 0..100 {
            net.run(20);
            assert_eq!(next_link(&net, 0, "/a"), Some(0));
        }
        // The time for detection adapts, and forgets.
        net.run(40 * SECOND);
    }
    check_routes(&net);
    let downs = net.nodes[0].notes.iter().filter(|(_, note)| matches!(note, Note::LinkDown { .. })).count();
    assert!(downs >= 8, "{downs}");
    // A link that is dead is given up.
    net.set_up(0, false);
    net.run(SECOND);
    assert_eq!(next_link(&net, 0, "/a"), None);
    net.set_up(0, true);
    net.run(5 * SECOND);
    check_routes(&net);
}

#[test]
fn a_link_that_flaps_is_used_where_there_is_no_other() {
    let mut net = Net::new(2, 7, |_: &mut Config| {});
    net.connect(0, 1, true);
    net.announce(1, "/a");
    net.run(5 * SECOND);
    for _ in 0..6 {
        net.set_up(0, false);
        net.run(SECOND);
        assert_eq!(next_link(&net, 0, "/a"), None);
        net.set_up(0, true);
        net.run(2 * SECOND);
        assert_eq!(next_link(&net, 0, "/a"), Some(0));
    }
    let is_damped = |note: &Note| matches!(note, Note::LinkDamped { .. });
    assert!(net.nodes[0].notes.iter().any(|(_, note)| is_damped(note)));
    check_routes(&net);
}

#[test]
fn a_cut_on_busy_machines_costs_little() {
    let mut worst = 0;
    for seed in 0..12 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut net = grid_of_ten(seed);
        net.announce(1, "/far");
        net.run(5 * SECOND);
        assert_eq!(pings_lost(&mut net, &mut random, 10 * SECOND, 450), 0, "without a cut, seed {seed}");
        for cut in 0..3 {
            net.set_up(0, false);
            let lost = pings_lost(&mut net, &mut random, 5 * SECOND, 450);
            worst = worst.max(lost);
            assert!(lost <= 80, "{lost} in cut {cut}, seed {seed}");
            net.set_up(0, true);
            assert_eq!(pings_lost(&mut net, &mut random, 5 * SECOND, 450), 0, "after cut {cut}, seed {seed}");
        }
        net.nodes.iter_mut().for_each(|node| node.deaf_until_ms = 0);
        net.run(80 * SECOND);
        check_routes(&net);
    }
    println!("most pings lost in a cut: {worst}");
}
