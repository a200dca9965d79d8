//! Connections whose encryption another thread of the process handles.
//!
//! A handshake of TLS or QUIC takes a packet thread longer than a whole burst. So another thread has these sockets. It
//! decrypts what peers send, and passes it on through a pair of Unix sockets. The other end of the pair is a connection
//! of a [`StreamPort`] like all others, with the bounds that they have. If the packet thread is slower than the peer,
//! the pair is full, and the other thread stops reading.
//!
//! A pair carries WebSocket (RFC 6455) for [`Encryption::Tls`]: the packet thread speaks it. For [`Encryption::Quic`] it
//! carries packets back to back, one for each datagram.
//!
//! To connect, a port makes the pair itself, and gives one end to the other thread as a [`Call`].

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::admission::{Descriptor, Descriptors};
use super::dealing::{Dealer, Newcomer, share};
use super::socket::{Accepted, Socket};
use super::{Kind, StreamConfig, StreamPort};
use crate::handover::{SharedSocket, SocketRecord};
use crate::uri::FaceUri;

/// What protects a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// WebSocket over TLS.
    Tls,
    /// WebTransport over HTTP/3.
    Quic,
}

/// A peer that the other thread has let in.
#[derive(Debug)]
pub struct Guest {
    /// Address of the peer, which is known to be its own.
    pub remote: SocketAddr,
    /// Address that the peer has connected to.
    pub local: SocketAddr,
    /// Longest packet that reaches the peer, in bytes. `None`: any.
    pub mtu: Option<usize>,
    /// One end of the pair. The port closes it when the face ends.
    pub end: UnixStream,
}

/// The other thread's way to the ports.
pub struct Door {
    encryption: Encryption,
    dealer: Dealer,
    descriptors: Descriptors,
}

impl Door {
    /// A place for one more descriptor that the other thread opens for a peer, if the process has one left.
    pub fn descriptor(&self) -> Option<Descriptor> {
        self.descriptors.take(true)
    }

    /// Gives a peer to one of the ports. The port decides whether it gets a place. Returns false if too many wait for
    /// that decision.
    pub fn let_in(&mut self, guest: Guest) -> bool {
        let Guest { remote, local, mtu, end } = guest;
        if end.set_nonblocking(true).is_err() {
            return false;
        }
        let listening = uri_of(self.encryption, local);
        let accepted = Accepted { socket: Socket::unix_of(end.into()), remote: Some(remote), fd: 0 };
        self.dealer.deal_away(Newcomer { accepted, listening, mtu }).is_none()
    }
}

/// A port's wish to be connected.
#[derive(Debug)]
pub struct Call {
    /// Whom to connect to.
    pub remote: SocketAddr,
    /// One end of the pair. The other thread closes it if it cannot connect. Over QUIC it writes one byte, of any value,
    /// when it has connected.
    pub end: UnixStream,
}

/// A port's way to the other thread: gives it a call, or fails, and never waits.
pub type CallThread = Arc<dyn Fn(Call) -> io::Result<()> + Send + Sync>;

/// Makes a pair, and asks to be connected through it. Returns the port's end.
pub(super) fn call(thread: &CallThread, remote: SocketAddr) -> io::Result<Socket> {
    let (near, end) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    thread(Call { remote, end })?;
    Ok(Socket::unix_of(near.into()))
}

/// A listener that the other thread serves.
pub(super) struct OuterListener {
    pub(super) local: FaceUri,
    descriptor: OwnedFd,
}

impl OuterListener {
    pub(super) fn share(&self, port: &str) -> Option<SharedSocket> {
        let record = SocketRecord { port: port.to_owned(), local: self.local.to_string(), thread: 0 };
        let descriptor = self.descriptor.try_clone().ok()?;
        Some(SharedSocket { record, descriptor })
    }
}

fn uri_of(encryption: Encryption, address: SocketAddr) -> FaceUri {
    match encryption {
        Encryption::Tls => FaceUri::SecureWebSocket(address),
        Encryption::Quic => FaceUri::Quic(address),
    }
}

impl StreamPort {
    /// A port for each of `threads` threads, and the other thread's way to them. The `listeners` are those of the other
    /// thread; the ports name them, and pass them to another process. `caller` leads from the ports to the other thread.
    pub fn behind_door(
        encryption: Encryption,
        listeners: Vec<(SocketAddr, OwnedFd)>,
        config: &StreamConfig,
        threads: usize,
        caller: &CallThread,
    ) -> (Vec<StreamPort>, Door) {
        let kind = match encryption {
            Encryption::Tls => Kind::SecureWebSocket,
            Encryption::Quic => Kind::Quic,
        };
        let (dealer, hands) = Dealer::new(threads);
        let mut outer: Vec<OuterListener> = listeners
            .into_iter()
            .map(|(address, descriptor)| OuterListener { local: uri_of(encryption, address), descriptor })
            .collect();
        let ports = hands.into_iter().enumerate().map(|(number, hand)| {
            let mut port = StreamPort::new(kind, Vec::new(), share(config, number, threads));
            port.hand = Some(hand);
            port.caller = Some(Arc::clone(caller));
            port.outer = std::mem::take(&mut outer);
            port
        });
        let door = Door { encryption, dealer, descriptors: config.descriptors.clone() };
        (ports.collect(), door)
    }
}
