//! The data of a start depth in the table: the prefixes of that depth with rules below them, and the maximum depth of
//! these rules.

use std::collections::HashMap;

use crate::prefix::rule_array::RuleKey;

/// The rules deeper than a start depth.
pub(super) struct Stage {
    depth: usize,
    /// By the prefix at the start depth.
    below: HashMap<RuleKey, DepthCounts>,
}

/// Number of rules at each depth. Depths without rules are left out, and the deepest is last.
#[derive(Default)]
struct DepthCounts(Vec<(u8, u32)>);

impl Stage {
    pub(super) fn new(depth: usize) -> Self {
        Stage { depth, below: HashMap::new() }
    }

    /// The start depth.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Adds a rule of `depth` components that begins with `prefix`.
    pub(super) fn add(&mut self, prefix: RuleKey, depth: usize) {
        let counts = &mut self.below.entry(prefix).or_default().0;
        match counts.binary_search_by_key(&(depth as u8), |&(depth, _)| depth) {
            Ok(at) => counts[at].1 += 1,
            Err(at) => counts.insert(at, (depth as u8, 1)),
        }
    }

    /// Removes a rule that was added.
    pub(super) fn remove(&mut self, prefix: &RuleKey, depth: usize) {
        let counts = &mut self.below.get_mut(prefix).expect("the rule was added").0;
        let at = counts.binary_search_by_key(&(depth as u8), |&(depth, _)| depth).expect("the rule was added");
        counts[at].1 -= 1;
        if counts[at].1 == 0 {
            counts.remove(at);
        }
        if counts.is_empty() {
            self.below.remove(prefix);
        }
    }

    /// MD: the depth of the deepest rule that begins with `prefix`. `None` if there is none.
    pub(super) fn depth_max(&self, prefix: &RuleKey) -> Option<usize> {
        Some(usize::from(self.below.get(prefix)?.0.last()?.0))
    }

    /// The prefixes that have rules below them.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &RuleKey> {
        self.below.keys()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let counts = self.below.values().map(|counts| counts.0.capacity() * size_of::<(u8, u32)>());
        self.below.capacity() * size_of::<(RuleKey, DepthCounts)>() + counts.sum::<usize>()
    }
}
