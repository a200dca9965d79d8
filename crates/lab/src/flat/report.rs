//! Results for people: a column for each engine.

use super::engine;
use super::record::Record;
use crate::experiments::Table;

/// Shows the engines.
pub fn list() {
    let mut table = Table::new(&["engine", "what"]);
    for engine in engine::all() {
        table.row([engine.name.to_owned(), engine.about.to_owned()]);
    }
    print!("{table}");
}

/// Prints what engines did with the same names; the first is what the others are compared with.
pub fn print(records: &[Record]) {
    let Some(first) = records.first() else { return };
    println!(
        "{} names of {:.1} octets, {} bits of action, {} threads, burst {}, {}",
        first.names, first.key_bytes, first.action_bits, first.threads, first.burst, first.hash
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
    row("queries, M/s", &|r| Some(millions(r.queries_per_s)));
    row("  slowest repetition", &|r| Some(millions(r.queries_per_s_min)));
    row("  fastest repetition", &|r| Some(millions(r.queries_per_s_max)));
    if records.len() > 1 {
        row(&format!("  times {}", first.engine), &|r| Some(format!("{:.2}", r.queries_per_s / first.queries_per_s)));
    }
    row("time a query, ns", &|r| Some(format!("{:.2}", r.ns_per_query)));
    row("  hashing of it, ns", &|r| Some(format!("{:.2}", r.hash_ns)));
    row("1 burst of 100 takes longer than, ns", &|r| Some(r.p99_ns_per_burst.to_string()));
    row("cache lines a query", &|r| r.cache_lines_per_query.map(|lines| format!("{lines:.3}")));
    row("  of what the machine can read, %", &|r| r.of_limit.map(percent));
    row("machine, random lines, M/s", &|r| Some(millions(r.machine_lines_per_s)));
    row("memory, query half, bits a name", &|r| Some(format!("{:.3}", r.bits_per_name)));
    row("  as the engine counts", &|r| Some(format!("{:.3}", r.bits_per_name_counted)));
    row("  control half, bytes a name", &|r| Some(format!("{:.2}", r.control_bytes_per_name)));
    row("  pages", &|r| Some(r.pages.to_owned()));
    row("construction, s", &|r| Some(format!("{:.3}", r.construct_s)));
    row("  ns a name", &|r| Some(format!("{:.1}", r.construct_ns_per_name)));
    row("adds, M/s", &|r| r.adds_per_s.map(millions));
    row("alters, M/s", &|r| r.alters_per_s.map(millions));
    row("deletes, M/s", &|r| r.deletes_per_s.map(millions));
    row("messages, octets an add", &|r| r.message_bytes_per_add.map(|octets| format!("{octets:.1}")));
    row("  what it tells", &|r| r.message_entropy_bits_per_add.map(|bits| format!("{:.1}", bits / 8.0)));
    row("  octets an alter", &|r| r.message_bytes_per_alter.map(|octets| format!("{octets:.1}")));
    row("  what it tells", &|r| r.message_entropy_bits_per_alter.map(|bits| format!("{:.1}", bits / 8.0)));
    row("changes beside a reader, M/s", &|r| r.updates_per_s.map(millions));
    row("  queries beside them, M/s", &|r| r.queries_per_s_updating.map(millions));
    row("  the same reader alone, M/s", &|r| r.queries_per_s_quiet.map(millions));
    row("answers checked", &|r| Some(r.checked.to_string()));
    row("  wrong", &|r| Some(r.wrong.to_string()));
    row("unknown names that get an action, %", &|r| Some(format!("{:.3}", 100.0 * r.unknown_answered)));
    print!("{table}");
}
