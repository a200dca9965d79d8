//! Longest name prefix match: one engine on one workload, measured; the direct form of the lab.

mod engine;
mod options;
mod record;

pub use engine::{ENGINES, Engine, Setup, Subject};
pub use options::{Hash, Options, PageSize, Prefetch, Strategy, Tuning};
pub use record::Record;

use crate::progress::Progress;

/// Measures `options.engine`.
///
/// # Errors
/// If the machine cannot do it (cores, memory, pages, files), if the engine refuses the rules, or
/// if an answer was wrong.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    let _ = (options, progress);
    anyhow::bail!("not measured yet")
}

/// Measures the engines in turn, several rounds over the same names; one record each, in their
/// order.
pub fn compare(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    let _ = (options, engines, progress);
    anyhow::bail!("not measured yet")
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    measure(options, Progress::SHOWN).map(drop)
}
