//! Several packet threads: errors that only they can make.

mod common;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::{FaceEvent, FaceUri, Registration, imbalance};
use byname_forward::FaceId;
use byname_forward::face_table::FaceCounters;
use byname_forward::seat::{RingStatus, owner};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, LpPacket, PitToken};
use common::*;

/// Threads that do not rest: otherwise one of them would do all the work.
fn router(threads: usize, ring_packets: usize) -> Router {
    Router::of(threads, ring_packets, Router::config(false), Vec::new(), |_| {})
}

/// Answers Interests until one asks for `/stop`. Answers those with CanBePrefix one component below. Echoes tokens if
/// `echo`. Returns the number of Interests with a token.
fn answer_all(socket: &UdpSocket, echo: bool) -> usize {
    let (mut buffer, mut with_token) = ([0; 9000], 0);
    loop {
        let (len, from) = socket.recv_from(&mut buffer).expect("an Interest in time");
        let frame = LpPacket::decode(&buffer[..len]).expect("a link packet");
        let interest = Interest::decode(frame.fragment.expect("no fragments are so short")).expect("an Interest");
        if interest.name.component(-1).is_some_and(|c| c.value == b"stop") {
            return with_token;
        }
        with_token += usize::from(!frame.pit_token.is_empty());
        let name = interest.name.to_name();
        let name = if interest.can_be_prefix { name.join(Component::generic(b"below")) } else { name };
        let data = DataBuilder::new(name).content(vec![7; 100]).encode();
        let mut answer = Vec::new();
        let pit_token = if echo { frame.pit_token } else { PitToken::NONE };
        LpPacket { pit_token, fragment: Some(&data), ..LpPacket::default() }.encode(&mut answer);
        socket.send_to(&answer, from).expect("sent");
    }
}

#[test]
fn consumers_at_once_lose_nothing_and_all_is_counted_once() {
    const CONSUMERS: u32 = 3;
    const WINDOWS: u32 = 60;
    const WINDOW: u32 = 24;
    for (threads, echo) in [(1, true), (2, true), (3, false), (3, true), (5, false), (5, true)] {
        let mut router = router(threads, 1024);
        let producer = socket();
        let to_producer = router.face(producer.local_addr().unwrap()).id;
        router.route("/a", to_producer);
        let producing = std::thread::spawn(move || answer_all(&producer, echo));
        let udp = router.udp;
        let consume = |consumer: u32| {
            let (socket, mut buffer, mut answered) = (socket(), [0; 9000], HashSet::new());
            for window in 0..WINDOWS {
                for n in 0..WINDOW {
                    let uri = format!("/a/{consumer}/{window}/{n}");
                    let interest = InterestBuilder::new(name(&uri), window * WINDOW + n + 1);
                    socket.send_to(&interest.can_be_prefix(n % 3 == 0).lifetime_ms(4000).encode(), udp).unwrap();
                }
                for _ in 0..WINDOW {
                    let len = socket.recv(&mut buffer).expect("every Interest is answered");
                    let packet = &buffer[..len];
                    let data = Data::decode(packet).unwrap_or_else(|error| {
                        panic!("no Data without a link header: {error}: {:?}", LpPacket::decode(packet))
                    });
                    assert!(answered.insert(data.name.to_name()), "{} came twice", data.name);
                }
            }
        };
        std::thread::scope(|scope| (0..CONSUMERS).for_each(|consumer| drop(scope.spawn(move || consume(consumer)))));
        let exchanges = u64::from(CONSUMERS * WINDOWS * WINDOW);
        let counters = router.running.handle.counters();
        let once = FaceCounters {
            in_interests: exchanges,
            out_interests: exchanges,
            in_data: exchanges,
            out_data: exchanges,
            ..FaceCounters::default()
        };
        assert_eq!((counters.satisfied_interests, counters.faces), (exchanges, once));
        assert_eq!(counters.drops.iter().filter(|(_, count)| *count > 0).count(), 0, "{:?}", counters.drops);
        let statuses = router.running.handle.thread_statuses();
        assert_eq!(statuses.len(), threads);
        for thread in &statuses {
            let of_all = thread.counters.faces.in_interests as f64 / exchanges as f64;
            assert!((0.6..=1.5).contains(&(of_all * threads as f64)), "{of_all} with {threads} threads");
        }
        socket().send_to(&interest("/a/stop", 1), udp).unwrap();
        let with_token = if threads > 1 { exchanges } else { 0 };
        assert_eq!(producing.join().unwrap() as u64, with_token, "Interests with a token, of {threads} threads");
        router.stop();
    }
}

/// Consumers come, ask, and go while others are answered. Their faces move, and some end while answers are under way.
#[test]
fn faces_that_end_and_move_take_nothing_from_others_and_their_last_counts_are_exact() {
    const CALM: u32 = 2;
    const ENDING: usize = 16;
    const WINDOW: u32 = 24;
    for threads in [2, 3] {
        let mut router = router(threads, 4096);
        let producer = socket();
        let to_producer = router.face(producer.local_addr().unwrap()).id;
        router.route("/a", to_producer);
        let producing = std::thread::spawn(move || produce(&producer, 100));
        let (udp, handle, done) = (router.udp, router.running.handle.clone(), AtomicBool::new(false));
        let done = &done;
        let consume = move |consumer: u32| {
            let (socket, mut buffer, mut bytes, mut nonce) = (socket(), [0; 9000], 0, consumer << 24);
            while !done.load(Ordering::SeqCst) {
                for _ in 0..WINDOW {
                    nonce += 1;
                    socket.send_to(&interest(&format!("/a/{consumer}/{nonce}"), nonce), udp).unwrap();
                }
                for _ in 0..WINDOW {
                    bytes += socket.recv(&mut buffer).expect("every Interest is answered");
                }
            }
            (socket.local_addr().unwrap(), bytes as u64, u64::from(nonce - (consumer << 24)))
        };
        // These leave before their answers come.
        let come_and_go = || {
            let mut ended = 0;
            while ended < ENDING {
                let restless = socket();
                let remote = FaceUri::Udp(restless.local_addr().unwrap());
                for n in 0..WINDOW {
                    restless.send_to(&interest(&format!("/a/restless/{ended:04}/{n:02}"), n), udp).unwrap();
                }
                let find = || handle.faces().into_iter().find(|face| face.remote == remote);
                let face = (0..1000).find_map(|_| find()).expect("it gets a face");
                let to = (face.thread + 1) % threads;
                if ended % 2 == 0 {
                    handle.move_face(face.id, to as u64).expect("it moves");
                }
                assert!(handle.destroy_face(face.id));
                ended += 1;
            }
        };
        let calm = std::thread::scope(|scope| {
            let calm: Vec<_> = (0..CALM).map(|consumer| scope.spawn(move || consume(consumer))).collect();
            come_and_go();
            done.store(true, Ordering::SeqCst);
            calm.into_iter().map(|consumer| consumer.join().unwrap()).collect::<Vec<_>>()
        });
        for (remote, bytes, packets) in calm {
            let face = handle.faces().into_iter().find(|face| face.remote == FaceUri::Udp(remote)).expect("it lives");
            assert_eq!((face.counters.in_interests, face.counters.out_data), (packets, packets));
            assert_eq!((face.link.out_bytes, face.link.out_drops), (bytes, 0));
        }
        let mut last = HashMap::new();
        while last.len() < ENDING {
            let event = router.running.events.recv_timeout(Duration::from_secs(5)).expect("each end is told");
            if let FaceEvent::Destroyed(face) = event {
                last.insert(face.id, face);
            }
        }
        let is_known = |reason: &str| reason == "no-face" || reason == "udp_face_moved";
        let drops = handle.counters().drops;
        assert!(
            drops.iter().all(|(reason, count)| *count == 0 || is_known(reason) || *reason == "unknown-face"),
            "{drops:?}"
        );
        // Workers count what they send. Each packet has left by some thread's socket, or found no face.
        let no_face = drops.iter().find(|(reason, _)| *reason == "no-face").map_or(0, |(_, count)| *count);
        let len = data("/a/restless/0000/00", 100).len() as u64;
        let sent: u64 = last.values().map(|face| face.counters.out_data).sum();
        let left: u64 = last.values().map(|face| face.link.out_bytes).sum();
        assert_eq!(left % len, 0);
        assert_eq!(sent, left / len + no_face, "with {threads} threads, {no_face} packets found no face");
        socket().send_to(&interest("/a/stop", 1), udp).unwrap();
        producing.join().unwrap();
        router.stop();
    }
}

/// The faces of UDP peers are lent to other threads, but not while a registration waits for its answer.
#[test]
fn a_udp_application_gets_the_answer_to_its_registration_before_interests_from_any_thread() {
    const INTERESTS: u32 = 40;
    let mut router = router(3, 1024);
    let (application, producer, consumer, mut buffer) = (socket(), socket(), socket(), [0; 9000]);
    let (to_application, to_producer) =
        (router.face(application.local_addr().unwrap()).id, router.face(producer.local_addr().unwrap()).id);
    router.route("/command", to_producer);
    let handle = router.running.handle.clone();
    for round in 0..3 {
        let (command, prefix) = (format!("/command/{round}"), format!("/application/{round}"));
        application.send_to(&interest(&command, round), router.udp).unwrap();
        let (len, from) = producer.recv_from(&mut buffer).expect("the command");
        let token = LpPacket::decode(&buffer[..len]).expect("a frame").pit_token;
        let registration = Registration { face: to_application, prefix: name(&prefix), command: name(&command) };
        handle.answer_before_interests(registration);
        router.route(&prefix, to_application);
        let ask = |from: u32| {
            for n in from..from + INTERESTS {
                consumer.send_to(&interest(&format!("{prefix}/{n}"), 1000 * round + n), router.udp).unwrap();
            }
        };
        ask(0);
        std::thread::sleep(Duration::from_millis(30));
        let mut answer = Vec::new();
        LpPacket { pit_token: token, fragment: Some(&data(&command, 10)), ..LpPacket::default() }.encode(&mut answer);
        producer.send_to(&answer, from).unwrap();
        let len = application.recv(&mut buffer).expect("the answer");
        assert_eq!(Data::decode(&buffer[..len]).expect("first the answer").name.to_string(), command);
        let mut asked = |from| {
            for _ in from..from + INTERESTS {
                let len = application.recv(&mut buffer).expect("an Interest");
                Interest::decode(network_packet(&buffer[..len])).expect("an Interest");
            }
        };
        asked(0);
        ask(INTERESTS);
        asked(INTERESTS);
    }
    router.stop();
}

#[test]
fn forged_tokens_make_no_face_on_a_wrong_thread_and_answer_nothing() {
    const THREADS: usize = 3;
    let mut router = router(THREADS, 4096);
    let (producer, consumer, mut buffer) = (socket(), socket(), [0; 9000]);
    let to_producer = router.face(producer.local_addr().unwrap()).id;
    router.route("/a", to_producer);
    consumer.send_to(&interest("/a/secret", 1), router.udp).unwrap();
    let (len, _) = producer.recv_from(&mut buffer).expect("an Interest");
    let token = LpPacket::decode(&buffer[..len]).expect("a frame").pit_token;
    let token: [u8; 6] = token.as_slice().try_into().expect("a token of several threads");
    let handle = router.running.handle.clone();
    let face_of = |socket: &UdpSocket| {
        let remote = FaceUri::Udp(socket.local_addr().unwrap());
        let faces: Vec<_> = handle.faces().into_iter().filter(|face| face.remote == remote).collect();
        assert!(faces.len() <= 1, "{faces:?}");
        faces.into_iter().next()
    };
    let forged = |worker: u8, packet: &[u8]| {
        let [a, b, c, d, short, _] = token;
        let pit_token = PitToken::new(&[a, b, c, d, short, worker]).expect("six bytes");
        let mut frame = Vec::new();
        LpPacket { pit_token, fragment: Some(packet), ..LpPacket::default() }.encode(&mut frame);
        frame
    };
    let drops = |wanted: &str| {
        let drops = handle.counters().drops;
        drops.iter().find(|(reason, _)| *reason == wanted).map_or(0, |(_, count)| *count)
    };
    let (mut sent, mut interests) = (0, 1);
    for round in 0..20 {
        let stranger = socket();
        // Answers, an Interest behind a token, and what is no packet at all, for each thread.
        for worker in [0, 1, 2, 3, 255] {
            for (uri, len) in [("/a/secret", 10), ("/b", 700)] {
                stranger.send_to(&forged(worker, &data(uri, len)), router.udp).unwrap();
                sent += 1;
            }
            stranger.send_to(&forged(worker, b"\x06\x0aaaaaaaaaaa"), router.udp).unwrap();
            sent += 1;
        }
        stranger.send_to(&forged(round % 3, &interest("/nowhere", round.into())), router.udp).unwrap();
        interests += 1;
        stranger.recv(&mut buffer).expect("a Nack, since there is no route");
        let face = face_of(&stranger).expect("it has a face");
        assert!(handle.destroy_face(face.id));
        stranger.send_to(&interest("/nowhere", 100 + u32::from(round)), router.udp).unwrap();
        interests += 1;
        stranger.recv(&mut buffer).expect("a Nack, since there is no route");
        assert_eq!(face_of(&stranger).expect("it has a face").thread, face.thread, "the thread of its address");
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    let dropped = || ["unsolicited-data", "unasked-data", "malformed", "unknown-face"].map(drops).iter().sum::<u64>();
    while dropped() < sent && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let counters = handle.counters();
    assert_eq!(dropped(), sent, "{:?}", counters.drops);
    assert_eq!((counters.faces.in_interests, counters.satisfied_interests), (interests, 0));
    // The true answer still finds its way.
    producer.send_to(&forged(token[5], &data("/a/secret", 10)), router.udp).unwrap();
    let len = consumer.recv(&mut buffer).expect("Data");
    assert_eq!(Data::decode(&buffer[..len]).expect("Data").name.to_string(), "/a/secret");
    router.stop();
}

#[test]
fn hot_names_are_answered_once_by_whichever_worker() {
    [2, 3, 5].into_iter().for_each(ask_for_hot_names);
}

fn ask_for_hot_names(threads: usize) {
    const CONSUMERS: u32 = 3;
    const WINDOWS: u32 = 90;
    const HOT: u32 = 8;
    let mut router = router(threads, 1024);
    let producer = socket();
    let to_producer = router.face(producer.local_addr().unwrap()).id;
    router.route("/a", to_producer);
    let producing = std::thread::spawn(move || produce(&producer, 1000));
    let udp = router.udp;
    let consume = |consumer: u32| {
        let (socket, mut buffer) = (socket(), [0; 9000]);
        for window in 0..WINDOWS {
            // The hot names change over time. Beside them are names that only this consumer asks for.
            let hot = (0..HOT).map(|n| format!("/a/hot/{}", window / 30 * 3 + n));
            let names = hot.chain((0..HOT).map(|n| format!("/a/{consumer}/{window}/{n}")));
            let mut asked: HashSet<_> = names.map(|uri| name(&uri)).collect();
            for (n, name) in asked.iter().enumerate() {
                let nonce = (consumer * WINDOWS + window) * 2 * HOT + n as u32;
                socket.send_to(&InterestBuilder::new(name.clone(), nonce).encode(), udp).unwrap();
            }
            while !asked.is_empty() {
                let len = socket.recv(&mut buffer).expect("every Interest is answered");
                let data = Data::decode(&buffer[..len]).expect("Data without a link header");
                assert!(asked.remove(&data.name.to_name()), "{} came twice", data.name);
            }
        }
    };
    std::thread::scope(|scope| (0..CONSUMERS).for_each(|consumer| drop(scope.spawn(move || consume(consumer)))));
    let interests = u64::from(CONSUMERS * WINDOWS * 2 * HOT);
    let counters = router.running.handle.counters();
    assert_eq!((counters.faces.in_interests, counters.faces.out_data), (interests, interests));
    // A second consumer's Interest goes upstream again after a while. The producer then answers twice, and the second
    // Data is unsolicited.
    let drops = counters.drops.iter().filter(|(reason, count)| *reason != "unsolicited-data" && *count > 0);
    assert_eq!(drops.count(), 0, "{:?}", counters.drops);
    assert!(counters.hot_names >= u64::from(HOT), "{}", counters.hot_names);
    assert!(counters.spread_hits > interests / 8, "{} of {}", counters.spread_hits, counters.spread_interests);
    socket().send_to(&interest("/a/stop", 1), udp).unwrap();
    producing.join().unwrap();
    router.stop();
}

/// Answers Interests until one asks for `/stop`, but only after a while: then more Interests for the same Data wait.
fn produce_late(socket: &UdpSocket) {
    let (mut buffer, mut asked) = ([0; 9000], Vec::new());
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    loop {
        let received = socket.recv_from(&mut buffer);
        if let Ok((len, from)) = received {
            let interest = Interest::decode(network_packet(&buffer[..len])).expect("an Interest");
            if interest.name.component(-1).is_some_and(|c| c.value == b"stop") {
                return;
            }
            asked.push((interest.name.to_name(), from));
        }
        if received.is_err() || asked.len() == 64 {
            for (name, to) in asked.drain(..) {
                socket.send_to(&DataBuilder::new(name).content(vec![7; 100]).encode(), to).expect("sent");
            }
        }
    }
}

#[test]
fn interests_for_live_data_wait_where_they_came_and_are_answered_once() {
    const CONSUMERS: u32 = 9;
    const WINDOWS: u32 = 60;
    const NAMES: u32 = 4;
    let mut router = Router::hot(3, 1024, Router::config(false), Vec::new(), |_| {}, true);
    let producer = socket();
    let to_producer = router.face(producer.local_addr().unwrap()).id;
    router.route("/a", to_producer);
    let producing = std::thread::spawn(move || produce_late(&producer));
    let udp = router.udp;
    let consume = |consumer: u32| {
        let (socket, mut buffer) = (socket(), [0; 9000]);
        for window in 0..WINDOWS {
            let mut asked: HashSet<_> = (0..NAMES).map(|n| name(&format!("/a/live/{n}"))).collect();
            for (n, name) in asked.iter().enumerate() {
                let nonce = (consumer * WINDOWS + window) * NAMES + n as u32;
                // Data without freshness never answers these from a content store.
                let interest = InterestBuilder::new(name.clone(), nonce).must_be_fresh(true);
                socket.send_to(&interest.encode(), udp).unwrap();
            }
            while !asked.is_empty() {
                let len = socket.recv(&mut buffer).expect("every Interest is answered");
                let data = Data::decode(&buffer[..len]).expect("Data without a link header");
                assert!(asked.remove(&data.name.to_name()), "{} came twice", data.name);
            }
        }
    };
    std::thread::scope(|scope| (0..CONSUMERS).for_each(|consumer| drop(scope.spawn(move || consume(consumer)))));
    let interests = u64::from(CONSUMERS * WINDOWS * NAMES);
    let counters = router.running.handle.counters();
    assert_eq!((counters.faces.in_interests, counters.faces.out_data), (interests, interests));
    let drops = counters.drops.iter().filter(|(reason, count)| *reason != "unsolicited-data" && *count > 0);
    assert_eq!(drops.count(), 0, "{:?}", counters.drops);
    assert!(counters.spread_joins > interests / 20, "{} of {interests}", counters.spread_joins);
    assert_eq!((counters.pit_entries, counters.shared_pit_entries), (0, 0));
    socket().send_to(&interest("/a/stop", 1), udp).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn the_content_stores_are_one_to_management() {
    let mut router = router(3, 1024);
    let (consumer, producer) = (socket(), socket());
    let to_producer = router.face(producer.local_addr().unwrap()).id;
    router.route("/a", to_producer);
    let producing = std::thread::spawn(move || produce(&producer, 10));
    let mut buffer = [0; 9000];
    for n in 0..60 {
        consumer.send_to(&interest(&format!("/a/{}/{n}", n % 2), n + 1), router.udp).unwrap();
        consumer.recv(&mut buffer).unwrap();
    }
    let handle = &router.running.handle;
    assert_eq!(handle.cs_info().packets, 60);
    assert_eq!(handle.cs_erase(name("/a/0"), 10), (10, true));
    assert_eq!(handle.cs_erase(name("/a/0"), 100), (20, false));
    assert_eq!(handle.cs_erase(name("/b"), 100), (0, false));
    let info = handle.cs_config(Some(10), Some(false), None);
    assert_eq!((info.packets_max, info.admit, info.serve), (10, false, true));
    assert!(info.packets <= 10);
    assert_eq!(handle.cs_config(Some(2), None, None).packets_max, 2);
    assert!(!handle.set_endpoint(byname_forward::FaceId(999)));
    assert!(handle.set_endpoint(to_producer));
    consumer.send_to(&interest("/a/stop", 1), router.udp).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn a_full_ring_drops_counts_and_goes_on() {
    let mut router = router(2, 1);
    let (consumer, producer) = (socket(), socket());
    let to_producer = router.face(producer.local_addr().unwrap()).id;
    router.route("/a", to_producer);
    let mut nonce = 0;
    for _ in 0..1000 {
        for _ in 0..100 {
            nonce += 1;
            consumer.send_to(&interest(&format!("/nowhere/{nonce}"), nonce), router.udp).unwrap();
        }
        let dropped = router.running.handle.counters().drops;
        if dropped.iter().any(|(reason, count)| *reason == "input-ring-full" && *count > 0) {
            break;
        }
    }
    let rings: Vec<_> = router.running.handle.thread_statuses().into_iter().filter_map(|thread| thread.rings).collect();
    assert!(rings.iter().any(|ring| ring.input_drops > 0), "{rings:?}");
    let calm = socket();
    calm.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let producing = std::thread::spawn(move || produce(&producer, 10));
    let mut buffer = [0; 9000];
    let answered = (0..100).any(|n| {
        calm.send_to(&interest("/a/b", 5000 + n), router.udp).unwrap();
        calm.recv(&mut buffer).is_ok()
    });
    assert!(answered);
    for n in 0..20 {
        calm.send_to(&interest("/a/stop", 9000 + n), router.udp).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        if producing.is_finished() {
            break;
        }
    }
    producing.join().unwrap();
    router.stop();
}

#[test]
fn connections_are_dealt_out_to_all_threads() {
    const THREADS: usize = 3;
    for rests in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nfd.sock");
        let router = Router::of(THREADS, 1024, Router::config(rests), Vec::new(), |_| {});
        let port = StreamPort::unix(&[&path], StreamConfig::default()).unwrap();
        for (thread, port) in port.for_threads(THREADS).into_iter().enumerate() {
            router.running.handle.add_ports(thread, vec![Box::new(port)]).unwrap();
        }
        let mut clients: Vec<UnixStream> = (0..3 * THREADS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for (nonce, client) in (1..).zip(&mut clients) {
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            client.write_all(&interest("/nowhere", nonce)).unwrap();
            assert!(client.read(&mut [0; 9000]).unwrap() > 0, "a Nack, as there is no route");
        }
        let owners = || -> Vec<usize> {
            let faces = router.running.handle.faces().into_iter().filter(|face| face.id != FaceId::INTERNAL);
            faces.map(|face| owner(face.id, THREADS)).collect()
        };
        let mut of_clients = owners();
        of_clients.sort_unstable();
        assert_eq!(of_clients, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        drop(clients);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !owners().is_empty() {
            assert!(Instant::now() < deadline, "their faces end");
            std::thread::sleep(Duration::from_millis(5));
        }
        router.stop();
    }
}

/// Load that comes and goes, so that threads are called, and rest again.
#[test]
fn threads_that_rest_and_work_lose_nothing() {
    const CONSUMERS: u32 = 3;
    const WINDOWS: u32 = 150;
    const WINDOW: u32 = 48;
    let mut router = Router::of(3, 4096, Router::config(true), Vec::new(), |_| {});
    let producer = socket();
    let to_producer = router.face(producer.local_addr().unwrap()).id;
    router.route("/a", to_producer);
    let producing = std::thread::spawn(move || produce(&producer, 10));
    let udp = router.udp;
    let consume = |consumer: u32| {
        let (socket, mut buffer) = (socket(), [0; 9000]);
        for window in 0..WINDOWS {
            for n in 0..WINDOW {
                let nonce = (consumer * WINDOWS + window) * WINDOW + n;
                socket.send_to(&interest(&format!("/a/{consumer}/{window}/{n}"), nonce), udp).unwrap();
            }
            for _ in 0..WINDOW {
                socket.recv(&mut buffer).expect("every Interest is answered");
            }
            if window % 30 == 29 {
                std::thread::sleep(Duration::from_millis(40));
            }
        }
    };
    std::thread::scope(|scope| (0..CONSUMERS).for_each(|consumer| drop(scope.spawn(move || consume(consumer)))));
    let counters = router.running.handle.counters();
    assert_eq!(counters.satisfied_interests, u64::from(CONSUMERS * WINDOWS * WINDOW));
    assert_eq!(counters.drops.iter().filter(|(_, count)| *count > 0).count(), 0, "{:?}", counters.drops);
    socket().send_to(&interest("/a/stop", 1), udp).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn each_thread_tells_what_it_does() {
    const INTERESTS: u32 = 400;
    for rests in [false, true] {
        let router = Router::of(2, 1024, Router::config(rests), Vec::new(), |_| {});
        let (consumer, mut buffer) = (socket(), [0; 9000]);
        for nonce in 0..INTERESTS {
            consumer.send_to(&interest(&format!("/nowhere/{nonce}"), nonce), router.udp).unwrap();
            consumer.recv(&mut buffer).expect("a Nack, as there is no route");
        }
        let ask = || router.running.handle.thread_statuses();
        let threads = ask();
        let sum = |of: fn(&RingStatus) -> u64| threads.iter().filter_map(|thread| thread.rings.as_ref()).map(of).sum();
        let (home, foreign): (u64, u64) = (sum(|rings| rings.home), sum(|rings| rings.foreign));
        assert_eq!((home + foreign, sum(|rings| rings.taken)), (u64::from(INTERESTS), foreign));
        assert!(home > 0 && foreign > 0, "{home} and {foreign}");
        let imbalance = imbalance(&threads).expect("packets were handled");
        assert!((1.0..1.5).contains(&imbalance), "{imbalance}");
        assert!((0.0..=1.0).contains(&threads[0].activity.load) && threads[0].activity.busy_ns > 0);
        // Both threads have nothing to do until the next question, and soon sleep or rest.
        let is_idle = || {
            std::thread::sleep(Duration::from_millis(5));
            let now = ask();
            let has_slept = |n: usize| now[n].activity.sleeps > threads[n].activity.sleeps;
            has_slept(0) && if rests { now[1].activity.rests > 0 } else { has_slept(1) }
        };
        assert!((0..1000).any(|_| is_idle()), "{threads:?}");
        router.stop();
    }
}
