//! Prefixes are hashed at the depths of the FIB's rules, and new depths may appear while a burst is handled.

use std::sync::atomic::{AtomicUsize, Ordering};

use byname_lookup::prefix::{PrefixFib, PrefixMatch};
use byname_wire::name_hash::{DepthSet, hash_name};

use byname_wire::NameView;

use super::*;

/// Rules that are found by their hashes alone. Rules deeper than one component, and their depths, appear after `depths`
/// was called `looks_left` times.
struct Growing {
    rules: Vec<(usize, u64, EntryId)>,
    looks_left: AtomicUsize,
}

impl PrefixFib for Growing {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        let depth_max = if self.looks_left.load(Ordering::Relaxed) == 0 { name.len() } else { 1 };
        let covers = |rule: &&(usize, u64, EntryId)| rule.0 <= depth_max && name.hash(rule.0) == rule.1;
        self.rules
            .iter()
            .filter(covers)
            .max_by_key(|rule| rule.0)
            .map(|&(depth, _, entry)| PrefixMatch { entry, depth })
    }
    fn depth_max(&self) -> usize {
        5
    }
    fn depths(&self) -> DepthSet {
        let looks = self.looks_left.load(Ordering::Relaxed);
        self.looks_left.store(looks.saturating_sub(1), Ordering::Relaxed);
        let mut depths = DepthSet::of(1);
        if looks == 0 {
            self.rules.iter().for_each(|rule| depths.insert(rule.0));
        }
        depths
    }
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// Interests for `/a/b/c/...` and `/a/x/...` in one burst must follow the rules for `/a/b/c` and `/a`.
fn route_with(config: WorkerConfig, looks: usize) {
    let mut b = bench_with(config);
    let rule = |uri: &str, entry| (name(uri).as_ref().len(), hash_name(&KEY, name(uri).as_ref()), EntryId(entry));
    let rules = vec![rule("/a", 0), rule("/a/b/c", 1)];
    for (entry, face) in [(0, HOST), (1, HOST_2)] {
        let nexthops = [Nexthop { face, cost: 0 }].into();
        b.tables.set_group(EntryId(entry), Some(NexthopGroup { nexthops }));
    }
    b.tables.replace_fib(Arc::new(Growing { rules, looks_left: AtomicUsize::new(looks) }));
    for round in 0..4 {
        let uris = (0..8).map(|i| format!("/a/{}/{round}/{i}", if i % 2 == 0 { "b/c" } else { "x" }));
        let mut packets: Vec<_> = uris.map(|uri| (APP, interest(&uri, 1).encode())).collect();
        // The Interests before this Data are routed before it. So there are two lookups in the FIB.
        packets.insert(4, (HOST_2, data(&format!("/a/b/c/{round}/0"))));
        let receive = |(face, packet): (_, Vec<u8>)| Received {
            face,
            fields: LinkFields::default(),
            packet: Packet::copy_from(&packet),
        };
        let mut sent = shape(&b.poll(packets.into_iter().map(receive).collect()));
        sent.sort_unstable();
        // The new rules may appear after the first Interests of a burst, or after all of them.
        let deep = [(4, false), (2, true), (0, true)].into_iter().find(|(deep, is_late)| {
            let right = [vec!["D256"], vec!["I300"; 8 - deep], vec!["I301"; *deep]].concat();
            sent == right && (!is_late || looks > 1 && round < 3)
        });
        assert!(deep.is_some(), "round {round} after {looks} looks: {sent:?}");
    }
}

#[test]
fn a_rule_of_a_new_depth_is_found_whenever_it_came() {
    // The Data answers an Interest that may have gone to another face.
    let config = WorkerConfig { accept_unasked_data: true, ..WorkerConfig::default() };
    for looks in 0..6 {
        route_with(config.clone(), looks);
        // If the PIT may fill up, the worker looks Interests up ahead.
        route_with(WorkerConfig { pit_entries_max: 12, ..config.clone() }, looks);
    }
}

#[test]
fn a_refused_interest_meets_a_rule_of_a_new_depth() {
    let mut b = bench();
    let rules = vec![(3, hash_name(&KEY, name("/a/b/c").as_ref()), EntryId(0))];
    let nexthops = [HOST, HOST_2].into_iter().zip(0..).map(|(face, cost)| Nexthop { face, cost }).collect();
    b.tables.set_group(EntryId(0), Some(NexthopGroup { nexthops }));
    let fib = Arc::new(Growing { rules, looks_left: AtomicUsize::new(0) });
    b.tables.replace_fib(Arc::clone(&fib) as _);
    assert_eq!(shape(&b.receive(APP, &interest("/a/b/c/d", 1).encode())), ["I300"]);
    // Fills the buffer of digests with those of another name.
    b.receive(APP, &interest("/a/x/y/z", 1).encode());
    fib.looks_left.store(1, Ordering::Relaxed);
    let refusal = LinkFields { nack: Some(NackReason::Congestion), ..Default::default() };
    assert_eq!(shape(&b.receive_with(HOST, &interest("/a/b/c/d", 1).encode(), refusal)), ["I301"]);
}
