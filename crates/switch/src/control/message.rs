//! Messages between a controller and its switches within a [`session`](super::session).
//!
//! ```text
//! to the switch      plan          0  epoch (1)  hop limit (1)  ports (1)  { role (1) } for each port
//!                                  { port (1)  segments } for ports with segments, in ascending order
//!                    table         1  a message of lookup::flat::message
//!                    refused       2  text: why the controller does not want the switch
//! to the controller  links         0  { up (1) } for each port
//!                    heard         1  port (1)  key
//!                    table needed  2
//!                    alive         3
//!
//! segments   flags (1)  { outer }  { plain (3) }  { count (2)  { segment (3) } }
//!            flags: 1 plain is there; 2 all segments have tags, and no count is there; 4 outer addresses of IPv4 are
//!            there, 8 those of IPv6
//! outer      source  destination  source station (6)  station (6)
//! key        sort (1)  fields; sorts: 0 MAC address (6), 1 VLAN (2) MAC (6), 2 network (3) MAC (6), 3 IPv6 address (16),
//!            4 tunnel (4) IPv6 address (16), which may be a mapped one
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use byname_wire::MacAddress;

use crate::key::Key;
use crate::segments::{Numbers, Outer, PortSegments};
use crate::switch::{PORTS_MAX, Plan, Role};

/// Messages from the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSwitch {
    /// Roles of the ports.
    Plan(Plan),
    /// A message of the table: the whole table, a change, or a keep-alive.
    Table(Vec<u8>),
    /// The controller refuses this switch; the text says why.
    Refused(String),
}

/// Messages from a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToController {
    /// Which ports are up, by port number.
    Links(Vec<bool>),
    /// A frame came from a host at a port where the table does not have it.
    Heard {
        /// Port number.
        port: u8,
        /// What the host is known by.
        source: Key,
    },
    /// Messages were lost: the whole table is needed.
    TableNeeded,
    /// Keep-alive.
    Alive,
}

const PLAN: u8 = 0;
const TABLE: u8 = 1;
const REFUSED: u8 = 2;
/// Length of the longest reason in bytes.
const REASON_BYTES_MAX: usize = 1000;
const LINKS: u8 = 0;
const HEARD: u8 = 1;
const TABLE_NEEDED: u8 = 2;
const ALIVE: u8 = 3;
const HAS_PLAIN: u8 = 1;
const HAS_ALL: u8 = 2;
const HAS_OUTER_IPV4: u8 = 4;
const HAS_OUTER_IPV6: u8 = 8;

impl ToSwitch {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToSwitch::Plan(Plan { epoch, hop_limit, roles, segments }) => {
                let role_bytes = roles.iter().map(|role| match role {
                    Role::Closed => 0,
                    Role::Host => 1,
                    Role::Trunk { floods: false } => 2,
                    Role::Trunk { floods: true } => 3,
                });
                let mut bytes: Vec<u8> =
                    [PLAN, *epoch, *hop_limit, roles.len() as u8].into_iter().chain(role_bytes).collect();
                let named = segments.iter().zip(0u8..).filter(|(segments, _)| **segments != PortSegments::default());
                for (segments, port) in named {
                    bytes.push(port);
                    encode_segments(segments, &mut bytes);
                }
                bytes
            }
            ToSwitch::Table(message) => [&[TABLE], &message[..]].concat(),
            ToSwitch::Refused(why) => {
                let end = (0..=why.len().min(REASON_BYTES_MAX)).rev().find(|&end| why.is_char_boundary(end));
                [&[REFUSED], &why.as_bytes()[..end.unwrap_or(0)]].concat()
            }
        }
    }

    /// Decodes a message. `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [PLAN, epoch, hop_limit, ports, rest @ ..] => {
                let ports = usize::from(*ports);
                let (roles, mut rest) = rest.split_at_checked(ports).filter(|_| ports <= PORTS_MAX)?;
                let roles = roles.iter().map(|role| match role {
                    0 => Some(Role::Closed),
                    1 => Some(Role::Host),
                    2 => Some(Role::Trunk { floods: false }),
                    3 => Some(Role::Trunk { floods: true }),
                    _ => None,
                });
                let roles = roles.collect::<Option<Vec<_>>>()?;
                let mut segments = Vec::new();
                while let Some((&port, of_port)) = rest.split_first() {
                    // Ascending, and none twice.
                    let port = Some(usize::from(port)).filter(|port| (segments.len()..ports).contains(port))?;
                    segments.resize(port, PortSegments::default());
                    let (decoded, after) = decode_segments(of_port)?;
                    segments.push(decoded);
                    rest = after;
                }
                Some(ToSwitch::Plan(Plan { epoch: *epoch, hop_limit: *hop_limit, roles, segments }))
            }
            [TABLE, message @ ..] => Some(ToSwitch::Table(message.to_vec())),
            [REFUSED, why @ ..] if why.len() <= REASON_BYTES_MAX => {
                std::str::from_utf8(why).ok().map(|why| ToSwitch::Refused(why.to_owned()))
            }
            _ => None,
        }
    }
}

impl ToController {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToController::Links(up) => std::iter::once(LINKS).chain(up.iter().map(|&up| u8::from(up))).collect(),
            ToController::Heard { port, source } => {
                let mut bytes = vec![HEARD, *port];
                source.encode(&mut bytes);
                bytes
            }
            ToController::TableNeeded => vec![TABLE_NEEDED],
            ToController::Alive => vec![ALIVE],
        }
    }

    /// Decodes a message. `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [LINKS, ref up @ ..] if up.iter().all(|up| *up <= 1) => {
                Some(ToController::Links(up.iter().map(|up| *up == 1).collect()))
            }
            [HEARD, port, ref key @ ..] => Key::decode(key).map(|source| ToController::Heard { port, source }),
            [TABLE_NEEDED] => Some(ToController::TableNeeded),
            [ALIVE] => Some(ToController::Alive),
            _ => None,
        }
    }
}

fn encode_segments(PortSegments { plain, tagged, outer }: &PortSegments, bytes: &mut Vec<u8>) {
    let mut flags = 0;
    flags |= if plain.is_some() { HAS_PLAIN } else { 0 };
    flags |= if *tagged == Numbers::All { HAS_ALL } else { 0 };
    flags |= outer.map_or(0, |outer| if outer.source.is_ipv4() { HAS_OUTER_IPV4 } else { HAS_OUTER_IPV6 });
    bytes.push(flags);
    if let Some(Outer { source, destination, source_station, station }) = outer {
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        bytes.extend(source_station.0);
        bytes.extend(station.0);
    }
    let number = |segment: &u32| segment.to_be_bytes().into_iter().skip(1);
    bytes.extend(plain.iter().flat_map(number));
    if let Numbers::Only(numbers) = tagged {
        bytes.extend((numbers.len() as u16).to_be_bytes());
        bytes.extend(numbers.iter().flat_map(number));
    }
}

/// The segments, and the bytes behind them.
fn decode_segments(bytes: &[u8]) -> Option<(PortSegments, &[u8])> {
    let (&flags, mut rest) = bytes.split_first()?;
    let outer = flags & (HAS_OUTER_IPV4 | HAS_OUTER_IPV6);
    let known = HAS_PLAIN | HAS_ALL | HAS_OUTER_IPV4 | HAS_OUTER_IPV6;
    if flags & !known != 0 || outer == HAS_OUTER_IPV4 | HAS_OUTER_IPV6 {
        return None;
    }
    let outer = match outer {
        0 => None,
        of => {
            let [source, destination] = if of == HAS_OUTER_IPV4 {
                [take(&mut rest)?, take(&mut rest)?].map(|octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets)))
            } else {
                [take(&mut rest)?, take(&mut rest)?].map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets)))
            };
            let [source_station, station] = [take(&mut rest)?, take(&mut rest)?].map(MacAddress);
            Some(Outer { source, destination, source_station, station }).filter(Outer::is_valid).map(Some)?
        }
    };
    let number = |rest: &mut &[u8]| take(rest).map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]));
    let plain = if flags & HAS_PLAIN == 0 { None } else { Some(number(&mut rest)?) };
    let tagged = if flags & HAS_ALL != 0 {
        Numbers::All
    } else {
        let count = u16::from_be_bytes(take(&mut rest)?);
        let numbers = (0..count).map(|_| number(&mut rest)).collect::<Option<Vec<_>>>()?;
        let ascend = numbers.is_sorted_by(|one, next| one < next);
        ascend.then_some(Numbers::Only(numbers))?
    };
    let segments = PortSegments { plain, tagged, outer };
    // What says nothing is left out.
    (segments != PortSegments::default()).then_some((segments, rest))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_come_back() {
        let roles =
            vec![Role::Closed, Role::Host, Role::Trunk { floods: true }, Role::Trunk { floods: false }, Role::Host];
        let [source_station, station] = [1, 2].map(|n| MacAddress([2, 0, 0, 0, 0, n]));
        let outer = |source: &str, destination: &str| {
            let [source, destination] = [source, destination].map(|address| address.parse().expect("an address"));
            Some(Outer { source, destination, source_station, station })
        };
        let segments = vec![
            PortSegments { plain: Some(7), ..PortSegments::default() },
            PortSegments::default(),
            PortSegments { tagged: Numbers::All, outer: outer("192.0.2.1", "192.0.2.2"), plain: None },
            PortSegments {
                tagged: Numbers::Only(vec![1, 9, 0xff_ffff]),
                outer: outer("fe80::1", "fe80::2"),
                plain: Some(0),
            },
        ];
        let plan = ToSwitch::Plan(Plan { epoch: 9, hop_limit: 16, roles, segments });
        for message in [plan, ToSwitch::Table(vec![1, 2, 3]), ToSwitch::Refused("no link has a switch s9".into())] {
            assert_eq!(ToSwitch::decode(&message.encode()), Some(message));
        }
        let heard = ToController::Heard { port: 3, source: Key::Mac(MacAddress([2, 0, 0, 0, 0, 1])) };
        for message in [ToController::Links(vec![true, false]), heard, ToController::TableNeeded, ToController::Alive] {
            assert_eq!(ToController::decode(&message.encode()), Some(message));
        }
        // A group address is never a source.
        assert_eq!(ToController::decode(&[1, 0, 0, 1, 0, 0, 0, 0, 1]), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_so(bytes in vec(0u8..6, 0..24)) {
            if let Some(message) = ToSwitch::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes.clone());
            }
            if let Some(message) = ToController::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }
}
