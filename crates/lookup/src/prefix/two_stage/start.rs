//! Chooses the start depth M: the heuristics of [So §2.3].
//!
//! Both use only the number of rules at each depth. Neither weighs the virtual rules that an M
//! needs, which the paper would count against it.
//! [`TwoStage::virtual_entries`](super::TwoStage::virtual_entries) reports them.

use byname_wire::name::COMPONENTS_MAX;

/// How the start depth is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StartDepth {
    /// This depth, 1 to 128.
    Fixed(usize),
    /// The depth of most rules.
    MostLikely,
    /// The smallest depth such that this share of all rules, 0 to 1, is no deeper.
    CumulativeThreshold(f64),
}

impl Default for StartDepth {
    /// The threshold of three quarters, which is the best M of [So, Table 5]. The most likely depth
    /// may be the first if rules nest. Every name that a stranger makes below a rule would then go
    /// through both stages, where a miss reads one bucket.
    fn default() -> Self {
        StartDepth::CumulativeThreshold(0.75)
    }
}

impl StartDepth {
    /// The start depth for `rules[d]` rules at each depth `d`. The largest depth if there are no
    /// rules.
    pub(super) fn choose(self, rules: &[usize]) -> usize {
        let chosen = match self {
            StartDepth::Fixed(depth) => Some(depth),
            StartDepth::MostLikely => most_likely(rules),
            StartDepth::CumulativeThreshold(threshold) => cumulative_threshold(rules, threshold),
        };
        chosen.unwrap_or(COMPONENTS_MAX)
    }
}

/// The depth of at least 1 that most of `rules[depth]` have, and the smallest of several. `None`
/// without rules.
pub fn most_likely(rules: &[usize]) -> Option<usize> {
    let most = *rules.iter().skip(1).max().filter(|&&most| most > 0)?;
    (1..rules.len()).find(|&depth| rules[depth] == most)
}

/// The smallest depth of at least 1 at which the rules up to it reach the share `threshold` of all
/// rules below `/`. `None` without rules.
pub fn cumulative_threshold(rules: &[usize], threshold: f64) -> Option<usize> {
    let all: usize = rules.iter().skip(1).sum();
    let mut up_to = 0;
    (1..rules.len()).find(|&depth| {
        up_to += rules[depth];
        up_to > 0 && up_to as f64 >= threshold * all as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [So, Table 5], in tenths of a percent. The first two depths together have 1.8 %.
    const TABLE_5: [usize; 9] = [0, 2, 16, 285, 369, 191, 69, 33, 34];

    #[test]
    fn the_heuristics_choose_as_in_so() {
        assert_eq!(most_likely(&TABLE_5), Some(4));
        for (threshold, depth) in [(0.5, 4), (0.75, 5), (0.9, 6), (1.0, 8)] {
            assert_eq!(cumulative_threshold(&TABLE_5, threshold), Some(depth), "{threshold}");
        }
    }

    #[test]
    fn without_rules_below_the_root_the_depth_is_the_largest() {
        for start in [StartDepth::MostLikely, StartDepth::CumulativeThreshold(0.75)] {
            assert_eq!(start.choose(&[0; 9]), COMPONENTS_MAX);
            assert_eq!(start.choose(&[1, 0, 0]), COMPONENTS_MAX);
            assert_eq!(start.choose(&[1, 0, 2]), 2);
        }
        assert_eq!(StartDepth::Fixed(3).choose(&TABLE_5), 3);
        assert_eq!(most_likely(&[9, 4, 4]), Some(1));
    }
}
