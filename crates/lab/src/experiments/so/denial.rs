//! The damage that hostile packets do to the data plane, compared with ordinary packets.

use crate::experiments::{Context, Experiment, Needs};
use crate::hostile;
use crate::plot::Chart;
use crate::progress::Progress;
use crate::table;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "so-denial",
    title: "hostile packets beside ordinary ones",
    source: "[So §2.1, §2.3]",
    needs: Needs { rules: &[4_000_000], quick_rules: &[20_000], bytes_per_rule: 1000, data: &[], minutes: 3 },
    run,
};

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let mut options = crate::options::defaults::<hostile::Options>();
        (options.fib, options.seconds) = (rules, context.seconds());
        if context.quick() {
            (options.pit, options.cs, options.draws) = (10_000, 1000, 10_000);
        }
        let records = hostile::measure(&options, Progress::SHOWN)?;
        context.record_all(&options, &records)?;
        print!("{}", hostile::table(&records));
        let labels = records.iter().map(|r| table::word(r.attack)).collect();
        let title = format!("Hostile packets, {} rules", table::count(rules));
        let mut chart = Chart::bars(title, labels, "time / time of an ordinary packet");
        chart.bar("time", records.iter().map(|r| Some(r.times)));
        context.plot(&chart)?;
    }
    Ok(())
}
