//! What more components cost `compact`: the step that [Yuan §3.3.4]'s own figures fell apart on.

use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;
use crate::prefix::Hash;
use crate::workload::NameChoice;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "compact-components",
    title: "compact with 7 and with 15 components",
    source: "ours; [Yuan §3.3.4] Figure 8",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 25, data: &[], minutes: 4 },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let heads =
            ["hash", "names", "components", "ns a lookup", "times 7", "hashing ns", "lines a lookup", "bytes a rule"];
        let mut table = Table::new(&heads);
        let mut bars = Vec::new();
        for hash in [Hash::Aes, Hash::SipHash13] {
            let mut of = |components| {
                let mut options = context.prefix("compact", rules);
                options.components = components;
                options.hash = hash;
                context.measure_names(&options, &[NameChoice::Hit, NameChoice::Miss])
            };
            let (seven, fifteen) = (of(7)?, of(15)?);
            for (seven, fifteen) in seven.iter().zip(&fifteen) {
                for record in [seven, fifteen] {
                    table.row([
                        table::word(hash),
                        record.names.clone(),
                        record.components.to_string(),
                        format!("{:.1}", record.ns_per_lookup),
                        format!("{:.2}", record.ns_per_lookup / seven.ns_per_lookup),
                        format!("{:.1}", record.hash_ns_per_lookup),
                        table::optional(record.cache_lines_per_lookup, 2),
                        format!("{:.1}", record.bytes_per_rule),
                    ]);
                }
                let label = format!("{} {}", table::word(hash), seven.names);
                bars.push((label, [seven.ns_per_lookup, fifteen.ns_per_lookup]));
            }
        }
        print!("{table}");
        let labels = bars.iter().map(|bar| bar.0.clone()).collect();
        let title = format!("compact with {} rules", table::count(rules));
        let mut chart = Chart::bars(title, labels, "ns a lookup");
        for (i, label) in ["7 components", "15 components"].into_iter().enumerate() {
            chart.bar(label, bars.iter().map(|bar| Some(bar.1[i])));
        }
        context.plot(&chart)?;
    }
    Ok(())
}
