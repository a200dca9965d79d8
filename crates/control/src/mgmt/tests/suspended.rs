//! Tests of faces that are not used for a while.

use super::*;

const OTHER: FaceId = FaceId(302);

fn by(face: FaceId) -> ControlParameters {
    ControlParameters { face_id: Some(face.0), ..ControlParameters::default() }
}

/// Faces that workers use for a name.
fn used(router: &Router, uri: &str) -> Vec<u64> {
    let (rib, fib) = (&router.management.rib, &router.management.fib);
    let name = name(uri);
    let entry = rib.entries_after(None).find(|entry| entry.name() == name.as_ref()).expect("it has routes");
    let group = fib.tables().group(entry.group().expect("a rule")).expect("set");
    group.nexthops.iter().map(|nexthop| nexthop.face.0).collect()
}

#[test]
fn one_command_leads_all_prefixes_past_a_dead_neighbour() {
    let mut router = Router::new(200_000);
    router.management.face_event(&FaceEvent::Created(face(OTHER, Scope::NonLocal)));
    let register = |router: &mut Router, i: usize, to: FaceId, cost: u64| {
        let parameters = ControlParameters { origin: Some(128), cost: Some(cost), ..by(to) };
        let parameters = ControlParameters { name: Some(name(&format!("/app/{i}"))), ..parameters };
        assert_eq!(router.command("rib/register", &parameters).code, 200);
    };
    for i in 0..2_000 {
        register(&mut router, i, NEIGHBOUR, 1);
        register(&mut router, i, OTHER, 2);
    }
    assert_eq!(used(&router, "/app/7"), [NEIGHBOUR.0, OTHER.0]);
    let response = router.command("rib/suspend", &by(NEIGHBOUR));
    let parameters = response.parameters().expect("a body");
    assert_eq!((response.code, parameters.count), (200, Some(1)), "one group for all");
    assert_eq!(parameters.expiration_period_ms, Some(60_000));
    for i in [0, 7, 1_999] {
        assert_eq!(used(&router, &format!("/app/{i}")), [OTHER.0]);
    }
    assert_eq!(router.routes().len(), 2_000, "the routes are as before");
    assert_eq!(router.command("rib/resume", &by(NEIGHBOUR)).parameters().expect("a body").count, Some(1));
    assert_eq!(used(&router, "/app/7"), [NEIGHBOUR.0, OTHER.0]);

    let short = ControlParameters { expiration_period_ms: Some(100), ..by(NEIGHBOUR) };
    assert_eq!(router.command("rib/suspend", &short).code, 200);
    router.advance(99);
    assert_eq!(used(&router, "/app/7"), [OTHER.0]);
    router.advance(1);
    assert_eq!(used(&router, "/app/7"), [NEIGHBOUR.0, OTHER.0]);
}

#[test]
fn who_may_not_change_all_routes_suspends_no_face() {
    let mut router = Router::new(100);
    assert_eq!(router.command("rib/suspend", &by(FaceId(999))).code, 410);
    assert_eq!(router.command("rib/suspend", &by(FaceId(0))).code, 400);
    assert_eq!(router.command("rib/suspend", &by(FaceId::INTERNAL)).code, 403);
    assert_eq!(router.command("rib/suspend", &ControlParameters::default()).code, 400);
    assert_eq!(router.command("rib/resume", &by(FaceId(999))).code, 200, "it is not suspended");
    let command = router.signed(name("/localhop/nfd/rib/suspend").join(Component::generic(&by(APP).encode())));
    assert_eq!(router.send(&command, NEIGHBOUR).map(|response| response.code), Some(403));
}
