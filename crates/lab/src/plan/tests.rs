use byname_lookup::locator::Graph;
use clap::Parser;

use super::record::bound_bits;
use super::*;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Options {
    let small =
        "plan --names 100k --routers 20 --links 40 --sample 5000 --change-rates 10,100 --change-s 1 --block 4Ki";
    Alone::parse_from(small.split_whitespace().chain(words.split_whitespace())).options
}

/// A hundred blocks of 1,000 bytes; a link takes 1 us for a block, a router 0.2 us and an agent 2 us.
fn setting() -> spread::Setting {
    spread::Setting {
        bytes: 100_000,
        block: 1_000,
        link_ns: 1.0,
        hop_ns: 10_000,
        router_ns: 0.2,
        agent_ns: 2.0,
        window: 100,
        begin_ns: 0,
        from_builder_only: false,
        seed: 1,
    }
}

fn star(leaves: u32) -> Graph {
    Graph::new(leaves as usize + 1, &(1..=leaves).map(|leaf| (0, leaf)).collect::<Vec<_>>()).expect("a graph")
}

fn line(nodes: u32) -> Graph {
    Graph::new(nodes as usize, &(1..nodes).map(|node| (node - 1, node)).collect::<Vec<_>>()).expect("a graph")
}

fn last(found: &spread::Outcome) -> f64 {
    *found.done_s.last().expect("a router")
}

#[test]
fn a_table_takes_what_its_slowest_step_takes() {
    // Interest, router, link, agent for the first block, and then the agent, which is slowest, for the others.
    let found = spread::simulate(&setting(), &star(1)).expect("simulated");
    let expected = 10e-6 + 0.2e-6 + 1e-6 + 10e-6 + 0.2e-6 + 100.0 * 2e-6;
    assert!((last(&found) - expected).abs() < 1e-9, "{} s, not {expected}", last(&found));
    assert_eq!((found.builder_blocks, found.link_blocks_max, found.depth), (100, 100, 1));
    // Fifty leaves, which ask for all blocks at once: the builder's router serves one after the other, and the last one writes them.
    let found = spread::simulate(&setting(), &star(50)).expect("simulated");
    let expected = 100.0 * (50.0 * 0.2e-6 + 2e-6);
    assert!((expected..expected + 30e-6).contains(&last(&found)), "{} s, not {expected}", last(&found));
    // One block after the other: each waits for a round trip.
    let found = spread::simulate(&spread::Setting { window: 1, ..setting() }, &star(1)).expect("simulated");
    let expected = 100.0 * (20e-6 + 0.2e-6 + 1e-6 + 0.2e-6 + 2e-6);
    assert!((last(&found) - expected).abs() < 1e-9, "{} s, not {expected}", last(&found));
}

#[test]
fn routers_that_help_carry_each_block_once() {
    // The builder is at node 1, which has as many links as others and the lowest number of them.
    let graph = line(6);
    let helped = spread::simulate(&setting(), &graph).expect("simulated");
    assert_eq!((helped.link_blocks_max, helped.link_blocks, helped.depth), (100, 500, 4));
    let alone = spread::simulate(&spread::Setting { from_builder_only: true, ..setting() }, &graph).expect("simulated");
    // Four routers are behind one link.
    assert_eq!((alone.link_blocks_max, alone.link_blocks), (400, 100 * (1 + 4 + 3 + 2 + 1)));
    assert!(last(&alone) > last(&helped));
    // Whoever comes late gets what is here already.
    let late = spread::simulate(&spread::Setting { begin_ns: 10_000_000, ..setting() }, &graph).expect("simulated");
    assert_eq!((late.link_blocks_max, late.link_blocks), (100, 500));
    let apart = Graph::new(3, &[(0, 1)]).expect("a graph");
    assert!(spread::simulate(&setting(), &apart).is_err(), "a router that cannot be reached");
}

#[test]
fn changes_wait_for_the_slowest_part() {
    let costs = costs::measure(&options("")).expect("measured");
    let setting = changes::Setting {
        rate: 10.0,
        duration_s: 100.0,
        change_bytes: 100.0,
        routers: 30,
        members: 3,
        collect_s: 0.010,
        transaction_s: 0.001,
        etcd_s: 0.0,
        watcher_s: 0.0001,
        link_s: 0.0,
        hop_s: 0.002,
        applied_s: 0.0,
        ..changes::Setting::of(&options(""), &costs, 10)
    };
    let found = changes::simulate(&setting).expect("simulated");
    assert!((800..1200).contains(&found.changes), "{found:?}");
    // 10 ms to collect, 1 ms to write, 0.1 to 1 ms to send, 2 ms on the way.
    assert!((0.0131..0.0141).contains(&found.p50_s) && found.most_s < 0.030, "{found:?}");
    let busy = changes::simulate(&changes::Setting { watcher_s: 0.1, ..setting }).expect("simulated");
    assert!(busy.behind_s > 50.0 && busy.most_s > 50.0, "ten routers take a second for each delta: {busy:?}");
}

#[test]
fn fewest_bits_are_those_of_a_set() {
    // One of 2^20 names, of 16 labels: its number, its label, and 1.44 bits because the set could have had another size.
    let bits = bound_bits(1 << 20, 1, 4);
    assert!((25.4..25.5).contains(&bits), "{bits}");
    assert!((bound_bits(1000, 1000, 4) - 4.0).abs() < 1e-9, "all of them: only labels");
}

#[test]
fn a_plan_has_a_line_for_each_part() {
    let records = measure(&options("--nodes 4"), Progress::HIDDEN).expect("planned");
    let kinds: Vec<_> =
        records.iter().map(|record| serde_json::to_value(record).expect("fields")["on"].to_string()).collect();
    let spread = ["\"sizes\"", "\"spread\"", "\"spread\""];
    assert_eq!(kinds, [&["\"measured\""], &spread[..], &spread, &["\"changed\"", "\"changed\""]].concat());
    for record in &records {
        print(record);
        if let Record::Spread(spread) = record {
            assert!(spread.last_s > 0.0 && spread.builder_times >= 1.0, "{spread:?}");
            assert_eq!(
                (spread.routers, spread.from_builder_only || spread.link_times == 1.0),
                (20, true),
                "{spread:?}"
            );
        }
        if let Record::Sizes(sizes) = record {
            assert!(sizes.part_bytes < sizes.table_bytes * 2 && sizes.rule_chunks_bytes > sizes.names, "{sizes:?}");
        }
    }
}
