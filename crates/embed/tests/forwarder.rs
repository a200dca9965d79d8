//! A forwarder in a program: hostile packets, routes that come and go, and ports of a running one.

use std::collections::BTreeMap;
use std::time::Duration;

use byname_embed::{
    FaceId, Forwarder, LinkFields, LinkType, PacketError, RouteError, Running, Scope, SendError, Stopped, Ticks, frame,
};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::lp::LpPacket;
use byname_wire::{Interest, NackReason, Name, PitToken};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn forwarder() -> Forwarder {
    Forwarder::builder().pit_entries_max(1000).cs_packets_max(0).seed(1).build().expect("memory for small tables")
}

fn face(forwarder: &mut Forwarder) -> FaceId {
    forwarder.add_face(Scope::Local, LinkType::PointToPoint)
}

fn name(text: &str) -> Name {
    text.parse().expect("a literal name")
}

fn interest(name: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name.parse().expect("a literal name"), nonce).lifetime_ms(50).encode()
}

#[test]
fn what_is_no_packet_is_refused_with_a_reason() {
    let mut forwarder = forwarder();
    let face = face(&mut forwarder);
    let good = interest("/a", 1);
    assert_eq!(forwarder.receive(FaceId(9), &good), Err(PacketError::NoFace(FaceId(9))));
    let mut large = vec![6, 253, 0x22, 0x70];
    large.resize(4 + 0x2270, 0);
    assert_eq!(forwarder.receive(face, &large), Err(PacketError::TooLarge(large.len())));
    for cut in 0..good.len() {
        assert!(matches!(forwarder.receive(face, &good[..cut]), Err(PacketError::Malformed(_))), "cut at {cut}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(forwarder.receive(face, &longer), Err(PacketError::Malformed(_))));
    assert!(matches!(forwarder.receive(face, &[100, 0]), Err(PacketError::Malformed(_))), "a frame is no packet");
    let mut fragment = Vec::new();
    LpPacket { fragment: Some(&good), frag_count: 2, sequence: Some(0), ..LpPacket::default() }.encode(&mut fragment);
    assert_eq!(forwarder.receive_frame(face, &fragment), Err(PacketError::Fragment));
    assert_eq!(forwarder.receive_frame(face, &[100, 0]), Ok(()), "an empty frame has no effect");
    assert_eq!(forwarder.poll(Ticks(0)).len(), 0);
}

#[test]
fn random_frames_break_nothing() {
    let mut random = SmallRng::seed_from_u64(7);
    let mut forwarder = forwarder();
    let (from, to) = (face(&mut forwarder), face(&mut forwarder));
    forwarder.set_route(&name("/"), &[(to, 0)]).expect("one route");
    let mut taken = 0;
    for round in 0..200_000u64 {
        let token = PitToken::new(&round.to_be_bytes()).expect("eight bytes");
        let packet = interest(&format!("/a/{}", round % 100), round as u32);
        let mut frame = Vec::new();
        LpPacket { fragment: Some(&packet), pit_token: token, ..LpPacket::default() }.encode(&mut frame);
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..frame.len());
            frame[at] = random.random();
        }
        frame.truncate(random.random_range(frame.len() / 2..frame.len() + 8));
        taken += u32::from(forwarder.receive_frame(from, &frame).is_ok());
        forwarder.poll(Ticks(round * 10_000)).for_each(|sent| assert!(sent.face == from || sent.face == to));
    }
    assert!(taken > 20_000, "{taken} frames were whole");
    assert_eq!(forwarder.poll(Ticks::from_ms(60_000)).len(), 0);
    assert_eq!(forwarder.counters().pit_entries, 0);
}

#[test]
fn routes_are_those_of_a_map() {
    let mut random = SmallRng::seed_from_u64(3);
    let mut forwarder = forwarder();
    let consumer = face(&mut forwarder);
    let mut faces: Vec<FaceId> = (0..6).map(|_| face(&mut forwarder)).collect();
    let mut oracle: BTreeMap<Name, Vec<FaceId>> = BTreeMap::new();
    let draw = |random: &mut SmallRng| -> String {
        (0..random.random_range(1..5)).map(|_| format!("/{}", random.random_range(0..4))).collect()
    };
    for round in 0..5000u64 {
        let prefix = name(&draw(&mut random));
        let mut to: Vec<FaceId> = faces.clone();
        to.retain(|_| random.random_bool(0.3));
        let nexthops: Vec<_> = to.iter().map(|&face| (face, 7)).collect();
        forwarder.set_route(&prefix, &nexthops).expect("room");
        if to.is_empty() {
            oracle.remove(&prefix)
        } else {
            oracle.insert(prefix, to)
        };
        if round % 100 == 99 {
            let gone = faces.swap_remove(random.random_range(0..faces.len()));
            assert!(forwarder.remove_face(gone));
            assert!(!forwarder.remove_face(gone));
            assert!(
                matches!(forwarder.set_route(&name("/x"), &[(gone, 0)]), Err(RouteError::NoFace(face)) if face == gone)
            );
            oracle.values_mut().for_each(|to| to.retain(|&face| face != gone));
            oracle.retain(|_, to| !to.is_empty());
            faces.push(face(&mut forwarder));
        }
        assert_eq!(forwarder.routes(), oracle.len());
        // The first nexthop of the longest prefix gets the Interest.
        let asked = draw(&mut random);
        let whole = name(&asked);
        let longest =
            (0..=whole.as_ref().len()).rev().find_map(|len| oracle.get(&whole.as_ref().prefix(len).to_name()));
        forwarder.receive(consumer, &interest(&asked, round as u32)).expect("a packet");
        let sent: Vec<_> = forwarder.poll(Ticks::from_ms(round * 100)).collect();
        let expected = longest.and_then(|to| to.iter().min()).copied().unwrap_or(consumer);
        assert_eq!(sent.iter().map(|sent| sent.face).collect::<Vec<_>>(), [expected], "{asked}");
        assert_eq!(sent[0].fields.nack.is_some(), longest.is_none());
    }
}

#[test]
fn an_answer_finds_its_way_and_is_cached() {
    let mut forwarder = Forwarder::builder().seed(2).build().expect("memory");
    let (consumer, producer) = (face(&mut forwarder), face(&mut forwarder));
    forwarder.set_route(&name("/a"), &[(producer, 0)]).expect("one route");
    for round in 0..2u8 {
        let fields = LinkFields { pit_token: PitToken::new(&[round; 4]).expect("short"), ..LinkFields::default() };
        forwarder.receive_with(consumer, fields, &interest("/a/b", u32::from(round))).expect("an Interest");
        let sent: Vec<_> = forwarder.poll(Ticks(u64::from(round))).collect();
        let answer = if round == 0 {
            assert_eq!(sent[0].face, producer);
            let data = DataBuilder::new(name("/a/b")).content(b"c".to_vec()).encode();
            let mut answer = Vec::new();
            LpPacket { fragment: Some(&data), pit_token: sent[0].fields.pit_token, ..LpPacket::default() }
                .encode(&mut answer);
            forwarder.receive_frame(producer, &answer).expect("Data");
            forwarder.poll(Ticks(1)).collect::<Vec<_>>()
        } else {
            sent
        };
        assert_eq!(answer[0].face, consumer);
        let frame = frame(&answer[0]);
        assert_eq!(LpPacket::decode(&frame).expect("a frame").pit_token.as_slice(), [round; 4]);
    }
    assert_eq!(forwarder.counters().cs.hits, 1);
}

#[test]
fn strategies_are_known_or_refused() {
    let mut forwarder = forwarder();
    for strategy in byname_forward::strategy::WORDS {
        forwarder.set_strategy(&name("/a"), strategy).expect(strategy);
    }
    forwarder.set_strategy(&name("/"), "/localhost/nfd/strategy/best-route/v=5").expect("a whole name");
    assert!(forwarder.set_strategy(&name("/"), "worst-route").is_err());
    assert!(forwarder.set_strategy(&name("/"), "best-route%").is_err());
}

#[test]
fn ports_of_a_running_forwarder_come_and_go() {
    let running = Running::start(forwarder()).expect("a thread");
    let (consumer, producer) = (running.open(Scope::Local).expect("open"), running.open(Scope::Local).expect("open"));
    let to = producer.face();
    running.with(move |forwarder| forwarder.set_route(&name("/a"), &[(to, 0)])).expect("runs").expect("one route");
    consumer.send(b"no packet").expect("there is room");
    consumer.send(&interest("/a/1", 1)).expect("there is room");
    let frame = producer.receive(Duration::from_secs(20)).expect("runs").expect("an Interest");
    let packet = LpPacket::decode(&frame).expect("a frame").fragment.expect("a packet").to_vec();
    assert_eq!(Interest::decode(&packet).expect("an Interest").name, name("/a/1").as_ref());
    assert_eq!(consumer.receive(Duration::ZERO).expect("runs"), None);
    drop(producer);
    // Its face and route are gone.
    assert_eq!(running.with(|forwarder| forwarder.routes()).expect("runs"), 0);
    consumer.send(&interest("/a/2", 2)).expect("there is room");
    let nack = consumer.receive(Duration::from_secs(20)).expect("runs").expect("a Nack");
    assert_eq!(LpPacket::decode(&nack).expect("a frame").nack, Some(NackReason::NoRoute));
    drop(running);
    assert_eq!(consumer.send(&interest("/a/3", 3)), Err(SendError::Stopped));
    assert_eq!(consumer.receive(Duration::from_secs(20)), Err(Stopped));
}

#[test]
fn a_slow_forwarder_and_a_slow_reader_bound_what_waits() {
    let running = Running::start(forwarder()).expect("a thread");
    let port = running.open(Scope::Local).expect("open");
    // The thread is busy until `go` is dropped.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let running = &running;
        scope.spawn(move || running.with(move |_| wait.recv().is_err()));
        let sent = (0..100_000).take_while(|&nonce| port.send(&interest("/b", nonce)).is_ok()).count();
        assert!(sent < 10_000, "{sent} frames wait");
        assert_eq!(port.send(&interest("/b", 0)), Err(SendError::Full));
        drop(go);
    });
    // Each Interest is refused, and nobody reads that.
    running.with(|_| ()).expect("runs");
    let answers = std::iter::from_fn(|| port.receive(Duration::from_millis(500)).expect("runs")).count();
    assert!((1..=1024).contains(&answers), "{answers} answers waited");
}

#[test]
fn a_task_that_panics_ends_the_forwarder_and_says_so() {
    let running = Running::start(forwarder()).expect("a thread");
    let panics: fn(&mut Forwarder) = |_| panic!("on purpose");
    assert_eq!(running.with(panics), Err(Stopped));
    assert_eq!(running.with(|_| ()), Err(Stopped));
    assert!(running.open(Scope::Local).is_err());
}
