//! Connections whose output waits, and which of them loses output when memory is short.

use std::collections::BTreeSet;

use super::connection::End;
use super::{Kind, StreamPort};
use crate::port::PortContext;
use crate::system;
use byname_forward::Ticks;

/// Connections whose output waits, ordered by the bytes that waited at the last flush.
#[derive(Default)]
pub(super) struct Waiting {
    by_bytes: BTreeSet<(usize, u32)>,
    /// Largest number of bytes that waited when a connection was given up, since the last trim. The allocator may keep
    /// that much.
    given_up: usize,
}

/// Fewer freed bytes are not worth a trim.
const TRIM_BYTES_MIN: usize = 8 << 20;

impl Waiting {
    /// Records that `now` bytes wait for a slot, and `before` bytes so far. 0 means that none wait.
    pub(super) fn set(&mut self, slot: u32, before: usize, now: usize) {
        if before == now {
            return;
        }
        if before > 0 {
            self.by_bytes.remove(&(before, slot));
        }
        if now > 0 {
            self.by_bytes.insert((now, slot));
        }
    }

    /// Gives freed memory back to the system after peers that did not read are gone. `queued` bytes still wait.
    pub(super) fn give_back_memory(&mut self, queued: usize) {
        if self.given_up >= TRIM_BYTES_MIN && queued < self.given_up / 4 {
            self.given_up = 0;
            system::trim_heap();
        }
    }

    /// Slots with waiting output, the one with the most first.
    pub(super) fn largest_first(&self) -> impl Iterator<Item = u32> {
        self.by_bytes.iter().rev().map(|&(_, slot)| slot)
    }

    /// The connection with the most waiting output: bytes and slot.
    fn largest(&self) -> Option<(usize, u32)> {
        self.by_bytes.last().copied()
    }
}

/// Packets that were dropped, and connections that were closed, because peers did not read.
#[derive(Default)]
pub(super) struct Counts {
    /// Packets for a connection whose queue was full.
    pub(super) queue_full: u64,
    /// Packets that were dropped because memory was short, including queued ones.
    pub(super) memory_short: u64,
    /// Packets for a permanent face without a connection.
    pub(super) not_connected: u64,
    /// Packets that were still queued when their connection was closed because its peer did not read.
    unsent: u64,
    /// Connections whose output did not move for too long.
    stalled: u64,
    /// Connections that were closed because memory was short.
    yielded: u64,
    /// Connections whose codec queued too much: peers that ping and do not read.
    unread: u64,
}

impl Counts {
    pub(super) fn drops(&self, kind: Kind) -> Vec<(&'static str, u64)> {
        let labels = match kind {
            Kind::Unix => ["unix_queue_full", "unix_memory_short", "unix_not_connected", "unix_unsent"],
            Kind::Tcp => ["tcp_queue_full", "tcp_memory_short", "tcp_not_connected", "tcp_unsent"],
            Kind::WebSocket => {
                ["websocket_queue_full", "websocket_memory_short", "websocket_not_connected", "websocket_unsent"]
            }
            Kind::SecureWebSocket => ["wss_queue_full", "wss_memory_short", "wss_not_connected", "wss_unsent"],
            Kind::Quic => ["quic_queue_full", "quic_memory_short", "quic_not_connected", "quic_unsent"],
        };
        labels.into_iter().zip([self.queue_full, self.memory_short, self.not_connected, self.unsent]).collect()
    }

    pub(super) fn closed(&self, kind: Kind) -> Vec<(&'static str, u64)> {
        let labels = match kind {
            Kind::Unix => ["unix_stalled", "unix_memory_short", "unix_unread"],
            Kind::Tcp => ["tcp_stalled", "tcp_memory_short", "tcp_unread"],
            Kind::WebSocket => ["websocket_stalled", "websocket_memory_short", "websocket_unread"],
            Kind::SecureWebSocket => ["wss_stalled", "wss_memory_short", "wss_unread"],
            Kind::Quic => ["quic_stalled", "quic_memory_short", "quic_unread"],
        };
        labels.into_iter().zip([self.stalled, self.yielded, self.unread]).collect()
    }
}

impl StreamPort {
    /// Makes room for `needed` bytes of one connection, by taking output from the connections with the most. Returns
    /// false if this connection itself has the most, or nothing waits.
    pub(super) fn make_room(&mut self, cx: &mut PortContext<'_>, slot: u32, needed: usize) -> bool {
        // Output that only waits for the end of the round must not count.
        self.flush_dirty(cx);
        while self.queued_bytes + needed > self.config.queues_bytes_max {
            let Some(connection) = self.connection(slot) else { return false };
            let own = match connection.waiting_bytes() {
                0 => 0,
                waiting => waiting + needed,
            };
            let Some((bytes, largest)) = self.waiting.largest() else { return false };
            if bytes <= own || largest == slot {
                return false;
            }
            self.take_from(cx, largest);
        }
        true
    }

    /// Takes the newer half of a connection's output, or ends the connection.
    fn take_from(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let queued = connection.queued_bytes();
        let shed = connection.yield_half();
        self.counts.memory_short += shed;
        self.queued_bytes -= queued - connection.queued_bytes();
        if shed > 0 {
            self.note_waiting(slot);
        } else {
            self.end(cx, slot, End::MemoryShort);
        }
    }

    /// Updates the entry of a connection in [`Waiting`].
    pub(super) fn note_waiting(&mut self, slot: u32) {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let now = connection.waiting_bytes();
        let before = std::mem::replace(&mut connection.waiting, now);
        self.waiting.set(slot, before, now);
        if before == 0 && now > 0 {
            self.schedule(slot);
        }
    }

    /// Drops and counts the output of a connection that ends.
    pub(super) fn forget_output(&mut self, slot: u32, end: &End) {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let queued = self.queued_bytes;
        self.queued_bytes -= connection.queued_bytes();
        self.waiting.set(slot, std::mem::take(&mut connection.waiting), 0);
        let count = match end {
            End::Stalled => &mut self.counts.stalled,
            End::MemoryShort => &mut self.counts.yielded,
            End::Unread => &mut self.counts.unread,
            _ => return,
        };
        *count += 1;
        self.waiting.given_up = self.waiting.given_up.max(queued);
        // Otherwise the system would keep the bytes that it has taken until the peer leaves.
        if let Some(socket) = &connection.socket {
            socket.reset_on_close();
        }
        self.counts.unsent += connection.count_unsent();
    }

    /// Lets a connection's input in again, if it was held back and may continue.
    pub(super) fn release(&mut self, slot: u32, now: Ticks) {
        if self.connection(slot).is_some_and(|connection| connection.release(now)) {
            self.mark_ready(slot);
        }
    }
}
