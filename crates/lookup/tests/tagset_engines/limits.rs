//! The maximum cost of a packet, and of descriptors that come and go.

use std::ops::ControlFlow;

use byname_lookup::tagset::{Effort, TagQuery};
use byname_lookup::{Change, EntryId};
use byname_wire::Descriptor;
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
        let (entry, walk): (_, Effort) = subject.fib.largest_subset(&TagQuery::of_filter(all), &mut |_| true);
        assert!(walk.steps <= kind.steps_max && (walk.cut_off || entry.is_some()), "{}: {walk:?}", kind.name);
    }
}

/// Room of removed descriptors is given back or reused.
#[test]
fn no_engine_grows_by_coming_and_going() {
    let family = FAMILIES.iter().find(|family| family.name == "many tags").expect("it is there");
    for kind in ALL {
        let (mut random, mut subject, mut bytes) = (Random(5), Subject::new(kind), Vec::new());
        for _ in 0..10 {
            let descriptors: Vec<_> = (0..1000).map(|_| family.descriptor(&mut random)).collect();
            for set in [true, false] {
                for batch in descriptors.chunks(100) {
                    let change = |descriptor: &Descriptor| match set {
                        true => Change::Set(descriptor.clone(), EntryId(1)),
                        false => Change::Remove(descriptor.clone()),
                    };
                    subject.apply(&batch.iter().map(change).collect::<Vec<_>>()).expect("room");
                    subject.engine.reclaim();
                }
                bytes.push(subject.fib.memory_bytes());
            }
        }
        // In the first rounds, room may still grow to a size that fits. Sizes depend a little on the descriptors.
        let (early, late) = (bytes[..8].iter().max(), bytes[8..].iter().max());
        let (early, late) = (early.expect("four rounds"), late.expect("six rounds"));
        assert!(late * 4 <= early * 5, "{}: {bytes:?} bytes", kind.name);
    }
}
