//! Results for a terminal: one column for each engine.

use super::engine;
use super::record::Record;
use crate::harness::Columns;
use crate::table::Table;

/// Prints the list of engines.
pub fn list() {
    let mut table = Table::new(&["engine", "description"]);
    for engine in engine::all() {
        table.row([engine.name.to_owned(), engine.about.to_owned()]);
    }
    print!("{table}");
}

/// Prints the results of engines on the same names. The first engine is the reference for the others.
pub fn print(records: &[Record]) {
    let Some(first) = records.first() else { return };
    println!(
        "{} names of {:.1} bytes, {} bits of action, {} threads, burst {}, {}",
        first.names, first.key_bytes, first.action_bits, first.threads, first.burst, first.hash
    );
    let mut table = Columns::new(records, |record| record.engine.clone());
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    table.rates("queries, M/s", millions);
    table.row("time a query, ns", |r| format!("{:.2}", r.ns_per_query));
    table.row("  hashing, ns", |r| format!("{:.2}", r.hash_ns));
    table.row("p99 of a burst, ns", |r| r.p99_ns_per_burst.to_string());
    table.known("cache lines a query", |r| r.cache_lines_per_query.map(|lines| format!("{lines:.3}")));
    table.known("  share of the machine's limit, %", |r| r.of_limit.map(percent));
    table.row("machine's limit, random lines, M/s", |r| millions(r.machine_lines_per_s));
    table.row("memory, query half, bits a name", |r| format!("{:.3}", r.bits_per_name));
    table.row("  as the engine counts it", |r| format!("{:.3}", r.bits_per_name_counted));
    table.row("  control half, bytes a name", |r| format!("{:.2}", r.control_bytes_per_name));
    table.row("  pages", |r| r.pages.to_owned());
    table.row("construction, s", |r| format!("{:.3}", r.construct_s));
    table.row("  ns a name", |r| format!("{:.1}", r.construct_ns_per_name));
    table.known("adds, M/s", |r| r.adds_per_s.map(millions));
    table.known("alters, M/s", |r| r.alters_per_s.map(millions));
    table.known("deletes, M/s", |r| r.deletes_per_s.map(millions));
    table.known("messages, bytes an add", |r| r.message_bytes_per_add.map(|bytes| format!("{bytes:.1}")));
    table.known("  entropy, bytes", |r| r.message_entropy_bits_per_add.map(|bits| format!("{:.1}", bits / 8.0)));
    table.known("  bytes an alter", |r| r.message_bytes_per_alter.map(|bytes| format!("{bytes:.1}")));
    table.known("  entropy, bytes", |r| r.message_entropy_bits_per_alter.map(|bits| format!("{:.1}", bits / 8.0)));
    table.known("changes beside a reader, M/s", |r| r.updates_per_s.map(millions));
    table.known("  queries during changes, M/s", |r| r.queries_per_s_updating.map(millions));
    table.known("  queries without changes, M/s", |r| r.queries_per_s_quiet.map(millions));
    table.row("answers checked", |r| r.checked.to_string());
    table.row("  wrong", |r| r.wrong.to_string());
    table.row("unknown names that get an action, %", |r| format!("{:.3}", 100.0 * r.unknown_answered));
    print!("{table}");
}
