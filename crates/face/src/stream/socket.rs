//! Sockets and listeners of the kinds that carry streams, as one type each.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::SocketType;
use socket2::{Domain, Protocol, SockAddr, SockRef, TcpKeepalive, Type};

use crate::socket_file::{self, ListenError, SocketFile};
use crate::uri::FaceUri;

/// Connections that the system keeps ready before they are accepted.
const BACKLOG: i32 = 1024;
/// Everybody on the host may talk to the forwarder.
const SOCKET_FILE_MODE: u32 = 0o666;
/// A peer that vanished without a word is noticed after about two minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// One end of a stream.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// Begins to connect; the socket becomes writable when that is decided.
    pub(super) fn connect(remote: SocketAddr) -> io::Result<Socket> {
        Ok(Socket::Tcp(tuned(TcpStream::connect(remote)?)))
    }

    /// Whether a connection attempt has ended, well or with an error.
    pub(super) fn finish_connect(&self) -> io::Result<bool> {
        let Socket::Tcp(stream) = self else { return Ok(true) };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The address of this end, of TCP sockets.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// Whether neither direction is open any more.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::empty())];
        let asked = rustix::event::poll(&mut fds, Some(&Timespec::default()));
        asked.is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(octets),
            Socket::Tcp(stream) => stream.write(octets),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).register(registry, token, interest)
    }
    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).reregister(registry, token, interest)
    }
    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_fd().as_raw_fd()).deregister(registry)
    }
}

/// A connection that was accepted.
pub(super) struct Accepted {
    pub(super) socket: Socket,
    /// The peer's address; `None` on Unix sockets.
    pub(super) remote: Option<SocketAddr>,
    /// The descriptor's number.
    pub(super) fd: u64,
}

/// Where connections come in.
pub(super) enum Listener {
    /// The file goes with the listener.
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a path: makes its folder, and removes a socket file that nobody answers on.
    pub(super) fn unix(path: &Path) -> Result<Listener, ListenError> {
        let bind = || std::os::unix::net::UnixListener::bind(path);
        let (listener, file) = socket_file::claim(path, SocketType::STREAM, SOCKET_FILE_MODE, bind)?;
        let fail = |error| ListenError::System { uri: FaceUri::Unix(path.to_owned()), error };
        listener.set_nonblocking(true).map_err(fail)?;
        Ok(Listener::Unix { listener: UnixListener::from_std(listener), _file: file })
    }

    /// Listens on an address; port 0 takes any.
    pub(super) fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        let uri = FaceUri::Tcp(address);
        let listen = || {
            let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_reuse_address(true)?;
            socket.bind(&SockAddr::from(address))?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok(TcpListener::from_std(socket.into()))
        };
        listen().map(Listener::Tcp).map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { uri, holder: "another process".into() },
            _ => ListenError::System { uri, error },
        })
    }

    /// The address that it is bound to, of TCP listeners.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }

    pub(super) fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept()?;
                let fd = fd_number(&stream);
                Ok(Accepted { socket: Socket::Unix(stream), remote: None, fd })
            }
            Listener::Tcp(listener) => {
                let (stream, remote) = listener.accept()?;
                let fd = fd_number(&stream);
                Ok(Accepted { socket: Socket::Tcp(tuned(stream)), remote: Some(remote), fd })
            }
        }
    }
}

impl Source for Listener {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Listener::Unix { listener, .. } => listener.register(registry, token, interest),
            Listener::Tcp(listener) => listener.register(registry, token, interest),
        }
    }
    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Listener::Unix { listener, .. } => listener.reregister(registry, token, interest),
            Listener::Tcp(listener) => listener.reregister(registry, token, interest),
        }
    }
    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Unix { listener, .. } => listener.deregister(registry),
            Listener::Tcp(listener) => listener.deregister(registry),
        }
    }
}

fn fd_number(socket: &impl AsRawFd) -> u64 {
    u64::try_from(socket.as_raw_fd()).expect("open descriptors are not negative")
}

/// Sets what a packet stream wants of TCP. Failures cost speed only.
fn tuned(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_PROBES);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    stream
}
