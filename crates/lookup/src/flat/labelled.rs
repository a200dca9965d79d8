//! A file of flat names with labels, for routers: which way each name goes, in a few bits a name.
//!
//! A *label* is text that many names share, such as the name of a route. The file is one of `line`.
//! Its note tells what the stored bits mean:
//!
//! ```text
//! bits of a label (4)   bits of a checksum (4)   number of names (8)   labels: length (4), bytes
//! ```
//!
//! The file has no names. The remedy for unknown names is a checksum [Concise §7.3]: an unknown
//! name gets a label with odds of 2^-c for c bits, and otherwise none. Without a checksum, each
//! unknown name gets a label.
//!
//! Cost: about 1.13 bits for each bit of a label and of a checksum, for each name. 16 labels or
//! fewer and a checksum of 4 bits take about 9.1 bits a name.

use std::path::Path;
use std::sync::Arc;

use byname_wire::{Digest, NameHashKey};

use super::FlatFib;
use super::line::{self, BulkLoad, BulkSaveError};
use super::validity::Check;
use crate::entry::EntryId;
use crate::file::{Fields, FileError, Opening, put_bytes};
use crate::update::BuildError;

/// Maximum number of labels.
pub const LABELS_MAX: usize = 1 << 16;

/// What a file says about its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The texts by number: that is the entry of a name.
    pub texts: Vec<Box<[u8]>>,
    /// Bits of the checksum of each name, at most 16. 0: unknown names get any label.
    pub check_bits: u32,
}

/// A table from a file. It does not change.
pub struct LabelledTable {
    query: Arc<dyn FlatFib>,
    key: NameHashKey,
    labels: Labels,
    names: u64,
}

impl Labels {
    /// Bits of a label's number.
    fn label_bits(&self) -> u32 {
        self.texts.len().next_power_of_two().ilog2().max(1)
    }

    fn check(&self) -> Option<Check> {
        (self.check_bits > 0).then(|| Check::new(self.label_bits(), self.check_bits))
    }

    fn fit(&self) -> bool {
        (1..=LABELS_MAX).contains(&self.texts.len()) && self.check_bits <= 16
    }
}

/// Writes a table of names, each with its digest under `key` ([`NameHashKey::digest_bytes`]) and the
/// number of its label. If a name comes twice, the last one counts. `progress` is called with the
/// number of names that are in the table.
///
/// # Errors
/// If the number of a label has no text, there are no texts or more than [`LABELS_MAX`], a checksum has more than
/// 16 bits, there is no memory, or the system refuses to write.
pub fn save(
    (path, key): (&Path, &NameHashKey),
    labels: &Labels,
    names: &[(Digest, EntryId)],
    progress: &mut dyn FnMut(usize),
) -> Result<(), BulkSaveError> {
    if !labels.fit() {
        let what = format!(
            "a table has 1 to {LABELS_MAX} labels and checksums of at most 16 bits, not {} and {}",
            labels.texts.len(),
            labels.check_bits
        );
        return Err(FileError::Malformed { what }.into());
    }
    let entries_max = labels.texts.len() as u32;
    if let Some((_, EntryId(entry))) = names.iter().find(|(_, entry)| entry.0 >= entries_max) {
        return Err(BuildError::EntryOutOfRange { entry: *entry, entries_max }.into());
    }
    let mut note: Vec<u8> = [labels.label_bits(), labels.check_bits].into_iter().flat_map(u32::to_le_bytes).collect();
    note.extend((names.len() as u64).to_le_bytes());
    labels.texts.iter().for_each(|text| put_bytes(&mut note, text));
    let check = labels.check();
    let entry_bits = labels.label_bits() + labels.check_bits;
    let options = line::Options { entry_bits, ..line::Options::default() };
    let source = || {
        names.iter().map(move |&(name, entry)| {
            let stored = check.map_or(Ok(entry), |check| check.stored(name, entry));
            (name, stored.expect("numbers of labels have these bits"))
        })
    };
    let load = BulkLoad { names_at_once: NAMES_AT_ONCE, progress };
    line::bulk_save(&options, source, load, (path, key, &note))
}

/// Number of names that are sorted by part at a time, at 24 bytes each.
const NAMES_AT_ONCE: usize = 1 << 22;

impl LabelledTable {
    /// Opens a file that [`save`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read or has no such table.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, FileError> {
        let line::Opened { query, key, note, entry_bits } = line::open(path, opening)?;
        let mut fields = Fields(&note);
        let (label_bits, check_bits, names) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let mut texts: Vec<Box<[u8]>> = Vec::new();
        while !fields.is_empty() && texts.len() <= LABELS_MAX {
            texts.push(fields.bytes()?.into());
        }
        let labels = Labels { texts, check_bits };
        if !labels.fit() || label_bits != labels.label_bits() || entry_bits != label_bits + check_bits {
            return Err(FileError::Malformed { what: "its labels contradict each other".to_owned() });
        }
        let query = match labels.check() {
            Some(check) => check.query(query),
            None => query,
        };
        Ok(LabelledTable { query, key, labels, names })
    }

    /// The query half. Its entries are numbers of labels; in a damaged file, they may be larger.
    pub fn query(&self) -> &Arc<dyn FlatFib> {
        &self.query
    }

    /// The key that names must be hashed with.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    /// Labels and checksums.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Number of names that the table was made of.
    pub fn names(&self) -> u64 {
        self.names
    }
}
