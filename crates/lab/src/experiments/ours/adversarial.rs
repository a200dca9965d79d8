//! How much slower the worst names make each engine, compared with random misses.
//!
//! Two populations are measured: nested rules, which force each engine to as many dependent reads as possible, and the
//! worst case of [Yuan §3.3.1]. The adversarial names follow a rule for some number of components and continue with
//! garbage, up to 32 components.
//!
//! A longer name costs more to hash, whatever the engine does with it. So the worst time is also compared with that of
//! a name of 32 components that matches nothing: this ratio leaves out the cost of length.

use anyhow::Context as _;

use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::prefix::{Record, engines_of_all_rules};
use crate::table::{self, Table};
use crate::workload::{Kind, NameChoice};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "adversarial",
    title: "the worst names beside random misses",
    source: "ours; [So §2.3]'s garbage tokens",
    needs: Needs { rules: &[4_000_000], quick_rules: &[20_000], bytes_per_rule: 25, data: &[], minutes: 40 },
    run,
};

const POPULATIONS: [Kind; 2] = [Kind::Adversarial, Kind::WorstCase];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let heads = [
            "engine",
            "rules",
            "ns a miss",
            "ns a long miss",
            "ns at worst",
            "worst names",
            "worst / miss",
            "worst / long miss",
            "lines a miss",
            "lines at worst",
        ];
        let mut table = Table::new(&heads);
        let mut bars = Vec::new();
        for engine in engines_of_all_rules() {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out: not enough memory", engine.name);
                continue;
            }
            let mut ratios = Vec::new();
            for population in POPULATIONS {
                let [miss, long_miss, worst] = misses_and_worst(context, engine.name, rules, &population)?;
                let times = |record: &Record| worst.ns_per_lookup / record.ns_per_lookup;
                let (times_miss, times_long) = (times(&miss), times(&long_miss));
                ratios.push(times_miss);
                table.row([
                    engine.name.to_owned(),
                    population.label(),
                    format!("{:.0}", miss.ns_per_lookup),
                    format!("{:.0}", long_miss.ns_per_lookup),
                    format!("{:.0}", worst.ns_per_lookup),
                    worst.names,
                    format!("{times_miss:.2}"),
                    format!("{times_long:.2}"),
                    table::optional(miss.cache_lines_per_lookup, 2),
                    table::optional(worst.cache_lines_per_lookup, 2),
                ]);
            }
            bars.push((engine.name.to_owned(), ratios));
        }
        print!("{table}");
        let labels = bars.iter().map(|bar| bar.0.clone()).collect();
        let mut chart = Chart::bars("Worst names against random misses", labels, "times slower");
        for (i, population) in POPULATIONS.iter().enumerate() {
            chart.bar(population.label(), bars.iter().map(|bar| Some(bar.1[i])));
        }
        context.plot(&chart)?;
    }
    Ok(())
}

/// Measures random misses as long as the rules, misses of 32 components, and the slowest of all names that follow a
/// rule into garbage.
fn misses_and_worst(
    context: &mut Context<'_>,
    engine: &str,
    rules: u64,
    population: &Kind,
) -> anyhow::Result<[Record; 3]> {
    let mut options = context.prefix(engine, rules);
    options.workload = population.clone();
    let garbage = (0..=options.components).map(NameChoice::Garbage);
    let names: Vec<_> = std::iter::once(NameChoice::Miss).chain(garbage).collect();
    let mut records = context.measure_names(&options, &names)?;
    let (miss, long_miss) = (records.remove(0), records.remove(0));
    let slowest = |a: &Record, b: &Record| a.ns_per_lookup.total_cmp(&b.ns_per_lookup);
    let worst = records.into_iter().max_by(slowest).context("no names were measured")?;
    Ok([miss, long_miss, worst])
}
