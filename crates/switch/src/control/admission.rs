//! Admission of connections to a controller that are in their handshake.
//!
//! Anybody can connect to a controller and stay silent. Therefore, connections whose peer has not yet proved that it
//! has the secret are limited in number, and end after [`HANDSHAKE_TIME`]. Connections from *known* addresses have
//! separate places. An address is known if it is configured, or if a handshake from it was completed before. When all
//! places of a kind are taken, the address with the most places loses its oldest connection to the newcomer.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Longest duration of a handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(3);
/// Most handshakes of strangers at the same time.
pub const STRANGERS_MAX: usize = 32;
/// Spare places for handshakes from known addresses, and for known addresses, beyond two for each switch.
const KNOWN_SPARE: usize = 16;

/// Origin of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A Unix socket. Its permissions keep others out, so it is always known.
    Local,
    /// A network address. For IPv6, the /64 network, which one host may have for itself.
    Address(IpAddr),
}

impl Origin {
    /// The origin of a connection from this address.
    pub fn of(address: IpAddr) -> Self {
        Origin::Address(match address.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from(u128::from(ip) >> 64 << 64)),
            ip => ip,
        })
    }
}

/// A connection in its handshake. `connection` is returned to the caller to be closed.
struct Waiting<C> {
    number: u64,
    origin: Origin,
    connection: C,
}

/// The connections to one controller that are in their handshake.
pub struct Admission<C> {
    /// Connections from known addresses, and those of strangers, the oldest first.
    known: VecDeque<Waiting<C>>,
    strangers: VecDeque<Waiting<C>>,
    known_max: usize,
    configured: Vec<Origin>,
    /// Origins of completed handshakes, the latest last.
    learned: VecDeque<Origin>,
    numbers: u64,
}

impl<C> Admission<C> {
    /// Admission for `switches` switches. `addresses` are known from the start.
    pub fn new(switches: usize, addresses: &[IpAddr]) -> Self {
        Admission {
            known: VecDeque::new(),
            strangers: VecDeque::new(),
            known_max: 2 * switches + KNOWN_SPARE,
            configured: addresses.iter().copied().map(Origin::of).collect(),
            learned: VecDeque::new(),
            numbers: 0,
        }
    }

    /// Begins a handshake. Returns its number, and a connection to close if there is no room.
    pub fn begin(&mut self, origin: Origin, connection: C) -> (u64, Option<C>) {
        self.numbers += 1;
        let (waiting, places) = match self.is_known(origin) {
            true => (&mut self.known, self.known_max),
            false => (&mut self.strangers, STRANGERS_MAX),
        };
        waiting.push_back(Waiting { number: self.numbers, origin, connection });
        let yields = if waiting.len() > places { oldest_of_largest(waiting) } else { None };
        (self.numbers, yields.and_then(|at| waiting.remove(at)).map(|waiting| waiting.connection))
    }

    /// The system has no descriptors or memory left. Returns the stranger's connection to close, if there is one.
    pub fn shed(&mut self) -> Option<C> {
        let at = oldest_of_largest(&self.strangers)?;
        self.strangers.remove(at).map(|stranger| stranger.connection)
    }

    /// The peer has proved that it has the secret.
    pub fn complete(&mut self, number: u64) {
        let Some(origin) = self.end(number) else { return };
        self.learned.retain(|learned| *learned != origin);
        self.learned.push_back(origin);
        if self.learned.len() > self.known_max {
            self.learned.pop_front();
        }
    }

    /// A connection has ended or completed its handshake. Returns its origin.
    pub fn end(&mut self, number: u64) -> Option<Origin> {
        let remove = |waiting: &mut VecDeque<Waiting<C>>| {
            let at = waiting.iter().position(|one| one.number == number)?;
            waiting.remove(at).map(|one| one.origin)
        };
        remove(&mut self.known).or_else(|| remove(&mut self.strangers))
    }

    fn is_known(&self, origin: Origin) -> bool {
        origin == Origin::Local || self.configured.contains(&origin) || self.learned.contains(&origin)
    }
}

/// Index of the oldest connection from the origin with the most connections.
fn oldest_of_largest<C>(waiting: &VecDeque<Waiting<C>>) -> Option<usize> {
    let count = |origin| waiting.iter().filter(|one| one.origin == origin).count();
    // `max_by_key` returns the last maximum. In reverse order, that is the oldest.
    (0..waiting.len()).rev().max_by_key(|&at| count(waiting[at].origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u32) -> Origin {
        Origin::of(IpAddr::V4(n.into()))
    }

    #[test]
    fn strangers_take_nothing_from_known_addresses() {
        let switch = IpAddr::from([192, 0, 2, 7]);
        let mut admission = Admission::new(2, &[switch]);
        let (learned, _) = admission.begin(origin(9), 0);
        admission.complete(learned);
        let waiting = [Origin::Local, Origin::of(switch), origin(9)].map(|origin| admission.begin(origin, 0).0);
        for n in 100..10_000 {
            let (_, closed) = admission.begin(origin(n), n);
            assert_eq!(closed, (n >= 132).then(|| n - 32), "the oldest stranger yields");
        }
        assert_eq!(admission.shed(), Some(9_968));
        assert!(waiting.iter().all(|number| admission.end(*number).is_some()));
    }

    #[test]
    fn the_address_with_most_connections_yields() {
        let mut admission = Admission::new(2, &[]);
        let (honest, _) = admission.begin(origin(1), 0);
        for n in 1..1_000 {
            let (_, closed) = admission.begin(origin(2), n);
            assert_eq!(closed, (n >= 32).then(|| n - 31));
        }
        assert_eq!(admission.end(honest), Some(origin(1)));
        let one_host = |low| Origin::of(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, low)));
        assert_eq!(one_host(1), one_host(0xffff));
    }

    #[test]
    fn known_addresses_are_bounded_too() {
        let mut admission = Admission::new(1, &[]);
        for n in 0..100 {
            let (number, _) = admission.begin(origin(n), n);
            admission.complete(number);
        }
        assert_eq!(admission.learned.len(), 18);
        let closed: Vec<_> = (0..100).filter_map(|n| admission.begin(origin(99), n).1).collect();
        assert_eq!(closed, (0..82).collect::<Vec<_>>());
        assert_eq!((admission.known.len(), admission.strangers.len()), (18, 0));
    }
}
