//! What the worst names cost each engine, beside its random misses: how much slower can a stranger
//! make it?
//!
//! Two populations, and below them names that follow a rule for any number of components and are
//! garbage from there on up to 32 components: rules that nest, so that each engine's dependent
//! reads are as many as they can be, and the worst case of [Yuan §3.3.1].

use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::prefix::{ENGINES, Record};
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
        let heads =
            ["engine", "rules", "ns a miss", "worst ns", "worst names", "ratio", "lines a miss", "lines at worst"];
        let mut table = Table::new(&heads);
        let mut bars = Vec::new();
        for engine in ENGINES {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out: no memory", engine.name);
                continue;
            }
            let mut ratios = Vec::new();
            for population in POPULATIONS {
                let [miss, worst] = miss_and_worst(context, engine.name, rules, &population)?;
                let ratio = worst.ns_per_lookup / miss.ns_per_lookup;
                ratios.push(ratio);
                table.row([
                    engine.name.to_owned(),
                    population.label(),
                    format!("{:.0}", miss.ns_per_lookup),
                    format!("{:.0}", worst.ns_per_lookup),
                    worst.names,
                    format!("{ratio:.2}"),
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

/// Random misses, and of all names with garbage the slowest.
fn miss_and_worst(
    context: &mut Context<'_>,
    engine: &str,
    rules: u64,
    population: &Kind,
) -> anyhow::Result<[Record; 2]> {
    let mut options = context.prefix(engine, rules);
    options.workload = population.clone();
    options.names = NameChoice::Miss;
    let miss = context.measure(&options)?;
    let mut worst: Option<Record> = None;
    for depth in 0..=options.components {
        options.names = NameChoice::Garbage(depth);
        let record = context.measure(&options)?;
        if worst.as_ref().is_none_or(|worst| record.ns_per_lookup > worst.ns_per_lookup) {
            worst = Some(record);
        }
    }
    let worst = worst.unwrap_or_else(|| miss.clone());
    Ok([miss, worst])
}
