//! Tests of limits: large datasets, many routes, long names.

use super::*;

#[test]
fn large_datasets_come_in_segments_that_are_kept_a_while() {
    let mut router = Router::new(10_000);
    for i in 0..3_000 {
        assert_eq!(router.command("rib/register", &prefix(&format!("/site/{i}/app"))).code, 200);
    }
    let first = router.interest(name("/localhost/nfd/rib/list"), true).expect("an answer");
    let first = Data::decode(&first).expect("Data").name.to_name();
    let version = first.as_ref().prefix(first.as_ref().len() - 1).to_name();
    assert_eq!(router.routes().len(), 3_000);
    assert_eq!(router.fib().len(), 3_000);

    let segment = |n| version.join_number(component_type::SEGMENT, n);
    let again = router.interest(segment(0), false).expect("kept");
    assert_eq!(Data::decode(&again).expect("Data").name, first.as_ref());
    assert!(router.interest(version.clone(), true).is_some());
    let third = router.interest(segment(2), false);
    assert!(third.is_some(), "out of order");
    assert_eq!(router.interest(segment(2), false), third);
    assert!(router.interest(segment(500), false).is_none());
    assert!(router.interest(segment(u64::MAX), false).is_none());
    let end = (0..).find(|&n| router.interest(segment(n), false).is_none());
    assert!((10..100).contains(&end.expect("it ends")));
    router.advance(9_000);
    assert_eq!(router.interest(segment(2), false), third);
    router.advance(10_001);
    assert!(router.interest(segment(2), false).is_none());
    assert_eq!(router.management.next_deadline_ms(), None, "nothing is kept for ever");
}

#[test]
fn datasets_do_not_fill_the_memory() {
    let mut router = Router::new(10_000);
    for i in 0..1_000 {
        router.command("rib/register", &prefix(&format!("/site/{i}/app")));
    }
    let first = router.interest(name("/localhost/nfd/rib/list"), true).expect("an answer");
    let first = Data::decode(&first).expect("Data").name.to_name();
    for _ in 0..300 {
        router.interest(name("/localhost/nfd/rib/list"), true).expect("an answer");
    }
    assert!(router.interest(first, false).is_none(), "the oldest give way");
}

#[test]
#[ignore = "takes seconds: run by itself, in release"]
fn a_million_registrations_take_a_few_seconds() {
    let mut router = Router::new(4_000_000);
    router.management = {
        let key = NameHashKey::new([1, 2]);
        let engine = LongestFirst::new(key, 4_000_000);
        let tables = Arc::new(Tables::new(engine.query()));
        let tag_fib = FibWriter::new(Box::new(TagsetOracle::new()), tables.clone());
        let tags = TagRouting::new(tag_fib, TagLimits::default(), 1);
        let fib = FibWriter::new(Box::new(engine), tables);
        let handle = router.management.forwarder.clone();
        Management::new(handle, Authorizer::local_only(), 4_000_000, fib, tags, [], START)
    };
    router.management.face_event(&FaceEvent::Created(face(APP, Scope::Local)));
    let wires: Vec<Vec<u8>> = (0..1_000_000)
        .map(|i| {
            let parameters = prefix(&format!("/ndn/site{i:07}/app")).encode();
            router.signed(name("/localhost/nfd/rib/register").join(Component::generic(&parameters)))
        })
        .collect();
    let start = cpu_time();
    for batch in wires.chunks(256) {
        let answers: Vec<_> = batch.iter().filter_map(|w| router.management.answer(w, APP, router.now)).collect();
        router.management.commit();
        assert_eq!(answers.len(), batch.len());
    }
    let took = cpu_time() - start;
    assert_eq!(router.management.counters().commands_ok, 1_000_000);
    eprintln!("a million registrations: {took:?}");
    let start = cpu_time();
    assert_eq!(router.routes().len(), 1_000_000);
    eprintln!("listed and decoded: {:?}", cpu_time() - start);
    assert!(took.as_secs() < 10);
}

/// CPU time of this thread, which other load on the machine does not affect.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let ns = schedstat.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("a number"))
}

#[test]
fn names_too_long_for_an_answer_do_no_harm() {
    let mut router = Router::new(100);
    // The answer repeats the name, and its body repeats the parameters. Both together do not fit in a packet.
    for len in [4000, 6000, 8000, 8500] {
        let long = Name::from_components([Component::generic(&vec![b'a'; len])]);
        let parameters = ControlParameters { name: Some(long), ..ControlParameters::default() };
        let wire = router.signed(name("/localhost/nfd/rib/register").join(Component::generic(&parameters.encode())));
        let answer = router.send(&wire, APP);
        assert!(answer.is_none_or(|response| response.code == 200));
        let uri = ControlParameters { uri: Some("a".repeat(len)), ..ControlParameters::default() };
        let wire = router.signed(name("/localhost/nfd/faces/create").join(Component::generic(&uri.encode())));
        let answer = router.send(&wire, APP);
        assert!(answer.is_none_or(|response| response.code == 400));
        let filter = tlv::FaceQueryFilter { uri: Some("a".repeat(len)), ..tlv::FaceQueryFilter::default() };
        let query = name("/localhost/nfd/faces/query").join(Component::generic(&filter.encode()));
        assert_eq!(router.interest(query, true), None);
    }
    assert_eq!(router.routes().len(), 4);
}
