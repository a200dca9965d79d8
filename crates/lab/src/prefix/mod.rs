//! Longest name prefix match: measures engines on one workload.
//!
//! The timed loop does what a forwarder does with a burst of Interests: it takes each name out of its packet (TLV
//! decoding and its checks), hashes all prefixes, and finds the deepest rule. Names are prepared before
//! ([`NameSet`](crate::workload::NameSet)). They are so many that the lines they touch in a large table are not in the
//! caches. Each rate is the median of several repetitions. If several engines are compared, their repetitions
//! alternate. The same run checks the answers against the workload's own oracle. It also measures the machine's rate of
//! independent random reads, on a table of the same size and pages. No engine that reads that many cache lines can be
//! faster.
//!
//! Memory is the resident memory that the kernel reports. The size of a query half is the memory that the process frees
//! when it drops that half. If the allocator keeps that memory, the size is the remainder after dropping the control
//! half, which overestimates it.

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
pub use engines::engines_of_all_rules;
pub use measure::{Turn, measure_in_turn};
pub use options::{Load, Options, Prefetch, Strategy, Tuning};
pub use reader::count_lines;
pub use record::Record;

use crate::harness::{self, Measurement};
use crate::progress::Progress;
use crate::workload::NameChoice;

/// Measures `options.engine`.
///
/// # Errors
/// If the machine cannot do it (cores, memory, pages, files), if the engine refuses the rules, or if an answer was
/// wrong.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    let mut records = measure_all(options, &[&options.engine], std::slice::from_ref(&options.names), progress)?;
    Ok(records.remove(0))
}

/// Measures engines in turn, in several rounds over the same names, with all tables in memory at once. Returns for each
/// choice of names a record of each engine, in their order.
///
/// # Errors
/// As for [`measure()`].
pub fn measure_all(
    options: &Options,
    engines: &[&str],
    choices: &[NameChoice],
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    measure::measure_all(options, engines, choices, progress)
}

impl Measurement for Options {
    const NAME: &'static str = "prefix";
    type Record = Record;

    fn json(&self) -> bool {
        self.measuring.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        let choices: Vec<_> = std::iter::once(&self.names).chain(&self.then).cloned().collect();
        measure_all(self, &crate::options::engines(&self.engine, &self.compare), &choices, progress)
    }

    fn print(&self, records: &[Record]) {
        let engines = crate::options::engines(&self.engine, &self.compare).len();
        records.chunks(engines).for_each(report::print);
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
