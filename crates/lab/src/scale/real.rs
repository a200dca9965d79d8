//! Threads of this machine beside as many simulated ones.
//!
//! The simulation is of many threads, and this machine has few cores. If it foretells the few that can run here, that is
//! a reason to believe it for more. Only ratios are compared: the simulated port and the port in memory of
//! `byname-lab forward` do different work, and with real threads part of it is not timed.

use super::options::Options;
use super::record::{Real, Simulated};
use crate::forward;
use crate::progress::Progress;
use crate::table::Table;

/// Room in each PIT: more than threads have under way.
const PENDING_MAX: u64 = 1 << 16;
/// Rules of the FIB: so many that each thread's producer gets its share of the Interests.
const RULES: u64 = 1024;

/// Runs as many threads as each simulation has, as far as there are cores.
pub(super) fn measure(options: &Options, simulated: &[&Simulated], progress: Progress) -> anyhow::Result<Vec<Real>> {
    let cores = std::thread::available_parallelism()?.get();
    let mut found = Vec::new();
    let mut one = 1.0;
    for simulated in simulated.iter().filter(|simulated| simulated.threads <= cores) {
        let record = forward::measure(&of_forward(options, simulated), progress)?.remove(0);
        let rate = record.exchanges_per_s.unwrap_or_default();
        // The simulations of each popularity begin with that of one thread.
        if simulated.threads == 1 {
            one = rate;
        }
        let ratio_to_one = rate / one;
        found.push(Real {
            threads: simulated.threads,
            heavy_hitters: simulated.heavy_hitters,
            exponent: simulated.exponent,
            names: simulated.names,
            cs: simulated.cs,
            exchanges_per_s: rate,
            ratio_to_one,
            simulated_ratio_to_one: simulated.ratio_to_one,
            simulated_to_real: simulated.ratio_to_one / ratio_to_one,
            cs_hits: record.cs_hits,
        });
    }
    Ok(found)
}

/// The same traffic for `byname-lab forward`.
fn of_forward(options: &Options, simulated: &Simulated) -> forward::Options {
    let mut same = crate::options::defaults::<forward::Options>();
    (same.fib, same.pit, same.cs, same.draws) = (RULES, PENDING_MAX, options.cs, options.names);
    (same.zipf, same.heavy_hitters) = (Some(simulated.exponent), simulated.heavy_hitters);
    (same.measuring.threads, same.measuring.seed) = (simulated.threads, options.seed);
    same.measuring.seconds = options.real_seconds;
    same
}

/// Formats records as a table for a terminal.
pub(super) fn table(records: &[&Real]) -> Table {
    let mut table = Table::new(&[
        "threads",
        "exponent",
        "heavy hitters",
        "M exchanges/s",
        "to one",
        "to one, simulated",
        "simulated / real",
        "from CS, %",
    ]);
    for r in records {
        table.row([
            r.threads.to_string(),
            format!("{:.1}", r.exponent),
            if r.heavy_hitters { "spread" } else { "at home" }.to_owned(),
            format!("{:.2}", r.exchanges_per_s / 1e6),
            format!("{:.2}", r.ratio_to_one),
            format!("{:.2}", r.simulated_ratio_to_one),
            format!("{:.2}", r.simulated_to_real),
            format!("{:.0}", r.cs_hits * 100.0),
        ]);
    }
    table
}
