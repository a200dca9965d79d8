//! What the control side sees of faces.

use byname_forward::FaceId;
use byname_forward::face_table::{FaceCounters, LinkType, Persistency, Scope};
use thiserror::Error;

use crate::uri::FaceUri;

/// Link services of a face (the Flags bits of management).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkFlags {
    /// Bit 0: NextHopFaceId, IncomingFaceId and cache policy pass.
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
    /// These flags with those bits of `flags` that `mask` selects.
    pub fn masked(self, flags: u64, mask: u64) -> LinkFlags {
        let bits = self.bits() & !mask | flags & mask;
        LinkFlags { local_fields: bits & 1 != 0, reliability: bits & 2 != 0, congestion_marking: bits & 4 != 0 }
    }
}

/// A face to create.
#[derive(Debug, Clone)]
pub struct FaceRequest {
    /// The peer.
    pub remote: FaceUri,
    /// The local end, where the caller cares.
    pub local: Option<FaceUri>,
    /// Persistent or permanent.
    pub persistency: Persistency,
    /// Largest frame to send, in octets; the port's own limit when absent.
    pub mtu: Option<u64>,
    /// Link services.
    pub flags: LinkFlags,
    /// See [`FaceStatus::base_congestion_marking_interval_ns`].
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// See [`FaceStatus::default_congestion_threshold_bytes`].
    pub default_congestion_threshold_bytes: Option<u64>,
}

impl FaceRequest {
    /// A persistent face to a peer; all else as its port has it.
    pub fn to(remote: FaceUri) -> Self {
        FaceRequest {
            remote,
            local: None,
            persistency: Persistency::Persistent,
            mtu: None,
            flags: LinkFlags::default(),
            base_congestion_marking_interval_ns: None,
            default_congestion_threshold_bytes: None,
        }
    }
}

/// What may be changed of a face; `None` leaves it as it is.
#[derive(Debug, Clone, Default)]
pub struct FaceChange {
    /// Persistency.
    pub persistency: Option<Persistency>,
    /// Largest frame to send, in octets.
    pub mtu: Option<u64>,
    /// Link services.
    pub flags: Option<LinkFlags>,
    /// See [`FaceStatus::base_congestion_marking_interval_ns`].
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// See [`FaceStatus::default_congestion_threshold_bytes`].
    pub default_congestion_threshold_bytes: Option<u64>,
}

/// A face as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceStatus {
    /// Its number.
    pub id: FaceId,
    /// The peer.
    pub remote: FaceUri,
    /// The local end.
    pub local: FaceUri,
    /// Whether `/localhost` may pass.
    pub scope: Scope,
    /// Who hears what is sent.
    pub link_type: LinkType,
    /// How long it lives.
    pub persistency: Persistency,
    /// Largest frame that it sends, in octets; `None`: no limit.
    pub mtu: Option<u64>,
    /// Link services.
    pub flags: LinkFlags,
    /// Congestion marking: shortest time between marks under persistent congestion.
    pub base_congestion_marking_interval_ns: u64,
    /// Congestion marking: queue length from which packets are marked.
    pub default_congestion_threshold_bytes: u64,
    /// Time to live of an idle on-demand face, in ms.
    pub expires_in_ms: Option<u64>,
    /// Whether it can send now (a permanent face may be reconnecting).
    pub up: bool,
    /// Network-layer counts.
    pub counters: FaceCounters,
    /// Link-layer counts.
    pub link: LinkCounters,
}

impl FaceStatus {
    /// A permanent face to one peer by the same name at both ends, without link services: what a face in
    /// memory is, and what others are but for what they change.
    pub fn plain(id: FaceId, uri: FaceUri, scope: Scope) -> FaceStatus {
        FaceStatus {
            id,
            remote: uri.clone(),
            local: uri,
            scope,
            link_type: LinkType::PointToPoint,
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
}

/// Link-layer counts of a face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LinkCounters {
    pub in_bytes: u64,
    pub out_bytes: u64,
    /// Frames that were no LpPacket, or whose content was no packet.
    pub in_malformed: u64,
    /// Reassemblies given up.
    pub in_reassembly_timeouts: u64,
    /// Packets not sent: queue full, too large, or refused by the system.
    pub out_drops: u64,
    pub congestion_marks: u64,
    pub retransmissions: u64,
}

/// What happens to faces. Counts of network packets are in none but the last event of a face.
#[derive(Debug, Clone)]
pub enum FaceEvent {
    /// It exists now.
    Created(FaceStatus),
    /// It is gone.
    Destroyed(FaceStatus),
    /// A permanent face can send again.
    Up(FaceStatus),
    /// A permanent face lost its peer and reconnects.
    Down(FaceStatus),
}

/// Why a face is not created.
#[derive(Debug, Clone, Error)]
pub enum CreateFaceError {
    /// There is one with this remote URI; here it is.
    #[error("the face exists already as {}", .0.id)]
    Exists(Box<FaceStatus>),
    /// No channel can make it, or its parameters make no sense together. Management answers 406.
    #[error("{0}")]
    Unacceptable(String),
    /// The system refused. Management answers 504.
    #[error("{0}")]
    Failed(String),
}

/// Why a face is not changed.
#[derive(Debug, Clone, Error)]
pub enum UpdateFaceError {
    /// No such face. Management answers 404.
    #[error("no such face")]
    NotFound,
    /// The face cannot have this setting. Management answers 409.
    #[error("{0}")]
    Unacceptable(String),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The status of some face.
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
