//! One end of an interface: the socket of the control messages, and the rings once they are agreed on.

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

/// Who may connect: what has this socket shares memory with the router.
const SOCKET_FILE_MODE: u32 = 0o660;
/// Connections that the system keeps ready before they are accepted.
const BACKLOG: i32 = 16;
/// Descriptors that a message may bring; the system closes those beyond.
const DESCRIPTORS_MAX: usize = 4;

/// An interface between two processes, or one that is becoming so.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    handshake: Handshake,
    rings: Option<Box<Rings>>,
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// Nobody listens at this path, or not by the rules of memif.
    pub fn connect(path: &Path, terms: Terms) -> io::Result<Self> {
        let socket = new_socket()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection { socket, handshake: Handshake::client(terms), rings: None })
    }

    /// The descriptor of its control socket, for registration.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The rings, once both ends have agreed on them.
    #[inline]
    pub fn rings(&mut self) -> Option<&mut Rings> {
        self.rings.as_deref_mut()
    }

    /// The rings, to look at.
    #[inline]
    pub fn rings_ref(&self) -> Option<&Rings> {
        self.rings.as_deref()
    }

    /// Handles the control messages that have arrived. Their number is bounded by what the rules
    /// let a peer say.
    ///
    /// # Errors
    /// It is over.
    pub fn advance(&mut self) -> Result<(), Ended> {
        while let Some((message, fd)) = self.receive_message()? {
            match self.handshake.receive(message, fd)? {
                Step::Send(message, fd) => self.send(&message, fd.as_ref())?,
                Step::Up(rings, message) => {
                    if let Some(message) = message {
                        self.send(&message, None)?;
                    }
                    self.rings = Some(rings);
                }
            }
        }
        Ok(())
    }

    /// Tells the peer why this ends, as far as it listens.
    pub fn say_goodbye(&self, reason: &str) {
        let _ = self.send(&Message::Disconnect { code: 0, reason: reason.to_owned() }, None);
    }

    /// The next message, and the first descriptor that came with it.
    fn receive_message(&self) -> Result<Option<(Message, Option<OwnedFd>)>, Ended> {
        let mut octets = [0; MESSAGE_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let slices = &mut [IoSliceMut::new(&mut octets)];
        let received = match rustix::net::recvmsg(&self.socket, slices, &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(Ended::Gone),
            Err(error) => return Err(Ended::System(error.into())),
        };
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                // Those that are not the first are closed.
                fds.for_each(|other| fd = fd.take().or(Some(other)));
            }
        }
        if received.bytes == 0 {
            return Err(Ended::Gone);
        }
        Ok(Some((Message::decode(&octets[..received.bytes]).map_err(Breach::from)?, fd)))
    }

    fn send(&self, message: &Message, fd: Option<&OwnedFd>) -> Result<(), Ended> {
        let octets = message.encode();
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(&self.socket, &[IoSlice::new(&octets)], &mut control, flags) {
            Ok(_) => Ok(()),
            // There is never more than one message of ours under way to a peer that reads.
            Err(Errno::AGAIN) => Err(Breach::Deaf.into()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Ended::Gone),
            Err(error) => Err(Ended::System(error.into())),
        }
    }
}

/// Where clients connect.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    _file: SocketFile,
}

impl Listener {
    /// Listens at a path: makes its folder, and removes a socket file that nobody answers on.
    ///
    /// # Errors
    /// Somebody listens there, or there is something else, or the system refuses.
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

    /// Its descriptor, for registration.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// A client that has connected, if one has; it is greeted.
    ///
    /// # Errors
    /// The system refuses, or the client has gone already.
    pub fn accept(&self, terms: Terms) -> Result<Option<Connection>, Ended> {
        let socket = match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(Ended::System(error.into())),
        };
        let (handshake, hello) = Handshake::server(terms);
        let connection = Connection { socket, handshake, rings: None };
        connection.send(&hello, None)?;
        Ok(Some(connection))
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}
