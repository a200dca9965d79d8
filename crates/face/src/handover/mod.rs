//! Faces and sockets that pass from one process to the next one, which takes over while peers stay connected.
//!
//! The old process gives its shared sockets first ([`SharedSocket`]): listeners, and sockets of datagrams. The new one
//! builds its ports on them, and does not read yet. When the new one is ready, the old one freezes its packet threads
//! ([`ForwarderHandle::freeze`]). Then it gives its faces ([`HandedFace`]), each with its state and its own descriptor
//! if it has one. It keeps them, too: if the new process fails, the old one goes on with
//! [`ForwarderHandle::thaw`]. Both processes have descriptors of the same sockets, so no peer notices.
//!
//! What is lost: pending Interests, packets between the threads of the old process, and packets that are received in
//! part by fragments of a link.
//!
//! [`ForwarderHandle::freeze`]: crate::ForwarderHandle::freeze
//! [`ForwarderHandle::thaw`]: crate::ForwarderHandle::thaw

pub mod channel;
mod record;

use std::os::fd::OwnedFd;

pub use channel::{Channel, ChannelError, DESCRIPTORS_MAX};
pub use record::{
    FaceRecord, LinkRecord, PeerRecord, PhaseRecord, ReliabilityRecord, SocketRecord, StreamRecord, WebSocketRecord,
};
pub(crate) use record::{FormerFace, persistency_number};

/// A socket that belongs to a port, and not to one face.
#[derive(Debug)]
pub struct SharedSocket {
    /// Where it belongs.
    pub record: SocketRecord,
    /// A descriptor of it.
    pub descriptor: OwnedFd,
}

/// A face on its way to another process.
#[derive(Debug)]
pub struct HandedFace {
    /// Its state.
    pub record: Box<FaceRecord>,
    /// A descriptor of its socket, if it has one of its own that is connected.
    pub descriptor: Option<OwnedFd>,
}

/// Sockets that came from another process and have no port yet.
#[derive(Debug, Default)]
pub struct Inherited(Vec<SharedSocket>);

impl Inherited {
    /// These sockets.
    pub fn new(sockets: Vec<SharedSocket>) -> Self {
        Inherited(sockets)
    }

    /// Takes out the sockets of a port that `is_wanted`, in the order of their threads.
    pub fn take(&mut self, port: &str, is_wanted: impl Fn(&SocketRecord) -> bool) -> Vec<OwnedFd> {
        let fits = |socket: &mut SharedSocket| socket.record.port == port && is_wanted(&socket.record);
        let mut taken: Vec<SharedSocket> = self.0.extract_if(.., fits).collect();
        taken.sort_by_key(|socket| socket.record.thread);
        taken.into_iter().map(|socket| socket.descriptor).collect()
    }

    /// The sockets that no port has taken. Dropping this closes them.
    pub fn left(&self) -> impl Iterator<Item = &SocketRecord> {
        self.0.iter().map(|socket| &socket.record)
    }
}
