//! Bulk tables and their files. `tests/prefix_engines` compares the answers under changes with the
//! oracle's, and checks readers during changes.

use byname_wire::HashFunction;

use super::*;
use crate::file::Place;
use crate::memory::Pages;
use crate::oracle::Oracle;
use crate::temporary::Temporary;

fn key() -> NameHashKey {
    NameHashKey::with_function(HashFunction::SipHash24, [7, 8])
}

fn name(i: u64) -> Name {
    let root = Name::default();
    (0..i % 5).fold(root, |name, depth| name.join_number(8, i >> (3 * depth) & 7))
}

fn loaded(rules: u64) -> (BulkTable, Oracle) {
    let mut names: Vec<_> = (0..rules).map(name).collect();
    names.sort();
    names.dedup();
    let mut loader = BulkLoader::new(key(), 2 * names.len(), &Options::default()).expect("a little memory");
    let mut oracle = Oracle::new();
    for (i, name) in (0..).zip(&names) {
        loader.push(name.as_ref(), EntryId(i % 100)).expect("sorted, and room");
        oracle.apply(&[Change::Set(name.clone(), EntryId(i % 100))]).expect("the oracle takes all");
    }
    let table = loader.finish_table(&Options::default()).expect("room");
    assert_eq!(table.len(), oracle.len());
    (table, oracle)
}

fn longest(fib: &dyn PrefixFib, name: &Name) -> Option<PrefixMatch> {
    let mut hashes = PrefixHashes::default();
    fib.longest_match(&NameView::new(&key(), name.as_ref(), &mut hashes))
}

fn assert_same(table: &BulkTable, oracle: &Oracle) {
    assert_eq!(table.len(), oracle.len());
    for i in 0..20_000 {
        let asked = name(i).join_number(8, i % 3);
        assert_eq!(longest(&*table.query(), &asked), longest(oracle, &asked), "{asked}");
    }
}

const OPENINGS: [Opening; 3] = [
    Opening { place: Place::Mapped, checked: true },
    Opening { place: Place::Mapped, checked: false },
    Opening { place: Place::Copied(Pages::Small), checked: true },
];

#[test]
fn a_saved_table_answers_as_before_and_takes_changes() {
    let file = Temporary::new("same");
    let (mut table, mut oracle) = loaded(20_000);
    table.set_labels(vec![b"left".as_slice().into(), Box::default(), b"right".as_slice().into()]);
    table.save(&file.0).expect("a new file");
    for opening in OPENINGS {
        let mut opened = BulkTable::open(&file.0, opening, &Options::default()).expect("ours");
        assert!(*opened.key() == key());
        assert_eq!(opened.labels(), table.labels());
        assert_same(&opened, &oracle);
        // Changes stay beside the file's pages.
        let changes = (0..3000).map(|i| match i % 3 {
            0 => Change::Remove(name(i * 7)),
            1 => Change::Set(name(i * 5), EntryId(777)),
            _ => Change::Set(name(i).join_number(8, 9), EntryId(5)),
        });
        let changes: Vec<_> = changes.collect();
        opened.apply(&changes).expect("room");
        let mut changed = oracle.clone();
        changed.apply(&changes).expect("the oracle takes all");
        assert_same(&opened, &changed);
        for i in 0..3000 {
            let name = name(i);
            let exact = longest(&changed, &name).filter(|found| found.depth == name.as_ref().len());
            assert_eq!(opened.entry_of(name.as_ref()), exact.map(|found| found.entry));
        }
    }
    // With its changes, the table goes into a file again, over the old one.
    let mut opened = BulkTable::open(&file.0, Opening::default(), &Options::default()).expect("ours");
    let changes: Vec<_> = (0..2000).map(|i| Change::Remove(name(i))).collect();
    opened.apply(&changes).expect("room");
    oracle.apply(&changes).expect("the oracle takes all");
    opened.save(&file.0).expect("over the old one");
    // The old file's pages are still there for those who have them.
    assert_same(&opened, &oracle);
    let again = BulkTable::open(&file.0, Opening::default(), &Options::default()).expect("ours");
    assert_eq!(again.changed(), opened.changed());
    assert_same(&again, &oracle);
}

#[test]
fn entries_of_the_image_are_translated() {
    let mut loader = BulkLoader::new(key(), 10, &Options::default()).expect("a little memory");
    let names: Vec<Name> = ["/a", "/a/b", "/a/b/c"].map(|uri| uri.parse().expect("a name")).into();
    for (i, name) in (0..).zip(&names) {
        loader.push(name.as_ref(), EntryId(i)).expect("sorted, and room");
    }
    let mut table = loader.finish_table(&Options::default()).expect("room");
    let translation = table.translate(&[Some(EntryId(40)), None]);
    let query = table.query();
    let found = |uri: &str| longest(&*query, &uri.parse().expect("a name")).map(|found| (found.entry.0, found.depth));
    assert_eq!((found("/a/x"), found("/a/b/x"), found("/a/b/c/x")), (Some((40, 1)), Some((40, 1)), Some((40, 1))));
    translation.set(EntryId(1), Some(EntryId(50)));
    translation.set(EntryId(2), Some(EntryId(60)));
    assert_eq!((found("/a/b/x"), found("/a/b/c/x")), (Some((50, 2)), Some((50, 2))));
    translation.set(EntryId(0), None);
    assert_eq!((found("/a/x"), found("/a/b/x")), (None, Some((50, 2))));
    // Entries of changes are what they are.
    let changed = table.apply(&[Change::Set(names[0].clone(), EntryId(1))]).expect("room");
    assert!(matches!(changed, Update::Replace(_)), "the first change makes the table of changes");
    let query = table.query();
    let found = |uri: &str| longest(&*query, &uri.parse().expect("a name")).map(|found| (found.entry.0, found.depth));
    assert_eq!(found("/a/x"), Some((1, 1)));
}

#[test]
fn removed_changes_uncover_rules_of_the_image_where_that_is_wanted() {
    let (mut table, oracle) = loaded(1000);
    table.uncover_removed();
    let changes: Vec<_> = (0..2000).map(|i| Change::Set(name(i).join_number(8, i % 2), EntryId(500))).collect();
    table.apply(&changes).expect("room");
    assert!(table.len() > oracle.len());
    let removals = changes.iter().map(|change| match change {
        Change::Set(name, _) | Change::Remove(name) => Change::Remove(name.clone()),
    });
    // Rules without a change stay, too.
    let removals: Vec<_> = removals.chain((0..100).map(|i| Change::Remove(name(i)))).collect();
    table.apply(&removals).expect("a little memory");
    assert_eq!(table.changed(), 0);
    assert_same(&table, &oracle);
}

#[test]
fn batches_that_are_refused_change_nothing() {
    let (mut table, oracle) = loaded(1000);
    let good = Change::Set("/x".parse::<Name>().expect("a name"), EntryId(1));
    let too_high = Change::Set(name(3), REMOVED);
    let refused = table.apply(&[good.clone(), too_high]).expect_err("an id that marks removal");
    assert_eq!(refused, BuildError::EntryOutOfRange { entry: 65_535, entries_max: 65_535 });
    table.rules_max = table.len();
    assert_eq!(table.apply(&[good]).expect_err("full"), BuildError::Full { rules: table.len() });
    assert_same(&table, &oracle);
}

/// Writes a file with other contents and right checksums.
fn forge(path: &std::path::Path, alter: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("ours");
    alter(&mut bytes);
    for i in 0..5 {
        let at = 48 + 24 * i;
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight")) as usize;
        let (from, len) = (u64_at(at + 8), u64_at(at + 16));
        let crc = crc32c::crc32c(&bytes[from..from + len]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(path, bytes).expect("ours");
}

#[test]
fn forged_lines_give_wrong_answers_and_nothing_worse() {
    let file = Temporary::new("forged");
    let (table, _) = loaded(3000);
    table.save(&file.0).expect("a new file");
    let whole = std::fs::read(&file.0).expect("ours");
    let mut state = 3u64;
    for round in 0..20 {
        std::fs::write(&file.0, &whole).expect("ours");
        forge(&file.0, |bytes| {
            // The sections after the shape and the filters: lines, then labels and changes.
            let from = u64::from_le_bytes(bytes[104..112].try_into().expect("eight")) as usize;
            let len = u64::from_le_bytes(bytes[112..120].try_into().expect("eight")) as usize;
            for byte in &mut bytes[from..from + len] {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // In some rounds all bytes, in others few, so that most entries still match.
                if round % 2 == 0 || state >> 60 == 0 {
                    *byte = (state >> 33) as u8;
                }
            }
        });
        let table = BulkTable::open(&file.0, Opening::default(), &Options::default()).expect("right checksums");
        for i in 0..3000 {
            let asked = name(i).join_number(8, 1);
            if let Some(found) = longest(&*table.query(), &asked) {
                assert!(found.depth <= asked.as_ref().len());
            }
        }
    }
}

#[test]
fn forged_shapes_are_refused() {
    let file = Temporary::new("shapes");
    let (table, _) = loaded(3000);
    table.save(&file.0).expect("a new file");
    let whole = std::fs::read(&file.0).expect("ours");
    // Buckets, bits of a fingerprint, the rule `/`, the deepest node.
    for (at, forged) in [(0, 0u32), (0, 1), (4, 1), (8, 0), (8, 42), (12, 65_537), (16, 33), (16, u32::MAX)] {
        std::fs::write(&file.0, &whole).expect("ours");
        forge(&file.0, |bytes| bytes[4096 + at..4096 + at + 4].copy_from_slice(&forged.to_le_bytes()));
        let opened = BulkTable::open(&file.0, Opening::default(), &Options::default());
        assert!(matches!(opened, Err(FileError::Malformed { .. })), "{at} {forged}");
    }
}
