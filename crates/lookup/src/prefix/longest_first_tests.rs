use byname_wire::PrefixHashes;

use super::*;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn name(components: &[&str]) -> Name {
    components.iter().fold(Name::default(), |name, c| name.join(Component::generic(c.as_bytes())))
}

fn longest(fib: &dyn PrefixFib, name: &Name) -> Option<(u32, usize)> {
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&KEY, name.as_ref(), &mut prefixes);
    fib.longest_match(&view).map(|m| (m.entry.0, m.depth))
}

fn prepared(hash: u64, check: u64, entry: Option<u32>) -> Prepared {
    Prepared { hash, check, depth: 3, entry: entry.map(EntryId) }
}

#[test]
fn a_replaced_query_half_stays_as_it_was() {
    let mut control = LongestFirst::new(KEY, 10_000);
    let (a, ab) = (name(&["a"]), name(&["a", "b"]));
    control.apply(&[Change::Set(a.clone(), EntryId(1))]).expect("room");
    let old = control.query();
    let many: Vec<_> = (0..1000).map(|i| Change::Set(name(&["x", &i.to_string()]), EntryId(i))).collect();
    let Update::Replace(new) = control.apply(&many).expect("room") else { panic!("1000 rules in 16 buckets") };
    control.apply(&[Change::Set(ab.clone(), EntryId(2)), Change::Remove(a.clone())]).expect("room");
    assert_eq!(longest(&*old, &ab), Some((1, 1)));
    assert_eq!(longest(&*new, &ab), Some((2, 2)));
    assert_eq!(longest(&*new, &a), None);
}

#[test]
fn small_changes_are_made_in_place() {
    let mut control = LongestFirst::new(KEY, 100);
    let fib = control.query();
    let a = name(&["a"]);
    for (change, answer) in [
        (Change::Set(a.clone(), EntryId(7)), Some((7, 1))),
        (Change::Set(a.clone(), EntryId(8)), Some((8, 1))),
        (Change::Remove(a.clone()), None),
        (Change::Remove(a.clone()), None),
        (Change::Set(Name::default(), EntryId(9)), Some((9, 0))),
    ] {
        assert!(matches!(control.apply(&[change]), Ok(Update::Patched)));
        assert_eq!(longest(&*fib, &a), answer);
    }
    assert_eq!(control.len(), 1);
}

#[test]
fn the_second_name_of_a_digest_is_refused_and_nothing_of_its_batch_applied() {
    let mut control = LongestFirst::new(KEY, 100);
    control.change(&prepared(5, 10, Some(1)));
    assert_eq!(control.admit(&[prepared(6, 1, Some(1)), prepared(5, 11, Some(2))]), Err(BuildError::Collision));
    assert_eq!(control.admit(&[prepared(7, 1, Some(1)), prepared(7, 2, Some(1))]), Err(BuildError::Collision));
    assert_eq!(control.admit(&[prepared(7, 1, Some(1)), prepared(7, 1, Some(2))]), Ok(2));
    // Removing a name that was never accepted does not touch the one that has its digest.
    control.change(&prepared(5, 11, None));
    assert_eq!(control.table.find(5, 3), Some((0, EntryId(1))));
    // The same digest at another depth is another rule.
    assert_eq!(control.table.find(5, 2), None);
}

#[test]
fn a_full_table_refuses_whole_batches() {
    let mut control = LongestFirst::new(KEY, 2);
    let set = |c: &str| Change::Set(name(&[c]), EntryId(1));
    let remove = |c: &str| Change::Remove(name(&[c]));
    control.apply(&[set("a"), set("b")]).expect("two fit");
    assert_eq!(control.apply(&[remove("x"), set("c")]).unwrap_err(), BuildError::Full { rules: 2 });
    assert_eq!(longest(&*control.query(), &name(&["c"])), None);
    assert_eq!(control.apply(&[set("c"), remove("a")]).unwrap_err(), BuildError::Full { rules: 2 });
    control.apply(&[remove("a"), set("c"), set("b"), set("c")]).expect("one out, one in");
    assert_eq!(control.len(), 2);
    assert_eq!(longest(&*control.query(), &name(&["c"])), Some((1, 1)));
}

#[test]
fn a_name_deeper_than_any_packet_is_refused() {
    let mut control = LongestFirst::new(KEY, 2);
    let deep = name(&["a"; DEPTHS]);
    assert_eq!(control.apply(&[Change::Set(deep, EntryId(1))]).unwrap_err(), BuildError::TooDeep { depth: DEPTHS });
    control.apply(&[Change::Set(name(&["a"; DEPTHS - 1]), EntryId(1))]).expect("128 components");
    assert_eq!(longest(&*control.query(), &name(&["a"; DEPTHS - 1])), Some((1, DEPTHS - 1)));
}

#[test]
fn places_are_used_again_only_after_reclaim() {
    let mut control = LongestFirst::new(KEY, 10);
    let a = name(&["a"]);
    for i in 0..5 {
        control.apply(&[Change::Set(a.clone(), EntryId(i))]).expect("room");
    }
    assert_eq!((control.unused_from, control.retired.len()), (5, 4));
    control.reclaim();
    for i in 0..4 {
        control.apply(&[Change::Remove(a.clone()), Change::Set(a.clone(), EntryId(i))]).expect("room");
    }
    assert_eq!((control.unused_from, control.free.len()), (5, 0));
}

#[test]
fn room_that_is_never_reclaimed_runs_out_with_an_error() {
    let mut control = LongestFirst::new(KEY, 1);
    let a = name(&["a"]);
    let room = control.table.rules.capacity() as u32;
    let replace = |i| [Change::Set(a.clone(), EntryId(i))];
    for i in 0..room {
        control.apply(&replace(i)).expect("room");
    }
    assert_eq!(control.apply(&replace(room)).unwrap_err(), BuildError::Full { rules: 1 });
    control.reclaim();
    control.apply(&replace(room)).expect("reclaimed");
}

#[test]
fn overflow_beyond_the_table_doubles_it() {
    let mut control = LongestFirst::new(KEY, 10_000);
    // All in bucket 0, whatever the size.
    let crowd: Vec<_> = (0..200u64).map(|i| prepared(i << 32, i, Some(i as u32))).collect();
    for change in &crowd {
        control.change(change);
    }
    for change in &crowd {
        assert_eq!(control.find_rule(change).map(|(_, entry)| entry), change.entry);
    }
    assert_eq!(control.len(), 200);
}
