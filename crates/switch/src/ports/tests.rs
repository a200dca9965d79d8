//! A switch with two ports and one or two threads, in a network namespace of each test's own. Tests use the other ends of its cables frame by
//! frame.

use std::collections::BTreeSet;
use std::process::Command as Process;
use std::sync::mpsc;

use crate::key::{Key, KeyKind};
use crate::switch::{CHECK_BITS, ENTRY_BITS, Plan, Report, Role, check};
use byname_lookup::flat::othello::{Options, Othello};
use byname_lookup::{Change, Control, EntryId};
use byname_wire::{MacAddress, NameHashKey};

use super::*;
use byname_face::frames::OpenError;
use byname_face::frames::interface::Interface;
use byname_face::frames::ring::{Frames, RingConfig};
use byname_face::port::Pushed;
use byname_face::system::enter_new_network;

const KEY: NameHashKey = NameHashKey::new([5, 6]);
const PATIENCE: Duration = Duration::from_secs(5);
const STATIONS: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];

/// Runs `ip` in this thread's namespace.
fn ip(arguments: &str) -> bool {
    let command = Process::new("ip").args(arguments.split_whitespace()).output();
    command.is_ok_and(|done| done.status.success())
}

/// Moves this thread into a namespace with cables from `a` to `port-a` and from `b` to `port-b`.
fn cables() -> bool {
    let cable = |name: &str| {
        ip(&format!("link add dev {name} type veth peer name port-{name}"))
            && ip(&format!("link set dev {name} up"))
            && ip(&format!("link set dev port-{name} up"))
    };
    let made = enter_new_network().is_ok() && cable("a") && cable("b");
    if !made {
        eprintln!("skipped: network namespaces and virtual cables are not allowed here");
    }
    made
}

fn port(interface: &str) -> Result<SwitchPort, OpenError> {
    let config =
        SwitchPortConfig { interface: interface.to_owned(), receive_ring_bytes: 1 << 18, transmit_ring_bytes: 1 << 18 };
    SwitchPort::open(config)
}

struct Bench {
    handle: SwitchHandle,
    events: mpsc::Receiver<SwitchEvent>,
    threads: Vec<JoinHandle<()>>,
    stations: [PacketSocket; 2],
}

impl Bench {
    /// A switch whose two ports are for hosts, and two stations.
    fn new(threads: usize) -> Self {
        Bench::with_keys(threads, KeyKind::Mac, STATIONS.map(Key::Mac))
    }

    /// A switch that has such a key at each of its ports.
    fn with_keys(threads: usize, kind: KeyKind, keys: [Key; 2]) -> Self {
        let ports = ["port-a", "port-b"].map(|name| port(name).expect("the interface is there"));
        let (sender, events) = mpsc::channel();
        let told = move |event| sender.send(event).is_ok();
        let (handle, threads) = start(kind, ports.into(), threads, told).expect("starts");
        let ring = RingConfig {
            frames: Frames::All,
            paths: Vec::new(),
            promiscuous: true,
            qdisc_bypass: false,
            receive_bytes: 0,
            transmit_bytes: 0,
        };
        let stations = ["a", "b"].map(|name| {
            let interface = Interface::ethernet(name).expect("the interface is there");
            PacketSocket::open(&interface, &ring).expect("a socket")
        });
        let bench = Bench { handle, events, threads, stations };
        let mut down = BTreeSet::from([0, 1]);
        while !down.is_empty() {
            match bench.event() {
                SwitchEvent::Link { port, up: true } if down.remove(&port) => {}
                other => panic!("{other:?}"),
            }
        }
        let options = Options { entry_bits: ENTRY_BITS + CHECK_BITS, ..Options::default() };
        let mut control = Othello::new(options).expect("a little memory");
        let set = |port: u32| {
            let mut name = Vec::new();
            keys[port as usize].write(kind, &mut name);
            let digest = KEY.digest_bytes(&name);
            Change::Set(digest, check().stored(digest, EntryId(port)).expect("eight bits"))
        };
        control.apply(&[set(0), set(1)]).expect("few names");
        bench.handle.set_table(KEY, control.query());
        bench.handle.set_plan(Plan { epoch: 1, hop_limit: 4, roles: vec![Role::Host; 2], ..Plan::default() });
        bench
    }

    fn event(&self) -> SwitchEvent {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    fn send(&mut self, station: usize, header: &[u8], rest: &[u8]) {
        assert_eq!(self.stations[station].push(header, (rest, &[])), Pushed::Done);
        assert!(self.stations[station].send().expect("sent"));
    }

    /// The next frame that a station hears from the other one.
    fn receive(&mut self, station: usize) -> Vec<u8> {
        let end = Instant::now() + PATIENCE;
        let mut heard = None;
        while Instant::now() < end {
            self.stations[station].receive(1, |arrivals| {
                let of_other = |bytes: &&[u8]| bytes.get(6..12) == Some(&STATIONS[1 - station].0[..]);
                heard = arrivals.iter().map(|arrival| arrival.bytes).find(of_other).map(<[u8]>::to_vec);
            });
            if let Some(frame) = heard {
                return frame;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no frame; the switch has {:?}", self.handle.status());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.handle.shutdown();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn header(destination: MacAddress, source: MacAddress, more: &[u8]) -> Vec<u8> {
    [&destination.0[..], &source.0, more].concat()
}

#[test]
fn frames_cross_the_switch_as_they_are() {
    for threads in [1, 2] {
        if !cables() {
            return;
        }
        let mut bench = Bench::new(threads);
        let [a, b] = STATIONS;
        for len in [46, 100, 1500] {
            let payload: Vec<_> = (0..len).map(|n| n as u8).collect();
            let header = header(b, a, &[0x88, 0xb6]);
            bench.send(0, &header, &payload);
            assert!(bench.receive(1) == [&header[..], &payload].concat(), "{len}");
        }
        let to_all = header(MacAddress([0xff; 6]), b, &[8, 6]);
        bench.send(1, &to_all, &[1; 46]);
        assert_eq!(bench.receive(0), [&to_all[..], &[1; 46]].concat());
        let status = bench.handle.status().expect("it runs");
        assert!(status.ports.iter().all(|port| port.up && port.mtu == Some(1500) && port.role == Role::Host));
        let [a, b] = &status.ports[..] else { panic!("{status:?}") };
        assert!(a.counters.frames_in >= 3 && b.counters.frames_out >= 3, "{status:?}");
        let given: Vec<_> = status.threads.iter().map(|thread| thread.crossing.given).collect();
        let taken: Vec<_> = status.threads.iter().map(|thread| thread.crossing.taken).collect();
        match threads {
            1 => assert_eq!((given, taken), (vec![0], vec![0])),
            _ => assert!(given[0] >= 3 && given[1] >= 1 && taken == [given[1], given[0]], "{status:?}"),
        }
    }
}

/// The kernel removes the tag on the way to the switch, and again on the way to a station.
#[test]
fn the_tag_of_a_vlan_is_put_back() {
    for threads in [1, 2] {
        if !cables() {
            return;
        }
        let mut bench = Bench::new(threads);
        let [a, b] = STATIONS;
        bench.send(0, &header(b, a, &[0x81, 0, 0x20, 7, 0x88, 0xb6]), &[9; 1500]);
        let end = Instant::now() + PATIENCE;
        let mut heard = None;
        while heard.is_none() && Instant::now() < end {
            bench.stations[1].receive(1, |arrivals| {
                heard = arrivals.iter().find(|arrival| arrival.bytes.len() == 1514).map(|arrival| arrival.vlan);
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(heard, Some(Some([0x81, 0, 0x20, 7])));
    }
}

#[test]
fn unknown_stations_are_reported_and_not_flooded_to() {
    for threads in [1, 2] {
        if !cables() {
            return;
        }
        let mut bench = Bench::new(threads);
        let stranger = MacAddress([2, 0, 0, 0, 0, 9]);
        bench.send(0, &header(stranger, stranger, &[0x88, 0xb6]), &[0; 46]);
        let report = Report { port: 0, source: Key::Mac(stranger) };
        while bench.event() != SwitchEvent::Heard(report) {}
        let dropped =
            |bench: &Bench| bench.handle.status().expect("it runs").ports[0].counters.drops[Reason::UnknownDestination];
        let end = Instant::now() + PATIENCE;
        while dropped(&bench) == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(dropped(&bench) > 0, "it waits, but not for ever");
        bench.stations[1].receive(usize::MAX, |arrivals| {
            assert!(arrivals.iter().all(|arrival| arrival.bytes[6..12] != stranger.0), "it went to the other station");
        });
    }
}

/// GTP-U packets cross as they are, by the tunnel and not by the station that they are for.
#[test]
fn tunnels_lead_to_their_port() {
    if !cables() {
        return;
    }
    let tunnel = |tunnel, address: &str| Key::Gtp { tunnel, address: address.parse().expect("an address") };
    let mut bench = Bench::with_keys(1, KeyKind::Gtp, [tunnel(11, "192.0.2.1"), tunnel(12, "2001:db8::1")]);
    let [a, b] = STATIONS;
    let gateway = MacAddress([2, 0, 0, 0, 0, 3]);
    for (from, source, destination, number) in
        [(0, "2001:db8::9", "2001:db8::1", 12u32), (1, "192.0.2.9", "192.0.2.1", 11)]
    {
        let message = [&[0x30, 255, 0, 4][..], &number.to_be_bytes(), b"data"].concat();
        let rest = crate::packet::tests::Written::new(source, destination, 2152, &message).rest();
        let header = header(gateway, [a, b][from], &[]);
        bench.send(from, &header, &rest);
        assert_eq!(bench.receive(1 - from), [&header[..], &rest].concat());
    }
}

#[test]
fn a_port_goes_down_and_comes_back() {
    for threads in [1, 2] {
        if !cables() {
            return;
        }
        let mut bench = Bench::new(threads);
        assert!(ip("link set dev b down"));
        while bench.event() != (SwitchEvent::Link { port: 1, up: false }) {}
        assert!(!bench.handle.status().expect("it runs").ports[1].up);
        assert!(ip("link set dev b up"));
        while bench.event() != (SwitchEvent::Link { port: 1, up: true }) {}
        // The station's socket was told too.
        let _ = bench.stations[1].take_error();
        let [a, b] = STATIONS;
        let header = header(a, b, &[0x88, 0xb6]);
        bench.send(1, &header, &[3; 46]);
        assert_eq!(bench.receive(0)[..14], header[..]);
    }
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    if !cables() {
        return;
    }
    let error = port("none").err().expect("none such").to_string();
    assert_eq!(error, "there is no network interface none; `ip link` lists them");
}

/// The number in a frame of the other station.
fn number(station: usize, frame: &[u8]) -> Option<u32> {
    let is_of_other = frame.get(6..14) == Some(&[&STATIONS[1 - station].0[..], &[0x88, 0xb6]].concat());
    frame
        .get(14..18)
        .filter(|_| is_of_other)
        .map(|number| u32::from_be_bytes([number[0], number[1], number[2], number[3]]))
}

/// Both stations send as fast as they can; the one that hears reads from time to time.
#[test]
fn each_frame_arrives_once_and_in_order_or_is_counted() {
    const FRAMES: u32 = 20_000;
    for threads in [1, 2] {
        if !cables() {
            return;
        }
        let mut bench = Bench::new(threads);
        let [a, b] = STATIONS;
        let headers = [header(b, a, &[0x88, 0xb6]), header(a, b, &[0x88, 0xb6])];
        let (mut sent, mut heard, mut last) = ([0u32; 2], [0u32; 2], [0u32; 2]);
        let mut unheard = [0u64; 2];
        let mut quiet_since = Instant::now();
        while sent != [FRAMES; 2] || quiet_since.elapsed() < Duration::from_millis(300) {
            for station in 0..2 {
                for _ in 0..300.min(FRAMES - sent[station]) {
                    let payload = [&(sent[station] + 1).to_be_bytes()[..], &[7; 60]].concat();
                    match bench.stations[station].push(&headers[station], (&payload, &[])) {
                        Pushed::Done => sent[station] += 1,
                        _ => break,
                    }
                }
                let _ = bench.stations[station].send();
                let mut numbers = Vec::new();
                bench.stations[station].receive(usize::MAX, |arrivals| {
                    numbers.extend(arrivals.iter().filter_map(|arrival| number(station, arrival.bytes)));
                });
                for number in numbers {
                    assert!(number > last[station], "{number} after {}: in order, and none twice", last[station]);
                    last[station] = number;
                    heard[station] += 1;
                    quiet_since = Instant::now();
                }
                unheard[station] += bench.stations[station].take_drops();
            }
        }
        let status = bench.handle.status().expect("they run");
        for to in 0..2 {
            let (port_in, port_out) = (&status.ports[1 - to].counters, &status.ports[to].counters);
            let dropped =
                port_in.drops[Reason::RingFull] + port_out.drops[Reason::Busy] + port_out.drops[Reason::OwnerBusy];
            let all = u64::from(heard[to]) + unheard[to] + dropped;
            assert!(heard[to] > 1000 && all >= FRAMES.into(), "{threads} threads, {heard:?}, {unheard:?}: {status:?}");
        }
        assert!(status.threads.iter().all(|thread| thread.crossing.waiting == 0), "{status:?}");
    }
}
