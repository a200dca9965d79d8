//! A server between a client and a router that only answers commands: over gRPC on one side, and a Unix socket on the other.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use byname_client::transport::Environment;
use byname_gribi::client::{Client, Session, Target};
use byname_gribi::convert::group;
use byname_gribi::core::{Ack, Limits, Params, Persistence};
use byname_gribi::proto::operation::{Entry, Kind};
use byname_gribi::proto::result::Status;
use byname_gribi::proto::{EntryKind, NextHop, PrefixEntry, entry::FibStatus};
use byname_gribi::server::{ServeError, ServeOptions, serve};
use byname_gribi::{Stop, block_on};
use byname_mgmt::batch::{BatchChange, BatchOutcome, decode_batch};
use byname_mgmt::{ControlParameters, ControlResponse, Element, FaceStatus, RibEntry, Route, origin};
use byname_wire::data::DataBuilder;
use byname_wire::lp::LpPacket;
use byname_wire::tlv::Reader;
use byname_wire::{Interest, Name};

const PATIENCE: Duration = Duration::from_secs(60);
const PARAMS: Params = Params { persistence: Persistence::Preserve, ack: Ack::RibAndFib };

/// What a router has, and how it misbehaves.
#[derive(Default)]
struct Has {
    faces: BTreeMap<u64, String>,
    /// Costs by prefix and face.
    routes: BTreeMap<(Name, u64), u64>,
    /// Prefixes that it refuses.
    refuses: Vec<Name>,
    /// Number of batches so far, and of their changes.
    batches: (usize, usize),
    /// Closes the connection after so many batches, when the last one has been carried out and not answered.
    breaks_after: Option<usize>,
}

/// A router that only answers commands.
struct FakeRouter {
    path: PathBuf,
    has: Arc<Mutex<Has>>,
}

impl FakeRouter {
    fn start(name: &str) -> FakeRouter {
        let path = std::env::temp_dir().join(format!("byname-gribi-{name}-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let has: Arc<Mutex<Has>> = Arc::default();
        let shared = has.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || answer_all(stream.expect("a connection"), &shared));
            }
        });
        FakeRouter { path, has }
    }

    fn has(&self) -> MutexGuard<'_, Has> {
        self.has.lock().expect("no thread panics with it")
    }

    /// Its routes, as prefix and cost.
    fn routes(&self) -> Vec<(String, u64)> {
        self.has().routes.iter().map(|((name, _), cost)| (name.to_string(), *cost)).collect()
    }
}

impl Drop for FakeRouter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answers what comes on a connection, until it ends.
fn answer_all(mut stream: UnixStream, has: &Mutex<Has>) {
    let (mut buffer, mut chunk) = (Vec::new(), [0; 65_536]);
    loop {
        let taken = {
            let mut reader = Reader::new(&buffer);
            let mut taken = 0;
            while let Ok(Some(frame)) = reader.next_tlv() {
                taken += frame.wire.len();
                let packet = LpPacket::decode(frame.wire).expect("a frame").fragment.unwrap_or_default().to_vec();
                let interest = Interest::decode(&packet).expect("an Interest");
                let Some(content) = answer(&interest, &mut has.lock().expect("no thread panics with it")) else {
                    return;
                };
                let data = DataBuilder::new(interest.name.to_name()).freshness_ms(1).content(content).encode();
                if stream.write_all(&data).is_err() {
                    return;
                }
            }
            taken
        };
        buffer.drain(..taken);
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

/// `None`: the connection is closed instead.
fn answer(interest: &Interest<'_>, has: &mut Has) -> Option<Vec<u8>> {
    let word = |at: isize| interest.name.component(at).map(|part| part.value).unwrap_or_default();
    let mut out = Vec::new();
    match (word(2), word(3)) {
        (b"faces", b"list") => {
            for (id, uri) in &has.faces {
                FaceStatus { face_id: *id, uri: uri.clone(), ..FaceStatus::default() }.encode_to(&mut out);
            }
        }
        (b"rib", b"list") => {
            for ((name, face), cost) in &has.routes {
                let route = Route { face_id: *face, origin: origin::GRIBI, cost: *cost, flags: 1, ..Route::default() };
                RibEntry { name: name.clone(), routes: vec![route] }.encode_to(&mut out);
            }
        }
        (b"flat", b"list") => {}
        (b"faces", b"create") => {
            let asked = ControlParameters::decode(word(4)).expect("parameters");
            let id = has.faces.keys().max().map_or(300, |last| last + 1);
            has.faces.insert(id, asked.uri.clone().unwrap_or_default());
            out = ControlResponse::ok(&ControlParameters { face_id: Some(id), ..asked }).encode();
        }
        (b"rib", b"batch") => {
            let parameters = interest.application_parameters.unwrap_or_default();
            let changes = decode_batch(parameters).expect("well-formed").expect("few enough");
            has.batches = (has.batches.0 + 1, has.batches.1 + changes.len());
            let mut outcome = BatchOutcome::default();
            for (index, change) in changes.into_iter().enumerate() {
                match carry_out(change, has) {
                    Ok(()) => outcome.count += 1,
                    Err((code, text)) => outcome.refuse(index, code, text.to_owned()),
                }
            }
            if has.breaks_after == Some(has.batches.0) {
                return None;
            }
            out = ControlResponse { code: 200, text: "OK".into(), body: outcome.encode() }.encode();
        }
        other => panic!("nobody should ask for {other:?}"),
    }
    Some(out)
}

fn carry_out(change: BatchChange, has: &mut Has) -> Result<(), (u64, &'static str)> {
    match change {
        BatchChange::Register(route) => {
            assert_eq!(route.origin, Some(origin::GRIBI));
            let (name, face) = (route.name.expect("a name"), route.face_id.expect("a face"));
            if has.refuses.contains(&name) {
                return Err((507, "no room"));
            }
            if !has.faces.contains_key(&face) {
                return Err((410, "Face not found"));
            }
            has.routes.insert((name, face), route.cost.unwrap_or(0));
        }
        BatchChange::Unregister(route) => {
            has.routes.remove(&(route.name.expect("a name"), route.face_id.expect("a face")));
        }
        other => panic!("nobody should ask for {other:?}"),
    }
    Ok(())
}

/// A server in a thread of its own, until it is dropped.
struct Served {
    target: Target,
    stop: Arc<Stop>,
    thread: Option<std::thread::JoinHandle<Result<(), ServeError>>>,
}

fn options(router: &FakeRouter, listen: SocketAddr) -> ServeOptions {
    let transport = format!("unix://{}", router.path.display());
    let router = Environment::of_process().candidates(Some(&transport)).expect("an address");
    ServeOptions { listen, tls: None, router, compare: Duration::from_secs(60), limits: Limits::default() }
}

impl Served {
    fn start(router: &FakeRouter) -> Served {
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let (options, stop) = (options(router, listen), Arc::new(Stop::default()));
        let asked = stop.clone();
        let thread =
            std::thread::spawn(move || block_on(async { serve(options, asked.asked()).await }).expect("a runtime"));
        let begun = Instant::now();
        while TcpStream::connect(listen).is_err() {
            assert!(begun.elapsed() < PATIENCE, "nobody listens");
            std::thread::sleep(Duration::from_millis(10));
        }
        let target = Target { endpoint: format!("http://{listen}"), ca_pem: None, identity_pem: None };
        Served { target, stop, thread: Some(thread) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.now();
        if let Some(thread) = self.thread.take() {
            // Its result has been seen, or the test fails by itself.
            let _ = thread.join();
        }
    }
}

fn hop(index: u64) -> Entry {
    Entry::NextHop(NextHop { index, uri: format!("udp4://192.0.2.{index}:6363") })
}

fn prefix(name: &str, next_hop_group: u64) -> Entry {
    Entry::Prefix(PrefixEntry { name: name.to_owned(), next_hop_group, ..PrefixEntry::default() })
}

/// Adds entries, and returns the last result of each, in their order.
async fn add(session: &mut Session, entries: Vec<Entry>) -> Vec<(Status, String)> {
    let operations: Vec<_> = entries.into_iter().map(|entry| session.operation(Kind::Add, entry)).collect();
    let ids: Vec<u64> = operations.iter().map(|operation| operation.id).collect();
    session.send(operations).await.expect("the session goes on");
    let mut results = BTreeMap::new();
    while results.len() < ids.len() {
        let result = tokio::time::timeout(PATIENCE, session.result()).await.expect("in time").expect("a result");
        if result.status() != Status::RibProgrammed {
            assert!(results.insert(result.id, (result.status(), result.error)).is_none(), "one last result");
        }
    }
    ids.iter().filter_map(|id| results.remove(id)).collect()
}

async fn begin(served: &Served) -> (Client, Session) {
    let client = Client::connect(&served.target).await.expect("a connection");
    let mut session = client.modify(PARAMS, 1).await.expect("a session");
    let results = add(&mut session, vec![hop(1), hop(2), Entry::NextHopGroup(group(7, &[(1, 10)]))]).await;
    assert!(results.iter().all(|(status, _)| *status == Status::FibProgrammed), "{results:?}");
    (client, session)
}

#[test]
fn operations_reach_the_router_in_batches() {
    let router = FakeRouter::start("batches");
    let served = Served::start(&router);
    block_on(async {
        let (client, mut session) = begin(&served).await;
        let names: Vec<String> = (0..5_000).map(|number| format!("/many/{number:04}")).collect();
        let entries = names.iter().map(|name| prefix(name, 7)).collect();
        let results = add(&mut session, entries).await;
        assert!(results.iter().all(|(status, _)| *status == Status::FibProgrammed));
        let expected: Vec<(String, u64)> = names.iter().map(|name| (name.clone(), 10)).collect();
        assert!(router.routes() == expected, "each has its route when it is acknowledged");
        let (batches, changes) = router.has().batches;
        assert!(changes == 5_000 && batches < 250, "{changes} changes in {batches} batches");
        let results = add(&mut session, vec![Entry::NextHopGroup(group(7, &[(2, 3)]))]).await;
        assert_eq!(results[0].0, Status::FibProgrammed);
        assert!(router.routes().iter().all(|(_, cost)| *cost == 3), "one operation for all entries");
        assert_eq!(client.get_all(EntryKind::Prefix).await.expect("a list").len(), 5_000);
        client.flush(Some(1)).await.expect("it is primary");
        assert_eq!((router.routes(), client.get_all(EntryKind::All).await.expect("a list")), (vec![], vec![]));
    })
    .expect("a runtime");
}

#[test]
fn what_the_router_refuses_is_told_and_tried_again() {
    let router = FakeRouter::start("refuses");
    router.has().refuses.push("/bad".parse().expect("a name"));
    let served = Served::start(&router);
    block_on(async {
        let (client, mut session) = begin(&served).await;
        let results = add(&mut session, vec![prefix("/good", 7), prefix("/bad", 7), prefix("/none", 8)]).await;
        let statuses: Vec<Status> = results.iter().map(|(status, _)| *status).collect();
        assert_eq!(statuses, [Status::FibProgrammed, Status::FibFailed, Status::Failed]);
        assert_eq!((results[1].1.as_str(), results[2].1.as_str()), ("507: no room", "there is no group 8"));
        router.has().refuses.clear();
        let begun = Instant::now();
        loop {
            let listed = client.get_all(EntryKind::Prefix).await.expect("a list");
            if listed.len() == 2 && listed.iter().all(|entry| entry.fib_status() == FibStatus::Programmed) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "it is not tried again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(router.routes(), [("/bad".to_owned(), 10), ("/good".to_owned(), 10)]);
        // A face that is gone is made again.
        let gone: u64 = *router.has().faces.keys().next().expect("a face");
        router.has().faces.remove(&gone);
        router.has().routes.clear();
        let results = add(&mut session, vec![prefix("/after", 7)]).await;
        assert_eq!((results[0].0, results[0].1.as_str()), (Status::FibFailed, "410: Face not found"));
        while !router.routes().iter().any(|(name, _)| name == "/after") {
            assert!(begun.elapsed() < 2 * PATIENCE, "no other face");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .expect("a runtime");
}

#[test]
fn a_connection_that_breaks_in_the_middle_loses_no_operation() {
    let router = FakeRouter::start("breaks");
    // What it has by then still fits in one packet of its list.
    router.has().breaks_after = Some(1);
    let served = Served::start(&router);
    block_on(async {
        let (_, mut session) = begin(&served).await;
        let names: Vec<String> = (0..3_000).map(|number| format!("/many/{number:04}")).collect();
        let results = add(&mut session, names.iter().map(|name| prefix(name, 7)).collect()).await;
        assert!(results.iter().all(|(status, _)| *status == Status::FibProgrammed));
        assert!(router.has().batches.0 > 1, "it went on after the first batch");
        let expected: Vec<(String, u64)> = names.iter().map(|name| (name.clone(), 10)).collect();
        assert!(router.routes() == expected);
    })
    .expect("a runtime");
}

#[test]
fn only_loopback_addresses_are_without_tls() {
    let router = FakeRouter::start("open");
    let listen: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let refused = block_on(serve(options(&router, listen), std::future::pending())).expect("a runtime");
    assert!(matches!(refused, Err(ServeError::Open(address)) if address == listen), "{refused:?}");
}

#[test]
fn idle_connections_take_places_only_until_they_end() {
    let router = FakeRouter::start("places");
    let served = Served::start(&router);
    let address = served.target.endpoint.trim_start_matches("http://").to_owned();
    let mut idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    let mut last = idle.pop().expect("there are 300");
    last.set_read_timeout(Some(PATIENCE)).expect("set");
    // The places are taken in order, so the last one got none.
    assert!(matches!(last.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
    drop(idle);
    let begun = Instant::now();
    block_on(async {
        // A connection without a place fails at its first call.
        loop {
            let client = Client::connect(&served.target).await;
            if let Ok(client) = client
                && client.get_all(EntryKind::All).await.is_ok()
            {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "no place gets free");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        begin(&served).await;
    })
    .expect("a runtime");
}
