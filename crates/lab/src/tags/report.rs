//! Results for a terminal: one column for each engine.

use super::asking::Traffic;
use super::engine;
use super::record::Record;
use crate::harness::Columns;
use crate::table::Table;

/// Prints the list of engines.
pub fn list() {
    let mut table = Table::new(&["engine", "description"]);
    for engine in engine::ALL {
        table.row([engine.name.to_owned(), engine.about.to_owned()]);
    }
    print!("{table}");
}

/// Prints the results of engines on the same packets. The first engine is the reference for the others.
pub fn print(records: &[Record]) {
    let Some(first) = records.first() else { return };
    let more = match first.traffic {
        Traffic::Drawn => format!("{} to {} extra tags", first.extra_tags.0, first.extra_tags.1),
        traffic => format!("{traffic:?} packets"),
    };
    println!(
        "{} descriptors of {:.1} tags, {:?}, {:?} subsets, {more}, {} threads, burst {}",
        first.descriptors, first.tags_per_descriptor, first.workload, first.algorithm, first.threads, first.burst
    );
    let mut table = Columns::new(records, |record| record.engine.clone());
    let thousands = |rate: f64| format!("{:.2}", rate / 1e3);
    table.rates("packets, k/s", thousands);
    table.row("time a packet, ns", |r| format!("{:.0}", r.ns_per_packet));
    table.row("matches a packet", |r| format!("{:.3}", r.matches_per_packet));
    table.row("steps a packet", |r| format!("{:.1}", r.steps_per_packet));
    table.row("  cut off, %", |r| format!("{:.3}", r.cut_off * 100.0));
    table.row("  share of the machine's limit, %", |r| format!("{:.1}", r.of_limit * 100.0));
    table.row("machine's limit, random lines, k/s", |r| thousands(r.machine_lines_per_s));
    table.row("memory, query half, bytes a descriptor", |r| format!("{:.2}", r.bytes_per_descriptor));
    table.row("  as the engine counts it", |r| format!("{:.2}", r.bytes_per_descriptor_counted));
    table.row("  control half", |r| format!("{:.2}", r.control_bytes_per_descriptor));
    table.row("build, s", |r| format!("{:.2}", r.build_s));
    table.row("changes, k/s", |r| thousands(r.updates_per_s));
    table.known("  packets during changes, k/s", |r| r.packets_per_s_updating.map(thousands));
    table.known("  packets without changes, k/s", |r| r.packets_per_s_quiet.map(thousands));
    table.row("answers checked", |r| r.checked.to_string());
    table.row("  wrong", |r| r.wrong.to_string());
    print!("{table}");
}
