//! Tests of faces that are not used for a while.

use std::ops::ControlFlow;

use byname_lookup::EntryId;
use byname_lookup::file::Opening;
use byname_lookup::locator::Trees;
use byname_lookup::tagset::TagQuery;
use byname_lookup::tagset::rare_tag::{BulkTagLoader, Options};
use byname_wire::{Descriptor, TreeId};

use super::*;
use crate::tags::OwnTree;
use crate::tags::bulk;

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

#[test]
fn sets_of_tags_in_a_file_follow_their_labels_past_a_dead_neighbour() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.tags");
    let set = Descriptor::of(["a"]).expect("one tag");
    let mut loader = BulkTagLoader::new(1);
    loader.push(&set, EntryId(0)).expect("room");
    loader.save(&path, &[b"/up/1"[..].into()]).expect("a new file");

    let mut router = Router::new(100);
    router.management.face_event(&FaceEvent::Created(face(OTHER, Scope::NonLocal)));
    let alone = OwnTree { id: TreeId(1), label: None, neighbors: Vec::new(), generation: None };
    router.management.join_trees(Trees::new(), vec![alone]);
    let register = |router: &mut Router, to: FaceId, cost: u64| {
        let parameters = ControlParameters { origin: Some(255), cost: Some(cost), name: Some(name("/up/1")), ..by(to) };
        assert_eq!(router.command("rib/register", &parameters).code, 200);
    };
    let ways = |router: &Router| {
        let tables = router.management.fib.tables();
        let (mut reader, mut faces) = (tables.reader(), Vec::new());
        reader.begin_burst();
        reader.tag_fib().all_subsets(&TagQuery::of_tags(set.tags()), &mut |entry| {
            let group = reader.tag_group(entry).expect("set");
            faces.extend(group.nexthops.iter().map(|nexthop| nexthop.face));
            ControlFlow::Continue(())
        });
        reader.end_burst();
        faces
    };
    register(&mut router, NEIGHBOUR, 1);
    let fib = bulk::open(&path, Opening::default(), 2, &Options::default()).expect("ours");
    router.management.rebuild_tag_fib(fib).expect("room");
    assert_eq!(ways(&router), [NEIGHBOUR]);
    register(&mut router, OTHER, 2);
    assert_eq!(ways(&router), [NEIGHBOUR, OTHER]);
    assert_eq!(router.command("rib/suspend", &by(NEIGHBOUR)).code, 200);
    assert_eq!(ways(&router), [OTHER]);
    assert_eq!(router.command("rib/resume", &by(NEIGHBOUR)).code, 200);
    assert_eq!(ways(&router), [NEIGHBOUR, OTHER]);
    router.management.face_event(&FaceEvent::Destroyed(face(OTHER, Scope::NonLocal)));
    router.advance(0);
    assert_eq!(ways(&router), [NEIGHBOUR]);
    let parameters = ControlParameters { origin: Some(255), name: Some(name("/up/1")), ..by(NEIGHBOUR) };
    assert_eq!(router.command("rib/unregister", &parameters).code, 200);
    assert_eq!(ways(&router), []);
}
