//! UDP unicast: one socket for each listening address and thread, shared by all faces to its peers.
//!
//! A datagram that looks like NDN, from a peer without a face, creates a face on demand. The number of these faces is
//! bounded (`peers`).
//!
//! Errors of the network never end a face. A refused or too long datagram is dropped and counted.

mod answers;
mod face;
mod faces;
mod interfaces;
mod lending;
mod moving;
pub mod multicast;
mod open_runs;
mod socket;
mod steering;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use byname_forward::dispatch::part_of;
use byname_forward::{FaceId, Outgoing, Ticks};
use mio::Interest;
use mio::unix::SourceFd;
use rustix::net::sockopt;

use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, UpdateFaceError};
use crate::handover::{HandedFace, Inherited, SharedSocket, SocketRecord};
use crate::lent::Lent;
use crate::link;
use crate::peers::Sent;
use crate::port::{Port, PortContext, Readiness};
use crate::system::steer;
use crate::uri::FaceUri;
use faces::{Faces, without_flow};
use open_runs::OpenRuns;
use socket::{BUFFERS_BUSY, DATAGRAM_BYTES_MAX, DatagramSocket, Waiting, route_to};

pub use socket::set_buffer_sizes;
use steering::Steering;

/// Bytes that may wait for one face while the system takes none.
const QUEUE_BYTES_MAX: u64 = 1 << 20;
const SOCKET_KEY: u32 = 0;
/// Consecutive errors after which the socket is left alone until it is ready again.
const RECEIVE_ERRORS_MAX: u32 = 64;

/// Settings of a UDP port.
#[derive(Debug, Clone)]
pub struct UdpConfig {
    /// Address on which to listen. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// Whether unknown peers get a face.
    pub on_demand: bool,
    /// Maximum number of on-demand faces.
    pub on_demand_faces_max: usize,
    /// Time after which an on-demand face without a packet from its peer is removed.
    pub idle_timeout: Duration,
    /// Whether peers on a loopback address count as processes of this host in scope, as for ndnd, or not, as for NFD.
    pub loopback_is_local: bool,
    /// Longest datagram sent, in bytes: [`link::MTU_MIN`] to 65,507. Longer packets are fragmented.
    pub mtu: usize,
    /// Whether on-demand faces mark packets under congestion.
    pub congestion_marking: bool,
    /// Socket buffer size that the system is asked for, in bytes.
    pub socket_buffer_bytes: usize,
}

impl UdpConfig {
    /// Default settings for this address.
    pub fn new(listen: SocketAddr) -> Self {
        UdpConfig {
            listen,
            on_demand: true,
            on_demand_faces_max: 4096,
            idle_timeout: Duration::from_secs(600),
            loopback_is_local: false,
            mtu: byname_wire::PACKET_BYTES_MAX,
            congestion_marking: true,
            socket_buffer_bytes: 8 << 20,
        }
    }
}

/// A socket and the faces on it.
pub struct UdpPort {
    name: &'static str,
    socket: DatagramSocket,
    faces: Faces,
    readable: bool,
    /// Whether there was input since the last flush and more may be there.
    receives: bool,
    blocked: bool,
    open_runs: OpenRuns,
    /// Consecutive receive errors.
    receive_errors: u32,
    /// Number of datagrams after which all have come that were here before the last [`Port::lead_to`].
    before_lead: u64,
}

impl UdpPort {
    /// Binds the socket.
    pub fn bind(config: UdpConfig) -> std::io::Result<Self> {
        let socket = bind_first(&config.listen)?;
        UdpPort::on(socket, config, Steering::alone())
    }

    /// Binds a socket for each of `threads` threads. All datagrams of one peer come to the same thread. The threads
    /// share the maximum of on-demand faces.
    pub fn bind_for_threads(config: UdpConfig, threads: usize) -> std::io::Result<Vec<Self>> {
        UdpPort::bind_inherited(config, threads, &mut Inherited::default())
    }

    /// Like [`UdpPort::bind_for_threads`]. Uses the sockets among `inherited`, if there is one for each thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn bind_inherited(config: UdpConfig, threads: usize, inherited: &mut Inherited) -> std::io::Result<Vec<Self>> {
        let listen = config.listen;
        // Port 0 is any port.
        let is_same = |uri: FaceUri| {
            matches!(uri, FaceUri::Udp(local)
                if local.ip() == listen.ip() && (listen.port() == 0 || local.port() == listen.port()))
        };
        let mut sockets = inherited.take(name_of(&listen), |socket| socket.local.parse().is_ok_and(is_same));
        let are_inherited = sockets.len() == threads;
        if !are_inherited {
            sockets = bind_all(listen, threads)?;
        }
        let steerings = Steering::of_all(&sockets, listen, are_inherited)?;
        let port = |(socket, steering): (_, Steering)| {
            let on_demand_faces_max = part_of(config.on_demand_faces_max, steering.number, threads);
            let config = UdpConfig { on_demand_faces_max, ..config.clone() };
            UdpPort::on(socket, config, steering)
        };
        sockets.into_iter().zip(steerings).map(port).collect()
    }

    fn on(socket: OwnedFd, config: UdpConfig, steering: Steering) -> std::io::Result<Self> {
        let socket = DatagramSocket::new(socket, BUFFERS_BUSY, config.socket_buffer_bytes)?;
        Ok(UdpPort {
            name: name_of(&config.listen),
            faces: Faces::new(config, socket.local(), steering),
            socket,
            readable: false,
            receives: false,
            blocked: false,
            open_runs: OpenRuns::default(),
            receive_errors: 0,
            before_lead: 0,
        })
    }

    /// Address to which the socket is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local()
    }

    /// Puts packets for one of the faces into its run, or into its queue.
    fn send(&mut self, cx: &mut PortContext<'_>, id: FaceId, burst: &mut [Outgoing]) {
        let (now, runs, socket) = (cx.now(), &mut self.open_runs, &mut self.socket);
        let Some(face) = self.faces.peers.get_mut(id) else { return };
        let (mut sent, is_borrowed) = (Sent::All, face.is_borrowed());
        for outgoing in burst {
            // Its owner has another socket, and keeps what must wait.
            if is_borrowed && (self.blocked || sent == Sent::Blocked || !face.needs_no_owner(outgoing)) {
                cx.leave_to_owner(outgoing);
                continue;
            }
            if self.blocked || sent == Sent::Blocked {
                if face.queue_bytes > QUEUE_BYTES_MAX {
                    face.link.counters.out_drops += 1;
                } else {
                    face.send(now, outgoing, face.queue_bytes);
                }
                continue;
            }
            let len = outgoing.packet.len();
            let run = if face.transport.alike && face.queue.is_empty() {
                runs.find((id, &mut face.transport), len, socket.run_max())
            } else {
                None
            };
            match run {
                Some(at) => {
                    face.send_at_once(now, outgoing, |_, datagram| Some(runs.push(at, datagram)));
                    sent = runs.send_if_full(at, face, socket);
                }
                // Frames that only wait for the end of the burst are no congestion.
                None => face.send(now, outgoing, 0),
            }
        }
        face.settle_account();
        if face.link.next_deadline().is_some() {
            self.faces.peers.schedule(id);
        }
        self.faces.peers.mark_dirty(id);
        if sent == Sent::Blocked {
            self.block(cx);
        }
    }

    /// Leaves the socket alone until it takes output again.
    fn block(&mut self, cx: &mut PortContext<'_>) {
        self.blocked = true;
        // Not registered earlier: each datagram that leaves would raise an event.
        let both = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = cx.reregister(&mut SourceFd(&self.socket.raw_fd()), SOCKET_KEY, both) {
            tracing::error!(%error, port = self.name, "cannot wait for the socket to take output");
        }
    }
}

/// Binds a socket for each thread.
fn bind_all(mut listen: SocketAddr, threads: usize) -> std::io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::with_capacity(threads);
    for number in 0..threads {
        sockets.push(if number == 0 { bind_first(&listen)? } else { bind_another(&listen)? });
        if let Ok(local) = rustix::net::getsockname(&sockets[0]).and_then(SocketAddr::try_from) {
            listen = local;
        }
    }
    if let [first, _, ..] = &*sockets {
        steer(first, &steering::program(&listen, threads, None, &[]))?;
    }
    Ok(sockets)
}

/// Name of the port on this address.
fn name_of(listen: &SocketAddr) -> &'static str {
    if listen.is_ipv4() { "udp4" } else { "udp6" }
}

/// Binds the only socket of an address, or the first of several.
fn bind_first(listen: &SocketAddr) -> std::io::Result<OwnedFd> {
    let socket = DatagramSocket::create(listen)?;
    rustix::net::bind(&socket, listen)?;
    // Set after the bind, which must fail if somebody has the port already. An Ethernet port of this process may then
    // get the packets of some peers (`ethernet::silence`). Processes of other users may not.
    sockopt::set_socket_reuseport(&socket, true)?;
    Ok(socket)
}

/// Binds a further socket to an address that this process has.
fn bind_another(listen: &SocketAddr) -> std::io::Result<OwnedFd> {
    let socket = DatagramSocket::create(listen)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, listen)?;
    Ok(socket)
}

impl Port for UdpPort {
    fn name(&self) -> &str {
        self.name
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()> {
        // Datagrams that came before the registration raise no edge.
        self.readable = true;
        self.faces.steering.open(cx.waker(), cx.token_mark());
        cx.register(&mut SourceFd(&self.socket.raw_fd()), SOCKET_KEY, Interest::READABLE)
    }

    fn ready(&mut self, cx: &mut PortContext<'_>, _key: u32, readiness: Readiness) {
        self.readable |= readiness.readable;
        if readiness.writable && self.blocked {
            self.blocked = false;
            let _ = cx.reregister(&mut SourceFd(&self.socket.raw_fd()), SOCKET_KEY, Interest::READABLE);
        }
    }

    fn has_input(&self) -> bool {
        self.readable
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        let (now, mut datagrams) = (cx.now(), 0);
        let mut last: Option<(SocketAddr, FaceId)> = None;
        let (faces, before_lead) = (&mut self.faces, &mut self.before_lead);
        while self.readable && datagrams < packets_max {
            let waiting = self.socket.receive(|meta, mut run| {
                datagrams += run.len();
                *before_lead = before_lead.saturating_sub(run.len() as u64);
                let mut id = last.filter(|(address, _)| *address == meta.addr).map(|(_, id)| id);
                if id.is_none() {
                    let remote = without_flow(meta.addr);
                    id = faces.peers.find(&remote);
                    if id.is_none() && faces.steering.is_of_several() {
                        if faces.receive_foreign(cx, remote, meta.dst_ip, run.clone()) {
                            return;
                        }
                        if faces.expects(&remote) {
                            return faces.keep(run);
                        }
                    }
                    // The first datagram of a stranger that looks like NDN creates a face.
                    while let (None, Some(datagram)) = (id, run.peek()) {
                        if link::is_plausible(datagram) {
                            id = faces.create_on_demand(cx, remote, meta.dst_ip);
                        } else {
                            faces.not_ndn += 1;
                        }
                        if id.is_none() {
                            run.next();
                        }
                    }
                    last = id.map(|id| (meta.addr, id));
                }
                let Some((id, face)) = id.and_then(|id| Some((id, faces.peers.get_mut(id)?))) else { return };
                face.begin_row(now);
                for datagram in run {
                    face.link.receive(now, id, datagram, cx.received());
                }
                face.end_row(id, now, cx.received());
                if face.has_earlier_deadline() {
                    faces.peers.schedule(id);
                }
            });
            match waiting {
                Ok(waiting) => {
                    (self.readable, self.receive_errors) = (waiting != Waiting::Nothing, 0);
                    if waiting == Waiting::Nothing {
                        *before_lead = 0;
                    }
                    // Under constant load some packets will have come when these are handled. Asking for them costs
                    // less than an event.
                    if waiting == Waiting::Perhaps {
                        break;
                    }
                }
                Err(error) => {
                    // The system reports errors of earlier datagrams here, and these end no face. A socket that yields
                    // only errors is left alone until it is ready again.
                    tracing::debug!(%error, port = self.name, "receive");
                    self.receive_errors += 1;
                    self.readable = self.receive_errors < RECEIVE_ERRORS_MAX;
                }
            }
        }
        self.receives = self.readable && datagrams > 0;
    }

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for burst in burst.chunk_by_mut(|a, b| a.face == b.face) {
            self.send(cx, burst[0].face, burst);
        }
    }

    fn flush(&mut self, cx: &mut PortContext<'_>) {
        if self.blocked {
            return;
        }
        let (may_follow, peers) = (std::mem::take(&mut self.receives), &mut self.faces.peers);
        let socket = &mut self.socket;
        if self.open_runs.flush(peers, socket, may_follow) == Sent::Blocked
            || peers.flush(|face| face.send_queued(socket)) == Sent::Blocked
        {
            self.block(cx);
        }
    }

    fn has_output(&self) -> bool {
        self.faces.peers.has_queued() || !self.open_runs.is_empty()
    }

    fn next_deadline(&self) -> Option<Ticks> {
        // These must also be received while nothing is read from sockets.
        if self.faces.steering.has_handed() { Some(Ticks(0)) } else { self.faces.peers.next_deadline() }
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        self.do_due(cx);
    }

    fn create_face(
        &mut self,
        cx: &mut PortContext<'_>,
        request: &FaceRequest,
    ) -> Option<Result<FaceStatus, CreateFaceError>> {
        self.faces.create_by_request(cx, request)
    }

    fn update_face(
        &mut self,
        cx: &mut PortContext<'_>,
        id: FaceId,
        change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        self.faces.peers.update(cx.now(), id, change, DATAGRAM_BYTES_MAX)
    }

    fn destroy_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> bool {
        self.faces.peers.remove(cx, face)
    }

    fn moves_faces(&self) -> bool {
        self.faces.steering.is_of_several()
    }

    fn has_room(&self) -> bool {
        self.faces.peers.has_room()
    }

    fn expect_face(&mut self, remote: Option<&FaceUri>) -> Result<(), String> {
        self.faces.expect(remote)
    }

    fn lead_to(&mut self, face: FaceId, thread: usize) -> Result<(), String> {
        self.lead_face_to(face, thread)
    }

    fn has_received_all(&self) -> bool {
        self.before_lead == 0 && !self.faces.steering.has_handed()
    }

    fn detach_face(&mut self, _cx: &mut PortContext<'_>, face: FaceId) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.detach(face)?))
    }

    fn attach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId, state: Box<dyn Any + Send>) {
        if let Ok(state) = state.downcast() {
            self.faces.attach(cx, face, *state);
        }
    }

    fn lend_face(&mut self, face: FaceId) -> Option<Arc<Lent>> {
        self.faces.lend(face)
    }

    fn borrow_face(&mut self, _cx: &mut PortContext<'_>, face: FaceId, lent: &Lent) -> bool {
        self.faces.borrow(face, lent)
    }

    fn give_back_face(&mut self, face: FaceId) {
        self.give_back(face);
    }

    fn go_on(&mut self, here: bool) {
        match here {
            true => self.faces.steering.go_on_here(),
            false => self.faces.steering.leave_to_another_process(),
        }
    }

    fn shared_sockets(&self) -> Vec<SharedSocket> {
        let (port, local) = (self.name.to_owned(), FaceUri::Udp(self.socket.local()).to_string());
        let record = SocketRecord { port, local, thread: self.faces.thread() };
        let descriptor = self.socket.share();
        descriptor.map(|descriptor| SharedSocket { record, descriptor }).into_iter().collect()
    }

    fn hand_over(&self, now: Ticks, face: FaceId) -> Option<HandedFace> {
        let record = Box::new(self.faces.peers.hand_over(now, face, self.name)?);
        Some(HandedFace { record, descriptor: None })
    }

    fn take_over(&mut self, cx: &mut PortContext<'_>, face: HandedFace) -> Result<(), HandedFace> {
        let is_here = face.record.port == self.name && self.faces.take_over(cx, &face.record);
        if is_here { Ok(()) } else { Err(face) }
    }

    fn set_routed(&mut self, face: FaceId, routed: bool) {
        self.faces.peers.set_routed(face, routed);
    }

    fn status(&self, now: Ticks, face: FaceId) -> Option<FaceStatus> {
        self.faces.peers.status(now, face)
    }

    fn channels(&self) -> Vec<String> {
        vec![FaceUri::Udp(self.socket.local()).to_string()]
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        let (no_face, late, lost) = (self.faces.peers.refused, self.faces.late, self.faces.lost);
        vec![
            ("udp_not_ndn", self.faces.not_ndn),
            ("udp_no_face", no_face),
            ("udp_face_moved", late),
            ("udp_wrong_socket", lost),
        ]
    }
}
