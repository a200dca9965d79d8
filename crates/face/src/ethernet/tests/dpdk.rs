//! DPDK's virtual devices, at the ends of virtual cables and in shared memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
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
    let eal = ["--no-huge", "-m", "1024"].map(str::to_owned);
    let environment = Environment::start(&eal).expect("no huge pages are needed");
    Device::open(environment, &Settings::new(name, mtu, &config.socket(), 1))
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
