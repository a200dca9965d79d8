//! Streams between switches and their controller, over Unix sockets or TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::ControllerAddress;
use crate::control::admission::Origin;
use byname_face::socket_file::{self, SocketFile};

use super::RunError;

/// Time limit for connecting over TCP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A peer that does not read for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Both sides send something each second. A peer that is silent for this long is disconnected.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Only the controller's own user may connect: a process that can write to the socket can act as a switch.
const SOCKET_FILE_MODE: u32 = 0o600;

/// A connection. Clones share it with other threads and use no descriptors of their own.
#[derive(Clone)]
pub struct Stream(Arc<Socket>);

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects.
    pub fn connect(address: &ControllerAddress) -> io::Result<Self> {
        Stream::tuned(match address {
            ControllerAddress::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
            ControllerAddress::Tcp(address) => Socket::Tcp(TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?),
        })
    }

    fn tuned(socket: Socket) -> io::Result<Self> {
        match &socket {
            Socket::Unix(stream) => stream.set_write_timeout(Some(WRITE_TIMEOUT))?,
            Socket::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
            }
        }
        let stream = Stream(Arc::new(socket));
        stream.set_read_timeout(READ_TIMEOUT)?;
        Ok(stream)
    }

    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match &*self.0 {
            Socket::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Socket::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }

    /// Ends the connection for all threads that share it.
    pub fn close(&self) {
        // The connection may have ended already.
        let _ = match &*self.0 {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &*self.0 {
            Socket::Unix(stream) => (&mut &*stream).read(bytes),
            Socket::Tcp(stream) => (&mut &*stream).read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.0 {
            Socket::Unix(stream) => (&mut &*stream).write(bytes),
            Socket::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection with a deadline for all that is read from it, however slowly the peer sends.
pub struct Hurried<'a> {
    stream: &'a mut Stream,
    until: Instant,
}

impl<'a> Hurried<'a> {
    /// Sets the deadline to `time` from now.
    pub fn new(stream: &'a mut Stream, time: Duration) -> Self {
        Hurried { stream, until: Instant::now() + time }
    }
}

impl Read for Hurried<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        self.stream.read(bytes)
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Drop for Hurried<'_> {
    fn drop(&mut self) {
        // This fails only if the stream has failed.
        let _ = self.stream.set_read_timeout(READ_TIMEOUT);
    }
}

/// Listens for switches.
pub enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at `address`. Dropping the returned `SocketFile` deletes the socket's file.
    pub fn open(address: &ControllerAddress) -> Result<(Self, Option<SocketFile>), RunError> {
        match address {
            ControllerAddress::Unix(path) => {
                let (listener, file) = socket_file::listen(path, SOCKET_FILE_MODE)?;
                Ok((Listener::Unix(listener), Some(file)))
            }
            ControllerAddress::Tcp(of) => {
                let listener =
                    TcpListener::bind(of).map_err(RunError::system(format!("cannot listen on {address}")))?;
                Ok((Listener::Tcp(listener), None))
            }
        }
    }

    /// Returns the next connection and its origin.
    pub fn accept(&self) -> io::Result<(Stream, Origin)> {
        let (socket, origin) = match self {
            Listener::Unix(listener) => (Socket::Unix(listener.accept()?.0), Origin::Local),
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                (Socket::Tcp(stream), Origin::of(peer.ip()))
            }
        };
        Ok((Stream::tuned(socket)?, origin))
    }
}
