use byname_wire::Component;

use super::name_store::Forwarding;
use super::*;
use crate::prefix::PrefixMatch;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn name(uri: &str) -> Name {
    Name::from_components(uri.split('/').filter(|c| !c.is_empty()).map(|c| Component::generic(c.as_bytes())))
}

fn set(uri: &str, entry: u32) -> Change<Name> {
    Change::Set(name(uri), EntryId(entry))
}

fn remove(uri: &str) -> Change<Name> {
    Change::Remove(name(uri))
}

fn with_view<T>(uri: &str, then: impl FnOnce(&NameView<'_>) -> T) -> T {
    let (name, mut hashes) = (name(uri), PrefixHashes::default());
    then(&NameView::new(&KEY, name.as_ref(), &mut hashes))
}

fn longest(fib: &dyn PrefixFib, uri: &str) -> Option<(u32, usize)> {
    with_view(uri, |view| fib.longest_match(view)).map(|found| (found.entry.0, found.depth))
}

/// An engine, with lookups by its writer.
struct Subject(BinarySearch);

impl Subject {
    fn new(rules: &[(&str, u32)]) -> Self {
        Self::with(Options::default(), rules)
    }
    fn with(options: Options, rules: &[(&str, u32)]) -> Self {
        let mut subject = Subject(BinarySearch::new(KEY, options).expect("small"));
        rules.iter().for_each(|(uri, entry)| subject.apply(&[set(uri, *entry)]));
        subject
    }
    fn apply(&mut self, changes: &[Change<Name>]) {
        self.0.apply(changes).expect("room");
    }
    fn longest(&self, uri: &str) -> Option<(u32, usize)> {
        longest(&*self.0.query(), uri)
    }
    fn lookups(&self, uri: &str) -> usize {
        with_view(uri, |view| self.0.hash_lookups(view))
    }
    /// The entry of a name in the table of its length: the target, the number of rules below, and the leaf bit.
    fn stored(&self, uri: &str) -> Option<(Option<u32>, u32, bool)> {
        with_view(uri, |view| {
            let slot = self.0.table.find(view, view.len())?;
            let Forwarding { covered_by, rules_below } = self.0.table.names.entry(slot.entry()).forwarding(view.len());
            Some((covered_by.map(|found| found.entry.0), rules_below, slot.is_leaf()))
        })
    }
}

/// [Yuan §3.1]: `/a/b/c/d` and `/a/b/c` are rules, `/a/b` is not. A search for `/a/b/c/random` that
/// finds nothing at four must not end at `/a`. A search for `/a/b/random` must not backtrack.
#[test]
fn markers_lead_deeper_and_inherit_their_match() {
    let mut subject = Subject::new(&[("/a", 1), ("/a/b/c/d", 4)]);
    assert_eq!(subject.stored("/a/b"), None);
    subject.apply(&[set("/a/b/c", 3)]);
    assert_eq!(subject.stored("/a/b"), Some((Some(1), 1, false)));
    assert_eq!(subject.longest("/a/b/c/random"), Some((3, 3)));
    assert_eq!(subject.longest("/a/b/random"), Some((1, 1)));
    assert_eq!(subject.longest("/a/b/c/d/e/f"), Some((4, 4)));
    assert_eq!(subject.longest("/x/b/c/d"), None);
}

#[test]
fn no_search_probes_more_tables_than_the_bound() {
    let mut subject = Subject::new(&[]);
    let deep = |depth: usize| "/a".repeat(depth);
    for depth in 1..=15 {
        subject.apply(&[set(&deep(depth), depth as u32)]);
        let bound = (depth + 1).next_power_of_two().ilog2() as usize;
        for asked in 0..=20 {
            for wrong in ["", "/x", "/x/y/z/x/y/z/x/y/z/x/y/z/x/y/z/x/y/z"] {
                let uri = deep(asked) + wrong;
                assert!(subject.lookups(&uri) <= bound, "{uri} among rules of up to {depth}");
            }
        }
    }
}

#[test]
fn a_leaf_ends_the_search() {
    let mut subject = Subject::new(&[("/a/b/c/d", 4), ("/1/2/3/4/5/6/7", 7)]);
    assert_eq!(subject.stored("/a/b/c/d"), Some((Some(4), 0, true)));
    assert_eq!(subject.lookups("/a/b/c/d/e/f/g"), 1);
    subject.apply(&[set("/a/b/c/d/e/f", 6)]);
    assert_eq!(subject.stored("/a/b/c/d"), Some((Some(4), 1, false)));
    assert_eq!(subject.longest("/a/b/c/d/e/x"), Some((4, 4)));
    subject.apply(&[remove("/a/b/c/d/e/f")]);
    assert_eq!(subject.stored("/a/b/c/d"), Some((Some(4), 0, true)));
}

#[test]
fn rules_share_markers_until_the_last_of_them_goes() {
    let mut subject = Subject::new(&[("/a/b/c", 1), ("/a/b/x", 2), ("/a/b/y", 3)]);
    assert_eq!(subject.stored("/a/b"), Some((None, 3, false)));
    assert_eq!(subject.0.prefixes(), 4);
    // The marker lies in the entry of the first rule.
    subject.apply(&[remove("/a/b/c")]);
    subject.0.reclaim();
    subject.apply(&[set("/z/z/z", 9)]);
    assert_eq!(subject.stored("/a/b"), Some((None, 2, false)));
    assert_eq!(subject.longest("/a/b/y/1"), Some((3, 3)));
    subject.apply(&[remove("/a/b/y"), remove("/z/z/z"), set("/a/b", 5), remove("/a/b/x")]);
    assert_eq!(subject.stored("/a/b"), Some((Some(5), 0, true)));
    subject.apply(&[remove("/a/b")]);
    assert_eq!((subject.0.prefixes(), subject.0.len(), subject.0.table.shared.deepest()), (0, 0, 0));
}

#[test]
fn markers_inherit_each_rule_that_comes_changes_or_goes_above_them() {
    // Markers at 4 and 6, with another rule between.
    let mut subject = Subject::new(&[("/a/b/c/d/e/f/g", 7), ("/a/b/c/d/e", 5)]);
    let inherited =
        |subject: &Subject| ["/a/b/c/d", "/a/b/c/d/e/f"].map(|uri| subject.stored(uri).expect("a marker").0);
    assert_eq!(inherited(&subject), [None, Some(5)]);
    for (change, expected) in [
        (set("/a", 1), [Some(1), Some(5)]),
        (set("/a/b/c", 3), [Some(3), Some(5)]),
        (set("/a/b", 2), [Some(3), Some(5)]),
        (set("/a/b/c", 33), [Some(33), Some(5)]),
        (remove("/a/b/c"), [Some(2), Some(5)]),
        (remove("/a/b/c/d/e"), [Some(2), Some(2)]),
        (set("/a/b/c/d", 4), [Some(4), Some(4)]),
        (remove("/a/b"), [Some(4), Some(4)]),
        (remove("/a/b/c/d"), [Some(1), Some(1)]),
        (remove("/a"), [None, None]),
    ] {
        subject.apply(std::slice::from_ref(&change));
        assert_eq!(inherited(&subject), expected, "{change:?}");
    }
}

#[test]
fn the_root_covers_what_no_marker_inherits() {
    let mut subject = Subject::new(&[("/a/b/c", 3), ("/", 9)]);
    assert_eq!(subject.longest("/a/b/x"), Some((9, 0)));
    subject.apply(&[set("/", 8)]);
    assert_eq!(subject.longest("/a/b/x"), Some((8, 0)));
    assert_eq!(subject.longest("/"), Some((8, 0)));
    subject.apply(&[remove("/")]);
    assert_eq!(subject.longest("/a/b/x"), None);
}

/// Without fingerprint bits, each stored prefix seems to be every name that reaches its bucket.
#[test]
fn false_positives_are_found_out() {
    for strategy in [Strategy::AtEnd, Strategy::Always] {
        let options = Options { strategy, fingerprint_bits: 0, ..Options::default() };
        let subject = Subject::with(options, &[("/a/b/c/d", 4), ("/a", 1)]);
        for i in 0..64 {
            assert_eq!(subject.longest(&format!("/{i}/b/c/d")), None);
            assert_eq!(subject.longest(&format!("/a/{i}/c/d")), Some((1, 1)));
        }
        assert_eq!(subject.longest("/a/b/c/d"), Some((4, 4)));
    }
}

#[test]
fn a_grown_table_replaces_the_old_one_whose_readers_still_see_all_changes() {
    let mut subject = Subject::new(&[("/a", 1)]);
    let old = subject.0.query();
    let many: Vec<_> = (0..1000).map(|i| set(&format!("/x{i}"), i)).collect();
    assert!(matches!(subject.0.apply(&many), Ok(Update::Replace(_))));
    assert!(matches!(subject.0.apply(&[set("/a/b", 2), remove("/a")]), Ok(Update::Patched)));
    for fib in [old, subject.0.query()] {
        assert_eq!(longest(&*fib, "/a/b/c"), Some((2, 2)));
        assert_eq!(longest(&*fib, "/a"), None);
        assert!((0..1000).all(|i| longest(&*fib, &format!("/x{i}/y")) == Some((i, 1))));
    }
}

#[test]
fn tables_for_expected_rules_need_not_grow() {
    let expected = vec![Expected { components: 3, rules: 5000 }];
    let mut subject = Subject::with(Options { expected, ..Options::default() }, &[]);
    let many: Vec<_> = (0..5000).map(|i| set(&format!("/{}/{i}/c", i % 7), i)).collect();
    assert!(matches!(subject.0.apply(&many), Ok(Update::Patched)));
    assert_eq!(subject.0.prefixes(), 10_000);
    assert!((0..5000).all(|i| subject.longest(&format!("/{}/{i}/c/d", i % 7)) == Some((i, 3))));
}

#[test]
fn names_come_and_go_in_the_room_of_those_before() {
    let mut subject = Subject::new(&[]);
    let mut bytes = Vec::new();
    for round in 0..20 {
        let uris: Vec<_> = (0..500).map(|i| format!("/{}/{}", "long".repeat(1 + i % 40), i + round)).collect();
        subject.apply(&uris.iter().map(|uri| set(uri, 1)).collect::<Vec<_>>());
        subject.apply(&uris.iter().map(|uri| remove(uri)).collect::<Vec<_>>());
        subject.0.reclaim();
        bytes.push(subject.0.table.names.memory_bytes());
    }
    // Names of all lengths shift by a byte now and then. Nothing else needs new room.
    assert!(bytes[19] < bytes[0] + bytes[0] / 4, "{bytes:?}");
}

#[test]
fn long_names_are_compared_to_the_last_byte() {
    let uri = |last: char| format!("/{}/{}{last}", "x".repeat(4000), "y".repeat(4000));
    let subject = Subject::with(Options { fingerprint_bits: 0, ..Options::default() }, &[(&uri('a'), 1)]);
    assert_eq!(subject.longest(&uri('a')), Some((1, 2)));
    assert_eq!(subject.longest(&uri('b')), None);
}

#[test]
fn what_cannot_be_stored_is_refused_with_its_whole_batch() {
    let options = Options { rules_max: 2, ..Options::default() };
    let mut subject = Subject::with(options, &[("/a", 1)]);
    let long = "z".repeat(PACKET_BYTES_MAX);
    for (bad, error) in [
        (set("/b", ENTRIES_MAX), BuildError::EntryOutOfRange { entry: ENTRIES_MAX, entries_max: ENTRIES_MAX }),
        (set(&"/b".repeat(129), 1), BuildError::TooDeep { depth: 129 }),
        (set(&long, 1), BuildError::Memory { reason: format!("a name of {} bytes", long.len() + 4) }),
        (set("/c", 1), BuildError::Full { rules: 1 }),
    ] {
        assert_eq!(subject.0.apply(&[set("/b", 2), bad]).unwrap_err(), error);
        assert_eq!(subject.longest("/b"), None);
    }
    subject.apply(&[set("/b", 2), remove("/a"), set("/c", 1), set("/c", 3)]);
    assert_eq!((subject.0.len(), subject.longest("/c")), (2, Some((3, 1))));
    let deepest = "/b".repeat(128);
    subject.apply(&[remove("/b"), set(&deepest, ENTRIES_MAX - 1)]);
    assert_eq!(subject.longest(&deepest), Some((ENTRIES_MAX - 1, 128)));
}

#[test]
fn lines_are_those_of_buckets_and_of_compared_names() {
    let rules = &[("/a/b/c/d/e/f/g", 7)];
    let lines = |strategy, uri| {
        let subject = Subject::with(Options { strategy, ..Options::default() }, rules);
        with_view(uri, |view| subject.0.query().lines_read(view)).expect("counted")
    };
    // Three buckets, and one short name in the first line of the store, which is compared once or
    // three times.
    assert_eq!(lines(Strategy::AtEnd, "/a/b/c/d/e/f/g"), 4);
    assert_eq!(lines(Strategy::Always, "/a/b/c/d/e/f/g"), 6);
    assert_eq!(lines(Strategy::Always, "/x/b/c/d/e/f/g"), 1);
}

#[test]
fn the_match_of_a_name_that_ends_at_a_marker_is_inherited() {
    let subject = Subject::new(&[("/a", 1), ("/a/b/c", 3)]);
    let found = with_view("/a/b", |view| subject.0.query().longest_match(view));
    assert_eq!(found, Some(PrefixMatch { entry: EntryId(1), depth: 1 }));
}
