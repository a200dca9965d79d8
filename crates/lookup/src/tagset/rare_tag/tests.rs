//! Tests of tables built in one step, and of what changes leave behind.

use std::ops::ControlFlow;

use byname_wire::tagset::TagDigest;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::entry::EntryId;
use crate::oracle::TagsetOracle;
use crate::tagset::TagQuery;

/// Up to six tags. Small numbers are popular.
fn descriptor(rng: &mut SmallRng) -> Descriptor {
    let tags = rng.random_range(0..7);
    let tag = |_| TagDigest(((1000.0 * rng.random::<f64>().powi(4)) as u32).wrapping_mul(0x9e37_79b1));
    Descriptor::from_digests((0..tags).map(tag)).expect("few tags")
}

fn sets(rng: &mut SmallRng, count: u32) -> Vec<(Descriptor, EntryId)> {
    (0..count).map(|entry| (descriptor(rng), EntryId(entry))).collect()
}

fn all(fib: &dyn TagsetFib, query: &TagQuery<'_>) -> Vec<EntryId> {
    let mut found = Vec::new();
    fib.all_subsets(query, &mut |entry| {
        found.push(entry);
        ControlFlow::Continue(())
    });
    found.sort_unstable();
    found
}

fn assert_as_oracle(table: &RareTag, oracle: &TagsetOracle, rng: &mut SmallRng) {
    assert_eq!(table.len(), oracle.len());
    let fib = table.query();
    for _ in 0..300 {
        let packet = descriptor(rng);
        for query in [TagQuery::of_tags(packet.tags()), TagQuery::of_filter(packet.filter())] {
            assert_eq!(all(&*fib, &query), all(oracle, &query));
            let largest = oracle.largest_subset(&query, &mut |_| true).0;
            assert_eq!(fib.largest_subset(&query, &mut |_| true).0, largest);
        }
    }
}

#[test]
fn a_table_made_at_once_answers_as_the_oracle_and_changes_like_any_other() {
    let mut rng = SmallRng::seed_from_u64(5);
    let descriptors = sets(&mut rng, 5000);
    let mut table = RareTag::load(3, &Options::default(), descriptors.clone()).expect("room");
    let mut oracle = TagsetOracle::new();
    let changes: Vec<_> = descriptors.into_iter().map(|(descriptor, entry)| Change::Set(descriptor, entry)).collect();
    oracle.apply(&changes).expect("the oracle takes all");
    assert_as_oracle(&table, &oracle, &mut rng);
    for (removed, (added, entry)) in changes.iter().zip(sets(&mut rng, 4000)) {
        let (Change::Set(removed, _) | Change::Remove(removed)) = removed;
        let batch = [Change::Remove(removed.clone()), Change::Set(added, entry)];
        table.apply(&batch).expect("room");
        table.reclaim();
        oracle.apply(&batch).expect("the oracle takes all");
    }
    assert_as_oracle(&table, &oracle, &mut rng);
}

#[test]
fn what_is_removed_leaves_no_tags_and_no_memory() {
    let mut rng = SmallRng::seed_from_u64(6);
    let mut table = RareTag::new(3, &Options::default()).expect("little memory");
    let mut bytes = Vec::new();
    for _ in 0..6 {
        let descriptors = sets(&mut rng, 3000);
        for (descriptor, entry) in &descriptors {
            table.apply(&[Change::Set(descriptor.clone(), *entry)]).expect("room");
            table.reclaim();
        }
        for (descriptor, _) in &descriptors {
            table.apply(&[Change::Remove(descriptor.clone())]).expect("room");
            table.reclaim();
        }
        assert!(table.is_empty() && table.counts.tags().next().is_none());
        bytes.push(table.query().memory_bytes());
    }
    // Blocks of earlier rounds are reused.
    assert!(bytes[5] < bytes[0] * 3 / 2, "{bytes:?}");
}

#[test]
fn a_full_table_refuses_a_batch_whole() {
    let options = Options { descriptors_max: 2, ..Options::default() };
    let set = |tags: &[u32], entry| {
        Change::Set(Descriptor::from_digests(tags.iter().map(|tag| TagDigest(*tag))).expect("few"), EntryId(entry))
    };
    let mut table = RareTag::new(3, &options).expect("little memory");
    table.apply(&[set(&[1], 1), set(&[], 2)]).expect("room");
    assert_eq!(table.apply(&[set(&[1], 7), set(&[2], 3)]).map(|_| ()), Err(BuildError::Full { rules: 2 }));
    assert_eq!(all(&*table.query(), &TagQuery::of_tags(&[TagDigest(1)])), [EntryId(1), EntryId(2)]);
    let three = [&[1][..], &[2], &[3]].map(|tags| (tags, 0)).map(|(tags, entry)| match set(tags, entry) {
        Change::Set(descriptor, entry) => (descriptor, entry),
        Change::Remove(_) => unreachable!("set"),
    });
    assert_eq!(RareTag::load(3, &options, three).map(|_| ()), Err(BuildError::Full { rules: 2 }));
}
