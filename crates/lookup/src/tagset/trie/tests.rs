use std::ops::ControlFlow;

use byname_wire::tagset::TAGS_MAX;
use byname_wire::{Filter, TagDigest};

use super::build::build;
use super::node::{END, Node};
use super::run::Run;
use super::walk::{All, Largest, Search};
use super::*;
use crate::tagset::TagQuery;
use crate::update::{Change, Control};

/// The worked example [TagNet, Figure 1]: six descriptors of ten bits, counted from 1.
const EXAMPLE: [&[u8]; 6] = [&[1, 5], &[1, 3, 8], &[2, 3, 5], &[3, 4, 5, 9], &[3, 5, 7], &[5, 8]];

/// The filter with these bits, counted from 1.
fn filter(ones: &[u8]) -> Filter {
    Filter::from_words([ones.iter().map(|one| 1 << (one - 1)).sum(), 0, 0]).expect("low bits")
}

fn example(options: &Options) -> Run {
    let leaf = |i: usize| Leaf { entry: Some(EntryId(i as u32)), print: i as u64 };
    let items = EXAMPLE.iter().enumerate().map(|(i, ones)| Item { filter: filter(ones), leaf: leaf(i) });
    build(options, items.collect()).expect("six different filters").0
}

/// The nodes in order: position (counted from 1, 0 for the terminator), smallest and largest depth,
/// whether it is the last sibling.
fn nodes(run: &Run) -> Vec<(u8, u32, u32, bool)> {
    let cells = |node: Node| {
        let position = if node.position() == END { 0 } else { node.position() + 1 };
        (position, node.min(), node.max(), node.is_last())
    };
    (0..run.nodes_used as u32).map(|at| cells(run.node(at))).collect()
}

/// The nodes that Algorithm 3 visits for a packet with these bits, and what it finds.
fn visits(run: &Run, options: &Options, ones: &[u8]) -> (Vec<u32>, Vec<u32>) {
    let (mut visited, mut found, mut stack) = (Vec::new(), Vec::new(), Vec::new());
    let mut visit = |entry: EntryId| {
        found.push(entry.0);
        ControlFlow::Continue(())
    };
    let walked = Search::new(options, &mut stack).walk(run, filter(ones), &mut All(&mut visit), &mut |at| {
        visited.push(at);
    });
    assert_eq!(walked, Some(()));
    (visited, found)
}

const UNPRUNED: Prunings = Prunings { by_weight: false, by_rest: false, by_best: false };

fn options(permute: bool, chains: Chains, layout: Layout) -> Options {
    Options { permute, chains, layout, prunings: UNPRUNED, ..Options::default() }
}

#[test]
fn the_trie_of_figure_1_has_22_nodes_and_its_depths() {
    let run = example(&options(false, Chains::Kept, Layout::SiblingOrder));
    assert_eq!(run.nodes_used, 22);
    let root: Vec<_> = nodes(&run)[1..=4].to_vec();
    assert_eq!(root, [(1, 2, 3, false), (2, 3, 3, false), (3, 3, 4, false), (5, 2, 2, true)]);
}

#[test]
fn the_permutation_of_figure_2_leaves_18_nodes() {
    let run = example(&options(true, Chains::Kept, Layout::SiblingOrder));
    assert_eq!(run.nodes_used, 18);
    // (2,3,5) becomes (1,2,5).
    let positions: Vec<_> = run.order.key(filter(&[2, 3, 5])).rest(0).map(|position| position + 1).collect();
    assert_eq!(positions, [1, 2, 5]);
}

#[test]
fn figure_3_and_4_move_terminators_to_the_heads_of_chains() {
    let run = example(&options(true, Chains::Removed, Layout::SiblingOrder));
    let expected = [
        // The root, and its children.
        (0, 2, 4, true),
        (1, 2, 4, false),
        (2, 3, 3, true),
        // The children of 1.
        (2, 3, 4, false),
        (3, 2, 2, false),
        (4, 2, 2, true),
        // The children of 1-2.
        (5, 3, 3, false),
        (6, 4, 4, false),
        (7, 3, 3, true),
        // Terminators of these, of 1-3 and 1-4, and that of 2, which links to (3, 4).
        (0, 3, 3, true),
        (0, 4, 4, true),
        (0, 3, 3, true),
        (0, 2, 2, true),
        (0, 2, 2, true),
        (0, 3, 3, true),
    ];
    assert_eq!(nodes(&run), expected);
    assert_eq!(run.node(2).place(), 14);
    assert_eq!(run.half(run.node(14).place() + 1).to_le_bytes(), [2, 3, END, END]);
    // With ours, terminators and heads are one node.
    let folded = example(&options(true, Chains::Folded, Layout::SiblingOrder));
    assert_eq!(nodes(&folded), expected[..9]);
}

#[test]
fn figure_5_visits_nodes_in_these_orders() {
    let sibling_order = options(true, Chains::Removed, Layout::SiblingOrder);
    let run = example(&sibling_order);
    // (1,2,4,7) after the permutation.
    let packet = [5, 3, 8, 7];
    let (visited, found) = visits(&run, &sibling_order, &packet);
    assert_eq!(visited, [1, 2, 14, 3, 4, 5, 13, 6, 7, 8, 11]);
    assert_eq!(found, [5, 4]);
    let reverse = options(true, Chains::Removed, Layout::SiblingReverseOrder);
    let (visited, found) = visits(&example(&reverse), &reverse, &packet);
    assert_eq!(visited, [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]);
    assert!(visited.is_sorted(), "nicely sequential");
    assert_eq!(found, [5, 4]);
}

#[test]
fn the_second_strategy_skips_what_section_3_1_4_says() {
    let by_rest = Prunings { by_rest: true, ..UNPRUNED };
    let options = Options { prunings: by_rest, ..options(false, Chains::Kept, Layout::SiblingOrder) };
    let run = example(&options);
    let third = run.node(3);
    assert_eq!(third.position() + 1, 3);
    let (visited, found) = visits(&run, &options, &[1, 3, 5]);
    assert!(!visited.contains(&third.place()), "{visited:?}");
    assert_eq!(found, [0]);
    let (visited, _) = visits(&run, &Options { prunings: UNPRUNED, ..options.clone() }, &[1, 3, 5]);
    assert!(visited.contains(&third.place()), "{visited:?}");
}

#[test]
fn each_strategy_saves_visits_and_changes_no_answer() {
    let kinds = [
        UNPRUNED,
        Prunings { by_weight: true, ..UNPRUNED },
        Prunings { by_rest: true, ..UNPRUNED },
        Prunings { by_weight: true, by_rest: true, by_best: true },
    ];
    let run = many(&Options::default());
    let (mut steps, mut answers) = (Vec::new(), Vec::new());
    for prunings in kinds {
        let options = Options { prunings, ..Options::default() };
        let found = (0..200).map(|packet| largest(&run, &options, Filter::of(&tags(packet, 1 + packet % 7))));
        let (entries, visits): (Vec<_>, Vec<_>) = found.unzip();
        steps.push(visits.into_iter().sum::<u32>());
        answers.push(entries);
    }
    assert!(steps[1] < steps[0] && steps[2] < steps[1] && steps[3] <= steps[2], "{steps:?}");
    assert!(answers.iter().all(|entries| *entries == answers[0]));
}

#[test]
fn the_third_strategy_skips_what_holds_more_than_the_packet_can_match() {
    let options =
        |by_best| Options { prunings: Prunings { by_best, ..UNPRUNED }, permute: false, ..Options::default() };
    let leaf = Leaf { entry: Some(EntryId(1)), print: 0 };
    let ones: [&[u8]; 3] = [&[6, 7, 8], &[1, 9], &[1, 9, 10, 11, 12]];
    let items = ones.map(|ones| Item { filter: filter(ones), leaf });
    let run = build(&options(true), items.to_vec()).expect("three different filters").0;
    // After 1 and 9 the packet has no bit, and it has matched three already.
    let packet = filter(&[1, 6, 7, 8, 9]);
    let steps = |by_best| largest(&run, &options(by_best), packet).1;
    assert_eq!((steps(false), steps(true)), (5, 3));
}

fn largest(run: &Run, options: &Options, packet: Filter) -> (Option<EntryId>, u32) {
    let (mut accept, mut stack) = (|_| true, Vec::new());
    let mut goal = Largest::new(options, &mut accept);
    let mut search = Search::new(options, &mut stack);
    assert_eq!(search.walk(run, packet, &mut goal, &mut |_| ()), Some(()));
    (goal.entry(), search.steps)
}

/// The tags of set `number`, from a vocabulary of 60.
fn tags(number: u32, len: u32) -> Vec<TagDigest> {
    let mut tags: Vec<_> = (0..len).map(|i| TagDigest((number * 7 + i * i * 13 + number / 60 * i) % 60)).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// The filter of descriptor `number` of [`many`].
fn one_of_many(number: u32) -> Filter {
    Filter::of(&tags(number, 2 + number % 4))
}

fn many(options: &Options) -> Run {
    let item = |i: u32| Item { filter: one_of_many(i), leaf: Leaf { entry: Some(EntryId(i)), print: 0 } };
    build(options, (0..3000).map(item).collect()).expect("prints are alike").0
}

fn descriptor(number: u32) -> Descriptor {
    Descriptor::from_digests((0..4).map(|i| TagDigest(number * 4 + i))).expect("four tags")
}

fn find(fib: &dyn TagsetFib, descriptor: &Descriptor) -> Option<EntryId> {
    let mut all = Vec::new();
    let query = TagQuery::of_filter(descriptor.filter());
    fib.all_subsets(&query, &mut |entry| {
        all.push(entry);
        ControlFlow::Continue(())
    });
    assert!(all.len() <= 1);
    all.pop()
}

/// Adds `count` descriptors from `first` on, in batches.
fn fill(table: &mut TagTrie, first: u32, count: u32) {
    let changes: Vec<_> = (first..first + count).map(|i| Change::Set(descriptor(i), EntryId(i))).collect();
    changes.chunks(100).for_each(|batch| drop(table.apply(batch).expect("room")));
}

#[test]
fn changes_during_a_merge_are_in_what_it_makes() {
    let options = Options { list_max: 64, ..Options::default() };
    let mut table = TagTrie::load(&options, (0..200_000).map(|i| (descriptor(i), EntryId(i)))).expect("memory");
    fill(&mut table, 200_000, 100_000);
    table.apply(&[Change::Remove(descriptor(5))]).expect("room");
    let merge = table.merge().expect("tries of about the same size");
    assert!(merge.descriptors() > 250_000 && table.merge().is_none());
    let merging = std::thread::spawn(|| merge.run().expect("memory"));
    let during = [
        Change::Remove(descriptor(1)),
        Change::Set(descriptor(2), EntryId(7)),
        Change::Remove(descriptor(3)),
        Change::Set(descriptor(3), EntryId(8)),
        // The merge may have left it out before it came back.
        Change::Set(descriptor(5), EntryId(9)),
        Change::Set(descriptor(400_000), EntryId(10)),
    ];
    table.apply(&during).expect("room");
    fill(&mut table, 300_000, 1000);
    let before = table.len();
    let Ok(Update::Replace(fib)) = table.take(merging.join().expect("no panic")) else { panic!("a new query half") };
    assert_eq!(table.len(), before);
    let right = [
        (0, Some(0)),
        (1, None),
        (2, Some(7)),
        (3, Some(8)),
        (5, Some(9)),
        (400_000, Some(10)),
        (300_999, Some(300_999)),
    ];
    for (number, entry) in right {
        assert_eq!(find(&*fib, &descriptor(number)), entry.map(EntryId), "{number}");
    }
    assert!(
        (0..300_000)
            .step_by(97)
            .filter(|i| !(1..=5).contains(i))
            .all(|i| find(&*fib, &descriptor(i)) == Some(EntryId(i)))
    );
}

#[test]
fn a_merge_that_is_dropped_is_due_again() {
    let options = Options { list_max: 64, ..Options::default() };
    let mut table = TagTrie::load(&options, (0..200_000).map(|i| (descriptor(i), EntryId(i)))).expect("memory");
    fill(&mut table, 200_000, 50_000);
    drop(table.merge().expect("due"));
    let merge = table.merge().expect("due again");
    let merged = merge.run().expect("memory");
    table.take(merged).expect("memory");
    assert_eq!(table.len(), 250_000);
    assert!(table.merge().is_none());
}

#[test]
fn a_table_that_is_full_refuses_a_batch_whole() {
    let options = Options { descriptors_max: 10, ..Options::default() };
    let mut table = TagTrie::new(&options).expect("memory");
    fill(&mut table, 0, 10);
    let set = |i| Change::Set(descriptor(i), EntryId(1));
    let batch = [set(0), Change::Remove(descriptor(1)), set(1), set(10)];
    assert_eq!(table.apply(&batch).map(|_| ()), Err(BuildError::Full { rules: 10 }));
    assert_eq!(find(&*table.query(), &descriptor(0)), Some(EntryId(0)));
    table.apply(&[Change::Remove(descriptor(1)), set(10)]).expect("room for one");
    assert_eq!(find(&*table.query(), &descriptor(10)), Some(EntryId(1)));
}

#[test]
fn the_first_of_equally_large_ones_is_one_of_them() {
    let run = many(&Options::default());
    for packet in 0..200 {
        let of = |ties| {
            let options = Options { ties, ..Options::default() };
            let (entry, steps) = largest(&run, &options, Filter::of(&tags(packet, 5)));
            (entry.map(|entry| one_of_many(entry.0).weight()), steps)
        };
        let ((first, few), (smallest, more)) = (of(Ties::First), of(Ties::Smallest));
        assert_eq!(first, smallest);
        assert!(few <= more);
    }
}

#[test]
fn long_descriptors_are_found() {
    let mut table = TagTrie::new(&Options::default()).expect("memory");
    let tags = |n: u32| Descriptor::from_digests((0..n).map(|i| TagDigest(i * i + n))).expect("few enough");
    let changes: Vec<_> = (0..=TAGS_MAX as u32).map(|n| Change::Set(tags(n), EntryId(n))).collect();
    table.apply(&changes).expect("room");
    let fib = table.query();
    for n in 0..=TAGS_MAX as u32 {
        let (found, _) = fib.largest_subset(&TagQuery::of_tags(tags(n).tags()), &mut |entry| entry.0 >= n);
        assert_eq!(found, Some(EntryId(n)));
    }
}
