//! Counters of ports: frames, bytes, and drops by reason.

use std::ops::{Add, Index, IndexMut};

/// Why a frame was dropped. [`Reason::Busy`], [`Reason::OwnerBusy`] and [`Reason::TooLong`] count at the port that the
/// frame was to leave by; all others count at the port that received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is too short, or its source is not a single station.
    Malformed,
    /// It is longer than a frame may be: the system has merged several frames, or expects us to segment it.
    Offloaded,
    /// The controller has not assigned a role to the port yet.
    Closed,
    /// It came from another switch without a tag.
    Untagged,
    /// It came from a host with a tag.
    TaggedByHost,
    /// Its destination is for neighbors on one link only.
    OfLink,
    /// It is no VXLAN packet for this switch, where one must be.
    NoKey,
    /// It is a fragment, and the key is in the first one only.
    Fragment,
    /// A port does not carry its VLAN or VXLAN network.
    WrongSegment,
    /// The network has no host with its destination address.
    UnknownDestination,
    /// No path leads to the host now.
    Unreachable,
    /// The host is at the port that the frame came from.
    SamePort,
    /// It has crossed as many links as it may.
    HopLimit,
    /// It was flooded along a tree that is not this switch's.
    OtherTree,
    /// The port is down, or takes no more frames now.
    Busy,
    /// It is longer than the interface accepts.
    TooLong,
    /// The system had no room in the receive ring.
    RingFull,
    /// The thread that owns the port was given more frames than it could take.
    OwnerBusy,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 18] = [
        Reason::Malformed,
        Reason::Offloaded,
        Reason::Closed,
        Reason::Untagged,
        Reason::TaggedByHost,
        Reason::OfLink,
        Reason::NoKey,
        Reason::Fragment,
        Reason::WrongSegment,
        Reason::UnknownDestination,
        Reason::Unreachable,
        Reason::SamePort,
        Reason::HopLimit,
        Reason::OtherTree,
        Reason::Busy,
        Reason::TooLong,
        Reason::RingFull,
        Reason::OwnerBusy,
    ];

    /// Its name in status output: one word.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::Offloaded => "offloaded",
            Reason::Closed => "closed",
            Reason::Untagged => "untagged",
            Reason::TaggedByHost => "tagged_by_host",
            Reason::OfLink => "of_link",
            Reason::NoKey => "no_key",
            Reason::Fragment => "fragment",
            Reason::WrongSegment => "wrong_segment",
            Reason::UnknownDestination => "unknown_destination",
            Reason::Unreachable => "unreachable",
            Reason::SamePort => "same_port",
            Reason::HopLimit => "hop_limit",
            Reason::OtherTree => "other_tree",
            Reason::Busy => "busy",
            Reason::TooLong => "too_long",
            Reason::RingFull => "ring_full",
            Reason::OwnerBusy => "owner_busy",
        }
    }
}

/// Number of dropped frames by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Drops {
    /// The counts that are not zero.
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

/// Counters of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames received.
    pub frames_in: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Frames dropped.
    pub drops: Drops,
    /// Sources that were not reported to the controller because there were too many reports.
    pub reports_suppressed: u64,
}

/// Sums what two threads have counted for one port.
impl Add for PortCounters {
    type Output = PortCounters;

    fn add(self, other: PortCounters) -> PortCounters {
        PortCounters {
            frames_in: self.frames_in + other.frames_in,
            bytes_in: self.bytes_in + other.bytes_in,
            frames_out: self.frames_out + other.frames_out,
            bytes_out: self.bytes_out + other.bytes_out,
            drops: Drops(std::array::from_fn(|i| self.drops.0[i] + other.drops.0[i])),
            reports_suppressed: self.reports_suppressed + other.reports_suppressed,
        }
    }
}
