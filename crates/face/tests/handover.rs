//! Faces and sockets that pass from one router to the next while peers stay connected.

mod common;

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byname_face::face::FaceChange;
use byname_face::handover::{HandedFace, Inherited};
use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::udp::{UdpConfig, UdpPort};
use byname_face::{FaceRequest, FaceStatus, FaceUri, LinkFlags, Port};
use byname_forward::FaceId;
use byname_forward::face_table::Persistency;
use byname_wire::Data;
use common::*;

/// Where a router listens.
struct Place {
    path: PathBuf,
    tcp: SocketAddr,
    udp: SocketAddr,
    threads: usize,
}

impl Place {
    fn new(folder: &Path, threads: usize) -> Place {
        let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let tcp = any.local_addr().expect("bound");
        let udp = socket().local_addr().expect("bound");
        Place { path: folder.join("nfd.sock"), tcp, udp, threads }
    }

    /// The ports of a router, by thread.
    fn ports(&self, inherited: &mut Inherited) -> Vec<Vec<Box<dyn Port>>> {
        let config = StreamConfig::default;
        let unix = StreamPort::unix_inherited(&self.path, config(), inherited).expect("a listener");
        let unix = unix.unwrap_or_else(|| StreamPort::unix(&[&self.path], config()).expect("a listener"));
        let tcp = StreamPort::tcp_inherited(&[self.tcp], config(), inherited).expect("a listener");
        let udp = UdpPort::bind_inherited(UdpConfig::new(self.udp), self.threads, inherited).expect("sockets");
        let streams = unix.for_threads(self.threads).into_iter().zip(tcp.for_threads(self.threads));
        let all = streams
            .zip(udp)
            .map(|((unix, tcp), udp)| -> Vec<Box<dyn Port>> { vec![Box::new(unix), Box::new(tcp), Box::new(udp)] });
        all.collect()
    }

    fn router(&self) -> Router {
        Router::of(self.threads, 1024, Router::config(true), Vec::new(), |_| {})
    }

    fn first(&self) -> Router {
        let router = self.router();
        for (thread, ports) in self.ports(&mut Inherited::default()).into_iter().enumerate() {
            router.running.handle.add_ports(thread, ports).expect("they start");
        }
        router
    }

    /// A router that takes over from another one, which ends.
    fn next(&self, old: Router) -> Router {
        let (router, from) = (self.router(), old.running.handle.clone());
        let mut inherited = Inherited::new(from.shared_sockets());
        let ports = self.ports(&mut inherited);
        // The helper that makes routers gives each a UDP port of its own.
        assert!(inherited.left().all(|socket| socket.port == "udp4"));
        from.freeze();
        let to = router.running.handle.clone();
        to.freeze();
        let mut handed = from.hand_over(&ids(&faces(&old)));
        for ((thread, ports), next_id) in ports.into_iter().enumerate().zip(from.next_face_ids()) {
            let of_thread = |face: &mut HandedFace| face.record.thread == thread;
            let faces = handed.extract_if(.., of_thread).collect();
            let left = to.take_over(thread, ports, faces, next_id).expect("they start");
            assert!(left.is_empty(), "{left:?}");
        }
        from.leave();
        to.thaw();
        old.stop();
        router
    }
}

fn faces(router: &Router) -> Vec<FaceStatus> {
    router.running.handle.faces().into_iter().filter(|face| face.id != FaceId::INTERNAL).collect()
}

fn ids(faces: &[FaceStatus]) -> Vec<FaceId> {
    faces.iter().map(|face| face.id).collect()
}

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

fn connect(path: &Path) -> UnixStream {
    let client = UnixStream::connect(path).expect("it listens");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    client
}

#[test]
fn connections_go_on_through_many_routers() {
    const ROUTERS: u32 = 10;
    for threads in [1, 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::new(folder.path(), threads);
        let (mut router, mut known) = (place.first(), HashSet::new());
        let producer = TcpStream::connect(place.tcp).unwrap();
        let to_producer = next_face(&router, &mut known);
        router.route("/a", to_producer);
        let stopper = producer.try_clone().unwrap();
        let producing = std::thread::spawn(move || produce_on(producer));
        let mut client = connect(&place.path);
        let to_client = next_face(&router, &mut known);
        let datagrams = socket();
        datagrams.connect(place.udp).unwrap();
        datagrams.send(&interest("/a/first", 9)).unwrap();
        assert!(datagrams.recv(&mut [0; 9000]).is_ok());
        let to_peer = next_face(&router, &mut known);
        if threads > 1 {
            // Its datagrams come to another thread now than a hash says, also in the next routers.
            let thread = router.running.handle.face(to_peer).expect("it lives").thread;
            router.running.handle.move_face(to_peer, 1 - thread as u64).expect("it moves");
        }
        let before: Vec<_> =
            faces(&router).into_iter().map(|face| (face.id, face.remote, face.local, face.thread)).collect();
        let mut elements = Elements::new(client.try_clone().unwrap());
        let mut buffer = [0; 9000];
        for round in 0..ROUTERS {
            // An Interest in part, and answers that nobody reads yet.
            let wire = interest(&format!("/a/part/{round}"), 2 * round);
            let (begin, rest) = wire.split_at(wire.len() / 2);
            for n in 0..20 {
                client.write_all(&interest(&format!("/a/{round}/{n}"), 1000 * round + n)).unwrap();
            }
            client.write_all(begin).unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            let (counted, sent) =
                (router.running.handle.face(to_client).expect("it lives").link.out_bytes, Instant::now());
            while router.running.handle.counters().pit_entries > 0 || sent.elapsed() < Duration::from_millis(20) {
                assert!(Instant::now() < deadline, "{counted}");
                std::thread::sleep(Duration::from_millis(1));
            }
            router = place.next(router);
            router.route("/a", to_producer);
            client.write_all(rest).unwrap();
            let expected: HashSet<_> =
                (0..20).map(|n| format!("/a/{round}/{n}")).chain([format!("/a/part/{round}")]).collect();
            let mut answered = HashSet::new();
            while answered.len() < expected.len() {
                let wire = elements.next().expect("the connection stays");
                answered.insert(Data::decode(network_packet(&wire)).expect("Data").name.to_string());
            }
            assert_eq!(answered, expected);
            datagrams.send(&interest(&format!("/a/udp/{round}"), 7)).unwrap();
            let len = datagrams.recv(&mut buffer).expect("an answer");
            assert_eq!(network_packet(&buffer[..len]), data(&format!("/a/udp/{round}"), 1_000));
        }
        let after: Vec<_> =
            faces(&router).into_iter().map(|face| (face.id, face.remote, face.local, face.thread)).collect();
        assert_eq!(before, after);
        assert!(after.iter().any(|(id, ..)| *id == to_peer));
        let status = router.running.handle.face(to_client).expect("it lives");
        assert!(status.link.out_bytes > 1_000 * 21 * u64::from(ROUTERS), "counters go on: {status:?}");
        assert_eq!(status.counters.in_interests, 21 * u64::from(ROUTERS));
        // New faces have new numbers.
        let _another = connect(&place.path);
        assert!(next_face(&router, &mut known) > to_peer);
        stopper.shutdown(Shutdown::Both).unwrap();
        producing.join().unwrap();
        router.stop();
        assert!(!place.path.exists(), "the last router removes the file");
    }
}

#[test]
fn a_router_whose_successor_fails_goes_on_with_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new(folder.path(), 2);
    let (mut router, mut known) = (place.first(), HashSet::new());
    let producer = TcpStream::connect(place.tcp).unwrap();
    let to_producer = next_face(&router, &mut known);
    router.route("/a", to_producer);
    let stopper = producer.try_clone().unwrap();
    let producing = std::thread::spawn(move || produce_on(producer));
    let mut client = connect(&place.path);
    next_face(&router, &mut known);
    let handle = router.running.handle.clone();
    let mut elements = Elements::new(client.try_clone().unwrap());
    for round in 0..20 {
        handle.freeze();
        let uri = format!("/a/{round}");
        client.write_all(&interest(&uri, round)).unwrap();
        let handed = handle.hand_over(&ids(&faces(&router)));
        assert_eq!((handed.len(), handle.shared_sockets().len()), (2, 6));
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(handle.counters().pit_entries, 0, "a frozen router receives nothing");
        drop(handed);
        handle.thaw();
        assert_eq!(elements.next().expect("Data"), data(&uri, 1_000));
    }
    stopper.shutdown(Shutdown::Both).unwrap();
    producing.join().unwrap();
    router.stop();
}

#[test]
fn settings_of_faces_stay_and_permanent_ones_connect_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new(folder.path(), 1);
    let router = place.first();
    let handle = &router.running.handle;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let permanent = FaceRequest { persistency: Persistency::Permanent, ..FaceRequest::to(FaceUri::Tcp(address)) };
    let down = handle.create_face(permanent).expect("a face");
    let flags = LinkFlags { reliability: true, ..LinkFlags::default() };
    let peer = socket();
    let udp = FaceRequest { mtu: Some(1_400), flags, ..FaceRequest::to(FaceUri::Udp(peer.local_addr().unwrap())) };
    let udp = handle.create_face(udp).expect("a face");
    let change = FaceChange { default_congestion_threshold_bytes: Some(77_777), ..FaceChange::default() };
    handle.update_face(udp.id, change).expect("changed");
    let router = place.next(router);
    let handle = &router.running.handle;
    let after = handle.face(udp.id).expect("it lives");
    assert_eq!((after.mtu, after.flags, after.persistency), (Some(1_400), flags, Persistency::Persistent));
    assert_eq!(after.default_congestion_threshold_bytes, 77_777);
    let status = handle.face(down.id).expect("it lives");
    assert_eq!((status.up, status.persistency), (false, Persistency::Permanent));
    let listener = TcpListener::bind(address).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !handle.face(down.id).expect("it lives").up {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(listener);
    router.stop();
}

#[test]
fn a_record_that_makes_no_sense_is_given_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::new(folder.path(), 1);
    let (router, mut known) = (place.first(), HashSet::new());
    let _client = connect(&place.path);
    let face = next_face(&router, &mut known);
    let handle = &router.running.handle;
    handle.freeze();
    let damage: [fn(&mut HandedFace); 4] = [
        |face| face.record.port = "carrier pigeon".into(),
        |face| face.record.remote = "unix://".into(),
        |face| face.record.stream = None,
        |face| face.descriptor = None,
    ];
    let successor = place.router();
    let config = StreamConfig::default();
    for damage in damage {
        let mut handed = handle.hand_over(&[face]);
        damage(&mut handed[0]);
        let mut inherited = Inherited::new(handle.shared_sockets());
        let port = StreamPort::unix_inherited(&place.path, config.clone(), &mut inherited).expect("a port");
        let port: Box<dyn Port> = Box::new(port.expect("it is inherited"));
        let left = successor.running.handle.take_over(0, vec![port], handed, 256).expect("it starts");
        assert_eq!(left.len(), 1);
    }
    assert!(faces(&successor).is_empty());
    successor.stop();
    router.stop();
}
