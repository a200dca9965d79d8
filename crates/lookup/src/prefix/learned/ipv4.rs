//! Longest prefix match of IPv4 addresses with a learned index, as in [Hasegawa, "LPM Using Learned
//! Index"] and its reference 17.
//!
//! Prefixes lie in an array in ascending order. A model predicts the position of an address. A
//! search around it finds the last prefix that begins at or before the address. The longest match
//! is that prefix, or the first in its chain of covering prefixes that covers the address. If none
//! does, no prefix covers the address, because prefixes nest: a prefix that covers the address also
//! covers all prefixes that begin between its own start and the address.
//!
//! Differs: `model` replaces the neural network, and each prefix has a link to the next prefix that
//! covers it, where the slides only say to search nearby. A table cannot change.
//!
//! Cost: 12 bytes a prefix, of which 4 are the link and 4 the address. The model of a full routing
//! table adds 0.2; its segments hold 90 prefixes each. A lookup follows at most 32 links, the
//! maximum nesting of prefixes.

use std::net::Ipv4Addr;

use super::model::{Model, search};
use crate::count::{Count, Counts};

/// The first `len` bits of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Prefix {
    first: u32,
    len: u8,
}

impl Ipv4Prefix {
    /// The first `len` bits of `address`. `None` if `len` exceeds 32.
    pub fn new(address: Ipv4Addr, len: u8) -> Option<Self> {
        (len <= 32).then(|| Ipv4Prefix { first: address.to_bits() & mask(len), len })
    }

    /// The first address that it covers.
    pub fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first)
    }

    /// Number of bits that it fixes.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether it covers every address.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `address` begins with it.
    pub fn covers(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.len) == self.first
    }

    /// The key that the model learns. Keys sort like prefixes.
    fn key(&self) -> u64 {
        u64::from(self.first) << 6 | u64::from(self.len)
    }
}

/// The bits that a prefix of this length fixes.
#[inline]
fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// No prefix.
const NONE: u32 = u32::MAX;

/// The data of a prefix that a lookup needs besides its first address.
struct Rest {
    /// Position of the longest other prefix that covers this one, or [`NONE`].
    cover: u32,
    next_hop: u16,
    len: u8,
}

/// A table of IPv4 prefixes.
pub struct LearnedIpv4 {
    firsts: Box<[u32]>,
    rests: Box<[Rest]>,
    model: Model,
}

impl LearnedIpv4 {
    /// The table of these prefixes and their next hops. If a prefix comes twice, the last one
    /// counts.
    pub fn new(routes: impl IntoIterator<Item = (Ipv4Prefix, u16)>) -> Self {
        let mut routes: Vec<_> = routes.into_iter().collect();
        // The sort is stable. In reverse order, the last of equal prefixes comes first.
        routes.reverse();
        routes.sort_by_key(|(prefix, _)| *prefix);
        routes.dedup_by_key(|(prefix, _)| *prefix);
        let mut rests: Vec<Rest> = Vec::with_capacity(routes.len());
        // Positions of the prefixes that cover the previous one.
        let mut covers: Vec<u32> = Vec::new();
        for (position, (prefix, next_hop)) in (0..).zip(&routes) {
            while covers.last().is_some_and(|&cover| !routes[cover as usize].0.covers(prefix.address())) {
                covers.pop();
            }
            rests.push(Rest { cover: covers.last().copied().unwrap_or(NONE), next_hop: *next_hop, len: prefix.len });
            covers.push(position);
        }
        LearnedIpv4 {
            firsts: routes.iter().map(|(prefix, _)| prefix.first).collect(),
            rests: rests.into(),
            model: Model::new(routes.iter().map(|(prefix, _)| prefix.key())),
        }
    }

    /// The longest prefix that covers `address`, and its next hop.
    #[inline]
    pub fn longest_match(&self, address: Ipv4Addr) -> Option<(Ipv4Prefix, u16)> {
        self.find(address, &mut ())
    }

    /// Number of cache lines that a lookup of `address` reads.
    pub fn lines_read(&self, address: Ipv4Addr) -> usize {
        let mut counts = Counts::default();
        self.find(address, &mut counts);
        counts.lines
    }

    /// Prefixes in the table.
    pub fn len(&self) -> usize {
        self.firsts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// Resident memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.firsts) + size_of_val(&*self.rests) + self.model.memory_bytes()
    }

    /// The model's share of it.
    pub fn model_bytes(&self) -> usize {
        self.model.memory_bytes()
    }

    #[inline]
    fn find(&self, address: Ipv4Addr, count: &mut impl Count) -> Option<(Ipv4Prefix, u16)> {
        let address = address.to_bits();
        // The position behind all prefixes that begin with the address, whatever their lengths.
        let window = self.model.window(u64::from(address) << 6 | 63, count);
        let mut at = search(&self.firsts, &window, count, |&first| first <= address).checked_sub(1)?;
        loop {
            count.line();
            let (first, rest) = (self.firsts[at], &self.rests[at]);
            if address & mask(rest.len) == first {
                return Some((Ipv4Prefix { first, len: rest.len }, rest.next_hop));
            }
            if rest.cover == NONE {
                return None;
            }
            count.line();
            at = rest.cover as usize;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn prefix(text: &str) -> Ipv4Prefix {
        let (address, len) = text.split_once('/').expect("a prefix");
        Ipv4Prefix::new(address.parse().expect("an address"), len.parse().expect("a length")).expect("at most 32 bits")
    }

    /// The table on the slide.
    #[test]
    fn the_example_of_hasegawa() {
        let routes = ["133.1.0.0/16", "133.1.2.0/23", "133.1.5.0/24", "133.1.16.0/20"].map(prefix);
        let fib = LearnedIpv4::new(routes.into_iter().zip(b'A'.into()..));
        let found = fib.longest_match(Ipv4Addr::new(133, 1, 6, 1));
        assert_eq!(found, Some((routes[0], b'A'.into())));
        assert_eq!(fib.longest_match(Ipv4Addr::new(133, 1, 5, 1)), Some((routes[2], b'C'.into())));
        assert_eq!(fib.longest_match(Ipv4Addr::new(133, 2, 0, 0)), None);
        assert_eq!(fib.longest_match(Ipv4Addr::new(0, 0, 0, 0)), None);
    }

    #[test]
    fn the_default_route_and_host_routes_are_prefixes_too() {
        let all = prefix("0.0.0.0/0");
        let host = prefix("255.255.255.255/32");
        let fib = LearnedIpv4::new([(all, 1), (host, 2), (all, 3)]);
        assert_eq!(fib.len(), 2);
        assert_eq!(fib.longest_match(Ipv4Addr::BROADCAST), Some((host, 2)));
        assert_eq!(fib.longest_match(Ipv4Addr::UNSPECIFIED), Some((all, 3)));
        assert!(LearnedIpv4::new([]).longest_match(Ipv4Addr::BROADCAST).is_none());
        assert_eq!(Ipv4Prefix::new(Ipv4Addr::UNSPECIFIED, 33), None);
    }

    #[test]
    fn nested_prefixes_are_found_as_by_trying_every_length() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for (count, bits) in [(1, 8), (30, 8), (1000, 12), (5000, 32)] {
            // Addresses of few bits nest deeply. Those of many bits are spread out.
            let mut address = || Ipv4Addr::from_bits((random(1 << bits) << (32 - bits)) as u32);
            let addresses: Vec<_> = (0..count).map(|_| address()).collect();
            let asked: Vec<_> = (0..3000).map(|_| address()).collect();
            let routes: HashMap<_, _> = addresses
                .iter()
                .map(|&address| (Ipv4Prefix::new(address, random(33) as u8).expect("at most 32"), random(100) as u16))
                .collect();
            let fib = LearnedIpv4::new(routes.iter().map(|(prefix, next_hop)| (*prefix, *next_hop)));
            for address in asked.iter().chain(&addresses) {
                let right = (0..=32).rev().find_map(|len| {
                    let prefix = Ipv4Prefix::new(*address, len).expect("at most 32");
                    routes.get(&prefix).map(|next_hop| (prefix, *next_hop))
                });
                assert_eq!(fib.longest_match(*address), right, "{address}");
                assert!((1..200).contains(&fib.lines_read(*address)));
            }
        }
    }
}
