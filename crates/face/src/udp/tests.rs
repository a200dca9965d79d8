//! A UDP port against plain sockets on loopback, in virtual time.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

use byname_forward::face_table::{Persistency, Scope};
use byname_forward::{LinkFields, Packet};
use byname_wire::interest::InterestBuilder;

use super::socket::Run;
use super::*;
use crate::face::{FaceEvent, LinkFlags};
use crate::port::tests::{Bench, packet};

struct Rig {
    bench: Bench,
    port: UdpPort,
}

fn rig_with(adjust: impl FnOnce(&mut UdpConfig)) -> Rig {
    let mut config = UdpConfig::new((Ipv4Addr::LOCALHOST, 0).into());
    adjust(&mut config);
    let mut rig = Rig { bench: Bench::new(), port: UdpPort::bind(config).expect("a port on loopback") };
    rig.port.start(&mut rig.bench.cx()).expect("starts");
    rig
}

fn rig() -> Rig {
    rig_with(|_| {})
}

impl Rig {
    fn receive(&mut self, packets: usize) -> Vec<byname_forward::Received> {
        self.bench.receive(&mut self.port, packets)
    }

    /// Receives everything that waits.
    fn settle(&mut self) {
        self.port.readable = true;
        while self.port.has_input() {
            self.port.receive(&mut self.bench.cx(), 64);
        }
    }

    fn send(&mut self, face: FaceId, packets: &[Packet]) {
        self.bench.send(&mut self.port, face, packets);
    }

    fn create(&mut self, remote: SocketAddr) -> FaceStatus {
        self.request(remote, |_| {}).expect("for this port").expect("a new face")
    }

    fn request(
        &mut self,
        remote: SocketAddr,
        adjust: impl FnOnce(&mut FaceRequest),
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        let mut request = FaceRequest::to(FaceUri::Udp(remote));
        adjust(&mut request);
        self.port.create_face(&mut self.bench.cx(), &request)
    }

    fn created_and_destroyed(&mut self) -> (usize, usize) {
        let events = std::mem::take(&mut self.bench.events);
        let created = events.iter().filter(|(_, e)| matches!(e, FaceEvent::Created(_))).count();
        (created, events.len() - created)
    }
}

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket on loopback");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    socket
}

#[test]
fn an_unknown_peer_that_speaks_ndn_gets_a_face_until_it_is_idle() {
    let mut rig = rig();
    let peer = peer();
    peer.send_to(b"hello", rig.port.local_addr()).unwrap();
    peer.send_to(&packet(5, 60, 1), rig.port.local_addr()).unwrap();
    let received = rig.receive(1);
    assert_eq!(&*received[0].packet, &*packet(5, 60, 1));
    assert_eq!(
        rig.port.drops(),
        [("udp_not_ndn", 1), ("udp_no_face", 0), ("udp_face_moved", 0), ("udp_wrong_socket", 0)]
    );
    let Some((0, FaceEvent::Created(status))) = rig.bench.events.pop() else { panic!("no face") };
    assert_eq!(status.id, received[0].face);
    assert_eq!(status.remote, FaceUri::Udp(peer.local_addr().unwrap()));
    assert_eq!(status.local, FaceUri::Udp(rig.port.local_addr()));
    assert_eq!((status.persistency, status.scope), (Persistency::OnDemand, Scope::NonLocal));
    assert_eq!(status.expires_in_ms, Some(600_000));

    rig.send(status.id, &[packet(6, 1000, 2)]);
    let mut buffer = [0; 2000];
    let (len, from) = peer.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&*packet(6, 1000, 2), rig.port.local_addr()));

    rig.bench.now = Ticks::from_ms(400_000);
    peer.send_to(&packet(5, 60, 1), rig.port.local_addr()).unwrap();
    rig.receive(1);
    rig.bench.now = rig.port.next_deadline().unwrap();
    rig.port.on_deadline(&mut rig.bench.cx());
    assert_eq!(rig.created_and_destroyed(), (0, 0));
    assert_eq!(rig.port.next_deadline(), Some(Ticks::from_ms(1_000_000)), "idle since it was heard last");
    rig.bench.now = Ticks::from_ms(1_000_000);
    rig.port.on_deadline(&mut rig.bench.cx());
    assert_eq!(rig.created_and_destroyed(), (0, 1));
    assert_eq!(rig.port.status(rig.bench.now, status.id), None);
    assert_eq!(rig.port.next_deadline(), None);
}

#[test]
fn runs_of_datagrams_reach_the_peer_whole() {
    let mut rig = rig();
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let socket = DatagramSocket::create(&address).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    let mut receiver = DatagramSocket::new(socket, 32, 8 << 20).unwrap();
    let face = rig.create(receiver.local()).id;
    let mut sent = Vec::new();
    for n in 0..200u8 {
        sent.push(packet(6, 1100, n));
        sent.push(packet(5, 50 + usize::from(n % 3), n));
        if n % 20 == 0 {
            sent.push(packet(6, 8800, n));
        }
    }
    rig.send(face, &sent);
    let (mut got, mut longest_run) = (Vec::new(), 0);
    let mut take = |_: &_, run: Run<'_>| {
        longest_run = longest_run.max(run.len());
        got.extend(run.map(<[u8]>::to_vec));
    };
    while receiver.receive(&mut take).unwrap() != Waiting::Nothing {}
    let mut sent: Vec<_> = sent.iter().map(|p| p.to_vec()).collect();
    sent.sort();
    got.sort();
    assert!(got == sent, "{} of {} datagrams came", got.len(), sent.len());
    if receiver.run_max() > 1 {
        assert!(longest_run > 30, "runs of at most {longest_run}");
    }
    assert_eq!(rig.port.status(Ticks(0), face).unwrap().link.out_drops, 0);
}

#[test]
fn a_run_of_a_stranger_counts_from_the_first_datagram_that_looks_like_ndn() {
    let mut rig = rig();
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let socket = DatagramSocket::create(&address).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    let mut stranger = DatagramSocket::new(socket, 1, 1 << 20).unwrap();
    if stranger.run_max() < 4 {
        return;
    }
    let mut run = Vec::new();
    for datagram in [&[0; 60], &*packet(5, 60, 1), &[0; 60], &packet(5, 50, 2)] {
        run.extend_from_slice(datagram);
    }
    stranger.send_run(rig.port.local_addr(), None, &run, 60).unwrap();
    let received = rig.receive(2);
    assert!(received.iter().map(|r| &*r.packet).eq([&*packet(5, 60, 1), &*packet(5, 50, 2)]));
    assert_eq!(
        rig.port.drops(),
        [("udp_not_ndn", 1), ("udp_no_face", 0), ("udp_face_moved", 0), ("udp_wrong_socket", 0)]
    );
    assert_eq!(rig.port.status(Ticks(0), received[0].face).unwrap().link.in_malformed, 1);
    assert!(rig.port.has_input(), "more may have come since");
    rig.port.receive(&mut rig.bench.cx(), 64);
    assert!(!rig.port.has_input() && rig.bench.received.is_empty());
}

#[test]
fn short_datagrams_leave_in_runs_as_long_as_the_system_takes() {
    let mut rig = rig();
    let run_max = rig.port.socket.run_max();
    let peer = peer();
    let id = rig.create(peer.local_addr().unwrap()).id;
    // As many as a socket with default buffers holds.
    let sent: Vec<_> = (0..150).map(|n| packet(5, 60, n)).collect();
    rig.send(id, &sent);
    let mut buffer = [0; 100];
    for packet in &sent {
        assert_eq!(peer.recv(&mut buffer).unwrap(), 60);
        assert_eq!(buffer[..60], **packet);
    }
    assert_eq!(rig.port.status(Ticks(0), id).unwrap().link.out_drops, 0);
    assert_eq!(rig.port.socket.run_max(), run_max, "nothing was refused");
}

#[test]
fn a_refusal_of_runs_by_one_route_loses_nothing_and_concerns_no_other() {
    let mut rig = rig();
    let peer = peer();
    let id = rig.create(peer.local_addr().unwrap()).id;
    // This address is not ours, so the system refuses each datagram from it.
    let face = rig.port.faces.peers.get_mut(id).unwrap();
    face.transport.source = Some(Ipv4Addr::new(192, 0, 2, 1).into());
    let sent: Vec<_> = (0..10).map(|n| packet(6, 1000, n)).collect();
    rig.send(id, &sent);
    let mut buffer = [0; 2000];
    for packet in &sent {
        assert_eq!(peer.recv(&mut buffer).unwrap(), packet.len());
        assert_eq!(&buffer[..packet.len()], &**packet);
    }
    assert_eq!(rig.port.status(Ticks(0), id).unwrap().link.out_drops, 0);
    assert_eq!(rig.port.socket.run_max() > 1, self::rig().port.socket.run_max() > 1);
}

/// A face whose packets so far had one length, and its peer's socket.
fn rig_with_alike_face() -> (Rig, FaceId, UdpSocket) {
    let (mut rig, peer) = (rig(), peer());
    let id = rig.create(peer.local_addr().unwrap()).id;
    rig.send(id, &[packet(6, 1000, 1), packet(6, 1000, 2)]);
    assert_eq!(arrived(&peer), [(1000, 1), (1000, 2)]);
    peer.set_nonblocking(true).unwrap();
    (rig, id, peer)
}

/// Length and fill byte of each packet that has arrived. On loopback a packet arrives when it is sent.
fn arrived(peer: &UdpSocket) -> Vec<(usize, u8)> {
    peer.set_nonblocking(true).unwrap();
    let mut buffer = [0; 9000];
    std::iter::from_fn(|| peer.recv(&mut buffer).ok().map(|len| (len, buffer[len - 1]))).collect()
}

impl Rig {
    /// Receives a datagram, so that the port looks for more.
    fn hear(&mut self) {
        let from = peer();
        from.send_to(&packet(5, 60, 1), self.port.local_addr()).unwrap();
        assert_eq!(self.receive(1).len(), 1);
        assert!(self.port.has_input());
    }
}

#[test]
fn what_full_runs_leave_over_waits_for_one_more_burst_where_one_is_looked_for() {
    let (mut rig, id, peer) = rig_with_alike_face();
    if rig.port.socket.run_max() < 4 {
        return;
    }
    let full = DATAGRAM_BYTES_MAX / 1000;
    let burst: Vec<_> = (0..=full as u8).map(|n| packet(6, 1000, n)).collect();
    rig.send(id, &burst);
    assert_eq!(arrived(&peer).len(), full + 1, "nothing was heard: nothing may follow");
    rig.hear();
    rig.send(id, &burst[1..full]);
    assert_eq!(arrived(&peer).len(), full - 1, "no run was full");

    rig.hear();
    rig.send(id, &burst);
    assert_eq!(arrived(&peer).len(), full);
    assert!(rig.port.has_output());
    rig.hear();
    rig.send(id, &burst[..full - 1]);
    assert_eq!(arrived(&peer).len(), full, "the one that waited is the first");
    assert!(!rig.port.has_output());

    rig.hear();
    rig.send(id, &burst);
    assert_eq!(arrived(&peer).len(), full);
    rig.hear();
    rig.send(id, &[packet(6, 1000, 7)]);
    assert_eq!(arrived(&peer), [(1000, full as u8), (1000, 7)], "it waits once");

    rig.hear();
    rig.send(id, &burst);
    assert_eq!(arrived(&peer).len(), full);
    rig.port.receive(&mut rig.bench.cx(), 64);
    assert!(!rig.port.has_input());
    rig.port.flush(&mut rig.bench.cx());
    assert_eq!(arrived(&peer), [(1000, full as u8)], "nothing more came");
}

#[test]
fn packets_of_other_lengths_and_with_fields_pass_an_open_run() {
    let (mut rig, id, peer) = rig_with_alike_face();
    rig.send(id, &[packet(6, 1000, 3), packet(6, 500, 4), packet(6, 1000, 5), packet(6, 900, 6)]);
    let fields = LinkFields { congestion_mark: 1, ..LinkFields::default() };
    rig.port.transmit(&mut rig.bench.cx(), &mut [Outgoing { face: id, fields, packet: packet(6, 1000, 7) }]);
    rig.port.flush(&mut rig.bench.cx());
    rig.send(id, &[packet(6, 300, 8)]);
    let mut all = arrived(&peer);
    all.sort_by_key(|(_, number)| *number);
    assert_eq!(all.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
    assert!(all[4].0 > 1000, "a header");
    assert_eq!(rig.port.status(Ticks(0), id).unwrap().link.out_drops, 0);
}

#[test]
fn an_open_run_ends_with_its_face_and_survives_a_refusal() {
    let (mut rig, id, peer) = rig_with_alike_face();
    // This address is not ours.
    rig.port.faces.peers.get_mut(id).unwrap().transport.source = Some(Ipv4Addr::new(192, 0, 2, 1).into());
    let sent: Vec<_> = (0..10).map(|n| packet(6, 1000, n)).collect();
    rig.send(id, &sent);
    assert_eq!(arrived(&peer), (0..10).map(|n| (1000, n)).collect::<Vec<_>>());
    assert_eq!(rig.port.status(Ticks(0), id).unwrap().link.out_drops, 0);

    rig.hear();
    rig.send(id, &vec![packet(6, 1000, 3); DATAGRAM_BYTES_MAX / 1000 + 1]);
    arrived(&peer);
    assert!(rig.port.has_output() || rig.port.socket.run_max() == 1);
    assert!(rig.port.destroy_face(&mut rig.bench.cx(), id));
    rig.port.flush(&mut rig.bench.cx());
    assert_eq!(arrived(&peer), []);
    assert!(!rig.port.has_output());
}

#[test]
fn more_faces_than_runs_can_be_open_lose_nothing() {
    let mut rig = rig();
    let peers: Vec<_> = (0..9).map(|_| peer()).collect();
    let ids: Vec<_> = peers.iter().map(|peer| rig.create(peer.local_addr().unwrap()).id).collect();
    for n in [1, 3] {
        rig.hear();
        let packets = ids.iter().flat_map(|id| [n, n + 1].map(|n| (*id, packet(6, 1000, n))));
        let outgoing = packets.map(|(face, packet)| Outgoing { face, fields: LinkFields::default(), packet });
        rig.port.transmit(&mut rig.bench.cx(), &mut outgoing.collect::<Vec<_>>());
        rig.port.flush(&mut rig.bench.cx());
    }
    rig.port.flush(&mut rig.bench.cx());
    for peer in &peers {
        assert_eq!(arrived(peer), [(1000, 1), (1000, 2), (1000, 3), (1000, 4)]);
    }
}

#[test]
fn a_peer_that_refuses_keeps_its_face() {
    let mut rig = rig();
    let address = peer().local_addr().unwrap();
    let id = rig.create(address).id;
    for n in 0..20 {
        rig.send(id, &[packet(5, 60, n)]);
        rig.settle();
    }
    let back = UdpSocket::bind(address).unwrap();
    back.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    rig.send(id, &[packet(5, 60, 77)]);
    let mut buffer = [0; 100];
    assert_eq!(back.recv(&mut buffer).unwrap(), 60);
    assert_eq!(buffer[5], 77);
    assert_eq!(rig.created_and_destroyed(), (1, 0));
}

#[test]
fn long_packets_cross_a_small_mtu_in_fragments() {
    let mut here = rig_with(|c| c.mtu = 500);
    let mut there = rig();
    let id = here.create(there.port.local_addr()).id;
    let sent: Vec<_> = (0..10).map(|n| packet(6, 8800, n)).collect();
    here.send(id, &sent);
    let received = there.receive(10);
    assert!(received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p)));
    assert_eq!(here.port.status(Ticks(0), id).unwrap().mtu, Some(500));
}

#[test]
fn strangers_beyond_the_limit_wait_until_a_face_is_idle() {
    let mut rig = rig_with(|c| c.on_demand_faces_max = 3);
    let peers: Vec<_> = (0..5).map(|_| peer()).collect();
    let say = |rig: &mut Rig, i: usize| {
        peers[i].send_to(&packet(5, 60, 1), rig.port.local_addr()).unwrap();
        rig.receive(1).len()
    };
    for i in 0..3 {
        assert_eq!(say(&mut rig, i), 1);
    }
    assert_eq!(say(&mut rig, 3), 0, "all are talking");
    assert_eq!(
        rig.port.drops(),
        [("udp_not_ndn", 0), ("udp_no_face", 1), ("udp_face_moved", 0), ("udp_wrong_socket", 0)]
    );
    assert_eq!(rig.created_and_destroyed(), (3, 0));
    rig.bench.now = Ticks::from_ms(9_000);
    assert_eq!(say(&mut rig, 0), 1);
    rig.bench.now = Ticks::from_ms(11_000);
    assert_eq!(say(&mut rig, 3), 1);
    assert_eq!(rig.created_and_destroyed(), (1, 1));
    assert_eq!(say(&mut rig, 0), 1, "who has talked stays");
    assert_eq!(rig.created_and_destroyed(), (0, 0));
}

/// A socket at any loopback address.
fn peer_at(ip: [u8; 4]) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::from(ip), 0)).expect("each address of 127.0.0.0/8 is this host's");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    socket
}

fn interest(name: &str, lifetime_ms: u64) -> Vec<u8> {
    InterestBuilder::new(name.parse().expect("a name"), 7).lifetime_ms(lifetime_ms).encode()
}

impl Rig {
    /// Sends a datagram from a peer. Returns the face by which it came, if it has one.
    fn hear_from(&mut self, peer: &UdpSocket, datagram: &[u8]) -> Option<FaceId> {
        peer.send_to(datagram, self.port.local_addr()).expect("loopback takes datagrams");
        // On loopback a datagram arrives when it is sent.
        self.settle();
        std::mem::take(&mut self.bench.received).pop().map(|received| received.face)
    }

    /// Whether Data sent on this face reaches this peer.
    fn answers(&mut self, face: FaceId, peer: &UdpSocket) -> bool {
        self.send(face, &[packet(6, 1000, 3)]);
        peer.recv(&mut [0; 2000]).is_ok_and(|len| len == 1000)
    }
}

/// Floods a port from forged addresses. A peer that waits silently, a peer with a route, and newcomers must survive.
fn assert_flood_is_survived(stranger: impl Fn(u32) -> [u8; 4], asks: bool) {
    let mut rig = rig_with(|c| {
        c.on_demand_faces_max = 64;
        c.listen = (Ipv4Addr::UNSPECIFIED, 0).into();
    });
    let (silent, producer) = (peer_at([127, 1, 1, 1]), peer_at([127, 1, 2, 1]));
    let waiting = rig.hear_from(&silent, &interest("/late", 60_000)).expect("a face");
    let routed = rig.hear_from(&producer, &interest("/register", 1)).expect("a face");
    rig.port.set_routed(routed, true);
    let (mut served, mut newcomers) = (0, 0);
    for n in 0..3_000u32 {
        // 20 s in total.
        rig.bench.now = rig.bench.now + Duration::from_micros(6_666);
        let forged = if asks { interest("/forged", 60_000) } else { packet(6, 60, 1).to_vec() };
        rig.hear_from(&peer_at(stranger(n)), &forged);
        if n % 100 == 99 {
            newcomers += 1;
            let newcomer = peer_at([127, 2, (n / 100) as u8, 1]);
            let face = rig.hear_from(&newcomer, &interest("/news", 4_000));
            served += u32::from(face.is_some_and(|face| rig.answers(face, &newcomer)));
        }
    }
    assert!(
        rig.port
            .drops()
            .iter()
            .all(|(reason, _)| ["udp_no_face", "udp_not_ndn", "udp_face_moved", "udp_wrong_socket"].contains(reason))
    );
    assert!(rig.answers(waiting, &silent), "who waits for Data keeps its face");
    assert!(rig.answers(routed, &producer), "who has a route keeps its face");
    assert_eq!(served, newcomers, "each newcomer gets a face");
    assert!(rig.port.faces.peers.iter_mut().count() <= 64);
}

#[test]
fn a_flood_from_one_prefix_shuts_nobody_out() {
    for asks in [false, true] {
        assert_flood_is_survived(|n| [127, 9, 9, (n % 250) as u8 + 1], asks);
    }
}

#[test]
fn a_flood_from_all_prefixes_shuts_nobody_out() {
    for asks in [false, true] {
        assert_flood_is_survived(|n| [127, 100 + (n % 100) as u8, (n / 100) as u8, 1], asks);
    }
}

#[test]
fn who_waits_no_more_makes_room() {
    let mut rig = rig_with(|c| c.on_demand_faces_max = 1);
    let (first, second) = (peer(), peer());
    let waiting = rig.hear_from(&first, &interest("/a", 30_000)).expect("a face");
    rig.bench.now = Ticks::from_ms(29_000);
    assert_eq!(rig.hear_from(&second, &interest("/b", 30_000)), None, "an Interest is pending");
    assert!(rig.answers(waiting, &first));
    assert!(rig.hear_from(&second, &interest("/b", 30_000)).is_some(), "it was answered");
    rig.bench.now = Ticks::from_ms(60_000);
    assert!(rig.hear_from(&first, &interest("/a", 30_000)).is_some(), "it was not answered in time");
}

#[test]
fn thousands_of_faces_leave_nothing_behind() {
    let mut rig = rig();
    for _ in 0..2000 {
        peer().send_to(&packet(5, 60, 1), rig.port.local_addr()).unwrap();
        rig.settle();
    }
    let (created, _) = rig.created_and_destroyed();
    // The system may give a port number twice.
    assert!(created > 500, "{created}");
    let ids: Vec<_> = rig.bench.received.iter().map(|r| r.face).collect();
    for id in ids.iter().step_by(2) {
        rig.port.destroy_face(&mut rig.bench.cx(), *id);
    }
    rig.bench.now = Ticks::from_ms(600_000);
    rig.port.on_deadline(&mut rig.bench.cx());
    assert_eq!(rig.created_and_destroyed(), (0, created));
    assert!(rig.port.faces.peers.is_empty());
}

#[test]
fn faces_are_asked_for_within_reason() {
    let mut rig = rig();
    let remote: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let refused = |rig: &mut Rig, remote: &str, adjust: fn(&mut FaceRequest)| {
        matches!(rig.request(remote.parse().unwrap(), adjust), Some(Err(CreateFaceError::Unacceptable(_))))
    };
    assert!(refused(&mut rig, "127.0.0.1:0", |_| {}));
    assert!(refused(&mut rig, "0.0.0.0:9", |_| {}));
    assert!(refused(&mut rig, "255.255.255.255:9", |_| {}));
    assert!(refused(&mut rig, "127.0.0.1:9", |r| r.persistency = Persistency::OnDemand));
    assert!(refused(&mut rig, "127.0.0.1:9", |r| r.flags.local_fields = true));
    assert!(refused(&mut rig, "127.0.0.1:9", |r| r.mtu = Some(63)));
    assert!(rig.request("[::1]:9".parse().unwrap(), |_| {}).is_none(), "for the other socket");
    assert!(rig.request("224.0.0.1:9".parse().unwrap(), |_| {}).is_none());
    assert!(rig.request(remote, |r| r.local = Some(FaceUri::Udp("127.0.0.1:1".parse().unwrap()))).is_none());
    assert_eq!(rig.created_and_destroyed(), (0, 0));

    let status = rig.request(remote, |r| (r.mtu, r.flags.reliability) = (Some(1 << 40), true)).unwrap().unwrap();
    assert_eq!((status.mtu, status.flags.bits()), (Some(65_507), 2));
    let Some(Err(CreateFaceError::Exists(known))) = rig.request(remote, |_| {}) else { panic!("a second face") };
    assert_eq!(*known, status);
}

#[test]
fn a_face_changes_as_asked() {
    let mut rig = rig_with(|c| c.loopback_is_local = true);
    let peer = peer();
    peer.send_to(&packet(5, 60, 1), rig.port.local_addr()).unwrap();
    let id = rig.receive(1)[0].face;
    let change = FaceChange {
        persistency: Some(Persistency::Permanent),
        mtu: Some(1000),
        flags: Some(LinkFlags { local_fields: true, ..LinkFlags::default() }),
        base_congestion_marking_interval_ns: Some(5),
        default_congestion_threshold_bytes: Some(6),
    };
    let status = rig.port.update_face(&mut rig.bench.cx(), id, &change).unwrap();
    assert_eq!(status, rig.port.status(Ticks(0), id).unwrap());
    assert_eq!((status.scope, status.persistency, status.expires_in_ms), (Scope::Local, Persistency::Permanent, None));
    assert_eq!((status.mtu, status.flags.bits()), (Some(1000), 1));
    assert_eq!((status.base_congestion_marking_interval_ns, status.default_congestion_threshold_bytes), (5, 6));
    assert_eq!(rig.port.next_deadline(), None, "it does not expire any more");
    let back = FaceChange { persistency: Some(Persistency::OnDemand), ..FaceChange::default() };
    rig.port.update_face(&mut rig.bench.cx(), id, &back).unwrap();
    assert_eq!(rig.port.next_deadline(), Some(Ticks::from_ms(600_000)));
    let small = FaceChange { mtu: Some(1), ..FaceChange::default() };
    assert!(matches!(rig.port.update_face(&mut rig.bench.cx(), id, &small), Err(UpdateFaceError::Unacceptable(_))));
    assert!(matches!(rig.port.update_face(&mut rig.bench.cx(), FaceId(9), &small), Err(UpdateFaceError::NotFound)));
}

#[test]
fn empty_datagrams_count_towards_a_burst() {
    let mut rig = rig();
    let peer = peer();
    for _ in 0..200 {
        peer.send_to(&[], rig.port.local_addr()).unwrap();
    }
    rig.port.receive(&mut rig.bench.cx(), 64);
    assert!(rig.port.has_input(), "others have their turn");
    rig.settle();
    assert_eq!(rig.port.drops()[0], ("udp_not_ndn", 200));
    assert!(rig.bench.events.is_empty());
}

#[test]
fn ipv6_works_alike() {
    let Ok(peer) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
    peer.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut rig = rig_with(|c| c.listen = (Ipv6Addr::UNSPECIFIED, 0).into());
    let to = (Ipv6Addr::LOCALHOST, rig.port.local_addr().port());
    peer.send_to(&packet(5, 60, 1), to).unwrap();
    let id = rig.receive(1)[0].face;
    let status = rig.port.status(Ticks(0), id).unwrap();
    assert_eq!(status.local, FaceUri::Udp(to.into()), "the address that the peer sent to");
    rig.send(id, &[packet(6, 1000, 1), packet(6, 1000, 2), packet(6, 500, 3)]);
    let mut buffer = [0; 2000];
    let lens: Vec<_> = (0..3).map(|_| peer.recv(&mut buffer).unwrap()).collect();
    assert_eq!(lens, [1000, 1000, 500]);
}

#[test]
fn multicast_faces_hear_each_other_on_an_interface() {
    use multicast::{MulticastConfig, MulticastPort};
    let group: SocketAddr = "224.0.23.170:56399".parse().unwrap();
    let join = || {
        let config =
            MulticastConfig { interfaces: Some(vec!["lo".into()]), loop_back: true, ..MulticastConfig::new(group) };
        let mut bench = Bench::new();
        let mut port = MulticastPort::join(config).expect("interfaces are listed");
        port.start(&mut bench.cx()).expect("starts");
        (bench, port)
    };
    let ((mut here, mut a), (mut there, mut b)) = (join(), join());
    // If the system lets nobody join on loopback, there is nothing to test.
    let (Some((_, FaceEvent::Created(face))), Some(_)) = (here.events.pop(), there.events.pop()) else { return };
    assert_eq!(face.remote, FaceUri::Udp(group));
    assert_eq!(face.link_type, byname_forward::face_table::LinkType::MultiAccess);
    assert_eq!(face.persistency, Persistency::Permanent);
    let loopback = byname_forward::Network { address: [127, 0, 0, 1].into(), prefix_len: 8, zone: 0 };
    let byname_forward::Whereabouts::Networks(networks) = face.whereabouts() else { panic!("{face:?}") };
    assert!(networks.contains(&loopback), "{networks:?}");
    let outgoing = Outgoing { face: face.id, fields: LinkFields::default(), packet: packet(5, 60, 9) };
    a.transmit(&mut here.cx(), &mut [outgoing]);
    a.flush(&mut here.cx());
    there.wait(&mut b, 500);
    b.receive(&mut there.cx(), 64);
    assert_eq!(&*there.received[0].packet, &*packet(5, 60, 9));
    assert!(MulticastPort::join(MulticastConfig::new("192.0.2.1:1".parse().unwrap())).is_err());
    assert!(a.destroy_face(&mut here.cx(), face.id));
    assert!(!a.destroy_face(&mut here.cx(), face.id));
}

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) -> bool {
    let command = std::process::Command::new("ip").args(arguments.split_whitespace()).output();
    command.is_ok_and(|done| done.status.success())
}

/// Lets a port notice changes of interfaces. Returns the events that it reports, with their faces.
fn notice(bench: &mut Bench, port: &mut multicast::MulticastPort) -> Vec<(&'static str, FaceStatus)> {
    bench.wait(port, 1_000);
    while let Some(at) = port.next_deadline() {
        bench.now = at;
        port.on_deadline(&mut bench.cx());
        bench.wait(port, 100);
    }
    let events = std::mem::take(&mut bench.events).into_iter().map(|(_, event)| match event {
        FaceEvent::Created(status) => ("created", status),
        FaceEvent::Destroyed(status) => ("destroyed", status),
        FaceEvent::Up(status) => ("up", status),
        FaceEvent::Down(status) => ("down", status),
    });
    events.collect()
}

#[test]
fn multicast_comes_back_with_its_interface_and_with_its_address() {
    use multicast::{MulticastConfig, MulticastPort};
    let cable = || {
        ip("link add near type veth peer name far")
            && ip("link set near addrgenmode none")
            && ip("link set far addrgenmode none")
    };
    if crate::system::enter_new_network().is_err() || !cable() {
        eprintln!("skipped: network namespaces and virtual cables are not allowed here");
        return;
    }
    let group: SocketAddr = "224.0.23.170:56399".parse().unwrap();
    let config = MulticastConfig { interfaces: Some(vec!["near".into()]), ..MulticastConfig::new(group) };
    let (mut bench, mut port) = (Bench::new(), MulticastPort::join(config).expect("interfaces are listed"));
    port.start(&mut bench.cx()).expect("starts");
    assert!(bench.events.is_empty(), "no address yet");
    assert!(ip("link set near up") && ip("link set far up") && ip("addr add 192.0.2.1/24 dev near"));
    let [("created", face)] = &notice(&mut bench, &mut port)[..] else { panic!("no face") };
    assert_eq!((face.up, &face.local), (true, &FaceUri::Udp("192.0.2.1:56399".parse().unwrap())));
    let id = face.id;
    let send = |bench: &mut Bench, port: &mut MulticastPort| bench.send(port, id, &[packet(5, 60, 1)]);
    let drops = |port: &MulticastPort| port.status(Ticks(0), id).expect("a face").link.out_drops;
    send(&mut bench, &mut port);
    assert_eq!(drops(&port), 0);

    assert!(ip("link delete near"));
    let [("down", face)] = &notice(&mut bench, &mut port)[..] else { panic!("the face stays") };
    assert_eq!((face.id, face.up), (id, false));
    send(&mut bench, &mut port);
    assert_eq!(drops(&port), 1, "there is no interface");

    assert!(cable() && ip("link set near up") && ip("link set far up") && ip("addr add 192.0.2.7/24 dev near"));
    let [("up", face)] = &notice(&mut bench, &mut port)[..] else { panic!("the face comes back") };
    assert_eq!((face.id, face.up), (id, true));
    assert_eq!(face.local, FaceUri::Udp("192.0.2.7:56399".parse().unwrap()));
    send(&mut bench, &mut port);
    assert_eq!(drops(&port), 1, "it is sent");

    assert!(ip("addr add 198.51.100.9/24 dev near") && ip("addr delete 192.0.2.7/24 dev near"));
    let events = notice(&mut bench, &mut port);
    let told: Vec<_> = events.iter().map(|(what, face)| (*what, face.id)).collect();
    assert!(!told.is_empty() && told.chunks(2).all(|pair| pair == [("down", id), ("up", id)]), "{told:?}");
    send(&mut bench, &mut port);
    assert_eq!(drops(&port), 1, "with whichever address it has");
}
