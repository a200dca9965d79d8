//! The cost of hostile packets, compared with ordinary ones.

use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::tags::{Algorithm, Asking, Traffic};
use crate::workload::TagKind;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "tagnet-hostile",
    title: "subset match of hostile packets, and what is cut off",
    source: "byname",
    needs: Needs { rules: &[10_000_000], quick_rules: &[20_000], bytes_per_rule: 260, data: &[], minutes: 10 },
    run,
};

const TRAFFICS: [Traffic; 4] = [Traffic::Drawn, Traffic::Dense, Traffic::Popular, Traffic::Full];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for descriptors in context.rules() {
        let heads = [
            "workload",
            "algorithm",
            "packets",
            "engine",
            "us a packet",
            "time / time of drawn",
            "steps",
            "cut off, %",
            "matches",
        ];
        let mut table = Table::new(&heads);
        let mut chart = Chart::bars(
            format!("Packets in {} descriptors", table::count(descriptors)),
            TRAFFICS.map(table::word).to_vec(),
            "us a packet",
        );
        for workload in [TagKind::Zipf, TagKind::Tagnet] {
            let options = context.tags(workload, descriptors);
            let askings: Vec<_> = [Algorithm::All, Algorithm::Largest]
                .into_iter()
                .flat_map(|algorithm| TRAFFICS.map(|traffic| Asking { algorithm, traffic, ..options.asking.clone() }))
                .collect();
            for engine in ["rare-tag", "trie"] {
                let records = context.measure_tags(&options, &[engine], &askings)?;
                for of_algorithm in records.chunks(TRAFFICS.len()) {
                    for record in of_algorithm {
                        table.row([
                            table::word(record.workload),
                            table::word(record.algorithm),
                            table::word(record.traffic),
                            record.engine.clone(),
                            format!("{:.2}", record.ns_per_packet / 1e3),
                            format!("{:.1}", record.ns_per_packet / of_algorithm[0].ns_per_packet),
                            format!("{:.0}", record.steps_per_packet),
                            format!("{:.2}", record.cut_off * 100.0),
                            format!("{:.1}", record.matches_per_packet),
                        ]);
                    }
                    let first = &of_algorithm[0];
                    let label =
                        format!("{}, {}, {}", first.engine, table::word(first.workload), table::word(first.algorithm));
                    chart.bar(label, of_algorithm.iter().map(|record| Some(record.ns().times(1e-3))));
                }
            }
        }
        print!("{table}");
        context.plot(&chart)?;
    }
    Ok(())
}
