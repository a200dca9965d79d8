//! Settings of an Ethernet port.

use std::time::Duration;

use byname_forward::dispatch::part_of;

use crate::frames::datagram::DatagramPeer;
use crate::frames::fanout::socket_of_path;
use crate::frames::frame::GROUP;
use crate::frames::socket::SocketConfig;
use crate::mac_address::MacAddress;

/// Maximum number of peers by UDP on one interface, because each frame may be compared with all.
pub const DATAGRAM_PEERS_MAX: usize = 64;

/// Settings of an Ethernet port.
#[derive(Debug, Clone)]
pub struct EthernetConfig {
    /// Name of the interface.
    pub interface: String,
    /// The group. `None`: no multicast face.
    pub group: Option<MacAddress>,
    /// Whether some members of the group may not hear each other, as on some radio links.
    pub ad_hoc: bool,
    /// Whether unknown stations get a face.
    pub on_demand: bool,
    /// Maximum number of on-demand faces.
    pub on_demand_faces_max: usize,
    /// Time after which an on-demand face without a packet from its peer is removed.
    pub idle_timeout: Duration,
    /// Longest payload of a sent frame, in bytes. The interface's MTU applies if that is shorter.
    pub mtu: usize,
    /// Whether on-demand faces mark packets under congestion.
    pub congestion_marking: bool,
    /// Whether to put the interface into promiscuous mode, for devices that do not filter groups correctly.
    pub promiscuous: bool,
    /// Peers that are reached by UDP, in frames that bypass the kernel's IP. At most [`DATAGRAM_PEERS_MAX`].
    pub datagrams: Vec<DatagramPeer>,
    /// Memory of the receive ring, in bytes.
    pub receive_ring_bytes: usize,
    /// Memory of the transmit ring, in bytes.
    pub transmit_ring_bytes: usize,
}

impl EthernetConfig {
    /// Default settings for this interface.
    pub fn new(interface: impl Into<String>) -> Self {
        EthernetConfig {
            interface: interface.into(),
            group: Some(GROUP),
            ad_hoc: false,
            on_demand: true,
            on_demand_faces_max: 4096,
            idle_timeout: Duration::from_secs(600),
            mtu: byname_wire::PACKET_BYTES_MAX,
            congestion_marking: true,
            promiscuous: false,
            datagrams: Vec::new(),
            receive_ring_bytes: 8 << 20,
            transmit_ring_bytes: 4 << 20,
        }
    }

    /// Settings of one of several ports on the interface. The ports share the peers by UDP and the maximum of on-demand
    /// faces, and the group belongs to the first.
    pub(super) fn part(&self, number: usize, ports: usize) -> EthernetConfig {
        let paths = self.datagrams.iter().enumerate();
        let own_paths = paths.filter(|(path, _)| socket_of_path(*path, ports) == number);
        EthernetConfig {
            datagrams: own_paths.map(|(_, peer)| *peer).collect(),
            on_demand_faces_max: part_of(self.on_demand_faces_max, number, ports),
            ..self.clone()
        }
    }

    /// Settings of its socket.
    pub fn socket(&self) -> SocketConfig {
        SocketConfig {
            group: self.group,
            paths: self.datagrams.iter().map(|peer| peer.path).collect(),
            promiscuous: self.promiscuous,
            receive_ring_bytes: self.receive_ring_bytes,
            transmit_ring_bytes: self.transmit_ring_bytes,
        }
    }
}
