//! Deltas: changes of a table, in a sequence without gaps.
//!
//! A delta names the state that it follows. The state after it is the SHA-256 of that state and the delta. So a delta of another
//! history, such as one from before a backup of etcd was restored, is noticed even if its number fits.

use std::sync::Arc;

use super::coding::{self, Body, Kind};
use super::{BadTable, Digest};

/// Most bytes of an encoded delta: etcd takes requests of 1.5 MiB.
pub const DELTA_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a delta before compression.
pub const DELTA_BODY_BYTES_MAX: usize = DELTA_BYTES_MAX - (4 << 10);
const _: () = assert!(coding::frame_bytes_max(DELTA_BODY_BYTES_MAX) <= DELTA_BYTES_MAX);

/// A change of a row: its key, and the new value. `None` removes the row.
pub type RowChange = (Box<[u8]>, Option<Arc<[u8]>>);

/// Changes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// Epoch of the table.
    pub epoch: u64,
    /// The state that it follows.
    pub before: Digest,
    /// The state after it.
    pub after: Digest,
    /// The changes, sorted by key.
    pub changes: Vec<RowChange>,
}

impl Delta {
    /// Encodes changes that follow the state `before`, as one delta or as several. Returns each with the state after it.
    /// `changes` are sorted by key, and each key is there once.
    pub fn encode(epoch: u64, mut before: Digest, changes: &[RowChange]) -> Vec<(Vec<u8>, Digest)> {
        let cost = |(key, value): &RowChange| key.len() + value.as_ref().map_or(0, |value| value.len()) + 32;
        let mut deltas = Vec::new();
        let mut rest = changes;
        while !rest.is_empty() {
            let mut bytes = 64;
            let count = rest.iter().take_while(|change| {
                bytes += cost(change);
                bytes <= DELTA_BODY_BYTES_MAX
            });
            let (part, others) = rest.split_at(count.count().max(1));
            rest = others;
            let mut body = Vec::new();
            coding::push_number(&mut body, epoch);
            body.extend_from_slice(&before.0);
            coding::push_rows(&mut body, part.iter().map(|(key, value)| (&key[..], value.as_deref())));
            let encoded = coding::frame(Kind::Delta, &body);
            before = after(before, &encoded);
            deltas.push((encoded, before));
        }
        deltas
    }

    /// Decodes a delta.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadTable> {
        let body = coding::body(Kind::Delta, bytes, DELTA_BODY_BYTES_MAX)?;
        let mut body = Body::new(&body);
        let (epoch, before) = (body.number()?, body.digest()?);
        let changes = body.rows()?;
        body.end()?;
        Ok(Delta { epoch, before, after: after(before, bytes), changes })
    }
}

fn after(before: Digest, encoded: &[u8]) -> Digest {
    Digest(byname_wire::digest::sha256(&[&before.0, encoded]))
}
