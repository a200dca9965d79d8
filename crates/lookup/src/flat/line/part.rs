//! A part from the writer's side: the names of each cell, and how they come and go.

use std::sync::Arc;

use byname_wire::Digest;

use super::cell::Header;
use super::changes;
use super::publisher::Publisher;
use super::query::{Level, Part};
use super::shape::{ALL_RANKS, LEVELS, Place, Shape, place};
use super::solve::Solver;
use crate::memory::Lines;
use crate::prefetch;
use crate::sync::Ordering;

/// A name and its entry.
// Packed: a sixth of the control half would be gaps.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub(super) struct Named {
    pub(super) name: Digest,
    pub(super) entry: u32,
}

/// The names of all cells of a part, each cell's together.
///
/// A cell never holds more names than its planes have bits, so that a fixed room for each wastes no
/// more than the cells themselves do.
pub(super) struct Groups {
    room: usize,
    names: Box<[Named]>,
    counts: Box<[u8]>,
}

impl Groups {
    fn new(cells: usize, room: usize) -> Self {
        Groups { room, names: vec![Named::default(); cells * room].into(), counts: vec![0; cells].into() }
    }

    fn of(&self, cell: usize) -> &[Named] {
        &self.names[cell * self.room..][..usize::from(self.counts[cell])]
    }

    /// False: there is no room.
    fn push(&mut self, cell: usize, named: Named) -> bool {
        let count = usize::from(self.counts[cell]);
        if count == self.room {
            return false;
        }
        self.names[cell * self.room + count] = named;
        self.counts[cell] += 1;
        true
    }

    fn position(&self, cell: usize, name: Digest) -> Option<usize> {
        self.of(cell).iter().position(|&Named { name: other, .. }| other == name)
    }

    /// The entry before.
    fn replace(&mut self, cell: usize, at: usize, named: Named) -> u32 {
        std::mem::replace(&mut self.names[cell * self.room + at], named).entry
    }

    fn remove(&mut self, cell: usize, at: usize) {
        self.counts[cell] -= 1;
        let (first, last) = (cell * self.room, usize::from(self.counts[cell]));
        self.names[first + at] = self.names[first + last];
    }

    /// Puts these names, which there is room for, in place of all.
    fn replace_all(&mut self, cell: usize, names: &[Named]) {
        self.names[cell * self.room..][..names.len()].copy_from_slice(names);
        self.counts[cell] = names.len() as u8;
    }

    fn iter(&self) -> impl Iterator<Item = Named> {
        (0..self.counts.len()).flat_map(|cell| self.of(cell).iter().copied())
    }

    /// Asks for the names of a cell.
    fn prefetch(&self, cell: usize) {
        let room = &self.names[cell * self.room..][..self.room];
        room.iter().step_by(64 / size_of::<Named>()).for_each(prefetch::read);
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.names) + size_of_val(&*self.counts)
    }
}

/// A part and the names in it.
pub(super) struct PartWriter {
    pub(super) part: Part,
    /// The bits of the hash that all its names share, uppermost first, behind a one.
    pub(super) number: u32,
    groups: Groups,
    len: usize,
    /// With more names it is made anew.
    limit: usize,
}

/// Names above what a part was made for, in percent, before it is made anew.
const OVERLOAD: usize = 2;

/// Of a cell that was never solved.
const FRESH: Header = Header { seed: 0, threshold: ALL_RANKS };

impl PartWriter {
    /// Writes a part that has `cells` cells in each level, made for `room` names, to lines from `first` on.
    ///
    /// # Errors
    /// If the last level does not hold what the others bumped.
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
        let groups = Groups::new(cells.iter().sum(), shape.plane_bits);
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
        writer.len = writer.groups.counts.iter().map(|&count| usize::from(count)).sum();
        if bumped.is_empty() { Ok(writer) } else { Err(LastLevelFull) }
    }

    fn build_level(&mut self, solver: &mut Solver, level: usize, names: &[Named], bumped: &mut Vec<Named>) {
        let shape = solver.shape();
        let Level { first, cells } = self.part.levels[level];
        let mut overflow = Vec::new();
        for named in names {
            let Place { cell, .. } = place(named.name, level, cells as usize);
            let group = (first - self.part.levels[0].first) as usize + cell;
            if !self.groups.push(group, *named) {
                overflow.push((group, *named));
            }
        }
        // Stable: of a name that comes twice the later one stays.
        overflow.sort_by_key(|&(group, _)| group);
        let mut overflow = overflow.as_slice();
        for cell in first as usize..(first + cells) as usize {
            let group = cell - self.part.levels[0].first as usize;
            let more = overflow.iter().take_while(|&&(of, _)| of == group).count();
            let (extra, rest) = overflow.split_at(more);
            overflow = rest;
            let names = self.groups.of(group);
            let solved = if extra.is_empty() { solver.attempt(names, FRESH.seed, FRESH.threshold) } else { None };
            let words = solved.unwrap_or_else(|| {
                let mut names = self.groups.of(group).to_vec();
                names.extend(extra.iter().map(|&(_, named)| named));
                keep_last(&mut names);
                self.settle(solver, level, group, FRESH, names, bumped)
            });
            let (line, words) = self.line_with(shape, cell, &words);
            // Nobody reads it yet.
            for (word, new) in self.part.lines[line].0.iter().zip(words) {
                word.store(new, Ordering::Relaxed);
            }
        }
    }

    /// Solves a cell that has had this header for these names, no two alike, bumping those of the
    /// highest ranks until that works. Thresholds never rise: names above are elsewhere.
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
            // The first rank of which not all names fit.
            let mut fitting = 0;
            let full = ranks.iter().position(|names| {
                fitting += names;
                fitting > most
            });
            let threshold = full.map_or(header.threshold, |rank| rank as u8);
            for named in names.extract_if(.., |named| rank(named) >= threshold) {
                if level + 1 < LEVELS {
                    // On its way while this cell is solved.
                    self.prefetch(solver.shape(), level + 1, named.name);
                }
                bumped.push(named);
            }
            match solver.solve(&names, header.seed, threshold) {
                Some(words) => break words,
                None => most = names.len() - 1,
            }
        };
        self.groups.replace_all(group, &names);
        words
    }

    /// The cell that holds, or would hold, a name: its level, its number among all cells of the
    /// part's lines, and its header. `None`: the last level does not take it.
    fn find(&self, shape: Shape, from: usize, name: Digest) -> Option<(usize, usize, Header)> {
        (from..LEVELS).find_map(|level| {
            let Level { first, cells } = self.part.levels[level];
            let Place { cell, rank } = place(name, level, cells as usize);
            let cell = first as usize + cell;
            let (line, word) = shape.line_of(cell);
            let last = &self.part.lines[line].0[word + shape.cell_words - 1];
            let header = Header::of(last.load(Ordering::Relaxed));
            (rank < header.threshold).then_some((level, cell, header))
        })
    }

    fn group(&self, cell: usize) -> usize {
        cell - self.part.levels[0].first as usize
    }

    /// Adds a name, or gives it another entry; the entry that it had. Names whose cell bumps them are
    /// at their new place before they leave the old one, so that no reader misses them.
    ///
    /// # Errors
    /// If the last level does not take a name: then nothing has changed, and the part must be made
    /// anew with this one. A name that is there already causes none.
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
        let (level, cell, header) = self.find(shape, level, named.name).ok_or(LastLevelFull)?;
        let group = self.group(cell);
        let at = self.groups.position(group, named.name);
        let before = at.map(|at| self.groups.replace(group, at, named));
        let fits = at.is_some() || self.groups.push(group, named);
        let names = self.groups.of(group);
        let solved = fits.then(|| solver.solve(names, header.seed, header.threshold)).flatten();
        let words = match solved {
            Some(words) => words,
            None => {
                let others = names[..names.len() - usize::from(fits)].to_vec();
                let names = others.iter().copied().chain([named]).collect();
                let mut bumped = Vec::new();
                let words = self.settle(solver, level, group, header, names, &mut bumped);
                for (i, named) in bumped.iter().enumerate() {
                    if self.set_below(solver, publisher, level + 1, *named).is_err() {
                        for &Named { name, .. } in &bumped[..i] {
                            self.forget(shape, level + 1, name);
                        }
                        self.groups.replace_all(group, &others);
                        return Err(LastLevelFull);
                    }
                }
                words
            }
        };
        let (line, words) = self.line_with(shape, cell, &words);
        publisher.write(self, shape, line, &words);
        Ok(before)
    }

    /// Forgets a name. Readers see nothing of it: its answer is arbitrary from now on.
    pub(super) fn remove(&mut self, shape: Shape, name: Digest) {
        self.len -= usize::from(self.forget(shape, 0, name));
    }

    /// Takes a name out of its cell's group; whether it was there.
    fn forget(&mut self, shape: Shape, from: usize, name: Digest) -> bool {
        let Some((_, cell, _)) = self.find(shape, from, name) else { return false };
        let group = self.group(cell);
        let at = self.groups.position(group, name);
        at.inspect(|&at| self.groups.remove(group, at)).is_some()
    }

    pub(super) fn contains(&self, shape: Shape, name: Digest) -> bool {
        let cell = self.find(shape, 0, name).map(|(_, cell, _)| self.group(cell));
        cell.is_some_and(|group| self.groups.position(group, name).is_some())
    }

    /// Asks for what a change of this name in this level reads.
    pub(super) fn prefetch(&self, shape: Shape, level: usize, name: Digest) {
        let Level { first, cells } = self.part.levels[level];
        let cell = first as usize + place(name, level, cells as usize).cell;
        prefetch::read(&self.part.lines[shape.line_of(cell).0]);
        self.groups.prefetch(self.group(cell));
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Cells of the first level.
    pub(super) fn cells(&self) -> usize {
        self.part.levels[0].cells as usize
    }

    /// It has more names than it was made for, or few of them.
    pub(super) fn is_due(&self) -> bool {
        self.len > self.limit || (self.len < self.limit / 4 && self.limit > LIMIT_MIN)
    }

    /// It could not be made anew: it is not to be tried again soon.
    pub(super) fn put_off(&mut self) {
        self.limit = 2 * self.len;
    }

    /// Bits of the hash that all its names share.
    pub(super) fn bits(&self) -> u32 {
        self.number.ilog2()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = Named> {
        self.groups.iter()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.groups.memory_bytes()
    }

    /// Has the part's lines elsewhere, where they were copied to.
    pub(super) fn move_to(&mut self, shape: Shape, lines: &Arc<Lines>, first: usize) {
        let by = first as i64 - self.part.lines_used(shape).start as i64;
        let by = by * shape.cells_per_line() as i64;
        for level in &mut self.part.levels {
            level.first = (i64::from(level.first) + by) as u32;
        }
        self.part.lines = lines.clone();
    }

    /// The line of a cell with the cell's words replaced.
    fn line_with(&self, shape: Shape, cell: usize, words: &[u64; 8]) -> (usize, [u64; 8]) {
        let (line, first) = shape.line_of(cell);
        let mut all = changes::words(&self.part.lines[line]);
        all[first..first + shape.cell_words].copy_from_slice(&words[..shape.cell_words]);
        (line, all)
    }
}

/// Of names that come twice the last stays.
fn keep_last(names: &mut Vec<Named>) {
    names.reverse();
    // Stable: equal names are neighbours then, the later one first.
    names.sort_by_key(|named| named.name);
    names.dedup_by_key(|named| named.name);
}

/// Parts made for fewer names stay as large as they are.
const LIMIT_MIN: usize = 256;

/// A part must be made anew, with larger levels.
#[derive(Debug)]
pub(super) struct LastLevelFull;
