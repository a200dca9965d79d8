//! Chunks: parts of a table, sorted, front-coded and compressed.
//!
//! A chunk begins at each key whose hash has twelve bits of zero, so after 4,096 keys on average. Where it begins depends on
//! that key alone: a row that comes or goes changes one chunk, or, if it is at a boundary, two. A chunk also ends at
//! [`CHUNK_ROWS_MAX`] rows or [`CHUNK_BODY_BYTES_MAX`] bytes. Keys that somebody has chosen so that none has twelve bits of zero make chunks
//! of that size, which then move when rows come and go, until a key with a boundary.

use std::sync::Arc;

use super::coding::{self, Body, Kind};
use super::{BadTable, Digest, Rows};

/// Bits of a key's hash that are zero where a chunk begins.
const BOUNDARY_BITS: u32 = 12;
/// Most rows of a chunk.
pub const CHUNK_ROWS_MAX: usize = 4 << BOUNDARY_BITS;
/// Most bytes of a chunk before compression.
pub const CHUNK_BODY_BYTES_MAX: usize = 2 << 20;
/// Most bytes of a chunk.
pub const CHUNK_BYTES_MAX: usize = coding::frame_bytes_max(CHUNK_BODY_BYTES_MAX);

/// The rows of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// Key and value of each row, one after the other.
    bytes: Vec<u8>,
    /// Where they end.
    ends: Vec<(u32, u32)>,
    /// Most bytes that they take: keys with all of their bytes, so that the limit holds however little they share.
    cost: usize,
}

/// Cuts rows, which come in the order of their keys, into the parts that become chunks.
#[derive(Debug, Default)]
pub struct Cutter {
    part: Part,
}

/// An encoded chunk, and what a manifest says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its name.
    pub digest: Digest,
    /// The key of its first row.
    pub first: Box<[u8]>,
    /// Number of rows.
    pub rows: usize,
    /// The chunk.
    pub bytes: Vec<u8>,
}

impl Cutter {
    /// Adds the next row. Returns the part before it if another one begins here.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Option<Part> {
        let part = &self.part;
        let is_full = part.len() == CHUNK_ROWS_MAX || part.cost + cost(key, value) > CHUNK_BODY_BYTES_MAX;
        let done = (!part.is_empty() && (is_full || begins(key))).then(|| std::mem::take(&mut self.part));
        self.part.push(key, value);
        done
    }

    /// The last part, if there are rows.
    pub fn end(self) -> Option<Part> {
        Some(self.part).filter(|part| !part.is_empty())
    }
}

/// Most bytes that a row can take, with its value and all numbers.
fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + 32
}

impl Part {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len() as u32));
        self.cost += cost(key, value);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key and the value of each row.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |(key_end, end)| {
            let (key, value) = (&self.bytes[begin..*key_end as usize], &self.bytes[*key_end as usize..*end as usize]);
            begin = *end as usize;
            (key, value)
        })
    }

    /// The key of the first row. Empty if there is none.
    pub fn first(&self) -> &[u8] {
        self.rows().next().map_or(&[], |(key, _)| key)
    }

    /// The key of the last row. Empty if there is none.
    pub fn last(&self) -> &[u8] {
        let before = self.len().checked_sub(2).map_or(0, |at| self.ends[at].1);
        self.ends.last().map_or(&[], |(key_end, _)| &self.bytes[before as usize..*key_end as usize])
    }

    /// The chunk of these rows.
    pub fn encode(&self) -> Chunk {
        let mut body = Vec::new();
        coding::push_rows(&mut body, self.rows().map(|(key, value)| (key, Some(value))));
        let bytes = coding::frame(Kind::Chunk, &body);
        Chunk { digest: Digest::of(&bytes), first: self.first().into(), rows: self.len(), bytes }
    }

    /// Decodes a chunk.
    ///
    /// # Errors
    /// It is not the chunk of this name, or no chunk.
    pub fn decode(digest: Digest, bytes: &[u8]) -> Result<Self, BadTable> {
        let mut part = Part::default();
        each_row(digest, bytes, &mut |key, value| {
            // Keys that share much take more room here than in the chunk, and no more than when it was cut.
            if part.cost + cost(key, value) > CHUNK_BODY_BYTES_MAX {
                return Err(BadTable::Long(part.cost + cost(key, value), CHUNK_BODY_BYTES_MAX));
            }
            part.push(key, value);
            Ok(())
        })?;
        if part.is_empty() || part.len() > CHUNK_ROWS_MAX {
            return Err(NO_CHUNK);
        }
        Ok(part)
    }
}

/// Cuts a table into chunks, and encodes one after the other.
pub fn chunks(rows: &Rows) -> impl Iterator<Item = Chunk> {
    let (mut rows, mut cutter) = (rows.iter(), Some(Cutter::default()));
    std::iter::from_fn(move || {
        for (key, value) in rows.by_ref() {
            let part = cutter.as_mut()?.push(key, value);
            if part.is_some() {
                return part;
            }
        }
        cutter.take()?.end()
    })
    .map(|part| part.encode())
}

/// Decodes a chunk, and adds its rows, which must follow those before. Returns how many there are.
///
/// # Errors
/// It is not the chunk of this name, or no chunk.
pub fn decode(digest: Digest, bytes: &[u8], rows: &mut Rows) -> Result<usize, BadTable> {
    let mut new = Vec::new();
    each_row(digest, bytes, &mut |key, value| {
        new.push((key.into(), value.clone()));
        Ok(())
    })?;
    let follows = rows.last_key_value().is_none_or(|(last, _)| new.first().is_none_or(|(first, _)| last < first));
    if !follows || new.is_empty() || new.len() > CHUNK_ROWS_MAX {
        return Err(NO_CHUNK);
    }
    let count = new.len();
    rows.extend(new);
    Ok(count)
}

const NO_CHUNK: BadTable = BadTable::Contradiction("the chunk does not follow the one before");

/// Takes the key and the value of a row.
type EachRow<'a> = dyn FnMut(&[u8], &Arc<[u8]>) -> Result<(), BadTable> + 'a;

fn each_row(digest: Digest, bytes: &[u8], each: &mut EachRow<'_>) -> Result<(), BadTable> {
    if bytes.len() > CHUNK_BYTES_MAX {
        return Err(BadTable::Long(bytes.len(), CHUNK_BYTES_MAX));
    }
    digest.check(bytes)?;
    let body = coding::body(Kind::Chunk, bytes, CHUNK_BODY_BYTES_MAX)?;
    let mut body = Body::new(&body);
    body.each_row(&mut |key, value| each(key, value.ok_or(BadTable::Contradiction("a row of a chunk has no value"))?))?;
    body.end()
}

/// Whether a chunk begins at this key: FNV-1a, whose bits are mixed once more, since the low ones depend on few bytes.
fn begins(key: &[u8]) -> bool {
    let hash = key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BOUNDARY_BITS) == 0
}
