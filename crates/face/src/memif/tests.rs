//! Ports at both ends of a control socket, and peers that break the rules.

mod sharing;

use std::path::Path;
use std::sync::atomic::Ordering;

use byname_forward::{Packet, Received};
use tempfile::TempDir;

use super::framing::STATION;
use super::handshake::Terms;
use super::ring::{HEAD_AT, ring_bytes};
use super::*;
use crate::face::{FaceEvent, LinkCounters};
use crate::frames::datagram::DatagramPeer;
use crate::frames::datagram::Path as UdpPath;
use crate::frames::frame::GROUP;
use crate::frames::frame::header;
use crate::mac_address::MacAddress;
use crate::port::tests::{Bench, packet};

/// One end: a port and its test loop.
struct End {
    port: MemifPort,
    bench: Bench,
}

fn end(socket: &Path, role: Role, adjust: impl FnOnce(&mut MemifConfig)) -> End {
    let mut config = MemifConfig::new(socket, role);
    adjust(&mut config);
    let mut bench = Bench::new();
    let mut port = MemifPort::open(config).expect("a free socket");
    port.start(&mut bench.cx()).expect("starts");
    End { port, bench }
}

fn folder() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("run/memif.sock");
    (folder, socket)
}

impl End {
    fn face(&self) -> FaceId {
        self.port.face.expect("a face")
    }

    fn link(&self) -> LinkCounters {
        self.port.status(self.bench.now, self.face()).expect("a face").link
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.port.drops().into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Handles readiness, and lets `ms` pass.
    fn turn(&mut self, ms: u64) {
        self.bench.wait(&mut self.port, 0);
        self.bench.now = self.bench.now + Duration::from_millis(ms);
        if self.port.next_deadline().is_some_and(|at| at <= self.bench.now) {
            self.port.on_deadline(&mut self.bench.cx());
        }
    }

    fn send(&mut self, packets: &[Packet]) {
        let face = self.face();
        self.bench.send(&mut self.port, face, packets);
    }

    fn receive(&mut self, packets: usize) -> Vec<Received> {
        self.bench.receive(&mut self.port, packets)
    }

    fn take_events(&mut self) -> Vec<FaceEvent> {
        self.bench.events.drain(..).map(|(_, event)| event).collect()
    }
}

/// Lets both ends talk until packets flow.
fn join(a: &mut End, b: &mut End) {
    for _ in 0..100 {
        if a.port.up && b.port.up {
            return;
        }
        a.turn(100);
        b.turn(100);
    }
    panic!("the ends do not meet: {:?} {:?}", a.drops(), b.drops());
}

fn pair(adjust: impl Fn(&mut MemifConfig)) -> (TempDir, End, End) {
    let (folder, socket) = folder();
    let mut server = end(&socket, Role::Server, &adjust);
    let mut client = end(&socket, Role::Client, &adjust);
    join(&mut server, &mut client);
    (folder, server, client)
}

fn same(received: &[Received], sent: &[Packet]) -> bool {
    received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p))
}

#[test]
fn packets_cross_both_ways() {
    let (folder, mut server, mut client) = pair(|_| {});
    for end in [&mut server, &mut client] {
        let events = end.take_events();
        let [FaceEvent::Created(created), FaceEvent::Up(up)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(created.remote.to_string(), format!("memif://{}/run/memif.sock?id=0", folder.path().display()));
        assert_eq!((created.up, up.up, up.mtu, up.scope), (false, true, Some(8800), Scope::NonLocal));
    }
    let sent: Vec<_> = (0..200).map(|n| packet(5, 40 + n, n as u8)).collect();
    client.send(&sent);
    assert!(same(&server.receive(200), &sent));
    server.send(&sent);
    let received = client.receive(200);
    assert!(same(&received, &sent) && received.iter().all(|r| r.face == client.face()));
    assert_eq!((client.link().in_bytes, client.link().out_bytes), (server.link().out_bytes, server.link().in_bytes));
    assert_eq!((server.drops(), client.drops()), (vec![], vec![]));
}

#[test]
fn packets_longer_than_a_buffer_take_several_however_often() {
    let (_folder, mut server, mut client) = pair(|c| (c.buffer_bytes, c.slots_log2) = (512, 6));
    for round in 0..50 {
        // Long and short packets, so that every slot has been in the middle of a packet, and alone.
        let sent = [packet(6, 8800, round), packet(5, 60, 1), packet(6, 512, 2), packet(6, 513, 3)];
        client.send(&sent);
        assert!(same(&server.receive(4), &sent), "round {round}");
        server.send(&sent);
        assert!(same(&client.receive(4), &sent), "round {round}");
    }
    assert_eq!((server.drops(), client.drops()), (vec![], vec![]));
}

#[test]
fn more_than_the_ring_holds_is_sent_all_the_same() {
    for reverse in [false, true] {
        let (_folder, server, client) = pair(|c| c.slots_log2 = 3);
        let (mut from, mut to) = if reverse { (server, client) } else { (client, server) };
        let sent: Vec<_> = (0..100).map(|n| packet(6, 300 + n, n as u8)).collect();
        from.send(&sent);
        assert!(from.port.blocked && from.port.has_output());
        let mut received = Vec::new();
        while from.port.has_output() || received.len() < 100 {
            received.extend(to.receive(8));
            // Nothing announces that there is room, so the port waits for its deadline.
            let due = from.port.next_deadline().expect("it tries again");
            from.bench.now = from.bench.now.max(due);
            from.port.on_deadline(&mut from.bench.cx());
            from.port.flush(&mut from.bench.cx());
            if !from.port.has_output() {
                received.extend(to.receive(100 - received.len()));
            }
        }
        assert!(same(&received, &sent), "{} came", received.len());
        assert_eq!(from.port.next_deadline(), None);
    }
}

#[test]
fn a_queue_that_nobody_empties_ends() {
    let (_folder, _server, mut client) = pair(|c| c.slots_log2 = 3);
    for _ in 0..2000 {
        client.send(&[packet(6, 1000, 1)]);
    }
    let dropped = client.link().out_drops;
    assert!((900..1000).contains(&dropped), "{dropped} of 2000");
}

#[test]
fn packets_that_no_ring_holds_are_counted() {
    let (_folder, mut server, mut client) = pair(|c| (c.buffer_bytes, c.slots_log2) = (64, 3));
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut server, &mut client];
        ends[from].send(&[packet(6, 512, 1), packet(6, 513, 2)]);
        assert_eq!(ends[to].receive(2).len(), 1);
        ends[from].port.flush(&mut ends[from].bench.cx());
        assert_eq!(ends[from].link().out_drops, 1);
        assert!(!ends[from].port.has_output());
    }
}

#[test]
fn either_side_goes_and_comes_back() {
    let (_folder, socket) = folder();
    let mut server = end(&socket, Role::Server, |_| {});
    let mut client = end(&socket, Role::Client, |_| {});
    for round in 0..3 {
        join(&mut server, &mut client);
        client.send(&[packet(5, 60, round)]);
        assert_eq!(server.receive(1).len(), 1);
        drop(client);
        server.turn(0);
        let events = server.take_events();
        assert!(matches!(events.last(), Some(FaceEvent::Down(s)) if !s.up), "{events:?}");
        server.send(&[packet(5, 60, 1)]);
        assert_eq!(server.link().out_drops, u64::from(round) + 1);
        client = end(&socket, Role::Client, |_| {});
    }
    join(&mut server, &mut client);
    client.take_events();
    for _ in 0..3 {
        drop(server);
        client.turn(0);
        let events = client.take_events();
        assert!(matches!(&events[..], [FaceEvent::Down(_)]), "{events:?}");
        client.turn(1000);
        assert!(!client.port.up, "nobody is there");
        server = end(&socket, Role::Server, |_| {});
        join(&mut server, &mut client);
        client.take_events();
        server.send(&[packet(6, 3000, 9)]);
        assert_eq!(client.receive(1).len(), 1);
    }
    assert_eq!((server.drops(), client.drops()), (vec![], vec![]));
}

#[test]
fn ends_that_do_not_agree_say_so() {
    let differ: [fn(&mut MemifConfig); 2] = [|c| c.id = 7, |c| c.secret = [b'x'; 24]];
    let counted = "memif_peer_refused";
    for adjust in differ {
        let (_folder, socket) = folder();
        let mut server = end(&socket, Role::Server, |_| {});
        let mut client = end(&socket, Role::Client, adjust);
        for _ in 0..5 {
            server.turn(10);
            client.turn(10);
        }
        assert!(!server.port.up && !client.port.up);
        assert_eq!((server.drops(), client.drops()), (vec![(counted, 1)], vec![]));
        // Not again at once.
        client.turn(1000);
        server.turn(10);
        assert_eq!(server.drops(), [(counted, 1)]);
    }
    let (_folder, socket) = folder();
    let secret = |c: &mut MemifConfig| c.secret = [b'x'; 24];
    join(&mut end(&socket, Role::Server, secret), &mut end(&socket, Role::Client, secret));
}

#[test]
fn one_client_at_a_time() {
    let (_folder, mut server, mut first) = pair(|_| {});
    let mut second = end(&server.port.config.socket.clone(), Role::Client, |_| {});
    for _ in 0..5 {
        server.turn(10);
        second.turn(10);
    }
    assert!(!second.port.up);
    assert_eq!(server.drops(), [("memif_busy", 1)]);
    first.send(&[packet(5, 60, 1)]);
    assert_eq!(server.receive(1).len(), 1, "the first goes on");
    // The second client's turn comes when the first has gone.
    drop(first);
    join(&mut server, &mut second);
}

#[test]
fn a_client_that_does_not_go_on_makes_room() {
    let (_folder, socket) = folder();
    let mut server = end(&socket, Role::Server, |_| {});
    let mute = Connection::connect(&socket, MemifConfig::new(&socket, Role::Client).terms()).expect("connected");
    server.turn(0);
    server.turn(2000);
    assert_eq!(server.drops(), [("memif_peer_broke_control", 1)]);
    let mut client = end(&socket, Role::Client, |_| {});
    join(&mut server, &mut client);
    drop(mute);
}

#[test]
fn an_idle_end_is_woken_by_the_first_packet_and_only_then() {
    let (_folder, mut server, mut client) = pair(|_| {});
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut server, &mut client];
        // Awake: the sender makes no system call, so no event comes.
        ends[from].send(&[packet(5, 60, 1)]);
        let mut events = mio::Events::with_capacity(4);
        let poll = &mut ends[to].bench.poll;
        poll.poll(&mut events, Some(Duration::ZERO)).expect("polled");
        assert!(events.is_empty(), "{events:?}");
        assert_eq!(ends[to].receive(1).len(), 1);
        for round in 0..3 {
            let end = &mut *ends[to];
            end.port.fall_asleep(end.bench.now);
            assert!(!end.port.has_input());
            assert_eq!(end.port.next_deadline(), Some(end.bench.now + SECOND_LOOK));
            end.turn(1);
            end.port.fall_asleep(end.bench.now);
            assert_eq!(end.port.next_deadline(), None, "it sleeps for good");
            ends[from].send(&[packet(5, 60, round)]);
            let end = &mut *ends[to];
            end.bench.poll.poll(&mut events, Some(Duration::from_secs(5))).expect("polled");
            assert!(!events.is_empty(), "it is woken");
            assert_eq!(end.receive(1).len(), 1);
        }
    }
}

#[test]
fn ethernet_frames_are_taken_where_they_were_asked_for() {
    let (_folder, mut server, mut client) = pair(|c| c.framing = Framing::Ethernet);
    let sent = [packet(5, 30, 1), packet(6, 4000, 2)];
    client.send(&sent);
    assert!(same(&server.receive(2), &sent));
    let rings = client.port.connection.as_mut().and_then(Connection::rings).expect("up");
    let frame = |typ: u8| [&header(GROUP, STATION)[..12], &[0x86, typ], &packet(5, 30, 3), &[0; 16]].concat();
    for bytes in [&frame(0x24)[..], &frame(0x25), &frame(0x24)[..13], b"x"] {
        assert_eq!(rings.push([bytes, &[], &[]]).expect("room"), Pushed::Done);
    }
    rings.send();
    assert!(same(&server.receive(2), &[packet(5, 30, 3)]), "without what fills it up");
    assert_eq!(server.drops(), [("memif_not_ndn", 3)]);
}

/// Paths in both directions.
fn paths(family: &str) -> [UdpPath; 2] {
    let [here, there] = match family {
        "ipv4" => ["192.0.2.1:6363", "192.0.2.2:7000"],
        _ => ["[2001:db8::1]:6363", "[2001:db8::2]:7000"],
    };
    let [here, there] = [here, there].map(|address| address.parse().expect("an address"));
    let path = |here, there| UdpPath { here, there };
    [path(here, there), path(there, here)]
}

#[test]
fn datagrams_in_frames_go_to_whoever_was_heard() {
    for family in ["ipv4", "ipv6"] {
        let (_folder, socket) = folder();
        let paths = paths(family);
        // The server does not know the peer's station.
        let adjust = |c: &mut MemifConfig, i: usize, station| {
            c.datagrams = Some(DatagramPeer { path: paths[i], station });
            (c.framing, c.mtu) = (Framing::Ethernet, 1400);
        };
        let mut server = end(&socket, Role::Server, |c| adjust(c, 0, None));
        let mut client = end(&socket, Role::Client, |c| adjust(c, 1, Some(STATION)));
        join(&mut server, &mut client);
        let sent = [packet(5, 30, 1), packet(6, 4000, 2), packet(5, 1300, 3)];
        server.send(&sent[..1]);
        assert!(client.receive(1).is_empty() && server.link().out_drops == 1, "whom to?");
        client.send(&sent);
        assert!(same(&server.receive(3), &sent), "{family}");
        server.send(&sent);
        assert!(same(&client.receive(3), &sent), "{family}");
        assert_eq!((server.drops(), client.drops()), (vec![], vec![]));
    }
}

/// Plays a host at the other end, frame by frame.
#[test]
fn a_host_asks_for_the_address_and_hears_datagrams() {
    let [path, back] = paths("ipv4");
    let host = MacAddress([2, 0, 0, 0, 0, 9]);
    let (_folder, socket) = folder();
    let mut server = end(&socket, Role::Server, |c| {
        c.datagrams = Some(DatagramPeer { path, station: None });
        c.framing = Framing::Ethernet;
    });
    let mut client = end(&socket, Role::Client, |_| {});
    join(&mut server, &mut client);
    fn rings(client: &mut End) -> &mut Rings {
        client.port.connection.as_mut().and_then(Connection::rings).expect("up")
    }
    let push = |client: &mut End, bytes: &[u8]| {
        assert_eq!(rings(client).push([bytes, &[], &[]]).expect("room"), Pushed::Done);
        rings(client).send();
    };
    let heard = |client: &mut End| {
        let mut frames = Vec::new();
        rings(client).receive(64, |frame| frames.push(frame.to_vec())).expect("an honest peer");
        frames
    };
    // 192.0.2.2 asks for 192.0.2.1, and for an address of another host.
    let question = |wanted: u8| {
        let arp = [0, 1, 8, 0, 6, 4, 0, 1];
        [&[255; 6], &host.0[..], &[8, 6], &arp, &host.0, &[192, 0, 2, 2], &[0; 6], &[192, 0, 2, wanted]].concat()
    };
    push(&mut client, &question(1));
    push(&mut client, &question(7));
    assert!(server.receive(1).is_empty());
    let answers = heard(&mut client);
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert!(answer.starts_with(&host.0) && answer[20..22] == [0, 2] && answer[22..28] == STATION.0);
    // Now the peer's station is known.
    let sent = packet(5, 30, 1);
    server.send(std::slice::from_ref(&sent));
    let frames = heard(&mut client);
    assert_eq!(frames, [[&path.header(host, STATION, (&[], &sent))[..], &sent].concat()]);
    // From the peer, from a stranger's port, to another station, with a wrong checksum, and with NDN's own EtherType.
    let stranger = UdpPath { there: back.there, here: "192.0.2.2:7001".parse().expect("one") };
    let datagram = |path: &UdpPath, to| [&path.header(to, host, (&[], &sent))[..], &sent].concat();
    let mut wrong = datagram(&back, STATION);
    *wrong.last_mut().expect("bytes") ^= 1;
    let ndn = [&header(GROUP, host)[..], &sent].concat();
    for bytes in [datagram(&back, STATION), datagram(&stranger, STATION), datagram(&back, host), wrong, ndn] {
        push(&mut client, &bytes);
    }
    assert!(same(&server.receive(1), &[sent]));
    assert_eq!(server.drops(), [("memif_not_ndn", 5)]);
    // More questions than are answered at once.
    (0..40).for_each(|_| push(&mut client, &question(1)));
    server.receive(1);
    assert!((1..=40).contains(&heard(&mut client).len()));
}

#[test]
fn what_is_no_packet_is_dropped_and_counted() {
    let (_folder, mut server, mut client) = pair(|_| {});
    let rings = client.port.connection.as_mut().and_then(Connection::rings).expect("up");
    for bytes in [&b"hello"[..], &[5], &[5, 200, 1], &[0x64, 3, 0x50, 200, 1], &[0; 9216], &[0; 9217]] {
        assert_eq!(rings.push([bytes, &[], &[]]).expect("room"), Pushed::Done);
    }
    rings.send();
    assert!(server.receive(1).is_empty());
    assert_eq!(server.drops(), [("memif_not_ndn", 3), ("memif_too_long", 1)]);
    assert_eq!(server.link().in_malformed, 2);
}

#[test]
fn management_takes_the_face_away_and_makes_it_again() {
    let (_folder, mut server, mut client) = pair(|_| {});
    let asked = FaceRequest::to(server.port.uri());
    let request = FaceRequest { persistency: Persistency::Permanent, mtu: Some(1400), ..asked };
    let known = server.port.create_face(&mut server.bench.cx(), &request);
    assert!(matches!(known, Some(Err(CreateFaceError::Exists(s))) if s.id == server.face()));
    let other = FaceRequest { remote: FaceUri::Memif { socket: "/x".into(), id: 0, ring: 0 }, ..request.clone() };
    assert!(server.port.create_face(&mut server.bench.cx(), &other).is_none());
    let face = server.face();
    assert!(server.port.destroy_face(&mut server.bench.cx(), face));
    assert!(!server.port.destroy_face(&mut server.bench.cx(), face) && server.port.peers.is_empty());
    for _ in 0..30 {
        server.turn(100);
        client.turn(100);
    }
    assert!(!client.port.up, "nobody takes it");
    let made = server.port.create_face(&mut server.bench.cx(), &request).expect("for this port").expect("a face");
    assert_eq!((made.mtu, made.up), (Some(1400), false));
    join(&mut server, &mut client);
}

#[test]
fn a_socket_that_another_holds_is_not_taken() {
    let (_folder, socket) = folder();
    let first = end(&socket, Role::Server, |_| {});
    let Err(error) = MemifPort::open(MemifConfig::new(&socket, Role::Server)) else { panic!("two servers") };
    assert!(error.to_string().contains("memif.sock is held by "), "{error}");
    // A stream socket is not ours either.
    let other = socket.with_file_name("stream.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&other).expect("bound");
    assert!(MemifPort::open(MemifConfig::new(&other, Role::Server)).is_err());
    drop(first);
    assert!(!socket.exists(), "the file goes with the port");
    end(&socket, Role::Server, |_| {});
}

/// Counters of a server's port after a client, played by the test, has lied in its memory.
fn counted_after(lie: impl FnOnce(&mut Rings)) -> Vec<(&'static str, u64)> {
    let (_folder, socket) = folder();
    let mut server = end(&socket, Role::Server, |_| {});
    let terms = Terms { id: 0, secret: [0; 24], slots_log2: 3, buffer_bytes: 256, pairs: 1 };
    let mut client = Connection::connect(&socket, terms).expect("connected");
    while client.rings().is_none() {
        server.turn(1);
        client.advance().expect("goes well");
    }
    lie(client.rings().expect("up"));
    server.receive(1);
    server.send(&[packet(6, 1000, 1)]);
    assert!(!server.port.up && matches!(server.take_events().last(), Some(FaceEvent::Down(_))));
    assert_eq!(server.port.next_deadline(), Some(server.bench.now + RETRY_INTERVAL), "it is not heard at once");
    while client.advance().is_ok() {}
    server.drops()
}

#[test]
fn lies_in_shared_memory_end_the_connection() {
    for place in [HEAD_AT, ring_bytes(8) + HEAD_AT] {
        let counted = counted_after(|rings| rings.memory().u16_at(place).store(9, Ordering::Relaxed));
        assert_eq!(counted, [("memif_peer_broke_ring", 1)], "{place}");
    }
}
