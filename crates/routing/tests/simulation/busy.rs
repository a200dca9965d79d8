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
    for node in 0..6 {
        net.connect(node, node + 4, true);
    }
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
        lost += u64::from(!arrives(net, 0, "/far"));
    }
    lost
}

/// A line, whose middle does not hear anything for so long, eight times. Returns how long the first router had no way to
/// the last one, each time, and how often a link of the first router went down.
fn deaf_in_the_middle(for_ms: u64) -> (Vec<u64>, usize) {
    let mut net = Net::new(3, 7, |_: &mut Config| {});
    net.connect(0, 1, true);
    net.connect(1, 2, true);
    net.announce(2, "/a");
    net.run(5 * SECOND);
    let mut without_ms = Vec::new();
    for _ in 0..8 {
        net.nodes[1].deaf_until_ms = net.now_ms + for_ms;
        let steps = (0..200).filter(|_| {
            net.run(10);
            next_link(&net, 0, "/a").is_none()
        });
        without_ms.push(10 * steps.count() as u64);
    }
    let downs = net.nodes[0].notes.iter().filter(|(_, note)| matches!(note, Note::LinkDown { .. })).count();
    // A link that is dead is given up.
    net.set_up(0, false);
    net.run(SECOND);
    assert_eq!(next_link(&net, 0, "/a"), None);
    net.set_up(0, true);
    net.run(5 * SECOND);
    check_routes(&net);
    (without_ms, downs)
}

#[test]
fn late_hellos_do_not_take_the_only_way() {
    assert_eq!(deaf_in_the_middle(310), (vec![0; 8], 0));
    // The first time is a surprise. When it is over, the way is back at once.
    let (without_ms, downs) = deaf_in_the_middle(500);
    assert!(without_ms[0] <= 200 && downs >= 1, "{without_ms:?}");
    assert_eq!(without_ms[1..], [0; 7]);
    // Too late again and again: the link flaps, and is used for all that.
    let (without_ms, downs) = deaf_in_the_middle(950);
    assert!(without_ms.iter().all(|ms| *ms <= 650) && downs >= 8, "{without_ms:?}");
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
    let mut all = 0;
    for seed in 0..12 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut net = grid_of_ten(seed);
        net.announce(1, "/far");
        net.run(5 * SECOND);
        let lost = pings_lost(&mut net, &mut random, 10 * SECOND, 450);
        assert!(lost <= 10, "{lost} without a cut, seed {seed}");
        for cut in 0..3 {
            net.set_up(0, false);
            let lost = pings_lost(&mut net, &mut random, 5 * SECOND, 450);
            assert!(lost <= 80, "{lost} in cut {cut}, seed {seed}");
            all += lost;
            net.set_up(0, true);
            let lost = pings_lost(&mut net, &mut random, 5 * SECOND, 450);
            assert!(lost <= 10, "{lost} after cut {cut}, seed {seed}");
        }
        net.nodes.iter_mut().for_each(|node| node.deaf_until_ms = 0);
        net.run(80 * SECOND);
        check_routes(&net);
    }
    assert!(all <= 36 * 50, "{all} in all cuts");
}
