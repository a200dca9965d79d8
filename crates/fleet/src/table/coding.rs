//! What chunks, manifests and deltas have in common: a compressed frame, numbers, and front-coded keys.
//!
//! A frame is `BNT1`, the kind in one byte, the length of its body in 4 bytes, and the body, compressed by DEFLATE (RFC 1951).
//! Numbers in a body have 7 bits a byte, the lowest first. Of a key, the number of bytes that it shares with the key before is
//! written, and the rest.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::{BadTable, Digest, ROW_KEY_BYTES_MAX, ROW_VALUE_BYTES_MAX};

const MAGIC: &[u8; 4] = b"BNT1";
const HEADER: usize = 9;
/// What is allocated before anything was decompressed.
const FIRST_BYTES: usize = 64 << 10;

/// What a frame has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Chunk = 1,
    Manifest = 2,
    Delta = 3,
    Blocks = 4,
    Patch = 5,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Chunk => "chunk",
            Kind::Manifest => "manifest",
            Kind::Delta => "delta",
            Kind::Blocks => "list of blocks",
            Kind::Patch => "patch",
        }
    }
}

/// Most bytes of a frame whose body has at most so many. DEFLATE adds 5 bytes for each 16 KiB that it cannot make shorter.
pub(super) const fn frame_bytes_max(body_bytes_max: usize) -> usize {
    body_bytes_max + body_bytes_max / 1_024 + 256
}

/// Compresses a body.
pub(super) fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(kind as u8);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    let mut encoder = DeflateEncoder::new(out, Compression::new(6));
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

/// The body of a frame, of at most so many bytes.
pub(super) fn body(kind: Kind, frame: &[u8], body_bytes_max: usize) -> Result<Vec<u8>, BadTable> {
    if frame.len() > frame_bytes_max(body_bytes_max) {
        return Err(BadTable::Long(frame.len(), frame_bytes_max(body_bytes_max)));
    }
    let (header, compressed) = frame.split_at_checked(HEADER).ok_or(BadTable::Cut)?;
    if header[..4] != MAGIC[..] || header[4] != kind as u8 {
        return Err(BadTable::Kind(kind.word()));
    }
    let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
    if len > body_bytes_max {
        return Err(BadTable::Long(len, body_bytes_max));
    }
    let mut body = Vec::with_capacity(len.min(FIRST_BYTES));
    // One byte more shows that it is longer than promised.
    let mut decoder = DeflateDecoder::new(compressed).take(len as u64 + 1);
    match decoder.read_to_end(&mut body) {
        Ok(read) if read == len => Ok(body),
        _ => Err(BadTable::Compression(len)),
    }
}

pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes keys, each after the one before.
#[derive(Debug, Default)]
pub(super) struct Keys {
    before: Vec<u8>,
}

impl Keys {
    pub(super) fn push(&mut self, out: &mut Vec<u8>, key: &[u8]) {
        let shared = self.before.iter().zip(key).take_while(|(before, here)| before == here).count();
        push_number(out, shared as u64);
        push_number(out, (key.len() - shared) as u64);
        out.extend_from_slice(&key[shared..]);
        self.before.truncate(shared);
        self.before.extend_from_slice(&key[shared..]);
    }
}

/// Writes rows: first the different values, then keys with the numbers of their values. The number 0 stands for no value.
pub(super) fn push_rows<'a>(out: &mut Vec<u8>, rows: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>) {
    let (mut numbers, mut values, mut coded) = (HashMap::new(), Vec::new(), Vec::new());
    let mut keys = Keys::default();
    let count = rows.len();
    for (key, value) in rows {
        keys.push(&mut coded, key);
        let next = numbers.len() as u64 + 1;
        let number = value.map_or(0, |value| *numbers.entry(value).or_insert(next));
        if number == next {
            push_number(&mut values, value.unwrap_or_default().len() as u64);
            values.extend_from_slice(value.unwrap_or_default());
        }
        push_number(&mut coded, number);
    }
    push_number(out, count as u64);
    push_number(out, numbers.len() as u64);
    out.extend_from_slice(&values);
    out.extend_from_slice(&coded);
}

/// A body that is read.
#[derive(Debug)]
pub(super) struct Body<'a> {
    rest: &'a [u8],
    key: Vec<u8>,
    is_first: bool,
}

/// A row, or the removal of one.
pub(super) type Row = (Box<[u8]>, Option<Arc<[u8]>>);

/// Takes the key and the value of a row.
pub(super) type EachRow<'a> = dyn FnMut(&[u8], Option<&Arc<[u8]>>) -> Result<(), BadTable> + 'a;

impl<'a> Body<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Body { rest: bytes, key: Vec::new(), is_first: true }
    }

    pub(super) fn number(&mut self) -> Result<u64, BadTable> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(BadTable::Cut)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(BadTable::Contradiction("a number has more than 64 bits"))
    }

    pub(super) fn bytes(&mut self, len: u64, most: usize) -> Result<&'a [u8], BadTable> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > most {
            return Err(BadTable::Long(len, most));
        }
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(BadTable::Cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn digest(&mut self) -> Result<Digest, BadTable> {
        let (digest, rest) = self.rest.split_first_chunk::<32>().ok_or(BadTable::Cut)?;
        self.rest = rest;
        Ok(Digest(*digest))
    }

    /// The next key, which must follow the one before.
    pub(super) fn key(&mut self) -> Result<&[u8], BadTable> {
        let shared = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let len = self.number()?;
        if shared > self.key.len() {
            return Err(BadTable::Contradiction("a key shares more than there is with the key before"));
        }
        let new = self.bytes(len, ROW_KEY_BYTES_MAX - shared)?;
        if !self.is_first && new <= &self.key[shared..] {
            return Err(BadTable::Contradiction("the keys are not sorted"));
        }
        self.is_first = false;
        self.key.truncate(shared);
        self.key.extend_from_slice(new);
        Ok(&self.key)
    }

    /// What [`push_rows`] wrote.
    pub(super) fn rows(&mut self) -> Result<Vec<Row>, BadTable> {
        let mut rows = Vec::new();
        self.each_row(&mut |key, value| {
            rows.push((key.into(), value.cloned()));
            Ok(())
        })?;
        Ok(rows)
    }

    /// Calls `each` with each row that [`push_rows`] wrote. Rows take at least three bytes each, so their number needs no other limit.
    pub(super) fn each_row(&mut self, each: &mut EachRow<'_>) -> Result<(), BadTable> {
        let (count, values) = (self.number()?, self.number()?);
        if count > self.rest.len() as u64 / 3 || values > count {
            return Err(BadTable::Cut);
        }
        let value = |body: &mut Self| -> Result<Arc<[u8]>, BadTable> {
            let len = body.number()?;
            body.bytes(len, ROW_VALUE_BYTES_MAX).map(Arc::from)
        };
        let values = (0..values).map(|_| value(self)).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..count {
            self.key()?;
            let value = match self.number()? {
                0 => None,
                number => {
                    let value = usize::try_from(number - 1).ok().and_then(|at| values.get(at));
                    Some(value.ok_or(BadTable::Contradiction("a row has a value that does not exist"))?)
                }
            };
            each(&self.key, value)?;
        }
        Ok(())
    }

    pub(super) fn end(self) -> Result<(), BadTable> {
        if self.rest.is_empty() { Ok(()) } else { Err(BadTable::Contradiction("there are bytes after the end")) }
    }
}
