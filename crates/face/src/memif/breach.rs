//! How a connection ends; and how a peer may break the rules of memif, each with a counter.

use std::io;

use thiserror::Error;

use super::message::MessageError;
use super::shared::MapError;

/// What a peer did that it may not. It is disconnected.
#[derive(Debug, Error)]
pub enum Breach {
    /// Octets that are no control message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message that has no place here, or lacks its descriptor.
    #[error("{0} was not to come now")]
    Unexpected(&'static str),
    /// It reads none of our messages.
    #[error("it does not read its control messages")]
    Deaf,
    /// It did not finish in time what it began.
    #[error("it did not finish connecting")]
    Slow,
    /// It speaks another version.
    #[error("it speaks memif {0}, and not 2.0")]
    Version(String),
    /// It wants to pass packets without their frames.
    #[error("it wants another mode than Ethernet")]
    Mode,
    /// It wants an interface that is not here.
    #[error("it asks for interface {0}: give both ends the same `id`")]
    Id(u32),
    /// It does not know the secret.
    #[error("it knows another secret, or none")]
    Secret,
    /// Memory of the wrong number, or too much of it.
    #[error("its memory region {0} is one too many, or too long")]
    Region(u16),
    /// Memory that cannot be used.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A ring that is not where it should be.
    #[error("its rings are not within its memory, or not in order")]
    Ring,
    /// An interrupt that is none.
    #[error("its interrupt is no eventfd")]
    Interrupt,
    /// An index that went back, or too far.
    #[error("it moved a ring's index to where it cannot be")]
    Index,
    /// A buffer beyond its memory.
    #[error("it described a buffer beyond its memory")]
    Buffer,
    /// A frame without an end.
    #[error("it sent a frame without its last part")]
    Chain,
}

/// Why a connection is over.
#[derive(Debug, Error)]
pub enum Ended {
    /// The peer is gone.
    #[error("the peer has gone")]
    Gone,
    /// The peer said so, and why.
    #[error("the peer ended it: {0}")]
    Told(String),
    /// The peer broke the rules.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// The system refuses.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

/// Counts of breaches, by kind.
#[derive(Debug, Default)]
pub struct Breaches {
    control: u64,
    refused: u64,
    memory: u64,
    ring: u64,
}

impl Breaches {
    /// Counts one.
    pub fn count(&mut self, breach: &Breach) {
        let counter = match breach {
            Breach::Message(_) | Breach::Unexpected(_) | Breach::Deaf | Breach::Slow => &mut self.control,
            Breach::Version(_) | Breach::Mode | Breach::Id(_) | Breach::Secret => &mut self.refused,
            Breach::Region(_) | Breach::Map(_) | Breach::Ring | Breach::Interrupt => &mut self.memory,
            Breach::Index | Breach::Buffer | Breach::Chain => &mut self.ring,
        };
        *counter += 1;
    }

    /// The counts, in words fit for a metric label.
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
