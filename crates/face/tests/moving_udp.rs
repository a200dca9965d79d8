//! Faces of UDP peers that move between packet threads while traffic goes on.

mod common;

use std::collections::HashSet;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use byname_face::face::MoveFaceError;
use byname_face::{FaceStatus, FaceUri};
use byname_forward::FaceId;
use byname_forward::face_table::FaceCounters;
use byname_wire::Data;
use common::*;

const THREADS: usize = 3;

fn router(threads: usize, rests: bool) -> Router {
    Router::of(threads, 4096, Router::config(rests), Vec::new(), |_| {})
}

fn udp_faces(router: &Router) -> Vec<FaceStatus> {
    let faces = router.running.handle.faces().into_iter();
    faces.filter(|face| matches!(face.remote, FaceUri::Udp(_))).collect()
}

/// The face of a client that has sent something.
fn face_of(router: &Router, client: &UdpSocket) -> FaceStatus {
    let remote = FaceUri::Udp(client.local_addr().expect("bound"));
    udp_faces(router).into_iter().find(|face| face.remote == remote).expect("it has a face")
}

/// Has a Nack come, since there is no route.
fn is_answered(router: &Router, client: &UdpSocket, nonce: u32) -> bool {
    client.send_to(&interest(&format!("/nowhere/{nonce}"), nonce), router.udp).expect("sent");
    client.recv(&mut [0; 9000]).is_ok()
}

#[test]
fn udp_faces_that_move_all_the_time_lose_nothing_and_all_is_counted_once() {
    const CONSUMERS: u32 = 3;
    const MOVES: usize = 40;
    const WINDOW: u32 = 32;
    for (threads, rests) in [(2, true), (2, false), (3, true), (3, false), (5, false)] {
        let mut router = router(threads, rests);
        let producer = socket();
        let to_producer = router.face(producer.local_addr().unwrap()).id;
        router.route("/a", to_producer);
        let producing = std::thread::spawn(move || produce(&producer, 100));
        let consumers: Vec<UdpSocket> = (0..CONSUMERS).map(|_| socket()).collect();
        assert!(consumers.iter().zip(1..).all(|(consumer, nonce)| is_answered(&router, consumer, nonce)));
        let (handle, udp, done) = (router.running.handle.clone(), router.udp, AtomicBool::new(false));
        let faces: Vec<FaceId> = udp_faces(&router).iter().map(|face| face.id).collect();
        let consume = |consumer: u32| {
            let (socket, mut buffer, mut answered) = (&consumers[consumer as usize], [0; 9000], HashSet::new());
            let mut nonce = (consumer + 1) << 24;
            while !done.load(Ordering::SeqCst) {
                for _ in 0..WINDOW {
                    nonce += 1;
                    socket.send_to(&interest(&format!("/a/{consumer}/{nonce}"), nonce), udp).unwrap();
                }
                for _ in 0..WINDOW {
                    let len = socket.recv(&mut buffer).expect("every Interest is answered");
                    let data = Data::decode(network_packet(&buffer[..len])).expect("Data");
                    assert!(answered.insert(data.name.to_name()), "{} came twice", data.name);
                }
            }
            answered.len() as u64
        };
        let consume = &consume;
        let exchanges: u64 = std::thread::scope(|scope| {
            let consuming: Vec<_> = (0..CONSUMERS).map(|consumer| scope.spawn(move || consume(consumer))).collect();
            for n in 0..MOVES {
                let face = faces[n % faces.len()];
                let step = 1 + n / 7 % 2.min(threads - 1);
                let to = (handle.face(face).expect("it lives").thread + step) % threads;
                let moved = handle.move_face(face, to as u64);
                if moved.as_ref().map_or(true, |moved| moved.thread != to) {
                    done.store(true, Ordering::SeqCst);
                    panic!("a face does not move: {moved:?}");
                }
            }
            done.store(true, Ordering::SeqCst);
            consuming.into_iter().map(|consumer| consumer.join().expect("every Interest is answered")).sum()
        });
        assert!(exchanges >= MOVES as u64, "{exchanges} exchanges beside {MOVES} moves");
        let counters = router.running.handle.counters();
        let once = FaceCounters {
            in_interests: exchanges + u64::from(CONSUMERS),
            out_interests: exchanges,
            in_data: exchanges,
            out_data: exchanges,
            out_nacks: u64::from(CONSUMERS),
            ..FaceCounters::default()
        };
        assert_eq!((counters.satisfied_interests, counters.faces), (exchanges, once));
        assert_eq!(counters.drops.iter().filter(|(_, count)| *count > 0).count(), 0, "{:?}", counters.drops);
        assert_eq!(udp_faces(&router).len(), faces.len(), "no peer has got a second face");
        consumers[0].send_to(&interest("/a/stop", 1), udp).unwrap();
        producing.join().unwrap();
        router.stop();
    }
}

#[test]
fn the_peer_of_a_face_that_has_moved_and_ended_begins_anew() {
    let router = router(THREADS, true);
    let (client, handle) = (socket(), router.running.handle.clone());
    assert!(is_answered(&router, &client, 1));
    let face = face_of(&router, &client);
    let there = (face.thread + 1) % THREADS;
    for to in [there, (there + 1) % THREADS, there] {
        handle.move_face(face.id, to as u64).expect("it moves");
        assert!(is_answered(&router, &client, 10 + to as u32));
        assert_eq!((face_of(&router, &client).id, face_of(&router, &client).thread), (face.id, to));
    }
    // Management finds the face at its new place.
    let remote = client.local_addr().expect("bound");
    let request = byname_face::FaceRequest::to(FaceUri::Udp(remote));
    let exists = handle.create_face(request).expect_err("there is one");
    assert!(matches!(exists, byname_face::face::CreateFaceError::Exists(ref known) if known.id == face.id), "{exists}");
    assert!(handle.destroy_face(face.id));
    assert!(is_answered(&router, &client, 20));
    let new = face_of(&router, &client);
    assert_ne!(new.id, face.id);
    assert_eq!(new.thread, face.thread, "its peer's datagrams come where they came at first");
    router.stop();
}

#[test]
fn faces_that_cannot_move_stay_where_they_are() {
    let router = router(THREADS, true);
    let handle = router.running.handle.clone();
    // A peer for each place on the list of those that have moved, and one more.
    let clients: Vec<UdpSocket> = (0..65).map(|_| socket()).collect();
    let mut refused = None;
    for (client, nonce) in clients.iter().zip(1..) {
        assert!(is_answered(&router, client, nonce));
        let face = face_of(&router, client);
        let to = (face.thread + 1) % THREADS;
        match handle.move_face(face.id, to as u64) {
            Ok(moved) => assert_eq!(moved.thread, to),
            Err(MoveFaceError::Stays(reason)) => {
                assert!(reason.contains("64 UDP faces"), "{reason}");
                refused = Some(face);
            }
            Err(error) => panic!("{error}"),
        }
        assert!(is_answered(&router, client, 1000 + nonce), "wherever it is");
    }
    let refused = refused.expect("there are not so many places");
    assert_eq!(face_of(&router, &clients[64]).thread, refused.thread);
    // A face that ends makes room.
    assert!(handle.destroy_face(face_of(&router, &clients[0]).id));
    let to = (refused.thread + 1) % THREADS;
    assert_eq!(handle.move_face(refused.id, to as u64).expect("there is room").thread, to);
    assert!(is_answered(&router, &clients[64], 5000));
    router.stop();
}
