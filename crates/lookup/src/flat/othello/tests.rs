//! Tests the worked example of [Concise §4], Theorem 1, and the bounds of the graph.

use byname_wire::Digest;

use super::batch::{Step, Undo};
use super::changes::next_seed;
use super::graph::{Builder, EDGES_MAX, Graph, NoGraph};
use super::place::Width;
use super::{Network, NetworkChange, Options, Othello};
use crate::entry::EntryId;
use crate::update::{Change, Control, Update};

/// The maximum width, so that a side has as few vertices as possible: 16 in a line.
const WIDTH: u32 = 32;

fn digest(number: u64) -> Digest {
    let mut state = next_seed(&mut { number });
    Digest { hash: next_seed(&mut state), check: next_seed(&mut state) }
}

/// The graph of some names, and the number of hash functions that were drawn.
fn build(names: impl IntoIterator<Item = Digest>, lines: u32) -> Result<(Graph, usize), NoGraph> {
    let mut seeds = 0;
    let graph = Builder::default().graph(names, Width::new(WIDTH), lines, || {
        seeds += 1;
        next_seed(&mut { seeds })
    })?;
    Ok((graph, seeds as usize))
}

/// [Concise, Figure 2] has five names: k0, k3 and k4 in the set X, k1 and k2 in the set Y. The two values of a name are
/// equal in X and differ in Y [Concise §4.1]. The figure has eight values on a side; this test has 16.
#[test]
fn the_papers_five_names_are_in_their_sets() {
    let names: [_; 5] = std::array::from_fn(|k| digest(k as u64));
    let sets = [0, 1, 1, 0, 0];
    let mut builder = Builder::default();
    let graph = builder.graph(names, Width::new(WIDTH), 1, || 5).expect("one draw in two has no cycle");
    let numbered: Vec<_> = graph.names().collect();
    let entry = |name: &Digest| sets[names.iter().position(|known| known == name).expect("one of the five")];
    builder.resume(&graph);
    let values = builder.values(&graph, &numbered.iter().map(entry).collect::<Vec<_>>()).to_vec();
    for (name, set) in names.iter().zip(sets) {
        let [a, b] = graph.ends(*name).map(|end| values[end as usize]);
        assert!(a < 2 && b < 2, "white or black");
        assert_eq!(a ^ b, set);
    }
}

/// The same names are added one by one, moved to the other set, and deleted [Concise §4.3.2 to §4.3.4].
#[test]
fn the_papers_operations_move_names_between_sets() {
    let options = Options { entry_bits: 1, ..Options::default() };
    let mut othello = Othello::new(options).expect("a little memory");
    let mut sets = [0, 1, 1, 0, 0];
    let check = |othello: &Othello, sets: [u32; 5], from: usize| {
        let fib = othello.query();
        (from..5).for_each(|k| assert_eq!(fib.entry(digest(k as u64)), Some(EntryId(sets[k]))));
    };
    for (k, set) in (0..).zip(sets) {
        othello.apply(&[Change::Set(digest(k), EntryId(set))]).expect("room for five");
    }
    check(&othello, sets, 0);
    for k in 0..5 {
        sets[k] ^= 1;
        othello.apply(&[Change::Set(digest(k as u64), EntryId(sets[k]))]).expect("no name more");
        check(&othello, sets, 0);
    }
    for k in 0..5 {
        othello.apply(&[Change::Remove(digest(k as u64))]).expect("a removal");
        assert_eq!(othello.entry(digest(k as u64)), None);
        check(&othello, sets, k + 1);
    }
}

/// "The expected number of rounds to find an acyclic G is at most 1.51 when c < 0.75"
/// [Concise §4.3.1]: 1 / sqrt(1 - c²), by Theorem 1.
#[test]
fn as_many_hash_functions_are_drawn_as_theorem_1_says() {
    const TRIALS: usize = 300;
    let (side, names) = (16 * 64, 16 * 48);
    let rounds = (0..TRIALS).map(|trial| {
        let from = trial as u64 * names;
        let (graph, rounds) = build((from..from + names).map(digest), 64).expect("uniform digests");
        assert_eq!(u64::from(graph.shape().side(Width::new(WIDTH))), side);
        rounds
    });
    let mean = rounds.sum::<usize>() as f64 / TRIALS as f64;
    // The standard deviation of the mean is 0.05.
    assert!((1.3..1.72).contains(&mean), "{mean} draws");
}

#[test]
fn equal_names_and_too_many_names_have_no_graph() {
    assert_eq!(build([1, 2, 1].map(digest), 1).err(), Some(NoGraph::Duplicate));
    let names = |count: usize| (0..count as u64).map(digest);
    assert!(build(names(EDGES_MAX), 5000).is_ok_and(|(graph, _)| graph.len() == EDGES_MAX));
    assert_eq!(build(names(EDGES_MAX + 1), 5000).err(), Some(NoGraph::Skewed));
}

/// A side grows if it has too few vertices for its names.
#[test]
fn a_side_that_is_too_small_grows() {
    let (graph, rounds) = build((0..200).map(digest), 1).expect("it grows within its bound");
    assert!(graph.shape().lines > 8 && rounds > 16, "{:?} after {rounds}", graph.shape());
}

/// A batch that fails halfway is undone: rebuilt and split parts, and names that were added or changed, once or
/// repeatedly.
#[test]
fn what_is_undone_leaves_nothing() {
    let entry = |number: u64, table: u64| EntryId((number * 7 + table) as u32 % 251);
    for part_names in [1, 8, 300, 1 << 15] {
        let names: Vec<_> = (0..2000).map(digest).collect();
        let entries = [0, 1].map(|table| (0..2000).map(|number| entry(number, table)).collect::<Vec<_>>());
        let options = Options { part_names, ..Options::default() };
        let entries = entries.each_ref().map(Vec::as_slice);
        let mut network = Network::construct(options, &names, &entries).expect("a little memory");
        let fibs = [network.query(0), network.query(1)];
        for round in 1..4 {
            let set = [EntryId(round), EntryId(200 + round)];
            let steps = (0..3000).map(|i| Step::Set(digest(i * u64::from(round) % 4000), &set));
            let altered = (0..500).map(|i| Step::Alter(digest(i * 3), 1, EntryId(9)));
            network.prepare(steps.clone().map(|step| (step.name(), true))).expect("room");
            let mut undo = Undo::default();
            network.set_all(steps.chain(altered), &mut undo).expect("digests are spread");
            assert_eq!(network.entry(1, digest(0)), Some(EntryId(9)));
            network.undo_all(&mut undo);
            assert_eq!(network.len(), 2000);
            assert_eq!((2000..4000).find_map(|number| network.entry(0, digest(number))), None);
            for number in 0..2000 {
                for table in [0, 1] {
                    let right = Some(entry(number, table));
                    assert_eq!(network.entry(table as usize, digest(number)), right, "parts of {part_names}");
                    assert_eq!(fibs[table as usize].entry(digest(number)), right, "parts of {part_names}");
                }
            }
            assert!(matches!(network.publish(0), Update::Patched), "readers have what there is");
        }
        network
            .apply(&[NetworkChange::Remove(names[1]), NetworkChange::Set(digest(2000), [EntryId(4); 2].into())])
            .expect("room");
        assert_eq!(
            [2, 2000].map(|number| network.query(0).entry(digest(number))),
            [Some(EntryId(14)), Some(EntryId(4))]
        );
    }
}
