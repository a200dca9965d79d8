//! Routes that Data teaches: a worker tells the control side about them.
//!
//! The worker never waits. If the control side has no room for a notice, the worker drops and counts it.

use byname_wire::{FaceId, Name};

use crate::packet_pool::Packet;

/// How a packet bears on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taught {
    /// Data with a prefix announcement answered a flooded Interest.
    Announced,
    /// Data came along a route.
    Answered,
    /// The nexthop of a route refused the Interest because it has no route itself.
    Refused,
}

/// A worker's message to the control side.
#[derive(Debug)]
pub struct Notice {
    /// How the packet bears on a route.
    pub taught: Taught,
    /// The name of the Data, or of the Interest that was refused.
    pub name: Name,
    /// The upstream that the packet came from.
    pub face: FaceId,
    /// The announcement: a Data packet that is not verified yet.
    pub announcement: Option<Packet>,
}

/// Takes a notice. Returns whether there was room for it.
pub type Listener = Box<dyn FnMut(Notice) -> bool + Send>;
