//! Type-Length-Value encoding [NDN Packet Specification v0.3, "TLV"].

use thiserror::Error;

/// Why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The buffer ends inside a number or a value.
    #[error("the packet ends inside an element")]
    Truncated,
    /// A number not in its shortest form, or a type of 0 or above 2^32-1.
    #[error("malformed TLV number")]
    BadNumber,
    /// Octets follow the outermost element.
    #[error("octets follow the packet")]
    Trailing,
    /// An element of this type was expected.
    #[error("element {0:#x} is missing")]
    Missing(u64),
    /// A critical element that is unknown, repeated or out of order.
    #[error("critical element {0:#x} is unknown here, repeated or out of order")]
    UnexpectedCritical(u64),
    /// An element whose value has the wrong size or content.
    #[error("element {0:#x} has a malformed value")]
    BadValue(u64),
    /// More name components than [`crate::name::COMPONENTS_MAX`].
    #[error("the name has too many components")]
    TooManyComponents,
    /// Larger than [`crate::PACKET_BYTES_MAX`].
    #[error("the packet is too large")]
    TooLarge,
}

/// One element: its type, its value, and where the value begins in the buffer it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// TLV-TYPE.
    pub typ: u64,
    /// TLV-VALUE.
    pub value: &'a [u8],
    /// The whole element, type and length included.
    pub wire: &'a [u8],
}

/// Reads a sequence of elements.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }
    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// The next element; `None` at the end.
    pub fn next_tlv(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        todo!()
    }
}

/// The evolvability rule: an unrecognized element of this type makes the packet unusable.
pub fn is_critical(typ: u64) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// Decodes a TLV number (type or length): value and octets used.
pub fn decode_number(_bytes: &[u8]) -> Result<(u64, usize), DecodeError> {
    todo!()
}

/// Octets that [`push_number`] appends for `n`.
pub fn number_len(_n: u64) -> usize {
    todo!()
}

/// Appends a TLV number in its shortest form.
pub fn push_number(_out: &mut Vec<u8>, _n: u64) {
    todo!()
}

/// Appends an element.
pub fn push_tlv(_out: &mut Vec<u8>, _typ: u64, _value: &[u8]) {
    todo!()
}

/// Appends an element whose value is a NonNegativeInteger.
pub fn push_nni(_out: &mut Vec<u8>, _typ: u64, _n: u64) {
    todo!()
}

/// Appends an element whose value `fill` writes; the length is put right afterwards.
pub fn push_nested(_out: &mut Vec<u8>, _typ: u64, _fill: impl FnOnce(&mut Vec<u8>)) {
    todo!()
}

/// Decodes a NonNegativeInteger: 1, 2, 4 or 8 octets. `typ` only names the element in the error.
pub fn decode_nni(_typ: u64, _value: &[u8]) -> Result<u64, DecodeError> {
    todo!()
}

/// Length of the first whole element in `stream`: `Ok(None)` when more octets are needed to know.
/// For cutting packets out of byte streams; a length above `limit` is [`DecodeError::TooLarge`].
pub fn element_len(_stream: &[u8], _limit: usize) -> Result<Option<usize>, DecodeError> {
    todo!()
}

/// TLV-TYPE numbers of the packet specification.
pub mod types {
    #![allow(missing_docs)]
    pub const INTEREST: u64 = 0x05;
    pub const DATA: u64 = 0x06;
    pub const NAME: u64 = 0x07;
    pub const CAN_BE_PREFIX: u64 = 0x21;
    pub const MUST_BE_FRESH: u64 = 0x12;
    pub const FORWARDING_HINT: u64 = 0x1e;
    pub const NONCE: u64 = 0x0a;
    pub const INTEREST_LIFETIME: u64 = 0x0c;
    pub const HOP_LIMIT: u64 = 0x22;
    pub const APPLICATION_PARAMETERS: u64 = 0x24;
    pub const INTEREST_SIGNATURE_INFO: u64 = 0x2c;
    pub const INTEREST_SIGNATURE_VALUE: u64 = 0x2e;
    pub const META_INFO: u64 = 0x14;
    pub const CONTENT: u64 = 0x15;
    pub const SIGNATURE_INFO: u64 = 0x16;
    pub const SIGNATURE_VALUE: u64 = 0x17;
    pub const CONTENT_TYPE: u64 = 0x18;
    pub const FRESHNESS_PERIOD: u64 = 0x19;
    pub const FINAL_BLOCK_ID: u64 = 0x1a;
    pub const SIGNATURE_TYPE: u64 = 0x1b;
    pub const KEY_LOCATOR: u64 = 0x1c;
    pub const KEY_DIGEST: u64 = 0x1d;
    pub const SIGNATURE_NONCE: u64 = 0x26;
    pub const SIGNATURE_TIME: u64 = 0x28;
    pub const SIGNATURE_SEQ_NUM: u64 = 0x2a;
    pub const LP_PACKET: u64 = 0x64;
}
