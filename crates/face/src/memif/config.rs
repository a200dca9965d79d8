//! Settings of a memif port.

use std::path::PathBuf;

use byname_wire::PACKET_BYTES_MAX;

use super::handshake::Terms;
use super::message::SECRET_BYTES;
use super::rings::Role;
use crate::ethernet::DatagramPeer;

/// What passes in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// A link packet, as NDN-DPDK and NDNgo have it.
    #[default]
    Packets,
    /// An Ethernet frame of EtherType 0x8624 that holds one, for switches in between.
    Ethernet,
}

/// Settings of a memif port.
#[derive(Debug, Clone)]
pub struct MemifConfig {
    /// The control socket.
    pub socket: PathBuf,
    /// Number of the interface on this socket.
    pub id: u32,
    /// Which end this is.
    pub role: Role,
    /// What passes.
    pub framing: Framing,
    /// Packets are in UDP datagrams to and from this peer, which are in Ethernet frames.
    pub datagrams: Option<DatagramPeer>,
    /// A text that both ends must know, of up to 24 octets; zeros: none.
    pub secret: [u8; SECRET_BYTES],
    /// Binary logarithm of the slots in each ring, 3 to 14; a server takes what the client brings.
    pub slots_log2: u8,
    /// Octets of each buffer; a server takes what the client brings.
    pub buffer_bytes: u32,
    /// Longest link packet sent, in octets. What is longer than a buffer takes several.
    pub mtu: usize,
    /// Whether the peer is an application of this host, which may use /localhost.
    pub local: bool,
    /// Whether the face marks packets under congestion.
    pub congestion_marking: bool,
}

impl MemifConfig {
    /// The defaults, at this end of a socket.
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

    /// What both ends must agree on.
    pub fn terms(&self) -> Terms {
        let MemifConfig { id, secret, slots_log2, buffer_bytes, .. } = *self;
        Terms { id, secret, slots_log2, buffer_bytes }
    }
}
