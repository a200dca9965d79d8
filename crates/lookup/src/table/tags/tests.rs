use std::collections::BTreeMap;

use super::*;

/// Sets from a small vocabulary.
fn sets(count: usize, seed: u64) -> impl Iterator<Item = Vec<String>> {
    let mut state = seed;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut tags: Vec<_> =
            (0..(state >> 60) % 6).map(|i| format!("tag {}", (state >> (20 + 6 * i)) % 13)).collect();
        tags.sort();
        tags.dedup();
        tags
    })
}

#[test]
fn tables_answer_as_a_map_of_sets_under_changes() {
    let mut table = TagTable::new().expect("a little memory");
    let mut right: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for (i, set) in sets(3000, 4).enumerate() {
        if i % 3 == 0 {
            assert_eq!(table.remove(&set).expect("few tags"), right.remove(&set));
        } else {
            let value = i as u64 % 2500;
            assert_eq!(table.insert(&set, value).expect("room"), right.insert(set, value));
        }
    }
    let changes: Vec<_> = sets(200, 6).map(|set| (set.clone(), (set.len() != 2).then_some(9))).collect();
    for (set, value) in changes.clone() {
        match value {
            Some(value) => right.insert(set, value),
            None => right.remove(&set),
        };
    }
    table.apply(changes).expect("room");
    assert_eq!(table.len(), right.len());
    let mut reader = table.reader();
    let asked: Vec<_> = sets(300, 5).collect();
    let mut all = Vec::new();
    reader.subsets_all(&asked, &mut all).expect("few tags");
    for (set, mut found) in asked.iter().zip(all) {
        let is_subset = |small: &Vec<String>| small.iter().all(|tag| set.contains(tag));
        let mut expected: Vec<_> =
            right.iter().filter(|(small, _)| is_subset(small)).map(|(_, value)| *value).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{set:?}");
        let mut one = reader.subsets(set).expect("few tags");
        one.sort();
        assert_eq!(one, expected);
        assert_eq!(reader.largest(set).expect("few tags").is_some(), !expected.is_empty());
    }
}

#[test]
fn too_many_tags_and_too_long_searches_are_errors() {
    let mut table = TagTable::with_options(&TagOptions { steps_max: 50, ..TagOptions::default() }).expect("memory");
    let many: Vec<_> = (0..33).map(|i| i.to_string()).collect();
    assert!(matches!(table.insert(&many, 1), Err(TableError::Key(KeyError::Tags(_)))));
    assert!(matches!(table.reader().subsets(&many), Err(TableError::Key(KeyError::Tags(_)))));
    table
        .apply((0..1000).map(|i| (["all".to_owned(), format!("x{}", i % 32), format!("y{i}")], Some(1))))
        .expect("room");
    let tags = (0..31).map(|i| format!("x{i}")).chain(["all".to_owned()]);
    let tags: Vec<_> = tags.collect();
    assert!(matches!(table.reader().subsets(&tags), Err(TableError::Effort { steps: 50 })));
    assert!(matches!(table.reader().largest(&tags), Err(TableError::Effort { steps: 50 })));
}

#[test]
fn panics_in_callbacks_change_nothing_and_readers_outlive_their_tables() {
    let mut table = TagTable::new().expect("a little memory");
    table.apply((0..500u32).map(|i| ([format!("t{i}")], Some(i)))).expect("room");
    let changes = (0..100u32).map(|i| {
        assert!(i < 50, "as planned");
        ([format!("t{i}")], None)
    });
    let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.apply(changes)));
    assert!(applied.is_err() && table.len() == 500);
    table.remove(["t7"]).expect("one tag");
    let mut reader = table.reader();
    drop(table);
    let thread = std::thread::spawn(move || {
        (0..500).all(|i| reader.subsets([format!("t{i}"), "x".into()]).expect("few tags").len() == usize::from(i != 7))
    });
    assert!(thread.join().expect("lookups do not panic"));
}

#[test]
fn files_answer_as_their_tables_and_are_changed_and_saved_again() {
    let path = std::env::temp_dir().join(format!("byname-tag-table-{}.table", std::process::id()));
    let mut table = TagTable::new().expect("a little memory");
    table.apply(sets(3000, 8).enumerate().map(|(i, set)| (set, Some(format!("value {}", i % 700))))).expect("room");
    table.save(&path).expect("a new file");
    let same = |a: &TagTable<String>, b: &TagTable<String>| {
        assert_eq!(a.len(), b.len());
        for set in sets(200, 5) {
            let [mut a, mut b] = [a, b].map(|table| table.reader().subsets(&set).expect("few tags"));
            a.sort();
            b.sort();
            assert_eq!(a, b, "{set:?}");
        }
    };
    let mut opened = TagTable::open(&path, Opening::default(), &TagOptions::default()).expect("ours");
    same(&table, &opened);
    // Values of the file are freed with their last set, and come again.
    for round in 0..4u64 {
        for table in [&mut table, &mut opened] {
            for (i, set) in sets(3000, 8 + round).enumerate() {
                let value = (i % 3 != 0).then(|| format!("value {} of {round}", i % 1500));
                table.apply([(set, value)]).expect("room");
            }
        }
        same(&table, &opened);
    }
    opened.save(&path).expect("over the old one");
    same(&table, &TagTable::open(&path, Opening::default(), &TagOptions::default()).expect("ours"));
    let other = TagTable::<u64>::open(&path, Opening::default(), &TagOptions::default());
    assert!(matches!(other, Err(TableError::File(FileError::Malformed { .. }))));
    let few = TagTable::<String>::open(&path, Opening::default(), &TagOptions { sets_max: 3, ..TagOptions::default() });
    assert!(matches!(few, Err(TableError::File(FileError::Malformed { .. }))));
    std::fs::remove_file(&path).expect("ours");
}
