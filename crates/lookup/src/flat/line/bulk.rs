//! Builds a table in one step, without keeping its names.

use std::path::Path;
use std::sync::Arc;

use byname_wire::{Digest, NameHashKey};
use thiserror::Error;

use super::changes::Changes;
use super::file;
use super::query::Query;
use super::table::{Maker, build_all};
use super::{Options, check_entry};
use crate::entry::EntryId;
use crate::file::FileError;
use crate::flat::FlatFib;
use crate::update::BuildError;

/// How much memory a bulk load takes, and where it reports progress.
pub struct BulkLoad<'a> {
    /// Number of names held in memory at a time, at 24 bytes each. The load reads the source once
    /// for each such share, and three more times.
    pub names_at_once: usize,
    /// Called after each part with the number of names in the table.
    pub progress: &'a mut dyn FnMut(usize),
}

/// Builds the query half of all names that `source` yields. `source` must yield the same names each
/// time.
///
/// The result cannot be changed. For changes, use
/// [`LineRetrieval::load`](super::LineRetrieval::load), which keeps the names. If a name comes
/// twice, the last one counts.
///
/// # Errors
/// If an entry has more bits than the options say, if the kernel refuses memory on such pages, or
/// if the digests do not come from a keyed hash: [`BuildError::Skewed`].
pub fn bulk_load<I: Iterator<Item = (Digest, EntryId)>>(
    options: &Options,
    source: impl Fn() -> I,
    load: BulkLoad<'_>,
) -> Result<Arc<dyn FlatFib>, BuildError> {
    Ok(Arc::new(build(options, source, load)?))
}

/// A table that could not be built, or not be written.
#[derive(Debug, Error)]
pub enum BulkSaveError {
    /// It cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// As [`bulk_load`], and writes the query half into a file for [`open`](super::open), with the key
/// that the names were hashed with, and a note.
///
/// # Errors
/// As for [`bulk_load`], or if the system refuses to write.
pub fn bulk_save<I: Iterator<Item = (Digest, EntryId)>>(
    options: &Options,
    source: impl Fn() -> I,
    load: BulkLoad<'_>,
    (path, key, note): (&Path, &NameHashKey, &[u8]),
) -> Result<(), BulkSaveError> {
    Ok(file::save(&build(options, source, load)?, path, key, note)?)
}

fn build<I: Iterator<Item = (Digest, EntryId)>>(
    options: &Options,
    source: impl Fn() -> I,
    load: BulkLoad<'_>,
) -> Result<Query, BuildError> {
    source().try_for_each(|(_, entry)| check_entry(options, entry))?;
    let mut maker = Maker::new(options);
    let (mut parts, mut names) = (Vec::new(), 0);
    build_all(&mut maker, source, load.names_at_once, |part| {
        names += part.len();
        (load.progress)(names);
        parts.push((part.bits(), part.part));
    })?;
    let parts = parts.iter().map(|(bits, part)| (*bits, part));
    Ok(maker.query(&Arc::new(Changes::new()), parts))
}
