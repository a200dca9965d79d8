//! How connections are made, open, end, and are made again.

use std::time::Duration;

use byname_forward::face_table::Persistency;
use byname_forward::{FaceId, Ticks};
use mio::Interest;
use rand::RngExt;

use super::codec::{Codec, WebSocketCodec};
use super::connection::{End, Phase};
use super::socket::Socket;
use super::{Kind, StreamPort};
use crate::face::{FaceEvent, FaceStatus};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// A connection that held this long makes the next attempt to reconnect an early one again.
const HELD: Duration = Duration::from_secs(10);

impl StreamPort {
    pub(super) fn linger_or_open(&mut self, cx: &mut PortContext<'_>, slot: u32, linger_until: Ticks) {
        let Some(connection) = self.connection(slot) else { return };
        connection.linger(linger_until);
        if connection.just_opened() {
            self.open(cx, slot);
        }
    }

    /// A connection is made, and its handshake done.
    pub(super) fn open(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.phase = Phase::Open;
        connection.since = cx.now();
        if connection.face == FaceId::NONE {
            self.create_face_of(cx, slot);
        } else {
            cx.report(FaceEvent::Up(connection.status()));
        }
    }

    /// Ends a connection: its face goes with it, or, if it is permanent, goes down.
    pub(super) fn end(&mut self, cx: &mut PortContext<'_>, slot: u32, end: End) {
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

    pub(super) fn wait_to_reconnect(&mut self, cx: &mut PortContext<'_>, slot: u32) {
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
    pub(super) fn connect(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
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
    pub(super) fn on_connected(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
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

    /// Does what is due for a connection.
    pub(super) fn on_timer(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
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
