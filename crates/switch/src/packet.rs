//! IPv4, IPv6 and UDP inside frames, for keys that lie there. Nothing is trusted: each length is compared with the bytes
//! that are there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// EtherTypes of VLAN tags: of customers and of providers [IEEE 802.1Q].
const VLAN_ETHER_TYPES: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
/// VLAN tags before a packet that are looked behind.
const VLAN_TAGS_MAX: usize = 2;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
/// Bytes of a UDP header.
pub(crate) const UDP_HEADER_BYTES: usize = 8;
pub(crate) const UDP: u8 = 17;
/// IPv6 extension headers that are followed.
const EXTENSIONS_MAX: usize = 8;

/// A packet whose lengths contradict each other, or the frame's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Whether these bytes begin with a VLAN tag.
pub(crate) fn is_vlan_tag(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|ether_type| VLAN_ETHER_TYPES.contains(ether_type))
}

/// Whether these bytes begin with as many VLAN tags as are looked behind.
pub(crate) fn has_most_vlan_tags(bytes: &[u8]) -> bool {
    (0..VLAN_TAGS_MAX).all(|tag| bytes.get(4 * tag..).is_some_and(is_vlan_tag))
}

/// The EtherType behind VLAN tags, and everything after it; `None` behind more than two, or if the frame ends before.
fn behind_vlan_tags(mut rest: &[u8]) -> Option<([u8; 2], &[u8])> {
    for _ in 0..VLAN_TAGS_MAX {
        if !is_vlan_tag(rest) {
            break;
        }
        rest = rest.get(4..)?;
    }
    let (ether_type, packet) = rest.split_first_chunk()?;
    (!VLAN_ETHER_TYPES.contains(ether_type)).then_some((*ether_type, packet))
}

/// Source and destination of an IPv6 packet. `rest` begins with the frame's EtherType. `None` if it is not IPv6.
pub(crate) fn ipv6_addresses(rest: &[u8]) -> Result<Option<[Ipv6Addr; 2]>, Malformed> {
    match behind_vlan_tags(rest) {
        Some((IPV6, packet)) => Ipv6::parse(packet).map(|packet| Some([packet.source, packet.destination])),
        _ => Ok(None),
    }
}

struct Ipv6<'a> {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next: u8,
    payload: &'a [u8],
}

impl<'a> Ipv6<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) = bytes.split_first_chunk::<IPV6_HEADER_BYTES>().ok_or(Malformed)?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 != 6 {
            return Err(Malformed);
        }
        // Behind the packet, the frame may have padding.
        let payload = payload.get(..len).ok_or(Malformed)?;
        let address = |at: usize| Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| header[at + i]));
        Ok(Ipv6 { source: address(8), destination: address(24), next: header[6], payload })
    }

    /// Follows extension headers [RFC 8200 §4].
    fn transport(&self) -> Result<Transport<'a>, Malformed> {
        let (mut next, mut rest, mut offset_and_more) = (self.next, self.payload, 0);
        for _ in 0..=EXTENSIONS_MAX {
            let len = match next {
                // Hop-by-hop options, routing, destination options, mobility, HIP and shim6.
                0 | 43 | 60 | 135 | 139 | 140 => 8 + 8 * usize::from(*rest.get(1).ok_or(Malformed)?),
                // Authentication.
                51 => 8 + 4 * usize::from(*rest.get(1).ok_or(Malformed)?),
                44 => {
                    let fragment = rest.first_chunk::<8>().ok_or(Malformed)?;
                    offset_and_more = u16::from_be_bytes([fragment[2], fragment[3]]) & 0xfff9;
                    if offset_and_more >> 3 > 0 {
                        return Ok(Transport { protocol: fragment[0], part: Part::Later, bytes: &[] });
                    }
                    8
                }
                protocol => {
                    let part = if offset_and_more == 0 { Part::Whole } else { Part::First };
                    return Ok(Transport { protocol, part, bytes: rest });
                }
            };
            (next, rest) = (*rest.first().ok_or(Malformed)?, rest.get(len..).ok_or(Malformed)?);
        }
        Err(Malformed)
    }
}

/// Which part of a packet is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// The first fragment of several.
    First,
    Later,
}

struct Transport<'a> {
    protocol: u8,
    part: Part,
    bytes: &'a [u8],
}

/// A UDP datagram, or what there is of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Udp<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Destination port.
    pub(crate) port: u16,
    /// The datagram with its header; `None` if only its first fragment is there.
    pub(crate) datagram: Option<&'a [u8]>,
    /// Checksum over the IPv4 header, which is 0 if it is right. 0 for IPv6, which has none.
    pub(crate) header_sum: u16,
}

impl<'a> Udp<'a> {
    /// The datagram in a frame. `rest` begins with the frame's EtherType. `None` if there is none, or only a later
    /// fragment, which does not tell.
    pub(crate) fn of_frame(rest: &'a [u8]) -> Result<Option<Self>, Malformed> {
        match behind_vlan_tags(rest) {
            Some((IPV4, packet)) => Udp::of_ipv4(packet),
            Some((IPV6, packet)) => {
                let packet = Ipv6::parse(packet)?;
                Udp::parse(packet.source.into(), packet.destination.into(), packet.transport()?, 0)
            }
            _ => Ok(None),
        }
    }

    fn of_ipv4(packet: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let header = packet.first_chunk::<IPV4_HEADER_BYTES>().ok_or(Malformed)?;
        let (header_len, len) = (4 * usize::from(header[0] & 0xf), u16::from_be_bytes([header[2], header[3]]).into());
        if header[0] >> 4 != 4 || header_len < IPV4_HEADER_BYTES || len < header_len {
            return Err(Malformed);
        }
        let (options, bytes) = packet.get(..len).ok_or(Malformed)?.split_at(header_len);
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let part = match fragment {
            0 => Part::Whole,
            0x2000 => Part::First,
            _ => Part::Later,
        };
        let address = |at: usize| Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| header[at + i])).into();
        let transport = Transport { protocol: header[9], part, bytes };
        Udp::parse(address(12), address(16), transport, checksum(&[options]))
    }

    fn parse(
        source: IpAddr,
        destination: IpAddr,
        Transport { protocol, part, bytes }: Transport<'a>,
        header_sum: u16,
    ) -> Result<Option<Self>, Malformed> {
        if protocol != UDP || part == Part::Later {
            return Ok(None);
        }
        // The first fragment has the whole header [RFC 7112].
        let header = bytes.first_chunk::<UDP_HEADER_BYTES>().ok_or(Malformed)?;
        let [port, len] = [2, 4].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        let datagram = match part {
            Part::Whole if usize::from(len) < UDP_HEADER_BYTES => return Err(Malformed),
            Part::Whole => Some(bytes.get(..usize::from(len)).ok_or(Malformed)?),
            Part::First | Part::Later => None,
        };
        Ok(Some(Udp { source, destination, port, datagram, header_sum }))
    }

    /// Whether the checksums of its IPv4 header and of the datagram are right. A datagram may have none (0): tunnels
    /// may leave it out over IPv6 also [RFC 6936].
    pub(crate) fn is_intact(&self) -> bool {
        let Some(datagram) = self.datagram else { return false };
        let has_sum = datagram.get(6..8).is_some_and(|sum| sum != [0, 0]);
        self.header_sum == 0 && (!has_sum || udp_checksum(self.source, self.destination, &[datagram]) == 0)
    }
}

/// The Internet checksum [RFC 1071] of bytes that follow each other. All parts but the last have an even length. It is 0
/// over bytes that include their right checksum.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let (words, odd) = part.as_chunks::<2>();
        sum += words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>();
        sum += odd.first().map_or(0, |odd| u64::from(*odd) << 8);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of a UDP datagram with its pseudo header. Parts are as in [`checksum`].
pub(crate) fn udp_checksum(source: IpAddr, destination: IpAddr, datagram: &[&[u8]]) -> u16 {
    let len: usize = datagram.iter().map(|part| part.len()).sum();
    let mut pseudo = [0; 40];
    let used = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            pseudo[..4].copy_from_slice(&source.octets());
            pseudo[4..8].copy_from_slice(&destination.octets());
            8
        }
        (source, destination) => {
            for (address, at) in [(source, 0), (destination, 16)] {
                let IpAddr::V6(address) = address else { continue };
                pseudo[at..at + 16].copy_from_slice(&address.octets());
            }
            32
        }
    };
    pseudo[used + 3] = UDP;
    pseudo[used + 4..used + 8].copy_from_slice(&(len as u32).to_be_bytes());
    // The sum does not depend on where in the pseudo header each of its words is.
    let mut parts = vec![&pseudo[..used + 8]];
    parts.extend_from_slice(datagram);
    checksum(&parts)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A packet with a UDP datagram and right checksums, written field by field: the oracle of the parser.
    #[derive(Debug, Clone)]
    pub(crate) struct Written {
        pub(crate) source: IpAddr,
        pub(crate) destination: IpAddr,
        pub(crate) port: u16,
        pub(crate) payload: Vec<u8>,
        /// IPv4 options, or IPv6 extension headers of these lengths in units of 8 bytes.
        pub(crate) options: Vec<u8>,
        pub(crate) vlan_tags: Vec<u16>,
        pub(crate) padding: usize,
    }

    impl Written {
        pub(crate) fn new(source: &str, destination: &str, port: u16, payload: &[u8]) -> Self {
            let [source, destination] = [source, destination].map(|address| address.parse().expect("an address"));
            Written {
                source,
                destination,
                port,
                payload: payload.into(),
                options: Vec::new(),
                vlan_tags: Vec::new(),
                padding: 0,
            }
        }

        fn datagram(&self) -> Vec<u8> {
            let len = (8 + self.payload.len()) as u16;
            let mut bytes =
                [&[0xc1, 2][..], &self.port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], &self.payload].concat();
            let sum = udp_checksum(self.source, self.destination, &[&bytes]);
            bytes[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
            bytes
        }

        /// Everything from the EtherType on.
        pub(crate) fn rest(&self) -> Vec<u8> {
            let tags = self.vlan_tags.iter().flat_map(|vlan| [0x81, 0, (vlan >> 8) as u8, *vlan as u8]);
            let mut bytes: Vec<u8> = tags.collect();
            let datagram = self.datagram();
            match (self.source, self.destination) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    let options = vec![1; 4 * (self.options.len() % 11)];
                    let len = (20 + options.len() + datagram.len()) as u16;
                    let mut header = vec![0x45 + (options.len() / 4) as u8, 0];
                    header.extend(len.to_be_bytes());
                    header.extend([0, 9, 0x40, 0, 64, UDP, 0, 0]);
                    header.extend(source.octets().into_iter().chain(destination.octets()).chain(options));
                    let sum = checksum(&[&header]);
                    header[10..12].copy_from_slice(&sum.to_be_bytes());
                    bytes.extend([0x08, 0]);
                    bytes.extend(header);
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => {
                    let mut extensions = Vec::new();
                    let next = |at: usize| if at == self.options.len() { UDP } else { [0, 60, 43, 44][at.min(3)] };
                    for (at, units) in self.options.iter().enumerate() {
                        // A fragment header of a whole packet has a fixed length.
                        let units = if at >= 3 { 0 } else { units % 3 };
                        extensions.extend([next(at + 1), units]);
                        extensions.extend(vec![0; 6 + 8 * usize::from(units)]);
                    }
                    let len = (extensions.len() + datagram.len()) as u16;
                    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                    bytes.extend(len.to_be_bytes());
                    bytes.extend([next(0), 64]);
                    bytes.extend(source.octets().into_iter().chain(destination.octets()).chain(extensions));
                }
                _ => panic!("addresses of one family"),
            }
            bytes.extend(datagram);
            bytes.extend(vec![0; self.padding]);
            bytes
        }
    }

    pub(crate) fn any_written() -> impl Strategy<Value = Written> {
        let v4 = any::<[Ipv4Addr; 2]>().prop_map(|[source, destination]| (source.into(), destination.into()));
        let v6 = any::<[Ipv6Addr; 2]>().prop_map(|[source, destination]| (source.into(), destination.into()));
        let bytes = |max| vec(any::<u8>(), 0..max);
        let vlan_tags = vec(0..4095u16, 0..=VLAN_TAGS_MAX);
        (prop_oneof![v4, v6], any::<u16>(), bytes(90), bytes(8), vlan_tags, 0usize..50).prop_map(
            |((source, destination), port, payload, options, vlan_tags, padding)| Written {
                source,
                destination,
                port,
                payload,
                options,
                vlan_tags,
                padding,
            },
        )
    }

    fn header_at(written: &Written) -> usize {
        2 + 4 * written.vlan_tags.len()
    }

    #[test]
    fn fragments_do_not_tell_unless_they_are_the_first() {
        let written = Written::new("192.0.2.1", "192.0.2.2", 2152, &[7; 64]);
        let with = |fragment: u16| {
            let mut rest = written.rest();
            rest[8..10].copy_from_slice(&fragment.to_be_bytes());
            Udp::of_frame(&rest).map(|udp| udp.map(|udp| (udp.port, udp.datagram.is_some())))
        };
        assert_eq!(with(0x4000), Ok(Some((2152, true))));
        assert_eq!(with(0x2000), Ok(Some((2152, false))));
        assert_eq!(with(0x2001), Ok(None));
        assert_eq!(with(0x0001), Ok(None));
        let mut written = Written::new("2001:db8::1", "2001:db8::2", 2152, &[7; 64]);
        written.options = vec![0; 4];
        let with = |fragment: u16| {
            let mut rest = written.rest();
            let at = 2 + 40 + 3 * 8 + 2;
            rest[at..at + 2].copy_from_slice(&fragment.to_be_bytes());
            Udp::of_frame(&rest).map(|udp| udp.map(|udp| (udp.port, udp.datagram.is_some())))
        };
        assert_eq!(with(0), Ok(Some((2152, true))));
        assert_eq!(with(1), Ok(Some((2152, false))));
        assert_eq!(with(8), Ok(None));
        assert_eq!(with(9), Ok(None));
    }

    #[test]
    fn lengths_that_contradict_are_found() {
        let rest = Written::new("192.0.2.1", "192.0.2.2", 9, &[7; 16]).rest();
        for (at, bytes) in [
            (2, [0x65, 0]), // Version 6.
            (2, [0x44, 0]), // A header of 16 bytes.
            (2, [0x4f, 0]), // Options that cover the datagram.
            (4, [0, 19]),   // Shorter than its header.
            (4, [0, 45]),   // Longer than the frame.
            (26, [0, 7]),   // A datagram shorter than its header.
            (26, [0, 25]),  // Longer than its packet.
        ] {
            let mut rest = rest.clone();
            rest[at..at + 2].copy_from_slice(&bytes);
            assert_eq!(Udp::of_frame(&rest), Err(Malformed), "{at}");
        }
        let rest = Written::new("2001:db8::1", "2001:db8::2", 9, &[7; 16]).rest();
        for (at, bytes) in [(2, [0x45, 0]), (6, [0, 25]), (6, [0, 7]), (46, [0, 7]), (46, [0, 25])] {
            let mut rest = rest.clone();
            rest[at..at + 2].copy_from_slice(&bytes);
            assert_eq!(Udp::of_frame(&rest), Err(Malformed), "{at}");
        }
        // More extension headers than are followed.
        let mut chain = rest.clone();
        chain[8] = 60;
        chain.splice(42.., [60, 0, 0, 0, 0, 0, 0, 0].repeat(20));
        chain[6..8].copy_from_slice(&160u16.to_be_bytes());
        assert_eq!(Udp::of_frame(&chain), Err(Malformed));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(written in any_written()) {
            let rest = written.rest();
            let udp = Udp::of_frame(&rest).expect("well-formed").expect("UDP");
            prop_assert_eq!((udp.source, udp.destination, udp.port), (written.source, written.destination, written.port));
            prop_assert_eq!(&udp.datagram.expect("whole")[8..], &written.payload);
            prop_assert!(udp.is_intact());
            let addresses = match (written.source, written.destination) {
                (IpAddr::V6(source), IpAddr::V6(destination)) => Some([source, destination]),
                _ => None,
            };
            prop_assert_eq!(ipv6_addresses(&rest), Ok(addresses));
        }

        #[test]
        fn a_frame_that_ends_early_is_not_read(written in any_written(), cut in 1usize..200) {
            let rest = Written { padding: 0, ..written.clone() }.rest();
            let cut = &rest[..rest.len().saturating_sub(cut)];
            let read = Udp::of_frame(cut);
            prop_assert_eq!(read, if cut.len() < header_at(&written) { Ok(None) } else { Err(Malformed) });
        }

        #[test]
        fn changed_bytes_never_panic_and_wrong_sums_are_found(written in any_written(), at in any::<usize>(), bit in 0..8) {
            let mut rest = written.rest();
            let len = rest.len() - written.padding;
            let at = at % len;
            rest[at] ^= 1u8 << bit;
            let _ = ipv6_addresses(&rest);
            if let Ok(Some(udp)) = Udp::of_frame(&rest)
                && at >= len - written.payload.len()
            {
                prop_assert!(!udp.is_intact());
            }
        }

        #[test]
        fn any_bytes_are_read_or_not(start in 0usize..4, bytes in vec(any::<u8>(), 0..100)) {
            let start: &[u8] = [&[][..], &[0x08, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 1, 0x81, 0]][start];
            let rest = [start, &bytes].concat();
            let _ = ipv6_addresses(&rest);
            if let Ok(Some(Udp { datagram: Some(datagram), .. })) = Udp::of_frame(&rest) {
                prop_assert!(datagram.len() >= 8 && datagram.len() <= rest.len());
            }
        }
    }
}
