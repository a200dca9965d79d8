//! Push and pull flows together. Packets carry tags, from which the trie makes the filter.

use super::TAGNET_SETS;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::mixed::{Mix, Record};
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::workload::TagKind;

const NEEDS: Needs = Needs {
    rules: &[10_000_000],
    quick_rules: &[20_000],
    bytes_per_rule: 130,
    data: &["domains_tb0hdan.txt.xz"],
    minutes: 20,
};

pub(super) const FIGURE_11: Experiment = Experiment {
    id: "tagnet-fig11",
    title: "push and pull by number of follow-up Interests",
    source: "[TagNet §4.5] Figure 11",
    needs: NEEDS,
    run: figure_11,
};

pub(super) const TABLE_1: Experiment = Experiment {
    id: "tagnet-table1",
    title: "push and pull by share of pull flows",
    source: "[TagNet §4.5] Table 1",
    needs: NEEDS,
    run: table_1,
};

const ENGINES: [&str; 2] = ["rare-tag", "trie"];
const WORKLOADS: [TagKind; 2] = [TagKind::Tagnet, TagKind::Ccn];
const SHARES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
const FOLLOW_UPS: [u32; 5] = [0, 3, 7, 15, 30];
/// Maximum number of follow-up Interests in the paper's table.
const FOLLOW_UPS_TABLE: u32 = 15;
/// By share of pull flows: millions of packets per second for 10M, 10M-CCN and 63M, and bytes per packet.
const PAPER: [([f64; 3], u32); 6] = [
    ([0.47, 0.31, 0.17], 1280),
    ([2.04, 1.30, 0.74], 835),
    ([3.30, 2.44, 1.39], 775),
    ([3.70, 3.29, 2.08], 751),
    ([4.27, 3.79, 2.89], 739),
    ([5.20, 4.33, 4.20], 731),
];

/// Measures every engine on every workload, with every mix.
fn measure(context: &mut Context<'_>, mixes: &[Mix]) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    for descriptors in context.rules() {
        for workload in WORKLOADS {
            for engine in ENGINES {
                let options = context.mixed(engine, workload, descriptors);
                records.extend(context.measure_mixed(&options, mixes)?);
            }
        }
    }
    Ok(records)
}

/// Title of a table or of a line in a plot: engine, workload and number of descriptors.
fn title(record: &Record) -> String {
    format!("{}, {}, {}", record.engine, table::word(record.workload), table::count(record.descriptors))
}

fn figure_11(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mixes: Vec<_> = SHARES.iter().flat_map(|&pull| FOLLOW_UPS.map(|follow_ups| Mix { pull, follow_ups })).collect();
    let records = measure(context, &mixes)?;
    let mut heads = vec!["M packets/s; pull, %".to_owned()];
    heads.extend(FOLLOW_UPS.map(|follow_ups| format!("up to {follow_ups}")));
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    for of_one in records.chunks(mixes.len()) {
        let mut table = Table::new(&heads);
        let mut chart = Chart::lines(title(&of_one[0]), "most follow-up Interests", "packets/s");
        for of_share in of_one.chunks(FOLLOW_UPS.len()) {
            let share = format!("{:.0}", 100.0 * of_share[0].pull);
            let rates = of_share.iter().map(|record| format!("{:.3}", record.packets_per_s / 1e6));
            table.add(std::iter::once(share.clone()).chain(rates).collect());
            let points = of_share.iter().map(|record| (f64::from(record.follow_ups), record.rate()));
            chart.line(format!("{share} % pull"), points.collect());
        }
        println!("{}", title(&of_one[0]));
        print!("{table}");
        context.plot(&chart)?;
    }
    println!("{TAGNET_SETS}; 32 threads; one thread here");
    Ok(())
}

fn table_1(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mixes = SHARES.map(|pull| Mix { pull, follow_ups: FOLLOW_UPS_TABLE });
    let records = measure(context, &mixes)?;
    let heads = ["engine and table", "pull, %", "bytes", "[TagNet]", "M packets/s", "Gbit/s", "[TagNet] M packets/s"];
    let mut table = Table::new(&heads);
    let mut chart = Chart::lines("Push and pull", "pull flows, %", "packets/s");
    for of_one in records.chunks(mixes.len()) {
        for (record, (papers, bytes)) in of_one.iter().zip(PAPER) {
            let [ten, ccn, all] = papers;
            let paper = match (record.workload, record.descriptors) {
                (TagKind::Ccn, _) => ccn,
                (TagKind::Tagnet, 60_000_000..) => all,
                _ => ten,
            };
            table.row([
                title(record),
                format!("{:.0}", 100.0 * record.pull),
                format!("{:.0}", record.bytes_per_packet),
                bytes.to_string(),
                format!("{:.3}", record.packets_per_s / 1e6),
                format!("{:.2}", record.gbit_per_s),
                format!("{paper:.2}"),
            ]);
        }
        let points = of_one.iter().map(|record| (100.0 * record.pull, record.rate()));
        chart.line(title(&of_one[0]), points.collect());
    }
    for (at, what) in ["10M", "10M-CCN", "63M"].into_iter().enumerate() {
        let points = SHARES.into_iter().zip(PAPER).map(|(pull, (millions, _))| (100.0 * pull, 1e6 * millions[at]));
        chart.paper(format!("[TagNet], 32 threads, {what}"), points.collect());
    }
    print!("{table}");
    println!("{TAGNET_SETS}; 32 threads; one thread here");
    context.plot(&chart)
}
