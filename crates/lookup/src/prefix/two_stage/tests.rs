use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byname_wire::{Component, PrefixHashes};

use super::*;
use crate::entry::EntryId;
use crate::prefix::LongestFirst;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

/// As in the paper, every depth is probed.
fn faithful(start_depth: StartDepth) -> TwoStage {
    let table = longest_first::Options { probe_empty_depths: true, ..Default::default() };
    TwoStage::with_options(KEY, Options { table, start_depth }).expect("a small table")
}

fn name(uri: &str) -> Name {
    uri.split('/')
        .filter(|c| !c.is_empty())
        .fold(Name::default(), |name, c| name.join(Component::generic(c.as_bytes())))
}

/// `/1/1/1...` with `depth` components.
fn chain(depth: usize) -> Name {
    (0..depth).fold(Name::default(), |name, _| name.join_number(8, 1))
}

fn sets(rules: &[&str]) -> Vec<Change<Name>> {
    (0..).zip(rules).map(|(i, rule)| Change::Set(name(rule), EntryId(i))).collect()
}

/// The depth that is found, and the number of probes.
fn looked_up(fib: &TwoStage, name: &Name) -> (Option<usize>, usize) {
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&KEY, name.as_ref(), &mut prefixes);
    (fib.query().longest_match(&view).map(|found| found.depth), fib.probes(&view))
}

fn probes_longest_first(rules: &[Change<Name>], name: &Name) -> usize {
    let options = longest_first::Options { probe_empty_depths: true, ..Default::default() };
    let mut fib = LongestFirst::with_options(KEY, options).expect("a small table");
    fib.apply(rules).expect("room");
    let mut prefixes = PrefixHashes::default();
    fib.probes(&NameView::new(&KEY, name.as_ref(), &mut prefixes))
}

/// [So §2.3]: M = 3 with `/a`, `/a/b/d` and `/a/b/c/d`. "FIB lookup counts are 2, 3, and 1 instead
/// of 3, 6, and 3". By the paper's own Table 2 the last is 1 + n - m = 4, as it is here.
#[test]
fn the_worked_example_of_so_takes_the_probes_it_tells() {
    let rules = sets(&["/a", "/a/b/d", "/a/b/c/d"]);
    let mut fib = faithful(StartDepth::Fixed(3));
    fib.apply(&rules).expect("room");
    assert_eq!((fib.len(), fib.virtual_entries()), (3, 1), "/a/b/c is virtual");
    for (asked, depth, probes, longest_first) in
        [("/a/b/c/d/e/f", 4, 2, 3), ("/a/c/d/e/f/g", 1, 3, 6), ("/a/b/d/e/f/g", 3, 1, 4), ("/a/b/c/d", 4, 2, 1)]
    {
        assert_eq!(looked_up(&fib, &name(asked)), (Some(depth), probes), "{asked}");
        assert_eq!(probes_longest_first(&rules, &name(asked)), longest_first, "{asked}");
    }
    assert_eq!(looked_up(&fib, &name("/a/b/c/x")), (Some(1), 4), "virtual rules match no name");
}

/// [So, Table 2], row by row: a name of n components that matches a rule of m components, with
/// rules down to MD on the same path.
#[test]
fn probes_are_those_of_table_2_of_so() {
    for start in 1..6 {
        for (m, deepest) in (1..7).flat_map(|m| (m..7).map(move |deepest| (m, deepest))) {
            // The deepest rule is not on the name's own path, but below the same prefix at M.
            let beside = chain(deepest - 1).join_number(8, 2);
            let deep = deepest > m && deepest > start;
            let mut rules = vec![Change::Set(chain(m), EntryId(0))];
            rules.extend(deep.then_some(Change::Set(beside, EntryId(1))));
            let mut fib = faithful(StartDepth::Fixed(start));
            fib.apply(&rules).expect("room");
            let md = if deep { deepest } else { m };
            for n in m..9 {
                let probes = match () {
                    () if m <= n && n < start => 1 + n - m,
                    // Nothing below it is deeper than M: M = MD.
                    () if m <= start && !deep => 1 + start - m,
                    () if m <= start && md < n => 1 + md - m,
                    () if m <= start => 1 + n - m,
                    () if md < n => 2 + md - m,
                    () => 2 + n - m,
                };
                let asked = chain(n);
                assert_eq!(looked_up(&fib, &asked), (Some(m), probes), "M {start}, m {m}, MD {md}, n {n}");
                assert_eq!(probes_longest_first(&rules, &asked), 1 + n - m);
            }
        }
    }
}

#[test]
fn a_hostile_name_takes_no_more_probes_than_the_deepest_rule_has_components() {
    let mut fib = faithful(StartDepth::Fixed(3));
    fib.apply(&sets(&["/", "/a/b", "/a/b/c/d/e/f", "/x/y/z"])).expect("room");
    let garbage = |below: &str| (0..32).fold(name(below), |name, i| name.join_number(8, i));
    for (below, depth, probes) in [
        // Nothing at M: M probes, and one for the root.
        ("/", 0, 4),
        ("/a", 0, 4),
        ("/a/b", 2, 2),
        // Something at M: MD probes, with MD = 6, minus those above the match.
        ("/a/b/c", 2, 5),
        ("/a/b/c/d/e", 2, 5),
        ("/x/y/z", 3, 1),
    ] {
        assert_eq!(looked_up(&fib, &garbage(below)), (Some(depth), probes), "{below}");
    }
    fib.apply(&[Change::Remove(name("/a/b"))]).expect("room");
    assert_eq!(looked_up(&fib, &garbage("/a/b/c")), (Some(0), 7), "MD, and the root");
}

#[test]
fn a_rule_at_the_start_depth_turns_virtual_and_back() {
    let mut fib = faithful(StartDepth::Fixed(2));
    fib.apply(&sets(&["/a", "/a/b", "/a/b/c"])).expect("room");
    let asked = name("/a/b/x");
    assert_eq!((looked_up(&fib, &asked).0, fib.virtual_entries()), (Some(2), 0));
    fib.apply(&[Change::Remove(name("/a/b"))]).expect("room");
    assert_eq!((looked_up(&fib, &asked).0, fib.virtual_entries(), fib.len()), (Some(1), 1, 2));
    assert_eq!(looked_up(&fib, &name("/a/b/c/x")).0, Some(3));
    fib.apply(&[Change::Set(name("/a/b"), EntryId(9))]).expect("room");
    assert_eq!((looked_up(&fib, &asked).0, fib.virtual_entries(), fib.len()), (Some(2), 0, 3));
    assert_eq!(looked_up(&fib, &name("/a/b/c/x")).0, Some(3));
}

#[test]
fn the_maximum_depth_falls_once_the_deepest_rule_is_reclaimed() {
    let mut fib = faithful(StartDepth::Fixed(1));
    fib.apply(&sets(&["/a", "/a/b/c", "/a/b/c/d/e", "/a/b/c/d/f"])).expect("room");
    let asked = name("/a/b/c/x/x/x/x");
    assert_eq!(looked_up(&fib, &asked), (Some(3), 4));
    fib.apply(&[Change::Remove(name("/a/b/c/d/e"))]).expect("room");
    fib.reclaim();
    assert_eq!(looked_up(&fib, &asked), (Some(3), 4), "another rule is as deep");
    fib.apply(&[Change::Remove(name("/a/b/c/d/f"))]).expect("room");
    assert_eq!(looked_up(&fib, &asked), (Some(3), 4), "too deep, and right");
    fib.reclaim();
    assert_eq!(looked_up(&fib, &asked), (Some(3), 2));
    fib.apply(&[Change::Remove(name("/a/b/c"))]).expect("room");
    fib.reclaim();
    assert_eq!(looked_up(&fib, &asked), (Some(1), 1));
}

#[test]
fn virtual_rules_that_cannot_be_told_from_rules_are_refused() {
    let mut fib = faithful(StartDepth::Fixed(2));
    fib.apply(&sets(&["/a/b"])).expect("room");
    let mut change = fib.prepare(&Change::Set(name("/x/y/z"), EntryId(0))).expect("not too deep");
    let taken = fib.writer.key_of(name("/a/b").as_ref()).expect("not too deep");
    change.above = Some(RuleKey { check: taken.check ^ 1, ..taken });
    assert_eq!(fib.writer.admit(&[change], 0), Err(BuildError::Collision));
}

/// A small generator with a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn name(&mut self) -> Name {
        (0..self.below(7)).fold(Name::default(), |name, _| name.join_number(8, self.below(2)))
    }
}

/// Contents of the table besides the rules: MD by prefix at the start depth.
fn depths_max(rules: &HashMap<Name, u32>, start: usize) -> HashMap<Name, usize> {
    let mut deepest = HashMap::new();
    for name in rules.keys().map(Name::as_ref).filter(|name| name.len() > start) {
        let depth_max = deepest.entry(name.prefix(start).to_name()).or_default();
        *depth_max = name.len().max(*depth_max);
    }
    deepest
}

/// After each reclaim the table holds exactly the virtual rules and maximum depths that its start
/// depth needs, whatever changed and moved before.
#[test]
fn nothing_is_left_behind_by_changes_and_moves() {
    let (mut fib, mut random, mut rules) = (faithful(StartDepth::Fixed(3)), Random(1), HashMap::new());
    let mut known = HashSet::new();
    for round in 0..400 {
        for _ in 0..random.below(4) {
            if random.below(4) == 0 {
                fib.set_start_depth(1 + random.below(7) as usize).expect("room");
            }
            let changes: Vec<_> = (0..random.below(6))
                .map(|_| match (random.below(2), random.name()) {
                    (0, name) => Change::Remove(name),
                    (_, name) => Change::Set(name, EntryId(random.below(3) as u32)),
                })
                .collect();
            fib.apply(&changes).expect("room");
            for change in changes {
                match change {
                    Change::Set(name, entry) => {
                        known.insert(name.clone());
                        rules.insert(name, entry.0);
                    }
                    Change::Remove(name) => drop(rules.remove(&name)),
                }
            }
        }
        fib.reclaim();
        let (start, mut virtuals) = (fib.start_depth(), 0);
        let deepest = depths_max(&rules, start);
        for name in known.iter().chain(deepest.keys()).collect::<HashSet<_>>() {
            let key = fib.writer.key_of(name.as_ref()).expect("not too deep");
            let stored = fib.writer.find(&key).map(|(_, rule)| rule);
            let depth_max = deepest.get(name).copied();
            let entry = rules.get(name).map(|entry| EntryId(*entry));
            let right = (entry.is_some() || depth_max.is_some())
                .then_some(Rule { entry, depth_max: depth_max.unwrap_or_default() });
            assert_eq!(stored, right, "round {round}, M {start}, {name}");
            virtuals += usize::from(entry.is_none() && depth_max.is_some());
        }
        assert_eq!((fib.len(), fib.virtual_entries()), (rules.len(), virtuals), "round {round}");
    }
    assert!(known.len() > 100);
}

#[test]
fn the_start_depth_follows_the_rules() {
    let mut fib = faithful(StartDepth::MostLikely);
    assert_eq!(fib.start_depth(), COMPONENTS_MAX);
    let rules = |depth: u64, count: u64| -> Vec<_> {
        let name = move |i| (1..depth).fold(Name::default().join_number(8, i), |name, c| name.join_number(8, c));
        (0..count).map(|i| Change::Set(name(i), EntryId(0))).collect()
    };
    fib.apply(&rules(2, 63)).expect("room");
    assert_eq!(fib.start_depth(), COMPONENTS_MAX, "too few changes to choose by");
    fib.apply(&rules(3, 1)).expect("room");
    assert_eq!((fib.start_depth(), fib.virtual_entries()), (2, 0), "the virtual rule is one of the rules");
    fib.apply(&rules(4, 70)).expect("room");
    assert_eq!(fib.start_depth(), 2, "the first move is not reclaimed");
    fib.reclaim();
    fib.apply(&[]).expect("nothing");
    assert_eq!((fib.start_depth(), fib.virtual_entries()), (4, 7), "seven of M = 2 stay for its readers");
    fib.reclaim();
    assert_eq!(fib.virtual_entries(), 0);
    fib.set_start_depth(3).expect("room");
    assert_eq!((fib.start_depth(), fib.virtual_entries()), (3, 69), "one of 70 is a rule");
    fib.apply(&rules(5, 500)).expect("room");
    fib.apply(&rules(5, 500)).expect("room");
    assert_eq!(fib.start_depth(), 3, "set for good");
}

/// Readers at each moment get right answers while M moves and old virtual rules are removed.
#[test]
fn readers_see_no_move_of_the_start_depth() {
    let mut fib = faithful(StartDepth::Fixed(2));
    let asked = ["/a/b/c/d/e/f", "/a/b/c/x", "/a/b/x/x/x", "/x", "/a"].map(name);
    fib.apply(&sets(&["/", "/a", "/a/b/c", "/a/b/c/d/e"])).expect("room");
    let right = [5, 3, 1, 0, 1];
    let (stop, passes) = (AtomicBool::new(false), AtomicU64::new(0));
    let query = fib.query();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut prefixes = vec![PrefixHashes::default(); asked.len()];
            let pairs = asked.iter().zip(&mut prefixes);
            let views: Vec<_> = pairs.map(|(name, prefixes)| NameView::new(&KEY, name.as_ref(), prefixes)).collect();
            let mut out = vec![None; views.len()];
            while !stop.load(Ordering::Relaxed) {
                query.longest_match_burst(&views, &mut out);
                let depths: Vec<_> = out.iter().map(|found| found.map_or(usize::MAX, |found| found.depth)).collect();
                assert_eq!(depths, right);
                passes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut random = Random(5);
        for _ in 0..5_000 {
            let update = fib.set_start_depth(1 + random.below(6) as usize).expect("room");
            assert!(matches!(update, Update::Patched));
            // A grace period: the reader's next pass begins after this.
            let seen = passes.load(Ordering::Acquire);
            // A failed reader ends the test, and the scope passes its panic on.
            while passes.load(Ordering::Acquire) < seen + 2 && !reader.is_finished() {
                std::thread::yield_now();
            }
            fib.reclaim();
        }
        stop.store(true, Ordering::Relaxed);
    });
}
