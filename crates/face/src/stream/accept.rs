//! How connections come in.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use byname_forward::face_table::{Persistency, Scope};

use super::connection::{Connection, Phase};
use super::socket::{Accepted, Listener};
use super::{Kind, LISTENER_BIT, StreamPort};
use crate::link::LinkService;
use crate::port::PortContext;
use crate::uri::FaceUri;

/// Connections accepted in one round.
const ACCEPTS_PER_ROUND: usize = 64;
/// When the system has no more descriptors, how long until it is asked again.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);

/// A listener of a port.
pub(super) struct Entrance {
    pub(super) listener: Listener,
    pub(super) local: FaceUri,
    /// Connections may wait.
    pub(super) pending: bool,
    /// Connections closed because there were too many already.
    refused: u64,
    /// The system had no descriptor for the last one; said once.
    exhausted: bool,
}

impl Entrance {
    pub(super) fn new(listener: Listener, local: FaceUri) -> Self {
        Entrance { listener, local, pending: false, refused: 0, exhausted: false }
    }
}

impl StreamPort {
    /// Accepts what waits, a bounded number.
    pub(super) fn accept(&mut self, cx: &mut PortContext<'_>) {
        for index in 0..self.entrances.len() {
            if self.entrances[index].pending {
                self.accept_at(cx, index);
            }
        }
    }

    fn accept_at(&mut self, cx: &mut PortContext<'_>, index: usize) {
        for _ in 0..ACCEPTS_PER_ROUND {
            let room = self.connections() < self.config.connections_max;
            let entrance = &mut self.entrances[index];
            match entrance.listener.accept() {
                Ok(accepted) if room => {
                    entrance.exhausted = false;
                    if let Err(error) = self.admit(cx, index, accepted) {
                        tracing::warn!(%error, "cannot watch a connection");
                    }
                }
                Ok(_) => {
                    entrance.refused += 1;
                    if entrance.refused.is_power_of_two() {
                        tracing::warn!(local = %entrance.local, refused = entrance.refused, "too many connections");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    entrance.pending = false;
                    return;
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => {
                    if !std::mem::replace(&mut entrance.exhausted, true) {
                        tracing::warn!(%error, local = %entrance.local, "cannot accept connections");
                    }
                    entrance.pending = false;
                    // There will be no further edge for those that wait already.
                    self.timers.push(Reverse((cx.now() + EXHAUSTED_PAUSE, LISTENER_BIT | index as u32, 0)));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, cx: &mut PortContext<'_>, index: usize, accepted: Accepted) -> io::Result<()> {
        let Accepted { socket, remote, fd } = accepted;
        let local_addr = socket.local_addr();
        let listening = self.entrances[index].local.clone();
        let (remote_uri, local) = match (self.kind, remote, local_addr) {
            (Kind::Tcp, Some(remote), Some(local)) => (FaceUri::Tcp(remote), FaceUri::Tcp(local)),
            (Kind::WebSocket, Some(remote), Some(local)) => {
                (FaceUri::WebSocketClient(remote), FaceUri::WebSocket(local))
            }
            _ => (FaceUri::Fd(fd), listening),
        };
        let link = LinkService::new(self.config.link.clone(), self.budget.clone());
        let mut connection = Connection::new(self.take_serial(), remote_uri, local, link, self.new_codec());
        let local_peer = remote.is_none_or(|addr| addr.ip().to_canonical().is_loopback());
        connection.scope = if local_peer { Scope::Local } else { Scope::NonLocal };
        connection.persistency = Persistency::OnDemand;
        let phase = match self.kind {
            Kind::WebSocket => Phase::Handshake(cx.now() + self.config.connect_timeout),
            Kind::Unix | Kind::Tcp => Phase::Open,
        };
        let slot = self.insert(connection);
        if let Some(connection) = self.connection(slot)
            && let Err(error) = connection.attach(cx, slot, socket, phase)
        {
            self.slots[slot as usize] = None;
            self.free.push(slot);
            return Err(error);
        }
        if phase == Phase::Open {
            self.create_face_of(cx, slot);
        }
        self.mark_ready(slot);
        self.schedule(slot);
        Ok(())
    }
}
