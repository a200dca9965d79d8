//! Manifests: the chunks of a whole table, in the order of their keys.

use super::coding::{self, Body, Keys, Kind};
use super::{BadTable, Digest};
use crate::table::chunk::{CHUNK_ROWS_MAX, Chunk};

/// Most chunks of a table.
pub const CHUNKS_MAX: usize = 1 << 18;
/// Most bytes of a manifest before compression.
pub const MANIFEST_BODY_BYTES_MAX: usize = 32 << 20;
/// Most bytes of a manifest.
pub const MANIFEST_BYTES_MAX: usize = coding::frame_bytes_max(MANIFEST_BODY_BYTES_MAX);

/// A chunk, as a manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Name of the chunk.
    pub digest: Digest,
    /// The key of its first row.
    pub first: Box<[u8]>,
    /// Number of rows.
    pub rows: usize,
}

/// The chunks of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// Sorted by the keys of their first rows.
    pub chunks: Vec<Listed>,
}

impl Manifest {
    /// Adds a chunk.
    pub fn push(&mut self, chunk: &Chunk) {
        self.chunks.push(Listed { digest: chunk.digest, first: chunk.first.clone(), rows: chunk.rows });
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.rows as u64).sum()
    }

    /// Encodes it.
    ///
    /// # Errors
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, BadTable> {
        if self.chunks.len() > CHUNKS_MAX {
            return Err(BadTable::Long(self.chunks.len(), CHUNKS_MAX));
        }
        let (mut body, mut keys) = (Vec::new(), Keys::default());
        coding::push_number(&mut body, self.chunks.len() as u64);
        for Listed { digest, first, rows } in &self.chunks {
            body.extend_from_slice(&digest.0);
            coding::push_number(&mut body, *rows as u64);
            keys.push(&mut body, first);
        }
        if body.len() > MANIFEST_BODY_BYTES_MAX {
            return Err(BadTable::Long(body.len(), MANIFEST_BODY_BYTES_MAX));
        }
        Ok(coding::frame(Kind::Manifest, &body))
    }

    /// Decodes the manifest of this name.
    ///
    /// # Errors
    /// It is another one, or none.
    pub fn decode(digest: Digest, bytes: &[u8]) -> Result<Self, BadTable> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(BadTable::Long(bytes.len(), MANIFEST_BYTES_MAX));
        }
        digest.check(bytes)?;
        let body = coding::body(Kind::Manifest, bytes, MANIFEST_BODY_BYTES_MAX)?;
        let mut body = Body::new(&body);
        let count = body.number()?;
        if count > CHUNKS_MAX as u64 {
            return Err(BadTable::Long(usize::try_from(count).unwrap_or(usize::MAX), CHUNKS_MAX));
        }
        let mut chunks = Vec::new();
        for _ in 0..count {
            let (digest, rows) = (body.digest()?, body.number()?);
            let rows = usize::try_from(rows).ok().filter(|rows| (1..=CHUNK_ROWS_MAX).contains(rows));
            let rows = rows.ok_or(BadTable::Contradiction("a chunk has no rows, or too many"))?;
            chunks.push(Listed { digest, rows, first: body.key()?.into() });
        }
        body.end()?;
        Ok(Manifest { chunks })
    }
}
