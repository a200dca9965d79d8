//! Sorts rows that come in any order, in bounded memory.
//!
//! Rows gather in a batch. A full batch is sorted by a thread of its own and written as a *run*: front-coded keys, each with
//! the number of its value and of its line. [`Sorted::each`] merges all runs. Batches that follow each other already make one run, so
//! sorted lines are neither sorted nor merged. Rows that fit in one batch need no file.
//!
//! All runs are in one file without a name, which the system removes with the process, however that ends.
//!
//! # Bounds
//! Two batches are in memory while rows come, and the buffers of all runs while they are merged. Both have the size that
//! [`Sorter::new`] was given. Beside them are the different values, of which there are at most [`VALUES_MAX`].

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use thiserror::Error;

use super::ROW_KEY_BYTES_MAX;
use super::coding::{self, Keys};

/// The least memory that rows are sorted in.
pub const MEMORY_MIN: usize = 1 << 20;
/// Most different values.
pub const VALUES_MAX: usize = 1 << 20;
/// A position in a batch has 32 bits.
const BATCH_BYTES_MAX: usize = u32::MAX as usize - (1 << 20);
/// Least and most bytes of a run that are read at a time.
const READ: (usize, usize) = (16 << 10, 1 << 20);
/// Bytes that are written at a time.
const WRITTEN: usize = 1 << 20;
/// Most bytes of a row in a run: its key and four numbers.
const ROW_BYTES_MAX: usize = ROW_KEY_BYTES_MAX + 40;

/// The reason why rows are not sorted.
#[derive(Debug, Error)]
pub enum SortError {
    /// Two rows have the same key.
    #[error("line {line}: another line has the same prefix")]
    Twice {
        /// The first line whose key is that of an earlier one.
        line: u64,
    },
    /// A key is too long.
    #[error("a name of {0} bytes; a rule has at most {ROW_KEY_BYTES_MAX}")]
    Long(usize),
    /// There are too many different values.
    #[error("more than {VALUES_MAX} different groups")]
    Values,
    /// The folder cannot be used.
    #[error("cannot sort in the folder {folder}: {error}")]
    Folder {
        /// The folder.
        folder: String,
        /// The reason.
        error: io::Error,
    },
}

/// Number of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueId(u32);

/// A row of a batch: where it is, and how its key begins, since most comparisons need no more.
struct Place {
    begin: [u64; 2],
    at: u32,
    value: ValueId,
}

/// Rows in memory: for each the length of its key in two bytes, its key, and the number of its line.
struct Batch {
    bytes: Vec<u8>,
    places: Vec<Place>,
    is_sorted: bool,
}

/// Rows on their way to be sorted.
pub struct Sorter {
    folder: PathBuf,
    memory: usize,
    batch: Batch,
    values: Vec<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, ValueId>,
    rows: u64,
    spilling: Option<Spilling>,
}

/// The thread that writes runs.
struct Spilling {
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    thread: JoinHandle<io::Result<Runs>>,
}

/// Runs in a file: where each begins and ends.
struct Runs {
    file: File,
    runs: Vec<(u64, u64)>,
    /// Of the last run.
    keys: Keys,
    last: Vec<u8>,
}

/// Rows that are sorted, or in runs that are.
pub struct Sorted {
    folder: PathBuf,
    memory: usize,
    values: Vec<Arc<[u8]>>,
    /// Number of rows.
    pub rows: u64,
    kept: Kept,
}

enum Kept {
    Memory(Batch),
    File(Runs),
}

impl Sorter {
    /// Sorts in this folder, in about so much memory, in bytes.
    pub fn new(folder: &Path, memory: usize) -> Self {
        let memory = memory.max(MEMORY_MIN);
        Sorter {
            folder: folder.to_owned(),
            memory,
            batch: Batch::new(),
            values: Vec::new(),
            numbers: HashMap::new(),
            rows: 0,
            spilling: None,
        }
    }

    /// The number of a value, for [`Sorter::push`].
    ///
    /// # Errors
    /// There are too many.
    pub fn value(&mut self, value: &[u8]) -> Result<ValueId, SortError> {
        if let Some(id) = self.numbers.get(value) {
            return Ok(*id);
        }
        if self.values.len() == VALUES_MAX {
            return Err(SortError::Values);
        }
        let (id, value) = (ValueId(self.values.len() as u32), Arc::<[u8]>::from(value));
        self.values.push(value.clone());
        self.numbers.insert(value, id);
        Ok(id)
    }

    /// Adds a row. Rows come in the order of their lines.
    ///
    /// # Errors
    /// The key is too long, or the folder cannot be used.
    pub fn push(&mut self, key: &[u8], value: ValueId, line: u64) -> Result<(), SortError> {
        if key.len() > ROW_KEY_BYTES_MAX {
            return Err(SortError::Long(key.len()));
        }
        self.rows += 1;
        self.batch.push(key, value, line);
        if self.batch.len_bytes() + ROW_BYTES_MAX < (self.memory / 2).min(BATCH_BYTES_MAX) {
            return Ok(());
        }
        self.spill()
    }

    /// Gives the batch to the thread, and goes on with another one.
    fn spill(&mut self) -> Result<(), SortError> {
        let spilling = match &mut self.spilling {
            Some(spilling) => spilling,
            None => {
                let begun = Spilling::begin(&self.folder).map_err(|error| self.error(error))?;
                self.spilling.insert(begun)
            }
        };
        let full = std::mem::replace(&mut self.batch, Batch::new());
        if spilling.full.send(full).is_err() {
            // It has ended, and says why.
            return self.spilled().map(drop);
        }
        // The thread has given the batch before back when it takes this one.
        if let Ok(empty) = spilling.empty.try_recv() {
            self.batch = empty;
        }
        Ok(())
    }

    /// The runs, when all are written.
    fn spilled(&mut self) -> Result<Option<Runs>, SortError> {
        let Some(Spilling { full, empty, thread }) = self.spilling.take() else { return Ok(None) };
        drop((full, empty));
        let runs = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that sorts has ended")));
        runs.map(Some).map_err(|error| self.error(error))
    }

    /// All rows, sorted. If they are in memory, equal keys are noticed at once, and otherwise by [`Sorted::each`].
    ///
    /// # Errors
    /// Two rows have the same key, or the folder cannot be used.
    pub fn finish(mut self) -> Result<Sorted, SortError> {
        if self.spilling.is_some() && !self.batch.places.is_empty() {
            self.spill()?;
        }
        let kept = match self.spilled()? {
            Some(runs) => Kept::File(runs),
            None => {
                self.batch.sort();
                self.batch.check()?;
                Kept::Memory(self.batch)
            }
        };
        Ok(Sorted { folder: self.folder, memory: self.memory, values: self.values, rows: self.rows, kept })
    }

    fn error(&self, error: io::Error) -> SortError {
        SortError::Folder { folder: self.folder.display().to_string(), error }
    }
}

impl Sorted {
    /// Calls `each` with the key and the value of each row, in the order of keys.
    ///
    /// # Errors
    /// Those of `each`. Or two rows have the same key: all before it were passed on. Or the folder cannot be used.
    pub fn each<E: From<SortError>>(self, mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
        let value = |ValueId(id): ValueId| &*self.values[id as usize];
        let Runs { file, runs, .. } = match &self.kept {
            Kept::Memory(batch) => return batch.rows().try_for_each(|row| each(row.key, value(row.value))),
            Kept::File(runs) => runs,
        };
        let error = |error| SortError::Folder { folder: self.folder.display().to_string(), error };
        let buffer = (self.memory / runs.len().max(1)).clamp(READ.0, READ.1);
        let mut fronts = BinaryHeap::new();
        for run in runs {
            let mut front = Box::new(Front::new(*run));
            if front.next(file, buffer).map_err(error)? {
                fronts.push(front);
            }
        }
        let (mut last, mut is_first, mut twice) = (Vec::new(), true, None::<u64>);
        let mut again = 0;
        while let Some(mut front) = fronts.peek_mut() {
            if !is_first && last == front.key {
                again += 1;
                // Of more than two lines, the second one.
                if again == 1 {
                    twice = Some(twice.map_or(front.line, |line| line.min(front.line)));
                }
            } else {
                again = 0;
                if twice.is_none() {
                    each(&front.key, value(front.value))?;
                }
                last.clear();
                last.extend_from_slice(&front.key);
                is_first = false;
            }
            if !front.next(file, buffer).map_err(error)? {
                PeekMut::pop(front);
            }
        }
        twice.map_or(Ok(()), |line| Err(SortError::Twice { line }.into()))
    }
}

/// A row of a batch.
struct Row<'a> {
    key: &'a [u8],
    value: ValueId,
    line: u64,
}

impl Batch {
    fn new() -> Self {
        Batch { bytes: Vec::new(), places: Vec::new(), is_sorted: true }
    }

    fn len_bytes(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    fn push(&mut self, key: &[u8], value: ValueId, line: u64) {
        let begin = begin_of(key);
        self.is_sorted =
            self.is_sorted && self.places.last().is_none_or(|last| (last.begin, self.key(last)) < (begin, key));
        self.places.push(Place { begin, at: self.bytes.len() as u32, value });
        self.bytes.extend((key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        coding::push_number(&mut self.bytes, line);
    }

    fn key(&self, place: &Place) -> &[u8] {
        let bytes = &self.bytes[place.at as usize..];
        let len = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        &bytes[2..2 + len]
    }

    /// Sorts by keys, and rows of one key by their lines.
    fn sort(&mut self) {
        if std::mem::replace(&mut self.is_sorted, true) {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable_by(|one, other| {
            let by_key = || self.key(one).cmp(self.key(other));
            one.begin.cmp(&other.begin).then_with(by_key).then(one.at.cmp(&other.at))
        });
        self.places = places;
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.places.iter().map(|place| {
            let key = self.key(place);
            let mut line = &self.bytes[place.at as usize + 2 + key.len()..];
            Row { key, value: place.value, line: number(&mut line) }
        })
    }

    /// Whether all keys are different, after [`Batch::sort`].
    fn check(&self) -> Result<(), SortError> {
        let (mut last, mut again, mut twice) = (None, 0, None::<u64>);
        for row in self.rows() {
            again = if last == Some(row.key) { again + 1 } else { 0 };
            if again == 1 {
                twice = Some(twice.map_or(row.line, |line| line.min(row.line)));
            }
            last = Some(row.key);
        }
        twice.map_or(Ok(()), |line| Err(SortError::Twice { line }))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.is_sorted = true;
    }
}

impl Spilling {
    fn begin(folder: &Path) -> io::Result<Self> {
        let mut runs =
            Runs { file: tempfile::tempfile_in(folder)?, runs: Vec::new(), keys: Keys::default(), last: Vec::new() };
        let ((full, batches), (emptied, empty)) = (sync_channel::<Batch>(0), channel());
        let work = move || {
            for mut batch in batches {
                batch.sort();
                runs.write(&batch)?;
                batch.clear();
                // Whoever wanted more rows may be done.
                let _ = emptied.send(batch);
            }
            Ok(runs)
        };
        let thread = std::thread::Builder::new().name("sort".to_owned()).spawn(work)?;
        Ok(Spilling { full, empty, thread })
    }
}

impl Runs {
    /// Writes a sorted batch as a run, or behind the last one if it follows.
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let Some(first) = batch.rows().next() else { return Ok(()) };
        let from = self.runs.last().map_or(0, |(_, to)| *to);
        if self.runs.is_empty() || first.key <= &self.last[..] {
            self.keys = Keys::default();
            self.runs.push((from, from));
        }
        let mut out = Vec::with_capacity(WRITTEN + ROW_BYTES_MAX);
        for row in batch.rows() {
            self.keys.push(&mut out, row.key);
            coding::push_number(&mut out, u64::from(row.value.0));
            coding::push_number(&mut out, row.line);
            if out.len() >= WRITTEN {
                self.flush(&mut out)?;
            }
        }
        self.flush(&mut out)?;
        self.last.clear();
        self.last.extend_from_slice(batch.rows().last().map_or(&[], |row| row.key));
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.file.write_all(out)?;
        if let Some((_, to)) = self.runs.last_mut() {
            *to += out.len() as u64;
        }
        out.clear();
        Ok(())
    }
}

/// The next row of a run. The one with the least key is the greatest, as heaps have it.
struct Front {
    begin: [u64; 2],
    key: Vec<u8>,
    value: ValueId,
    line: u64,
    /// What of the run is not read yet.
    rest: (u64, u64),
    buffer: Vec<u8>,
    used: usize,
}

impl Front {
    fn new(run: (u64, u64)) -> Self {
        let (key, buffer) = (Vec::new(), Vec::new());
        Front { begin: [0; 2], key, value: ValueId(0), line: 0, rest: run, buffer, used: 0 }
    }

    /// Goes to the next row. Returns whether there is one.
    fn next(&mut self, file: &File, buffer: usize) -> io::Result<bool> {
        if self.buffer.len() - self.used < ROW_BYTES_MAX && self.rest.0 < self.rest.1 {
            self.buffer.drain(..self.used);
            self.used = 0;
            let (have, more) = (self.buffer.len(), (self.rest.1 - self.rest.0).min(buffer as u64));
            self.buffer.resize(have + more as usize, 0);
            file.read_exact_at(&mut self.buffer[have..], self.rest.0)?;
            self.rest.0 += more;
        }
        let mut bytes = &self.buffer[self.used..];
        if bytes.is_empty() {
            return Ok(false);
        }
        let (shared, len) = (number(&mut bytes) as usize, number(&mut bytes) as usize);
        self.key.truncate(shared);
        self.key.extend_from_slice(&bytes[..len]);
        bytes = &bytes[len..];
        self.value = ValueId(number(&mut bytes) as u32);
        self.line = number(&mut bytes);
        self.begin = begin_of(&self.key);
        self.used = self.buffer.len() - bytes.len();
        Ok(true)
    }
}

impl Ord for Front {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = || other.key.cmp(&self.key);
        other.begin.cmp(&self.begin).then_with(by_key).then_with(|| other.line.cmp(&self.line))
    }
}

impl PartialOrd for Front {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Front {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Front {}

/// The first bytes of a key, with zeros behind. Keys in order have these in order.
fn begin_of(key: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    let (pairs, _) = bytes.as_chunks::<8>();
    [u64::from_be_bytes(pairs[0]), u64::from_be_bytes(pairs[1])]
}

/// A number that [`coding::push_number`] has written in this process.
fn number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::table::Rows;

    /// Keys with their values.
    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// The sorted rows, and the number of runs on disk.
    fn sorted(rows: &[(Vec<u8>, &[u8])], folder: &Path) -> Result<(Pairs, usize), SortError> {
        let mut sorter = Sorter::new(folder, MEMORY_MIN);
        for (line, (key, value)) in rows.iter().enumerate() {
            let value = sorter.value(value)?;
            sorter.push(key, value, line as u64 + 1)?;
        }
        let (sorted, mut out) = (sorter.finish()?, Vec::new());
        assert_eq!(sorted.rows, rows.len() as u64);
        let runs = if let Kept::File(runs) = &sorted.kept { runs.runs.len() } else { 0 };
        sorted.each(|key, value| {
            out.push((key.to_vec(), value.to_vec()));
            Ok::<(), SortError>(())
        })?;
        Ok((out, runs))
    }

    /// Different keys, some of them long, and some that begin alike or with zeros.
    fn keys(count: usize, rng: &mut SmallRng) -> Vec<Vec<u8>> {
        let mut all = Rows::new();
        while all.len() < count {
            let len = if rng.random_range(0..1_000) == 0 { ROW_KEY_BYTES_MAX } else { rng.random_range(0..40) };
            let key: Vec<u8> = (0..len).map(|_| rng.random_range(0..3)).collect();
            all.insert(key.into(), Arc::from([]));
        }
        all.into_keys().map(Vec::from).collect()
    }

    #[test]
    fn rows_come_in_the_order_of_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            let rng = &mut SmallRng::seed_from_u64(seed);
            let count = [0, 1, 50, 3_000, 40_000][seed as usize % 5];
            let mut keys = keys(count, rng);
            let is_shuffled = seed < 10;
            if is_shuffled {
                for at in (1..keys.len()).rev() {
                    keys.swap(at, rng.random_range(0..=at));
                }
            }
            let values: [&[u8]; 3] = [b"west", b"east", b""];
            let rows: Vec<_> = keys.into_iter().map(|key| (key, values[rng.random_range(0..3)])).collect();
            let (out, runs) = sorted(&rows, folder.path()).unwrap();
            let mut expected: Vec<_> = rows.iter().map(|(key, value)| (key.clone(), value.to_vec())).collect();
            expected.sort();
            assert!(out == expected, "seed {seed}");
            match (count, is_shuffled) {
                (40_000, true) => assert!(runs > 2, "seed {seed}: {runs} runs"),
                (40_000, false) => assert_eq!(runs, 1, "sorted rows make one run"),
                (..=50, _) => assert_eq!(runs, 0, "few rows need no file"),
                _ => {}
            }
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing has a name");
        }
    }

    #[test]
    fn the_first_line_with_the_key_of_an_earlier_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for seed in 0..20 {
            let rng = &mut SmallRng::seed_from_u64(seed);
            let count = if seed % 2 == 0 { 100 } else { 30_000 };
            let mut rows: Vec<(Vec<u8>, &[u8])> = keys(count, rng).into_iter().map(|key| (key, &b"x"[..])).collect();
            for _ in 0..rng.random_range(1..5) {
                let (from, to) = (rng.random_range(0..count), rng.random_range(0..count));
                let row = rows[from].clone();
                rows.insert(to, row);
            }
            let mut seen = std::collections::BTreeSet::new();
            let first = rows.iter().position(|(key, _)| !seen.insert(key)).unwrap() as u64 + 1;
            match sorted(&rows, folder.path()) {
                Err(SortError::Twice { line }) => assert_eq!(line, first, "seed {seed}"),
                other => panic!("seed {seed}: {:?}", other.map(|(rows, _)| rows.len())),
            }
        }
    }

    #[test]
    fn what_cannot_be_sorted_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        let rows: Vec<_> =
            keys(30_000, &mut SmallRng::seed_from_u64(1)).into_iter().map(|key| (key, &b"x"[..])).collect();
        let text = sorted(&rows, &gone).err().unwrap().to_string();
        assert!(text.starts_with(&format!("cannot sort in the folder {}: ", gone.display())), "{text}");
        let long = [(vec![0; ROW_KEY_BYTES_MAX + 1], &b"x"[..])];
        assert!(matches!(sorted(&long, folder.path()), Err(SortError::Long(8_801))));
    }
}
