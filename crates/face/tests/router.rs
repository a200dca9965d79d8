//! Exchanges through a whole router: ports, loop and worker, over loopback and in memory.

mod common;

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byname_face::udp::{UdpConfig, UdpPort};
use byname_face::{FaceEvent, FaceUri, IoConfig, memory};
use byname_forward::face_table::Persistency;
use byname_forward::stages::{self, StageTimes};
use byname_forward::{FaceId, LinkFields, Packet};
use byname_wire::{Data, Interest, LpPacket, NackReason, PitToken};
use common::*;

/// Numbers of packet threads, each with whether threads rest.
const THREADS: [(usize, bool); 5] = [(1, true), (2, true), (2, false), (3, true), (3, false)];

#[test]
fn an_exchange_over_udp_is_counted_on_both_faces() {
    for (threads, rests) in THREADS {
        let mut router = Router::of(threads, 1024, Router::config(rests), Vec::new(), |_| {});
        let (consumer, producer) = (socket(), socket());
        let to_producer = router.face(producer.local_addr().unwrap());
        router.route("/a", to_producer.id);

        consumer.send_to(&interest("/a/b", 1), router.udp).unwrap();
        let mut buffer = [0; 9000];
        let (len, from) = producer.recv_from(&mut buffer).unwrap();
        assert_eq!(from, router.udp);
        assert_eq!(Interest::decode(network_packet(&buffer[..len])).unwrap().name, name("/a/b").as_ref());
        producer.send_to(&data("/a/b", 1000), from).unwrap();
        let len = consumer.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..len], data("/a/b", 1000));

        let faces = router.running.handle.faces();
        assert_eq!(faces.len(), 3);
        assert_eq!(faces[0].remote, FaceUri::Internal);
        let face = |of: bool| faces.iter().skip(1).find(|face| (face.id == to_producer.id) == of).expect("one of each");
        let (to_producer, to_consumer) = (face(true), face(false));
        assert_eq!((to_producer.counters.out_interests, to_producer.counters.in_data), (1, 1));
        assert_eq!((to_consumer.counters.in_interests, to_consumer.counters.out_data), (1, 1));
        assert_eq!(to_consumer.persistency, Persistency::OnDemand);
        assert_eq!(to_consumer.link.out_bytes, len as u64);
        assert_eq!(router.running.handle.counters().satisfied_interests, 1);
        assert_eq!(router.running.handle.channels(), [format!("udp4://{}", router.udp)]);

        let kinds: Vec<_> = router.running.events.try_iter().collect();
        assert!(matches!(
            &kinds[..],
            [FaceEvent::Created(a), FaceEvent::Created(b), FaceEvent::Created(c)]
                if (a.id, b.id, c.id) == (FaceId(1), to_producer.id, to_consumer.id)
        ));
        assert!(router.running.handle.destroy_face(to_consumer.id));
        assert!(!router.running.handle.destroy_face(to_consumer.id));
        let next = router.running.events.recv_timeout(Duration::from_secs(5));
        let Ok(FaceEvent::Destroyed(last)) = next else { panic!("{next:?}") };
        assert_eq!((last.id, last.counters.in_interests), (to_consumer.id, 1));
        router.stop();
    }
}

#[test]
fn a_pit_token_comes_back_and_no_route_is_a_nack() {
    for (threads, rests) in THREADS {
        let router = Router::of(threads, 1024, Router::config(rests), Vec::new(), |_| {});
        let consumer = socket();
        let wire = interest("/nowhere", 1);
        let token = PitToken::new(b"token!").unwrap();
        let mut frame = Vec::new();
        LpPacket { pit_token: token, fragment: Some(&wire), ..LpPacket::default() }.encode(&mut frame);
        consumer.send_to(&frame, router.udp).unwrap();
        let mut buffer = [0; 9000];
        let len = consumer.recv(&mut buffer).unwrap();
        let nack = LpPacket::decode(&buffer[..len]).unwrap();
        assert_eq!((nack.nack, nack.pit_token), (Some(NackReason::NoRoute), token));
        assert_eq!(nack.fragment, Some(&wire[..]));
        router.stop();
    }
}

#[test]
fn thousands_of_exchanges_in_windows_lose_nothing() {
    for (threads, rests) in THREADS {
        let mut router = Router::of(threads, 1024, Router::config(rests), Vec::new(), |_| {});
        let (consumer, producer) = (socket(), socket());
        let to_producer = router.face(producer.local_addr().unwrap());
        router.route("/a", to_producer.id);
        let producing = std::thread::spawn(move || produce(&producer, 1000));
        let (mut buffer, mut seen) = ([0; 9000], HashSet::new());
        for window in 0..100 {
            for n in 0..32 {
                consumer.send_to(&interest(&format!("/a/{window}/{n}"), window * 32 + n + 1), router.udp).unwrap();
            }
            for _ in 0..32 {
                let len = consumer.recv(&mut buffer).unwrap();
                seen.insert(Data::decode(&buffer[..len]).unwrap().name.to_name());
            }
        }
        assert_eq!(seen.len(), 3200);
        consumer.send_to(&interest("/a/stop", 9_999_999), router.udp).unwrap();
        assert_eq!(producing.join().unwrap(), 3200);
        router.stop();
    }
}

#[test]
fn the_internal_face_reaches_the_control_side_and_back() {
    for (threads, rests) in THREADS {
        let mut router = Router::of(threads, 1024, Router::config(rests), Vec::new(), |c| c.loopback_is_local = true);
        router.route("/localhost/nfd", FaceId::INTERNAL);
        let client = socket();
        client.send_to(&interest("/localhost/nfd/status", 1), router.udp).unwrap();
        let (fields, packet) = router.running.internal.from_worker.recv_timeout(Duration::from_secs(5)).unwrap();
        let to_client = router.running.handle.faces().into_iter().find(|face| face.id != FaceId::INTERNAL);
        assert_eq!(fields.incoming_face_id, to_client.map(|face| face.id));
        let name = Interest::decode(&packet).unwrap().name.to_name();
        let answer = byname_wire::data::DataBuilder::new(name).content(vec![1, 2, 3]).encode();
        assert!(router.running.internal.sender.send(LinkFields::default(), Packet::copy_from(&answer)));
        let mut buffer = [0; 9000];
        let len = client.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..len], answer);
        assert!(!router.running.handle.destroy_face(FaceId::INTERNAL), "the forwarder's own face stays");
        router.stop();
    }
}

#[test]
fn routers_are_joined_in_memory() {
    let (a, b) = memory::pair(1000);
    let mut near = Router::with(IoConfig::default(), vec![Box::new(a)], |_| {});
    let mut far = Router::with(IoConfig::default(), vec![Box::new(b)], |_| {});
    let (consumer, producer) = (socket(), socket());
    near.route("/", FaceId(256));
    let to_producer = far.face(producer.local_addr().unwrap());
    far.route("/", to_producer.id);
    let producing = std::thread::spawn(move || produce(&producer, 100));
    let mut buffer = [0; 9000];
    for n in 0..100 {
        let uri = format!("/m/{n}");
        consumer.send_to(&interest(&uri, n + 1), near.udp).unwrap();
        let len = consumer.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..len], data(&uri, 100));
    }
    consumer.send_to(&interest("/stop", 1000), near.udp).unwrap();
    assert_eq!(producing.join().unwrap(), 100);
    near.stop();
    far.stop();
}

#[test]
fn a_control_side_that_does_not_listen_holds_nothing_up_and_misses_nothing() {
    let mut router = Router::with(IoConfig { events_max: 20, ..IoConfig::default() }, Vec::new(), |_| {});
    let producer = socket();
    let to_producer = router.face(producer.local_addr().unwrap());
    router.route("/a", to_producer.id);
    let producing = std::thread::spawn(move || produce(&producer, 10));
    let consumers: Vec<_> = (0..100).map(|_| socket()).collect();
    let mut buffer = [0; 9000];
    for (n, consumer) in (1..).zip(&consumers) {
        consumer.send_to(&interest(&format!("/a/{n}"), n), router.udp).unwrap();
        consumer.recv(&mut buffer).unwrap();
    }
    let mut known: HashSet<_> = router.running.handle.faces().iter().map(|f| f.id).collect();
    assert_eq!(known.len(), 102);
    while !known.is_empty() {
        match router.running.events.recv_timeout(Duration::from_secs(5)).expect("an event for every face") {
            FaceEvent::Created(status) => assert!(known.remove(&status.id), "{}", status.id),
            other => panic!("{other:?}"),
        }
    }
    consumers[0].send_to(&interest("/a/stop", 1000), router.udp).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn a_flood_on_one_face_leaves_room_for_others_and_for_commands() {
    // A flood fills the buffer of its own socket, so the others use another port.
    let quiet = UdpPort::bind(UdpConfig::new((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let quiet_udp = quiet.local_addr();
    let mut router = Router::with(IoConfig::default(), vec![Box::new(quiet)], |_| {});
    let (consumer, producer) = (socket(), socket());
    let to_producer = router.face(producer.local_addr().unwrap());
    router.route("/a", to_producer.id);
    let producing = std::thread::spawn(move || produce(&producer, 100));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flooder = socket();
            let mut nonce = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    nonce += 1;
                    flooder.send_to(&interest(&format!("/nowhere/{nonce}"), nonce), router.udp).unwrap();
                }
            }
        });
        // Rates are not checked: they depend on how the machine schedules threads.
        let mut buffer = [0; 9000];
        for n in 1..=20 {
            consumer.send_to(&interest(&format!("/a/{n}"), n), quiet_udp).unwrap();
            let answer = consumer.recv(&mut buffer);
            let status = router.running.handle.face(to_producer.id);
            if answer.is_err() || status.is_none() || n == 20 {
                stop.store(true, Ordering::Relaxed);
            }
            assert!(answer.is_ok(), "exchange {n}: {answer:?}");
            assert_eq!(status.map(|s| s.counters.in_data), Some(u64::from(n)));
        }
    });
    consumer.send_to(&interest("/a/stop", 0), quiet_udp).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn after_the_end_calls_answer_without_a_forwarder() {
    let router = Router::udp(|_| {});
    let handle = router.running.handle.clone();
    router.stop();
    assert!(handle.faces().is_empty());
    assert!(!handle.destroy_face(FaceId(256)));
    assert_eq!(handle.cs_erase(name("/"), 10), (0, false));
    handle.shutdown();
}

#[test]
fn no_wake_up_is_ever_lost() {
    for (threads, rests) in THREADS {
        // Without spinning the loop falls asleep after each command. A lost wake-up would block it forever.
        let router =
            Router::of(threads, 1024, IoConfig { spin: Duration::ZERO, ..Router::config(rests) }, Vec::new(), |_| {});
        let (done, finished) = std::sync::mpsc::channel();
        for _ in 0..2 {
            let (handle, done) = (router.running.handle.clone(), done.clone());
            std::thread::spawn(move || {
                for n in 0..1000 {
                    assert!(handle.face(FaceId::INTERNAL).is_some());
                    // Varies the time of the command around the loop's falling asleep.
                    for _ in 0..n % 400 {
                        std::hint::spin_loop();
                    }
                }
                done.send(()).unwrap();
            });
        }
        for _ in 0..2 {
            finished.recv_timeout(Duration::from_secs(120)).expect("every command is carried out");
        }
        router.stop();
    }
}

#[test]
fn stages_of_one_round_in_many_are_timed() {
    for (threads, rests) in [(1, true), (2, true), (2, false)] {
        let router = Router::of(threads, 1024, Router::config(rests), Vec::new(), |_| {});
        let (consumer, mut buffer) = (socket(), [0; 9000]);
        // Each Interest is refused, because there is no route. So each makes a round of its own.
        for nonce in 0..4 * stages::ONE_IN {
            consumer.send_to(&interest(&format!("/a/{nonce}"), nonce), router.udp).unwrap();
            consumer.recv(&mut buffer).unwrap();
        }
        let labels = |times: &StageTimes| {
            assert!(times.all().all(|(_, time)| time.ns > 0), "{times:?}");
            times.all().filter(|(_, time)| time.packets > 0).map(|(stage, _)| stage.label()).collect::<Vec<_>>()
        };
        let mut all = StageTimes::default();
        for thread in router.running.handle.thread_statuses() {
            let stages = labels(&thread.counters.stages);
            assert!(["parse", "pit-cs", "fib", "strategy"].iter().all(|of_worker| stages.contains(of_worker)));
            all.add(&thread.counters.stages);
        }
        let mut expected = vec!["receive", "dispatch", "parse", "pit-cs", "fib", "strategy", "send"];
        expected.retain(|stage| threads > 1 || *stage != "dispatch");
        assert_eq!(labels(&all), expected);
        router.stop();
    }
}
