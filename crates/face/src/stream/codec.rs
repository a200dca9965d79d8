//! How packets lie in a stream: one after the other, or in WebSocket messages. Does no I/O.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byname_wire::lp::FRAME_BYTES_MAX;
use byname_wire::tlv::{self, DecodeError};
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::handshake::server::ServerHandshake;
use tungstenite::handshake::{HandshakeError, HandshakeRole, MidHandshake};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

use super::browser::{Judge, LocalClients};
use super::connection::End;
use super::input_log::InputLog;
use crate::handover::WebSocketRecord;
use crate::link::{Frame, is_plausible};

/// Longest WebSocket message, in bytes. Several packets may share a message.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the read buffer that each WebSocket connection keeps.
const WEBSOCKET_READ_BYTES: usize = 8 << 10;
/// An empty buffer with more capacity gives its memory back.
const KEPT_BYTES: usize = 4 << 10;

/// Cuts a stream into frames, and puts frames into a stream.
pub(super) enum Codec {
    /// Elements back to back.
    Plain(Cutter),
    /// RFC 6455.
    WebSocket(Box<WebSocketCodec>),
}

/// Result of a call: whether frames may be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Perhaps frames: call again without new bytes.
    Frames,
    /// No whole frame: more bytes are needed.
    Nothing,
}

impl Codec {
    /// Takes in all of `bytes`, and yields frames while `frame` returns true. Adds the number of skipped messages to
    /// `malformed`.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        malformed: &mut u64,
        frame: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Left, End> {
        match self {
            Codec::Plain(cutter) => cutter.receive(bytes, frame).map_err(End::Garbage),
            Codec::WebSocket(codec) => codec.receive(bytes, malformed, frame),
        }
    }

    /// Appends a frame to `out`.
    pub(super) fn send(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Result<(), End> {
        match self {
            Codec::Plain(_) => frame.write_to(out),
            Codec::WebSocket(codec) => codec.send(frame, out)?,
        }
        Ok(())
    }

    /// Appends output of the codec itself: handshake, pongs, close frames.
    pub(super) fn take_output(&mut self, out: &mut Vec<u8>) {
        if let Codec::WebSocket(codec) = self
            && let Some(stream) = codec.stream()
        {
            out.append(&mut stream.output);
        }
    }

    /// Whether [`Codec::take_output`] has something.
    pub(super) fn has_output(&mut self) -> bool {
        match self {
            Codec::Plain(_) => false,
            Codec::WebSocket(codec) => codec.stream().is_some_and(|stream| !stream.output.is_empty()),
        }
    }

    /// Length of the frame at the start of `output`, which [`Codec::send`] or [`Codec::take_output`] wrote.
    pub(super) fn frame_len(&self, output: &[u8]) -> usize {
        let len = match self {
            Codec::Plain(_) => tlv::element_len(output, FRAME_BYTES_MAX).ok().flatten(),
            Codec::WebSocket(_) => websocket_frame_len(output),
        };
        len.map_or(output.len(), |len| len.min(output.len()))
    }

    /// Bytes that were taken in and have not been yielded as frames.
    pub(super) fn input_left(&self) -> &[u8] {
        match self {
            Codec::Plain(cutter) => &cutter.pending[cutter.start..],
            Codec::WebSocket(codec) => codec.log.bytes(),
        }
    }

    /// The kind of WebSocket, if it is one.
    pub(super) fn web_socket(&self) -> Option<WebSocketRecord> {
        let Codec::WebSocket(codec) = self else { return None };
        Some(WebSocketRecord { is_server: codec.is_server, may_be_local: self.may_be_local() })
    }

    /// Whether packets can be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Codec::Plain(cutter) => !cutter.awaits_greeting,
            Codec::WebSocket(codec) => matches!(codec.phase, Phase::Open(_)),
        }
    }

    /// Whether the peer may be local: it is not a web page in a browser, and not a proxy's client. Known once the codec
    /// is open.
    pub(super) fn may_be_local(&self) -> bool {
        match self {
            Codec::Plain(_) => true,
            Codec::WebSocket(codec) => codec.may_be_local.load(Ordering::Relaxed),
        }
    }
}

/// Cuts elements out of a stream.
#[derive(Default)]
pub(super) struct Cutter {
    pending: Vec<u8>,
    start: usize,
    /// One byte, of any value, comes before the elements ([`super::Call`]).
    awaits_greeting: bool,
}

impl Cutter {
    /// A cutter that has taken in these bytes already.
    pub(super) fn of(input: &[u8]) -> Self {
        Cutter { pending: input.to_vec(), ..Cutter::default() }
    }

    /// A cutter of a stream that is open once a first byte has come.
    pub(super) fn after_greeting() -> Self {
        Cutter { awaits_greeting: true, ..Cutter::default() }
    }

    fn receive(&mut self, bytes: &[u8], frame: &mut dyn FnMut(&[u8]) -> bool) -> Result<Left, DecodeError> {
        if self.awaits_greeting && !bytes.is_empty() {
            self.awaits_greeting = false;
            // The port must handle the opening before packets flow.
            self.pending.extend_from_slice(&bytes[1..]);
            return Ok(if bytes.len() > 1 { Left::Frames } else { Left::Nothing });
        }
        if self.start == self.pending.len() {
            // The common case: frames come directly from the caller's buffer.
            self.pending.clear();
            let (used, left) = cut(bytes, frame)?;
            self.start = 0;
            if used == bytes.len() && self.pending.capacity() > KEPT_BYTES {
                self.pending = Vec::new();
            }
            self.pending.extend_from_slice(&bytes[used..]);
            return Ok(left);
        }
        if !bytes.is_empty() {
            self.pending.drain(..self.start);
            self.start = 0;
            self.pending.extend_from_slice(bytes);
        }
        let (used, left) = cut(&self.pending[self.start..], frame)?;
        self.start += used;
        Ok(left)
    }
}

/// Yields whole elements. Returns the number of bytes used, and what is left.
fn cut(bytes: &[u8], frame: &mut dyn FnMut(&[u8]) -> bool) -> Result<(usize, Left), DecodeError> {
    let mut used = 0;
    loop {
        let rest = &bytes[used..];
        if rest.len() >= 2 && !is_plausible(rest) {
            return Err(DecodeError::UnexpectedCritical(u64::from(rest[0])));
        }
        let Some(len) = tlv::element_len(rest, FRAME_BYTES_MAX)? else { return Ok((used, Left::Nothing)) };
        used += len;
        if !frame(&rest[..len]) {
            return Ok((used, Left::Frames));
        }
    }
}

/// Length of a WebSocket frame with its header [RFC 6455, section 5.2].
pub(super) fn websocket_frame_len(bytes: &[u8]) -> Option<usize> {
    let second = *bytes.get(1)?;
    let mask_len = if second & 0x80 == 0 { 0 } else { 4 };
    let (header_len, payload_len) = match second & 0x7f {
        126 => (4, u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into()),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        short => (2, short.into()),
    };
    usize::try_from(payload_len).ok()?.checked_add(header_len + mask_len)
}

/// Buffers that a WebSocket reads from and writes to. The connection does the I/O.
#[derive(Default)]
pub(super) struct BufferStream {
    input: Vec<u8>,
    start: usize,
    output: Vec<u8>,
}

impl BufferStream {
    fn push(&mut self, bytes: &[u8]) {
        self.input.drain(..self.start);
        self.start = 0;
        self.input.extend_from_slice(bytes);
    }
}

impl Read for BufferStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.input[self.start..];
        if rest.is_empty() {
            if self.input.capacity() > KEPT_BYTES {
                (self.input, self.start) = (Vec::new(), 0);
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.start += len;
        Ok(len)
    }
}

impl Write for BufferStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A WebSocket over buffers.
pub(super) struct WebSocketCodec {
    phase: Phase,
    is_server: bool,
    /// Input that has not led to a message yet.
    log: InputLog,
    /// See [`Codec::may_be_local`].
    may_be_local: Arc<AtomicBool>,
}

enum Phase {
    Accepting(MidHandshake<ServerHandshake<BufferStream, Judge>>),
    Connecting(MidHandshake<ClientHandshake<BufferStream>>),
    Open(WebSocket<BufferStream>),
    /// Only during a transition, and after a failed handshake.
    Gone,
}

impl WebSocketCodec {
    /// The server's end. Accepts any path, and any subprotocol that needs no answer.
    pub(super) fn server(clients: Arc<LocalClients>) -> Self {
        let may_be_local = Arc::<AtomicBool>::default();
        let judge = Judge { clients, local: Arc::clone(&may_be_local) };
        let start = ServerHandshake::start(BufferStream::default(), judge, Some(websocket_config()));
        WebSocketCodec { phase: Phase::Accepting(start), is_server: true, log: InputLog::default(), may_be_local }
    }

    /// The client's end. Its request is queued at once.
    pub(super) fn client(remote: SocketAddr) -> Result<Self, End> {
        let request = tungstenite::client::IntoClientRequest::into_client_request(format!("ws://{remote}/"))?;
        let start = ClientHandshake::start(BufferStream::default(), request, Some(websocket_config()))?;
        let (phase, may_be_local) = (Phase::Connecting(start), Arc::new(true.into()));
        let mut codec = WebSocketCodec { phase, is_server: false, log: InputLog::default(), may_be_local };
        codec.shake_hands()?;
        Ok(codec)
    }

    /// An open WebSocket of another process, which had this input that led to no message yet.
    pub(super) fn taken_over(record: WebSocketRecord, input: &[u8]) -> Self {
        let WebSocketRecord { is_server, may_be_local } = record;
        let role = if is_server { Role::Server } else { Role::Client };
        let config = Some(websocket_config());
        let socket = WebSocket::from_partially_read(BufferStream::default(), input.to_vec(), role, config);
        WebSocketCodec {
            phase: Phase::Open(socket),
            is_server,
            log: InputLog::of(input),
            may_be_local: Arc::new(may_be_local.into()),
        }
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        malformed: &mut u64,
        frame: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Left, End> {
        if let Some(stream) = self.stream() {
            stream.push(bytes);
        }
        self.log.push(bytes);
        if !matches!(self.phase, Phase::Open(_)) {
            self.shake_hands()?;
            if matches!(self.phase, Phase::Open(_)) {
                self.log.end_handshake();
            }
            // The port must handle the opening before packets flow.
            return Ok(if matches!(self.phase, Phase::Open(_)) { Left::Frames } else { Left::Nothing });
        }
        let Phase::Open(socket) = &mut self.phase else { return Ok(Left::Nothing) };
        loop {
            let message = match socket.read() {
                Ok(Message::Binary(message)) => message,
                Ok(Message::Text(_)) => {
                    self.log.end_message();
                    *malformed += 1;
                    continue;
                }
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_)) => {
                    self.log.end_control();
                    continue;
                }
                Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Left::Nothing);
                }
                Err(error) => return Err(error.into()),
            };
            self.log.end_message();
            // A message is bounded, so hand out all of it and keep nothing.
            let mut wants_more = true;
            let cut = cut(&message, &mut |element| {
                wants_more = frame(element);
                true
            });
            if cut.is_err() || cut.is_ok_and(|(used, _)| used != message.len()) {
                *malformed += 1;
            }
            if !wants_more {
                return Ok(Left::Frames);
            }
        }
    }

    fn send(&mut self, frame: &Frame, out: &mut Vec<u8>) -> Result<(), End> {
        let Phase::Open(socket) = &mut self.phase else { return Ok(()) };
        let mut message = Vec::with_capacity(frame.len());
        frame.write_to(&mut message);
        socket.write(Message::binary(message))?;
        socket.flush()?;
        out.append(&mut socket.get_mut().output);
        Ok(())
    }

    fn stream(&mut self) -> Option<&mut BufferStream> {
        match &mut self.phase {
            Phase::Accepting(handshake) => Some(handshake.get_mut().get_mut()),
            Phase::Connecting(handshake) => Some(handshake.get_mut().get_mut()),
            Phase::Open(socket) => Some(socket.get_mut()),
            Phase::Gone => None,
        }
    }

    fn shake_hands(&mut self) -> Result<(), End> {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Accepting(handshake) => match advance(handshake)? {
                Ok(socket) => Phase::Open(socket),
                Err(handshake) => Phase::Accepting(handshake),
            },
            Phase::Connecting(handshake) => match advance(handshake)? {
                Ok((socket, _)) => Phase::Open(socket),
                Err(handshake) => Phase::Connecting(handshake),
            },
            other => other,
        };
        Ok(())
    }
}

/// Advances a handshake. Returns its result, or the handshake itself if it needs more input.
fn advance<R: HandshakeRole>(handshake: MidHandshake<R>) -> Result<Result<R::FinalResult, MidHandshake<R>>, End> {
    match handshake.handshake() {
        Ok(done) => Ok(Ok(done)),
        Err(HandshakeError::Interrupted(handshake)) => Ok(Err(handshake)),
        Err(HandshakeError::Failure(error)) => Err(error.into()),
    }
}

fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(WEBSOCKET_READ_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    proptest! {
        #[test]
        fn any_input_is_taken_without_harm(
            websocket: bool,
            handshake: bool,
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        ) {
            let mut codec = if websocket {
                Codec::WebSocket(Box::new(WebSocketCodec::server(Arc::default())))
            } else {
                Codec::Plain(Cutter::default())
            };
            let (mut malformed, mut yielded, mut given) = (0, 0, 0);
            let begin = handshake.then(|| REQUEST.to_vec());
            for piece in begin.into_iter().chain(pieces) {
                given += piece.len();
                let mut bytes = &piece[..];
                while let Ok(left) = codec.receive(bytes, &mut malformed, &mut |f| {
                    yielded += f.len();
                    false
                }) {
                    bytes = &[];
                    if left == Left::Nothing {
                        break;
                    }
                }
            }
            prop_assert!(yielded <= given);
            if websocket && handshake {
                prop_assert!(codec.is_open());
            }
        }
    }

    #[test]
    fn output_is_cut_where_its_frames_end() {
        let mut server = WebSocketCodec::server(Arc::default());
        server.receive(REQUEST, &mut 0, &mut |_| true).unwrap();
        server.stream().unwrap().output.clear();
        for (codec, header) in [(Codec::Plain(Cutter::default()), 0), (Codec::WebSocket(Box::new(server)), 2)] {
            let (mut codec, mut out, mut ends) = (codec, Vec::new(), vec![0]);
            for packet in packets().0 {
                let payload = byname_forward::Packet::copy_from(&packet);
                codec.send(&Frame::bare(payload), &mut out).unwrap();
                ends.push(out.len());
                assert!(header == 0 || out.len() - ends[ends.len() - 2] >= packet.len() + header);
            }
            let mut at = 0;
            for end in &ends[1..] {
                at += codec.frame_len(&out[at..]);
                assert_eq!(at, *end);
            }
        }
        assert_eq!(websocket_frame_len(&[0x82, 0x80 | 5]), Some(11), "a client's frames have a mask");
        assert_eq!(websocket_frame_len(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]), Some(65_546));
        assert_eq!(websocket_frame_len(&[0x82, 126, 1]), None);
    }

    fn packets() -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut packets = Vec::new();
        for len in [1usize, 5, 200, 252, 253, 8000] {
            let mut packet = Vec::new();
            tlv::push_tlv(&mut packet, if len % 2 == 0 { 5 } else { 6 }, &vec![len as u8; len]);
            packets.push(packet);
        }
        let stream = packets.concat();
        (packets, stream)
    }

    #[test]
    fn streams_may_break_anywhere() {
        let (packets, stream) = packets();
        for at in 0..=stream.len() {
            let (mut cutter, mut seen) = (Cutter::default(), Vec::new());
            let mut take = |f: &[u8]| {
                seen.push(f.to_vec());
                true
            };
            assert_eq!(cutter.receive(&stream[..at], &mut take), Ok(Left::Nothing));
            assert_eq!(cutter.receive(&stream[at..], &mut take), Ok(Left::Nothing));
            assert_eq!(seen, packets, "broken at {at}");
        }
    }

    #[test]
    fn what_the_caller_does_not_take_waits() {
        let (packets, stream) = packets();
        let (mut cutter, mut seen) = (Cutter::default(), Vec::new());
        // Three copies of the stream, one frame a call, with new bytes in between.
        let mut input = &[&stream[..], &stream, &stream].concat()[..];
        loop {
            let (now, later) = input.split_at(input.len().min(3_000));
            input = later;
            let left = cutter.receive(now, &mut |f| {
                seen.push(f.to_vec());
                false
            });
            if left == Ok(Left::Nothing) && input.is_empty() {
                break;
            }
        }
        assert_eq!(seen, [&packets[..], &packets, &packets].concat());
    }

    #[test]
    fn garbage_and_huge_lengths_are_seen_from_the_header() {
        let cut = |bytes: &[u8]| Cutter::default().receive(bytes, &mut |_| true);
        assert_eq!(cut(b"GET / HTTP/1.1\r\n"), Err(DecodeError::UnexpectedCritical(b'G'.into())));
        assert_eq!(cut(&[6, 254, 0, 1, 0, 0]), Err(DecodeError::TooLarge));
        assert_eq!(cut(&[6, 255, 255, 255, 255, 255, 255, 255, 255, 255]), Err(DecodeError::TooLarge));
        assert_eq!(cut(&[6, 253, 0, 1]), Err(DecodeError::BadNumber));
        assert_eq!(cut(&[6]), Ok(Left::Nothing));
        assert_eq!(cut(&[]), Ok(Left::Nothing));
    }
}
