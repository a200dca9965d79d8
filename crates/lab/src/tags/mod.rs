//! Subset match of tag sets: engines on one population of descriptors, measured [TagNet §4].
//!
//! What is timed is what a forwarder does with a burst of packets: the filter is made from the tags
//! that the packet carries, or taken as it comes, and the query half is asked. Packets are prepared
//! before: descriptors of the table with some tags more, of which a share is to match. In the same run
//! a sample of the answers is compared with all descriptors.
//!
//! Where several engines are compared, their repetitions alternate.

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

use crate::progress::Progress;
use crate::record::Recorder;

/// Measures engines in turn, on tables that are all there at once: a record of each.
///
/// # Errors
/// As [`measure_all`].
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    measure_all(options, engines, std::slice::from_ref(&options.asking), progress)
}

/// The same with several kinds of packets on the same tables, in place of the options': for each kind, a
/// record of each engine.
///
/// # Errors
/// If the machine cannot do it (cores, memory, files), if an engine refuses the descriptors, or if an
/// answer was wrong.
pub fn measure_all(
    options: &Options,
    engines: &[&str],
    askings: &[Asking],
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    measure::measure_all(options, engines, askings, progress)
}

/// Builds the options' engine with all of `population`.
///
/// # Errors
/// If there is no such engine, or it refuses the descriptors.
pub fn build(options: &Options, population: &Population) -> anyhow::Result<Subject> {
    (engine::find(&options.engine)?.build)(options, population)
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    if options.engine == "list" {
        report::list();
        return Ok(());
    }
    let progress = options.measuring.progress();
    let engines = crate::options::engines(&options.engine, &options.compare);
    let mut recorder = Recorder::new("tags", options.measuring.json)?;
    let records = measure(options, &engines, progress)?;
    for record in &records {
        recorder.add(record)?;
    }
    if !options.measuring.json {
        report::print(&records);
    }
    Ok(())
}
