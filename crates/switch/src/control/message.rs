//! Messages between a controller and its switches within a [`session`](super::session).
//!
//! ```text
//! to the switch      plan          0  epoch (1)  hop limit (1)  { role (1) } for each port
//!                    table         1  a message of lookup::flat::message
//!                    refused       2  text: why the controller does not want the switch
//! to the controller  links         0  { up (1) } for each port
//!                    heard         1  port (1)  address (6)
//!                    table needed  2
//!                    alive         3
//! ```

use crate::switch::{Plan, Role};
use byname_wire::MacAddress;

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
        /// MAC address of the host.
        source: MacAddress,
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

impl ToSwitch {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToSwitch::Plan(Plan { epoch, hop_limit, roles }) => {
                let roles = roles.iter().map(|role| match role {
                    Role::Closed => 0,
                    Role::Host => 1,
                    Role::Trunk { floods: false } => 2,
                    Role::Trunk { floods: true } => 3,
                });
                [PLAN, *epoch, *hop_limit].into_iter().chain(roles).collect()
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
            [PLAN, epoch, hop_limit, roles @ ..] => {
                let roles = roles.iter().map(|role| match role {
                    0 => Some(Role::Closed),
                    1 => Some(Role::Host),
                    2 => Some(Role::Trunk { floods: false }),
                    3 => Some(Role::Trunk { floods: true }),
                    _ => None,
                });
                let roles = roles.collect::<Option<Vec<_>>>()?;
                Some(ToSwitch::Plan(Plan { epoch: *epoch, hop_limit: *hop_limit, roles }))
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
            ToController::Heard { port, source } => [&[HEARD, *port][..], &source.0].concat(),
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
            [HEARD, port, a, b, c, d, e, f] => {
                let source = MacAddress([a, b, c, d, e, f]);
                (!source.is_group() && !source.is_zero()).then_some(ToController::Heard { port, source })
            }
            [TABLE_NEEDED] => Some(ToController::TableNeeded),
            [ALIVE] => Some(ToController::Alive),
            _ => None,
        }
    }
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
        let plan = ToSwitch::Plan(Plan { epoch: 9, hop_limit: 16, roles });
        for message in [plan, ToSwitch::Table(vec![1, 2, 3]), ToSwitch::Refused("no link has a switch s9".into())] {
            assert_eq!(ToSwitch::decode(&message.encode()), Some(message));
        }
        let heard = ToController::Heard { port: 3, source: MacAddress([2, 0, 0, 0, 0, 1]) };
        for message in [ToController::Links(vec![true, false]), heard, ToController::TableNeeded, ToController::Alive] {
            assert_eq!(ToController::decode(&message.encode()), Some(message));
        }
        // A group address is never a source.
        assert_eq!(ToController::decode(&[1, 0, 1, 0, 0, 0, 0, 1]), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_so(bytes in vec(0u8..6, 0..12)) {
            if let Some(message) = ToSwitch::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes.clone());
            }
            if let Some(message) = ToController::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }
}
