//! The writer's side of a part: the names of each cell, and how they are added and removed.

use std::sync::Arc;

use byname_wire::Digest;
use smallvec::SmallVec;

use super::cell::{self, Header};
use super::changes;
use super::group::Groups;
use super::publisher::Publisher;
use super::query::{Level, Part};
use super::shape::{ALL_RANKS, LEVELS, Place, Shape, place};
use super::solve::Solver;
use crate::memory::Lines;
use crate::prefetch;
use crate::sync::Ordering;

/// A name and its entry.
// Packed: padding would take a sixth of the control half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, packed(4))]
pub(super) struct Named {
    pub(super) name: Digest,
    pub(super) entry: u32,
}

/// A part and the names in it.
pub(super) struct PartWriter {
    pub(super) part: Part,
    /// The hash bits that all its names share, most significant first, behind a leading one.
    pub(super) number: u32,
    groups: Groups,
    len: usize,
    /// The part is rebuilt when it has more names than this.
    limit: usize,
}

/// Number of ranks that a cell bumps for a new name before it is solved again, which takes as long
/// as several further changes. Each bumped rank halves the odds that the name has no dual.
const RANKS_BUMPED_MAX: usize = 2;
/// Number of names of these ranks, except in rare cells.
const BUMPED_INLINE: usize = 8;
/// How many names more than planned a part may have before it is rebuilt, in percent.
const OVERLOAD: usize = 2;

/// The header of a cell that was never solved.
const FRESH: Header = Header { seed: 0, threshold: ALL_RANKS };

impl PartWriter {
    /// Writes a part with `cells` cells in each level, sized for `room` names, to lines from
    /// `first` on.
    ///
    /// # Errors
    /// If the last level does not hold the names that the others bumped.
    pub(super) fn build(
        solver: &mut Solver,
        lines: &Arc<Lines>,
        first: usize,
        cells: [usize; LEVELS],
        number: u32,
        names: &[Named],
        room: usize,
    ) -> Result<Self, LastLevelFull> {
        let shape = solver.shape();
        let mut next = first * shape.cells_per_line();
        let levels = cells.map(|cells| {
            next += cells;
            Level { first: (next - cells) as u32, cells: cells as u32 }
        });
        let groups = Groups::new(cells.iter().sum(), shape);
        let mut writer = PartWriter {
            part: Part { lines: lines.clone(), levels },
            number,
            groups,
            len: 0,
            limit: room + room * OVERLOAD / 100,
        };
        let mut bumped = Vec::new();
        writer.build_level(solver, 0, names, &mut bumped);
        for level in 1..LEVELS {
            let names = std::mem::take(&mut bumped);
            writer.build_level(solver, level, &names, &mut bumped);
        }
        writer.len = writer.groups.total();
        if bumped.is_empty() { Ok(writer) } else { Err(LastLevelFull) }
    }

    fn build_level(&mut self, solver: &mut Solver, level: usize, names: &[Named], bumped: &mut Vec<Named>) {
        let shape = solver.shape();
        let Level { first, cells } = self.part.levels[level];
        let (sorted, ends) = by_cell(names, cells as usize, |named| place(named.name, level, cells as usize).cell);
        let mut start = 0;
        for (cell, end) in (first as usize..).zip(ends) {
            let group = self.group(cell);
            let names = &sorted[std::mem::replace(&mut start, end)..end];
            let words = match solver.attempt(names, FRESH.seed, FRESH.threshold) {
                Some(words) => {
                    self.put(solver, level, group, names);
                    words
                }
                None => {
                    let mut names = names.to_vec();
                    keep_last(&mut names);
                    self.settle(solver, level, group, FRESH, names, bumped)
                }
            };
            let (line, words) = self.line_with(shape, cell, &words);
            // No reader uses it yet.
            for (word, new) in self.part.lines[line].0.iter().zip(words) {
                word.store(new, Ordering::Relaxed);
            }
        }
    }

    /// Puts the names that were just solved for into a group.
    fn put(&mut self, solver: &Solver, level: usize, group: usize, names: &[Named]) {
        let cells = self.part.levels[level].cells as usize;
        let ranked = names.iter().map(|named| (place(named.name, level, cells).rank, named.name));
        self.groups.replace_all(group, ranked, solver.duals());
    }

    /// Solves a cell with this header for these distinct names. Bumps those of the highest ranks
    /// until the cell has a solution. Thresholds never rise, because names above them are
    /// elsewhere.
    fn settle(
        &mut self,
        solver: &mut Solver,
        level: usize,
        group: usize,
        header: Header,
        mut names: Vec<Named>,
        bumped: &mut Vec<Named>,
    ) -> [u64; 8] {
        let cells = self.part.levels[level].cells as usize;
        let rank = |named: &Named| place(named.name, level, cells).rank;
        let mut ranks = [0usize; ALL_RANKS as usize];
        names.iter().for_each(|named| ranks[usize::from(rank(named))] += 1);
        let mut most = solver.shape().plane_bits;
        let words = loop {
            // The first rank that does not fit completely.
            let mut fitting = 0;
            let full = ranks.iter().position(|names| {
                fitting += names;
                fitting > most
            });
            let threshold = full.map_or(header.threshold, |rank| rank as u8);
            for named in names.extract_if(.., |named| rank(named) >= threshold) {
                if level + 1 < LEVELS {
                    // Prefetch it while this cell is solved.
                    self.prefetch(solver.shape(), level + 1, named.name);
                }
                bumped.push(named);
            }
            match solver.solve(&names, header.seed, threshold) {
                Some(words) => break words,
                None => most = names.len() - 1,
            }
        };
        self.put(solver, level, group, &names);
        words
    }

    /// The cell that holds a name, or would hold it. `None` if the last level does not take it.
    fn find(&self, shape: Shape, from: usize, name: Digest) -> Option<Found> {
        (from..LEVELS).find_map(|level| {
            let Level { first, cells } = self.part.levels[level];
            let Place { cell, rank } = place(name, level, cells as usize);
            let cell = first as usize + cell;
            let (line, word) = shape.line_of(cell);
            let last = &self.part.lines[line].0[word + shape.cell_words - 1];
            let header = Header::of(last.load(Ordering::Relaxed));
            (rank < header.threshold).then(|| Found { level, cell, group: self.group(cell), rank, header })
        })
    }

    fn group(&self, cell: usize) -> usize {
        cell - self.part.levels[0].first as usize
    }

    /// Adds a name or changes its entry. Returns the entry that it had. Bumped names are at their
    /// new place before they leave the old one, so no reader misses them.
    ///
    /// # Errors
    /// If the last level does not take a name. Nothing has changed then, and the part must be
    /// rebuilt with this name. A name that is already there causes no error.
    pub(super) fn set(
        &mut self,
        solver: &mut Solver,
        publisher: &mut Publisher,
        named: Named,
    ) -> Result<Option<u32>, LastLevelFull> {
        let before = self.set_below(solver, publisher, 0, named)?;
        self.len += usize::from(before.is_none());
        Ok(before)
    }

    fn set_below(
        &mut self,
        solver: &mut Solver,
        publisher: &mut Publisher,
        level: usize,
        named: Named,
    ) -> Result<Option<u32>, LastLevelFull> {
        let shape = solver.shape();
        let found = self.find(shape, level, named.name).ok_or(LastLevelFull)?;
        let Found { cell, group, rank, .. } = found;
        let known = self.groups.position(group, rank, named.name);
        let Some(at) = known.or_else(|| self.add(solver, &found, named.name)) else {
            self.crowd_out(solver, publisher, &found, named)?;
            return Ok(None);
        };
        let mut words = self.cell_words(shape, cell);
        let before = self.give_entry(solver, &mut words, &found, at, named);
        self.write(publisher, shape, cell, &words);
        Ok(known.map(|_| before))
    }

    /// Gives the name at a place of a group its entry, in the words of its cell. Returns the entry
    /// that it had.
    fn give_entry(&self, solver: &Solver, words: &mut [u64; 8], found: &Found, at: usize, named: Named) -> u32 {
        let shape = solver.shape();
        let before = solver.value(words, named.name, found.header.seed);
        let dual = self.groups.dual(found.group, at);
        for bit in (0..shape.entry_bits).filter(|bit| (before ^ named.entry) >> bit & 1 == 1) {
            cell::flip(shape, words, bit, dual);
        }
        before
    }

    /// Takes a name into its cell's group with a dual of its own. `None` if there is no room, or if
    /// the cell would need another seed.
    fn add(&mut self, solver: &Solver, found: &Found, name: Digest) -> Option<usize> {
        let Found { group, rank, header, .. } = *found;
        let names = self.groups.count(group);
        let fits = !self.groups.is_full(group) && solver.extend(self.groups.duals_mut(group), names, name, header.seed);
        fits.then(|| self.groups.push(group, rank, name))
    }

    /// Adds a name to a cell that must bump others for it, be solved again, or both.
    fn crowd_out(
        &mut self,
        solver: &mut Solver,
        publisher: &mut Publisher,
        found: &Found,
        named: Named,
    ) -> Result<(), LastLevelFull> {
        let Found { level, cell, group, header, .. } = *found;
        let mut bumped = Vec::new();
        let words = self.bump_highest(solver, found, named, &mut bumped).unwrap_or_else(|| {
            let mut names = self.named(solver, cell);
            names.push(named);
            // This seed has failed.
            let header = Header { seed: header.seed.wrapping_add(1), ..header };
            self.settle(solver, level, group, header, names, &mut bumped)
        });
        for i in 0..bumped.len() {
            if self.set_below(solver, publisher, level + 1, bumped[i]).is_err() {
                for &Named { name, .. } in &bumped[..i] {
                    self.forget(solver.shape(), level + 1, name);
                }
                // Readers still have the old cell, so its group stays as it was.
                let added = named.name;
                let mut others = self.named(solver, cell);
                others.extend(bumped);
                others.retain(|&Named { name, .. }| name != added);
                let is_solved = solver.attempt(&others, header.seed, header.threshold).is_some();
                assert!(is_solved, "it was, under the same seed");
                self.put(solver, level, group, &others);
                return Err(LastLevelFull);
            }
        }
        self.write(publisher, solver.shape(), cell, &words);
        Ok(())
    }

    /// Adds a name to a cell without a free dual, and bumps the names of its highest rank; half of
    /// the time that frees a dual. If not, it bumps the next rank too, before the cell is solved
    /// again. `None` if no dual became free; then nothing has changed.
    fn bump_highest(
        &mut self,
        solver: &Solver,
        found: &Found,
        named: Named,
        bumped: &mut Vec<Named>,
    ) -> Option<[u64; 8]> {
        let shape = solver.shape();
        let Found { level, cell, group, rank, header } = *found;
        let mut words = self.cell_words(shape, cell);
        let mut ranks = SmallVec::<[u8; BUMPED_INLINE]>::new();
        for _ in 0..RANKS_BUMPED_MAX {
            let threshold = self.groups.highest_rank(group).max(rank);
            while let Some(at) = self.groups.of_rank(group, threshold).last() {
                let name = self.groups.name(group, at);
                self.prefetch_found(shape, level + 1, name);
                bumped.push(Named { name, entry: solver.value(&words, name, header.seed) });
                ranks.push(threshold);
                self.groups.remove(group, at);
            }
            if rank == threshold {
                bumped.push(named);
            } else if let Some(at) = self.add(solver, found, named.name) {
                self.give_entry(solver, &mut words, found, at, named);
            } else {
                continue;
            }
            Header { threshold, ..header }.put(shape, &mut words);
            return Some(words);
        }
        // Their duals are where they were, behind those of the others.
        for (Named { name, .. }, rank) in bumped.drain(..).zip(ranks).rev() {
            self.groups.push(group, rank, name);
        }
        None
    }

    /// Forgets a name. Readers notice nothing; the name's answer is arbitrary from now on.
    pub(super) fn remove(&mut self, shape: Shape, name: Digest) {
        self.len -= usize::from(self.forget(shape, 0, name));
    }

    /// Takes a name out of its cell's group. Returns whether it was there.
    fn forget(&mut self, shape: Shape, from: usize, name: Digest) -> bool {
        let Some(Found { group, rank, .. }) = self.find(shape, from, name) else { return false };
        let at = self.groups.position(group, rank, name);
        at.inspect(|&at| self.groups.remove(group, at)).is_some()
    }

    pub(super) fn contains(&self, shape: Shape, name: Digest) -> bool {
        self.find(shape, 0, name).is_some_and(|found| self.groups.position(found.group, found.rank, name).is_some())
    }

    /// Prefetches what a change of this name in this level reads first.
    pub(super) fn prefetch(&self, shape: Shape, level: usize, name: Digest) {
        let Level { first, cells } = self.part.levels[level];
        let cell = first as usize + place(name, level, cells as usize).cell;
        prefetch::read(&self.part.lines[shape.line_of(cell).0]);
        self.groups.prefetch(self.group(cell));
    }

    /// Prefetches the memory that a change of this name reads next, from this level on. The first reads have arrived.
    pub(super) fn prefetch_found(&self, shape: Shape, from: usize, name: Digest) {
        if let Some(Found { group, rank, .. }) = self.find(shape, from, name) {
            self.groups.prefetch_name(group, rank);
        }
    }

    /// If this name is new and its cell is full, prefetches what the names that it bumps read first
    /// in the next level.
    pub(super) fn prefetch_bumped(&self, shape: Shape, name: Digest) {
        let Some(Found { level, group, rank, .. }) = self.find(shape, 0, name) else { return };
        if level + 1 < LEVELS && self.groups.is_full(group) && self.groups.position(group, rank, name).is_none() {
            let highest = self.groups.of_rank(group, self.groups.highest_rank(group));
            highest.for_each(|at| self.prefetch(shape, level + 1, self.groups.name(group, at)));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of cells of the first level.
    pub(super) fn cells(&self) -> usize {
        self.part.levels[0].cells as usize
    }

    /// Whether it has more names than it was sized for, or very few.
    pub(super) fn is_due(&self) -> bool {
        self.len > self.limit || (self.len < self.limit / 4 && self.limit > LIMIT_MIN)
    }

    /// Notes that the part could not be rebuilt, so that the table does not try again soon.
    pub(super) fn put_off(&mut self) {
        self.limit = 2 * self.len;
    }

    /// Number of hash bits that all its names share.
    pub(super) fn bits(&self) -> u32 {
        self.number.ilog2()
    }

    /// All names, with the entries that readers get.
    pub(super) fn names(&self, solver: &Solver) -> impl Iterator<Item = Named> {
        let cells = self.part.levels.iter().flat_map(|level| level.first..level.first + level.cells);
        cells.flat_map(|cell| self.named(solver, cell as usize))
    }

    /// The names of a cell, with their entries.
    fn named(&self, solver: &Solver, cell: usize) -> Vec<Named> {
        let words = self.cell_words(solver.shape(), cell);
        let seed = Header::of(words[solver.shape().cell_words - 1]).seed;
        let names = self.groups.names(self.group(cell));
        let mut names: Vec<_> = names.map(|name| Named { name, entry: 0 }).collect();
        solver.read(&words, &mut names, seed);
        names
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.groups.memory_bytes()
    }

    /// Uses a copy of the part's lines at another place.
    pub(super) fn move_to(&mut self, shape: Shape, lines: &Arc<Lines>, first: usize) {
        let by = first as i64 - self.part.lines_used(shape).start as i64;
        let by = by * shape.cells_per_line() as i64;
        for level in &mut self.part.levels {
            level.first = (i64::from(level.first) + by) as u32;
        }
        self.part.lines = lines.clone();
    }

    /// The words of a cell, from the first.
    fn cell_words(&self, shape: Shape, cell: usize) -> [u64; 8] {
        let (line, first) = shape.line_of(cell);
        let mut words = changes::words(&self.part.lines[line]);
        words.rotate_left(first);
        words[shape.cell_words..].fill(0);
        words
    }

    /// The line of a cell with the cell's words replaced.
    fn line_with(&self, shape: Shape, cell: usize, words: &[u64; 8]) -> (usize, [u64; 8]) {
        let (line, first) = shape.line_of(cell);
        let mut all = changes::words(&self.part.lines[line]);
        all[first..first + shape.cell_words].copy_from_slice(&words[..shape.cell_words]);
        (line, all)
    }

    /// Writes a cell that readers read.
    fn write(&self, publisher: &mut Publisher, shape: Shape, cell: usize, words: &[u64; 8]) {
        let (line, words) = self.line_with(shape, cell, words);
        publisher.write(self, shape, line, &words);
    }
}

/// The place of a name, present or not.
struct Found {
    level: usize,
    /// The cell's number among all cells of the part's lines.
    cell: usize,
    /// The group's number among all groups.
    group: usize,
    rank: u8,
    header: Header,
}

/// Sorts names by cell, in their order within each, and returns where the names of each cell end.
fn by_cell(names: &[Named], cells: usize, cell_of: impl Fn(&Named) -> usize) -> (Vec<Named>, Vec<usize>) {
    let mut ends = vec![0; cells + 1];
    names.iter().for_each(|named| ends[cell_of(named) + 1] += 1);
    (1..ends.len()).for_each(|cell| ends[cell] += ends[cell - 1]);
    let mut sorted = vec![Named::default(); names.len()];
    for named in names {
        let next = &mut ends[cell_of(named)];
        sorted[*next] = *named;
        *next += 1;
    }
    ends.pop();
    (sorted, ends)
}

/// Keeps the last of names that come twice.
fn keep_last(names: &mut Vec<Named>) {
    names.reverse();
    // The sort is stable, so equal names become neighbours, the later one behind.
    names.sort_by_key(|named| named.name);
    names.dedup_by_key(|named| named.name);
}

/// Parts sized for fewer names stay as large as they are.
const LIMIT_MIN: usize = 256;

/// A part must be rebuilt with larger levels.
#[derive(Debug)]
pub(super) struct LastLevelFull;
