//! Engines under test.

use anyhow::anyhow;
use byname_lookup::oracle::TagsetOracle;
use byname_lookup::tagset::rare_tag::{self, RareTag};
use byname_lookup::tagset::trie::TagTrie;
use byname_lookup::{Change, Control, TagsetFib};
use byname_wire::Descriptor;

use super::options::Options;
use super::population::Population;
use crate::workload::mix;

/// Both halves of an engine.
pub type Subject = Box<dyn Control<Descriptor, Query = dyn TagsetFib> + Send>;

/// One engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, with the paper.
    pub about: &'static str,
    /// Whether it keeps only filters: it then matches packets by their filters, false positives included.
    pub by_filters: bool,
    /// Approximate memory while it is built, in bytes per descriptor.
    pub bytes_per_descriptor: u64,
    /// Builds it with all descriptors.
    pub build: fn(&Options, &Population) -> anyhow::Result<Subject>,
}

/// Every engine.
pub const ALL: &[Engine] = &[
    Engine {
        name: "trie",
        about: "a prefix trie over filters, in one vector [TagNet §3.1, §3.2]",
        by_filters: true,
        bytes_per_descriptor: 130,
        build: |options, population| {
            Ok(Box::new(TagTrie::load(&options.tuning.trie(options.pages), population.iter())?))
        },
    },
    Engine {
        name: "rare-tag",
        about: "descriptors indexed under their rarest tag; byname's own",
        by_filters: false,
        bytes_per_descriptor: 130,
        build: |options, population| {
            let defaults = rare_tag::Options::default();
            let steps_max = options.tuning.steps_max_or(defaults.steps_max);
            let rare_tag = rare_tag::Options { pages: options.pages.into(), steps_max, ..defaults };
            Ok(Box::new(RareTag::load(mix(options.measuring.seed), &rare_tag, population.iter())?))
        },
    },
    Engine {
        name: "oracle",
        about: "a linear scan: the oracle that the others are tested against",
        by_filters: false,
        bytes_per_descriptor: 120,
        build: |_, population| {
            let mut oracle = TagsetOracle::new();
            let changes: Vec<_> = population.iter().map(|(set, entry)| Change::Set(set, entry)).collect();
            oracle.apply(&changes)?;
            Ok(Box::new(oracle))
        },
    },
];

/// Finds an engine by name.
pub fn find(name: &str) -> anyhow::Result<&'static Engine> {
    ALL.iter()
        .find(|engine| engine.name == name)
        .ok_or_else(|| anyhow!("there is no engine '{name}'; `byname-lab tags --engine list` shows them"))
}
