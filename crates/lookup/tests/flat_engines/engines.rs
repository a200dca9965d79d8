//! The engines under test.

use std::sync::Arc;

use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::{BuildError, Change, Control, EntryId, FlatFib, Instructions, Update};
use byname_wire::Digest;

/// Maximum number of names that any test puts into a table.
pub const NAMES_MAX: usize = 1 << 16;

pub type Engine = Box<dyn Control<Digest, Query = dyn FlatFib> + Send>;

/// A kind of engine: how to build one, and what it takes.
pub struct Kind {
    pub name: &'static str,
    /// The largest entry id.
    pub entry_max: u32,
    /// Maximum number of cache lines that one query may read. `None` if the engine cannot tell.
    pub lines_max: Option<usize>,
    /// Maximum memory of a table that changed, as a multiple of what as many names take that are built at once.
    pub times_built: usize,
    /// A table for [`NAMES_MAX`] names, built from these, which are distinct.
    pub build: fn(&[Digest], &[EntryId]) -> Engine,
}

/// All kinds, including variants that force an engine to do what it rarely does.
pub const ALL: &[Kind] = &[
    othello("othello", 8, |names, entries| build_othello(8, othello::Options::default(), names, entries)),
    othello("othello, portable, parts of 500", 8, |names, entries| {
        let instructions = Instructions::Portable;
        build_othello(8, othello::Options { part_names: 500, instructions, ..Default::default() }, names, entries)
    }),
    // Parts so small that a few additions close a cycle or split a part. Splitting them lengthens the directory.
    Kind {
        times_built: 4,
        ..othello("othello, parts of 8", 8, |names, entries| build_othello(8, parts_of(8), names, entries))
    },
    // Values that lie in two words.
    othello("othello, 5 bits, parts of 300", 5, |names, entries| build_othello(5, parts_of(300), names, entries)),
    Kind {
        times_built: 100,
        ..othello("othello, 1 bit, parts of 1", 1, |names, entries| build_othello(1, parts_of(1), names, entries))
    },
    othello("othello, 27 bits, parts of 60", 27, |names, entries| build_othello(27, parts_of(60), names, entries)),
    othello("othello, 32 bits", 32, |names, entries| build_othello(32, othello::Options::default(), names, entries)),
    line("line", 8, |names, entries| build_line(8, line::Options::default(), names, entries)),
    // A few additions rebuild a part or split it.
    line("line, parts of 40", 8, |names, entries| {
        build_line(8, line::Options { part_names: 40, ..Default::default() }, names, entries)
    }),
    // Most names are bumped, some of them down to the last level.
    line("line, overfull", 5, |names, entries| {
        build_line(5, line::Options { fill_percent: 150, ..Default::default() }, names, entries)
    }),
    line("line, 1 bit, portable", 1, |names, entries| {
        build_line(1, line::Options { instructions: Instructions::Portable, ..Default::default() }, names, entries)
    }),
    line("line, 2 bits", 2, |names, entries| build_line(2, line::Options::default(), names, entries)),
    line("line, 27 bits, as for AVX2", 27, |names, entries| {
        build_line(27, line::Options { instructions: Instructions::Avx2, ..Default::default() }, names, entries)
    }),
    line("line, 32 bits", 32, |names, entries| build_line(32, line::Options::default(), names, entries)),
];

const fn line(name: &'static str, entry_bits: u32, build: fn(&[Digest], &[EntryId]) -> Engine) -> Kind {
    Kind { name, entry_max: u32::MAX >> (32 - entry_bits), lines_max: Some(4), times_built: 2, build }
}

fn build_line(entry_bits: u32, options: line::Options, names: &[Digest], entries: &[EntryId]) -> Engine {
    let options = line::Options { entry_bits, names_max: NAMES_MAX, ..options };
    let names: Vec<_> = names.iter().copied().zip(entries.iter().copied()).collect();
    Box::new(LineRetrieval::load(&options, &names).expect("room for these names"))
}

const fn othello(name: &'static str, entry_bits: u32, build: fn(&[Digest], &[EntryId]) -> Engine) -> Kind {
    Kind { name, entry_max: u32::MAX >> (32 - entry_bits), lines_max: Some(2), times_built: 2, build }
}

fn parts_of(part_names: usize) -> othello::Options {
    othello::Options { part_names, ..othello::Options::default() }
}

fn build_othello(entry_bits: u32, options: othello::Options, names: &[Digest], entries: &[EntryId]) -> Engine {
    let options = othello::Options { entry_bits, names_max: NAMES_MAX, ..options };
    Box::new(Othello::construct(options, names, entries).expect("room for these names"))
}

/// An engine and the query half that its readers would have.
pub struct Subject {
    pub engine: Engine,
    pub fib: Arc<dyn FlatFib>,
}

impl Subject {
    pub fn new(kind: &Kind, names: &[Digest], entries: &[EntryId]) -> Self {
        Subject::of((kind.build)(names, entries))
    }

    pub fn of(engine: Engine) -> Self {
        let fib = engine.query();
        Subject { engine, fib }
    }

    /// Applies a batch like the forwarder: readers get the new query half at once.
    pub fn apply(&mut self, changes: &[Change<Digest>]) -> Result<(), BuildError> {
        if let Update::Replace(fib) = self.engine.apply(changes)? {
            self.fib = fib;
        }
        Ok(())
    }
}
