//! The flat switch [Concise §6.4]: Ethernet frames through `byname_switch::switch::Switch`, in memory with our tables
//! and those that the paper compares, and on virtual cables.
//!
//! Names are generated addresses of stations behind the switch's ports. Every measured frame is checked: it must leave
//! by the port of its destination.

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
use serde::Serialize;

pub use options::{From, Options, Place};
pub use record::{MemoryRecord, WireRecord};
pub use wire::allowed as wire_allowed;

use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::{self, Table};
use crate::workload::Random;

/// Measures frames in memory. Returns for each number of names and each size a record of each table, after one of a
/// table that knows all answers.
///
/// # Errors
/// If the machine cannot do it (cores, memory), if a table does not exist, or if a frame went astray.
pub fn in_memory(options: &Options, progress: Progress) -> anyhow::Result<Vec<MemoryRecord>> {
    memory::measure(options, progress)
}

/// Measures frames on the wire. Returns for each size a record of a reflector, and one of each table with each number
/// of names.
///
/// # Errors
/// If the machine cannot do it, or does not allow virtual cables.
pub fn on_wire(options: &Options, progress: Progress) -> anyhow::Result<Vec<WireRecord>> {
    wire::measure(options, progress)
}

/// The result of one table, in memory or on the wire.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Record {
    /// In memory.
    Memory(MemoryRecord),
    /// On the wire.
    Wire(WireRecord),
}

impl Measurement for Options {
    const NAME: &'static str = "switch";
    type Record = Record;

    fn json(&self) -> bool {
        self.measuring.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        Ok(match self.on {
            Place::Memory => in_memory(self, progress)?.into_iter().map(Record::Memory).collect(),
            Place::Wire => on_wire(self, progress)?.into_iter().map(Record::Wire).collect(),
        })
    }

    fn print(&self, records: &[Record]) {
        let in_memory = records.iter().filter_map(|record| match record {
            Record::Memory(record) => Some(record),
            Record::Wire(_) => None,
        });
        let on_wire = records.iter().filter_map(|record| match record {
            Record::Wire(record) => Some(record),
            Record::Memory(_) => None,
        });
        match self.on {
            Place::Memory => print!("{}", table_of_memory(in_memory)),
            Place::Wire => print!("{}", table_of_wire(on_wire)),
        }
    }
}

/// The key with which addresses are hashed.
fn key(options: &Options) -> NameHashKey {
    let mut random = Random::new(options.measuring.seed);
    NameHashKey::with_function(options.hash.into(), [random.bits(), random.bits()])
}

/// Formats records of frames in memory for a terminal.
pub fn table_of_memory<'a>(records: impl IntoIterator<Item = &'a MemoryRecord>) -> Table {
    let heads = [
        "table",
        "names",
        "bytes",
        "M frames/s",
        "minimum",
        "maximum",
        "ns a frame",
        "share of limit, %",
        "MB",
        "wrong",
        "lost",
    ];
    let mut table = Table::new(&heads);
    for record in records {
        table.row([
            record.passage.engine.clone(),
            table::count(record.passage.names),
            record.passage.bytes.to_string(),
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

/// Formats records of frames on the wire for a terminal.
pub fn table_of_wire<'a>(records: impl IntoIterator<Item = &'a WireRecord>) -> Table {
    let heads = [
        "table",
        "names",
        "bytes",
        "threads",
        "k frames/s",
        "minimum",
        "maximum",
        "Gbit/s",
        "share of limit, %",
        "delays at k/s",
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
            record.passage.bytes.to_string(),
            record.threads.to_string(),
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
