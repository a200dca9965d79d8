//! Tells when a socket can be read or written: tokio watches a second descriptor of it.

use std::io;

use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UdpSocket, UnixStream};

use crate::socket::{Socket, Twin};

/// A second descriptor of a socket. All reading and writing is done by the first.
pub(super) enum Watcher {
    Unix(UnixStream),
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Watcher {
    /// Watches a socket, which blocks no more.
    pub fn of(socket: &mut Socket) -> io::Result<Self> {
        socket.set_nonblocking()?;
        Ok(match socket.twin()? {
            Twin::Unix(stream) => Watcher::Unix(UnixStream::from_std(stream)?),
            Twin::Tcp(stream) => Watcher::Tcp(TcpStream::from_std(stream)?),
            Twin::Udp(socket) => Watcher::Udp(UdpSocket::from_std(socket)?),
        })
    }

    /// Waits until the socket is ready for one of these.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Watcher::Unix(stream) => stream.ready(interest).await,
            Watcher::Tcp(stream) => stream.ready(interest).await,
            Watcher::Udp(socket) => socket.ready(interest).await,
        }
    }

    /// Reads or writes if the socket is ready. After [`io::ErrorKind::WouldBlock`] it is not, until tokio sees that it is.
    pub fn try_io<T>(&self, interest: Interest, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self {
            Watcher::Unix(stream) => stream.try_io(interest, call),
            Watcher::Tcp(stream) => stream.try_io(interest, call),
            Watcher::Udp(socket) => socket.try_io(interest, call),
        }
    }
}
