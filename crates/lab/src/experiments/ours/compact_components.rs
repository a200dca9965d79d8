//! How the speed of `compact` depends on the number of components. In [Yuan §3.3.4], this step costs far more than the
//! one probe that it adds.
//!
//! Both tables are in memory at once and are measured in many short turns. The machine's speed changes within seconds,
//! so a ratio of two runs that are minutes apart would be noise.

use serde::Serialize;

use crate::experiments::{Context, Experiment, Needs};
use crate::options::Hash;
use crate::plot::Chart;
use crate::prefix;
use crate::progress::Progress;
use crate::table::{self, Table};
use crate::timing::median;
use crate::workload::NameChoice;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "compact-components",
    title: "compact with 7 and with 15 components",
    source: "ours; [Yuan §3.3.4] Figure 8",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 50, data: &[], minutes: 4 },
    run,
};

const COMPONENTS: [usize; 2] = [7, 15];
/// Number of turns of each table.
const TURNS: u32 = 40;

/// Results of one table, measured in turn with the other.
#[derive(Serialize)]
struct Compared {
    rules: u64,
    components: usize,
    hash: Hash,
    names: String,
    turns: u32,
    /// Medians over the turns.
    ns_per_lookup: f64,
    hash_ns_per_lookup: f64,
    /// Median over the turns of this table's time divided by the time of the table with the fewest components.
    times: f64,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let mut table = Table::new(&["hash", "names", "components", "ns a lookup", "times that of 7", "hashing ns"]);
        let mut bars = Vec::new();
        for hash in [Hash::Aes, Hash::SipHash13] {
            for names in [NameChoice::Hit, NameChoice::Miss] {
                let compared = compare(context, rules, hash, &names)?;
                for record in &compared {
                    table.row([
                        table::word(hash),
                        record.names.clone(),
                        record.components.to_string(),
                        format!("{:.1}", record.ns_per_lookup),
                        format!("{:.2}", record.times),
                        format!("{:.1}", record.hash_ns_per_lookup),
                    ]);
                    context.record_of(&context.prefix("compact", rules), record)?;
                }
                bars.push((format!("{} {}", table::word(hash), names.label()), compared));
            }
        }
        print!("{table}");
        let labels = bars.iter().map(|bar| bar.0.clone()).collect();
        let title = format!("compact with {} rules", table::count(rules));
        let mut chart = Chart::bars(title, labels, "ns a lookup");
        for (i, components) in COMPONENTS.into_iter().enumerate() {
            chart.bar(format!("{components} components"), bars.iter().map(|bar| Some(bar.1[i].ns_per_lookup)));
        }
        context.plot(&chart)?;
    }
    Ok(())
}

fn compare(context: &Context<'_>, rules: u64, hash: Hash, names: &NameChoice) -> anyhow::Result<Vec<Compared>> {
    let runs = COMPONENTS.map(|components| {
        let mut options = context.prefix("compact", rules);
        options.components = components;
        options.hash = hash;
        options.measuring.repetitions = TURNS;
        options
    });
    let turns = prefix::measure_in_turn(&runs, names, Progress::SHOWN)?;
    let records = COMPONENTS.iter().zip(&turns).map(|(&components, own)| {
        let of_each = |value: fn(&prefix::Turn) -> f64| median(&own.iter().map(value).collect::<Vec<_>>());
        let times: Vec<_> =
            own.iter().zip(&turns[0]).map(|(own, first)| own.ns_per_lookup / first.ns_per_lookup).collect();
        Compared {
            rules,
            components,
            hash,
            names: names.label(),
            turns: TURNS,
            ns_per_lookup: of_each(|turn| turn.ns_per_lookup),
            hash_ns_per_lookup: of_each(|turn| turn.hash_ns_per_lookup),
            times: median(&times),
        }
    });
    Ok(records.collect())
}
