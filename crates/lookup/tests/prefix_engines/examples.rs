//! The papers' worked examples, and the rule for `/`.

use byname_lookup::{Change, EntryId, PrefixMatch};
use byname_wire::Name;

use crate::engines::{ALL, Kind, Subject, longest};
use crate::names::name;

/// A table of `rules`, whose entries are their positions.
fn table(kind: &Kind, rules: &[&str]) -> Subject {
    let mut subject = Subject::new(kind);
    let changes: Vec<_> = (0..).zip(rules).map(|(i, rule)| Change::Set(name(rule), EntryId(i))).collect();
    subject.apply(&changes).expect("few rules");
    subject
}

/// Asserts the rule that each name matches, by position, and its depth.
fn assert_matches(rules: &[&str], asked: &[(&str, Option<(u32, usize)>)]) {
    for kind in ALL {
        let subject = table(kind, rules);
        for &(uri, right) in asked {
            let right = right.map(|(entry, depth)| PrefixMatch { entry: EntryId(entry), depth });
            assert_eq!(longest(&*subject.fib, &name(uri)), right, "{} {uri}", kind.name);
        }
    }
}

/// [Yuan §3.1]: a search that passes a marker at `/a/b` must still find `/a`. A search that finds
/// nothing at depth four must still find `/a/b/c`.
#[test]
fn the_worked_example_of_yuan() {
    let asked = [
        ("/a/b/random", Some((0, 1))),
        ("/a/b/c/random", Some((1, 3))),
        ("/a/b/c/d/e", Some((2, 4))),
        ("/a/b/c/d", Some((2, 4))),
        ("/b", None),
    ];
    assert_matches(&["/a", "/a/b/c", "/a/b/c/d"], &asked);
}

/// [So §2.3].
#[test]
fn the_worked_example_of_so() {
    let asked = [
        ("/a/b/c/d/e/f", Some((2, 4))),
        ("/a/c/d/e/f/g", Some((0, 1))),
        ("/a/b/d/e/f/g", Some((1, 3))),
        ("/a/b/c/d", Some((2, 4))),
    ];
    assert_matches(&["/a", "/a/b/d", "/a/b/c/d"], &asked);
}

#[test]
fn the_root_is_a_rule_like_any_other() {
    for kind in ALL {
        let mut subject = Subject::new(kind);
        let root = |entry| Change::Set(Name::default(), EntryId(entry));
        let matched = |entry| Some(PrefixMatch { entry: EntryId(entry), depth: 0 });
        assert_eq!(longest(&*subject.fib, &Name::default()), None, "{}", kind.name);
        for entry in [3, 4] {
            subject.apply(&[root(entry)]).expect("one rule");
            assert_eq!(longest(&*subject.fib, &Name::default()), matched(entry), "{}", kind.name);
            assert_eq!(longest(&*subject.fib, &name("/a/b")), matched(entry), "{}", kind.name);
        }
        subject.apply(&[Change::Remove(Name::default())]).expect("removing needs no room");
        assert_eq!(longest(&*subject.fib, &name("/a/b")), None, "{}", kind.name);
    }
}
