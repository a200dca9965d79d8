//! The share of a packet's time that is waiting for memory, by prefetch schedule.
//!
//! The slides draw a packet's computations with gaps in which buckets and entries are fetched, and schedules that fill
//! the gaps. This experiment sends the same packets through tables that fit in the caches and tables that do not. The
//! difference in time is the waiting that a schedule did not hide.

use crate::experiments::{Context, Experiment, Needs};
use crate::forward::{Record, Variant};
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "hasegawa-waiting",
    title: "a packet's wait for memory, by prefetch schedule",
    source: "[Hasegawa] Hiding DRAM Access Latency with Prefetch",
    needs: Needs { rules: &[16_000_000], quick_rules: &[20_000], bytes_per_rule: 400, data: &[], minutes: 4 },
    run,
};

const SCHEDULES: [(&str, &str); 4] = [
    ("packet by packet", "naive"),
    ("hashes of a burst at once", "none/64"),
    ("cascade", "cascade/64"),
    ("all at once", "all/64"),
];
/// A FIB of hash tables, as in the slides, and ours.
const ENGINES: [&str; 2] = ["two_stage", "compact"];
/// Number of rules, pending Interests, cached Data and names of tables that fit in the caches.
const IN_CACHES: u64 = 500;

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let variant = |engine: &&str, schedule: &str| -> Variant {
        format!("{engine}/{schedule}").parse().expect("a data plane as the command line has it")
    };
    let compare: Vec<_> =
        ENGINES.iter().flat_map(|engine| SCHEDULES.map(|(_, schedule)| variant(engine, schedule))).collect();
    let measure = |context: &mut Context<'_>, rules, tables: Option<u64>| -> anyhow::Result<Vec<Record>> {
        let mut options = context.forward(rules);
        if let Some(size) = tables {
            (options.pit, options.cs, options.draws) = (size, size, size);
        }
        options.compare.clone_from(&compare);
        context.measure_forward(&options)
    };
    let in_caches = measure(context, IN_CACHES, Some(IN_CACHES))?;
    for rules in context.rules() {
        let records = measure(context, rules, None)?;
        let heads =
            ["FIB", "schedule", "ns a packet", "in caches", "waiting", "PIT and CS", "FIB", "strategy", "other"];
        let mut table = Table::new(&heads);
        let labels = SCHEDULES.map(|(schedule, _)| schedule.to_owned()).to_vec();
        let mut chart = Chart::bars(format!("Wait for memory, {} rules", table::count(rules)), labels, "ns a packet");
        for (engine, rows) in ENGINES.iter().zip(records.chunks(SCHEDULES.len()).zip(in_caches.chunks(SCHEDULES.len())))
        {
            let mut waits = Vec::new();
            for ((record, cached), (schedule, _)) in rows.0.iter().zip(rows.1).zip(SCHEDULES) {
                let more = |of: fn(&Record) -> f64| of(record) - of(cached);
                let wait = more(|r| r.turn_ns_per_packet);
                let stages: [fn(&Record) -> f64; 3] =
                    [|r| r.pit_cs_ns_per_packet, |r| r.fib_ns_per_packet, |r| r.strategy_ns_per_packet];
                let [pit_cs, fib, strategy] = stages.map(more);
                let others = wait - pit_cs - fib - strategy;
                let row = [record.turn_ns_per_packet, cached.turn_ns_per_packet, wait, pit_cs, fib, strategy, others];
                let words = [(*engine).to_owned(), schedule.to_owned()];
                table.add(words.into_iter().chain(row.map(|ns| format!("{ns:.0}"))).collect());
                waits.push(Some(wait));
            }
            chart.bar(*engine, waits);
        }
        print!("{table}");
        println!("[Hasegawa]: computations and waits are drawn, without figures; 43.48 MPPS on 22 cores of 2.2 GHz");
        context.plot(&chart)?;
    }
    Ok(())
}
