//! The control half of a table in a file, which says what a change writes into the file.
//!
//! It is made of the file's names, as the file was, and each cell must come out as it is there. Changes are those of
//! [`LineRetrieval`]. A part that is built anew would have another length, so such a change is refused, and the file must be made
//! anew.

use std::collections::BTreeMap;
use std::path::Path;

use byname_wire::Digest;

use super::changes;
use super::file::{LINES, NOTE, PARTS, SHAPE, Sections};
use super::{LineRetrieval, Options};
use crate::entry::EntryId;
use crate::file::{Edit, EditedFile, Kind, LiveError, Opening, Rewritten, TableFile};
use crate::flat::FlatFib as _;
use crate::flat::message::Record;
use crate::update::{Change, Control, Update};

/// A table in a file, with its names.
pub(in crate::flat) struct LiveLine {
    line: LineRetrieval,
    file: EditedFile,
}

impl LiveLine {
    /// Builds the table of a file once more, from the names that the file was made of, in their order.
    pub(in crate::flat) fn load(
        path: &Path,
        options: &Options,
        names: &[(Digest, EntryId)],
    ) -> Result<Self, LiveError> {
        let file = TableFile::open(path, Kind::Line, Opening::default())?;
        let mut line = LineRetrieval::load(options, names)?;
        let query = line.table.query();
        let Sections { shape, cells, parts } = Sections::of(query);
        let lines = parts.iter().map(|part| &part.lines[part.lines_used(query.shape)]);
        if file.bytes(SHAPE)? != shape || file.bytes(PARTS)? != cells || !file.has_lines(LINES, lines)? {
            return Err(LiveError::OtherRules);
        }
        line.table.publisher.record = Some(Record::new(8 * line.table.lines()));
        Ok(LiveLine { line, file: EditedFile::new(Kind::Line, &file) })
    }

    pub(in crate::flat) fn len(&self) -> usize {
        self.line.len()
    }

    pub(in crate::flat) fn contains(&self, name: Digest) -> bool {
        self.line.table.contains(name)
    }

    /// Memory of both halves, in bytes.
    pub(in crate::flat) fn memory_bytes(&self) -> usize {
        self.line.control_bytes() + self.line.table.query().memory_bytes()
    }

    /// Applies changes, and returns what to write into the file, with this note about all names. After an error, the table is of no use.
    pub(in crate::flat) fn apply(
        &mut self,
        changes: &[Change<Digest>],
        note: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Vec<Edit>, LiveError> {
        if let Update::Replace(_) = self.line.apply(changes)? {
            return Err(LiveError::Grown);
        }
        let record = &mut self.line.table.publisher.record;
        let anew = record.as_ref().map(Record::emptied);
        let record = std::mem::replace(record, anew).filter(|record| !record.is_too_long()).ok_or(LiveError::Grown)?;
        // What each line has flipped, by its part.
        let mut flips = BTreeMap::<(u32, usize), [u64; 8]>::new();
        for flip in record.flips() {
            let word = flip.word as usize;
            flips.entry((flip.block, word / 8)).or_default()[word % 8] ^= flip.flip;
        }
        let (shape, mut first, mut rewritten) = (self.line.table.maker.shape, 0, Vec::with_capacity(flips.len()));
        for part in &self.line.table.parts {
            let used = part.part.lines_used(shape);
            for ((_, line), flips) in flips.range((part.number, 0)..=(part.number, usize::MAX)) {
                let after = changes::words(&part.part.lines[used.start + line]);
                let before = std::array::from_fn(|word| after[word] ^ flips[word]);
                rewritten.push(Rewritten { line: first + line, before, after });
            }
            first += used.len();
        }
        self.file.lines(LINES, rewritten.into_iter())?;
        self.file.bytes(NOTE, &note(self.line.len()))?;
        Ok(self.file.take())
    }
}
