//! Ethernet frames that carry NDN: a header of 14 bytes, and one link packet.

use byname_wire::PACKET_BYTES_MAX;
use byname_wire::tlv::element_len;

use crate::mac_address::MacAddress;

/// Group of NDN stations, as in NFD.
pub const GROUP: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]);
/// EtherType of NDN.
pub const ETHER_TYPE: u16 = 0x8624;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 14;
/// Generous maximum of a link packet's bytes.
const LINK_PACKET_BYTES_MAX: usize = 2 * PACKET_BYTES_MAX;

/// Whether a frame has NDN's EtherType.
pub fn is_ndn(bytes: &[u8]) -> bool {
    bytes.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&ETHER_TYPE.to_be_bytes())
}

/// A parsed frame, which borrows its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetFrame<'a> {
    /// Destination: a station or a group.
    pub destination: MacAddress,
    /// The station that sent it.
    pub source: MacAddress,
    /// The link packet, without the padding that brings a short frame to the 60 bytes of a wire.
    pub payload: &'a [u8],
}

impl<'a> EthernetFrame<'a> {
    /// Parses a frame. Returns `None` if it is too short, has another EtherType (a VLAN tag is one), or does not come
    /// from a single station.
    ///
    /// If the payload is shorter than the element that it begins, it is not cut: the link service counts it.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
        let source = MacAddress([s0, s1, s2, s3, s4, s5]);
        if u16::from_be_bytes([t0, t1]) != ETHER_TYPE || source.is_group() || source.is_zero() {
            return None;
        }
        let payload = match element_len(payload, LINK_PACKET_BYTES_MAX) {
            Ok(Some(len)) => &payload[..len],
            _ => payload,
        };
        Some(EthernetFrame { destination: MacAddress([d0, d1, d2, d3, d4, d5]), source, payload })
    }
}

/// Header of a frame from one station to another, or to a group.
pub fn header(destination: MacAddress, source: MacAddress) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    header[12..].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const HERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const THERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    fn frame(payload: &[u8]) -> Vec<u8> {
        [&header(HERE, THERE)[..], payload].concat()
    }

    #[test]
    fn padding_is_cut_off() {
        let mut bytes = frame(&[5, 3, 7, 1, 8]);
        bytes.resize(60, 0);
        let parsed = EthernetFrame::parse(&bytes).expect("a frame");
        assert_eq!(parsed, EthernetFrame { destination: HERE, source: THERE, payload: &[5, 3, 7, 1, 8] });
    }

    #[test]
    fn a_length_that_lies_changes_nothing() {
        for payload in [&[5, 200, 7][..], &[5, 0xfe, 0xff, 0xff, 0xff, 0xff], &[], &[5]] {
            assert_eq!(EthernetFrame::parse(&frame(payload)).map(|f| f.payload), Some(payload));
        }
    }

    #[test]
    fn other_frames_are_none() {
        let good = frame(&[5, 0]);
        assert_eq!(EthernetFrame::parse(&good[..13]), None);
        for (at, byte) in [(12, 0x81), (6, 3)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(EthernetFrame::parse(&bad), None);
        }
        assert_eq!(EthernetFrame::parse(&[&header(HERE, MacAddress([0; 6]))[..], &[5, 0]].concat()), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_the_payload_begins_after_the_header(bytes in vec(any::<u8>(), 0..100), ndn: bool) {
            let mut bytes = bytes;
            if ndn && bytes.len() >= HEADER_BYTES {
                bytes[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
            }
            if let Some(parsed) = EthernetFrame::parse(&bytes) {
                prop_assert!(bytes[HEADER_BYTES..].starts_with(parsed.payload));
                prop_assert_eq!(&header(parsed.destination, parsed.source)[..], &bytes[..HEADER_BYTES]);
            } else {
                prop_assert!(!ndn || bytes.len() < HEADER_BYTES || bytes[6] & 1 == 1 || bytes[6..12] == [0; 6]);
            }
        }
    }
}
