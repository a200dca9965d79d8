//! Faces on streams: Unix sockets, TCP and WebSocket, in one port for each kind.
//!
//! All sockets are non-blocking and edge-triggered. A connection with input waits in a line and
//! gets a bounded turn, so that one fast sender starves nobody. The frames of a burst are written
//! in one piece. What the system does not take waits, up to [`StreamConfig::queue_bytes_max`] for
//! a connection and [`StreamConfig::queues_bytes_max`] for all; beyond that new packets are dropped
//! and counted, so a slow reader costs a bounded amount of memory and no time.
//!
//! A peer that ends its sending but goes on reading gets the answers to its Interests, for
//! [`StreamConfig::linger`] at most. Accepted connections are on-demand faces. Faces made by
//! request connect in the background: a persistent one is destroyed when that fails or the
//! connection ends; a permanent one tries again with growing pauses, and is reported Down and Up.

mod accept;
mod codec;
mod connection;
mod life;
mod request;
mod socket;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use byname_forward::face_table::FaceMap;
use byname_forward::{FaceId, Outgoing, Ticks};
use byname_wire::lp::FRAME_BYTES_MAX;
use mio::Interest;
use rand::rngs::SmallRng;

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::{Frame, LinkConfig, ReassemblyBudget};
use crate::port::{Port, PortContext, Readiness};
use crate::uri::FaceUri;
use accept::Entrance;
use codec::{Codec, Cutter, WebSocketCodec};
use connection::{Connection, End, Phase, SpareBuffers, Turn};
use socket::Listener;

pub use crate::socket_file::ListenError;

/// Octets read at once.
const READ_BYTES: usize = 64 << 10;
/// Keys with this bit are listeners', others are slots of connections.
const LISTENER_BIT: u32 = 1 << 31;

/// Settings of a stream port.
#[derive(Debug, Clone)]
pub struct StreamConfig {
    /// Most connections at a time; further ones are closed as they come.
    pub connections_max: usize,
    /// Bytes that wait for one connection while the system takes none.
    pub queue_bytes_max: usize,
    /// Bytes that wait for all connections of the port together.
    pub queues_bytes_max: usize,
    /// How long connecting, or a WebSocket handshake, may take.
    pub connect_timeout: Duration,
    /// How long a peer that has ended its sending may wait for answers.
    pub linger: Duration,
    /// The first pause before a permanent face connects again; it doubles with each failure.
    pub reconnect_min: Duration,
    /// The longest such pause.
    pub reconnect_max: Duration,
    /// Link settings of accepted connections.
    pub link: LinkConfig,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig {
            connections_max: 4096,
            queue_bytes_max: 1 << 20,
            queues_bytes_max: 64 << 20,
            connect_timeout: Duration::from_secs(8),
            linger: Duration::from_secs(4),
            reconnect_min: Duration::from_millis(500),
            reconnect_max: Duration::from_secs(60),
            link: LinkConfig::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unix,
    Tcp,
    WebSocket,
}

/// Listeners of one kind, and the faces on connections of that kind.
pub struct StreamPort {
    kind: Kind,
    config: StreamConfig,
    entrances: Vec<Entrance>,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    faces: FaceMap<u32>,
    next_serial: u64,
    /// Slots with input, in the order in which they have their turns.
    ready: VecDeque<u32>,
    /// Slots with output.
    dirty: Vec<u32>,
    /// Slot and serial, or key of a listener, by time. Entries may be out of date.
    timers: BinaryHeap<Reverse<(Ticks, u32, u64)>>,
    queued_bytes: usize,
    budget: ReassemblyBudget,
    scratch: Box<[u8]>,
    frames: Vec<Frame>,
    spare: SpareBuffers,
    rng: SmallRng,
}

impl StreamPort {
    /// Listens on Unix stream sockets at these paths.
    ///
    /// Folders are made where they are missing; everybody on the host may connect. A socket file
    /// that nobody answers on is replaced. The files are removed when the port is dropped.
    pub fn unix<P: AsRef<Path>>(paths: &[P], config: StreamConfig) -> Result<StreamPort, ListenError> {
        let listen = |path: &P| {
            let listener = Listener::unix(path.as_ref())?;
            Ok(Entrance::new(listener, FaceUri::Unix(path.as_ref().to_owned())))
        };
        let entrances = paths.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(StreamPort::new(Kind::Unix, entrances, config))
    }

    /// Listens on these TCP addresses (there may be none), and connects to TCP peers on request.
    pub fn tcp(addresses: &[SocketAddr], config: StreamConfig) -> Result<StreamPort, ListenError> {
        let listen = |address: &SocketAddr| {
            let listener = Listener::tcp(*address)?;
            let local = FaceUri::Tcp(listener.local_addr().unwrap_or(*address));
            Ok(Entrance::new(listener, local))
        };
        let entrances = addresses.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(StreamPort::new(Kind::Tcp, entrances, config))
    }

    /// Listens for WebSocket clients on these TCP addresses (there may be none), and connects to
    /// WebSocket servers on request.
    pub fn websocket(addresses: &[SocketAddr], config: StreamConfig) -> Result<StreamPort, ListenError> {
        let listen = |address: &SocketAddr| {
            let listener = Listener::tcp(*address)?;
            let local = FaceUri::WebSocket(listener.local_addr().unwrap_or(*address));
            Ok(Entrance::new(listener, local))
        };
        let entrances = addresses.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(StreamPort::new(Kind::WebSocket, entrances, config))
    }

    fn new(kind: Kind, entrances: Vec<Entrance>, config: StreamConfig) -> Self {
        StreamPort {
            kind,
            config,
            entrances,
            slots: Vec::new(),
            free: Vec::new(),
            faces: FaceMap::default(),
            next_serial: 0,
            ready: VecDeque::new(),
            dirty: Vec::new(),
            timers: BinaryHeap::new(),
            queued_bytes: 0,
            budget: ReassemblyBudget::default(),
            scratch: vec![0; READ_BYTES.max(FRAME_BYTES_MAX)].into(),
            frames: Vec::new(),
            spare: SpareBuffers::default(),
            rng: rand::make_rng(),
        }
    }

    /// Where it listens.
    pub fn local_uris(&self) -> impl Iterator<Item = &FaceUri> {
        self.entrances.iter().map(|entrance| &entrance.local)
    }

    fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Puts a connection into a slot, whose number is its key.
    fn insert(&mut self, connection: Connection) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(Box::new(connection));
                slot
            }
            None => {
                self.slots.push(Some(Box::new(connection)));
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    fn new_codec(&self) -> Codec {
        match self.kind {
            Kind::Unix | Kind::Tcp => Codec::Plain(Cutter::default()),
            Kind::WebSocket => Codec::WebSocket(Box::new(WebSocketCodec::server())),
        }
    }

    /// Makes the face of a connection.
    fn create_face_of(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let id = cx.create_face_id();
        let Some(connection) = self.connection(slot) else { return };
        connection.face = id;
        cx.report(FaceEvent::Created(connection.status()));
        self.faces.insert(id, slot);
    }

    /// Notes that a slot may have input.
    fn mark_ready(&mut self, slot: u32) {
        if let Some(connection) = self.connection(slot)
            && connection.has_input()
            && !std::mem::replace(&mut connection.ready, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// Notes that a slot may have output.
    fn mark_dirty(&mut self, slot: u32) {
        if let Some(connection) = self.connection(slot)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(slot);
        }
    }

    /// Sets the timer of a slot, where it is due before the one that is set.
    fn schedule(&mut self, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        let Some(at) = connection.next_deadline() else { return };
        if connection.timer.is_none_or(|timer| at < timer) {
            connection.timer = Some(at);
            let serial = connection.serial;
            self.timers.push(Reverse((at, slot, serial)));
        }
    }

    fn receive_from(&mut self, cx: &mut PortContext<'_>, slot: u32, packets_max: usize) {
        let now = cx.now();
        let linger_until = now + self.config.linger;
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        connection.ready = false;
        let queued = connection.queued_bytes();
        let turn = connection.receive(now, &mut self.scratch, packets_max, cx.received());
        self.queued_bytes += connection.queued_bytes() - queued;
        match turn {
            Ok(turn) => {
                if connection.queued_bytes() > queued {
                    self.mark_dirty(slot);
                }
                self.linger_or_open(cx, slot, linger_until);
                if turn == Turn::More {
                    self.mark_ready(slot);
                }
                self.schedule(slot);
            }
            Err(end) => self.end(cx, slot, end),
        }
    }

    fn flush_slot(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let queue_bytes_max = self.config.queue_bytes_max;
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let queued = connection.queued_bytes();
        if connection.link.config().flags.reliability && connection.is_up() {
            connection.link.flush_reliability(cx.now(), &mut self.frames);
            if let Err(end) = connection.queue(&mut self.frames, &mut self.spare) {
                self.queued_bytes += connection.queued_bytes() - queued;
                return self.end(cx, slot, end);
            }
        }
        let flushed = connection.flush(cx, slot, queue_bytes_max, &mut self.spare);
        self.queued_bytes = self.queued_bytes + connection.queued_bytes() - queued;
        match flushed {
            Ok(true) if connection.is_settled() => self.end(cx, slot, End::Closed),
            Ok(_) => {}
            Err(end) => self.end(cx, slot, end),
        }
    }

    fn ready_slot(&mut self, cx: &mut PortContext<'_>, slot: u32, readiness: Readiness) {
        let Some(connection) = self.connection(slot) else { return };
        if matches!(connection.phase, Phase::Connecting(_)) {
            if let Err(end) = self.on_connected(cx, slot) {
                self.end(cx, slot, end);
            }
            return;
        }
        let unblocked = connection.note(readiness);
        if connection.is_hung_up() {
            return self.end(cx, slot, End::Closed);
        }
        if unblocked {
            if let Some(socket) = &mut connection.socket {
                let _ = cx.reregister(socket, slot, Interest::READABLE);
            }
            self.mark_dirty(slot);
        }
        self.mark_ready(slot);
    }

    /// Queues a packet for one of the faces.
    fn send(&mut self, cx: &mut PortContext<'_>, outgoing: &mut Outgoing) {
        let Some(&slot) = self.faces.get(&outgoing.face) else { return };
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let queued = connection.queued_bytes();
        let room = (self.config.queue_bytes_max.saturating_sub(queued))
            .min(self.config.queues_bytes_max.saturating_sub(self.queued_bytes));
        let sent = connection.send(cx.now(), outgoing, room, &mut self.frames, &mut self.spare);
        self.queued_bytes += connection.queued_bytes() - queued;
        let wants_flush = connection.wants_flush();
        match sent {
            Ok(true) => {
                if connection.link.next_deadline().is_some() {
                    self.schedule(slot);
                }
                self.mark_dirty(slot);
                if wants_flush {
                    self.flush_slot(cx, slot);
                }
            }
            Ok(false) => {}
            Err(end) => self.end(cx, slot, end),
        }
    }
}

impl Port for StreamPort {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Unix => "unix",
            Kind::Tcp => "tcp",
            Kind::WebSocket => "websocket",
        }
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()> {
        for (index, entrance) in self.entrances.iter_mut().enumerate() {
            cx.register(&mut entrance.listener, LISTENER_BIT | index as u32, Interest::READABLE)?;
            // Who came before registration raises no edge.
            entrance.pending = true;
        }
        Ok(())
    }

    fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, readiness: Readiness) {
        if key & LISTENER_BIT != 0 {
            if let Some(entrance) = self.entrances.get_mut((key & !LISTENER_BIT) as usize) {
                entrance.pending = true;
            }
        } else {
            self.ready_slot(cx, key, readiness);
        }
    }

    fn has_input(&self) -> bool {
        !self.ready.is_empty() || self.entrances.iter().any(|entrance| entrance.pending)
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        self.accept(cx);
        let before = cx.received().len();
        for _ in 0..self.ready.len() {
            let taken = cx.received().len() - before;
            if taken >= packets_max {
                return;
            }
            let Some(slot) = self.ready.pop_front() else { return };
            self.receive_from(cx, slot, packets_max - taken);
        }
    }

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for outgoing in burst {
            self.send(cx, outgoing);
        }
    }

    fn flush(&mut self, cx: &mut PortContext<'_>) {
        for index in 0..self.dirty.len() {
            let slot = self.dirty[index];
            if let Some(connection) = self.connection(slot) {
                connection.dirty = false;
                self.flush_slot(cx, slot);
            }
        }
        self.dirty.clear();
    }

    fn has_output(&self) -> bool {
        self.queued_bytes > 0
    }

    fn next_deadline(&self) -> Option<Ticks> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        while let Some(&Reverse((at, slot, serial))) = self.timers.peek()
            && at <= cx.now()
        {
            self.timers.pop();
            if slot & LISTENER_BIT != 0 {
                if let Some(entrance) = self.entrances.get_mut((slot & !LISTENER_BIT) as usize) {
                    entrance.pending = true;
                }
                continue;
            }
            let current = self.connection(slot).is_some_and(|c| c.serial == serial && c.timer == Some(at));
            if current && let Err(end) = self.on_timer(cx, slot) {
                self.end(cx, slot, end);
            }
        }
    }

    fn create_face(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        self.create_by_request(cx, request)
    }

    fn update_face(
        &mut self,
        cx: &mut PortContext<'_>,
        face: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        self.update(cx, face, change)
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool {
        let Some(&slot) = self.faces.get(&face) else { return false };
        // What is queued may still leave; nothing waits for it.
        self.flush_slot(cx, slot);
        self.end(cx, slot, End::Destroyed);
        true
    }

    fn status(&self, _now: Ticks, face: FaceId) -> Option<FaceStatus> {
        let slot = *self.faces.get(&face)?;
        self.slots.get(slot as usize)?.as_deref().map(Connection::status)
    }

    fn channels(&self) -> Vec<String> {
        self.local_uris().map(FaceUri::to_string).collect()
    }
}
