//! Requests, status and events of faces, as the control side sees them.

use std::sync::Arc;
use std::time::Duration;

use byname_forward::face_table::{FaceCounters, LinkType, Persistency, Scope};
use byname_forward::{FaceId, Network, Whereabouts};
use thiserror::Error;

use crate::uri::FaceUri;

/// Link services of a face (the Flags bits of management).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkFlags {
    /// Bit 0: NextHopFaceId, IncomingFaceId and cache policy are passed on.
    pub local_fields: bool,
    /// Bit 1: lost frames are sent again.
    pub reliability: bool,
    /// Bit 2: a congested output queue marks packets.
    pub congestion_marking: bool,
}

impl LinkFlags {
    /// The Flags number of management.
    pub fn bits(self) -> u64 {
        u64::from(self.local_fields) | u64::from(self.reliability) << 1 | u64::from(self.congestion_marking) << 2
    }
    /// These flags, with the bits that `mask` selects taken from `flags`.
    pub fn masked(self, flags: u64, mask: u64) -> LinkFlags {
        let bits = self.bits() & !mask | flags & mask;
        LinkFlags { local_fields: bits & 1 != 0, reliability: bits & 2 != 0, congestion_marking: bits & 4 != 0 }
    }
}

/// Request for a new face.
#[derive(Debug, Clone)]
pub struct FaceRequest {
    /// URI of the peer.
    pub remote: FaceUri,
    /// URI of the local end, if it matters to the caller.
    pub local: Option<FaceUri>,
    /// Persistent or permanent.
    pub persistency: Persistency,
    /// Time that the first connection may take, if that is less than the port's own limit.
    pub connect_within: Option<Duration>,
    /// Longest frame to send, in bytes. If absent, the port's own limit.
    pub mtu: Option<u64>,
    /// Link services.
    pub flags: LinkFlags,
    /// See [`FaceStatus::base_congestion_marking_interval_ns`].
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// See [`FaceStatus::default_congestion_threshold_bytes`].
    pub default_congestion_threshold_bytes: Option<u64>,
}

impl FaceRequest {
    /// A request for a persistent face to a peer, with the port's defaults.
    pub fn to(remote: FaceUri) -> Self {
        FaceRequest {
            remote,
            local: None,
            persistency: Persistency::Persistent,
            connect_within: None,
            mtu: None,
            flags: LinkFlags::default(),
            base_congestion_marking_interval_ns: None,
            default_congestion_threshold_bytes: None,
        }
    }
}

/// Changes of a face. `None` leaves a setting as it is.
#[derive(Debug, Clone, Default)]
pub struct FaceChange {
    /// Persistency.
    pub persistency: Option<Persistency>,
    /// Longest frame to send, in bytes.
    pub mtu: Option<u64>,
    /// Link services.
    pub flags: Option<LinkFlags>,
    /// See [`FaceStatus::base_congestion_marking_interval_ns`].
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// See [`FaceStatus::default_congestion_threshold_bytes`].
    pub default_congestion_threshold_bytes: Option<u64>,
}

/// Status of a face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceStatus {
    /// Number of the face.
    pub id: FaceId,
    /// Number of the packet thread that owns it.
    pub thread: usize,
    /// URI of the peer.
    pub remote: FaceUri,
    /// URI of the local end.
    pub local: FaceUri,
    /// Whether `/localhost` may pass.
    pub scope: Scope,
    /// Receivers of a packet that is sent.
    pub link_type: LinkType,
    /// Networks on the link of a UDP group's face, in which the members are.
    pub networks: Option<Arc<[Network]>>,
    /// Condition under which the face ends.
    pub persistency: Persistency,
    /// Longest frame that it sends, in bytes; `None`: no limit.
    pub mtu: Option<u64>,
    /// Link services.
    pub flags: LinkFlags,
    /// Shortest time between congestion marks under persistent congestion, in ns.
    pub base_congestion_marking_interval_ns: u64,
    /// Queue length, in bytes, from which packets get congestion marks.
    pub default_congestion_threshold_bytes: u64,
    /// Time to live of an idle on-demand face, in ms.
    pub expires_in_ms: Option<u64>,
    /// Whether it can send now. A permanent face may be reconnecting.
    pub up: bool,
    /// Counters of the network layer.
    pub counters: FaceCounters,
    /// Counters of the link layer.
    pub link: LinkCounters,
}

impl FaceStatus {
    /// Status of a permanent face to one peer, with the same URI at both ends and without link services. It is the
    /// status of a face in memory, and the base for other faces.
    pub fn plain(id: FaceId, uri: FaceUri, scope: Scope) -> FaceStatus {
        FaceStatus {
            id,
            thread: 0,
            remote: uri.clone(),
            local: uri,
            scope,
            link_type: LinkType::PointToPoint,
            networks: None,
            persistency: Persistency::Permanent,
            mtu: None,
            flags: LinkFlags::default(),
            base_congestion_marking_interval_ns: 0,
            default_congestion_threshold_bytes: 0,
            expires_in_ms: None,
            up: true,
            counters: FaceCounters::default(),
            link: LinkCounters::default(),
        }
    }

    /// Location of its peer, or of its group's members.
    pub fn whereabouts(&self) -> Whereabouts {
        match (&self.remote, &self.local, &self.networks) {
            (_, _, Some(networks)) => Whereabouts::Networks(Arc::clone(networks)),
            (FaceUri::Ethernet(_), FaceUri::Dev(interface), _) => Whereabouts::Stations(interface.as_str().into()),
            (FaceUri::Udp(peer) | FaceUri::Tcp(peer), ..) => Whereabouts::Host(*peer),
            (FaceUri::WebSocket(peer) | FaceUri::WebSocketClient(peer), ..) => Whereabouts::Host(*peer),
            _ => Whereabouts::Alone,
        }
    }
}

/// Link-layer counters of a face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LinkCounters {
    pub in_bytes: u64,
    pub out_bytes: u64,
    /// Frames that were no LpPacket, or that held no packet.
    pub in_malformed: u64,
    /// Reassemblies that were given up.
    pub in_reassembly_timeouts: u64,
    /// Packets not sent: queue full, too long, or refused by the system.
    pub out_drops: u64,
    pub congestion_marks: u64,
    pub retransmissions: u64,
}

impl LinkCounters {
    /// All counters, in the order of the fields.
    pub(crate) fn to_array(self) -> [u64; 7] {
        let LinkCounters {
            in_bytes,
            out_bytes,
            in_malformed,
            in_reassembly_timeouts,
            out_drops,
            congestion_marks,
            retransmissions,
        } = self;
        [in_bytes, out_bytes, in_malformed, in_reassembly_timeouts, out_drops, congestion_marks, retransmissions]
    }

    /// The counters of [`LinkCounters::to_array`].
    pub(crate) fn of_array(counters: [u64; 7]) -> Self {
        let [in_bytes, out_bytes, in_malformed, in_reassembly_timeouts, out_drops, congestion_marks, retransmissions] =
            counters;
        LinkCounters {
            in_bytes,
            out_bytes,
            in_malformed,
            in_reassembly_timeouts,
            out_drops,
            congestion_marks,
            retransmissions,
        }
    }

    /// Adds the counters of another face.
    pub fn add(&mut self, other: &LinkCounters) {
        self.with(other, |count, other| count + other);
    }

    /// These counters without those of a part.
    pub(crate) fn less(mut self, part: &LinkCounters) -> LinkCounters {
        self.with(part, u64::saturating_sub);
        self
    }

    /// Raises each counter to the other value if that is higher.
    pub(crate) fn raise(&mut self, other: &LinkCounters) {
        self.with(other, u64::max);
    }

    fn with(&mut self, other: &LinkCounters, combine: impl Fn(u64, u64) -> u64) {
        let LinkCounters {
            in_bytes,
            out_bytes,
            in_malformed,
            in_reassembly_timeouts,
            out_drops,
            congestion_marks,
            retransmissions,
        } = self;
        for (count, other) in [
            (in_bytes, other.in_bytes),
            (out_bytes, other.out_bytes),
            (in_malformed, other.in_malformed),
            (in_reassembly_timeouts, other.in_reassembly_timeouts),
            (out_drops, other.out_drops),
            (congestion_marks, other.congestion_marks),
            (retransmissions, other.retransmissions),
        ] {
            *count = combine(*count, other);
        }
    }
}

/// Events of faces. Only the last event of a face contains counts of network packets.
#[derive(Debug, Clone)]
pub enum FaceEvent {
    /// The face exists now.
    Created(FaceStatus),
    /// The face is gone.
    Destroyed(FaceStatus),
    /// A permanent face can send again.
    Up(FaceStatus),
    /// A permanent face lost its peer and reconnects.
    Down(FaceStatus),
}

impl FaceEvent {
    pub(crate) fn status_mut(&mut self) -> &mut FaceStatus {
        let (FaceEvent::Created(status)
        | FaceEvent::Destroyed(status)
        | FaceEvent::Up(status)
        | FaceEvent::Down(status)) = self;
        status
    }
}

/// Reason why a face is not created.
#[derive(Debug, Clone, Error)]
pub enum CreateFaceError {
    /// A face with this remote URI exists; this is its status.
    #[error("the face exists already as {}", .0.id)]
    Exists(Box<FaceStatus>),
    /// No channel can create it, or its parameters contradict each other. Management answers 406.
    #[error("{0}")]
    Unacceptable(String),
    /// The system refused. Management answers 504.
    #[error("{0}")]
    Failed(String),
}

/// Outcome of a request for a face.
pub type Creation = Result<FaceStatus, CreateFaceError>;

/// Notes the thread on which a request was decided.
pub(crate) fn decided_on(thread: usize, creation: Creation) -> Creation {
    creation.map(|status| FaceStatus { thread, ..status }).map_err(|error| match error {
        CreateFaceError::Exists(status) => CreateFaceError::Exists(Box::new(FaceStatus { thread, ..*status })),
        other => other,
    })
}

/// Reason why a face is not changed.
#[derive(Debug, Clone, Error)]
pub enum UpdateFaceError {
    /// There is no such face. Management answers 404.
    #[error("no such face")]
    NotFound,
    /// The face cannot have this setting. Management answers 409.
    #[error("{0}")]
    Unacceptable(String),
}

/// Reason why a face does not move to another packet thread.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MoveFaceError {
    /// There is no such face. Management answers 404.
    #[error("no such face")]
    NotFound,
    /// There is no such thread. Management answers 406.
    #[error("there is no packet thread {thread}: they have the numbers 0 to {last}")]
    NoThread {
        /// The number in the request.
        thread: u64,
        /// The greatest number of a thread.
        last: usize,
    },
    /// The face cannot leave its thread, or the other thread cannot take it. Management answers 409.
    #[error("{0}")]
    Stays(String),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Status of an on-demand face.
    pub(crate) fn status(id: u64) -> FaceStatus {
        FaceStatus {
            persistency: Persistency::OnDemand,
            ..FaceStatus::plain(FaceId(id), FaceUri::Null, Scope::NonLocal)
        }
    }

    #[test]
    fn a_mask_selects_the_flags_that_change() {
        let flags = LinkFlags { local_fields: true, reliability: false, congestion_marking: true };
        assert_eq!(flags.bits(), 5);
        assert_eq!(flags.masked(2, 6).bits(), 3);
        assert_eq!(flags.masked(7, 0), flags);
    }
}
