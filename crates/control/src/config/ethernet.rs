//! `[[faces.ethernet]]`: interfaces on which the router sends and receives Ethernet frames itself.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use byname_face::ethernet::DATAGRAM_PEERS_MAX;
use byname_face::frames::datagram::{DatagramPeer, Path};
use byname_face::frames::frame::GROUP;
use byname_face::frames::xdp;
use byname_face::mac_address::MacAddress;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::queues::Queues;
use super::value;

/// `[[faces.ethernet]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ethernet {
    /// Name of the interface.
    #[serde(deserialize_with = "interface")]
    pub interface: String,
    /// I/O interface for its frames.
    #[serde(default)]
    pub port: EthernetPort,
    /// Queues with ports of their own.
    #[serde(default)]
    pub queues: Queues,
    /// Mode of AF_XDP sockets.
    #[serde(default)]
    pub xdp_mode: XdpMode,
    /// The DPDK device, which `interface` names.
    #[serde(default)]
    pub dpdk_device: String,
    /// MTU of the DPDK device, in bytes.
    #[serde(default = "dpdk_mtu", deserialize_with = "dpdk_mtu_value")]
    pub dpdk_mtu: u16,
    /// UDP peers in frames.
    #[serde(default)]
    pub udp: Vec<EthernetUdp>,
    /// Whether a frame from a new station creates a face.
    #[serde(default = "yes")]
    pub listen: bool,
    /// Whether there is a multicast face.
    #[serde(default = "yes")]
    pub multicast: bool,
    /// The multicast group.
    #[serde(default = "group_default", deserialize_with = "group")]
    pub group: MacAddress,
    /// Whether some members cannot hear each other.
    #[serde(default)]
    pub ad_hoc: bool,
    /// Idle time after which an on-demand face is closed.
    #[serde(default = "idle_timeout", deserialize_with = "value::duration")]
    pub idle_timeout: Duration,
    /// Largest frame to send, in bytes.
    #[serde(default = "mtu", deserialize_with = "value::mtu")]
    pub mtu: u64,
    /// Whether to set the interface to promiscuous mode.
    #[serde(default)]
    pub promiscuous: bool,
    /// Whether sent frames bypass the system's queueing discipline.
    #[serde(default)]
    pub qdisc_bypass: bool,
    /// Memory of the receive ring, in bytes.
    #[serde(default = "receive_ring", deserialize_with = "ring_bytes")]
    pub receive_ring: usize,
    /// Memory of the transmit ring, in bytes.
    #[serde(default = "transmit_ring", deserialize_with = "ring_bytes")]
    pub transmit_ring: usize,
}

/// A UDP peer in frames: `udp` in `[[faces.ethernet]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EthernetUdp {
    /// Address and port of this host.
    #[serde(deserialize_with = "host_address")]
    pub local: SocketAddr,
    /// Address and port of the peer.
    #[serde(deserialize_with = "host_address")]
    pub remote: SocketAddr,
    /// MAC address to send frames to. `None`: the source of the peer's last frame.
    #[serde(default, deserialize_with = "station")]
    pub station: Option<MacAddress>,
}

impl EthernetUdp {
    /// The peer in the port's types.
    pub(super) fn of_port(&self) -> DatagramPeer {
        let path = Path { here: self.local, there: self.remote };
        DatagramPeer { path, station: self.station }
    }

    /// Checks the addresses against each other. `name` is the interface.
    pub(super) fn check(&self, name: &impl fmt::Display) -> Result<(), String> {
        let EthernetUdp { local, remote, .. } = self;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(format!(
                "{name} has a peer in `udp` with {local} and {remote}: both must be IPv4, or both IPv6"
            ));
        }
        Ok(())
    }
}

impl Ethernet {
    /// What tells it apart from others: the interface.
    pub fn key(&self) -> String {
        self.interface.clone()
    }

    /// All UDP peers in the port's types.
    pub fn datagram_peers(&self) -> Vec<DatagramPeer> {
        self.udp.iter().map(EthernetUdp::of_port).collect()
    }

    /// Checks settings against each other.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.interface;
        match (self.port, self.dpdk_device.is_empty()) {
            (EthernetPort::Dpdk, true) => {
                return Err(format!(
                    "{name} has port = \"dpdk\" but no device: write for example dpdk_device = \"0000:01:00.0\", which \
                     `dpdk-devbind.py --status` lists, or \"net_memif0,role=server,socket=/run/dpdk.sock,socket-abstract=no\""
                ));
            }
            (EthernetPort::PacketMmap | EthernetPort::Xdp, false) => {
                return Err(format!("{name} has a dpdk_device, but its port is not \"dpdk\": write port = \"dpdk\""));
            }
            _ => {}
        }
        if self.udp.len() > DATAGRAM_PEERS_MAX {
            return Err(format!("{name} has {} peers in `udp`; write at most {DATAGRAM_PEERS_MAX}", self.udp.len()));
        }
        for (n, peer) in self.udp.iter().enumerate() {
            peer.check(name)?;
            let remote = peer.remote;
            if self.udp[..n].iter().any(|other| other.remote == remote) {
                return Err(format!("{name} has two peers in `udp` at {remote}: leave one out"));
            }
        }
        Ok(())
    }
}

/// I/O interface for the frames of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EthernetPort {
    /// Packet sockets with mmap rings.
    #[default]
    PacketMmap,
    /// AF_XDP sockets.
    Xdp,
    /// DPDK drivers, if byname was built with DPDK.
    Dpdk,
}

/// `[faces.dpdk]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dpdk {
    /// Arguments for DPDK's EAL, in addition to the router's own.
    pub eal: Vec<String>,
}

/// Mode of AF_XDP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// The first available of the other modes.
    #[default]
    Auto,
    /// The card reads and writes the socket's memory, without a copy.
    ZeroCopy,
    /// The driver copies frames.
    Copy,
    /// The network stack copies frames; works with any driver.
    Generic,
}

impl XdpMode {
    /// The mode in the port's type.
    pub fn of_port(self) -> xdp::Mode {
        match self {
            XdpMode::Auto => xdp::Mode::Auto,
            XdpMode::ZeroCopy => xdp::Mode::ZeroCopy,
            XdpMode::Copy => xdp::Mode::Copy,
            XdpMode::Generic => xdp::Mode::Generic,
        }
    }
}

fn yes() -> bool {
    true
}

fn group_default() -> MacAddress {
    GROUP
}

fn idle_timeout() -> Duration {
    Duration::from_secs(600)
}

fn mtu() -> u64 {
    8800
}

fn dpdk_mtu() -> u16 {
    1500
}

fn dpdk_mtu_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match u16::deserialize(deserializer)? {
        mtu @ 68..=9600 => Ok(mtu),
        mtu => Err(D::Error::custom(format!("a device's MTU of {mtu} bytes is not possible; write 68 to 9600"))),
    }
}

fn receive_ring() -> usize {
    8 << 20
}

fn transmit_ring() -> usize {
    4 << 20
}

fn interface<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() || name.len() > 15 || name.contains(['/', ':', ' ']) {
        return Err(D::Error::custom(format!(
            "\"{name}\" is not the name of an interface; write for example \"eth0\""
        )));
    }
    Ok(name)
}

/// A unicast address of a host on a link, with a port.
fn host_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let address = value::socket_address(deserializer)?;
    let ip = address.ip();
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || address.port() == 0 {
        return Err(D::Error::custom(format!(
            "{address} is not the address of a host on this link with a port; write for example \"192.0.2.1:6363\""
        )));
    }
    Ok(address)
}

fn station<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MacAddress>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address: Option<MacAddress> = text.parse().ok();
    address.filter(|address| !address.is_group() && !address.is_zero()).map(Some).ok_or_else(|| {
        D::Error::custom(format!(
            "\"{text}\" is not the MAC address of a single host; write for example \"08:00:27:01:02:03\""
        ))
    })
}

fn group<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddress, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address: Option<MacAddress> = text.parse().ok();
    address.filter(|address| address.is_group()).ok_or_else(|| {
        D::Error::custom(format!("\"{text}\" is not a multicast MAC address; write for example \"01:00:5e:00:17:aa\""))
    })
}

/// Size of a ring of frames, in bytes.
pub fn ring_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match value::bytes(deserializer)? {
        bytes @ 65_536..=0x4000_0000 => Ok(bytes),
        bytes => {
            Err(D::Error::custom(format!("a ring of {bytes} bytes is not possible; write \"64 KiB\" to \"1 GiB\"")))
        }
    }
}
