//! The worker's state for each face.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use byname_lookup::tagset::BURST_MAX;
use byname_wire::FaceId;

use crate::whereabouts::{SourceId, Whereabouts};

/// Whether names under `/localhost` may pass a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The peer is a process on this host. Number 1 in management.
    Local,
    /// Any other peer. Number 0.
    NonLocal,
}

/// The receivers of what a face sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// One peer. Number 0 in management.
    PointToPoint,
    /// A group whose members all hear each other. Number 1.
    MultiAccess,
    /// A group whose members do not all hear each other. Number 2.
    AdHoc,
}

/// How long a face lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistency {
    /// Until it is destroyed or its socket fails. Number 0 in management.
    Persistent,
    /// Made by the peer; goes when it is idle or closed. Number 1.
    OnDemand,
    /// Until it is destroyed; it reconnects. Number 2.
    Permanent,
}

/// Number of network-layer packets on one face.
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
    /// The counts of [`FaceCounters::to_array`].
    pub fn of_array(counts: [u64; 10]) -> Self {
        let [in_interests, in_data, in_nacks, out_interests, out_data, out_nacks, rest @ ..] = counts;
        let [in_tag_packets, in_locator_packets, out_tag_packets, out_locator_packets] = rest;
        FaceCounters {
            in_interests,
            in_data,
            in_nacks,
            out_interests,
            out_data,
            out_nacks,
            in_tag_packets,
            in_locator_packets,
            out_tag_packets,
            out_locator_packets,
        }
    }

    /// All counts, in the order of the fields.
    pub fn to_array(self) -> [u64; 10] {
        [
            self.in_interests,
            self.in_data,
            self.in_nacks,
            self.out_interests,
            self.out_data,
            self.out_nacks,
            self.in_tag_packets,
            self.in_locator_packets,
            self.out_tag_packets,
            self.out_locator_packets,
        ]
    }

    /// All packets in both directions.
    pub fn packets(&self) -> u64 {
        self.in_interests
            + self.in_data
            + self.in_nacks
            + self.out_interests
            + self.out_data
            + self.out_nacks
            + self.in_tag_packets
            + self.in_locator_packets
            + self.out_tag_packets
            + self.out_locator_packets
    }

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

/// The worker's state for a face.
#[derive(Debug, Clone)]
pub(crate) struct Face {
    /// Whether names under `/localhost` may pass.
    pub scope: Scope,
    /// The receivers of what the face sends.
    pub link_type: LinkType,
    /// Whether its NextHopFaceId and cache policy are obeyed.
    pub local_fields: bool,
    /// Whether its peer has asked for a locator and gets the packets that are addressed to it.
    pub is_endpoint: bool,
    /// Whether other threads may send on it: see [`crate::loans`].
    pub is_lent: bool,
    /// Number of packets that have passed.
    pub counters: FaceCounters,
    pub(crate) reached: Reached,
    pub(crate) whereabouts: Whereabouts,
    /// The source whose shares of tables this face uses.
    pub(crate) source: SourceId,
}

/// The packets of the latest burst that a face was chosen for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reached {
    burst: u64,
    packets: u32,
}

impl Reached {
    /// Notes that packet `i` of this burst goes to the face. Returns false if that was noted before.
    pub(crate) fn note(&mut self, burst: u64, i: usize) -> bool {
        const { assert!(BURST_MAX <= u32::BITS as usize) };
        if self.burst != burst {
            *self = Reached { burst, packets: 0 };
        }
        let before = self.packets;
        self.packets |= 1 << i;
        self.packets != before
    }
}

/// A map by face.
pub type FaceMap<T> = HashMap<FaceId, T, BuildHasherDefault<FaceIdHasher>>;

/// All faces that are up.
pub(crate) type FaceTable = FaceMap<Face>;

/// Hashes face ids by a multiplication that spreads them. We number faces one after the other, so strangers cannot make
/// ids collide.
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
