//! State vectors and their encoding.
//!
//! ```text
//! StateVector = 0xc9 LENGTH *Entry
//! Entry       = 0xca LENGTH  Name *Number
//! Number      = 0xd2 LENGTH  BootstrapTime SeqNo
//! BootstrapTime = 0xd4 LENGTH NonNegativeInteger        s since 1970
//! SeqNo         = 0xd6 LENGTH NonNegativeInteger
//! ```

use std::collections::BTreeMap;

use byname_wire::tlv::{self, Reader, types};
use byname_wire::{DecodeError, Name, NameRef};

const STATE_VECTOR: u64 = 0xc9;
const ENTRY: u64 = 0xca;
const NUMBER: u64 = 0xd2;
const BOOTSTRAP_TIME: u64 = 0xd4;
const SEQ_NO: u64 = 0xd6;

/// Most bytes of a Number element, and of the headers of an Entry and its Name.
const NUMBER_BYTES_MAX: usize = 24;

/// The sequence numbers of all members of a group.
///
/// ```
/// use byname_client::sync::StateVector;
///
/// let mut vector = StateVector::default();
/// vector.set("/alice".parse()?, 1_795_000_000, 3);
/// let wire = vector.encode();
/// assert_eq!(StateVector::decode(&wire)?.number(&"/alice".parse()?, 1_795_000_000), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateVector {
    /// By member and boot time. No number is 0.
    numbers: BTreeMap<Name, BTreeMap<u64, u64>>,
    bytes: usize,
}

impl StateVector {
    /// Number of the newest publication of a member since this boot time; 0: none.
    pub fn number(&self, node: &Name, boot: u64) -> u64 {
        self.numbers.get(node).and_then(|boots| boots.get(&boot)).copied().unwrap_or(0)
    }

    /// Sets the number of a member. 0 changes nothing.
    pub fn set(&mut self, node: Name, boot: u64, number: u64) {
        if number == 0 {
            return;
        }
        let bytes = entry_bytes_max(&node);
        if self.numbers.entry(node).or_default().insert(boot, number).is_none() {
            self.bytes += bytes;
        }
    }

    /// Members, their boot times, and their numbers. Of each member, the latest boot time comes first.
    pub fn entries(&self) -> impl Iterator<Item = (&Name, u64, u64)> {
        self.numbers
            .iter()
            .flat_map(|(node, boots)| boots.iter().rev().map(move |(boot, number)| (node, *boot, *number)))
    }

    /// Takes over the numbers that are larger in another vector, of members that a third vector has.
    pub(super) fn merge_known(&mut self, other: &StateVector, known: &StateVector) {
        for (node, boot, number) in other.entries() {
            if number > self.number(node, boot) && known.number(node, boot) > 0 {
                self.set(node.clone(), boot, number);
            }
        }
    }

    /// Whether a number here is larger than in another vector.
    pub fn is_ahead_of(&self, other: &StateVector) -> bool {
        self.entries().any(|(node, boot, number)| number > other.number(node, boot))
    }

    /// Encodes the vector.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::push_nested(&mut out, STATE_VECTOR, |out| {
            for (node, boots) in &self.numbers {
                tlv::push_nested(out, ENTRY, |out| {
                    tlv::push_tlv(out, types::NAME, node.value());
                    for (boot, number) in boots {
                        tlv::push_nested(out, NUMBER, |out| {
                            tlv::push_nni(out, BOOTSTRAP_TIME, *boot);
                            tlv::push_nni(out, SEQ_NO, *number);
                        });
                    }
                });
            }
        });
        out
    }

    /// Decodes a vector. Other elements beside it are skipped.
    ///
    /// # Errors
    /// If there is none, or it is malformed.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(content);
        while let Some(element) = reader.next_tlv()? {
            if element.typ == STATE_VECTOR {
                return Self::decode_value(element.value);
            }
        }
        Err(DecodeError::Missing(STATE_VECTOR))
    }

    /// Upper bound of the encoded size.
    pub(super) fn encoded_bytes_max(&self) -> usize {
        self.bytes
    }

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let mut vector = StateVector::default();
        let mut reader = Reader::new(value);
        while let Some(element) = reader.next_tlv()? {
            if element.typ != ENTRY {
                continue;
            }
            let mut fields = Reader::new(element.value);
            let name = fields.next_tlv()?.filter(|name| name.typ == types::NAME);
            let node = NameRef::new(name.ok_or(DecodeError::Missing(types::NAME))?.value)?.to_name();
            while let Some(field) = fields.next_tlv()? {
                if field.typ == NUMBER {
                    let (boot, number) = decode_number(field.value)?;
                    vector.set(node.clone(), boot, number);
                }
            }
        }
        Ok(vector)
    }
}

/// Upper bound of the bytes that a number of this member takes.
pub(super) fn entry_bytes_max(node: &Name) -> usize {
    node.value().len() + 2 * NUMBER_BYTES_MAX
}

fn decode_number(value: &[u8]) -> Result<(u64, u64), DecodeError> {
    let mut reader = Reader::new(value);
    let mut next = |typ| match reader.next_tlv()? {
        Some(element) if element.typ == typ => tlv::decode_nni(typ, element.value),
        _ => Err(DecodeError::Missing(typ)),
    };
    Ok((next(BOOTSTRAP_TIME)?, next(SEQ_NO)?))
}
