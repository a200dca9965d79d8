//! Every engine with each keyed hash, and the share of a lookup that is hashing.

use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::options::Hash;
use crate::plot::Chart;
use crate::prefix::engines_of_all_rules;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "hashes",
    title: "every engine under each keyed hash",
    source: "ours",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 25, data: &[], minutes: 25 },
    run,
};

const HASHES: [Hash; 3] = [Hash::SipHash24, Hash::SipHash13, Hash::Aes];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let mut table = Table::new(&["engine", "hash", "M lookups/s", "ns a lookup", "ns of hashing"]);
        let mut bars = Vec::new();
        let mut limits = Vec::new();
        for engine in engines_of_all_rules() {
            if !context.fits(rules * engine.bytes_per_rule) {
                println!("{} is left out: not enough memory", engine.name);
                continue;
            }
            let mut rates = Vec::new();
            for hash in HASHES {
                let mut options = context.prefix(engine.name, rules);
                options.hash = hash;
                let record = context.measure(&options)?;
                rates.push(record.rate());
                limits.extend(record.machine_lines_per_s().map(|lines| (bars.len() as f64, lines)));
                table.row([
                    engine.name.to_owned(),
                    table::word(hash),
                    table::millions(record.lookups_per_s),
                    format!("{:.1}", record.ns_per_lookup),
                    format!("{:.1}", record.hash_ns_per_lookup),
                ]);
            }
            bars.push((engine.name.to_owned(), rates));
        }
        print!("{table}");
        let labels = bars.iter().map(|bar| bar.0.clone()).collect();
        let mut chart = Chart::bars(format!("Lookups in {} rules", table::count(rules)), labels, "lookups/s");
        for (i, hash) in HASHES.into_iter().enumerate() {
            chart.bar(table::word(hash), bars.iter().map(|bar| Some(bar.1[i])));
        }
        chart.machine_rate(limits);
        context.plot(&chart)?;
    }
    Ok(())
}
