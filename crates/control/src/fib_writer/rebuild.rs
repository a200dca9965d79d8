//! Exchanges the engine of a FIB while workers read it.
//!
//! The new engine is filled beside the old one, which answers meanwhile. Filling may happen on another thread: from
//! [`FibWriter::begin_rebuild`] on, the writer notes which rules change, and brings the new engine up to date in
//! [`FibWriter::finish_rebuild`]. Then its query half is published. Workers take it at their next burst, so none of them
//! waits, and no packet is lost. The old engine is freed after a grace period. The old query half may hold gigabytes,
//! and giving them back takes time. The writer therefore keeps it until it is the last owner, so that no worker has to
//! free it.
//!
//! An engine for names that are hashed with another key cannot take the place of the old one at once, because each
//! worker changes its key in its own time. It goes to the other side of the tables ([`Place::Beside`]). Both engines get
//! all changes until [`FibWriter::keep_side`].

use std::collections::HashMap;
use std::sync::Arc;

use byname_face::nodes::on_node;
use byname_lookup::{BuildError, Change, EntryId};

use super::{BATCH_MAX, Engine, Family, FibWriter, Names, Replica};

/// Where new engines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// They replace those in use.
    Instead,
    /// To the other side of the tables.
    Beside,
}

/// Gives engines that nobody reads yet these rules.
///
/// # Errors
/// If one of them refuses a rule.
pub fn fill<F: Family>(
    engines: &mut [Replica<F>],
    changes: impl Iterator<Item = Change<F::Key>>,
) -> Result<(), BuildError> {
    let mut changes = changes.peekable();
    while changes.peek().is_some() {
        let batch: Vec<Change<F::Key>> = changes.by_ref().take(BATCH_MAX).collect();
        for Replica { engine, node } in &mut *engines {
            on_node(*node, || engine.apply(&batch))?;
            engine.reclaim();
        }
    }
    Ok(())
}

impl<F: Family> FibWriter<F> {
    /// Begins to note changes for engines that are being filled. Returns the memory node of each. An earlier rebuild
    /// that was not finished is forgotten.
    pub fn begin_rebuild(&mut self) -> Vec<Option<u32>> {
        self.commit();
        self.noted = Some(HashMap::new());
        self.replicas.iter().map(|(_, replica)| replica.node).collect()
    }

    /// Notes no more changes.
    pub fn abandon_rebuild(&mut self) {
        self.noted = None;
    }

    /// Publishes engines that have had all rules since [`FibWriter::begin_rebuild`], in the order of their nodes there.
    /// Returns the engines that they replace: dropping these takes time.
    ///
    /// # Errors
    /// One of them refuses a change that came in the meantime. The old ones then go on.
    pub fn finish_rebuild(
        &mut self,
        mut engines: Vec<Replica<F>>,
        place: Place,
    ) -> Result<Vec<Replica<F>>, BuildError> {
        self.commit();
        let noted = self.noted.take().unwrap_or_default();
        let change = |(key, group): (F::Key, Option<EntryId>)| match group {
            Some(group) => Change::Set(key, group),
            None => Change::Remove(key),
        };
        fill(&mut engines, noted.into_iter().map(change))?;
        let numbers: Vec<usize> = self.replicas.iter().map(|(number, _)| *number).collect();
        debug_assert_eq!(numbers.len(), engines.len());
        let mut old = Vec::new();
        let numbers = match place {
            Place::Instead => {
                old = std::mem::take(&mut self.replicas);
                self.outlived.extend(old.iter().map(|(_, replica)| replica.engine.query()));
                numbers
            }
            Place::Beside => {
                let sides = 2 * numbers.len();
                numbers.iter().map(|number| (number + numbers.len()) % sides).collect()
            }
        };
        for (number, replica) in numbers.into_iter().zip(engines) {
            F::replace(&self.tables, number, replica.engine.query());
            self.replicas.push((number, replica));
        }
        self.reclaim();
        self.free_outlived();
        Ok(old.into_iter().map(|(_, replica)| replica).collect())
    }

    /// Replaces the engine of each replica by one that `build` makes for the replica's memory node. `rules` are all rules
    /// with their groups.
    ///
    /// # Errors
    /// The new engine cannot be made, or refuses a rule. The old one then goes on.
    pub fn rebuild(
        &mut self,
        mut build: impl FnMut(Option<u32>) -> Result<Engine<F>, BuildError>,
        rules: impl Iterator<Item = (F::Key, EntryId)>,
    ) -> Result<(), BuildError> {
        let nodes = self.begin_rebuild();
        let make = |node| Ok(Replica { engine: on_node(node, || build(node))?, node });
        let mut engines = nodes.into_iter().map(make).collect::<Result<Vec<Replica<F>>, BuildError>>()?;
        fill(&mut engines, rules.map(|(key, group)| Change::Set(key, group)))?;
        self.finish_rebuild(engines, Place::Instead).map(drop)
    }

    /// Frees earlier query halves that no worker has any more.
    pub(super) fn free_outlived(&mut self) {
        self.outlived.retain(|query| Arc::strong_count(query) > 1);
    }
}

impl FibWriter<Names> {
    /// Whether there are engines on both sides of the tables.
    pub fn has_both_sides(&self) -> bool {
        self.replicas.len() > self.tables.replicas()
    }

    /// Keeps the engines on one side, which all workers read by now: the later ones, or the earlier. Returns the others:
    /// dropping these takes time.
    pub fn keep_side(&mut self, later: bool) -> Vec<Replica> {
        if !self.has_both_sides() {
            return Vec::new();
        }
        self.commit();
        let replicas = self.tables.replicas();
        let mut old = self.replicas.split_off(replicas);
        if later {
            std::mem::swap(&mut self.replicas, &mut old);
        }
        self.outlived.extend(old.iter().map(|(_, replica)| replica.engine.query()));
        self.tables.use_side(self.replicas[0].0 / replicas);
        self.reclaim();
        self.free_outlived();
        old.into_iter().map(|(_, replica)| replica).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use byname_forward::FaceId;
    use byname_forward::tables::{Nexthop, Tables};
    use byname_wire::name_hash::HashFunction;
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
        names.iter().zip(groups).filter_map(|(name, group)| Some((name.clone(), (*group)?)))
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
    fn changes_while_engines_are_filled_are_in_both_and_workers_change_sides_in_their_own_time() {
        let keys = [NameHashKey::new([1, 2]), NameHashKey::with_function(HashFunction::Aes, [3, 4])];
        let names = names();
        let (mut fib, mut groups) = filled(keys[0], &names);
        let tables = Arc::clone(fib.tables());
        let [mut early, mut late] = [tables.reader(), tables.reader()];
        let nodes = fib.begin_rebuild();
        let engine = FibEngineKind::Compact.build(keys[1], 2 * RULES).expect("little memory");
        let mut engines = vec![Replica { engine, node: nodes[0] }];
        // These are read before they change, and those in the second half after.
        let half = |from: usize, groups: &[Option<EntryId>]| {
            let some = names.iter().zip(groups).skip(from).take(RULES / 2);
            some.filter_map(|(name, group)| Some(Change::Set(name.clone(), (*group)?))).collect::<Vec<_>>()
        };
        fill(&mut engines, half(0, &groups).into_iter()).expect("room");
        let other = [Nexthop { face: FaceId(999), cost: 7 }];
        for n in [3, RULES - 3] {
            fib.set(names[n].as_ref(), &mut groups[n], &other);
        }
        fib.clear(names[4].as_ref(), &mut groups[4]);
        fill(&mut engines, half(RULES / 2, &groups).into_iter()).expect("room");
        fib.clear(names[RULES - 4].as_ref(), &mut groups[RULES - 4]);
        assert!(fib.finish_rebuild(engines, Place::Beside).expect("room").is_empty());
        // One worker has changed its key already.
        late.use_replica(1);
        fib.set(names[5].as_ref(), &mut groups[5], &other);
        fib.commit();
        early.begin_burst();
        late.begin_burst();
        for (reader, key) in [(&early, keys[0]), (&late, keys[1])] {
            for (name, group) in names.iter().zip(&groups) {
                let mut hashes = PrefixHashes::default();
                hashes.fill(&key, name.as_ref());
                let found = reader.fib().longest_match(&NameView::from_filled(name.as_ref(), &hashes));
                assert_eq!(found.map(|found| found.entry), *group, "{name}");
            }
        }
        early.end_burst();
        late.end_burst();
        early.use_replica(1);
        assert!(fib.has_both_sides());
        assert_eq!(fib.keep_side(true).len(), 1);
        assert!(!fib.has_both_sides() && fib.keep_side(true).is_empty());
        assert_eq!((tables.side(), fib.failures()), (1, 0));
        fib.clear(names[5].as_ref(), &mut groups[5]);
        fib.rebuild(|_| FibEngineKind::Learned.build(keys[1], 2 * RULES), rules(&names, &groups)).expect("built");
        early.begin_burst();
        let mut hashes = PrefixHashes::default();
        for (n, group) in [(5, None), (6, groups[6])] {
            hashes.fill(&keys[1], names[n].as_ref());
            let found = early.fib().longest_match(&NameView::from_filled(names[n].as_ref(), &hashes));
            assert_eq!(found.map(|found| found.entry), group);
        }
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
