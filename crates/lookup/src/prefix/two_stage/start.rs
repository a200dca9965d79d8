//! Which start depth M to take: the heuristics of [So §2.3].
//!
//! Both look only at how many rules there are of each depth. Neither weighs the virtual rules that
//! an M needs, which the paper would have count against it:
//! [`TwoStage::virtual_entries`](super::TwoStage::virtual_entries) tells them.

use byname_wire::name::COMPONENTS_MAX;

/// How the start depth is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StartDepth {
    /// This one, 1 to 128.
    Fixed(usize),
    /// The depth that most rules have.
    MostLikely,
    /// The least depth such that this share of all rules, 0 to 1, is no deeper.
    CumulativeThreshold(f64),
}

impl Default for StartDepth {
    /// That of three quarters: the best M of [So, Table 5]. The most likely depth may be the first,
    /// where rules nest, and every name that a stranger puts below a rule then goes through both
    /// stages while a miss reads one bucket.
    fn default() -> Self {
        StartDepth::CumulativeThreshold(0.75)
    }
}

impl StartDepth {
    /// The start depth for `rules[d]` rules of each depth `d`; the largest while there are none.
    pub(super) fn choose(self, rules: &[usize]) -> usize {
        let chosen = match self {
            StartDepth::Fixed(depth) => Some(depth),
            StartDepth::MostLikely => most_likely(rules),
            StartDepth::CumulativeThreshold(threshold) => cumulative_threshold(rules, threshold),
        };
        chosen.unwrap_or(COMPONENTS_MAX)
    }
}

/// The depth from 1 that most of `rules[depth]` have, the least of several; `None` without rules.
pub fn most_likely(rules: &[usize]) -> Option<usize> {
    let most = *rules.iter().skip(1).max().filter(|&&most| most > 0)?;
    (1..rules.len()).find(|&depth| rules[depth] == most)
}

/// The least depth from 1 at which the rules up to it, of `rules[depth]`, reach the share
/// `threshold` of all below `/`; `None` without rules.
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

    /// [So, Table 5], in tenths of a percent; the first two depths share 1.8 %.
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
