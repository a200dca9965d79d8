//! Upper bounds on the memory that a configuration takes.

use byname_forward::crossing::{Departure, Parcel};
use byname_forward::dispatch::claims_bytes;
use byname_forward::worker::TableMemory;
use byname_forward::{LinkFields, Packet, hot};
use bytesize::ByteSize;

use super::{Config, Finding, MemifRole};

/// Bytes of a route in the RIB and the FIB, for a name of 23 bytes, rounded up (`docs/performance.md`).
const ROUTE_BYTES: usize = 256;
/// Bytes of a route in each further replica of the FIB.
const REPLICA_BYTES: usize = 128;
/// Approximate bytes of a descriptor in the table and its query half.
const DESCRIPTOR_BYTES: usize = 128;
/// Approximate bytes of a queued face event.
const EVENT_BYTES: usize = 512;
/// Rings from one thread to another.
const RINGS: usize = 2;

/// Who can fill a table up to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilledBy {
    /// Everybody who can send packets.
    Strangers,
    /// Only signers with rights.
    Commands,
}

/// Memory that one setting may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Key of the setting.
    pub key: String,
    /// Value of the setting, in its own unit.
    pub value: usize,
    /// Memory in bytes.
    pub memory: TableMemory,
    /// Who can fill it.
    pub filled_by: FilledBy,
}

/// Available memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Bytes available at most.
    pub bytes: usize,
    /// Source of the limit, as the start of a sentence: "this machine has".
    pub said_by: String,
    /// Bytes that are unused now.
    pub free: usize,
}

impl Config {
    /// Memory of each setting that limits memory.
    pub fn memory(&self) -> Vec<Need> {
        let mut needs = self.table_memory();
        let threads = self.threads.count;
        let parcels = self.threads.ring_packets.checked_next_power_of_two().unwrap_or(usize::MAX);
        let parcel = size_of::<Parcel>().max(size_of::<Departure>());
        // A thread that is alone has no rings.
        let rings = RINGS * threads * (threads - 1);
        needs.push(at_start("threads.ring_packets", self.threads.ring_packets, parcels, parcel * rings));
        if threads > 1 && self.threads.heavy_hitters {
            let (key, memory) = ("threads.count".to_owned(), hot::memory(threads));
            needs.push(Need { key, value: threads, memory, filled_by: FilledBy::Strangers });
        }
        let internal = self.general.internal_queue_packets;
        let waiting = size_of::<(LinkFields, Packet)>() + size_of::<usize>();
        needs.push(at_start("general.internal_queue_packets", internal, internal, 2 * waiting));
        needs.push(at_start("general.face_events", self.general.face_events, self.general.face_events, EVENT_BYTES));
        for (n, ethernet) in self.faces.ethernet.iter().enumerate() {
            for (ring, bytes) in [("receive_ring", ethernet.receive_ring), ("transmit_ring", ethernet.transmit_ring)] {
                needs.push(at_start(&format!("faces.ethernet.{n}.{ring}"), bytes, bytes, 1));
            }
        }
        let clients = self.faces.memif.iter().enumerate().filter(|(_, memif)| memif.role == MemifRole::Client);
        for (n, memif) in clients {
            let (slots, buffer) = (usize::from(memif.ring), memif.buffer as usize);
            let pairs = memif.queues.ports(threads);
            needs.push(at_start(&format!("faces.memif.{n}.ring"), slots, slots, 2 * buffer * pairs));
        }
        needs
    }

    fn table_memory(&self) -> Vec<Need> {
        let workers: Vec<_> = (0..self.threads.count).map(|number| self.worker(number)).collect();
        let sum = |of: fn(&byname_forward::worker::WorkerConfig) -> TableMemory| {
            workers.iter().map(of).fold(TableMemory::default(), add)
        };
        // All threads together have one table of claims.
        let claims = if self.threads.first_come && workers.len() > 1 { claims_bytes(self.entries_max()) } else { 0 };
        let pit = add(sum(|worker| worker.pit_memory()), TableMemory { full: claims, start: claims });
        let grows = |key: &str, value, bytes, filled_by| {
            let memory = TableMemory { full: bytes, start: 0 };
            Need { key: key.to_owned(), value, memory, filled_by }
        };
        let table = |key: &str, value, memory| {
            let filled_by = FilledBy::Strangers;
            Need { key: key.to_owned(), value, memory, filled_by }
        };
        let (tables, routes, descriptors) = (&self.tables, self.rib.routes_max, self.tags.descriptors_max);
        let commands = FilledBy::Commands;
        let route_bytes = ROUTE_BYTES + (self.placement().replicas().len() - 1) * REPLICA_BYTES;
        vec![
            table("tables.pit_entries", tables.pit_entries, pit),
            table("tables.cs_packets", tables.cs_packets, sum(|worker| worker.cs_memory())),
            grows("tables.cs_bytes", tables.cs_bytes, tables.cs_bytes, FilledBy::Strangers),
            table("tables.dead_nonces", tables.dead_nonces, sum(|worker| worker.dead_nonces_memory())),
            grows("rib.routes_max", routes, routes.saturating_mul(route_bytes), commands),
            grows("tags.descriptors_max", descriptors, descriptors.saturating_mul(DESCRIPTOR_BYTES), commands),
        ]
    }

    /// Findings where this configuration needs more memory than `room` has. `is_set` says whether the file sets a key.
    pub fn memory_findings(&self, room: &Room, is_set: impl Fn(&str) -> bool) -> Vec<Finding> {
        let needs = self.memory();
        let strangers = || needs.iter().filter(|need| need.filled_by == FilledBy::Strangers);
        let mut findings: Vec<Finding> =
            strangers().filter(|need| need.memory.full > room.bytes).map(|need| need.too_much(room, true)).collect();
        let of_commands = needs.iter().filter(|need| need.filled_by == FilledBy::Commands);
        let too_many = of_commands.filter(|need| need.memory.full > room.bytes && is_set(&need.key));
        findings.extend(too_many.map(|need| need.too_much(room, false)));
        if findings.iter().any(|finding| finding.is_fatal) {
            return findings;
        }
        let all = strangers().map(|need| need.memory).fold(TableMemory::default(), add);
        let largest = || {
            let mut needs: Vec<_> = strangers().collect();
            needs.sort_by_key(|need| std::cmp::Reverse(need.memory.full));
            let parts = needs.iter().take(3).map(|need| format!("{} {}", need.key, size(need.memory.full)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let (Room { said_by, .. }, total) = (room, size(room.bytes));
        if all.start > room.bytes {
            let text = format!(
                "the tables reserve {} at startup ({}), but {said_by} {total}: make them smaller",
                size(all.start),
                largest()
            );
            findings.push(Finding::fatal("tables", text));
        } else if all.full > room.bytes {
            let text = format!(
                "all tables together would take {} when full ({}), but {said_by} {total}: the system may then end the router",
                size(all.full),
                largest()
            );
            findings.push(Finding::warning("tables", text));
        } else if all.full > room.free {
            let text = format!(
                "all tables together would take {} when full ({}); {said_by} {total}, of which {} are free now",
                size(all.full),
                largest(),
                size(room.free)
            );
            findings.push(Finding::warning("tables", text));
        }
        findings
    }
}

impl Need {
    fn too_much(&self, room: &Room, is_fatal: bool) -> Finding {
        // Half of the memory is plenty for one table.
        let fits = self.value as u128 * (room.bytes as u128 / 2) / (self.memory.full as u128).max(1);
        let text = format!(
            "{} = {} would take {} when full, but {} {}: write {fits} or less",
            self.key,
            self.value,
            size(self.memory.full),
            room.said_by,
            size(room.bytes)
        );
        Finding { key: self.key.clone(), text, is_fatal }
    }
}

/// A need of `count` items of `bytes` each, all allocated at startup.
fn at_start(key: &str, value: usize, count: usize, bytes: usize) -> Need {
    let bytes = count.saturating_mul(bytes);
    let memory = TableMemory { full: bytes, start: bytes };
    Need { key: key.to_owned(), value, memory, filled_by: FilledBy::Strangers }
}

fn add(a: TableMemory, b: TableMemory) -> TableMemory {
    TableMemory { full: a.full.saturating_add(b.full), start: a.start.saturating_add(b.start) }
}

fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn room(bytes: usize) -> Room {
        Room { bytes, said_by: "this machine has".to_owned(), free: bytes / 2 }
    }

    fn findings(text: &str, bytes: usize) -> Vec<Finding> {
        let config = Config::parse(text, Path::new("byname.toml")).expect("good by itself");
        config.memory_findings(&room(bytes), |key| text.contains(key.rsplit('.').next().expect("one word")))
    }

    #[test]
    fn the_default_fits_a_small_machine() {
        assert_eq!(findings("", 2 << 30), []);
        let small = findings("", 256 << 20);
        assert!(small.len() == 1 && !small[0].is_fatal, "{small:?}");
        assert!(small[0].text.contains("all tables together would take"), "{small:?}");
    }

    #[test]
    fn what_can_never_fit_is_fatal_and_told_with_what_would_fit() {
        for (setting, key) in [
            ("[tables]\npit_entries = 99999999999\n", "tables.pit_entries"),
            ("[tables]\ncs_bytes = \"100 GiB\"\n", "tables.cs_bytes"),
            ("[tables]\ndead_nonces = 99999999999\n", "tables.dead_nonces"),
            ("[general]\ninternal_queue_packets = 9999999999999999\n", "general.internal_queue_packets"),
            ("[general]\nface_events = 9999999999999999\n", "general.face_events"),
            ("[threads]\ncount = 2\nring_packets = 9999999999999999\n", "threads.ring_packets"),
        ] {
            let found = findings(setting, 24 << 30);
            assert!(found.len() == 1 && found[0].is_fatal && found[0].key == key, "{found:?}");
            assert!(found[0].text.contains("this machine has 24.0 GiB: write "), "{found:?}");
        }
        // Two settings that do not fit are both reported.
        let both = findings("[tables]\npit_entries = 99999999999\ncs_bytes = \"100 GiB\"\n", 24 << 30);
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn what_threads_share_counts() {
        let memory = |text: &str, key: &str| {
            let config = Config::parse(text, Path::new("byname.toml")).expect("good by itself");
            config.memory().into_iter().find(|need| need.key == key).map(|need| need.memory)
        };
        let of_hot_names = |text| memory(text, "threads.count");
        assert_eq!((of_hot_names(""), of_hot_names("[threads]\ncount = 2\nheavy_hitters = false\n")), (None, None));
        let (two, many) = (of_hot_names("[threads]\ncount = 2\n"), of_hot_names("[threads]\ncount = 64\n"));
        let (two, many) = (two.expect("two threads share"), many.expect("many do, too"));
        assert!(two.start < 1 << 20 && (32 << 20..128 << 20).contains(&two.full), "{two:?}");
        assert!(many.start < 4 << 20 && many.full > 8 * two.full, "{many:?}");
        let of_pit = |text| memory(text, "tables.pit_entries").expect("there is a PIT");
        let tables = "[tables]\npit_entries = 3000000\n[threads]\ncount = 2\n";
        let (by_hash, claimed) = (of_pit(tables), of_pit(&format!("{tables}first_come = true\n")));
        let claims = claimed.full - by_hash.full;
        assert!((64 << 20..=256 << 20).contains(&claims) && claimed.start - by_hash.start == claims, "{claims}");
    }

    #[test]
    fn limits_that_only_commands_reach_are_warned_of_where_they_are_set() {
        let many = findings("[rib]\nroutes_max = 1000000000\n", 24 << 30);
        assert!(many.len() == 1 && !many[0].is_fatal && many[0].key == "rib.routes_max", "{many:?}");
        assert_eq!(findings("", 1 << 30).iter().filter(|finding| finding.key == "rib.routes_max").count(), 0);
    }

    #[test]
    fn what_does_not_fit_now_is_warned_of() {
        let found = findings("[tables]\ncs_bytes = \"3 GiB\"\n", 4 << 30);
        assert!(found.len() == 1 && !found[0].is_fatal && found[0].text.contains("free now"), "{found:?}");
    }
}
