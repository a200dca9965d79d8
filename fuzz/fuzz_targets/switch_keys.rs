//! Frames at a switch that forwards by VLAN, VXLAN network, IPv6 address or GTP tunnel. Frames leave only by ports that
//! carry their segment; those to other switches have a tag, and the next switch reads the same keys in them.
#![no_main]

use std::net::IpAddr;

use byname_forward::Ticks;
use byname_lookup::flat::othello::{Options, Othello};
use byname_lookup::{Change, Control, EntryId};
use byname_switch::frame::{Arrived, Frame};
use byname_switch::key::{Key, KeyKind};
use byname_switch::segments::{Numbers, Outer, PortSegments};
use byname_switch::switch::{Plan, Role, Sent, Switch, check};
use byname_wire::{MacAddress, NameHashKey};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const KEY: NameHashKey = NameHashKey::new([1, 2]);
const STATIONS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
/// A host's port, a tunnel's (for VXLAN), and a link to another switch.
const HOST: usize = 0;
const TUNNEL: usize = 1;
const LINK: usize = 2;

#[derive(Arbitrary, Debug)]
struct Input {
    kind: u8,
    plain: Option<u16>,
    tagged: Option<Vec<u16>>,
    v6: bool,
    hosts: Vec<(Vec<u8>, u8)>,
    frames: Vec<(u8, Start, bool, Vec<u8>)>,
}

/// What a frame begins with after its addresses.
#[derive(Arbitrary, Debug)]
enum Start {
    Nothing,
    Tag,
    Vlan(u16),
    TagAndVlan(u16),
    Vlans(u16, u16),
    Ipv4,
    TagAndIpv4,
    Ipv6,
    /// A packet for UDP port 4789 or 2152 with right lengths, over IPv6 or IPv4, with a tag or without.
    Datagram { v6: bool, tag: bool, gtp: bool },
}

fn bytes(start: &Start, payload: &[u8]) -> Vec<u8> {
    let vlan = |number: &u16| [0x81, 0, (number >> 8) as u8, *number as u8];
    let tag = [0x88, 0xb5, 1, 5];
    let start = match start {
        Start::Nothing => vec![],
        Start::Tag => tag.to_vec(),
        Start::Vlan(number) => vlan(number).to_vec(),
        Start::TagAndVlan(number) => [tag, vlan(number)].concat(),
        Start::Vlans(one, two) => [vlan(one), vlan(two)].concat(),
        Start::Ipv4 => vec![8, 0, 0x45],
        Start::TagAndIpv4 => [&tag[..], &[8, 0, 0x45]].concat(),
        Start::Ipv6 => vec![0x86, 0xdd, 0x60],
        Start::Datagram { v6, tag: has_tag, gtp } => datagram(*v6, *gtp, payload, if *has_tag { &tag } else { &[] }),
    };
    [&STATIONS[..], &start, payload].concat()
}

fn datagram(v6: bool, gtp: bool, payload: &[u8], tag: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let port: u16 = if gtp { 2152 } else { 4789 };
    let udp = [&[0xc1, 2][..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0]].concat();
    let ip = if v6 {
        let addresses = [[0xfd; 16], [0xfd; 16]].concat();
        [&[0x86, 0xdd, 0x60, 0, 0, 0][..], &len.to_be_bytes(), &[17, 64], &addresses].concat()
    } else {
        let mut ip = [&[0x45, 0][..], &(20 + len).to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1]].concat();
        let words = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum = words.sum::<u32>();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&[8, 0][..], &ip].concat()
    };
    [tag, &ip, &udp].concat()
}

fn plan(kind: KeyKind, input: &Input) -> Plan {
    let numbers = input.tagged.as_ref().map_or(Numbers::All, |numbers| {
        let mut numbers: Vec<_> = numbers.iter().map(|number| u32::from(*number)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Numbers::Only(numbers)
    });
    let addresses: [&str; 2] = if input.v6 { ["fdfd::1", "fdfd::7"] } else { ["10.0.0.1", "10.0.0.7"] };
    let [source, destination] = addresses.map(|address| address.parse::<IpAddr>().expect("an address"));
    let [source_station, station] = [8, 9].map(|n| MacAddress([2, 0, 0, 0, 0, n]));
    let outer = (kind == KeyKind::Vxlan).then_some(Outer { source, destination, source_station, station });
    let segments = vec![
        PortSegments { plain: input.plain.map(u32::from), tagged: numbers.clone(), outer: None },
        PortSegments { plain: None, tagged: numbers, outer },
        PortSegments { plain: None, tagged: Numbers::All, outer },
    ];
    Plan { epoch: 1, hop_limit: 4, roles: vec![Role::Host, Role::Host, Role::Trunk { floods: true }], segments }
}

fuzz_target!(|input: Input| {
    let kind = KeyKind::ALL[usize::from(input.kind) % KeyKind::ALL.len()];
    let options = Options { entry_bits: check().bits(), ..Options::default() };
    let mut control = Othello::new(options).expect("a little memory");
    for (key, port) in input.hosts.iter().take(20) {
        let Some(key) = Key::decode(key).filter(|key| kind.has(key)) else { continue };
        assert_eq!(kind.parse(&key.to_string()), Ok(key));
        let mut name = Vec::new();
        key.write(kind, &mut name);
        let digest = KEY.digest_bytes(&name);
        let stored = check().stored(digest, EntryId(u32::from(port % 3))).expect("eight bits");
        control.apply(&[Change::Set(digest, stored)]).expect("few names");
    }
    let plan = plan(kind, &input);
    let mut switch = Switch::with_key(kind, 3);
    switch.set_plan(plan.clone());
    switch.set_table(KEY, control.query());
    for (port, start, has_vlan, payload) in &input.frames {
        let from = usize::from(*port) % 3;
        let bytes = bytes(start, payload);
        let arrived = Arrived { bytes: &bytes, vlan: has_vlan.then_some([0x81, 0, 0, 7]) };
        let accepted = Frame::accept(kind, plan.roles[from], &plan.segments[from], arrived);
        switch.forward(Ticks(1), from, &[arrived], &mut |to, header, rest| {
            let frame = accepted.expect("what leaves was accepted");
            assert_ne!(to, from);
            let sent = [header, rest].concat();
            if to == LINK {
                let link = &plan.segments[LINK];
                let read = Frame::accept(kind, plan.roles[LINK], link, Arrived { bytes: &sent, vlan: None });
                let read = read.expect("a switch has sent it");
                assert_eq!((read.to(kind), read.from(kind)), (frame.to(kind), frame.from(kind)));
                assert!(read.tag.is_some_and(|tag| tag.hop_limit > 0));
            } else if let Some(segment) = frame.to(kind).segment() {
                assert!(plan.segments[to].carry(segment));
                assert!(to != TUNNEL || kind != KeyKind::Vxlan || header[..6] == [2, 0, 0, 0, 0, 9]);
                assert!(to != HOST || kind != KeyKind::Vxlan || header[..12] == [frame.destination.0, frame.source.0].concat());
            }
            Ok(Sent::Left)
        });
    }
    switch.retry_held(Ticks(u64::MAX), &mut |_, _, _| Ok(Sent::Left));
});
