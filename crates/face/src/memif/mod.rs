//! NDN over memif, the shared-memory packet interface of VPP, libmemif and DPDK's `net_memif`.
//!
//! A port is one interface, with one face to the program at its other end. If both ends have several threads, the
//! interface has several pairs of rings, each with a port and a face of its own (`sharing`). The client connects to the server's control
//! socket, and brings memory with two rings of buffers. From then on a packet costs one copy and no system call
//! ([`rings`]). Either side may go and come back. The face stays, and packets to send are dropped and counted
//! meanwhile. A client tries to connect each [`RETRY_INTERVAL`]; a server waits.
//!
//! A buffer holds one link packet without a header, as in NDN-DPDK and NDNgo ([`Framing`]). The interface still says
//! that it is in Ethernet mode, as theirs do. For a host or a switch at the other end, the packet can be in an Ethernet
//! frame, or in a UDP datagram in such a frame. The URI of the face is our own format, with the same value at both
//! ends: `memif:///run/byname/memif.sock?id=0`, and `memif:///run/byname/memif.sock?id=0&ring=1` for the second ring.
//!
//! While the loop runs it polls the ring, and the peer makes no system call to send. Before the loop sleeps
//! ([`Port::fall_asleep`]), the port asks for interrupts. Some peers check that flag too early, before their packet is
//! visible (libmemif and DPDK have no fence in between). So after packets have come, the port looks at the ring once
//! more a millisecond later.
//!
//! The peer's memory is not trusted: see [`rings`] and [`shared`]. A peer that breaks the rules is disconnected and
//! counted by kind, and may come back after [`RETRY_INTERVAL`]. One attack remains. The peer can make our eventfd
//! blocking and fill its counter between our check and our write. The write then blocks the packet thread until the
//! peer reads the eventfd.

pub mod breach;
mod config;
pub mod connection;
mod framing;
mod further;
pub mod handshake;
mod life;
pub mod message;
mod ring;
pub mod rings;
pub mod shared;
mod sharing;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use byname_forward::face_table::{Persistency, Scope};
use byname_forward::{FaceId, Outgoing, Ticks};
use mio::Interest;
use mio::unix::SourceFd;

use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link::LinkConfig;
use crate::peers::{Peers, Sent, Transport, requested_link_config};
use crate::port::{Port, PortContext, Readiness};
use crate::socket_file::ListenError;
use crate::uri::FaceUri;
use breach::{Breach, Breaches, Ended};
pub use config::{Framing, MemifConfig};
use connection::{Connection, Listener};
use framing::{Arrived, Wrapping};
use further::rings_of;
use handshake::Terms;
pub use rings::Role;
use rings::{Pushed, Rings};
use sharing::Part;

/// Interval of a client's attempts to connect, and time for which a peer that broke the rules is refused.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time that the peer may take until packets flow.
const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// Time after which the ring is checked again after interrupts were requested.
const SECOND_LOOK: Duration = Duration::from_millis(1);
/// Time after which a full ring is tried again.
const SEND_AGAIN: Duration = Duration::from_millis(1);
/// Clients accepted in one round.
const ACCEPTS_PER_ROUND: usize = 16;

const LISTENER_KEY: u32 = 0;
const CONTROL_KEY: u32 = 1;
const INTERRUPT_KEY: u32 = 2;

/// The only peer of an interface.
struct MemifTransport {
    uri: FaceUri,
}

impl Transport for MemifTransport {
    /// There is only one peer.
    type Address = ();
    type Group = ();

    fn group(_: &()) {}

    fn address(&self) {}

    fn remote(&self) -> FaceUri {
        self.uri.clone()
    }

    fn local(&self) -> FaceUri {
        self.uri.clone()
    }
}

/// Counters of frames and clients that were refused.
#[derive(Debug, Default)]
struct Drops {
    breaches: Breaches,
    /// Clients that came while another was connected.
    busy: u64,
    not_ndn: u64,
    /// Frames that were too long, on connections that have ended.
    too_long: u64,
}

/// An interface and its face, or one of an interface's rings and the ring's face.
pub struct MemifPort {
    config: MemifConfig,
    wrapping: Wrapping,
    /// Only for servers.
    listener: Option<Listener>,
    connection: Option<Connection>,
    /// `None` for the only port of an interface.
    part: Option<Part>,
    /// Rings that the first port of the interface has given to this one.
    lent: Option<Rings>,
    /// Whether packets flow.
    up: bool,
    peers: Peers<MemifTransport>,
    /// `None` after management destroyed it, and before a ring after the first is used.
    face: Option<FaceId>,
    /// Whether management has destroyed the face, so that rings do not make it.
    is_unwanted: bool,
    /// Whether the peer's ring was full.
    blocked: bool,
    /// Whether interrupts are requested.
    asked: bool,
    /// Whether packets have come since interrupts were last requested.
    heard: bool,
    /// Time to look at the ring once more.
    look_at: Option<Ticks>,
    /// Time at which a client connects again, or a server accepts again.
    retry_at: Option<Ticks>,
    /// Time by which the peer must have finished connecting.
    up_until: Option<Ticks>,
    /// Time to try a full ring again.
    send_at: Option<Ticks>,
    drops: Drops,
}

impl MemifPort {
    /// Opens the port. A server begins to listen; a client connects once it is started.
    ///
    /// # Errors
    /// If another process listens on the socket, or the system refuses.
    pub fn open(config: MemifConfig) -> Result<Self, ListenError> {
        let listener = listener_of(&config)?;
        Ok(MemifPort::with(config, listener, None))
    }

    /// Opens up to `ports` ports, one for each pair of rings that the interface may have.
    ///
    /// # Errors
    /// As [`MemifPort::open`].
    pub fn open_for_threads(config: MemifConfig, ports: usize) -> Result<Vec<Self>, ListenError> {
        if ports <= 1 {
            return Ok(vec![MemifPort::open(config)?]);
        }
        let mut listener = listener_of(&config)?;
        let port = |part| MemifPort::with(config.clone(), listener.take(), Some(part));
        Ok(Part::of_all(ports).into_iter().map(port).collect())
    }

    fn with(config: MemifConfig, listener: Option<Listener>, part: Option<Part>) -> Self {
        MemifPort {
            wrapping: Wrapping::new(&config),
            config,
            listener,
            connection: None,
            part,
            lent: None,
            up: false,
            peers: Peers::new(0, Duration::MAX),
            face: None,
            is_unwanted: false,
            blocked: false,
            asked: false,
            heard: false,
            look_at: None,
            retry_at: None,
            up_until: None,
            send_at: None,
            drops: Drops::default(),
        }
    }

    /// URI of both ends of the face.
    pub fn uri(&self) -> FaceUri {
        let ring = self.part.as_ref().map_or(0, Part::number);
        FaceUri::Memif { socket: self.config.socket.clone(), id: self.config.id, ring }
    }

    fn terms(&self) -> Terms {
        Terms { pairs: self.part.as_ref().map_or(1, Part::ports), ..self.config.terms() }
    }

    fn rings_ref(&self) -> Option<&Rings> {
        self.lent.as_ref().or_else(|| self.connection.as_ref().and_then(Connection::rings_ref))
    }

    fn scope(&self) -> Scope {
        if self.config.local { Scope::Local } else { Scope::NonLocal }
    }

    fn link_config(&self) -> LinkConfig {
        let mut link = LinkConfig { mtu: Some(self.config.mtu), ..LinkConfig::default() };
        link.flags.congestion_marking = self.config.congestion_marking;
        link
    }

    fn add_face(&mut self, cx: &mut PortContext<'_>, persistency: Persistency, link: LinkConfig) -> FaceId {
        let (uri, scope) = (self.uri(), self.scope());
        let id = self.peers.insert(cx, MemifTransport { uri }, persistency, link, |face| {
            (face.scope, face.up) = (scope, false);
        });
        self.face = Some(id);
        id
    }
}

impl Port for MemifPort {
    fn name(&self) -> &str {
        "memif"
    }

    fn interface(&self) -> Option<String> {
        Some(self.config.interface())
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> io::Result<()> {
        if let Some(part) = &self.part {
            part.start(cx.waker);
            if !part.is_first() {
                return Ok(());
            }
        }
        if let Some(listener) = &self.listener {
            cx.register(&mut SourceFd(&listener.raw_fd()), LISTENER_KEY, Interest::READABLE)?;
        }
        let link = self.link_config();
        self.add_face(cx, Persistency::Permanent, link);
        self.begin(cx);
        Ok(())
    }

    fn ready(&mut self, cx: &mut PortContext<'_>, key: u32, _readiness: Readiness) {
        match key {
            LISTENER_KEY => self.accept(cx),
            CONTROL_KEY => self.advance(cx),
            // An interrupt needs no handling, as the ring itself shows arrivals.
            _ => {}
        }
    }

    fn has_input(&self) -> bool {
        self.up && self.rings_ref().is_some_and(Rings::has_input) || self.part.as_ref().is_some_and(Part::has_changed)
    }

    fn fall_asleep(&mut self, now: Ticks) {
        let rings = self.lent.as_ref().or_else(|| self.connection.as_ref().and_then(Connection::rings_ref));
        let Some(rings) = rings.filter(|_| self.up) else { return };
        if !std::mem::replace(&mut self.asked, true) {
            rings.ask_interrupts();
        }
        if std::mem::take(&mut self.heard) {
            self.look_at = Some(now + SECOND_LOOK);
        }
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        self.follow(cx);
        let MemifPort { wrapping, connection, lent, peers, face, asked, heard, drops, .. } = self;
        let Some(rings) = rings_of(connection, lent) else { return };
        if std::mem::take(asked) {
            rings.stop_interrupts();
        }
        *heard = true;
        let Some(id) = *face else { return };
        let Some(face) = peers.get_mut(id) else { return };
        face.heard = cx.now();
        let received = rings.receive(packets_max, |frame| match wrapping.unwrap(frame) {
            Arrived::Packet(packet) => face.link.receive_owned(cx.now(), id, packet, cx.received()),
            Arrived::Question => {}
            Arrived::Other => drops.not_ndn += 1,
        });
        if face.has_earlier_deadline() {
            peers.schedule(id);
        }
        if let Err(breach) = received.and_then(|_| wrapping.answer(rings)) {
            self.end(cx, Ended::Breach(breach));
        }
    }

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        let (now, wrapping) = (cx.now(), &self.wrapping);
        let rings = rings_of(&mut self.connection, &mut self.lent).filter(|_| self.up && !self.blocked);
        let Some(rings) = rings else {
            return burst.iter_mut().for_each(|outgoing| self.peers.hold(now, outgoing));
        };
        let mut broken = None;
        for outgoing in burst {
            self.peers.send_at_once(now, outgoing, |_, packet| match wrapping.push(rings, (&[], packet)) {
                Ok(pushed) => pushed,
                Err(breach) => {
                    broken = Some(breach);
                    None
                }
            });
        }
        if let Some(breach) = broken {
            self.end(cx, Ended::Breach(breach));
        }
    }

    fn flush(&mut self, cx: &mut PortContext<'_>) {
        if !self.up {
            return;
        }
        let wrapping = &self.wrapping;
        let Some(rings) = rings_of(&mut self.connection, &mut self.lent) else { return };
        if !self.peers.has_queued() {
            return rings.send();
        }
        let mut broken = None;
        let sent = self.peers.flush(|face| {
            let mut done = 0;
            for frame in &face.queue {
                match wrapping.push(rings, frame.parts()) {
                    Ok(Some(Pushed::Done)) => {}
                    Ok(Some(Pushed::Full)) => break,
                    Ok(Some(Pushed::TooLong) | None) => face.link.counters.out_drops += 1,
                    Err(breach) => {
                        broken = Some(breach);
                        break;
                    }
                }
                done += 1;
            }
            face.dequeue(done)
        });
        rings.send();
        self.blocked = sent == Sent::Blocked;
        // No interrupt announces that the peer has taken frames out.
        self.send_at = self.blocked.then(|| cx.now() + SEND_AGAIN);
        if let Some(breach) = broken {
            self.end(cx, Ended::Breach(breach));
        }
    }

    fn has_output(&self) -> bool {
        self.up && self.peers.has_queued()
    }

    fn next_deadline(&self) -> Option<Ticks> {
        let due = [self.peers.next_deadline(), self.look_at, self.retry_at, self.up_until, self.send_at];
        due.into_iter().flatten().min()
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        self.peers.on_deadline(cx);
        let now = cx.now();
        let due = |at: &mut Option<Ticks>| at.take_if(|at| *at <= now).is_some();
        // These deadlines only wake the loop; every round receives and sends.
        due(&mut self.look_at);
        due(&mut self.send_at);
        if due(&mut self.up_until) {
            self.end(cx, Ended::Breach(Breach::Slow));
        }
        if due(&mut self.retry_at) && self.face.is_some() {
            self.begin(cx);
        }
    }

    fn create_face(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        if request.remote != self.uri() || request.local.as_ref().is_some_and(|local| *local != request.remote) {
            return None;
        }
        if let Some(status) = self.face.and_then(|id| self.status(cx.now(), id)) {
            return Some(Err(CreateFaceError::Exists(Box::new(status))));
        }
        let link = match requested_link_config(&self.link_config(), request, self.scope(), self.config.mtu) {
            Ok(link) => link,
            Err(error) => return Some(Err(error)),
        };
        let id = self.add_face(cx, request.persistency, link);
        if self.is_further() {
            self.bring_up(cx);
        } else {
            self.begin(cx);
        }
        self.status(cx.now(), id).map(Ok)
    }

    fn update_face(
        &mut self,
        cx: &mut PortContext<'_>,
        id: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        if change.persistency == Some(Persistency::OnDemand) {
            return Err(UpdateFaceError::Unacceptable("an interface is of the configuration, and stays".into()));
        }
        self.peers.update(cx.now(), id, change, self.config.mtu)
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool {
        if self.face != Some(face) {
            return false;
        }
        self.face = None;
        if self.is_further() {
            // The rings stay, for a face that management may create. Until then nobody takes what comes by them.
            (self.is_unwanted, self.up) = (true, false);
            (self.look_at, self.send_at) = (None, None);
            return self.peers.remove(cx, face);
        }
        if let Some(connection) = &self.connection {
            connection.say_goodbye("the face was destroyed");
        }
        self.end(cx, Ended::Told("management has destroyed the face".into()));
        self.peers.remove(cx, face)
    }

    fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus> {
        self.peers.status(now, face)
    }

    fn channels(&self) -> Vec<String> {
        self.listener.iter().map(|_| self.uri().to_string()).collect()
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        let now = self.rings_ref().map_or(0, |rings| rings.too_long);
        let mut counts = self.drops.breaches.counts().to_vec();
        counts.extend([
            ("memif_busy", self.drops.busy),
            ("memif_not_ndn", self.drops.not_ndn),
            ("memif_too_long", self.drops.too_long + now),
        ]);
        counts
    }
}

/// A server's listener.
fn listener_of(config: &MemifConfig) -> Result<Option<Listener>, ListenError> {
    Ok(match config.role {
        Role::Server => Some(Listener::bind(&config.socket)?),
        Role::Client => None,
    })
}
