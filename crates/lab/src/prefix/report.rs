//! Results for a terminal: one column for each engine.

use super::engines::ENGINES;
use super::record::Record;
use crate::harness::Columns;
use crate::table::Table;

/// Prints the list of engines.
pub fn list() {
    let mut table = Table::new(&["engine", "description", "specific options"]);
    for engine in ENGINES {
        table.row([engine.name.to_owned(), engine.about.to_owned(), engine.takes.join(", ")]);
    }
    print!("{table}");
}

/// Prints the results of engines on the same names. The first engine is the reference for the others.
pub fn print(records: &[Record]) {
    let Some(first) = records.first() else { return };
    println!(
        "{} rules ({}, up to {} components), names: {}, {} threads, burst {}, {}",
        first.rules,
        first.workload,
        first.components,
        first.names,
        first.threads,
        first.burst,
        word(&first.hash)
    );
    let mut table = Columns::new(records, |record| record.engine.clone());
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    table.rates("lookups, M/s", millions);
    table.row("time a lookup, ns", |r| format!("{:.1}", r.ns_per_lookup));
    table.row("  parsing and hashing, ns", |r| format!("{:.1}", r.hash_ns_per_lookup));
    table.row("p99 of a burst, ns", |r| r.p99_ns_per_burst.to_string());
    table.known("cache lines a lookup", |r| r.cache_lines_per_lookup.map(|lines| format!("{lines:.2}")));
    table.known("  share of the machine's limit, %", |r| r.of_limit.map(percent));
    table.row("machine's limit, random lines, M/s", |r| millions(r.machine_lines_per_s));
    table.row("memory, query half, bytes a rule", |r| format!("{:.2}", r.bytes_per_rule));
    table.row("  as the engine counts it", |r| format!("{:.2}", r.bytes_per_rule_counted));
    table.row("  both halves", |r| format!("{:.2}", r.bytes_per_rule_both));
    table.row("  pages", |r| r.pages.to_owned());
    table.row("build, s", |r| format!("{:.2}", r.build_s));
    table.known("updates, M/s", |r| r.updates_per_s.map(millions));
    table.known("  lookups during updates, M/s", |r| r.lookups_per_s_updating.map(millions));
    table.known("  lookups without updates, M/s", |r| r.lookups_per_s_quiet.map(millions));
    table.row("answers checked", |r| r.checked.to_string());
    table.row("  wrong", |r| r.wrong.to_string());
    print!("{table}");
}

/// The value's name on the command line.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}
