//! Restarts under traffic: a new process takes over, and no connection is closed.
//!
//! For a longer run by hand, set `BYNAME_TEST_RATE` (Interests per second over UDP), `BYNAME_TEST_RESTARTS`,
//! `BYNAME_TEST_PAUSE_MS` (between two restarts) and `BYNAME_TEST_STREAMS` (0: only UDP). `BYNAME_TEST_RECORD` names a file
//! that gets a line with the measurements.

mod cached;
#[path = "../common/mod.rs"]
mod common;
mod configured;
mod record;
mod routes;
mod service;

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Interest, LpPacket, Name, tlv};
use common::*;
use serde_json::{Value, json};

/// Interests of a consumer that have no answer yet.
const WINDOW: usize = 32;
/// Time after which an Interest is sent again.
const AGAIN: Duration = Duration::from_millis(200);

/// The content that belongs to a name: other bytes for each.
fn content(name: &Name) -> Vec<u8> {
    let text = name.to_string();
    text.bytes().cycle().take(1_000 + text.len()).collect()
}

fn network_packet(frame: &[u8]) -> &[u8] {
    LpPacket::decode(frame).expect("a frame").fragment.expect("not idle")
}

fn answer(interest: &[u8]) -> Vec<u8> {
    let name = Interest::decode(network_packet(interest)).expect("an Interest").name.to_name();
    let content = content(&name);
    DataBuilder::new(name).content(content).encode()
}

fn interest(name: &Name, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name.clone(), nonce).lifetime_ms(1_000).encode()
}

/// Reads elements from a stream. `None` if none comes in time; an end or garbage is a failure.
struct Elements<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl<S: Read> Elements<S> {
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(len) = tlv::element_len(&self.bytes, 9_000).expect("well-formed") {
                return Some(self.bytes.drain(..len).collect());
            }
            let mut buffer = [0; 1 << 16];
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the connection is closed"),
                Ok(len) => self.bytes.extend_from_slice(&buffer[..len]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// What a consumer saw.
#[derive(Debug, Default)]
struct Seen {
    answers: u64,
    sent_again: u64,
    longest_gap: Duration,
}

/// A stream whose reads end after a while.
trait Stream: Read + Write + Send + Sized + 'static {
    fn split(self) -> (Self, Self);
}

impl Stream for TcpStream {
    fn split(self) -> (Self, Self) {
        self.set_read_timeout(Some(AGAIN / 4)).expect("a timeout");
        (self.try_clone().expect("a handle"), self)
    }
}

impl Stream for UnixStream {
    fn split(self) -> (Self, Self) {
        self.set_read_timeout(Some(AGAIN / 4)).expect("a timeout");
        (self.try_clone().expect("a handle"), self)
    }
}

/// Answers Interests until `done`.
fn produce(stream: impl Stream, done: Arc<AtomicBool>) -> JoinHandle<()> {
    let (source, mut sink) = stream.split();
    let mut elements = Elements { stream: source, bytes: Vec::new() };
    std::thread::spawn(move || {
        while !done.load(Ordering::SeqCst) {
            let Some(wire) = elements.next() else { continue };
            sink.write_all(&answer(&wire)).expect("the connection stays");
        }
    })
}

/// Fetches one segment after the other, each once, until `done`.
fn consume(stream: impl Stream, prefix: &str, done: Arc<AtomicBool>) -> JoinHandle<Seen> {
    let (source, mut sink) = stream.split();
    let mut elements = Elements { stream: source, bytes: Vec::new() };
    let prefix: Name = prefix.parse().expect("a name");
    std::thread::spawn(move || {
        let (mut seen, mut next, mut nonce, mut last) = (Seen::default(), 0, 0, Instant::now());
        let mut waiting: HashMap<Name, Instant> = HashMap::new();
        while !(done.load(Ordering::SeqCst) && waiting.is_empty()) {
            while waiting.len() < WINDOW && !done.load(Ordering::SeqCst) {
                waiting.insert(prefix.join_number(50, next), Instant::now() - AGAIN);
                next += 1;
            }
            for (name, sent) in waiting.iter_mut().filter(|(_, sent)| sent.elapsed() >= AGAIN) {
                nonce += 1;
                (*sent, seen.sent_again) = (Instant::now(), seen.sent_again + 1);
                sink.write_all(&interest(name, nonce)).expect("the connection stays");
            }
            let Some(wire) = elements.next() else { continue };
            assert_eq!(LpPacket::decode(&wire).expect("a frame").nack, None);
            let data = Data::decode(network_packet(&wire)).expect("Data");
            let name = data.name.to_name();
            assert_eq!(data.content, content(&name), "{name}");
            // It may be the second answer to an Interest that was sent again.
            if waiting.remove(&name).is_some() {
                (seen.answers, seen.longest_gap) = (seen.answers + 1, seen.longest_gap.max(last.elapsed()));
                last = Instant::now();
            }
        }
        seen.sent_again -= next;
        seen
    })
}

/// Answers Interests on a UDP socket until `done`.
fn produce_datagrams(socket: UdpSocket, done: Arc<AtomicBool>) -> JoinHandle<()> {
    socket.set_read_timeout(Some(AGAIN)).expect("a timeout");
    std::thread::spawn(move || {
        let mut buffer = [0; 9_000];
        while !done.load(Ordering::SeqCst) {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            let name = Interest::decode(network_packet(&buffer[..len])).expect("an Interest").name.to_name();
            let _ = socket.send_to(&DataBuilder::new(name).content(vec![7; 100]).encode(), from);
        }
    })
}

/// Sends Interests over UDP at a rate, each once, and counts the answers.
fn consume_datagrams(socket: UdpSocket, rate: u32, done: Arc<AtomicBool>) -> JoinHandle<(u64, Seen)> {
    let reader = socket.try_clone().expect("a handle");
    reader.set_read_timeout(Some(2 * AGAIN)).expect("a timeout");
    let sending = std::thread::spawn(move || {
        let (prefix, start, mut sent): (Name, _, u64) = ("/udp".parse().expect("a name"), Instant::now(), 0);
        while !done.load(Ordering::SeqCst) {
            let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            while sent < due {
                // A full buffer loses it, which is counted like any loss.
                let _ = socket.send(&interest(&prefix.join_number(50, sent), sent as u32));
                sent += 1;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        sent
    });
    std::thread::spawn(move || {
        let (mut seen, mut last, mut buffer) = (Seen::default(), Instant::now(), [0; 9_000]);
        // The end of the answers is no gap.
        while reader.recv(&mut buffer).is_ok() {
            seen.longest_gap = seen.longest_gap.max(if seen.answers == 0 { Duration::ZERO } else { last.elapsed() });
            (seen.answers, last) = (seen.answers + 1, Instant::now());
        }
        (sending.join().expect("it does not panic"), seen)
    })
}

/// The newest face with this scheme that lasts longer than a command.
fn newest_face(router: &Router, scheme: &str) -> u64 {
    let faces = || {
        let list = router.json("face list");
        let is_of_scheme = |face: &&Value| face["remote_uri"].as_str().is_some_and(|remote| remote.starts_with(scheme));
        let of_scheme = list.as_array().expect("a list").iter().filter(is_of_scheme);
        of_scheme.filter_map(|face| face["face_id"].as_u64()).collect::<HashSet<_>>()
    };
    // Each command has a face for a moment.
    faces().intersection(&faces()).copied().max().expect("a face")
}

/// Ids, peers and threads of all faces that stay, without those of commands.
fn lasting(router: &Router, faces: &[u64]) -> Vec<(u64, String, String)> {
    let list = router.json("face list");
    let text = |face: &Value, field: &str| face[field].as_str().unwrap_or_default().to_owned();
    let all = list.as_array().expect("a list").iter();
    let wanted = all.filter(|face| face["face_id"].as_u64().is_some_and(|id| faces.contains(&id)));
    wanted
        .map(|face| (face["face_id"].as_u64().expect("a number"), text(face, "remote_uri"), text(face, "local_uri")))
        .collect()
}

fn from_environment(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn transfers_go_on(threads: usize, restarts: u32) {
    let rate = from_environment("BYNAME_TEST_RATE", 1_000);
    let mut router = Router::start_with(&format!("[threads]\ncount = {threads}\n"));
    let tcp = || TcpStream::connect((Ipv4Addr::LOCALHOST, router.port)).expect("it listens");
    let unix = || UnixStream::connect(router.socket()).expect("it listens");
    let (done, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let mut producers = Vec::new();
    let mut faces = Vec::new();
    let over_tcp = tcp();
    faces.push(newest_face(&router, "tcp4://"));
    producers.push(produce(over_tcp, over.clone()));
    let over_unix = unix();
    faces.push(newest_face(&router, "fd://"));
    producers.push(produce(over_unix, over.clone()));
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let peer = datagrams.local_addr().expect("bound");
    router.ok(&format!("route add /tcp {}", faces[0]));
    router.ok(&format!("route add /unix {} --cost 7 --no-inherit", faces[1]));
    router.ok(&format!("route add /udp udp4://{peer} --expires 3600000"));
    router.ok("strategy set /tcp multicast");
    router.ok("cs config --capacity 1000 --serve off");
    faces.push(newest_face(&router, "udp4://"));
    producers.push(produce_datagrams(datagrams, over.clone()));
    let before = (lasting(&router, &faces), routes(&router), router.json("strategy list"));

    let has_streams = from_environment("BYNAME_TEST_STREAMS", 1) > 0;
    let consumers = has_streams.then(|| [consume(unix(), "/tcp", done.clone()), consume(tcp(), "/unix", done.clone())]);
    let consumer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    consumer.connect((Ipv4Addr::LOCALHOST, router.port)).expect("an address");
    let asking = consume_datagrams(consumer, rate, done.clone());
    let (first, pause) = (router.pid(), Duration::from_millis(from_environment("BYNAME_TEST_PAUSE_MS", 100).into()));
    for _ in 0..restarts {
        std::thread::sleep(pause);
        router.hand_over();
    }
    std::thread::sleep(pause);
    done.store(true, Ordering::SeqCst);
    let seen: Vec<Seen> =
        consumers.into_iter().flatten().map(|it| it.join().expect("every connection stays")).collect();
    let (sent, datagrams) = asking.join().expect("it does not panic");
    assert!(router.pid() != first || restarts == 0);
    assert_eq!((lasting(&router, &faces), routes(&router), router.json("strategy list")), before);
    over.store(true, Ordering::SeqCst);
    producers.into_iter().for_each(|producer| producer.join().expect("every connection stays"));
    let lost = sent - datagrams.answers;
    println!("{threads} threads, {restarts} restarts: streams {seen:?}, UDP {sent} sent, {lost} lost, {datagrams:?}");
    println!("{}", router.log().lines().filter(|line| line.contains("Taken over")).collect::<Vec<_>>().join("\n"));
    let ms = |time: Duration| 1000.0 * time.as_secs_f64();
    record::record(
        json!({ "threads": threads, "restarts": restarts, "rate": rate, "pause_ms": ms(pause), "streams": has_streams }),
        json!({
            "threads": threads,
            "restarts": restarts,
            "rate": rate,
            "interests": sent,
            "interests_lost": lost,
            "longest_gap_ms": ms(datagrams.longest_gap),
            "stream_answers": seen.iter().map(|seen| seen.answers).sum::<u64>(),
            "stream_sent_again": seen.iter().map(|seen| seen.sent_again).sum::<u64>(),
            "stream_longest_gap_ms": seen.iter().map(|seen| ms(seen.longest_gap)).fold(0.0, f64::max),
            // Each consumer and each producer would have failed above.
            "connections_closed": 0,
        }),
    );
    assert!(seen.iter().all(|seen| seen.answers > u64::from(restarts)), "{seen:?}");
    assert!(lost * 2 < sent, "{lost} of {sent} lost");
    let store = router.json("cs info");
    assert_eq!((store["capacity"].as_u64(), store["serve"].as_bool()), (Some(1_000), Some(false)), "{store}");
    // It ends as ever, and removes its file.
    router.signal("-TERM");
    let deadline = Instant::now() + Duration::from_secs(10);
    while router.socket().exists() {
        assert!(Instant::now() < deadline, "{}", router.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All routes without the time that is left to them.
fn routes(router: &Router) -> Value {
    let mut routes = router.json("route list");
    for route in routes.as_array_mut().expect("a list") {
        route.as_object_mut().expect("a route").retain(|field, _| !field.contains("expires"));
    }
    routes
}

#[test]
fn transfers_go_on_across_ten_restarts() {
    transfers_go_on(1, from_environment("BYNAME_TEST_RESTARTS", 10));
}

#[test]
fn transfers_go_on_across_restarts_with_two_packet_threads() {
    transfers_go_on(2, from_environment("BYNAME_TEST_RESTARTS", 4));
}

/// The first line of the answer to a request for metrics.
fn metrics_at(port: u16) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn web_sockets_and_the_metrics_go_on_and_the_service_manager_knows() {
    let http = free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let manager = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let mut router =
        Router::start_as_service(&folder.path().join("notify"), &format!("[metrics]\nlisten = \"127.0.0.1:{http}\"\n"));
    let over = Arc::<AtomicBool>::default();
    let producing = produce(UnixStream::connect(router.socket()).expect("it listens"), over.clone());
    router.ok(&format!("route add /unix {}", newest_face(&router, "fd://")));
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, router.websocket_port)).expect("it listens");
    let (mut socket, _) = tungstenite::client("ws://localhost/", stream).expect("a WebSocket");
    socket.get_mut().set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    // More than fit into one message between the processes.
    let crowd: Vec<UnixStream> = (0..150).map(|_| UnixStream::connect(router.socket()).expect("it listens")).collect();
    for round in 0..4 {
        let name: Name = format!("/unix/ws/{round}").parse().expect("a name");
        let interest = interest(&name, round);
        // A frame with a mask of zeros, in two parts. The new process gets the second.
        let mut frame = vec![0x82, 0x80 | interest.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(&interest);
        let (begin, rest) = frame.split_at(frame.len() * round as usize / 4 + 1);
        socket.get_mut().write_all(begin).expect("the connection stays");
        std::thread::sleep(Duration::from_millis(20));
        router.hand_over();
        socket.get_mut().write_all(rest).expect("the connection stays");
        let answer = socket.read().expect("the connection stays").into_data();
        let data = Data::decode(network_packet(&answer)).expect("Data");
        assert_eq!((data.name.to_name(), data.content.to_vec()), (name.clone(), content(&name)));
        assert_eq!(metrics_at(http), "HTTP/1.1 200 OK");
        // The service manager gets other news, too.
        let told = std::iter::repeat_with(|| {
            let mut buffer = [0; 4096];
            let len = manager.recv(&mut buffer).expect("news of the new process");
            String::from_utf8_lossy(&buffer[..len]).into_owned()
        });
        let main = format!("MAINPID={}", router.pid());
        assert!(told.take(100).any(|told| told.lines().any(|line| line == main)), "{main}");
    }
    for (n, mut client) in crowd.into_iter().enumerate() {
        let name: Name = format!("/unix/crowd/{n}").parse().expect("a name");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        client.write_all(&interest(&name, 7)).expect("the connection stays");
        let wire = Elements { stream: client, bytes: Vec::new() }.next().expect("an answer");
        assert_eq!(Data::decode(network_packet(&wire)).expect("Data").name.to_name(), name);
    }
    over.store(true, Ordering::SeqCst);
    producing.join().expect("the connection stays");
}

#[test]
fn a_new_program_that_fails_leaves_the_old_process_running() {
    let mut router = Router::start_copy("[general]\ntakeover_time = \"400 ms\"\n");
    let client = UnixStream::connect(router.socket()).expect("it listens");
    let (program, config) = (router.path("byname"), router.path("byname.toml"));
    let good = std::fs::read_to_string(&config).expect("a file");
    let replace = |path: &std::path::Path, bytes: &[u8]| {
        let new = path.with_extension("new");
        std::fs::write(&new, bytes).expect("written");
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("permitted");
        std::fs::rename(&new, path).expect("replaced");
    };
    let original = std::fs::read(&program).expect("a file");
    let fails = |router: &Router, why: &str| {
        let before = router.log().len();
        router.signal("-USR2");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !router.log()[before..].contains("This process goes on as before") {
            assert!(Instant::now() < deadline, "{}", router.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(router.log()[before..].contains(why), "{why}\n{}", router.log());
        assert_eq!(router.run("status").code, 0, "management answers");
    };
    replace(&program, b"#!/bin/sh\nexit 4\n");
    let done = router.run("restart");
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("no restart: the new process has ended: exit status: 4. Process"), "{}", done.stderr);
    replace(&program, b"#!/bin/sh\nexit 3\n");
    fails(&router, "the new process has ended: exit status: 3");
    replace(&program, b"#!/bin/sh\nexec sleep 60\n");
    fails(&router, "the new process was not ready in time");
    replace(&program, b"#!/bin/sh\nhead -c 100 /dev/zero >&0\nexec sleep 60\n");
    fails(&router, "speaks another protocol");
    replace(&program, b"no program at all");
    fails(&router, "does not start");
    std::fs::remove_file(&program).expect("removed");
    fails(&router, "does not start");
    replace(&program, &original);
    std::fs::write(&config, format!("{good}\n[nonsense]\n")).expect("written");
    fails(&router, "nonsense");
    std::fs::write(&config, format!("{good}\n[threads]\ncount = 2\n")).expect("written");
    fails(&router, "`[threads] count` was 1 and is 2 now");
    std::fs::write(&config, &good).expect("written");
    let said = router.restart_by_command();
    assert!(said.contains(&format!("handed over to process {}, byname ", router.pid())), "{said}");
    // The connection from before all this still works.
    let (done, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let producing = produce(UnixStream::connect(router.socket()).expect("it listens"), over.clone());
    router.ok(&format!("route add /unix {}", newest_face(&router, "fd://")));
    let consuming = consume(client, "/unix", done.clone());
    std::thread::sleep(Duration::from_millis(200));
    done.store(true, Ordering::SeqCst);
    assert!(consuming.join().expect("the connection stays").answers > 0);
    over.store(true, Ordering::SeqCst);
    producing.join().expect("the connection stays");
}

#[test]
fn the_store_passes_to_the_new_process_and_outlives_its_crash() {
    let mut router = Router::start();
    let prefixes = |router: &Router| {
        let list = router.json("route list");
        let shown = |route: &Value| format!("{} {}", route["prefix"].as_str().unwrap_or_default(), route["cost"]);
        let mut all: Vec<String> = list.as_array().expect("a list").iter().map(shown).collect();
        all.sort();
        all
    };
    router.ok("route add /kept udp4://127.0.0.1:9 --cost 3");
    router.ok("route add /gone udp4://127.0.0.1:9");
    router.ok("strategy set /kept multicast");
    router.hand_over();
    router.ok("route add /later udp4://127.0.0.1:10");
    router.ok("route remove /gone udp4://127.0.0.1:9");
    // After a restart that fails, the old process keeps its store.
    let config = router.path("byname.toml");
    let good = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, format!("{good}\n[nonsense]\n")).expect("written");
    assert_eq!(router.run("restart").code, 1);
    std::fs::write(&config, good).expect("written");
    router.ok("route add /after udp4://127.0.0.1:10");
    router.hand_over();
    let (before, strategies) = (prefixes(&router), router.json("strategy list"));
    assert!(
        ["/kept 3", "/later 0", "/after 0"].iter().all(|route| before.iter().any(|has| has == route)),
        "{before:?}"
    );
    assert!(!before.iter().any(|route| route.starts_with("/gone")), "{before:?}");
    let router = router.restart("-KILL");
    assert_eq!((prefixes(&router), router.json("strategy list")), (before, strategies), "{}", router.log());
}
