use std::collections::HashMap;

use byname_wire::PrefixHashes;

use super::*;
use crate::file::{FileError, Opening};
use crate::flat::labelled::{self, LabelledTable, Labels};
use crate::flat::line::BulkSaveError;
use crate::oracle::Oracle;
use crate::prefix::LongestFirst;
use crate::temporary::Temporary;

const KEY: NameHashKey = NameHashKey::new([1, 2]);
const TABLE_KEY: NameHashKey = NameHashKey::new([3, 4]);

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn labels(count: usize, check_bits: u32) -> Labels {
    let texts = (0..count).map(|i| format!("/up/{i}").into_bytes().into()).collect();
    Labels { texts, check_bits }
}

fn digest(text: &str) -> Digest {
    TABLE_KEY.digest_bytes(text.as_bytes())
}

fn saved(file: &Temporary, labels: &Labels, names: &[(Digest, EntryId)]) -> LabelledTable {
    labelled::save((&file.0, &TABLE_KEY), labels, names, &mut |_| {}).expect("room, and a new file");
    LabelledTable::open(&file.0, Opening::default()).expect("ours")
}

/// A namespace of these names, whose label has its own number plus 100 as its entry.
fn namespace(prefix: &str, file: &str, names: &[(&str, u32)]) -> Namespace {
    let names: Vec<_> = names.iter().map(|(text, label)| (digest(text), EntryId(*label))).collect();
    let table = saved(&Temporary::new(file), &labels(4, 16), &names);
    let translation = Translation::new(&[100, 101, 102, 103].map(|entry| Some(EntryId(entry))));
    let labels = (0..4).map(|i| name(&format!("/up/{i}"))).collect();
    let (table, key, changes) = (table.query().clone(), *table.key(), Arc::new(Changes::new(5)));
    Namespace { prefix: name(prefix), key, table, translation, labels, changes }
}

fn ask(fib: &dyn PrefixFib, uris: &[Name]) -> Vec<Option<PrefixMatch>> {
    let mut answers = Vec::new();
    for names in uris.chunks(BURST_MAX) {
        let refs: Vec<_> = names.iter().map(Name::as_ref).collect();
        let mut hashes = vec![PrefixHashes::default(); names.len()];
        // Only the depths that the table asks for, as the router hashes.
        PrefixHashes::fill_burst_where(|_| fib.depths(), &KEY, &refs, &mut hashes);
        let views: Vec<_> =
            refs.iter().zip(&hashes).map(|(name, hashes)| NameView::from_filled(*name, hashes)).collect();
        let mut out = vec![None; names.len()];
        fib.longest_match_burst(&views, &mut out);
        let alone: Vec<_> = views.iter().map(|view| fib.longest_match(view)).collect();
        assert_eq!(out, alone, "a burst answers as its names one by one");
        answers.extend(out);
    }
    answers
}

#[test]
fn namespaces_answer_as_rules_for_each_of_their_names_do() {
    let alphabet = ["a", "b", "c", "d", "objects"];
    let flat: [&[(&str, u32)]; 2] = [&[("a", 0), ("b", 1), ("objects", 2)], &[("b", 3), ("c", 0)]];
    let prefixes = ["/objects", "/objects/b"];
    let namespaces = || {
        let each = prefixes.iter().zip(flat).enumerate();
        each.map(|(i, (prefix, names))| namespace(prefix, &format!("oracle-{i}"), names)).collect::<Vec<_>>()
    };
    for seed in 1..=20u64 {
        let mut state = seed;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let mut control = Namespaces::new(LongestFirst::new(KEY, 1000), namespaces()).expect("two prefixes");
        let translations: Vec<_> = control.shared.iter().map(|it| it.namespace.translation.clone()).collect();
        // Labels of changes have entries of their own.
        let changes: Vec<_> = control.shared.iter().map(|it| it.namespace.changes.clone()).collect();
        let new_label = |n: usize| self::name(&format!("/new/{n}"));
        for changes in &changes {
            (0..4).for_each(|n| assert_eq!(changes.label(&new_label(n)), Ok(EntryId(n as u32))));
        }
        let mut changed: [HashMap<&str, Option<usize>>; 2] = Default::default();
        let mut new_entries = [[None; 4]; 2];
        let (mut fib, mut rules, mut entries) = (control.query(), HashMap::new(), [[100, 101, 102, 103].map(Some); 2]);
        let draw = |below: &mut dyn FnMut(usize) -> usize| {
            let mut name = if below(3) == 0 { Name::default() } else { self::name("/objects") };
            for _ in 0..below(4) {
                name = match below(12) {
                    0 => name.join(byname_wire::Component { typ: 32, value: b"a" }),
                    _ => name.join(byname_wire::Component::generic(alphabet[below(alphabet.len())].as_bytes())),
                };
            }
            name
        };
        for _ in 0..200 {
            match below(6) {
                4 => {
                    let (which, label) = (below(2), below(4));
                    let entry = (below(2) == 0).then(|| 300 + below(5) as u32);
                    changes[1 - which].route(&new_label(label), entry.map(EntryId));
                    new_entries[which][label] = entry;
                }
                5 => {
                    let (which, text, label) = (below(2), alphabet[below(alphabet.len())], below(4));
                    let change = match below(3) {
                        0 => None,
                        1 => Some(Changed::Removed),
                        _ => Some(Changed::Label(EntryId(label as u32))),
                    };
                    changes[1 - which].set(digest(text), change).expect("room for five names");
                    match change {
                        None => drop(changed[which].remove(text)),
                        Some(Changed::Removed) => drop(changed[which].insert(text, None)),
                        Some(Changed::Label(_)) => drop(changed[which].insert(text, Some(label))),
                    }
                }
                0 => {
                    // The deepest namespace is first.
                    let (which, label) = (below(2), below(4));
                    let entry = (below(2) == 0).then(|| 200 + below(5) as u32);
                    translations[1 - which].set(EntryId(label as u32), entry.map(EntryId));
                    entries[which][label] = entry;
                }
                kind => {
                    let rule = draw(&mut below);
                    let change = match kind {
                        1 => Change::Remove(rule.clone()),
                        _ => Change::Set(rule.clone(), EntryId(below(9) as u32)),
                    };
                    match &change {
                        Change::Set(name, entry) => rules.insert(name.clone(), *entry),
                        Change::Remove(name) => rules.remove(name),
                    };
                    if let Update::Replace(query) = control.apply(&[change]).expect("room") {
                        fib = query;
                    }
                    control.reclaim();
                }
            }
            // Rules of the engine cover flat names.
            let mut oracle = Oracle::new();
            let flat_rules = (0..2).flat_map(|which| {
                let (flat, entries) = (&flat, &entries);
                let of_file = move |text: &str| {
                    let (_, label) = flat[which].iter().find(|(known, _)| *known == text)?;
                    entries[which][*label as usize]
                };
                let (changed, new_entries) = (&changed[which], &new_entries[which]);
                alphabet.iter().filter_map(move |text| {
                    let entry = match changed.get(text) {
                        None => of_file(text),
                        Some(label) => label.and_then(|label| new_entries[label]),
                    };
                    let name = self::name(prefixes[which]).join(byname_wire::Component::generic(text.as_bytes()));
                    entry.map(|entry| Change::Set(name, EntryId(entry)))
                })
            });
            let all: Vec<_> =
                flat_rules.chain(rules.iter().map(|(name, entry)| Change::Set(name.clone(), *entry))).collect();
            oracle.apply(&all).expect("the oracle takes all");
            let asked: Vec<_> = (0..BURST_MAX).map(|_| draw(&mut below)).collect();
            let right: Vec<_> = asked
                .iter()
                .map(|name| oracle.longest_match(&NameView::new(&KEY, name.as_ref(), &mut PrefixHashes::default())))
                .collect();
            assert_eq!(ask(&*fib, &asked), right, "seed {seed}: {asked:?}");
        }
    }
}

#[test]
fn unknown_names_go_to_the_engine_with_the_odds_of_the_checksum() {
    let names: Vec<_> = (0..5000u32).map(|i| (digest(&format!("known{i}")), EntryId(i % 3))).collect();
    let table = saved(&Temporary::new("odds"), &labels(3, 5), &names);
    assert_eq!((table.names(), table.labels().texts.len()), (5000, 3));
    let translation = Translation::new(&[100, 101, 102].map(|entry| Some(EntryId(entry))));
    let (table, labels) = (table.query().clone(), Arc::default());
    let changes = Arc::new(Changes::new(0));
    let namespace = Namespace { prefix: name("/o"), key: TABLE_KEY, table, translation, labels, changes };
    let mut control = Namespaces::new(LongestFirst::new(KEY, 1000), vec![namespace]).expect("one");
    control.apply(&[Change::Set(name("/o"), EntryId(7))]).expect("room");
    let fib = control.query();
    let known: Vec<_> = (0..5000).map(|i| name(&format!("/o/known{i}/x"))).collect();
    for (i, found) in ask(&*fib, &known).into_iter().enumerate() {
        assert_eq!(found, Some(PrefixMatch { entry: EntryId(100 + i as u32 % 3), depth: 2 }));
    }
    let unknown: Vec<_> = (0..10_000).map(|i| name(&format!("/o/unknown{i}"))).collect();
    let answers = ask(&*fib, &unknown);
    let passed = answers.iter().filter(|found| **found != Some(PrefixMatch { entry: EntryId(7), depth: 1 })).count();
    // 10,000 / 32, three quarters of which have a label.
    assert!((130..340).contains(&passed), "{passed}");
}

#[test]
fn rules_that_no_change_told_of_cover_flat_names_that_they_are_as_deep_as() {
    let rules = [("/o", 1), ("/o/b", 2), ("/o/c/d", 3)];
    let engine = || {
        let mut engine = LongestFirst::new(KEY, 1000);
        let rules = rules.map(|(rule, entry)| Change::Set(name(rule), EntryId(entry)));
        engine.apply(&rules).expect("room");
        engine.reclaim();
        engine
    };
    let namespaces = |file: &str| vec![namespace("/o", file, &[("a", 0), ("b", 1), ("c", 2)])];
    let fib = Namespaces::new(engine(), namespaces("told")).expect("one").with_rules_to(3).query();
    let found = |entry, depth| Some(PrefixMatch { entry: EntryId(entry), depth });
    let asked = ["/o/a/x", "/o/b/x", "/o/c/x", "/o/c/d/x", "/o/z", "/p"].map(name);
    let right = [found(100, 2), found(2, 2), found(102, 2), found(3, 3), found(1, 1), None];
    assert_eq!(ask(&*fib, &asked), right);
    let labels = asked.map(|name| {
        let mut hashes = PrefixHashes::default();
        fib.label(&NameView::new(&KEY, name.as_ref(), &mut hashes)).map(ToString::to_string)
    });
    assert_eq!(labels, [Some("/up/0".to_owned()), None, Some("/up/2".to_owned()), None, None, None]);
    // Rules that are too short for that are not searched.
    let fib = Namespaces::new(engine(), namespaces("short")).expect("one").with_rules_to(1).query();
    assert_eq!(ask(&*fib, &[name("/o/b/x")]), [found(101, 2)]);
}

#[test]
fn namespaces_that_cannot_be_are_refused() {
    let made = |prefixes: &[Name]| {
        let one = namespace("/x", "refused", &[("a", 0)]);
        let namespace = |prefix: &Name| Namespace {
            prefix: prefix.clone(),
            key: one.key,
            table: one.table.clone(),
            translation: one.translation.clone(),
            labels: one.labels.clone(),
            changes: one.changes.clone(),
        };
        Namespaces::new(Oracle::new(), prefixes.iter().map(namespace).collect()).map(drop)
    };
    assert_eq!(made(&[name("/a"), name("/a/b"), name("/")]), Ok(()));
    assert_eq!(made(&[name("/a"), name("/b"), name("/a")]), Err(NamespaceError::Twice { prefix: name("/a") }));
    let many: Vec<_> = (0..=NAMESPACES_MAX).map(|i| name(&format!("/{i}"))).collect();
    assert_eq!(made(&many), Err(NamespaceError::TooMany { count: NAMESPACES_MAX + 1 }));
    let deep = (0..COMPONENTS_MAX).fold(Name::default(), |name, _| name.join(byname_wire::Component::generic(b"x")));
    assert_eq!(made(&[deep]), Err(NamespaceError::TooDeep { depth: COMPONENTS_MAX }));
}

#[test]
fn files_of_labels_are_checked() {
    let file = Temporary::new("checked");
    let save = |labels: &Labels, entry| labelled::save((&file.0, &KEY), labels, &[(digest("a"), entry)], &mut |_| {});
    for wrong in [labels(0, 4), labels(3, 17), labels(labelled::LABELS_MAX + 1, 4)] {
        assert!(matches!(save(&wrong, EntryId(0)), Err(BulkSaveError::File(FileError::Malformed { .. }))));
    }
    let refused = save(&labels(3, 4), EntryId(3));
    assert!(matches!(refused, Err(BulkSaveError::Build(BuildError::EntryOutOfRange { entry: 3, entries_max: 3 }))));
    // Notes that contradict the table: of a table of `FlatTable`, and with other bits.
    let line = crate::flat::line::LineRetrieval::load(
        &crate::flat::line::Options { entry_bits: 6, ..Default::default() },
        &[(digest("a"), EntryId(1))],
    )
    .expect("room");
    let note = |bits: [u32; 2], rest: &[u8]| [bits.map(u32::to_le_bytes).as_flattened(), rest].concat();
    let two_labels = [&1u64.to_le_bytes()[..], &1u32.to_le_bytes(), b"a", &1u32.to_le_bytes(), b"b"].concat();
    for (note, is_good) in [
        (note([1, 5], &two_labels), true),
        (note([2, 4], &two_labels), false),
        (note([1, 4], &two_labels), false),
        (note([1, u32::MAX], &two_labels), false),
        (note([1, 5], &two_labels[..16]), false),
        (note([1, 5], &two_labels[..8]), false),
        (note([6, 0], &[]), false),
        (Vec::new(), false),
    ] {
        line.save(&file.0, &KEY, &note).expect("a new file");
        let opened = LabelledTable::open(&file.0, Opening::default()).map(drop);
        assert!(matches!((&opened, is_good), (Ok(()), true) | (Err(FileError::Malformed { .. }), false)), "{opened:?}");
    }
}
