//! Notes: events that operators want to read.

use std::fmt;

use byname_wire::{FaceId, Name, TreeId};

use crate::trees::Change;

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who look for a defect.
    Debug,
    /// A change of the network.
    Info,
    /// Something is wrong.
    Warn,
}

/// Why a link is not used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DownReason {
    /// The neighbour's hellos stopped.
    Hello,
    /// The neighbour said that its side is down.
    Told,
    /// No sync Interest arrived for the dead interval.
    Silent,
    /// The face is down or destroyed.
    Face,
    /// Configuration or a command removed the neighbour.
    Removed,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DownReason::Hello => "its hellos stopped",
            DownReason::Told => "it said that its side is down",
            DownReason::Silent => "no sync Interest arrived in time",
            DownReason::Face => "the face is down",
            DownReason::Removed => "it was removed",
        })
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Note {
    LinkUp { router: Name, face: FaceId },
    LinkDown { router: Name, face: FaceId, why: DownReason },
    LinkDamped { router: Name, face: FaceId, for_ms: u64 },
    LinkReleased { router: Name, face: FaceId },
    RouterReachable { router: Name },
    RouterUnreachable { router: Name },
    RouterRestarted { router: Name, boot: u64 },
    FaceFailed { uri: String, why: String },
    Tree { tree: TreeId, change: Change },
    PacketRefused { name: Name, why: String },
    PrefixesRefused { router: Name, count: u64, why: String },
    LimitReached { limit: &'static str },
}

impl Note {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Note::LinkUp { .. } | Note::LinkReleased { .. } | Note::Tree { .. } => Level::Info,
            Note::RouterReachable { .. } | Note::RouterUnreachable { .. } | Note::RouterRestarted { .. } => Level::Info,
            Note::LinkDown { why: DownReason::Removed, .. } => Level::Info,
            Note::LinkDown { .. } | Note::LinkDamped { .. } | Note::FaceFailed { .. } => Level::Warn,
            Note::PrefixesRefused { .. } | Note::LimitReached { .. } => Level::Warn,
            Note::PacketRefused { .. } => Level::Debug,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::LinkUp { router, face } => write!(f, "the neighbour {router} is up on face {face}"),
            Note::LinkDown { router, face, why } => write!(f, "the neighbour {router} on face {face} is down: {why}"),
            Note::LinkDamped { router, face, for_ms } => {
                write!(f, "the link to {router} on face {face} flaps, and costs more for {for_ms} ms")
            }
            Note::LinkReleased { router, face } => write!(f, "the link to {router} on face {face} is used again"),
            Note::RouterReachable { router } => write!(f, "the router {router} is reachable"),
            Note::RouterUnreachable { router } => write!(f, "the router {router} is not reachable any more"),
            Note::RouterRestarted { router, boot } => write!(f, "the router {router} has restarted, at {boot}"),
            Note::Tree { tree, change } => match change {
                Change::Root(root) => write!(f, "tree {}: the root is {root} now", tree.0),
                Change::Parent(parent) => {
                    write!(f, "tree {}: repaired, the way to the root is through {parent}", tree.0)
                }
                Change::Label { label, is_first: true } => {
                    write!(f, "tree {}: this router is on it, with the label {label}", tree.0)
                }
                Change::Label { label, is_first: false } => {
                    write!(f, "tree {}: the label is {label} now; earlier ones are valid for a while", tree.0)
                }
            },
            Note::FaceFailed { uri, why } => write!(f, "there is no face to {uri}: {why}"),
            Note::PacketRefused { name, why } => write!(f, "the packet {name} is refused: {why}"),
            Note::PrefixesRefused { router, count, why } => {
                write!(f, "{count} prefixes of the router {router} are refused: {why}")
            }
            Note::LimitReached { limit } => write!(f, "the limit {limit} is reached"),
        }
    }
}
