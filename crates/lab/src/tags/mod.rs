//! Subset match of tag sets: measures engines on one population of descriptors [TagNet §4].
//!
//! The measured loop does what a forwarder does with a burst of packets: it makes the filter from the packet's tags, or
//! takes the filter that the packet carries, and asks the query half. Packets are prepared before, from descriptors of
//! the table with some more tags; a given share of them matches. The same run compares a sample of the answers with all
//! descriptors.
//!
//! If several engines are compared, their repetitions alternate.

mod asking;
mod check;
mod engine;
mod measure;
mod options;
mod packets;
mod population;
mod reader;
mod record;
mod report;
#[cfg(test)]
mod tests;
mod updates;

pub use asking::{Algorithm, Asking, Traffic};
pub use engine::Subject;
pub use options::{ChainChoice, LayoutChoice, Options, Tuning};
pub use population::Population;
pub use record::Record;

use crate::harness::{self, Measurement};
use crate::progress::Progress;

/// Measures engines in turn, with all tables in memory at once. Returns a record of each.
///
/// # Errors
/// As for [`measure_all`].
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    measure_all(options, engines, std::slice::from_ref(&options.asking), progress)
}

/// Like [`measure()`], but with several kinds of packets on the same tables instead of that in the options. Returns a
/// record of each engine for each kind.
///
/// # Errors
/// If the machine cannot do it (cores, memory, files), if an engine refuses the descriptors, or if an answer was wrong.
pub fn measure_all(
    options: &Options,
    engines: &[&str],
    askings: &[Asking],
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    measure::measure_all(options, engines, askings, progress)
}

/// Builds the engine in the options with all of `population`.
///
/// # Errors
/// If there is no such engine, or it refuses the descriptors.
pub fn build(options: &Options, population: &Population) -> anyhow::Result<Subject> {
    (engine::find(&options.engine)?.build)(options, population)
}

impl Measurement for Options {
    const NAME: &'static str = "tags";
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
