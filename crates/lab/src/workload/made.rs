//! Generated rules: computed from a seed and their number, in canonical order.
//!
//! `worst-case` is the population of [Yuan §3.3.1]: names of k components, each of six to ten random characters. A
//! share of 1/log2(k+1) of the names is looked up. The others only fill the tables. No two names share a first
//! component, so an engine gains nothing from common prefixes of lookups. The paper draws names without order and looks
//! up the first ones. Ours ascend (see [`components`](super::components)), and every log2(k+1)-th is looked up.
//!
//! Differs: in the paper, each name that is looked up has an entry of its own at each depth that binary search visits,
//! and the other names have none. That is not a set of rules. It shows the tables of n rules in the worst case of
//! comparing names at every match. Here each of the n rules is one name. In `nested`, the prefixes on a lookup's path
//! are different rules.
//!
//! `random` draws the depth of each rule from 1 to k. `nested` makes every prefix of a name a rule. `adversarial` has
//! the rules of `nested`, and looks up each rule followed by garbage components, up to 32 in all. For these names,
//! searches find matches of shorter and longer prefixes until their last step [So §2.3].

use byname_wire::NameRef;

use super::components::{FirstComponents, push_random};
use super::random::Random;
use super::{DEPTH_MAX, Workload, count_depths};

/// How rules are made from names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Each rule is a whole name.
    WorstCase,
    /// Each rule is a prefix of a name, with a random depth.
    Random,
    /// Every prefix of a name is a rule.
    Nested,
    /// Like `Nested`, but lookups have garbage below the rule.
    Adversarial,
}

/// Generated rules.
pub struct Made {
    shape: Shape,
    seed: u64,
    rules: u64,
    components: usize,
    firsts: FirstComponents,
}

impl Made {
    /// Makes `rules` rules of at most `components` components.
    pub fn new(shape: Shape, rules: u64, components: usize, seed: u64) -> Self {
        let names = match shape {
            Shape::WorstCase | Shape::Random => rules,
            Shape::Nested | Shape::Adversarial => rules.div_ceil(components as u64),
        };
        Made { shape, seed, rules, components, firsts: FirstComponents::new(seed, names) }
    }

    /// The name of which rule `i` is a prefix, and the rule's depth.
    #[inline]
    fn place(&self, i: u64) -> (u64, usize) {
        match self.shape {
            Shape::WorstCase => (i, self.components),
            Shape::Random => (i, 1 + Random::of(!self.seed, i).below(self.components as u64) as usize),
            Shape::Nested | Shape::Adversarial => {
                let components = self.components as u64;
                (i / components, 1 + (i % components) as usize)
            }
        }
    }

    /// Replaces `out` by the first `depth` components of a name.
    #[inline]
    fn write_prefix(&self, name: u64, depth: usize, out: &mut Vec<u8>) {
        out.clear();
        self.firsts.push(name, out);
        // The seed differs from that of the first components, so that the other components are independent of them.
        let mut random = Random::of(self.seed.wrapping_add(1), name);
        for _ in 1..depth {
            push_random(&mut random, out);
        }
    }

    /// One in this many rules is looked up: the number of steps of binary search.
    fn looked_up_every(&self) -> u64 {
        u64::from((self.components as u64 + 1).ilog2()).max(1)
    }
}

impl Workload for Made {
    fn rules(&self) -> u64 {
        self.rules
    }

    fn rules_by_depth(&self) -> Vec<u64> {
        count_depths((0..self.rules).map(|i| self.place(i).1))
    }

    fn bulk_nodes(&self) -> Option<u64> {
        // No two names share a first component, and all rules of one name are on one path.
        Some(self.rules)
    }

    fn write_rule(&self, i: u64, out: &mut Vec<u8>) {
        let (name, depth) = self.place(i);
        self.write_prefix(name, depth, out);
    }

    fn targets(&self) -> u64 {
        match self.shape {
            Shape::WorstCase => self.rules.div_ceil(self.looked_up_every()),
            Shape::Random | Shape::Nested | Shape::Adversarial => self.rules,
        }
    }

    fn write_target(&self, t: u64, out: &mut Vec<u8>) {
        match self.shape {
            Shape::WorstCase => self.write_rule(t * self.looked_up_every(), out),
            Shape::Random | Shape::Nested => self.write_rule(t, out),
            Shape::Adversarial => {
                let (name, depth) = self.place(t);
                self.write_prefix(name, depth, out);
                let mut garbage = Random::of(!self.seed, t);
                for _ in depth..DEPTH_MAX {
                    push_random(&mut garbage, out);
                }
            }
        }
    }

    fn write_miss(&self, random: &mut Random, out: &mut Vec<u8>) {
        out.clear();
        self.firsts.push_other(random, out);
        for _ in 1..self.components {
            push_random(random, out);
        }
    }

    fn covering(&self, name: NameRef<'_>) -> Option<u64> {
        let number = self.firsts.find(name.prefix(1).value())?;
        let mut whole = Vec::new();
        self.write_prefix(number, self.components, &mut whole);
        let whole = NameRef::new_checked_before(&whole);
        let shared = whole.components().zip(name.components()).take_while(|(a, b)| a == b).count();
        match self.shape {
            Shape::WorstCase | Shape::Random => (self.place(number).1 <= shared).then_some(number),
            Shape::Nested | Shape::Adversarial => {
                let last = number * self.components as u64 + shared as u64 - 1;
                Some(last.min(self.rules - 1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 4] = [Shape::WorstCase, Shape::Random, Shape::Nested, Shape::Adversarial];

    #[test]
    fn rules_ascend_in_canonical_order() {
        for shape in SHAPES {
            let made = Made::new(shape, 3001, 7, 5);
            let (mut last, mut name) = (Vec::new(), Vec::new());
            for i in 0..made.rules() {
                made.write_rule(i, &mut name);
                let checked = NameRef::new(&name).expect("well-formed");
                assert!(checked > NameRef::new_checked_before(&last), "{shape:?} {i}");
                assert!((1..=7).contains(&checked.len()));
                last.clone_from(&name);
            }
        }
    }

    #[test]
    fn random_rules_have_all_depths_alike() {
        let made = Made::new(Shape::Random, 70_000, 7, 5);
        let mut depths = [0; 8];
        for i in 0..made.rules() {
            depths[made.place(i).1] += 1;
        }
        assert!(depths[1..].iter().all(|count| (9500..10_500).contains(count)), "{depths:?}");
    }

    #[test]
    fn names_of_the_worst_case_have_the_papers_size() {
        let made = Made::new(Shape::WorstCase, 30_000, 7, 5);
        assert_eq!(made.targets(), 10_000);
        assert_eq!(Made::new(Shape::WorstCase, 32_000, 15, 5).targets(), 8_000);
        let mut name = Vec::new();
        let bytes: usize = (0..10_000)
            .map(|t| {
                made.write_target(t, &mut name);
                name.len()
            })
            .sum();
        // Seven components of eight characters on average, with two bytes before each.
        assert!((bytes as f64 / 10_000.0 - 70.0).abs() < 0.5, "{bytes}");
    }
}
