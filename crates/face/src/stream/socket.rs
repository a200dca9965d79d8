//! Sockets and listeners of the kinds that carry streams, as one type each.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, Mode, OFlags};
use socket2::{Domain, Protocol, SockAddr, SockRef, TcpKeepalive, Type};
use thiserror::Error;

use crate::uri::FaceUri;

/// Connections that the system keeps ready before they are accepted.
const BACKLOG: i32 = 1024;
/// Everybody on the host may talk to the forwarder.
const SOCKET_FILE_MODE: u32 = 0o666;
/// How often the folder of a socket is tried for the lock that keeps two starts apart.
const FOLDER_LOCK_ATTEMPTS: u32 = 100;
/// A peer that vanished without a word is noticed after about two minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// Why a listener cannot be set up.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Somebody listens there.
    #[error("{uri} is held by {holder}")]
    InUse {
        /// The address or path.
        uri: FaceUri,
        /// Who, as far as the system tells.
        holder: String,
    },
    /// There is something at the path that is no socket; it is left alone.
    #[error("{} exists and is no socket", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot listen on {uri}: {error}")]
    System {
        /// The address or path.
        uri: FaceUri,
        /// What it said.
        #[source]
        error: io::Error,
    },
}

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
        let uri = FaceUri::Unix(path.to_owned());
        let fail = |error| ListenError::System { uri: uri.clone(), error };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(fail)?;
        let _lock = lock_folder(folder);
        remove_stale(path, &uri)?;
        let listener = std::os::unix::net::UnixListener::bind(path).map_err(fail)?;
        let file = SocketFile::of(path).map_err(fail)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_FILE_MODE)).map_err(fail)?;
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

/// A socket file, removed when we stop listening, unless another has taken its place.
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        let meta = std::fs::symlink_metadata(path)?;
        Ok(SocketFile { path: path.to_owned(), device: meta.dev(), inode: meta.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = |meta: &std::fs::Metadata| (meta.dev(), meta.ino()) == (self.device, self.inode);
        if std::fs::symlink_metadata(&self.path).is_ok_and(|meta| ours(&meta)) {
            let _ = std::fs::remove_file(&self.path);
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

/// Keeps two instances from taking each other's fresh socket for a stale one. Best effort: who may
/// read the folder could hold the lock for ever.
fn lock_folder(folder: &Path) -> Option<rustix::fd::OwnedFd> {
    let fd = rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    for _ in 0..FOLDER_LOCK_ATTEMPTS {
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(fd);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn remove_stale(path: &Path, uri: &FaceUri) -> Result<(), ListenError> {
    use std::os::unix::fs::FileTypeExt;

    let fail = |error| ListenError::System { uri: uri.clone(), error };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
    };
    if !meta.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Ok(stream) => Err(ListenError::InUse { uri: uri.clone(), holder: peer_process(&stream) }),
        // The listener has more connections waiting than it takes.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(ListenError::InUse { uri: uri.clone(), holder: "another process".into() })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(fail),
        Err(error) => Err(fail(error)),
    }
}

/// Who listens on the other end, as far as the system tells.
fn peer_process(stream: &UnixStream) -> String {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return "another process".into() };
    let pid = peer.pid.as_raw_nonzero();
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} (process {pid})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}
