//! A table made at once, of which no names are kept.

use std::sync::Arc;

use byname_wire::Digest;

use super::changes::Changes;
use super::table::{Maker, build_all};
use super::{Options, check_entry};
use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::update::BuildError;

/// How much memory a bulk load takes, and whom it tells.
pub struct BulkLoad<'a> {
    /// Names held at a time, at 24 bytes each: the source is gone through once for each such share,
    /// and three times more.
    pub names_at_once: usize,
    /// Told after each part how many names are in the table.
    pub progress: &'a mut dyn FnMut(usize),
}

/// A query half of all names that `source` gives, each time the same.
///
/// It cannot be changed afterwards; for that, give the names to
/// [`LineRetrieval::load`](super::LineRetrieval::load), which keeps them. Of names that come twice
/// the last counts.
///
/// # Errors
/// If an entry has more bits than the options say, the kernel refuses memory on such pages, or the
/// digests are not those of a keyed hash: [`BuildError::Skewed`].
pub fn bulk_load<I: Iterator<Item = (Digest, EntryId)>>(
    options: &Options,
    source: impl Fn() -> I,
    load: BulkLoad<'_>,
) -> Result<Arc<dyn FlatFib>, BuildError> {
    source().try_for_each(|(_, entry)| check_entry(options, entry))?;
    let mut maker = Maker::new(options);
    let (mut parts, mut names) = (Vec::new(), 0);
    build_all(&mut maker, source, load.names_at_once, |part| {
        names += part.len();
        (load.progress)(names);
        parts.push((part.bits(), part.part));
    })?;
    let parts = parts.iter().map(|(bits, part)| (*bits, part));
    Ok(Arc::new(maker.query(&Arc::new(Changes::new()), parts)))
}
