//! Readers on several cores share one table.

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::prefix::Strategy;
use crate::table::{self, Table};
use crate::timing::Spread;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-fig9",
    title: "threads",
    source: "[Yuan §3.4] Figure 9",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 200, data: &[], minutes: 6 },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let threads: Vec<_> = [1, 2, 4, 8, 16].into_iter().filter(|threads| *threads <= cores).collect();
    let variants = [
        ("CityA: always", "binary_search", Some(Strategy::Always)),
        ("SipE: at the end", "binary_search", Some(Strategy::AtEnd)),
        ("compact", "compact", None),
    ];
    for rules in context.rules() {
        let mut table = Table::new(&["engine", "threads", "M lookups/s", "speedup", "[Yuan]"]);
        let title = format!("Readers of {} rules", table::count(rules));
        let labels = threads.iter().map(|threads| format!("{threads} threads")).collect();
        let mut chart = Chart::bars(title, labels, "lookups/s");
        let mut limits = Vec::new();
        for (label, engine, strategy) in variants {
            let mut rates: Vec<Spread> = Vec::new();
            for &threads in &threads {
                let mut options = context.prefix(engine, rules);
                options.measuring.threads = threads;
                options.tuning.strategy = strategy;
                let record = context.measure(&options)?;
                rates.push(record.rate());
                limits.extend(record.machine_lines_per_s().map(|lines| ((rates.len() - 1) as f64, lines)));
                let paper = if threads > 1 && strategy.is_some() { "in proportion up to 4" } else { "" };
                table.row([
                    label.to_owned(),
                    threads.to_string(),
                    table::millions(record.lookups_per_s),
                    format!("{:.2}", record.lookups_per_s / rates[0].median),
                    paper.to_owned(),
                ]);
            }
            chart.bar(label, rates.into_iter().map(Some));
        }
        print!("{table}");
        println!("{YUAN}; 8 threads on two sockets: 6 million lookups/s at 1 billion rules");
        chart.machine_rate(limits);
        chart.paper_level("[Yuan], 8 threads, 1 billion rules", 6e6);
        context.plot(&chart)?;
    }
    Ok(())
}
