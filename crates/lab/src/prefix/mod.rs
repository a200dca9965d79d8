//! Longest name prefix match: engines on one workload, measured. The direct form of the lab.
//!
//! What is timed is what a forwarder does with a burst of Interests: take each name out of its
//! packet (TLV decoding and its checks), hash all its prefixes, and find the deepest rule, with
//! everything inside the loop. Names are prepared before ([`NameSet`](crate::workload::NameSet)), in
//! such number that what they touch in a large table is not in the caches. Each rate is the median
//! of several repetitions; where several engines are compared, their repetitions alternate. In the
//! same run the answers are checked against the workload's own oracle, and the machine's rate of
//! independent random reads is measured on a table of the same size and pages: no engine that reads
//! so many cache lines can be faster.
//!
//! Memory is what the kernel says is resident. A query half is what the process shrinks by when that
//! is dropped; where the allocator keeps it, it is what is left without the control half, which is
//! more than it has.

mod build;
mod check;
mod engine;
mod engines;
mod measure;
mod options;
mod reader;
mod record;
mod report;
#[cfg(test)]
mod tests;
mod updates;

pub use build::{Built, build};
pub use engine::{Engine, Setup, find};
pub use engines::ENGINES;
pub use measure::{Turn, measure_in_turn};
pub use options::{Hash, Load, Options, Prefetch, Strategy, Tuning};
pub use reader::count_lines;
pub use record::Record;

use crate::progress::Progress;
use crate::record::Recorder;
use crate::workload::NameChoice;

/// Measures `options.engine`.
///
/// # Errors
/// If the machine cannot do it (cores, memory, pages, files), if the engine refuses the rules, or
/// if an answer was wrong.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    let mut records = measure_all(options, &[&options.engine], std::slice::from_ref(&options.names), progress)?;
    Ok(records.remove(0))
}

/// Measures engines in turn, several rounds over the same names, on tables that are all there at
/// once; for each choice of names, a record of each engine, in their order.
///
/// # Errors
/// As [`measure()`].
pub fn measure_all(
    options: &Options,
    engines: &[&str],
    choices: &[NameChoice],
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    measure::measure_all(options, engines, choices, progress)
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if options.engine == "list" {
        report::list();
        return Ok(());
    }
    let progress = options.measuring.progress();
    let engines = crate::options::engines(&options.engine, &options.compare);
    let choices: Vec<_> = std::iter::once(&options.names).chain(&options.then).cloned().collect();
    let mut recorder = Recorder::new("prefix", options.measuring.json)?;
    let records = measure_all(options, &engines, &choices, progress)?;
    for record in &records {
        recorder.add(record)?;
    }
    if !options.measuring.json {
        records.chunks(engines.len()).for_each(report::print);
    }
    Ok(())
}
