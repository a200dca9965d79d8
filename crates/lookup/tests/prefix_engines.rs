//! Every prefix engine answers as the oracle does, whatever the changes.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byname_lookup::oracle::Oracle;
use byname_lookup::prefix::{BURST_MAX, LongestFirst};
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, PrefixMatch, Update};
use byname_wire::{Component, Name, NameHashKey, NameView, PrefixHashes};
use proptest::prelude::*;

const KEY: NameHashKey = NameHashKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

type Engine = Box<dyn Control<Name, Query = dyn PrefixFib> + Send>;

fn all_engines() -> Vec<(&'static str, Engine)> {
    vec![("longest_first", Box::new(LongestFirst::new(KEY, 1 << 20)))]
}

fn name(uri: &str) -> Name {
    uri.split('/')
        .filter(|c| !c.is_empty())
        .fold(Name::default(), |name, c| name.join(Component::generic(c.as_bytes())))
}

fn longest(fib: &dyn PrefixFib, name: &Name) -> Option<PrefixMatch> {
    let mut prefixes = PrefixHashes::default();
    fib.longest_match(&NameView::new(&KEY, name.as_ref(), &mut prefixes))
}

fn longest_of_burst(fib: &dyn PrefixFib, names: &[Name]) -> Vec<Option<PrefixMatch>> {
    let mut prefixes = vec![PrefixHashes::default(); names.len()];
    let views: Vec<_> =
        names.iter().zip(&mut prefixes).map(|(name, prefixes)| NameView::new(&KEY, name.as_ref(), prefixes)).collect();
    let mut out = vec![None; names.len()];
    fib.longest_match_burst(&views, &mut out);
    out
}

/// An engine and the query half that its readers would have.
struct Subject {
    engine: Engine,
    fib: Arc<dyn PrefixFib>,
}

impl Subject {
    fn new(engine: Engine) -> Self {
        let fib = engine.query();
        Subject { engine, fib }
    }
    fn apply(&mut self, changes: &[Change<Name>]) -> Result<(), BuildError> {
        if let Update::Replace(fib) = self.engine.apply(changes)? {
            self.fib = fib;
        }
        Ok(())
    }
}

/// Names that share prefixes, nest, repeat, are long, or have empty components.
fn any_name() -> impl Strategy<Value = Name> {
    let few = prop_oneof![Just(&b""[..]), Just(&b"a"[..]), Just(&b"b"[..]), Just(&b"ab"[..]), Just(&b"\0"[..])];
    let short = prop::collection::vec(few, 0..6)
        .prop_map(|cs| cs.into_iter().fold(Name::default(), |name, c| name.join(Component::generic(c))));
    let typed = prop::collection::vec((prop_oneof![Just(8u16), Just(32), Just(54)], 0u64..3), 0..4)
        .prop_map(|cs| cs.into_iter().fold(Name::default(), |name, (typ, n)| name.join_number(typ, n)));
    let long = prop_oneof![Just(31usize), Just(32), Just(33), Just(63), Just(64), Just(65), Just(127), Just(128)]
        .prop_flat_map(|len| (Just(len), 0..len))
        .prop_map(|(len, turn)| {
            (0..len).fold(Name::default(), |name, i| name.join(Component::generic(if i == turn { b"x" } else { b"a" })))
        });
    let wild = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..4)
        .prop_map(|cs| cs.iter().fold(Name::default(), |name, c| name.join(Component::generic(c))));
    prop_oneof![6 => short, 2 => typed, 2 => long, 1 => wild]
}

#[derive(Debug, Clone)]
enum Step {
    Change(Vec<Change<Name>>),
    Look(Vec<Name>),
    Reclaim,
}

fn any_step() -> impl Strategy<Value = Step> {
    let change = prop_oneof![
        3 => (any_name(), 0u32..5).prop_map(|(name, entry)| Change::Set(name, EntryId(entry))),
        1 => any_name().prop_map(Change::Remove),
    ];
    prop_oneof![
        4 => prop::collection::vec(change, 1..12).prop_map(Step::Change),
        2 => prop::collection::vec(any_name(), 0..BURST_MAX).prop_map(Step::Look),
        1 => Just(Step::Reclaim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_engine_answers_as_the_oracle(steps in prop::collection::vec(any_step(), 1..40)) {
        for (which, engine) in all_engines() {
            let (mut subject, mut oracle) = (Subject::new(engine), Oracle::new());
            for step in &steps {
                match step {
                    Step::Change(changes) => {
                        oracle.apply(changes).expect("the oracle takes all");
                        subject.apply(changes).expect("a million rules fit");
                        for change in changes {
                            let (Change::Set(name, _) | Change::Remove(name)) = change;
                            prop_assert_eq!(longest(&*subject.fib, name), longest(&oracle, name), "{} {}", which, name);
                        }
                    }
                    Step::Look(names) => {
                        let answers: Vec<_> = names.iter().map(|name| longest(&oracle, name)).collect();
                        prop_assert_eq!(longest_of_burst(&*subject.fib, names), answers, "{}", which);
                    }
                    Step::Reclaim => subject.engine.reclaim(),
                }
            }
        }
    }
}

/// A small generator with a seed: the large tests need many names, not good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    /// One of about `fanout` to the power of `depth_max` names of up to `depth_max` components.
    fn name(&mut self, fanout: u64, depth_max: u64) -> Name {
        let depth = self.below(depth_max + 1);
        (0..depth).fold(Name::default(), |name, _| name.join_number(8, self.below(fanout)))
    }
}

#[test]
fn every_engine_answers_as_the_oracle_while_it_grows_and_shrinks() {
    for (which, engine) in all_engines() {
        let (mut subject, mut oracle, mut random) = (Subject::new(engine), Oracle::new(), Random(7));
        for round in 0..30 {
            // Grows for ten rounds, churns for ten, then shrinks.
            let sets_in_10 = [9, 5, 1][round / 10];
            let changes: Vec<_> = (0..2000)
                .map(|_| match random.below(10) < sets_in_10 {
                    true => Change::Set(random.name(30, 4), EntryId(random.below(1000) as u32)),
                    false => Change::Remove(random.name(30, 4)),
                })
                .collect();
            subject.apply(&changes).expect("a million rules fit");
            oracle.apply(&changes).expect("the oracle takes all");
            subject.engine.reclaim();
            for _ in 0..20 {
                let names: Vec<_> = (0..BURST_MAX).map(|_| random.name(30, 6)).collect();
                let answers: Vec<_> = names.iter().map(|name| longest(&oracle, name)).collect();
                assert_eq!(longest_of_burst(&*subject.fib, &names), answers, "{which}, round {round}");
            }
        }
    }
}

/// [Yuan §3.1]: with rules `/a`, `/a/b/c` and `/a/b/c/d`, a search that visits `/a/b` on its way
/// must still find `/a`.
#[test]
fn the_worked_example_of_yuan() {
    for (which, engine) in all_engines() {
        let mut subject = Subject::new(engine);
        let rules = ["/a", "/a/b/c", "/a/b/c/d"];
        let changes: Vec<_> = (0..).zip(rules).map(|(i, rule)| Change::Set(name(rule), EntryId(i))).collect();
        subject.apply(&changes).expect("three rules fit");
        for (asked, entry, depth) in [("/a/b/random", 0, 1), ("/a/b/c/random", 1, 3), ("/a/b/c/d/e", 2, 4)] {
            let answer = Some(PrefixMatch { entry: EntryId(entry), depth });
            assert_eq!(longest(&*subject.fib, &name(asked)), answer, "{which} {asked}");
        }
        assert_eq!(longest(&*subject.fib, &name("/b")), None, "{which}");
    }
}

/// [So §2.3]: with `/a`, `/a/b/d` and `/a/b/c/d`.
#[test]
fn the_worked_example_of_so() {
    for (which, engine) in all_engines() {
        let mut subject = Subject::new(engine);
        let rules = ["/a", "/a/b/d", "/a/b/c/d"];
        let changes: Vec<_> = (0..).zip(rules).map(|(i, rule)| Change::Set(name(rule), EntryId(i))).collect();
        subject.apply(&changes).expect("three rules fit");
        for (asked, entry, depth) in [("/a/b/c/d/e/f", 2, 4), ("/a/c/d/e/f/g", 0, 1), ("/a/b/d/e/f/g", 1, 3)] {
            let answer = Some(PrefixMatch { entry: EntryId(entry), depth });
            assert_eq!(longest(&*subject.fib, &name(asked)), answer, "{which} {asked}");
        }
    }
}

#[test]
fn the_root_is_a_rule_like_any_other() {
    for (which, engine) in all_engines() {
        let mut subject = Subject::new(engine);
        let root = |entry| Change::Set(Name::default(), EntryId(entry));
        let matched = |entry| Some(PrefixMatch { entry: EntryId(entry), depth: 0 });
        assert_eq!(longest(&*subject.fib, &Name::default()), None, "{which}");
        for entry in [3, 4] {
            subject.apply(&[root(entry)]).expect("one rule fits");
            assert_eq!(longest(&*subject.fib, &Name::default()), matched(entry), "{which}");
            assert_eq!(longest(&*subject.fib, &name("/a/b")), matched(entry), "{which}");
        }
        subject.apply(&[Change::Remove(Name::default())]).expect("removing needs no room");
        assert_eq!(longest(&*subject.fib, &name("/a/b")), None, "{which}");
    }
}

/// The writer moves one route up and down a chain of names, so that between any two changes one
/// rule or two cover `/a/b/c`: a reader must always find one, and its entry must tell its depth.
#[test]
fn readers_see_each_change_whole_under_a_writer() {
    for (which, engine) in all_engines() {
        let mut subject = Subject::new(engine);
        let rules = [name("/"), name("/a"), name("/a/b"), name("/a/b/c")];
        let set = |depth: usize| Change::Set(rules[depth].clone(), EntryId(depth as u32));
        subject.apply(&[set(0)]).expect("one rule fits");
        let (stop, looked) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let fib = subject.engine.query();
                let (stop, looked) = (&stop, &looked);
                scope.spawn(move || {
                    let names = [name("/a/b/c/d"), name("/a/b/c"), name("/a/b/c/x/y")];
                    while !stop.load(Ordering::Relaxed) {
                        for found in longest_of_burst(&*fib, &names) {
                            let found = found.unwrap_or_else(|| panic!("{which}: a rule always covers the name"));
                            assert_eq!(found.depth, found.entry.0 as usize, "{which}");
                        }
                        looked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut random = Random(3);
            let mut at = 0;
            while looked.load(Ordering::Relaxed) < 50_000 {
                let to = random.below(4) as usize;
                if to != at {
                    // Nothing is reclaimed here: readers stay, so places are not used again.
                    let changes = [set(to), Change::Remove(rules[at].clone())];
                    for change in changes {
                        let update = subject.engine.apply(&[change]).expect("room for 100,000 changes");
                        assert!(matches!(update, Update::Patched), "{which}");
                        // Changes come no faster than lookups, or repeating would not help.
                        let seen = looked.load(Ordering::Relaxed);
                        while looked.load(Ordering::Relaxed) == seen {
                            std::thread::yield_now();
                        }
                    }
                    at = to;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(looked.into_inner() > 0);
    }
}

#[test]
fn a_million_rules_take_at_most_45_bytes_each() {
    let mut engine = LongestFirst::new(KEY, 1_000_000);
    let rule = |i: u64| Name::default().join_number(8, i % 1000).join_number(8, i / 1000);
    for batch in 0..1000 {
        let changes: Vec<_> = (0..1000).map(|i| Change::Set(rule(batch * 1000 + i), EntryId(i as u32))).collect();
        engine.apply(&changes).expect("a million rules fit");
        engine.reclaim();
    }
    assert_eq!(engine.len(), 1_000_000);
    let bytes = engine.memory_bytes() as f64 / 1e6;
    assert!(bytes <= 45.0, "{bytes} bytes a rule");
    let fib = engine.query();
    assert!(fib.memory_bytes() < engine.memory_bytes());
    for i in (0..1_000_000).step_by(997) {
        let answer = Some(PrefixMatch { entry: EntryId((i % 1000) as u32), depth: 2 });
        assert_eq!(longest(&*fib, &rule(i).join_number(8, 5)), answer);
    }
}
