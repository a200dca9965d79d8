//! Memory of a worker's tables.

use crate::pit_cs::{InRecord, PIT_BYTES_PER_ENTRY, SLOTS_AHEAD_MAX, Slot};
use crate::settings::{TableMemory, WorkerConfig, packets_to_expect};

/// Bytes of the index for each entry: a bucket of 64 bytes holds four, and there may be twice as many buckets.
const INDEX_BYTES: usize = 32;
/// Bytes of the lists that each entry is in.
const LINKS_BYTES: usize = 8;

impl WorkerConfig {
    /// Memory of the PIT, including the packets of its Interests.
    pub fn pit_memory(&self) -> TableMemory {
        // Each entry may have one downstream besides its first.
        let one = size_of::<Slot>() + 2 * size_of::<InRecord>() + PIT_BYTES_PER_ENTRY;
        table(self.pit_entries_max, one)
    }

    /// Memory of the content store, without its packets.
    pub fn cs_memory(&self) -> TableMemory {
        table(packets_to_expect(self.cs_packets_max, self.cs_bytes_max), size_of::<Slot>())
    }

    /// Memory of the dead nonce list.
    pub fn dead_nonces_memory(&self) -> TableMemory {
        let bytes = self.dead_nonces_max.checked_next_power_of_two().and_then(|n| n.checked_mul(size_of::<u64>()));
        let bytes = bytes.unwrap_or(usize::MAX);
        TableMemory { full: bytes, start: bytes }
    }
}

/// Memory of a part of the PIT/CS with this many entries of this size.
fn table(entries: usize, entry_bytes: usize) -> TableMemory {
    let reserved = entries.min(SLOTS_AHEAD_MAX);
    TableMemory {
        full: entries.saturating_mul(entry_bytes + INDEX_BYTES + LINKS_BYTES),
        start: reserved * (size_of::<Slot>() + INDEX_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_the_tables_and_never_wraps() {
        let config = WorkerConfig { pit_entries_max: 1000, dead_nonces_max: 1000, ..WorkerConfig::default() };
        assert!((1_000_000..2_000_000).contains(&config.pit_memory().full));
        assert_eq!(config.dead_nonces_memory(), TableMemory { full: 8192, start: 8192 });
        let huge = WorkerConfig { pit_entries_max: usize::MAX, dead_nonces_max: usize::MAX, ..WorkerConfig::default() };
        assert_eq!((huge.pit_memory().full, huge.dead_nonces_memory().full), (usize::MAX, usize::MAX));
        assert!(huge.pit_memory().start < 1 << 30, "memory comes as it is used");
        // Packets of 1 MiB in all: they need few slots.
        let small = WorkerConfig { cs_packets_max: usize::MAX, cs_bytes_max: 1 << 20, ..WorkerConfig::default() };
        assert!(small.cs_memory().full < 16 << 20);
    }
}
