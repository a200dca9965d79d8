//! The tables of packet threads, and the FIB, when their settings change.
//!
//! The new tables are made here, beside those in use. The packet threads take them over in their own time, and move all
//! entries there. What they leave is freed here, because that takes time.

use std::time::{Duration, Instant};

use anyhow::Context;
use byname_control::config::Config;
use byname_control::fib_writer::Place;
use byname_face::ForwarderHandle;
use byname_face::nodes::on_node;
use byname_forward::worker::{NONCES_KEPT_FOR, NewTables, Progress, WorkerConfig};
use byname_wire::NameHashKey;

use super::super::{build_fib, no_room_for_table};
use super::Router;

/// Interval of looking whether packet threads use their new tables.
const WAIT: Duration = Duration::from_millis(1);
/// Interval of looking whether all entries have moved.
const LOOK: Duration = Duration::from_millis(50);
/// More than the time between the moment when entries have moved and the look that finds it.
const SPARE: Duration = Duration::from_secs(1);

/// Tables that packet threads are leaving.
#[derive(Default)]
pub struct Leaving {
    next_look: Option<Instant>,
    /// Whether earlier nonces may be forgotten at the next look.
    forgets_nonces: bool,
}

impl Leaving {
    /// Tables have been exchanged.
    fn begin(&mut self) {
        *self = Leaving { next_look: Some(Instant::now() + LOOK), forgets_nonces: false };
    }

    /// When to look again.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Frees what packet threads have left, if it is time to look.
    pub fn look(&mut self, handle: &ForwarderHandle) {
        if self.next_look.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let (progress, old) = handle.take_old_tables(self.forgets_nonces);
        drop(old);
        (self.next_look, self.forgets_nonces) = match progress {
            Progress::Waiting | Progress::Moving => (Some(Instant::now() + LOOK), false),
            Progress::Remembering => (Some(Instant::now() + NONCES_KEPT_FOR + SPARE), true),
            Progress::Done => (None, false),
        };
    }
}

impl Router {
    /// The sizes of all workers' tables after a change from one configuration to another. If `cs_packets` does not change,
    /// management may have set another value, which stays.
    pub(super) fn worker_configs(&self, old: &Config, new: &Config) -> Vec<WorkerConfig> {
        let contents = self.handle.table_contents().into_iter().enumerate();
        let config = |(number, (cs, _)): (usize, (byname_forward::worker::CsInfo, u64))| {
            let mut config = new.worker(number);
            if old.tables.cs_packets == new.tables.cs_packets {
                config.cs_packets_max = usize::try_from(cs.packets_max).unwrap_or(usize::MAX);
            }
            config
        };
        contents.map(config).collect()
    }

    /// Changes the FIB and the tables of packet threads from one configuration to another.
    ///
    /// # Errors
    /// The system refuses memory, or the new FIB refuses a rule. Nothing has changed.
    pub(super) fn change_tables(
        &mut self,
        (old, before): (&Config, &[WorkerConfig]),
        (new, after): (&Config, &[WorkerConfig]),
    ) -> anyhow::Result<()> {
        let of_fib = |config: &Config| {
            let bulk = (config.tables.bulk.clone(), config.tables.bulk_changes);
            let files = (bulk, config.flat.clone(), config.partition.clone());
            (config.tables.fib, config.tables.fib_parameters(), config.rib.routes_max, files)
        };
        let sizes = |configs: &[WorkerConfig]| configs.iter().map(size).collect::<Vec<_>>();
        let key = new.name_key(self.setup.secrets.names).context("the FIB")?;
        if key == self.setup.secrets.key {
            if of_fib(old) != of_fib(new) {
                self.build_fib(new, key, Place::Instead)?;
            }
            return if sizes(before) == sizes(after) { Ok(()) } else { self.exchange((new, before, after), key, None) };
        }
        self.build_fib(new, key, Place::Beside)?;
        let replicas = self.control.with_management(|management| {
            let tables = management.fib().tables();
            (1 - tables.side()) * tables.replicas()
        })?;
        let exchanged = self.exchange((new, before, after), key, Some(replicas));
        if exchanged.is_ok() {
            self.setup.secrets.key = key;
        }
        self.control.keep_fib(exchanged.is_ok())?;
        exchanged
    }

    fn build_fib(&self, config: &Config, key: NameHashKey, place: Place) -> anyhow::Result<()> {
        let checked = &self.setup.checked;
        let built = self.control.rebuild_fib(|node| build_fib(config, key, (node, checked)), place).context("the FIB");
        checked.forget_others();
        built
    }

    /// Gives all packet threads new tables, and waits until they use them. `replicas`: where the replicas of the FIB begin
    /// for names that are hashed with another key.
    fn exchange(
        &mut self,
        (new, before, after): (&Config, &[WorkerConfig], &[WorkerConfig]),
        key: NameHashKey,
        replicas: Option<usize>,
    ) -> anyhow::Result<()> {
        let placement = new.placement();
        let contents = self.handle.table_contents();
        let make = |number: usize| {
            let (config, (cs, pending)) = (&after[number], &contents[number]);
            let entries = usize::try_from(cs.packets + pending).unwrap_or(usize::MAX);
            let mut tables = NewTables::try_new(config, key, entries)?;
            if replicas.is_some() || config.dead_nonces_max != before[number].dead_nonces_max {
                tables = tables.with_dead_nonces(config.dead_nonces_max)?;
            }
            let replica = replicas.map(|first| first + placement.replica(number));
            Ok(Box::new(match replica {
                Some(replica) => tables.with_replica(replica),
                None => tables,
            }))
        };
        let make = |number| on_node(placement.memory_node(number), || make(number)).map_err(no_room_for_table);
        let tables = (0..contents.len()).map(make).collect::<anyhow::Result<Vec<_>>>()?;
        self.handle.exchange_tables(tables);
        // If another exchange is in progress, its entries move first.
        while self.handle.take_old_tables(false).0 == Progress::Waiting {
            std::thread::sleep(WAIT);
        }
        self.leaving.begin();
        Ok(())
    }
}

/// What makes a worker's tables other ones.
fn size(config: &WorkerConfig) -> impl PartialEq + use<> {
    let WorkerConfig {
        pit_entries_max,
        cs_packets_max,
        cs_bytes_max,
        cs_policy,
        dead_nonces_max,
        producer_regions: _,
        accept_unasked_data: _,
    } = config;
    (*pit_entries_max, *cs_packets_max, *cs_bytes_max, *cs_policy, *dead_nonces_max)
}
