//! Ethernet frames that carry NDN: a header of 14 octets, and one link packet.

use byname_wire::PACKET_BYTES_MAX;
use byname_wire::tlv::element_len;

use crate::mac_address::MacAddress;

/// The EtherType of NDN.
pub const ETHER_TYPE: u16 = 0x8624;
/// Octets before the payload.
pub const HEADER_BYTES: usize = 14;
/// Octets that the link header of the longest packet may have, by far.
const LINK_PACKET_BYTES_MAX: usize = 2 * PACKET_BYTES_MAX;

/// Whether a frame says that it is NDN's.
pub fn is_ndn(octets: &[u8]) -> bool {
    octets.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&ETHER_TYPE.to_be_bytes())
}

/// A frame, taken apart in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetFrame<'a> {
    /// Whom it is for: a station, or a group.
    pub destination: MacAddress,
    /// The station that sent it.
    pub source: MacAddress,
    /// The link packet, without what fills a short frame up to the 60 octets that a wire takes.
    pub payload: &'a [u8],
}

impl<'a> EthernetFrame<'a> {
    /// Takes a frame apart; `None` when it is too short, of another EtherType (a VLAN tag is one), or
    /// not from a single station.
    ///
    /// Where the payload does not hold the whole element that it begins, it is left as it is: the
    /// link service counts it.
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let (header, payload) = octets.split_first_chunk::<HEADER_BYTES>()?;
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

/// The header of a frame from one station to another, or to a group.
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
        let mut octets = frame(&[5, 3, 7, 1, 8]);
        octets.resize(60, 0);
        let parsed = EthernetFrame::parse(&octets).expect("a frame");
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
        for (at, octet) in [(12, 0x81), (6, 3)] {
            let mut bad = good.clone();
            bad[at] = octet;
            assert_eq!(EthernetFrame::parse(&bad), None);
        }
        assert_eq!(EthernetFrame::parse(&[&header(HERE, MacAddress([0; 6]))[..], &[5, 0]].concat()), None);
    }

    proptest! {
        #[test]
        fn whatever_comes_the_payload_begins_after_the_header(octets in vec(any::<u8>(), 0..100), ndn: bool) {
            let mut octets = octets;
            if ndn && octets.len() >= HEADER_BYTES {
                octets[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
            }
            if let Some(parsed) = EthernetFrame::parse(&octets) {
                prop_assert!(octets[HEADER_BYTES..].starts_with(parsed.payload));
                prop_assert_eq!(&header(parsed.destination, parsed.source)[..], &octets[..HEADER_BYTES]);
            } else {
                prop_assert!(!ndn || octets.len() < HEADER_BYTES || octets[6] & 1 == 1 || octets[6..12] == [0; 6]);
            }
        }
    }
}
