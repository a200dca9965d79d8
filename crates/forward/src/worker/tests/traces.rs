//! Watches: what they tell, and that they change nothing.

use super::*;
use crate::strategy::{StrategyChoice, Why};
use crate::trace::{EVENTS_MAX, Event, Filter, PitOutcome, StoreOutcome, Subject, WATCHES_MAX, Way};

fn filter(prefix: &str) -> Filter {
    Filter { prefix: name(prefix), only_dropped: false, with_packets: false }
}

impl Bench {
    fn watch(&mut self, prefix: &str) {
        assert!(self.worker.watch(1, filter(prefix)));
    }

    fn events(&mut self) -> Vec<Event> {
        self.worker.take_events(1, usize::MAX).events
    }

    /// The only event.
    fn event(&mut self) -> Event {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }
}

/// Kind and face of each packet that was sent on account of an event.
fn sent(event: &Event) -> Vec<String> {
    let kind = |subject| match subject {
        Subject::Interest => 'I',
        Subject::Data => 'D',
        _ => 'N',
    };
    event.sent.iter().map(|sent| format!("{}{}", kind(sent.subject), sent.face)).collect()
}

#[test]
fn an_exchange_is_told_step_by_step() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    b.watch("/a");
    b.receive(APP, &interest("/a/b", 7).must_be_fresh(true).encode());
    let event = b.event();
    assert_eq!((event.subject, event.face, event.nonce), (Subject::Interest, APP, Some(7)));
    assert_eq!((event.name.to_string().as_str(), event.must_be_fresh, event.can_be_prefix), ("/a/b", true, false));
    assert_eq!((event.pit, event.store), (Some(PitOutcome::New), Some(StoreOutcome::Miss)));
    assert_eq!((event.way, event.dropped), (Some(Way::Rule(1)), None));
    let (strategy, why) = event.strategy.clone().expect("a strategy decided");
    assert_eq!((strategy.to_string().as_str(), why), ("/localhost/nfd/strategy/best-route/v=5", Why::Cheapest));
    assert_eq!(sent(&event), ["I300"]);

    b.receive(APP_2, &interest("/a/b", 8).must_be_fresh(true).encode());
    let event = b.event();
    assert_eq!((event.pit, event.strategy.map(|s| s.1)), (Some(PitOutcome::Joined), Some(Why::Suppressed)));
    b.receive(APP_2, &interest("/a/b", 9).must_be_fresh(true).encode());
    assert_eq!(b.event().pit, Some(PitOutcome::Again));
    b.receive(HOST_3, &interest("/a/b", 7).must_be_fresh(true).encode());
    let event = b.event();
    assert_eq!((event.pit, event.dropped, sent(&event)), (Some(PitOutcome::Loop), Some("loop"), vec!["N302".into()]));

    b.receive(HOST, &data("/a/b"));
    let event = b.event();
    assert_eq!((event.subject, event.face), (Subject::Data, HOST));
    assert_eq!((event.pit, event.store), (Some(PitOutcome::Satisfied(1)), Some(StoreOutcome::Admitted)));
    assert_eq!(sent(&event), ["D256", "D257"]);
    b.receive(APP, &interest("/a/b", 10).encode());
    let event = b.event();
    assert_eq!((event.store, event.pit, sent(&event)), (Some(StoreOutcome::Hit), None, vec!["D256".into()]));
    b.receive(HOST, &data("/a/c"));
    let event = b.event();
    assert_eq!((event.pit, event.dropped), (Some(PitOutcome::NoMatch), Some("unsolicited-data")));
}

#[test]
fn drops_refusals_and_silence_are_told() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    assert!(b.worker.watch(1, Filter { only_dropped: true, ..filter("/") }));
    let nack = LinkFields { nack: Some(NackReason::NoRoute), ..Default::default() };
    b.receive(APP, &interest("/nowhere", 1).encode());
    let event = b.event();
    assert_eq!((event.way, event.dropped), (Some(Way::NoRule), Some("refused")));
    assert_eq!((event.strategy.as_ref().map(|s| s.1), sent(&event)), (Some(Why::NoNexthop), vec!["N256".into()]));
    b.receive(HOST, &interest("/localhost/x", 2).encode());
    assert_eq!(b.event().dropped, Some("scope"));
    b.receive(HOST_2, &interest("/a/x", 3).hop_limit(1).encode());
    assert_eq!(b.event().dropped, Some("hop-limit"));
    b.receive(APP, &interest("/a/1", 4).lifetime_ms(100).encode());
    assert_eq!(b.events().len(), 0, "it was forwarded");
    b.wait(Duration::from_millis(200));
    let event = b.event();
    assert_eq!((event.subject, event.dropped, event.face), (Subject::Expiry, Some("unanswered"), APP));
    assert_eq!(event.name, name("/a/1"));
    b.receive_with(HOST, &interest("/a/2", 4).encode(), nack.clone());
    let event = b.event();
    assert_eq!((event.subject, event.dropped), (Subject::Nack(NackReason::NoRoute), Some("unsolicited-nack")));
    b.receive(APP, &[5, 0]);
    let event = b.event();
    assert_eq!((event.subject, event.dropped, event.face), (Subject::Malformed, Some("malformed"), APP));
    // A Nack that ends the Interest is no drop of the Nack; downstream hears of it.
    b.worker.unwatch(1);
    b.watch("/a");
    b.receive(APP, &interest("/a/3", 5).encode());
    b.receive_with(HOST, &interest("/a/3", 5).encode(), nack);
    let events = b.events();
    assert_eq!(
        (events[1].pit, events[1].strategy.as_ref().map(|s| s.1)),
        (Some(PitOutcome::Matched), Some(Why::AllRefused))
    );
    assert_eq!(sent(&events[1]), ["N256"]);
}

#[test]
fn evictions_and_chosen_faces_are_told() {
    let mut b = bench_with(WorkerConfig { pit_entries_max: 1, ..Default::default() });
    b.route("/a", &[HOST]);
    b.watch("/a");
    b.receive(APP, &interest("/a/1", 1).encode());
    b.receive(APP, &interest("/a/2", 2).encode());
    let events = b.events();
    let told: Vec<_> = events.iter().map(|e| (e.subject, e.name.to_string(), e.dropped)).collect();
    let expected = [
        (Subject::Interest, "/a/1", None),
        (Subject::Eviction, "/a/1", Some("pit-full")),
        (Subject::Interest, "/a/2", None),
    ];
    assert_eq!(told, expected.map(|(subject, name, dropped)| (subject, name.to_owned(), dropped)));
    b.worker.set_local_fields(APP, true);
    let chosen = LinkFields { next_hop_face_id: Some(HOST_2), ..Default::default() };
    b.receive_with(APP, &interest("/a/3", 3).encode(), chosen);
    let event = b.events().pop().expect("it was told");
    assert_eq!((event.way, event.strategy.is_none(), sent(&event)), (Some(Way::Chosen), true, vec!["I301".into()]));
}

#[test]
fn only_names_below_the_prefix_are_watched() {
    let mut b = bench();
    b.route("/", &[HOST]);
    b.watch("/a/b");
    for (nonce, uri) in ["/a", "/a/b", "/a/bc", "/a/b/c", "/b"].into_iter().enumerate() {
        b.receive(APP, &interest(uri, nonce as u32).encode());
    }
    let names: Vec<String> = b.events().iter().map(|event| event.name.to_string()).collect();
    assert_eq!(names, ["/a/b", "/a/b/c"]);
    b.worker.unwatch(1);
    b.receive(APP, &interest("/a/b/d", 9).encode());
    assert!(b.events().is_empty());
    let management = ["/localhost/nfd/rib/list", "/localhost/nfd/trace/read", "/localhost/x"];
    for (prefix, expected) in [("/", &["/localhost/x"][..]), ("/localhost/nfd", &["/localhost/nfd/rib/list"])] {
        b.watch(prefix);
        management.iter().for_each(|uri| drop(b.receive(APP, &interest(uri, 10).encode())));
        let names: Vec<String> = b.events().iter().map(|event| event.name.to_string()).collect();
        assert_eq!(names, expected, "{prefix}");
        b.worker.unwatch(1);
    }
}

#[test]
fn rings_and_watches_are_bounded_and_losses_are_counted() {
    let mut b = bench();
    for id in 0..WATCHES_MAX as u64 {
        assert!(b.worker.watch(id, Filter { with_packets: id == 0, ..filter("/") }));
    }
    assert!(!b.worker.watch(99, filter("/")));
    for nonce in 0..EVENTS_MAX as u32 + 5 {
        b.receive(APP, &interest("/nowhere", nonce).encode());
    }
    let taken = b.worker.take_events(0, 3);
    assert_eq!((taken.events.len(), taken.lost), (3, 5));
    assert_eq!(taken.events[0].packet.as_deref(), Some(&interest("/nowhere", 0).encode()[..]));
    assert_eq!(b.worker.take_events(0, usize::MAX).events.len(), EVENTS_MAX - 3);
    let other = b.worker.take_events(1, 1);
    assert!(other.events[0].packet.is_none(), "this one asked for none");
    assert_eq!(b.worker.take_events(77, 1).events.len(), 0);
}

#[test]
fn stages_are_timed_by_the_clock_of_the_thread() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let mut b = bench();
    b.route("/a", &[HOST]);
    let (clock, start) = (Arc::new(AtomicU64::new(0)), b.now);
    // Each look at the clock takes a microsecond.
    b.worker
        .time_stages(Stopwatch::new(1000, move || start + Duration::from_micros(clock.fetch_add(1, Ordering::SeqCst))));
    b.watch("/a");
    b.receive(APP, &interest("/a/b", 1).encode());
    let times = b.event().times.expect("there is a clock");
    let us = Duration::from_micros;
    assert_eq!((times.pit_cs, times.fib, times.strategy), (us(1), us(1), us(1)));
}

/// Random traffic through a worker with a watch and one without: the same output, burst by burst.
#[test]
fn a_watch_changes_nothing() {
    use rand::{RngExt, SeedableRng, rngs::SmallRng};
    for (seed, strategy) in ["best-route", "multicast", "asf", "access"].into_iter().enumerate() {
        let mut random = SmallRng::seed_from_u64(seed as u64);
        let mut benches = [(); 2].map(|()| {
            let mut b = bench_with(WorkerConfig { pit_entries_max: 40, ..Default::default() });
            b.route("/a", &[HOST, HOST_2]);
            b.route("/b", &[APP_2, HOST_3]);
            let strategy = name(&format!("/localhost/nfd/strategy/{strategy}"));
            b.worker.set_strategy_choices(&[StrategyChoice { prefix: name("/"), strategy }]);
            b
        });
        benches[1].watch("/a");
        let (mut seen, mut forwarded) = (0, 0);
        for _ in 0..300 {
            let packets: Vec<_> = (0..random.random_range(0..40u32))
                .map(|_| {
                    let first = ["a", "a", "b", "c"][random.random_range(0..4usize)];
                    let uri = format!("/{first}/{}", random.random_range(0..30u32));
                    let face = [APP, APP_2, HOST, HOST_2, HOST_3][random.random_range(0..5usize)];
                    let nonce = random.random_range(0..200u32);
                    let (packet, nack) = match random.random_range(0..10u32) {
                        0..6 => (interest(&uri, nonce).lifetime_ms(300).encode(), None),
                        6..9 => (data(&uri), None),
                        _ => (interest(&uri, nonce).encode(), Some(NackReason::NoRoute)),
                    };
                    (face, packet, nack)
                })
                .collect();
            let step = Duration::from_millis(random.random_range(0..40u64));
            let outputs = benches.each_mut().map(|b| {
                b.now = b.now + step;
                let received = packets.iter().map(|(face, packet, nack)| Received {
                    face: *face,
                    fields: LinkFields { nack: *nack, ..Default::default() },
                    packet: Packet::copy_from(packet),
                });
                // Interests leave last in a burst, and earlier in a watched one.
                let mut shape = shape(&b.poll(received.collect()));
                shape.sort();
                shape
            });
            assert_eq!(outputs[0], outputs[1], "{strategy}");
            forwarded += outputs[0].len();
            seen += benches[1].events().len();
        }
        assert!(seen > 500 && forwarded > 500, "{seen} events, {forwarded} packets");
        let counters = benches.each_ref().map(|b| b.worker.counters());
        assert_eq!(counters[0], counters[1], "{strategy}");
    }
}
