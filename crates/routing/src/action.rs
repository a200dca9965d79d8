//! Actions: all that a router wants done.

use byname_wire::{FaceId, Name};

use crate::event::ValidationId;
use crate::note::Note;
use crate::trees::Place;

/// Something to do. Actions are done in order; none needs an answer unless its description says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send an Interest.
    SendInterest {
        /// The whole packet.
        wire: Vec<u8>,
        /// The face to send it on (NextHopFaceId). `None`: the FIB decides.
        face: Option<FaceId>,
    },
    /// Answer an Interest with Data.
    SendData {
        /// The whole packet.
        wire: Vec<u8>,
    },
    /// Find out whether a Data packet is trusted, and answer with [`Event::Validated`](crate::Event::Validated). Where
    /// trust is switched off, answer with [`Validity::Trusted`](crate::event::Validity::Trusted) and all rights at once.
    Validate {
        /// Number of the request.
        id: ValidationId,
        /// The Data packet.
        wire: Vec<u8>,
        /// The name by which the rules judge the packet: its own, without segment, version and `32=metadata`, as ndnd
        /// does it.
        judged_name: Name,
        /// The face that the packet came from, if it came from a neighbour. Certificates are fetched there. The
        /// packet's own name is the forwarding hint.
        face: Option<FaceId>,
    },
    /// Register a route of origin 128 (NLSR), without flags. A route of the same prefix and face is replaced.
    Register {
        /// The prefix.
        prefix: Name,
        /// The nexthop. `None`: the router's own face.
        face: Option<FaceId>,
        /// The cost. The forwarder prefers the lowest. Nexthops of higher cost are alternatives, free of loops.
        cost: u64,
    },
    /// Remove a route of origin 128.
    Unregister {
        /// The prefix.
        prefix: Name,
        /// The nexthop. `None`: the router's own face.
        face: Option<FaceId>,
    },
    /// Let the strategy `multicast` forward Interests below a prefix.
    SetMulticastStrategy {
        /// The prefix.
        prefix: Name,
    },
    /// Create a permanent face, or find the one that exists. Answered by [`Event::FaceCreated`](crate::Event) or
    /// `FaceFailed`.
    CreateFace {
        /// URI of the neighbour.
        uri: String,
        /// MTU in bytes.
        mtu: Option<u64>,
    },
    /// Destroy a face that the router had created.
    DestroyFace {
        /// The face.
        face: FaceId,
    },
    /// Use no route of this router through this face from now on, where there are others: its neighbour is dead. A
    /// forwarder does this in one step, however many routes there are. It may also ignore it, because
    /// [`Action::Unregister`] follows for each route. It comes by itself: routes change with the next call.
    Suspend {
        /// The face.
        face: FaceId,
    },
    /// The neighbour is back. Comes before the registration of its routes.
    Resume {
        /// The face.
        face: FaceId,
    },
    /// This is the router's place on a tree from now on. It replaces what was said of the tree before.
    SetPlace(Box<Place>),
    /// Something for the log and for metrics.
    Note(Note),
}
