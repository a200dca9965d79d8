use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use tempfile::TempDir;

use super::*;
use crate::element::StrategyName;
use crate::state::records::{layer, maker};

fn route(face: u64, name: &str) -> RouteRecord {
    RouteRecord {
        name: name.parse().expect("a test's own name"),
        face,
        origin: 255,
        cost: 7,
        flags: u64::MAX,
        expires_unix_ms: Some(1_795_000_000_000),
        ..RouteRecord::default()
    }
}

fn face(number: u64) -> FaceRecord {
    let remote = format!("udp4://192.0.2.{number}:6363");
    FaceRecord { number, maker: maker::COMMAND, remote, persistency: 2, ..FaceRecord::default() }
}

fn choice(prefix: &str) -> StrategyRecord {
    let name = "/localhost/nfd/strategy/multicast/v=5".parse().expect("a literal name");
    StrategyRecord { prefix: prefix.parse().expect("a test's own name"), strategy: StrategyName(name) }
}

/// A store with two faces, some routes, a choice and settings.
fn filled(folder: &TempDir) -> (PathBuf, Snapshot) {
    let path = folder.path().join("inside/state.db");
    let mut store = Store::open(&path).expect("a new store").store;
    let nexthop = RouteRecord { layer: layer::FIB, expires_unix_ms: None, ..route(1, "/a") };
    let mut routes = vec![route(1, "/"), route(1, "/a"), nexthop, route(2, "/b")];
    routes.extend((0..50).map(|n| route(2, &format!("/long/name/of/a/route/{n:02}"))));
    let settings = ContentStoreRecord { capacity_packets: Some(9), admit: Some(1), serve: None };
    let mut changes: Vec<Change> = [1, 2].map(|number| Change::Face(face(number))).into();
    changes.extend(routes.iter().cloned().map(Change::Route));
    changes.extend([Change::Strategy(choice("/s")), Change::ContentStore(settings.clone())]);
    for part in changes.chunks(5) {
        store.apply(part).expect("written");
    }
    drop(store);
    let records = Store::open(&path).expect("a good store").records;
    // Layers come before names in the order of the file.
    routes.sort_by(|a, b| (a.face, a.layer, a.name.value()).cmp(&(b.face, b.layer, b.name.value())));
    let expected = Snapshot {
        version: VERSION,
        faces: vec![face(1), face(2)],
        routes,
        strategies: vec![choice("/s")],
        content_store: vec![settings],
    };
    assert_eq!(records, expected);
    (path, records)
}

#[test]
fn records_come_back_and_forgotten_ones_do_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, before) = filled(&folder);
    let mut store = Store::open(&path).expect("a good store").store;
    let cheaper = RouteRecord { cost: 1, expires_unix_ms: None, ..route(1, "/a") };
    let changes = [
        Change::ForgetFace(2),
        Change::ForgetRoute(route(1, "/")),
        Change::ForgetRoute(route(1, "/unknown")),
        Change::Route(cheaper.clone()),
        Change::ForgetStrategy("/s".parse().expect("a name")),
        Change::ContentStore(ContentStoreRecord::default()),
    ];
    store.apply(&changes).expect("written");
    drop(store);
    let after = Store::open(&path).expect("a good store").records;
    assert_eq!(after.faces, [face(1)]);
    let nexthop = before.routes.into_iter().find(|route| route.layer == layer::FIB).expect("one");
    assert_eq!(after.routes, [cheaper, nexthop]);
    assert!(after.strategies.is_empty());
    assert_eq!(after.content_store, [ContentStoreRecord::default()]);
}

#[test]
fn a_second_router_is_refused_until_the_first_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, records) = filled(&folder);
    let first = Store::open(&path).expect("a good store");
    let error = Store::open(&path).expect_err("in use");
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(first);
    assert_eq!(Store::open(&path).expect("free again").records, records);
}

#[test]
fn a_later_version_and_another_program_s_file_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = filled(&folder);
    let raw = Connection::open(&path).expect("opened");
    raw.pragma_update(None, "user_version", 2).expect("written");
    drop(raw);
    let before = fs::read(&path).expect("a file");
    let error = Store::open(&path).expect_err("a later version");
    assert!(matches!(error, StoreError::Version { version: 2, .. }), "{error}");
    assert_eq!(fs::read(&path).expect("a file"), before);

    let others = folder.path().join("others.db");
    Connection::open(&others).expect("new").execute_batch("CREATE TABLE t (a)").expect("written");
    let error = Store::open(&others).expect_err("not ours");
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    let error = Store::open(folder.path()).expect_err("a folder");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
}

/// Whether a store with these bytes was set aside. It must open in any case, with `expected` or without any records.
fn opens(bytes: &[u8], expected: &Snapshot, what: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.db");
    fs::write(&path, bytes).expect("written");
    let mut opened = Store::open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
    if let Some((aside, why)) = &opened.set_aside {
        assert!(fs::read(aside).expect("set aside") == bytes && !why.is_empty(), "{what}");
    }
    let empty = Snapshot { version: VERSION, ..Snapshot::default() };
    let records = std::mem::take(&mut opened.records);
    assert!(records == *expected || records == empty, "{what}: {records:?}");
    opened.store.apply(&[Change::Route(route(5, "/new"))]).expect("it can be written");
    opened.set_aside.is_some()
}

#[test]
fn damaged_stores_are_set_aside_and_never_give_wrong_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, records) = filled(&folder);
    let good = fs::read(&path).expect("a file");
    assert!(!opens(&good, &records, "the good one"));
    let mut rng = SmallRng::seed_from_u64(7);
    for len in (1..good.len()).step_by(131) {
        assert!(opens(&good[..len], &records, &format!("{len} bytes")), "{len} bytes");
    }
    let mut aside = 0;
    for round in 0..200 {
        let mut bytes = good.clone();
        if round % 2 == 0 {
            let at = rng.random_range(0..bytes.len());
            let end = (at + rng.random_range(1..2_000)).min(bytes.len());
            rng.fill_bytes(&mut bytes[at..end]);
        } else {
            // Byte 18 and 19 of a database say which versions may write and read it: others leave it alone.
            let at = rng.random_range(100..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        aside += usize::from(opens(&bytes, &records, &format!("round {round}")));
    }
    assert!(aside > 50, "{aside}");
    for len in [1, 15, 100, 511, 4096, 50_000] {
        let mut bytes = vec![0; len];
        rng.fill_bytes(&mut bytes);
        assert!(opens(&bytes, &records, "random bytes"), "{len}");
    }
    assert!(!opens(&[], &records, "an empty file"));
}

#[test]
fn a_log_of_changes_that_is_cut_holds_whole_commits_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.db");
    let mut store = Store::open(&path).expect("a new store").store;
    // Each commit replaces both routes by ones of its own cost.
    for cost in 0..8 {
        let both = ["/a", "/b"].map(|name| Change::Route(RouteRecord { cost, ..route(1, name) }));
        store.apply(&both).expect("written");
    }
    let (base, log) = (fs::read(&path).expect("a file"), fs::read(folder.path().join("state.db-wal")).expect("a log"));
    drop(store);
    let mut costs_seen = std::collections::BTreeSet::new();
    for len in (0..=log.len()).step_by(997) {
        let crashed = tempfile::tempdir().expect("a folder");
        let path = crashed.path().join("state.db");
        fs::write(&path, &base).expect("written");
        fs::write(crashed.path().join("state.db-wal"), &log[..len]).expect("written");
        let routes = Store::open(&path).expect("a store").records.routes;
        match &routes[..] {
            [] => {}
            [a, b] => {
                assert_eq!(a.cost, b.cost, "{len} bytes of the log");
                costs_seen.insert(a.cost);
            }
            _ => panic!("{len} bytes of the log: {routes:?}"),
        }
    }
    assert!(costs_seen.len() > 5, "{costs_seen:?}");
}
