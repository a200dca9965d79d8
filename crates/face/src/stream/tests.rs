use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use byname_forward::face_table::{Persistency, Scope};
use byname_forward::{LinkFields, Packet};
use byname_wire::tlv;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use tungstenite::Message;

use super::*;
use crate::face::LinkFlags;
use crate::port::tests::Bench;

mod admission;
mod waiting;
mod websocket;

/// A port in a loop without a worker: the test acts as the worker.
struct Rig {
    bench: Bench,
    port: StreamPort,
}

impl Rig {
    fn new(mut port: StreamPort) -> Rig {
        let mut bench = Bench::new();
        port.start(&mut bench.cx()).expect("the port starts");
        Rig { bench, port }
    }

    fn unix(config: StreamConfig) -> (Rig, PathBuf, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run/nfd.sock");
        (Rig::new(StreamPort::unix(&[&path], config).expect("a listener")), path, folder)
    }

    fn tcp(config: StreamConfig) -> (Rig, SocketAddr) {
        let port = StreamPort::tcp(&[(Ipv4Addr::LOCALHOST, 0).into()], config).expect("a listener");
        let address = port.entrances[0].listener.local_addr().expect("an address");
        (Rig::new(port), address)
    }

    /// Runs one round of the loop, waiting up to `ms` for input.
    fn round(&mut self, ms: u64) {
        self.bench.round(&mut self.port, ms);
    }

    /// Runs rounds until `done`.
    fn until(&mut self, mut done: impl FnMut(&Rig) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "nothing happens; {:?}", self.bench.events);
            self.round(10);
        }
    }

    fn settle(&mut self) {
        for _ in 0..5 {
            self.round(5);
        }
    }

    fn send(&mut self, face: FaceId, packet: &[u8]) {
        self.send_with(face, LinkFields::default(), packet);
    }

    fn send_with(&mut self, face: FaceId, fields: LinkFields, packet: &[u8]) {
        let outgoing = Outgoing { face, fields, packet: Packet::copy_from(packet) };
        self.port.transmit(&mut self.bench.cx(), &mut [outgoing]);
    }

    fn created(&self) -> Vec<FaceStatus> {
        let events = self.bench.events.iter();
        events.filter_map(|(_, e)| if let FaceEvent::Created(s) = e { Some(s.clone()) } else { None }).collect()
    }

    fn destroyed(&self) -> Vec<FaceStatus> {
        let events = self.bench.events.iter();
        events.filter_map(|(_, e)| if let FaceEvent::Destroyed(s) = e { Some(s.clone()) } else { None }).collect()
    }

    fn create(&mut self, remote: FaceUri, persistency: Persistency) -> Result<FaceStatus, CreateFaceError> {
        let request = FaceRequest { persistency, ..FaceRequest::to(remote) };
        self.port.create_face(&mut self.bench.cx(), &request).expect("a kind of this port")
    }
}

/// Settings without congestion marks, so that packets leave unchanged.
fn unmarked() -> StreamConfig {
    let link = LinkConfig { flags: LinkFlags::default(), ..LinkConfig::default() };
    StreamConfig { link, ..StreamConfig::default() }
}

fn packet(typ: u64, fill: u8, len: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    tlv::push_tlv(&mut packet, typ, &vec![fill; len]);
    packet
}

fn interest(fill: u8) -> Vec<u8> {
    packet(tlv::types::INTEREST, fill, 40)
}

fn data(fill: u8, len: usize) -> Vec<u8> {
    packet(tlv::types::DATA, fill, len)
}

fn read_exactly(stream: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).expect("bytes come");
    bytes
}

#[test]
fn a_pair_is_the_face_of_an_application_in_this_process() {
    let (port, mut application) =
        StreamPort::pair(std::path::Path::new("/byname/routing"), StreamConfig::default()).expect("sockets");
    application.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut rig = Rig::new(port);
    let face = rig.created()[0].clone();
    assert_eq!((face.scope, face.local.to_string().as_str()), (Scope::Local, "unix:///byname/routing"));
    application.write_all(&interest(1)).unwrap();
    rig.until(|r| r.bench.received.len() == 1);
    rig.send(face.id, &data(2, 30));
    rig.settle();
    assert!(read_exactly(&mut application, data(2, 30).len()).ends_with(&[2; 30]));
    drop(application);
    rig.until(|r| r.destroyed().len() == 1);
}

#[test]
fn a_unix_client_sends_and_receives() {
    let (mut rig, path, _folder) = Rig::unix(StreamConfig::default());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    assert_eq!(rig.port.channels(), [format!("unix://{}", path.display())]);
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    rig.until(|r| !r.created().is_empty());
    let face = rig.created()[0].clone();
    assert_eq!((face.scope, face.persistency, face.up), (Scope::Local, Persistency::OnDemand, true));
    assert!(face.remote.to_string().starts_with("fd://"), "{}", face.remote);
    assert_eq!(face.local, FaceUri::Unix(path));

    // Bare packets and an LpPacket with a token, in pieces.
    let mut stream = [interest(1), interest(2)].concat();
    let mut lp = Vec::new();
    tlv::push_nested(&mut lp, 0x64, |out| {
        tlv::push_tlv(out, 0x62, &[9, 9, 9, 9]);
        tlv::push_tlv(out, 0x50, &interest(3));
    });
    stream.extend_from_slice(&lp);
    for piece in stream.chunks(7) {
        client.write_all(piece).unwrap();
        rig.round(0);
    }
    rig.until(|r| r.bench.received.len() == 3);
    assert_eq!(&*rig.bench.received[0].packet, interest(1));
    assert_eq!(&*rig.bench.received[2].packet, interest(3));
    let token = rig.bench.received[2].fields.pit_token;
    assert_eq!(token.as_slice(), [9, 9, 9, 9]);

    // A packet without fields has no link header.
    rig.send(face.id, &data(1, 300));
    rig.send_with(face.id, LinkFields { pit_token: token, ..LinkFields::default() }, &data(3, 8000));
    rig.round(0);
    assert_eq!(read_exactly(&mut client, data(1, 300).len()), data(1, 300));
    let frame = read_exactly(&mut client, 4 + 6 + 4 + data(3, 8000).len());
    let lp = byname_wire::LpPacket::decode(&frame).unwrap();
    assert_eq!((lp.pit_token, lp.fragment), (token, Some(&data(3, 8000)[..])));

    drop(client);
    rig.until(|r| !r.destroyed().is_empty());
    assert_eq!((rig.port.connections(), rig.port.queued_bytes), (0, 0));
    assert!(rig.port.status(Ticks(0), face.id).is_none());
}

#[test]
fn garbage_ends_the_face_and_is_counted() {
    let (mut rig, address) = Rig::tcp(StreamConfig::default());
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[6, 254, 255, 255, 255, 255], &[0x64, 255, 1, 2, 3, 4, 5, 6, 7, 8]]
    {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&interest(7)).unwrap();
        client.write_all(garbage).unwrap();
        rig.until(|r| !r.destroyed().is_empty());
        assert_eq!(rig.destroyed()[0].link.in_malformed, 1);
        assert_eq!(rig.bench.received.len(), 1, "what came before is delivered");
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
        rig.bench.received.clear();
        rig.bench.events.clear();
    }
}

#[test]
fn a_web_page_cannot_make_its_browser_send_packets() {
    // `post` is a form's request to this port. A page that reaches us by its own host name could send the other two:
    // their method looks like a link packet.
    let post = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:6363\r\nContent-Length: 42\r\n\r\n".to_vec();
    let in_link_packet = [b"d!".to_vec(), vec![b'P'; 33]].concat();
    let in_fragment = [b"d#P!".to_vec(), vec![b'x'; 33]].concat();
    for request in [post, in_link_packet, in_fragment] {
        let (mut rig, address) = Rig::tcp(StreamConfig::default());
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&[request, interest(7)].concat()).unwrap();
        rig.until(|r| r.destroyed().len() == 1);
        assert!(rig.bench.received.is_empty(), "an Interest in the body of a request is no Interest");
        assert_eq!(rig.destroyed()[0].link.in_malformed, 1);
    }
}

#[test]
fn a_malformed_packet_is_counted_and_the_face_lives() {
    let (mut rig, path, _folder) = Rig::unix(StreamConfig::default());
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(&interest(1)).unwrap();
    // An LpPacket that repeats a field, then a good packet.
    client.write_all(&[0x64, 8, 0x62, 2, 1, 1, 0x62, 2, 1, 1]).unwrap();
    client.write_all(&interest(2)).unwrap();
    rig.until(|r| r.bench.received.len() == 2);
    let face = rig.created()[0].id;
    assert_eq!(rig.port.status(Ticks(0), face).unwrap().link.in_malformed, 1);
    assert!(rig.destroyed().is_empty());
}

#[test]
fn a_slow_reader_costs_a_bounded_queue() {
    let config = StreamConfig { local_queue_bytes_max: 200_000, queues_bytes_max: 300_000, ..unmarked() };
    let (mut rig, path, _folder) = Rig::unix(config);
    let mut clients: Vec<UnixStream> = (0..2).map(|_| UnixStream::connect(&path).unwrap()).collect();
    rig.until(|r| r.created().len() == 2);
    let faces: Vec<FaceId> = rig.created().iter().map(|s| s.id).collect();
    for n in 0..2_000 {
        for &face in &faces {
            rig.send(face, &data(n as u8, 4_000));
        }
        rig.round(0);
        assert!(rig.port.queued_bytes <= 300_000);
    }
    let slot = rig.port.faces[&faces[0]];
    assert!(rig.port.connection(slot).unwrap().queued_bytes() <= 200_000);
    let status = rig.port.status(Ticks(0), faces[0]).unwrap();
    assert!(status.link.out_drops > 1_000);
    // Only lasting congestion is marked, and time stands still here.
    assert!(rig.destroyed().is_empty());
    let accepted = 2_000 - status.link.out_drops as usize;
    assert_eq!(status.link.out_bytes as usize, accepted * data(0, 4_000).len());

    // Accepted packets arrive whole and in order, and the face goes on.
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for _ in 0..accepted + 1 {
            let packet = read_exactly(&mut clients[0], data(0, 4_000).len());
            assert_eq!(packet, data(packet[10], 4_000));
            seen.push(packet[10]);
        }
        seen
    });
    rig.until(|r| r.port.status(Ticks(0), faces[0]).is_some() && r.port.queued_bytes <= 200_000);
    rig.until(|r| r.port.slots[slot as usize].as_ref().is_none_or(|c| c.queued_bytes() == 0));
    rig.send(faces[0], &data(77, 4_000));
    rig.until(|_| reader.is_finished());
    let seen = reader.join().unwrap();
    assert_eq!((seen[0], seen[accepted]), (0, 77));
}

#[test]
fn a_client_that_ends_its_sending_gets_its_answer() {
    for tcp in [false, true] {
        let (mut rig, path, _folder) = Rig::unix(StreamConfig::default());
        let (mut answer, mut ask): (Box<dyn Read + Send>, _);
        if tcp {
            let (tcp_rig, address) = Rig::tcp(StreamConfig::default());
            rig = tcp_rig;
            let mut client = TcpStream::connect(address).unwrap();
            ask = client.try_clone().unwrap();
            ask.write_all(&interest(1)).unwrap();
            client.flush().unwrap();
            ask.shutdown(Shutdown::Write).unwrap();
            answer = Box::new(client);
        } else {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(&interest(1)).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            answer = Box::new(client);
        }
        rig.until(|r| r.bench.received.len() == 1);
        rig.settle();
        assert!(rig.destroyed().is_empty(), "it is owed an answer");
        let face = rig.bench.received[0].face;
        rig.send(face, &data(1, 100));
        rig.round(0);
        assert_eq!(read_exactly(&mut answer, data(1, 100).len()), data(1, 100));
        assert_eq!(rig.destroyed().len(), 1, "all is answered");
    }
}

#[test]
fn a_half_closed_client_without_answer_is_given_up() {
    let (mut rig, path, _folder) = Rig::unix(StreamConfig::default());
    let mut quiet = UnixStream::connect(&path).unwrap();
    quiet.write_all(&interest(1)).unwrap();
    quiet.shutdown(Shutdown::Write).unwrap();
    let mut hasty = UnixStream::connect(&path).unwrap();
    hasty.write_all(&interest(2)).unwrap();
    hasty.shutdown(Shutdown::Write).unwrap();
    rig.until(|r| r.bench.received.len() == 2);
    rig.settle();
    assert!(rig.destroyed().is_empty());
    // A peer that leaves meanwhile is noticed at once.
    drop(hasty);
    rig.until(|r| r.destroyed().len() == 1);
    rig.bench.now = Ticks::from_ms(3_999);
    rig.settle();
    assert_eq!(rig.destroyed().len(), 1);
    rig.bench.now = Ticks::from_ms(4_000);
    rig.until(|r| r.destroyed().len() == 2);
}

#[test]
fn thousands_of_connections_come_and_go() {
    let (mut rig, path, _folder) = Rig::unix(StreamConfig { connections_max: 300, ..StreamConfig::default() });
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..50 {
        let clients: Vec<_> = (0..100)
            .map(|n| {
                let mut client = UnixStream::connect(&path).unwrap();
                client.write_all(&interest(n)).unwrap();
                client
            })
            .collect();
        rig.until(|r| r.bench.received.len() == 100);
        drop(clients);
        rig.until(|r| r.port.connections() == 0);
        rig.bench.received.clear();
    }
    assert_eq!((rig.created().len(), rig.destroyed().len()), (5_000, 5_000));
    assert!(rig.port.slots.len() <= 100 && rig.port.faces.is_empty() && rig.port.queued_bytes == 0);
    assert!(rig.port.ready.is_empty() && rig.port.dirty.is_empty());
    // Other tests run at the same time: allow for their descriptors.
    assert!(descriptors() < before + 100);
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let (mut rig, path, _folder) = Rig::unix(StreamConfig { connections_max: 3, ..StreamConfig::default() });
    let mut clients: Vec<_> = (0..5).map(|_| UnixStream::connect(&path).unwrap()).collect();
    rig.settle();
    assert_eq!(rig.created().len(), 3);
    assert_eq!(clients[4].read(&mut [0; 1]).unwrap(), 0);
    clients.remove(0);
    rig.until(|r| r.port.connections() == 2);
    let _late = UnixStream::connect(&path).unwrap();
    rig.until(|r| r.created().len() == 4);
}

#[test]
fn one_fast_sender_starves_nobody() {
    let (mut rig, path, _folder) = Rig::unix(StreamConfig::default());
    let mut fast = UnixStream::connect(&path).unwrap();
    fast.set_nonblocking(true).unwrap();
    let burst = interest(1).repeat(1_000);
    let mut slow = UnixStream::connect(&path).unwrap();
    rig.until(|r| r.created().len() == 2);
    let fast_face = rig.created()[0].id;
    for _ in 0..20 {
        rig.bench.received.clear();
        let _ = fast.write(&burst);
        slow.write_all(&interest(2)).unwrap();
        for _ in 0..3 {
            rig.round(0);
            // No turn takes more than about one burst.
            assert!(rig.bench.received.len() <= 3 * 128);
        }
        assert!(rig.bench.received.iter().any(|r| r.face != fast_face), "the slow one waits too long");
    }
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nfd.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a stale file is left");
    let first = StreamPort::unix(&[&path], StreamConfig::default()).expect("the stale file is replaced");
    let Err(error) = StreamPort::unix(&[&path], StreamConfig::default()) else { panic!("two listeners on one path") };
    assert!(matches!(error, ListenError::InUse { .. }));
    let message = error.to_string();
    assert!(message.contains("nfd.sock is held by ") && message.contains(&std::process::id().to_string()), "{message}");
    assert!(UnixStream::connect(&path).is_ok(), "the first goes on");
    drop(first);
    assert!(!path.exists(), "the file goes with the port");

    // A file that replaced ours is not ours to remove.
    let first = StreamPort::unix(&[&path], StreamConfig::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(first);
    assert!(path.exists());

    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "keep me").unwrap();
    assert!(matches!(StreamPort::unix(&[&file], StreamConfig::default()), Err(ListenError::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "keep me");
}

#[test]
fn an_address_in_use_is_named() {
    let (_rig, address) = Rig::tcp(StreamConfig::default());
    let Err(error) = StreamPort::tcp(&[address], StreamConfig::default()) else { panic!("two listeners") };
    assert_eq!(error.to_string(), format!("tcp4://{address} is held by another process"));
}

#[test]
fn tcp_faces_are_made_by_request_and_by_peers() {
    let (mut server, address) = Rig::tcp(StreamConfig::default());
    let mut client = Rig::new(StreamPort::tcp(&[], StreamConfig::default()).unwrap());
    let remote = FaceUri::Tcp(address);
    let pending = client.create(remote.clone(), Persistency::Persistent).unwrap();
    assert_eq!((pending.id, client.bench.events.len()), (FaceId::NONE, 0), "the connection must stand first");
    assert_eq!(client.create(remote.clone(), Persistency::Persistent).unwrap().id, FaceId::NONE);
    client.until(|r| !r.bench.creations.is_empty());
    let (of, outcome) = client.bench.creations.remove(0);
    let face = outcome.unwrap();
    assert_eq!(client.created(), std::slice::from_ref(&face));
    assert_eq!(
        (of, face.persistency, face.scope, face.remote.clone(), face.up),
        (remote.clone(), Persistency::Persistent, Scope::Local, remote.clone(), true)
    );
    client.send(face.id, &interest(1));
    client.round(0);
    server.until(|r| r.bench.received.len() == 1);
    let accepted = server.created()[0].clone();
    assert_eq!(accepted.remote, client.port.status(Ticks(0), face.id).unwrap().local);
    assert_eq!((accepted.persistency, accepted.local), (Persistency::OnDemand, remote.clone()));

    match client.create(remote.clone(), Persistency::Permanent) {
        Err(CreateFaceError::Exists(status)) => assert_eq!(status.id, face.id),
        other => panic!("{other:?}"),
    }
    let refused = [
        FaceRequest { persistency: Persistency::OnDemand, ..FaceRequest::to("tcp4://127.0.0.1:1".parse().unwrap()) },
        FaceRequest { mtu: Some(1500), ..FaceRequest::to("tcp4://127.0.0.1:1".parse().unwrap()) },
        FaceRequest { local: Some(remote), ..FaceRequest::to("tcp4://127.0.0.1:1".parse().unwrap()) },
        FaceRequest {
            flags: LinkFlags { local_fields: true, ..LinkFlags::default() },
            ..FaceRequest::to("tcp4://192.0.2.1:6363".parse().unwrap())
        },
    ];
    for request in refused {
        let answer = client.port.create_face(&mut client.bench.cx(), &request);
        assert!(matches!(answer, Some(Err(CreateFaceError::Unacceptable(_)))), "{request:?}");
    }
    assert!(
        client
            .port
            .create_face(&mut client.bench.cx(), &FaceRequest::to("udp4://127.0.0.1:1".parse().unwrap()))
            .is_none()
    );
    let local_fields = LinkFlags { local_fields: true, ..LinkFlags::default() };
    let change = FaceChange { flags: Some(local_fields), ..FaceChange::default() };
    assert_eq!(client.port.update_face(&mut client.bench.cx(), face.id, &change).unwrap().flags, local_fields);

    server.send(accepted.id, &data(1, 100));
    server.round(0);
    assert!(client.port.destroy_face(&mut client.bench.cx(), face.id));
    assert!(!client.port.destroy_face(&mut client.bench.cx(), face.id));
    assert_eq!(client.destroyed().len(), 1);
    server.until(|r| r.destroyed().len() == 1);
}

#[test]
fn a_persistent_face_that_cannot_connect_is_never_made() {
    let mut client = Rig::new(StreamPort::tcp(&[], StreamConfig::default()).unwrap());
    let unused = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let outcome = match client.create(FaceUri::Tcp(unused), Persistency::Persistent) {
        Ok(_) => {
            client.until(|r| !r.bench.creations.is_empty());
            client.bench.creations.remove(0).1
        }
        decided => decided,
    };
    let Err(CreateFaceError::Failed(reason)) = outcome else { panic!("{outcome:?}") };
    assert!(reason.starts_with("Connection failed: Connection refused"), "{reason}");
    assert_eq!((client.port.connections(), client.bench.events.len()), (0, 0));
}

#[test]
fn a_permanent_face_reconnects_when_its_peer_is_back() {
    let (server, address) = Rig::tcp(StreamConfig::default());
    let mut client = Rig::new(StreamPort::tcp(&[], StreamConfig::default()).unwrap());
    let face = client.create(FaceUri::Tcp(address), Persistency::Permanent).unwrap().id;
    let up = |r: &Rig| r.port.status(Ticks(0), face).unwrap().up;
    client.until(up);
    let mut server = server;
    server.until(|r| r.created().len() == 1);
    drop(server);
    client.until(|r| !up(r));
    client.send(face, &interest(1));
    assert_eq!(client.port.status(Ticks(0), face).unwrap().link.out_drops, 1, "dropped and counted while down");

    // Pauses grow to a bound, and differ from each other.
    let mut pauses = Vec::new();
    while pauses.len() < 12 {
        let Phase::Waiting(at) = client.port.slots[0].as_ref().unwrap().phase else { panic!("no attempt is planned") };
        pauses.push(at.since(client.bench.now));
        client.bench.now = at;
        let attempts = client.port.slots[0].as_ref().unwrap().attempts;
        client.until(|r| r.port.slots[0].as_ref().unwrap().attempts > attempts);
    }
    assert!(pauses[0] <= Duration::from_millis(500) && pauses[5] >= Duration::from_secs(12), "{pauses:?}");
    assert!(pauses[11] <= Duration::from_secs(60) && pauses[11] >= Duration::from_secs(45), "{pauses:?}");
    assert!(client.destroyed().is_empty());

    let mut server = Rig::new(StreamPort::tcp(&[address], StreamConfig::default()).unwrap());
    client.bench.now = client.bench.now + Duration::from_secs(60);
    client.until(up);
    client.send(face, &interest(2));
    client.round(0);
    server.until(|r| r.bench.received.len() == 1);
    let kinds: Vec<_> = client.bench.events.iter().map(|(_, e)| std::mem::discriminant(e)).collect();
    assert_eq!(kinds.len(), 4, "Created, Up, Down, Up: {:?}", client.bench.events);
}

#[test]
fn a_connection_attempt_ends_in_time() {
    let mut client = Rig::new(StreamPort::tcp(&[], StreamConfig::default()).unwrap());
    // A listener whose backlog is full accepts nobody, and answers nothing.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let _waiting = TcpStream::connect(address).unwrap();
    assert_eq!(client.create(FaceUri::Tcp(address), Persistency::Persistent).unwrap().id, FaceId::NONE);
    client.settle();
    assert!(client.bench.creations.is_empty());
    client.bench.now = Ticks::from_ms(8_000);
    client.until(|r| !r.bench.creations.is_empty());
    let (_, outcome) = client.bench.creations.remove(0);
    assert_eq!(outcome.unwrap_err().to_string(), "Connection timed out");

    // A request may give less time.
    let request =
        FaceRequest { connect_within: Some(Duration::from_secs(3)), ..FaceRequest::to(FaceUri::Tcp(address)) };
    assert!(client.port.create_face(&mut client.bench.cx(), &request).expect("its kind").is_ok());
    client.bench.now = Ticks::from_ms(11_000);
    client.until(|r| !r.bench.creations.is_empty());
    assert!(client.bench.events.is_empty());
}

#[test]
fn a_stream_moves_many_packets_in_few_calls() {
    const PACKETS: usize = 200_000;
    let (mut rig, path, _folder) = Rig::unix(unmarked());
    let client = UnixStream::connect(&path).unwrap();
    let (mut source, mut sink) = (client.try_clone().unwrap(), client);
    let sender = std::thread::spawn(move || {
        let burst = interest(1).repeat(64);
        for _ in 0..PACKETS / 64 {
            source.write_all(&burst).unwrap();
        }
    });
    let reader = std::thread::spawn(move || {
        let (mut bytes, mut buffer) = (PACKETS / 64 * 64 * data(1, 40).len(), vec![0; 1 << 16]);
        while bytes > 0 {
            bytes -= sink.read(&mut buffer).unwrap();
        }
    });
    let start = Instant::now();
    let mut echoed = 0;
    while echoed < PACKETS / 64 * 64 {
        rig.round(10);
        for received in std::mem::take(&mut rig.bench.received) {
            echoed += 1;
            rig.send(received.face, &data(1, 40));
            // The worker answers no faster than its client reads, so further input waits.
            while rig.port.queued_bytes > 500_000 {
                rig.round(1);
            }
        }
    }
    rig.until(|r| r.port.queued_bytes == 0);
    println!("{:.1} million packets/s through the port", echoed as f64 / start.elapsed().as_secs_f64() / 1e6);
    sender.join().unwrap();
    reader.join().unwrap();
}
