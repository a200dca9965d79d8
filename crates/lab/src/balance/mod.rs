//! How evenly workers are loaded when some names are much more popular than others [Hasegawa, "Evaluation by
//! Simulation"].
//!
//! Consumers ask for names whose popularity follows Zipf's law. The content stores answer some Interests, and a
//! producer answers the rest. Dispatcher and workers are the router's own. They run in two settings: on any number of
//! simulated cores (`simulated`), and on threads of this machine (`threads`). Each setting is measured with and without
//! spreading heavy hitters.
//!
//! The load of a worker is the number of packets that came to it, including those dropped because its queue was full.
//! The result to keep small is the ratio of the busiest worker's load to the mean.

mod options;
mod record;
mod simulated;
#[cfg(test)]
mod tests;
mod threads;
mod traffic;

pub use options::Options;
pub use record::{Cores, Record};

use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::Table;

impl Measurement for Options {
    const NAME: &'static str = "balance";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        for &exponent in &self.exponents {
            for heavy_hitters in [false, true] {
                records.extend(measure(self, exponent, heavy_hitters, progress)?);
            }
        }
        Ok(records)
    }

    fn print(&self, records: &[Record]) {
        print!("{}", table(records));
    }
}

/// Measures one popularity in each setting. Returns one record per setting.
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

/// Formats records as a table for a terminal.
pub fn table(records: &[Record]) -> Table {
    let mut table = Table::new(&[
        "cores",
        "exponent",
        "heavy hitters",
        "busiest / mean",
        "idlest / mean",
        "from CS, %",
        "spread, %",
        "hot names",
        "mean wait, us",
        "p99 wait, us",
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
