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
mod request;
mod socket;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use byname_forward::face_table::Persistency;
use byname_forward::{FaceId, Outgoing, Ticks};
use byname_wire::lp::FRAME_BYTES_MAX;
use mio::Interest;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::id_map::FaceMap;
use crate::link::{Frame, LinkConfig, ReassemblyBudget};
use crate::port::{Port, PortContext, Readiness};
use crate::uri::FaceUri;
use accept::Entrance;
use codec::{Codec, Cutter, WebSocketCodec};
use connection::{Connection, End, Phase, SpareBuffers, Turn};
use socket::{Listener, Socket};

pub use socket::ListenError;

/// Octets read at once.
const READ_BYTES: usize = 64 << 10;
/// Keys with this bit are listeners', others are slots of connections.
const LISTENER_BIT: u32 = 1 << 31;
/// A connection that held this long makes the next attempt to reconnect an early one again.
const HELD: Duration = Duration::from_secs(10);

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

    fn linger_or_open(&mut self, cx: &mut PortContext<'_>, slot: u32, linger_until: Ticks) {
        let Some(connection) = self.connection(slot) else { return };
        connection.linger(linger_until);
        if connection.just_opened() {
            self.open(cx, slot);
        }
    }

    /// A connection is made, and its handshake done.
    fn open(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.phase = Phase::Open;
        connection.since = cx.now();
        if connection.face == FaceId::NONE {
            self.create_face_of(cx, slot);
        } else {
            cx.report(FaceEvent::Up(connection.status()));
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

    /// Ends a connection: its face goes with it, or, if it is permanent, goes down.
    fn end(&mut self, cx: &mut PortContext<'_>, slot: u32, end: End) {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        tracing::debug!(face = %connection.face, remote = %connection.remote, reason = %end, "connection ended");
        self.queued_bytes -= connection.queued_bytes();
        let destroyed = matches!(end, End::Destroyed);
        if connection.persistency == Persistency::Permanent && !destroyed && connection.remote_addr().is_some() {
            return self.wait_to_reconnect(cx, slot);
        }
        let Some(connection) = self.slots[slot as usize].take() else { return };
        self.free.push(slot);
        if connection.face != FaceId::NONE {
            self.faces.remove(&connection.face);
            let status = FaceStatus { up: false, ..connection.status() };
            cx.report(FaceEvent::Destroyed(status));
        }
    }

    fn wait_to_reconnect(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let codec = self.new_codec();
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let was_up = connection.is_up();
        if was_up && cx.now().since(connection.since) >= HELD {
            connection.attempts = 0;
        }
        let pause = self.config.reconnect_min.saturating_mul(1 << connection.attempts.min(16));
        // Many faces that lost their peer together shall not come back together.
        let pause = pause.min(self.config.reconnect_max).mul_f64(self.rng.random_range(0.75..1.0));
        connection.attempts += 1;
        connection.detach(&mut self.spare, codec, Phase::Waiting(cx.now() + pause));
        if was_up {
            cx.report(FaceEvent::Down(connection.status()));
        }
        self.schedule(slot);
    }

    /// Begins to connect; the face exists already.
    fn connect(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
        let until = cx.now() + self.config.connect_timeout;
        let kind = self.kind;
        let Some(connection) = self.connection(slot) else { return Ok(()) };
        let Some(remote) = connection.remote_addr() else { return Ok(()) };
        let socket = Socket::connect(remote)?;
        if let Some(local) = socket.local_addr() {
            connection.local = match kind {
                Kind::WebSocket => FaceUri::WebSocketClient(local),
                _ => FaceUri::Tcp(local),
            };
        }
        if kind == Kind::WebSocket {
            connection.codec = Codec::WebSocket(Box::new(WebSocketCodec::client(remote)?));
        }
        connection.attach(cx, slot, socket, Phase::Connecting(until))?;
        self.schedule(slot);
        Ok(())
    }

    /// The system has connected, or has failed to.
    fn on_connected(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return Ok(()) };
        let (Some(socket), Phase::Connecting(until)) = (&mut connection.socket, connection.phase) else {
            return Ok(());
        };
        if !socket.finish_connect()? {
            return Ok(());
        }
        cx.reregister(socket, slot, Interest::READABLE)?;
        let queued = connection.queued_bytes();
        connection.start_handshake(until);
        self.queued_bytes += connection.queued_bytes() - queued;
        if connection.phase == Phase::Open {
            self.open(cx, slot);
        }
        self.mark_dirty(slot);
        self.mark_ready(slot);
        Ok(())
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

    /// Does what is due for a connection.
    fn on_timer(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
        let now = cx.now();
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return Ok(()) };
        connection.timer = None;
        match connection.phase {
            Phase::Connecting(at) | Phase::Handshake(at) if at <= now => return Err(End::TimedOut),
            Phase::Lingering(at) if at <= now => return Err(End::Closed),
            Phase::Waiting(at) if at <= now => self.connect(cx, slot)?,
            _ => {
                if connection.link.next_deadline().is_some_and(|at| at <= now) {
                    let queued = connection.queued_bytes();
                    connection.link.on_deadline(now, &mut self.frames);
                    let done = connection.queue(&mut self.frames, &mut self.spare);
                    self.queued_bytes += connection.queued_bytes() - queued;
                    done?;
                    self.mark_dirty(slot);
                }
            }
        }
        self.schedule(slot);
        Ok(())
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

    fn transmit(&mut self, cx: &mut PortContext<'_>, outgoing: Outgoing) {
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
