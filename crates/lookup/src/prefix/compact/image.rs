//! The query half of a bulk load, and its file.
//!
//! ```text
//! section 1   buckets (8)  bits of a fingerprint (4)  the rule `/` (4)  deepest node (4)
//!             depths of nodes and handles (8 each)  depths with handles, depths without filters (8 each)
//!             number of rules (8)
//! section 2   filters of handles by depth (8 each)
//! section 3   lines
//! section 4   labels of entries: length (4), bytes
//! section 5   changes since the load: entry plus one, or zero for a removal (4), length (4), name
//! ```
//!
//! Whatever the lines of a forged file hold, a lookup stays within its table: a hash chooses the
//! bucket, a node deeper than the name is no match, and an inherited rule is taken as no deeper
//! than its node. Entry ids may be any.

use std::path::Path;
use std::sync::Arc;

use byname_wire::name_hash::{DEPTH_WORDS, DepthSet};
use byname_wire::{Name, NameHashKey, NameRef};

use super::levels::Levels;
use super::part::Part;
use super::query::{Query, Shared};
use super::{DEPTH_MAX, ENTRIES_MAX, word};
use crate::entry::EntryId;
use crate::file::{Fields, FileError, Kind, Opening, Source, TableFile, TableWriter, labels_of, put_bytes};
use crate::update::Change;

pub(super) const SHAPE: u32 = 1;
pub(super) const FILTERS: u32 = 2;
pub(super) const LINES: u32 = 3;
const LABELS: u32 = 4;
const CHANGES: u32 = 5;

/// Rules that were loaded in bulk.
pub(super) struct Image {
    pub(super) key: NameHashKey,
    pub(super) query: Arc<Query>,
    pub(super) rules: usize,
}

/// What a file has beside an image.
#[derive(Default)]
pub(super) struct Extras {
    /// By entry.
    pub(super) labels: Vec<Box<[u8]>>,
    pub(super) changes: Vec<Change<Name>>,
}

impl Image {
    pub(super) fn open(source: Source<'_>, opening: Opening) -> Result<(Self, Extras), FileError> {
        let file = TableFile::open(source, Kind::Compact, opening)?;
        let shape = Shape::decode(&file.bytes(SHAPE)?)?;
        let count = file.lines_len(LINES)?;
        let buckets = u32::try_from(shape.buckets).ok().filter(|&buckets| buckets as usize == count);
        let buckets = buckets.ok_or_else(|| malformed(format!("{} buckets in {count} lines", shape.buckets)))?;
        let levels = Levels::decode(shape.levels, &file.bytes(FILTERS)?)
            .ok_or_else(|| malformed("filters of another length".to_owned()))?;
        let shared = Shared::new(word::fingerprint_mask(shape.fingerprint_bits), 1, levels);
        shared.set_root(shape.root);
        shared.deepen(shape.depth_max);
        (0..=DEPTH_MAX)
            .filter(|&depth| shape.depths.contains(depth))
            .for_each(|depth| shared.note_depths(depth, depth));
        let extras = Extras { labels: labels(&file.bytes(LABELS)?)?, changes: changes(&file.bytes(CHANGES)?)? };
        let part = Part::from_lines(file.lines(LINES)?, buckets);
        let query = Query { shared: Arc::new(shared), parts: Box::new([Arc::new(part)]), exact: None };
        Ok((Image { key: file.key(), query: Arc::new(query), rules: shape.rules }, extras))
    }

    /// Writes the image and what belongs beside it.
    pub(super) fn save<'a>(
        &self,
        path: &Path,
        labels: &[Box<[u8]>],
        changes: impl Iterator<Item = (&'a [u8], Option<EntryId>)>,
    ) -> Result<(), FileError> {
        let [part] = &*self.query.parts else { unreachable!("a bulk load makes one part") };
        let shared = &self.query.shared;
        let mut file = TableWriter::create(path, Kind::Compact, &self.key)?;
        file.bytes(SHAPE, &Shape::of(&self.query, self.rules).encode())?;
        file.bytes(FILTERS, &shared.levels.filters())?;
        file.lines(LINES, [part.lines()])?;
        let mut bytes = Vec::new();
        labels.iter().for_each(|label| put_bytes(&mut bytes, label));
        file.bytes(LABELS, &bytes)?;
        bytes.clear();
        for (name, entry) in changes {
            bytes.extend(entry.map_or(0, |entry| entry.0 + 1).to_le_bytes());
            put_bytes(&mut bytes, name);
        }
        file.bytes(CHANGES, &bytes)?;
        file.finish()
    }
}

/// What a lookup must know before it reads a line.
pub(super) struct Shape {
    buckets: u64,
    fingerprint_bits: u32,
    root: Option<EntryId>,
    depth_max: usize,
    depths: DepthSet,
    levels: [u64; 2],
    rules: usize,
}

impl Shape {
    pub(super) fn of(query: &Query, rules: usize) -> Self {
        let shared = &query.shared;
        Shape {
            buckets: query.parts[0].lines().len() as u64,
            fingerprint_bits: shared.fingerprint_mask.count_ones(),
            root: shared.root(),
            depth_max: shared.depth_max(),
            depths: shared.depths(),
            levels: shared.levels.words(),
            rules,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.buckets.to_le_bytes().to_vec();
        out.extend(self.fingerprint_bits.to_le_bytes());
        out.extend(self.root.map_or(0, |entry| entry.0 + 1).to_le_bytes());
        out.extend((self.depth_max as u32).to_le_bytes());
        let words = self.depths.words().into_iter().chain(self.levels).chain([self.rules as u64]);
        out.extend(words.flat_map(u64::to_le_bytes));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, FileError> {
        let mut fields = Fields(bytes);
        let buckets = fields.u64()?;
        let (fingerprint_bits, root, depth_max) = (fields.u32()?, fields.u32()?, fields.u32()? as usize);
        let mut depths = [0; DEPTH_WORDS];
        for word in &mut depths {
            *word = fields.u64()?;
        }
        let shape = Shape {
            buckets,
            fingerprint_bits,
            root: root.checked_sub(1).map(EntryId),
            depth_max,
            depths: DepthSet::from_words(depths),
            levels: [fields.u64()?, fields.u64()?],
            rules: usize::try_from(fields.u64()?).map_err(|_| malformed("too many rules".to_owned()))?,
        };
        let fits = (1..=word::FINGERPRINT_BITS).contains(&fingerprint_bits)
            && root <= ENTRIES_MAX
            && depth_max <= DEPTH_MAX
            && fields.is_empty();
        if fits { Ok(shape) } else { Err(malformed("its first section contradicts itself".to_owned())) }
    }
}

fn labels(bytes: &[u8]) -> Result<Vec<Box<[u8]>>, FileError> {
    let labels = labels_of(bytes)?;
    let fit = labels.len() <= ENTRIES_MAX as usize;
    if fit { Ok(labels) } else { Err(malformed(format!("{} labels", labels.len()))) }
}

fn changes(bytes: &[u8]) -> Result<Vec<Change<Name>>, FileError> {
    let (mut fields, mut changes) = (Fields(bytes), Vec::new());
    while !fields.is_empty() {
        let entry = fields.u32()?;
        let value = fields.bytes()?;
        let name = NameRef::new(value).map_err(|error| malformed(format!("a changed rule has no name: {error}")))?;
        if name.len() > DEPTH_MAX || value.len() > usize::from(u16::MAX) {
            return Err(malformed(format!("a changed rule has {} components", name.len())));
        }
        let name = name.to_name();
        changes.push(match entry.checked_sub(1) {
            Some(entry) => Change::Set(name, EntryId(entry)),
            None => Change::Remove(name),
        });
    }
    Ok(changes)
}

fn malformed(what: String) -> FileError {
    FileError::Malformed { what }
}
