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
    /// Bytes follow the outermost element.
    #[error("bytes follow the packet")]
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
    /// More name components than a name may have.
    #[error("the name has too many components")]
    TooManyComponents,
    /// Larger than [`crate::PACKET_BYTES_MAX`].
    #[error("the packet is too large")]
    TooLarge,
}

/// One element.
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
    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// The next element; `None` at the end.
    #[inline]
    pub fn next_tlv(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        // Nearly all elements have one byte of type and one of length.
        match *self.rest {
            [typ @ 1..=252, len @ 0..=252, ..] => self.take(u64::from(typ), 2, usize::from(len)).map(Some),
            [] => Ok(None),
            _ => self.next_large_tlv(),
        }
    }

    #[inline(never)]
    fn next_large_tlv(&mut self) -> Result<Option<Tlv<'a>>, DecodeError> {
        match *self.rest {
            // Content and whole packets.
            [typ @ 1..=252, 253, a, b, ..] if a > 0 || b > 252 => {
                self.take(u64::from(typ), 4, usize::from(u16::from_be_bytes([a, b]))).map(Some)
            }
            // Header fields of NDNLPv2.
            [253, a, b, len @ 0..=252, ..] if a > 0 || b > 252 => {
                self.take(u64::from(u16::from_be_bytes([a, b])), 4, usize::from(len)).map(Some)
            }
            _ => {
                let (typ, len, header) = decode_header(self.rest)?;
                let len = usize::try_from(len).map_err(|_| DecodeError::Truncated)?;
                self.take(typ, header, len).map(Some)
            }
        }
    }

    #[inline]
    fn take(&mut self, typ: u64, header: usize, len: usize) -> Result<Tlv<'a>, DecodeError> {
        let end = header.checked_add(len).ok_or(DecodeError::Truncated)?;
        let (wire, rest) = self.rest.split_at_checked(end).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(Tlv { typ, value: &wire[header..], wire })
    }
}

/// The evolvability rule: an unrecognized element of this type makes the packet unusable.
pub fn is_critical(typ: u64) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// Reads the one element that must fill `wire` and have type `typ`; returns its value.
pub fn decode_only(wire: &[u8], typ: u64) -> Result<&[u8], DecodeError> {
    let mut reader = Reader::new(wire);
    let tlv = reader.next_tlv()?.ok_or(DecodeError::Truncated)?;
    if tlv.typ != typ {
        return Err(DecodeError::Missing(typ));
    }
    if !reader.rest().is_empty() {
        return Err(DecodeError::Trailing);
    }
    Ok(tlv.value)
}

/// Type, length, and the number of bytes that both take.
fn decode_header(bytes: &[u8]) -> Result<(u64, u64, usize), DecodeError> {
    let (typ, type_len) = decode_number(bytes)?;
    if typ == 0 || typ > u64::from(u32::MAX) {
        return Err(DecodeError::BadNumber);
    }
    let (len, len_len) = decode_number(&bytes[type_len..])?;
    Ok((typ, len, type_len + len_len))
}

/// Decodes a TLV number (type or length). Returns the number and the bytes it takes.
pub fn decode_number(bytes: &[u8]) -> Result<(u64, usize), DecodeError> {
    let (n, used) = match *bytes {
        [] => return Err(DecodeError::Truncated),
        [n @ 0..=252, ..] => return Ok((u64::from(n), 1)),
        [253, a, b, ..] => (u64::from(u16::from_be_bytes([a, b])), 3),
        [254, a, b, c, d, ..] => (u64::from(u32::from_be_bytes([a, b, c, d])), 5),
        [255, a, b, c, d, e, f, g, h, ..] => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 9),
        _ => return Err(DecodeError::Truncated),
    };
    if number_len(n) == used { Ok((n, used)) } else { Err(DecodeError::BadNumber) }
}

/// Length of the TLV number that [`push_number`] appends for `n`, in bytes.
pub fn number_len(n: u64) -> usize {
    match n {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Appends a TLV number in its shortest form.
pub fn push_number(out: &mut Vec<u8>, n: u64) {
    match number_len(n) {
        1 => out.push(n as u8),
        3 => {
            out.push(253);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        5 => {
            out.push(254);
            out.extend_from_slice(&(n as u32).to_be_bytes());
        }
        _ => {
            out.push(255);
            out.extend_from_slice(&n.to_be_bytes());
        }
    }
}

/// Appends an element.
pub fn push_tlv(out: &mut Vec<u8>, typ: u64, value: &[u8]) {
    push_number(out, typ);
    push_number(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends an element whose value is a NonNegativeInteger.
pub fn push_nni(out: &mut Vec<u8>, typ: u64, n: u64) {
    push_number(out, typ);
    let len = nni_len(n);
    out.push(len as u8);
    out.extend_from_slice(&n.to_be_bytes()[8 - len..]);
}

/// Length of the shortest NonNegativeInteger that holds `n`, in bytes.
pub fn nni_len(n: u64) -> usize {
    match n {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Length in bytes of an element with this type and a value of `value_len` bytes.
pub fn element_size(typ: u64, value_len: usize) -> usize {
    number_len(typ) + number_len(value_len as u64) + value_len
}

/// Appends an element whose value `fill` writes. The length is filled in afterwards.
pub fn push_nested(out: &mut Vec<u8>, typ: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    push_number(out, typ);
    let length_at = out.len();
    out.push(0);
    fill(out);
    let len = (out.len() - length_at - 1) as u64;
    match number_len(len) {
        1 => out[length_at] = len as u8,
        _ => {
            let mut number = Vec::with_capacity(9);
            push_number(&mut number, len);
            out.splice(length_at..=length_at, number);
        }
    }
}

/// Decodes a NonNegativeInteger of 1, 2, 4 or 8 bytes. `typ` only names the element in the error.
#[inline]
pub fn decode_nni(typ: u64, value: &[u8]) -> Result<u64, DecodeError> {
    Ok(match *value {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(DecodeError::BadValue(typ)),
    })
}

/// Length of the first element in `stream`, or `Ok(None)` until the whole element has arrived.
///
/// Used to cut packets out of byte streams. An element of more than `limit` bytes is
/// [`DecodeError::TooLarge`] as soon as its length is known.
pub fn element_len(stream: &[u8], limit: usize) -> Result<Option<usize>, DecodeError> {
    let (_, len, header) = match decode_header(stream) {
        Err(DecodeError::Truncated) => return Ok(None),
        other => other?,
    };
    let len = usize::try_from(len).ok().and_then(|len| len.checked_add(header)).filter(|&len| len <= limit);
    let len = len.ok_or(DecodeError::TooLarge)?;
    Ok((len <= stream.len()).then_some(len))
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
    pub const VALIDITY_PERIOD: u64 = 0xfd;
    pub const LP_PACKET: u64 = 0x64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_in_shortest_form() {
        for n in [0, 1, 252, 253, 254, 255, 256, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, n);
            assert_eq!(out.len(), number_len(n));
            assert_eq!(decode_number(&out), Ok((n, out.len())));
            for cut in 0..out.len() {
                assert_eq!(decode_number(&out[..cut]), Err(DecodeError::Truncated));
            }
        }
    }

    #[test]
    fn numbers_in_longer_forms_are_refused() {
        for bytes in [&[253, 0, 252][..], &[254, 0, 0, 255, 255], &[255, 0, 0, 0, 0, 255, 255, 255, 255]] {
            assert_eq!(decode_number(bytes), Err(DecodeError::BadNumber));
        }
    }

    #[test]
    fn types_are_bounded() {
        assert_eq!(Reader::new(&[0, 0]).next_tlv(), Err(DecodeError::BadNumber));
        let mut big = vec![255, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(Reader::new(&big).next_tlv(), Err(DecodeError::BadNumber));
        big = vec![254, 255, 255, 255, 255, 1, 7];
        let tlv = Reader::new(&big).next_tlv().unwrap().unwrap();
        assert_eq!((tlv.typ, tlv.value, tlv.wire), (0xffff_ffff, &[7][..], &big[..]));
    }

    #[test]
    fn nine_byte_lengths_do_not_wrap() {
        let mut bytes = vec![7, 255];
        bytes.extend_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(Reader::new(&bytes).next_tlv(), Err(DecodeError::Truncated));
        assert_eq!(element_len(&bytes, usize::MAX), Err(DecodeError::TooLarge));
    }

    #[test]
    fn a_reader_yields_each_element() {
        let mut bytes = vec![];
        push_tlv(&mut bytes, 8, b"a");
        push_tlv(&mut bytes, 300, &[1; 300]);
        push_nested(&mut bytes, 7, |out| push_tlv(out, 8, &[2; 70_000]));
        push_nni(&mut bytes, 9, 0x1_0000);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next_tlv().unwrap().unwrap().value, b"a");
        assert_eq!(reader.next_tlv().unwrap().unwrap().value, [1; 300]);
        let nested = reader.next_tlv().unwrap().unwrap();
        assert_eq!(decode_only(nested.value, 8).unwrap(), [2; 70_000]);
        assert_eq!(nested.wire.len(), element_size(7, element_size(8, 70_000)));
        assert_eq!(decode_nni(9, reader.next_tlv().unwrap().unwrap().value), Ok(0x1_0000));
        assert_eq!(reader.next_tlv(), Ok(None));
    }

    #[test]
    fn non_negative_integers_have_four_sizes() {
        for len in 0..12 {
            let value = vec![1; len];
            assert_eq!(decode_nni(9, &value).is_ok(), [1, 2, 4, 8].contains(&len));
        }
    }

    #[test]
    fn streams_are_cut_once_the_element_is_whole() {
        let mut stream = vec![];
        push_tlv(&mut stream, 6, &[0; 300]);
        let len = stream.len();
        stream.push(5);
        for cut in 0..len {
            assert_eq!(element_len(&stream[..cut], 8800), Ok(None));
        }
        assert_eq!(element_len(&stream, len), Ok(Some(len)));
        assert_eq!(element_len(&stream[..4], len - 1), Err(DecodeError::TooLarge));
        assert_eq!(element_len(&[6, 253, 0, 1], 8800), Err(DecodeError::BadNumber));
    }
}
