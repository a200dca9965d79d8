//! Whole packets through the data plane, in memory [So §4.4].
//!
//! What is timed is all that a packet costs between two ports: it is copied out of the port's memory
//! into a buffer of the pool, handled by a real worker (parsed, its prefixes hashed, PIT, content
//! store, FIB, strategy), and dropped where it would be sent. As many Interests as are asked for are
//! pending all the while: each Data answers the oldest. No name comes twice, so that nothing is
//! answered from the content store, which all Data enters and old Data leaves.
//!
//! With `--fib-updates-per-s`, each repetition is followed by one beside a writer of routes on the next
//! core (`updates`).
//!
//! Interests and Data come in turn in each burst, or in bursts of their own, of which one kind is
//! timed (`--mix`). The worker's time runs by packets, not by the clock: a pending Interest waits 0.4
//! of its 4 seconds. Each rate is the median of several repetitions; where several data planes are
//! compared, their repetitions alternate. Afterwards the worker's own counts must tell that each
//! packet went where it should and none was dropped.

mod measure;
mod options;
mod packets;
mod record;
#[cfg(test)]
mod tests;
mod traffic;
mod updates;
mod variant;

pub use measure::{Run, key_of, measure};
pub use options::{Mix, Options};
pub use packets::{Frames, Packets};
pub use record::Record;
pub use traffic::{LIFETIME_MS, TURN, Traffic, step};
pub use variant::Variant;

use crate::experiments::Table;
use crate::record::Recorder;

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = options.measuring.progress();
    let mut recorder = Recorder::new("forward", options.measuring.json)?;
    let records = measure(options, progress)?;
    for record in &records {
        recorder.add(record)?;
    }
    if !options.measuring.json {
        print(options, &records);
    }
    Ok(())
}

fn print(options: &Options, records: &[Record]) {
    let Some(first) = records.first() else { return };
    println!(
        "{} rules ({}), {} pending Interests, {} cached Data; {} threads",
        first.fib, first.workload, first.pit, first.cs, first.threads
    );
    println!("Interests of {:.0} octets, Data of {:.0}", first.interest_bytes, first.data_bytes);
    let variants = options.compare.iter().map(ToString::to_string);
    let heads: Vec<_> = std::iter::once(String::new()).chain(variants).collect();
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    let mut row = |head: &str, cell: &dyn Fn(&Record) -> String| {
        table.add(std::iter::once(head.to_owned()).chain(records.iter().map(cell)).collect());
    };
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    row("packets, M/s", &|r| millions(r.packets_per_s));
    row("  slowest repetition", &|r| millions(r.packets_per_s_min));
    row("  fastest repetition", &|r| millions(r.packets_per_s_max));
    row("  times the first", &|r| format!("{:.2}", r.packets_per_s / first.packets_per_s));
    row("time a packet, ns", &|r| format!("{:.0}", r.ns_per_packet));
    row("  of the median turn", &|r| format!("{:.0}", r.turn_ns_per_packet));
    row("  that 1 turn of 100 exceeds", &|r| format!("{:.0}", r.turn_ns_per_packet_p99));
    row("  to receive it", &|r| format!("{:.0}", r.receive_ns_per_packet));
    row("  to forward it", &|r| format!("{:.0}", r.forward_ns_per_packet));
    row("    timers", &|r| format!("{:.0}", r.timers_ns_per_packet));
    row("    parse it, and hash its name", &|r| format!("{:.0}", r.parse_ns_per_packet));
    row("    PIT and content store", &|r| format!("{:.0}", r.pit_cs_ns_per_packet));
    row("    FIB", &|r| format!("{:.0}", r.fib_ns_per_packet));
    row("    strategy", &|r| format!("{:.0}", r.strategy_ns_per_packet));
    row("  to give its buffer back", &|r| format!("{:.0}", r.send_ns_per_packet));
    row("cache lines of the FIB, an Interest", &|r| {
        r.fib_lines_per_interest.map_or("-".to_owned(), |lines| format!("{lines:.2}"))
    });
    row("  of what the machine can read, %", &|r| r.of_limit.map_or("-".to_owned(), percent));
    row("machine, random lines, M/s", &|r| millions(r.machine_lines_per_s));
    row("packets beside updates, M/s", &|r| r.packets_per_s_beside_updates.map_or("-".to_owned(), millions));
    row("  of those without, %", &|r| r.rate_left_beside_updates.map_or("-".to_owned(), percent));
    row("updates, k/s", &|r| r.updates_per_s.map_or("-".to_owned(), |rate| format!("{:.1}", rate / 1e3)));
    let us = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.0}"));
    row("  time to be seen, us", &|r| us(r.update_us));
    row("  that 1 of 100 exceeds", &|r| us(r.update_us_p99));
    row("  the longest", &|r| us(r.update_us_max));
    row("packets checked", &|r| r.checked.to_string());
    row("  dropped", &|r| r.drops.to_string());
    row("  astray", &|r| r.wrong.to_string());
    print!("{table}");
}
