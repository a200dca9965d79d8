//! DPDK's virtual devices, at the ends of virtual cables and in shared memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::sharing::{THREADS, settle, start, station, stations};
use super::*;
use crate::frames::datagram::{DatagramPeer, Path as UdpPath};
use crate::frames::dpdk::{Device, DpdkError, DpdkSocket, Environment, Settings};
use crate::memif::{Framing, MemifConfig, MemifPort, Role};

impl Kind for DpdkSocket {
    /// Opens a device on the interface.
    fn own(config: &EthernetConfig) -> Arc<Device> {
        // All that the kernel says by itself would be heard.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", config.interface), "1");
        let name = format!("{},iface={},framecnt=2048", unused("net_af_packet"), config.interface);
        device(&name, 1500, config).expect("a device")
    }
}

/// An unused name for a device of this driver. The whole process shares the environment.
fn unused(driver: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{driver}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn device(name: &str, mtu: u16, config: &EthernetConfig) -> Result<Arc<Device>, DpdkError> {
    device_with_queues(1, name, mtu, config)
}

fn device_with_queues(queues: usize, name: &str, mtu: u16, config: &EthernetConfig) -> Result<Arc<Device>, DpdkError> {
    let eal = ["--no-huge", "-m", "1024"].map(str::to_owned);
    let environment = Environment::start(&eal).expect("no huge pages are needed");
    Device::open(environment, &Settings::new(name, mtu, &config.socket(), queues))
}

#[test]
fn a_device_and_a_packet_socket_understand_each_other() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<DpdkSocket>("near", |_| {}), end::<PacketSocket>("far", |_| {}));
    let sent: Vec<_> = (0..300u32).map(|n| packet(6, 40 + 20 * n as usize, n as u8)).collect();
    let is_sent =
        |received: Vec<byname_forward::Received>| received.iter().map(|r| &*r.packet).eq(sent.iter().map(|p| &**p));
    a.send(a.group(), &sent);
    assert!(is_sent(b.receive(sent.len())));
    let to_a = b.request(a.port.address(), |_| {}).expect("for this port").expect("a face").id;
    b.send(to_a, &sent);
    assert!(is_sent(a.receive(sent.len())));
}

/// A device in shared memory, and the Ethernet port on it.
fn memif(socket: &Path, mtu: u16) -> End<DpdkSocket> {
    let config = EthernetConfig::new("memif0");
    let name = format!("{},role=server,socket-abstract=no,socket={}", unused("net_memif"), socket.display());
    let opened = device(&name, mtu, &config).expect("a device");
    end_of(config, opened)
}

fn memif_client(socket: &Path) -> (MemifPort, Bench) {
    let mut config = MemifConfig::new(socket, Role::Client);
    config.framing = Framing::Ethernet;
    let mut bench = Bench::new();
    let mut port = MemifPort::open(config).expect("a client needs nothing yet");
    port.start(&mut bench.cx()).expect("starts");
    (port, bench)
}

/// Advances time until the device's state is `up`, and the other port, if any, is up.
fn pass_until(end: &mut End<DpdkSocket>, mut other: Option<(&mut MemifPort, &mut Bench)>, up: bool) {
    for _ in 0..100 {
        let other_is_up = other.as_ref().is_none_or(|(_, bench)| {
            let mut events = bench.events.iter();
            events.any(|(_, event)| matches!(event, FaceEvent::Up(_)))
        });
        if other_is_up && end.port.status(end.bench.now, end.group()).expect("a face").up == up {
            return;
        }
        if let Some((port, bench)) = &mut other {
            bench.wait(*port, 50);
        }
        std::thread::sleep(Duration::from_millis(20));
        end.bench.now = end.bench.now + RETRY_INTERVAL;
        end.port.on_deadline(&mut end.bench.cx());
    }
    panic!("the device does not get there");
}

#[test]
fn a_device_whose_peer_goes_and_comes_back_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memif.sock");
    let mut a = memif(&socket, 1500);
    assert!(!a.port.status(Ticks(0), a.group()).expect("a face").up);
    a.send(a.group(), &[packet(5, 60, 1)]);
    assert_eq!(a.link(a.group()).out_drops, 1);
    for round in 0..2 {
        let (mut port, mut bench) = memif_client(&socket);
        pass_until(&mut a, Some((&mut port, &mut bench)), true);
        let face = bench.events.iter().find_map(|(_, event)| match event {
            FaceEvent::Created(status) => Some(status.id),
            _ => None,
        });
        let sent: Vec<_> = (0..100).map(|n| packet(5, 60 + n, round)).collect();
        a.send(a.group(), &sent);
        assert_eq!(bench.receive(&mut port, 100).len(), 100);
        bench.send(&mut port, face.expect("a face"), &sent);
        let received = a.receive(100);
        assert!(received.iter().all(|r| r.face == a.group()) && received.len() == 100, "{}", received.len());
        assert_eq!(a.drops(), []);
        drop(port);
        pass_until(&mut a, None, false);
    }
}

#[test]
fn a_loop_that_sleeps_wakes_to_look_and_one_that_is_down_does_not() {
    if !cable() {
        return;
    }
    let (mut a, mut b) = (end::<DpdkSocket>("near", |_| {}), end::<PacketSocket>("far", |_| {}));
    let now = a.bench.now;
    a.port.fall_asleep(now);
    assert_eq!(a.port.next_deadline(), Some(now + LOOK_INTERVAL));
    b.send(b.group(), &[packet(5, 60, 1)]);
    assert!(a.port.has_input());
    a.bench.now = now + LOOK_INTERVAL;
    a.port.on_deadline(&mut a.bench.cx());
    assert_eq!(a.port.next_deadline(), Some(now + RETRY_INTERVAL));
    assert_eq!(a.receive(1).len(), 1);
    let folder = tempfile::tempdir().expect("a folder");
    let mut down = memif(&folder.path().join("nobody.sock"), 1500);
    down.port.fall_asleep(now);
    assert_eq!(down.port.next_deadline(), Some(now + RETRY_INTERVAL));
}

/// Ports on both pairs of queues of a device that returns each frame by the queue that it was sent by.
fn reflected(config: &EthernetConfig) -> Vec<End<DpdkSocket>> {
    let opened = device_with_queues(THREADS, &unused("net_ring"), 1500, config).expect("a device");
    assert_eq!(opened.queues(), THREADS);
    start(EthernetPort::open_for_threads(config.clone(), opened, THREADS).expect("it is free"))
}

#[test]
fn each_pair_of_queues_is_a_port() {
    const STATIONS: usize = 40;
    let mut near = reflected(&EthernetConfig::new("dpdk0"));
    let here = near[0].port.address();
    for round in 0..4usize {
        for number in 0..STATIONS {
            let way = if round == 0 { number % 2 } else { round % 2 };
            near[way].inject(frame::header(here, station(number)), &packet(5, 60 + round, number as u8));
            near[way].inject(frame::header(GROUP, station(number)), &packet(5, 90, number as u8));
        }
        let group = near[0].group();
        let mut heard = [0; STATIONS];
        for (number, received) in settle(&mut near).into_iter().enumerate() {
            let stations = stations(&mut near[number]);
            for received in received {
                let sender = usize::from(received.packet[10]);
                heard[sender] += if number == 0 && received.face == group { 100 } else { 1 };
                assert!(received.face == group || stations[&received.face] == station(sender) && number == sender % 2);
            }
        }
        assert_eq!(heard, [101; STATIONS], "each packet once, round {round}");
    }
    assert!(near.iter().all(|end| end.drops().is_empty()), "{:?}", near[1].drops());
}

#[test]
fn a_question_by_any_queue_is_answered_and_tells_where_the_peer_is() {
    let address = |text: &str| text.parse().expect("an address");
    let path = UdpPath { here: address("192.0.2.1:6363"), there: address("192.0.2.2:6363") };
    let mut config = EthernetConfig::new("dpdk0");
    config.datagrams.push(DatagramPeer { path, station: None });
    let mut near = reflected(&config);
    let face = near[0].port.peers.iter_mut().find(|(_, face)| face.transport.peer == Peer::Datagrams(path));
    let face = face.expect("the first port's").0;
    near[0].send(face, &[packet(5, 60, 1)]);
    assert_eq!(near[0].link(face).out_drops, 1, "whom to?");
    let host = station(9);
    let question = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &host.0, &[192, 0, 2, 2], &[0; 6], &[192, 0, 2, 1]].concat();
    let mut header = frame::header(MacAddress([0xff; 6]), host);
    (header[12], header[13]) = (8, 6);
    near[1].inject(header, &question);
    settle(&mut near);
    // The answer comes back, as everything does, and is not for us.
    assert_eq!(near[1].drops(), [("ethernet_not_ours", 1)]);
    near[0].send(face, &[packet(5, 60, 1)]);
    assert_eq!(near[0].link(face).out_drops, 1);
}

#[test]
fn a_device_with_one_pair_of_queues_has_one_port() {
    if !cable() {
        return;
    }
    let config = EthernetConfig::new("near");
    let name = format!("{},iface=near,framecnt=2048", unused("net_af_packet"));
    let opened = device_with_queues(THREADS, &name, 1500, &config).expect("a device");
    assert_eq!(opened.queues(), 1);
    assert_eq!(EthernetPort::<DpdkSocket>::open_for_threads(config, opened, THREADS).expect("it is free").len(), 1);
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let config = EthernetConfig::new("dpdk0");
    let told = |name: &str| device(name, 1500, &config).err().map_or_else(String::new, |error| error.to_string());
    assert!(told("0000:ff:1f.7").contains("DPDK cannot use the device \"0000:ff:1f.7\" (No such device"));
    for name in ["no_such_driver0", "net_af_packet99,iface=nowhere", ""] {
        let told = told(name);
        assert!(told.contains("dpdk-devbind.py --status"), "{name}: {told}");
    }
    let ring = unused("net_null");
    let opened = device(&ring, 1500, &config).expect("a device");
    assert!(told(&ring).contains("File exists"), "it is in use");
    let open = || EthernetPort::<DpdkSocket>::open(config.clone(), Arc::clone(&opened));
    let error = || open().err().map(|e| e.to_string());
    let first = open().expect("it is free");
    assert!(error().is_some_and(|told| told.contains("busy")), "two ports on one device");
    drop(first);
    assert_eq!(error(), None);
    drop(opened);
    assert!(device(&ring, 1500, &config).is_ok(), "it was closed");
}
