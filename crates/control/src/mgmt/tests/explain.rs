//! The dataset `explain/route`.

use super::*;
use crate::mgmt::tlv::explain::{Preferred, RouteExplanation, turn};

fn about(uri: &str) -> Name {
    let mut element = Vec::new();
    byname_wire::tlv::push_tlv(&mut element, byname_wire::tlv::types::NAME, name(uri).value());
    name("/localhost/nfd/explain/route").join(Component::generic(&element))
}

impl Router {
    fn explain(&mut self, uri: &str) -> RouteExplanation {
        let content = self.dataset(&about(uri).as_ref().to_string());
        RouteExplanation::decode_value(&content).expect("encoded as it is decoded")
    }

    fn register(&mut self, uri: &str, face: FaceId, origin: u64, cost: u64, flags: u64) {
        let parameters = ControlParameters {
            face_id: Some(face.0),
            origin: Some(origin),
            cost: Some(cost),
            flags: Some(flags),
            ..prefix(uri)
        };
        assert_eq!(self.command("rib/register", &parameters).code, 200);
    }
}

/// Prefix, face, origin, and whether it counts.
fn behind(explained: &RouteExplanation) -> Vec<(String, u64, u64, u64)> {
    let routes = explained.routes.iter();
    routes.map(|r| (r.name.to_string(), r.face_id, r.origin, r.is_used)).collect()
}

#[test]
fn the_routes_behind_a_rule_are_those_that_made_its_nexthops() {
    for threads in [1, 4] {
        let mut router = Router::with_threads(100, Authorizer::local_only(), threads);
        let (app, neighbour) = (APP.0, NEIGHBOUR.0);
        router.register("/", NEIGHBOUR, 255, 50, 1);
        router.register("/a", NEIGHBOUR, 128, 30, 1);
        router.register("/a", NEIGHBOUR, 255, 10, 0);
        router.register("/a/b", APP, 0, 7, 1);
        let explained = router.explain("/a/b/c");
        assert_eq!(explained.rule.as_ref().map(Name::to_string).as_deref(), Some("/a/b"));
        let expected = [("/a/b", app, 0, 1), ("/a", neighbour, 128, 1), ("/", neighbour, 255, 0)];
        assert_eq!(
            behind(&explained),
            expected.map(|(name, face, origin, used)| (name.to_owned(), face, origin, used))
        );
        // The nexthops of the FIB agree with the routes that count.
        let fib = router.fib();
        let rule = fib.iter().find(|entry| entry.name == name("/a/b")).expect("there is a rule");
        let mut counted: Vec<_> =
            explained.routes.iter().filter(|r| r.is_used == 1).map(|r| (r.cost, r.face_id)).collect();
        counted.sort_unstable();
        assert_eq!(rule.next_hop_records.iter().map(|n| (n.cost, n.face_id)).collect::<Vec<_>>(), counted);
        assert!(explained.home < threads as u64 && explained.threads == threads as u64);
        // Capture ends the search.
        router.register("/a", NEIGHBOUR, 128, 30, 3);
        assert_eq!(behind(&router.explain("/a/b/c")).len(), 2);
        // A nexthop of a `fib` command overrides the routes to its face.
        let nexthop = ControlParameters { face_id: Some(app), cost: Some(99), ..prefix("/a/b") };
        assert_eq!(router.command("fib/add-nexthop", &nexthop).code, 200);
        let explained = router.explain("/a/b");
        let of_app: Vec<_> =
            explained.routes.iter().filter(|r| r.face_id == app).map(|r| (r.cost, r.is_nexthop, r.is_used)).collect();
        assert_eq!(of_app, [(99, Some(1), 1), (7, None, 0)]);
    }
}

#[test]
fn an_explanation_has_strategy_nexthops_and_tables() {
    let mut router = Router::new(100);
    assert_eq!((router.explain("/x").rule, router.explain("/x").nexthops.len()), (None, 0));
    router.register("/a", APP, 0, 7, 1);
    let strategy = ControlParameters {
        strategy: Some(StrategyName(name("/localhost/nfd/strategy/asf/v=5/max-timeouts~9"))),
        ..prefix("/a/b")
    };
    assert_eq!(router.command("strategy-choice/set", &strategy).code, 200);
    let explained = router.explain("/a/b/c");
    assert_eq!(explained.name, name("/a/b/c"));
    assert_eq!(explained.strategy_prefix, name("/a/b"));
    assert_eq!(explained.strategy.0, name("/localhost/nfd/strategy/asf/v=5/max-timeouts~9"));
    assert!(explained.parameters.iter().any(|p| (&*p.name, &*p.value) == ("max-timeouts", "9")));
    // The worker has no such face.
    let nexthop = Preferred { face_id: APP.0, cost: 7, turn: turn::NEVER, rtt_us: None, silent: None };
    assert_eq!(explained.nexthops, [nexthop]);
    assert_eq!((explained.stored_bytes, explained.stored_below, explained.serves), (None, None, 1));
    assert_eq!(router.explain("/a").strategy_prefix, name("/"));
}

#[test]
fn malformed_and_long_names_are_refused_and_neighbours_are_not_answered() {
    let mut router = Router::new(100);
    let mut code = |asked: Name| {
        let wire = router.interest(asked, true).expect("an answer");
        let data = Data::decode(&wire).expect("Data");
        assert_eq!(data.content_type, content_type::NACK);
        ControlResponse::decode(data.content).expect("a ControlResponse").code
    };
    let base = name("/localhost/nfd/explain/route");
    for malformed in [&[][..], &[7], &[7, 200], &[7, 3, 8, 9, 1], &[8, 1, 65], &[7, 0, 0]] {
        assert_eq!(code(base.clone().join(Component::generic(malformed))), 400, "{malformed:?}");
    }
    assert_eq!(code(about(&format!("/{}", "x".repeat(1000)))), 414);
    assert!(router.interest(base, true).is_none(), "about no name");
    // Workers drop /localhost names of neighbours.
    let localhop = about("/a").as_ref().to_string().replacen("localhost", "localhop", 1);
    let wire = InterestBuilder::new(name(&localhop), 7).can_be_prefix(true).must_be_fresh(true).encode();
    assert!(router.management.answer(&wire, NEIGHBOUR, router.now).is_none());
    assert!(router.management.answer(&wire, APP, router.now).is_some());
    router.explain("/");
}
