//! Routers that are not believed any more, and versions of the protocol.

use byname_routing::config::ProtocolVersion;
use byname_routing::{Command, Config, Event};
use byname_wire::Name;

use crate::checks::{check_routes, next_link};
use crate::net::{Net, SECOND, router_name};

/// A ring of five, in which each router serves a prefix.
fn ring(configure: impl Fn(&mut Config) + 'static) -> Net {
    let mut net = Net::new(5, 3, configure);
    for node in 0..5 {
        net.connect(node, (node + 1) % 5, true);
        net.announce(node, &format!("/p{node}"));
    }
    net.run(10 * SECOND);
    check_routes(&net);
    net
}

/// A router believes all but these others from now on.
fn believe_all_but(net: &mut Net, node: usize, others: &[usize]) {
    net.nodes[node].revoked = others.iter().map(|other| router_name(*other)).collect();
    net.tell(node, Event::Command(Command::Recheck));
}

#[test]
fn a_revoked_router_loses_its_routes_and_nobody_else_does() {
    let mut net = ring(|_| {});
    // It is no neighbour of the router that does not believe it, and the routers between still do.
    believe_all_but(&mut net, 0, &[2]);
    let mut gone_ms = None;
    for ms in (0..60 * SECOND).step_by(50) {
        net.run(50);
        assert!([1, 3, 4].iter().all(|other| next_link(&net, 0, &format!("/p{other}")).is_some()), "after {ms} ms");
        if next_link(&net, 0, "/p2").is_none() {
            gone_ms.get_or_insert(ms);
        } else {
            assert_eq!(gone_ms, None, "it does not come back");
        }
    }
    assert!(gone_ms.is_some_and(|ms| ms <= 31 * SECOND), "{gone_ms:?}");
    assert!(net.nodes[0].router.status().counters.untrusted > 0);

    // Neighbours leave it as soon as its next hellos do not count.
    for node in [1, 3] {
        believe_all_but(&mut net, node, &[2]);
    }
    net.run(SECOND);
    let is_used = |net: &Net, node: usize| {
        let links = net.nodes[node].router.status().neighbours;
        links.iter().any(|of| of.router == router_name(2) && of.links.iter().any(|link| link.is_used))
    };
    assert!(!is_used(&net, 1) && !is_used(&net, 3));
    net.run(60 * SECOND);
    let prefix: Name = "/p2".parse().unwrap();
    assert!([0, 1, 3, 4].iter().all(|node| !net.nodes[*node].fib.contains_key(&prefix)));

    for node in [0, 1, 3] {
        believe_all_but(&mut net, node, &[]);
    }
    net.run(150 * SECOND);
    check_routes(&net);
}

#[test]
fn a_network_can_speak_the_messages_of_dv2() {
    let mut net = ring(|config| config.version = ProtocolVersion::Dv2);
    net.set_up(0, false);
    net.run(10 * SECOND);
    check_routes(&net);
    // The names of routers are routes, whether or not a router also announces its name.
    let name = router_name(1).to_string();
    let is_route = |net: &Net| [0, 2].into_iter().all(|node| next_link(net, node, &name).is_some());
    let is_announced =
        |net: &Net| net.nodes[0].router.prefixes(None, 99).iter().any(|known| known.prefix == router_name(1));
    assert!(is_route(&net) && !is_announced(&net));
    net.announce(1, &name);
    net.run(10 * SECOND);
    assert!(is_route(&net) && is_announced(&net));
    net.withdraw(1, &name);
    net.run(10 * SECOND);
    assert!(is_route(&net) && !is_announced(&net));
    net.withdraw(1, "/p1");
    net.kill(3);
    net.run(60 * SECOND);
    check_routes(&net);
    assert_eq!(next_link(&net, 0, &router_name(3).to_string()), None);
    assert_eq!(next_link(&net, 0, "/p1"), None);
    net.start(3);
    net.set_up(0, true);
    net.announce(3, "/new");
    net.run(60 * SECOND);
    check_routes(&net);
    assert!((0..5).filter(|node| *node != 3).all(|node| next_link(&net, node, "/new").is_some()));
    let untold = |node: &crate::net::Node| {
        let counters = node.router.status().counters;
        counters.malformed + counters.untrusted
    };
    assert_eq!(net.nodes.iter().map(untold).sum::<u64>(), 0);
}
