//! UDP datagrams in Ethernet frames, for ports whose frames bypass the kernel's IP.
//!
//! Only plain datagrams: IPv4 without options, and IPv6 without extension headers [RFC 791, 8200, 768], never
//! fragments. Sent datagrams must not be fragmented on their way either; the link service cuts packets to the size of a
//! frame.

use std::net::{IpAddr, SocketAddr};

use smallvec::SmallVec;

use super::frame::HEADER_BYTES;
use super::offload::sum;
use crate::mac_address::MacAddress;

/// EtherTypes of IPv4 and IPv6.
pub(super) const IPV4_ETHER_TYPE: u16 = 0x0800;
pub(super) const IPV6_ETHER_TYPE: u16 = 0x86dd;
/// Bytes of the IP headers.
pub(super) const IPV4_BYTES: usize = 20;
pub(super) const IPV6_BYTES: usize = 40;
/// Bytes of the UDP header.
pub(super) const UDP_BYTES: usize = 8;
/// Protocol number of UDP.
pub(super) const UDP: u8 = 17;
/// First byte of an IPv4 header: version 4, and a header of five words.
pub(super) const IPV4_PLAIN: u8 = 0x45;
/// Bits of the flag for more fragments, and of the fragment offset.
pub(super) const FRAGMENT_BITS: u16 = 0x3fff;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const HOPS: u8 = 64;
/// Hop limit of packets that must not be routed.
pub(super) const HOPS_OF_LINK: u8 = 255;

/// A datagram that borrows the bytes of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Station that sent the frame: the peer, or a router on the way.
    pub station: MacAddress,
    /// Address of the sender.
    pub source: SocketAddr,
    /// Address of the receiver.
    pub destination: SocketAddr,
    /// Payload of the datagram.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Parses a frame. Returns `None` if it holds no plain datagram, or a checksum is wrong.
    ///
    /// A sender on this host may leave the checksum to its network card, but a virtual cable has no card. The
    /// checksum's place then holds the pseudo-header's sum, which is accepted.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, packet) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let station = MacAddress(header[6..12].try_into().ok()?);
        let (source, destination, segment) = match u16::from_be_bytes([header[12], header[13]]) {
            IPV4_ETHER_TYPE => ipv4(packet)?,
            IPV6_ETHER_TYPE => ipv6(packet)?,
            _ => return None,
        };
        let (udp, _) = segment.split_first_chunk::<UDP_BYTES>()?;
        let [s0, s1, d0, d1, l0, l1, c0, c1] = *udp;
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let payload = segment.get(UDP_BYTES..len)?;
        let checksum = u16::from_be_bytes([c0, c1]);
        let pseudo = pseudo_header(source, destination, len as u16, UDP);
        let is_right = match checksum {
            // No checksum was computed, which IPv6 does not allow.
            0 => source.is_ipv4(),
            left if left == pseudo => true,
            _ => add(pseudo, sum(&segment[..len])) == 0xffff,
        };
        let source = SocketAddr::new(source, u16::from_be_bytes([s0, s1]));
        let destination = SocketAddr::new(destination, u16::from_be_bytes([d0, d1]));
        is_right.then_some(Datagram { station, source, destination, payload })
    }
}

/// Source, destination and payload of a plain IPv4 packet that carries UDP.
fn ipv4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let (header, _) = packet.split_first_chunk::<IPV4_BYTES>()?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let is_plain = header[0] == IPV4_PLAIN && half(6) & FRAGMENT_BITS == 0 && header[9] == UDP;
    (is_plain && sum(header) == 0xffff).then_some((
        address(12),
        address(16),
        packet.get(IPV4_BYTES..usize::from(half(2)))?,
    ))
}

/// Source, destination and payload of a plain IPv6 packet that carries UDP.
fn ipv6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let (header, rest) = packet.split_first_chunk::<IPV6_BYTES>()?;
    let address = |at: usize| {
        let bytes: [u8; 16] = header[at..at + 16].try_into().expect("sixteen bytes");
        IpAddr::from(bytes)
    };
    let is_plain = header[0] >> 4 == 6 && header[6] == UDP;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    is_plain.then_some((address(8), address(24), rest.get(..len)?))
}

/// The two ends of a datagram's way to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Address and port of this host, of the same family as the peer's.
    pub here: SocketAddr,
    /// Address and port of the peer.
    pub there: SocketAddr,
}

/// A peer that is reached by UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPeer {
    /// Addresses of both ends.
    pub path: Path,
    /// Station that frames to it go to: the peer itself, or a router on the way. `None`: the station that its latest
    /// datagram came from. Until the peer has sent one, nothing can be sent to it.
    pub station: Option<MacAddress>,
}

/// All headers of a frame.
pub type Header = SmallVec<[u8; HEADER_BYTES + IPV6_BYTES + UDP_BYTES]>;

impl Path {
    /// Bytes of the IP and UDP headers.
    pub fn overhead(&self) -> usize {
        UDP_BYTES + if self.here.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }
    }

    /// Headers of a frame to `station` with this payload, which is given in two parts.
    pub fn header(&self, station: MacAddress, source: MacAddress, payload: (&[u8], &[u8])) -> Header {
        let len = (UDP_BYTES + payload.0.len() + payload.1.len()) as u16;
        let mut header = Header::new();
        header.extend_from_slice(&station.0);
        header.extend_from_slice(&source.0);
        match (self.here.ip(), self.there.ip()) {
            (IpAddr::V4(here), IpAddr::V4(there)) => {
                header.extend_from_slice(&IPV4_ETHER_TYPE.to_be_bytes());
                let [t0, t1] = (IPV4_BYTES as u16 + len).to_be_bytes();
                let [f0, f1] = DO_NOT_FRAGMENT.to_be_bytes();
                header.extend_from_slice(&[IPV4_PLAIN, 0, t0, t1, 0, 0, f0, f1, HOPS, UDP, 0, 0]);
                header.extend_from_slice(&here.octets());
                header.extend_from_slice(&there.octets());
                let checksum = !sum(&header[HEADER_BYTES..]);
                header[HEADER_BYTES + 10..HEADER_BYTES + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            (here, there) => {
                header.extend_from_slice(&IPV6_ETHER_TYPE.to_be_bytes());
                let [l0, l1] = len.to_be_bytes();
                header.extend_from_slice(&[0x60, 0, 0, 0, l0, l1, UDP, HOPS]);
                for address in [here, there] {
                    let IpAddr::V6(address) = address else { unreachable!("both are of one family") };
                    header.extend_from_slice(&address.octets());
                }
            }
        }
        for half in [self.here.port(), self.there.port(), len] {
            header.extend_from_slice(&half.to_be_bytes());
        }
        let ports_and_len = sum(&header[header.len() - 6..]);
        let second = sum(payload.1);
        // After an odd number of bytes all pairs are shifted by one.
        let second = if payload.0.len().is_multiple_of(2) { second } else { second.swap_bytes() };
        let pseudo = pseudo_header(self.here.ip(), self.there.ip(), len, UDP);
        let checksum = match !add(add(pseudo, ports_and_len), add(sum(payload.0), second)) {
            // A checksum of zero would mean that there is none.
            0 => u16::MAX,
            checksum => checksum,
        };
        header.extend_from_slice(&checksum.to_be_bytes());
        header
    }
}

/// Sum of the pseudo-header of a packet with this protocol.
pub(super) fn pseudo_header(source: IpAddr, destination: IpAddr, len: u16, protocol: u8) -> u16 {
    let of = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    add(add(of(source), of(destination)), add(u16::from(protocol), len))
}

/// Adds two sums of the Internet checksum.
pub(super) fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const HERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const THERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    fn path(here: &str, there: &str) -> Path {
        Path { here: here.parse().expect("an address"), there: there.parse().expect("an address") }
    }

    fn paths() -> [Path; 2] {
        [path("192.0.2.1:6363", "192.0.2.2:7000"), path("[2001:db8::1]:6363", "[2001:db8::2]:7000")]
    }

    fn frame(path: Path, payload: (&[u8], &[u8])) -> Vec<u8> {
        [&path.header(THERE, HERE, payload)[..], payload.0, payload.1].concat()
    }

    /// `hello` from 192.0.2.1:7000 to 192.0.2.2:6363, with checksums that were computed independently.
    const KNOWN: [u8; 47] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 33, 0x1c, 0x46, 0x40, 0, 0x40, 0x11, 0x9a, 0x82, 192, 0,
        2, 1, 192, 0, 2, 2, 0x1b, 0x58, 0x18, 0xdb, 0, 13, 0x03, 0xcb, b'h', b'e', b'l', b'l', b'o',
    ];

    #[test]
    fn what_is_written_is_read() {
        for path in paths() {
            for payload in [(&b""[..], &b"hello"[..]), (b"hel", b"lo"), (b"hello", b"")] {
                let bytes = frame(path, payload);
                assert_eq!(bytes.len(), HEADER_BYTES + path.overhead() + 5);
                let read = Datagram::parse(&bytes).expect("a datagram");
                assert_eq!((read.source, read.destination), (path.here, path.there));
                assert_eq!((read.station, read.payload), (HERE, &b"hello"[..]));
                // The padding of a short frame is not read.
                let padded = [&bytes[..], &[0; 20]].concat();
                assert_eq!(Datagram::parse(&padded), Some(read));
            }
        }
    }

    #[test]
    fn checksums_are_right() {
        let read = Datagram::parse(&KNOWN).expect("a datagram");
        assert_eq!((read.source, read.payload), ("192.0.2.1:7000".parse().expect("an address"), &b"hello"[..]));
        let written = frame(path("192.0.2.1:7000", "192.0.2.2:6363"), (b"hello", b""));
        assert_eq!(written[34..], KNOWN[34..], "UDP's header, with its checksum");
    }

    #[test]
    fn a_checksum_may_be_missing_or_left_to_the_card() {
        let [v4, v6] = paths();
        for (path, may_miss) in [(v4, true), (v6, false)] {
            let mut bytes = frame(path, (b"", b"hello"));
            let at = HEADER_BYTES + path.overhead() - 2;
            bytes[at..at + 2].fill(0);
            assert_eq!(Datagram::parse(&bytes).is_some(), may_miss);
            let left = pseudo_header(path.here.ip(), path.there.ip(), 13, UDP);
            bytes[at..at + 2].copy_from_slice(&left.to_be_bytes());
            assert!(Datagram::parse(&bytes).is_some());
        }
    }

    #[test]
    fn what_is_not_plain_is_none() {
        let [v4, v6] = paths();
        let good = frame(v4, (b"", b"hello"));
        // Options, a fragment, TCP, and lengths beyond the frame, each with a correct header checksum.
        for (at, byte) in [(14, 0x46), (20, 0x20), (21, 1), (23, 6), (17, 100), (39, 100)] {
            let mut bad = good.clone();
            bad[at] = byte;
            bad[24..26].fill(0);
            let checksum = !sum(&bad[14..34]);
            bad[24..26].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(Datagram::parse(&bad), None, "{at}");
        }
        let good = frame(v6, (b"", b"hello"));
        for (at, byte) in [(14, 0x40), (19, 100), (20, 44), (20, 6), (12, 8), (13, 0)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(Datagram::parse(&bad), None, "{at}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_no_panic(bytes in vec(any::<u8>(), 0..120), v6: bool) {
            let mut bytes = bytes;
            if bytes.len() > 23 {
                let typ = if v6 { IPV6_ETHER_TYPE } else { IPV4_ETHER_TYPE };
                bytes[12..14].copy_from_slice(&typ.to_be_bytes());
                bytes[14] = if v6 { 0x60 } else { IPV4_PLAIN };
            }
            if let Some(read) = Datagram::parse(&bytes) {
                prop_assert!(read.payload.len() + HEADER_BYTES + UDP_BYTES <= bytes.len());
            }
        }

        #[test]
        fn a_wrong_byte_is_told(first in vec(any::<u8>(), 0..20), second in vec(any::<u8>(), 0..20), at: usize, to: u8) {
            for path in paths() {
                let good = frame(path, (&first, &second));
                prop_assert!(Datagram::parse(&good).is_some());
                let mut bad = good.clone();
                // From the IP header on, without the IPv6 bytes that no checksum covers.
                let start = if path.here.is_ipv4() { HEADER_BYTES } else { HEADER_BYTES + 8 };
                let at = start + at % (good.len() - start);
                bad[at] = to;
                if let Some(read) = Datagram::parse(&bad) {
                    // A checksum of zero means none, and another length may match the bytes by chance.
                    let same = read.payload == [&first[..], &second].concat();
                    let length = HEADER_BYTES + path.overhead() - 4;
                    prop_assert!(bad == good || same || (length..length + 2).contains(&at), "{at}");
                }
            }
        }
    }
}
