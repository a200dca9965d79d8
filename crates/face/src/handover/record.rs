//! What one process tells the next about sockets and faces.
//!
//! Times are ages or spans, because the clocks of two processes begin at different moments.

use byname_forward::FaceId;
use byname_forward::face_table::{Persistency, Scope};
use serde::{Deserialize, Serialize};

use crate::face::{FaceRequest, FaceStatus, LinkFlags};
use crate::uri::FaceUri;

/// A socket that belongs to a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketRecord {
    /// Name of the port.
    pub port: String,
    /// Its local address, as a face URI.
    pub local: String,
    /// Number of the packet thread that reads it.
    pub thread: usize,
}

/// A face.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceRecord {
    /// Its number, which it keeps.
    pub id: u64,
    /// Number of the packet thread that owns it.
    pub thread: usize,
    /// Name of its port.
    pub port: String,
    /// URI of the peer.
    pub remote: String,
    /// URI of the local end.
    pub local: String,
    /// Whether its scope is local.
    pub is_local: bool,
    /// The number that management uses.
    pub persistency: u64,
    /// Its counters of packets, in the order of [`byname_forward::face_table::FaceCounters`].
    #[serde(default)]
    pub counters: [u64; 10],
    /// Whether packets that are addressed to its application by locator reach it.
    #[serde(default)]
    pub is_endpoint: bool,
    /// Its link service.
    pub link: LinkRecord,
    /// State of a face on a stream.
    #[serde(default)]
    pub stream: Option<StreamRecord>,
    /// State of a face on a socket that several peers share, or of a group.
    #[serde(default)]
    pub peer: Option<PeerRecord>,
}

impl FaceRecord {
    /// The record of a face that does not pass to another process, but can be made anew there.
    pub(crate) fn of(status: &FaceStatus, port: &str) -> Self {
        FaceRecord {
            id: status.id.0,
            thread: status.thread,
            port: port.to_owned(),
            remote: status.remote.to_string(),
            local: status.local.to_string(),
            is_local: status.scope == Scope::Local,
            persistency: persistency_number(status.persistency),
            counters: [0; 10],
            is_endpoint: false,
            link: LinkRecord {
                flags: status.flags.bits(),
                mtu: status.mtu,
                marking_interval_ns: status.base_congestion_marking_interval_ns,
                marking_threshold_bytes: status.default_congestion_threshold_bytes,
                counters: status.link.to_array(),
                ..LinkRecord::default()
            },
            stream: None,
            peer: None,
        }
    }

    /// Whether the face did not pass from the other process, and has to be made anew.
    pub fn is_made_anew(&self) -> bool {
        self.stream.is_none() && self.peer.is_none()
    }

    /// The request that makes the face anew. `None` if its peer or its port has to make it.
    pub fn request(&self) -> Option<FaceRequest> {
        let (remote, local): (FaceUri, FaceUri) = (self.remote.parse().ok()?, self.local.parse().ok()?);
        let is_own = remote.is_group() || remote == local;
        let connects = remote.connects_to().is_some();
        (self.persistency() != Persistency::OnDemand && !is_own).then(|| FaceRequest {
            remote,
            // A connection chooses these itself.
            local: Some(local).filter(|_| !connects),
            persistency: self.persistency(),
            connect_within: None,
            mtu: self.link.mtu.filter(|_| !connects),
            flags: LinkFlags::default().masked(self.link.flags, u64::MAX),
            base_congestion_marking_interval_ns: Some(self.link.marking_interval_ns),
            default_congestion_threshold_bytes: Some(self.link.marking_threshold_bytes),
        })
    }

    pub(crate) fn former(&self) -> Option<FormerFace> {
        let (remote, local) = (self.remote.parse().ok()?, self.local.parse().ok()?);
        Some(FormerFace { remote, local, id: FaceId(self.id) })
    }

    /// Its persistency. Unknown numbers are on-demand, which lasts least.
    pub fn persistency(&self) -> Persistency {
        match self.persistency {
            0 => Persistency::Persistent,
            2 => Persistency::Permanent,
            _ => Persistency::OnDemand,
        }
    }
}

/// A face of another process: its ends and its number.
#[derive(Debug, Clone)]
pub(crate) struct FormerFace {
    pub remote: FaceUri,
    pub local: FaceUri,
    pub id: FaceId,
}

/// The number of a persistency in management and in records.
pub(crate) fn persistency_number(persistency: Persistency) -> u64 {
    match persistency {
        Persistency::Persistent => 0,
        Persistency::OnDemand => 1,
        Persistency::Permanent => 2,
    }
}

/// A link service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// The bits of its features.
    pub flags: u64,
    /// Longest frame, in bytes.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// Shortest time between congestion marks, in ns.
    pub marking_interval_ns: u64,
    /// Queue length from which packets are marked, in bytes.
    pub marking_threshold_bytes: u64,
    /// Sequence of the next frame.
    pub next_sequence: u64,
    /// Its counters, in the order of [`crate::face::LinkCounters`].
    #[serde(default)]
    pub counters: [u64; 7],
    /// The peer's Interests without an answer.
    #[serde(default)]
    pub unanswered: u64,
    /// State of reliability, if that is on.
    #[serde(default)]
    pub reliability: Option<ReliabilityRecord>,
}

/// Reliability of a link. Frames that are not acknowledged are not among it: they are not sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReliabilityRecord {
    /// TxSequence of the next frame.
    pub next_tx_sequence: u64,
    /// Acks to send.
    pub acks_due: Vec<u64>,
    /// Sequences that came, oldest first.
    pub recent: Vec<u64>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Its phase.
    pub phase: PhaseRecord,
    /// Whether the peer made the connection.
    pub accepted: bool,
    /// Attempts to connect that failed or did not last.
    pub attempts: u32,
    /// Whether the peer has sent a whole frame.
    pub has_spoken: bool,
    /// Whether the end of the peer's input was read.
    pub input_ended: bool,
    /// Time since the peer's last input, in ms.
    pub silent_ms: u64,
    /// Bytes that were received and are no whole frame, or were not handled yet.
    #[serde(with = "serde_bytes")]
    pub input: Vec<u8>,
    /// Bytes to send.
    #[serde(with = "serde_bytes")]
    pub output: Vec<u8>,
    /// Offset in the output at which the first whole frame begins.
    pub frame_at: usize,
    /// Its WebSocket, if it is one.
    #[serde(default)]
    pub web_socket: Option<WebSocketRecord>,
}

/// Phase of a connection, with the ms until the phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PhaseRecord {
    /// Packets flow.
    Open,
    /// The peer has ended its sending.
    Lingering(u64),
    /// A permanent face without a connection tries again.
    Waiting(u64),
}

/// A WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSocketRecord {
    /// Whether this host is the server.
    pub is_server: bool,
    /// Whether the peer may be a process of this host.
    pub may_be_local: bool,
}

/// A peer or a group on a socket of datagrams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRecord {
    /// Time since the peer was heard, in ms.
    pub silent_ms: u64,
    /// Frames to send.
    pub queue: Vec<serde_bytes::ByteBuf>,
    /// Name of the interface of a group.
    #[serde(default)]
    pub interface: Option<String>,
}
