//! Ethernet frames as a switch sees them, and the tag that they have between switches.
//!
//! ```text
//! from and to hosts    destination (6)  source (6)                              EtherType (2)  payload
//! between switches     destination (6)  source (6)  88-B5  epoch (1)  hops (1)  EtherType (2)  payload
//! ```
//!
//! 0x88B5 is one of the two EtherTypes that IEEE 802 leaves to experiments. The tag takes four bytes, like a VLAN tag,
//! so links between switches need an MTU four bytes larger than that of hosts.

use std::ops::Deref;

use byname_wire::MacAddress;

/// The EtherType that announces a [`Tag`].
pub const TAG_ETHER_TYPE: u16 = 0x88b5;
/// Bytes of a tag, including its EtherType.
pub const TAG_BYTES: usize = 4;
const ADDRESSES_BYTES: usize = 12;
const FRAME_BYTES_MIN: usize = ADDRESSES_BYTES + 2;

/// The tag of frames between switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Epoch of the tree that the frame is flooded along, if it is for a group.
    pub epoch: u8,
    /// Number of links between switches that it may still cross, including this one.
    pub hop_limit: u8,
}

/// A frame as a port delivers it.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The frame's bytes, without a VLAN tag that the system has removed.
    pub bytes: &'a [u8],
    /// The VLAN tag that was removed.
    pub vlan: Option<[u8; 4]>,
}

/// A parsed frame, which borrows its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The receiver: a station or a group.
    pub destination: MacAddress,
    /// The station that sent it.
    pub source: MacAddress,
    /// The tag of a frame from another switch.
    pub tag: Option<Tag>,
    vlan: Option<[u8; 4]>,
    /// The EtherType and everything after it.
    pub rest: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses a frame; `None` if it is too short or its source is not a single station.
    pub fn parse(arrived: Arrived<'a>) -> Option<Self> {
        let (addresses, rest) = arrived.bytes.split_first_chunk::<ADDRESSES_BYTES>()?;
        if arrived.bytes.len() < FRAME_BYTES_MIN {
            return None;
        }
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
        let source = MacAddress([s0, s1, s2, s3, s4, s5]);
        if source.is_group() || source.is_zero() {
            return None;
        }
        let mut frame =
            Frame { destination: MacAddress([d0, d1, d2, d3, d4, d5]), source, tag: None, vlan: arrived.vlan, rest };
        // After a VLAN tag, the same bytes are a host's own.
        if arrived.vlan.is_none() && rest.starts_with(&TAG_ETHER_TYPE.to_be_bytes()) {
            let (&[_, _, epoch, hop_limit], rest) = rest.split_first_chunk::<TAG_BYTES>()?;
            (frame.tag, frame.rest) = (Some(Tag { epoch, hop_limit }), rest);
            // The frame's own EtherType must follow.
            if rest.len() < 2 {
                return None;
            }
        }
        Some(frame)
    }

    /// The bytes before [`Frame::rest`] when the frame leaves, with a tag or without.
    pub fn header(&self, tag: Option<Tag>) -> Header {
        let mut header = Header { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        header.push(&self.destination.0);
        header.push(&self.source.0);
        if let Some(Tag { epoch, hop_limit }) = tag {
            let [high, low] = TAG_ETHER_TYPE.to_be_bytes();
            header.push(&[high, low, epoch, hop_limit]);
        }
        if let Some(vlan) = &self.vlan {
            header.push(vlan);
        }
        header
    }

    /// The VLAN tag as it arrived.
    pub(super) fn vlan(&self) -> Option<[u8; 4]> {
        self.vlan
    }
}

/// Two addresses and at most two tags.
pub const HEADER_BYTES_MAX: usize = ADDRESSES_BYTES + 2 * TAG_BYTES;

/// The bytes before the EtherType of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl Header {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Whether frames to this group must stay on one link: spanning tree, pause and neighbor protocols.
pub(super) fn is_of_link(destination: MacAddress) -> bool {
    matches!(destination.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn parse(bytes: &[u8]) -> Option<Frame<'_>> {
        Frame::parse(Arrived { bytes, vlan: None })
    }

    #[test]
    fn tags_are_taken_off_and_put_on() {
        let plain = [&ADDRESSES[..], &[8, 0, 0x45]].concat();
        let frame = parse(&plain).expect("a frame");
        assert_eq!((frame.tag, frame.rest), (None, &[8, 0, 0x45][..]));
        let tag = Tag { epoch: 7, hop_limit: 16 };
        let tagged = [&frame.header(Some(tag)), frame.rest].concat();
        assert_eq!(tagged[12..], [0x88, 0xb5, 7, 16, 8, 0, 0x45]);
        let frame = parse(&tagged).expect("a frame");
        assert_eq!((frame.tag, frame.rest), (Some(tag), &[8, 0, 0x45][..]));
        assert_eq!([&frame.header(None), frame.rest].concat(), plain);
    }

    #[test]
    fn the_tag_of_a_vlan_goes_inside_ours() {
        let bytes = [&ADDRESSES[..], &[8, 0, 0x45]].concat();
        let vlan = Some([0x81, 0, 0, 7]);
        let frame = Frame::parse(Arrived { bytes: &bytes, vlan }).expect("a frame");
        let tagged = [&frame.header(Some(Tag { epoch: 1, hop_limit: 2 })), frame.rest].concat();
        let frame = parse(&tagged).expect("a frame");
        assert_eq!([&frame.header(None), frame.rest].concat()[12..], [0x81, 0, 0, 7, 8, 0, 0x45]);
        // A host cannot hide one of our tags behind a VLAN tag.
        let inside = [&ADDRESSES[..], &[0x88, 0xb5, 1, 2, 8, 0]].concat();
        assert_eq!(Frame::parse(Arrived { bytes: &inside, vlan }).map(|frame| frame.tag), Some(None));
    }

    #[test]
    fn what_is_no_frame_is_none() {
        let good = [&ADDRESSES[..], &[8, 0]].concat();
        assert!(parse(&good).is_some() && parse(&good[..13]).is_none());
        for source in [[3, 0, 0, 0, 0, 2], [0; 6]] {
            assert_eq!(parse(&[&ADDRESSES[..6], &source, &[8, 0]].concat()), None);
        }
        for cut in [&[0x88, 0xb5][..], &[0x88, 0xb5, 1, 2], &[0x88, 0xb5, 1, 2, 8]] {
            assert_eq!(parse(&[&ADDRESSES, cut].concat()), None, "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_leaves_as_it_came(bytes in vec(any::<u8>(), 0..80), tagged: bool) {
            let mut bytes = bytes;
            if tagged && bytes.len() >= FRAME_BYTES_MIN {
                bytes[12..14].copy_from_slice(&TAG_ETHER_TYPE.to_be_bytes());
            }
            if let Some(frame) = parse(&bytes) {
                prop_assert_eq!([&frame.header(frame.tag), frame.rest].concat(), bytes);
            }
        }
    }
}
