//! A shard's part in the PIT entries that all workers share: see [`crate::hot`].

use std::sync::Arc;

use byname_wire::name_hash::Digest;

use crate::by_hash::ByHash;
use crate::crossing::Parcel;
use crate::hot::{JOINED_MAX, Joined, PlaceId, SharedPit};

/// The shared entries, and this shard's notes about those that it has opened.
pub(crate) struct Sharing {
    pub shared: Arc<SharedPit>,
    /// The open entries whose home is here, by the hash of their names.
    pub open: ByHash<Open>,
    /// Interests of the burst whose entries are to be opened after it.
    pub noted: Vec<Noted>,
    /// Packets for the next round, each with the hash of its name.
    pub postponed: Vec<(u64, Parcel)>,
    /// Names of this round, by hash, whose Interests have a downstream with a face that this worker has not heard of.
    pub unheard: Vec<u64>,
    /// Whether to settle all entries in the next round.
    pub settles_all: bool,
    /// Scratch: what has joined one entry.
    pub joined: Joined,
    /// Scratch: a name.
    pub name: Vec<u8>,
}

/// An open entry.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub place: PlaceId,
    pub must_be_fresh: bool,
}

/// An Interest for a hot name.
pub(crate) struct Noted {
    pub name: Digest,
    pub must_be_fresh: bool,
}

impl Sharing {
    /// No open entries.
    pub fn new(shared: Arc<SharedPit>) -> Box<Self> {
        Box::new(Sharing {
            shared,
            open: ByHash::default(),
            noted: Vec::new(),
            postponed: Vec::new(),
            unheard: Vec::new(),
            settles_all: false,
            joined: Joined::default(),
            name: Vec::new(),
        })
    }

    /// Downstreams that may join these many open entries.
    pub fn room(entries: usize) -> usize {
        entries * JOINED_MAX
    }

    /// Whether packets about a name with this hash must wait for the next round.
    pub fn must_wait(&self, hash: u64) -> bool {
        self.unheard.contains(&hash) || self.postponed.iter().any(|(of, _)| *of == hash)
    }
}
