use std::collections::BTreeMap;

use byname_wire::name::Component;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::plan::{Cuts, Placement, Plan, Survey};
use super::*;
use crate::flat::labelled::{self, Labels};
use crate::oracle::Oracle;
use crate::prefix::LongestFirst;
use crate::temporary::Temporary;

const KEY: NameHashKey = NameHashKey::new([1, 2]);

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn nodes(count: usize) -> Vec<Name> {
    (0..count).map(|i| name(&format!("/r{i}"))).collect()
}

/// Rules in canonical order, with an entry and an egress each.
type Rules = BTreeMap<Name, (EntryId, Option<usize>)>;

fn planned(rules: &Rules, nodes: Vec<Name>, cut_max: u64) -> (Plan, Cuts, Vec<Placement>) {
    let mut survey = Survey::new(KEY, cut_max);
    for (name, (_, egress)) in rules {
        survey.push(name.as_ref(), *egress).expect("a map is sorted");
    }
    assert_eq!(survey.rules(), rules.len() as u64);
    let (mut plan, mut cuts) = (survey.finish(nodes), Cuts::default());
    let places =
        rules.iter().map(|(name, (_, egress))| plan.place_and_cut(name.as_ref(), *egress, &mut cuts)).collect();
    (plan, cuts, places)
}

fn saved(file: &Temporary, plan: &Plan, cuts: &Cuts, check_bits: u32) -> Partition {
    plan::save(&file.0, plan, cuts, check_bits, &mut |_| {}).expect("room, and a new file");
    Partition::open(&file.0, Opening::default()).expect("ours")
}

/// Entries of the ways to nodes, in `Translation`s of all nodes.
const WAYS: u32 = 1_000_000;

/// A node with its rules, those that all have, and those of `holds`.
fn node(file: &Temporary, rules: &Rules, places: &[Placement], holds: &[usize]) -> Partitioned<LongestFirst> {
    let partition = Partition::open(&file.0, Opening::default()).expect("ours");
    let names: Vec<_> = holds.iter().map(|node| partition.nodes()[*node].clone()).collect();
    let count = partition.nodes().len() as u32;
    let engine = LongestFirst::new(KEY, 10_000);
    let (mut control, entries) = Partitioned::new(engine, partition, &names).expect("its nodes");
    (0..count).for_each(|node| entries.set(EntryId(node), Some(EntryId(WAYS + node))));
    let here = |place: &Placement| match place {
        Placement::Everywhere => true,
        Placement::At { node, .. } => holds.contains(node),
    };
    let own = rules.iter().zip(places).filter(|(_, place)| here(place));
    let changes: Vec<_> = own.map(|((name, (entry, _)), _)| Change::Set(name.clone(), *entry)).collect();
    control.apply(&changes).expect("room");
    assert!(control.covering.is_empty(), "no rule of a node is cut elsewhere");
    control
}

fn ask(fib: &dyn PrefixFib, names: &[Name]) -> Vec<Option<PrefixMatch>> {
    let mut answers = Vec::new();
    for names in names.chunks(BURST_MAX) {
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

/// Names of up to `depth` components of few letters.
fn random_name(random: &mut SmallRng, depth: usize) -> Name {
    let letters = b"abcdefgh";
    let depth = random.random_range(0..=depth);
    let components =
        (0..depth).map(|_| Component::generic(std::slice::from_ref(&letters[random.random_range(0..letters.len())])));
    Name::from_components(components)
}

#[test]
fn nodes_together_answer_as_one_table_of_all_rules() {
    for seed in 0..12 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let count = [1, 2, 4, 15][seed as usize % 4];
        let mut rules = Rules::new();
        for entry in 0..600 {
            // By owner, by egress, and by both.
            let egress = [
                None,
                Some(random.random_range(0..count)),
                random.random_bool(0.5).then(|| random.random_range(0..count)),
            ];
            rules.insert(random_name(random, 6), (EntryId(entry), egress[seed as usize % 3]));
        }
        let (plan, cuts, places) = planned(&rules, nodes(count), [1, 5, 40][random.random_range(0..3)]);
        for ((name, (_, egress)), place) in rules.iter().zip(&places) {
            if let (Some(egress), Placement::At { node, .. }) = (egress, place) {
                assert_eq!(node, egress, "{name} is where it leaves");
            }
        }
        let file = Temporary::new(&format!("together-{seed}"));
        saved(&file, &plan, &cuts, 4);
        let mut oracle = Oracle::new();
        let all: Vec<_> = rules.iter().map(|(name, (entry, _))| Change::Set(name.clone(), *entry)).collect();
        oracle.apply(&all).expect("an oracle takes all");
        let asked: Vec<_> = (0..2000).map(|_| random_name(random, 9)).collect();
        let want = ask(&*oracle.query(), &asked);
        // Each node has the rules of the next one, too.
        let routers: Vec<_> = (0..count).map(|i| node(&file, &rules, &places, &[i, (i + 1) % count])).collect();
        for router in &routers {
            let mut first = ask(&*router.query(), &asked);
            let mut crossed = vec![Vec::new(); count];
            for (i, found) in first.iter().enumerate() {
                if let Some(node) = found.and_then(|found| found.entry.0.checked_sub(WAYS)) {
                    crossed[node as usize].push(i);
                }
            }
            for (at, crossed) in crossed.iter().enumerate() {
                let names: Vec<_> = crossed.iter().map(|i| asked[*i].clone()).collect();
                for (i, found) in crossed.iter().zip(ask(&*routers[at].query(), &names)) {
                    first[*i] = found;
                }
            }
            assert_eq!(first, want, "seed {seed}: at most one crossing, and the right rule");
        }
    }
}

#[test]
fn a_node_without_a_way_is_as_a_node_without_rules_and_longer_rules_cover_it() {
    let rules: Rules = (0..40).map(|i| (name(&format!("/n{i}/x")), (EntryId(i), None))).collect();
    let (plan, cuts, places) = planned(&rules, nodes(2), 10);
    let file = Temporary::new("covers");
    saved(&file, &plan, &cuts, 16);
    let mut control = node(&file, &rules, &places, &[0]);
    let at = |place: &Placement, wanted: usize| matches!(place, Placement::At { node, .. } if *node == wanted);
    let other = places.iter().position(|place| at(place, 1)).expect("half of them");
    let (cut, below) = (name(&format!("/n{other}")), name(&format!("/n{other}/x/y")));
    let of = |control: &Partitioned<LongestFirst>, name: &Name| {
        ask(&*control.query(), std::slice::from_ref(name))[0].map(|found| (found.entry.0, found.depth))
    };
    assert_eq!(of(&control, &below), Some((WAYS + 1, 1)));
    control.apply(&[Change::Set(Name::default(), EntryId(500))]).expect("room");
    assert_eq!(of(&control, &below), Some((WAYS + 1, 1)), "a shorter rule does not cover a cut");
    assert_eq!(of(&control, &name("/stranger")), Some((500, 0)));
    // An application of this node registers a prefix below a cut of the other, and the cut itself.
    control.apply(&[Change::Set(below.clone(), EntryId(501))]).expect("room");
    assert_eq!(of(&control, &below), Some((501, 3)));
    assert_eq!(of(&control, &name(&format!("/n{other}/z"))), Some((WAYS + 1, 1)));
    control.apply(&[Change::Set(cut.clone(), EntryId(502)), Change::Remove(below.clone())]).expect("room");
    assert_eq!(of(&control, &below), Some((502, 1)));
    control.apply(&[Change::Remove(cut)]).expect("known");
    assert_eq!(of(&control, &below), Some((WAYS + 1, 1)));
    assert!(!control.shared.has_covering.load(Ordering::Relaxed));
    // The way to the node goes.
    control.shared.entries.set(EntryId(1), None);
    assert_eq!(of(&control, &below), Some((500, 0)));
}

#[test]
fn unknown_names_go_elsewhere_as_rarely_as_the_checksum_says() {
    let rules: Rules = (0..3000).map(|i| (name(&format!("/n{i}")), (EntryId(i), None))).collect();
    let (plan, cuts, _) = planned(&rules, nodes(4), 10);
    assert_eq!(cuts.len(), rules.len());
    let file = Temporary::new("rate");
    let partition = saved(&file, &plan, &cuts, 4);
    assert_eq!((partition.nodes().len(), partition.check_bits(), partition.cuts()), (4, 4, 3000));
    let mut hashes = PrefixHashes::default();
    let mut wrong = 0;
    for i in 0..20_000 {
        let asked = name(&format!("/unknown{i}/x"));
        wrong += usize::from(partition.node(&NameView::new(&KEY, asked.as_ref(), &mut hashes)).is_some());
    }
    // The odds are 1/16, of which labels beyond the last node are none.
    assert!((500..1500).contains(&wrong), "{wrong} of 20,000");
    assert!(partition.memory_bytes() < 3000 * 3 + 4096, "{}", partition.memory_bytes());
}

#[test]
fn cuts_are_balanced_and_only_what_must_moves() {
    let mut rules = Rules::new();
    // One prefix has nearly all rules.
    for i in 0..20_000 {
        rules.insert(name(&format!("/com/d{i}")), (EntryId(0), None));
    }
    for i in 0..500 {
        rules.insert(name(&format!("/n{i}/x")), (EntryId(0), None));
    }
    rules.insert(name("/com"), (EntryId(0), None));
    rules.insert(name("/"), (EntryId(0), None));
    let place = |count| planned(&rules, nodes(count), 100).2;
    let (four, five) = (place(4), place(5));
    let everywhere = four.iter().filter(|place| **place == Placement::Everywhere).count();
    assert_eq!(everywhere, 2, "the rules above all cuts");
    let share = |node: usize| {
        four.iter().filter(|place| matches!(place, Placement::At { node: at, .. } if *at == node)).count()
    };
    for node in 0..4 {
        assert!((4600..5650).contains(&share(node)), "node {node} has {}", share(node));
    }
    let mut moved = 0;
    for (before, after) in four.iter().zip(&five) {
        if before != after {
            assert!(matches!(after, Placement::At { node: 4, .. }), "what moves goes to the new node");
            moved += 1;
        }
    }
    assert!((3600..4600).contains(&moved), "a fifth moves: {moved}");
}

#[test]
fn rules_out_of_order_and_foreign_files_are_refused() {
    let mut survey = Survey::new(KEY, 10);
    survey.push(name("/b").as_ref(), None).expect("the first");
    for wrong in ["/b", "/a", "/a/c"] {
        assert!(matches!(survey.push(name(wrong).as_ref(), None), Err(BuildError::Unsorted)), "{wrong}");
    }
    let file = Temporary::new("foreign");
    assert!(matches!(Partition::open(&file.0, Opening::default()), Err(PartitionError::File(_))));
    let digest = KEY.digest_bytes(b"x");
    for (texts, check_bits) in [
        (vec!["/up/1"], 4),
        (vec!["2"], 4),
        (vec!["0", "/r1"], 4),
        (vec!["1000", "/r1"], 4),
        (vec!["2", "r1"], 4),
        (vec!["2", "/r1"], 0),
    ] {
        let labels = Labels { texts: texts.iter().map(|text| text.as_bytes().into()).collect(), check_bits };
        labelled::save((&file.0, &KEY), &labels, &[(digest, EntryId(0))], &mut |_| {}).expect("a new file");
        let opened = Partition::open(&file.0, Opening::default());
        match check_bits {
            0 => assert!(matches!(opened, Err(PartitionError::NoChecksum))),
            _ => assert!(matches!(opened, Err(PartitionError::Label { .. })), "{texts:?}"),
        }
        std::fs::remove_file(&file.0).expect("it is there");
    }
    // Numbers of nodes that there are not.
    let labels = Labels { texts: ["1", "/r0", "/r1"].map(|text| text.as_bytes().into()).into(), check_bits: 4 };
    labelled::save((&file.0, &KEY), &labels, &[(digest, EntryId(2))], &mut |_| {}).expect("a new file");
    let partition = Partition::open(&file.0, Opening::default()).expect("a partition");
    let engine = LongestFirst::new(KEY, 10);
    let refused = Partitioned::new(engine, partition, &[name("/r9")]).map(drop).expect_err("no such node");
    assert_eq!(refused.to_string(), "the partition has no node /r9; it has /r0, /r1");
}
