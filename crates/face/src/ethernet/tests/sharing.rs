//! Several ports on one interface, as several packet threads have them.

use std::collections::HashMap;
use std::io::ErrorKind;

use byname_forward::{LinkFields, Received};

use super::*;
use crate::frames::datagram::{DatagramPeer, Path};
use crate::frames::fanout::socket_of;
use crate::link::{LinkService, ReassemblyBudget};

of_every_socket! {
    ;
    each_station_has_its_face_on_one_thread,
    fragments_by_both_queues_meet_on_one_thread,
    reliable_links_cross_whatever_queue_they_take,
    all_ports_go_down_and_come_back,
    queues_come_and_go,
    a_flood_of_forged_stations_is_bounded_on_all_threads,
    a_face_that_is_asked_for_is_made_once,
    datagrams_of_peers_are_dealt_out,
    an_interface_that_is_down_at_first_is_waited_for,
}

pub(super) const THREADS: usize = 2;

/// Whether the interface decides which thread gets a frame.
fn by_queue<S: Kind>() -> bool {
    !S::STEERS
}

fn ends<S: Kind>(interface: &str, adjust: impl FnOnce(&mut EthernetConfig)) -> Vec<End<S>> {
    let mut config = EthernetConfig::new(interface);
    adjust(&mut config);
    let own = S::own(&config);
    start(EthernetPort::open_for_threads(config, own, THREADS).expect("the interface is there"))
}

pub(super) fn start<S: Kind>(ports: Vec<EthernetPort<S>>) -> Vec<End<S>> {
    assert_eq!(ports.len(), THREADS);
    let start = |mut port: EthernetPort<S>| {
        let mut bench = Bench::new();
        port.start(&mut bench.cx()).expect("starts");
        End { port, bench }
    };
    ports.into_iter().map(start).collect()
}

/// Runs all loops until nothing has come for a while. Returns what each has received.
pub(super) fn settle<S: Kind>(ends: &mut [End<S>]) -> Vec<Vec<Received>> {
    let mut quiet = 0;
    while quiet < 4 {
        quiet += 1;
        for End { port, bench } in &mut *ends {
            bench.wait(port, 10);
            let before = bench.received.len();
            while port.has_input() {
                port.receive(&mut bench.cx(), 64);
                quiet = 0;
            }
            port.flush(&mut bench.cx());
            quiet = if bench.received.len() > before { 0 } else { quiet };
        }
    }
    ends.iter_mut().map(|end| std::mem::take(&mut end.bench.received)).collect()
}

/// Lets a second pass, as often as necessary, until all ports have the state that was asked for.
fn settle_until<S: Kind>(ends: &mut [End<S>], is_so: impl Fn(usize, &EthernetPort<S>) -> bool) {
    for _ in 0..100 {
        settle(ends);
        if ends.iter().enumerate().all(|(number, end)| is_so(number, &end.port)) {
            return;
        }
        for End { port, bench } in &mut *ends {
            bench.now = bench.now + RETRY_INTERVAL;
            if port.next_deadline().is_some_and(|at| at <= bench.now) {
                port.on_deadline(&mut bench.cx());
            }
        }
    }
    panic!("the ports do not get there");
}

pub(super) fn station(number: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, (number >> 8) as u8, number as u8])
}

/// The on-demand faces of a port, by station.
pub(super) fn stations<S: Kind>(end: &mut End<S>) -> HashMap<FaceId, MacAddress> {
    let faces = end.port.peers.iter_mut().filter(|(_, face)| face.persistency == Persistency::OnDemand);
    let station = |(id, face): (FaceId, &mut PeerFace<EthernetTransport>)| match face.transport.peer {
        Peer::Station(station) => (id, station),
        Peer::Datagrams(path) => panic!("a peer by UDP, {path:?}"),
    };
    faces.map(station).collect()
}

fn each_station_has_its_face_on_one_thread<S: Kind>() {
    const STATIONS: usize = 40;
    if !cable_with_queues(THREADS) {
        return;
    }
    let (mut near, mut far) = (ends::<S>("near", |_| {}), ends::<S>("far", |_| {}));
    assert!(near[0].port.group.is_some() && near[1].port.group.is_none(), "one face to the group");
    let here = near[0].port.address();
    // Each station sends by both queues, one after the other, then by turns.
    for round in 0..6usize {
        for number in 0..STATIONS {
            let way = if round == 0 { number % 2 } else { round % 2 };
            far[way].inject(frame::header(here, station(number)), &packet(5, 60 + round, number as u8));
            far[way].inject(frame::header(GROUP, station(number)), &packet(5, 80 + round, number as u8));
        }
        let received = settle(&mut near);
        let mut heard = [0; STATIONS];
        for (number, received) in received.into_iter().enumerate() {
            let group = near[number].port.group;
            let stations = stations(&mut near[number]);
            for received in received {
                let sender = usize::from(received.packet[10]);
                if Some(received.face) == group {
                    assert_eq!((received.packet.len(), number), (80 + round, 0));
                    heard[sender] += 100;
                } else {
                    assert_eq!(stations[&received.face], station(sender));
                    assert_eq!(received.packet.len(), 60 + round);
                    let owner = if by_queue::<S>() { sender % 2 } else { socket_of(station(sender), THREADS) };
                    assert_eq!(number, owner);
                    heard[sender] += 1;
                }
            }
        }
        assert_eq!(heard, [101; STATIONS], "each packet once, round {round}");
    }
    let faces: Vec<usize> = near.iter_mut().map(|end| stations(end).len()).collect();
    assert_eq!(faces.iter().sum::<usize>(), STATIONS);
    assert!(faces.iter().all(|faces| *faces > STATIONS / 4), "{faces:?}");
    assert!(near.iter().all(|end| end.drops().is_empty()));
    // A face that has ended leaves its station free for any port.
    if by_queue::<S>() {
        let face = *stations(&mut near[0]).iter().find(|(_, peer)| **peer == station(0)).expect("a face").0;
        let End { port, bench } = &mut near[0];
        assert!(port.destroy_face(&mut bench.cx(), face));
        far[1].inject(frame::header(here, station(0)), &packet(5, 60, 0));
        assert_eq!(settle(&mut near)[1].len(), 1);
    }
}

/// Frames of one station come by both queues in turn, as if the card changed its mind with each.
fn fragments_by_both_queues_meet_on_one_thread<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let (mut near, mut far) = (ends::<S>("near", |_| {}), ends::<S>("far", |_| {}));
    let here = near[0].port.address();
    let link = LinkConfig { mtu: Some(1500), ..LinkConfig::default() };
    let mut senders: Vec<LinkService> =
        (0..4).map(|_| LinkService::new(link.clone(), ReassemblyBudget::default())).collect();
    const PACKETS: u8 = 30;
    for n in 0..PACKETS {
        for (number, sender) in senders.iter_mut().enumerate() {
            let mut outgoing = Outgoing { face: FaceId(0), fields: LinkFields::default(), packet: packet(6, 8000, n) };
            let mut frames = Vec::new();
            sender.send(Ticks(0), &mut outgoing, 0, &mut frames);
            assert!(frames.len() > 5);
            for (turn, frame) in frames.iter().enumerate() {
                let end = &mut far[turn % THREADS];
                let socket = end.port.socket.as_mut().expect("up");
                assert_eq!(socket.push(&frame::header(here, station(number)), frame.parts()), Pushed::Done);
                socket.send().expect("sent");
                if turn % 2 == 1 {
                    // The order of frames on different queues is not told.
                    settle_once(&mut near);
                }
            }
        }
    }
    let received = settle(&mut near);
    let all: Vec<_> = received.iter().flatten().collect();
    assert_eq!(all.len(), senders.len() * usize::from(PACKETS), "{:?}", near[0].drops());
    assert!(all.iter().all(|received| received.packet.len() == 8000));
    let faces: usize = near.iter_mut().map(|end| stations(end).len()).sum();
    assert_eq!(faces, senders.len());
    let incomplete: u64 = near
        .iter_mut()
        .flat_map(|end| {
            let ids: Vec<FaceId> = stations(end).into_keys().collect();
            ids.into_iter().map(|id| end.link(id).in_malformed).collect::<Vec<_>>()
        })
        .sum();
    assert_eq!(incomplete, 0);
}

/// Two ports at each end, whose faces to each other are reliable.
fn reliable_links_cross_whatever_queue_they_take<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let (mut near, mut far) = (ends::<S>("near", |_| {}), ends::<S>("far", |_| {}));
    let addresses = [near[0].port.address(), far[0].port.address()];
    let reliable = |request: &mut FaceRequest| request.flags.reliability = true;
    let face = |ends: &mut [End<S>], there| {
        let made = ends.iter_mut().enumerate().find_map(|(n, end)| Some((n, end.request(there, reliable)?)));
        let (number, made) = made.expect("for one of them");
        (number, made.expect("a face").id)
    };
    let (here, there) = (face(&mut near, addresses[1]), face(&mut far, addresses[0]));
    let sent: Vec<_> = (0..40).map(|n| packet(6, 8000, n)).collect();
    for _ in 0..5 {
        near[here.0].send(here.1, &sent);
        far[there.0].send(there.1, &sent);
        for (ends, (number, id)) in [(&mut near, here), (&mut far, there)] {
            let mut received = settle(ends);
            let others = received.remove(1 - number);
            assert!(others.is_empty(), "{} on the other thread", others.len());
            assert!(received[0].iter().all(|received| received.face == id));
            assert!(received[0].iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p)));
            assert!(stations(&mut ends[0]).is_empty() && stations(&mut ends[1]).is_empty(), "no second face");
        }
        // The rest of the acknowledgements leave, and then nothing is repeated.
        for ms in [10, 10, 5000] {
            for ends in [&mut near, &mut far] {
                for End { port, bench } in &mut *ends {
                    bench.now = bench.now + Duration::from_millis(ms);
                    if port.next_deadline().is_some_and(|at| at <= bench.now) {
                        port.on_deadline(&mut bench.cx());
                    }
                    port.flush(&mut bench.cx());
                }
            }
            // Twice, because one end may answer the other.
            for _ in 0..2 {
                for ends in [&mut near, &mut far] {
                    assert!(settle(ends).iter().all(Vec::is_empty));
                }
            }
        }
    }
    for (ends, (number, id)) in [(&near, here), (&far, there)] {
        let link = ends[number].link(id);
        assert_eq!((link.retransmissions, link.out_drops, link.in_reassembly_timeouts), (0, 0, 0));
    }
}

/// Lets all loops take what has come.
fn settle_once<S: Kind>(ends: &mut [End<S>]) {
    for _ in 0..2 {
        for End { port, bench } in &mut *ends {
            bench.wait(port, 0);
            while port.has_input() {
                port.receive(&mut bench.cx(), 64);
            }
        }
    }
}

fn is_up<S: Kind>(_: usize, port: &EthernetPort<S>) -> bool {
    port.socket.is_some()
}

fn is_down<S: Kind>(_: usize, port: &EthernetPort<S>) -> bool {
    port.socket.is_none()
}

/// Sends one frame from each of some stations by each queue, and checks that each packet comes once.
fn assert_heard<S: Kind>(near: &mut [End<S>], far: &mut [End<S>]) {
    const STATIONS: usize = 20;
    settle(near);
    let here = near[0].port.address();
    let ways = far.len();
    for number in 0..STATIONS {
        far[number % ways].inject(frame::header(here, station(number)), &packet(5, 60, number as u8));
    }
    let mut heard: Vec<u8> = settle(near).into_iter().flatten().map(|received| received.packet[10]).collect();
    heard.sort_unstable();
    assert!(heard.into_iter().map(usize::from).eq(0..STATIONS));
}

fn all_ports_go_down_and_come_back<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let mut near = ends::<S>("near", |_| {});
    let to = |near: &mut [End<S>], station: MacAddress| {
        let made = near.iter_mut().enumerate().find_map(|(n, end)| Some((n, end.request(station, |_| {})?)));
        let (number, made) = made.expect("for one of them");
        (number, made.expect("a face").id)
    };
    let faces: Vec<_> = (100..110).map(|number| to(&mut near, station(number))).collect();
    for (down, up) in [
        ("link set near down", vec!["link set near up".to_owned()]),
        ("link del near", vec![link_with_queues(THREADS), "link set near up".into(), "link set far up".into()]),
    ] {
        near.iter_mut().for_each(|end| end.bench.events.clear());
        assert!(ip(down));
        settle_until(&mut near, is_down);
        for (number, face) in &faces {
            assert!(!near[*number].port.status(Ticks(0), *face).expect("it stays").up);
        }
        assert!(up.iter().all(|command| ip(command)));
        settle_until(&mut near, is_up);
        for (number, face) in &faces {
            let is_told = |(_, event): &(usize, FaceEvent)| matches!(event, FaceEvent::Up(s) if s.id == *face);
            assert_eq!(near[*number].bench.events.iter().filter(|event| is_told(event)).count(), 1);
        }
        let mut far = ends::<S>("far", |_| {});
        assert_heard(&mut near, &mut far);
    }
    // One that fails takes the other with it, and both come back at once.
    let error = io::Error::from(ErrorKind::BrokenPipe);
    let End { port, bench } = &mut near[1];
    port.fail(&mut bench.cx(), &error);
    settle(&mut near);
    assert!(near.iter().all(|end| end.port.socket.is_none()));
    settle_until(&mut near, is_up);
    let mut far = ends::<S>("far", |_| {});
    assert_heard(&mut near, &mut far);
}

/// The interface comes back with another number of queues.
fn queues_come_and_go<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let mut near = ends::<S>("near", |_| {});
    assert_heard(&mut near, &mut ends::<S>("far", |_| {}));
    for queues in [1, 3, 2] {
        assert!(ip("link del near"));
        settle_until(&mut near, is_down);
        let up = [&link_with_queues(queues), "link set near up", "link set far up"];
        assert!(up.iter().all(|command| ip(command)));
        let all = !by_queue::<S>() || queues >= THREADS;
        settle_until(&mut near, |number, port| port.socket.is_some() == (all || number == 0));
        let mut config = EthernetConfig::new("far");
        config.receive_ring_bytes = 1 << 16;
        let own = S::own(&config);
        let far = EthernetPort::<S>::open_for_threads(config, own, queues).expect("there");
        let mut far: Vec<_> = far.into_iter().map(|port| End { port, bench: Bench::new() }).collect();
        assert_heard(&mut near, &mut far);
        if !all {
            assert!(stations(&mut near[1]).is_empty(), "all have moved");
            let there = (50..100).map(station).find(|there| socket_of(*there, THREADS) == 1).expect("one");
            assert!(matches!(near[0].request(there, |_| {}), Some(Ok(_))), "a new face is made where it can send");
        }
    }
}

fn a_flood_of_forged_stations_is_bounded_on_all_threads<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let adjust = |config: &mut EthernetConfig| config.on_demand_faces_max = 6;
    let (mut near, mut far) = (ends::<S>("near", adjust), ends::<S>("far", |_| {}));
    let here = near[0].port.address();
    for number in 0..1000 {
        far[number % 2].inject(frame::header(here, station(number)), &packet(5, 60, 0));
        if number % 50 == 0 {
            settle_once(&mut near);
        }
    }
    settle(&mut near);
    for end in &mut near {
        assert_eq!(stations(end).len(), 3);
    }
    let claims = near[0].port.part.as_ref().expect("a part").claims();
    assert_eq!(claims, if by_queue::<S>() { 6 } else { 0 });
    if !by_queue::<S>() {
        return;
    }
    // A station that floods another queue than its own fills the queue between the threads, and no more.
    let owned = *stations(&mut near[1]).values().next().expect("a station");
    for n in 0..3000 {
        far[0].inject(frame::header(here, owned), &packet(5, 60, n as u8));
        let End { port, bench } = &mut near[0];
        bench.wait(port, 0);
        while port.has_input() {
            port.receive(&mut bench.cx(), 64);
        }
    }
    let End { port, bench } = &mut near[0];
    bench.wait(port, 50);
    while port.has_input() {
        port.receive(&mut bench.cx(), 64);
    }
    let drops = near[0].drops();
    let lost = drops.iter().find(|(reason, _)| *reason == "ethernet_hand_over_full").expect("told").1;
    assert_eq!(settle(&mut near)[1].len() as u64 + lost, 3000);
    assert!((1900..2000).contains(&lost), "{lost}");
    assert_eq!(stations(&mut near[0]).len() + stations(&mut near[1]).len(), 6);
}

fn a_face_that_is_asked_for_is_made_once<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let (mut near, mut far) = (ends::<S>("near", |_| {}), ends::<S>("far", |_| {}));
    let here = near[0].port.address();
    // The station is heard by the queue that its place would not be at.
    let there = station(7);
    let place = socket_of(there, THREADS);
    far[1 - place].inject(frame::header(here, there), &packet(5, 60, 0));
    settle(&mut near);
    let owner = if by_queue::<S>() { 1 - place } else { place };
    assert!(near[1 - owner].request(there, |_| {}).is_none());
    assert!(matches!(near[owner].request(there, |_| {}), Some(Err(CreateFaceError::Exists(_)))));
    for number in 20..40 {
        let made: Vec<_> = near.iter_mut().filter_map(|end| end.request(station(number), |_| {})).collect();
        assert!(matches!(&made[..], [Ok(_)]), "{made:?}");
        // It answers by the other queue, which changes nothing.
        far[number % 2].inject(frame::header(here, station(number)), &packet(5, 60, number as u8));
    }
    let received = settle(&mut near);
    for (end, received) in near.iter_mut().zip(received) {
        assert!(received.len() > 3);
        assert!(
            received.iter().all(|received| end.port.status(Ticks(0), received.face).expect("a face").persistency
                == Persistency::Persistent)
        );
    }
    // The group is one, too.
    let mut asked = |end: usize| near[end].request(GROUP, |_| {});
    assert!(asked(1).is_none());
    assert!(matches!(asked(0), Some(Err(CreateFaceError::Exists(_)))));
}

fn datagrams_of_peers_are_dealt_out<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    let address = |text: &str| text.parse().expect("an address");
    let path = |n: u8| Path { here: address("192.0.2.1:6363"), there: address(&format!("192.0.2.{n}:6363")) };
    let peers: Vec<_> = (2..7).map(|n| DatagramPeer { path: path(n), station: None }).collect();
    let (mut near, mut far) = (ends::<S>("near", |c| c.datagrams = peers.clone()), ends::<S>("far", |_| {}));
    let here = near[0].port.address();
    // All peers are behind one router, and a stranger is too.
    for n in 2..8u8 {
        let Path { here: to, there: from } = path(n);
        let back = Path { here: from, there: to };
        let sent = packet(5, 60, n);
        let header = back.header(here, station(1), (&[], &sent));
        let socket = far[usize::from(n) % 2].port.socket.as_mut().expect("up");
        assert_eq!(socket.push(&header, (&sent, &[])), Pushed::Done);
        socket.send().expect("sent");
    }
    let received = settle(&mut near);
    for (number, received) in received.into_iter().enumerate() {
        let heard: Vec<u8> = received.iter().map(|received| received.packet[10]).collect();
        let expected: Vec<u8> = (2..7).filter(|n| usize::from(n - 2) % THREADS == number).collect();
        let mut sorted = heard.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        for received in received {
            let status = near[number].port.status(Ticks(0), received.face).expect("a face");
            assert_eq!(status.remote, FaceUri::Udp(path(received.packet[10]).there));
        }
    }
}

fn an_interface_that_is_down_at_first_is_waited_for<S: Kind>() {
    if !cable_with_queues(THREADS) {
        return;
    }
    assert!(ip("link set near down"));
    let mut near = ends::<S>("near", |_| {});
    assert!(near.iter().all(|end| end.port.socket.is_none()));
    assert!(ip("link set near up"));
    settle_until(&mut near, is_up);
    assert_heard(&mut near, &mut ends::<S>("far", |_| {}));
}
