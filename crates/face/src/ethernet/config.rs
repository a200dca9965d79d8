//! Settings of an Ethernet port, and why they may not do.

use std::io::{self, ErrorKind};
use std::time::Duration;

use thiserror::Error;

use super::datagram::Path;
use super::ring::{Frames, RingConfig};
use super::xdp;
use crate::mac_address::MacAddress;

/// The group of NDN stations, as NFD has it.
pub const GROUP: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]);
/// Most peers by UDP on one interface: each frame may be compared with all.
pub const DATAGRAM_PEERS_MAX: usize = 64;

/// A peer that is reached by UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPeer {
    /// Both ends.
    pub path: Path,
    /// Whom frames to it go to: itself, or a router on the way. `None`: whoever its latest datagram came from; until
    /// it has sent one, nothing can be sent to it.
    pub station: Option<MacAddress>,
}

/// Settings of an Ethernet port.
#[derive(Debug, Clone)]
pub struct EthernetConfig {
    /// Name of the interface.
    pub interface: String,
    /// The group; `None`: no multicast face.
    pub group: Option<MacAddress>,
    /// Not all members of the group hear each other, as on some radio links.
    pub ad_hoc: bool,
    /// Whether unknown stations get a face.
    pub on_demand: bool,
    /// Most on-demand faces.
    pub on_demand_faces_max: usize,
    /// How long an on-demand face lives without a packet from its peer.
    pub idle_timeout: Duration,
    /// Longest payload of a frame sent, in octets; the interface's MTU where that is shorter.
    pub mtu: usize,
    /// Whether on-demand faces mark packets under congestion.
    pub congestion_marking: bool,
    /// Puts the interface into promiscuous mode, for devices that do not filter groups right.
    pub promiscuous: bool,
    /// Frames go to the driver past the queueing discipline, and past captures of other programs; those of
    /// AF_XDP always do.
    pub qdisc_bypass: bool,
    /// Peers that are reached by UDP, in frames that pass the kernel's IP by; at most [`DATAGRAM_PEERS_MAX`].
    pub datagrams: Vec<DatagramPeer>,
    /// How frames come to sockets of AF_XDP.
    pub xdp_mode: xdp::Mode,
    /// The device whose frames come by DPDK, by which the interface then has its name only.
    #[cfg(feature = "dpdk")]
    pub device: Option<std::sync::Arc<super::dpdk::Device>>,
    /// Memory of the receive ring, in bytes.
    pub receive_ring_bytes: usize,
    /// Memory of the transmit ring, in bytes.
    pub transmit_ring_bytes: usize,
}

impl EthernetConfig {
    /// The defaults, on this interface.
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
            qdisc_bypass: false,
            datagrams: Vec::new(),
            xdp_mode: xdp::Mode::default(),
            #[cfg(feature = "dpdk")]
            device: None,
            receive_ring_bytes: 8 << 20,
            transmit_ring_bytes: 4 << 20,
        }
    }

    /// Settings of a packet socket.
    pub fn ring(&self) -> RingConfig {
        RingConfig {
            frames: Frames::Ndn { group: self.group },
            paths: self.datagrams.iter().map(|peer| peer.path).collect(),
            promiscuous: self.promiscuous,
            qdisc_bypass: self.qdisc_bypass,
            receive_bytes: self.receive_ring_bytes,
            transmit_bytes: self.transmit_ring_bytes,
        }
    }
}

/// Why an interface cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// There is none of that name.
    #[error("there is no network interface {0}; `ip link` lists them")]
    NoInterface(String),
    /// It has no MAC addresses.
    #[error("{0} is no Ethernet interface; `ip link` shows which are (link/ether)")]
    NotEthernet(String),
    /// The process may not.
    #[error(
        "frames on {0} need the capability CAP_NET_RAW: run as root, or once, as root, \
         `setcap cap_net_raw+ep` on the program, or AmbientCapabilities=CAP_NET_RAW in the systemd unit"
    )]
    NotPermitted(String),
    /// The system refuses otherwise.
    #[error("cannot use {interface} frame by frame: {error}")]
    System {
        /// The interface.
        interface: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// There is no socket of AF_XDP.
    #[error("cannot use XDP on {interface}: {reason}")]
    Xdp {
        /// The interface.
        interface: String,
        /// Why.
        #[source]
        reason: xdp::XdpError,
    },
}

impl OpenError {
    /// Whether somebody has what was asked for, who may leave it.
    pub fn is_taken(&self) -> bool {
        matches!(self, OpenError::Xdp { reason: xdp::XdpError::Taken, .. })
    }

    /// What the system said.
    pub fn of_system(interface: &str, error: io::Error) -> Self {
        let interface = interface.to_owned();
        match error.kind() {
            ErrorKind::PermissionDenied => OpenError::NotPermitted(interface),
            _ => OpenError::System { interface, error },
        }
    }
}
