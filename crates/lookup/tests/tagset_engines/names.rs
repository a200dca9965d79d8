//! Hierarchical names as sets of numbered components: the largest subset is the longest prefix
//! [TagNet §2.1].

use byname_lookup::oracle::Oracle;
use byname_lookup::tagset::TagQuery;
use byname_lookup::{Change, Control, EntryId, PrefixFib};
use byname_wire::{Component, Descriptor, Name, NameHashKey, NameView, PrefixHashes};

use crate::engines::{ALL, Keeps, Subject};
use crate::suite::Random;

const COMPONENTS: [&str; 4] = ["org", "gnu", "software", "x"];
const RULES: usize = 300;
const NAMES: usize = 2000;

/// A name of at most `depth_max` components. `/a/a` and `/a` share a component, at two places.
fn name(random: &mut Random, depth_max: usize) -> Name {
    let depth = random.below(depth_max + 1);
    Name::from_components((0..depth).map(|_| Component::generic(random.pick(&COMPONENTS).as_bytes())))
}

#[test]
fn the_largest_subset_is_the_longest_prefix() {
    let key = NameHashKey::new([1, 2]);
    for kind in ALL {
        let (mut random, mut subject, mut oracle) = (Random(7), Subject::new(kind), Oracle::new());
        for number in 0..RULES {
            let (rule, entry) = (name(&mut random, 5), EntryId(number as u32));
            let descriptor = Descriptor::of_name(rule.as_ref()).expect("few components");
            subject.apply(&[Change::Set(descriptor, entry)]).expect("room");
            oracle.apply(&[Change::Set(rule, entry)]).expect("the oracle takes all");
        }
        for _ in 0..NAMES {
            let (asked, mut prefixes) = (name(&mut random, 8), PrefixHashes::default());
            let right = oracle.longest_match(&NameView::new(&key, asked.as_ref(), &mut prefixes));
            let descriptor = Descriptor::of_name(asked.as_ref()).expect("few components");
            let query = match kind.keeps {
                Keeps::Tags => TagQuery::of_tags(descriptor.tags()),
                Keeps::Filters => TagQuery::of_filter(descriptor.filter()),
            };
            let (found, walk) = subject.fib.largest_subset(&query, &mut |_| true);
            let may_miss = walk.cut_off && kind.steps_max < u32::MAX;
            assert!(may_miss || found == right.map(|m| m.entry), "{}: {asked} {found:?}, not {right:?}", kind.name);
        }
    }
}
