//! Frames at all ports of a switch while plans and tables change, and messages between a controller and its switches. A
//! decoded message must encode to the same bytes. Frames must leave by other ports than they arrived at, unchanged
//! except for their tag. Frames to hosts must have no tag.
#![no_main]

use byname_forward::Ticks;
use byname_lookup::flat::othello::{Options, Othello};
use byname_lookup::{Change, Control, EntryId};
use byname_switch::control::message::{ToController, ToSwitch};
use byname_switch::control::session::{Caller, Greeting, Hello, Secret, read_frame};
use byname_switch::frame::{Arrived, Frame};
use byname_switch::key::KeyKind;
use byname_switch::switch::{Plan, Role, Sent, Switch, check};
use byname_wire::NameHashKey;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

const KEY: NameHashKey = NameHashKey::new([1, 2]);
const PORTS: usize = 4;

#[derive(Arbitrary, Debug)]
enum Action {
    Message(Vec<u8>),
    Plan {
        epoch: u8,
        hop_limit: u8,
        roles: [u8; PORTS],
    },
    /// The last byte of a host's address, and its port.
    Host(u8, u8),
    /// A frame from one host to another, tagged or not.
    Frame {
        port: u8,
        to: u8,
        from: u8,
        tag: Option<(u8, u8)>,
        payload: Vec<u8>,
        vlan: bool,
    },
    Bytes {
        port: u8,
        bytes: Vec<u8>,
    },
    Later(u16),
}

fn check_message(bytes: &[u8]) {
    if let Some(message) = ToSwitch::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
    if let Some(message) = ToController::decode(bytes) {
        assert_eq!(message.encode(), bytes);
    }
    if let Some(hello) = Hello::decode(bytes) {
        assert_eq!(hello.encode(), bytes);
    }
    // Without the secret, nobody can make a hello or a welcome.
    let secret = Secret::new(b"secret");
    assert!(Caller::hear(&secret, bytes).is_err());
    let hello = Hello { key: KeyKind::Mac, name: "s1".into(), ports: vec!["eth0".into()] };
    let (greeting, _) = Greeting::new(&secret, &hello).expect("the system has randomness");
    assert!(greeting.welcomed(bytes).is_err());
    let _ = read_frame(&mut &bytes[..]);
}

fn forward(switch: &mut Switch, now: Ticks, port: usize, bytes: &[u8], vlan: bool) {
    let roles = switch.roles().to_vec();
    let arrived = Arrived { bytes, vlan: vlan.then_some([0x81, 0, 0, 7]) };
    let frame = Frame::parse(arrived);
    switch.forward(now, port, &[arrived], &mut |to, header, rest| {
        let frame = frame.expect("what leaves was a frame");
        assert_ne!(to, port);
        assert_ne!(roles[port], Role::Closed);
        assert_eq!(rest, frame.rest);
        assert_eq!(header[..12], bytes[..12]);
        let is_tagged = header[12..].starts_with(&[0x88, 0xb5]);
        assert_eq!(is_tagged, matches!(roles[to], Role::Trunk { .. }));
        Ok(Sent::Left)
    });
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut switch = Switch::new(PORTS);
    let options = Options { entry_bits: check().bits(), ..Options::default() };
    let mut control = Othello::new(options).expect("a little memory");
    let mut now = Ticks(0);
    while !input.is_empty()
        && let Ok(action) = Action::arbitrary(&mut input)
    {
        match action {
            Action::Message(bytes) => check_message(&bytes),
            Action::Plan { epoch, hop_limit, roles } => {
                let role = |role| match role % 4 {
                    0 => Role::Closed,
                    1 => Role::Host,
                    of_trunk => Role::Trunk { floods: of_trunk == 3 },
                };
                switch.set_plan(Plan { epoch, hop_limit, roles: roles.map(role).to_vec(), ..Plan::default() });
            }
            Action::Host(number, port) => {
                let digest = KEY.digest_bytes(&[2, 0, 0, 0, 0, number]);
                let stored = check().stored(digest, EntryId(port.into())).expect("eight bits");
                control.apply(&[Change::Set(digest, stored)]).expect("few names");
                switch.set_table(KEY, control.query());
                switch.retry_held(now, &mut |_, _, _| Ok(Sent::Left));
            }
            Action::Frame { port, to, from, tag, payload, vlan } => {
                let destination = if to == 255 { [255; 6] } else { [2, 0, 0, 0, 0, to] };
                let tag = tag.map(|(epoch, hops)| vec![0x88, 0xb5, epoch, hops]).unwrap_or_default();
                let bytes = [&destination[..], &[2, 0, 0, 0, 0, from], &tag, &[8, 0], &payload].concat();
                forward(&mut switch, now, usize::from(port) % PORTS, &bytes, vlan);
            }
            Action::Bytes { port, bytes } => forward(&mut switch, now, usize::from(port) % PORTS, &bytes, false),
            Action::Later(ms) => {
                now = now + std::time::Duration::from_millis(ms.into());
                switch.retry_held(now, &mut |_, _, _| Ok(Sent::Left));
            }
        }
        assert!(switch.take_reports().count() <= 1);
    }
});
