//! Costs of a router's packet threads: routers with different numbers of threads, measured in turn.
//!
//! One process of the router runs for each number of threads. Each has its own sockets, and sleeps while the others are
//! measured. The generator of `byname-lab wire` has a core to itself; the routers may use all cores. So a second thread
//! has no core that is free, and what it costs is seen as processor time.
//!
//! Two kinds of turns alternate. In the first, a window of Interests is outstanding: they give the processor time of an
//! exchange. In the second, Interests leave at a low rate: they give the latency, and the processor time of a router
//! that mostly sleeps. Ratios are formed within one round of turns, so that other load on the machine affects both
//! routers; the median of all rounds is reported.

mod measure;
mod options;
mod record;
mod router;
#[cfg(test)]
mod tests;

pub use options::Options;
use record::Record;

use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::{Table, word};

impl Measurement for Options {
    const NAME: &'static str = "threads";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure::measure(self, progress)
    }

    fn print(&self, records: &[Record]) {
        let mut table = Table::new(&[
            "port",
            "threads",
            "window",
            "exchanges/s",
            "CPU us an exchange",
            "times",
            "p50 us",
            "times",
            "p99 us",
            "times",
            "CPU %",
            "lost",
        ]);
        for r in records {
            table.row([
                word(r.port),
                r.threads.to_string(),
                r.window.to_string(),
                format!("{:.0}", r.exchanges_per_s),
                format!("{:.3}", r.cpu_us_per_exchange),
                format!("{:.2}", r.cpu_times),
                format!("{:.1}", r.p50_us),
                format!("{:.2}", r.p50_times),
                format!("{:.1}", r.p99_us),
                format!("{:.2}", r.p99_times),
                format!("{:.1}", r.low_rate_cpu_share * 100.0),
                r.lost.to_string(),
            ]);
        }
        print!("{table}");
        println!("\"times\" compares with the first number of threads; latencies are at {} Interests/s", self.rate);
    }
}
