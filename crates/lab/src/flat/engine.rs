//! Engines under test: byname's own, and baselines.

use std::sync::Arc;

use anyhow::{anyhow, ensure};
use byname_lookup::flat::line::{self, BulkLoad, LineRetrieval, bulk_load};
use byname_lookup::flat::message::Feed;
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::flat::validity::{Check, Checked, Filtered};
use byname_lookup::oracle::FlatOracle;
use byname_lookup::{BuildError, Control, EntryId, FlatFib, Pages};
use byname_wire::Digest;

use super::baselines::{Construct, FlatName, KINDS, Population};
use super::hasher::Hasher;
use super::names::Names;
use super::options::Options;
use super::rebuilt::Rebuilt;
use super::stream::Stream;
use crate::machine::PageSize;

/// Both halves of an engine.
pub type Subject = Box<dyn Halves>;

/// A control half, with its query half.
pub trait Halves: Control<Digest, Query = dyn FlatFib> + Send {
    /// What tells query halves elsewhere of changes, if it can.
    fn feed(&mut self) -> Option<&mut dyn Feed>;
}

impl Halves for LineRetrieval {
    fn feed(&mut self) -> Option<&mut dyn Feed> {
        Some(self)
    }
}

impl Halves for Othello {
    fn feed(&mut self) -> Option<&mut dyn Feed> {
        Some(self)
    }
}

impl Halves for FlatOracle {
    fn feed(&mut self) -> Option<&mut dyn Feed> {
        None
    }
}

impl Halves for Checked<LineRetrieval> {
    fn feed(&mut self) -> Option<&mut dyn Feed> {
        None
    }
}

impl Halves for Filtered<LineRetrieval> {
    fn feed(&mut self) -> Option<&mut dyn Feed> {
        None
    }
}

/// What an engine is made from.
pub struct Setup<'a> {
    /// The names that will be there.
    pub names: &'a Names,
    /// What they are hashed with.
    pub hasher: &'a Hasher,
    /// How many there will ever be.
    pub names_max: usize,
    /// Actions are below two to this power.
    pub action_bits: u32,
    /// Pages for the query half.
    pub pages: Pages,
}

impl Setup<'_> {
    /// All names, from the first.
    pub fn stream(&self) -> Stream<'_> {
        Stream::new(self.names, self.hasher, self.action_bits, (0, self.names.len()))
    }
}

impl Population for Setup<'_> {
    fn len(&self) -> usize {
        self.names.len() as usize
    }

    fn names_max(&self) -> usize {
        self.names_max
    }

    fn octets(&self) -> Option<usize> {
        self.names.size()
    }

    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId)) {
        self.stream().visit(|octets, digest, action| visitor(FlatName { octets, digest }, action));
    }
}

/// A bulk load, which is told where to report how many names have come in. What is made so takes no
/// changes.
pub type Bulk = fn(&Setup<'_>, &mut dyn FnMut(u64)) -> anyhow::Result<Arc<dyn FlatFib>>;

/// One engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// As on the command line.
    pub name: &'static str,
    /// What it is, with its paper.
    pub about: &'static str,
    /// Memory of both halves for each name while they are built, in bytes, about.
    pub bytes_per_name: u64,
    /// How it comes about.
    pub make: Make,
}

/// How an engine comes about.
#[derive(Clone, Copy)]
pub enum Make {
    /// In two halves, of which the control half takes changes.
    Halves {
        /// Whether its tables lie on the pages asked for; others are on the heap.
        chooses_pages: bool,
        /// An empty table.
        empty: fn(&Setup<'_>) -> anyhow::Result<Subject>,
        /// A table of all names at once, where that is faster than changes.
        construct: Option<fn(&Setup<'_>) -> anyhow::Result<Subject>>,
        /// A query half alone, in less memory.
        bulk: Option<Bulk>,
    },
    /// In one.
    Baseline(Construct),
}

impl Engine {
    /// The pages of its table; `None`: the heap's.
    pub fn pages(&self, options: &Options) -> Option<PageSize> {
        match self.make {
            Make::Halves { chooses_pages, .. } => chooses_pages.then_some(options.pages),
            Make::Baseline(_) => Some(PageSize::Large),
        }
    }
}

/// Byname's own, and what they are tested against.
const OWN: &[Engine] = &[
    Engine {
        name: "line",
        about: "line retrieval: a small linear system in one cache line for each name; byname's own",
        bytes_per_name: 64,
        make: Make::Halves {
            chooses_pages: true,
            empty: |setup| Ok(Box::new(LineRetrieval::new(&line_options(setup)))),
            construct: Some(|setup| {
                let names: Vec<_> = setup.stream().collect();
                Ok(Box::new(LineRetrieval::load(&line_options(setup), &names)?))
            }),
            bulk: Some(|setup, progress| {
                let mut before = 0;
                let mut told = |names: usize| {
                    progress(names as u64 - before);
                    before = names as u64;
                };
                let load = BulkLoad { names_at_once: BULK_NAMES_AT_ONCE, progress: &mut told };
                Ok(bulk_load(&line_options(setup), || setup.stream(), load)?)
            }),
        },
    },
    Engine {
        name: "othello",
        about: "two values a name, combined by exclusive-or [Concise §4, §5.1]",
        bytes_per_name: 80,
        make: Make::Halves {
            chooses_pages: true,
            empty: |setup| Ok(Box::new(Othello::new(othello_options(setup))?)),
            construct: Some(|setup| {
                let (names, entries): (Vec<_>, Vec<_>) = setup.stream().unzip();
                Ok(Box::new(Othello::construct(othello_options(setup), &names, &entries)?))
            }),
            bulk: None,
        },
    },
    Engine {
        name: "static",
        about: "VFunc of the crate sux: a static function; changes show when the next one is built",
        bytes_per_name: 200,
        make: Make::Halves {
            chooses_pages: false,
            empty: |setup| Ok(Box::new(Rebuilt::new(setup.action_bits, setup.names_max, std::iter::empty())?)),
            construct: Some(|setup| Ok(Box::new(Rebuilt::new(setup.action_bits, setup.names_max, setup.stream())?))),
            bulk: None,
        },
    },
    Engine {
        name: "checked",
        about: "line with 8 bits of checksum beside each action: it tells most unknown names [Concise §7.3]",
        bytes_per_name: 64,
        make: Make::Halves {
            chooses_pages: true,
            empty: |setup| checked(setup, std::iter::empty()),
            construct: Some(|setup| checked(setup, setup.stream())),
            bulk: None,
        },
    },
    Engine {
        name: "filtered",
        about: "line behind a Bloom filter, which 1 of 256 unknown names passes [Concise §7.3]",
        bytes_per_name: 120,
        make: Make::Halves {
            chooses_pages: true,
            empty: |setup| filtered(setup, Vec::new()),
            construct: Some(|setup| filtered(setup, setup.stream().collect())),
            bulk: None,
        },
    },
    Engine {
        name: "oracle",
        about: "a HashMap of digests: what the others are tested against",
        bytes_per_name: 80,
        make: Make::Halves {
            chooses_pages: false,
            empty: |_| Ok(Box::new(FlatOracle::new())),
            construct: None,
            bulk: None,
        },
    },
];

/// What a baseline takes at its peak.
const BASELINE_BYTES: u64 = 150;

/// Names that a bulk load holds at a time: 3 GB of them.
const BULK_NAMES_AT_ONCE: usize = 1 << 27;

/// Bits of a checksum, and the odds of a filter: one unknown name in so many passes either.
const CHECK_BITS: u32 = 8;
const FILTER_ODDS: f64 = 1.0 / 256.0;

fn checked(setup: &Setup<'_>, names: impl Iterator<Item = (Digest, EntryId)>) -> anyhow::Result<Subject> {
    ensure!(setup.action_bits + CHECK_BITS <= 32, "no room for a checksum beside {} bits", setup.action_bits);
    let check = Check::new(setup.action_bits, CHECK_BITS);
    let stored = names.map(|(name, action)| Ok((name, check.stored(name, action)?)));
    let stored = stored.collect::<Result<Vec<_>, BuildError>>()?;
    let options = line::Options { entry_bits: check.bits(), ..line_options(setup) };
    Ok(Box::new(Checked::new(LineRetrieval::load(&options, &stored)?, check)))
}

fn filtered(setup: &Setup<'_>, names: Vec<(Digest, EntryId)>) -> anyhow::Result<Subject> {
    let engine = LineRetrieval::load(&line_options(setup), &names)?;
    Ok(Box::new(Filtered::new(engine, names.into_iter().map(|(name, _)| name), FILTER_ODDS)))
}

/// How line's tables are made: not soon full, for then each name of a batch would be looked up first.
fn line_options(setup: &Setup<'_>) -> line::Options {
    line::Options { entry_bits: setup.action_bits, pages: setup.pages, ..Default::default() }
}

/// How Othello's tables are made: not soon full, as line's.
pub fn othello_options(setup: &Setup<'_>) -> othello::Options {
    othello::Options { entry_bits: setup.action_bits, pages: setup.pages, ..Default::default() }
}

/// Every engine.
pub fn all() -> impl Iterator<Item = Engine> {
    let baselines = KINDS.iter().map(|kind| Engine {
        name: kind.name,
        about: kind.about,
        bytes_per_name: BASELINE_BYTES,
        make: Make::Baseline(kind.construct),
    });
    OWN.iter().copied().chain(baselines)
}

/// The engine of this name.
pub fn find(name: &str) -> anyhow::Result<Engine> {
    all()
        .find(|engine| engine.name == name)
        .ok_or_else(|| anyhow!("there is no engine '{name}'; `byname-lab flat --engine list` shows them"))
}
