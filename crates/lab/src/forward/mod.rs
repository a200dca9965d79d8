//! Whole packets through the data plane, in memory [So §4.4].
//!
//! The measured time is all that a packet costs between two ports. It is copied from the port's memory into a buffer of
//! the pool, handled by a real worker (parsing, hashing of prefixes, PIT, content store, FIB, strategy), and dropped
//! where it would be sent. The wanted number of Interests is pending all the time, because the producer answers the
//! oldest one when there are more. By default no name repeats. Then the content store never answers, but every Data
//! enters it and replaces an old one.
//!
//! With several threads, each has its own consumers and its own producer, and the threads are connected as in the
//! router (`byname_forward::seat`). The rules lead to the producers of all threads. So the home of a name, the thread that
//! receives its Interest, and the owner of the producer's face are independent of each other. With the word `first-come`, a
//! name is at home where it is first asked for. The loop of a thread never sleeps. No thread is ahead of another by more
//! turns of packets than there are other threads (`lockstep`): more would not fit into the rings. Until then it waits, and
//! forwards what others give it. Only the forwarding is timed, since no thread of the router waits for another. A rate is
//! all packets by the timed work of the thread that worked longest.
//!
//! A data plane with the word `lent` does as the router does with UDP: a thread sends on the faces of all threads by
//! itself, and the answer to an Interest comes to the thread that has sent it. Consumers of other threads learn of their
//! Data in time that is not measured (`post`), since they are not in the router.
//!
//! A data plane with the word `one-thread` has one thread, and takes turns with those of several: memory may be faster or
//! slower from one minute to the next.
//!
//! With `--zipf`, the names' popularity follows Zipf's law. Consumers ask for the prepared names again and again, and
//! producers answer in their next turn. So content stores, the store of hot names and pending entries answer Interests,
//! too. An exchange is an Interest whose Data came to its consumer.
//!
//! Drawing names, writing packets to the port's memory and checking answers is not timed. The producer reads an
//! Interest where its name ends, and notes it. That is timed, with one thread and with several. If names repeat,
//! consumers do the same with Data.
//!
//! With `--fib-updates-per-s`, each repetition is followed by one beside a writer of routes on the next core
//! (`updates`).
//!
//! Interests and Data either alternate in each burst, or come in separate bursts, of which one kind is timed (`--mix`).
//! Separate bursts end when the packets of all threads have arrived. The worker's time advances with packets, not with
//! the clock: a pending Interest waits 0.4 s of its 4 s. Each rate is the median of several repetitions. If several
//! data planes are compared, their repetitions alternate. A data plane with the word `traced` or `counted` has somebody
//! who looks at it meanwhile: this gives the cost of traces, and that of counting popular prefixes. At the end all Interests are answered. The counters of consumers,
//! producers and workers must agree: each Interest has its Data once, unless a counted drop explains why not.

mod consumers;
mod lockstep;
mod measure;
mod options;
mod packets;
mod plane;
mod post;
mod record;
#[cfg(test)]
mod tests;
mod traffic;
mod updates;
mod variant;

pub use consumers::{Consumers, face};
pub use measure::{Fib, Run, key_of, measure};
pub use options::{Mix, Options};
pub use packets::{Frames, Packets};
pub use plane::Plane;
pub use record::Record;
pub use traffic::{LIFETIME_MS, OTHERS_FROM, TURN, Traffic, Turn, step};
pub use variant::Variant;

use crate::harness::{Columns, Measurement};
use crate::progress::Progress;

impl Measurement for Options {
    const NAME: &'static str = "forward";
    type Record = Record;

    fn json(&self) -> bool {
        self.measuring.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure(self, progress)
    }

    fn print(&self, records: &[Record]) {
        print(records);
    }
}

fn print(records: &[Record]) {
    let Some(first) = records.first() else { return };
    let threads = records.iter().map(|record| record.threads).max().unwrap_or_default();
    let alone = records.iter().find(|record| record.threads == 1 && threads > 1);
    println!(
        "{} rules ({}), {} pending Interests, {} cached Data; {threads} threads",
        first.fib, first.workload, first.pit, first.cs
    );
    println!("Interests of {:.0} bytes, Data of {:.0}", first.interest_bytes, first.data_bytes);
    let head = |record: &Record| {
        let shared_pit = record.shared_pit == Some(true);
        let lent = record.lent == Some(true);
        let first_come = record.first_come == Some(true);
        let one_thread = record.threads < threads;
        let Record { prefetch, burst, look, .. } = *record;
        let engine = record.engine.clone();
        Variant { engine, prefetch, burst, shared_pit, lent, first_come, one_thread, look }.to_string()
    };
    let mut table = Columns::new(records, head);
    let millions = |rate: f64| format!("{:.3}", rate / 1e6);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    table.rates("packets, M/s", millions);
    table.known("exchanges, M/s", |r| r.exchanges_per_s.map(millions));
    table.known("  times one thread", |r| alone.map(|alone| format!("{:.2}", r.packets_per_s / alone.packets_per_s)));
    table.row("time a packet, ns", |r| format!("{:.0}", r.ns_per_packet));
    table.row("  median turn", |r| format!("{:.0}", r.turn_ns_per_packet));
    table.row("  p99 turn", |r| format!("{:.0}", r.turn_ns_per_packet_p99));
    table.row("  receive", |r| format!("{:.0}", r.receive_ns_per_packet));
    table.row("  forward", |r| format!("{:.0}", r.forward_ns_per_packet));
    table.row("    dispatch", |r| format!("{:.0}", r.dispatch_ns_per_packet));
    table.row("    timers", |r| format!("{:.0}", r.timers_ns_per_packet));
    table.row("    parse and hash", |r| format!("{:.0}", r.parse_ns_per_packet));
    table.row("    PIT and content store", |r| format!("{:.0}", r.pit_cs_ns_per_packet));
    table.row("    FIB", |r| format!("{:.0}", r.fib_ns_per_packet));
    table.row("    strategy", |r| format!("{:.0}", r.strategy_ns_per_packet));
    table.row("  send or release", |r| format!("{:.0}", r.send_ns_per_packet));
    table.known("FIB cache lines an Interest", |r| r.fib_lines_per_interest.map(|lines| format!("{lines:.2}")));
    table.known("  share of the machine's limit, %", |r| r.of_limit.map(percent));
    table.row("machine's limit, random lines, M/s", |r| millions(r.machine_lines_per_s));
    table.known("packets during updates, M/s", |r| r.packets_per_s_beside_updates.map(millions));
    table.known("  share of the rate without, %", |r| r.rate_left_beside_updates.map(percent));
    table.known("updates, k/s", |r| r.updates_per_s.map(|rate| format!("{:.1}", rate / 1e3)));
    let us = |us: Option<f64>| us.map(|us| format!("{us:.0}"));
    table.known("  median latency, us", |r| us(r.update_us));
    table.known("  p99 latency, us", |r| us(r.update_us_p99));
    table.known("  longest latency, us", |r| us(r.update_us_max));
    table.row("received at home, %", |r| percent(r.home_share));
    table.row("answered from a content store, %", |r| percent(r.cs_hits));
    table.row("answered from the hot names, %", |r| percent(r.spread));
    table.row("joined to shared PIT entries, %", |r| percent(r.joined));
    table.known("names below the traced prefix, %", |r| r.traced_share.map(percent));
    table.row("packets checked", |r| r.checked.to_string());
    table.row("  dropped", |r| r.drops.to_string());
    table.row("  Interests without Data", |r| r.lost.to_string());
    table.row("  to a wrong face", |r| r.wrong.to_string());
    print!("{table}");
}
