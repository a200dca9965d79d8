//! Accepts connections.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use byname_forward::face_table::{Persistency, Scope};
use rustix::io::Errno;

use super::admission::{Descriptor, Origin};
use super::connection::{Connection, Phase};
use super::dealing::{Hand, Newcomer};
use super::socket::{Accepted, Listener};
use super::{Kind, LISTENER_BIT, StreamPort};
use crate::link::{LinkConfig, LinkService};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// Connections accepted in one round.
const ACCEPTS_PER_ROUND: usize = 64;
/// Pause before the port asks again after the system gave no connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);

/// A listener of a port.
pub(super) struct Entrance {
    pub(super) listener: Listener,
    pub(super) local: FaceUri,
    /// Connections may be waiting.
    pub(super) pending: bool,
    /// The system lacked resources at the last attempt. The warning is logged once.
    exhausted: bool,
}

impl Entrance {
    pub(super) fn new(listener: Listener, local: FaceUri) -> Self {
        Entrance { listener, local, pending: false, exhausted: false }
    }
}

/// Whether this error belongs to one connection that failed before it was accepted, as `accept(2)` passes such errors
/// on. Others may wait behind it.
fn concerns_one_connection(error: &io::Error) -> bool {
    const OF_CONNECTIONS: [Errno; 12] = [
        Errno::INTR,
        Errno::CONNABORTED,
        Errno::CONNRESET,
        Errno::PERM,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NONET,
    ];
    Errno::from_io_error(error).is_some_and(|errno| OF_CONNECTIONS.contains(&errno))
}

impl StreamPort {
    /// Accepts a bounded number of waiting connections.
    pub(super) fn accept(&mut self, cx: &mut PortContext<'_>) {
        for index in 0..self.entrances.len() {
            if self.entrances[index].pending {
                self.accept_at(cx, index);
            }
        }
        for _ in 0..ACCEPTS_PER_ROUND {
            let Some(newcomer) = self.hand.as_ref().and_then(Hand::take) else { return };
            self.receive_newcomer(cx, newcomer);
        }
    }

    fn accept_at(&mut self, cx: &mut PortContext<'_>, index: usize) {
        for _ in 0..ACCEPTS_PER_ROUND {
            let entrance = &mut self.entrances[index];
            match entrance.listener.accept() {
                Ok(accepted) => {
                    entrance.exhausted = false;
                    let newcomer = Newcomer { accepted, listening: entrance.local.clone(), mtu: None };
                    if let Some(stays) = self.dealer.deal(newcomer) {
                        self.receive_newcomer(cx, stays);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    entrance.pending = false;
                    return;
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    // No descriptor or no memory: others must release some first.
                    self.admission.counts.accept_errors += 1;
                    if !std::mem::replace(&mut entrance.exhausted, true) {
                        tracing::warn!(%error, local = %entrance.local, "cannot accept connections; asks again");
                    }
                    entrance.pending = false;
                    // Connections that wait already raise no further edge.
                    self.timers.push(Reverse((cx.now() + EXHAUSTED_PAUSE, LISTENER_BIT | index as u32, 0)));
                    return;
                }
            }
        }
    }

    /// Gives a newcomer a place, or closes it.
    pub(super) fn receive_newcomer(&mut self, cx: &mut PortContext<'_>, newcomer: Newcomer) {
        let origin = newcomer.accepted.remote.as_ref().map(Origin::of);
        let listening = newcomer.listening.clone();
        let Some(descriptor) = self.admit(cx, origin) else {
            self.note_refused(&listening, "there are too many already, and none of them is idle");
            return;
        };
        if let Err(error) = self.settle(cx, newcomer, descriptor) {
            self.admission.counts.accept_errors += 1;
            self.note_refused(&listening, &error.to_string());
        }
    }

    /// Warns when the number of refused newcomers reaches a power of two.
    fn note_refused(&mut self, local: &FaceUri, reason: &str) {
        self.refused += 1;
        if self.refused.is_power_of_two() {
            tracing::warn!(%local, refused = self.refused, "connections are refused: {reason}");
        }
    }

    /// Creates a connection and its face.
    fn settle(
        &mut self,
        cx: &mut PortContext<'_>,
        Newcomer { accepted: Accepted { socket, remote, fd }, listening, mtu }: Newcomer,
        descriptor: Descriptor,
    ) -> io::Result<()> {
        let local_addr = socket.local_addr();
        let (remote_uri, local) = match (self.kind, remote, local_addr) {
            (Kind::Tcp, Some(remote), Some(local)) => (FaceUri::Tcp(remote), FaceUri::Tcp(local)),
            (Kind::WebSocket, Some(remote), Some(local)) => {
                (FaceUri::WebSocketClient(remote), FaceUri::WebSocket(local))
            }
            (Kind::SecureWebSocket, Some(remote), _) => (FaceUri::WebSocketClient(remote), listening),
            (Kind::Quic, Some(remote), _) => (FaceUri::Quic(remote), listening),
            _ => (FaceUri::Fd(fd), listening),
        };
        let link = LinkConfig { mtu, ..self.config.link.clone() };
        let link = LinkService::new(link, self.budget.clone());
        let mut connection = Connection::new(self.take_serial(), remote_uri, local, link, self.new_codec());
        // QUIC's peers are web pages and other routers. A page must not command the router of its reader's host.
        let local_peer = self.kind != Kind::Quic && remote.is_none_or(|addr| addr.ip().to_canonical().is_loopback());
        connection.scope = if local_peer { Scope::Local } else { Scope::NonLocal };
        connection.persistency = Persistency::OnDemand;
        connection.descriptor = Some(descriptor);
        connection.heard = cx.now();
        let phase = match self.kind {
            Kind::WebSocket | Kind::SecureWebSocket => Phase::Handshake(cx.now() + self.config.connect_timeout),
            Kind::Unix | Kind::Tcp | Kind::Quic => Phase::Open,
        };
        let slot = self.insert(connection);
        if let Some(connection) = self.connection(slot) {
            if let Err(error) = connection.attach(cx, slot, socket, phase) {
                self.slots[slot as usize] = None;
                self.free.push(slot);
                return Err(error);
            }
            connection.origin = remote.as_ref().map(Origin::of);
        }
        self.note_admitted(slot);
        if phase == Phase::Open {
            self.create_face_of(cx, slot);
        }
        self.mark_ready(slot);
        self.schedule(slot);
        Ok(())
    }
}
