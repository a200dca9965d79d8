//! How connections are made, open, end and reconnect.

use std::time::Duration;

use byname_forward::face_table::{Persistency, Scope};
use byname_forward::{FaceId, Ticks};
use mio::Interest;
use rand::RngExt;

use super::codec::{Codec, Cutter, WebSocketCodec};
use super::connection::{Connection, End, Phase};
use super::door::call;
use super::socket::Socket;
use super::{Kind, StreamPort};
use crate::face::{FaceEvent, FaceStatus};
use crate::port::PortContext;
use crate::uri::FaceUri;

/// A connection that lasted this long resets the reconnect pause.
const HELD: Duration = Duration::from_secs(10);

impl StreamPort {
    pub(super) fn linger_or_open(&mut self, cx: &mut PortContext<'_>, slot: u32, linger_until: Ticks) {
        let Some(connection) = self.connection(slot) else { return };
        connection.linger(linger_until);
        if connection.just_opened() {
            self.open(cx, slot);
        }
    }

    /// Handles a new connection whose handshake is done.
    pub(super) fn open(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        let Some(connection) = self.connection(slot) else { return };
        connection.phase = Phase::Open;
        connection.since = cx.now();
        if connection.face == FaceId::NONE {
            if !connection.codec.may_be_local() {
                connection.scope = Scope::NonLocal;
            }
            self.create_face_of(cx, slot);
            self.report_created(cx, slot);
        } else {
            cx.report(FaceEvent::Up(connection.status()));
        }
    }

    /// Ends a connection. Its face is destroyed, or goes down if it is permanent.
    pub(super) fn end(&mut self, cx: &mut PortContext<'_>, slot: u32, end: End) {
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        tracing::debug!(face = %connection.face, remote = %connection.remote, reason = %end, "connection ended");
        self.forget_output(slot, &end);
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return };
        let destroyed = matches!(end, End::Destroyed);
        if connection.persistency == Persistency::Permanent && !destroyed && connection.remote_addr().is_some() {
            return self.wait_to_reconnect(cx, slot);
        }
        let Some(connection) = self.remove(slot) else { return };
        if connection.face == FaceId::NONE {
            if connection.remote_addr().is_some() {
                cx.report_creation(connection.remote, Err(end.into()));
            }
        } else {
            self.faces.remove(&connection.face);
            let status = FaceStatus { up: false, ..connection.status() };
            cx.report(FaceEvent::Destroyed(status));
        }
    }

    /// Takes a connection out of its slot.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Box<Connection>> {
        let connection = self.slots[slot as usize].take()?;
        self.free.push(slot);
        self.admission.forget(connection.origin);
        Some(connection)
    }

    /// Answers the management command that asked for this face.
    fn report_created(&mut self, cx: &mut PortContext<'_>, slot: u32) {
        if let Some(connection) = self.connection(slot)
            && connection.remote_addr().is_some()
        {
            cx.report_creation(connection.remote.clone(), Ok(connection.status()));
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
        // Spread the attempts of faces that lost their peer together.
        let pause = pause.min(self.config.reconnect_max).mul_f64(self.rng.random_range(0.75..1.0));
        connection.attempts += 1;
        connection.detach(&mut self.spare, codec, Phase::Waiting(cx.now() + pause));
        if was_up {
            cx.report(FaceEvent::Down(connection.status()));
        }
        self.schedule(slot);
    }

    /// Begins to connect a slot that exists already.
    pub(super) fn connect(&mut self, cx: &mut PortContext<'_>, slot: u32, within: Duration) -> Result<(), End> {
        let until = cx.now() + within.min(self.config.connect_timeout);
        let kind = self.kind;
        let Some(connection) = self.connection(slot) else { return Ok(()) };
        let Some(remote) = connection.remote_addr() else { return Ok(()) };
        let descriptor = self.admit_outgoing(cx)?;
        let Some(connection) = self.connection(slot) else { return Ok(()) };
        connection.descriptor = Some(descriptor);
        let socket = match &self.caller {
            Some(caller) => call(caller, remote)?,
            None => Socket::connect(remote)?,
        };
        let Some(connection) = self.connection(slot) else { return Ok(()) };
        if let Some(local) = socket.local_addr() {
            connection.local = match kind {
                Kind::WebSocket => FaceUri::WebSocketClient(local),
                _ => FaceUri::Tcp(local),
            };
        }
        match kind {
            Kind::WebSocket | Kind::SecureWebSocket => {
                connection.codec = Codec::WebSocket(Box::new(WebSocketCodec::client(remote)?));
            }
            Kind::Quic => connection.codec = Codec::Plain(Cutter::after_greeting()),
            Kind::Unix | Kind::Tcp => {}
        }
        connection.attach(cx, slot, socket, Phase::Connecting(until))?;
        self.schedule(slot);
        Ok(())
    }

    /// Handles the end of the system's attempt to connect: a success or a failure.
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
        connection.start_handshake(until, &mut self.spare);
        self.queued_bytes += connection.queued_bytes() - queued;
        if connection.phase == Phase::Open {
            self.open(cx, slot);
        }
        self.mark_dirty(slot);
        self.mark_ready(slot);
        Ok(())
    }

    /// Does what is due for a connection at its timer.
    pub(super) fn on_timer(&mut self, cx: &mut PortContext<'_>, slot: u32) -> Result<(), End> {
        let now = cx.now();
        let Some(connection) = self.slots[slot as usize].as_deref_mut() else { return Ok(()) };
        connection.timer = None;
        if connection.is_stalled(now, self.config.stall_timeout) {
            return Err(End::Stalled);
        }
        match connection.phase {
            Phase::Connecting(at) | Phase::Handshake(at) if at <= now => return Err(End::TimedOut),
            Phase::Lingering(at) if at <= now => return Err(End::Closed),
            Phase::Waiting(at) if at <= now => self.connect(cx, slot, Duration::MAX)?,
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
        self.release(slot, now);
        self.schedule(slot);
        Ok(())
    }
}
