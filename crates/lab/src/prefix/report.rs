//! Results for people: a column for each engine.

use super::engines::ENGINES;
use super::record::Record;
use crate::experiments::Table;

/// Shows the engines.
pub fn list() {
    let mut table = Table::new(&["engine", "what", "options of its own"]);
    for engine in ENGINES {
        table.row([engine.name.to_owned(), engine.about.to_owned(), engine.takes.join(", ")]);
    }
    print!("{table}");
}

/// Prints what engines did with the same names; the first is what the others are compared with.
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
    let heads: Vec<_> = std::iter::once("").chain(records.iter().map(|record| record.engine.as_str())).collect();
    let mut table = Table::new(&heads);
    let mut row = |head: &str, cell: &dyn Fn(&Record) -> Option<String>| {
        let cells: Vec<_> = records.iter().map(cell).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
            table.add(std::iter::once(head.to_owned()).chain(cells).collect());
        }
    };
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    row("lookups, M/s", &|r| Some(millions(r.lookups_per_s)));
    row("  slowest repetition", &|r| Some(millions(r.lookups_per_s_min)));
    row("  fastest repetition", &|r| Some(millions(r.lookups_per_s_max)));
    if records.len() > 1 {
        row(&format!("  times {}", first.engine), &|r| Some(format!("{:.2}", r.lookups_per_s / first.lookups_per_s)));
    }
    row("time a lookup, ns", &|r| Some(format!("{:.1}", r.ns_per_lookup)));
    row("  parsing and hashing of it, ns", &|r| Some(format!("{:.1}", r.hash_ns_per_lookup)));
    row("1 burst of 100 takes longer than, ns", &|r| Some(r.p99_ns_per_burst.to_string()));
    row("cache lines a lookup", &|r| r.cache_lines_per_lookup.map(|lines| format!("{lines:.2}")));
    row("  of what the machine can read, %", &|r| r.of_limit.map(percent));
    row("machine, random lines, M/s", &|r| Some(millions(r.machine_lines_per_s)));
    row("memory, query half, bytes a rule", &|r| Some(format!("{:.2}", r.bytes_per_rule)));
    row("  as the engine counts", &|r| Some(format!("{:.2}", r.bytes_per_rule_counted)));
    row("  both halves", &|r| Some(format!("{:.2}", r.bytes_per_rule_both)));
    row("  pages", &|r| Some(r.pages.to_owned()));
    row("build, s", &|r| Some(format!("{:.2}", r.build_s)));
    row("updates, M/s", &|r| r.updates_per_s.map(millions));
    row("  lookups beside them, M/s", &|r| r.lookups_per_s_updating.map(millions));
    row("  the same reader alone, M/s", &|r| r.lookups_per_s_quiet.map(millions));
    row("answers checked", &|r| Some(r.checked.to_string()));
    row("  wrong", &|r| Some(r.wrong.to_string()));
    print!("{table}");
}

/// As on the command line.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}
