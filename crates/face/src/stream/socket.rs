//! One type for the sockets, and one for the listeners, of all kinds of streams.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SocketFlags, SocketType, sockopt};

use super::unread;
use crate::socket_file::{self, ListenError, SocketFile};
use crate::system::{ip_socket, set_option};
use crate::uri::FaceUri;

/// Connections that the system queues before they are accepted.
const BACKLOG: i32 = 1024;
/// Everybody on the host may talk to the forwarder.
const SOCKET_FILE_MODE: u32 = 0o666;
/// A vanished peer is noticed after about two minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;
/// Bytes that the system takes from us before TCP sends them. More output waits in our queues, which are bounded,
/// shared and monitored. Without this limit, the kernel would take megabytes for each peer that does not read.
const NOT_SENT_BYTES_MAX: u32 = 128 << 10;

/// One end of a stream.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// A connected Unix socket that another process had.
    pub(super) fn unix_of(descriptor: OwnedFd) -> Socket {
        Socket::Unix(UnixStream::from_std(descriptor.into()))
    }

    /// A connected TCP socket that another process had.
    pub(super) fn tcp_of(descriptor: OwnedFd) -> Socket {
        Socket::Tcp(TcpStream::from_std(descriptor.into()))
    }

    /// Begins to connect. The socket becomes writable when the attempt has ended.
    pub(super) fn connect(remote: SocketAddr) -> io::Result<Socket> {
        Ok(Socket::Tcp(tuned(TcpStream::connect(remote)?)))
    }

    /// Whether the attempt to connect has succeeded.
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

    /// Local address of a TCP socket.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// Whether both directions are closed.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::empty())];
        let asked = rustix::event::poll(&mut fds, Some(&Timespec::default()));
        asked.is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Approximate number of bytes that the system has taken and still holds. On Unix sockets the peer has not read
    /// them; on TCP sockets they are not sent.
    pub(super) fn unread_bytes(&self) -> io::Result<usize> {
        match self {
            Socket::Unix(_) => unread::of_unix(self.as_fd()),
            Socket::Tcp(_) => unread::of_tcp(self.as_fd()),
        }
    }

    /// Makes closing drop the unsent bytes and reset the connection. Unix sockets do so anyway.
    pub(super) fn reset_on_close(&self) {
        if let Socket::Tcp(stream) = self {
            // If this fails, the system drops the bytes in some minutes.
            let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
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
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
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
    /// Address of the peer; `None` on Unix sockets.
    pub(super) remote: Option<SocketAddr>,
    /// Number of the descriptor.
    pub(super) fd: u64,
}

/// A listening socket.
pub(super) enum Listener {
    /// Dropping the listener removes the file.
    Unix {
        listener: UnixListener,
        file: SocketFile,
    },
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a path. Creates its folder, and replaces a socket file that nobody answers on.
    pub(super) fn unix(path: &Path) -> Result<Listener, ListenError> {
        let bind = || std::os::unix::net::UnixListener::bind(path);
        let (listener, file) = socket_file::claim(path, SocketType::STREAM, SOCKET_FILE_MODE, bind)?;
        let fail = |error| ListenError::System { uri: FaceUri::Unix(path.to_owned()), error };
        listener.set_nonblocking(true).map_err(fail)?;
        Ok(Listener::Unix { listener: UnixListener::from_std(listener), file })
    }

    /// Listens on an address. Port 0 takes any free port.
    pub(super) fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        let uri = FaceUri::Tcp(address);
        let listen = || {
            let socket = ip_socket(&address, SocketType::STREAM, SocketFlags::NONBLOCK)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            rustix::net::bind(&socket, &address)?;
            rustix::net::listen(&socket, BACKLOG)?;
            Ok(TcpListener::from_std(socket.into()))
        };
        listen().map(Listener::Tcp).map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { uri, holder: "another process".into() },
            _ => ListenError::System { uri, error },
        })
    }

    /// Listens on a socket that another process has opened at this path.
    pub(super) fn unix_of(path: &Path, descriptor: OwnedFd) -> Result<Listener, ListenError> {
        let fail = |error| ListenError::System { uri: FaceUri::Unix(path.to_owned()), error };
        let file = SocketFile::of(path).map_err(fail)?;
        Ok(Listener::Unix { listener: UnixListener::from_std(descriptor.into()), file })
    }

    /// Listens on a TCP socket that another process has opened.
    pub(super) fn tcp_of(descriptor: OwnedFd) -> Listener {
        Listener::Tcp(TcpListener::from_std(descriptor.into()))
    }

    /// Tells clients that ask for the peer's process that it is this one, and not the one that opened the listener.
    pub(super) fn introduce(&mut self) {
        if let Listener::Unix { listener, file } = self {
            file.keep(false);
            // The system notes the process whenever it is told to listen.
            let _ = rustix::net::listen(listener, BACKLOG);
        }
    }

    /// Leaves the file of a Unix socket to another process.
    pub(super) fn keep_file(&mut self) {
        if let Listener::Unix { file, .. } = self {
            file.keep(true);
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix { listener, .. } => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Address of a TCP listener.
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

/// Sets TCP options for a packet stream. Failures only cost speed.
fn tuned(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(&stream, true);
    let _ = sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES);
    let _ = set_option(&stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &NOT_SENT_BYTES_MAX);
    stream
}
