//! Settings of a memif port.

use std::path::PathBuf;

use byname_wire::PACKET_BYTES_MAX;

use super::handshake::Terms;
use super::message::SECRET_BYTES;
use super::rings::Role;
use crate::frames::datagram::DatagramPeer;

/// Content of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// A link packet, as in NDN-DPDK and NDNgo.
    #[default]
    Packets,
    /// A link packet in an Ethernet frame of EtherType 0x8624, for switches on the way.
    Ethernet,
}

/// Settings of a memif port.
#[derive(Debug, Clone)]
pub struct MemifConfig {
    /// Path of the control socket.
    pub socket: PathBuf,
    /// Number of the interface on this socket.
    pub id: u32,
    /// Role of this end.
    pub role: Role,
    /// Content of each buffer.
    pub framing: Framing,
    /// Peer by UDP. If present, packets are in UDP datagrams in Ethernet frames.
    pub datagrams: Option<DatagramPeer>,
    /// A text of up to 24 bytes that both ends must know. Zeros mean none.
    pub secret: [u8; SECRET_BYTES],
    /// Binary logarithm of the slots in each ring, 3 to 14. A server uses the client's rings.
    pub slots_log2: u8,
    /// Bytes of each buffer. A server uses the client's buffers.
    pub buffer_bytes: u32,
    /// Longest link packet sent, in bytes. A packet that is longer than a buffer takes several.
    pub mtu: usize,
    /// Whether the peer is an application of this host, which may use /localhost.
    pub local: bool,
    /// Whether the face marks packets under congestion.
    pub congestion_marking: bool,
}

impl MemifConfig {
    /// The socket and the number: see [`Port::interface`](crate::Port::interface).
    pub fn interface(&self) -> String {
        format!("{}, id {}", self.socket.display(), self.id)
    }

    /// Default settings for this end of a socket.
    pub fn new(socket: impl Into<PathBuf>, role: Role) -> Self {
        MemifConfig {
            socket: socket.into(),
            id: 0,
            role,
            framing: Framing::default(),
            datagrams: None,
            secret: [0; SECRET_BYTES],
            slots_log2: 10,
            buffer_bytes: 2048,
            mtu: PACKET_BYTES_MAX,
            local: false,
            congestion_marking: true,
        }
    }

    /// Terms on which both ends must agree, with one ring in each direction.
    pub fn terms(&self) -> Terms {
        let MemifConfig { id, secret, slots_log2, buffer_bytes, .. } = *self;
        Terms { id, secret, slots_log2, buffer_bytes, pairs: 1 }
    }
}
