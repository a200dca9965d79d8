//! Tables that grow to many rules and shrink again.

use byname_lookup::oracle::Oracle;
use byname_lookup::prefix::{BURST_MAX, LongestFirst};
use byname_lookup::{Change, Control, EntryId, PrefixMatch};
use byname_wire::Name;

use crate::engines::{ALL, Burst, KEY, Subject, longest};
use crate::suite::Random;

/// A name of up to `depth_max` numbers below `fanout`.
fn numbers(random: &mut Random, fanout: usize, depth_max: usize) -> Name {
    let depth = random.below(depth_max + 1);
    (0..depth).fold(Name::default(), |name, _| name.join_number(8, random.below(fanout) as u64))
}

#[test]
fn every_engine_answers_as_the_oracle_while_it_grows_and_shrinks() {
    for kind in ALL {
        let (mut subject, mut oracle, mut random) = (Subject::new(kind), Oracle::new(), Random(7));
        for round in 0..30 {
            // Grows for ten rounds, churns for ten, then shrinks.
            let sets_in_10 = [9, 5, 1][round / 10];
            let changes: Vec<_> = (0..2000)
                .map(|_| match random.below(10) < sets_in_10 {
                    true => Change::Set(numbers(&mut random, 30, 4), EntryId(random.below(1000) as u32)),
                    false => Change::Remove(numbers(&mut random, 30, 4)),
                })
                .collect();
            subject.apply(&changes).expect("a million rules fit");
            oracle.apply(&changes).expect("the oracle takes all");
            subject.engine.reclaim();
            for _ in 0..20 {
                let names: Vec<_> = (0..BURST_MAX).map(|_| numbers(&mut random, 30, 6)).collect();
                let right: Vec<_> = names.iter().map(|name| longest(&oracle, name)).collect();
                assert_eq!(Burst::new(&names).longest(&*subject.fib), right, "{}, round {round}", kind.name);
            }
        }
    }
}

/// Room of removed rules is given back or reused.
#[test]
fn no_engine_grows_by_coming_and_going() {
    let rule = |i: u64| Name::default().join_number(8, i % 7).join_number(8, i % 91).join_number(8, i);
    for kind in ALL {
        let mut subject = Subject::new(kind);
        let mut bytes = Vec::new();
        for _ in 0..8 {
            for set in [true, false] {
                for batch in 0..20 {
                    let change =
                        |i| if set { Change::Set(rule(i), EntryId(i as u32 % 50)) } else { Change::Remove(rule(i)) };
                    subject.apply(&(batch * 100..(batch + 1) * 100).map(change).collect::<Vec<_>>()).expect("room");
                    subject.engine.reclaim();
                }
                bytes.push(subject.fib.memory_bytes());
            }
        }
        // In the first rounds, room may still grow to a size that fits.
        let (early, late) = (bytes[..8].iter().max(), bytes[8..].iter().max());
        assert!(late <= early, "{}: {bytes:?} bytes", kind.name);
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
        let right = Some(PrefixMatch { entry: EntryId((i % 1000) as u32), depth: 2 });
        assert_eq!(longest(&*fib, &rule(i).join_number(8, 5)), right);
    }
}
