//! Who gets a place when there are many connections.

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::super::admission;
use super::*;

/// Connects from this loopback address.
fn connect_from(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::from((ip, 0))).unwrap();
    connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

const ONE: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

fn is_closed(client: &mut TcpStream) -> bool {
    match client.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

impl Rig {
    fn at_ms(&mut self, ms: u64) {
        self.bench.now = Ticks::from_ms(ms);
    }

    fn count(&self, label: &str) -> u64 {
        let mut counts = self.port.drops().into_iter().chain(self.port.closed());
        counts.find(|(reason, _)| *reason == label).expect("a count").1
    }
}

#[test]
fn idle_connections_of_one_address_leave_room_for_others() {
    let config = StreamConfig { connections_max: 100, connections_per_address_max: 10, ..StreamConfig::default() };
    let (mut rig, address) = Rig::tcp(config);
    let mut crowd: Vec<_> = (0..10).map(|_| connect_from(ONE, address)).collect();
    rig.until(|r| r.created().len() == 10);
    // All connections may be about to speak.
    let mut early = connect_from(ONE, address);
    rig.settle();
    assert!(is_closed(&mut early));
    assert_eq!((rig.created().len(), rig.count("tcp_address_full")), (10, 1));
    let _other = connect_from(OTHER, address);
    rig.until(|r| r.created().len() == 11);

    // A second later, the first idle connection of the address makes room for the next one.
    rig.at_ms(500);
    crowd[0].write_all(&data(1, 10)).unwrap();
    rig.until(|r| r.bench.received.len() == 1);
    rig.at_ms(1_000);
    let _late = connect_from(ONE, address);
    rig.until(|r| r.created().len() == 12 && r.destroyed().len() == 1);
    assert!(is_closed(&mut crowd[1]), "it was silent longer than the first");
    assert_eq!((rig.port.connections(), rig.count("tcp_idle_yielded")), (11, 1));
}

#[test]
fn peers_that_do_not_read_make_room_although_they_have_pending_interests() {
    for (connections_max, newcomer) in [(100, ONE), (4, OTHER)] {
        let config = StreamConfig { connections_max, connections_per_address_max: 4, ..StreamConfig::default() };
        let (mut rig, address) = Rig::tcp(config);
        let mut crowd: Vec<_> = (0..4).map(|_| connect_from(ONE, address)).collect();
        rig.until(|r| r.created().len() == 4);
        crowd.iter_mut().for_each(|peer| peer.write_all(&[interest(1), interest(2)].concat()).unwrap());
        rig.until(|r| r.bench.received.len() == 8);
        let faces: Vec<FaceId> = rig.created().iter().map(|face| face.id).collect();
        // Two of them do not read: one has a route. Interests that are sent to them answer none of theirs.
        let mut large = data(1, 8_000);
        large[0] = interest(1)[0];
        rig.port.set_routed(faces[0], true);
        for face in [faces[0], faces[1]] {
            while rig.port.slots[rig.port.faces[&face] as usize].as_ref().unwrap().waiting == 0 {
                rig.send(face, &large);
                rig.round(0);
            }
        }
        rig.at_ms(900);
        let mut early = connect_from(newcomer, address);
        rig.settle();
        assert!(is_closed(&mut early), "output may still move");
        rig.at_ms(1_100);
        let _late = connect_from(newcomer, address);
        rig.until(|r| r.created().len() == 5 && r.destroyed().len() == 1);
        assert_eq!((rig.destroyed()[0].id, rig.count("tcp_stalled")), (faces[1], 1), "not as an idle one");
        let mut refused = connect_from(newcomer, address);
        rig.settle();
        assert!(is_closed(&mut refused), "routes and unanswered Interests keep the places of the others");
    }
}

#[test]
fn a_full_port_keeps_connections_with_routes_and_pending_interests() {
    let config = StreamConfig { connections_max: 4, ..StreamConfig::default() };
    let (mut rig, address) = Rig::tcp(config);
    let mut clients: Vec<_> = (1..=4).map(|n| connect_from([127, 0, 0, n], address)).collect();
    rig.until(|r| r.created().len() == 4);
    let faces: Vec<FaceId> = clients
        .iter()
        .map(|client| FaceUri::Tcp(client.local_addr().unwrap()))
        .map(|remote| rig.created().iter().find(|face| face.remote == remote).unwrap().id)
        .collect();
    rig.port.set_routed(faces[0], true);
    clients[1].write_all(&interest(1)).unwrap();
    rig.until(|r| r.bench.received.len() == 1);
    rig.at_ms(100);
    clients[3].write_all(&data(1, 10)).unwrap();
    rig.until(|r| r.bench.received.len() == 2);

    let mut newcomers = Vec::new();
    let mut gone = Vec::new();
    for (ms, gone_before) in [(5_000, 0), (6_100, 1)] {
        rig.at_ms(ms);
        newcomers.push(connect_from([127, 0, 0, 9], address));
        rig.until(|r| r.destroyed().len() == gone_before + 1);
        gone.push(rig.destroyed()[gone_before].id);
    }
    assert_eq!(gone, [faces[2], faces[3]], "first the one that was silent longest");
    // An Interest keeps a place for a minute; a route keeps it as long as the route exists.
    rig.at_ms(59_000);
    newcomers.iter_mut().for_each(|client| client.write_all(&data(1, 10)).unwrap());
    rig.until(|r| r.bench.received.len() == 4);
    let mut refused = connect_from([127, 0, 0, 9], address);
    rig.settle();
    assert!(is_closed(&mut refused));
    assert_eq!(rig.count("tcp_port_full"), 1);
    rig.at_ms(61_000);
    newcomers.iter_mut().for_each(|client| client.write_all(&data(1, 10)).unwrap());
    rig.until(|r| r.bench.received.len() == 6);
    let _third = connect_from([127, 0, 0, 9], address);
    rig.until(|r| r.destroyed().len() == 3);
    assert_eq!(rig.destroyed()[2].id, faces[1]);
    rig.at_ms(61_500);
    rig.port.set_routed(faces[0], false);
    let _fourth = connect_from([127, 0, 0, 9], address);
    rig.until(|r| r.destroyed().len() == 4);
    assert_eq!(rig.destroyed()[3].id, faces[0]);
}

#[test]
fn applications_have_descriptors_that_other_peers_cannot_take() {
    // Four of 16 descriptors are left to the rest of the process, and four more to applications.
    let descriptors = Descriptors::new(16);
    let config = || StreamConfig { descriptors: descriptors.clone(), ..StreamConfig::default() };
    let (mut peers, address) = Rig::tcp(config());
    let (mut applications, path, _folder) = Rig::unix(config());
    let mut crowd: Vec<_> = (0..10).map(|_| connect_from(ONE, address)).collect();
    peers.settle();
    assert_eq!((peers.port.connections(), peers.count("tcp_port_full")), (8, 2));
    let clients: Vec<_> = (0..6).map(|_| UnixStream::connect(&path).unwrap()).collect();
    applications.settle();
    assert_eq!((applications.port.connections(), applications.count("unix_port_full")), (4, 2));

    // An idle connection makes room for a newcomer. A peer that leaves gives its descriptor back.
    peers.at_ms(1_000);
    let _late = connect_from(OTHER, address);
    peers.until(|r| r.created().len() == 9);
    assert_eq!(peers.port.connections(), 8);
    drop(clients);
    applications.until(|r| r.port.connections() == 0);
    crowd.clear();
    peers.until(|r| r.port.connections() == 1);
    let _again: Vec<_> = (0..7).map(|_| connect_from(ONE, address)).collect();
    peers.until(|r| r.port.connections() == 8);
}

#[test]
fn addresses_of_one_ipv6_network_count_together() {
    let origin = |address: &str| admission::Origin::of(&address.parse().expect("an address with a port"));
    assert_eq!(origin("[2001:db8::1]:1"), origin("[2001:db8::ffff:0:0:2]:2"));
    assert_ne!(origin("[2001:db8::1]:1"), origin("[2001:db8:0:1::1]:1"));
    assert_eq!(origin("192.0.2.1:1"), origin("[::ffff:192.0.2.1]:2"));
    assert_ne!(origin("192.0.2.1:1"), origin("192.0.2.2:1"));
    assert_ne!(origin("[::1]:1"), origin("[::2]:1"));
}

#[test]
fn newcomers_cost_little_while_thousands_are_idle() {
    let (mut admission, mut slots) = (admission::Admission::default(), Vec::new());
    let link = || crate::link::LinkService::new(LinkConfig::default(), ReassemblyBudget::default());
    for slot in 0..20_000u32 {
        let remote = FaceUri::Fd(slot.into());
        let codec = Codec::Plain(Cutter::default());
        slots.push(Some(Box::new(Connection::new(slot.into(), remote.clone(), remote, link(), codec))));
        admission.add_silent(&slots, slot, slot as usize + 1);
    }
    // Each connection that is found ends, as in a port, and the next takes its place.
    let start = Instant::now();
    let now = Ticks::from_ms(2_000);
    for serial in 20_000..120_000u64 {
        let slot = admission.longest_silent(&slots, now).expect("all are silent") as usize;
        let connection = slots[slot].as_mut().unwrap();
        (connection.serial, connection.heard) = (serial, Ticks::from_ms(serial / 1_000));
        admission.add_silent(&slots, slot as u32, 20_000);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "a search through all of them would take minutes");
    assert!(admission.entries() <= 2 * 20_000 + 100);
}
