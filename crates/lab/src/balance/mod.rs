//! How evenly workers are loaded where some names are much more popular than others
//! [Hasegawa, "Evaluation by Simulation"].
//!
//! Consumers ask for names whose popularity follows Zipf's law; a producer answers what the content
//! stores do not. Dispatcher and workers are the router's own, in two settings: on as many simulated
//! cores as wanted (`simulated`), and on threads of this machine (`threads`). Each is measured with and
//! without what spreads heavy hitters.
//!
//! The load of a worker is the packets that came to it, those that found no room included; what is to be
//! small is that of the busiest to the mean.

mod options;
mod record;
mod simulated;
#[cfg(test)]
mod tests;
mod threads;
mod traffic;

pub use options::Options;
pub use record::{Cores, Record};

use crate::experiments::Table;
use crate::progress::Progress;
use crate::record::Recorder;

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = if options.json { Progress::HIDDEN } else { Progress::SHOWN };
    let mut recorder = Recorder::new("balance", options.json)?;
    let mut records = Vec::new();
    for &exponent in &options.exponents {
        for heavy_hitters in [false, true] {
            for record in measure(options, exponent, heavy_hitters, progress)? {
                recorder.add(&record)?;
                records.push(record);
            }
        }
    }
    if !options.json {
        print!("{}", table(&records));
    }
    Ok(())
}

/// Measures one popularity in each setting; a record of each.
pub fn measure(
    options: &Options,
    exponent: f64,
    heavy_hitters: bool,
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    options.ensure_possible()?;
    let what = if heavy_hitters { "spread" } else { "at home" };
    let mut records = Vec::new();
    if options.cores > 0 {
        let spinner = progress.spinner(&format!("exponent {exponent}, {what}: simulating {} cores", options.cores));
        records.push(simulated::measure(options, exponent, heavy_hitters)?);
        spinner.finish_and_clear();
    }
    if options.threads > 0 {
        let spinner = progress.spinner(&format!("exponent {exponent}, {what}: on {} threads", options.threads));
        records.push(threads::measure(options, exponent, heavy_hitters)?);
        spinner.finish_and_clear();
    }
    Ok(records)
}

/// What records say, for a terminal.
pub fn table(records: &[Record]) -> Table {
    let mut table = Table::new(&[
        "cores",
        "exponent",
        "heavy hitters",
        "busiest to mean",
        "idlest",
        "from CS, %",
        "spread, %",
        "hot names",
        "wait, us",
        "99 %",
        "lost, %",
        "M Interests/s",
    ]);
    let us = |ns: Option<f64>| ns.map_or_else(String::new, |ns| format!("{:.2}", ns / 1e3));
    for r in records {
        table.row([
            format!("{} {}", r.workers, r.cores),
            format!("{:.1}", r.exponent),
            if r.heavy_hitters { "spread" } else { "at home" }.to_owned(),
            format!("{:.3}", r.busiest_to_mean),
            format!("{:.3}", r.idlest_to_mean),
            format!("{:.1}", r.cs_hits * 100.0),
            format!("{:.1}", r.spread * 100.0),
            r.hot_names.to_string(),
            us(r.wait_ns_mean),
            us(r.wait_ns_p99),
            format!("{:.2}", r.lost * 100.0),
            r.interests_per_s.map_or_else(String::new, |rate| format!("{:.3}", rate / 1e6)),
        ]);
    }
    table
}
