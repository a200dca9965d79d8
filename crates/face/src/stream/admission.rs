//! Decides who may connect when there are many connections.
//!
//! There are three limits: connections of one address, connections of the port, and descriptors of the process. At each
//! limit the connection that has been silent longest makes room for a newcomer. At the first limit it must be of the
//! same address. A connection that routes lead to keeps its place. So does a connection whose peer waits for answers,
//! for [`WAITING_MAX`] after its last input: without that bound, an unanswered Interest would keep a place forever. If
//! no silent connection makes room, one does whose peer does not read its answers: its output has not moved for
//! [`SILENCE_MIN`]. If there is none either, the newcomer is closed and counted.
//!
//! So idle connections and peers that do not read lock nobody out, however many addresses they come from. Busy
//! connections of one address leave room for other addresses.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use byname_forward::Ticks;
use byname_forward::face_table::Persistency;
use rustix::io::Errno;

use super::connection::{Connection, End};
use super::{Kind, StreamPort};
use crate::port::PortContext;

/// A connection with less silence keeps its place: it may not have had time to speak.
const SILENCE_MIN: Duration = Duration::from_secs(1);
/// Time that unanswered Interests keep a place for a silent connection.
const WAITING_MAX: Duration = Duration::from_secs(60);
/// Connections that a search looks at.
const STEPS_MAX: usize = 64;
/// Descriptors that connections leave to the rest of the process: listeners, metrics, files.
const KEPT_FOR_OTHERS: usize = 128;
/// Descriptors that connections of other hosts leave to local use: applications on Unix sockets, which include
/// management, and faces made by command.
const KEPT_FOR_LOCAL: usize = 128;

/// Descriptors that the connections of several ports share.
#[derive(Debug, Clone)]
pub struct Descriptors {
    used: Arc<Used>,
    /// Maximum for all connections.
    all_max: usize,
    /// Maximum for connections that peers made over TCP and WebSocket.
    peers_max: usize,
}

/// Descriptors in use.
#[derive(Debug, Default)]
struct Used {
    all: AtomicUsize,
    peers: AtomicUsize,
}

impl Descriptors {
    /// Creates the budget of a process that may have `limit` descriptors open.
    pub fn new(limit: usize) -> Self {
        let all_max = limit - KEPT_FOR_OTHERS.min(limit / 4);
        let peers_max = all_max - KEPT_FOR_LOCAL.min(limit / 4);
        Descriptors { used: Arc::default(), all_max, peers_max }
    }

    /// Takes a descriptor for one connection, if one is left.
    pub(super) fn take(&self, is_peer: bool) -> Option<Descriptor> {
        let of_peers = self.used.peers.load(Ordering::Relaxed);
        if self.used.all.load(Ordering::Relaxed) >= self.all_max || (is_peer && of_peers >= self.peers_max) {
            return None;
        }
        // Another thread may take one in between. There are many more descriptors kept for others than threads.
        self.used.all.fetch_add(1, Ordering::Relaxed);
        self.used.peers.fetch_add(usize::from(is_peer), Ordering::Relaxed);
        Some(Descriptor { used: Arc::clone(&self.used), is_peer })
    }
}

impl Default for Descriptors {
    /// As many as the system gives.
    fn default() -> Self {
        Descriptors { used: Arc::default(), all_max: usize::MAX, peers_max: usize::MAX }
    }
}

/// One of [`Descriptors`]. Dropping it frees its place.
#[derive(Debug)]
pub struct Descriptor {
    used: Arc<Used>,
    is_peer: bool,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.used.all.fetch_sub(1, Ordering::Relaxed);
        self.used.peers.fetch_sub(usize::from(self.is_peer), Ordering::Relaxed);
    }
}

/// Connections of one origin are counted together: one IPv4 address, or one /64 of IPv6, in which a host may take any
/// address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Origin(IpAddr);

impl Origin {
    pub(super) fn of(address: &SocketAddr) -> Origin {
        match address.ip().to_canonical() {
            IpAddr::V6(ip) if !ip.is_loopback() => Origin(Ipv6Addr::from(u128::from(ip) >> 64 << 64).into()),
            ip => Origin(ip),
        }
    }
}

/// Counters of admission, for metrics.
#[derive(Debug, Default)]
pub(super) struct AdmissionCounts {
    /// Newcomers closed because their address had too many connections.
    pub(super) of_address: u64,
    /// Newcomers closed because the port or the process had too many.
    pub(super) of_port: u64,
    /// Connections that made room.
    pub(super) yielded: u64,
    /// Failures of the system to give a connection: no descriptor or no memory.
    pub(super) accept_errors: u64,
}

impl AdmissionCounts {
    /// Counts of newcomers that got no place.
    pub(super) fn drops(&self, kind: Kind) -> Vec<(&'static str, u64)> {
        let labels = match kind {
            Kind::Unix => ["unix_address_full", "unix_port_full", "unix_accept_failed"],
            Kind::Tcp => ["tcp_address_full", "tcp_port_full", "tcp_accept_failed"],
            Kind::WebSocket => ["websocket_address_full", "websocket_port_full", "websocket_accept_failed"],
            Kind::SecureWebSocket => ["wss_address_full", "wss_port_full", "wss_accept_failed"],
            Kind::Quic => ["quic_address_full", "quic_port_full", "quic_accept_failed"],
        };
        labels.into_iter().zip([self.of_address, self.of_port, self.accept_errors]).collect()
    }

    /// Count of connections that made room.
    pub(super) fn closed(&self, kind: Kind) -> (&'static str, u64) {
        let label = match kind {
            Kind::Unix => "unix_idle_yielded",
            Kind::Tcp => "tcp_idle_yielded",
            Kind::WebSocket => "websocket_idle_yielded",
            Kind::SecureWebSocket => "wss_idle_yielded",
            Kind::Quic => "quic_idle_yielded",
        };
        (label, self.yielded)
    }
}

/// Whether a connection can make room, and the time from which its silence counts.
enum Standing {
    Gone,
    Stays,
    SilentSince(Ticks),
}

type Slots = [Option<Box<Connection>>];

fn standing(slots: &Slots, slot: u32, serial: u64) -> Standing {
    match slots.get(slot as usize).and_then(Option::as_deref).filter(|c| c.serial == serial) {
        None => Standing::Gone,
        Some(c) if c.routed || c.persistency != Persistency::OnDemand => Standing::Stays,
        Some(c) if c.waits_for_answers() => Standing::SilentSince(c.heard + WAITING_MAX),
        Some(c) => Standing::SilentSince(c.heard),
    }
}

/// Connections ordered by the time from which their silence counts. An entry is updated only when it comes first.
#[derive(Default)]
struct SilenceOrder(BinaryHeap<Reverse<(Ticks, u32, u64)>>);

impl SilenceOrder {
    /// Adds one of `alive` connections.
    fn add(&mut self, slots: &Slots, connection: (Ticks, u32, u64), alive: usize) {
        self.0.push(Reverse(connection));
        if self.0.len() > 2 * alive + STEPS_MAX {
            self.0.retain(|Reverse((_, slot, serial))| !matches!(standing(slots, *slot, *serial), Standing::Gone));
        }
    }

    /// The connection that has been silent longest, if that is at least [`SILENCE_MIN`].
    fn longest(&mut self, slots: &Slots, now: Ticks) -> Option<u32> {
        for _ in 0..STEPS_MAX {
            let mut first = self.0.peek_mut()?;
            let Reverse((noted, slot, serial)) = *first;
            match standing(slots, slot, serial) {
                Standing::SilentSince(since) if since != noted => first.0.0 = since,
                Standing::SilentSince(_) if noted + SILENCE_MIN > now => return None,
                Standing::SilentSince(_) => return Some(slot),
                // A connection that stays is added again when it may make room again.
                Standing::Gone | Standing::Stays => drop(std::collections::binary_heap::PeekMut::pop(first)),
            }
        }
        None
    }
}

/// Connections of one origin.
#[derive(Default)]
struct Guests {
    connections: usize,
    silence: SilenceOrder,
}

/// State with which a port decides on newcomers.
#[derive(Default)]
pub(super) struct Admission {
    /// Peers choose their addresses, so this map's hash is keyed.
    guests: HashMap<Origin, Guests>,
    silence: SilenceOrder,
    pub(super) counts: AdmissionCounts,
}

impl Admission {
    /// Adds a connection to those that can make room.
    pub(super) fn add_silent(&mut self, slots: &Slots, slot: u32, alive: usize) {
        let Some(connection) = slots.get(slot as usize).and_then(Option::as_deref) else { return };
        let entry = (connection.heard, slot, connection.serial);
        self.silence.add(slots, entry, alive);
        if let Some(guests) = connection.origin.and_then(|origin| self.guests.get_mut(&origin)) {
            guests.silence.add(slots, entry, guests.connections);
        }
    }

    /// The connection that has been silent longest, if that is at least [`SILENCE_MIN`].
    pub(super) fn longest_silent(&mut self, slots: &Slots, now: Ticks) -> Option<u32> {
        self.silence.longest(slots, now)
    }

    /// Number of entries that it keeps.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.silence.0.len()
    }

    /// Removes an ended connection from the count of its origin.
    pub(super) fn forget(&mut self, origin: Option<Origin>) {
        let Some(origin) = origin else { return };
        if let Some(guests) = self.guests.get_mut(&origin) {
            guests.connections -= 1;
            if guests.connections == 0 {
                self.guests.remove(&origin);
            }
        }
    }
}

impl StreamPort {
    /// Takes a descriptor for a newcomer. Makes room for it if needed and possible.
    pub(super) fn admit(&mut self, cx: &mut PortContext<'_>, origin: Option<Origin>) -> Option<Descriptor> {
        let of_address = origin.and_then(|origin| self.admission.guests.get_mut(&origin));
        if let Some(guests) = of_address
            && guests.connections >= self.config.connections_per_address_max
        {
            let longest = guests.silence.longest(&self.slots, cx.now());
            if !self.yields(cx, longest) && !self.stuck_yields(cx, origin) {
                self.admission.counts.of_address += 1;
                return None;
            }
        }
        let mut descriptor = self.take_descriptor();
        if descriptor.is_none() && self.one_yields(cx) {
            descriptor = self.take_descriptor();
        }
        self.admission.counts.of_port += u64::from(descriptor.is_none());
        descriptor
    }

    /// Takes a descriptor for a newcomer, if the port and the process have room.
    fn take_descriptor(&self) -> Option<Descriptor> {
        let has_room = self.connections() < self.config.connections_max;
        has_room.then(|| self.config.descriptors.take(self.kind != Kind::Unix)).flatten()
    }

    /// Takes a descriptor for an outgoing connection: a command asked for it, or a face reconnects.
    pub(super) fn admit_outgoing(&mut self, cx: &mut PortContext<'_>) -> io::Result<Descriptor> {
        let mut descriptor = self.config.descriptors.take(false);
        if descriptor.is_none() && self.one_yields(cx) {
            descriptor = self.config.descriptors.take(false);
        }
        descriptor.ok_or_else(|| Errno::MFILE.into())
    }

    /// Ends one connection of any address to make room. Returns false if all keep their places.
    fn one_yields(&mut self, cx: &mut PortContext<'_>) -> bool {
        let longest = self.admission.longest_silent(&self.slots, cx.now());
        self.yields(cx, longest) || self.stuck_yields(cx, None)
    }

    /// Ends a connection whose peer does not read, of this origin if there is one. Returns false if none is found among
    /// those with the longest queues.
    fn stuck_yields(&mut self, cx: &mut PortContext<'_>, origin: Option<Origin>) -> bool {
        let stuck = self.waiting.largest_first().take(STEPS_MAX).find(|slot| {
            self.slots[*slot as usize].as_deref().is_some_and(|connection| {
                !connection.routed
                    && connection.persistency == Persistency::OnDemand
                    && (origin.is_none() || connection.origin == origin)
                    && connection.is_stalled(cx.now(), SILENCE_MIN)
            })
        });
        let Some(slot) = stuck else { return false };
        self.end(cx, slot, End::Stalled);
        true
    }

    /// Ends the connection in `slot` to make room. Returns false if there is none.
    fn yields(&mut self, cx: &mut PortContext<'_>, slot: Option<u32>) -> bool {
        let Some(slot) = slot else { return false };
        self.admission.counts.yielded += 1;
        self.end(cx, slot, End::Yielded);
        true
    }

    /// Counts an admitted connection, which may have to make room from now on.
    pub(super) fn note_admitted(&mut self, slot: u32) {
        if let Some(origin) = self.connection(slot).and_then(|connection| connection.origin) {
            self.admission.guests.entry(origin).or_default().connections += 1;
        }
        self.note_silent(slot);
    }

    /// Records that a connection may have to make room again.
    pub(super) fn note_silent(&mut self, slot: u32) {
        let alive = self.connections();
        self.admission.add_silent(&self.slots, slot, alive);
    }
}
