//! Engines under test: byname's own, and the lab's baselines.

use std::sync::Arc;

use anyhow::bail;
use byname_lookup::prefix::LongestFirst;
use byname_lookup::{Control, Pages, PrefixFib};
use byname_wire::{Name, NameHashKey};

use super::options::Tuning;
use crate::baselines::{ComponentTrie, Locked, LongestFirstMap, Patricia};
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

/// One engine.
pub struct Engine {
    /// As on the command line.
    pub name: &'static str,
    /// What it is, with its paper.
    pub about: &'static str,
    /// Memory of both halves for each rule while they are built, in bytes, about: what reserved
    /// pages are estimated from.
    pub bytes_per_rule: u64,
    /// Its own options, by their names in [`Tuning`].
    pub takes: &'static [&'static str],
    /// An empty table.
    pub empty: fn(&Setup<'_>) -> anyhow::Result<Subject>,
    /// Loads all rules of a workload that ascend, faster than changes would; the function is told
    /// of rules loaded.
    pub bulk: Option<fn(&Setup<'_>, &mut dyn FnMut(u64)) -> anyhow::Result<Subject>>,
}

/// Every engine.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "longest_first",
        about: "from the longest prefix down, compact-array table [So §2.2, §2.3]",
        bytes_per_rule: 96,
        takes: &[],
        empty: |setup| Ok(Box::new(LongestFirst::new(setup.key, setup.rules_max))),
        bulk: None,
    },
    Engine {
        name: "hashmap",
        about: "baseline: a HashMap of names, from the longest prefix down",
        bytes_per_rule: 256,
        takes: &[],
        empty: |_| Ok(Box::new(Locked::<LongestFirstMap>::default())),
        bulk: None,
    },
    Engine {
        name: "component_trie",
        about: "baseline: a trie of components",
        bytes_per_rule: 1024,
        takes: &[],
        empty: |_| Ok(Box::new(Locked::<ComponentTrie>::default())),
        bulk: None,
    },
    Engine {
        name: "patricia",
        about: "baseline: a Patricia trie of octets",
        bytes_per_rule: 256,
        takes: &[],
        empty: |_| Ok(Box::new(Locked::<Patricia>::default())),
        bulk: None,
    },
];

/// The engine of this name.
pub fn find(name: &str) -> anyhow::Result<&'static Engine> {
    match ENGINES.iter().find(|engine| engine.name == name) {
        Some(engine) => Ok(engine),
        None => bail!("there is no engine '{name}'; `byname-lab prefix --engine list` shows them"),
    }
}

/// A built engine: its control half, and the query half that readers have.
pub struct Built {
    /// Both halves.
    pub subject: Subject,
    /// What readers look up in.
    pub fib: Arc<dyn PrefixFib>,
}
