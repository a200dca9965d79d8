//! Peers that do not read, beside peers that do.

use super::*;

const DATA_BYTES: usize = 8_000;

/// Address of a port.
enum Place {
    Unix { path: PathBuf, _folder: tempfile::TempDir },
    Tcp(SocketAddr),
    WebSocket(SocketAddr),
}

/// A client that reads only when the test says so.
trait Client: Read + Write + Send {}
impl<S: Read + Write + Send> Client for S {}

impl Place {
    /// A port of each kind.
    fn all(config: &StreamConfig) -> [(Rig, Place); 3] {
        let (unix, path, folder) = Rig::unix(config.clone());
        let (tcp, address) = Rig::tcp(config.clone());
        let port = StreamPort::websocket(&[(Ipv4Addr::LOCALHOST, 0).into()], config.clone()).unwrap();
        let websocket = port.entrances[0].listener.local_addr().unwrap();
        [
            (unix, Place::Unix { path, _folder: folder }),
            (tcp, Place::Tcp(address)),
            (Rig::new(port), Place::WebSocket(websocket)),
        ]
    }

    /// Connects. Returns the client and its face.
    fn connect(&self, rig: &mut Rig) -> (Box<dyn Client>, FaceId) {
        let before = rig.created().len();
        let mut client: Box<dyn Client> = match self {
            Place::Unix { path, .. } => {
                let client = UnixStream::connect(path).unwrap();
                client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                Box::new(client)
            }
            Place::Tcp(address) | Place::WebSocket(address) => {
                let client = TcpStream::connect(address).unwrap();
                client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                Box::new(client)
            }
        };
        if let Place::WebSocket(_) = self {
            let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            client.write_all(request.as_bytes()).unwrap();
        }
        rig.until(|r| r.created().len() > before);
        if let Place::WebSocket(_) = self {
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                rig.round(0);
                answer.extend(read_exactly(&mut client, 1));
            }
        }
        (client, rig.created()[before].id)
    }
}

/// Sends Data to a face until its output waits, then `packets` more.
fn fill(rig: &mut Rig, face: FaceId, packets: usize) {
    let mut left = None;
    while left != Some(0) {
        rig.send(face, &data(1, DATA_BYTES));
        rig.round(0);
        let waits = waiting(rig, face) > 0;
        left = left.map(|left: usize| left - 1).or(waits.then_some(packets));
    }
}

fn waiting(rig: &Rig, face: FaceId) -> usize {
    rig.port.slots[rig.port.faces[&face] as usize].as_ref().unwrap().waiting
}

fn drops(rig: &Rig, reason: &str) -> u64 {
    rig.port.drops().iter().filter(|(label, _)| label.ends_with(reason)).map(|(_, count)| count).sum()
}

#[test]
fn a_face_that_reads_is_served_whoever_does_not() {
    let config = StreamConfig { queues_bytes_max: 1 << 20, ..StreamConfig::default() };
    for (mut rig, place) in Place::all(&config) {
        let deaf: Vec<_> = (0..20).map(|_| place.connect(&mut rig)).collect();
        for (_, face) in &deaf {
            fill(&mut rig, *face, 20);
            assert!(rig.port.queued_bytes <= 1 << 20);
        }
        let (mut client, face) = place.connect(&mut rig);
        for _ in 0..20 {
            rig.send(face, &data(2, DATA_BYTES));
            rig.round(0);
            let header = if let Place::WebSocket(_) = place { 4 } else { 0 };
            let packet = read_exactly(&mut client, header + DATA_BYTES + 4);
            assert_eq!(packet[header..], data(2, DATA_BYTES));
        }
        assert_eq!(rig.port.status(Ticks(0), face).unwrap().link.out_drops, 0);
        assert!(drops(&rig, "memory_short") > 0 && rig.destroyed().is_empty());
        // Shares are about equal, in any order of connecting.
        let shares: Vec<usize> = deaf.iter().map(|(_, face)| waiting(&rig, *face)).collect();
        assert!(shares.iter().all(|share| *share <= 4 * (1 << 20) / 20), "{shares:?}");
        assert_eq!(shares.iter().sum::<usize>(), rig.port.queued_bytes);
    }
}

#[test]
fn the_face_with_most_output_waiting_yields_first() {
    let config = StreamConfig { queues_bytes_max: 600_000, ..unmarked() };
    let (mut rig, path, folder) = Rig::unix(config);
    let place = Place::Unix { path, _folder: folder };
    let (small, large, newcomer) = (place.connect(&mut rig), place.connect(&mut rig), place.connect(&mut rig));
    fill(&mut rig, small.1, 10);
    let share = waiting(&rig, small.1);
    fill(&mut rig, large.1, 80);
    assert_eq!(drops(&rig, "memory_short"), rig.port.status(Ticks(0), large.1).unwrap().link.out_drops);
    fill(&mut rig, newcomer.1, 10);
    assert_eq!(waiting(&rig, small.1), share, "it had least");
    assert!(waiting(&rig, newcomer.1) > 60_000 && waiting(&rig, large.1) > 60_000);
    // Each has a whole number of packets left, and these arrive.
    let (mut client, face) = large;
    rig.until(|r| {
        let mut buffer = [0; 1 << 16];
        let _ = client.read(&mut buffer);
        waiting(r, face) == 0
    });
    let (queued, link) = (rig.port.queued_bytes, rig.port.status(Ticks(0), face).unwrap().link);
    assert_eq!((queued, link.out_bytes % (DATA_BYTES as u64 + 4)), (share + waiting(&rig, newcomer.1), 0));
}

#[test]
fn a_face_whose_output_stands_still_is_closed_and_its_memory_comes_back() {
    for (mut rig, place) in Place::all(&StreamConfig::default()) {
        let mut slow = place.connect(&mut rig);
        let deaf = place.connect(&mut rig);
        for face in [slow.1, deaf.1] {
            fill(&mut rig, face, 50);
        }
        // One client reads now and then. The system reports regained room late.
        for seconds in (0..10).step_by(3) {
            rig.bench.now = Ticks::from_ms(seconds * 1_000 + 999);
            let before = waiting(&rig, slow.1);
            let start = Instant::now();
            while waiting(&rig, slow.1) == before {
                assert!(start.elapsed() < Duration::from_secs(20), "no movement");
                let _ = slow.0.read(&mut [0; 1 << 16]);
                rig.round(1);
            }
            fill(&mut rig, slow.1, 50);
        }
        assert!(rig.destroyed().is_empty());
        rig.bench.now = Ticks::from_ms(11_000);
        rig.settle();
        let [gone] = &rig.destroyed()[..] else { panic!("{:?}", rig.destroyed()) };
        assert_eq!(gone.id, deaf.1);
        assert!(gone.link.out_drops >= 50, "what it did not send counts");
        assert_eq!(drops(&rig, "unsent"), gone.link.out_drops);
        assert_eq!(rig.port.closed().iter().map(|(_, count)| count).sum::<u64>(), 1);
        // The peer is told at once that the connection ended, before it has read the rest.
        let mut deaf = deaf.0;
        let mut rest = Vec::new();
        let end = deaf.read_to_end(&mut rest);
        assert!(
            end.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset) || matches!(place, Place::Unix { .. })
        );
        assert_eq!(rig.port.queued_bytes, waiting(&rig, slow.1));
        rig.bench.now = Ticks::from_ms(30_000);
        rig.settle();
        assert_eq!((rig.destroyed().len(), rig.port.queued_bytes), (2, 0));
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    for (mut rig, place) in Place::all(&StreamConfig::default()) {
        if let Place::WebSocket(_) = place {
            continue;
        }
        let (mut client, face) = place.connect(&mut rig);
        fill(&mut rig, face, 20);
        client.write_all(&interest(1).repeat(10)).unwrap();
        rig.settle();
        assert!(rig.bench.received.is_empty() && rig.port.ready.is_empty());
        // The peer reads: nothing was lost, and its Interests come in.
        rig.until(|r| {
            let _ = client.read(&mut [0; 1 << 16]);
            r.bench.received.len() == 10
        });
        assert_eq!(rig.port.status(Ticks(0), face).unwrap().link.out_drops, 0);
    }
}

#[test]
fn who_writes_all_before_it_reads_gets_on() {
    let (mut rig, path, folder) = Rig::unix(StreamConfig::default());
    let place = Place::Unix { path, _folder: folder };
    let (mut client, face) = place.connect(&mut rig);
    fill(&mut rig, face, 50);
    // Two such applications would wait for each other if their input were held back forever.
    let mut input = interest(1);
    for n in 0..200 {
        input.extend(data(n, DATA_BYTES));
    }
    let writer = std::thread::spawn(move || {
        client.write_all(&input).unwrap();
        client
    });
    let start = Instant::now();
    while rig.bench.received.len() < 201 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} packets came", rig.bench.received.len());
        rig.round(1);
        rig.bench.now = rig.bench.now + Duration::from_millis(1);
        assert!(rig.bench.now < Ticks::from_ms(5_000), "long before its output has stalled");
    }
    writer.join().unwrap();
}

#[test]
fn a_peer_that_only_asks_is_looked_at_ever_more_rarely() {
    let (mut rig, path, folder) = Rig::unix(StreamConfig::default());
    let place = Place::Unix { path, _folder: folder };
    let (mut client, face) = place.connect(&mut rig);
    fill(&mut rig, face, 50);
    let asking = std::thread::spawn(move || while client.write_all(&interest(1).repeat(100)).is_ok() {});
    let mut looks = Vec::new();
    while rig.destroyed().is_empty() {
        let before = rig.bench.received.len();
        rig.round(1);
        if rig.bench.received.len() > before {
            looks.push(rig.bench.now.0 / 1_000_000);
        }
        rig.bench.now = rig.bench.now + Duration::from_millis(10);
    }
    asking.join().unwrap();
    assert!((3..12).contains(&looks.len()), "{looks:?}");
    assert!(rig.bench.now <= Ticks::from_ms(10_100));
}

#[test]
fn two_routers_that_send_each_other_all_they_have_both_get_on() {
    let config = StreamConfig { local_queue_bytes_max: 300_000, ..StreamConfig::default() };
    let (mut a, address) = Rig::tcp(config.clone());
    let mut b = Rig::new(StreamPort::tcp(&[], config).unwrap());
    b.create(FaceUri::Tcp(address), Persistency::Persistent).unwrap();
    b.until(|r| r.created().len() == 1);
    let to_a = b.created()[0].id;
    a.until(|r| r.created().len() == 1);
    let to_b = a.created()[0].id;
    // Neither reads for a while: both queues fill with Interests and Data.
    for n in 0..3_000u32 {
        for (rig, face) in [(&mut a, to_b), (&mut b, to_a)] {
            rig.send(face, &interest(n as u8));
            rig.send(face, &data(n as u8, DATA_BYTES));
            rig.port.flush(&mut rig.bench.cx());
        }
    }
    assert!(waiting(&a, to_b) > 200_000 && waiting(&b, to_a) > 200_000);
    let start = Instant::now();
    while a.port.queued_bytes + b.port.queued_bytes > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "they wait for each other");
        for rig in [&mut a, &mut b] {
            rig.round(1);
            rig.bench.now = rig.bench.now + Duration::from_millis(1);
        }
        assert!(a.destroyed().is_empty() && b.destroyed().is_empty());
    }
}

#[test]
fn what_the_system_holds_unread_is_congestion_from_the_first_moment() {
    let (mut rig, path, folder) = Rig::unix(StreamConfig::default());
    let place = Place::Unix { path, _folder: folder };
    let (mut client, face) = place.connect(&mut rig);
    // The system takes everything, and the client has read nothing when the next packet comes.
    let marks = |rig: &Rig| rig.port.status(Ticks(0), face).unwrap().link.congestion_marks;
    for n in 1..=12 {
        rig.send(face, &data(n, DATA_BYTES));
        rig.round(0);
        assert_eq!(waiting(&rig, face), 0);
        assert!(n > 5 || marks(&rig) == 0, "{n}");
    }
    assert_eq!(marks(&rig), 1);
    // The client reads everything: what was unread before is no congestion.
    while client.read(&mut [0; 1 << 16]).is_ok() {}
    rig.bench.now = Ticks::from_ms(1_000);
    for n in 1..=5 {
        rig.send(face, &data(n, DATA_BYTES));
        rig.round(0);
    }
    assert_eq!(marks(&rig), 1);
    // A burst that leaves in pieces is no congestion either.
    rig.settle();
    while client.read(&mut [0; 1 << 16]).is_ok() {}
    for n in 0..18 {
        rig.send(face, &data(n, DATA_BYTES));
    }
    rig.round(0);
    assert_eq!(marks(&rig), 1);
}
