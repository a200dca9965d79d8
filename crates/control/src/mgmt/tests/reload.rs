//! The module `config`, and what a reload changes in management.

use std::sync::mpsc;

use super::*;
use crate::fib_writer::FibEngineKind;
use crate::mgmt::reload::{ReloadWish, RouteChange};
use crate::mgmt::tlv::origin;
use crate::rib::{RibError, Route};

fn route(uri: &str, cost: u64, adds: bool) -> RouteChange {
    let route = Route { face: NEIGHBOUR, origin: origin::STATIC, cost, flags: 1, expires_at_ms: None };
    RouteChange { name: name(uri), route, adds }
}

fn costs(router: &Router) -> Vec<(String, u64)> {
    let entries = router.management.rib().entries_after(None);
    let of_face = |route: &Route| route.face == NEIGHBOUR;
    let listed = entries.flat_map(|entry| entry.routes().map(move |listed| (entry.name().to_string(), listed.route)));
    listed.filter(|(_, route)| of_face(route)).map(|(name, route)| (name, route.cost)).collect()
}

#[test]
fn commands_are_passed_on_and_answered_later() {
    let mut router = Router::new(100);
    let command = |verb: &str, parameters: &ControlParameters| {
        let name = name(&format!("/localhost/nfd/config/{verb}")).join(Component::generic(&parameters.encode()));
        Signer::digest().sign_command(&InterestBuilder::new(name, 7), START.unix_ms).expect("signed")
    };
    let refused = router.send(&command("reload", &ControlParameters::default()), APP).expect("an answer");
    assert_eq!(refused.code, 503, "nobody carries it out");
    let (pass_on, passed_on) = mpsc::channel();
    router.management.on_reload(Box::new(move |request| pass_on.send(request).is_ok()));
    let parameters = ControlParameters { flags: Some(1), ..ControlParameters::default() };
    assert_eq!(router.send(&command("reload", &parameters), APP), None);
    let request = passed_on.try_recv().expect("passed on");
    assert!(matches!(request.wish, ReloadWish::Reload(options) if options.dry_run), "{request:?}");
    let long = ControlResponse::new(409, "\u{e4}".repeat(9000));
    let answer = router.management.reloaded(&request, long).expect("it fits");
    let response = ControlResponse::decode(Data::decode(&answer).expect("Data").content).expect("a response");
    assert!(response.code == 409 && response.text.ends_with("\u{e4}..."), "{}", response.text.len());
    assert_eq!(router.send(&command("confirm", &ControlParameters::default()), APP), None);
    assert_eq!(passed_on.try_recv().expect("passed on").wish, ReloadWish::Confirm);
    let unknown = ControlParameters { flags: Some(64), ..ControlParameters::default() };
    assert_eq!(router.send(&command("reload", &unknown), APP).map(|answer| answer.code), Some(400));
    let refused = router.send(&command("reload", &parameters), NEIGHBOUR).map(|answer| answer.code);
    assert_eq!(refused, Some(403), "not from another host");
    assert!(passed_on.try_recv().is_err());
}

#[test]
fn routes_change_whole_or_not_at_all() {
    let mut router = Router::new(4);
    let first = [route("/a", 1, true), route("/b", 2, true)];
    let undo = router.management.change_routes(&first).expect("room");
    let before = costs(&router);
    assert_eq!(before.len(), 2);
    // The own prefixes take the other two places.
    let more = [route("/a", 9, true), route("/b", 0, false), route("/c", 3, true), route("/d", 4, true)];
    assert_eq!(router.management.change_routes(&more), Err(RibError::Full { routes: 4 }));
    assert_eq!(costs(&router), before);
    let undo_cost = router.management.change_routes(&more[..1]).expect("the same route");
    assert_eq!(costs(&router)[0].1, 9);
    router.management.change_routes(&undo_cost).expect("as it was");
    assert_eq!(costs(&router), before);
    router.management.change_routes(&undo).expect("as it was");
    assert_eq!(costs(&router), []);
}

#[test]
fn strategies_change_whole_or_not_at_all() {
    let mut router = Router::new(4);
    let choices = |router: &Router| {
        let all = router.management.strategies.iter();
        all.map(|(prefix, strategy)| (prefix.clone(), strategy.clone())).collect::<Vec<_>>()
    };
    let before = choices(&router);
    let multicast = Some(name("/localhost/nfd/strategy/multicast"));
    let bad = vec![(name("/a"), multicast.clone()), (name("/b"), Some(name("/none")))];
    assert!(router.management.change_strategies(bad).is_err());
    assert_eq!(choices(&router), before);
    let undo = router.management.change_strategies(vec![(name("/"), multicast.clone()), (name("/a"), multicast)]);
    assert_eq!(choices(&router).len(), before.len() + 1);
    router.management.change_strategies(undo.expect("known strategies")).expect("as it was");
    assert_eq!(choices(&router), before);
}

#[test]
fn the_fib_gets_another_engine_with_the_same_rules_and_limits_hold() {
    let mut router = Router::new(10);
    router.management.change_routes(&[route("/a", 1, true), route("/a/b", 2, true)]).expect("room");
    router.management.commit();
    let key = NameHashKey::new([1, 2]);
    let rules = router.management.fib().len();
    for kind in FibEngineKind::ALL {
        let listed = || router.management.rib().entries_after(None);
        let all: Vec<_> = listed().filter_map(|entry| Some((entry.name().to_name(), entry.group()?))).collect();
        let rebuilt = router.management.fib_mut().rebuild(|_| kind.build(key, 100), all.into_iter());
        rebuilt.expect("it takes them");
        assert_eq!((router.management.fib().len(), router.management.fib().failures()), (rules, 0));
    }
    let limit = |router: &mut Router, routes_max| router.management.rib_mut().limit(routes_max);
    assert_eq!(limit(&mut router, 3), Err(RibError::Full { routes: 4 }));
    assert_eq!(limit(&mut router, 4), Ok(()));
    assert!(router.management.change_routes(&[route("/c", 1, true)]).is_err());
}
