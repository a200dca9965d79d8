//! What strangers can make the data plane do, beside what it does for everybody [So §2.1, §2.3].
//!
//! An attacker's face sends what is made to cost much ([`Attack`]) to the worker, and among the
//! packets, of `byname-lab forward`. Three kinds of turns are timed in turn, each through a worker of its
//! own, so that what else the machine does hits all of them: ordinary packets that nobody disturbs; the
//! attack alone; and ordinary packets with one of the attack among so many. The first and the second give
//! an attack's cost, the first and the third what is left of the others' rate.
//!
//! Each worker's PIT has room for what is pending in ordinary traffic and for as much of the attacker's.
//! Where there is one, that is taken before anything is timed: from then on each Interest of the attacker
//! drives out an older one of his. Afterwards every ordinary Interest must have been answered.

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

use crate::experiments::{Table, table::word};
use crate::progress::Progress;
use crate::record::Recorder;

/// Runs the subcommand.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let progress = if options.json { Progress::HIDDEN } else { Progress::SHOWN };
    let mut recorder = Recorder::new("hostile", options.json)?;
    let records = measure(options, progress)?;
    records.iter().try_for_each(|record| recorder.add(record))?;
    if !options.json {
        print!("{}", table(&records));
    }
    Ok(())
}

/// What records say, for a terminal.
pub fn table(records: &[Record]) -> Table {
    let mut table = Table::new(&[
        "attack",
        "ns a packet",
        "an ordinary one",
        "times",
        "others' rate, %",
        "their losses",
        "longest chain",
        "without attack",
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
