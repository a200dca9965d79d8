//! Chunks: parts of a table, sorted, front-coded and compressed.
//!
//! A chunk begins at each key whose hash has twelve bits of zero, so after 4,096 keys on average. Where it begins depends on
//! that key alone: a row that comes or goes changes one chunk, or, if it is at a boundary, two. A chunk also ends at
//! [`CHUNK_ROWS_MAX`] rows or [`CHUNK_BODY_BYTES_MAX`] bytes. Keys that somebody has chosen so that none has twelve bits of zero make chunks
//! of that size, which then move when rows come and go, until a key with a boundary.

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

/// A row as it is cut: keys with all of their bytes, so that the limit holds however little they share.
type Part<'a> = Vec<(&'a [u8], &'a [u8])>;

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

/// Cuts a table into chunks, and encodes one after the other.
pub fn chunks(rows: &Rows) -> impl Iterator<Item = Chunk> {
    let mut rows = rows.iter().map(|(key, value)| (&key[..], &value[..])).peekable();
    std::iter::from_fn(move || {
        let mut part: Part<'_> = vec![rows.next()?];
        let mut bytes = cost(part[0]);
        while let Some(row) = rows.next_if(|row| {
            let fits = part.len() < CHUNK_ROWS_MAX && bytes + cost(*row) <= CHUNK_BODY_BYTES_MAX;
            fits && !begins(row.0)
        }) {
            bytes += cost(row);
            part.push(row);
        }
        Some(encode(&part))
    })
}

/// Most bytes that a row can take, with its value and all numbers.
fn cost((key, value): (&[u8], &[u8])) -> usize {
    key.len() + value.len() + 32
}

fn encode(part: &Part<'_>) -> Chunk {
    let mut body = Vec::new();
    coding::push_rows(&mut body, part.iter().map(|(key, value)| (*key, Some(*value))));
    let bytes = coding::frame(Kind::Chunk, &body);
    Chunk { digest: Digest::of(&bytes), first: part[0].0.into(), rows: part.len(), bytes }
}

/// Decodes a chunk, and adds its rows, which must follow those before. Returns how many there are.
///
/// # Errors
/// It is not the chunk of this name, or no chunk.
pub fn decode(digest: Digest, bytes: &[u8], rows: &mut Rows) -> Result<usize, BadTable> {
    if bytes.len() > CHUNK_BYTES_MAX {
        return Err(BadTable::Long(bytes.len(), CHUNK_BYTES_MAX));
    }
    digest.check(bytes)?;
    let body = coding::body(Kind::Chunk, bytes, CHUNK_BODY_BYTES_MAX)?;
    let mut body = Body::new(&body);
    let new = body.rows()?;
    body.end()?;
    let follows = rows.last_key_value().is_none_or(|(last, _)| new.first().is_none_or(|(first, _)| last < first));
    if !follows || new.is_empty() || new.len() > CHUNK_ROWS_MAX {
        return Err(BadTable::Contradiction("the chunk does not follow the one before"));
    }
    let count = new.len();
    for (key, value) in new {
        rows.insert(key, value.ok_or(BadTable::Contradiction("a row of a chunk has no value"))?);
    }
    Ok(count)
}

/// Whether a chunk begins at this key: FNV-1a, whose bits are mixed once more, since the low ones depend on few bytes.
fn begins(key: &[u8]) -> bool {
    let hash = key
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BOUNDARY_BITS) == 0
}
