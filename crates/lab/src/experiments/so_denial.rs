//! What strangers can make the data plane do, beside what it does for everybody.

use super::{Context, Experiment, Needs, Table, table};
use crate::forward;
use crate::hostile::{self, Attack};
use crate::plot::Chart;
use crate::progress::Progress;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "so-denial",
    title: "hostile packets beside ordinary ones",
    source: "[So §2.1, §2.3]",
    needs: Needs { rules: &[4_000_000], quick_rules: &[20_000], bytes_per_rule: 1000, data: &[], minutes: 3 },
    run,
};

const ATTACKS: [Attack; 7] = [
    Attack::Unanswerable,
    Attack::Unroutable,
    Attack::Garbage,
    Attack::Forged,
    Attack::ForgedWithKey,
    Attack::Unsolicited,
    Attack::Fragments,
];
/// Packets of the attacker in a burst of 64: he is one of sixteen faces that send as much as they can.
const OF_BURST: u64 = 4;

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let mut options = crate::options::defaults::<forward::Options>();
        options.fib = rules;
        options.measuring.seconds = context.seconds();
        if context.quick() {
            (options.pit, options.cs, options.draws) = (10_000, 1000, 10_000);
        }
        let records = hostile::measure(&options, &ATTACKS, OF_BURST, Progress::SHOWN)?;
        records.iter().try_for_each(|record| context.record(record))?;
        let heads = [
            "attack",
            "ns a packet",
            "an ordinary one",
            "times",
            "others' rate, %",
            "their losses",
            "longest chain",
            "without attack",
        ];
        let mut table = Table::new(&heads);
        for r in &records {
            table.row([
                table::word(r.attack),
                format!("{:.0}", r.attack_ns_per_packet),
                format!("{:.0}", r.ns_per_packet),
                format!("{:.2}", r.times),
                format!("{:.1}", r.rate_left * 100.0),
                r.lost.to_string(),
                r.attacked_longest_chain.to_string(),
                r.longest_chain.to_string(),
            ]);
        }
        print!("{table}");
        let labels = records.iter().map(|r| table::word(r.attack)).collect();
        let title = format!("Hostile packets, {} rules", table::count(rules));
        let mut chart = Chart::bars(title, labels, "times an ordinary packet");
        chart.bar("time", records.iter().map(|r| Some(r.times)));
        context.plot(&chart)?;
    }
    Ok(())
}
