use byname_wire::{Component, PrefixHashes};

use super::*;
use crate::entry::EntryId;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn name(uri: &str) -> Name {
    Name::from_components(uri.split('/').filter(|c| !c.is_empty()).map(|c| Component::generic(c.as_bytes())))
}

fn engine(children: u32, prefixes_max: usize) -> LevelPulling {
    LevelPulling::new(KEY, Options { children, prefixes_max, ..Options::default() }).expect("small")
}

fn set(engine: &mut LevelPulling, uri: &str, entry: u32) {
    engine.apply(&[Change::Set(name(uri), EntryId(entry))]).expect("room");
}

fn remove(engine: &mut LevelPulling, uri: &str) {
    engine.apply(&[Change::Remove(name(uri))]).expect("no room needed");
}

/// The entry for a name, and the tables that were probed for it.
fn look(engine: &LevelPulling, uri: &str) -> (Option<u32>, usize) {
    let (name, mut hashes) = (name(uri), PrefixHashes::default());
    let view = NameView::new(&KEY, name.as_ref(), &mut hashes);
    (engine.query().longest_match(&view).map(|found| found.entry.0), engine.hash_lookups(&view))
}

/// [Yuan §4]: more than T children, here three, make a prefix a starting point.
#[test]
fn children_of_a_popular_prefix_cost_one_table() {
    let mut engine = engine(3, 10);
    set(&mut engine, "/1/2/3/4/5/6/7", 7);
    set(&mut engine, "/p", 9);
    for child in 1..=3 {
        set(&mut engine, &format!("/p/{child}"), child);
    }
    assert_eq!(engine.starting_points(), 0);
    assert_eq!(look(&engine, "/p/2/x/y/z"), (Some(2), 2));
    set(&mut engine, "/p/4", 4);
    assert_eq!(engine.starting_points(), 1);
    assert_eq!(look(&engine, "/p/2/x/y/z"), (Some(2), 1));
    // An unknown child: the prefix's own match, and nothing else is probed.
    assert_eq!(look(&engine, "/p/unknown/x/y/z"), (Some(9), 1));
    assert_eq!(look(&engine, "/p"), (Some(9), 0));
    assert_eq!(look(&engine, "/q/2/x/y/z").0, None);
}

#[test]
fn deeper_rules_below_a_popular_prefix_are_found_through_its_children() {
    let mut engine = engine(2, 10);
    // The children come by different ways: rules, and rules far below them.
    let rules = ["/p/q/a", "/p/q/b/1/2/3/4", "/p/q/c/1/2", "/p/q/c/1/3", "/p"];
    for (entry, rule) in (1..).zip(rules) {
        set(&mut engine, rule, entry);
    }
    assert_eq!(engine.starting_points(), 1);
    for (entry, rule) in (1..).zip(rules) {
        assert_eq!(look(&engine, &format!("{rule}/x")).0, Some(entry), "{rule}");
    }
    for uri in ["/p/q/b/1/2/3/x", "/p/q/b/x", "/p/q/x", "/p/q", "/p/q/c/1/x"] {
        assert_eq!(look(&engine, uri).0, Some(5), "{uri}");
    }
    // Rules that come or change later are also found and inherited.
    set(&mut engine, "/p/q/d/1/2/3", 6);
    set(&mut engine, "/p/q", 7);
    assert_eq!(look(&engine, "/p/q/d/1/2/3/x").0, Some(6));
    for uri in ["/p/q/b/1/2/3/x", "/p/q/d/x", "/p/q/x", "/p/q"] {
        assert_eq!(look(&engine, uri).0, Some(7), "{uri}");
    }
    remove(&mut engine, "/p/q");
    assert_eq!(look(&engine, "/p/q/x").0, Some(5));
}

#[test]
fn a_prefix_leaves_at_three_quarters_of_the_threshold_and_takes_its_markers_along() {
    let (mut engine, mut plain) = (engine(8, 10), BinarySearch::new(KEY, Default::default()).expect("small"));
    let rule = |i: u32| format!("/p/q/r/{i}/x/y");
    for i in 0..20 {
        set(&mut engine, &rule(i), i);
        plain.apply(&[Change::Set(name(&rule(i)), EntryId(i))]).expect("room");
    }
    assert_eq!(engine.starting_points(), 1);
    // A marker at the prefix itself; those of the children are there anyway, at length four.
    assert_eq!(engine.prefixes(), plain.prefixes() + 1);
    for i in (7..20).rev() {
        remove(&mut engine, &rule(i));
        assert_eq!(engine.starting_points(), 1, "{i} are left");
    }
    remove(&mut engine, &rule(6));
    assert_eq!((engine.starting_points(), engine.prefixes()), (0, 2 * 6));
    assert_eq!(look(&engine, &rule(5)), (Some(5), 2));
    (0..6).for_each(|i| remove(&mut engine, &rule(i)));
    assert_eq!((engine.prefixes(), engine.len()), (0, 0));
}

#[test]
fn starting_points_are_bounded_and_the_root_is_none() {
    let mut engine = engine(1, 3);
    for top in 0..10 {
        for child in 0..3 {
            set(&mut engine, &format!("/{top}/{child}"), top);
        }
    }
    assert_eq!(engine.starting_points(), 3);
    assert!((0..10).all(|top| look(&engine, &format!("/{top}/2/x")).0 == Some(top)));
    // Room for another.
    remove(&mut engine, "/0/0");
    remove(&mut engine, "/0/1");
    assert_eq!(engine.starting_points(), 2);
    set(&mut engine, "/9/new", 1);
    assert_eq!(engine.starting_points(), 3);
    assert_eq!(look(&engine, "/9/2/x/y"), (Some(9), 1));
}

#[test]
fn starting_points_nest() {
    let mut engine = engine(2, 10);
    for (i, a) in (0..).zip(["a", "b", "c"]) {
        for (j, b) in (0..).zip(["d", "e", "f"]) {
            set(&mut engine, &format!("/p/{a}/{b}"), 10 * i + j);
        }
    }
    assert_eq!(engine.starting_points(), 4);
    assert_eq!(look(&engine, "/p/b/f/x/y/z"), (Some(12), 1));
    assert_eq!(look(&engine, "/p/x/f/x/y/z"), (None, 1));
    for a in ["a", "b", "c"] {
        ["d", "e", "f"].iter().for_each(|b| remove(&mut engine, &format!("/p/{a}/{b}")));
    }
    assert_eq!((engine.starting_points(), engine.prefixes()), (0, 0));
}
