//! The tables of byname-lookup beside the crates that one would take in their place, on the same keys.
//!
//! Each table is built and measured in a process of its own, so that no other has left memory behind. Memory is the
//! growth of what the kernel counts as resident, with all that building leaves behind; keys and questions are in memory
//! before. A question is asked about a random key of the table, so each has an answer; they are text,
//! as programs have it, and hashing is part of a lookup. One thread asks and changes, and then as many as `--threads` says
//! ask together, with nobody changing. Maps are measured without the lock that a writer beside readers would need. There are
//! 50,000 different values.
//!
//! | table | keys | a question |
//! | --- | --- | --- |
//! | `prefix` | domains as paths (`/com/example/www`) | a key and one more component: the deepest key above it |
//! | `ip` | the IPv4 prefixes of a routing table | an address: the longest prefix |
//! | `flat` | domains | a key: its value of 16 bits |
//! | `tags` | Unicode's annotations | the tags of a set and three of another one: the number of sets within |
//!
//! More keys than the list has are made of it: each key again with a number.

mod flat;
mod ip;
mod keys;
mod map;
mod measure;
mod options;
mod prefix;
mod record;
mod tags;
#[cfg(test)]
mod tests;

pub use options::Options;

use keys::{Prepared, Table};
use record::Record;

use crate::harness::Measurement;
use crate::progress::Progress;
use crate::table::{self, count, millions, optional};

impl Measurement for Options {
    const NAME: &'static str = "libraries";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        measure::in_processes(self, progress)
    }

    fn print(&self, records: &[Record]) {
        let heads = [
            "table",
            "keys",
            "in",
            "bytes a key",
            "build, s",
            "lookups, M/s",
            "in bursts",
            "on threads",
            "in bursts",
            "changes, M/s",
        ];
        let mut table = table::Table::new(&[&heads[..], &["wrong"]].concat());
        for record in records {
            table.row([
                record.table.clone(),
                count(record.keys),
                record.library.clone(),
                format!("{:.1}", record.bytes_per_key),
                format!("{:.3}", record.build_s),
                millions(record.lookups_per_s),
                record.burst_lookups_per_s.map_or_else(String::new, millions),
                millions(record.threads_lookups_per_s),
                record.threads_burst_lookups_per_s.map_or_else(String::new, millions),
                optional(record.updates_per_s.map(|rate| rate / 1e6), 3),
                record.wrong.to_string(),
            ]);
        }
        print!("{table}");
    }
}

/// Runs the subcommand. With `--prepared`, measures one table in this process and prints its record alone.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Some(folder) = &options.prepared else { return crate::harness::run(options) };
    let ([table], [library]) = (&options.tables[..], &options.only[..]) else {
        anyhow::bail!("--prepared is for one table of one library");
    };
    let prepared = Prepared::read(folder)?;
    println!("{}", serde_json::to_string(&measure::here(options, *table, &prepared, library)?)?);
    Ok(())
}

/// What a library answers. For tags, the number of sets.
type Answer = Option<u32>;

/// A library's table, filled.
trait Subject<Q> {
    /// What a thread asks. Each has its own.
    fn asker(&self) -> Box<dyn Asker<Q> + '_>;

    /// Removes the keys with these numbers, or adds them again. Returns whether the library can.
    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        let _ = (keys, remove);
        Ok(false)
    }
}

/// A thread's access to a table.
trait Asker<Q>: Send {
    /// Asks the questions one by one. `answers` is empty, and gets one for each.
    fn ask(&mut self, questions: &[Q], answers: &mut Vec<Answer>);

    /// Asks them together, if the library can. Returns whether it can.
    fn ask_together(&mut self, questions: &[Q], answers: &mut Vec<Answer>) -> bool {
        let _ = (questions, answers);
        false
    }
}

/// The value of a key.
fn value(key: usize) -> u32 {
    key as u32 % 50_000
}

/// The libraries that are compared for a table.
fn libraries(table: Table) -> &'static [&'static str] {
    match table {
        Table::Prefix => &prefix::LIBRARIES,
        Table::Ip => &ip::LIBRARIES,
        Table::Flat => &flat::LIBRARIES,
        Table::Tags => &tags::LIBRARIES,
    }
}
