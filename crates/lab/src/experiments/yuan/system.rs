//! A forwarder with the paper's FIB parses and forwards packets on several cores.

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs};
use crate::forward::{Mix, Variant};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::{Prefetch, Strategy, Tuning};
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-table2",
    title: "a forwarder's throughput, by what is prefetched",
    source: "[Yuan §3.5] Table 2",
    needs: Needs { rules: &[4_000_000], quick_rules: &[20_000], bytes_per_rule: 400, data: &[], minutes: 6 },
    run,
};

/// Bytes on the wire of a packet of 256 bytes, as the paper counts its Gbit/s: 4.1 million packets/s are 9.1 Gbit/s.
const WIRE_BYTES: f64 = 277.0;

/// Strategy of comparing names, its label, and the paper's million packets/s when none, the first or all buckets are
/// prefetched.
const STRATEGIES: [(Strategy, &str, [&str; 3]); 2] = [
    (Strategy::Always, "CityA: always", ["4.1", "4.2", "4.4"]),
    (Strategy::AtEnd, "SipE: at the end", ["3.8", "4.0", "4.1"]),
];
/// The last one is beyond the paper: it prefetches across the burst.
const PREFETCHES: [(Prefetch, &str); 4] =
    [(Prefetch::None, "none"), (Prefetch::First, "first"), (Prefetch::All, "all"), (Prefetch::Burst, "burst")];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let by_names: Variant = "binary_search/all/64".parse().expect("a data plane as the command line has it");
    let ours: Variant = "compact/all/64".parse().expect("a data plane as the command line has it");
    for rules in context.rules() {
        let heads =
            ["FIB", "prefetch", "M packets/s", "Gbit/s of 256 bytes", "FIB, ns a packet", "[Yuan], M packets/s"];
        let mut table = Table::new(&heads);
        let labels = PREFETCHES.map(|(_, label)| label.to_owned()).to_vec();
        let title = format!("Interests on {cores} cores, {} rules", table::count(rules));
        let mut chart = Chart::bars(title, labels, "packets/s");
        let mut measure = |engine: &str, variant: &Variant, tuning: Tuning, prefetch: &str, paper: &str| {
            let mut options = context.forward(rules);
            (options.mix, options.compare, options.tuning) = (Mix::Interest, vec![variant.clone()], tuning);
            options.measuring.threads = cores;
            let record = context.measure_forward(&options)?.remove(0);
            table.row([
                engine.to_owned(),
                prefetch.to_owned(),
                table::millions(record.packets_per_s),
                format!("{:.1}", record.packets_per_s * WIRE_BYTES * 8.0 / 1e9),
                format!("{:.0}", record.fib_ns_per_packet),
                paper.to_owned(),
            ]);
            anyhow::Ok(record.rate())
        };
        for (strategy, engine, papers) in STRATEGIES {
            let mut rates = Vec::new();
            for ((prefetch, label), paper) in PREFETCHES.into_iter().zip(papers.into_iter().chain([""])) {
                let tuning = Tuning { strategy: Some(strategy), prefetch: Some(prefetch), ..Tuning::default() };
                rates.push(Some(measure(engine, &by_names, tuning, label, paper)?));
            }
            chart.bar(engine, rates);
            let millions = papers.into_iter().map(|paper| paper.parse::<f64>().ok());
            chart.paper_of_bars(format!("[Yuan], {engine}"), millions.map(|rate| rate.map(|rate| rate * 1e6)));
        }
        measure("compact", &ours, Tuning::default(), "burst", "")?;
        print!("{table}");
        println!(
            "{YUAN}; 1 billion rules, four workers and two I/O threads, FIB only; ours have PIT and content store"
        );
        context.plot(&chart)?;
    }
    Ok(())
}
