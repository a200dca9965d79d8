//! Questions about a name, and reasons of strategies.

use super::*;
use crate::explain::{Asked, PendingInterest, Stored};
use crate::strategy::{Preferred, StrategyChoice, Turn, Why};

fn choose(b: &mut Bench, strategy: &str) {
    let strategy = name(&format!("/localhost/nfd/strategy/{strategy}"));
    b.worker.set_strategy_choices(&[StrategyChoice { prefix: name("/a"), strategy }]);
}

/// Turn, face and whether a round-trip time is known.
fn order(b: &mut Bench, uri: &str) -> Vec<(Turn, FaceId, bool)> {
    let explained = b.worker.explain(b.now, name(uri).as_ref());
    explained.nexthops.iter().map(|n| (n.turn, n.face, n.rtt.is_some())).collect()
}

#[test]
fn a_name_without_a_rule_has_no_nexthops() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let explained = b.worker.explain(b.now, name("/b").as_ref());
    assert_eq!((explained.rule_depth, explained.nexthops.len()), (None, 0));
    assert_eq!((explained.stored, explained.pending.len(), explained.serves), (None, 0, true));
    assert_eq!(explained.strategy.to_string(), "/localhost/nfd/strategy/best-route/v=5");
    assert_eq!(explained.parameters[0], ("retx-suppression-initial", "10".to_owned()));
}

#[test]
fn tables_tell_what_they_have_and_stay_as_they_were() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    b.receive(APP, &interest("/a/b", 1).lifetime_ms(4000).encode());
    b.wait(Duration::from_millis(1000));
    let explained = b.worker.explain(b.now, name("/a/b").as_ref());
    assert_eq!(explained.rule_depth, Some(1));
    let asked = Asked { face: HOST, since: Duration::from_secs(1), nacked: None };
    let pending = PendingInterest {
        can_be_prefix: false,
        must_be_fresh: false,
        expires_in: Duration::from_secs(3),
        downstreams: vec![(APP, Duration::from_secs(3))],
        further_downstreams: 0,
        upstreams: vec![asked],
    };
    assert_eq!(explained.pending, [pending]);
    assert_eq!(b.worker.explain(b.now, name("/a").as_ref()).pending, []);
    let before = b.worker.counters();
    b.receive(HOST, &data("/a/b"));
    b.wait(Duration::from_millis(400));
    let explained = b.worker.explain(b.now, name("/a/b").as_ref());
    let stored = Stored { fresh_for: Duration::from_millis(600), bytes: data("/a/b").len() };
    assert_eq!((explained.stored, explained.stored_below), (Some(stored), Some(true)));
    assert_eq!(explained.pending, []);
    assert_eq!(b.worker.explain(b.now, name("/a").as_ref()).stored_below, None, "nobody asked by prefix");
    b.receive(APP, &interest("/a", 3).can_be_prefix(true).encode());
    assert_eq!(b.worker.explain(b.now, name("/a").as_ref()).stored_below, Some(true));
    assert_eq!(b.worker.explain(b.now, name("/c").as_ref()).stored_below, Some(false));
    b.wait(Duration::from_secs(2));
    let stale = b.worker.explain(b.now, name("/a/b").as_ref()).stored.expect("stale Data stays");
    assert_eq!(stale.fresh_for, Duration::ZERO);
    assert_eq!(b.worker.counters().cs.hits, before.cs.hits + 1, "only the Interest counts");
}

#[test]
fn nexthops_come_in_the_order_of_the_strategy() {
    use Turn::{AtRandom, First, Later, Never};
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    b.route("/localhost/a", &[HOST, APP]);
    assert_eq!(order(&mut b, "/a/x"), [(First, HOST, false), (Later, HOST_2, false)]);
    assert_eq!(order(&mut b, "/localhost/a/x"), [(First, APP, false), (Never, HOST, false)]);
    for (strategy, turn) in [("multicast", First), ("random", AtRandom), ("self-learning", First), ("access", First)] {
        choose(&mut b, strategy);
        assert_eq!(order(&mut b, "/a/x"), [(turn, HOST, false), (turn, HOST_2, false)], "{strategy}");
    }
    // The second nexthop answers an Interest that the first leaves unanswered.
    choose(&mut b, "access");
    b.receive(APP, &interest("/a/x/1", 1).encode());
    b.now = b.now + Duration::from_millis(20);
    b.receive(HOST_2, &data("/a/x/1"));
    assert_eq!(order(&mut b, "/a/x/2"), [(First, HOST_2, true), (Later, HOST, false)]);
    assert_eq!(order(&mut b, "/a/y/2"), [(First, HOST, false), (First, HOST_2, false)]);
}

#[test]
fn adaptive_tells_round_trip_times_and_silence() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    choose(&mut b, "asf/v=5/max-timeouts~1");
    b.receive(APP, &interest("/a/1", 1).encode());
    b.now = b.now + Duration::from_millis(30);
    b.receive(HOST, &data("/a/1"));
    let explained = b.worker.explain(b.now, name("/a/2").as_ref());
    let first = Preferred { face: HOST, cost: 0, turn: Turn::First, rtt: Some(Duration::from_millis(30)), silent: 0 };
    assert_eq!(explained.nexthops[0], first);
    assert!(explained.parameters.contains(&("max-timeouts", "1".to_owned())), "{:?}", explained.parameters);
    // It leaves the next one unanswered, and ranks last from then on.
    b.receive(APP, &interest("/a/3", 3).lifetime_ms(100).encode());
    b.wait(Duration::from_millis(200));
    let explained = b.worker.explain(b.now, name("/a/2").as_ref());
    let faces: Vec<_> = explained.nexthops.iter().map(|n| (n.face, n.silent, n.rtt.is_some())).collect();
    assert_eq!(faces, [(HOST_2, 0, false), (HOST, 1, true)]);
}

#[test]
fn strategies_say_why() {
    let why = |b: &Bench| b.worker.shard.decision.why;
    let nack = || LinkFields { nack: Some(NackReason::NoRoute), ..Default::default() };
    for (strategy, first, again, refused) in [
        ("best-route", Why::Cheapest, Why::NextOne, Why::Waits),
        ("multicast", Why::All, Why::All, Why::Waits),
        ("random", Why::Random, Why::Random, Why::Unasked),
        ("access", Why::All, Why::All, Why::Waits),
        ("asf", Why::Fastest, Why::NextOne, Why::Waits),
        ("self-learning", Why::All, Why::All, Why::Waits),
    ] {
        let mut b = bench();
        b.route("/a", &[HOST, HOST_2]);
        choose(&mut b, strategy);
        b.receive(APP, &interest("/a/1", 1).encode());
        assert_eq!(why(&b), first, "{strategy}");
        if strategy != "random" {
            b.receive(APP, &interest("/a/1", 2).encode());
            assert_eq!(why(&b), Why::Suppressed, "{strategy}");
        }
        b.wait(Duration::from_millis(150));
        b.receive(APP, &interest("/a/1", 3).encode());
        assert_eq!(why(&b), again, "{strategy}");
        if strategy != "random" {
            b.receive_with(HOST_2, &interest("/a/1", 3).encode(), nack());
            assert_eq!(why(&b), refused, "{strategy}");
        }
        b.route("/a", &[APP]);
        b.receive(APP, &interest("/a/2", 4).encode());
        assert_eq!(why(&b), Why::NoNexthop, "{strategy}");
    }
    let mut b = bench();
    choose(&mut b, "self-learning");
    b.receive(APP, &interest("/a/1", 1).encode());
    assert_eq!(why(&b), Why::Flood);
}
