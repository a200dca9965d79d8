//! Locators: the node of a tree that a packet goes to [TagNet §3.3].
//!
//! A label is that of [Thorup and Zwick, "Compact routing schemes", SPAA 2001], section 2.1, in the
//! layout of [TagNet §3.3], Figure 6. It consists of the node's number, a list of ports, and a mask
//! that marks where each port ends in the list. The list has one port for each *light* edge on the
//! way from the root. Routers know their *heavy* edge themselves, so the list leaves it out. Light
//! ports are numbered from 1, larger subtrees first. Long port numbers therefore lead to small
//! subtrees, and the port lists of a tree of n nodes have at most log2 n bits.
//! `byname_lookup::locator` makes them and shows why.
//!
//! Differs:
//! - The paper's struct has 16 bits for each of the three parts. Here they have 32, 31 and 31 bits,
//!   enough for any tree of 2^32 nodes. Unused bits are not sent.
//! - Port numbers are written as bijective numbers: 1 and 2 take one bit, 3 to 6 take two, 7 to 14
//!   take three. Port i takes ⌊log2(i + 1)⌋ bits and leads to at most one in i + 1 of the nodes.
//!   The list spends one bit for each halving of the remaining tree, where plain binary spends up
//!   to 1.3. A label in the paper's form then has at most 3 log2 n bits, where the paper has 3.4.
//!
//! On the wire a label is a big-endian number in as few bytes as hold it (1 to 13). From its most
//! significant bit:
//!
//! | bits | what |
//! | --- | --- |
//! | 5 | b, the bits of the port list |
//! | b | the port list, the root's port in its least significant bits |
//! | b - 1, or 0 | the mask, without its most significant bit, which is always set |
//! | the rest | the number of the node |

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::tlv::DecodeError;

/// Maximum length of an encoded label, in bytes.
pub const LABEL_BYTES_MAX: usize = (HEADER_BITS + 2 * PORT_BITS_MAX + 32).div_ceil(8) as usize;

/// Maximum length of a port list, in bits: no tree of 2^32 nodes has a longer one.
pub const PORT_BITS_MAX: u32 = 31;

const HEADER_BITS: u32 = 5;

/// A spanning tree of the network.
///
/// A label is valid on one tree only. A tree that is computed again and gets new labels takes a new
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

/// The destination of a packet: a label, and the tree that the label belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Locator {
    /// The tree.
    pub tree: TreeId,
    /// The node's label there.
    pub label: Label,
}

/// The label of a node on a tree.
///
/// Each label that can be made or decoded is a node's number and a list of ports. Only the tree's
/// routers know whether the node exists and whether these ports lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label {
    node: u32,
    ports: u32,
    /// One bit for each port: the port's most significant bit in `ports`.
    ends: u32,
}

impl Label {
    /// The label of a node that only heavy edges lead to, such as the root.
    pub const fn new(node: u32) -> Self {
        Label { node, ports: 0, ends: 0 }
    }

    /// The label of `node`, which is this node's child by the heavy edge.
    pub const fn heavy_child(self, node: u32) -> Self {
        Label { node, ..self }
    }

    /// The label of `node`, which is this node's child by the light edge with this port, counted
    /// from 1. `None` if the port list would have more than [`PORT_BITS_MAX`] bits.
    pub fn light_child(self, node: u32, port: u32) -> Option<Self> {
        let one_more = u64::from(port) + 1;
        let (at, bits) = (self.port_bits(), one_more.ilog2());
        if port == 0 || at + bits > PORT_BITS_MAX {
            return None;
        }
        let digits = (one_more - (1 << bits)) as u32;
        Some(Label { node, ports: self.ports | digits << at, ends: self.ends | 1 << (at + bits - 1) })
    }

    /// The number of the node.
    #[inline]
    pub const fn node(self) -> u32 {
        self.node
    }

    /// Length of the port list in bits.
    #[inline]
    pub const fn port_bits(self) -> u32 {
        u32::BITS - self.ends.leading_zeros()
    }

    /// The port that begins `skip` bits above the list's least significant bit. A node passes the
    /// length of its own label's list; `skip` is at most [`PORT_BITS_MAX`]. If the list ends
    /// before, the result is `u32::MAX`, which is no port of any node.
    ///
    /// Two shifts, one addition and three bit operations [TagNet §3.3], Figure 6, line 17.
    #[inline(always)]
    pub const fn light_port(self, skip: u32) -> u32 {
        let ends = self.ends >> (skip & 31);
        // All bits up to the first one set. They are one port's bits, and their value is the offset
        // of its number. If no bit is set, no bit of the list is left either, and the sum is all
        // ones.
        let bits = ends ^ ends.wrapping_sub(1);
        bits.wrapping_add(self.ports >> (skip & 31) & bits)
    }

    /// Length of the encoded label in bits. The label takes as many whole bytes as hold them.
    pub const fn bits(self) -> u32 {
        self.bits_before_node() + u32::BITS - self.node.leading_zeros()
    }

    /// Bytes that [`Label::push`] appends.
    pub const fn encoded_len(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// Appends the encoded label.
    pub fn push(self, out: &mut Vec<u8>) {
        let port_bits = self.port_bits();
        let end_bits = port_bits.saturating_sub(1);
        let header = u128::from(port_bits) << port_bits | u128::from(self.ports);
        let header = header << end_bits | u128::from(self.ends) & ones(end_bits);
        let len = self.encoded_len();
        let number = header << (8 * len as u32 - self.bits_before_node()) | u128::from(self.node);
        out.extend_from_slice(&number.to_be_bytes()[size_of::<u128>() - len..]);
    }

    /// Decodes a label that fills `value`. `typ` only names the element in the error.
    ///
    /// # Errors
    /// If [`Label::push`] appends these bytes for no label.
    #[inline]
    pub fn decode(typ: u64, value: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_shortest(value).ok_or(DecodeError::BadValue(typ))
    }

    #[inline]
    fn decode_shortest(value: &[u8]) -> Option<Self> {
        if value.is_empty() || value.len() > LABEL_BYTES_MAX {
            return None;
        }
        let number = value.iter().fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
        let all_bits = 8 * value.len() as u32;
        let port_bits = (number >> (all_bits - HEADER_BITS)) as u32;
        let end_bits = port_bits.saturating_sub(1);
        let node_bits = all_bits.checked_sub(HEADER_BITS + port_bits + end_bits)?;
        let node = u32::try_from(number & ones(node_bits)).ok()?;
        let ports = (number >> (node_bits + end_bits) & ones(port_bits)) as u32;
        let ends = (number >> node_bits & ones(end_bits)) as u32;
        let last = if port_bits == 0 { 0 } else { 1 << end_bits };
        let label = Label { node, ports, ends: ends | last };
        (label.encoded_len() == value.len()).then_some(label)
    }

    const fn bits_before_node(self) -> u32 {
        let port_bits = self.port_bits();
        HEADER_BITS + port_bits + port_bits.saturating_sub(1)
    }
}

/// The encoded label in hexadecimal.
impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(LABEL_BYTES_MAX);
        self.push(&mut bytes);
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a label is 1 to {LABEL_BYTES_MAX} bytes in hexadecimal, as `byname trees` prints it")]
pub struct LabelError;

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(LabelError);
        }
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("it is one") as u8;
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect();
        Self::decode_shortest(&bytes).ok_or(LabelError)
    }
}

/// `count` ones, `count` below 128.
const fn ones(count: u32) -> u128 {
    (1 << count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(label: Label) -> Vec<u8> {
        let mut out = vec![];
        label.push(&mut out);
        out
    }

    #[test]
    fn ports_are_read_one_after_another() {
        let label = Label::new(0).light_child(1, 1).unwrap().heavy_child(9).light_child(10, 14).unwrap();
        let label = label.light_child(12, 3).unwrap();
        assert_eq!((label.node(), label.port_bits()), (12, 1 + 3 + 2));
        for (skip, port) in [(0, 1), (1, 14), (4, 3), (6, u32::MAX), (31, u32::MAX)] {
            assert_eq!(label.light_port(skip), port, "after {skip} bits");
        }
    }

    #[test]
    fn each_port_takes_the_bits_of_its_bijective_number() {
        for (port, bits) in [(1, 1), (2, 1), (3, 2), (6, 2), (7, 3), (14, 3), (15, 4), (0x7fff_fffe, 30)] {
            let label = Label::new(5).light_child(6, port).unwrap();
            assert_eq!((label.port_bits(), label.light_port(0)), (bits, port));
        }
    }

    #[test]
    fn what_a_list_has_no_room_for_is_refused() {
        let longest = Label::new(0).light_child(1, 0x7fff_fffe).unwrap();
        assert_eq!(longest.light_child(2, 3), None);
        let full = longest.light_child(2, 2).unwrap();
        assert_eq!((full.port_bits(), full.light_port(30)), (PORT_BITS_MAX, 2));
        assert_eq!(full.light_child(3, 1), None);
        for port in [0, u32::MAX] {
            assert_eq!(Label::new(0).light_child(1, port), None);
        }
    }

    #[test]
    #[allow(clippy::unusual_byte_groupings, reason = "a group is a field")]
    fn vectors() {
        let light = |label: Label, port| label.light_child(label.node() + 1, port).unwrap();
        for (label, bytes) in [
            (Label::new(0), &[0b00000_000][..]),
            (Label::new(7), &[0b00000_111]),
            (Label::new(8), &[0b00000_000, 8]),
            (Label::new(u32::MAX), &[0, 255, 255, 255, 255]),
            // Port 2 is a one in the list. The mask's only bit is the last.
            (light(Label::new(0), 2), &[0b00001_1_01]),
            // Ports 1 and 5: 0, with 10 above it. The mask is 101 without its first bit.
            (light(light(Label::new(0), 1), 5), &[0b00011_100, 0b01_000010]),
        ] {
            assert_eq!(encoded(label), bytes, "{label:?}");
            assert_eq!(Label::decode(9, bytes), Ok(label));
        }
        let largest = Label { node: u32::MAX, ports: u32::MAX >> 1, ends: u32::MAX >> 1 };
        assert_eq!((largest.bits(), encoded(largest).len()), (98, LABEL_BYTES_MAX));
        assert_eq!(Label::decode(9, &encoded(largest)), Ok(largest));
    }

    #[test]
    fn bytes_are_those_of_one_label_or_of_none() {
        let mut labels = 0;
        for len in 1..=3 {
            for number in 0..1u32 << (8 * len) {
                let bytes = &number.to_be_bytes()[4 - len..];
                match Label::decode(9, bytes) {
                    Ok(label) => {
                        assert_eq!(encoded(label), bytes);
                        labels += 1;
                    }
                    Err(error) => assert_eq!(error, DecodeError::BadValue(9)),
                }
            }
        }
        // Port lists of 0 to 10 bits leave room for a node, and 5 of the 24 bits hold their length.
        assert_eq!(labels, 11 << 19);
    }

    #[test]
    #[allow(clippy::unusual_byte_groupings, reason = "a group is a field")]
    fn bytes_that_no_label_has_are_refused() {
        for bytes in [
            &[][..],
            &[0; 14],
            // A longer form of node 7.
            &[0, 7],
            // Node 2^32.
            &[0, 1, 0, 0, 0, 0],
            // A list of 31 bits in 8.
            &[0b11111_000],
        ] {
            assert_eq!(Label::decode(9, bytes), Err(DecodeError::BadValue(9)), "{bytes:?}");
        }
    }
}
