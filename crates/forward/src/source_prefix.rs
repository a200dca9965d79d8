//! Groups of peers that may all be one stranger.
//!
//! A sender of UDP can forge any source address, and a host often owns many addresses of one network. So sources share
//! limits by prefix, not by address: one /24 of IPv4, and one /56 of IPv6, which a provider gives to one customer.

use std::net::{IpAddr, SocketAddr};

/// Bits of an IPv4 address that tell sources apart.
const IPV4_PREFIX_BITS: u32 = 24;
/// Bits of an IPv6 address that tell sources apart.
const IPV6_PREFIX_BITS: u32 = 56;

/// The network of a peer's address. Two are equal exactly when the networks are.
///
/// Strangers choose their addresses, so a table by source prefix needs a keyed hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePrefix(u64);

impl SourcePrefix {
    /// The source prefix of an address. An IPv4 address in IPv6 form counts as IPv4. All link-local addresses of one
    /// interface have one prefix.
    pub fn of(peer: &SocketAddr) -> SourcePrefix {
        match peer.ip().to_canonical() {
            IpAddr::V4(ip) => SourcePrefix(1 << 63 | u64::from(u32::from(ip) >> (32 - IPV4_PREFIX_BITS))),
            // Every host chooses its own link-local address.
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                let zone = if let SocketAddr::V6(v6) = peer { v6.scope_id() } else { 0 };
                SourcePrefix(0xfe80 << 40 | u64::from(zone))
            }
            IpAddr::V6(ip) => SourcePrefix((u128::from(ip) >> (128 - IPV6_PREFIX_BITS)) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> SourcePrefix {
        SourcePrefix::of(&address.parse().expect("an address with a port"))
    }

    #[test]
    fn addresses_of_one_network_have_one_prefix() {
        assert_eq!(prefix("192.0.2.1:6363"), prefix("192.0.2.255:1"));
        assert_eq!(prefix("192.0.2.1:6363"), prefix("[::ffff:192.0.2.7]:6363"));
        assert_eq!(prefix("[2001:db8:0:12::1]:6363"), prefix("[2001:db8:0:ff:1::]:1"));
        assert_eq!(prefix("[fe80::1%3]:6363"), prefix("[fe80::2%3]:1"));
    }

    #[test]
    fn addresses_of_different_networks_have_different_prefixes() {
        let all = [
            "192.0.2.1:6363",
            "192.0.3.1:6363",
            "[::c000:201]:6363",
            "[2001:db8:0:12::1]:6363",
            "[2001:db8:0:112::1]:6363",
            "[fe80::1%3]:6363",
            "[fe80::1%4]:6363",
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(prefix(a), prefix(b), "{a} and {b}");
            }
        }
    }
}
