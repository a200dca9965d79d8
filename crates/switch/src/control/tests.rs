//! Tests with networks in memory: a controller, agents and their switches. Frames travel from switch to switch until
//! all are delivered. Messages may be lost.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::frame::Arrived;
use crate::key::{Key, KeyKind};
use crate::switch::{Reason, Sent, Switch};
use byname_forward::Ticks;
use byname_wire::MacAddress;

use super::message::{ToController, ToSwitch};
use super::session::{Caller, Greeting, Hello, Secret, Session, Welcome, read_frame};
use super::*;

const ALL: MacAddress = MacAddress([0xff; 6]);
/// Ports of each switch: to the next switch, to the previous one, and two for hosts.
const PORTS: [&str; 4] = ["next", "before", "h1", "h2"];
const HOST_PORTS: [usize; 2] = [2, 3];

fn host(number: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, number])
}

fn frame(destination: MacAddress, source: MacAddress) -> Vec<u8> {
    [&destination.0[..], &source.0, &[8, 0], &[0x45; 46]].concat()
}

struct Node {
    switch: Switch,
    session: Option<(Session, Agent)>,
    up: Vec<bool>,
}

struct Net {
    secret: Secret,
    controller: Controller,
    /// The controller's end of each session.
    sessions: Vec<Option<Session>>,
    nodes: Vec<Node>,
    links: HashMap<(usize, usize), (usize, usize)>,
    /// Random bytes that the controller has drawn.
    network: [u8; 16],
    engine: Engine,
    key: KeyKind,
    now: Instant,
    begun: Instant,
    /// One table message in this many is lost.
    lost_one_in: u64,
    random: u64,
    /// Frames that left on host ports.
    delivered: Vec<((usize, usize), Vec<u8>)>,
}

fn controller(network: &str, engine: Engine, key: &Secret, nonce: &[u8; 16]) -> Controller {
    let mut network = SwitchNetwork::parse(network, Path::new("net.toml")).expect("good");
    network.engine = engine;
    Controller::new(network, key.names_key(nonce), 250).expect("a little memory")
}

/// Configuration of switches in a row or in a ring.
fn network(switches: usize, ring: bool, more: &str) -> String {
    let names: Vec<_> = (0..switches).map(|n| format!("\"s{n}\"")).collect();
    let mut text = format!("listen = [\"unix:///c\"]\nswitches = [{}]\n{more}\n", names.join(", "));
    for n in 0..if ring { switches } else { switches - 1 } {
        text += &format!("[[link]]\nends = [\"s{n}:next\", \"s{}:before\"]\n", (n + 1) % switches);
    }
    text
}

impl Net {
    fn new(switches: usize, ring: bool, engine: Engine, more: &str) -> Self {
        let secret = Secret::new(b"a secret of sixteen");
        let network = network(switches, ring, more);
        let config = SwitchNetwork::parse(&network, Path::new("net.toml")).expect("good");
        let port = |end: &super::PortName| {
            let switch = end.switch[1..].parse().expect("a number");
            (switch, PORTS.iter().position(|port| *port == end.port).expect("a port"))
        };
        let ends = config.links.iter().map(|link| link.ends.each_ref().map(port));
        let mut net = Net {
            controller: controller(&network, engine, &secret, &[1; 16]),
            secret,
            sessions: (0..switches).map(|_| None).collect(),
            nodes: (0..switches)
                .map(|_| Node {
                    switch: Switch::with_key(config.key, PORTS.len()),
                    session: None,
                    up: vec![true; PORTS.len()],
                })
                .collect(),
            links: ends.flat_map(|[a, b]| [(a, b), (b, a)]).collect(),
            network: [1; 16],
            engine,
            key: config.key,
            now: Instant::now(),
            begun: Instant::now(),
            lost_one_in: u64::MAX,
            random: 1,
            delivered: Vec::new(),
        };
        if !ring {
            (net.nodes[0].up[1], net.nodes[switches - 1].up[0]) = (false, false);
        }
        for n in 0..switches {
            net.connect(n);
        }
        net.settle();
        net
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) as usize) % below
    }

    fn ticks(&self) -> Ticks {
        Ticks(self.now.duration_since(self.begun).as_nanos() as u64 + 1_000_000_000)
    }

    /// Establishes a session, from the handshake on.
    fn connect(&mut self, n: usize) {
        let hello = Hello { key: self.key, name: format!("s{n}"), ports: PORTS.map(String::from).into() };
        let (greeting, framed) = Greeting::new(&self.secret, &hello).expect("randomness");
        let message = read_frame(&mut &framed[..]).expect("a frame");
        let (caller, known) = Caller::hear(&self.secret, &message).expect("the same secret");
        let number = self.controller.number_of(&known.name).expect("a switch of the network");
        let welcome = Welcome { engine: self.engine, network: self.network };
        let (near, framed) = caller.welcome(&welcome).expect("randomness");
        self.controller.connect(number, known.key, known.ports, near.table_key).expect("welcome");
        let message = read_frame(&mut &framed[..]).expect("a frame");
        let (far, welcome) = greeting.welcomed(&message).expect("the same secret");
        let agent = Agent::new(self.now, &self.secret, &far, &welcome);
        self.sessions[number] = Some(near);
        self.nodes[n].session = Some((far, agent));
        self.tell_links(n);
    }

    fn disconnect(&mut self, n: usize) {
        (self.sessions[n], self.nodes[n].session) = (None, None);
        self.controller.disconnect(n);
    }

    fn tell_links(&mut self, n: usize) {
        let links = ToController::Links(self.nodes[n].up.clone());
        self.tell(n, &links);
    }

    /// Sends a switch's message through its session.
    fn tell(&mut self, n: usize, message: &ToController) {
        let (Some((far, _)), Some(near)) = (&mut self.nodes[n].session, &mut self.sessions[n]) else { return };
        let framed = far.to_controller.seal(&message.encode());
        let sealed = read_frame(&mut &framed[..]).expect("a frame");
        let payload = near.to_controller.open(&sealed).expect("sealed");
        self.controller.receive(n, ToController::decode(&payload).expect("a message"));
    }

    /// The controller sends its messages and beats, and the switches apply them.
    fn flush(&mut self) {
        let mut messages = Vec::new();
        self.controller.flush(&mut |switch, message| messages.push((switch, message))).expect("few names");
        self.controller.beat(&mut |switch, message| messages.push((switch, message)));
        for (n, message) in messages {
            let lossy = matches!(message, ToSwitch::Table(_)) && self.lost_one_in < u64::MAX;
            if lossy && self.random(self.lost_one_in as usize) == 0 {
                continue;
            }
            let (Some((far, agent)), Some(near)) = (&mut self.nodes[n].session, &mut self.sessions[n]) else {
                continue;
            };
            let framed = near.to_switch.seal(&message.encode());
            let sealed = read_frame(&mut &framed[..]).expect("a frame");
            let payload = far.to_switch.open(&sealed).expect("sealed");
            let told = agent.receive(self.now, ToSwitch::decode(&payload).expect("a message"));
            match told {
                Told::Nothing | Told::Changed => {}
                Told::Plan(plan) => self.nodes[n].switch.set_plan(plan),
                Told::Table(key, fib) => self.nodes[n].switch.set_table(*key, fib),
                Told::Ask => self.tell(n, &ToController::TableNeeded),
                Told::Refused(why) => panic!("{why}"),
            }
        }
        let ticks = self.ticks();
        let mut moving = VecDeque::new();
        for (n, node) in self.nodes.iter_mut().enumerate() {
            node.switch.retry_held(ticks, &mut |port, header, rest| {
                moving.push_back((n, port, [header, rest].concat()));
                Ok(Sent::Left)
            });
        }
        self.carry(moving);
    }

    /// Repeats until all lost messages have been sent again.
    fn settle(&mut self) {
        let lost_one_in = std::mem::replace(&mut self.lost_one_in, u64::MAX);
        for _ in 0..4 {
            self.now += Duration::from_secs(6);
            self.flush();
        }
        self.lost_one_in = lost_one_in;
        let stale = |node: &Node| node.session.as_ref().is_some_and(|(_, agent)| agent.is_stale());
        assert!(!self.nodes.iter().any(stale));
    }

    /// Carries frames from switch to switch until they are delivered. Each has left its switch by a port.
    fn carry(&mut self, mut moving: VecDeque<(usize, usize, Vec<u8>)>) {
        let mut steps = 0;
        while let Some((n, port, bytes)) = moving.pop_front() {
            steps += 1;
            assert!(steps < 10_000, "frames go in circles");
            if !self.nodes[n].up[port] {
                continue;
            }
            let Some(&(to, at)) = self.links.get(&(n, port)) else {
                self.delivered.push(((n, port), bytes));
                continue;
            };
            if self.nodes[to].up[at] {
                self.arrive(to, at, bytes, &mut moving);
            }
        }
    }

    fn arrive(&mut self, n: usize, port: usize, bytes: Vec<u8>, moving: &mut VecDeque<(usize, usize, Vec<u8>)>) {
        let ticks = self.ticks();
        let arrived = [Arrived { bytes: &bytes, vlan: None }];
        self.nodes[n].switch.forward(ticks, port, &arrived, &mut |to, header, rest| {
            moving.push_back((n, to, [header, rest].concat()));
            Ok(Sent::Left)
        });
    }

    /// A host sends a frame. Returns where it was delivered, before the controller receives any messages.
    fn send(&mut self, (n, port): (usize, usize), destination: MacAddress, source: MacAddress) -> Vec<(usize, usize)> {
        self.send_bytes((n, port), frame(destination, source));
        self.places()
    }

    /// A host sends a frame. Frames that are delivered at once are noted.
    fn send_bytes(&mut self, (n, port): (usize, usize), bytes: Vec<u8>) {
        self.now += Duration::from_millis(200);
        self.delivered.clear();
        let mut moving = VecDeque::new();
        self.arrive(n, port, bytes, &mut moving);
        self.carry(moving);
        let reports: Vec<_> = self.nodes[n].switch.take_reports().collect();
        for report in reports {
            self.tell(n, &ToController::Heard { port: report.port as u8, source: report.source });
        }
    }

    /// The frames that were delivered, in the order of their places.
    fn taken(&mut self) -> Vec<((usize, usize), Vec<u8>)> {
        let mut delivered = std::mem::take(&mut self.delivered);
        delivered.sort_unstable();
        delivered
    }

    /// Ports on which frames left. Checks that the frames are unchanged.
    fn places(&self) -> Vec<(usize, usize)> {
        let plain = |bytes: &[u8]| bytes.len() == 60 && bytes[12..14] == [8, 0];
        assert!(self.delivered.iter().all(|(_, bytes)| plain(bytes)));
        let mut places: Vec<_> = self.delivered.iter().map(|(place, _)| *place).collect();
        places.sort_unstable();
        places
    }

    fn drops(&self, reason: Reason) -> u64 {
        let counters = self.nodes.iter().flat_map(|node| node.switch.counters());
        counters.map(|counters| counters.drops[reason]).sum()
    }
}

fn engines() -> [Engine; 2] {
    [Engine::Othello, Engine::Line]
}

#[test]
fn hosts_are_learned_from_their_first_frame_and_the_answer_to_it_arrives() {
    for engine in engines() {
        let mut net = Net::new(3, false, engine, "");
        let all: Vec<_> = (0..3).flat_map(|n| HOST_PORTS.map(|port| (n, port))).collect();
        let others: Vec<_> = all.iter().copied().filter(|place| *place != (0, 2)).collect();
        assert_eq!(net.send((0, 2), ALL, host(1)), others, "it is asked of all, once");
        // The answer overtakes the report of the host that asked.
        assert_eq!(net.send((2, 3), host(1), host(2)), []);
        net.flush();
        assert_eq!(net.places(), [(0, 2)]);
        assert_eq!(net.send((0, 2), host(2), host(1)), [(2, 3)]);
        assert_eq!(net.controller.hosts(), 2);
        assert_eq!(net.drops(Reason::UnknownDestination), 0);
        assert_eq!(net.send((1, 2), host(77), host(1)), []);
    }
}

#[test]
fn unknown_destinations_end_at_the_ingress() {
    let mut net = Net::new(3, false, Engine::Othello, "");
    net.send((0, 2), ALL, host(1));
    net.flush();
    for n in 0..200 {
        assert_eq!(net.send((0, 2), MacAddress([2, 7, 7, 7, 7, n]), host(1)), []);
        net.flush();
    }
    net.now += Duration::from_secs(1);
    net.flush();
    assert_eq!(net.nodes[0].switch.counters()[2].drops[Reason::UnknownDestination], 200);
    assert_eq!(net.nodes[0].switch.counters()[0].frames_out, 1, "but for the first, nothing has left");
}

#[test]
fn a_host_that_moves_is_followed() {
    for engine in engines() {
        let mut net = Net::new(3, false, engine, "");
        let places = [(0, 2), (1, 3), (2, 2), (0, 3)];
        net.send((2, 3), ALL, host(9));
        for place in places.into_iter().cycle().take(12) {
            net.send(place, host(9), host(1));
            net.flush();
            assert_eq!(net.send((2, 3), host(1), host(9)), [place]);
        }
        let counters = net.controller.counters();
        assert_eq!((counters.learned, counters.moved, net.controller.hosts()), (2, 11, 2));
    }
}

#[test]
fn hosts_of_the_configuration_stay_where_they_are() {
    let more = "hosts_max = 2\n[[host]]\naddress = \"02:00:00:00:00:01\"\nat = \"s2:h1\"\n";
    let mut net = Net::new(3, false, Engine::Othello, more);
    assert_eq!(net.send((0, 2), host(1), host(5)), [(2, 2)], "before anybody was heard");
    net.send((0, 3), ALL, host(1));
    net.flush();
    assert_eq!(net.send((0, 2), host(1), host(5)), [(2, 2)]);
    assert_eq!((net.controller.counters().refused, net.controller.hosts()), (1, 2));
    net.send((0, 3), ALL, host(6));
    assert_eq!((net.controller.counters().refused, net.controller.hosts()), (2, 2), "no more than hosts_max");
    let mut net = Net::new(2, false, Engine::Othello, "learn = false");
    net.send((0, 2), ALL, host(5));
    assert_eq!((net.controller.counters().refused, net.controller.hosts()), (1, 0));
}

#[test]
fn a_port_with_too_many_hosts_loses_its_own() {
    for engine in engines() {
        let mut net = Net::new(2, false, engine, "hosts_per_port_max = 3");
        net.send((1, 2), ALL, host(200));
        for n in 0..10 {
            net.send((0, 2), ALL, host(n));
            net.flush();
        }
        expect_the_last_three(net);
    }
}

fn expect_the_last_three(mut net: Net) {
    assert_eq!(net.controller.hosts(), 4);
    for n in 0..10 {
        let expected: &[_] = if n < 7 { &[] } else { &[(0, 2)] };
        assert_eq!(net.send((1, 2), host(n), host(200)), expected, "{n}");
    }
    // When a port goes down, the hosts learned there are forgotten.
    net.nodes[0].up[2] = false;
    net.tell_links(0);
    assert_eq!(net.controller.hosts(), 1);
}

#[test]
fn a_switch_without_controller_goes_on_and_has_the_whole_table_afterwards() {
    for engine in engines() {
        let mut net = Net::new(3, false, engine, "");
        net.send((0, 2), ALL, host(1));
        net.send((2, 2), ALL, host(2));
        net.flush();
        net.disconnect(1);
        for n in 10..60 {
            net.send((0, 3), ALL, host(n));
        }
        net.flush();
        assert_eq!(net.send((0, 2), host(2), host(1)), [(2, 2)], "through the one that was left alone");
        assert_eq!(net.send((2, 2), host(20), host(2)), [], "which knows nobody new");
        net.connect(1);
        net.flush();
        assert_eq!(net.send((2, 2), host(20), host(2)), [(0, 3)]);
    }
}

#[test]
fn a_controller_that_begins_anew_learns_everything_again() {
    let mut net = Net::new(3, false, Engine::Othello, "");
    net.send((0, 2), ALL, host(1));
    net.flush();
    assert_eq!(net.send((2, 2), host(1), host(2)), [(0, 2)]);
    net.network = [2; 16];
    net.controller = controller(&network(3, false, ""), Engine::Othello, &net.secret, &net.network);
    assert_eq!(net.send((2, 2), host(1), host(2)), [(0, 2)], "nobody has told the switches");
    (0..3).for_each(|n| net.connect(n));
    net.settle();
    assert_eq!(net.send((2, 2), host(1), host(2)), []);
    net.send((0, 2), ALL, host(1));
    net.settle();
    assert_eq!(net.send((2, 2), host(1), host(2)), [(0, 2)]);
}

#[test]
fn a_controller_that_remembers_reaches_hosts_that_are_silent() {
    let mut net = Net::new(3, false, Engine::Othello, "");
    net.send((0, 2), ALL, host(1));
    net.send((1, 2), ALL, host(3));
    net.flush();
    let learned = net.controller.learned();
    assert!(learned.contains("02:00:00:00:00:01 s0:h1\n"), "{learned}");
    net.network = [2; 16];
    net.controller = controller(&network(3, false, ""), Engine::Othello, &net.secret, &net.network);
    let text =
        format!("{learned}nonsense\n02:00:00:00:00:07 s9:h1\n02:00:00:00:00:08 s1:gone\n03:00:00:00:00:09 s1:h1\n");
    assert_eq!(net.controller.remember(&text), Ok(3));
    assert_eq!(net.controller.learned().lines().count(), 3, "nobody is here to say where that is");
    (0..3).for_each(|n| net.connect(n));
    net.settle();
    assert_eq!(net.controller.hosts(), 2, "there is no port \"gone\"");
    assert_eq!(net.send((2, 2), host(1), host(2)), [(0, 2)]);
    // The host moves as others do, and is forgotten with its port.
    net.send((2, 3), ALL, host(3));
    net.nodes[0].up[2] = false;
    net.tell_links(0);
    net.flush();
    assert_eq!(net.send((2, 2), host(3), host(2)), [(2, 3)]);
    assert!(!net.controller.learned().contains("s0:h1"));
}

#[test]
fn the_controller_says_who_is_not_there() {
    let text = network(2, false, "");
    let secret = Secret::new(b"");
    let mut controller = controller(&text, Engine::Othello, &secret, &[0; 16]);
    assert_eq!((controller.number_of("s1"), controller.number_of("s9")), (Some(1), None));
    let key = secret.names_key(&[0; 16]);
    let error = controller.connect(1, KeyKind::Mac, vec!["h1".into()], key).expect_err("a port is missing");
    assert_eq!(error, "the controller's configuration has s1:before, but the switch's `ports` are h1");
    assert!(controller.connect(1, KeyKind::Mac, vec!["p".into(); 256], key).is_err());
    let ports = PORTS.map(String::from).to_vec();
    let error = controller.connect(1, KeyKind::VlanMac, ports, key).expect_err("another key");
    assert_eq!(
        error,
        "the controller forwards by the key \"mac\", and the switch by \"vlan-mac\": write the same `key` in both files"
    );
    assert_eq!(controller.connected(), (0, 2));
    assert_eq!(controller.links_down().len(), 1);
}

/// A frame with a VLAN tag or without.
fn in_vlan(vlan: Option<u16>, destination: MacAddress, source: MacAddress) -> Vec<u8> {
    let mut bytes = frame(destination, source);
    if let Some(vlan) = vlan {
        bytes.splice(12..12, [0x81, 0, (vlan >> 8) as u8, vlan as u8]);
    }
    bytes
}

#[test]
fn vlans_share_switches_and_nothing_else() {
    let more = "key = \"vlan-mac\"\n[[segment]]\nid = 7\nplain = [\"s0:h1\", \"s2:h1\"]\ntagged = [\"s1:h1\"]\n\
                [[segment]]\nid = 8\nplain = [\"s0:h2\"]\ntagged = [\"s1:h1\", \"s2:h2\"]\n";
    for engine in engines() {
        let mut net = Net::new(3, false, engine, more);
        // The same address in two VLANs is two hosts.
        net.send_bytes((0, 2), frame(ALL, host(1)));
        let of_seven = vec![((1, 2), in_vlan(Some(7), ALL, host(1))), ((2, 2), frame(ALL, host(1)))];
        assert_eq!(net.taken(), of_seven);
        net.send_bytes((0, 3), frame(ALL, host(1)));
        let of_eight = [(1, 2), (2, 3)].map(|place| (place, in_vlan(Some(8), ALL, host(1))));
        assert_eq!(net.taken(), of_eight);
        net.flush();
        for (vlan, place) in [(7, (0, 2)), (8, (0, 3))] {
            net.send_bytes((1, 2), in_vlan(Some(vlan), host(1), host(9)));
            assert_eq!(net.taken(), [(place, frame(host(1), host(9)))]);
        }
        // VLANs that the port does not carry, and a host that is in another one.
        net.send_bytes((0, 2), in_vlan(Some(8), ALL, host(1)));
        net.send_bytes((2, 3), frame(ALL, host(3)));
        assert_eq!((net.taken(), net.drops(Reason::WrongSegment)), (vec![], 2));
        net.flush();
        net.send_bytes((2, 3), in_vlan(Some(8), host(9), host(3)));
        assert_eq!(net.taken(), [((1, 2), in_vlan(Some(8), host(9), host(3)))]);
        assert_eq!(net.controller.hosts(), 5, "1, 1, 9, 9 and 3");
        let learned = net.controller.learned();
        assert!(learned.contains("7/02:00:00:00:00:01 s0:h1\n") && learned.contains("8/02:00:00:00:00:01 s0:h2\n"));
    }
}

#[test]
fn without_segments_all_ports_carry_all_vlans() {
    let mut net = Net::new(2, false, Engine::Othello, "key = \"vlan-mac\"\ndefault_vlan = 5\n");
    net.send_bytes((0, 2), in_vlan(Some(30), ALL, host(1)));
    let places = [(0, 3), (1, 2), (1, 3)];
    assert_eq!(net.taken(), places.map(|place| (place, in_vlan(Some(30), ALL, host(1)))));
    for vlan in [None, Some(0), Some(5)] {
        net.send_bytes((0, 2), in_vlan(vlan, ALL, host(1)));
        assert_eq!(net.taken(), places.map(|place| (place, frame(ALL, host(1)))), "{vlan:?}");
    }
    // Two tags: the outer one stays, though its VLAN has none here, so that the inner one does not become its own.
    let mut two = in_vlan(Some(30), ALL, host(1));
    two.splice(12..12, [0x81, 0, 0x60, 5]);
    net.send_bytes((0, 2), two.clone());
    assert_eq!(net.taken(), places.map(|place| (place, two.clone())));
    net.send_bytes((0, 2), in_vlan(Some(4095), ALL, host(1)));
    assert_eq!((net.taken(), net.drops(Reason::Malformed)), (vec![], 1));
}

#[test]
fn vxlan_networks_have_plain_ports_and_tunnels() {
    let more = "key = \"vxlan\"\n[[segment]]\nid = 5000\nplain = [\"s0:h1\"]\ntagged = [\"s1:h1\"]\n[[segment]]\n\
                id = 6000\nplain = [\"s0:h2\"]\ntagged = [\"s1:h1\"]\n[[tunnel]]\nat = \"s1:h1\"\n\
                local = \"2001:db8::1\"\nremote = \"2001:db8::7\"\nstation = \"02:00:00:00:07:07\"\n\
                local_station = \"02:00:00:00:07:01\"\n";
    for engine in engines() {
        let mut net = Net::new(2, false, engine, more);
        for (port, network) in [(2, 5000u32), (3, 6000)] {
            net.send_bytes((0, port), frame(ALL, host(1)));
            let [(place, packet)] = &net.taken()[..] else { panic!("one") };
            assert_eq!(*place, (1, 2), "plain ports of another network have no part in it");
            let udp = crate::packet::Udp::of_frame(&packet[12..]).expect("well-formed").expect("UDP");
            assert!(udp.is_intact() && udp.port == 4789 && udp.destination.to_string() == "2001:db8::7");
            let payload = &udp.datagram.expect("whole")[8..];
            assert_eq!(payload[..8], [8, 0, 0, 0, 0, (network >> 8) as u8, network as u8, 0]);
            assert_eq!(payload[8..], frame(ALL, host(1)));
            net.flush();
            // The other endpoint answers with addresses swapped.
            let back = vxlan(("2001:db8::7", "2001:db8::1"), network, &frame(host(1), host(9)));
            net.send_bytes((1, 2), back);
            assert_eq!(net.taken(), [((0, port), frame(host(1), host(9)))]);
        }
        // Not for the switch, of a network that the tunnel does not have, no VXLAN at all, and of no network.
        net.send_bytes((1, 2), vxlan(("2001:db8::7", "2001:db8::2"), 5000, &frame(host(1), host(9))));
        net.send_bytes((1, 2), vxlan(("2001:db8::7", "2001:db8::1"), 5001, &frame(host(1), host(9))));
        net.send_bytes((1, 2), [&ALL.0[..], &host(9).0, &[8, 6], &[0; 46]].concat());
        net.send_bytes((1, 3), frame(ALL, host(9)));
        assert_eq!((net.taken(), net.drops(Reason::NoKey), net.drops(Reason::WrongSegment)), (vec![], 2, 2));
        assert_eq!(net.controller.hosts(), 4);
    }
}

fn vxlan((source, destination): (&str, &str), network: u32, inside: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = network.to_be_bytes();
    let payload = [&[8, 0, 0, 0, a, b, c, 0], inside].concat();
    let packet = crate::packet::tests::Written::new(source, destination, 4789, &payload);
    [&host(201).0[..], &host(207).0, &packet.rest()].concat()
}

#[test]
fn ipv6_addresses_are_hosts_of_their_own() {
    let packet = |source: &str, destination: &str, of: MacAddress, to: MacAddress| {
        let packet = crate::packet::tests::Written::new(source, destination, 9, b"hello");
        [&to.0[..], &of.0, &packet.rest()].concat()
    };
    let group = MacAddress([0x33, 0x33, 0xff, 0, 0, 1]);
    let mut net = Net::new(3, false, Engine::Line, "key = \"ipv6\"\n");
    // A question for an address that somebody wants to have names no sender.
    net.send_bytes((0, 2), packet("::", "ff02::1:ff00:1", host(1), group));
    assert_eq!(net.taken().len(), 5);
    assert_eq!(net.controller.hosts(), 0);
    // One station, two addresses; one of them moves.
    for address in ["2001:db8::1", "2001:db8::2"] {
        net.send_bytes((0, 2), packet(address, "ff02::1", host(1), group));
    }
    net.send_bytes((2, 2), packet("2001:db8::2", "ff02::1", host(3), group));
    net.flush();
    for (address, place) in [("2001:db8::1", (0, 2)), ("2001:db8::2", (2, 2))] {
        let bytes = packet("2001:db8::9", address, host(9), host(1));
        net.send_bytes((1, 3), bytes.clone());
        assert_eq!(net.taken(), [(place, bytes)], "nothing in it is changed");
    }
    let bytes = packet("2001:db8::9", "2001:db8::3", host(9), host(1));
    net.send_bytes((1, 3), bytes);
    assert_eq!(net.taken(), []);
    // Everything else goes by its MAC address, as ARP does.
    assert_eq!(net.send((0, 2), ALL, host(1)).len(), 5);
    net.flush();
    assert_eq!(net.send((2, 3), host(1), host(8)), [(0, 2)]);
    // What is no sender is dropped.
    net.send_bytes((0, 2), packet("ff02::1", "2001:db8::2", host(1), host(3)));
    assert_eq!((net.taken(), net.drops(Reason::Malformed)), (vec![], 1));
}

fn gtp(destination: &str, tunnel: u32, sender: MacAddress, to: MacAddress) -> Vec<u8> {
    let payload = [&[0x30, if tunnel == 0 { 1 } else { 255 }, 0, 4][..], &tunnel.to_be_bytes(), b"data"].concat();
    let packet = crate::packet::tests::Written::new("192.0.2.99", destination, 2152, &payload);
    [&to.0[..], &sender.0, &packet.rest()].concat()
}

#[test]
fn gtp_tunnels_of_one_address_end_at_many_ports() {
    let gateway = host(100);
    let more = "key = \"gtp\"\n[[host]]\naddress = \"4711/192.0.2.1\"\nat = \"s1:h1\"\n[[host]]\n\
                address = \"4712/192.0.2.1\"\nat = \"s2:h2\"\n";
    for engine in engines() {
        let mut net = Net::new(3, false, engine, more);
        for (tunnel, place) in [(4711, (1, 2)), (4712, (2, 3))] {
            let packet = gtp("192.0.2.1", tunnel, host(1), gateway);
            net.send_bytes((0, 2), packet.clone());
            assert_eq!(net.taken(), [(place, packet)]);
        }
        for (destination, tunnel) in [("192.0.2.1", 4713), ("192.0.2.2", 4711)] {
            net.send_bytes((0, 2), gtp(destination, tunnel, host(1), gateway));
            assert_eq!(net.taken(), [], "an unknown tunnel");
        }
        // Stations are learned. Messages about paths, and ARP, go by them.
        net.flush();
        let echo = gtp("192.0.2.99", 0, gateway, host(1));
        net.send_bytes((1, 2), echo.clone());
        assert_eq!(net.taken(), [((0, 2), echo)]);
        net.flush();
        assert_eq!(net.controller.hosts(), 4, "two tunnels, two stations");
        // Only the controller's file has tunnels.
        let claim = Key::Gtp { tunnel: 4711, address: "192.0.2.1".parse().expect("an address") };
        net.tell(0, &ToController::Heard { port: 2, source: claim });
        assert_eq!(net.controller.counters().refused, 1);
        // Fragments do not tell their tunnel, and neither do headers that end early.
        for (at, bytes, reason) in [
            (6, [0x20, 0], Reason::Fragment),
            (20 + 8, [0x50, 255], Reason::Malformed),
            (20 + 10, [9, 0], Reason::Malformed),
        ] {
            let mut packet = gtp("192.0.2.1", 4711, host(1), gateway);
            packet[14 + at..16 + at].copy_from_slice(&bytes);
            net.send_bytes((0, 2), packet);
            assert_eq!(net.taken(), []);
            assert!(net.drops(reason) > 0, "{reason:?}");
        }
    }
}

#[test]
fn remembered_hosts_are_of_the_key() {
    let mut net = Net::new(2, false, Engine::Othello, "key = \"vlan-mac\"\n");
    let text = "02:00:00:00:00:01 s0:h1\n7/02:00:00:00:00:01 s0:h1\n";
    assert_eq!(net.controller.remember(text), Ok(1));
}

/// All kinds of events in any order, on a ring, while messages are lost. After the last event, frames for a host reach
/// that host only, and frames for all reach each port once.
#[test]
fn whatever_happens_frames_arrive_in_the_end_and_never_go_in_circles() {
    const SWITCHES: usize = 5;
    for seed in 0..12 {
        let engine = engines()[seed % 2];
        let mut net = Net::new(SWITCHES, true, engine, "");
        net.random = seed as u64 * 977 + 3;
        net.lost_one_in = [3, 30, u64::MAX][seed % 3];
        let mut hosts: HashMap<u8, (usize, usize)> = HashMap::new();
        for _ in 0..120 {
            let place = (net.random(SWITCHES), HOST_PORTS[net.random(2)]);
            match net.random(12) {
                0 => {
                    // A link goes up or down, at one end or at both.
                    let (n, up) = (net.random(SWITCHES), net.random(2) == 0);
                    net.nodes[n].up[0] = up;
                    net.tell_links(n);
                }
                1 => net.disconnect(place.0),
                2 | 3 => net.flush(),
                4 if net.nodes[place.0].session.is_none() => net.connect(place.0),
                5 => {
                    net.send(place, ALL, host(250));
                    hosts.insert(250, place);
                }
                _ => {
                    let (number, to) = (net.random(20) as u8, net.random(20) as u8);
                    net.send(place, host(to), host(number));
                    hosts.insert(number, place);
                }
            }
        }
        for n in 0..SWITCHES {
            if net.nodes[n].session.is_none() {
                net.connect(n);
            }
            net.nodes[n].up[0] = n != seed % SWITCHES;
            net.tell_links(n);
        }
        net.settle();
        // Hosts that a disconnected switch heard send again.
        for (&number, &place) in &hosts {
            net.send(place, ALL, host(number));
        }
        net.settle();
        for (&number, &place) in &hosts {
            for from in (0..SWITCHES).map(|n| (n, HOST_PORTS[number as usize % 2])) {
                let expected: &[_] = if from == place { &[] } else { &[place] };
                assert_eq!(net.send(from, host(number), host(251)), expected, "seed {seed}, {number} from {from:?}");
            }
        }
        let all: Vec<_> = (0..SWITCHES).flat_map(|n| HOST_PORTS.map(|port| (n, port))).collect();
        for &from in &all {
            let others: Vec<_> = all.iter().copied().filter(|place| *place != from).collect();
            assert_eq!(net.send(from, ALL, host(251)), others, "seed {seed}, from {from:?}");
        }
    }
}
