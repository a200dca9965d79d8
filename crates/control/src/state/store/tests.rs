use byname_wire::Descriptor;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use tempfile::TempDir;

use super::*;
use crate::element::StrategyName;
use crate::state::records::{ContentStoreRecord, FaceRecord, FlatRecord, StrategyRecord, layer, maker};

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

fn advertisement(face: u64, tag: &str) -> AdvertisementRecord {
    AdvertisementRecord { face, descriptor: Descriptor::of([tag]).expect("one tag") }
}

fn told(prefix: &str) -> ToldRecord {
    ToldRecord { destination: "hub".to_owned(), prefix: prefix.parse().expect("a test's own name") }
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
    changes.extend([Change::Advertisement(advertisement(2, "a")), Change::Told(told("/t"))]);
    let flat = FlatRecord { name: "/flat/a".parse().expect("a name"), label: None };
    changes.push(Change::Flat(flat.clone()));
    for part in changes.chunks(5) {
        store.apply(part).expect("written");
    }
    store.close();
    let records = Store::open(&path).expect("a good store").records;
    // Layers come before names in the order of the file.
    routes.sort_by(|a, b| (a.face, a.layer, a.name.value()).cmp(&(b.face, b.layer, b.name.value())));
    let expected = Snapshot {
        version: VERSION,
        faces: vec![face(1), face(2)],
        routes,
        strategies: vec![choice("/s")],
        flat: vec![flat],
        content_store: vec![settings],
        advertisements: vec![advertisement(2, "a")],
        told: vec![told("/t")],
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
    assert!(after.strategies.is_empty() && after.advertisements.is_empty());
    assert_eq!(after.told, [told("/t")]);
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

/// A folder in memory, where that can be had: stores that are opened by the thousand do not wait for a disk.
fn folder_in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// What became of a store.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It was set aside, and a new one has begun.
    SetAside,
    /// All records are there.
    Whole,
    /// It was taken for a new one.
    Empty,
}

/// Opens a store with these bytes, which must succeed in any case, with `expected` or without any records.
fn opens(bytes: &[u8], expected: &Snapshot, what: &str) -> Outcome {
    let folder = folder_in_memory();
    let path = folder.path().join("state.db");
    fs::write(&path, bytes).expect("written");
    let mut opened = Store::open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
    if let Some((aside, why)) = &opened.set_aside {
        assert!(fs::read(aside).expect("set aside") == bytes && !why.is_empty(), "{what}");
    }
    let empty = Snapshot { version: VERSION, ..Snapshot::default() };
    let records = std::mem::take(&mut opened.records);
    opened.store.apply(&[Change::Route(route(5, "/new"))]).expect("it can be written");
    match opened.set_aside {
        _ if records == *expected => Outcome::Whole,
        Some(_) if records == empty => Outcome::SetAside,
        None if records == empty => Outcome::Empty,
        _ => panic!("{what}: {records:?}"),
    }
}

#[test]
fn damaged_stores_are_set_aside_and_never_give_wrong_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, records) = filled(&folder);
    let good = fs::read(&path).expect("a file");
    assert_eq!(opens(&good, &records, "the good one"), Outcome::Whole);
    let mut rng = SmallRng::seed_from_u64(7);
    for len in 1..good.len() {
        // At the end of the file are bytes that no record uses any more.
        let outcome = opens(&good[..len], &records, &format!("{len} bytes"));
        let is_spare = len > good.len() - 100 && outcome == Outcome::Whole;
        assert!(outcome == Outcome::SetAside || is_spare, "{len} bytes: {outcome:?}");
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
        aside += usize::from(opens(&bytes, &records, &format!("round {round}")) == Outcome::SetAside);
    }
    assert!(aside > 50, "{aside}");
    for len in [1, 15, 100, 511, 4096, 50_000] {
        let mut bytes = vec![0; len];
        rng.fill_bytes(&mut bytes);
        assert_eq!(opens(&bytes, &records, "random bytes"), Outcome::SetAside, "{len}");
    }
    assert_eq!(opens(&[], &records, "an empty file"), Outcome::Empty);
}

#[test]
fn a_log_that_is_cut_holds_whole_groups_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.db");
    let mut store = Store::open(&path).expect("a new store").store;
    // Each group replaces both routes by ones of its own cost.
    for cost in 0..8 {
        let both = ["/a", "/b"].map(|name| Change::Route(RouteRecord { cost, ..route(1, name) }));
        store.apply(&both).expect("written");
    }
    let end = usize::try_from(store.log_bytes()).expect("a short log") + 24;
    let files = ["", "-wal", "-log"].map(|suffix| (suffix, fs::read(with_suffix(&path, suffix)).expect("a file")));
    drop(store);
    let crashed_with = |log: &[u8]| {
        let crashed = folder_in_memory();
        let path = crashed.path().join("state.db");
        for (suffix, bytes) in &files {
            fs::write(with_suffix(&path, suffix), if *suffix == "-log" { log } else { bytes }).expect("written");
        }
        (Store::open(&path).expect("a store"), crashed)
    };
    let log = &files[2].1;
    let mut costs_seen = std::collections::BTreeSet::new();
    for len in (0..=end).chain([log.len()]) {
        let (Opened { records, set_aside, .. }, _folder) = crashed_with(&log[..len]);
        assert!(set_aside.is_none(), "{len} bytes of the log: {set_aside:?}");
        match &records.routes[..] {
            [] => assert!(len < 200, "{len} bytes"),
            [a, b] => {
                assert_eq!(a.cost, b.cost, "{len} bytes of the log");
                costs_seen.insert(a.cost);
            }
            routes => panic!("{len} bytes of the log: {routes:?}"),
        }
    }
    assert_eq!(costs_seen.len(), 8);

    // A group in the middle that is not whole is no end, and the store is set aside.
    let mut rng = SmallRng::seed_from_u64(11);
    for _ in 0..30 {
        let mut log = log.clone();
        log[rng.random_range(24..end - 160)] ^= 1 << rng.random_range(0..8);
        let (Opened { records, set_aside, .. }, _folder) = crashed_with(&log);
        let (aside, why) = set_aside.expect("the damage is seen");
        assert!(why.contains("log is damaged") && records.routes.is_empty(), "{why}");
        assert_eq!(fs::read(with_suffix(&aside, "-log")).expect("a file"), log);
    }
}

#[test]
fn a_log_of_another_database_is_left_out_and_that_of_a_later_version_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, records) = filled(&folder);
    let backup = fs::read(&path).expect("a file");
    let mut store = Store::open(&path).expect("a good store").store;
    store.apply(&[Change::ForgetFace(2)]).expect("written");
    store.fold(usize::MAX).expect("folded");
    store.apply(&[Change::ForgetFace(1)]).expect("written");
    drop(store);
    let log = fs::read(with_suffix(&path, LOG_SUFFIX)).expect("a log");
    // Somebody restores the database, and leaves the files beside it.
    let restored = tempfile::tempdir().expect("a folder");
    let restored = restored.path().join("state.db");
    fs::create_dir(restored.parent().expect("a folder")).expect_err("it is there");
    fs::write(&restored, &backup).expect("written");
    fs::write(with_suffix(&restored, LOG_SUFFIX), &log).expect("written");
    assert_eq!(Store::open(&restored).expect("a good store").records, records);

    let mut later = log;
    later[8] = 2;
    fs::write(with_suffix(&path, LOG_SUFFIX), &later).expect("written");
    let error = Store::open(&path).expect_err("a later version");
    assert!(matches!(error, StoreError::Version { version: 2, .. }), "{error}");
    assert_eq!(fs::read(with_suffix(&path, LOG_SUFFIX)).expect("a log"), later);
}

/// A change of few faces, names and prefixes.
fn random_change(rng: &mut SmallRng) -> Change {
    let number = rng.random_range(1..4);
    let one = RouteRecord { cost: rng.random_range(0..9), ..route(number, &format!("/n/{}", rng.random_range(0..6))) };
    let prefix = format!("/s/{}", rng.random_range(0..3));
    let flat: byname_wire::Name = format!("/flat/{}", rng.random_range(0..3)).parse().expect("a name");
    match rng.random_range(0..32) {
        0 => Change::ForgetFace(number),
        1 => Change::Face(FaceRecord { mtu: Some(rng.random_range(0..9)), ..face(number) }),
        2 => Change::Strategy(choice(&prefix)),
        3 => Change::ForgetStrategy(prefix.parse().expect("a name")),
        4 => Change::ContentStore(ContentStoreRecord { admit: Some(rng.random_range(0..9)), ..Default::default() }),
        5 => Change::Advertisement(advertisement(number, ["a", "b"][rng.random_range(0..2)])),
        6 => Change::ForgetAdvertisement(advertisement(number, ["a", "b"][rng.random_range(0..2)])),
        7 => Change::Told(told(&prefix)),
        8 => Change::ForgetTold(told(&prefix)),
        9..13 => Change::ForgetRoute(one),
        13 | 14 => Change::Flat(FlatRecord { name: flat, label: rng.random::<bool>().then(|| one.name.clone()) }),
        15 => Change::ForgetFlat(flat),
        _ => Change::Route(one),
    }
}

#[test]
fn log_and_database_together_are_as_the_changes_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.db");
    let mut rng = SmallRng::seed_from_u64(5);
    let mut expected = Snapshot { version: VERSION, ..Snapshot::default() };
    let mut store = Store::open(&path).expect("a new store").store;
    for round in 0..150 {
        let changes: Vec<Change> = (0..rng.random_range(1..9)).map(|_| random_change(&mut rng)).collect();
        store.apply(&changes).expect("written");
        for change in changes {
            model(&mut expected, change);
        }
        match rng.random_range(0..8) {
            0 => store.fold(rng.random_range(1..20)).expect("folded"),
            1 => store.fold(usize::MAX).expect("folded"),
            end @ (2 | 3) => {
                if end == 2 {
                    store.close()
                } else {
                    drop(store)
                }
                let opened = Store::open(&path).expect("a good store");
                assert_eq!(opened.records, expected, "round {round}");
                store = opened.store;
            }
            _ => {}
        }
    }
}

/// Makes a change in the simplest way.
fn model(records: &mut Snapshot, change: Change) {
    let key = |route: &RouteRecord| (route.face, route.layer, route.origin, route.name.clone());
    match change {
        Change::Face(face) => {
            records.faces.retain(|other| other.number != face.number);
            records.faces.push(face);
        }
        Change::ForgetFace(number) => {
            records.faces.retain(|face| face.number != number);
            records.routes.retain(|route| route.face != number);
            records.advertisements.retain(|one| one.face != number);
        }
        Change::Route(route) => {
            records.routes.retain(|other| key(other) != key(&route));
            records.routes.push(route);
        }
        Change::ForgetRoute(route) => records.routes.retain(|other| key(other) != key(&route)),
        Change::Strategy(choice) => {
            records.strategies.retain(|other| other.prefix != choice.prefix);
            records.strategies.push(choice);
        }
        Change::ForgetStrategy(prefix) => records.strategies.retain(|choice| choice.prefix != prefix),
        Change::ContentStore(settings) => records.content_store = vec![settings],
        Change::Advertisement(one) => {
            records.advertisements.retain(|other| *other != one);
            records.advertisements.push(one);
        }
        Change::ForgetAdvertisement(one) => records.advertisements.retain(|other| *other != one),
        Change::Told(one) => {
            records.told.retain(|other| *other != one);
            records.told.push(one);
        }
        Change::ForgetTold(one) => records.told.retain(|other| *other != one),
        Change::Flat(one) => {
            records.flat.retain(|other| other.name != one.name);
            records.flat.push(one);
        }
        Change::ForgetFlat(name) => records.flat.retain(|one| one.name != name),
    }
    records.advertisements.sort_by_key(|one| (one.face, one.descriptor.clone()));
    records.told.sort_by_key(|one| one.prefix.clone());
    records.faces.sort_by_key(|face| face.number);
    records.routes.sort_by_key(key);
    records.strategies.sort_by_key(|choice| choice.prefix.clone());
    records.flat.sort_by_key(|one| one.name.clone());
}
