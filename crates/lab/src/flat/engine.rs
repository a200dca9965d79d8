//! Engines under test.

use std::sync::Arc;

use anyhow::bail;
use byname_lookup::oracle::FlatOracle;
use byname_lookup::{Control, FlatFib};
use byname_wire::Digest;

use super::hasher::Hasher;
use super::names::Names;
use super::stream::Stream;

/// Both halves of an engine.
pub type Subject = Box<dyn Control<Digest, Query = dyn FlatFib> + Send>;

/// What an engine is made from.
pub struct Setup<'a> {
    /// The names that will be there.
    pub names: &'a Names,
    /// What they are hashed with.
    pub hasher: &'a Hasher,
    /// Actions are below two to this power.
    pub action_bits: u32,
}

impl Setup<'_> {
    /// All names, from the first.
    pub fn stream(&self) -> Stream<'_> {
        Stream::new(self.names, self.hasher, self.action_bits, (0, self.names.len()))
    }
}

/// A bulk load, which is told where to report how many names have come in. What is made so takes no
/// changes.
pub type Bulk = fn(&Setup<'_>, &mut dyn FnMut(u64)) -> anyhow::Result<Arc<dyn FlatFib>>;

/// One engine.
pub struct Engine {
    /// As on the command line.
    pub name: &'static str,
    /// What it is, with its paper.
    pub about: &'static str,
    /// Memory of both halves for each name while they are built, in bytes, about.
    pub bytes_per_name: u64,
    /// Whether its tables lie on the pages asked for; others are on the heap.
    pub chooses_pages: bool,
    /// An empty table.
    pub empty: fn(&Setup<'_>) -> anyhow::Result<Subject>,
    /// A table of all names at once, where that is faster than changes.
    pub construct: Option<fn(&Setup<'_>) -> anyhow::Result<Subject>>,
    /// A query half alone, in less memory.
    pub bulk: Option<Bulk>,
}

/// Every engine.
pub const ENGINES: &[Engine] = &[Engine {
    name: "oracle",
    about: "a HashMap of digests: what the others are tested against",
    bytes_per_name: 80,
    chooses_pages: false,
    empty: |_| Ok(Box::new(FlatOracle::new())),
    construct: None,
    bulk: None,
}];

/// The engine of this name.
pub fn find(name: &str) -> anyhow::Result<&'static Engine> {
    match ENGINES.iter().find(|engine| engine.name == name) {
        Some(engine) => Ok(engine),
        None => bail!("there is no engine '{name}'; `byname-lab flat --engine list` shows them"),
    }
}
