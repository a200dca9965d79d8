//! Exchanges the engine of a FIB while workers read it.
//!
//! The new engine is filled beside the old one, which answers meanwhile. Then its query half is published. Workers take
//! it at their next burst, so none of them waits, and no packet is lost. The writer frees the old engine after a grace
//! period. The old query half may hold gigabytes, and giving them back takes time. The writer therefore keeps it until
//! it is the last owner, so that no worker has to free it.

use std::sync::Arc;

use byname_face::nodes::on_node;
use byname_lookup::{BuildError, Change, EntryId};

use super::{BATCH_MAX, Engine, Family, FibWriter, Replica};

impl<F: Family> FibWriter<F> {
    /// Replaces the engine of each replica by one that `build` makes for the replica's memory node. `rules` are all rules
    /// with their groups. All pending changes are committed.
    ///
    /// # Errors
    /// The new engine cannot be made, or refuses a rule. The old one then goes on.
    pub fn rebuild(
        &mut self,
        mut build: impl FnMut(Option<u32>) -> Result<Engine<F>, BuildError>,
        rules: impl Iterator<Item = (F::Key, EntryId)>,
    ) -> Result<(), BuildError> {
        self.commit();
        let make =
            |Replica { node, .. }: &Replica<F>| Ok(Replica { engine: on_node(*node, || build(*node))?, node: *node });
        let mut replicas = self.replicas.iter().map(make).collect::<Result<Vec<Replica<F>>, BuildError>>()?;
        let mut rules = rules.map(|(key, group)| Change::Set(key, group)).peekable();
        while rules.peek().is_some() {
            let batch: Vec<Change<F::Key>> = rules.by_ref().take(BATCH_MAX).collect();
            for Replica { engine, node } in &mut replicas {
                on_node(*node, || engine.apply(&batch))?;
                // Nobody reads it yet.
                engine.reclaim();
            }
        }
        let old = std::mem::replace(&mut self.replicas, replicas);
        self.outlived.extend(old.iter().map(|replica| replica.engine.query()));
        for (number, Replica { engine, .. }) in self.replicas.iter().enumerate() {
            F::replace(&self.tables, number, engine.query());
        }
        self.reclaim();
        drop(old);
        self.free_outlived();
        Ok(())
    }

    /// Frees earlier query halves that no worker has any more.
    pub(super) fn free_outlived(&mut self) {
        self.outlived.retain(|query| Arc::strong_count(query) > 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use byname_forward::FaceId;
    use byname_forward::tables::{Nexthop, Tables};
    use byname_wire::{Name, NameHashKey, NameView, PrefixHashes};

    use super::super::{FibEngineKind, FibWriter};
    use super::*;

    /// Rules of a test. More than one batch.
    const RULES: usize = 10_000;

    fn names() -> Vec<Name> {
        let uri = |n: usize| if n.is_multiple_of(3) { format!("/a/{n}/x/y") } else { format!("/a/{n}") };
        (0..RULES).map(|n| uri(n).parse().expect("a name")).collect()
    }

    fn filled(key: NameHashKey, names: &[Name]) -> (FibWriter, Vec<Option<EntryId>>) {
        let engine = FibEngineKind::Compact.build(key, 2 * RULES).expect("little memory");
        let tables = Arc::new(Tables::new(engine.query()));
        let mut fib: FibWriter = FibWriter::new(engine, tables);
        let mut groups = vec![None; names.len()];
        for (n, (name, group)) in names.iter().zip(&mut groups).enumerate() {
            fib.set(name.as_ref(), group, &[Nexthop { face: FaceId(256 + n as u64 % 7), cost: 1 }]);
        }
        fib.commit();
        (fib, groups)
    }

    fn rules<'a>(names: &'a [Name], groups: &'a [Option<EntryId>]) -> impl Iterator<Item = (Name, EntryId)> + 'a {
        names.iter().zip(groups).map(|(name, group)| (name.clone(), group.expect("set")))
    }

    #[test]
    fn a_worker_finds_every_rule_while_engines_are_exchanged_and_does_not_wait() {
        let key = NameHashKey::new([1, 2]);
        let names = names();
        let (mut fib, groups) = filled(key, &names);
        let tables = Arc::clone(fib.tables());
        let done = AtomicBool::new(false);
        let (mut all, mut first) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut reader = tables.reader();
                let (mut bursts, mut with_new): (Vec<Duration>, Vec<Duration>) = Default::default();
                let mut engine = std::ptr::null();
                let mut next = 0;
                while !done.load(Ordering::Relaxed) || bursts.len() < 1000 {
                    let start = Instant::now();
                    reader.begin_burst();
                    for _ in 0..64 {
                        next = (next + 4_801) % names.len();
                        let mut hashes = PrefixHashes::default();
                        hashes.fill(&key, names[next].as_ref());
                        let found = reader.fib().longest_match(&NameView::from_filled(names[next].as_ref(), &hashes));
                        let entry = found.expect("no rule is ever missing").entry;
                        assert_eq!(Some(entry), groups[next]);
                        let mut nexthops = Vec::new();
                        reader.nexthops(entry, &mut nexthops);
                        assert_eq!(nexthops[0].face, FaceId(256 + next as u64 % 7));
                    }
                    bursts.push(start.elapsed());
                    let now = std::ptr::from_ref(reader.fib()).cast::<u8>();
                    if now != engine {
                        with_new.push(start.elapsed());
                        engine = now;
                    }
                }
                reader.end_burst();
                (bursts, with_new)
            });
            for kind in FibEngineKind::ALL.into_iter().cycle().skip(1).take(3 * FibEngineKind::ALL.len()) {
                fib.rebuild(|_| kind.build(key, 2 * RULES), rules(&names, &groups)).expect("it takes all rules");
            }
            done.store(true, Ordering::Relaxed);
            reading.join().expect("every lookup is right")
        });
        for durations in [&mut all, &mut first] {
            durations.sort_unstable();
        }
        let p99 = |durations: &[Duration]| durations[(durations.len() - 1) * 99 / 100];
        println!(
            "{} bursts: median {:?}, p99 {:?}; the {} first bursts with a new engine: median {:?}, p99 {:?}",
            all.len(),
            all[all.len() / 2],
            p99(&all),
            first.len(),
            first[first.len() / 2],
            p99(&first),
        );
        assert!(first.len() > FibEngineKind::ALL.len(), "the reader has seen new engines");
    }

    #[test]
    fn changes_go_to_the_new_engine_and_the_old_one_is_freed_when_nobody_has_it() {
        let key = NameHashKey::new([1, 2]);
        let names = names();
        let (mut fib, mut groups) = filled(key, &names);
        let tables = Arc::clone(fib.tables());
        let mut sleeper = tables.reader();
        let old = Arc::downgrade(&tables.fib());
        fib.rebuild(|_| FibEngineKind::BinarySearch.build(key, 2 * RULES), rules(&names, &groups)).expect("built");
        assert!(old.upgrade().is_some(), "a worker that sleeps still has it");
        sleeper.begin_burst();
        sleeper.end_burst();
        fib.clear(names[1].as_ref(), &mut groups[1]);
        fib.commit();
        assert!(old.upgrade().is_none(), "the writer has freed it");
        sleeper.begin_burst();
        let entry = |name: &Name| {
            let mut hashes = PrefixHashes::default();
            hashes.fill(&key, name.as_ref());
            sleeper.fib().longest_match(&NameView::from_filled(name.as_ref(), &hashes)).map(|found| found.entry)
        };
        assert_eq!((entry(&names[1]), entry(&names[2])), (None, groups[2]));
        assert_eq!(fib.failures(), 0);
    }

    #[test]
    fn an_engine_that_refuses_changes_nothing() {
        let key = NameHashKey::new([1, 2]);
        let names = names();
        let (mut fib, groups) = filled(key, &names);
        let before = fib.tables().fib();
        let refused = fib.rebuild(|_| FibEngineKind::LongestFirst.build(key, 16), rules(&names, &groups));
        assert!(matches!(refused, Err(BuildError::Full { .. })), "{refused:?}");
        assert!(Arc::ptr_eq(&before, &fib.tables().fib()));
    }
}
