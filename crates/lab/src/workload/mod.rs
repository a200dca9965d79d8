//! Populations of rules and the names that are looked up in them: data plus a seed.
//!
//! A workload never holds its rules as text if it can help it: rule `i` is computed from the seed
//! and `i`, in any order, so that a billion rules stream into an engine and a lookup can be drawn
//! without a list of them. Each workload is its own oracle: [`Workload::covering`] inverts the
//! generation, so that every answer of an engine can be checked at any size.

mod choice;
mod random;

pub use choice::{Kind, NameChoice, Scheme};
pub use random::Random;

use byname_lookup::EntryId;
use byname_wire::NameRef;

/// Nexthop groups that the rules of a workload lead to.
pub const GROUPS: u32 = 1 << 12;

/// Rules, and the names that match them.
pub trait Workload: Send + Sync {
    /// How many rules there are.
    fn rules(&self) -> u64;

    /// Components of the deepest rule.
    fn components_max(&self) -> usize;

    /// Whether rules ascend strictly with `i`, in NDN's canonical order: what a bulk load takes.
    fn ascending(&self) -> bool;

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

    /// Where rule `i` leads to.
    fn entry(&self, i: u64) -> EntryId {
        EntryId((random::mix(i) >> 32) as u32 % GROUPS)
    }
}
