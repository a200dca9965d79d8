//! Engines under test: byname's own engines and the lab's baselines.

use std::sync::Arc;

use anyhow::bail;
use byname_lookup::{Control, Pages, PrefixFib};
use byname_wire::{Name, NameHashKey};

use super::engines::ENGINES;
use super::options::Tuning;
use crate::workload::Workload;

/// Both halves of an engine. A baseline implements the control half. It may answer every change with `Update::Replace`
/// instead of updating its query half in place.
pub type Subject = Box<dyn Control<Name, Query = dyn PrefixFib> + Send>;

/// The inputs from which an engine is built.
pub struct Setup<'a> {
    /// The key of the names' hashes.
    pub key: NameHashKey,
    /// Maximum number of rules.
    pub rules_max: usize,
    /// The rules, for engines that inspect them before they are built.
    pub workload: &'a dyn Workload,
    /// Pages of the query half.
    pub pages: Pages,
    /// Options specific to the engine.
    pub tuning: &'a Tuning,
}

/// A bulk load of [`Setup::workload`]'s rules in ascending order. Its second argument reports how many rules were
/// loaded. The result takes no changes.
pub type Bulk = fn(&Setup<'_>, &mut dyn FnMut(u64)) -> anyhow::Result<Arc<dyn PrefixFib>>;

/// One engine.
pub struct Engine {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, with the paper.
    pub about: &'static str,
    /// Approximate memory of both halves while they are built, in bytes per rule. It determines how many pages are
    /// reserved.
    pub bytes_per_rule: u64,
    /// Options specific to the engine, by their names on the command line.
    pub takes: &'static [&'static str],
    /// Whether its tables lie on the chosen pages; otherwise they are on the heap.
    pub chooses_pages: bool,
    /// Makes an empty table.
    pub empty: fn(&Setup<'_>) -> anyhow::Result<Subject>,
    /// Loads all rules of a workload in ascending order, faster than changes would.
    pub bulk: Option<Bulk>,
}

/// Finds an engine by name.
pub fn find(name: &str) -> anyhow::Result<&'static Engine> {
    match ENGINES.iter().find(|engine| engine.name == name) {
        Some(engine) => Ok(engine),
        None => bail!("there is no engine '{name}'; `byname-lab prefix --engine list` shows them"),
    }
}
