//! What one packet can cost.

use std::ops::ControlFlow;

use byname_lookup::tagset::{TagQuery, Walk};
use byname_lookup::{Change, EntryId};
use byname_wire::tagset::{FILTER_BITS, Filter};

use crate::engines::{ALL, Subject};
use crate::suite::Random;
use crate::vocabulary::FAMILIES;

const DESCRIPTORS: usize = 20_000;

/// A packet with all bits set matches every descriptor there is.
#[test]
fn a_dense_packet_costs_no_more_than_the_limit() {
    let family = FAMILIES.iter().find(|family| family.name == "many tags").expect("it is there");
    let all = Filter::from_words([u64::MAX, u64::MAX, u64::MAX >> (192 - (FILTER_BITS - 3))]).expect("no spare bits");
    for kind in ALL {
        let (mut random, mut subject) = (Random(3), Subject::new(kind));
        let set = |_| Change::Set(family.descriptor(&mut random), EntryId(random.below(9) as u32));
        let changes: Vec<_> = (0..DESCRIPTORS).map(set).collect();
        subject.apply(&changes).expect("room, and no two of the same filter");
        let mut found = 0;
        let walk = subject.fib.all_subsets(&TagQuery::of_filter(all), &mut |_| {
            found += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(walk.cut_off, kind.steps_max < u32::MAX, "{}: {walk:?}, {found} found", kind.name);
        assert!(!walk.cut_off || walk.steps == kind.steps_max, "{}: {walk:?}", kind.name);
        let (entry, walk): (_, Walk) = subject.fib.largest_subset(&TagQuery::of_filter(all), &mut |_| true);
        assert!(walk.steps <= kind.steps_max && (walk.cut_off || entry.is_some()), "{}: {walk:?}", kind.name);
    }
}
