//! One connection: its socket, what is queued for it, and its link service.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use byname_forward::face_table::{FaceCounters, LinkType, Persistency, Scope};
use byname_forward::{FaceId, Outgoing, Received, Ticks};
use byname_wire::tlv::{DecodeError, types};
use mio::Interest;
use thiserror::Error;

use super::codec::{Codec, Left};
use super::socket::Socket;
use crate::face::FaceStatus;
use crate::link::{Frame, LinkService};
use crate::port::{PortContext, Readiness};
use crate::uri::FaceUri;

/// Bytes taken from one connection before others have their turn.
const TURN_BYTES: usize = 128 << 10;
/// Bytes queued from which they are sent before the burst is over.
const FLUSH_BYTES: usize = 128 << 10;
/// Room that a packet's link header is given when the queue is judged.
const HEADER_BYTES: usize = 64;
/// What the codec itself may queue (pongs) beyond the queue's limit before the peer is given up.
const CODEC_OUTPUT_MAX: usize = 64 << 10;
/// Buffers for output that wait for the next burst, and how large they may be.
const SPARE_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(super) enum End {
    #[error("the peer closed it")]
    Closed,
    #[error("it was destroyed")]
    Destroyed,
    #[error("the peer sends no packets: {0}")]
    Garbage(DecodeError),
    #[error("the peer does not read what it asks for")]
    Unread,
    #[error("it took too long")]
    TimedOut,
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("WebSocket: {0}")]
    WebSocket(Box<tungstenite::Error>),
}

impl From<tungstenite::Error> for End {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => End::Closed,
            other => End::WebSocket(Box::new(other)),
        }
    }
}

/// How far a connection is. Times are when that ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The system connects.
    Connecting(Ticks),
    /// The WebSocket handshake is under way.
    Handshake(Ticks),
    /// Packets pass.
    Open,
    /// The peer sends no more, and gets what it is still owed.
    Lingering(Ticks),
    /// A permanent face waits for its next attempt.
    Waiting(Ticks),
}

/// Where a turn of receiving got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// There is nothing more now.
    Done,
    /// There may be more.
    More,
}

/// Buffers for output that nobody uses now: an idle connection holds none.
#[derive(Default)]
pub(super) struct SpareBuffers(Vec<Vec<u8>>);

impl SpareBuffers {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }
    fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

pub(super) struct Connection {
    /// Tells it from others that had its slot.
    pub(super) serial: u64,
    /// Its face; [`FaceId::NONE`] until a handshake is done.
    pub(super) face: FaceId,
    pub(super) remote: FaceUri,
    pub(super) local: FaceUri,
    pub(super) scope: Scope,
    pub(super) persistency: Persistency,
    pub(super) link: LinkService,
    pub(super) phase: Phase,
    pub(super) socket: Option<Socket>,
    pub(super) codec: Codec,
    /// The timer that is set.
    pub(super) timer: Option<Ticks>,
    /// The port has it among those with input.
    pub(super) ready: bool,
    /// The port has it among those with output.
    pub(super) dirty: bool,
    /// Attempts to connect that failed, or did not hold.
    pub(super) attempts: u32,
    /// When the phase began, for judging whether a connection held.
    pub(super) since: Ticks,
    readable: bool,
    /// The input has an end, which is not reached yet.
    closed: bool,
    frames_left: bool,
    blocked: bool,
    input_ended: bool,
    /// Interests of the peer that have no answer yet, about.
    owed: u64,
    out: Vec<u8>,
    out_start: usize,
}

impl Connection {
    pub(super) fn new(serial: u64, remote: FaceUri, local: FaceUri, link: LinkService, codec: Codec) -> Self {
        Connection {
            serial,
            face: FaceId::NONE,
            remote,
            local,
            scope: Scope::NonLocal,
            persistency: Persistency::OnDemand,
            link,
            phase: Phase::Open,
            socket: None,
            codec,
            timer: None,
            ready: false,
            dirty: false,
            attempts: 0,
            since: Ticks(0),
            readable: false,
            closed: false,
            frames_left: false,
            blocked: false,
            input_ended: false,
            owed: 0,
            out: Vec::new(),
            out_start: 0,
        }
    }

    /// The address that it connects to, of TCP and WebSocket faces.
    pub(super) fn remote_addr(&self) -> Option<SocketAddr> {
        match self.remote {
            FaceUri::Tcp(addr) | FaceUri::WebSocket(addr) => Some(addr),
            _ => None,
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn queued_bytes(&self) -> usize {
        self.out.len() - self.out_start
    }

    /// Whether the burst should be sent before it is over.
    pub(super) fn wants_flush(&self) -> bool {
        !self.blocked && self.queued_bytes() > FLUSH_BYTES
    }

    /// Whether packets can leave now.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Lingering(_))
    }

    /// When something is due.
    pub(super) fn next_deadline(&self) -> Option<Ticks> {
        let phase = match self.phase {
            Phase::Open => None,
            Phase::Connecting(at) | Phase::Handshake(at) | Phase::Lingering(at) | Phase::Waiting(at) => Some(at),
        };
        match (phase, self.link.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Takes a socket for a new life, registered under `key`.
    pub(super) fn attach(
        &mut self,
        cx: &PortContext<'_>,
        key: u32,
        mut socket: Socket,
        phase: Phase,
    ) -> io::Result<()> {
        let connecting = matches!(phase, Phase::Connecting(_));
        // A socket that is registered for output raises an event for much of what leaves it.
        let interest = if connecting { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        cx.register(&mut socket, key, interest)?;
        self.socket = Some(socket);
        self.phase = phase;
        self.since = cx.now();
        self.blocked = connecting;
        // What came before registration raises no edge.
        self.readable = !connecting;
        Ok(())
    }

    /// The system has connected: the codec's own handshake begins, if it has one.
    pub(super) fn start_handshake(&mut self, until: Ticks) {
        self.phase = if self.codec.is_open() { Phase::Open } else { Phase::Handshake(until) };
        self.codec.take_output(&mut self.out);
        (self.blocked, self.readable) = (false, true);
    }

    /// Forgets all that belongs to a connection that ended.
    pub(super) fn detach(&mut self, spare: &mut SpareBuffers, codec: Codec, phase: Phase) {
        self.socket = None;
        self.codec = codec;
        self.phase = phase;
        (self.readable, self.closed, self.frames_left) = (false, false, false);
        (self.blocked, self.input_ended) = (false, false);
        self.owed = 0;
        self.out_start = 0;
        spare.give(std::mem::take(&mut self.out));
    }

    /// Notes readiness; whether output is possible again.
    pub(super) fn note(&mut self, readiness: Readiness) -> bool {
        self.readable |= readiness.readable && !self.input_ended;
        self.closed |= readiness.closed;
        let unblocked = self.blocked && readiness.writable;
        self.blocked &= !readiness.writable;
        unblocked
    }

    /// Whether a turn of receiving may find something.
    pub(super) fn has_input(&self) -> bool {
        self.readable || self.frames_left
    }

    /// Whether a peer that had only ended its sending is gone altogether.
    pub(super) fn is_hung_up(&self) -> bool {
        self.input_ended && self.socket.as_ref().is_some_and(|s| s.is_hung_up())
    }

    /// Delivers up to about `packets_max` packets.
    pub(super) fn receive(
        &mut self,
        now: Ticks,
        scratch: &mut [u8],
        packets_max: usize,
        out: &mut Vec<Received>,
    ) -> Result<Turn, End> {
        let before = out.len();
        let turn = self.receive_until_enough(now, scratch, packets_max, out);
        let interests = out[before..].iter().filter(|r| is_interest(&r.packet) && r.fields.nack.is_none()).count();
        self.owed += interests as u64;
        match turn? {
            None => self.end_input(),
            Some(turn) => Ok(turn),
        }
    }

    /// `None`: the peer sends no more.
    fn receive_until_enough(
        &mut self,
        now: Ticks,
        scratch: &mut [u8],
        packets_max: usize,
        out: &mut Vec<Received>,
    ) -> Result<Option<Turn>, End> {
        let (before, mut bytes) = (out.len(), 0);
        loop {
            let mut len = 0;
            if !self.frames_left {
                let Some(socket) = self.socket.as_mut().filter(|_| self.readable) else { return Ok(Some(Turn::Done)) };
                match socket.read(scratch) {
                    Ok(0) => {
                        self.readable = false;
                        return Ok(None);
                    }
                    Ok(read) => {
                        len = read;
                        // Less than asked for is all there was, unless the end comes next: more
                        // will raise another edge.
                        self.readable = read == scratch.len() || self.closed;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.readable = false;
                        return Ok(Some(Turn::Done));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            let (link, face, mut malformed) = (&mut self.link, self.face, 0);
            let left = self.codec.receive(&scratch[..len], &mut malformed, &mut |frame| {
                link.receive(now, face, frame, out);
                out.len() - before < packets_max
            });
            self.link.counters.in_malformed += malformed + u64::from(matches!(left, Err(End::Garbage(_))));
            self.codec.take_output(&mut self.out);
            self.frames_left = left? == Left::Frames;
            bytes += len;
            if out.len() - before >= packets_max || bytes >= TURN_BYTES || self.just_opened() {
                return Ok(Some(Turn::More));
            }
        }
    }

    /// Whether a handshake is done that the port does not know of yet.
    pub(super) fn just_opened(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_)) && self.codec.is_open()
    }

    /// The peer sends no more, but may wait for answers.
    fn end_input(&mut self) -> Result<Turn, End> {
        self.input_ended = true;
        if self.is_settled()
            || self.is_hung_up()
            || self.phase != Phase::Open
            || matches!(self.codec, Codec::WebSocket(_))
        {
            return Err(End::Closed);
        }
        Ok(Turn::Done)
    }

    /// Begins to linger once the peer has ended its sending.
    pub(super) fn linger(&mut self, until: Ticks) -> bool {
        let begins = self.input_ended && self.phase == Phase::Open;
        if begins {
            self.phase = Phase::Lingering(until);
        }
        begins
    }

    /// Whether a peer that sends no more has got all that it waits for.
    pub(super) fn is_settled(&self) -> bool {
        self.input_ended && self.owed == 0 && self.queued_bytes() == 0
    }

    /// Queues a packet; false if it was dropped, because `room` bytes do not hold it.
    pub(super) fn send(
        &mut self,
        now: Ticks,
        outgoing: &mut Outgoing,
        room: usize,
        frames: &mut Vec<Frame>,
        spare: &mut SpareBuffers,
    ) -> Result<bool, End> {
        if matches!(self.phase, Phase::Waiting(_)) || outgoing.packet.len() + HEADER_BYTES > room {
            self.link.counters.out_drops += 1;
            return Ok(false);
        }
        if !is_interest(&outgoing.packet) || outgoing.fields.nack.is_some() {
            self.owed = self.owed.saturating_sub(1);
        }
        // What is queued only until the end of the burst is no congestion.
        let congested = if self.blocked { self.queued_bytes() as u64 } else { 0 };
        self.link.send(now, outgoing, congested, frames);
        self.queue(frames, spare)?;
        Ok(true)
    }

    /// Queues frames, which are gone from `frames` then.
    pub(super) fn queue(&mut self, frames: &mut Vec<Frame>, spare: &mut SpareBuffers) -> Result<(), End> {
        if self.out.capacity() == 0 {
            self.out = spare.take();
        }
        for frame in frames.drain(..) {
            self.codec.send(&frame, &mut self.out)?;
        }
        Ok(())
    }

    /// Sends what is queued, as far as the system takes it; whether it took all.
    pub(super) fn flush(
        &mut self,
        cx: &PortContext<'_>,
        key: u32,
        queue_bytes_max: usize,
        spare: &mut SpareBuffers,
    ) -> Result<bool, End> {
        if self.queued_bytes() > queue_bytes_max + CODEC_OUTPUT_MAX {
            return Err(End::Unread);
        }
        let Some(socket) = self.socket.as_mut().filter(|_| !self.blocked) else {
            return Ok(self.queued_bytes() == 0);
        };
        while self.out_start < self.out.len() {
            match socket.write(&self.out[self.out_start..]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => self.out_start += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.out.drain(..self.out_start);
                    self.out_start = 0;
                    self.blocked = true;
                    cx.reregister(socket, key, Interest::READABLE | Interest::WRITABLE)?;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.out_start = 0;
        self.out.clear();
        spare.give(std::mem::take(&mut self.out));
        Ok(true)
    }

    /// Its face as it is.
    pub(super) fn status(&self) -> FaceStatus {
        let link = self.link.config();
        FaceStatus {
            id: self.face,
            remote: self.remote.clone(),
            local: self.local.clone(),
            scope: self.scope,
            link_type: LinkType::PointToPoint,
            persistency: self.persistency,
            mtu: None,
            flags: link.flags,
            base_congestion_marking_interval_ns: nanoseconds(link.base_congestion_marking_interval),
            default_congestion_threshold_bytes: link.congestion_threshold_bytes,
            expires_in_ms: None,
            up: self.is_up(),
            counters: FaceCounters::default(),
            link: self.link.counters,
        }
    }
}

fn is_interest(packet: &[u8]) -> bool {
    packet.first().is_some_and(|&typ| u64::from(typ) == types::INTEREST)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
