//! Elements about faces and channels.

use crate::{element, types};

element! {
    /// A face in the datasets `faces/list` and `faces/query`.
    FaceStatus = types::FACE_STATUS, {
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// URI of the peer.
        uri: String = types::URI,
        /// URI of the local end.
        local_uri: String = types::LOCAL_URI,
        /// Time to live of an idle on-demand face, in ms.
        expiration_period_ms: Option<u64> = types::EXPIRATION_PERIOD,
        /// 0 non-local, 1 local.
        face_scope: u64 = types::FACE_SCOPE,
        /// 0 persistent, 1 on demand, 2 permanent.
        face_persistency: u64 = types::FACE_PERSISTENCY,
        /// 0 point to point, 1 multi-access, 2 ad hoc.
        link_type: u64 = types::LINK_TYPE,
        /// See `byname_face::FaceStatus`.
        base_congestion_marking_interval_ns: Option<u64> = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// See `byname_face::FaceStatus`.
        default_congestion_threshold_bytes: Option<u64> = types::DEFAULT_CONGESTION_THRESHOLD,
        /// Largest frame, in bytes.
        mtu: Option<u64> = types::MTU,
        /// Interests received.
        n_in_interests: u64 = types::N_IN_INTERESTS,
        /// Data received.
        n_in_data: u64 = types::N_IN_DATA,
        /// Nacks received.
        n_in_nacks: u64 = types::N_IN_NACKS,
        /// Interests sent.
        n_out_interests: u64 = types::N_OUT_INTERESTS,
        /// Data sent.
        n_out_data: u64 = types::N_OUT_DATA,
        /// Nacks sent.
        n_out_nacks: u64 = types::N_OUT_NACKS,
        /// Bytes received.
        n_in_bytes: u64 = types::N_IN_BYTES,
        /// Bytes sent.
        n_out_bytes: u64 = types::N_OUT_BYTES,
        /// Bit 0 local fields, bit 1 reliability, bit 2 congestion marking.
        flags: u64 = types::FLAGS,
        /// Received frames that are not valid packets. This field and all that follow are absent in other forwarders.
        n_in_malformed: Option<u64> = types::N_IN_MALFORMED,
        /// Packets whose fragments did not arrive in time.
        n_reassembly_timeouts: Option<u64> = types::N_REASSEMBLY_TIMEOUTS,
        /// Packets not sent because the queue was full, they were too large, or the system refused.
        n_out_drops: Option<u64> = types::N_OUT_DROPS,
        /// Packets marked as congested.
        n_congestion_marks: Option<u64> = types::N_CONGESTION_MARKS,
        /// Retransmitted frames.
        n_retransmissions: Option<u64> = types::N_RETRANSMISSIONS,
        /// Number of the packet thread that owns the face. Absent for reserved faces.
        thread: Option<u64> = types::THREAD,
    }
}

element! {
    /// A listener in the dataset `faces/channels`.
    ChannelStatus = types::CHANNEL_STATUS, {
        /// URI on which it listens.
        local_uri: String = types::LOCAL_URI,
    }
}

element! {
    /// Filter of `faces/query`: selects the faces that match every field present.
    FaceQueryFilter = types::FACE_QUERY_FILTER, {
        /// Face id.
        face_id: Option<u64> = types::FACE_ID,
        /// Scheme of either URI.
        uri_scheme: Option<String> = types::URI_SCHEME,
        /// URI of the peer.
        uri: Option<String> = types::URI,
        /// URI of the local end.
        local_uri: Option<String> = types::LOCAL_URI,
        /// As in [`FaceStatus`].
        face_scope: Option<u64> = types::FACE_SCOPE,
        /// As in [`FaceStatus`].
        face_persistency: Option<u64> = types::FACE_PERSISTENCY,
        /// As in [`FaceStatus`].
        link_type: Option<u64> = types::LINK_TYPE,
    }
}

/// Kind of a face event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceEventKind {
    /// The face was created: 1.
    Created,
    /// The face was destroyed: 2.
    Destroyed,
    /// The face can send again: 3.
    Up,
    /// The face cannot send for now: 4.
    Down,
}

impl FaceEventKind {
    /// Number in the notification.
    pub fn number(self) -> u64 {
        match self {
            FaceEventKind::Created => 1,
            FaceEventKind::Destroyed => 2,
            FaceEventKind::Up => 3,
            FaceEventKind::Down => 4,
        }
    }
    /// The kind with this number in a notification.
    pub fn from_number(n: u64) -> Option<Self> {
        use FaceEventKind::{Created, Destroyed, Down, Up};
        [Created, Destroyed, Up, Down].into_iter().find(|kind| kind.number() == n)
    }
}

element! {
    /// One notification of the stream `faces/events`.
    FaceEventNotification = types::FACE_EVENT_NOTIFICATION, {
        /// A [`FaceEventKind`].
        face_event_kind: u64 = types::FACE_EVENT_KIND,
        /// Face id.
        face_id: u64 = types::FACE_ID,
        /// URI of the peer.
        uri: String = types::URI,
        /// URI of the local end.
        local_uri: String = types::LOCAL_URI,
        /// As in [`FaceStatus`].
        face_scope: u64 = types::FACE_SCOPE,
        /// As in [`FaceStatus`].
        face_persistency: u64 = types::FACE_PERSISTENCY,
        /// As in [`FaceStatus`].
        link_type: u64 = types::LINK_TYPE,
        /// As in [`FaceStatus`].
        flags: u64 = types::FLAGS,
    }
}
