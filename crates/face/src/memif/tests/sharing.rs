//! Interfaces with several rings, each with a port of its own.

use super::*;

fn ends(socket: &Path, role: Role, ports: usize) -> Vec<End> {
    let ports = MemifPort::open_for_threads(MemifConfig::new(socket, role), ports).expect("a free socket");
    let start = |mut port: MemifPort| {
        let mut bench = Bench::new();
        port.start(&mut bench.cx()).expect("starts");
        End { port, bench }
    };
    ports.into_iter().map(start).collect()
}

impl End {
    fn create(&mut self, request: &FaceRequest) -> Option<Result<FaceStatus, CreateFaceError>> {
        self.port.create_face(&mut self.bench.cx(), request)
    }
}

/// Lets all ports talk and follow each other.
fn turn(ends: &mut [End], ms: u64) {
    for end in ends {
        end.turn(ms);
        if end.port.part.as_ref().is_some_and(Part::has_changed) {
            end.port.receive(&mut end.bench.cx(), 64);
        }
    }
}

/// Lets both ends talk until packets flow by so many rings.
fn join(a: &mut [End], b: &mut [End], rings: usize) {
    let is_up = |ends: &[End]| ends.iter().enumerate().all(|(n, end)| end.port.up == (n < rings));
    for _ in 0..100 {
        if is_up(a) && is_up(b) {
            return;
        }
        turn(a, 100);
        turn(b, 100);
    }
    panic!("the ends do not meet");
}

/// Checks that packets of all sizes cross by each ring, both ways, and by no other ring.
fn assert_crossing(a: &mut [End], b: &mut [End], rings: usize) {
    for round in 0..3 {
        for n in 0..rings {
            let sent: Vec<_> = (0..50).map(|k| packet(6, 300 + 90 * k, n as u8 + round)).collect();
            a[n].send(&sent);
            let received = b[n].receive(50);
            assert!(same(&received, &sent) && received.iter().all(|r| r.face == b[n].face()));
            b[n].send(&sent);
            assert!(same(&a[n].receive(50), &sent));
        }
    }
    for end in a.iter().chain(b.iter()) {
        assert!(!end.port.up || !end.port.has_input());
        assert_eq!(end.drops(), []);
    }
}

#[test]
fn each_ring_is_a_face_of_its_own() {
    for (servers, clients) in [(2, 2), (3, 2), (2, 4), (1, 3), (3, 1)] {
        let (_folder, socket) = folder();
        let mut server = ends(&socket, Role::Server, servers);
        let mut client = ends(&socket, Role::Client, clients);
        let rings = servers.min(clients);
        join(&mut server, &mut client, rings);
        assert_crossing(&mut server, &mut client, rings);
        for (n, end) in server.iter_mut().enumerate() {
            let uri = end.port.uri().to_string();
            assert!(uri.ends_with(&if n == 0 { "?id=0".to_owned() } else { format!("?id=0&ring={n}") }), "{uri}");
            // A ring that the other end lacks has no face.
            assert_eq!(end.port.face.is_some(), n < rings);
            assert_eq!(end.take_events().len(), if n < rings { 2 } else { 0 }, "created, and up");
        }
    }
}

#[test]
fn either_side_goes_and_comes_back_with_other_rings() {
    let (_folder, socket) = folder();
    let mut server = ends(&socket, Role::Server, 3);
    let mut faces = Vec::new();
    for rings in [2, 3, 1, 2, 3] {
        let mut client = ends(&socket, Role::Client, rings);
        join(&mut server, &mut client, rings);
        assert_crossing(&mut server, &mut client, rings);
        let now: Vec<_> = server.iter().map(|end| end.port.face).collect();
        for (before, now) in std::mem::replace(&mut faces, now.clone()).into_iter().zip(now) {
            assert!(before.is_none() || before == now, "faces stay");
        }
        drop(client);
        for _ in 0..3 {
            turn(&mut server, 10);
        }
        assert!(server.iter().all(|end| !end.port.up && end.port.lent.is_none()));
        for end in &mut server {
            assert!(!end.port.has_input());
            if end.port.face.is_some() {
                let before = end.link().out_drops;
                end.send(&[packet(5, 60, 1)]);
                assert_eq!(end.link().out_drops, before + 1);
            }
        }
    }
    let mut client = ends(&socket, Role::Client, 2);
    for _ in 0..3 {
        drop(server);
        server = ends(&socket, Role::Server, 2);
        for _ in 0..3 {
            turn(&mut client, 10);
        }
        join(&mut server, &mut client, 2);
        assert_crossing(&mut server, &mut client, 2);
    }
}

#[test]
fn a_lie_in_a_further_ring_ends_the_whole_connection() {
    let (_folder, socket) = folder();
    let mut server = ends(&socket, Role::Server, 2);
    let mut client = ends(&socket, Role::Client, 2);
    join(&mut server, &mut client, 2);
    // The head of the second ring from the client, which is the third ring in the memory.
    let place = 2 * ring_bytes(1024) + HEAD_AT;
    client[1].port.lent.as_ref().expect("up").memory().u16_at(place).store(2000, Ordering::Relaxed);
    assert!(server[1].receive(1).is_empty());
    assert!(!server[1].port.up && server[0].port.up && server[0].port.has_input());
    turn(&mut server, 0);
    assert!(server.iter().all(|end| !end.port.up));
    assert_eq!((server[0].drops(), server[1].drops()), (vec![("memif_peer_broke_ring", 1)], vec![]));
    assert_eq!(server[0].port.next_deadline(), Some(server[0].bench.now + RETRY_INTERVAL), "it is not heard at once");
    for _ in 0..3 {
        turn(&mut client, 10);
    }
    assert!(client.iter().all(|end| !end.port.up));
    join(&mut server, &mut client, 2);
    server.iter_mut().for_each(|end| end.port.drops = Drops::default());
    assert_crossing(&mut server, &mut client, 2);
}

#[test]
fn an_idle_port_of_a_further_ring_is_woken() {
    let (_folder, socket) = folder();
    let mut server = ends(&socket, Role::Server, 2);
    let mut client = ends(&socket, Role::Client, 2);
    join(&mut server, &mut client, 2);
    for _ in 0..3 {
        let End { port, bench } = &mut server[1];
        for _ in 0..2 {
            port.fall_asleep(bench.now);
            bench.now = bench.now + SECOND_LOOK;
            port.on_deadline(&mut bench.cx());
        }
        assert!(!port.has_input());
        client[1].send(&[packet(5, 60, 1)]);
        let mut events = mio::Events::with_capacity(4);
        let end = &mut server[1];
        end.bench.poll.poll(&mut events, Some(Duration::from_secs(5))).expect("polled");
        assert!(!events.is_empty(), "it is woken");
        assert_eq!(end.receive(1).len(), 1);
    }
}

#[test]
fn management_takes_the_face_of_a_ring_away_and_makes_it_again() {
    let (_folder, socket) = folder();
    let mut server = ends(&socket, Role::Server, 2);
    let mut client = ends(&socket, Role::Client, 2);
    // Before there is a ring for it.
    let asked = |end: &End| FaceRequest { persistency: Persistency::Permanent, ..FaceRequest::to(end.port.uri()) };
    let request = asked(&server[1]);
    assert!(server[0].create(&request).is_none());
    let made = server[1].create(&request).expect("for it").expect("a face");
    assert!(!made.up);
    join(&mut server, &mut client, 2);
    assert_eq!(server[1].face(), made.id);
    assert_crossing(&mut server, &mut client, 2);
    let End { port, bench } = &mut server[1];
    assert!(port.destroy_face(&mut bench.cx(), made.id) && port.peers.is_empty());
    client[1].send(&[packet(5, 60, 1)]);
    assert!(!server[1].port.has_input(), "nobody takes it");
    // The others go on, and the next connection does not make the face.
    assert_crossing(&mut server[..1], &mut client[..1], 1);
    drop(client);
    client = ends(&socket, Role::Client, 2);
    for _ in 0..20 {
        turn(&mut server, 100);
        turn(&mut client, 100);
    }
    assert!(server[0].port.up && client[1].port.up && !server[1].port.up && server[1].port.face.is_none());
    let made = server[1].create(&request).expect("for it").expect("a face");
    assert!(server[1].port.up && server[1].face() == made.id);
    assert_crossing(&mut server, &mut client, 2);
}
