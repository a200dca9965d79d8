//! The query half in a file, for processes that share it. It cannot be changed there.
//!
//! ```text
//! section 1   bits of an entry (4)  bits that choose a part (4)  for each value of these, a part's number (4)
//! section 2   for each part, the number of cells of each level (4 each)
//! section 3   lines of all parts, in the order of their numbers
//! section 4   a note of the caller
//! ```
//!
//! Whatever the lines of a forged file hold, a lookup stays within its part, whose lines the file has.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use byname_wire::NameHashKey;

use super::changes::Changes;
use super::query::{Level, Part, Query};
use super::shape::{ENTRY_BITS_MAX, LEVELS, PART_BITS_MAX, Shape};
use super::{LineRetrieval, Options};
use crate::file::{Fields, FileError, Kind, Opening, Source, TableFile, TableWriter};
use crate::flat::FlatFib;

pub(super) const SHAPE: u32 = 1;
pub(super) const PARTS: u32 = 2;
pub(super) const LINES: u32 = 3;
pub(super) const NOTE: u32 = 4;

/// A query half from a file.
pub struct Opened {
    /// The query half.
    pub query: Arc<dyn FlatFib>,
    /// The key that names must be hashed with.
    pub key: NameHashKey,
    /// Bits of an entry.
    pub entry_bits: u32,
    /// What the file's maker noted.
    pub note: Vec<u8>,
}

impl LineRetrieval {
    /// Writes the query half, the key that its names were hashed with, and a note. Whoever has
    /// mapped an earlier file of this name keeps that.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save(&self, path: &Path, key: &NameHashKey, note: &[u8]) -> Result<(), FileError> {
        save(self.table.query(), path, key, note)
    }
}

pub(super) fn save(query: &Query, path: &Path, key: &NameHashKey, note: &[u8]) -> Result<(), FileError> {
    let Sections { shape, cells, parts } = Sections::of(query);
    let mut file = TableWriter::create(path, Kind::Line, key)?;
    file.bytes(SHAPE, &shape)?;
    file.bytes(PARTS, &cells)?;
    file.lines(LINES, parts.iter().map(|part| &part.lines[part.lines_used(query.shape)]))?;
    file.bytes(NOTE, note)?;
    file.finish()
}

/// What a file says before its lines, and the parts that these are of.
pub(super) struct Sections<'a> {
    pub(super) shape: Vec<u8>,
    pub(super) cells: Vec<u8>,
    pub(super) parts: Vec<&'a Part>,
}

impl<'a> Sections<'a> {
    pub(super) fn of(query: &'a Query) -> Self {
        // A part that needs fewer bits occurs several times.
        let (mut numbers, mut parts, mut shape) = (HashMap::new(), Vec::new(), Vec::new());
        shape.extend((query.shape.entry_bits as u32).to_le_bytes());
        shape.extend(query.part_bits.to_le_bytes());
        for part in &query.parts {
            let number = *numbers.entry((Arc::as_ptr(&part.lines), part.levels[0].first)).or_insert_with(|| {
                parts.push(part);
                parts.len() as u32 - 1
            });
            shape.extend(number.to_le_bytes());
        }
        let cells = parts.iter().flat_map(|part| part.levels).flat_map(|level| level.cells.to_le_bytes()).collect();
        Sections { shape, cells, parts }
    }
}

/// Opens a file that [`LineRetrieval::save`] wrote.
///
/// # Errors
/// If the file cannot be read or has no such table.
pub fn open<'a>(source: impl Into<Source<'a>>, opening: Opening) -> Result<Opened, FileError> {
    let file = TableFile::open(source, Kind::Line, opening)?;
    let bytes = file.bytes(SHAPE)?;
    let mut fields = Fields(&bytes);
    let (entry_bits, part_bits) = (fields.u32()?, fields.u32()?);
    if !(1..=ENTRY_BITS_MAX).contains(&entry_bits) || part_bits > PART_BITS_MAX {
        return Err(malformed("its entries or its parts have an impossible number of bits"));
    }
    let shape = Shape::new(entry_bits);
    let parts = levels(shape, &file.bytes(PARTS)?, file.lines_len(LINES)?)?;
    let mut numbers = Vec::new();
    for _ in 0..1 << part_bits {
        numbers.push(fields.u32()? as usize);
    }
    if !fields.is_empty() || numbers.iter().any(|&number| number >= parts.len()) {
        return Err(malformed("it has other parts than it says"));
    }
    let lines = Arc::new(file.lines(LINES)?);
    let parts = numbers.into_iter().map(|number| Part { lines: lines.clone(), levels: parts[number] }).collect();
    let instructions = Options::default().instructions();
    let query = Query { shape, changes: Arc::new(Changes::new()), parts, part_bits, instructions };
    Ok(Opened { query: Arc::new(query), key: file.key(), entry_bits, note: file.bytes(NOTE)? })
}

/// The levels of each part, whose cells take exactly `lines` lines together.
fn levels(shape: Shape, bytes: &[u8], lines: usize) -> Result<Vec<[Level; LEVELS]>, FileError> {
    let (mut fields, mut parts, mut next) = (Fields(bytes), Vec::new(), 0u32);
    while !fields.is_empty() {
        let mut levels = [Level::default(); LEVELS];
        for level in &mut levels {
            let cells = fields.u32()?;
            let end = next
                .checked_add(cells)
                .filter(|_| cells > 0 && (cells as usize).is_multiple_of(shape.cells_per_line()));
            *level = Level { first: next, cells };
            next = end.ok_or_else(|| malformed("a part has an impossible number of cells"))?;
        }
        parts.push(levels);
    }
    let fits = next as usize / shape.cells_per_line() == lines;
    if fits { Ok(parts) } else { Err(malformed("it has other lines than its parts")) }
}

fn malformed(what: &str) -> FileError {
    FileError::Malformed { what: what.to_owned() }
}
