//! One connection: its socket, its output queue and its link service.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use byname_forward::face_table::{FaceCounters, LinkType, Persistency, Scope};
use byname_forward::{FaceId, Outgoing, Received, Ticks};
use byname_wire::tlv::DecodeError;
use mio::Interest;
use thiserror::Error;

use super::admission::{Descriptor, Origin};
use super::codec::{Codec, Left};
use super::output::{Output, PIECE_BYTES, SpareBuffers};
use super::socket::Socket;
use crate::face::FaceStatus;
use crate::link::{Conversation, Frame, LinkService};
use crate::port::{PortContext, Readiness};
use crate::uri::FaceUri;

/// Bytes taken from one connection in one turn.
const TURN_BYTES: usize = 128 << 10;
/// Bytes that the codec itself (pongs) may queue beyond the queue's limit before the connection ends.
const CODEC_OUTPUT_MAX: usize = 64 << 10;
/// Queued bytes at which input of a peer on this host is held back, and at which it is let in again.
const HOLD_BYTES: usize = 64 << 10;
const RELEASE_BYTES: usize = 32 << 10;
/// Input of any peer is held back when its output has not moved for this long.
const UNMOVED: Duration = Duration::from_millis(500);
/// Held input is read after this time without movement of output, then after twice the time, and so on. So a peer makes
/// progress that reads nothing until it has written everything.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Why a connection ended.
#[derive(Debug, Error)]
pub(super) enum End {
    #[error("the peer closed it")]
    Closed,
    #[error("it was destroyed")]
    Destroyed,
    #[error("the peer sends no packets: {0}")]
    Garbage(DecodeError),
    #[error("the peer's first frame is no packet")]
    NoPacket,
    #[error("the peer does not read what it asks for")]
    Unread,
    #[error("it was idle, and made room for another")]
    Yielded,
    #[error("its output stood still for too long: the peer does not read")]
    Stalled,
    #[error("memory for output was short, and the peer does not read")]
    MemoryShort,
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

/// State of a connection, with the time at which the state ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The system is connecting.
    Connecting(Ticks),
    /// The WebSocket handshake is under way.
    Handshake(Ticks),
    /// Packets flow.
    Open,
    /// The peer has ended its sending, and still gets its answers.
    Lingering(Ticks),
    /// A permanent face waits for its next attempt.
    Waiting(Ticks),
}

/// Result of a turn of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// There is no more input now.
    Done,
    /// There may be more input.
    More,
}

pub(super) struct Connection {
    /// Distinguishes this connection from others that had its slot.
    pub(super) serial: u64,
    /// Its share of the process's descriptors.
    pub(super) descriptor: Option<Descriptor>,
    /// Address under which admission counts it; `None` on Unix sockets and for outgoing connections.
    pub(super) origin: Option<Origin>,
    /// Time of the peer's last input.
    pub(super) heard: Ticks,
    /// Routes lead to its face.
    pub(super) routed: bool,
    /// [`FaceId::NONE`] until a handshake is done.
    pub(super) face: FaceId,
    pub(super) remote: FaceUri,
    pub(super) local: FaceUri,
    pub(super) scope: Scope,
    pub(super) persistency: Persistency,
    pub(super) link: LinkService,
    pub(super) phase: Phase,
    pub(super) socket: Option<Socket>,
    pub(super) codec: Codec,
    /// Earliest timer that is set.
    pub(super) timer: Option<Ticks>,
    /// The port's FIFO of slots with input holds it.
    pub(super) ready: bool,
    /// The port's list of slots with output holds it.
    pub(super) dirty: bool,
    /// Attempts to connect that failed or did not last.
    pub(super) attempts: u32,
    /// The peer has sent a whole frame.
    has_spoken: bool,
    /// Start of the phase, to judge whether a connection lasted.
    pub(super) since: Ticks,
    readable: bool,
    /// The input has an end, which is not read yet.
    closed: bool,
    frames_left: bool,
    blocked: bool,
    input_ended: bool,
    output: Output,
    /// Unread bytes that the system held when they were last measured.
    unread: usize,
    /// Bytes that the system has taken since that measurement.
    taken: usize,
    /// Waiting bytes that the port has recorded; 0 if none wait.
    pub(super) waiting: usize,
    /// Time at which the system last took some of the waiting output.
    moved_at: Ticks,
    /// Input is held back until output moves.
    held: bool,
    /// The last input was not only Interests. Such input may let others continue, so it is not held back.
    brings_data: bool,
    /// Time at which held input is read although output does not move.
    probe_at: Ticks,
}

impl Connection {
    pub(super) fn new(serial: u64, remote: FaceUri, local: FaceUri, link: LinkService, codec: Codec) -> Self {
        Connection {
            serial,
            descriptor: None,
            origin: None,
            heard: Ticks(0),
            routed: false,
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
            has_spoken: false,
            since: Ticks(0),
            readable: false,
            closed: false,
            frames_left: false,
            blocked: false,
            input_ended: false,
            output: Output::default(),
            unread: 0,
            taken: 0,
            waiting: 0,
            moved_at: Ticks(0),
            held: false,
            brings_data: false,
            probe_at: Ticks(0),
        }
    }

    /// Address that it connects to, unless its peer has connected.
    pub(super) fn remote_addr(&self) -> Option<SocketAddr> {
        // Both ends of a face over QUIC have URIs of one form.
        self.remote.connects_to().filter(|_| self.origin.is_none() || !matches!(self.remote, FaceUri::Quic(_)))
    }

    /// Bytes in the queue.
    pub(super) fn queued_bytes(&self) -> usize {
        self.output.len()
    }

    /// Bytes left in the queue after the system took no more.
    pub(super) fn waiting_bytes(&self) -> usize {
        if self.blocked && self.is_up() { self.output.len() } else { 0 }
    }

    /// Whether to send before the burst ends.
    pub(super) fn wants_flush(&self) -> bool {
        !self.blocked && self.queued_bytes() > PIECE_BYTES
    }

    /// Whether packets can leave now.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Lingering(_))
    }

    /// Earliest time at which something is due.
    pub(super) fn next_deadline(&self, stall_timeout: Duration) -> Option<Ticks> {
        let phase = match self.phase {
            Phase::Open => None,
            Phase::Connecting(at) | Phase::Handshake(at) | Phase::Lingering(at) | Phase::Waiting(at) => Some(at),
        };
        let stall = (self.waiting > 0).then(|| self.moved_at + stall_timeout);
        let probe = self.held.then_some(self.probe_at);
        [phase, self.link.next_deadline(), stall, probe].into_iter().flatten().min()
    }

    /// Whether waiting output has not moved for too long.
    pub(super) fn is_stalled(&self, now: Ticks, stall_timeout: Duration) -> bool {
        self.waiting > 0 && self.moved_at + stall_timeout <= now
    }

    /// Attaches a new socket, and registers it under `key`.
    pub(super) fn attach(
        &mut self,
        cx: &PortContext<'_>,
        key: u32,
        mut socket: Socket,
        phase: Phase,
    ) -> io::Result<()> {
        let connecting = matches!(phase, Phase::Connecting(_));
        // A socket that is registered for output raises an event for most bytes that leave it.
        let interest = if connecting { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        cx.register(&mut socket, key, interest)?;
        self.socket = Some(socket);
        self.phase = phase;
        self.since = cx.now();
        self.blocked = connecting;
        // Input that came before the registration raises no edge.
        self.readable = !connecting;
        Ok(())
    }

    /// Registers the socket of a connection that comes from another thread under `key`.
    pub(super) fn resume(&mut self, cx: &PortContext<'_>, key: u32) -> io::Result<()> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let interest = if self.blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        cx.register(socket, key, interest)?;
        // Input that came before the registration raises no edge.
        self.readable = !self.input_ended && !matches!(self.phase, Phase::Connecting(_));
        Ok(())
    }

    /// Whether the peer has sent a whole frame.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Whether the end of the peer's input was read.
    pub(super) fn has_input_ended(&self) -> bool {
        self.input_ended
    }

    /// The bytes that wait, and the offset at which the first whole frame among them begins.
    pub(super) fn output_left(&self) -> (Vec<u8>, usize) {
        self.output.left(|bytes| self.codec.frame_len(bytes))
    }

    /// Sets the state of the input of a connection that comes from another process.
    pub(super) fn set_input(&mut self, has_spoken: bool, input_ended: bool, frames_left: bool) {
        (self.has_spoken, self.input_ended, self.frames_left) = (has_spoken, input_ended, frames_left);
    }

    /// Sets the output of a connection that comes from another process.
    pub(super) fn set_output(&mut self, bytes: &[u8], frame_at: usize) {
        self.output = Output::of(bytes, frame_at);
    }

    /// Begins the codec's handshake, if it has one, after the system has connected.
    pub(super) fn start_handshake(&mut self, until: Ticks, spare: &mut SpareBuffers) {
        self.phase = if self.codec.is_open() { Phase::Open } else { Phase::Handshake(until) };
        self.codec.take_output(self.output.tail(spare));
        self.output.protect();
        (self.blocked, self.readable) = (false, true);
    }

    /// Resets the state of a connection that ended.
    pub(super) fn detach(&mut self, spare: &mut SpareBuffers, codec: Codec, phase: Phase) {
        self.socket = None;
        self.descriptor = None;
        self.codec = codec;
        self.phase = phase;
        (self.readable, self.closed, self.frames_left) = (false, false, false);
        (self.blocked, self.input_ended, self.has_spoken) = (false, false, false);
        (self.held, self.brings_data) = (false, false);
        (self.unread, self.taken) = (0, 0);
        self.link.conversation = Conversation::default();
        self.output.clear(spare);
    }

    /// Records readiness. Returns whether output has just become possible again.
    pub(super) fn note(&mut self, readiness: Readiness) -> bool {
        self.readable |= readiness.readable && !self.input_ended;
        self.closed |= readiness.closed;
        let unblocked = self.blocked && readiness.writable;
        self.blocked &= !readiness.writable;
        unblocked
    }

    /// Whether a turn of receiving may find input.
    pub(super) fn has_input(&self) -> bool {
        (self.readable || self.frames_left) && !self.held
    }

    /// Decides whether input must wait because the peer does not read its answers; see [`super`].
    pub(super) fn hold(&mut self, now: Ticks) -> bool {
        if !self.blocked || !self.is_up() || self.brings_data {
            return false;
        }
        let unmoved = now.since(self.moved_at);
        let is_full = self.scope == Scope::Local && self.queued_bytes() >= HOLD_BYTES;
        if !is_full && unmoved < UNMOVED {
            return false;
        }
        self.held = now < self.probe_at;
        if !self.held {
            self.probe_at = now + unmoved.max(PROBE_INTERVAL);
        }
        self.held
    }

    /// Lets held input in again if it may continue. Returns whether it did.
    pub(super) fn release(&mut self, now: Ticks) -> bool {
        if !self.held {
            return false;
        }
        let flows = !self.blocked
            || if self.scope == Scope::Local {
                self.queued_bytes() <= RELEASE_BYTES
            } else {
                now.since(self.moved_at) < UNMOVED
            };
        self.held = !flows && now < self.probe_at;
        !self.held
    }

    /// Whether the peer has closed both directions, after it ended its sending.
    pub(super) fn is_hung_up(&self) -> bool {
        self.input_ended && self.socket.as_ref().is_some_and(|s| s.is_hung_up())
    }

    /// Delivers about `packets_max` packets at most.
    pub(super) fn receive(
        &mut self,
        now: Ticks,
        scratch: &mut [u8],
        packets_max: usize,
        out: &mut Vec<Received>,
        spare: &mut SpareBuffers,
    ) -> Result<Turn, End> {
        self.heard = now;
        let (before, unanswered_before) = (out.len(), self.link.conversation.unanswered());
        let turn = self.receive_until_enough(now, scratch, packets_max, out);
        self.take_codec_output(spare);
        let (packets, interests) = (out.len() - before, self.link.conversation.unanswered() - unanswered_before);
        if packets > 0 {
            self.brings_data = interests < packets as u64;
        }
        match turn? {
            None => self.end_input(),
            Some(turn) => Ok(turn),
        }
    }

    /// Queues output of the codec itself.
    fn take_codec_output(&mut self, spare: &mut SpareBuffers) {
        if self.codec.has_output() {
            self.codec.take_output(self.output.tail(spare));
            if !self.is_up() {
                self.output.protect();
            }
        }
    }

    /// Reads and delivers packets. Returns `None` at the end of the peer's input.
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
                        // A short read has emptied the socket, and later input raises a new edge. But the end of input
                        // raises no further edge.
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
            // Judge the first frame before the next one is delivered.
            let (has_spoken, mut frames) = (self.has_spoken, 0);
            let malformed_before = link.counters.in_malformed;
            let left = self.codec.receive(&scratch[..len], &mut malformed, &mut |frame| {
                link.receive(now, face, frame, out);
                frames += 1;
                has_spoken && out.len() - before < packets_max
            });
            self.link.counters.in_malformed += malformed + u64::from(matches!(left, Err(End::Garbage(_))));
            self.frames_left = left? == Left::Frames;
            if !has_spoken && frames > 0 {
                self.check_first_frame(malformed_before)?;
            }
            bytes += len;
            if out.len() - before >= packets_max || bytes >= TURN_BYTES || self.just_opened() {
                return Ok(Some(Turn::More));
            }
        }
    }

    /// Ends a plain stream whose first frame is malformed: its peer does not speak NDN.
    ///
    /// A web page can make its browser send an HTTP request here. A page that reaches us by its own host name chooses
    /// the method and most headers. It could make these look like link packets, up to the request's body, which may
    /// hold any bytes. But the characters that HTTP allows in a method cannot form a well-formed link packet.
    fn check_first_frame(&mut self, malformed_before: u64) -> Result<(), End> {
        self.has_spoken = true;
        let is_malformed = self.link.counters.in_malformed > malformed_before;
        if is_malformed && matches!(self.codec, Codec::Plain(_)) {
            return Err(End::NoPacket);
        }
        Ok(())
    }

    /// Whether a handshake has completed that the port has not handled yet.
    pub(super) fn just_opened(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_)) && self.codec.is_open()
    }

    /// Handles the end of the peer's input. The peer may still wait for answers.
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

    /// Whether some of the peer's Interests have no answer yet, approximately.
    pub(super) fn waits_for_answers(&self) -> bool {
        self.link.conversation.unanswered() > 0
    }

    /// Begins to linger if the peer has ended its sending. Returns whether it began.
    pub(super) fn linger(&mut self, until: Ticks) -> bool {
        let begins = self.input_ended && self.phase == Phase::Open;
        if begins {
            self.phase = Phase::Lingering(until);
        }
        begins
    }

    /// Whether a peer that has ended its sending has got all its answers.
    pub(super) fn is_settled(&self) -> bool {
        self.input_ended && !self.waits_for_answers() && self.queued_bytes() == 0
    }

    /// Whether packets may be queued. A face that waits for its next attempt to connect has no queue.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.phase, Phase::Waiting(_))
    }

    /// Queues a packet.
    pub(super) fn send(
        &mut self,
        now: Ticks,
        outgoing: &mut Outgoing,
        frames: &mut Vec<Frame>,
        spare: &mut SpareBuffers,
    ) -> Result<(), End> {
        if !self.dirty {
            self.look_for_unread();
        }
        // While the socket takes output, bytes queued or written in this round are no congestion.
        let congested = self.unread + if self.blocked { self.queued_bytes() } else { 0 };
        self.link.send(now, outgoing, congested as u64, frames);
        self.queue(frames, spare)
    }

    /// Measures what the peer has not read. Does nothing while that must be below the congestion threshold.
    fn look_for_unread(&mut self) {
        let most = self.unread + self.taken;
        if self.link.config().congestion_threshold_bytes < most as u64
            && let Some(socket) = &self.socket
        {
            (self.unread, self.taken) = (socket.unread_bytes().unwrap_or(0), 0);
        }
    }

    /// Queues all of `frames`, and empties it.
    pub(super) fn queue(&mut self, frames: &mut Vec<Frame>, spare: &mut SpareBuffers) -> Result<(), End> {
        for frame in frames.drain(..) {
            self.codec.send(&frame, self.output.tail(spare))?;
        }
        Ok(())
    }

    /// Sends the queue until the system takes no more. Returns whether the queue is empty.
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
            return Ok(self.output.is_empty());
        };
        let queued = self.output.len();
        let wrote_all = self.output.write_to(socket, spare)?;
        self.taken += queued - self.output.len();
        if wrote_all {
            return Ok(true);
        }
        let codec = &self.codec;
        self.output.settle(|bytes| codec.frame_len(bytes), spare);
        if self.output.len() < queued || self.waiting == 0 {
            self.moved_at = cx.now();
            self.probe_at = self.moved_at + PROBE_INTERVAL;
        }
        self.blocked = true;
        cx.reregister(socket, key, Interest::READABLE | Interest::WRITABLE)?;
        Ok(false)
    }

    /// Drops the newer half of its output. Returns the number of dropped packets.
    pub(super) fn yield_half(&mut self) -> u64 {
        let codec = &self.codec;
        let frames = self.output.shed(self.output.len() / 2, |bytes| codec.frame_len(bytes));
        self.link.counters.out_drops += frames;
        frames
    }

    /// Counts the packets still queued as drops.
    pub(super) fn count_unsent(&mut self) -> u64 {
        let codec = &self.codec;
        let frames = self.output.frames(|bytes| codec.frame_len(bytes));
        self.link.counters.out_drops += frames;
        frames
    }

    /// Status of its face.
    pub(super) fn status(&self) -> FaceStatus {
        let link = self.link.config();
        FaceStatus {
            id: self.face,
            thread: 0,
            remote: self.remote.clone(),
            local: self.local.clone(),
            scope: self.scope,
            link_type: LinkType::PointToPoint,
            networks: None,
            persistency: self.persistency,
            mtu: link.mtu.and_then(|mtu| u64::try_from(mtu).ok()),
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
