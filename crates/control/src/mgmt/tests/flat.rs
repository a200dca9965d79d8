//! Tests of flat names that change by commands.

use byname_lookup::EntryId;
use byname_wire::{NameView, PrefixHashes};

use super::*;
use crate::fib_writer::flat::{FlatNamespaces, without_table};
use crate::fib_writer::{FibEngine, Names, Place, Replica};
use crate::security::{Module, Rule, TimeWindow, TrustedSigner};

const KEY: NameHashKey = NameHashKey::new([1, 2]);

/// An engine behind the namespace `/o`, in which three names can change.
fn engine() -> FibEngine {
    let namespaces = vec![without_table(&name("/o"), KEY, 3)];
    Box::new(FlatNamespaces::new(Box::new(LongestFirst::new(KEY, 1000)), 0, namespaces).expect("one namespace"))
}

fn rules(router: &Router) -> Vec<(Name, EntryId)> {
    let entries = router.management.rib.entries_after(None);
    entries.filter_map(|entry| Some((entry.name().to_name(), entry.group()?))).collect()
}

fn router(authorizer: Authorizer) -> Router {
    let mut router = Router::with_rights(1000, authorizer);
    let rules = rules(&router);
    router.management.fib.rebuild(|_| Ok(engine()), rules.into_iter()).expect("room");
    router
}

fn flat(uri: &str, label: Option<&str>) -> ControlParameters {
    ControlParameters { label: label.map(name), ..prefix(uri) }
}

/// The faces to which packets of these names go.
fn ways(router: &Router, uris: &[&str]) -> Vec<Option<u64>> {
    let tables = router.management.fib.tables();
    let mut reader = tables.reader();
    reader.begin_burst();
    let way = |uri: &&str| {
        let (asked, mut hashes) = (name(uri), PrefixHashes::default());
        let found = reader.fib().longest_match(&NameView::new(&KEY, asked.as_ref(), &mut hashes))?;
        Some(tables.group(found.entry).expect("set").nexthops[0].face.0)
    };
    let ways = uris.iter().map(way).collect();
    reader.end_burst();
    ways
}

fn listed(router: &mut Router) -> Vec<(String, Option<String>)> {
    let changes: Vec<tlv::FlatChange> = decode_list(&router.dataset("/localhost/nfd/flat/list")).expect("changes");
    changes.into_iter().map(|one| (one.name.to_string(), one.label.map(|label| label.to_string()))).collect()
}

fn route(router: &mut Router, uri: &str, to: FaceId) {
    let parameters = ControlParameters { face_id: Some(to.0), ..prefix(uri) };
    assert_eq!(router.command("rib/register", &parameters).code, 200);
}

#[test]
fn a_flat_name_follows_the_route_of_its_label_at_once() {
    let mut router = router(Authorizer::local_only());
    route(&mut router, "/up", NEIGHBOUR);
    let (app, neighbour) = (Some(APP.0), Some(NEIGHBOUR.0));
    assert_eq!(router.command("flat/set", &flat("/o/a", Some("/up"))).code, 200);
    assert_eq!(router.command("flat/set", &flat("/o/b", Some("/later"))).code, 200);
    assert_eq!(ways(&router, &["/o/a", "/o/a/x", "/o/b", "/o/c"]), [neighbour, neighbour, None, None]);
    // Routes that come, change and go.
    route(&mut router, "/later", APP);
    assert_eq!(ways(&router, &["/o/a", "/o/b/x"]), [neighbour, app]);
    assert_eq!(router.command("rib/unregister", &ControlParameters { face_id: app, ..prefix("/later") }).code, 200);
    route(&mut router, "/o", APP);
    assert_eq!(ways(&router, &["/o/a", "/o/b", "/o"]), [neighbour, app, app]);
    // A name that counts as unknown, and one that is as before.
    assert_eq!(router.command("flat/set", &flat("/o/a", None)).code, 200);
    assert_eq!(ways(&router, &["/o/a"]), [app]);
    assert_eq!(listed(&mut router), [("/o/a".to_owned(), None), ("/o/b".to_owned(), Some("/later".to_owned()))]);
    for _ in 0..2 {
        assert_eq!(router.command("flat/reset", &flat("/o/b", None)).code, 200);
    }
    assert_eq!(listed(&mut router).len(), 1);
}

#[test]
fn a_table_that_takes_the_place_of_another_has_the_changes() {
    let mut router = router(Authorizer::local_only());
    route(&mut router, "/up", NEIGHBOUR);
    assert_eq!(router.command("flat/set", &flat("/o/a", Some("/up"))).code, 200);
    let nodes = router.management.fib.begin_rebuild();
    let mut engines: Vec<Replica<Names>> = nodes.into_iter().map(|node| Replica { engine: engine(), node }).collect();
    let set = rules(&router).into_iter().map(|(name, group)| byname_lookup::Change::Set(name, group));
    crate::fib_writer::fill(&mut engines, set).expect("room");
    // In the meantime, a name and a route change.
    assert_eq!(router.command("flat/set", &flat("/o/b", Some("/late"))).code, 200);
    route(&mut router, "/late", APP);
    router.management.change_new_engines(&engines);
    router.management.fib.finish_rebuild(engines, Place::Instead).expect("room");
    assert_eq!(ways(&router, &["/o/a", "/o/b", "/o/c"]), [Some(NEIGHBOUR.0), Some(APP.0), None]);
    route(&mut router, "/late", NEIGHBOUR);
    assert_eq!(
        router.command("rib/unregister", &ControlParameters { face_id: Some(APP.0), ..prefix("/late") }).code,
        200
    );
    assert_eq!(ways(&router, &["/o/b"]), [Some(NEIGHBOUR.0)]);
}

#[test]
fn changes_outlive_the_process() {
    let mut router = router(Authorizer::local_only());
    assert_eq!(router.command("flat/set", &flat("/o/a", Some("/up"))).code, 200);
    assert_eq!(router.command("flat/set", &flat("/o/b", None)).code, 200);
    let mut told = Vec::new();
    let now = router.now;
    let tell = |snapshot| {
        told.push(snapshot);
        Ok::<(), ()>(())
    };
    router.management.hand_over(now, tell).expect("told");
    let mut next = self::router(Authorizer::local_only());
    route(&mut next, "/up", NEIGHBOUR);
    for snapshot in told {
        let wire = snapshot.encode();
        next.management.take_over(crate::state::records::Snapshot::read(&wire).expect("ours"), now);
    }
    assert_eq!(listed(&mut next), listed(&mut router));
    assert_eq!(ways(&next, &["/o/a"]), [Some(NEIGHBOUR.0)]);
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let mut router = router(Authorizer::local_only());
    for wrong in ["/", "/o", "/o/a/b", "/p/a", "/o/32=a"] {
        assert_eq!(router.command("flat/set", &flat(wrong, Some("/up"))).code, 404, "{wrong}");
    }
    assert_eq!(router.command("flat/set", &ControlParameters::default()).code, 400);
    assert_eq!(router.command("flat/reset", &flat("/o/a", Some("/up"))).code, 400, "a label is of no use");
    for uri in ["/o/a", "/o/b", "/o/c"] {
        assert_eq!(router.command("flat/set", &flat(uri, Some("/up"))).code, 200);
    }
    let refused = router.command("flat/set", &flat("/o/d", None));
    assert_eq!((refused.code, refused.text.contains("make a new table")), (507, true), "{}", refused.text);
    assert_eq!(listed(&mut router).len(), 3);
    assert_eq!(router.command("flat/set", &flat("/o/c", Some("/down"))).code, 200, "it has its place");
}

#[test]
fn a_signer_changes_only_names_and_labels_that_are_his() {
    let modules = vec![Module::Flat];
    let prefixes = Some(vec![name("/o/mine"), name("/up")]);
    let rule = Rule { remote: false, signer: TrustedSigner::Any, modules, prefixes };
    let mut router = router(Authorizer::new(vec![rule], TimeWindow::default()));
    assert_eq!(router.command("flat/set", &flat("/o/mine", Some("/up/1"))).code, 200);
    assert_eq!(router.command("flat/set", &flat("/o/mine", Some("/down"))).code, 403);
    assert_eq!(router.command("flat/set", &flat("/o/other", Some("/up/1"))).code, 403);
    assert_eq!(router.command("flat/set", &flat("/o/other", None)).code, 403);
    assert_eq!(router.command("flat/reset", &flat("/o/other", None)).code, 403);
}
