//! One end of an interface: the socket for control messages, and the rings once they are agreed on.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::breach::{Breach, Ended};
use super::handshake::{Handshake, Step, Terms};
use super::message::{MESSAGE_BYTES, Message};
use super::rings::Rings;
use crate::socket_file::{self, ListenError, SocketFile};
use crate::uri::FaceUri;

/// Permissions of the socket file. A process that may connect can share memory with the router.
const SOCKET_FILE_MODE: u32 = 0o660;
/// Connections that the system queues before they are accepted.
const BACKLOG: i32 = 16;
/// Maximum number of descriptors in a message. The system closes the rest.
const DESCRIPTORS_MAX: usize = 4;

/// An interface between two processes, connected or connecting.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    handshake: Handshake,
    /// Pairs of rings. The first is used here.
    rings: Vec<Rings>,
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// If nobody listens at this path, or the listener is not memif.
    pub fn connect(path: &Path, terms: Terms) -> io::Result<Self> {
        let socket = new_socket()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection { socket, handshake: Handshake::client(terms), rings: Vec::new() })
    }

    /// Descriptor of the control socket, for registration.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The first pair of rings, once both ends have agreed on them.
    #[inline]
    pub fn rings(&mut self) -> Option<&mut Rings> {
        self.rings.first_mut()
    }

    /// The first pair of rings, by shared reference.
    #[inline]
    pub fn rings_ref(&self) -> Option<&Rings> {
        self.rings.first()
    }

    /// Takes the pairs of rings after the first, which other threads serve.
    pub(super) fn take_others(&mut self) -> Vec<Rings> {
        self.rings.split_off(self.rings.len().min(1))
    }

    /// Handles the control messages that have arrived. The protocol bounds the number of messages that a peer may send.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn advance(&mut self) -> Result<(), Ended> {
        while let Some((message, fd)) = self.receive_message()? {
            match self.handshake.receive(message, fd)? {
                Step::Send(message, fd) => self.send(&message, fd.as_ref())?,
                Step::Up(rings, message) => {
                    if let Some(message) = message {
                        self.send(&message, None)?;
                    }
                    self.rings = rings;
                }
            }
        }
        Ok(())
    }

    /// Tells the peer why the connection ends, if it listens.
    pub fn say_goodbye(&self, reason: &str) {
        let _ = self.send(&Message::Disconnect { code: 0, reason: reason.to_owned() }, None);
    }

    /// Receives the next message, and the first descriptor that came with it.
    fn receive_message(&self) -> Result<Option<(Message, Option<OwnedFd>)>, Ended> {
        let mut bytes = [0; MESSAGE_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let slices = &mut [IoSliceMut::new(&mut bytes)];
        let received = match rustix::net::recvmsg(&self.socket, slices, &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(Ended::Gone),
            Err(error) => return Err(Ended::System(error.into())),
        };
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                // Descriptors after the first are closed.
                fds.for_each(|other| fd = fd.take().or(Some(other)));
            }
        }
        if received.bytes == 0 {
            return Err(Ended::Gone);
        }
        Ok(Some((Message::decode(&bytes[..received.bytes]).map_err(Breach::from)?, fd)))
    }

    fn send(&self, message: &Message, fd: Option<&OwnedFd>) -> Result<(), Ended> {
        let bytes = message.encode();
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(_) => Ok(()),
            // We never have more than one message in flight to a peer that reads.
            Err(Errno::AGAIN) => Err(Breach::Deaf.into()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Ended::Gone),
            Err(error) => Err(Ended::System(error.into())),
        }
    }
}

/// Accepts clients.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    _file: SocketFile,
}

impl Listener {
    /// Listens at a path. Creates its folder, and replaces a socket file that nobody answers on.
    ///
    /// # Errors
    /// If somebody listens there, something else is at the path, or the system refuses.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let bind = || -> io::Result<OwnedFd> {
            let socket = new_socket()?;
            rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let (socket, file) = socket_file::claim(path, SocketType::SEQPACKET, SOCKET_FILE_MODE, bind)?;
        let fail = |errno: Errno| ListenError::System { uri: FaceUri::Unix(path.to_owned()), error: errno.into() };
        rustix::net::listen(&socket, BACKLOG).map_err(fail)?;
        Ok(Listener { socket, _file: file })
    }

    /// Descriptor of the socket, for registration.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Accepts and greets a client that has connected, if any.
    ///
    /// # Errors
    /// If the system refuses, or the client has gone already.
    pub fn accept(&self, terms: Terms) -> Result<Option<Connection>, Ended> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = loop {
            match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => break socket,
                // Other clients may wait behind this one.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(Ended::System(error.into())),
            }
        };
        let (handshake, hello) = Handshake::server(terms);
        let connection = Connection { socket, handshake, rings: Vec::new() };
        connection.send(&hello, None)?;
        Ok(Some(connection))
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}
