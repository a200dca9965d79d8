//! Reassembles packets from fragments, within bounds that a hostile peer cannot stretch.
//!
//! A fragment's header reserves nothing: memory grows only with the bytes that came. A packet has at most
//! [`FRAGMENTS_MAX`] fragments and [`PACKET_BYTES_MAX`] bytes. A face has at most [`PARTIALS_MAX`] incomplete packets,
//! and drops the oldest when it has more. All faces of a port share a [`ReassemblyBudget`]. A packet is given up
//! [`TIMEOUT`] after its first fragment came.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byname_forward::{LinkFields, Packet, Ticks};
use byname_wire::{LpPacket, PACKET_BYTES_MAX};

use super::FRAGMENTS_MAX;

/// Time to complete a packet after its first fragment came, as in NFD.
pub(super) const TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of incomplete packets of one face.
pub(super) const PARTIALS_MAX: usize = 128;
/// Minimum cost of a fragment beside its bytes.
const FRAGMENT_OVERHEAD_BYTES: usize = 256;

/// Memory that the faces of a port may together spend on incomplete packets.
#[derive(Debug, Clone)]
pub struct ReassemblyBudget {
    left: Arc<AtomicUsize>,
}

impl ReassemblyBudget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        ReassemblyBudget { left: Arc::new(AtomicUsize::new(bytes)) }
    }

    /// Bytes that are not spent now.
    pub fn left_bytes(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Default for ReassemblyBudget {
    /// 32 MiB.
    fn default() -> Self {
        ReassemblyBudget::new(32 << 20)
    }
}

/// Result of taking a fragment.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Other fragments are missing.
    Incomplete,
    /// The packet is complete: the link fields of its first fragment, and its bytes.
    Complete(LinkFields, Packet),
    /// The fragment is malformed, or contradicts earlier ones.
    Refused,
    /// A bound was reached. Either an older packet was given up for this fragment, or the fragment and its packet were.
    Evicted,
}

struct Partial {
    /// Identifies the peer that sends it.
    endpoint: u64,
    /// Sequence of the first fragment.
    base: u64,
    count: u64,
    /// Fragments that came, by rising index.
    pieces: Vec<(u64, Packet)>,
    bytes: usize,
    cost: usize,
    fields: Option<LinkFields>,
    congestion_mark: u64,
    deadline: Ticks,
}

/// Incomplete packets of one face, by age.
pub(super) struct Reassembler {
    partials: VecDeque<Partial>,
    budget: ReassemblyBudget,
}

impl Reassembler {
    pub(super) fn new(budget: ReassemblyBudget) -> Self {
        Reassembler { partials: VecDeque::new(), budget }
    }

    /// Takes a fragment. `fields` is present when its index is 0.
    pub(super) fn add(
        &mut self,
        now: Ticks,
        endpoint: u64,
        lp: &LpPacket<'_>,
        fields: Option<LinkFields>,
        fragment: &[u8],
    ) -> Outcome {
        let Some(sequence) = lp.sequence else { return Outcome::Refused };
        let (index, count) = (lp.frag_index, lp.frag_count);
        if index >= count || count > FRAGMENTS_MAX || fragment.is_empty() || fragment.len() > PACKET_BYTES_MAX {
            return Outcome::Refused;
        }
        let base = sequence.wrapping_sub(index);
        let known = self.partials.iter().rposition(|p| p.base == base && p.endpoint == endpoint);
        if let Some(i) = known {
            let partial = &self.partials[i];
            if partial.count != count || partial.bytes + fragment.len() > PACKET_BYTES_MAX {
                // Two packets claim the same Sequences, or it is a bomb. Neither can be trusted.
                self.remove(i);
                return Outcome::Refused;
            }
            if partial.pieces.binary_search_by_key(&index, |p| p.0).is_ok() {
                return Outcome::Refused;
            }
        }
        let piece = Packet::copy_from(fragment);
        let cost = piece.memory_bytes() + FRAGMENT_OVERHEAD_BYTES;
        if !self.budget.take(cost) {
            if let Some(i) = known {
                self.remove(i);
            }
            return Outcome::Evicted;
        }
        let (i, evicted) = match known {
            Some(i) => (i, false),
            None => self.open(now, endpoint, base, count),
        };
        let partial = &mut self.partials[i];
        let at = partial.pieces.partition_point(|p| p.0 < index);
        partial.pieces.insert(at, (index, piece));
        partial.bytes += fragment.len();
        partial.cost += cost;
        partial.congestion_mark = partial.congestion_mark.max(lp.congestion_mark);
        if fields.is_some() {
            partial.fields = fields;
        }
        if partial.pieces.len() as u64 == count {
            return self.complete(i);
        }
        if evicted { Outcome::Evicted } else { Outcome::Incomplete }
    }

    /// Time at which the oldest packet is given up.
    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        self.partials.front().map(|p| p.deadline)
    }

    /// Gives up packets that are too old. Returns their number.
    pub(super) fn expire(&mut self, now: Ticks) -> u64 {
        let mut expired = 0;
        while self.partials.front().is_some_and(|p| p.deadline <= now) {
            self.remove(0);
            expired += 1;
        }
        expired
    }

    fn open(&mut self, now: Ticks, endpoint: u64, base: u64, count: u64) -> (usize, bool) {
        let full = self.partials.len() >= PARTIALS_MAX;
        if full {
            self.remove(0);
        }
        self.partials.push_back(Partial {
            endpoint,
            base,
            count,
            pieces: Vec::new(),
            bytes: 0,
            cost: 0,
            fields: None,
            congestion_mark: 0,
            deadline: now + TIMEOUT,
        });
        (self.partials.len() - 1, full)
    }

    fn complete(&mut self, i: usize) -> Outcome {
        let Some(partial) = self.remove(i) else { return Outcome::Refused };
        let packet = Packet::build(partial.bytes, |mut to| {
            for (_, piece) in &partial.pieces {
                let (head, rest) = to.split_at_mut(piece.len());
                head.copy_from_slice(piece);
                to = rest;
            }
        });
        let mut fields = partial.fields.unwrap_or_default();
        fields.congestion_mark = partial.congestion_mark;
        Outcome::Complete(fields, packet)
    }

    fn remove(&mut self, i: usize) -> Option<Partial> {
        let partial = self.partials.remove(i)?;
        self.budget.give_back(partial.cost);
        Some(partial)
    }
}

impl Drop for Reassembler {
    fn drop(&mut self) {
        self.budget.give_back(self.partials.iter().map(|p| p.cost).sum());
    }
}
