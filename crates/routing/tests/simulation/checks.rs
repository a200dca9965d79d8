//! What must hold once a network is quiet.

use std::collections::{BTreeMap, BTreeSet};

use byname_wire::{FaceId, Name};

use crate::net::{Net, face};

/// The nodes that each node can reach over links that are up.
fn components(net: &Net) -> Vec<usize> {
    let mut of: Vec<usize> = (0..net.nodes.len()).collect();
    loop {
        let mut changed = false;
        for link in net.links.iter().filter(|link| link.is_up) {
            let [a, b] = link.ends;
            if !net.nodes[a].is_running || !net.nodes[b].is_running {
                continue;
            }
            let low = of[a].min(of[b]);
            changed |= of[a] != low || of[b] != low;
            (of[a], of[b]) = (low, low);
        }
        if !changed {
            return of;
        }
    }
}

/// Routes of a node for a prefix, best first.
fn routes(net: &Net, node: usize, prefix: &Name) -> Vec<(FaceId, u64)> {
    let routes = net.nodes[node].fib.get(prefix).into_iter().flatten();
    let mut routes: Vec<(FaceId, u64)> = routes.filter_map(|(face, cost)| face.map(|face| (face, *cost))).collect();
    routes.sort_by_key(|(_, cost)| *cost);
    routes
}

/// The best nexthops of a node, without the one that an Interest came from.
fn best(net: &Net, node: usize, prefix: &Name, from: Option<usize>) -> Vec<usize> {
    let routes = routes(net, node, prefix);
    let others: Vec<(usize, u64)> = routes
        .iter()
        .filter_map(|(face, cost)| net.nodes[node].peer(*face).map(|peer| (peer, *cost)))
        .filter(|(peer, _)| Some(*peer) != from)
        .collect();
    let lowest = others.iter().map(|(_, cost)| *cost).min();
    others.into_iter().filter(|(_, cost)| Some(*cost) == lowest).map(|(peer, _)| peer).collect()
}

/// Checks that from every node, every prefix is reached by the best nexthops, without a loop, if and only if a node
/// that serves it is in the same part of the network.
pub fn check_routes(net: &Net) {
    let part = components(net);
    let mut prefixes: BTreeMap<Name, BTreeSet<usize>> = BTreeMap::new();
    for (node, state) in net.nodes.iter().enumerate() {
        for prefix in state.fib.keys().filter(|prefix| is_of_applications(prefix)) {
            prefixes.entry(prefix.clone()).or_default();
        }
        for prefix in &state.served {
            prefixes.entry(prefix.clone()).or_default().insert(node);
        }
    }
    for (prefix, servers) in &prefixes {
        for (node, state) in net.nodes.iter().enumerate().filter(|(_, state)| state.is_running) {
            let is_reachable = servers.iter().any(|server| part[*server] == part[node]);
            let has_routes = !routes(net, node, prefix).is_empty();
            if servers.contains(&node) {
                continue;
            }
            let explained = || state.router.explain(prefix.as_ref());
            assert_eq!(
                has_routes,
                is_reachable,
                "{prefix} at {}: {:#?} {:#?}",
                state.name,
                explained(),
                state.router.status()
            );
            if is_reachable {
                walk(net, node, prefix, servers);
            }
        }
    }
}

fn is_of_applications(prefix: &Name) -> bool {
    let first = prefix.as_ref().component(0).map(|first| first.value.to_vec()).unwrap_or_default();
    ![&b"localhop"[..], b"localhost", b"net"].contains(&&first[..])
}

/// Follows all best nexthops.
fn walk(net: &Net, start: usize, prefix: &Name, servers: &BTreeSet<usize>) {
    let mut paths = vec![vec![start]];
    let mut steps = 0;
    while let Some(path) = paths.pop() {
        let node = *path.last().unwrap();
        if servers.contains(&node) {
            continue;
        }
        steps += 1;
        if steps > 10_000 {
            // Many ways of equal cost: enough of them were looked at.
            return;
        }
        let next = best(net, node, prefix, None);
        assert!(!next.is_empty(), "{prefix} ends at {}", net.nodes[node].name);
        for peer in next {
            assert!(!path.contains(&peer), "{prefix} circles: {path:?} and {peer}");
            paths.push([&path[..], &[peer]].concat());
        }
    }
}

/// Whether an Interest that a node sends now reaches one that serves its prefix.
pub fn arrives(net: &Net, start: usize, prefix: &str) -> bool {
    let prefix: Name = prefix.parse().unwrap();
    let (mut node, mut from) = (start, None);
    // More hops are a loop.
    for _ in 0..net.nodes.len() {
        if net.nodes[node].served.contains(&prefix) {
            return true;
        }
        let Some(out) = net.nodes[node].next_hops(&prefix, from).first().copied().flatten() else { return false };
        let Some(peer) = net.nodes[node].peer(out) else { return false };
        if !net.links.iter().enumerate().any(|(link, state)| face(link) == out && state.is_up) {
            return false;
        }
        (node, from) = (peer, Some(out));
    }
    false
}

/// Checks that an alternative leads to the prefix without coming back, as long as only its owner's best ways fail.
pub fn check_alternatives(net: &Net, prefix: &Name) -> usize {
    let mut found = 0;
    let servers: BTreeSet<usize> =
        (0..net.nodes.len()).filter(|node| net.nodes[*node].served.contains(prefix)).collect();
    for node in (0..net.nodes.len()).filter(|node| !servers.contains(node)) {
        let routes = routes(net, node, prefix);
        let lowest = routes.first().map(|(_, cost)| *cost);
        for (out, _) in routes.iter().filter(|(_, cost)| Some(*cost) != lowest) {
            found += 1;
            let first = net.nodes[node].peer(*out).unwrap();
            let mut places = vec![(first, node)];
            let mut seen = BTreeSet::new();
            while let Some((at, from)) = places.pop() {
                assert_ne!(at, node, "{prefix}: the alternative of {node} comes back");
                if servers.contains(&at) || !seen.insert((at, from)) {
                    continue;
                }
                let next = best(net, at, prefix, Some(from));
                assert!(!next.is_empty(), "{prefix}: the alternative of {node} ends at {at}");
                places.extend(next.into_iter().map(|peer| (peer, at)));
            }
        }
    }
    found
}

/// The nexthop that a node uses for a prefix now, by link.
pub fn next_link(net: &Net, node: usize, prefix: &str) -> Option<usize> {
    let prefix: Name = prefix.parse().unwrap();
    let suspended = &net.nodes[node].suspended;
    let routes = routes(net, node, &prefix);
    // A suspended face is used only where there is no other.
    let used = routes.iter().find(|(out, _)| !suspended.contains(out)).or(routes.first())?;
    (0..net.links.len()).find(|link| face(*link) == used.0)
}
