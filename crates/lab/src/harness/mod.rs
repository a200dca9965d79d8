//! One harness for all families of measurements: tables, data planes, switches and workers.
//!
//! A family describes a measurement by its [`Measurement`]: options, and records. It brings its subjects and their
//! queries. The harness runs subjects in turn, lets a writer change a table beside a reader, measures memory, writes
//! records, and prints tables.

mod columns;
mod measured;
mod memory;
mod turns;

use serde::Serialize;

use crate::progress::Progress;
use crate::record::Recorder;

pub use columns::Columns;
pub use measured::Measured;
pub use memory::{Memory, growth, reserved};
pub use turns::{Beside, beside_writer, in_turn, lines_per_lookup, warm_in_turn};

/// A subcommand that measures: its options say what.
pub trait Measurement: Serialize {
    /// The subcommand, and the name of the file of its records.
    const NAME: &'static str;
    /// The result of one subject.
    type Record: Serialize;

    /// Whether only records are wanted, each as one line of JSON.
    fn json(&self) -> bool;

    /// Measures all subjects.
    ///
    /// # Errors
    /// If the machine cannot do it, if a subject refuses its input, or if an answer was wrong.
    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Self::Record>>;

    /// Prints the results for a terminal.
    fn print(&self, records: &[Self::Record]);
}

/// Measures, appends the records to `lab-results/NAME.jsonl`, and prints them.
///
/// # Errors
/// As [`Measurement::measure`], or if the records cannot be written.
pub fn run<M: Measurement>(measurement: &M) -> anyhow::Result<()> {
    let progress = if measurement.json() { Progress::HIDDEN } else { Progress::SHOWN };
    let mut recorder = Recorder::new(M::NAME, measurement.json())?;
    let records = measurement.measure(progress)?;
    records.iter().try_for_each(|record| recorder.add(measurement, record))?;
    if !measurement.json() {
        measurement.print(&records);
    }
    Ok(())
}
