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
pub mod simulated;
#[cfg(test)]
mod tests;
mod threads;
pub mod traffic;

pub use options::Options;
pub use record::{Cores, Record, extremes};

use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::Table;
use simulated::{Costs, Load, Outcome, Setting};

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

/// Packets that a simulated core takes from its port in a round, as the router does by default.
pub const BURST: usize = 64;

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
        records.push(on_simulated_cores(options, exponent, heavy_hitters)?);
        spinner.finish_and_clear();
    }
    if options.threads > 0 {
        let spinner = progress.spinner(&format!("exponent {exponent}, {what}: on {} threads", options.threads));
        records.push(threads::measure(options, exponent, heavy_hitters)?);
        spinner.finish_and_clear();
    }
    Ok(records)
}

/// Measures on simulated cores that take the same time for each packet, at its home, and no time for anything else.
fn on_simulated_cores(options: &Options, exponent: f64, heavy_hitters: bool) -> anyhow::Result<Record> {
    let setting = Setting {
        cores: options.cores,
        hot_window: heavy_hitters.then_some(options.window),
        exponent,
        names: options.names,
        cs: options.cs,
        load: Load::Open(options.load),
        interests: options.interests,
        rtt_ns: options.rtt_us * 1000,
        burst: BURST,
        ring: options.ring,
        costs: Costs::flat(options.service_ns as f64),
        seed: options.seed,
    };
    let found = simulated::simulate(&setting)?;
    let packets: Vec<u64> = found.counts.iter().map(|core| core.handled + core.lost).collect();
    let (busiest_to_mean, idlest_to_mean) = extremes(&packets);
    let of_interests = |count: u64| count as f64 / options.interests as f64;
    let lost_of = |lost: u64, packets: u64| lost as f64 / packets.max(1) as f64;
    let Outcome { counts, spread, strays, hot_names, cs_hits, waits, .. } = found;
    Ok(Record {
        cores: Cores::Simulated,
        workers: options.cores,
        heavy_hitters,
        exponent,
        names: options.names,
        cs: options.cs,
        interests: options.interests,
        load: Some(options.load),
        service_ns: Some(options.service_ns),
        seed: options.seed,
        busiest_to_mean,
        idlest_to_mean,
        cs_hits: of_interests(cs_hits),
        spread: of_interests(spread),
        strays,
        hot_names,
        wait_ns_mean: Some(waits.mean()),
        wait_ns_p99: Some(waits.value_at_quantile(0.99) as f64),
        lost: lost_of(counts.iter().map(|core| core.lost).sum(), packets.iter().sum()),
        lost_of_worst: counts.iter().zip(&packets).map(|(core, all)| lost_of(core.lost, *all)).fold(0.0, f64::max),
        packets,
        interests_per_s: None,
        dispatch_ns: None,
        worker_ns: None,
    })
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
