//! Line retrieval: a name's entry from one cache line, in 9 bits a name where entries have 8.
//! byname's own engine for flat names, and its default.
//!
//! **Cells.** The digest of a name chooses a *cell*: one cache line (or a half or a quarter of one,
//! where entries have three bits or fewer). A cell is a small linear system over GF(2): a plane of
//! bits for each bit of an entry, and bit `j` of a name's entry is the parity of plane `j` under the
//! name's mask, drawn from its digest and the cell's seed (`cell`, `solve`). So a system has one
//! unknown for each bit of memory, and can be filled to the last: there is a seed for which
//! as many names as unknowns can be solved (two of seven work).
//!
//! **Levels.** Names do not come evenly: a cell that gets more than it has unknowns *bumps* those of
//! the highest ranks, 8 bits of the digest, and notes the threshold beside its seed. The bumped ones
//! find a cell in the next level, which is made for as many as are expected; there are four levels,
//! and the last has room to spare. Bumping is from BuRR (Dillinger, Hübschle-Schneider, Sanders,
//! Walzer), whose one banded system over a whole table is denser still, but is solved all at once;
//! cells that share nothing can be changed one by one.
//!
//! **Changes.** The control half keeps the digests of each cell together, and the inverse of its system:
//! a change adds one vector to the planes whose bits change (`duals`), and only where no vector is left
//! for a name is the cell solved again. It is written in one step, as readers see it (`changes`); where a
//! cell bumps a name, it is in the next level before it leaves. Removing a name writes nothing. Names
//! are shared out to parts (`table`) of at most some 2^17, so that growth and splits touch one part at a
//! time, for a few milliseconds, while readers use the old one.
//!
//! Differs from [Concise §4]: one line for a name instead of two words, 1.13 bits for each bit of
//! entry instead of 2.33 to 4, and no cycles, so that no change makes the whole table anew.
//!
//! Cost: 9.1 to 9.2 bits a name where entries have 8, from one million names to 64; 3 names of 100 read
//! a second line. The control half takes 27 bytes a name, and 31 to 38 with very short or very long
//! entries.

mod bulk;
mod cell;
mod changes;
mod duals;
mod eliminate;
mod feed;
mod group;
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
use crate::memory::Pages;
use crate::update::{self, BuildError, Change, Control, Update};

pub use self::bulk::{BulkLoad, bulk_load};
pub use self::replica::Replica;
pub use crate::instructions::Instructions;

/// How a table is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bits of an entry, 1 to 32: ids are below two to this power.
    pub entry_bits: u32,
    /// Most names.
    pub names_max: usize,
    /// Pages of the query half. Parts that were made anew are on small pages until there are many.
    pub pages: Pages,
    /// Names that a cell is meant for, in percent of its unknowns, 50 to 150. More make the table
    /// smaller, and let more names be bumped, to a second line: see the module's documentation.
    pub fill_percent: u32,
    /// Names above which a part is split, at most 2^17: parts are made anew as a whole.
    pub part_names: usize,
    /// What queries and changes are computed with, if this processor has it: less is for tests.
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
            instructions: Instructions::detect(),
        }
    }
}

/// The control half: one writer.
///
/// Readers that have an old query half when [`Update::Replace`] gives a new one must change before
/// the next [`Control::apply`].
pub struct LineRetrieval {
    options: Options,
    table: Table,
}

impl LineRetrieval {
    /// An empty table.
    ///
    /// # Panics
    /// If entries are to have no bits, or more than 32.
    pub fn new(options: &Options) -> Self {
        let mut maker = Maker::new(options);
        let mut parts = Vec::new();
        maker.make(1, Vec::new(), 0, &mut parts).expect("a few lines from the heap");
        LineRetrieval { options: options.clone(), table: Table::new(maker, parts) }
    }

    /// A table of these names; of one that comes twice the last counts.
    ///
    /// # Errors
    /// If an entry is out of range, there are too many names, the kernel refuses memory on such pages,
    /// or the digests are not those of a keyed hash: [`BuildError::Skewed`].
    ///
    /// # Panics
    /// As [`LineRetrieval::new`].
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

    /// Names in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
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
        // Parts that were made anew go with the query halves that have them.
    }
}

/// Names that a load sorts by part at a time, at 24 bytes each.
const NAMES_AT_ONCE: usize = 1 << 24;

fn check_entry(options: &Options, entry: EntryId) -> Result<(), BuildError> {
    match entry.0.checked_shr(options.entry_bits) {
        Some(1..) => Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: 1 << options.entry_bits }),
        _ => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
