//! Locations of the peers of faces: these tell which peers share a link, and which may be one stranger.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::source_prefix::SourcePrefix;

/// A network of IP addresses on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address in it.
    pub address: IpAddr,
    /// Number of address bits that all members share.
    pub prefix_len: u8,
    /// Number of the interface, which distinguishes link-local networks; 0 for others.
    pub zone: u32,
}

impl Network {
    fn contains(&self, host: &SocketAddr) -> bool {
        let alike = |a: u128, b: u128, bits: u32| {
            let ignored = bits.saturating_sub(u32::from(self.prefix_len));
            (a ^ b).checked_shr(ignored).unwrap_or(0) == 0
        };
        match (self.address, host.ip().to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => alike(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let zone = if let SocketAddr::V6(v6) = host { v6.scope_id() } else { 0 };
                alike(a.into(), b.into(), 128) && (!b.is_unicast_link_local() || zone == self.zone)
            }
            _ => false,
        }
    }
}

/// Location of a face's peer, or members of its group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Whereabouts {
    /// The peer is on this host, or at the other end of a link without other hosts.
    #[default]
    Alone,
    /// A host with this address.
    Host(SocketAddr),
    /// One station, or a group of stations, on the interface with this name.
    Stations(Arc<str>),
    /// A group of hosts in these networks.
    Networks(Arc<[Network]>),
}

impl Whereabouts {
    /// Whether `peer` is on the link of this group.
    pub(crate) fn group_reaches(&self, peer: &Whereabouts) -> bool {
        match (self, peer) {
            (Whereabouts::Stations(group), Whereabouts::Stations(station)) => group == station,
            (Whereabouts::Networks(networks), Whereabouts::Host(host)) => networks.iter().any(|n| n.contains(host)),
            _ => false,
        }
    }

    pub(crate) fn source(&self) -> Option<Source> {
        match self {
            Whereabouts::Host(address) => Some(Source::Prefix(SourcePrefix::of(address))),
            // A station can send with any address of its link.
            Whereabouts::Stations(interface) => Some(Source::Interface(Arc::clone(interface))),
            Whereabouts::Alone | Whereabouts::Networks(_) => None,
        }
    }
}

/// A source that a face's packets may come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Prefix(SourcePrefix),
    Interface(Arc<str>),
}

/// Number of a source among all sources that have faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub(crate) u32);

/// Numbers the sources. The number of a source without faces is used again.
#[derive(Default)]
pub(crate) struct Sources {
    /// The number and the count of faces of each source. Strangers choose their addresses, so this map's hash is keyed.
    known: HashMap<Source, (SourceId, u32)>,
    free: Vec<SourceId>,
    next: u32,
}

impl Sources {
    /// Returns the number for one more face with a peer at `place`.
    pub fn enter(&mut self, place: &Whereabouts) -> SourceId {
        let Some(source) = place.source() else { return self.create() };
        if let Some((id, faces)) = self.known.get_mut(&source) {
            *faces += 1;
            return *id;
        }
        let id = self.create();
        self.known.insert(source, (id, 1));
        id
    }

    /// Removes a face of a source.
    pub fn leave(&mut self, place: &Whereabouts, id: SourceId) {
        if let Some(source) = place.source()
            && let Some((_, faces)) = self.known.get_mut(&source)
        {
            *faces -= 1;
            if *faces > 0 {
                return;
            }
            self.known.remove(&source);
        }
        self.free.push(id);
    }

    fn create(&mut self) -> SourceId {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            SourceId(self.next - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(address: &str) -> Whereabouts {
        Whereabouts::Host(address.parse().expect("an address with a port"))
    }

    fn network(address: &str, prefix_len: u8, zone: u32) -> Network {
        Network { address: address.parse().expect("an address"), prefix_len, zone }
    }

    #[test]
    fn a_group_reaches_the_peers_of_its_link() {
        let group = Whereabouts::Networks(
            [network("192.0.2.7", 25, 0), network("fe80::1", 64, 3), network("2001:db8::1", 64, 0)].into(),
        );
        for near in ["192.0.2.127:6363", "[fe80::99%3]:6363", "[2001:db8::5]:1", "[::ffff:192.0.2.1]:1"] {
            assert!(group.group_reaches(&host(near)), "{near}");
        }
        for far in ["192.0.2.128:6363", "[fe80::99%4]:6363", "[2001:db8:0:1::5]:1", "198.51.100.1:6363"] {
            assert!(!group.group_reaches(&host(far)), "{far}");
        }
        let (here, there) = (Whereabouts::Stations("eth0".into()), Whereabouts::Stations("eth1".into()));
        assert!(here.group_reaches(&here.clone()));
        assert!(!here.group_reaches(&there));
        assert!(!Whereabouts::Alone.group_reaches(&Whereabouts::Alone));
        assert!(!group.group_reaches(&Whereabouts::Alone));
        assert!(Whereabouts::Networks([network("10.0.0.1", 0, 0)].into()).group_reaches(&host("192.0.2.1:1")));
    }

    #[test]
    fn faces_of_one_source_have_one_number_which_is_used_again() {
        let mut sources = Sources::default();
        let (a, b) = (host("192.0.2.1:1"), host("192.0.2.2:2"));
        let one = sources.enter(&a);
        assert_eq!(sources.enter(&b), one);
        let other = sources.enter(&host("192.0.3.1:1"));
        let alone = sources.enter(&Whereabouts::Alone);
        let also_alone = sources.enter(&Whereabouts::Alone);
        let mut all = vec![one, other, alone, also_alone];
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
        sources.leave(&a, one);
        assert_eq!(sources.enter(&a), one);
        sources.leave(&a, one);
        sources.leave(&b, one);
        sources.leave(&Whereabouts::Alone, alone);
        assert_eq!(sources.enter(&Whereabouts::Alone), alone);
        assert_eq!(sources.enter(&host("198.51.100.1:1")), one);
    }
}
