//! Peers by UDP in frames, with a plain UDP port in another namespace at the other end of the cable.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command};

use nix::sched::setns;

use super::*;
use crate::udp::{UdpConfig, UdpPort};

/// A namespace, for as long as a process sleeps in it.
struct Namespace(Child);

impl Namespace {
    /// This thread's.
    fn current() -> Self {
        Namespace(Command::new("sleep").arg("600").spawn().expect("sleep"))
    }

    /// Puts this thread into it.
    fn enter(&self) {
        let file = File::open(format!("/proc/{}/ns/net", self.0.id())).expect("the process runs");
        setns(file, CloneFlags::CLONE_NEWNET).expect("allowed, as making it was");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port by XDP in one namespace, and a UDP port in another, with a cable between them.
struct Pair {
    near: End<XdpSocket>,
    far: UdpPort,
    far_bench: Bench,
    namespaces: [Namespace; 2],
}

/// `None` where namespaces are not allowed.
fn pair(path: Path, knows_station: bool) -> Option<Pair> {
    if !cable() {
        return None;
    }
    let here = Namespace::current();
    unshare(CloneFlags::CLONE_NEWNET).expect("allowed, as before");
    let there = Namespace::current();
    here.enter();
    let length = if path.here.is_ipv4() { "24" } else { "64 nodad" };
    assert!(ip(&format!("link set far address 02:00:00:00:00:02 netns {}", there.0.id())));
    // The system answers for the address, and gets all that is not the peer's.
    assert!(ip(&format!("addr add {}/{length} dev near", path.here.ip())));
    let station = knows_station.then_some(MacAddress([2, 0, 0, 0, 0, 2]));
    let near = end::<XdpSocket>("near", |config| config.datagrams.push(DatagramPeer { path, station }));
    there.enter();
    assert!(ip("link set far up") && ip(&format!("addr add {}/{length} dev far", path.there.ip())));
    let mut far_bench = Bench::new();
    // Longer ones the system would fragment.
    let mtu = 1500 - path.overhead();
    let mut far = UdpPort::bind(UdpConfig { mtu, ..UdpConfig::new(path.there) }).expect("bound");
    far.start(&mut far_bench.cx()).expect("starts");
    Some(Pair { near, far, far_bench, namespaces: [here, there] })
}

fn path(here: &str, there: &str) -> Path {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Path { here: address(here), there: address(there) }
}

impl Pair {
    /// The face that was configured.
    fn face(&self) -> FaceId {
        let peer = Peer::Datagrams(self.near.port.config.datagrams[0].path);
        self.near.port.peers.find(&peer).expect("it is there from the start")
    }

    /// The far end's face to the near one, made by management.
    fn far_face(&mut self) -> FaceId {
        let request = FaceRequest::to(FaceUri::Udp(self.near.port.config.datagrams[0].path.here));
        self.far.create_face(&mut self.far_bench.cx(), &request).expect("its kind").expect("a face").id
    }
}

fn assert_exchange(path: Path) {
    let Some(mut pair) = pair(path, true) else { return };
    let face = pair.face();
    let status = pair.near.port.status(Ticks(0), face).expect("a face");
    assert_eq!((status.remote, status.local), (FaceUri::Udp(path.there), FaceUri::Udp(path.here)));
    assert_eq!((status.mtu, status.persistency), (Some(1500 - path.overhead() as u64), Persistency::Permanent));
    // Of every length, odd and even, one frame and several.
    let sent: Vec<_> = (0..100).map(|n| packet(6, 300 + 77 * n, n as u8)).collect();
    pair.near.send(face, &sent);
    let received = pair.far_bench.receive(&mut pair.far, sent.len());
    assert!(received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p)), "{} came", received.len());
    let back = received[0].face;
    pair.far_bench.send(&mut pair.far, back, &sent);
    let received = pair.near.receive(sent.len());
    assert!(received.iter().all(|r| r.face == face) && received.len() == sent.len(), "{} came", received.len());
    assert_eq!(pair.near.drops(), []);
}

#[test]
fn datagrams_in_frames_are_those_of_a_udp_face() {
    assert_exchange(path("192.0.2.1:6363", "192.0.2.2:6363"));
    assert_exchange(path("[2001:db8::1]:6363", "[2001:db8::2]:7000"));
}

#[test]
fn a_station_is_learnt_from_its_datagrams() {
    let path = path("192.0.2.1:6363", "192.0.2.2:6363");
    let Some(mut pair) = pair(path, false) else { return };
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
    let Some(mut pair) = pair(path, true) else { return };
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
fn a_face_that_was_destroyed_is_made_anew_and_only_once() {
    let path = path("192.0.2.1:6363", "192.0.2.2:6363");
    let Some(mut pair) = pair(path, true) else { return };
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
