//! Settings of a worker.

use std::time::Duration;

use byname_wire::Name;

use crate::packet_pool::MIN_BUFFER_BYTES;

/// Maximum time that an Interest may be pending, whatever lifetime it asks for.
pub(crate) const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Sizes and limits of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Maximum of PIT entries.
    pub pit_entries_max: usize,
    /// Maximum of Data packets in the CS; can be changed later.
    pub cs_packets_max: usize,
    /// Maximum memory of the CS, in bytes of packet buffers.
    pub cs_bytes_max: usize,
    /// Replacement policy of the CS.
    pub cs_policy: CsPolicy,
    /// Number of nonces that the dead nonce list remembers.
    pub dead_nonces_max: usize,
    /// Producer regions: names that end a forwarding hint.
    pub producer_regions: Vec<Name>,
    /// Whether Data satisfies an Interest that was not sent to the face it came from. Then anybody who can send packets
    /// here can answer for everybody else, and these answers are cached.
    pub accept_unasked_data: bool,
}

impl WorkerConfig {
    /// Entries that the PIT and the content store may come to hold.
    pub fn entries_max(&self) -> usize {
        self.pit_entries_max.saturating_add(packets_to_expect(self.cs_packets_max, self.cs_bytes_max))
    }
}

/// Bytes that tables take when they are full, and bytes that they reserve at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableMemory {
    /// Bytes when the table is full.
    pub full: usize,
    /// Bytes of address space that the table reserves at the start.
    pub start: usize,
}

/// Number of Data packets that a content store within these limits may come to hold.
pub(crate) fn packets_to_expect(packets_max: usize, bytes_max: usize) -> usize {
    packets_max.min(bytes_max / MIN_BUFFER_BYTES).min(1 << 24)
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig {
            pit_entries_max: 65_536,
            cs_packets_max: 65_536,
            cs_bytes_max: 128 << 20,
            cs_policy: CsPolicy::Lru,
            dead_nonces_max: 1 << 18,
            producer_regions: Vec::new(),
            accept_unasked_data: false,
        }
    }
}

/// Replacement policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsPolicy {
    /// Least recently used.
    Lru,
    /// Scan-resistant: S3-FIFO, a small FIFO in front of a main one, with a ghost list.
    S3Fifo,
}

/// How a worker prefetches what a burst will read. It changes no result. The feature `lab` adds the alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefetch {
    /// No prefetching, and the FIB sees one name at a time.
    #[cfg(feature = "lab")]
    None,
    /// Each step of a packet is prefetched while the packet before it takes the next step [So §2.2].
    #[cfg(feature = "lab")]
    Cascade,
    /// One step of all packets is prefetched, then the next step of all, before the first packet is handled.
    #[default]
    AllAtOnce,
}

impl Prefetch {
    /// Whether anything is prefetched.
    pub(crate) fn is_on(self) -> bool {
        match self {
            #[cfg(feature = "lab")]
            Prefetch::None => false,
            #[cfg(feature = "lab")]
            Prefetch::Cascade => true,
            Prefetch::AllAtOnce => true,
        }
    }
}
