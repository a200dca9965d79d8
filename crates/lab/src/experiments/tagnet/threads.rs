//! The speedup by more threads.

use super::TAGNET_SETS;
use super::match_rate::ENGINES;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking};
use crate::timing::Spread;
use crate::workload::TagKind;

const NEEDS: Needs = Needs {
    rules: &[10_000_000, 63_000_000],
    quick_rules: &[20_000],
    bytes_per_rule: 130,
    data: &["domains_tb0hdan.txt.xz"],
    minutes: 20,
};

pub(super) const ALL_SUBSETS: Experiment = Experiment {
    id: "tagnet-fig10a",
    title: "all subsets by threads",
    source: "[TagNet §4.4.1] Figure 10a",
    needs: NEEDS,
    run: |context| run(context, Algorithm::All),
};

pub(super) const LARGEST_SUBSET: Experiment = Experiment {
    id: "tagnet-fig10b",
    title: "largest subset by threads",
    source: "[TagNet §4.4.1] Figure 10b",
    needs: NEEDS,
    run: |context| run(context, Algorithm::Largest),
};

/// The paper's thousands of packets per second with 32 threads, for 10M, 10M-CCN and 63M.
const PAPER: [(Algorithm, [f64; 3]); 2] =
    [(Algorithm::All, [499.0, 307.0, 183.0]), (Algorithm::Largest, [914.0, 602.0, 272.0])];

fn run(context: &mut Context<'_>, algorithm: Algorithm) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let mut table = Table::new(&["workload", "descriptors", "engine", "threads", "k packets/s", "steps", "speedup"]);
    let mut chart = Chart::lines("Packets by threads", "threads", "packets/s");
    let largest = context.rules().iter().copied().max().unwrap_or_default();
    for descriptors in context.rules() {
        for workload in [TagKind::Tagnet, TagKind::Ccn] {
            // The paper's table of names (10M-CCN) exists only with 10 million descriptors.
            if workload == TagKind::Ccn && descriptors != largest {
                continue;
            }
            for engine in ENGINES {
                let mut points: Vec<(f64, Spread)> = Vec::new();
                for threads in [1, 2, 4, 8, 16, 32].into_iter().filter(|threads| *threads <= cores) {
                    let mut options = context.tags(workload, descriptors);
                    options.measuring.threads = threads;
                    let askings = [Asking { algorithm, ..options.asking.clone() }];
                    let record = context.measure_tags(&options, &[engine], &askings)?.remove(0);
                    points.push((threads as f64, record.rate()));
                    table.row([
                        table::word(workload),
                        table::count(descriptors),
                        engine.to_owned(),
                        threads.to_string(),
                        format!("{:.1}", record.packets_per_s / 1e3),
                        format!("{:.0}", record.steps_per_packet),
                        format!("{:.2}", record.packets_per_s / points[0].1.median),
                    ]);
                }
                let line = format!("{engine}, {}, {}", table::word(workload), table::count(descriptors));
                chart.line(line, points);
            }
        }
    }
    print!("{table}");
    for [ten, ccn, all] in PAPER.into_iter().filter(|(paper, _)| *paper == algorithm).map(|(_, rates)| rates) {
        for (rate, what) in [(ten, "10M"), (ccn, "10M-CCN"), (all, "63M")] {
            chart.paper_level(format!("[TagNet], 32 threads, {what}"), 1e3 * rate);
        }
        println!("{TAGNET_SETS}; with 32 threads {ten} k packets/s (10M), {ccn} (10M-CCN), {all} (63M)");
    }
    context.plot(&chart)
}
