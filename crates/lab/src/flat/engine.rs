//! Engines under test: byname's own engines and the baselines.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{anyhow, ensure};
use byname_lookup::file::{Opening, Place};
use byname_lookup::flat::known::{Exact, Filter, Known};
use byname_lookup::flat::line::{self, BulkLoad, LineRetrieval, bulk_load};
use byname_lookup::flat::message::Feed;
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::flat::validity::{Check, Checked, Filtered};
use byname_lookup::oracle::FlatOracle;
use byname_lookup::{BuildError, Control, EntryId, FlatFib, Pages};
use byname_wire::{Digest, NameHashKey};

use super::baselines::{Construct, FlatName, KINDS, Population};
use super::hasher::Hasher;
use super::names::Names;
use super::options::Options;
use super::rebuilt::Rebuilt;
use super::stream::Stream;
use crate::machine::PageSize;

/// Both halves of an engine.
pub type Subject = Box<dyn Halves>;

/// A control half that also gives access to its query half.
pub trait Halves: Control<Digest, Query = dyn FlatFib> + Send {
    /// The feed of changes to query halves in other places, if the engine has one.
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

/// The inputs from which an engine is built.
pub struct Setup<'a> {
    /// The names to store.
    pub names: &'a Names,
    /// The hash function for the names.
    pub hasher: &'a Hasher,
    /// Maximum number of names later.
    pub names_max: usize,
    /// Actions are below 2 to this power.
    pub action_bits: u32,
    /// Pages of the query half.
    pub pages: Pages,
}

impl Setup<'_> {
    /// All names in order.
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

    fn bytes(&self) -> Option<usize> {
        self.names.size()
    }

    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId)) {
        self.stream().visit(|bytes, digest, action| visitor(FlatName { bytes, digest }, action));
    }
}

/// A bulk load. Its second argument reports how many names were loaded. The result takes no changes.
pub type Bulk = fn(&Setup<'_>, &mut dyn FnMut(u64)) -> anyhow::Result<Arc<dyn FlatFib>>;

/// One engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, with the paper.
    pub about: &'static str,
    /// Approximate peak memory of both halves while they are built, in bytes per name.
    pub bytes_per_name: u64,
    /// How to build the engine.
    pub make: Make,
}

/// Ways to build an engine.
#[derive(Clone, Copy)]
pub enum Make {
    /// An engine in two halves. The control half takes changes.
    Halves {
        /// Whether its tables lie on the chosen pages; otherwise they are on the heap.
        chooses_pages: bool,
        /// Makes an empty table.
        empty: fn(&Setup<'_>) -> anyhow::Result<Subject>,
        /// Builds a table of all names at once, if that is faster than changes.
        construct: Option<fn(&Setup<'_>) -> anyhow::Result<Subject>>,
        /// Builds a query half alone, in less memory.
        bulk: Option<Bulk>,
    },
    /// A baseline, which is not split into halves.
    Baseline(Construct),
    /// Only a query half, from files.
    Files(fn(&Setup<'_>) -> anyhow::Result<Arc<dyn FlatFib>>),
}

impl Engine {
    /// The pages of its table; `None` means the heap.
    pub fn pages(&self, options: &Options) -> Option<PageSize> {
        match self.make {
            Make::Halves { chooses_pages, .. } => chooses_pages.then_some(options.pages),
            Make::Baseline(_) => Some(PageSize::Large),
            Make::Files(_) => Some(options.pages),
        }
    }
}

/// byname's own engines, and the oracle that they are tested against.
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
        about: "two values per name, combined by exclusive-or [Concise §4, §5.1]",
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
        about: "VFunc of the crate sux: a static function; changes take effect when it is rebuilt",
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
        about: "line with 8 bits of checksum beside each action: it detects most unknown names [Concise §7.3]",
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
        about: "line behind a Bloom filter, which 1 of 256 unknown names pass [Concise §7.3]",
        bytes_per_name: 120,
        make: Make::Halves {
            chooses_pages: true,
            empty: |setup| filtered(setup, Vec::new()),
            construct: Some(|setup| filtered(setup, setup.stream().collect())),
            bulk: None,
        },
    },
    Engine {
        name: "fingerprints",
        about: "line beside a filter from a file, which 1 of 256 unknown names pass [Concise §7.3]",
        bytes_per_name: 120,
        make: Make::Files(|setup| {
            known(setup, |path, key, names| {
                let digests = names.iter().map(|(name, _)| *name);
                Filter::save((path, key), CHECK_BITS, digests, &mut |_| {})?;
                Ok(Known::Filter(Filter::open(path, opening(setup))?))
            })
        }),
    },
    Engine {
        name: "digests",
        about: "line beside the digests of all names from a file, which no unknown name passes [Concise §7.3]",
        bytes_per_name: 160,
        make: Make::Files(|setup| {
            known(setup, |path, key, names| {
                Exact::save((path, key), names.iter().map(|(name, _)| *name))?;
                Ok(Known::Exact(Exact::open(path, opening(setup))?))
            })
        }),
    },
    Engine {
        name: "oracle",
        about: "a HashMap of digests: the oracle that the others are tested against",
        bytes_per_name: 80,
        make: Make::Halves {
            chooses_pages: false,
            empty: |_| Ok(Box::new(FlatOracle::new())),
            construct: None,
            bulk: None,
        },
    },
];

/// Peak memory of a baseline, in bytes per name.
const BASELINE_BYTES: u64 = 150;

/// Names that a bulk load holds at a time: 3 GB of names.
const BULK_NAMES_AT_ONCE: usize = 1 << 27;

/// Bits of a checksum, and the false positive rate of a filter: both accept one unknown name in 256.
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

fn opening(setup: &Setup<'_>) -> Opening {
    Opening { place: Place::Copied(setup.pages), checked: true }
}

/// A table of all names, and what `make` has put into a file to tell them.
fn known(
    setup: &Setup<'_>,
    make: impl FnOnce(&Path, &NameHashKey, &[(Digest, EntryId)]) -> anyhow::Result<Known>,
) -> anyhow::Result<Arc<dyn FlatFib>> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("byname-lab-{}-{number}.known", std::process::id()));
    let names: Vec<_> = setup.stream().collect();
    // The digests are of the measurement's hash function, whatever key the file has.
    let known = make(&path, &NameHashKey::new([0, 0]), &names);
    // Once it is in memory, nobody needs the file.
    let _ = std::fs::remove_file(&path);
    let table = line::bulk_load(
        &line_options(setup),
        || names.iter().copied(),
        BulkLoad { names_at_once: BULK_NAMES_AT_ONCE, progress: &mut |_| {} },
    )?;
    Ok(known?.in_front_of(table))
}

/// Options of line's tables. Their limit of names is far away: near the limit, the engine would look up each name of a
/// batch first.
fn line_options(setup: &Setup<'_>) -> line::Options {
    line::Options { entry_bits: setup.action_bits, pages: setup.pages, ..Default::default() }
}

/// Options of Othello's tables. Their limit of names is far away, as for line.
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

/// Finds an engine by name.
pub fn find(name: &str) -> anyhow::Result<Engine> {
    all()
        .find(|engine| engine.name == name)
        .ok_or_else(|| anyhow!("there is no engine '{name}'; `byname-lab flat --engine list` shows them"))
}
