//! Which threads a burst wakes, and which thread makes a new face.

mod common;

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::{FaceRequest, FaceUri};
use byname_forward::FaceId;
use common::*;

const THREADS: usize = 3;

/// A router of threads that do not rest, with Unix and TCP ports, and a client on a thread.
fn router() -> (Router, UnixStream, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nfd.sock");
    let router = Router::of(THREADS, 1024, Router::config(false), Vec::new(), |_| {});
    let unix = StreamPort::unix(&[&path], StreamConfig::default()).unwrap();
    let tcp = StreamPort::tcp(&[(Ipv4Addr::LOCALHOST, 0).into()], StreamConfig::default()).unwrap();
    let ports = unix.for_threads(THREADS).into_iter().zip(tcp.for_threads(THREADS));
    for (thread, (unix, tcp)) in ports.enumerate() {
        router.running.handle.add_ports(thread, vec![Box::new(unix), Box::new(tcp)]).unwrap();
    }
    let client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let thread = loop {
        let faces = router.running.handle.faces();
        if let Some(face) = faces.iter().find(|face| face.id != FaceId::INTERNAL) {
            break face.thread;
        }
        assert!(Instant::now() < deadline, "the client's face");
        std::thread::sleep(Duration::from_millis(1));
    };
    (router, client, thread)
}

/// How often each thread has slept, when all sleep again. This question wakes each of them once.
fn sleeps(router: &Router) -> Vec<u64> {
    std::thread::sleep(Duration::from_millis(20));
    router.running.handle.thread_statuses().iter().map(|thread| thread.activity.sleeps).collect()
}

#[test]
fn a_burst_wakes_each_thread_that_it_has_work_for_once_and_no_other() {
    const BURST: usize = 30;
    const BURSTS: usize = 12;
    let (router, client, here) = router();
    let seat = Router::seat_of_another(THREADS);
    let (mut answers, mut nonce) = (Elements::new(client.try_clone().unwrap()), 0);
    for home in 0..THREADS {
        let mut undisturbed = 0;
        for _ in 0..BURSTS {
            let mut burst = Vec::new();
            let mut packets = 0;
            while packets < BURST {
                nonce += 1;
                let uri = format!("/nowhere/{nonce}");
                if seat.home(name(&uri).as_ref()) == home {
                    burst.extend(interest(&uri, nonce));
                    packets += 1;
                }
            }
            let before = sleeps(&router);
            (&client).write_all(&burst).unwrap();
            (0..BURST).for_each(|_| _ = answers.next().expect("a Nack, as there is no route"));
            let mut woken: Vec<u64> =
                sleeps(&router).iter().zip(before).map(|(now, before)| now - before - 1).collect();
            for other in (0..THREADS).filter(|thread| *thread != here && *thread != home) {
                assert_eq!(woken[other], 0, "a burst from {here} for {home} woke {woken:?}");
            }
            // Its own thread wakes for the client, and for the answers. A thread that works for longer than the system
            // lets it may find the burst in two parts.
            let of_others: u64 = std::mem::take(&mut woken[here]);
            undisturbed += u32::from(of_others <= 2 && woken.iter().sum::<u64>() == u64::from(home != here));
        }
        assert!(undisturbed as usize > BURSTS / 2, "{undisturbed} of {BURSTS} bursts woke the home once");
    }
    router.stop();
}

#[test]
fn faces_by_command_go_to_the_thread_with_least_load_and_then_with_fewest_faces() {
    let (router, client, busy) = router();
    let handle = router.running.handle.clone();
    // A command takes much of a time that is as short as the router is old.
    std::thread::sleep(Duration::from_millis(300));
    let mut listeners = Vec::new();
    let mut create = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let request = FaceRequest::to(FaceUri::Tcp(listener.local_addr().unwrap()));
        listeners.push(listener);
        (handle.create_face(request.clone()).expect("a new face"), request)
    };
    let faces = || -> Vec<u64> { handle.thread_statuses().iter().map(|thread| thread.faces).collect() };
    let before = faces();
    let most = *before.iter().max().unwrap();
    // Nobody works: each face goes where the fewest are.
    let missing: u64 = before.iter().map(|faces| most - faces).sum();
    for _ in 0..missing + 2 * THREADS as u64 {
        create();
    }
    assert_eq!(faces(), vec![most + 2; THREADS], "from {before:?}");
    // One thread drops what it cannot parse, for long enough. Other threads get none of that.
    let garbage = [5, 0].repeat(4096);
    let load = || handle.thread_statuses().iter().map(|thread| thread.activity.load).collect::<Vec<f64>>();
    let deadline = Instant::now() + Duration::from_secs(20);
    while load()[busy] < 0.5 {
        (0..200).for_each(|_| (&client).write_all(&garbage).unwrap());
        assert!(Instant::now() < deadline, "it works: {:?}", load());
    }
    let others = || (0..THREADS).filter(|thread| *thread != busy).map(|thread| load()[thread]).fold(0.0, f64::max);
    assert!(others() < 0.3, "{:?}", load());
    let new: Vec<_> = (0..2 * THREADS).map(|_| create()).collect();
    assert!(new.iter().all(|(face, _)| face.thread != busy), "one went to {busy}: {:?}", load());
    let on: HashSet<usize> = new.iter().map(|(face, _)| face.thread).collect();
    assert_eq!(on.len(), THREADS - 1, "both others have some: {:?}", load());
    // A peer that has a face is known wherever that is.
    for (face, request) in new {
        let again = handle.create_face(request).expect_err("it exists");
        assert!(matches!(again, byname_face::face::CreateFaceError::Exists(known) if known.id == face.id));
    }
    router.stop();
}
