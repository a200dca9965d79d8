//! Hostile packets: the work that they cause in the data plane, compared with ordinary packets [So §2.1, §2.3].
//!
//! An attacker's face sends hostile packets ([`Attack`]) to the worker of `byname-lab forward`, beside its ordinary
//! packets. Three kinds of turns alternate, so that other load on the machine affects all of them. Each kind has a
//! worker of its own: ordinary packets without an attack, the attack alone, and ordinary packets with a share of attack
//! packets. The first and the second kind give the cost of an attack packet. The first and the third give the share of
//! the ordinary rate that is left.
//!
//! Each worker's PIT has room for the pending Interests of ordinary traffic and for equally many of the attacker. The
//! attacker's room is filled before anything is timed. From then on each of the attacker's Interests evicts an older
//! one of the same face. At the end every ordinary Interest must have been answered.
//!
//! With several threads, connected as in the router, each has its own ordinary traffic and its own attacker. Half of what
//! an attacker sends to one of two threads crosses to the other. Times are those of one thread.

mod attack;
mod measure;
mod options;
mod record;
#[cfg(test)]
mod tests;

pub use attack::Attack;
pub use measure::measure;
pub use options::Options;
pub use record::Record;

use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::{Table, word};

impl Measurement for Options {
    const NAME: &'static str = "hostile";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure(self, progress)
    }

    fn print(&self, records: &[Record]) {
        print!("{}", table(records));
    }
}

/// Formats records as a table for a terminal.
pub fn table(records: &[Record]) -> Table {
    let mut table = Table::new(&[
        "attack",
        "ns an attack packet",
        "ns an ordinary packet",
        "ratio",
        "ordinary rate left, %",
        "ordinary losses",
        "longest chain",
        "chain without attack",
    ]);
    for r in records {
        table.row([
            word(r.attack),
            format!("{:.0}", r.attack_ns_per_packet),
            format!("{:.0}", r.ns_per_packet),
            format!("{:.2}", r.times),
            format!("{:.1}", r.rate_left * 100.0),
            r.lost.to_string(),
            r.attacked_longest_chain.to_string(),
            r.longest_chain.to_string(),
        ]);
    }
    table
}
