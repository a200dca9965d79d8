//! Listeners and connections that pass to another process and come from there.
//!
//! A connection takes along its socket, what its peer has sent in part, its link service and its queued output, as when
//! it moves to another thread (`moving`). An attempt to connect is begun again. A connection without a face, which is
//! in its handshake, stays behind.

use std::os::fd::OwnedFd;
use std::time::Duration;

use byname_forward::face_table::Scope;
use byname_forward::{FaceId, Ticks};

use super::admission::Origin;
use super::connection::{Connection, Phase};
use super::{Kind, StreamPort};
use crate::face::FaceEvent;
use crate::handover::{FaceRecord, HandedFace, PhaseRecord, SharedSocket, SocketRecord, StreamRecord};
use crate::link::LinkService;
use crate::port::{Port, PortContext};
use crate::uri::FaceUri;

impl StreamPort {
    /// Descriptors of its listeners.
    pub(super) fn listeners(&self) -> Vec<SharedSocket> {
        let share = |entrance: &super::Entrance| {
            let record = SocketRecord { port: self.name().to_owned(), local: entrance.local.to_string(), thread: 0 };
            let descriptor = entrance.listener.as_fd().try_clone_to_owned().ok()?;
            Some(SharedSocket { record, descriptor })
        };
        self.entrances
            .iter()
            .filter_map(share)
            .chain(self.outer.iter().filter_map(|outer| outer.share(self.name())))
            .collect()
    }

    /// What another process needs to go on with a face.
    pub(super) fn give(&self, now: Ticks, face: FaceId) -> Option<HandedFace> {
        let connection = self.slots[*self.faces.get(&face)? as usize].as_deref()?;
        // The keys of an encrypted connection are with another thread of this process, and stay there. So a lasting face
        // passes without its connection, and connects again.
        let is_encrypted = matches!(self.kind, Kind::SecureWebSocket | Kind::Quic);
        if is_encrypted && connection.remote_addr().is_none() {
            return None;
        }
        let record = FaceRecord {
            id: face.0,
            thread: 0,
            port: self.name().to_owned(),
            remote: connection.remote.to_string(),
            local: connection.local.to_string(),
            is_local: connection.scope == Scope::Local,
            persistency: crate::handover::persistency_number(connection.persistency),
            counters: [0; 10],
            is_endpoint: false,
            link: connection.link.hand_over(),
            stream: Some(if is_encrypted { unconnected() } else { connection.hand_over(now) }),
            peer: None,
        };
        let socket = connection.socket.as_ref().filter(|_| connection.is_up() && !is_encrypted);
        let descriptor = match socket.map(|socket| socket.as_fd().try_clone_to_owned()) {
            Some(Err(error)) => {
                tracing::warn!(%face, %error, "no descriptor for a face that passes to the new process");
                return None;
            }
            descriptor => descriptor.and_then(Result::ok),
        };
        Some(HandedFace { record: Box::new(record), descriptor })
    }

    /// Goes on with a face of another process. Gives it back if it is of another port, or makes no sense here.
    pub(super) fn take(&mut self, cx: &mut PortContext<'_>, handed: HandedFace) -> Result<(), HandedFace> {
        if handed.record.port != self.name() {
            return Err(handed);
        }
        let Some(mut connection) = self.restore(cx.now(), &handed.record) else { return Err(handed) };
        if connection.is_up() != handed.descriptor.is_some() {
            return Err(handed);
        }
        connection.descriptor =
            handed.descriptor.is_some().then(|| self.config.descriptors.take(connection.origin.is_some())).flatten();
        connection.socket = handed.descriptor.map(|descriptor| self.socket_of(descriptor));
        let face = connection.face;
        cx.report(FaceEvent::Created(connection.status()));
        self.attach(cx, face, connection);
        Ok(())
    }

    fn socket_of(&self, descriptor: OwnedFd) -> super::socket::Socket {
        match self.kind {
            Kind::Unix | Kind::SecureWebSocket | Kind::Quic => super::socket::Socket::unix_of(descriptor),
            Kind::Tcp | Kind::WebSocket => super::socket::Socket::tcp_of(descriptor),
        }
    }

    fn restore(&mut self, now: Ticks, record: &FaceRecord) -> Option<Connection> {
        let stream = record.stream.as_ref()?;
        let (remote, local): (FaceUri, FaceUri) = (record.remote.parse().ok()?, record.local.parse().ok()?);
        let codec = self.codec_of(stream)?;
        let link = LinkService::taken_over(now, &record.link, self.budget.clone());
        let origin = match &remote {
            FaceUri::Tcp(address) | FaceUri::WebSocketClient(address) if stream.accepted => Some(Origin::of(address)),
            _ => None,
        };
        let mut connection = Connection::new(0, remote, local, link, codec);
        connection.face = FaceId(record.id);
        connection.scope = if record.is_local { Scope::Local } else { Scope::NonLocal };
        connection.persistency = record.persistency();
        connection.origin = origin;
        if connection.scope == Scope::Local {
            connection.link.mark_early();
        }
        connection.take_over(now, stream);
        Some(connection)
    }
}

/// A connection that is made at once.
fn unconnected() -> StreamRecord {
    StreamRecord {
        phase: PhaseRecord::Waiting(0),
        accepted: false,
        attempts: 0,
        has_spoken: false,
        input_ended: false,
        silent_ms: 0,
        input: Vec::new(),
        output: Vec::new(),
        frame_at: 0,
        web_socket: None,
    }
}

impl Connection {
    fn hand_over(&self, now: Ticks) -> StreamRecord {
        let left_ms = |at: Ticks| u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX);
        let (output, frame_at) = self.output_left();
        StreamRecord {
            phase: match self.phase {
                Phase::Open => PhaseRecord::Open,
                Phase::Lingering(at) => PhaseRecord::Lingering(left_ms(at)),
                Phase::Waiting(at) => PhaseRecord::Waiting(left_ms(at)),
                // It connects again.
                Phase::Connecting(_) | Phase::Handshake(_) => PhaseRecord::Waiting(0),
            },
            accepted: self.origin.is_some(),
            attempts: self.attempts,
            has_spoken: self.has_spoken(),
            input_ended: self.has_input_ended(),
            silent_ms: u64::try_from(now.since(self.heard).as_millis()).unwrap_or(u64::MAX),
            input: self.codec.input_left().to_vec(),
            output,
            frame_at,
            web_socket: self.codec.web_socket().filter(|_| self.is_up()),
        }
    }

    fn take_over(&mut self, now: Ticks, record: &StreamRecord) {
        let at = |ms: u64| now + Duration::from_millis(ms);
        self.phase = match record.phase {
            PhaseRecord::Open => Phase::Open,
            PhaseRecord::Lingering(ms) => Phase::Lingering(at(ms)),
            PhaseRecord::Waiting(ms) => Phase::Waiting(at(ms)),
        };
        self.attempts = record.attempts;
        // The clock of this process has just begun, so an older time has no number.
        (self.heard, self.since) = (now, now);
        self.set_input(record.has_spoken, record.input_ended, !record.input.is_empty());
        self.set_output(&record.output, record.frame_at);
    }
}
