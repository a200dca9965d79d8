//! What the worker knows of each face.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use byname_wire::FaceId;

use crate::pipeline::Reached;

/// Whether `/localhost` may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The peer is a process on this host. Number 1 in management.
    Local,
    /// Anything else. Number 0.
    NonLocal,
}

/// Who hears what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// One peer. Number 0 in management.
    PointToPoint,
    /// A group, all of whom hear each other. Number 1.
    MultiAccess,
    /// A group, not all of whom hear each other. Number 2.
    AdHoc,
}

/// How long a face lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistency {
    /// Until destroyed, or until its socket fails. Number 0 in management.
    Persistent,
    /// Made by the peer; goes when idle or closed. Number 1.
    OnDemand,
    /// Until destroyed; reconnects. Number 2.
    Permanent,
}

/// Network-layer packets of one face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FaceCounters {
    pub in_interests: u64,
    pub in_data: u64,
    pub in_nacks: u64,
    pub out_interests: u64,
    pub out_data: u64,
    pub out_nacks: u64,
    pub in_tag_packets: u64,
    pub in_locator_packets: u64,
    pub out_tag_packets: u64,
    pub out_locator_packets: u64,
}

impl FaceCounters {
    /// Adds another face's counts.
    pub fn add(&mut self, other: &FaceCounters) {
        self.in_interests += other.in_interests;
        self.in_data += other.in_data;
        self.in_nacks += other.in_nacks;
        self.out_interests += other.out_interests;
        self.out_data += other.out_data;
        self.out_nacks += other.out_nacks;
        self.in_tag_packets += other.in_tag_packets;
        self.in_locator_packets += other.in_locator_packets;
        self.out_tag_packets += other.out_tag_packets;
        self.out_locator_packets += other.out_locator_packets;
    }
}

/// What the worker knows of a face.
#[derive(Debug, Clone)]
pub struct Face {
    /// Whether `/localhost` may pass.
    pub scope: Scope,
    /// Who hears what is sent.
    pub link_type: LinkType,
    /// Whether NextHopFaceId and cache policy from it are heeded.
    pub local_fields: bool,
    /// Whether its peer has asked for a locator, and gets packets that are addressed to it.
    pub is_endpoint: bool,
    /// What has passed.
    pub counters: FaceCounters,
    pub(crate) reached: Reached,
}

/// A map by face.
pub type FaceMap<T> = HashMap<FaceId, T, BuildHasherDefault<FaceIdHasher>>;

/// All faces that are up.
pub type FaceTable = FaceMap<Face>;

/// Face ids are numbered by us, one after the other: no stranger can make them collide, and a
/// multiplication spreads them.
#[derive(Debug, Default, Clone)]
pub struct FaceIdHasher(u64);

impl Hasher for FaceIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("a FaceId is hashed as one u64")
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
