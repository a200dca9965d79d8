//! Faces on streams: Unix sockets, TCP and WebSocket, one port for each kind. Connections over TLS and QUIC are served
//! by another thread, and come to ports of their own (`door`).
//!
//! All sockets are non-blocking and edge-triggered. Connections with input stand in a FIFO, and each gets a bounded
//! turn, so that one fast sender starves nobody. The frames of a burst are written together.
//!
//! # Peers that read slowly, or not at all
//!
//! Output that the system does not take waits (`output`). It has two bounds. One belongs to the connection:
//! [`StreamConfig::queue_bytes_max`], or [`StreamConfig::local_queue_bytes_max`] for peers on this host. The other is
//! shared by all connections of the port: [`StreamConfig::queues_bytes_max`]. When the shared bound is reached, the
//! connection with the most output waiting loses the newer half of it, until there is room (`waiting`). A connection
//! whose output has not moved for [`StreamConfig::stall_timeout`] is closed. So peers that do not read take room from
//! each other, never from a peer that reads.
//!
//! The port also stops reading from a peer on this host that does not read its answers. The peer's Interests wait in
//! the system until its output has drained. For a peer on another host, the port stops only when the output has not
//! moved for half a second. Until then its queue overflows: the peer may be a router, and holding its input back would
//! delay the Interests of all its clients. Three rules prevent a deadlock between two peers that wait for each other.
//! Input that brings Data is never held back. Held input is read after 100 ms without movement, and again each time
//! that period has doubled. A connection that stalls is closed.
//!
//! A peer may end its sending and go on reading. It then gets the answers to its Interests, for
//! [`StreamConfig::linger`] at most. Accepted connections are on-demand faces. A persistent face is created by a
//! request when its connection is established, and destroyed when that ends. A permanent face exists at once,
//! reconnects with growing pauses, and is reported Down and Up.

mod accept;
mod admission;
mod browser;
mod codec;
mod connection;
mod dealing;
mod door;
mod handover;
mod input_log;
mod life;
mod moving;
mod output;
mod request;
mod socket;
#[cfg(test)]
mod tests;
mod unread;
mod waiting;

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::{FaceMap, Scope};
use byname_forward::{FaceId, Outgoing, Ticks};
use byname_wire::lp::FRAME_BYTES_MAX;
use mio::Interest;
use rand::rngs::SmallRng;

use crate::face::{CreateFaceError, FaceChange, FaceEvent, FaceRequest, FaceStatus, UpdateFaceError};
use crate::handover::{HandedFace, Inherited, SharedSocket, StreamRecord};
use crate::link::{Frame, LinkConfig, ReassemblyBudget};
use crate::port::{Port, PortContext, Readiness};
use crate::uri::FaceUri;
use accept::Entrance;
use admission::Admission;
use browser::LocalClients;
use codec::{Codec, Cutter, WebSocketCodec};
use connection::{Connection, End, Phase, Turn};
use dealing::{Dealer, Hand, Newcomer, share};
use door::OuterListener;
use output::SpareBuffers;
use socket::Listener;
use waiting::{Counts, Waiting};

pub use crate::socket_file::ListenError;
pub use admission::{Descriptor, Descriptors};
pub use door::{Call, CallThread, Door, Encryption, Guest};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that a packet's link header is assumed to take in the queue.
const HEADER_BYTES: usize = 64;
/// Marks the keys of listeners; other keys are slots of connections.
const LISTENER_BIT: u32 = 1 << 31;

/// Settings of a stream port.
#[derive(Debug, Clone)]
pub struct StreamConfig {
    /// Maximum number of connections. At the maximum, a newcomer takes the place of the connection that has been silent
    /// longest, or is closed.
    pub connections_max: usize,
    /// Maximum number of connections accepted from one IPv4 address, or one /64 of IPv6.
    pub connections_per_address_max: usize,
    /// Descriptors that connections may use. Ports that hold clones share them.
    pub descriptors: Descriptors,
    /// Maximum bytes that wait for one connection to another host.
    pub queue_bytes_max: usize,
    /// Maximum bytes that wait for one connection on this host. An application's Interests are held back only once its
    /// output waits, so this needs room for the answers to all Interests that the application sends at a time.
    pub local_queue_bytes_max: usize,
    /// Maximum bytes that wait for all connections of the port together.
    pub queues_bytes_max: usize,
    /// Time without movement of waiting output after which a connection is closed.
    pub stall_timeout: Duration,
    /// Maximum time to connect, and for a WebSocket handshake.
    pub connect_timeout: Duration,
    /// Maximum time that a peer may wait for answers after it has ended its sending.
    pub linger: Duration,
    /// First pause before a permanent face reconnects. The pause doubles with each failure.
    pub reconnect_min: Duration,
    /// Longest pause before a permanent face reconnects.
    pub reconnect_max: Duration,
    /// Origins of pages whose WebSocket connections from this host are local: `scheme://host[:port]`, as a browser
    /// writes it into `Origin`.
    pub local_origins: Vec<String>,
    /// Link settings of accepted connections.
    pub link: LinkConfig,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig {
            connections_max: 4096,
            connections_per_address_max: 1024,
            descriptors: Descriptors::default(),
            queue_bytes_max: 1 << 20,
            local_queue_bytes_max: 16 << 20,
            queues_bytes_max: 64 << 20,
            stall_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(8),
            linger: Duration::from_secs(4),
            reconnect_min: Duration::from_millis(500),
            reconnect_max: Duration::from_secs(60),
            local_origins: Vec::new(),
            link: LinkConfig::default(),
        }
    }
}

impl StreamConfig {
    /// Maximum bytes that wait for a connection of this scope.
    fn queue_bytes_max_of(&self, scope: Scope) -> usize {
        match scope {
            Scope::Local => self.local_queue_bytes_max,
            Scope::NonLocal => self.queue_bytes_max,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unix,
    Tcp,
    WebSocket,
    /// WebSocket over TLS, which another thread handles.
    SecureWebSocket,
    /// Packets in datagrams of QUIC, which another thread handles.
    Quic,
}

impl Kind {
    /// Its word in names of ports and counters.
    fn word(self) -> &'static str {
        match self {
            Kind::Unix => "unix",
            Kind::Tcp => "tcp",
            Kind::WebSocket => "websocket",
            Kind::SecureWebSocket => "wss",
            Kind::Quic => "quic",
        }
    }
}

/// Listeners of one kind, and the faces on connections of that kind.
pub struct StreamPort {
    kind: Kind,
    config: StreamConfig,
    local_clients: Arc<LocalClients>,
    entrances: Vec<Entrance>,
    /// Listeners that another thread serves.
    outer: Vec<OuterListener>,
    /// Asks that thread to connect.
    caller: Option<CallThread>,
    /// Gives accepted connections to ports of other threads, if there are any.
    dealer: Dealer,
    /// Gets connections from the port that listens, if that is another.
    hand: Option<Hand>,
    /// A connection that exists before the port starts.
    pair: Option<Newcomer>,
    admission: Admission,
    /// Connections closed at once because there were too many, or because of an error.
    refused: u64,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    faces: FaceMap<u32>,
    next_serial: u64,
    /// Slots with input, in the order of their turns.
    ready: VecDeque<u32>,
    /// Slots with output.
    dirty: Vec<u32>,
    /// Time, then slot and serial of a connection, or key of a listener. Entries may be out of date.
    timers: BinaryHeap<Reverse<(Ticks, u32, u64)>>,
    queued_bytes: usize,
    waiting: Waiting,
    counts: Counts,
    budget: ReassemblyBudget,
    scratch: Box<[u8]>,
    frames: Vec<Frame>,
    spare: SpareBuffers,
    rng: SmallRng,
}

impl StreamPort {
    /// Listens on Unix stream sockets at these paths.
    ///
    /// Creates missing folders. Everybody on the host may connect. A socket file that nobody answers on is replaced.
    /// The port removes its files when it is dropped.
    pub fn unix<P: AsRef<Path>>(paths: &[P], config: StreamConfig) -> Result<StreamPort, ListenError> {
        let listen = |path: &P| {
            let listener = Listener::unix(path.as_ref())?;
            Ok(Entrance::new(listener, FaceUri::Unix(path.as_ref().to_owned())))
        };
        let entrances = paths.iter().map(listen).collect::<Result<_, _>>()?;
        Ok(StreamPort::new(Kind::Unix, entrances, config))
    }

    /// Listens on a Unix stream socket that another process has opened at this path, if it is among `inherited`.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn unix_inherited(
        path: &Path,
        config: StreamConfig,
        inherited: &mut Inherited,
    ) -> Result<Option<StreamPort>, ListenError> {
        let local = FaceUri::Unix(path.to_owned());
        let wanted = local.to_string();
        let Some(socket) = inherited.take("unix", |socket| socket.local == wanted).pop() else { return Ok(None) };
        let listener = Listener::unix_of(path, socket)?;
        Ok(Some(StreamPort::new(Kind::Unix, vec![Entrance::new(listener, local)], config)))
    }

    /// A port with one connection and no listener, and the other end of the connection: for an application in the
    /// router's own process. The application uses it as others use theirs. `name` is the path in its face's local URI.
    ///
    /// # Errors
    /// If the system gives no sockets.
    pub fn pair(name: &Path, config: StreamConfig) -> std::io::Result<(StreamPort, std::os::unix::net::UnixStream)> {
        let (near, far) = std::os::unix::net::UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let mut port = StreamPort::new(Kind::Unix, Vec::new(), config);
        port.pair = Some(Newcomer::of_pair(near.into(), FaceUri::Unix(name.to_owned())));
        Ok((port, far))
    }

    /// Listens on these TCP addresses, if any, and connects to TCP peers on request.
    pub fn tcp(addresses: &[SocketAddr], config: StreamConfig) -> Result<StreamPort, ListenError> {
        StreamPort::tcp_inherited(addresses, config, &mut Inherited::default())
    }

    /// Like [`StreamPort::tcp`]. Uses the listeners among `inherited` for their addresses.
    ///
    /// # Errors
    /// If the system refuses an address.
    pub fn tcp_inherited(
        addresses: &[SocketAddr],
        config: StreamConfig,
        inherited: &mut Inherited,
    ) -> Result<StreamPort, ListenError> {
        let mut listen = |address: &SocketAddr| entrance_at(*address, FaceUri::Tcp, "tcp", inherited);
        let entrances = addresses.iter().map(&mut listen).collect::<Result<_, _>>()?;
        Ok(StreamPort::new(Kind::Tcp, entrances, config))
    }

    /// Listens for WebSocket clients on these TCP addresses, if any, and connects to WebSocket servers on request.
    pub fn websocket(addresses: &[SocketAddr], config: StreamConfig) -> Result<StreamPort, ListenError> {
        StreamPort::websocket_inherited(addresses, config, &mut Inherited::default())
    }

    /// Like [`StreamPort::websocket`]. Uses the listeners among `inherited` for their addresses.
    ///
    /// # Errors
    /// If the system refuses an address.
    pub fn websocket_inherited(
        addresses: &[SocketAddr],
        config: StreamConfig,
        inherited: &mut Inherited,
    ) -> Result<StreamPort, ListenError> {
        let mut listen = |address: &SocketAddr| entrance_at(*address, FaceUri::WebSocket, "websocket", inherited);
        let entrances = addresses.iter().map(&mut listen).collect::<Result<_, _>>()?;
        Ok(StreamPort::new(Kind::WebSocket, entrances, config))
    }

    fn new(kind: Kind, entrances: Vec<Entrance>, config: StreamConfig) -> Self {
        StreamPort {
            kind,
            local_clients: Arc::new(LocalClients::new(&config.local_origins)),
            config,
            entrances,
            outer: Vec::new(),
            caller: None,
            dealer: Dealer::default(),
            hand: None,
            pair: None,
            admission: Admission::default(),
            refused: 0,
            slots: Vec::new(),
            free: Vec::new(),
            faces: FaceMap::default(),
            next_serial: 0,
            ready: VecDeque::new(),
            dirty: Vec::new(),
            timers: BinaryHeap::new(),
            queued_bytes: 0,
            waiting: Waiting::default(),
            counts: Counts::default(),
            budget: ReassemblyBudget::default(),
            scratch: vec![0; READ_BYTES.max(FRAME_BYTES_MAX)].into(),
            frames: Vec::new(),
            spare: SpareBuffers::default(),
            rng: rand::make_rng(),
        }
    }

    /// A port for each of `threads` threads. The first one is this port, and deals the connections that it accepts to
    /// all. The ports share the maximum numbers.
    pub fn for_threads(mut self, threads: usize) -> Vec<StreamPort> {
        let (dealer, hands) = Dealer::new(threads - 1);
        let other = |(number, hand): (usize, Hand)| {
            let mut port = StreamPort::new(self.kind, Vec::new(), share(&self.config, number + 1, threads));
            port.hand = Some(hand);
            port
        };
        let others: Vec<StreamPort> = hands.into_iter().enumerate().map(other).collect();
        (self.config, self.dealer) = (share(&self.config, 0, threads), dealer);
        std::iter::once(self).chain(others).collect()
    }

    /// Addresses on which the port listens.
    pub fn local_uris(&self) -> impl Iterator<Item = &FaceUri> {
        self.entrances.iter().map(|entrance| &entrance.local).chain(self.outer.iter().map(|outer| &outer.local))
    }

    /// Bytes that wait for all connections together.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn connection(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Puts a connection into a free slot, and returns the slot, which is the connection's key.
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
            Kind::Unix | Kind::Tcp | Kind::Quic => Codec::Plain(Cutter::default()),
            Kind::WebSocket | Kind::SecureWebSocket => {
                Codec::WebSocket(Box::new(WebSocketCodec::server(Arc::clone(&self.local_clients))))
            }
        }
    }

    /// The codec of another process's connection. `None` if the connection is of another kind than this port's.
    fn codec_of(&self, stream: &StreamRecord) -> Option<Codec> {
        match (self.kind, stream.web_socket) {
            (Kind::Unix | Kind::Tcp, None) => Some(Codec::Plain(Cutter::of(&stream.input))),
            (Kind::WebSocket, Some(record)) => {
                Some(Codec::WebSocket(Box::new(WebSocketCodec::taken_over(record, &stream.input))))
            }
            // A permanent face without a connection.
            (Kind::WebSocket | Kind::SecureWebSocket | Kind::Quic, None) => Some(self.new_codec()),
            _ => None,
        }
    }

    /// Creates the face of a connection.
    fn create_face_of(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let id = cx.create_face_id();
        let Some(connection) = self.connection(slot) else { return };
        connection.face = id;
        if connection.scope == Scope::Local {
            connection.link.mark_early();
        }
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

    /// Sets the timer of a slot, if it is due before the present timer.
    fn schedule(&mut self, slot: u32) {
        let stall_timeout = self.config.stall_timeout;
        let Some(connection) = self.connection(slot) else { return };
        let Some(at) = connection.next_deadline(stall_timeout) else { return };
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
        if connection.hold(now) {
            return self.schedule(slot);
        }
        let queued = connection.queued_bytes();
        let turn = connection.receive(now, &mut self.scratch, packets_max, cx.received(), &mut self.spare);
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

    fn flush_dirty(&mut self, cx: &mut PortContext<'_>) {
        for index in 0..self.dirty.len() {
            let slot = self.dirty[index];
            if let Some(connection) = self.connection(slot) {
                connection.dirty = false;
                self.flush_slot(cx, slot);
            }
        }
        self.dirty.clear();
    }

    fn flush_slot(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let queue_bytes_max = self.config.queue_bytes_max_of(connection.scope);
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
        let settled = connection.is_settled();
        self.note_waiting(slot);
        self.release(slot, cx.now());
        match flushed {
            Ok(true) if settled => self.end(cx, slot, End::Closed),
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
        let needed = outgoing.packet.len() + HEADER_BYTES;
        let has_room = self.queued_bytes + needed <= self.config.queues_bytes_max || self.make_room(cx, slot, needed);
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let queued = connection.queued_bytes();
        let refused = if !connection.is_connected() {
            Some(&mut self.counts.not_connected)
        } else if queued + needed > self.config.queue_bytes_max_of(connection.scope) {
            Some(&mut self.counts.queue_full)
        } else if !has_room {
            Some(&mut self.counts.memory_short)
        } else {
            None
        };
        if let Some(count) = refused {
            *count += 1;
            connection.link.counters.out_drops += 1;
            return;
        }
        let sent = connection.send(cx.now(), outgoing, &mut self.frames, &mut self.spare);
        self.queued_bytes += connection.queued_bytes() - queued;
        if let Err(end) = sent {
            return self.end(cx, slot, end);
        }
        let wants_flush = connection.wants_flush();
        if connection.link.next_deadline().is_some() {
            self.schedule(slot);
        }
        self.mark_dirty(slot);
        if wants_flush {
            self.flush_slot(cx, slot);
        }
    }
}

/// Listens on an address: on the listener of another process if there is one, or else on a new one.
fn entrance_at(
    address: SocketAddr,
    uri: fn(SocketAddr) -> FaceUri,
    port: &str,
    inherited: &mut Inherited,
) -> Result<Entrance, ListenError> {
    // Port 0 is any port.
    let is_same = |uri: FaceUri| match uri {
        FaceUri::Tcp(local) | FaceUri::WebSocket(local) => {
            local.ip() == address.ip() && (address.port() == 0 || local.port() == address.port())
        }
        _ => false,
    };
    let socket = inherited.take(port, |socket| socket.local.parse().is_ok_and(is_same)).pop();
    let listener = match socket {
        Some(socket) => Listener::tcp_of(socket),
        None => Listener::tcp(address)?,
    };
    let local = uri(listener.local_addr().unwrap_or(address));
    Ok(Entrance::new(listener, local))
}

impl Port for StreamPort {
    fn name(&self) -> &str {
        self.kind.word()
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()> {
        for (index, entrance) in self.entrances.iter_mut().enumerate() {
            cx.register(&mut entrance.listener, LISTENER_BIT | index as u32, Interest::READABLE)?;
            // Connections that came before the registration raise no edge.
            entrance.pending = true;
        }
        if let Some(hand) = &self.hand {
            hand.started(cx.waker());
        }
        if let Some(newcomer) = self.pair.take() {
            self.receive_newcomer(cx, newcomer);
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
        !self.ready.is_empty()
            || self.entrances.iter().any(|entrance| entrance.pending)
            || self.hand.as_ref().is_some_and(|hand| !hand.is_empty())
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
        self.flush_dirty(cx);
        self.waiting.give_back_memory(self.queued_bytes);
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
        // Send what is queued; nothing is sent after this.
        self.flush_slot(cx, slot);
        self.end(cx, slot, End::Destroyed);
        true
    }

    fn moves_faces(&self) -> bool {
        true
    }

    fn has_room(&self) -> bool {
        self.connections() < self.config.connections_max
    }

    fn detach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> Option<Box<dyn Any + Send>> {
        self.detach(cx, face).map(|connection| connection as Box<dyn Any + Send>)
    }

    fn attach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId, state: Box<dyn Any + Send>) {
        if let Ok(connection) = state.downcast() {
            self.attach(cx, face, *connection);
        }
    }

    fn shared_sockets(&self) -> Vec<SharedSocket> {
        self.listeners()
    }

    fn hand_over(&self, now: Ticks, face: FaceId) -> Option<HandedFace> {
        self.give(now, face)
    }

    fn take_over(&mut self, cx: &mut PortContext<'_>, face: HandedFace) -> Result<(), HandedFace> {
        self.take(cx, face)
    }

    fn go_on(&mut self, here: bool) {
        for entrance in &mut self.entrances {
            if here {
                entrance.listener.introduce();
            } else {
                entrance.listener.keep_file();
            }
        }
    }

    fn status(&self, _now: Ticks, face: FaceId) -> Option<FaceStatus> {
        let slot = *self.faces.get(&face)?;
        self.slots.get(slot as usize)?.as_deref().map(Connection::status)
    }

    fn set_routed(&mut self, face: FaceId, routed: bool) {
        let Some(&slot) = self.faces.get(&face) else { return };
        if let Some(connection) = self.connection(slot) {
            connection.routed = routed;
            self.note_silent(slot);
        }
    }

    fn channels(&self) -> Vec<String> {
        self.local_uris().map(FaceUri::to_string).collect()
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        let mut drops = self.admission.counts.drops(self.kind);
        drops.extend(self.counts.drops(self.kind));
        drops
    }

    fn closed(&self) -> Vec<(&'static str, u64)> {
        let mut closed = self.counts.closed(self.kind);
        closed.push(self.admission.counts.closed(self.kind));
        closed
    }
}
