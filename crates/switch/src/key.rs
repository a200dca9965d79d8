//! Keys: what a switch forwards by, and what hosts are known by.
//!
//! | kind | a key is | written |
//! | --- | --- | --- |
//! | `mac` | a MAC address | `02:00:00:00:00:01` |
//! | `vlan-mac` | a VLAN [IEEE 802.1Q] and a MAC address | `7/02:00:00:00:00:01` |
//! | `vxlan` | a VXLAN network [RFC 7348] and a MAC address in it | `5000/02:00:00:00:00:01` |
//! | `ipv6` | an IPv6 address; a MAC address for all frames that are not IPv6 | `2001:db8::1` |
//! | `gtp` | a GTP-U tunnel [3GPP TS 29.281] and its endpoint; a MAC address for all other frames | `4711/192.0.2.1` |
//!
//! A tunnel's number means something at the receiver only, so it needs the receiver's address beside it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use byname_wire::MacAddress;
use serde::Deserialize;

/// Largest number of a VLAN; 4095 is reserved.
pub const VLAN_MAX: u16 = 4094;
/// Largest number of a VXLAN network.
pub const NETWORK_MAX: u32 = (1 << 24) - 1;
/// Length of the longest encoded key, in bytes.
const ENCODED_BYTES_MAX: usize = 21;

/// What a switch forwards by. A switch and its controller have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// The destination's MAC address.
    #[default]
    Mac,
    /// The VLAN, and the destination's MAC address.
    VlanMac,
    /// The VXLAN network, and the destination's MAC address in it.
    Vxlan,
    /// The destination's IPv6 address.
    Ipv6,
    /// The GTP-U tunnel, and the address of its endpoint.
    Gtp,
}

impl KeyKind {
    /// All kinds.
    pub const ALL: [KeyKind; 5] = [KeyKind::Mac, KeyKind::VlanMac, KeyKind::Vxlan, KeyKind::Ipv6, KeyKind::Gtp];

    /// Its word in configuration files.
    pub fn word(self) -> &'static str {
        match self {
            KeyKind::Mac => "mac",
            KeyKind::VlanMac => "vlan-mac",
            KeyKind::Vxlan => "vxlan",
            KeyKind::Ipv6 => "ipv6",
            KeyKind::Gtp => "gtp",
        }
    }

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn numbered(number: u8) -> Option<Self> {
        KeyKind::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Bytes of each key that tables hash ([`Key::write`]).
    pub fn name_bytes(self) -> usize {
        match self {
            KeyKind::Mac => 6,
            KeyKind::VlanMac => 8,
            KeyKind::Vxlan => 9,
            KeyKind::Ipv6 => 17,
            KeyKind::Gtp => ENCODED_BYTES_MAX,
        }
    }

    /// Whether frames belong to numbered segments: VLANs, or VXLAN networks.
    pub fn has_segments(self) -> bool {
        matches!(self, KeyKind::VlanMac | KeyKind::Vxlan)
    }

    /// Largest number of a segment.
    pub fn segment_max(self) -> u32 {
        if self == KeyKind::VlanMac { VLAN_MAX.into() } else { NETWORK_MAX }
    }

    /// Whether tables of this kind may have the key.
    pub fn has(self, key: &Key) -> bool {
        let kind = match key {
            Key::Mac(_) => return !self.has_segments(),
            Key::VlanMac { .. } => KeyKind::VlanMac,
            Key::Vxlan { .. } => KeyKind::Vxlan,
            Key::Ipv6(_) => KeyKind::Ipv6,
            Key::Gtp { .. } => KeyKind::Gtp,
        };
        kind == self
    }

    /// Reads a key of this kind.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(self, text: &str) -> Result<Key, String> {
        let mac = |text: &str| text.parse::<MacAddress>().ok();
        let parts = text.split_once('/');
        let key = match self {
            KeyKind::Mac => mac(text).map(Key::Mac),
            KeyKind::VlanMac => parts
                .and_then(|(vlan, address)| Some(Key::VlanMac { vlan: vlan.parse().ok()?, address: mac(address)? })),
            KeyKind::Vxlan => parts.and_then(|(network, address)| {
                Some(Key::Vxlan { network: network.parse().ok()?, address: mac(address)? })
            }),
            KeyKind::Ipv6 => text.parse().ok().map(Key::Ipv6).or(mac(text).map(Key::Mac)),
            KeyKind::Gtp => match parts {
                Some((tunnel, address)) => tunnel
                    .parse()
                    .ok()
                    .zip(address.parse::<IpAddr>().ok())
                    .map(|(tunnel, address)| Key::Gtp { tunnel, address: address.to_canonical() }),
                None => mac(text).map(Key::Mac),
            },
        };
        key.filter(Key::is_host).ok_or_else(|| {
            let (what, example) = match self {
                KeyKind::Mac => ("the MAC address of a host", "08:00:27:01:02:03"),
                KeyKind::VlanMac => ("a VLAN (1 to 4094) and the MAC address of a host", "7/08:00:27:01:02:03"),
                KeyKind::Vxlan => ("a VXLAN network and the MAC address of a host", "5000/08:00:27:01:02:03"),
                KeyKind::Ipv6 => ("the IPv6 address of a host", "2001:db8::1"),
                KeyKind::Gtp => ("a tunnel and the address of its endpoint", "4711/192.0.2.1"),
            };
            format!("\"{text}\" is not {what}; write for example \"{example}\"")
        })
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a host is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// A MAC address.
    Mac(MacAddress),
    /// A MAC address in a VLAN.
    VlanMac {
        /// The VLAN, 1 to [`VLAN_MAX`].
        vlan: u16,
        /// The host's address.
        address: MacAddress,
    },
    /// A MAC address in a VXLAN network.
    Vxlan {
        /// The network, at most [`NETWORK_MAX`].
        network: u32,
        /// The host's address.
        address: MacAddress,
    },
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A GTP-U tunnel.
    Gtp {
        /// The tunnel endpoint's identifier, which is not 0.
        tunnel: u32,
        /// The endpoint's address.
        address: IpAddr,
    },
}

impl Key {
    /// Whether it can be the key of a single host.
    pub fn is_host(&self) -> bool {
        let is_station = |address: MacAddress| !address.is_group() && !address.is_zero();
        match *self {
            Key::Mac(address) => is_station(address),
            Key::VlanMac { vlan, address } => (1..=VLAN_MAX).contains(&vlan) && is_station(address),
            Key::Vxlan { network, address } => network <= NETWORK_MAX && is_station(address),
            Key::Ipv6(address) => is_unicast(address.into()),
            Key::Gtp { tunnel, address } => tunnel != 0 && is_unicast(address),
        }
    }

    /// The VLAN or network that it belongs to.
    pub fn segment(&self) -> Option<u32> {
        match *self {
            Key::VlanMac { vlan, .. } => Some(vlan.into()),
            Key::Vxlan { network, .. } => Some(network),
            Key::Mac(_) | Key::Ipv6(_) | Key::Gtp { .. } => None,
        }
    }

    /// Appends the bytes that tables of a kind hash: always [`KeyKind::name_bytes`], and different for different keys.
    #[inline]
    pub fn write(&self, kind: KeyKind, out: &mut Vec<u8>) {
        match (self, kind) {
            (Key::Mac(address), KeyKind::Mac) => out.extend(address.0),
            (Key::VlanMac { .. } | Key::Vxlan { .. }, _) => self.write_fields(out),
            // Keys of several sorts are in these tables: the sort comes first, and all have one length.
            _ => {
                let end = out.len() + kind.name_bytes();
                self.encode(out);
                out.resize(end, 0);
            }
        }
    }

    fn write_fields(&self, out: &mut Vec<u8>) {
        match self {
            Key::Mac(address) => out.extend(address.0),
            Key::VlanMac { vlan, address } => {
                out.extend(vlan.to_be_bytes());
                out.extend(address.0);
            }
            Key::Vxlan { network, address } => {
                out.extend(&network.to_be_bytes()[1..]);
                out.extend(address.0);
            }
            Key::Ipv6(address) => out.extend(address.octets()),
            Key::Gtp { tunnel, address } => {
                out.extend(tunnel.to_be_bytes());
                out.extend(to_ipv6(*address).octets());
            }
        }
    }

    /// Appends its sort (1 byte) and its fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let sort = match self {
            Key::Mac(_) => KeyKind::Mac,
            Key::VlanMac { .. } => KeyKind::VlanMac,
            Key::Vxlan { .. } => KeyKind::Vxlan,
            Key::Ipv6(_) => KeyKind::Ipv6,
            Key::Gtp { .. } => KeyKind::Gtp,
        };
        out.push(sort.number());
        self.write_fields(out);
    }

    /// Decodes what [`Key::encode`] has written. `None` if it is malformed, or no key of a host.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&sort, fields) = bytes.split_first()?;
        let station = |bytes: &[u8]| bytes.try_into().ok().map(MacAddress);
        let key = match KeyKind::numbered(sort)? {
            KeyKind::Mac => Key::Mac(station(fields)?),
            KeyKind::VlanMac => {
                let (&vlan, address) = fields.split_first_chunk()?;
                Key::VlanMac { vlan: u16::from_be_bytes(vlan), address: station(address)? }
            }
            KeyKind::Vxlan => {
                let (&[high, middle, low], address) = fields.split_first_chunk()?;
                Key::Vxlan { network: u32::from_be_bytes([0, high, middle, low]), address: station(address)? }
            }
            KeyKind::Ipv6 => Key::Ipv6(<[u8; 16]>::try_from(fields).ok()?.into()),
            KeyKind::Gtp => {
                let (&tunnel, address) = fields.split_first_chunk()?;
                let address = Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?);
                Key::Gtp { tunnel: u32::from_be_bytes(tunnel), address: IpAddr::V6(address).to_canonical() }
            }
        };
        Some(key).filter(Key::is_host)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Mac(address) => address.fmt(f),
            Key::VlanMac { vlan, address } => write!(f, "{vlan}/{address}"),
            Key::Vxlan { network, address } => write!(f, "{network}/{address}"),
            Key::Ipv6(address) => address.fmt(f),
            Key::Gtp { tunnel, address } => write!(f, "{tunnel}/{address}"),
        }
    }
}

fn to_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Whether an address can be that of one host on a network.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !is_broadcast && !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn any_key() -> impl Strategy<Value = Key> {
        let station = || any::<[u8; 5]>().prop_map(|[a, b, c, d, e]| MacAddress([2, a, b, c, d, e]));
        let of_gtp = |(tunnel, address): (u32, IpAddr)| Key::Gtp { tunnel, address: address.to_canonical() };
        let any = prop_oneof![
            station().prop_map(Key::Mac),
            (1..=VLAN_MAX, station()).prop_map(|(vlan, address)| Key::VlanMac { vlan, address }),
            (0..=NETWORK_MAX, station()).prop_map(|(network, address)| Key::Vxlan { network, address }),
            any::<Ipv6Addr>().prop_map(Key::Ipv6),
            (1u32.., any::<IpAddr>()).prop_map(of_gtp),
        ];
        any.prop_filter("a key of a host", Key::is_host)
    }

    #[test]
    fn what_is_no_key_is_told_with_what_to_write() {
        for (kind, text, told) in [
            (KeyKind::Mac, "7/02:00:00:00:00:01", "is not the MAC address of a host; write for example \"08:00:27"),
            (KeyKind::Mac, "03:00:00:00:00:01", "is not the MAC address of a host"),
            (KeyKind::VlanMac, "02:00:00:00:00:01", "is not a VLAN (1 to 4094) and the MAC address"),
            (KeyKind::VlanMac, "4095/02:00:00:00:00:01", "is not a VLAN (1 to 4094)"),
            (KeyKind::VlanMac, "0/02:00:00:00:00:01", "is not a VLAN (1 to 4094)"),
            (KeyKind::Vxlan, "16777216/02:00:00:00:00:01", "write for example \"5000/08:00"),
            (KeyKind::Ipv6, "ff02::1", "write for example \"2001:db8::1\""),
            (KeyKind::Ipv6, "::", "write for example \"2001:db8::1\""),
            (KeyKind::Gtp, "0/192.0.2.1", "write for example \"4711/192.0.2.1\""),
            (KeyKind::Gtp, "1/224.0.0.1", "write for example \"4711/192.0.2.1\""),
        ] {
            let error = kind.parse(text).expect_err(text);
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(KeyKind::Gtp.parse("1/::ffff:192.0.2.1"), KeyKind::Gtp.parse("1/192.0.2.1"));
    }

    proptest! {
        #[test]
        fn keys_come_back_from_bytes_and_text(key in any_key()) {
            let mut bytes = Vec::new();
            key.encode(&mut bytes);
            prop_assert_eq!(Key::decode(&bytes), Some(key));
            let kinds: Vec<_> = KeyKind::ALL.into_iter().filter(|kind| kind.has(&key)).collect();
            prop_assert!(!kinds.is_empty());
            for kind in kinds {
                prop_assert_eq!(kind.parse(&key.to_string()), Ok(key));
            }
        }

        #[test]
        fn what_is_decoded_is_encoded_so(bytes in vec(0u8..8, 0..24)) {
            if let Some(key) = Key::decode(&bytes) {
                let mut again = Vec::new();
                key.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn different_keys_have_different_names_of_one_length(one in any_key(), other in any_key()) {
            for kind in KeyKind::ALL.into_iter().filter(|kind| kind.has(&one) && kind.has(&other)) {
                let name = |key: Key| {
                    let mut name = Vec::new();
                    key.write(kind, &mut name);
                    name
                };
                prop_assert_eq!(name(one).len(), kind.name_bytes());
                prop_assert_eq!(name(other).len(), kind.name_bytes());
                prop_assert_eq!(name(one) == name(other), one == other);
            }
        }
    }
}
