//! The flat switch [Concise §6.4]: Ethernet frames through `byname_forward::switch::Switch`, by tables of
//! our engines and of those that the paper compares, and on virtual cables.
//!
//! Names are made-up addresses of stations behind the switch's ports. Every frame that is measured is
//! checked: it must leave by the port of its destination.

mod ends;
mod foretold;
mod memory;
mod options;
mod record;
mod stations;
mod tables;
#[cfg(test)]
mod tests;
mod wire;

use byname_wire::NameHashKey;

pub use options::{From, Options, Place};
pub use record::{MemoryRecord, WireRecord};
pub use wire::allowed as wire_allowed;

use crate::experiments::table::{self, Table};
use crate::progress::Progress;
use crate::record::Recorder;
use crate::workload::Random;

/// Frames in memory: for each number of names and each size a record of each table, and before them of
/// one that knows all answers.
///
/// # Errors
/// If the machine cannot do it (cores, memory), if there is no such table, or if a frame went astray.
pub fn in_memory(options: &Options, progress: Progress) -> anyhow::Result<Vec<MemoryRecord>> {
    memory::measure(options, progress)
}

/// Frames on the wire: for each size a record of a reflector, and of each table of each number of names.
///
/// # Errors
/// If the machine cannot do it, or does not let us lay cables.
pub fn on_wire(options: &Options, progress: Progress) -> anyhow::Result<Vec<WireRecord>> {
    wire::measure(options, progress)
}

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = options.measuring.progress();
    let mut recorder = Recorder::new("switch", options.measuring.json)?;
    let table = match options.on {
        Place::Memory => {
            let records = in_memory(options, progress)?;
            records.iter().try_for_each(|record| recorder.add(record))?;
            table_of_memory(&records)
        }
        Place::Wire => {
            let records = on_wire(options, progress)?;
            records.iter().try_for_each(|record| recorder.add(record))?;
            table_of_wire(&records)
        }
    };
    if !options.measuring.json {
        print!("{table}");
    }
    Ok(())
}

/// What addresses are hashed with.
fn key(options: &Options) -> NameHashKey {
    let mut random = Random::new(options.measuring.seed);
    NameHashKey::with_function(options.hash.into(), [random.bits(), random.bits()])
}

/// What people are shown of frames in memory.
pub fn table_of_memory(records: &[MemoryRecord]) -> Table {
    let heads = [
        "table",
        "names",
        "octets",
        "M frames/s",
        "least",
        "most",
        "ns a frame",
        "of the limit, %",
        "MB",
        "wrong",
        "lost",
    ];
    let mut table = Table::new(&heads);
    for record in records {
        table.row([
            record.passage.engine.clone(),
            table::count(record.passage.names),
            record.passage.octets.to_string(),
            format!("{:.2}", record.passage.frames_per_s / 1e6),
            format!("{:.2}", record.passage.frames_per_s_min / 1e6),
            format!("{:.2}", record.passage.frames_per_s_max / 1e6),
            format!("{:.1}", record.ns_per_frame),
            format!("{:.0}", 100.0 * record.passage.of_limit),
            format!("{:.1}", record.passage.table_bytes as f64 / 1e6),
            record.passage.wrong.to_string(),
            record.passage.lost.to_string(),
        ]);
    }
    table
}

/// The same of frames on the wire.
pub fn table_of_wire(records: &[WireRecord]) -> Table {
    let heads = [
        "table",
        "names",
        "octets",
        "k frames/s",
        "least",
        "most",
        "Gbit/s",
        "of the limit, %",
        "at k/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "wrong",
        "lost",
    ];
    let mut table = Table::new(&heads);
    for record in records {
        table.row([
            record.passage.engine.clone(),
            table::count(record.passage.names),
            record.passage.octets.to_string(),
            format!("{:.0}", record.passage.frames_per_s / 1e3),
            format!("{:.0}", record.passage.frames_per_s_min / 1e3),
            format!("{:.0}", record.passage.frames_per_s_max / 1e3),
            format!("{:.2}", record.passage.gbit_per_s),
            format!("{:.0}", 100.0 * record.passage.of_limit),
            format!("{:.0}", record.rate as f64 / 1e3),
            format!("{:.1}", record.p50_us),
            format!("{:.1}", record.p99_us),
            format!("{:.1}", record.p999_us),
            record.passage.wrong.to_string(),
            record.passage.lost.to_string(),
        ]);
    }
    table
}
