//! Streams through a whole router: Unix clients, TCP producers, faults and captures.

mod common;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use byname_face::fault::{FaultPort, Faults};
use byname_face::pcap::{Capture, CapturePort};
use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::{FaceEvent, FaceRequest, FaceStatus, FaceUri, IoConfig, Port};
use byname_forward::FaceId;
use byname_forward::face_table::{Persistency, Scope};
use byname_wire::Interest;
use byname_wire::data::DataBuilder;
use common::*;

const STALL_TIMEOUT: Duration = Duration::from_secs(2);

/// A router with a Unix and a TCP listener.
fn router(wrap: impl Fn(StreamPort) -> Box<dyn Port>) -> (Router, PathBuf, SocketAddr, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nfd.sock");
    let config = StreamConfig { stall_timeout: STALL_TIMEOUT, ..StreamConfig::default() };
    let unix = StreamPort::unix(&[&path], config.clone()).expect("a listener");
    let tcp = StreamPort::tcp(&[(Ipv4Addr::LOCALHOST, 0).into()], config).expect("a listener");
    let Some(FaceUri::Tcp(address)) = tcp.local_uris().next().cloned() else { panic!("no address") };
    let router = Router::with(IoConfig::default(), vec![wrap(unix), wrap(tcp)], |_| {});
    (router, path, address, folder)
}

fn plain(port: StreamPort) -> Box<dyn Port> {
    Box::new(port)
}

fn next_created(router: &Router) -> FaceStatus {
    loop {
        let event = router.running.events.recv_timeout(Duration::from_secs(10)).expect("an event");
        if let FaceEvent::Created(status) = event
            && status.id != FaceId::INTERNAL
        {
            return status;
        }
    }
}

#[test]
fn thousands_of_exchanges_from_unix_to_tcp_lose_nothing() {
    const EXCHANGES: u32 = 20_000;
    const WINDOW: u32 = 64;
    let (mut router, path, address, _folder) = router(plain);
    let producer = TcpStream::connect(address).unwrap();
    let face = next_created(&router);
    assert_eq!((face.scope, face.persistency), (Scope::Local, Persistency::OnDemand));
    router.route("/a", face.id);
    let stopper = producer.try_clone().unwrap();
    let producing = std::thread::spawn(move || produce_on(producer));

    let mut client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut elements = Elements::new(client.try_clone().unwrap());
    let mut sent = 0;
    for received in 0..EXCHANGES {
        if received % (WINDOW / 2) == 0 {
            let mut burst = Vec::new();
            while sent < EXCHANGES && sent < received + WINDOW {
                burst.extend_from_slice(&interest(&format!("/a/{sent}"), sent));
                sent += 1;
            }
            client.write_all(&burst).unwrap();
        }
        let wire = elements.next().expect("Data");
        assert_eq!(network_packet(&wire), data(&format!("/a/{received}"), 1_000));
    }
    drop(stopper.shutdown(std::net::Shutdown::Both));
    assert_eq!(producing.join().unwrap(), EXCHANGES as usize);
    assert_eq!(router.running.handle.counters().satisfied_interests, u64::from(EXCHANGES));
    router.stop();
}

#[test]
fn a_client_that_does_not_read_hinders_nobody() {
    let (mut router, path, address, _folder) = router(plain);
    let producer = TcpStream::connect(address).unwrap();
    router.route("/a", next_created(&router).id);
    let stopper = producer.try_clone().unwrap();
    let producing = std::thread::spawn(move || produce_on(producer));
    // Its output may stand still as soon as it asks.
    let start = Instant::now();
    let mut deaf = UnixStream::connect(&path).unwrap();
    let deaf_face = next_created(&router).id;
    let asking = std::thread::spawn(move || {
        let mut ask = |n| deaf.write_all(&interest(&format!("/a/deaf/{n}"), n));
        (0..).take_while(|n| ask(*n).is_ok()).count()
    });
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut elements = Elements::new(client.try_clone().unwrap());
    let mut n = 0;
    while router.running.handle.face(deaf_face).is_some() {
        client.write_all(&interest(&format!("/a/{n}"), n)).unwrap();
        let wire = elements.next().expect("Data");
        assert_eq!(network_packet(&wire), data(&format!("/a/{n}"), 1_000));
        assert!(start.elapsed() < Duration::from_secs(20), "its output stands still, and nobody minds");
        n += 1;
    }
    assert!(start.elapsed() >= STALL_TIMEOUT);
    assert!(asking.join().unwrap() > 100);
    // The counters of the closed face are kept.
    let totals = router.running.handle.link_totals(&router.running.handle.faces());
    assert!(totals.counters.out_drops > 0, "{totals:?}");
    assert!(totals.closed.contains(&("unix_stalled", 1)), "{totals:?}");
    let drops = router.running.handle.counters().drops;
    assert!(drops.contains(&("unix_unsent", totals.counters.out_drops)), "{drops:?}");
    drop(stopper.shutdown(std::net::Shutdown::Both));
    producing.join().unwrap();
    router.stop();
}

#[test]
fn faces_come_and_go_by_the_thousand() {
    let (router, path, address, _folder) = router(plain);
    for round in 0..50 {
        let unix: Vec<_> = (0..30).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let tcp: Vec<_> = (0..30).map(|_| TcpStream::connect(address).unwrap()).collect();
        if round % 10 == 0 {
            let start = Instant::now();
            while router.running.handle.faces().len() < 61 {
                assert!(start.elapsed() < Duration::from_secs(10), "{}", router.running.handle.faces().len());
            }
        }
        drop((unix, tcp));
    }
    let start = Instant::now();
    while router.running.handle.faces().len() > 1 {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", router.running.handle.faces());
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut alive = std::collections::HashSet::new();
    // Events beyond the channel's capacity come when there is room.
    while alive.len() != 1 || !alive.contains(&FaceId::INTERNAL) {
        match router.running.events.recv_timeout(Duration::from_secs(5)).expect("the end of every face") {
            FaceEvent::Created(status) => assert!(alive.insert(status.id)),
            FaceEvent::Destroyed(status) => assert!(alive.remove(&status.id)),
            other => panic!("{other:?}"),
        }
    }
    router.stop();
}

#[test]
fn a_permanent_face_outlives_its_peer() {
    let (mut router, path, _, _folder) = router(plain);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let request = FaceRequest { persistency: Persistency::Permanent, ..FaceRequest::to(FaceUri::Tcp(address)) };
    let face = router.running.handle.create_face(request).expect("a new face").id;
    router.route("/a", face);
    let (peer, _) = listener.accept().unwrap();
    drop((peer, listener));
    let is = |up: bool| {
        let start = Instant::now();
        while router.running.handle.face(face).expect("it lives").up != up {
            assert!(start.elapsed() < Duration::from_secs(20), "not up: {}", !up);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    is(false);
    let listener = TcpListener::bind(address).unwrap();
    let producing = std::thread::spawn(move || produce_on(listener.accept().unwrap().0));
    is(true);
    let mut client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.write_all(&interest("/a/b", 1)).unwrap();
    assert_eq!(Elements::new(client).next().expect("Data"), data("/a/b", 1_000));
    assert!(router.running.handle.destroy_face(face));
    assert_eq!(producing.join().unwrap(), 1);
    router.stop();
}

#[test]
fn faulty_streams_answer_or_account_for_every_interest() {
    let faults = Faults {
        loss: 0.05,
        duplication: 0.05,
        corruption: 0.02,
        reordering: 0.1,
        reordering_delay: Duration::from_millis(2),
        delay_max: Duration::from_millis(1),
        ..Faults::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let capture = Capture::create(&folder.path().join("all.pcap"), 100 << 20).expect("a file");
    let wrap = |port| -> Box<dyn Port> {
        let faulty = FaultPort::new(Box::new(port), faults.clone(), faults.clone(), 42);
        Box::new(CapturePort::new(Box::new(faulty), capture.clone()))
    };
    let (mut router, path, address, _folder) = router(wrap);
    let producer = TcpStream::connect(address).unwrap();
    router.route("/a", next_created(&router).id);
    let stopper = producer.try_clone().unwrap();
    // Corrupted Interests arrive too. The producer answers those that it can read.
    let producing = std::thread::spawn(move || {
        let (mut sink, mut elements) = (producer.try_clone().unwrap(), Elements::new(producer));
        while let Some(wire) = elements.next() {
            let Ok(interest) = Interest::decode(&wire) else { continue };
            let name = interest.name.to_name();
            if sink.write_all(&DataBuilder::new(name).content(vec![7; 1_000]).encode()).is_err() {
                return;
            }
        }
    });
    let mut client = UnixStream::connect(path).unwrap();
    let mut answers = client.try_clone().unwrap();
    let reading = std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
    for n in 0..2_000 {
        client.write_all(&interest(&format!("/a/{n}"), n)).unwrap();
        if n % 64 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // The lifetime of the Interests is two seconds. By then all losses are counted.
    let start = Instant::now();
    loop {
        let counters = router.running.handle.counters();
        // A flipped bit in the lifetime makes a few Interests last longer.
        if counters.satisfied_interests > 1_500 && counters.pit_entries <= 10 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{counters:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(stopper.shutdown(std::net::Shutdown::Both));
    producing.join().unwrap();
    router.stop();
    assert!(reading.join().unwrap().unwrap() > 1_000_000);
    assert!(std::fs::metadata(folder.path().join("all.pcap")).unwrap().len() > 2_000_000);
}
