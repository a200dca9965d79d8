//! The load of each core when some names are popular, with and without spreading these names.

use crate::balance::{self, Cores, Record};
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::progress::Progress;
use crate::table;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "hasegawa-balance",
    title: "load of the busiest core under heavy hitters",
    source: "[Hasegawa] Evaluation by Simulation",
    needs: Needs { rules: &[1_000_000], quick_rules: &[20_000], bytes_per_rule: 1000, data: &[], minutes: 4 },
    run,
};

const EXPONENTS: [f64; 4] = [0.8, 1.0, 1.2, 1.4];
/// Loads at which packets wait, and one at which packets are lost.
const LOADS: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 1.05];
/// The popularity for [`LOADS`].
const EXPONENT: f64 = 1.0;
/// Number of names for each Data that the content stores may hold.
const NAMES_PER_DATA: u64 = 16;

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for names in context.rules() {
        let mut options = crate::options::defaults::<balance::Options>();
        (options.names, options.cs) = (names, names / NAMES_PER_DATA);
        if context.quick() {
            (options.interests, options.window) = (50_000, 8192);
        }
        balance_of(context, &options)?;
        (options.threads, options.exponents) = (0, vec![EXPONENT]);
        waits_of(context, &options)?;
    }
    println!("[Hasegawa]: 22 cores, CS hit rate 0.35, \"equal load balancing\" without a figure");
    Ok(())
}

/// Plots the busiest core relative to the mean, by exponent.
fn balance_of(context: &mut Context<'_>, options: &balance::Options) -> anyhow::Result<()> {
    let mut records = Vec::new();
    for exponent in EXPONENTS {
        for heavy_hitters in [false, true] {
            records.extend(balance::measure(options, exponent, heavy_hitters, Progress::SHOWN)?);
        }
    }
    context.record_all(options, &records)?;
    print!("{}", balance::table(&records));
    let title = format!("The busiest worker, {} names", table::count(options.names));
    let mut chart = Chart::lines(title, "exponent of Zipf's law", "packets, relative to the mean");
    for (cores, heavy_hitters) in
        [(Cores::Simulated, false), (Cores::Simulated, true), (Cores::Threads, false), (Cores::Threads, true)]
    {
        let mut of_these = records.iter().filter(|r| r.cores == cores && r.heavy_hitters == heavy_hitters).peekable();
        if let Some(first) = of_these.peek() {
            let label = format!("{} {cores}, {}", first.workers, words(heavy_hitters));
            chart.line(label, of_these.map(|r| (r.exponent, r.busiest_to_mean)).collect());
        }
    }
    context.plot(&chart)
}

/// Plots how long packets wait, and tabulates how many are lost, by load.
fn waits_of(context: &mut Context<'_>, options: &balance::Options) -> anyhow::Result<()> {
    let mut records: Vec<Record> = Vec::new();
    let mut chart = Chart::lines(
        format!("{} simulated cores, exponent {EXPONENT}", options.cores),
        "load, as a share of the cores' capacity",
        "p99 wait, us",
    );
    let mut losses = Vec::new();
    for heavy_hitters in [false, true] {
        let mut points = Vec::new();
        for load in LOADS {
            let options = balance::Options { load, ..options.clone() };
            let mut found = balance::measure(&options, EXPONENT, heavy_hitters, Progress::SHOWN)?;
            let record = found.remove(0);
            context.record_of(&options, &record)?;
            points.extend(record.wait_ns_p99.map(|ns| (load, ns / 1e3)));
            losses.push((load, heavy_hitters, record.lost, record.lost_of_worst));
            records.push(record);
        }
        chart.line(words(heavy_hitters), points);
    }
    let mut table = table::Table::new(&[
        "load",
        "heavy hitters",
        "mean wait, us",
        "p99 wait, us",
        "lost, %",
        "lost on the worst core, %",
    ]);
    for (record, (load, heavy_hitters, lost, worst)) in records.iter().zip(losses) {
        let us = |ns: Option<f64>| table::optional(ns.map(|ns| ns / 1e3), 2);
        table.row([
            format!("{load:.2}"),
            words(heavy_hitters).to_owned(),
            us(record.wait_ns_mean),
            us(record.wait_ns_p99),
            format!("{:.2}", lost * 100.0),
            format!("{:.2}", worst * 100.0),
        ]);
    }
    print!("{table}");
    context.plot(&chart)
}

fn words(heavy_hitters: bool) -> &'static str {
    if heavy_hitters { "spread" } else { "at home" }
}
