//! Engines under test: byname's own, and the lab's baselines.

use std::sync::Arc;

use anyhow::bail;
use byname_lookup::{Control, Pages, PrefixFib};
use byname_wire::{Name, NameHashKey};

use super::engines::ENGINES;
use super::options::Tuning;
use crate::workload::Workload;

/// Both halves of an engine. What baselines implement is the control half; its query half need not
/// be updated in place (`Update::Replace` is fine).
pub type Subject = Box<dyn Control<Name, Query = dyn PrefixFib> + Send>;

/// What an engine is made from.
pub struct Setup<'a> {
    /// The key of the names' hashes.
    pub key: NameHashKey,
    /// Rules that will be there, at most.
    pub rules_max: usize,
    /// The rules, for engines that look at them before they are built.
    pub workload: &'a dyn Workload,
    /// Pages for the query half.
    pub pages: Pages,
    /// The engine's own options.
    pub tuning: &'a Tuning,
}

/// A bulk load: of [`Setup::workload`]'s rules, which ascend; the function is told of rules loaded.
/// What is made so takes no changes.
pub type Bulk = fn(&Setup<'_>, &mut dyn FnMut(u64)) -> anyhow::Result<Arc<dyn PrefixFib>>;

/// One engine.
pub struct Engine {
    /// As on the command line.
    pub name: &'static str,
    /// What it is, with its paper.
    pub about: &'static str,
    /// Memory of both halves for each rule while they are built, in bytes, about: what reserved
    /// pages are estimated from.
    pub bytes_per_rule: u64,
    /// Its own options, by their names on the command line.
    pub takes: &'static [&'static str],
    /// Whether its tables lie on the pages asked for; others are on the heap.
    pub chooses_pages: bool,
    /// An empty table.
    pub empty: fn(&Setup<'_>) -> anyhow::Result<Subject>,
    /// Loads all rules of a workload that ascend, faster than changes would.
    pub bulk: Option<Bulk>,
}

/// The engine of this name.
pub fn find(name: &str) -> anyhow::Result<&'static Engine> {
    match ENGINES.iter().find(|engine| engine.name == name) {
        Some(engine) => Ok(engine),
        None => bail!("there is no engine '{name}'; `byname-lab prefix --engine list` shows them"),
    }
}
