//! Populations of rules and the names that are looked up in them: data plus a seed.
//!
//! A workload never holds its rules as text if it can help it: rule `i` is computed from the seed
//! and `i`, in any order, so that a billion rules stream into an engine and a lookup can be drawn
//! without a list of them. Each workload is its own oracle: [`Workload::covering`] inverts the
//! generation, so that every answer of an engine can be checked at any size.

mod choice;
mod components;
pub mod graph;
mod list;
mod made;
mod names;
mod random;
mod so;
mod tag_sets;
pub mod text;
mod urls;

use byname_lookup::EntryId;
use byname_wire::NameRef;

pub use choice::{Kind, NameChoice, Scheme};
pub use names::{Drawing, NameSet, requests};
pub use random::{Permutation, Random, mix};
pub use tag_sets::{TagKind, TagSets, unknown};

use made::{Made, Shape};

/// Nexthop groups that the rules of a workload lead to.
pub const GROUPS: u32 = 1 << 15;
/// Components of names that are made as long as any engine takes.
const DEPTH_MAX: usize = 32;

/// Rules, and the names that match them.
pub trait Workload: Send + Sync {
    /// How many rules there are.
    fn rules(&self) -> u64;

    /// How many rules have 0 components, 1, 2...
    fn rules_by_depth(&self) -> Vec<u64>;

    /// Nodes of the rules' compacted trie of components, if rules ascend strictly with their
    /// number, in NDN's canonical order: what a bulk load needs.
    fn bulk_nodes(&self) -> Option<u64>;

    /// Replaces `out` by the name of rule `i`, as the TLV-VALUE of a Name. `i < rules()`; all rules
    /// are different.
    fn write_rule(&self, i: u64, out: &mut Vec<u8>);

    /// How many names hits are drawn from.
    fn targets(&self) -> u64;

    /// Replaces `out` by the name to look up that is `t`-th of [`Workload::targets`]. A rule covers
    /// it, unless the workload's names are a trace's.
    fn write_target(&self, t: u64, out: &mut Vec<u8>);

    /// Replaces `out` by a name in the shape of the rules' that no rule covers.
    fn write_miss(&self, random: &mut Random, out: &mut Vec<u8>);

    /// The deepest rule that covers `name`: the oracle.
    fn covering(&self, name: NameRef<'_>) -> Option<u64>;

    /// Components of the deepest rule.
    fn components_max(&self) -> usize {
        self.rules_by_depth().len() - 1
    }

    /// Where rule `i` leads to.
    fn entry(&self, i: u64) -> EntryId {
        EntryId((random::mix(i) >> 32) as u32 % GROUPS)
    }
}

/// Counts how often there is each of some depths.
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

/// The workload of this kind: made-up rules come as many as asked for, a list's at most so many.
pub fn open(kind: &Kind, rules: u64, components: usize, seed: u64) -> anyhow::Result<Box<dyn Workload>> {
    let made = |shape| Box::new(Made::new(shape, rules, components, seed));
    Ok(match kind {
        Kind::WorstCase => made(Shape::WorstCase),
        Kind::Random => made(Shape::Random),
        Kind::Nested => made(Shape::Nested),
        Kind::Adversarial => made(Shape::Adversarial),
        Kind::Urls { file, scheme } => Box::new(urls::Urls::read(file, *scheme, rules, seed)?),
        Kind::So { file } => Box::new(so::So::read(file, rules, seed)?),
    })
}
