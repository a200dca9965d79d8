//! Peers by UDP in frames. A plain UDP port is in another namespace at the other end of the cable.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::process::{Child, Command};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::*;
use crate::frames::datagram::{DatagramPeer, Path};
use crate::udp::{UdpConfig, UdpPort};

/// A namespace, which exists while a process sleeps in it.
struct Namespace(Child);

impl Namespace {
    /// The namespace of this thread.
    fn current() -> Self {
        Namespace(Command::new("sleep").arg("600").spawn().expect("sleep"))
    }

    /// Moves this thread into the namespace.
    fn enter(&self) {
        let file = File::open(format!("/proc/{}/ns/net", self.0.id())).expect("the process runs");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("allowed, as making it was");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An Ethernet port in one namespace, and a UDP port in another, with a cable between them.
struct Pair<S: FrameSocket> {
    near: End<S>,
    far: UdpPort,
    far_bench: Bench,
    namespaces: [Namespace; 2],
}

/// Returns `None` if namespaces are not allowed.
fn pair<S: Kind>(path: Path, knows_station: bool) -> Option<Pair<S>> {
    if !cable() {
        return None;
    }
    let here = Namespace::current();
    enter_new_network().expect("allowed, as before");
    let there = Namespace::current();
    here.enter();
    let length = if path.here.is_ipv4() { "24" } else { "64 nodad" };
    assert!(ip(&format!("link set far address 02:00:00:00:00:02 netns {}", there.0.id())));
    // The system answers for the address, and gets all packets except the peer's. If the port hears all frames, the
    // system has no address.
    if !S::HEARS_ALL {
        assert!(ip(&format!("addr add {}/{length} dev near", path.here.ip())));
    }
    let station = knows_station.then_some(MacAddress([2, 0, 0, 0, 0, 2]));
    let near = end::<S>("near", |config| config.datagrams.push(DatagramPeer { path, station }));
    there.enter();
    // DPDK's driver for virtual cables has no room for a run of datagrams whose cutting is left to the card.
    let ethtool = || Command::new("ethtool").args(["-K", "far", "tx-udp-segmentation", "off"]).status();
    if S::HEARS_ALL && !ethtool().is_ok_and(|status| status.success()) {
        eprintln!("skipped: ethtool is not installed");
        return None;
    }
    assert!(ip("link set far up") && ip(&format!("addr add {}/{length} dev far", path.there.ip())));
    here.enter();
    wait_until_up("near");
    if !S::HEARS_ALL {
        wait_until_local(path.here.ip());
    }
    there.enter();
    wait_until_up("far");
    wait_until_local(path.there.ip());
    let mut far_bench = Bench::new();
    // The system would fragment longer datagrams.
    let mtu = 1500 - path.overhead();
    let mut far = UdpPort::bind(UdpConfig { mtu, ..UdpConfig::new(path.there) }).expect("bound");
    far.start(&mut far_bench.cx()).expect("starts");
    Some(Pair { near, far, far_bench, namespaces: [here, there] })
}

/// Waits until the system sends on an interface whose other end has come up. The system notices that only after some
/// time.
fn wait_until_up(interface: &str) {
    let is_up = || {
        let shown = Command::new("ip").args(["-o", "link", "show", interface]).output().expect("shown");
        String::from_utf8_lossy(&shown.stdout).contains("state UP")
    };
    assert!(eventually(is_up), "{interface} does not come up");
}

/// Waits until the system takes packets for an address. IPv6 gets its route only some time after the address was added.
fn wait_until_local(address: IpAddr) {
    let is_local = || {
        let shown = Command::new("ip").args(["-o", "route", "get", &address.to_string()]).output().expect("shown");
        String::from_utf8_lossy(&shown.stdout).starts_with("local ")
    };
    assert!(eventually(is_local), "{address} is not an address of this host");
}

/// Whether a condition holds within five seconds.
fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    (0..500).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(Duration::from_millis(10));
        }
        so
    })
}

fn path(here: &str, there: &str) -> Path {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Path { here: address(here), there: address(there) }
}

impl<S: Kind> Pair<S> {
    /// The configured face.
    fn face(&self) -> FaceId {
        let peer = Peer::Datagrams(self.near.port.config.datagrams[0].path);
        self.near.port.peers.find(&peer).expect("it is there from the start")
    }

    /// The far end's face to the near one, created by management.
    fn far_face(&mut self) -> FaceId {
        let request = FaceRequest::to(FaceUri::Udp(self.near.port.config.datagrams[0].path.here));
        self.far.create_face(&mut self.far_bench.cx(), &request).expect("its kind").expect("a face").id
    }
}

fn assert_exchange<S: Kind>(path: Path) {
    let Some(mut pair) = pair::<S>(path, true) else { return };
    let face = pair.face();
    let status = pair.near.port.status(Ticks(0), face).expect("a face");
    assert_eq!((status.remote, status.local), (FaceUri::Udp(path.there), FaceUri::Udp(path.here)));
    assert_eq!((status.mtu, status.persistency), (Some(1500 - path.overhead() as u64), Persistency::Permanent));
    // All kinds of length: odd and even, one frame and several.
    let sent: Vec<_> = (0..100).map(|n| packet(6, 300 + 77 * n, n as u8)).collect();
    pair.near.send(face, &sent);
    let received = pair.far_bench.receive(&mut pair.far, sent.len());
    assert!(received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p)), "{} came", received.len());
    let back = received[0].face;
    // The far system may have to ask for the station of the address, and keeps few packets until it knows.
    pair.far_bench.send(&mut pair.far, back, &[packet(5, 60, 1)]);
    assert_eq!(pair.near.receive(1).len(), 1);
    pair.far_bench.send(&mut pair.far, back, &sent);
    let received = pair.near.receive(sent.len());
    let (count, drops, link) = (received.len(), pair.near.drops(), pair.near.link(face));
    assert!(received.iter().all(|r| r.face == face) && count == sent.len(), "{count} came; {drops:?} {link:?}");
    // DPDK also hears frames that are for nobody.
    let drops = pair.near.drops();
    assert!(drops.iter().all(|(reason, _)| S::HEARS_ALL && *reason == "ethernet_not_ours"), "{drops:?}");
    // The system told nobody that nobody listens.
    pair.namespaces[0].enter();
    let counts = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counts");
    let counts6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").expect("counts");
    let icmp: Vec<Vec<&str>> =
        counts.lines().filter(|l| l.starts_with("Icmp:")).map(|l| l.split_whitespace().collect()).collect();
    let unreachable = icmp[0].iter().position(|name| *name == "OutDestUnreachs").expect("a count");
    assert_eq!(icmp[1][unreachable], "0", "{counts}");
    let told = counts6.lines().find(|l| l.starts_with("Icmp6OutDestUnreachs")).expect("a count");
    assert!(told.ends_with("\t0"), "{told}");
}

of_every_socket! {
    datagrams_in_frames_are_those_of_a_udp_face,
    a_station_is_learnt_from_its_datagrams,
    ;
}

fn datagrams_in_frames_are_those_of_a_udp_face<S: Kind>() {
    assert_exchange::<S>(path("192.0.2.1:6363", "192.0.2.2:6363"));
    assert_exchange::<S>(path("[2001:db8::1]:6363", "[2001:db8::2]:7000"));
}

fn a_station_is_learnt_from_its_datagrams<S: Kind>() {
    let path = path("192.0.2.1:6363", "192.0.2.2:6363");
    let Some(mut pair) = pair::<S>(path, false) else { return };
    let face = pair.face();
    pair.near.send(face, &[packet(5, 60, 1)]);
    assert_eq!(pair.near.link(face).out_drops, 1, "nobody knows where to");
    let far_face = pair.far_face();
    pair.far_bench.send(&mut pair.far, far_face, &[packet(5, 60, 2)]);
    assert_eq!(pair.near.receive(1).len(), 1);
    pair.near.send(face, &[packet(5, 60, 3)]);
    assert_eq!(pair.far_bench.receive(&mut pair.far, 1).len(), 1);
}

#[test]
fn datagrams_of_others_go_to_the_system() {
    let path = path("192.0.2.1:6363", "192.0.2.2:6363");
    let Some(mut pair) = pair::<XdpSocket>(path, true) else { return };
    let [here, there] = &pair.namespaces;
    here.enter();
    let listener = std::net::UdpSocket::bind("192.0.2.1:6363").expect("the port has no socket there");
    listener.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    there.enter();
    let stranger = std::net::UdpSocket::bind("192.0.2.2:7001").expect("bound");
    stranger.send_to(&packet(5, 60, 1), path.here).expect("sent");
    assert_eq!(listener.recv(&mut [0; 100]).expect("it came"), 60);
    assert!(pair.near.receive(1).is_empty());
    assert_eq!(pair.near.drops(), []);
}

#[test]
fn a_udp_port_of_this_host_does_not_hear_what_comes_in_frames() {
    let path = path("192.0.2.1:6363", "192.0.2.2:6363");
    let Some(mut pair) = pair::<PacketSocket>(path, true) else { return };
    pair.namespaces[0].enter();
    // As in a router, where all ports are bound before they start.
    pair.near.port.silence = Silence::default();
    let all = SocketAddr::from(([0, 0, 0, 0], 6363));
    // Child processes of other tests hold descriptors that were closed here, until they execute their program.
    let mut udp = None;
    assert!(eventually(|| {
        udp = UdpPort::bind(UdpConfig::new(all)).ok();
        udp.is_some()
    }));
    let mut udp = udp.expect("bound");
    let mut udp_bench = Bench::new();
    udp.start(&mut udp_bench.cx()).expect("starts");
    assert!(UdpPort::bind(UdpConfig::new(all)).is_err(), "one is enough");
    assert!(pair.near.port.keep_silent());
    let far_face = pair.far_face();
    pair.far_bench.send(&mut pair.far, far_face, &[packet(5, 60, 1)]);
    assert_eq!(pair.near.receive(1).len(), 1);
    assert!(udp_bench.receive(&mut udp, 1).is_empty());
    pair.namespaces[1].enter();
    let stranger = std::net::UdpSocket::bind("192.0.2.2:7001").expect("bound");
    stranger.send_to(&packet(5, 60, 2), path.here).expect("sent");
    assert_eq!(udp_bench.receive(&mut udp, 1).len(), 1, "others' come to it");
    assert!(pair.near.receive(1).is_empty());
}

#[test]
fn a_face_that_was_destroyed_is_made_anew_and_only_once() {
    let path = path("192.0.2.1:6363", "192.0.2.2:6363");
    let Some(mut pair) = pair::<XdpSocket>(path, true) else { return };
    let face = pair.face();
    let request = |near: &mut End<XdpSocket>, remote: SocketAddr, local| {
        near.request(GROUP, |request| (request.remote, request.local) = (FaceUri::Udp(remote), local))
    };
    let near = &mut pair.near;
    assert!(matches!(request(near, path.there, None), Some(Err(CreateFaceError::Exists(status))) if status.id == face));
    assert!(request(near, path.here, None).is_none(), "another peer is another port's");
    assert!(request(near, path.there, Some(FaceUri::Udp(path.there))).is_none());
    assert!(near.port.destroy_face(&mut near.bench.cx(), face));
    let anew = request(near, path.there, Some(FaceUri::Udp(path.here))).expect("this port's").expect("a face");
    assert_ne!(anew.id, face);
    assert_eq!(pair.face(), anew.id);
}
