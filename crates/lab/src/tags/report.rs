//! Results for people: a column for each engine.

use super::asking::Traffic;
use super::engine;
use super::record::Record;
use crate::experiments::Table;

/// Shows the engines.
pub fn list() {
    let mut table = Table::new(&["engine", "what"]);
    for engine in engine::ALL {
        table.row([engine.name.to_owned(), engine.about.to_owned()]);
    }
    print!("{table}");
}

/// Prints what engines did with the same packets; the first is what the others are compared with.
pub fn print(records: &[Record]) {
    let Some(first) = records.first() else { return };
    let more = match first.traffic {
        Traffic::Drawn => format!("{} to {} tags more", first.extra_tags.0, first.extra_tags.1),
        traffic => format!("{traffic:?} packets"),
    };
    println!(
        "{} descriptors of {:.1} tags, {:?}, {:?} subsets, {more}, {} threads, burst {}",
        first.descriptors, first.tags_per_descriptor, first.workload, first.algorithm, first.threads, first.burst
    );
    let heads: Vec<_> = std::iter::once("").chain(records.iter().map(|record| record.engine.as_str())).collect();
    let mut table = Table::new(&heads);
    let mut row = |head: &str, cell: &dyn Fn(&Record) -> String| {
        table.add(std::iter::once(head.to_owned()).chain(records.iter().map(cell)).collect());
    };
    let thousands = |rate: f64| format!("{:.2}", rate / 1e3);
    row("packets, k/s", &|r| thousands(r.packets_per_s));
    row("  slowest repetition", &|r| thousands(r.packets_per_s_min));
    row("  fastest repetition", &|r| thousands(r.packets_per_s_max));
    if records.len() > 1 {
        row(&format!("  times {}", first.engine), &|r| format!("{:.2}", r.packets_per_s / first.packets_per_s));
    }
    row("time a packet, ns", &|r| format!("{:.0}", r.ns_per_packet));
    row("matches a packet", &|r| format!("{:.3}", r.matches_per_packet));
    row("steps a packet", &|r| format!("{:.1}", r.steps_per_packet));
    row("  cut off, %", &|r| format!("{:.3}", r.cut_off * 100.0));
    row("  of random lines the machine can read, %", &|r| format!("{:.1}", r.of_limit * 100.0));
    row("machine, random lines, k/s", &|r| thousands(r.machine_lines_per_s));
    row("memory, query half, bytes a descriptor", &|r| format!("{:.2}", r.bytes_per_descriptor));
    row("  as the engine counts", &|r| format!("{:.2}", r.bytes_per_descriptor_counted));
    row("  control half", &|r| format!("{:.2}", r.control_bytes_per_descriptor));
    row("build, s", &|r| format!("{:.2}", r.build_s));
    row("changes, k/s", &|r| thousands(r.updates_per_s));
    if first.packets_per_s_updating.is_some() {
        let rate = |rate: Option<f64>| rate.map(thousands).unwrap_or_default();
        row("  packets beside them, k/s", &|r| rate(r.packets_per_s_updating));
        row("  the same reader alone, k/s", &|r| rate(r.packets_per_s_quiet));
    }
    row("answers checked", &|r| r.checked.to_string());
    row("  wrong", &|r| r.wrong.to_string());
    print!("{table}");
}
