//! Ends of a connection, and the ways in which a peer may break the rules of memif, with counters.

use std::io;

use thiserror::Error;

use super::message::MessageError;
use super::shared::MapError;

/// A violation of the rules by the peer, for which it is disconnected.
#[derive(Debug, Error)]
pub enum Breach {
    /// The bytes are no control message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The message is not allowed here, or lacks its descriptor.
    #[error("{0} was not to come now")]
    Unexpected(&'static str),
    /// It does not read our messages.
    #[error("it does not read its control messages")]
    Deaf,
    /// It did not finish connecting in time.
    #[error("it did not finish connecting")]
    Slow,
    /// It speaks another version.
    #[error("it speaks memif {0}, and not 2.0")]
    Version(String),
    /// It wants to pass packets without Ethernet frames.
    #[error("it wants another mode than Ethernet")]
    Mode,
    /// It wants an interface that does not exist here.
    #[error("it asks for interface {0}: give both ends the same `id`")]
    Id(u32),
    /// It does not know the secret.
    #[error("it knows another secret, or none")]
    Secret,
    /// A memory region has the wrong number, or there is too much memory.
    #[error("its memory region {0} is one too many, or too long")]
    Region(u16),
    /// The memory cannot be used.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A ring is at an impossible place, or malformed.
    #[error("its rings are not within its memory, or not in order")]
    Ring,
    /// An interrupt is not an eventfd.
    #[error("its interrupt is no eventfd")]
    Interrupt,
    /// An index went back, or too far.
    #[error("it moved a ring's index to where it cannot be")]
    Index,
    /// A buffer is not within the memory.
    #[error("it described a buffer beyond its memory")]
    Buffer,
    /// A frame has no end.
    #[error("it sent a frame without its last part")]
    Chain,
}

/// Reason why a connection is over.
#[derive(Debug, Error)]
pub enum Ended {
    /// The peer is gone.
    #[error("the peer has gone")]
    Gone,
    /// The peer ended the connection, with this reason.
    #[error("the peer ended it: {0}")]
    Told(String),
    /// The peer broke the rules.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// The system refuses.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

/// Counters of breaches, by kind.
#[derive(Debug, Default)]
pub struct Breaches {
    control: u64,
    refused: u64,
    memory: u64,
    ring: u64,
}

impl Breaches {
    /// Counts one breach.
    pub fn count(&mut self, breach: &Breach) {
        let counter = match breach {
            Breach::Message(_) | Breach::Unexpected(_) | Breach::Deaf | Breach::Slow => &mut self.control,
            Breach::Version(_) | Breach::Mode | Breach::Id(_) | Breach::Secret => &mut self.refused,
            Breach::Region(_) | Breach::Map(_) | Breach::Ring | Breach::Interrupt => &mut self.memory,
            Breach::Index | Breach::Buffer | Breach::Chain => &mut self.ring,
        };
        *counter += 1;
    }

    /// The counters, in words fit for a metric label.
    pub fn counts(&self) -> [(&'static str, u64); 4] {
        let Breaches { control, refused, memory, ring } = *self;
        [
            ("memif_peer_broke_control", control),
            ("memif_peer_refused", refused),
            ("memif_peer_broke_memory", memory),
            ("memif_peer_broke_ring", ring),
        ]
    }
}
