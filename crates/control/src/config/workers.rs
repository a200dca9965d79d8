//! `[workers]`: threads that forward.

use byname_face::Workers as Threads;
use byname_forward::Worker;
use byname_forward::dispatch::{Dispatcher, WORKERS_MAX, part_of};
use byname_forward::hot::WINDOW;
use byname_forward::worker::WorkerConfig;
use byname_wire::NameHashKey;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Config, value};

/// `[workers]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workers {
    /// Number of forwarding threads beside the packet thread. 0: the packet thread forwards.
    #[serde(deserialize_with = "count")]
    pub count: usize,
    /// Number of leading name components that select the worker. 0: all.
    pub dispatch_components: usize,
    /// Whether any worker may answer Interests for hot names.
    pub heavy_hitters: bool,
    /// Capacity of the rings to and from a worker, in packets.
    #[serde(deserialize_with = "value::at_least_1")]
    pub ring_packets: usize,
    /// Whether to pin each thread to a core of its own, if there are enough cores.
    pub pin: bool,
}

impl Default for Workers {
    fn default() -> Self {
        Workers { count: 0, dispatch_components: 2, heavy_hitters: true, ring_packets: 4096, pin: true }
    }
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        count if count <= WORKERS_MAX => Ok(count),
        count => Err(D::Error::custom(format!("{count} workers are too many; write at most {WORKERS_MAX}"))),
    }
}

impl Config {
    /// Configuration of worker `number`, with its share of the table sizes.
    pub fn worker(&self, number: usize) -> WorkerConfig {
        let part = |all: usize| part_of(all, number, self.workers.count.max(1));
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

    /// Creates the configured workers with `make`. Names are hashed with `key`. `mark` distinguishes their PIT tokens
    /// from those of other nodes.
    ///
    /// # Errors
    /// The first error of `make`.
    pub fn workers<E>(
        &self,
        key: NameHashKey,
        mark: u32,
        mut make: impl FnMut(usize) -> Result<Worker, E>,
    ) -> Result<Threads, E> {
        let Workers { count, dispatch_components, heavy_hitters, ring_packets, pin } = self.workers;
        if count == 0 {
            return Ok(make(0)?.into());
        }
        let mut dispatcher = Box::new(Dispatcher::new(key, count, dispatch_components, mark));
        if heavy_hitters {
            dispatcher.spread_hot_names(WINDOW);
        }
        let join = |number| {
            let mut worker = make(number)?;
            worker.join(dispatcher.membership(number));
            Ok(worker)
        };
        let workers = (0..count).map(join).collect::<Result<_, E>>()?;
        Ok(Threads::Threads { workers, dispatcher, ring_packets, pin })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn workers_share_what_one_would_have() {
        let parse = |text: &str| Config::parse(text, Path::new("byname.toml"));
        let config = parse("[workers]\ncount = 3\n[tables]\ncs_packets = 100\npit_entries = 2").expect("good");
        let parts = [0, 1, 2].map(|number| config.worker(number));
        assert_eq!(parts.each_ref().map(|part| part.cs_packets_max), [34, 33, 33]);
        assert_eq!(parts.each_ref().map(|part| part.pit_entries_max), [1, 1, 1], "each must have room for one");
        assert_eq!(Config::default().worker(0).cs_packets_max, Config::default().tables.cs_packets);
        let error = parse("[workers]\ncount = 65").expect_err("too many");
        assert!(error.to_string().contains("65 workers are too many; write at most 64"), "{error}");
    }
}
