//! What a controller and its switches tell each other, once a session is on ([`session`](super::session)).
//!
//! ```text
//! to the switch      plan          0  epoch (1)  hop limit (1)  { role (1) } for each port
//!                    table         1  a message of lookup::flat::message
//! to the controller  links         0  { up (1) } for each port
//!                    heard         1  port (1)  address (6)
//!                    table needed  2
//!                    alive         3
//! ```

use byname_forward::switch::{Plan, Role};
use byname_wire::MacAddress;

/// From the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSwitch {
    /// What ports are for.
    Plan(Plan),
    /// The table, or what has changed in it, or that nothing has.
    Table(Vec<u8>),
}

/// From a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToController {
    /// Which ports are up, by number.
    Links(Vec<bool>),
    /// A station was heard where the table does not have it.
    Heard {
        /// At this port.
        port: u8,
        /// The station.
        source: MacAddress,
    },
    /// Messages are missing: the whole table is to be sent.
    TableNeeded,
    /// Nothing but that the switch is there.
    Alive,
}

const PLAN: u8 = 0;
const TABLE: u8 = 1;
const LINKS: u8 = 0;
const HEARD: u8 = 1;
const TABLE_NEEDED: u8 = 2;
const ALIVE: u8 = 3;

impl ToSwitch {
    /// As it travels.
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
        }
    }

    /// Reads a message; `None`: it is none.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        match octets {
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
            _ => None,
        }
    }
}

impl ToController {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToController::Links(up) => std::iter::once(LINKS).chain(up.iter().map(|&up| u8::from(up))).collect(),
            ToController::Heard { port, source } => [&[HEARD, *port][..], &source.0].concat(),
            ToController::TableNeeded => vec![TABLE_NEEDED],
            ToController::Alive => vec![ALIVE],
        }
    }

    /// Reads a message; `None`: it is none.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        match *octets {
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
        for message in [ToSwitch::Plan(Plan { epoch: 9, hop_limit: 16, roles }), ToSwitch::Table(vec![1, 2, 3])] {
            assert_eq!(ToSwitch::decode(&message.encode()), Some(message));
        }
        let heard = ToController::Heard { port: 3, source: MacAddress([2, 0, 0, 0, 0, 1]) };
        for message in [ToController::Links(vec![true, false]), heard, ToController::TableNeeded, ToController::Alive] {
            assert_eq!(ToController::decode(&message.encode()), Some(message));
        }
        // A group never speaks.
        assert_eq!(ToController::decode(&[1, 0, 1, 0, 0, 0, 0, 1]), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_so(octets in vec(0u8..6, 0..12)) {
            if let Some(message) = ToSwitch::decode(&octets) {
                prop_assert_eq!(message.encode(), octets.clone());
            }
            if let Some(message) = ToController::decode(&octets) {
                prop_assert_eq!(message.encode(), octets);
            }
        }
    }
}
