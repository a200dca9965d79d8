//! `[threads]`: the threads that forward.

use std::thread::available_parallelism;
use std::time::Duration;

use byname_face::Workers;
use byname_face::nodes::{Placement, on_node};
use byname_forward::Worker;
use byname_forward::dispatch::{Dispatcher, WORKERS_MAX, part_of};
use byname_forward::hot::WINDOW;
use byname_forward::worker::{NoMemory, Table, WorkerConfig};
use byname_lookup::memory::Refused;
use byname_wire::NameHashKey;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Config, value};

/// `[threads]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Threads {
    /// Number of packet threads.
    #[serde(deserialize_with = "thread_count")]
    pub count: usize,
    /// Number of leading name components that select the home of a name. 0: all.
    pub dispatch_components: usize,
    /// Whether a name is at home on the thread that is first asked for it, and not where a hash of it says.
    pub first_come: bool,
    /// Whether any thread may answer Interests for hot names.
    pub heavy_hitters: bool,
    /// Whether threads also share PIT entries of hot names.
    pub shared_pit: bool,
    /// Capacity of the rings between two threads, in packets.
    #[serde(deserialize_with = "value::at_least_1")]
    pub ring_packets: usize,
    /// Whether to pin each thread to a core of its own, if there are several threads and enough cores.
    pub pin: bool,
    /// Whether threads that have little to do let the first thread do it.
    pub rest: bool,
    /// Time over which the loads of threads are measured before a face moves from a busy thread to an idle one. Zero:
    /// faces do not move by themselves.
    #[serde(deserialize_with = "period")]
    pub balance: Duration,
}

impl Default for Threads {
    fn default() -> Self {
        Threads {
            count: 1,
            dispatch_components: 2,
            first_come: false,
            heavy_hitters: true,
            shared_pit: false,
            ring_packets: 4096,
            pin: true,
            rest: true,
            balance: Duration::from_secs(10),
        }
    }
}

/// A number of threads, as a file has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(i64),
    Word(String),
}

/// Deserializes a number of threads, or `"auto"` for as many as there are processors.
///
/// # Errors
/// If it is neither, or out of range.
pub fn thread_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let wrong =
        || D::Error::custom(format!("a number of threads is 1 to {WORKERS_MAX}, or \"auto\" for all processors"));
    match Count::deserialize(deserializer).map_err(|_| wrong())? {
        Count::Number(count) => {
            usize::try_from(count).ok().filter(|count| (1..=WORKERS_MAX).contains(count)).ok_or_else(wrong)
        }
        Count::Word(word) if word == "auto" => Ok(available_parallelism().map_or(1, |n| n.get().min(WORKERS_MAX))),
        Count::Word(_) => Err(wrong()),
    }
}

/// Shortest period of measurements.
const PERIOD_MIN: Duration = Duration::from_secs(1);

fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    match value::duration(deserializer)? {
        short if !short.is_zero() && short < PERIOD_MIN => Err(D::Error::custom(
            "a load measured for so short a time says little; write at least \"1 s\", or \"0 s\" for no moves",
        )),
        period => Ok(period),
    }
}

/// `[workers]` as it was before version 0.3.
#[derive(Deserialize)]
struct Workers02 {
    #[serde(default)]
    count: usize,
}

/// Refuses the table `[workers]`, and says what to write instead.
pub(super) fn refuse_workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    let threads = Workers02::deserialize(deserializer).map_or(0, |old| old.count) + 1;
    Err(D::Error::custom(format!(
        "[workers] is now [threads], whose threads all receive, forward and send. Write `[threads]` and, for as many \
         threads as before, `count = {threads}`; the other settings have their old names"
    )))
}

impl Config {
    /// Configuration of the worker of thread `number`, with its share of the table sizes.
    pub fn worker(&self, number: usize) -> WorkerConfig {
        let part = |all: usize| part_of(all, number, self.threads.count);
        WorkerConfig {
            pit_entries_max: part(self.tables.pit_entries).max(1),
            dead_nonces_max: part(self.tables.dead_nonces).max(1),
            cs_packets_max: part(self.tables.cs_packets),
            cs_bytes_max: part(self.tables.cs_bytes),
            cs_policy: self.tables.cs_policy,
            accept_unasked_data: self.tables.accept_unasked_data,
            producer_regions: self.network.producer_regions.clone(),
        }
    }

    /// Maximum of entries in the PITs and content stores of all workers together.
    pub(super) fn entries_max(&self) -> usize {
        (0..self.threads.count).fold(0, |sum: usize, number| sum.saturating_add(self.worker(number).entries_max()))
    }

    /// The processors of the packet threads, and their memory nodes.
    pub fn placement(&self) -> Placement {
        Placement::on_this_machine(self.threads.count, self.threads.pin)
    }

    /// Creates the workers of all threads with `make`, each with its memory on its thread's node. Each reads the FIB's
    /// replica of that node. Names are hashed with `key`. `mark` distinguishes their PIT tokens from those of other
    /// nodes.
    ///
    /// # Errors
    /// The first error of `make`, or if the system refuses memory for the names that threads have.
    pub fn workers<E: From<NoMemory> + Send>(
        &self,
        key: NameHashKey,
        mark: u32,
        placement: &Placement,
        make: impl Fn(usize) -> Result<Worker, E> + Sync,
    ) -> Result<Workers, E> {
        let Threads {
            count,
            dispatch_components,
            first_come,
            heavy_hitters,
            shared_pit,
            ring_packets,
            pin,
            rest: _,
            balance: _,
        } = self.threads;
        let mut dispatcher = Dispatcher::new(key, count, dispatch_components, mark);
        if first_come {
            let no_memory = |Refused { bytes }| NoMemory { table: Table::PitCs, bytes };
            dispatcher.claim_names(self.entries_max()).map_err(no_memory)?;
        }
        if heavy_hitters {
            dispatcher.spread_hot_names(WINDOW);
        }
        if shared_pit {
            dispatcher.share_pit_of_hot_names();
        }
        Workers::make(dispatcher, ring_packets, pin, |number| {
            let mut worker = on_node(placement.memory_node(number), || make(number))?;
            worker.use_replica(placement.replica(number));
            Ok(worker)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("byname.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn threads_share_what_one_would_have() {
        let config = parse("[threads]\ncount = 3\n[tables]\ncs_packets = 100\npit_entries = 2").expect("good");
        let parts = [0, 1, 2].map(|number| config.worker(number));
        assert_eq!(parts.each_ref().map(|part| part.cs_packets_max), [34, 33, 33]);
        assert_eq!(parts.each_ref().map(|part| part.pit_entries_max), [1, 1, 1], "each must have room for one");
        assert_eq!(Config::default().worker(0).cs_packets_max, Config::default().tables.cs_packets);
    }

    #[test]
    fn pit_entries_are_shared_only_for_hot_names() {
        let finding = |text: &str| {
            let findings = parse(text).expect("well-formed").contradictions();
            findings.into_iter().find(|finding| finding.key == "threads.shared_pit").map(|finding| finding.text)
        };
        assert_eq!(finding("[threads]\ncount = 2\nshared_pit = true"), None);
        assert_eq!(finding("[threads]\nheavy_hitters = false"), None);
        let text = finding("[threads]\nheavy_hitters = false\nshared_pit = true").expect("it has no effect");
        assert!(text.contains("heavy_hitters = true"), "{text}");
    }

    #[test]
    fn a_count_is_a_number_of_threads_or_auto() {
        let auto = parse("[threads]\ncount = \"auto\"").expect("good").threads.count;
        assert_eq!(auto, available_parallelism().expect("known").get().min(WORKERS_MAX));
        for bad in ["0", "65", "-1", "\"all\"", "1.5"] {
            let error = parse(&format!("[threads]\ncount = {bad}")).expect_err("no such count");
            assert!(error.contains("2:9: a number of threads is 1 to 64, or \"auto\""), "{error}");
        }
    }

    #[test]
    fn faces_move_by_loads_of_a_second_or_more_or_not_at_all() {
        let balance = |text: &str| parse(&format!("[threads]\nbalance = \"{text}\"")).map(|good| good.threads.balance);
        assert_eq!(parse("").expect("good").threads.balance, Duration::from_secs(10));
        assert_eq!(balance("0 s"), Ok(Duration::ZERO));
        assert_eq!(balance("2 min"), Ok(Duration::from_secs(120)));
        let error = balance("999 ms").expect_err("too short");
        assert!(error.contains("2:11: a load measured for so short a time"), "{error}");
    }

    #[test]
    fn the_table_of_earlier_versions_is_refused_with_what_to_write() {
        for (old, new) in [("", "`count = 1`"), ("count = 0\npin = false", "`count = 1`"), ("count = 3", "`count = 4`")]
        {
            let error = parse(&format!("[workers]\n{old}")).expect_err("refused");
            assert!(error.contains("1:1: [workers] is now [threads]") && error.contains(new), "{error}");
        }
    }
}
