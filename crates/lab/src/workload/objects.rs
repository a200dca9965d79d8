//! Flat names below one prefix, as content hashes are: `/objects/HASH`, with 32 random bytes in place of a hash.
//!
//! Rules ascend, and none is held in memory. So the first eight bytes of the hashes are a *stratified* sample: the numbers
//! of 64 bits are divided into as many strata as there are rules, and each rule takes a random number of its own stratum.

use byname_lookup::EntryId;
use byname_wire::name::component_type;
use byname_wire::{Name, NameRef};

use super::random::{Random, mix};
use super::{Workload, count_depths};

/// The prefix of all names.
pub const PREFIX: &str = "/objects";
/// Number of different entries: ways to the content. A flat table needs four bits for one.
pub const WAYS: u32 = 16;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// The rules.
pub struct Objects {
    rules: u64,
    seed: u64,
    prefix: Name,
    /// Size of a stratum.
    step: u64,
}

impl Objects {
    /// Makes `rules` rules.
    pub fn new(rules: u64, seed: u64) -> Self {
        let prefix = PREFIX.parse().expect("a literal name");
        Objects { rules, seed, prefix, step: u64::MAX / rules.max(1) }
    }

    fn write(&self, first: u64, random: &mut Random, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix.value());
        out.extend([component_type::GENERIC as u8, HASH_BYTES as u8]);
        out.extend(first.to_be_bytes());
        (8..HASH_BYTES).step_by(8).for_each(|_| out.extend(random.bits().to_be_bytes()));
    }
}

impl Workload for Objects {
    fn rules(&self) -> u64 {
        self.rules
    }

    fn rules_by_depth(&self) -> Vec<u64> {
        match self.rules {
            0 => count_depths(std::iter::empty()),
            rules => vec![0, 0, rules],
        }
    }

    fn bulk_nodes(&self) -> Option<u64> {
        // The prefix is a branch.
        Some(self.rules + 1)
    }

    fn write_rule(&self, i: u64, out: &mut Vec<u8>) {
        let mut random = Random::of(self.seed, i);
        let first = i * self.step + random.below(self.step);
        self.write(first, &mut random, out);
    }

    fn targets(&self) -> u64 {
        self.rules
    }

    fn write_target(&self, t: u64, out: &mut Vec<u8>) {
        self.write_rule(t, out);
    }

    fn write_miss(&self, random: &mut Random, out: &mut Vec<u8>) {
        // The odds of another rule's 32 bytes are those of a collision.
        let first = random.bits();
        self.write(first, random, out);
    }

    fn covering(&self, name: NameRef<'_>) -> Option<u64> {
        let component = name.components().nth(self.prefix.as_ref().len())?;
        let (first, _) = component.value.split_first_chunk()?;
        let i = (u64::from_be_bytes(*first) / self.step).min(self.rules.checked_sub(1)?);
        let mut rule = Vec::new();
        self.write_rule(i, &mut rule);
        NameRef::new_checked_before(&rule).is_prefix_of(&name).then_some(i)
    }

    fn entry(&self, i: u64) -> EntryId {
        EntryId((mix(i) >> 32) as u32 % WAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ascend_and_are_found_again() {
        for count in [0, 1, 2, 1000] {
            let (objects, mut last, mut name) = (Objects::new(count, 3), Vec::new(), Vec::new());
            for i in 0..count {
                objects.write_rule(i, &mut name);
                let checked = NameRef::new(&name).expect("well-formed");
                assert!(checked > NameRef::new_checked_before(&last));
                assert_eq!((checked.len(), objects.covering(checked)), (2, Some(i)));
                last.clone_from(&name);
            }
            objects.write_miss(&mut Random::new(4), &mut name);
            assert_eq!(objects.covering(NameRef::new(&name).expect("well-formed")), None);
        }
    }
}
