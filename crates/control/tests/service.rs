//! Tests of the control thread with a packet thread and clients on a Unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use byname_control::config::Readvertise;
use byname_control::fib_writer::{Replica, TagFibEngine};
use byname_control::mgmt::audit::Audit;
use byname_control::mgmt::reload::RouteChange;
use byname_control::mgmt::tlv::{
    ChannelStatus, ControlParameters, ControlResponse, Element, FaceEventKind, FaceEventNotification, FaceStatus,
    RibEntry, decode_list, origin,
};
use byname_control::own_names::is_own_name;
use byname_control::readvertise::Destination;
use byname_control::rib::Route;
use byname_control::security::{Authorizer, Signer};
use byname_control::service::{self, ControlConfig, ControlHandle, Engines, Forwarder};
use byname_control::tags::TagLimits;
use byname_face::stream::{StreamConfig, StreamPort};
use byname_face::udp::{UdpConfig, UdpPort};
use byname_face::{ForwarderHandle, IoConfig, Port};
use byname_forward::tables::Tables;
use byname_forward::worker::WorkerConfig;
use byname_forward::{FaceId, Worker};
use byname_lookup::Control;
use byname_lookup::oracle::TagsetOracle;
use byname_lookup::prefix::LongestFirst;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::tlv::element_len;
use byname_wire::{Component, Data, Interest, LpPacket, Name, NameHashKey};

/// Generous: only a heavily loaded machine needs this long.
const PATIENCE: Duration = Duration::from_secs(20);
/// Source of nonces for all clients.
static NONCES: AtomicU32 = AtomicU32::new(1);

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

struct Router {
    control: Option<ControlHandle>,
    handle: ForwarderHandle,
    thread: Option<std::thread::JoinHandle<()>>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Router {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("byname.sock");
        let port = StreamPort::unix(&[&socket], StreamConfig::default()).expect("a socket");
        let key = NameHashKey::new([3, 4]);
        let engine = LongestFirst::new(key, 1000);
        let tables = Arc::new(Tables::new(engine.query()));
        let worker = Worker::new(WorkerConfig::default(), key, Arc::clone(&tables), 1);
        let udp = UdpPort::bind(UdpConfig::new(([127, 0, 0, 1], 0).into())).expect("a socket");
        let ports: Vec<Box<dyn Port>> = vec![Box::new(port), Box::new(udp)];
        let running = byname_face::start(IoConfig::default(), worker, ports).expect("a thread");
        let config = ControlConfig {
            balance_period: Duration::ZERO,
            authorizer: Authorizer::local_only(),
            routes_max: 1000,
            announcements_max: 100,
            strategies: vec![],
            tag_limits: TagLimits::default(),
            destinations: vec![Destination::daemon(Readvertise::default())],
            audit: Audit::off(),
        };
        let handle = running.handle.clone();
        let forwarder = Forwarder {
            handle: running.handle,
            internal: running.internal,
            events: running.events,
            notices: running.notices,
        };
        let replica = Replica { engine: Box::new(engine), node: None };
        let tag_engine: TagFibEngine = Box::new(TagsetOracle::new());
        let engines: Engines = (vec![replica], tag_engine.into());
        let control = service::start(config, forwarder, engines, tables).expect("a thread");
        Router { control: Some(control), handle, thread: Some(running.thread), socket, _folder: folder }
    }

    fn client(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).expect("the router listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client { stream, received: Vec::new(), signer: Signer::digest() }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.handle.shutdown();
        let thread = self.thread.take().expect("joined once");
        thread.join().expect("the packet thread does not panic");
        drop(self.control.take());
    }
}

struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    signer: Signer,
}

impl Client {
    fn send(&mut self, wire: &[u8]) {
        self.stream.write_all(wire).expect("the router reads");
    }

    /// Receives the next Interest or Data, without its link header.
    fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Some(len) = element_len(&self.received, 9000).expect("well-formed") {
                let frame: Vec<u8> = self.received.drain(..len).collect();
                let frame = LpPacket::decode(&frame).expect("an LpPacket");
                return frame.fragment.expect("a packet").to_vec();
            }
            let mut bytes = [0; 9000];
            let len = self.stream.read(&mut bytes).expect("an answer in time");
            assert!(len > 0, "the router closed the connection");
            self.received.extend_from_slice(&bytes[..len]);
        }
    }

    fn interest(&mut self, name: Name, can_be_prefix: bool) -> InterestBuilder {
        // If two clients used one nonce for the same name, the router would see a loop.
        let nonce = NONCES.fetch_add(1, Ordering::Relaxed);
        let interest = InterestBuilder::new(name, nonce).lifetime_ms(20_000);
        interest.can_be_prefix(can_be_prefix).must_be_fresh(can_be_prefix)
    }

    fn ask(&mut self, name: Name, can_be_prefix: bool) {
        let wire = self.interest(name, can_be_prefix).encode();
        self.send(&wire);
    }

    fn command(&mut self, verb: &str, parameters: &ControlParameters) -> ControlResponse {
        let command = name(&format!("/localhost/nfd/{verb}")).join(Component::generic(&parameters.encode()));
        let unix_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
        let interest = self.interest(command, false);
        let wire = self.signer.sign_command(&interest, unix_ms as u64).expect("a digest");
        self.send(&wire);
        let answer = self.receive();
        ControlResponse::decode(Data::decode(&answer).expect("Data").content).expect("a response")
    }

    fn register(&mut self, uri: &str, origin: u64) -> u64 {
        let parameters =
            ControlParameters { name: Some(name(uri)), origin: Some(origin), ..ControlParameters::default() };
        let response = self.command("rib/register", &parameters);
        assert_eq!(response.code, 200);
        response.parameters().expect("a body").face_id.expect("a face")
    }

    fn list<T: Element>(&mut self, uri: &str) -> Vec<T> {
        self.ask(name(uri), true);
        let wire = self.receive();
        let data = Data::decode(&wire).expect("Data");
        assert_eq!(data.final_block, data.name.component(-1), "one segment");
        decode_list(data.content).expect("a dataset")
    }

    /// Names with routes, without the router's own.
    fn routes(&mut self) -> Vec<String> {
        let entries = self.list::<RibEntry>("/localhost/nfd/rib/list");
        let others = entries.iter().map(|entry| entry.name.as_ref()).filter(|name| !is_own_name(*name));
        others.map(|name| name.to_string()).collect()
    }
}

#[test]
fn an_application_registers_serves_and_leaves() {
    let router = Router::start();
    let (mut producer, mut consumer) = (router.client(), router.client());
    assert_eq!(consumer.routes(), [""; 0]);
    let face = producer.register("/app", 0);
    assert!(face >= FaceId::FIRST.0);
    assert_eq!(consumer.routes(), ["/app"], "lists are never out of date");
    assert_eq!(producer.routes(), ["/app"]);

    consumer.ask(name("/app/1"), false);
    let asked = producer.receive();
    let asked = Interest::decode(&asked).expect("an Interest").name.to_name();
    assert_eq!(asked, name("/app/1"));
    producer.send(&DataBuilder::new(asked).content(vec![5]).encode());
    assert_eq!(Data::decode(&consumer.receive()).expect("Data").content, [5]);

    let faces: Vec<FaceStatus> = consumer.list("/localhost/nfd/faces/list");
    assert!(faces.iter().any(|f| f.face_id == face && f.n_in_data == 1 && f.face_scope == 1));
    drop(producer);
    let start = Instant::now();
    while !consumer.routes().is_empty() {
        assert!(start.elapsed() < PATIENCE, "routes die with their face");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_subscriber_hears_of_each_face() {
    let router = Router::start();
    let stream = name("/localhost/nfd/faces/events");
    let mut subscriber = router.client();
    // When the router answers, it has already handled the event of our own face.
    subscriber.routes();
    subscriber.ask(stream.clone(), true);
    let latest = subscriber.receive();
    let latest = Data::decode(&latest).expect("Data").name.component(-1).and_then(|c| c.number()).expect("a number");
    let wait_for = |subscriber: &mut Client, n| {
        subscriber.ask(stream.join_number(component_type::SEQUENCE_NUM, n), false);
        let wire = subscriber.receive();
        let event = FaceEventNotification::decode(Data::decode(&wire).expect("Data").content).expect("a notification");
        (FaceEventKind::from_number(event.face_event_kind).expect("a kind"), event.face_id)
    };
    let connecting = std::thread::spawn({
        let socket = router.socket.clone();
        move || {
            std::thread::sleep(Duration::from_millis(50));
            let stream = UnixStream::connect(socket).expect("the router listens");
            std::thread::sleep(Duration::from_millis(50));
            drop(stream);
        }
    });
    let (kind, face) = wait_for(&mut subscriber, latest + 1);
    assert_eq!(kind, FaceEventKind::Created);
    assert_eq!(wait_for(&mut subscriber, latest + 2), (FaceEventKind::Destroyed, face));
    connecting.join().expect("it connects");
}

#[test]
fn a_routing_daemon_is_told_of_client_routes() {
    let router = Router::start();
    let (mut daemon, mut application) = (router.client(), router.client());
    application.register("/net/app", origin::CLIENT);
    daemon.register("/localhost/nlsr", origin::NLSR);
    let wire = daemon.receive();
    let command = Interest::decode(&wire).expect("an Interest").name.to_name();
    assert!(name("/localhost/nlsr/rib/register").as_ref().is_prefix_of(&command.as_ref()));
    let parameters = command.as_ref().component(4).expect("parameters").value.to_vec();
    let parameters = ControlParameters::decode(&parameters).expect("parameters");
    assert_eq!(parameters.name, Some(name("/net/app")));
    let answer = ControlResponse::new(200, "OK").encode();
    daemon.send(&DataBuilder::new(command).freshness_ms(1000).content(answer).encode());
    drop(application);
    let wire = daemon.receive();
    let command = Interest::decode(&wire).expect("an Interest").name;
    assert!(name("/localhost/nlsr/rib/unregister").as_ref().is_prefix_of(&command));
}

#[test]
fn faces_are_created_once_changed_within_limits_and_destroyed() {
    let router = Router::start();
    let mut client = router.client();
    let uri = "udp4://127.0.0.1:9".to_owned();
    let create = ControlParameters { uri: Some(uri.clone()), mtu: Some(1400), ..ControlParameters::default() };
    let response = client.command("faces/create", &create);
    assert_eq!(response.code, 200, "{}", response.text);
    let body = response.parameters().expect("a body");
    let face = body.face_id.expect("a face");
    assert!(face >= FaceId::FIRST.0);
    assert_eq!((&body.uri, body.mtu, body.face_persistency), (&Some(uri.clone()), Some(1400), Some(0)));
    assert!(body.local_uri.is_some_and(|local| local.starts_with("udp4://127.0.0.1:")) && body.flags.is_some());

    let response = client.command("faces/create", &create);
    assert_eq!(response.code, 409);
    let again = response.parameters().expect("the whole body");
    assert_eq!((again.face_id, &again.uri), (Some(face), &Some(uri)));
    assert!(again.local_uri.is_some() && again.flags.is_some() && again.face_persistency.is_some());

    let change = ControlParameters { face_id: Some(face), ..ControlParameters::default() };
    let local_fields = ControlParameters { flags: Some(1), mask: Some(1), ..change.clone() };
    let response = client.command("faces/update", &local_fields);
    assert_eq!(response.code, 409, "only local faces have local fields");
    let offending = response.parameters().expect("what offends");
    assert_eq!((offending.flags, offending.mask), (Some(1), Some(1)));
    let own = ControlParameters { face_id: None, ..local_fields };
    let response = client.command("faces/update", &own);
    assert_eq!((response.code, response.parameters().expect("a body").flags.map(|f| f & 1)), (200, Some(1)));
    let permanent = ControlParameters { face_persistency: Some(2), mtu: Some(1200), ..change.clone() };
    let body = client.command("faces/update", &permanent).parameters().expect("a body");
    assert_eq!((body.face_id, body.face_persistency, body.mtu), (Some(face), Some(2), Some(1200)));

    let faces: Vec<FaceStatus> = client.list("/localhost/nfd/faces/list");
    let listed = faces.iter().find(|f| f.face_id == face).expect("it is listed");
    assert_eq!((listed.face_scope, listed.face_persistency, listed.link_type), (0, 2, 0));
    assert_eq!(client.command("faces/destroy", &change).code, 200);
    assert_eq!(client.command("faces/update", &change).code, 404);
    let channels: Vec<ChannelStatus> = client.list("/localhost/nfd/faces/channels");
    assert!(channels.iter().any(|c| c.local_uri.starts_with("unix://")));
    assert!(channels.iter().any(|c| c.local_uri.starts_with("udp4://")));
}

#[test]
fn routes_of_the_configuration_hold_at_once() {
    let router = Router::start();
    let mut client = router.client();
    let control = router.control.as_ref().expect("it runs");
    let route = Route { face: FaceId(999), origin: origin::STATIC, cost: 7, flags: 1, expires_at_ms: None };
    control.set_routes(vec![RouteChange { name: name("/far"), route, adds: true }]).expect("there is room");
    assert_eq!(client.routes(), ["/far"]);
}

#[test]
fn a_snapshot_is_taken_when_it_is_asked_for() {
    let router = Router::start();
    let control = router.control.as_ref().expect("it runs");
    let route = Route { face: FaceId(999), origin: origin::STATIC, cost: 7, flags: 1, expires_at_ms: None };
    control.set_routes(vec![RouteChange { name: name("/far"), route, adds: true }]).expect("there is room");
    let (tell, told) = std::sync::mpsc::channel();
    let snapshots = control.snapshots(256);
    assert!(snapshots.ask(move |snapshot| tell.send(snapshot).expect("somebody waits")));
    let snapshot = told.recv_timeout(PATIENCE).expect("a snapshot");
    assert_eq!(snapshot.routes, 1);
    // A `Snapshots` handle does not keep the thread alive.
    drop(router);
    assert!(!snapshots.ask(|_| unreachable!("the thread has ended")));
}
