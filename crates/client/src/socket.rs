//! Blocking sockets to a forwarder: they receive whole frames and send bursts of frames.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use byname_wire::tlv::element_len;
use rustix::net::sockopt;
use tungstenite::{Bytes, Message, WebSocket};

use crate::outbox::Outbox;
use crate::tls::Stream;
use crate::transport::{Host, Peer, Transport};

/// Maximum size of a forwarder's frame: a packet, a prefix announcement and header fields.
const FRAME_BYTES_MAX: usize = 4 * byname_wire::PACKET_BYTES_MAX;
/// Size of a stream's read buffer.
const BUFFER_BYTES: usize = 512 * 1024;
/// Time limit for a forwarder that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for connecting over TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A TCP connection that is idle for so long is probed, because a router whose host is gone does not close it.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Pause between two probes of a connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A connection ends when so many probes were not answered.
const KEEPALIVE_PROBES: u32 = 3;
/// Maximum UDP frame to other hosts: fits Ethernet, with room for tunnels.
const UDP_MTU: usize = 1400;

/// The reason why there is no connection.
#[derive(Debug)]
pub struct ConnectError {
    /// The transports that were tried, and their errors.
    pub attempts: Vec<(Transport, io::Error)>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (transport, error) in &self.attempts {
            writeln!(f, "no forwarder answers on {transport}: {error}")?;
        }
        if self.attempts.iter().any(|(_, error)| error.kind() == io::ErrorKind::PermissionDenied) {
            f.write_str("hint: the socket belongs to another user; run the forwarder or this command as that user")
        } else {
            f.write_str(
                "hint: start one with `byname run`, or set its address with --transport or NDN_CLIENT_TRANSPORT",
            )
        }
    }
}

impl std::error::Error for ConnectError {}

/// A connected socket.
pub struct Socket {
    kind: Kind,
    /// The read timeout that the socket has at present.
    wait: Duration,
    /// Whether the forwarder probably gives this face local scope.
    local: bool,
    mtu: Option<usize>,
    is_nonblocking: bool,
    /// Whether a WebSocket has frames that the router has not taken.
    holds_output: bool,
}

enum Kind {
    Unix(UnixStream, StreamBuffer),
    Tcp(TcpStream, StreamBuffer),
    Udp(UdpSocket, Box<[u8]>),
    WebSocket(Box<WebSocket<Stream>>),
}

impl Socket {
    /// Connects to a forwarder.
    pub fn connect(transport: &Transport) -> io::Result<Socket> {
        let (kind, local, mtu) = match transport {
            Transport::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                (Kind::Unix(stream, StreamBuffer::new()), true, None)
            }
            Transport::Tcp(host) => {
                let (stream, local) = connect_tcp(host)?;
                (Kind::Tcp(stream, StreamBuffer::new()), local, None)
            }
            Transport::Udp(host) => {
                let (socket, loopback) = connect_udp(host)?;
                // Loopback carries the largest packet whole.
                let mtu = if loopback { None } else { Some(UDP_MTU) };
                (Kind::Udp(socket, vec![0; 65536].into()), false, mtu)
            }
            Transport::WebSocket(host, path) => {
                let (stream, local) = connect_tcp(host)?;
                stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                (websocket(format!("ws://{host}{path}"), Stream::Plain(stream))?, local, None)
            }
            Transport::SecureWebSocket(host, path, pin) => {
                let (stream, local) = connect_tcp(host)?;
                stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                let stream = Stream::encrypted(stream, host, pin.as_deref().copied())?;
                (websocket(format!("wss://{host}{path}"), stream)?, local, None)
            }
        };
        Ok(Socket { kind, wait: Duration::ZERO, local, mtu, is_nonblocking: false, holds_output: false })
    }

    /// Connects to the first of `candidates` that answers.
    pub fn connect_first(candidates: &[Transport]) -> Result<(Socket, Transport), ConnectError> {
        let mut attempts = Vec::new();
        for transport in candidates {
            match Socket::connect(transport) {
                Ok(socket) => return Ok((socket, transport.clone())),
                Err(error) => attempts.push((transport.clone(), error)),
            }
        }
        Err(ConnectError { attempts })
    }

    /// Whether the forwarder probably accepts `/localhost` on this connection.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// The other end.
    pub fn peer(&self) -> Peer {
        Peer { is_local: self.local, is_datagram: matches!(self.kind, Kind::Udp(..)) }
    }

    /// Maximum frame size, if the transport cannot carry every NDN packet whole.
    pub fn mtu(&self) -> Option<usize> {
        self.mtu
    }

    /// Waits at most `wait` for frames and hands over the ones that arrived. Returns early on signals.
    pub fn receive(&mut self, wait: Duration, frame: impl FnMut(&[u8])) -> io::Result<()> {
        self.set_wait(wait)?;
        match self.read(frame) {
            // `TimedOut` is something else: the host at the other end of a connection is gone.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            other => other,
        }
    }

    /// Reads once, and hands over the frames that are complete. [`ErrorKind::WouldBlock`]: none has arrived.
    pub(crate) fn read(&mut self, mut frame: impl FnMut(&[u8])) -> io::Result<()> {
        match &mut self.kind {
            Kind::Unix(stream, buffer) => buffer.fill(stream).and_then(|()| buffer.frames(&mut frame)),
            Kind::Tcp(stream, buffer) => buffer.fill(stream).and_then(|()| buffer.frames(&mut frame)),
            Kind::Udp(socket, buffer) => socket.recv(buffer).map(|len| frame(&buffer[..len])),
            Kind::WebSocket(socket) => match socket.read() {
                Ok(Message::Binary(bytes)) => {
                    frame(&bytes);
                    Ok(())
                }
                Ok(Message::Close(_)) => Err(closed()),
                Ok(_) => Ok(()),
                Err(error) => Err(websocket_error(error)),
            },
        }
    }

    /// Sends all frames of `outbox` and empties it. If the socket does not block, the rest stays in the outbox when the
    /// router does not take more at the moment.
    pub fn send(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        if outbox.is_empty() && !self.holds_output {
            return Ok(());
        }
        let may_wait = self.is_nonblocking;
        let outcome = self.send_all(outbox);
        match outcome {
            Err(error) if may_wait && error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => {
                outbox.clear();
                other
            }
        }
    }

    fn send_all(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        match &mut self.kind {
            Kind::Unix(stream, _) => write_stream(stream, outbox)?,
            Kind::Tcp(stream, _) => write_stream(stream, outbox)?,
            Kind::Udp(socket, _) => {
                for frame in outbox.frames() {
                    match socket.send(frame) {
                        // A full queue loses the packet, as UDP may. The error of an earlier packet shows on receive.
                        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                        other => drop(other?),
                    }
                }
            }
            Kind::WebSocket(socket) => {
                for frame in outbox.frames() {
                    // It takes the frame although it would block, and the rest leaves at the next flush.
                    match socket.write(Message::Binary(Bytes::copy_from_slice(frame))).map_err(websocket_error) {
                        Err(error) if self.is_nonblocking && error.kind() == ErrorKind::WouldBlock => {}
                        other => other?,
                    }
                }
                outbox.clear();
                self.holds_output = true;
                socket.flush().map_err(websocket_error)?;
                self.holds_output = false;
            }
        }
        Ok(())
    }

    /// Sets the read timeout, rounded up to a power of two in ms so that it rarely changes.
    fn set_wait(&mut self, wait: Duration) -> io::Result<()> {
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 20).next_power_of_two();
        let wait = Duration::from_millis(ms);
        if wait != self.wait {
            match &self.kind {
                Kind::Unix(stream, _) => stream.set_read_timeout(Some(wait))?,
                Kind::Tcp(stream, _) => stream.set_read_timeout(Some(wait))?,
                Kind::Udp(socket, _) => socket.set_read_timeout(Some(wait))?,
                Kind::WebSocket(socket) => socket.get_ref().tcp().set_read_timeout(Some(wait))?,
            }
            self.wait = wait;
        }
        Ok(())
    }
}

#[cfg(feature = "tokio")]
pub(crate) use readiness::Twin;

/// For runtimes that wait for many sockets.
#[cfg(feature = "tokio")]
mod readiness {
    use std::io;
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::{Kind, Socket};
    use crate::outbox::Outbox;

    /// A second descriptor of a socket.
    pub(crate) enum Twin {
        Unix(UnixStream),
        Tcp(TcpStream),
        Udp(UdpSocket),
    }

    impl Socket {
        /// From now on, nothing blocks.
        pub(crate) fn set_nonblocking(&mut self) -> io::Result<()> {
            match &self.kind {
                Kind::Unix(stream, _) => stream.set_nonblocking(true)?,
                Kind::Tcp(stream, _) => stream.set_nonblocking(true)?,
                Kind::Udp(socket, _) => socket.set_nonblocking(true)?,
                Kind::WebSocket(socket) => socket.get_ref().tcp().set_nonblocking(true)?,
            }
            self.is_nonblocking = true;
            Ok(())
        }

        /// A second descriptor.
        pub(crate) fn twin(&self) -> io::Result<Twin> {
            Ok(match &self.kind {
                Kind::Unix(stream, _) => Twin::Unix(stream.try_clone()?),
                Kind::Tcp(stream, _) => Twin::Tcp(stream.try_clone()?),
                Kind::Udp(socket, _) => Twin::Udp(socket.try_clone()?),
                Kind::WebSocket(socket) => Twin::Tcp(socket.get_ref().tcp().try_clone()?),
            })
        }

        /// Whether something waits until the router takes more.
        pub(crate) fn wants_to_send(&self, outbox: &Outbox) -> bool {
            self.holds_output || !outbox.is_empty()
        }
    }
}

/// Asks a router for a WebSocket.
fn websocket(uri: String, stream: Stream) -> io::Result<Kind> {
    let (socket, _) = tungstenite::client(uri, stream)
        .map_err(|error| io::Error::other(format!("WebSocket handshake failed: {error}")))?;
    Ok(Kind::WebSocket(Box::new(socket)))
}

/// Writes what is left of an outbox.
fn write_stream(stream: &mut impl Write, outbox: &mut Outbox) -> io::Result<()> {
    while !outbox.bytes().is_empty() {
        match stream.write(outbox.bytes()) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => outbox.take(written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Cuts frames out of a byte stream.
struct StreamBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl StreamBuffer {
    fn new() -> Self {
        StreamBuffer { bytes: vec![0; BUFFER_BYTES].into(), start: 0, end: 0 }
    }

    fn fill(&mut self, stream: &mut impl Read) -> io::Result<()> {
        if self.bytes.len() - self.end < FRAME_BYTES_MAX {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match stream.read(&mut self.bytes[self.end..])? {
            0 => Err(closed()),
            n => {
                self.end += n;
                Ok(())
            }
        }
    }

    fn frames(&mut self, frame: &mut impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            let rest = &self.bytes[self.start..self.end];
            let len = element_len(rest, FRAME_BYTES_MAX).map_err(|error| {
                io::Error::new(ErrorKind::InvalidData, format!("the peer does not speak NDN: {error}"))
            })?;
            match len {
                Some(len) if len <= rest.len() => {
                    frame(&rest[..len]);
                    self.start += len;
                }
                _ => break,
            }
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        Ok(())
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the forwarder closed the connection")
}

fn websocket_error(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => closed(),
        other => io::Error::other(other),
    }
}

fn addresses(host: &Host) -> io::Result<Vec<SocketAddr>> {
    let mut all: Vec<SocketAddr> = (host.name.as_str(), host.port).to_socket_addrs()?.collect();
    all.retain(|address| match host.family {
        Some(4) => address.is_ipv4(),
        Some(_) => address.is_ipv6(),
        None => true,
    });
    if all.is_empty() {
        return Err(io::Error::new(ErrorKind::NotFound, "the host has no address of that family"));
    }
    Ok(all)
}

fn connect_tcp(host: &Host) -> io::Result<(TcpStream, bool)> {
    let mut last = None;
    for address in addresses(host)? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                keep_alive(&stream)?;
                return Ok((stream, address.ip().is_loopback()));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(closed))
}

/// Lets the system find out whether the other end is still there.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?)
}

fn connect_udp(host: &Host) -> io::Result<(UdpSocket, bool)> {
    // `addresses` never returns an empty list. UDP cannot tell which address works, so take the first.
    let address = addresses(host)?[0];
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    // The buffer must hold bursts of a whole congestion window. The system lowers the size to its limit.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, 8 << 20);
    socket.connect(address)?;
    Ok((socket, address.ip().is_loopback()))
}
