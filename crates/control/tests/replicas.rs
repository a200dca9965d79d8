//! Replicas of the FIB for injected memory nodes: all have the same rules, whatever is changed, refused and rebuilt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use byname_control::config::Config;
use byname_control::fib_writer::{FibEngine, FibEngineKind, FibWriter, Replica};
use byname_face::nodes::Nodes;
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::tables::{Nexthop, NexthopGroup, Tables, TablesReader};
use byname_forward::{FaceId, LinkFields, Packet, Received, Ticks, Worker};
use byname_lookup::oracle::Oracle;
use byname_lookup::prefix::PrefixMatch;
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, Update};
use byname_wire::interest::InterestBuilder;
use byname_wire::{Name, NameHashKey, NameView, PrefixHashes};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const KEY: NameHashKey = NameHashKey::new([1, 2]);
/// Nodes of one processor each.
const NODES: [&str; 3] = ["0", "0;1", "0;1;2;3"];

/// A name of up to six components, of which few names have many in common.
fn random_name(random: &mut SmallRng) -> Name {
    let depth = random.random_range(0..7);
    let uri: String = (0..depth).map(|_| format!("/{}", random.random_range(0..6))).collect();
    uri.parse().unwrap_or_default()
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a literal name")
}

fn nexthops(face: u64) -> Vec<Nexthop> {
    vec![Nexthop { face: FaceId(face), cost: 1 }]
}

/// The replicas for one thread on each of these nodes.
fn replicas(nodes: &str, mut engine: impl FnMut(usize) -> FibEngine) -> (Vec<Replica>, Arc<Tables>) {
    let count = nodes.split(';').count();
    let placement = Nodes::parse(nodes).expect("nodes").place(count, true);
    let nodes = placement.replicas();
    assert_eq!(nodes.len(), count);
    let replicas: Vec<_> =
        nodes.into_iter().enumerate().map(|(at, node)| Replica { engine: engine(at), node }).collect();
    let tables = Tables::replicated(replicas.iter().map(|replica| replica.engine.query()).collect());
    (replicas, Arc::new(tables))
}

fn readers(tables: &Arc<Tables>) -> Vec<TablesReader> {
    let reader = |replica| {
        let mut reader = tables.reader();
        reader.use_replica(replica);
        reader
    };
    (0..tables.replicas()).map(reader).collect()
}

/// The face that a reader's replica leads a name to.
fn face(reader: &TablesReader, name: &Name) -> Option<FaceId> {
    let mut hashes = PrefixHashes::default();
    hashes.fill(&KEY, name.as_ref());
    let found = reader.fib().longest_match(&NameView::from_filled(name.as_ref(), &hashes))?;
    let mut nexthops = Vec::new();
    reader.nexthops(found.entry, &mut nexthops);
    nexthops.first().map(|nexthop| nexthop.face)
}

#[test]
fn all_replicas_have_the_same_rules_after_random_changes() {
    for nodes in NODES {
        for kind in FibEngineKind::ALL {
            let (replicas, tables) = replicas(nodes, |_| kind.build(KEY, 1 << 14).expect("little memory"));
            let mut fib: FibWriter = FibWriter::replicated(replicas, Arc::clone(&tables));
            let (mut random, mut readers) = (SmallRng::seed_from_u64(1), readers(&tables));
            let mut rules: BTreeMap<Name, (u64, Option<EntryId>)> = BTreeMap::new();
            for round in 0..60 {
                // Many rules come, so that engines grow and rebuild, and most go again.
                for _ in 0..random.random_range(0..200) {
                    let name = random_name(&mut random);
                    if random.random_range(0..100) < if round < 30 { 20 } else { 80 } {
                        if let Some((_, mut group)) = rules.remove(&name) {
                            fib.clear(name.as_ref(), &mut group);
                        }
                    } else {
                        let rule = rules.entry(name.clone()).or_default();
                        rule.0 = 256 + random.random_range(0..40);
                        fib.set(name.as_ref(), &mut rule.1, &nexthops(rule.0));
                    }
                }
                fib.commit();
                readers.iter_mut().for_each(TablesReader::begin_burst);
                for _ in 0..100 {
                    let name = random_name(&mut random);
                    let view = name.as_ref();
                    let rule = (0..=view.len()).rev().find_map(|len| rules.get(&view.prefix(len).to_name()));
                    let expected = rule.map(|(face, _)| FaceId(*face));
                    for (replica, reader) in readers.iter().enumerate() {
                        assert_eq!(face(reader, &name), expected, "{kind:?}, replica {replica}, {name:?}");
                    }
                }
                readers.iter_mut().for_each(TablesReader::end_burst);
            }
            assert_eq!((fib.failures(), fib.len()), (0, rules.len()), "{kind:?}");
        }
    }
}

/// Readers on all nodes look while the writer changes a rule.
#[test]
fn a_change_is_seen_on_all_nodes_once_the_commit_returns() {
    for (nodes, kind) in [("0;1", FibEngineKind::Compact), ("0;1;2", FibEngineKind::Learned)] {
        let (replicas, tables) = replicas(nodes, |_| kind.build(KEY, 1 << 10).expect("little memory"));
        let mut fib: FibWriter = FibWriter::replicated(replicas, Arc::clone(&tables));
        let (committed, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let rule = name("/a/b");
        std::thread::scope(|scope| {
            for mut reader in readers(&tables) {
                let (committed, over, rule) = (&committed, &over, &rule);
                scope.spawn(move || {
                    while !over.load(Ordering::Acquire) {
                        let at_least = committed.load(Ordering::Acquire);
                        reader.begin_burst();
                        let seen = face(&reader, rule).map_or(0, |face| face.0);
                        assert!(seen >= at_least, "{seen}, though {at_least} was committed");
                        reader.end_burst();
                        std::thread::yield_now();
                    }
                });
            }
            let mut group = None;
            for face in 256..256 + 400 {
                fib.set(rule.as_ref(), &mut group, &nexthops(face));
                fib.set(name(&format!("/c/{face}")).as_ref(), &mut None, &nexthops(face));
                fib.commit();
                committed.store(face, Ordering::Release);
            }
            over.store(true, Ordering::Release);
        });
        assert_eq!(fib.failures(), 0);
    }
}

/// An oracle that refuses rules below `/no`.
struct Picky(Oracle);

impl Control<Name> for Picky {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<dyn PrefixFib> {
        self.0.query()
    }
    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<dyn PrefixFib>, BuildError> {
        let refused = |change: &Change<Name>| matches!(change, Change::Set(key, _) if *key >= name("/no"));
        if changes.iter().any(refused) {
            return Err(BuildError::Collision);
        }
        self.0.apply(changes)
    }
    fn reclaim(&mut self) {}
}

#[test]
fn a_rule_that_one_replica_refuses_is_in_none() {
    for picky in 0..3 {
        let engine =
            |at| -> FibEngine { if at == picky { Box::new(Picky(Oracle::new())) } else { Box::new(Oracle::new()) } };
        let (replicas, tables) = replicas("0;1;2", engine);
        let mut fib: FibWriter = FibWriter::replicated(replicas, Arc::clone(&tables));
        for (uri, face) in [("/a", 256), ("/no/x", 257), ("/b", 258)] {
            fib.set(name(uri).as_ref(), &mut None, &nexthops(face));
        }
        fib.commit();
        assert_eq!(fib.failures(), 1);
        for mut reader in readers(&tables) {
            reader.begin_burst();
            let faces = ["/a", "/no/x", "/b"].map(|uri| face(&reader, &name(uri)).map(|face| face.0));
            assert_eq!(faces, [Some(256), None, Some(258)], "replica {picky} refuses");
        }
    }
}

/// An oracle that counts the query halves that are left.
struct Counted(Oracle, Arc<AtomicUsize>);

struct CountedFib(Arc<dyn PrefixFib>, Arc<AtomicUsize>);

impl Counted {
    fn count(&self, query: Arc<dyn PrefixFib>) -> Arc<dyn PrefixFib> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Arc::new(CountedFib(query, Arc::clone(&self.1)))
    }
}

impl Control<Name> for Counted {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<dyn PrefixFib> {
        self.count(self.0.query())
    }
    fn apply(&mut self, changes: &[Change<Name>]) -> Result<Update<dyn PrefixFib>, BuildError> {
        self.0.apply(changes)?;
        Ok(Update::Replace(self.query()))
    }
    fn reclaim(&mut self) {}
}

impl PrefixFib for CountedFib {
    fn longest_match(&self, name: &NameView<'_>) -> Option<PrefixMatch> {
        self.0.longest_match(name)
    }
    fn depth_max(&self) -> usize {
        self.0.depth_max()
    }
    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

impl Drop for CountedFib {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn replaced_replicas_are_freed_when_no_worker_reads_them() {
    for nodes in NODES {
        let left = Arc::new(AtomicUsize::new(0));
        let (replicas, tables) = replicas(nodes, |_| Box::new(Counted(Oracle::new(), Arc::clone(&left))));
        let count = replicas.len();
        let mut fib: FibWriter = FibWriter::replicated(replicas, Arc::clone(&tables));
        let mut readers = readers(&tables);
        for face in 256..300 {
            fib.set(name(&format!("/{face}")).as_ref(), &mut None, &nexthops(face));
            readers.iter_mut().for_each(TablesReader::begin_burst);
            let before = left.load(Ordering::Relaxed);
            std::thread::scope(|scope| {
                // It waits for readers of the half before the last; they go on meanwhile.
                let commit = scope.spawn(|| fib.commit());
                while !commit.is_finished() {
                    readers.iter_mut().for_each(TablesReader::begin_burst);
                    std::thread::yield_now();
                }
            });
            assert!(left.load(Ordering::Relaxed) <= before + count);
            readers.iter_mut().for_each(TablesReader::begin_burst);
            assert_eq!(left.load(Ordering::Relaxed), count, "one for each node");
            readers.iter_mut().for_each(TablesReader::end_burst);
        }
    }
}

/// In this test, replicas have different rules, so that they can be told apart.
#[test]
fn the_worker_of_each_thread_reads_the_replica_of_its_node() {
    for (threads, nodes, expected) in [
        (4, "0;1;2;3", vec![0, 1, 2, 3]),
        (4, "0-1;2-3", vec![0, 0, 1, 1]),
        (4, "0,2;1,3", vec![0, 1, 0, 1]),
        (3, "4-7;0-3", vec![0, 0, 0]),
        (1, "0;1", vec![0]),
    ] {
        let placement = Nodes::parse(nodes).expect("nodes").place(threads, true);
        let fib = |entry| {
            let mut oracle = Oracle::new();
            oracle.apply(&[Change::Set(name("/a"), EntryId(entry))]).expect("the oracle takes all");
            oracle.query()
        };
        let tables = Arc::new(Tables::replicated((0..placement.replicas().len() as u32).map(fib).collect()));
        for entry in 0..4 {
            let nexthops = nexthops(300 + entry).into();
            tables.set_group(EntryId(entry as u32), Some(NexthopGroup { nexthops }));
        }
        let mut config = Config::default();
        config.threads.count = threads;
        let make = |number| Worker::try_new(config.worker(number), KEY, Arc::clone(&tables), 7);
        let mut workers = config.workers(KEY, 1, &placement, make).expect("there is memory");
        let read = workers.each_mut().iter_mut().map(|worker| {
            for face in [256, 300, 301, 302, 303] {
                worker.face_up(FaceId(face), Scope::NonLocal, LinkType::PointToPoint);
            }
            let packet = Packet::copy_from(&InterestBuilder::new(name("/a/b"), 5).encode());
            let received = Received { face: FaceId(256), fields: LinkFields::default(), packet };
            let mut output = Vec::new();
            worker.poll(Ticks(1), &mut vec![received], &mut output);
            output[0].face.0 - 300
        });
        assert_eq!(read.collect::<Vec<_>>(), expected, "{threads} threads, {nodes}");
    }
}
