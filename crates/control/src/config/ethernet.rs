//! `[[faces.ethernet]]`: interfaces that the router uses frame by frame.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use byname_face::ethernet::datagram::Path;
use byname_face::ethernet::{DATAGRAM_PEERS_MAX, DatagramPeer, GROUP, xdp};
use byname_face::mac_address::MacAddress;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::value;

/// `[[faces.ethernet]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ethernet {
    /// Its name.
    #[serde(deserialize_with = "interface")]
    pub interface: String,
    /// What moves its frames.
    #[serde(default)]
    pub port: EthernetPort,
    /// How frames come to sockets of AF_XDP.
    #[serde(default)]
    pub xdp_mode: XdpMode,
    /// DPDK's device, of which `interface` is a name.
    #[serde(default)]
    pub dpdk_device: String,
    /// Largest payload of frames of that device.
    #[serde(default = "dpdk_mtu", deserialize_with = "dpdk_mtu_value")]
    pub dpdk_mtu: u16,
    /// Peers by UDP in frames.
    #[serde(default)]
    pub udp: Vec<EthernetUdp>,
    /// Whether to take packets of stations that have no face.
    #[serde(default = "yes")]
    pub listen: bool,
    /// Whether there is a face to all stations.
    #[serde(default = "yes")]
    pub multicast: bool,
    /// The group of all stations.
    #[serde(default = "group_default", deserialize_with = "group")]
    pub group: MacAddress,
    /// Whether not all members hear each other.
    #[serde(default)]
    pub ad_hoc: bool,
    /// When an idle face that a peer made goes.
    #[serde(default = "idle_timeout", deserialize_with = "value::duration")]
    pub idle_timeout: Duration,
    /// Largest frame to send.
    #[serde(default = "mtu", deserialize_with = "value::mtu")]
    pub mtu: u64,
    /// Whether the interface shows all frames to the system.
    #[serde(default)]
    pub promiscuous: bool,
    /// Whether frames pass the system's queues by.
    #[serde(default)]
    pub qdisc_bypass: bool,
    /// Memory of the receive ring.
    #[serde(default = "receive_ring", deserialize_with = "ring")]
    pub receive_ring: usize,
    /// Memory of the transmit ring.
    #[serde(default = "transmit_ring", deserialize_with = "ring")]
    pub transmit_ring: usize,
}

/// A peer by UDP in frames, `udp` in `[[faces.ethernet]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EthernetUdp {
    /// This host's address and port.
    #[serde(deserialize_with = "host_address")]
    pub local: SocketAddr,
    /// The peer's.
    #[serde(deserialize_with = "host_address")]
    pub remote: SocketAddr,
    /// Whom frames go to; absent: whoever the peer's came from.
    #[serde(default, deserialize_with = "station")]
    pub station: Option<MacAddress>,
}

impl EthernetUdp {
    /// The peer, as ports have it.
    pub(super) fn of_port(&self) -> DatagramPeer {
        let path = Path { here: self.local, there: self.remote };
        DatagramPeer { path, station: self.station }
    }

    /// What no single value can show to be wrong; `name` is the interface's.
    pub(super) fn check(&self, name: &impl fmt::Display) -> Result<(), String> {
        let EthernetUdp { local, remote, .. } = self;
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(format!("{local} and {remote}, of {name}, are not of one family: IPv4, or IPv6"));
        }
        Ok(())
    }
}

impl Ethernet {
    /// Peers by UDP, as the port has them.
    pub fn datagram_peers(&self) -> Vec<DatagramPeer> {
        self.udp.iter().map(EthernetUdp::of_port).collect()
    }

    /// What no single value can show to be wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.interface;
        match (self.port, self.dpdk_device.is_empty()) {
            (EthernetPort::Dpdk, true) => {
                return Err(format!(
                    "{name} has port = \"dpdk\" and no device: write for example dpdk_device = \"0000:01:00.0\", which \
                     `dpdk-devbind.py --status` lists, or \"net_memif0,role=server,socket=/run/dpdk.sock,socket-abstract=no\""
                ));
            }
            (EthernetPort::PacketMmap | EthernetPort::Xdp, false) => {
                return Err(format!("{name} has a dpdk_device, and another port: write port = \"dpdk\""));
            }
            _ => {}
        }
        if self.udp.len() > DATAGRAM_PEERS_MAX {
            return Err(format!("{name} has {} peers by `udp`; {DATAGRAM_PEERS_MAX} are the most", self.udp.len()));
        }
        for (n, peer) in self.udp.iter().enumerate() {
            peer.check(name)?;
            let remote = peer.remote;
            if self.udp[..n].iter().any(|other| other.remote == remote) {
                return Err(format!("{name} has two peers by `udp` at {remote}: leave one out"));
            }
        }
        Ok(())
    }
}

/// What moves the frames of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EthernetPort {
    /// Packet sockets with rings.
    #[default]
    PacketMmap,
    /// Sockets of AF_XDP.
    Xdp,
    /// Drivers of DPDK, where this was built with them.
    Dpdk,
}

/// `[faces.dpdk]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dpdk {
    /// Arguments of DPDK's environment, besides those that the router gives itself.
    pub eal: Vec<String>,
}

/// How frames come to sockets of AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpMode {
    /// The first of the others that can be had.
    #[default]
    Auto,
    /// From and to the card, without a copy.
    ZeroCopy,
    /// From the driver, with a copy.
    Copy,
    /// From behind the driver.
    Generic,
}

impl XdpMode {
    /// As the port has it.
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
        mtu => Err(D::Error::custom(format!("a device's MTU of {mtu} octets; write 68 to 9600"))),
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
        return Err(D::Error::custom(format!("\"{name}\" is no name of an interface; write for example \"eth0\"")));
    }
    Ok(name)
}

/// An address that a single host has, with a port.
fn host_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let address = value::socket_address(deserializer)?;
    let ip = address.ip();
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || address.port() == 0 {
        return Err(D::Error::custom(format!(
            "{address} is no address of a host on this link, or no port; write for example \"192.0.2.1:6363\""
        )));
    }
    Ok(address)
}

fn station<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MacAddress>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address: Option<MacAddress> = text.parse().ok();
    address.filter(|address| !address.is_group() && !address.is_zero()).map(Some).ok_or_else(|| {
        D::Error::custom(format!("\"{text}\" is no MAC address of a station; write for example \"08:00:27:01:02:03\""))
    })
}

fn group<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MacAddress, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address: Option<MacAddress> = text.parse().ok();
    address.filter(|address| address.is_group()).ok_or_else(|| {
        D::Error::custom(format!("\"{text}\" is no MAC address of a group; write for example \"01:00:5e:00:17:aa\""))
    })
}

pub(super) fn ring<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match value::bytes(deserializer)? {
        bytes @ 65_536..=0x4000_0000 => Ok(bytes),
        bytes => Err(D::Error::custom(format!("a ring of {bytes} octets; write \"64 KiB\" to \"1 GiB\""))),
    }
}
