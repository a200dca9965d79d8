//! Events: all that a router learns from outside.

use byname_trust::Rights;
use byname_wire::{FaceId, Name, NameRef};

use crate::policy::Policy;

/// A packet whose signature is being checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValidationId(pub u64);

/// The answer to [`Action::Validate`](crate::Action::Validate).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validity {
    /// A chain of certificates leads to an anchor, and the rules permit it. If the packet is one with prefixes, its
    /// signer may announce so much. Its own name, and what is below it, a router may always announce.
    Trusted(Rights),
    /// The packet is not trusted, for this reason.
    Refused(String),
}

/// Something that a router is told. Borrowed packets are copied only where they are kept.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// An Interest arrived for a prefix that the router registered. `face` is the face on which the forwarder received
    /// it (IncomingFaceId).
    Interest {
        /// The whole packet.
        wire: &'a [u8],
        /// IncomingFaceId.
        face: FaceId,
    },
    /// Data arrived. Data that the router did not ask for is ignored.
    Data {
        /// The whole packet.
        wire: &'a [u8],
    },
    /// The forwarder has no way for this Interest of the router. Timeouts need no event: the router has its own clock.
    Nack {
        /// Name of the Interest.
        name: NameRef<'a>,
    },
    /// The answer to [`Action::Validate`](crate::Action::Validate). Each request gets exactly one.
    Validated {
        /// The request.
        id: ValidationId,
        /// The result.
        validity: Validity,
    },
    /// Configuration or a command names a neighbour. The router asks for a face to it. Repeating it changes cost and MTU.
    NeighbourConfigured(NeighbourSettings),
    /// Configuration or a command removes a neighbour.
    NeighbourRemoved {
        /// URI as it was configured.
        uri: &'a str,
    },
    /// A multicast face on which unknown neighbours may be found: the router says hello there.
    MulticastFace {
        /// The face.
        face: FaceId,
    },
    /// A face that the router asked for exists ([`Action::CreateFace`](crate::Action::CreateFace)).
    FaceCreated {
        /// URI as the router gave it.
        uri: &'a str,
        /// The face.
        face: FaceId,
        /// Whether it is new. The router destroys only such faces.
        is_new: bool,
    },
    /// A face that the router asked for cannot be created. The router asks again later.
    FaceFailed {
        /// URI as the router gave it.
        uri: &'a str,
        /// Why.
        why: &'a str,
    },
    /// A face works again.
    FaceUp {
        /// The face.
        face: FaceId,
    },
    /// A face does not work any more, but still exists.
    FaceDown {
        /// The face.
        face: FaceId,
    },
    /// A face does not exist any more. The forwarder has removed its routes.
    FaceDestroyed {
        /// The face.
        face: FaceId,
    },
    /// An application on this host serves a prefix. `/localhost/nlsr/rib/register` has the same effect.
    Announced {
        /// The prefix.
        prefix: Name,
        /// The application's face.
        face: FaceId,
        /// Cost of the route to the application.
        cost: u64,
    },
    /// An application does not serve a prefix any more.
    Withdrawn {
        /// The prefix.
        prefix: Name,
        /// The application's face.
        face: FaceId,
    },
    /// A route of origin 128 that an earlier run of this router left in the forwarder. Tell of all of them before
    /// neighbours are configured. Each stays until the router knows better, at most for [`Timing::stale_for`](crate::config::Timing::stale_for).
    Installed {
        /// The prefix.
        prefix: Name,
        /// The face of the nexthop.
        face: FaceId,
        /// The cost of the route.
        cost: u64,
    },
    /// A command of an operator.
    Command(Command),
}

/// A neighbour that configuration or a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourSettings {
    /// URI of the face to it, such as `udp4://192.0.2.1:6363`.
    pub uri: String,
    /// Cost of the link, at least 1, which ndn-dv always uses.
    pub cost: u64,
    /// MTU of the face, in bytes.
    pub mtu: Option<u64>,
}

/// What an operator may demand.
#[derive(Debug, Clone)]
pub enum Command {
    /// Use other rules from now on.
    SetPolicy(Policy),
    /// This router's certificate permits other announcements from now on.
    SetRights(Rights),
    /// Another rank among the routers that may be the root of trees; see [`crate::trees::Settings::priority`].
    SetTreePriority(u64),
    /// Forget the flaps of all links, so that damped links are used at once.
    ClearDamping,
    /// Say at once to neighbours and the network what this router knows.
    Resync,
    /// Others are trusted than before: keys were revoked, or anchors have changed. What routers have announced is fetched
    /// and checked again, and counts until then, but no longer than [`Timing::stale_for`](crate::config::Timing::stale_for).
    Recheck,
    /// Withdraw all prefixes, tell neighbours that nothing is reachable here, and remove all routes. The router does
    /// nothing afterwards.
    Stop,
}
