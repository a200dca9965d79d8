use std::collections::BTreeMap;
use std::sync::Arc;

use byname_forward::FaceId;
use byname_forward::tables::Tables;
use byname_lookup::Control;
use byname_lookup::oracle::Oracle;
use byname_wire::{Name, NameHashKey, NameView, PrefixHashes};
use proptest::prelude::*;

use super::{Returning, Rib, RibError, Route};
use crate::fib_writer::FibWriter;

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

fn fib() -> FibWriter {
    let engine = Oracle::new();
    let tables = Arc::new(Tables::new(engine.query()));
    FibWriter::new(Box::new(engine), tables)
}

fn route(face: u64, cost: u64, flags: u64) -> Route {
    Route { face: FaceId(face), origin: 0, cost, flags, expires_at_ms: None }
}

/// Faces and costs that the FIB has for exactly this name.
fn rule(fib: &FibWriter, name: &Name) -> Vec<(u64, u64)> {
    let mut hashes = PrefixHashes::default();
    let view = NameView::new(&NameHashKey::new([0; 2]), name.as_ref(), &mut hashes);
    let found = fib.tables().fib().longest_match(&view).filter(|found| found.depth == view.len());
    let group = found.map(|found| fib.tables().group(found.entry).expect("a rule's group is set"));
    group.map_or(Vec::new(), |group| group.nexthops.iter().map(|n| (n.face.0, n.cost)).collect())
}

/// Name, face, origin, and whether the route is a nexthop without a RIB route.
type SlowKey = (Name, u64, u64, bool);
/// Cost, flags and deadline.
type SlowValue = (u64, u64, Option<u64>);

/// A slow RIB by the rules of NFD's developer guide. It computes every answer from scratch.
#[derive(Default, Clone)]
struct SlowRib {
    routes: BTreeMap<SlowKey, SlowValue>,
}

impl SlowRib {
    fn nexthops(&self, name: &Name) -> Vec<(u64, u64)> {
        let at = |prefix: &Name, past: bool| {
            let of = |((n, f, _, p), (c, fl, _)): (&SlowKey, &SlowValue)| {
                (n == prefix && *p == past).then_some((*f, *c, *fl))
            };
            self.routes.iter().filter_map(of).collect::<Vec<_>>()
        };
        let mut costs: BTreeMap<u64, u64> = BTreeMap::new();
        for (face, cost, _) in at(name, false) {
            let known = costs.entry(face).or_insert(cost);
            *known = (*known).min(cost);
        }
        if !costs.is_empty() && !at(name, false).iter().any(|r| r.2 & 2 != 0) {
            for depth in (0..name.as_ref().len()).rev() {
                let above = at(&name.as_ref().prefix(depth).to_name(), false);
                let mut inherited: BTreeMap<u64, u64> = BTreeMap::new();
                for &(face, cost, _) in above.iter().filter(|r| r.2 & 1 != 0) {
                    let known = inherited.entry(face).or_insert(cost);
                    *known = (*known).min(cost);
                }
                for (face, cost) in inherited {
                    costs.entry(face).or_insert(cost);
                }
                if above.iter().any(|r| r.2 & 2 != 0) {
                    break;
                }
            }
        }
        costs.extend(at(name, true).into_iter().map(|(face, cost, _)| (face, cost)));
        let mut nexthops: Vec<_> = costs.into_iter().collect();
        nexthops.sort_by_key(|&(face, cost)| (cost, face));
        nexthops
    }
}

#[derive(Debug, Clone)]
enum Op {
    Register { name: usize, face: u64, origin: u64, cost: u64, flags: u64, expires_at_ms: Option<u64> },
    Unregister { name: usize, face: u64, origin: u64 },
    AddNexthop { name: usize, face: u64, cost: u64 },
    RemoveNexthop { name: usize, face: u64 },
    FaceDown { face: u64 },
    Expire { now_ms: u64 },
}

const NAMES: [&str; 12] =
    ["/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/d", "/a/c", "/a/bb", "/b", "/b/a", "/b/a/a", "/a/b/c/d/e"];

fn op() -> impl Strategy<Value = Op> {
    let (name, face, origin, cost) = (0..NAMES.len(), 256..260u64, 0..2u64, 0..4u64);
    prop_oneof![
        8 => (name.clone(), face.clone(), origin.clone(), cost.clone(), 0..4u64, proptest::option::of(0..50u64))
            .prop_map(|(name, face, origin, cost, flags, expires_at_ms)| {
                Op::Register { name, face, origin, cost, flags, expires_at_ms }
            }),
        4 => (name.clone(), face.clone(), origin).prop_map(|(name, face, origin)| Op::Unregister { name, face, origin }),
        2 => (name.clone(), face.clone(), cost).prop_map(|(name, face, cost)| Op::AddNexthop { name, face, cost }),
        1 => (name, face.clone()).prop_map(|(name, face)| Op::RemoveNexthop { name, face }),
        1 => face.prop_map(|face| Op::FaceDown { face }),
        1 => (0..50u64).prop_map(|now_ms| Op::Expire { now_ms }),
    ]
}

fn apply(op: &Op, rib: &mut Rib, fib: &mut FibWriter, slow: &mut SlowRib) {
    match *op {
        Op::Register { name: i, face, origin, cost, flags, expires_at_ms } => {
            let route = Route { face: FaceId(face), origin, cost, flags, expires_at_ms };
            rib.register(fib, name(NAMES[i]).as_ref(), &route).expect("there is room");
            slow.routes.insert((name(NAMES[i]), face, origin, false), (cost, flags, expires_at_ms));
        }
        Op::Unregister { name: i, face, origin } => {
            let was = rib.unregister(fib, name(NAMES[i]).as_ref(), FaceId(face), origin);
            assert_eq!(was, slow.routes.remove(&(name(NAMES[i]), face, origin, false)).is_some());
        }
        Op::AddNexthop { name: i, face, cost } => {
            rib.add_nexthop(fib, name(NAMES[i]).as_ref(), FaceId(face), cost).expect("there is room");
            slow.routes.insert((name(NAMES[i]), face, 0, true), (cost, 0, None));
        }
        Op::RemoveNexthop { name: i, face } => {
            let was = rib.remove_nexthop(fib, name(NAMES[i]).as_ref(), FaceId(face));
            assert_eq!(was, slow.routes.remove(&(name(NAMES[i]), face, 0, true)).is_some());
        }
        Op::FaceDown { face } => {
            rib.remove_face(fib, FaceId(face));
            slow.routes.retain(|(_, f, _, _), _| *f != face);
        }
        Op::Expire { now_ms } => {
            rib.expire(fib, now_ms, usize::MAX);
            slow.routes.retain(|_, (_, _, at)| at.is_none_or(|at| at > now_ms));
        }
    }
}

proptest! {
    #[test]
    fn many_routes_at_once_are_added_as_one_by_one(
        ops in proptest::collection::vec(op(), 0..20),
        routes in proptest::collection::vec((op(), any::<bool>()), 0..40),
    ) {
        let (mut together, mut singly) = ((Rib::new(1000), fib()), (Rib::new(1000), fib()));
        for (rib, fib) in [&mut together, &mut singly] {
            let mut slow = SlowRib::default();
            ops.iter().for_each(|op| apply(op, rib, fib, &mut slow));
        }
        let returning = |(op, is_stale): &(Op, bool)| match *op {
            Op::Register { name: i, face, origin, cost, flags, expires_at_ms } => {
                let route = Route { face: FaceId(face), origin, cost, flags, expires_at_ms };
                Some(Returning { name: name(NAMES[i]), route, is_nexthop: false, is_stale: *is_stale })
            }
            Op::AddNexthop { name: i, face, cost } => {
                Some(Returning { name: name(NAMES[i]), route: route(face, cost, 0), is_nexthop: true, is_stale: true })
            }
            // One that is refused.
            Op::FaceDown { face } => {
                let route = route(face - 256, 0, 0);
                Some(Returning { name: name("/a/b"), route, is_nexthop: false, is_stale: false })
            }
            _ => None,
        };
        let routes: Vec<Returning> = routes.iter().filter_map(returning).collect();
        let mut refused = together.0.load(&mut together.1, routes.clone());
        let is_refused = |one: &Returning| {
            let kind = (one.is_nexthop, one.is_stale);
            !singly.0.restore(&mut singly.1, one.name.as_ref(), &one.route, kind).is_ok_and(|added| added)
        };
        let mut expected: Vec<Returning> = routes.into_iter().filter(is_refused).collect();
        // Those of one name are in their order.
        refused.sort_by(|a, b| a.name.value().cmp(b.name.value()));
        expected.sort_by(|a, b| a.name.value().cmp(b.name.value()));
        prop_assert_eq!(refused, expected);
        together.1.commit();
        singly.1.commit();
        for uri in NAMES {
            prop_assert_eq!(rule(&together.1, &name(uri)), rule(&singly.1, &name(uri)), "{}", uri);
        }
        let state = |rib: &Rib| {
            let mut routes: Vec<_> = (256..260).flat_map(|face| rib.routes_of(FaceId(face))).collect();
            routes.sort_by_key(|entry| (entry.name.clone(), entry.route.face, entry.route.origin, entry.is_nexthop));
            (routes, rib.stored, rib.len(), rib.expiring, rib.depths, rib.next_deadline_ms())
        };
        prop_assert_eq!(state(&together.0), state(&singly.0));
        let (mut rib, mut fib) = together;
        (256..260).for_each(|face| rib.remove_face(&mut fib, FaceId(face)));
        fib.commit();
        prop_assert!(rib.entries.is_empty() && rib.faces.is_empty() && fib.is_empty() && rib.stored == 0);
    }

    #[test]
    fn the_fib_is_what_the_routes_say(ops in proptest::collection::vec(op(), 1..80)) {
        let (mut rib, mut fib, mut slow) = (Rib::new(1000), fib(), SlowRib::default());
        for op in &ops {
            apply(op, &mut rib, &mut fib, &mut slow);
            fib.commit();
            for uri in NAMES {
                let name = name(uri);
                prop_assert_eq!(rule(&fib, &name), slow.nexthops(&name), "{} after {:?}", uri, op);
            }
            let listed: Vec<_> = rib.entries_after(None).flat_map(|e| {
                let name = e.name().to_name();
                e.routes().map(move |r| (name.clone(), r.route.face.0, r.route.origin)).collect::<Vec<_>>()
            }).collect();
            let mut expected: Vec<_> = slow.routes.keys().filter(|k| !k.3).map(|k| (k.0.clone(), k.1, k.2)).collect();
            expected.sort_by(|a, b| a.0.value().cmp(b.0.value()));
            prop_assert_eq!(listed.len(), rib.len());
            let sorted = |mut list: Vec<(Name, u64, u64)>| { list.sort(); list };
            prop_assert_eq!(sorted(listed), sorted(expected));
        }
        // After all removals, nothing is left.
        for face in 256..260 {
            rib.remove_face(&mut fib, FaceId(face));
        }
        fib.commit();
        prop_assert!(rib.is_empty() && rib.entries.is_empty() && rib.faces.is_empty() && fib.is_empty());
        prop_assert_eq!(rib.expiring, 0);
        prop_assert_eq!(rib.stored, 0);
        prop_assert!(rib.depths.iter().all(|&d| d == 0));
        prop_assert_eq!(fib.failures(), 0);
    }
}

#[test]
fn children_inherit_unless_something_captures() {
    let (mut rib, mut fib) = (Rib::new(100), fib());
    let mut set = |fib: &mut FibWriter, uri: &str, r: Route| rib.register(fib, name(uri).as_ref(), &r).expect("room");
    set(&mut fib, "/a", route(256, 10, 1));
    set(&mut fib, "/a/b", route(257, 5, 0));
    set(&mut fib, "/a/b/c", route(258, 1, 1));
    fib.commit();
    assert_eq!(rule(&fib, &name("/a/b")), [(257, 5), (256, 10)]);
    assert_eq!(rule(&fib, &name("/a/b/c")), [(258, 1), (256, 10)]);
    set(&mut fib, "/a/b", route(257, 5, 3));
    fib.commit();
    assert_eq!(rule(&fib, &name("/a/b")), [(257, 5)]);
    assert_eq!(rule(&fib, &name("/a/b/c")), [(258, 1), (257, 5)]);
}

#[test]
fn a_face_with_many_routes_is_cut_off_at_once_and_cleared_in_steps() {
    let (mut rib, mut fib) = (Rib::new(100_000), fib());
    let names: Vec<Name> = (0..5_000).map(|i| name(&format!("/site/{i}"))).collect();
    for n in &names {
        rib.register(&mut fib, n.as_ref(), &route(256, 1, 1)).expect("room");
    }
    rib.register(&mut fib, names[7].as_ref(), &route(257, 2, 1)).expect("room");
    fib.commit();
    rib.remove_face(&mut fib, FaceId(256));
    assert_eq!(rule(&fib, &names[7]), [(257, 2)]);
    assert_eq!(rule(&fib, &names[8]), []);
    assert!(rib.len() > 1);
    let mut steps = 1;
    while rib.search_step(&mut fib) {
        steps += 1;
    }
    fib.commit();
    assert!(steps > 2);
    assert_eq!((rib.len(), fib.len()), (1, 1));
    assert_eq!(rule(&fib, &names[7]), [(257, 2)]);
}

#[test]
fn limits() {
    let (mut rib, mut fib) = (Rib::new(2), fib());
    let deep: Name = name(&"/x".repeat(33));
    assert_eq!(rib.register(&mut fib, deep.as_ref(), &route(256, 0, 1)), Err(RibError::TooDeep));
    rib.register(&mut fib, deep.as_ref().prefix(32), &route(256, 0, 1)).expect("32 are allowed");
    rib.register(&mut fib, name("/a").as_ref(), &route(256, 0, 1)).expect("room");
    assert_eq!(rib.register(&mut fib, name("/b").as_ref(), &route(256, 0, 1)), Err(RibError::Full { routes: 2 }));
    assert_eq!(rib.register(&mut fib, name("/a").as_ref(), &route(257, 0, 1)), Err(RibError::Full { routes: 2 }));
    rib.register(&mut fib, name("/a").as_ref(), &route(256, 9, 1)).expect("a replacement needs no room");
    fib.commit();
    assert_eq!(rule(&fib, &name("/a")), [(256, 9)]);
}

#[test]
fn refreshed_routes_do_not_pile_up_deadlines() {
    let (mut rib, mut fib) = (Rib::new(100), fib());
    for i in 0..10_000 {
        let r = Route { expires_at_ms: Some(1_000 + i), ..route(256, 0, 1) };
        rib.register(&mut fib, name("/a").as_ref(), &r).expect("room");
    }
    assert!(rib.deadlines.len() <= 1_100);
    rib.expire(&mut fib, 10_998, usize::MAX);
    assert_eq!(rib.len(), 1);
    rib.expire(&mut fib, 10_999, usize::MAX);
    assert_eq!((rib.len(), rib.next_deadline_ms()), (0, None));
}

#[test]
fn stale_routes_work_until_their_time_and_confirmed_ones_stay() {
    let (mut rib, mut fib) = (Rib::new(10_000), fib());
    rib.register(&mut fib, name("/mine").as_ref(), &route(256, 1, 1)).expect("room");
    assert_eq!(rib.restore(&mut fib, name("/mine").as_ref(), &route(256, 2, 1), (false, true)), Ok(false));
    let names: Vec<Name> = (0..5_000).map(|n| name(&format!("/r/{n}"))).collect();
    for name in &names {
        assert_eq!(rib.restore(&mut fib, name.as_ref(), &route(256, 3, 1), (false, true)), Ok(true));
    }
    rib.restore(&mut fib, name("/hop").as_ref(), &route(256, 4, 0), (true, true)).expect("room");
    rib.restore(&mut fib, name("/lasting").as_ref(), &route(256, 4, 0), (false, false)).expect("room");
    let own = rib.restore(&mut fib, name("/own").as_ref(), &route(1, 4, 0), (false, false));
    assert_eq!(own, Err(RibError::ReservedFace { face: FaceId(1) }));
    rib.remove_stale_at(100);
    fib.commit();
    assert_eq!(rule(&fib, &names[7]), [(256, 3)]);
    let listed = |rib: &Rib| {
        let stale = |e: super::RibEntryRef<'_>| e.routes().filter(|r| r.is_stale).map(|r| r.route.expires_at_ms).next();
        rib.entries_after(None).filter_map(stale).collect::<Vec<_>>()
    };
    assert_eq!(listed(&rib), vec![Some(100); 5_000]);
    rib.keep_journal(true);
    for name in &names[..2_500] {
        rib.register(&mut fib, name.as_ref(), &route(256, 3, 1)).expect("there already");
    }
    assert!(rib.take_journal().len() == 2_500 && listed(&rib).len() == 2_500);
    rib.expire(&mut fib, 99, usize::MAX);
    assert!(!rib.search_step(&mut fib) && rib.len() == 5_002 && rib.next_deadline_ms() == Some(100));
    rib.expire(&mut fib, 100, usize::MAX);
    while rib.search_step(&mut fib) {}
    fib.commit();
    assert_eq!((rib.len(), rib.next_deadline_ms()), (2_502, None));
    assert!(rule(&fib, &name("/hop")).is_empty() && rule(&fib, &names[4_000]).is_empty());
    assert_eq!(rule(&fib, &names[7]), [(256, 3)]);
    let journal = rib.take_journal();
    assert!(journal.len() == 2_501 && journal.iter().all(|entry| entry.is_removed), "{}", journal.len());
    assert_eq!(rib.routes_of(FaceId(256)).len(), 2_502);
}

#[test]
fn the_journal_leaves_out_what_is_unrecorded() {
    let (mut rib, mut fib) = (Rib::new(100), fib());
    rib.keep_journal(true);
    rib.register(&mut fib, name("/command").as_ref(), &route(256, 0, 1)).expect("room");
    rib.unrecorded(|rib| rib.register(&mut fib, name("/file").as_ref(), &route(256, 0, 1))).expect("room");
    rib.register(&mut fib, name("/command/2").as_ref(), &route(256, 0, 1)).expect("room");
    assert_eq!(rib.take_journal().len(), 2);
}

#[test]
fn observed_routes_make_events() {
    let (mut rib, mut fib) = (Rib::new(100), fib());
    rib.observe(Some(65), name("/daemon"));
    let mut client = route(256, 0, 1);
    rib.register(&mut fib, name("/other").as_ref(), &client).expect("room");
    rib.register(&mut fib, name("/daemon").as_ref(), &client).expect("room");
    client.origin = 65;
    rib.register(&mut fib, name("/app").as_ref(), &client).expect("room");
    rib.register(&mut fib, name("/app").as_ref(), &client).expect("room");
    rib.remove_face(&mut fib, FaceId(256));
    let events: Vec<_> =
        rib.take_events().into_iter().map(|e| (e.name.as_ref().to_string(), e.origin, e.added)).collect();
    let event = |name: &str, origin, added| (name.to_owned(), origin, added);
    let (daemon, app) = (|added| event("/daemon", 0, added), |added| event("/app", 65, added));
    assert_eq!(events, [daemon(true), app(true), daemon(false), app(false)]);
}

#[test]
#[ignore = "takes seconds and measures memory: run by itself, in release"]
fn a_million_routes_are_fast_and_small() {
    let engine = byname_lookup::prefix::LongestFirst::new(NameHashKey::new([1, 2]), 4_000_000);
    let tables = Arc::new(Tables::new(engine.query()));
    let mut fib = FibWriter::new(Box::new(engine), tables);
    let mut rib = Rib::new(4_000_000);
    let names: Vec<Name> = (0..1_000_000).map(|i| name(&format!("/ndn/site{i:07}/app/of/some/length"))).collect();
    let before = resident_bytes();
    let start = std::time::Instant::now();
    for (i, n) in names.iter().enumerate() {
        rib.register(&mut fib, n.as_ref(), &route(256, 0, 1)).expect("room");
        if i % 256 == 255 {
            fib.commit();
        }
    }
    fib.commit();
    let took = start.elapsed();
    let bytes = (resident_bytes() - before) as f64 / 1e6 - names[0].value().len() as f64;
    eprintln!("a million routes: {took:?}, {bytes:.0} bytes a route beyond the name, FIB included");
    assert!(bytes < 200.0);
    let start = std::time::Instant::now();
    rib.remove_face(&mut fib, FaceId(256));
    while rib.search_step(&mut fib) {}
    fib.commit();
    eprintln!("their face goes: {:?}", start.elapsed());
    assert!(rib.is_empty() && fib.is_empty());
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn faces_that_get_their_first_route_or_lose_their_last_are_told() {
    let (mut rib, mut fib) = (Rib::new(100), fib());
    let (a, b) = (name("/a"), name("/b"));
    rib.register(&mut fib, a.as_ref(), &route(256, 1, 1)).expect("there is room");
    rib.add_nexthop(&mut fib, a.as_ref(), FaceId(257), 0).expect("there is room");
    assert_eq!(Vec::from_iter(rib.take_routed()), [FaceId(256), FaceId(257)]);
    assert!(rib.has_routes(FaceId(256)) && rib.has_routes(FaceId(257)) && !rib.has_routes(FaceId(258)));

    rib.register(&mut fib, b.as_ref(), &route(256, 1, 1)).expect("there is room");
    assert!(rib.unregister(&mut fib, a.as_ref(), FaceId(256), 0));
    assert!(rib.take_routed().is_empty(), "it still has a route");
    assert!(rib.unregister(&mut fib, b.as_ref(), FaceId(256), 0));
    assert!(rib.remove_nexthop(&mut fib, a.as_ref(), FaceId(257)));
    assert_eq!(rib.take_routed().len(), 2);
    assert!(!rib.has_routes(FaceId(256)) && !rib.has_routes(FaceId(257)));
}

#[test]
fn suspended_faces_come_back_by_themselves_and_go_with_their_routes() {
    let (mut rib, mut fib) = (Rib::new(100), fib());
    let a = name("/a");
    rib.register(&mut fib, a.as_ref(), &route(256, 1, 1)).expect("there is room");
    rib.register(&mut fib, a.as_ref(), &route(257, 2, 1)).expect("there is room");
    fib.commit();
    assert_eq!((rib.suspend(&mut fib, FaceId(256), 500), rule(&fib, &a)), (1, vec![(257, 2)]));
    assert_eq!(rib.next_deadline_ms(), Some(500));
    // Longer.
    rib.suspend(&mut fib, FaceId(256), 900);
    rib.expire(&mut fib, 899, 10);
    assert_eq!((rule(&fib, &a), rib.next_deadline_ms()), (vec![(257, 2)], Some(900)));
    rib.expire(&mut fib, 900, 10);
    assert_eq!((rule(&fib, &a), rib.next_deadline_ms()), (vec![(256, 1), (257, 2)], None));

    rib.suspend(&mut fib, FaceId(256), 5_000);
    assert!(rib.unregister(&mut fib, a.as_ref(), FaceId(256), 0));
    fib.commit();
    assert_eq!((rule(&fib, &a), rib.resume(&mut fib, FaceId(256))), (vec![(257, 2)], 0));
    rib.suspend(&mut fib, FaceId(257), 5_000);
    rib.remove_face(&mut fib, FaceId(257));
    fib.commit();
    assert_eq!((rule(&fib, &a), rib.next_deadline_ms()), (vec![], None));
}
