//! Exact match of opaque names: engines on one population, measured. [Concise §6.2]'s metrics.
//!
//! What is timed is what a forwarder does with a burst of packets: take each name's octets, hash
//! them, and ask the query half, with everything inside the loop. Names are prepared before, in such
//! number that what they touch in a large table is not in the caches, or made on the way by a shift
//! register as in [Concise §6.2.3]. Each rate is the median of several repetitions; where several
//! engines are compared, their repetitions alternate. In the same run answers are checked against
//! what the names were made from, and the machine's rate of independent random reads is measured on
//! a table of the same size and pages.
//!
//! Memory is what the kernel says is resident, half by half, as in the prefix lab.

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

use crate::progress::Progress;
use crate::record::Recorder;

/// Measures engines in turn, several rounds over the same names, on tables that are all there at
/// once; a record of each.
///
/// # Errors
/// If the machine cannot do it (cores, memory, pages, files), if an engine refuses the names, or if
/// an answer was wrong.
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    measure::measure(options, engines, progress)
}

/// The delays of packets that come at random to one engine, at each of some rates, in nanoseconds.
///
/// # Errors
/// As [`measure()`].
pub fn delays(
    options: &Options,
    engine: &str,
    rates: &[f64],
    progress: Progress,
) -> anyhow::Result<Vec<Histogram<u64>>> {
    measure::delays(options, engine, rates, progress)
}

/// Times of the tables of two switches that share one graph [Concise §5.1].
///
/// # Errors
/// If there are no such names, or no memory for them.
pub fn share(options: &Options) -> anyhow::Result<Sharing> {
    sharing::share(options)
}

/// Memory of both halves of an engine for each name while they are built, in bytes, about.
///
/// # Errors
/// If there is no such engine.
pub fn bytes_per_name(engine: &str) -> anyhow::Result<u64> {
    Ok(engine::find(engine)?.bytes_per_name)
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if options.engine == "list" {
        report::list();
        return Ok(());
    }
    let progress = options.measuring.progress();
    let engines = crate::options::engines(&options.engine, &options.compare);
    let mut recorder = Recorder::new("flat", options.measuring.json)?;
    let records = measure(options, &engines, progress)?;
    for record in &records {
        recorder.add(record)?;
    }
    if !options.measuring.json {
        report::print(&records);
    }
    Ok(())
}
