//! Faces that move between packet threads, by command and by themselves.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::{Port, PortContext};

use super::*;

const THREADS: usize = 2;

/// Keeps its thread busy, as heavy traffic would.
struct Busy;

impl Port for Busy {
    fn name(&self) -> &str {
        "busy"
    }
    fn start(&mut self, _: &mut PortContext<'_>) -> std::io::Result<()> {
        Ok(())
    }
    fn has_input(&self) -> bool {
        true
    }
    fn receive(&mut self, _: &mut PortContext<'_>, _: usize) {
        // Leaves processors to other tests.
        std::thread::sleep(Duration::from_micros(200));
    }
    byname_face::port_without_faces!();
}

/// A router with four clients, two on each thread.
fn router() -> (Router, Vec<UnixStream>, tempfile::TempDir) {
    let router = Router::with_threads(100, Authorizer::local_only(), THREADS);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nfd.sock");
    let port = StreamPort::unix(&[&path], StreamConfig::default()).expect("a listener");
    let handle = &router.running.as_ref().expect("it runs").handle;
    for (thread, port) in port.for_threads(THREADS).into_iter().enumerate() {
        handle.add_ports(thread, vec![Box::new(port)]).expect("it starts");
    }
    let clients: Vec<_> = (0..2 * THREADS).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    let begun = Instant::now();
    while handle.faces().len() < clients.len() + 1 {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    (router, clients, folder)
}

#[test]
fn a_command_moves_a_face_or_is_refused_with_a_reason() {
    let (mut router, _clients, _folder) = router();
    let handle = router.running.as_ref().expect("it runs").handle.clone();
    let face = handle.faces().pop().expect("a client").id;
    let parameters = |face: FaceId, thread| ControlParameters {
        face_id: Some(face.0),
        thread: Some(thread),
        ..ControlParameters::default()
    };
    for thread in [0, 1, 1, 0] {
        let response = router.command("faces/move", &parameters(face, thread));
        let body = response.parameters().expect("parameters");
        assert_eq!((response.code, body.face_id, body.thread), (200, Some(face.0), Some(thread)));
        assert_eq!(handle.face(face).expect("it lives").thread as u64, thread);
        let listed: Vec<tlv::FaceStatus> = decode_list(&router.dataset("/localhost/nfd/faces/list")).expect("faces");
        let thread_of = |id: u64| listed.iter().find(|listed| listed.face_id == id).expect("listed").thread;
        assert_eq!((thread_of(face.0), thread_of(FaceId::NULL.0)), (Some(thread), None));
    }
    let mut refused = |face, thread| {
        let response = router.command("faces/move", &parameters(face, thread));
        (response.code, response.text)
    };
    assert_eq!(refused(FaceId(9999), 0), (404, "Specified face does not exist".into()));
    let text = "there is no packet thread 2: they have the numbers 0 to 1";
    assert_eq!(refused(face, 2), (406, text.into()));
    assert_eq!(refused(FaceId::INTERNAL, 1).0, 403);
    let no_thread = ControlParameters { face_id: Some(face.0), ..ControlParameters::default() };
    assert_eq!(router.command("faces/move", &no_thread).code, 400);
    // Neighbours may not.
    let from = |face| (face, "/localhop/nfd/faces/move");
    let (incoming, verb) = from(NEIGHBOUR);
    let wire = router.signed(name(verb).join(Component::generic(&parameters(face, 1).encode())));
    assert!(router.send(&wire, incoming).is_none());
}

#[test]
fn a_busy_thread_gives_a_face_away() {
    let (mut router, mut clients, _folder) = router();
    let handle = router.running.as_ref().expect("it runs").handle.clone();
    handle.add_ports(0, vec![Box::new(Busy)]).expect("it starts");
    let (begun, start) = (Instant::now(), router.now);
    router.management.balance_threads(Duration::from_millis(300), start);
    let come = || handle.thread_statuses().iter().map(|thread| thread.faces_come).collect::<Vec<_>>();
    let mut round = |nonce: u32| {
        for client in &mut clients {
            let wire = InterestBuilder::new(name("/nowhere"), nonce).encode();
            client.write_all(&wire).expect("it reads");
        }
        std::thread::sleep(Duration::from_millis(20));
        let ms = u64::try_from(begun.elapsed().as_millis()).expect("it is short");
        router.advance(ms + start.ms - router.now.ms);
    };
    let mut nonce = 0;
    while come() == [0, 0] {
        nonce += 1;
        round(nonce);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", handle.thread_statuses());
    }
    // The face that is left has all the load of its thread, so moving it would be of no use.
    let moved = Instant::now();
    while moved.elapsed() < Duration::from_secs(3) {
        nonce += 1;
        round(nonce);
    }
    assert_eq!(come(), [0, 1]);
    let threads: Vec<usize> = handle.faces().into_iter().skip(1).map(|face| face.thread).collect();
    assert_eq!(threads.iter().filter(|thread| **thread == 1).count(), 3, "{threads:?}");
}
