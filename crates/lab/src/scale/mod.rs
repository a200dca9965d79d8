//! How the rate grows with the number of packet threads: a simulation with measured costs.
//!
//! A machine with many processors is not at hand. So the costs of one packet thread are measured on this machine
//! (`profile`), and threads with these costs are simulated in virtual time ([`crate::balance::simulated`]). Every
//! simulated figure says so, and each record names the costs that it rests on. With `--real`, as many threads as there
//! are cores also run (`real`), and the records tell how well the simulation foretold them.
//!
//! Each thread brings its own faces of consumers and producers, as if faces were dealt out evenly. All threads together
//! have the same names and the same content store, whatever their number.

mod options;
mod profile;
mod real;
mod record;
#[cfg(test)]
mod tests;

use std::fs;

use anyhow::{Context as _, ensure};

pub use options::Options;
pub use record::{Measured, Real, Record, Simulated};

use crate::balance::extremes;
use crate::balance::simulated::{self, Costs, Moving, Outcome, Setting};
use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::Table;

/// The steps of [`Moving`], for a terminal.
const MOVING: [&str; 6] =
    ["receive", "give to home", "take at home, beyond own", "push to owner of face", "pop at owner", "send"];

impl Measurement for Options {
    const NAME: &'static str = "scale";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure(self, progress)
    }

    fn print(&self, records: &[Record]) {
        for record in records {
            if let Record::Measured(measured) = record {
                println!("Measured on this machine, ns:\n{}", costs_table(&measured.costs));
            }
        }
        let simulated: Vec<_> = records.iter().filter_map(simulated_of).collect();
        if !simulated.is_empty() {
            println!("Simulated, with costs measured on few cores:\n{}", table(&simulated));
        }
        let real: Vec<_> = records.iter().filter_map(real_of).collect();
        if !real.is_empty() {
            println!("Threads of this machine:\n{}", real::table(&real));
        }
    }
}

/// The record of a simulation, if it is one.
pub fn simulated_of(record: &Record) -> Option<&Simulated> {
    match record {
        Record::Simulated(simulated) => Some(simulated),
        Record::Measured(_) | Record::Threads(_) => None,
    }
}

/// The record of real threads, if it is one.
fn real_of(record: &Record) -> Option<&Real> {
    match record {
        Record::Threads(real) => Some(real),
        Record::Measured(_) | Record::Simulated(_) => None,
    }
}

/// Measures the costs, and simulates each number of threads with each popularity.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<Record>> {
    options.ensure_possible()?;
    let mut costs = costs(options, progress)?;
    let measured = Record::Measured(Box::new(Measured { costs }));
    if options.costs_only {
        return Ok(vec![measured]);
    }
    for moving in [&mut costs.interest, &mut costs.data] {
        moving.receive_ns = options.receive_ns.unwrap_or(moving.receive_ns);
        moving.send_ns = options.send_ns.unwrap_or(moving.send_ns);
    }
    let mut records: Vec<_> = options.costs.is_none().then_some(measured).into_iter().collect();
    for &exponent in &options.exponents {
        let mut one = None;
        let more = options.threads.iter().filter(|threads| **threads > 1);
        let both = more.flat_map(|threads| [(*threads, false), (*threads, true)]);
        for (threads, heavy_hitters) in std::iter::once((1, false)).chain(both) {
            let spinner = progress.spinner(&format!("exponent {exponent}: simulating {threads} threads"));
            let found = simulate(options, &costs, exponent, threads, heavy_hitters, one)?;
            spinner.finish_and_clear();
            one.get_or_insert(found.simulated_exchanges_per_s);
            records.push(Record::Simulated(Box::new(found)));
        }
    }
    if options.real {
        let simulated: Vec<_> = records.iter().filter_map(simulated_of).collect();
        let real = real::measure(options, &simulated, progress)?;
        records.extend(real.into_iter().map(|real| Record::Threads(Box::new(real))));
    }
    Ok(records)
}

/// The costs of the file, or those of this machine.
fn costs(options: &Options, progress: Progress) -> anyhow::Result<Costs> {
    if let Some(path) = &options.costs {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let line: serde_json::Value = serde_json::from_str(&text).context("costs are one line of JSON")?;
        // Either a whole record or its costs.
        let costs = line.get("costs").unwrap_or(&line);
        return serde_json::from_value(costs.clone()).context("these are no costs");
    }
    let spinner = progress.spinner("measuring costs");
    let setting = profile::Setting {
        cs: options.cs,
        burst: options.burst,
        bursts: usize::try_from(options.bursts)?,
        seed: options.seed,
    };
    let costs = profile::measure(&setting)?;
    spinner.finish_and_clear();
    Ok(costs)
}

/// Simulates some threads. `one` is the rate of one thread; `None` for that thread itself.
fn simulate(
    options: &Options,
    costs: &Costs,
    exponent: f64,
    threads: usize,
    heavy_hitters: bool,
    one: Option<f64>,
) -> anyhow::Result<Simulated> {
    let setting = Setting {
        cores: threads,
        hot_window: heavy_hitters.then_some(options.hot_window),
        exponent,
        names: options.names,
        cs: options.cs,
        load: options.arrivals(),
        interests: options.interests,
        rtt_ns: options.rtt_us * 1000,
        burst: options.burst,
        ring: options.ring,
        costs: *costs,
        seed: options.seed,
    };
    let found = simulated::simulate(&setting)?;
    ensure!(found.answered > 0 && found.elapsed_ns > 0, "nothing was answered: simulate more Interests (--interests)");
    Ok(record(&setting, options, found, one))
}

fn record(setting: &Setting, options: &Options, found: Outcome, one: Option<f64>) -> Simulated {
    let packets: Vec<u64> = found.counts.iter().map(|core| core.handled + core.lost).collect();
    let (busiest_to_mean, idlest_to_mean) = extremes(&packets);
    let threads = setting.cores;
    let rate = found.answered as f64 / found.elapsed_ns as f64 * 1e9;
    let ratio_to_one = rate / one.unwrap_or(rate);
    let busy = |busy_ns: u64| busy_ns as f64 / found.elapsed_ns as f64;
    let busy_ns = || found.counts.iter().map(|core| core.busy_ns);
    let of_interests = |count: u64| count as f64 / setting.interests as f64;
    let us = |quantile: f64| found.latencies.value_at_quantile(quantile) as f64 / 1e3;
    Simulated {
        threads,
        heavy_hitters: setting.hot_window.is_some(),
        exponent: setting.exponent,
        names: setting.names,
        cs: setting.cs,
        interests: setting.interests,
        seed: setting.seed,
        simulated_exchanges_per_s: rate,
        ratio_to_one,
        share_of_linear: ratio_to_one / threads as f64,
        busiest_to_mean,
        idlest_to_mean,
        busy_of_busiest: busy(busy_ns().max().unwrap_or_default()),
        busy_mean: busy(busy_ns().sum()) / threads as f64,
        packets,
        crossings_per_exchange: found.crossed as f64 / found.answered as f64,
        cs_hits: of_interests(found.cs_hits),
        spread: of_interests(found.spread),
        port_drops: found.port_drops,
        input_drops: found.input_drops,
        output_drops: found.output_drops,
        ring_depth_max: found.depth_max,
        latency_us_p50: us(0.5),
        latency_us_p99: us(0.99),
        sent_in_all: found.sent_in_all,
        answered_in_all: found.answered_in_all,
        lost_in_all: found.lost_in_all,
        costs_measured_now: options.costs.is_none(),
        costs: setting.costs,
    }
}

/// Formats costs as a table for a terminal.
fn costs_table(costs: &Costs) -> Table {
    let mut table = Table::new(&["step", "Interest", "Data"]);
    let ns = |ns: f64| format!("{ns:.1}");
    let steps = |m: &Moving| [m.receive_ns, m.give_ns, m.take_ns, m.push_output_ns, m.pop_output_ns, m.send_ns];
    for ((step, interest), data) in MOVING.into_iter().zip(steps(&costs.interest)).zip(steps(&costs.data)) {
        table.row([step.to_owned(), ns(interest), ns(data)]);
    }
    table.row(["count popularity".to_owned(), ns(costs.count_ns), String::new()]);
    for (whose, forwarding) in [("alone", &costs.alone), ("one of several", &costs.joined)] {
        table.row([format!("forward, {whose}"), ns(forwarding.new_ns), ns(forwarding.data_ns)]);
        table.row([format!("pending, {whose}"), ns(forwarding.pending_ns), String::new()]);
        table.row([format!("hit, {whose}"), ns(forwarding.hit_ns), String::new()]);
    }
    table.row(["hit of a hot name".to_owned(), ns(costs.joined.hot_hit_ns), String::new()]);
    table.row(["round".to_owned(), ns(costs.round_ns), String::new()]);
    table.row(["round, each other thread".to_owned(), ns(costs.rings_ns), String::new()]);
    table
}

/// Formats simulations as a table for a terminal.
pub fn table(records: &[&Simulated]) -> Table {
    let mut table = Table::new(&[
        "simulated threads",
        "exponent",
        "heavy hitters",
        "M exchanges/s",
        "to one",
        "of linear",
        "busiest / mean",
        "busy, %",
        "from CS, %",
        "crossings",
        "drops",
        "ring depth",
        "p50, us",
        "p99, us",
    ]);
    for r in records {
        table.row([
            r.threads.to_string(),
            format!("{:.1}", r.exponent),
            if r.heavy_hitters { "spread" } else { "at home" }.to_owned(),
            format!("{:.2}", r.simulated_exchanges_per_s / 1e6),
            format!("{:.2}", r.ratio_to_one),
            format!("{:.2}", r.share_of_linear),
            format!("{:.2}", r.busiest_to_mean),
            format!("{:.0}", r.busy_mean * 100.0),
            format!("{:.0}", r.cs_hits * 100.0),
            format!("{:.2}", r.crossings_per_exchange),
            (r.port_drops + r.input_drops + r.output_drops).to_string(),
            r.ring_depth_max.to_string(),
            format!("{:.0}", r.latency_us_p50),
            format!("{:.0}", r.latency_us_p99),
        ]);
    }
    table
}
