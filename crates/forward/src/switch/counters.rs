//! What a port has moved, and what was dropped and why.

use std::ops::{Index, IndexMut};

/// Why a frame was dropped. [`Reason::Busy`] and [`Reason::TooLong`] are counted where it was to leave,
/// all others where it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Too short, or of no single sender.
    Malformed,
    /// Longer than a frame may be: the system has joined several, or left it to us to cut it.
    Offloaded,
    /// The controller has not said yet what the port is for.
    Closed,
    /// It came from another switch without a tag.
    Untagged,
    /// A host has written a tag.
    TaggedByHost,
    /// For neighbours on one link only.
    OfLink,
    /// The network has no such host.
    UnknownDestination,
    /// No way leads to the host now.
    Unreachable,
    /// The host is where the frame came from.
    SamePort,
    /// It has crossed as many links as it may.
    HopLimit,
    /// It was flooded along another tree than this switch's.
    OtherTree,
    /// The port does not take more now, or is down.
    Busy,
    /// It is longer than the interface takes.
    TooLong,
    /// The system had no room in the receive ring.
    RingFull,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 14] = [
        Reason::Malformed,
        Reason::Offloaded,
        Reason::Closed,
        Reason::Untagged,
        Reason::TaggedByHost,
        Reason::OfLink,
        Reason::UnknownDestination,
        Reason::Unreachable,
        Reason::SamePort,
        Reason::HopLimit,
        Reason::OtherTree,
        Reason::Busy,
        Reason::TooLong,
        Reason::RingFull,
    ];

    /// In one word, as status shows it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::Offloaded => "offloaded",
            Reason::Closed => "closed",
            Reason::Untagged => "untagged",
            Reason::TaggedByHost => "tagged_by_host",
            Reason::OfLink => "of_link",
            Reason::UnknownDestination => "unknown_destination",
            Reason::Unreachable => "unreachable",
            Reason::SamePort => "same_port",
            Reason::HopLimit => "hop_limit",
            Reason::OtherTree => "other_tree",
            Reason::Busy => "busy",
            Reason::TooLong => "too_long",
            Reason::RingFull => "ring_full",
        }
    }
}

/// Frames by the reason that they were dropped for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Drops {
    /// Those that are not zero.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self[reason])).filter(|(_, count)| *count > 0)
    }
}

impl Index<Reason> for Drops {
    type Output = u64;

    fn index(&self, reason: Reason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl IndexMut<Reason> for Drops {
    fn index_mut(&mut self, reason: Reason) -> &mut u64 {
        &mut self.0[reason as usize]
    }
}

/// What a port has moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that came in.
    pub frames_in: u64,
    /// Their octets.
    pub octets_in: u64,
    /// Frames that left.
    pub frames_out: u64,
    /// Their octets.
    pub octets_out: u64,
    /// Frames that were not forwarded.
    pub drops: Drops,
    /// Sources that the controller was to be told of, but were too many for that.
    pub reports_suppressed: u64,
}
