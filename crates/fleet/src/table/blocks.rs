//! Files that a builder has made, in blocks of one length. Each block is a chunk, whose name is its SHA-256.
//!
//! A file of a hash table has as many lines as before when few rules have changed, and few lines that differ: blocks that stay the same
//! are not sent again. The first block has zeros in place of the secret ([`Secret`]), since all who can ask for chunks can
//! read them.

use byname_lookup::file::secret::Secret;

use super::coding::{self, Body, Kind};
use super::{BadTable, Digest};

/// Length of a block, in bytes. The last one may be shorter.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Most blocks of a file: 16 GiB.
pub const BLOCKS_MAX: usize = 1 << 18;
/// Most labels of a file.
pub const LABELS_MAX: usize = 1 << 16;
/// Longest label, in bytes.
const LABEL_BYTES_MAX: usize = 255;
/// Most bytes of a list before compression.
const BODY_BYTES_MAX: usize = 32 << 20;

/// The blocks of a file. This list is a chunk, too, and its name stands for the file, its secret aside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blocks {
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Labels of the table, by number. The next table of the builder gives them the same numbers.
    pub labels: Vec<Box<[u8]>>,
    /// The blocks.
    pub digests: Vec<Digest>,
}

impl Blocks {
    /// Adds the next block of the file.
    pub fn push(&mut self, block: &[u8]) -> Digest {
        let digest = Digest::of(block);
        self.bytes += block.len() as u64;
        self.digests.push(digest);
        digest
    }

    /// Length of a block, in bytes.
    pub fn len_of(&self, number: usize) -> usize {
        let rest = self.bytes.saturating_sub(number as u64 * BLOCK_BYTES as u64);
        usize::try_from(rest).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES)
    }

    /// Encodes it.
    ///
    /// # Errors
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, BadTable> {
        if self.digests.len() > BLOCKS_MAX {
            return Err(BadTable::Long(self.digests.len(), BLOCKS_MAX));
        }
        if self.labels.len() > LABELS_MAX {
            return Err(BadTable::Long(self.labels.len(), LABELS_MAX));
        }
        let mut body = Vec::new();
        coding::push_number(&mut body, self.bytes);
        coding::push_number(&mut body, self.labels.len() as u64);
        for label in &self.labels {
            coding::push_number(&mut body, label.len() as u64);
            body.extend_from_slice(label);
        }
        for digest in &self.digests {
            body.extend_from_slice(&digest.0);
        }
        Ok(coding::frame(Kind::Blocks, &body))
    }

    /// Decodes the list of this name.
    ///
    /// # Errors
    /// It is another one, or none.
    pub fn decode(digest: Digest, bytes: &[u8]) -> Result<Self, BadTable> {
        if bytes.len() > coding::frame_bytes_max(BODY_BYTES_MAX) {
            return Err(BadTable::Long(bytes.len(), coding::frame_bytes_max(BODY_BYTES_MAX)));
        }
        digest.check(bytes)?;
        let body = coding::body(Kind::Blocks, bytes, BODY_BYTES_MAX)?;
        let mut body = Body::new(&body);
        let (bytes, labels) = (body.number()?, body.number()?);
        let count = usize::try_from(bytes.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX);
        if count > BLOCKS_MAX {
            return Err(BadTable::Long(count, BLOCKS_MAX));
        }
        if labels > LABELS_MAX as u64 {
            return Err(BadTable::Long(usize::try_from(labels).unwrap_or(usize::MAX), LABELS_MAX));
        }
        let mut blocks = Blocks { bytes, ..Blocks::default() };
        for _ in 0..labels {
            let len = body.number()?;
            blocks.labels.push(body.bytes(len, LABEL_BYTES_MAX)?.into());
        }
        for _ in 0..count {
            blocks.digests.push(body.digest()?);
        }
        body.end()?;
        Ok(blocks)
    }
}

/// Puts the secret into the block of this number, if it belongs there.
///
/// # Errors
/// The file has no table.
pub fn put_secret(number: usize, block: &mut [u8], secret: &Secret) -> Result<(), BadTable> {
    if number > 0 {
        return Ok(());
    }
    secret.put(block).map_err(|_| BadTable::Kind("table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_as_they_were() {
        let mut blocks = Blocks { labels: vec![(*b"/a").into(), (*b"").into()], ..Blocks::default() };
        blocks.push(&[7; BLOCK_BYTES]);
        blocks.push(&[8; 100]);
        let bytes = blocks.encode().unwrap();
        let digest = Digest::of(&bytes);
        assert_eq!(Blocks::decode(digest, &bytes), Ok(blocks.clone()));
        assert_eq!([0, 1, 2].map(|number| blocks.len_of(number)), [BLOCK_BYTES, 100, 0]);
        assert_eq!(
            Blocks::decode(Digest::of(b""), &bytes),
            Err(BadTable::Digest { wanted: Digest::of(b""), found: digest })
        );
        let decode = |blocks: &Blocks| {
            let bytes = blocks.encode().unwrap();
            Blocks::decode(Digest::of(&bytes), &bytes)
        };
        // Fewer and more blocks than the length says, and lengths and labels beyond all bounds.
        assert_eq!(decode(&Blocks { digests: vec![digest], ..blocks.clone() }), Err(BadTable::Cut));
        assert!(matches!(
            decode(&Blocks { digests: vec![digest; 3], ..blocks.clone() }),
            Err(BadTable::Contradiction(_))
        ));
        assert!(matches!(decode(&Blocks { bytes: u64::MAX, ..blocks.clone() }), Err(BadTable::Long(..))));
        let long = vec![vec![b'a'; LABEL_BYTES_MAX + 1].into()];
        assert!(matches!(decode(&Blocks { labels: long, ..blocks.clone() }), Err(BadTable::Long(..))));
        let many = Blocks { digests: vec![digest; BLOCKS_MAX + 1], ..blocks };
        assert_eq!(many.encode(), Err(BadTable::Long(BLOCKS_MAX + 1, BLOCKS_MAX)));
        let other = coding::frame(Kind::Chunk, b"");
        assert_eq!(Blocks::decode(Digest::of(&other), &other), Err(BadTable::Kind("list of blocks")));
    }
}
