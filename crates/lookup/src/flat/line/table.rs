//! All parts of a table: how they are built, split, rebuilt and moved together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use byname_wire::Digest;

use super::Options;
use super::changes::{self, Changes};
use super::part::{LastLevelFull, Named, PartWriter};
use super::publisher::Publisher;
use super::query::{Part, Query};
use super::shape::{LEVELS, PART_BITS_MAX, Shape, part_of};
use super::solve::Solver;
use crate::entry::EntryId;
use crate::instructions::Instructions;
use crate::memory::{Lines, Pages};
use crate::sync::Ordering;
use crate::update::{BuildError, Change};

/// Maximum number of names of a part that is not split. Rebuilding it takes a few milliseconds.
pub(super) const PART_NAMES_MAX: usize = 1 << 17;
/// Minimum and maximum number of names for each 100 unknowns of a cell. With fewer, the table is
/// larger than a plain map is worth; with more, most names are bumped again and again.
const FILL_PERCENT_MIN: u32 = 50;
const FILL_PERCENT_MAX: u32 = 150;
/// Room of the smallest part, in names.
const ROOM_MIN: usize = 48;
/// Extra room that an outgrown part gets when it is rebuilt, in percent.
const GROWTH: usize = 12;
/// Batches of more changes than this are first sorted by part.
const BATCH_MANY: usize = 64;
/// A part with more changes than this for each cell is rebuilt, which costs as much as two changes
/// for each cell.
const MANY_PER_CELL: usize = 2;
/// Prefetch distances in changes: for what a change reads first, for what it reads next, and for
/// what the names that it bumps read first.
const AHEAD: [usize; 3] = [12, 6, 3];
/// Share of lines outside the common ones, in percent, above which parts are moved together.
const APART: usize = 12;

/// How often the lower levels are widened by a quarter and all their places drawn again, before the
/// digests are refused as not keyed: up to seven times the expected size.
const WIDENINGS: u32 = 8;

/// Builds parts.
pub(super) struct Maker {
    pub(super) solver: Solver,
    pub(super) shape: Shape,
    fill: f64,
    pages: Pages,
    part_names: usize,
    /// Threads of a bulk load.
    threads: usize,
    instructions: Instructions,
}

impl Maker {
    pub(super) fn new(options: &Options) -> Self {
        let shape = Shape::new(options.entry_bits);
        let instructions = options.instructions();
        let fill = f64::from(options.fill_percent.clamp(FILL_PERCENT_MIN, FILL_PERCENT_MAX)) / 100.0;
        let part_names = options.part_names.clamp(1, PART_NAMES_MAX);
        let (solver, pages, threads) = (Solver::new(shape, instructions), options.pages, options.threads);
        Maker { solver, shape, fill, pages, part_names, threads, instructions }
    }

    /// Another one, for another thread.
    fn another(&self) -> Self {
        Maker { solver: Solver::new(self.shape, self.instructions), ..*self }
    }

    /// The cells of a part for `names` names, and the number of lines that they take.
    fn plan(&self, names: usize, spare: f64) -> ([usize; LEVELS], usize) {
        let cells = self.shape.cells(names, self.fill, spare);
        (cells, cells.iter().sum::<usize>() / self.shape.cells_per_line())
    }

    /// Builds the part with this number from these names, or several parts if it would be too
    /// large.
    pub(super) fn make(
        &mut self,
        number: u32,
        names: Vec<Named>,
        growth: usize,
        made: &mut Vec<PartWriter>,
    ) -> Result<(), BuildError> {
        let bits = number.ilog2();
        if names.len() <= self.part_names || bits == PART_BITS_MAX {
            made.push(self.build_apart(number, &names, names.len() + names.len() * growth / 100)?);
            return Ok(());
        }
        let high = |named: &Named| part_of(named.name, bits + 1) & 1 == 1;
        let (high, low) = names.into_iter().partition(high);
        self.make(2 * number, low, growth, made)?;
        self.make(2 * number + 1, high, growth, made)
    }

    /// A part on lines of its own, sized for `room` names.
    fn build_apart(&mut self, number: u32, names: &[Named], room: usize) -> Result<PartWriter, BuildError> {
        let room = room.max(ROOM_MIN);
        for widening in 0..WIDENINGS {
            let (cells, count) = self.plan(room, 1.25f64.powi(widening as i32));
            let lines = Arc::new(Lines::zeroed(count, Pages::Small)?);
            if let Ok(part) = PartWriter::build(&mut self.solver, &lines, 0, cells, number, names, room) {
                return Ok(part);
            }
        }
        Err(BuildError::Skewed { names: names.len() })
    }

    /// Takes parts in the order of the hash bits that their names share, with the number of those
    /// bits.
    pub(super) fn query<'a>(
        &self,
        changes: &Arc<Changes>,
        parts: impl Iterator<Item = (u32, &'a Part)> + Clone,
    ) -> Query {
        let part_bits = parts.clone().map(|(bits, _)| bits).max().unwrap_or(0);
        let copies = parts.flat_map(|(bits, part)| std::iter::repeat_n(part, 1 << (part_bits - bits)));
        Query {
            shape: self.shape,
            changes: changes.clone(),
            parts: copies.cloned().collect(),
            part_bits,
            instructions: self.instructions,
        }
    }
}

/// Builds all parts from a source of names that can be read again and again. It holds about
/// `names_at_once` names at a time and passes each finished part to `made`.
///
/// If a name comes twice, the last one counts.
pub(super) fn build_all<I: Iterator<Item = (Digest, EntryId)>>(
    maker: &mut Maker,
    source: impl Fn() -> I,
    names_at_once: usize,
    mut made: impl FnMut(PartWriter),
) -> Result<(), BuildError> {
    let total = source().count();
    let part_bits = total.div_ceil(maker.part_names).next_power_of_two().ilog2().min(PART_BITS_MAX);
    let mut counts = vec![0usize; 1 << part_bits];
    source().for_each(|(name, _)| counts[part_of(name, part_bits)] += 1);
    let plans: Vec<_> = counts.iter().map(|&names| maker.plan(names.max(ROOM_MIN), 1.0)).collect();
    let lines = Lines::zeroed(plans.iter().map(|(_, lines)| lines).sum(), maker.pages)?;
    lines.prefault();
    let lines = Arc::new(lines);
    let (mut first_part, mut first_line) = (0, 0);
    while first_part < counts.len() {
        let mut held = 0;
        let fitting = counts[first_part..].iter().take_while(|&&names| {
            held += names;
            held <= names_at_once
        });
        let share = first_part..first_part + fitting.count().max(1);
        let mut names: Vec<_> = counts[share.clone()].iter().map(|&names| Vec::with_capacity(names)).collect();
        for (name, entry) in source() {
            let part = part_of(name, part_bits);
            if share.contains(&part) {
                names[part - first_part].push(Named { name, entry: entry.0 });
            }
        }
        let to_build = share.clone().zip(names).map(|(part, names)| {
            let (cells, count) = plans[part];
            first_line += count;
            ToBuild { number: 1 << part_bits | part as u32, cells, first_line: first_line - count, names }
        });
        build_share(maker, &lines, to_build.collect(), &mut made)?;
        first_part = share.end;
    }
    Ok(())
}

/// A part that is not built yet.
struct ToBuild {
    number: u32,
    cells: [usize; LEVELS],
    first_line: usize,
    names: Vec<Named>,
}

impl ToBuild {
    fn build(self, maker: &mut Maker, lines: &Arc<Lines>) -> Result<PartWriter, BuildError> {
        let ToBuild { number, cells, first_line, names } = self;
        let room = names.len().max(ROOM_MIN);
        let built = PartWriter::build(&mut maker.solver, lines, first_line, cells, number, &names, room);
        built.or_else(|LastLevelFull| maker.build_apart(number, &names, room))
    }
}

/// Builds parts on as many threads as the options say, and passes them to `made` in their order.
fn build_share(
    maker: &mut Maker,
    lines: &Arc<Lines>,
    parts: Vec<ToBuild>,
    made: &mut impl FnMut(PartWriter),
) -> Result<(), BuildError> {
    let threads = maker.threads.min(parts.len());
    if threads <= 1 {
        for part in parts {
            made(part.build(maker, lines)?);
        }
        return Ok(());
    }
    let parts = Mutex::new(parts.into_iter().enumerate());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (mut maker, sender, parts) = (maker.another(), sender.clone(), &parts);
            scope.spawn(move || {
                let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
                // Nobody receives after an error.
                while let Some((at, part)) = next()
                    && sender.send((at, part.build(&mut maker, lines))).is_ok()
                {}
            });
        }
        drop(sender);
        let (mut built, mut next) = (BTreeMap::new(), 0);
        for (at, part) in receiver {
            built.insert(at, part?);
            while let Some(part) = built.remove(&next) {
                made(part);
                next += 1;
            }
        }
        Ok(())
    })
}

/// The parts of a table that changes.
pub(super) struct Table {
    pub(super) maker: Maker,
    pub(super) publisher: Publisher,
    /// In the order of the bits that they share.
    pub(super) parts: Vec<PartWriter>,
    /// The part for each number that [`part_of`] gives; `1 << part_bits` entries.
    directory: Vec<u32>,
    /// The lines that most parts share, on large pages if there are any.
    common: Arc<Lines>,
    names: usize,
    query: Arc<Query>,
    /// Readers need a new query half.
    replaced: bool,
}

impl Table {
    /// Takes parts in the order of the bits that they share.
    pub(super) fn new(maker: Maker, parts: Vec<PartWriter>) -> Self {
        let publisher = Publisher::new();
        let query = Arc::new(maker.query(&publisher.changes, seen(&parts)));
        let lines = parts.iter().map(|part| &part.part.lines).max_by_key(|lines| lines.len());
        let common = lines.expect("there is a part").clone();
        let names = parts.iter().map(PartWriter::len).sum();
        let mut table = Table { maker, publisher, parts, directory: Vec::new(), common, names, query, replaced: false };
        table.index();
        table
    }

    pub(super) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    pub(super) fn len(&self) -> usize {
        self.names
    }

    /// Number of lines of all parts.
    pub(super) fn lines(&self) -> usize {
        self.parts.iter().map(|part| part.part.lines_used(self.maker.shape).len()).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let parts = self.parts.iter().map(PartWriter::memory_bytes);
        size_of::<Self>() + size_of_val(&*self.directory) + parts.sum::<usize>()
    }

    pub(super) fn contains(&self, name: Digest) -> bool {
        self.parts[self.part(name)].contains(self.maker.shape, name)
    }

    fn part(&self, name: Digest) -> usize {
        self.directory[part_of(name, self.directory.len().ilog2())] as usize
    }

    fn index(&mut self) {
        let bits = self.parts.iter().map(|part| part.bits()).max().unwrap_or(0);
        let numbered = self.parts.iter().enumerate();
        let copies = numbered.flat_map(|(at, part)| std::iter::repeat_n(at as u32, 1 << (bits - part.bits())));
        self.directory = copies.collect();
    }

    /// Applies all changes in order, or none. Returns whether readers need a new query half. The
    /// entries must fit the shape.
    ///
    /// # Errors
    /// If the digests of a part's names do not come from a keyed hash, or if there is no memory.
    pub(super) fn apply(&mut self, changes: &[Change<Digest>]) -> Result<bool, BuildError> {
        let Divided { few, many } = self.divide(changes);
        let mut undo = Vec::new();
        let made = self.set_all(&few, &mut undo).and_then(|()| {
            let made = many.iter().map(|(&number, changes)| Ok((number, self.make_with(number, changes)?)));
            made.collect::<Result<Vec<_>, BuildError>>()
        });
        let made = made.inspect_err(|_| self.undo_all(undo))?;
        for (number, parts) in made {
            self.replace(number, parts);
        }
        self.remove_all(&few);
        let replaced = std::mem::take(&mut self.replaced);
        if replaced {
            self.gather();
            self.query = Arc::new(self.maker.query(&self.publisher.changes, seen(&self.parts)));
        }
        Ok(replaced)
    }

    fn divide<'a>(&self, changes: &'a [Change<Digest>]) -> Divided<'a> {
        if changes.len() <= BATCH_MANY {
            return Divided { few: changes.iter().collect(), many: BTreeMap::new() };
        }
        let part = |change: &Change<Digest>| {
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            self.part(*name)
        };
        let mut counts = vec![0; self.parts.len()];
        changes.iter().for_each(|change| counts[part(change)] += 1);
        let mut divided = Divided::default();
        for change in changes {
            let part = part(change);
            if counts[part] > (MANY_PER_CELL * self.parts[part].cells()).max(BATCH_MANY) {
                divided.many.entry(self.parts[part].number).or_default().push(change);
            } else {
                divided.few.push(change);
            }
        }
        divided
    }

    /// Applies all `Set` changes in order, and notes how to undo each.
    fn set_all(&mut self, changes: &[&Change<Digest>], undo: &mut Vec<Done>) -> Result<(), BuildError> {
        for (i, change) in changes.iter().enumerate() {
            self.prefetch(AHEAD.map(|ahead| changes.get(i + ahead)));
            if let Change::Set(name, entry) = change {
                self.set(Named { name: *name, entry: entry.0 }, undo)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, named: Named, undo: &mut Vec<Done>) -> Result<(), BuildError> {
        let part = &mut self.parts[self.directory[part_of(named.name, self.directory.len().ilog2())] as usize];
        let number = part.number;
        match part.set(&mut self.maker.solver, &mut self.publisher, named) {
            Ok(before) => {
                self.names += usize::from(before.is_none());
                undo.push(Done::Set(named.name, before));
                self.make_if_due(number, undo);
            }
            Err(LastLevelFull) => {
                let names = part.names(&self.maker.solver).chain([named]).collect();
                let mut made = Vec::new();
                self.maker.make(number, names, GROWTH, &mut made)?;
                undo.push(Done::Replaced(Box::new(self.replace(number, made))));
            }
        }
        Ok(())
    }

    /// Removes all names that are removed and not set again later. Removal cannot fail, so it comes
    /// last.
    fn remove_all(&mut self, changes: &[&Change<Digest>]) {
        if !changes.iter().any(|change| matches!(change, Change::Remove(_))) {
            return;
        }
        let mut set_later = HashSet::new();
        for (i, change) in changes.iter().enumerate().rev() {
            self.prefetch(AHEAD.map(|ahead| changes.get(i.checked_sub(ahead)?)));
            match change {
                Change::Set(name, _) => drop(set_later.insert(*name)),
                Change::Remove(name) if set_later.contains(name) => {}
                Change::Remove(name) => {
                    let number = self.remove(*name);
                    self.make_if_due(number, &mut Vec::new());
                }
            }
        }
    }

    /// Forgets a name. Returns the number of its part.
    fn remove(&mut self, name: Digest) -> u32 {
        let at = self.part(name);
        let part = &mut self.parts[at];
        self.names -= part.len();
        part.remove(self.maker.shape, name);
        self.names += part.len();
        part.number
    }

    /// Prefetches for three coming changes: what the first reads at the start, what the second
    /// reads next, and what the names that the third bumps read.
    fn prefetch(&self, [first, then, bumps]: [Option<&&Change<Digest>>; 3]) {
        let shape = self.maker.shape;
        if let Some(Change::Set(name, _) | Change::Remove(name)) = first {
            self.parts[self.part(*name)].prefetch(shape, 0, *name);
        }
        if let Some(Change::Set(name, _) | Change::Remove(name)) = then {
            self.parts[self.part(*name)].prefetch_found(shape, 0, *name);
        }
        if let Some(Change::Set(name, _)) = bumps {
            self.parts[self.part(*name)].prefetch_bumped(shape, *name);
        }
    }

    /// Undoes changes: readers still have the old query half.
    fn undo_all(&mut self, undo: Vec<Done>) {
        undo.into_iter().rev().for_each(|done| self.undo(done));
        self.replaced = false;
    }

    fn undo(&mut self, done: Done) {
        match done {
            Done::Set(name, None) => drop(self.remove(name)),
            Done::Set(name, Some(entry)) => {
                let at = self.part(name);
                let named = Named { name, entry };
                let set = self.parts[at].set(&mut self.maker.solver, &mut self.publisher, named);
                debug_assert!(set.is_ok(), "it is there");
            }
            Done::Replaced(part) => drop(self.replace(part.number, vec![*part])),
        }
    }

    /// Rebuilds a part that has outgrown its room or has become nearly empty. If that fails, the
    /// part stays as it is for now.
    fn make_if_due(&mut self, number: u32, undo: &mut Vec<Done>) {
        let at = self.part_numbered(number).start;
        if !self.parts[at].is_due() {
            return;
        }
        let mut made = Vec::new();
        let names = self.parts[at].names(&self.maker.solver).collect();
        match self.maker.make(number, names, GROWTH, &mut made) {
            Ok(()) => undo.push(Done::Replaced(Box::new(self.replace(number, made)))),
            Err(_) => self.parts[at].put_off(),
        }
    }

    /// Builds the replacement of a part with all of `changes`, which concern this part only.
    fn make_with(&mut self, number: u32, changes: &[&Change<Digest>]) -> Result<Vec<PartWriter>, BuildError> {
        let mut last = HashMap::with_capacity(changes.len());
        for (i, change) in changes.iter().enumerate() {
            let (Change::Set(name, _) | Change::Remove(name)) = change;
            last.insert(*name, i);
        }
        let part = &self.parts[self.part_numbered(number).start];
        let kept = part.names(&self.maker.solver).filter(|&Named { name, .. }| !last.contains_key(&name));
        let set = changes.iter().enumerate().filter_map(|(i, change)| match change {
            Change::Set(name, entry) if last[name] == i => Some(Named { name: *name, entry: entry.0 }),
            _ => None,
        });
        let (names, mut made) = (kept.chain(set).collect(), Vec::new());
        self.maker.make(number, names, 0, &mut made)?;
        Ok(made)
    }

    /// Replaces the parts that hold the names of this number by `made`. There is one such part, or
    /// there was.
    fn replace(&mut self, number: u32, made: Vec<PartWriter>) -> PartWriter {
        let names = |parts: &[PartWriter]| parts.iter().map(PartWriter::len).sum::<usize>();
        let range = self.part_numbered(number);
        self.publisher.made(&made, &self.parts[range.clone()]);
        self.names = self.names - names(&self.parts[range.clone()]) + names(&made);
        let old = self.parts.splice(range, made).next().expect("there was one");
        self.index();
        self.replaced = true;
        old
    }

    /// The range of parts that hold the names of this number.
    pub(super) fn part_numbered(&self, number: u32) -> Range<usize> {
        let (bits, all) = (number.ilog2(), self.directory.len().ilog2());
        let first = ((number ^ 1 << bits) as usize) << (all - bits);
        let last = first + (1 << (all - bits)) - 1;
        self.directory[first] as usize..self.directory[last] as usize + 1
    }

    /// Moves all parts to common lines, if many lie apart.
    fn gather(&mut self) {
        let shape = self.maker.shape;
        let count = |part: &PartWriter| part.part.lines_used(shape).len();
        let total = self.lines();
        let apart = self.parts.iter().filter(|part| !Arc::ptr_eq(&part.part.lines, &self.common));
        if self.parts.len() == 1 || apart.map(count).sum::<usize>() * 100 <= total * APART {
            return;
        }
        // Without memory, the parts stay where they are, and the next call tries again.
        let Ok(lines) = Lines::zeroed(total, self.maker.pages) else { return };
        lines.prefault();
        let lines = Arc::new(lines);
        let mut first = 0;
        for part in &mut self.parts {
            let old = part.part.lines_used(shape);
            let count = old.len();
            for (from, to) in part.part.lines[old].iter().zip(&lines[first..]) {
                // No reader uses it yet.
                to.0.iter().zip(changes::words(from)).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
            }
            part.move_to(shape, &lines, first);
            first += count;
        }
        self.common = lines;
    }
}

/// A change that was made, with what it replaced.
enum Done {
    Set(Digest, Option<u32>),
    Replaced(Box<PartWriter>),
}

/// A batch, divided by how its changes are applied.
#[derive(Default)]
struct Divided<'a> {
    /// Applied one by one.
    few: Vec<&'a Change<Digest>>,
    /// By the part's number: so many changes that rebuilding the part is less work.
    many: BTreeMap<u32, Vec<&'a Change<Digest>>>,
}

/// The parts as readers see them.
fn seen(parts: &[PartWriter]) -> impl Iterator<Item = (u32, &Part)> + Clone {
    parts.iter().map(|part| (part.bits(), &part.part))
}
