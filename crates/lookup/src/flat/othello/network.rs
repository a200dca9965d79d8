//! The tables of many switches that know the same names, each with its own entries [Concise §5.1].
//!
//! The graph and the hash functions depend on the names only, so they are built once. A further
//! table costs only its values. They are computed in the order found when the graph was built, or
//! in one that a new traversal finds.

use std::sync::Arc;

use byname_wire::Digest;

use super::Options;
use super::batch::{Step, Undo};
use super::graph::{Builder, Graph, Walks};
use super::place::Width;
use super::table::{Blocks, Table};
use crate::entry::EntryId;
use crate::flat::FlatFib;
use crate::update::{BuildError, Update};

/// How many changes ahead memory is prefetched.
pub(super) const AHEAD: usize = 16;

/// A change of the tables of all switches, or of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkChange {
    /// Adds the name or replaces its entries: one entry for each table.
    Set(Digest, Box<[EntryId]>),
    /// Replaces the entry in one table. Without such a name it has no effect.
    Alter(Digest, usize, EntryId),
    /// Removes the name from all tables. Without such a name it has no effect.
    Remove(Digest),
}

/// The control half of many switches' tables.
pub struct Network {
    pub(super) options: Options,
    pub(super) width: Width,
    /// Numbers of parts, indexed by the first bits of a digest.
    pub(super) directory: Vec<u32>,
    pub(super) parts: Vec<NamesOfPart>,
    pub(super) tables: Vec<Table>,
    pub(super) names: usize,
    /// Parts whose names have this many bits in common are not split. Set for each batch.
    pub(super) depth_limit: u32,
    pub(super) seed: u64,
    pub(super) builder: Builder,
    pub(super) walks: Walks,
    /// Empty between batches.
    pub(super) undo: Undo,
}

/// The names of one part, whose digests share a prefix.
pub(super) struct NamesOfPart {
    pub(super) graph: Graph,
    /// Length of the shared prefix in bits.
    pub(super) depth: u32,
}

impl Network {
    /// `tables` empty tables.
    ///
    /// # Errors
    /// If the kernel refuses memory on such pages.
    ///
    /// # Panics
    /// If there are no tables, or an option is out of its range.
    pub fn new(options: Options, tables: usize) -> Result<Self, BuildError> {
        Self::construct(options, &[], &vec![&[][..]; tables])
    }

    /// Tables of these names [Concise §4.3.1]: `entries[t][i]` is the entry of `names[i]` in table
    /// `t`. If a name comes twice, the last one counts.
    ///
    /// # Errors
    /// If there are too many names, an entry is too large, the kernel refuses memory on such pages,
    /// or the digests do not come from a keyed hash: [`BuildError::Skewed`].
    ///
    /// # Panics
    /// If there are no tables, their lengths differ from the names', or the options are out of
    /// their ranges.
    pub fn construct(options: Options, names: &[Digest], entries: &[&[EntryId]]) -> Result<Self, BuildError> {
        assert!(!entries.is_empty(), "a network has a table");
        assert!(entries.iter().all(|entries| entries.len() == names.len()), "one entry for each name");
        let width = options.width();
        entries.iter().copied().flatten().try_for_each(|entry| check_entry(width, *entry))?;
        // Numbers of names take four bytes here.
        let names_max = options.names_max.min(u32::MAX as usize);
        if names.len() > names_max {
            return Err(BuildError::Full { rules: names_max });
        }
        let bits = (names.len().div_ceil(options.part_names) as u64).next_power_of_two().trailing_zeros();
        let mut network = Network {
            options,
            width,
            directory: (0..1 << bits).collect(),
            parts: Vec::new(),
            tables: Vec::new(),
            names: 0,
            depth_limit: 0,
            seed: 0,
            builder: Builder::default(),
            walks: Walks::default(),
            undo: Undo::default(),
        };
        let made = network.build_all(names, entries, bits)?;
        let (instructions, directory) = (network.options.instructions(), &network.directory);
        network.tables = made.into_iter().map(|parts| Table::new(width, instructions, parts, directory)).collect();
        Ok(network)
    }

    /// Number of names in every table.
    pub fn len(&self) -> usize {
        self.names
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names == 0
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The query half of one table, for a new reader.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn query(&self, table: usize) -> Arc<dyn FlatFib> {
        self.tables[table].query().clone()
    }

    /// The entry of a name in one table. `None` if there is no such name.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn entry(&self, table: usize, name: Digest) -> Option<EntryId> {
        let part = self.part_of(name);
        let graph = &self.parts[part as usize].graph;
        let ends = graph.ends(name);
        graph.find(name, ends).map(|_| EntryId(self.tables[table].entry(part, ends)))
    }

    /// Memory of the control half in bytes, without query halves.
    pub fn memory_bytes(&self) -> usize {
        let graphs = self.parts.iter().map(|part| size_of::<NamesOfPart>() + part.graph.memory_bytes());
        size_of::<Self>()
            + self.directory.capacity() * size_of::<u32>()
            + graphs.sum::<usize>()
            + self.tables.iter().map(Table::memory_bytes).sum::<usize>()
            + self.builder.memory_bytes()
            + self.undo.memory_bytes()
    }

    pub(super) fn check_entry(&self, entry: EntryId) -> Result<(), BuildError> {
        check_entry(self.width, entry)
    }

    /// Adds a switch. `entry_of` gives each name's entry in its table. Returns the table's number.
    ///
    /// # Errors
    /// If an entry is too large, or the kernel refuses memory on such pages.
    pub fn add_table(&mut self, mut entry_of: impl FnMut(Digest) -> EntryId) -> Result<usize, BuildError> {
        let lines = self.parts.iter().map(|part| 2 * part.graph.shape().lines as usize).sum();
        let mut blocks = Blocks::new(self.options.pages, lines)?;
        let mut parts = Vec::with_capacity(self.parts.len());
        for NamesOfPart { graph, .. } in &self.parts {
            let entries = graph.names().map(|name| {
                let entry = entry_of(name);
                check_entry(self.width, entry).map(|()| entry.0)
            });
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            self.builder.resume(graph);
            parts.push(blocks.part(&mut self.builder, graph, &entries, self.width)?);
        }
        self.tables.push(Table::new(self.width, self.options.instructions(), parts, &self.directory));
        Ok(self.tables.len() - 1)
    }

    /// Applies all changes in order, or none. Returns the effect on the query half of each table.
    ///
    /// # Errors
    /// As for [`Network::construct`].
    ///
    /// # Panics
    /// If a change names a table that does not exist, or does not have one entry for each table.
    pub fn apply(&mut self, changes: &[NetworkChange]) -> Result<Vec<Update<dyn FlatFib>>, BuildError> {
        for change in changes {
            match change {
                NetworkChange::Set(_, entries) => {
                    assert_eq!(entries.len(), self.tables.len(), "one entry for each table");
                    entries.iter().try_for_each(|entry| self.check_entry(*entry))?;
                }
                NetworkChange::Alter(_, table, entry) => {
                    assert!(*table < self.tables.len(), "no such table");
                    self.check_entry(*entry)?;
                }
                NetworkChange::Remove(_) => {}
            }
        }
        self.apply_steps(changes.iter().map(|change| match change {
            NetworkChange::Set(name, entries) => Step::Set(*name, entries),
            NetworkChange::Alter(name, table, entry) => Step::Alter(*name, *table, *entry),
            NetworkChange::Remove(name) => Step::Remove(*name),
        }))?;
        Ok((0..self.tables.len()).map(|table| self.publish(table)).collect())
    }
}

fn check_entry(width: Width, entry: EntryId) -> Result<(), BuildError> {
    if entry.0 <= width.mask() {
        return Ok(());
    }
    // Here the width is below 32 bits: with 32 bits every id fits.
    Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: 1 << width.bits() })
}
