//! Faces that move between packet threads while traffic goes on.

mod common;

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_face::face::MoveFaceError;
use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::{FaceEvent, FaceRequest, FaceStatus, FaceUri};
use byname_forward::FaceId;
use byname_forward::face_table::Persistency;
use byname_wire::{Data, LpPacket};
use common::*;

const THREADS: usize = 3;

/// A router with Unix and TCP listeners on all of three threads.
fn router(rests: bool, connections_max: usize) -> (Router, PathBuf, SocketAddr, tempfile::TempDir) {
    router_of(THREADS, rests, connections_max)
}

fn router_of(threads: usize, rests: bool, connections_max: usize) -> (Router, PathBuf, SocketAddr, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nfd.sock");
    let router = Router::of(threads, 1024, Router::config(rests), Vec::new(), |_| {});
    let config = StreamConfig { connections_max, ..StreamConfig::default() };
    let unix = StreamPort::unix(&[&path], config.clone()).expect("a listener");
    let tcp = StreamPort::tcp(&[(Ipv4Addr::LOCALHOST, 0).into()], config).expect("a listener");
    let Some(FaceUri::Tcp(address)) = tcp.local_uris().next().cloned() else { panic!("no address") };
    let ports = unix.for_threads(threads).into_iter().zip(tcp.for_threads(threads));
    for (thread, (unix, tcp)) in ports.enumerate() {
        router.running.handle.add_ports(thread, vec![Box::new(unix), Box::new(tcp)]).expect("they start");
    }
    (router, path, address, folder)
}

/// The faces, without the internal one.
fn faces(router: &Router) -> Vec<FaceStatus> {
    router.running.handle.faces().into_iter().filter(|face| face.id != FaceId::INTERNAL).collect()
}

/// The face of the next client.
fn next_face(router: &Router, known: &mut HashSet<FaceId>) -> FaceId {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(face) = faces(router).into_iter().find(|face| known.insert(face.id)) {
            return face.id;
        }
        assert!(Instant::now() < deadline, "a face");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A producer of `/a` over TCP: its face, a way to stop it, and its thread, which returns how much it produced.
fn producer(
    router: &mut Router,
    known: &mut HashSet<FaceId>,
    address: SocketAddr,
) -> (FaceId, TcpStream, JoinHandle<usize>) {
    let producer = TcpStream::connect(address).unwrap();
    let face = next_face(router, known);
    router.route("/a", face);
    let stopper = producer.try_clone().unwrap();
    (face, stopper, std::thread::spawn(move || produce_on(producer)))
}

fn connect(path: &PathBuf) -> UnixStream {
    let client = UnixStream::connect(path).expect("it listens");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    client
}

#[test]
fn faces_that_move_all_the_time_lose_nothing_and_all_is_counted_once() {
    const EXCHANGES: u32 = 20_000;
    const WINDOW: u32 = 64;
    for (threads, rests) in [(2, true), (3, true), (3, false), (5, false)] {
        let (mut router, path, address, _folder) = router_of(threads, rests, 100);
        let mut known = HashSet::new();
        let (to_producer, stopper, producing) = producer(&mut router, &mut known, address);
        let mut client = connect(&path);
        let to_client = next_face(&router, &mut known);
        let (handle, done) = (router.running.handle.clone(), AtomicBool::new(false));
        let (mut moves, mut bytes_in, mut bytes_out, begun) = (0, 0, 0, Instant::now());
        std::thread::scope(|scope| {
            let moving = scope.spawn(|| {
                let mut moves = 0;
                // Not for ever, if the exchanges fail.
                while !done.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(60) {
                    for (face, step) in [(to_client, 1), (to_producer, 1 + 1 % (threads - 1))] {
                        let at = handle.face(face).expect("it lives").thread;
                        let to = (at + step) % threads;
                        assert_eq!(handle.move_face(face, to as u64).expect("it moves").thread, to);
                        moves += 1;
                    }
                }
                moves
            });
            let mut elements = Elements::new(client.try_clone().unwrap());
            let (mut sent, mut waiting) = (0, HashSet::new());
            for received in 0..EXCHANGES {
                if received % (WINDOW / 2) == 0 {
                    let mut burst = Vec::new();
                    while sent < EXCHANGES && sent < received + WINDOW {
                        let uri = format!("/a/{sent}");
                        burst.extend_from_slice(&interest(&uri, sent));
                        waiting.insert(name(&uri));
                        sent += 1;
                    }
                    bytes_in += burst.len() as u64;
                    client.write_all(&burst).unwrap();
                }
                let wire = elements.next().expect("Data");
                bytes_out += wire.len() as u64;
                let packet = network_packet(&wire);
                let answered = Data::decode(packet).expect("Data").name.to_name();
                assert_eq!(packet, data(&answered.to_string(), 1_000));
                assert!(waiting.remove(&answered), "{answered} came twice");
            }
            done.store(true, Ordering::SeqCst);
            moves = moving.join().expect("it does not panic");
        });
        assert!(moves > 10, "{moves} moves between {threads} threads");
        let status = handle.face(to_client).expect("it lives");
        assert_eq!((status.link.in_bytes, status.link.out_bytes), (bytes_in, bytes_out));
        assert_eq!(status.counters.in_interests, u64::from(EXCHANGES));
        assert_eq!(status.counters.out_data, u64::from(EXCHANGES));
        let counters = handle.counters();
        assert_eq!(counters.satisfied_interests, u64::from(EXCHANGES));
        assert_eq!(counters.drops.iter().filter(|(_, count)| *count > 0).count(), 0, "{:?}", counters.drops);
        let statuses = handle.thread_statuses();
        let sum = |of: fn(&byname_face::ThreadStatus) -> u64| statuses.iter().map(of).sum::<u64>();
        assert_eq!((sum(|thread| thread.faces_come), sum(|thread| thread.faces_left)), (moves, moves));
        assert_eq!(sum(|thread| thread.faces), 3, "with the internal face");
        stopper.shutdown(Shutdown::Both).unwrap();
        assert_eq!(producing.join().unwrap(), EXCHANGES as usize);
        router.stop();
    }
}

#[test]
fn a_face_takes_along_what_has_come_or_waits_in_part() {
    const PACKETS: u32 = 400;
    let (mut router, path, address, _folder) = router(true, 100);
    let (handle, mut known) = (router.running.handle.clone(), HashSet::new());
    let (_, stopper, producing) = producer(&mut router, &mut known, address);
    let mut client = connect(&path);
    let face = next_face(&router, &mut known);
    let go_on = || {
        let at = handle.face(face).expect("it lives").thread;
        handle.move_face(face, ((at + 1) % THREADS) as u64).expect("it moves");
    };
    // Part of an Interest, then the rest of it.
    let mut elements = Elements::new(client.try_clone().unwrap());
    let wire = interest("/a/part", 1);
    for part in wire.chunks(7) {
        client.write_all(part).unwrap();
        go_on();
    }
    assert_eq!(elements.next().expect("Data"), data("/a/part", 1_000));
    // Fragments of an Interest.
    let wire = interest("/a/fragments", 2);
    let (parts, mut frame) = (wire.chunks(wire.len().div_ceil(3)), Vec::new());
    for (index, part) in (0..).zip(parts) {
        frame.clear();
        let lp = LpPacket { sequence: Some(70 + index), frag_index: index, frag_count: 3, ..LpPacket::default() };
        LpPacket { fragment: Some(part), ..lp }.encode(&mut frame);
        client.write_all(&frame).unwrap();
        go_on();
    }
    assert_eq!(elements.next().expect("Data"), data("/a/fragments", 1_000));
    // Output that the peer does not read yet. Its queue is longer than what the system takes.
    for n in 0..PACKETS {
        client.write_all(&interest(&format!("/a/{n}"), 10 + n)).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while handle.face(face).expect("it lives").counters.out_data < u64::from(PACKETS + 2) {
        assert!(Instant::now() < deadline, "{:?}", handle.face(face));
        go_on();
    }
    (0..THREADS).for_each(|_| go_on());
    let mut answered = HashSet::new();
    for n in 0..PACKETS {
        let wire = elements.next().expect("Data");
        assert!(answered.insert(Data::decode(network_packet(&wire)).expect("Data").name.to_name()));
        if n % 50 == 0 {
            go_on();
        }
    }
    stopper.shutdown(Shutdown::Both).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn refused_moves_change_nothing() {
    let (router, path, _, _folder) = router(true, 2 * THREADS);
    let (handle, mut known) = (&router.running.handle, HashSet::new());
    let _client = connect(&path);
    let face = next_face(&router, &mut known);
    let at = handle.face(face).expect("it lives").thread;
    assert_eq!(handle.move_face(FaceId(9999), 0).unwrap_err(), MoveFaceError::NotFound);
    for thread in [THREADS as u64, u64::MAX] {
        let error = handle.move_face(face, thread).unwrap_err();
        assert_eq!(error, MoveFaceError::NoThread { thread, last: THREADS - 1 });
    }
    assert_eq!(handle.move_face(face, at as u64).expect("it is there").thread, at);
    let MoveFaceError::Stays(why) = handle.move_face(FaceId::INTERNAL, 1).unwrap_err() else {
        panic!("another reason")
    };
    assert!(why.contains("cannot move: its faces share"), "{why}");
    assert_eq!(handle.movable_faces(at), HashSet::from([face]));
    // Each thread has room for two connections.
    let _others: Vec<UnixStream> = (1..2 * THREADS).map(|_| connect(&path)).collect();
    (1..2 * THREADS).for_each(|_| _ = next_face(&router, &mut known));
    let error = handle.move_face(face, ((at + 1) % THREADS) as u64).unwrap_err();
    assert!(error.to_string().contains("has as many faces as it may"), "{error}");
    let threads = handle.thread_statuses();
    assert!(threads.iter().all(|thread| (thread.faces_come, thread.faces_left) == (0, 0)));
    assert_eq!(handle.face(face).expect("it lives").thread, at);
    router.stop();
}

#[test]
fn a_face_ends_once_wherever_it_is() {
    const ROUNDS: usize = 200;
    let (router, path, _, _folder) = router(true, 100);
    let (handle, mut known) = (router.running.handle.clone(), HashSet::new());
    for round in 0..ROUNDS {
        let client = connect(&path);
        let face = next_face(&router, &mut known);
        // Its peer leaves, or somebody destroys it, while it moves.
        let destroyer = handle.clone();
        let ending = std::thread::spawn(move || match round % 2 {
            0 => drop(client),
            _ => assert!(destroyer.destroy_face(face)),
        });
        for step in 0..round % 8 {
            let to = ((round + step) % THREADS) as u64;
            match handle.move_face(face, to) {
                Ok(_) | Err(MoveFaceError::NotFound) => {}
                Err(error) => panic!("{error}"),
            }
        }
        ending.join().unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while !faces(&router).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", faces(&router));
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut alive = HashSet::new();
    let mut ended = 0;
    while ended < ROUNDS {
        match router.running.events.recv_timeout(Duration::from_secs(5)).expect("the end of each face") {
            FaceEvent::Created(status) => assert!(alive.insert(status.id)),
            FaceEvent::Destroyed(status) => {
                assert!(alive.remove(&status.id), "{} ended twice", status.id);
                ended += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let threads = handle.thread_statuses();
    let sum = |of: fn(&byname_face::ThreadStatus) -> u64| threads.iter().map(of).sum::<u64>();
    assert_eq!((sum(|thread| thread.faces), sum(|thread| thread.faces_come)), (1, sum(|thread| thread.faces_left)));
    router.stop();
}

#[test]
fn a_face_without_a_connection_connects_from_its_new_thread() {
    let (mut router, path, _, _folder) = router(false, 100);
    let handle = router.running.handle.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let request = FaceRequest { persistency: Persistency::Permanent, ..FaceRequest::to(FaceUri::Tcp(address)) };
    let face = handle.create_face(request.clone()).expect("a new face");
    router.route("/a", face.id);
    for step in 1..=100 {
        handle.move_face(face.id, ((face.thread + step) % THREADS) as u64).expect("it moves");
    }
    let listener = TcpListener::bind(address).unwrap();
    let producing = std::thread::spawn(move || produce_on(listener.accept().unwrap().0));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !handle.face(face.id).expect("it lives").up {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = connect(&path);
    client.write_all(&interest("/a/b", 1)).unwrap();
    assert_eq!(Elements::new(client).next().expect("Data"), data("/a/b", 1_000));
    let again = handle.create_face(request).unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
    assert!(handle.destroy_face(face.id));
    assert_eq!(handle.move_face(face.id, 0).unwrap_err(), MoveFaceError::NotFound);
    producing.join().unwrap();
    router.stop();
}
