//! Ports at the two ends of a virtual cable. Each test has its own network namespace.

/// Runs the tests for every kind of socket. Tests after the semicolon do not run for DPDK.
macro_rules! of_every_socket {
    ($($test:ident,)*; $($other:ident,)*) => {
        mod packet_sockets {
            $(#[test] fn $test() { super::$test::<super::PacketSocket>() })*
            $(#[test] fn $other() { super::$other::<super::PacketSocket>() })*
        }
        mod xdp {
            $(#[test] fn $test() { super::$test::<super::XdpSocket>() })*
            $(#[test] fn $other() { super::$other::<super::XdpSocket>() })*
        }
        #[cfg(feature = "dpdk")]
        mod devices {
            $(#[test] fn $test() { super::$test::<crate::frames::dpdk::DpdkSocket>() })*
        }
    };
}

mod datagrams;
#[cfg(feature = "dpdk")]
mod dpdk;
mod sharing;

use std::any::TypeId;
use std::process::Command;

use byname_forward::Packet;

use super::*;
use crate::FaceEvent;
use crate::frames::frame::{self, GROUP};
use crate::frames::ring::{PacketSocket, RingOptions};
use crate::frames::xdp::{Mode, XdpSocket};
use crate::port::Pushed;
use crate::port::tests::{Bench, packet};
use crate::system::{bind_to_device, enter_new_network};

/// A kind of socket, as tests open it.
trait Kind: FrameSocket + 'static {
    /// Settings of its own, for an interface on which it may have to make something first.
    fn own(config: &EthernetConfig) -> Self::Config;
}

impl Kind for PacketSocket {
    fn own(_: &EthernetConfig) -> RingOptions {
        RingOptions::default()
    }
}

impl Kind for XdpSocket {
    fn own(_: &EthernetConfig) -> Mode {
        Mode::default()
    }
}

of_every_socket! {
    stations_meet_in_the_group_and_answer_each_other,
    long_packets_cross_in_fragments,
    hostile_frames_are_dropped_and_counted,
    more_than_the_transmit_ring_holds_is_sent_all_the_same,
    a_flood_of_forged_stations_shuts_nobody_out,
    faces_are_asked_for_within_reason,
    ;
    what_a_full_ring_loses_is_told,
    an_interface_goes_down_and_away_and_comes_back,
    what_cannot_be_opened_says_what_to_do,
}

/// One end: a port and what a loop would have of it.
struct End<S: FrameSocket> {
    port: EthernetPort<S>,
    bench: Bench,
}

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) -> bool {
    let command = Command::new("ip").args(arguments.split_whitespace()).output();
    command.is_ok_and(|done| done.status.success())
}

/// Moves this thread, with its sockets and commands, into a namespace with a cable between `near` and `far`. Prints a
/// message if that is not allowed.
fn cable() -> bool {
    cable_with_queues(1)
}

/// As [`cable`]. Each end has so many queues in each direction.
fn cable_with_queues(queues: usize) -> bool {
    let made = enter_new_network().is_ok()
        && ip(&link_with_queues(queues))
        // Without automatic addresses, for which the system would send frames of its own.
        && ip("link set near up addrgenmode none")
        && ip("link set far up addrgenmode none");
    if !made {
        eprintln!("skipped: network namespaces and virtual cables are not allowed here");
    }
    made
}

/// Arguments of `ip` that make a cable.
fn link_with_queues(queues: usize) -> String {
    let each = format!("numrxqueues {queues} numtxqueues {queues}");
    format!("link add near {each} type veth peer name far {each}")
}

fn end<S: Kind>(interface: &str, adjust: impl FnOnce(&mut EthernetConfig)) -> End<S> {
    let mut config = EthernetConfig::new(interface);
    adjust(&mut config);
    let own = S::own(&config);
    end_of(config, own)
}

fn end_of<S: Kind>(config: EthernetConfig, own: S::Config) -> End<S> {
    let mut bench = Bench::new();
    let mut port = EthernetPort::open(config, own).expect("the interface is there");
    port.start(&mut bench.cx()).expect("starts");
    End { port, bench }
}

impl<S: Kind> End<S> {
    fn receive(&mut self, packets: usize) -> Vec<byname_forward::Received> {
        self.bench.receive(&mut self.port, packets)
    }

    fn send(&mut self, face: FaceId, packets: &[Packet]) {
        self.bench.send(&mut self.port, face, packets);
    }

    fn group(&self) -> FaceId {
        self.port.group.expect("a group")
    }

    fn request(
        &mut self,
        remote: MacAddress,
        adjust: impl FnOnce(&mut FaceRequest),
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        let local = Some(FaceUri::Dev(self.port.config.interface.clone()));
        let mut request = FaceRequest { local, ..FaceRequest::to(FaceUri::Ethernet(remote)) };
        adjust(&mut request);
        self.port.create_face(&mut self.bench.cx(), &request)
    }

    fn link(&self, face: FaceId) -> crate::face::LinkCounters {
        self.port.status(self.bench.now, face).expect("a face").link
    }

    /// Counters of dropped frames by reason, without zeros.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.port.drops().into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Sends a frame directly, without the port's checks.
    fn inject(&mut self, header: [u8; 14], payload: &[u8]) {
        let socket = self.port.socket.as_mut().expect("up");
        assert_eq!(socket.push(&header, (payload, &[])), Pushed::Done);
        assert!(socket.send().expect("sent"));
    }
}

fn stations_meet_in_the_group_and_answer_each_other<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |_| {}), end::<S>("far", |_| {}));
    let Some((_, FaceEvent::Created(group))) = a.bench.events.pop() else { panic!("no face to the group") };
    assert_eq!(group.remote.to_string(), "ether://[01:00:5e:00:17:aa]");
    assert_eq!(group.local.to_string(), "dev://near");
    assert_eq!((group.link_type, group.persistency), (LinkType::MultiAccess, Persistency::Permanent));
    assert_eq!((group.mtu, group.up), (Some(1500), true));
    a.send(a.group(), &[packet(5, 60, 1)]);
    let received = b.receive(1);
    assert_eq!((received[0].face, &*received[0].packet), (b.group(), &*packet(5, 60, 1)));

    let to_b = a.request(b.port.address(), |_| {}).expect("for this port").expect("a face").id;
    a.send(to_b, &[packet(5, 60, 2), packet(5, 61, 3)]);
    let received = b.receive(2);
    let Some((_, FaceEvent::Created(face))) = b.bench.events.pop() else { panic!("no face on demand") };
    assert_eq!(face.remote, FaceUri::Ethernet(a.port.address()));
    assert_eq!((face.persistency, face.link_type), (Persistency::OnDemand, LinkType::PointToPoint));
    assert!(received.iter().all(|r| r.face == face.id) && *received[1].packet == *packet(5, 61, 3));
    b.send(face.id, &[packet(6, 1500, 4)]);
    let received = a.receive(1);
    assert_eq!((received[0].face, &*received[0].packet), (to_b, &*packet(6, 1500, 4)));
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));

    b.bench.now = b.port.peers.next_deadline().expect("it ends when it is idle");
    assert_eq!(b.bench.now, Ticks::from_ms(600_000));
    b.port.on_deadline(&mut b.bench.cx());
    assert!(matches!(b.bench.events.pop(), Some((_, FaceEvent::Destroyed(gone))) if gone.id == face.id));
}

fn long_packets_cross_in_fragments<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |_| {}), end::<S>("far", |_| {}));
    let to_b = a.request(b.port.address(), |_| {}).expect("for this port").expect("a face").id;
    let sent: Vec<_> = (0..200).map(|n| packet(6, 8000, n)).collect();
    for (to, of) in [(to_b, &sent[..]), (a.group(), &sent[..10])] {
        a.send(to, of);
        let received = b.receive(of.len());
        assert!(received.iter().map(|r| &*r.packet).eq(of.iter().map(|p| &**p)), "{} came", received.len());
    }
    assert_eq!((b.drops(), a.link(to_b).out_drops), (vec![], 0));
}

fn hostile_frames_are_dropped_and_counted<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |_| {}), end::<S>("far", |_| {}));
    let (here, there) = (b.port.address(), a.port.address());
    let good = frame::header(here, there);
    let of_type = |high: u8, low: u8| {
        let mut header = good;
        (header[12], header[13]) = (high, low);
        header
    };
    a.inject(good, &[]);
    a.inject(good, b"hello");
    assert!(b.receive(1).is_empty());
    assert_eq!(b.drops(), [("ethernet_not_ndn", 2)]);
    // Our own frames, sent back by a switch, and one of a VLAN. The kernel keeps IP and other stations' frames.
    a.inject(frame::header(here, here), &packet(5, 60, 1));
    a.inject(frame::header(GROUP, here), &packet(5, 60, 1));
    a.inject(of_type(0x81, 0), &[&[0, 7, 0x86, 0x24][..], &packet(5, 60, 1)].concat());
    a.inject(of_type(8, 0), &packet(5, 60, 1));
    a.inject(frame::header(MacAddress([2, 0, 0, 0, 0, 9]), there), &packet(5, 60, 1));
    a.inject(frame::header(here, GROUP), &packet(5, 60, 1));
    let received = b.receive(1);
    assert!(received.is_empty(), "{received:?} {:?} {:?}", b.drops(), b.bench.events);
    // XDP leaves frames with a tag to the kernel. A socket that hears all counts a bad source separately.
    let sees_tags = TypeId::of::<S>() == TypeId::of::<PacketSocket>();
    let (malformed, not_ours) = if S::HEARS_ALL { (1, 5) } else { (0, if sees_tags { 3 } else { 2 }) };
    let drops = [("ethernet_malformed", malformed), ("ethernet_not_ours", not_ours), ("ethernet_not_ndn", 2)];
    assert!(b.drops().into_iter().eq(drops.into_iter().filter(|(_, count)| *count > 0)), "{:?}", b.drops());
    assert_eq!(b.bench.events.len(), 1, "only the group has a face");
    // Frames with a priority but no VLAN are for us; so are padded short frames.
    if sees_tags {
        a.inject(of_type(0x81, 0), &[&[0xe0, 0, 0x86, 0x24][..], &packet(5, 20, 1), &[0; 30]].concat());
    } else {
        a.inject(good, &[&packet(5, 20, 1)[..], &[0; 30]].concat());
    }
    let received = b.receive(1);
    assert_eq!(&*received[0].packet, &*packet(5, 20, 1));
    let face = received[0].face;
    // False lengths.
    for payload in [&[5, 200, 1][..], &[5, 0xfe, 0xff, 0xff, 0xff, 0xff], &[0x64, 3, 0x50, 200, 1]] {
        a.inject(good, payload);
    }
    assert!(b.receive(1).is_empty());
    assert_eq!(b.link(face).in_malformed, 3);
}

fn what_a_full_ring_loses_is_told<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |_| {}), end::<S>("far", |c| c.receive_ring_bytes = 1));
    let group = a.group();
    for _ in 0..10 {
        a.send(group, &vec![packet(5, 60, 1); 10]);
    }
    let received = b.receive(100).len();
    assert!((16..=64).contains(&received), "{received} of 100");
    let lost = 100 - received as u64;
    assert_eq!(b.drops(), [("ethernet_ring_full", lost)]);
    assert_eq!(b.drops(), [("ethernet_ring_full", lost)], "asked again");
}

fn more_than_the_transmit_ring_holds_is_sent_all_the_same<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |c| c.transmit_ring_bytes = 1), end::<S>("far", |_| {}));
    let sent: Vec<_> = (0..1000u32).map(|n| packet(6, 300 + n as usize, n as u8)).collect();
    a.send(a.group(), &sent);
    while a.port.has_output() {
        a.bench.wait(&mut a.port, 200);
        a.port.flush(&mut a.bench.cx());
    }
    let received = b.receive(1000);
    assert!(received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p)), "{} came", received.len());
}

fn an_interface_goes_down_and_away_and_comes_back<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |_| {}), end::<S>("far", |_| {}));
    let (to_b, group) = (a.request(b.port.address(), |_| {}).expect("for this port").expect("a face").id, a.group());
    for (down, up) in [
        ("link set near down", &["link set near up"][..]),
        ("link del near", &["link add near type veth peer name far", "link set near up", "link set far up"]),
    ] {
        a.bench.events.clear();
        assert!(ip(down));
        a.bench.wait(&mut a.port, 1000);
        let told: Vec<_> = a.bench.events.drain(..).map(|(_, event)| event).collect();
        assert!(told.iter().all(|e| matches!(e, FaceEvent::Down(s) if !s.up)) && told.len() == 2, "{told:?}");
        a.send(to_b, &[packet(5, 60, 1)]);
        assert!(a.link(to_b).out_drops > 0);
        a.bench.now = a.port.next_deadline().expect("it looks again");
        a.port.on_deadline(&mut a.bench.cx());
        assert!(a.bench.events.is_empty(), "it is still down");
        assert!(up.iter().all(|command| ip(command)));
        // The system may need a moment to release the earlier program and sockets.
        for _ in 0..100 {
            a.bench.now = a.port.next_deadline().expect("it looks again");
            a.port.on_deadline(&mut a.bench.cx());
            if !a.bench.events.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(a.bench.events.len(), 2);
        assert!(a.bench.events.iter().all(|(_, e)| matches!(e, FaceEvent::Up(s) if s.up)));
        // The other end had disappeared too.
        drop(b);
        b = end("far", |_| {});
        a.send(group, &[packet(5, 60, 7)]);
        assert_eq!(b.receive(1).len(), 1);
        b.send(b.group(), &[packet(5, 60, 8)]);
        assert_eq!(a.receive(1).len(), 1);
    }
}

fn a_flood_of_forged_stations_shuts_nobody_out<S: Kind>() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<S>("near", |_| {}), end::<S>("far", |c| c.on_demand_faces_max = 3));
    let here = b.port.address();
    a.inject(frame::header(here, MacAddress([2, 0, 0, 0, 0, 1])), &packet(5, 60, 1));
    let waiting = b.receive(1)[0].face;
    for n in 0..100 {
        a.inject(frame::header(here, MacAddress([2, 0, 0, 0, 1, n])), &packet(5, 60, n));
    }
    assert_eq!(b.receive(100).len(), 100, "each gets a face, for a while");
    assert!(b.port.status(b.bench.now, waiting).is_some(), "an Interest is pending");
    let faces = b.port.peers.iter_mut().filter(|(_, face)| face.persistency == Persistency::OnDemand);
    assert_eq!(faces.count(), 3);
    b.port.set_routed(waiting, true);
    b.bench.now = Ticks::from_ms(11_000);
    for n in 0..100 {
        a.inject(frame::header(here, MacAddress([2, 0, 0, 0, 2, n])), &packet(5, 60, n));
    }
    assert_eq!(b.receive(100).len(), 100);
    assert!(b.port.status(b.bench.now, waiting).is_some(), "it has a route");
}

fn faces_are_asked_for_within_reason<S: Kind>() {
    if !cable() {
        return;
    }
    let mut a = end::<S>("near", |_| {});
    let (own, peer) = (a.port.address(), MacAddress([2, 0, 0, 0, 0, 9]));
    let refused = |a: &mut End<S>, remote, adjust: fn(&mut FaceRequest)| {
        matches!(a.request(remote, adjust), Some(Err(CreateFaceError::Unacceptable(_))))
    };
    assert!(refused(&mut a, own, |_| {}));
    assert!(refused(&mut a, MacAddress([0; 6]), |_| {}));
    assert!(refused(&mut a, MacAddress([0xff; 6]), |_| {}));
    assert!(refused(&mut a, peer, |r| r.persistency = Persistency::OnDemand));
    assert!(refused(&mut a, peer, |r| r.flags.local_fields = true));
    assert!(refused(&mut a, peer, |r| r.mtu = Some(63)));
    assert!(refused(&mut a, peer, |r| r.local = None));
    assert!(a.request(peer, |r| r.local = Some(FaceUri::Dev("far".into()))).is_none());
    assert!(matches!(a.request(GROUP, |r| r.local = None), Some(Err(CreateFaceError::Exists(_)))));
    let status = a.request(peer, |r| r.mtu = Some(9000)).expect("for this port").expect("a face");
    assert_eq!(status.mtu, Some(1500));
    let Some(Err(CreateFaceError::Exists(known))) = a.request(peer, |_| {}) else { panic!("a second face") };
    assert_eq!(*known, status);
    let change = FaceChange { persistency: Some(Persistency::Persistent), ..FaceChange::default() };
    let group = a.group();
    assert!(a.port.update_face(&mut a.bench.cx(), group, &change).is_err(), "groups are permanent");
    assert!(a.port.destroy_face(&mut a.bench.cx(), group) && a.port.destroy_face(&mut a.bench.cx(), status.id));
    assert!(a.port.peers.is_empty());
}

fn what_cannot_be_opened_says_what_to_do<S: Kind>() {
    if !cable() {
        return;
    }
    let open = |config: EthernetConfig| {
        let own = S::own(&config);
        EthernetPort::<S>::open(config, own)
    };
    let error = |name: &str| open(EthernetConfig::new(name)).err().expect("none such").to_string();
    assert_eq!(error("none"), "there is no network interface none; `ip link` lists them");
    assert_eq!(error("lo"), "lo is no Ethernet interface; `ip link` shows which are (link/ether)");
    let down = ip("link set near down").then(|| end::<S>("near", |_| {})).expect("down");
    assert!(!down.port.status(Ticks(0), down.group()).expect("a face").up);
    assert_eq!(down.port.next_deadline(), Some(Ticks(0) + RETRY_INTERVAL));
}

/// Packets go both ways between ports whose frames come by XDP in this mode.
fn assert_exchange(mode: Mode) {
    let [mut a, mut b] = ["near", "far"].map(|interface| end_of::<XdpSocket>(EthernetConfig::new(interface), mode));
    let sent: Vec<_> = (0..100).map(|n| packet(6, 1500, n)).collect();
    a.send(a.group(), &sent);
    let received = b.receive(sent.len());
    assert!(received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p)), "{} came", received.len());
    b.send(b.group(), &[packet(5, 60, 1)]);
    assert_eq!(a.receive(1).len(), 1);
}

#[test]
fn xdp_runs_in_drivers_and_behind_them() {
    if !cable() {
        return;
    }
    for mode in [Mode::Auto, Mode::Copy, Mode::Generic] {
        assert_exchange(mode);
    }
}

#[test]
fn xdp_takes_the_frames_of_all_queues() {
    if !cable() {
        return;
    }
    let queues = "numtxqueues 4 numrxqueues 4";
    assert!(ip("link del near") && ip(&format!("link add near {queues} type veth peer name far {queues}")));
    assert!(ip("link set near up") && ip("link set far up"));
    let (mut a, mut b) = (end::<PacketSocket>("near", |_| {}), end::<XdpSocket>("far", |_| {}));
    assert_eq!(b.port.socket.as_ref().expect("up").descriptors().len(), 5, "with the one that watches");
    let group = a.group();
    for n in 0..100 {
        a.send(group, &[packet(5, 60, n)]);
    }
    assert_eq!(b.receive(100).len(), 100);
    drop(b);
    assert_exchange(Mode::default());
}

#[test]
fn xdp_leaves_other_frames_to_the_kernel() {
    if !cable() {
        return;
    }
    let b = end::<XdpSocket>("far", |_| {});
    assert!(ip("addr add 192.0.2.1/24 dev near") && ip("addr add 192.0.2.2/24 dev far"));
    // Both ends belong to one host, so a datagram crosses the cable only if its sender is bound to one end.
    let receiver = std::net::UdpSocket::bind("192.0.2.2:9").expect("bound");
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("set");
    let sender = std::net::UdpSocket::bind("0.0.0.0:0").expect("bound");
    bind_to_device(&sender, "near").expect("bound");
    let there: std::net::SocketAddr = "192.0.2.2:9".parse().expect("an address");
    let settings = ["all", "far", "near"].map(|name| format!("/proc/sys/net/ipv4/conf/{name}"));
    for folder in &settings {
        std::fs::write(format!("{folder}/accept_local"), "1").expect("written");
        std::fs::write(format!("{folder}/rp_filter"), "0").expect("written");
    }
    assert!(ip(&format!("neigh add 192.0.2.2 lladdr {} dev near", b.port.address())));
    sender.send_to(b"hello", there).expect("sent");
    let mut buffer = [0; 10];
    assert_eq!(receiver.recv(&mut buffer).expect("it came"), 5);
    assert_eq!(b.drops(), []);
}

#[test]
fn what_xdp_cannot_do_says_what_to_do() {
    if !cable() {
        return;
    }
    let error = |mode: Mode| {
        let opened = EthernetPort::<XdpSocket>::open(EthernetConfig::new("near"), mode);
        opened.err().expect("it cannot").to_string()
    };
    let told = error(Mode::ZeroCopy);
    assert!(told.starts_with("cannot use XDP on near: ") && told.contains("xdp_mode = \"auto\""), "{told}");
    let first = end::<XdpSocket>("near", |_| {});
    let told = error(Mode::default());
    assert!(told.contains("another program") && told.contains("xdp off"), "{told}");
    drop(first);
    assert!(ip("link set near mtu 9000"));
    let told = error(Mode::default());
    assert!(told.contains("its MTU is 9000") && told.contains("mtu 3826"), "{told}");
}
