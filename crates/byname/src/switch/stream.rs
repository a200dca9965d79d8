//! Streams between switches and their controller, Unix or TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use anyhow::Context;
use byname_control::config::ControllerAddress;
use byname_face::socket_file::{self, SocketFile};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A peer that does not read for this long is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Both sides send something each second: one that is silent for this long is gone.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Whoever may write to the socket may be a switch: only the controller's own user.
const SOCKET_FILE_MODE: u32 = 0o600;

/// A connection.
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Connects.
    pub fn connect(address: &ControllerAddress) -> io::Result<Self> {
        let stream = match address {
            ControllerAddress::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            ControllerAddress::Tcp(address) => Stream::Tcp(TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?),
        };
        stream.tuned()
    }

    fn tuned(self) -> io::Result<Self> {
        match &self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
            }
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
            }
        }
        Ok(self)
    }

    /// The same connection, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        })
    }

    /// Ends the connection for all threads that have it.
    pub fn close(&self) {
        // One that has ended by itself needs no end.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(octets),
            Stream::Tcp(stream) => stream.read(octets),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(octets),
            Stream::Tcp(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where switches connect.
pub enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens. A socket's file goes with what comes beside the listener.
    pub fn open(address: &ControllerAddress) -> anyhow::Result<(Self, Option<SocketFile>)> {
        match address {
            ControllerAddress::Unix(path) => {
                let (listener, file) = socket_file::listen(path, SOCKET_FILE_MODE)?;
                Ok((Listener::Unix(listener), Some(file)))
            }
            ControllerAddress::Tcp(of) => {
                let listener = TcpListener::bind(of).with_context(|| format!("cannot listen on {address}"))?;
                Ok((Listener::Tcp(listener), None))
            }
        }
    }

    /// The next connection.
    pub fn accept(&self) -> io::Result<Stream> {
        let stream = match self {
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
        };
        stream.tuned()
    }
}
