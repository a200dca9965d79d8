//! Populations of rules, and the names that are looked up in them: data plus a seed.
//!
//! A workload holds its rules as text only if they come from a file. Otherwise rule `i` is computed from the seed and
//! `i`, in any order. So a billion rules can stream into an engine, and a lookup can be drawn without a list of rules.
//! Each workload is its own oracle: [`Workload::covering`] inverts the generation, so that every answer of an engine
//! can be checked at any size.

mod choice;
mod components;
pub mod graph;
mod list;
mod made;
mod names;
pub mod objects;
mod popularity;
mod random;
mod so;
mod sources;
mod tag_sets;
pub mod text;
mod urls;

use byname_lookup::EntryId;
use byname_wire::NameRef;

pub use choice::{Kind, NameChoice, Scheme};
pub use names::{Drawing, NameSet, requests};
pub use popularity::Popularity;
pub use random::{Permutation, Random, mix};
pub use sources::{cannot_read, source_of};
pub use tag_sets::{TagKind, TagSets, unknown};

use made::{Made, Shape};

/// Number of nexthop groups of the rules of a workload.
pub const GROUPS: u32 = 1 << 15;
/// Maximum number of components of any engine. Some generated names have all of them.
const DEPTH_MAX: usize = 32;

/// Rules, and the names that match them.
pub trait Workload: Send + Sync {
    /// Number of rules.
    fn rules(&self) -> u64;

    /// Number of rules with 0 components, 1, 2...
    fn rules_by_depth(&self) -> Vec<u64>;

    /// Number of nodes in the compacted component trie of the rules, as a bulk load needs it. `None` if rules do not
    /// strictly ascend in canonical order with their numbers.
    fn bulk_nodes(&self) -> Option<u64>;

    /// Replaces `out` by the name of rule `i`, as the TLV-VALUE of a Name. `i < rules()`; all rules are different.
    fn write_rule(&self, i: u64, out: &mut Vec<u8>);

    /// Number of names from which hits are drawn.
    fn targets(&self) -> u64;

    /// Replaces `out` by name `t` of [`Workload::targets`]. A rule covers it, unless the names come from a trace.
    fn write_target(&self, t: u64, out: &mut Vec<u8>);

    /// Replaces `out` by a name that no rule covers and that resembles the rules.
    fn write_miss(&self, random: &mut Random, out: &mut Vec<u8>);

    /// The deepest rule that covers `name`: the oracle.
    fn covering(&self, name: NameRef<'_>) -> Option<u64>;

    /// Number of components of the deepest rule.
    fn components_max(&self) -> usize {
        self.rules_by_depth().len() - 1
    }

    /// The entry of rule `i`.
    fn entry(&self, i: u64) -> EntryId {
        EntryId((random::mix(i) >> 32) as u32 % GROUPS)
    }
}

/// Counts how often each depth occurs.
fn count_depths(depths: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut counts = vec![0];
    for depth in depths {
        if depth >= counts.len() {
            counts.resize(depth + 1, 0);
        }
        counts[depth] += 1;
    }
    counts
}

/// Opens a workload. Generated ones have exactly `rules` rules; those from a list have at most that many.
pub fn open(kind: &Kind, rules: u64, components: usize, seed: u64) -> anyhow::Result<Box<dyn Workload>> {
    let made = |shape| Box::new(Made::new(shape, rules, components, seed));
    Ok(match kind {
        Kind::WorstCase => made(Shape::WorstCase),
        Kind::Random => made(Shape::Random),
        Kind::Nested => made(Shape::Nested),
        Kind::Adversarial => made(Shape::Adversarial),
        Kind::Objects => Box::new(objects::Objects::new(rules, seed)),
        Kind::Urls { file, scheme } => Box::new(urls::Urls::read(file, *scheme, rules, seed)?),
        Kind::So { file } => Box::new(so::So::read(file, rules, seed)?),
    })
}
