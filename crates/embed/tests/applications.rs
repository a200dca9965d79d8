//! Applications that register at a forwarder in a program, and that connect to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use byname_embed::{FaceId, Forwarder, LinkFields, LinkType, Listener, Running, Scope, Ticks, frame};
use byname_mgmt::{ControlParameters, ControlResponse, Element};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::lp::LpPacket;
use byname_wire::{Component, Data, Interest, Name, tlv};

fn name(text: &str) -> Name {
    text.parse().expect("a literal name")
}

fn forwarder() -> Forwarder {
    Forwarder::builder().pit_entries_max(1000).registrations().seed(1).build().expect("memory for small tables")
}

/// A command as NFD's clients send it; the components of its signature do not matter here.
fn command(scope: &str, verb: &str, parameters: &ControlParameters) -> Vec<u8> {
    let name = name(&format!("/{scope}/nfd/{verb}")).join(Component::generic(&parameters.encode()));
    InterestBuilder::new(name, 7).encode()
}

fn of(prefix: &str) -> ControlParameters {
    ControlParameters { name: Some(name(prefix)), ..ControlParameters::default() }
}

/// The answer to what a face sends, if there is one.
fn answer(forwarder: &mut Forwarder, face: FaceId, now: u64, wire: &[u8]) -> Option<ControlResponse> {
    forwarder.receive(face, wire).expect("a packet");
    let sent: Vec<_> = forwarder.poll(Ticks(now)).collect();
    assert!(sent.iter().all(|sent| sent.face == face), "management is inside");
    let data = sent.iter().find(|sent| sent.fields.nack.is_none())?;
    Some(ControlResponse::decode(Data::decode(&data.packet).expect("Data").content).expect("an answer"))
}

#[test]
fn a_local_application_registers_and_another_host_does_not() {
    let mut forwarder = forwarder();
    let app = forwarder.add_face(Scope::Local, LinkType::PointToPoint);
    let other = forwarder.add_face(Scope::Local, LinkType::PointToPoint);
    let host = forwarder.add_face(Scope::NonLocal, LinkType::PointToPoint);
    let mut now = 0;
    let mut ask = |forwarder: &mut Forwarder, face, scope, verb, parameters: &ControlParameters| {
        now += 1;
        answer(forwarder, face, now, &command(scope, verb, parameters))
    };
    let done = ask(&mut forwarder, app, "localhost", "rib/register", &of("/a")).expect("an answer");
    assert_eq!((done.code, done.parameters().expect("a body").face_id), (200, Some(app.0)));
    let with = |face: FaceId| ControlParameters { face_id: Some(face.0), cost: Some(3), ..of("/a") };
    assert_eq!(ask(&mut forwarder, app, "localhost", "rib/register", &with(other)).expect("an answer").code, 200);
    let faces =
        |forwarder: &Forwarder| forwarder.route(&name("/a")).iter().map(|n| (n.face, n.cost)).collect::<Vec<_>>();
    assert_eq!(faces(&forwarder), [(app, 0), (other, 3)]);
    assert_eq!(ask(&mut forwarder, app, "localhost", "rib/unregister", &of("/a")).expect("an answer").code, 200);
    assert_eq!(faces(&forwarder), [(other, 3)]);
    assert!(forwarder.remove_face(other));
    assert_eq!(faces(&forwarder), []);

    let codes = [
        ("rib/register", of("/localhost/nfd"), 403),
        ("rib/register", of("/localhop/nfd/rib"), 403),
        ("rib/register", with(FaceId(99)), 410),
        ("rib/register", ControlParameters::default(), 400),
        ("faces/create", of("/a"), 501),
    ];
    for (verb, parameters, code) in codes {
        assert_eq!(ask(&mut forwarder, app, "localhost", verb, &parameters).expect("an answer").code, code, "{verb}");
    }
    now = 100;
    let garbled = name("/localhost/nfd/rib/register").join(Component::generic(&[7, 200]));
    let garbled = InterestBuilder::new(garbled, 8).encode();
    assert_eq!(answer(&mut forwarder, app, now, &garbled).expect("an answer").code, 400);
    let remote = command("localhop", "rib/register", &of("/b"));
    assert_eq!(answer(&mut forwarder, host, 101, &remote).expect("an answer").code, 403);
    assert_eq!(answer(&mut forwarder, host, 102, &command("localhost", "rib/register", &of("/b"))), None);
    assert_eq!(forwarder.route(&name("/b")), []);
    assert!(!forwarder.remove_face(FaceId::INTERNAL));
}

/// An application on the socket.
struct App(UnixStream, Vec<u8>);

impl App {
    fn connect(path: &Path) -> App {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a valid time");
        App(stream, Vec::new())
    }

    fn send(&mut self, wire: &[u8]) {
        self.0.write_all(wire).expect("it is open");
    }

    /// The next frame; `None` at the end of the connection.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(len) = tlv::element_len(&self.1, 1 << 16).expect("frames") {
                return Some(self.1.drain(..len).collect());
            }
            let mut block = [0; 4096];
            match self.0.read(&mut block).unwrap_or(0) {
                0 => return None,
                n => self.1.extend_from_slice(&block[..n]),
            }
        }
    }
}

#[test]
fn applications_connect_produce_and_fetch_over_a_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("router.sock");
    let running = Running::start(forwarder()).expect("a thread");
    let listener = Listener::bind(&path, &running).expect("a new path");
    assert!(Listener::bind(&path, &running).is_err(), "the path is in use");
    let (mut producer, mut consumer) = (App::connect(listener.path()), App::connect(&path));
    producer.send(&command("localhost", "rib/register", &of("/a")));
    let registered = producer.next().expect("an answer");
    assert_eq!(ControlResponse::decode(Data::decode(&registered).expect("Data").content).expect("an answer").code, 200);
    for i in 0..100u32 {
        let asked = name(&format!("/a/{i}"));
        // In two halves: streams cut frames anywhere.
        let wire = InterestBuilder::new(asked.clone(), i).encode();
        consumer.send(&wire[..i as usize % wire.len()]);
        consumer.send(&wire[i as usize % wire.len()..]);
        let frame = producer.next().expect("an Interest");
        let lp = LpPacket::decode(&frame).expect("a frame");
        let interest = Interest::decode(lp.fragment.expect("a packet")).expect("an Interest");
        assert_eq!(interest.name, asked.as_ref());
        let data = DataBuilder::new(asked.clone()).content(vec![1; 8000]).encode();
        let mut answer = Vec::new();
        LpPacket { fragment: Some(&data), pit_token: lp.pit_token, ..LpPacket::default() }.encode(&mut answer);
        producer.send(&answer);
        assert_eq!(consumer.next().expect("Data"), data);
    }
    // The route goes with the producer, and the listener takes the consumer along.
    drop(producer);
    let until = Instant::now() + Duration::from_secs(10);
    while running.with(|forwarder| forwarder.route(&name("/a")).len()).expect("it runs") > 0 {
        assert!(Instant::now() < until, "the route is left");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(listener);
    assert_eq!(consumer.next(), None);
    assert!(!path.exists());
}

#[test]
fn connections_are_bounded_and_garbage_ends_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("router.sock");
    let running = Running::start(forwarder()).expect("a thread");
    let listener = Listener::bind(&path, &running).expect("a new path");
    let mut garbage = App::connect(&path);
    garbage.send(&[6, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(garbage.next(), None);
    // Its place is free when its writing thread has looked, each tenth of a second.
    std::thread::sleep(Duration::from_millis(500));
    let mut open: Vec<_> = (0..256).map(|_| App::connect(&path)).collect();
    let mut one_more = App::connect(&path);
    assert_eq!(one_more.next(), None, "closed at once");
    // Each of the others is served.
    let last = open.last_mut().expect("256 of them");
    last.send(&command("localhost", "rib/register", &of("/a")));
    assert!(last.next().is_some());
    drop(running);
    assert_eq!(last.next(), None, "the forwarder is gone");
    drop(listener);
}

#[test]
fn a_nack_to_management_is_no_command() {
    let mut forwarder = forwarder();
    let app = forwarder.add_face(Scope::Local, LinkType::PointToPoint);
    let wire = command("localhost", "rib/register", &of("/a"));
    let nacked = LinkFields { nack: Some(byname_wire::NackReason::NoRoute), ..LinkFields::default() };
    forwarder.receive_with(app, nacked, &wire).expect("a packet");
    assert_eq!(forwarder.poll(Ticks(1)).len(), 0);
    forwarder.receive(app, &wire).expect("a packet");
    let sent: Vec<_> = forwarder.poll(Ticks(2)).collect();
    assert!(LpPacket::decode(&frame(&sent[0])).is_ok());
    assert_eq!(forwarder.route(&name("/a")).len(), 1);
}
