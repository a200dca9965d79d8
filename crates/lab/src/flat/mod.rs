//! Exact match of opaque names: measures engines on one population with the metrics of [Concise §6.2].
//!
//! The timed loop does what a forwarder does with a burst of packets: it reads each name's bytes, hashes them and
//! queries the table. Names are prepared before. They are so many that the lines they touch in a large table are not in
//! the caches. A shift register may instead generate the names in the loop, as in [Concise §6.2.3]. Each rate is the
//! median of several repetitions. If several engines are compared, their repetitions alternate. The same run checks
//! answers against the actions of the names. It also measures the machine's rate of independent random reads, on a
//! table of the same size and pages.
//!
//! Memory is the resident memory that the kernel reports for each half, as in the prefix lab.

pub mod baselines;
mod build;
mod check;
mod delay;
mod engine;
mod hasher;
mod measure;
mod messages;
mod names;
mod options;
mod queries;
mod reader;
mod rebuilt;
mod record;
mod report;
mod sharing;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod updates;

use hdrhistogram::Histogram;

pub use hasher::Function;
pub use names::Keys;
pub use options::Options;
pub use record::Record;
pub use sharing::Sharing;

use crate::harness::{self, Measurement};
use crate::progress::Progress;

/// Measures engines in turn, in several rounds over the same names, with all tables in memory at once. Returns one
/// record of each.
///
/// # Errors
/// If the machine cannot do it (cores, memory, pages, files), if an engine refuses the names, or if an answer was
/// wrong.
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    measure::measure(options, engines, progress)
}

/// Measures the delays of packets that come at random to one engine, at several rates. Returns nanoseconds.
///
/// # Errors
/// As for [`measure()`].
pub fn delays(
    options: &Options,
    engine: &str,
    rates: &[f64],
    progress: Progress,
) -> anyhow::Result<Vec<Histogram<u64>>> {
    measure::delays(options, engine, rates, progress)
}

/// Measures the construction of the tables of two switches that share one graph [Concise §5.1].
///
/// # Errors
/// If such names do not exist, or do not fit in memory.
pub fn share(options: &Options) -> anyhow::Result<Sharing> {
    sharing::share(options)
}

/// Approximate peak memory of both halves of an engine while they are built, in bytes per name.
///
/// # Errors
/// If there is no such engine.
pub fn bytes_per_name(engine: &str) -> anyhow::Result<u64> {
    Ok(engine::find(engine)?.bytes_per_name)
}

impl Measurement for Options {
    const NAME: &'static str = "flat";
    type Record = Record;

    fn json(&self) -> bool {
        self.measuring.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure(self, &crate::options::engines(&self.engine, &self.compare), progress)
    }

    fn print(&self, records: &[Record]) {
        report::print(records);
    }
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if options.engine == "list" {
        report::list();
        return Ok(());
    }
    harness::run(options)
}
