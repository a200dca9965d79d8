use byname_wire::{Component, PrefixHashes};

use super::*;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn rule(i: u64) -> Name {
    Name::default().join(Component::generic(b"rule")).join_number(8, i)
}

fn set(i: u64, entry: u32) -> Change<Name> {
    Change::Set(rule(i), EntryId(entry))
}

fn longest(fib: &dyn PrefixFib, name: &Name) -> Option<(u32, usize)> {
    let mut prefixes = PrefixHashes::default();
    fib.longest_match(&NameView::new(&KEY, name.as_ref(), &mut prefixes)).map(|m| (m.entry.0, m.depth))
}

fn tier_lens(control: &Learned) -> [usize; 3] {
    let Table { recent, middle, old, .. } = &*control.table;
    [recent.len(), middle.len(), old.len()]
}

fn prepared(hash: u64, check: u64, entry: Option<u32>) -> Prepared {
    Prepared { record: Record { digest: Digest { hash, check }, entry: entry.map(EntryId) }, depth: 3 }
}

#[test]
fn runs_are_merged_when_they_outgrow_their_share_and_forget_removed_rules_in_the_end() {
    let mut control = Learned::new(KEY, 100_000);
    control.apply(&(0..256).map(|i| set(i, 1)).collect::<Vec<_>>()).expect("room");
    assert_eq!(tier_lens(&control), [256, 0, 0]);
    control.apply(&[set(256, 1)]).expect("room");
    assert_eq!(tier_lens(&control), [0, 257, 0]);
    control.apply(&(0..4000).map(|i| set(i, 2)).collect::<Vec<_>>()).expect("room");
    assert_eq!(tier_lens(&control), [0, 4000, 0]);
    control.apply(&(3000..8000).map(|i| set(i, 3)).collect::<Vec<_>>()).expect("room");
    assert_eq!((tier_lens(&control), control.len()), ([0, 0, 8000], 8000));
    let remove = |range: std::ops::Range<u64>| range.map(|i| Change::Remove(rule(i))).collect::<Vec<_>>();
    control.apply(&remove(0..1000)).expect("removing needs no room");
    assert_eq!((tier_lens(&control), control.len()), ([0, 1000, 8000], 7000));
    control.apply(&remove(1000..6000)).expect("removing needs no room");
    assert_eq!((tier_lens(&control), control.len()), ([0, 0, 2000], 2000));
    let fib = control.query();
    assert_eq!((longest(&*fib, &rule(5999)), longest(&*fib, &rule(6000))), (None, Some((3, 2))));
}

#[test]
fn a_query_half_stays_as_it_was() {
    let mut control = Learned::new(KEY, 100);
    control.apply(&[set(1, 1)]).expect("room");
    let old = control.query();
    control.apply(&[set(1, 2), Change::Set(Name::default(), EntryId(9)), set(2, 3)]).expect("room");
    control.apply(&[Change::Remove(rule(1))]).expect("removing needs no room");
    assert_eq!((longest(&*old, &rule(1)), longest(&*old, &rule(2))), (Some((1, 2)), None));
    assert_eq!((longest(&*control.query(), &rule(1)), control.len()), (Some((9, 0)), 2));
}

#[test]
fn what_changes_nothing_makes_no_new_tables() {
    let mut control = Learned::new(KEY, 100);
    control.apply(&[set(1, 1)]).expect("room");
    let same = [set(1, 1), set(2, 5), Change::Remove(rule(2)), set(1, 2), set(1, 1), Change::Remove(rule(3))];
    assert!(matches!(control.apply(&same), Ok(Update::Patched)));
    assert_eq!((tier_lens(&control), control.len()), ([1, 0, 0], 1));
}

#[test]
fn a_full_table_refuses_whole_batches() {
    let mut control = Learned::new(KEY, 2);
    control.apply(&[set(1, 1), set(2, 2)]).expect("two fit");
    assert_eq!(control.apply(&[set(1, 3), set(3, 3)]).unwrap_err(), BuildError::Full { rules: 2 });
    assert_eq!(longest(&*control.query(), &rule(1)), Some((1, 2)));
    control.apply(&[set(3, 3), Change::Remove(rule(1))]).expect("one in, one out");
    assert_eq!(control.len(), 2);
}

#[test]
fn a_second_name_of_a_hash_is_refused_and_removing_it_does_nothing() {
    let mut control = Learned::new(KEY, 100);
    let Admitted { records, .. } = control.admit(&[prepared(5, 10, Some(1))]).expect("room");
    control.table = Arc::new(control.table_with(records, DepthSet::EMPTY));
    let refused = |changes: &[Prepared]| control.admit(changes).err() == Some(BuildError::Collision);
    assert!(refused(&[prepared(5, 11, Some(2))]));
    assert!(refused(&[prepared(7, 1, Some(1)), prepared(7, 2, Some(1))]));
    let nothing = control.admit(&[prepared(5, 11, None)]).expect("removing needs no room");
    assert!(nothing.records.is_empty());
}

#[test]
fn a_large_run_reads_two_lines_of_hashes_for_most_probes() {
    let mut control = Learned::new(KEY, 200_000);
    control.apply(&(0..200_000).map(|i| set(i, 1)).collect::<Vec<_>>()).expect("room");
    let lines = |i| {
        let (name, mut prefixes) = (rule(i), PrefixHashes::default());
        let view = NameView::new(&KEY, name.as_ref(), &mut prefixes);
        control.table.lines_read(&view).expect("it counts")
    };
    let mean = (0..1000).map(lines).sum::<usize>() as f64 / 1000.0;
    // At most about two lines for each of the model's three levels, two lines of hashes, and one of
    // the rest.
    assert!((4.0..9.0).contains(&mean), "{mean}");
    let bytes = control.memory_bytes() as f64 / 200_000.0;
    assert!((24.0..24.3).contains(&bytes), "{bytes}");
}
