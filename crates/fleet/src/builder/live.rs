//! Tables that a builder keeps in memory with their names, so that a change costs as much as what changes.
//!
//! After a table was built whole, its rows are read once more into the table's own control half. The next deltas then change words of
//! the file, and this half tells which. Blocks with such words are read, changed, hashed and written, and the patch is made of them:
//! nobody reads the other blocks, and nobody reads chunks.
//!
//! A table is kept as long as etcd has the head that was made of it. If another builder has built meanwhile, or a file of this length
//! cannot have a change, it is forgotten, and built whole. So it is after a restart. All errors end in that: what is kept is of
//! use or is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use byname_lookup::file::Edit;
use byname_lookup::file::secret::Secret;
use byname_lookup::flat::labelled::LiveNames;
use byname_lookup::prefix::compact::{LiveLoader, LiveTable, Options};
use byname_lookup::update::Change;
use byname_wire::{NameHashKey, NameRef};
use tracing::info;

use super::make::{Numbers, Source, changes_after, flat_names};
use super::plan::Job;
use crate::label::Label;
use crate::table::Digest;
use crate::table::blocks::{BLOCK_BYTES, Blocks};
use crate::table::content::State;
use crate::table::patch::Patch;
use crate::table::store::Store;
use crate::table::stream::Changes;
use crate::value::{BuiltHead, FromBefore, TableKind, flat_name};

/// Rows between two looks at how much memory a table takes.
const ROWS_AT_ONCE: u64 = 1 << 12;
/// Memory that a flat name takes while a table is loaded, in bytes: its digest, twice with a label, and what is kept.
const FLAT_BYTES: u64 = 2 * 20 + 40;

/// Tables with their names, as far as memory allows.
pub struct Kept {
    bytes_max: usize,
    tables: Mutex<BTreeMap<Label, Place>>,
}

enum Place {
    Here(Box<LiveFile>),
    /// It had so many rows, and took too much memory.
    TooLarge(u64),
}

/// A table with its names.
enum Table {
    Prefixes(Box<LiveTable>),
    Flat(Box<(LiveNames, NameHashKey)>),
}

/// A file, and what can change it.
struct LiveFile {
    table: Table,
    numbers: Numbers,
    /// What etcd has of it.
    head: BuiltHead,
    blocks: Blocks,
}

impl Kept {
    /// Keeps tables of at most so many bytes in all.
    pub fn new(bytes_max: usize) -> Self {
        Kept { bytes_max, tables: Mutex::default() }
    }

    fn tables(&self) -> MutexGuard<'_, BTreeMap<Label, Place>> {
        // A map is whole at any time.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the table of this job is kept in the state before it.
    pub fn follows(&self, job: &Job) -> bool {
        matches!(self.tables().get(&job.table), Some(Place::Here(file)) if file.follows(job))
    }

    /// Makes the next file of the one that is kept, and writes its new blocks. `None` if it must be built whole.
    pub fn change(&self, job: &Job, own: &Store) -> Option<BuiltHead> {
        let place = self.tables().remove(&job.table)?;
        let mut file = match place {
            Place::Here(file) => file,
            too_large @ Place::TooLarge(_) => {
                self.tables().insert(job.table.clone(), too_large);
                return None;
            }
        };
        if !file.follows(job) {
            return None;
        }
        match file.change(job, own) {
            Ok(()) => {
                let head = file.head.clone();
                self.tables().insert(job.table.clone(), Place::Here(file));
                Some(head)
            }
            Err(why) => {
                info!("table {}: {why}, so it is built whole", job.table);
                None
            }
        }
    }

    /// Forgets a table that is built whole, since its names would take memory twice.
    pub fn forget(&self, table: &Label) {
        let mut tables = self.tables();
        if matches!(tables.get(table), Some(Place::Here(_))) {
            tables.remove(table);
        }
    }

    /// Forgets tables that do not exist any more.
    pub fn forget_others(&self, tables: &BTreeSet<&Label>) {
        self.tables().retain(|table, _| tables.contains(table));
    }

    /// Reads the rows of a file that was just made, and keeps them. `read` gives chunks.
    pub fn keep(
        &self,
        job: &Job,
        (head, blocks, path): (BuiltHead, Blocks, &Path),
        read: &(dyn Fn(Digest) -> Result<Vec<u8>, String> + Sync),
    ) {
        // Descriptors have no names, and a file of them has no room for more.
        if self.bytes_max == 0
            || job.head.kind == TableKind::Tags
            || matches!(self.tables().get(&job.table), Some(Place::TooLarge(rows)) if *rows <= head.rows)
        {
            return;
        }
        let others: usize = self
            .tables()
            .iter()
            .filter(|(table, _)| **table != job.table)
            .map(|(_, place)| if let Place::Here(file) = place { file.memory_bytes() } else { 0 })
            .sum();
        let (begun, rows) = (Instant::now(), head.rows);
        let place = match LiveFile::load(job, (head, blocks, path), read, self.bytes_max.saturating_sub(others)) {
            Ok(Some(file)) => {
                info!(
                    "table {}: kept with its names, {} MiB, after {} ms",
                    job.table,
                    file.memory_bytes() >> 20,
                    begun.elapsed().as_millis()
                );
                Place::Here(Box::new(file))
            }
            Ok(None) => {
                info!(
                    "table {}: its names take more memory than --names-memory-max allows, so each change builds it whole",
                    job.table
                );
                Place::TooLarge(rows)
            }
            Err(why) => {
                info!("table {}: it is not kept: {why}", job.table);
                return;
            }
        };
        self.tables().insert(job.table.clone(), place);
    }
}

impl LiveFile {
    /// Takes the rows of a file. `None` if that takes more than so many bytes.
    fn load(
        job: &Job,
        (head, blocks, path): (BuiltHead, Blocks, &Path),
        read: &(dyn Fn(Digest) -> Result<Vec<u8>, String> + Sync),
        bytes_max: usize,
    ) -> Result<Option<Self>, String> {
        let mut numbers = Numbers::of_texts(blocks.labels.clone());
        let source = Source::open(job, read)?;
        let table = match job.head.kind {
            TableKind::Flat if head.rows.saturating_mul(FLAT_BYTES) > bytes_max as u64 => None,
            TableKind::Flat => Some(flat(path, &head, &source, &mut numbers)?),
            _ => prefixes(path, &source, &mut numbers, bytes_max)?,
        };
        Ok(table.map(|table| LiveFile { table, numbers, head, blocks }))
    }

    fn memory_bytes(&self) -> usize {
        let table = match &self.table {
            Table::Prefixes(table) => table.memory_bytes(),
            Table::Flat(flat) => flat.0.memory_bytes(),
        };
        table + self.blocks.digests.len() * size_of::<Digest>()
    }

    fn state(&self) -> State {
        self.head.state()
    }

    /// Whether a job has the next deltas for this very file.
    fn follows(&self, job: &Job) -> bool {
        let BuiltHead { kind, flat, epoch, sequence, blocks, .. } = &self.head;
        job.before.as_ref().is_some_and(|before| before.blocks == *blocks && before.state() == self.state())
            && (job.head.kind, &job.head.flat, job.head.epoch) == (*kind, flat, *epoch)
            && (job.head.base..job.head.last).contains(sequence)
    }

    /// Changes the table, and writes the blocks of its next file. After an error, the table is of no use.
    fn change(&mut self, job: &Job, own: &Store) -> Result<(), String> {
        let begun = Instant::now();
        let changes = changes_after(job, &self.state())?;
        let edits = self.edits(&changes)?;
        let changed = begun.elapsed();
        let before = self.blocks.clone();
        let Rewritten { secret, patch, new_bytes } = rewrite(&mut self.blocks, edits, own)?;
        let io = |error: std::io::Error| format!("{}: {error}", own.folder().display());
        let list = self.blocks.encode().map_err(|error| error.to_string())?;
        let digest = Digest::of(&list);
        own.write(digest, &list).map_err(io)?;
        let patch = patch.map(|patch| patch.encode()).filter(|patch| patch.len() < new_bytes / 2);
        let patch = match patch {
            Some(patch) if digest != self.head.blocks => {
                let name = Digest::of(&patch);
                own.write(name, &patch).map_err(io)?;
                Some((FromBefore { blocks: self.head.blocks, patch: name }, patch.len()))
            }
            _ => None,
        };
        let new = before.digests.iter().zip(&self.blocks.digests).filter(|(before, after)| before != after).count();
        info!(
            "table {}: {} changes made in {} ms, {new} of {} blocks with {new_bytes} bytes are new, a patch of {} bytes; {} ms in all",
            job.table,
            changes.len(),
            changed.as_millis(),
            self.blocks.digests.len(),
            patch.as_ref().map_or(0, |(_, bytes)| *bytes),
            begun.elapsed().as_millis()
        );
        let rows = match &self.table {
            Table::Prefixes(table) => table.len(),
            Table::Flat(flat) => flat.0.len(),
        };
        let head = &mut self.head;
        (head.sequence, head.state) = (job.head.last, job.head.state);
        (head.blocks, head.patch) = (digest, patch.map(|(patch, _)| patch));
        (head.secret, head.rows) = (secret.unwrap_or(head.secret), rows as u64);
        Ok(())
    }

    /// What to write into the file for these changes.
    fn edits(&mut self, changes: &Changes) -> Result<Vec<Edit>, String> {
        let numbers = &mut self.numbers;
        match &mut self.table {
            Table::Prefixes(table) => {
                let name = |key: &[u8]| Ok(NameRef::new(key).map_err(|error| error.to_string())?.to_name());
                table.apply(&of_rows(changes, numbers, name)?).map_err(|error| error.to_string())
            }
            Table::Flat(flat) => {
                let (names, hash) = &mut **flat;
                let digest = |key: &[u8]| {
                    let name = flat_name(key).map_err(|error| error.to_string())?;
                    Ok(hash.digest_bytes(name))
                };
                let changes = of_rows(changes, numbers, digest)?;
                names.apply(&changes).map_err(|error| error.to_string())
            }
        }
    }
}

/// Changes of a table, of those of its rows. `key` makes the table's key of a row's.
fn of_rows<K>(
    changes: &Changes,
    numbers: &mut Numbers,
    key: impl Fn(&[u8]) -> Result<K, String>,
) -> Result<Vec<Change<K>>, String> {
    let changes = changes.iter().map(|(row, value)| {
        let key = key(row)?;
        Ok(match value {
            Some(value) => Change::Set(key, numbers.known(value)?.ok_or("it has a new group")?),
            None => Change::Remove(key),
        })
    });
    changes.collect()
}

/// Takes rules, unless they take more than so many bytes.
fn prefixes(
    path: &Path,
    source: &Source<'_>,
    numbers: &mut Numbers,
    bytes_max: usize,
) -> Result<Option<Table>, String> {
    let mut loader = LiveLoader::open(path, &Options::default()).map_err(|error| error.to_string())?;
    let (mut rows, mut fits) = (0, loader.memory_bytes() <= bytes_max);
    let read = source.each(&mut |key, value| {
        rows += 1;
        if rows % ROWS_AT_ONCE == 0 {
            fits &= loader.memory_bytes() <= bytes_max;
        }
        if !fits {
            return Err("there is no memory for its names".to_owned());
        }
        let name = NameRef::new(key).map_err(|error| error.to_string())?;
        loader.push(name, numbers.of(value)?).map_err(|error| format!("{name}: {error}"))
    });
    if !fits || loader.memory_bytes() > bytes_max {
        return Ok(None);
    }
    read?;
    let table = loader.finish().map_err(|error| error.to_string())?;
    Ok(Some(Table::Prefixes(Box::new(table))))
}

/// Takes flat names.
fn flat(path: &Path, head: &BuiltHead, source: &Source<'_>, numbers: &mut Numbers) -> Result<Table, String> {
    let key = head.secret.key().map_err(|error| error.to_string())?;
    let names = flat_names(source, &key, head.rows, numbers)?;
    let table = LiveNames::load(path, &names).map_err(|error| error.to_string())?;
    Ok(Table::Flat(Box::new((table, key))))
}

/// Blocks that were rewritten.
struct Rewritten {
    /// What the first block has no more, if it is new.
    secret: Option<Secret>,
    /// What differs, if that is not too long.
    patch: Option<Patch>,
    new_bytes: usize,
}

/// Writes edits into blocks, and the new blocks into the folder. `blocks` has their names then.
fn rewrite(blocks: &mut Blocks, edits: Vec<Edit>, own: &Store) -> Result<Rewritten, String> {
    let io = |error: std::io::Error| format!("{}: {error}", own.folder().display());
    let mut by_block: BTreeMap<usize, Vec<(usize, Vec<u8>)>> = BTreeMap::new();
    for Edit { at, bytes } in edits {
        let (mut number, mut from) = ((at / BLOCK_BYTES as u64) as usize, (at % BLOCK_BYTES as u64) as usize);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (here, behind) = rest.split_at(rest.len().min(BLOCK_BYTES - from));
            by_block.entry(number).or_default().push((from, here.to_vec()));
            (number, from, rest) = (number + 1, 0, behind);
        }
    }
    let mut done = Rewritten { secret: None, patch: Some(Patch::default()), new_bytes: 0 };
    for (number, edits) in by_block {
        let digest = blocks.digests.get_mut(number).ok_or("an edit is behind the file")?;
        let before = own.read(*digest).map_err(io)?.ok_or("a block of its file is gone")?;
        let mut block = before.clone();
        for (from, bytes) in edits {
            block.get_mut(from..from + bytes.len()).ok_or("an edit is behind the file")?.copy_from_slice(&bytes);
        }
        if number == 0 {
            done.secret = Some(Secret::take(&mut block).map_err(|error| error.to_string())?);
        }
        if before == block {
            continue;
        }
        if done.patch.as_mut().is_some_and(|patch| patch.push(number, &before, &block).is_err()) {
            done.patch = None;
        }
        *digest = Digest::of(&block);
        own.write(*digest, &block).map_err(io)?;
        done.new_bytes += block.len();
    }
    Ok(done)
}

#[cfg(test)]
mod tests;
