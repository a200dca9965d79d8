//! What the worst names cost each engine, beside its random misses: how much slower can a stranger
//! make it?
//!
//! Two populations, and below them names that follow a rule for any number of components and are
//! garbage from there on up to 32 components: rules that nest, so that each engine's dependent
//! reads are as many as they can be, and the worst case of [Yuan §3.3.1].
//!
//! A longer name costs more to hash, whatever the engine does with it. So the worst is also set
//! against a name of 32 components that finds nothing: what is left of the ratio is the engine's.

use anyhow::Context as _;

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
        let heads = [
            "engine",
            "rules",
            "ns a miss",
            "a long miss",
            "worst",
            "worst names",
            "to a miss",
            "to a long miss",
            "lines a miss",
            "lines at worst",
        ];
        let mut table = Table::new(&heads);
        let mut bars = Vec::new();
        for engine in ENGINES {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out: no memory", engine.name);
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

/// Random misses in the shape of the rules, misses of 32 components, and of all names that follow a
/// rule into garbage the slowest.
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
