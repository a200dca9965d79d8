//! Blocking sockets to a forwarder: they receive whole frames and send bursts of frames.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use byname_wire::tlv::element_len;
use tungstenite::{Bytes, Message, WebSocket};

use crate::outbox::Outbox;
use crate::transport::{Host, Transport};

/// Maximum size of a forwarder's frame: a packet, a prefix announcement and header fields.
const FRAME_BYTES_MAX: usize = 4 * byname_wire::PACKET_BYTES_MAX;
/// Size of a stream's read buffer.
const BUFFER_BYTES: usize = 512 * 1024;
/// Time limit for a forwarder that does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for connecting over TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum UDP frame to other hosts: fits Ethernet, with room for tunnels.
const UDP_MTU: usize = 1400;

/// A connected socket.
pub struct Socket {
    kind: Kind,
    /// The read timeout that the socket has at present.
    wait: Duration,
    /// Whether the forwarder probably gives this face local scope.
    local: bool,
    mtu: Option<usize>,
}

enum Kind {
    Unix(UnixStream, StreamBuffer),
    Tcp(TcpStream, StreamBuffer),
    Udp(UdpSocket, Box<[u8]>),
    WebSocket(Box<WebSocket<TcpStream>>),
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
                let (socket, _) = tungstenite::client(format!("ws://{host}{path}"), stream)
                    .map_err(|error| io::Error::other(format!("WebSocket handshake failed: {error}")))?;
                (Kind::WebSocket(Box::new(socket)), local, None)
            }
        };
        Ok(Socket { kind, wait: Duration::ZERO, local, mtu })
    }

    /// Whether the forwarder probably accepts `/localhost` on this connection.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Maximum frame size, if the transport cannot carry every NDN packet whole.
    pub fn mtu(&self) -> Option<usize> {
        self.mtu
    }

    /// Waits at most `wait` for frames and hands over the ones that arrived. Returns early on signals.
    pub fn receive(&mut self, wait: Duration, mut frame: impl FnMut(&[u8])) -> io::Result<()> {
        self.set_wait(wait)?;
        let result = match &mut self.kind {
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
        };
        match result {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Sends all frames of `outbox` and empties it.
    pub fn send(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        if outbox.is_empty() {
            return Ok(());
        }
        match &mut self.kind {
            Kind::Unix(stream, _) => stream.write_all(outbox.bytes())?,
            Kind::Tcp(stream, _) => stream.write_all(outbox.bytes())?,
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
                    socket.write(Message::Binary(Bytes::copy_from_slice(frame))).map_err(websocket_error)?;
                }
                socket.flush().map_err(websocket_error)?;
            }
        }
        outbox.clear();
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
                Kind::WebSocket(socket) => socket.get_ref().set_read_timeout(Some(wait))?,
            }
            self.wait = wait;
        }
        Ok(())
    }
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
                return Ok((stream, address.ip().is_loopback()));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(closed))
}

fn connect_udp(host: &Host) -> io::Result<(UdpSocket, bool)> {
    // `addresses` never returns an empty list. UDP cannot tell which address works, so take the first.
    let address = addresses(host)?[0];
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    // The buffer must hold bursts of a whole congestion window. The system lowers the size to its limit.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 8 << 20);
    socket.connect(address)?;
    Ok((socket, address.ip().is_loopback()))
}
