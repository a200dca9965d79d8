//! Line retrieval: reads a name's entry from one cache line, and takes 9 bits a name for entries of 8 bits. byname's
//! own engine for flat names, and its default.
//!
//! **Cells.** The digest of a name chooses a *cell*: one cache line, or a half or a quarter of one if entries have
//! three bits or fewer. A cell is a small linear system over GF(2) with a plane of bits for each bit of an entry. A
//! name has a mask, drawn from its digest and the cell's seed. Bit `j` of its entry is the parity of plane `j` under
//! the mask (`cell`, `solve`). So a system has one unknown for each bit of memory. It can be filled completely, because
//! some seed solves a system of as many names as unknowns (two of seven seeds do).
//!
//! **Levels.** Names are not spread evenly. A cell with more names than unknowns *bumps* the names of the highest ranks
//! (8 bits of the digest), and stores the threshold beside its seed. Bumped names get a cell in the next level, which
//! is sized for their expected number. There are four levels, and the last has room to spare. Bumping is from BuRR
//! (Dillinger, Hübschle-Schneider, Sanders, Walzer). BuRR has one banded system for the whole table, which is even
//! smaller but is solved all at once. Cells share nothing, so they can be changed one by one.
//!
//! **Changes.** The control half keeps the digests of each cell together, and the inverse of its system. A change adds
//! one vector to the planes whose bits change (`duals`). The cell is solved again only if no vector is left for a name.
//! Readers see each cell change in one step (`changes`). A bumped name is in the next level before it leaves the cell.
//! Removing a name writes nothing. Names are divided into parts (`table`) of at most about 2^17 names. So growth and
//! splits affect one part at a time, for a few milliseconds, while readers use the old part.
//!
//! Differs from [Concise §4]: a name reads one line instead of two words. Each bit of an entry takes 1.13 bits instead
//! of 2.33 to 4. There are no cycles, so no change rebuilds the whole table.
//!
//! Cost: 9.1 to 9.2 bits a name for entries of 8 bits, from one million names to 64 million; 3 names of 100 read a
//! second line. The control half takes 27 bytes a name, and 31 to 38 with very short or very long entries.

mod bulk;
mod cell;
mod changes;
mod duals;
mod eliminate;
mod feed;
mod file;
mod group;
mod live;
mod part;
mod processor;
mod publisher;
mod query;
mod replica;
mod shape;
mod solve;
mod table;

use std::sync::Arc;

use byname_wire::Digest;

use self::table::{Maker, PART_NAMES_MAX, Table, build_all};
use super::FlatFib;
use crate::entry::EntryId;
use crate::instructions::Instructions;
use crate::memory::Pages;
use crate::update::{self, BuildError, Change, Control, Update};

pub use self::bulk::{BulkLoad, BulkSaveError, bulk_load, bulk_save};
pub use self::file::{Opened, open};
pub(super) use self::live::LiveLine;
pub use self::replica::Replica;

/// How to build a table.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bits of an entry, 1 to 32: ids are below 2 to this power.
    pub entry_bits: u32,
    /// Maximum number of names.
    pub names_max: usize,
    /// Pages of the query half. Rebuilt parts are on small pages until there are many.
    pub pages: Pages,
    /// Planned number of names of a cell, in percent of its unknowns, 50 to 150. A higher one makes the table smaller,
    /// but bumps more names to a second line (see the module's documentation).
    pub fill_percent: u32,
    /// Maximum number of names of a part before it is split, at most 2^17. A part is always rebuilt as a whole.
    pub part_names: usize,
    /// Number of threads that build the parts of a bulk load.
    pub threads: usize,
    /// Instructions for queries and changes, if this processor has them. Tests use fewer.
    #[cfg(feature = "lab")]
    pub instructions: Instructions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entry_bits: 8,
            names_max: 1 << 32,
            pages: Pages::default(),
            fill_percent: 95,
            part_names: PART_NAMES_MAX,
            threads: 1,
            #[cfg(feature = "lab")]
            instructions: Instructions::detect(),
        }
    }
}

impl Options {
    /// The instructions for queries and changes, which this processor has.
    fn instructions(&self) -> Instructions {
        let most = Instructions::detect();
        #[cfg(feature = "lab")]
        let most = most.min(self.instructions);
        most
    }
}

/// The control half: one writer.
///
/// Readers of an old query half must change to the new one of an [`Update::Replace`] before the next
/// [`Control::apply`].
pub struct LineRetrieval {
    options: Options,
    table: Table,
}

impl LineRetrieval {
    /// Makes an empty table.
    ///
    /// # Panics
    /// If entries have no bits, or more than 32.
    pub fn new(options: &Options) -> Self {
        let mut maker = Maker::new(options);
        let mut parts = Vec::new();
        maker.make(1, Vec::new(), 0, &mut parts).expect("a few lines from the heap");
        LineRetrieval { options: options.clone(), table: Table::new(maker, parts) }
    }

    /// Builds a table of these names. If a name comes twice, the last one counts.
    ///
    /// # Errors
    /// If an entry is out of range, there are too many names, the kernel refuses memory on such pages, or the digests
    /// do not come from a keyed hash: [`BuildError::Skewed`].
    ///
    /// # Panics
    /// As for [`LineRetrieval::new`].
    pub fn load(options: &Options, names: &[(Digest, EntryId)]) -> Result<Self, BuildError> {
        names.iter().try_for_each(|&(_, entry)| check_entry(options, entry))?;
        let mut maker = Maker::new(options);
        let mut parts = Vec::new();
        build_all(&mut maker, || names.iter().copied(), NAMES_AT_ONCE, |part| parts.push(part))?;
        let table = Table::new(maker, parts);
        match table.len() <= options.names_max {
            true => Ok(LineRetrieval { options: options.clone(), table }),
            false => Err(BuildError::Full { rules: options.names_max }),
        }
    }

    /// Number of names in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the table has no names.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Memory of the control half alone, in bytes.
    pub fn control_bytes(&self) -> usize {
        size_of::<Self>() + self.table.memory_bytes()
    }

    /// Refuses a batch that cannot be applied as a whole.
    fn check(&self, changes: &[Change<Digest>]) -> Result<(), BuildError> {
        let mut sets = changes.iter().filter_map(|change| match change {
            Change::Set(_, entry) => Some(*entry),
            Change::Remove(_) => None,
        });
        sets.try_for_each(|entry| check_entry(&self.options, entry))?;
        update::check_room(changes, self.table.len(), self.options.names_max, |name| self.table.contains(*name))
    }
}

impl Control<Digest> for LineRetrieval {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        self.table.query().clone()
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        self.check(changes)?;
        let replaced = self.table.apply(changes)?;
        Ok(if replaced { Update::Replace(self.query()) } else { Update::Patched })
    }

    fn reclaim(&mut self) {
        // Replaced parts are freed with the query halves that hold them.
    }
}

/// Number of names that a load sorts by part at a time, at 24 bytes each.
const NAMES_AT_ONCE: usize = 1 << 24;

fn check_entry(options: &Options, entry: EntryId) -> Result<(), BuildError> {
    match entry.0.checked_shr(options.entry_bits) {
        Some(1..) => Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: 1 << options.entry_bits }),
        _ => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
