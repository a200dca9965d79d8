//! `[faces]`: where the router listens.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Dpdk, Ethernet, Memif, value};

/// `[faces]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faces {
    /// Most faces that peers may make, on each transport.
    #[serde(deserialize_with = "value::at_least_1")]
    pub on_demand_max: usize,
    /// Whether faces that peers make mark packets under congestion.
    pub congestion_marking: bool,
    /// UDP.
    pub udp: Udp,
    /// TCP.
    pub tcp: Tcp,
    /// Unix sockets.
    pub unix: Unix,
    /// WebSocket.
    pub websocket: WebSocket,
    /// Ethernet interfaces.
    pub ethernet: Vec<Ethernet>,
    /// DPDK's environment.
    pub dpdk: Dpdk,
    /// Interfaces in shared memory.
    pub memif: Vec<Memif>,
}

impl Default for Faces {
    fn default() -> Self {
        Faces {
            on_demand_max: 16_384,
            congestion_marking: true,
            udp: Udp::default(),
            tcp: Tcp::default(),
            unix: Unix::default(),
            websocket: WebSocket::default(),
            ethernet: Vec::new(),
            dpdk: Dpdk::default(),
            memif: Vec::new(),
        }
    }
}

/// `[faces.udp]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Udp {
    /// Whether to take packets of peers that have no face.
    pub listen: bool,
    /// UDP port.
    #[serde(deserialize_with = "value::port")]
    pub port: u16,
    /// Over IPv4.
    pub ipv4: bool,
    /// Over IPv6.
    pub ipv6: bool,
    /// When an idle face that a peer made goes.
    #[serde(deserialize_with = "value::duration")]
    pub idle_timeout: Duration,
    /// Largest frame to send.
    #[serde(deserialize_with = "value::mtu")]
    pub mtu: u64,
    /// Whether loopback addresses have local scope.
    pub loopback_is_local: bool,
    /// Multicast.
    pub multicast: Multicast,
}

impl Default for Udp {
    fn default() -> Self {
        Udp {
            listen: true,
            port: 6363,
            ipv4: true,
            ipv6: true,
            idle_timeout: Duration::from_secs(600),
            mtu: 8800,
            loopback_is_local: false,
            multicast: Multicast::default(),
        }
    }
}

/// `[faces.udp.multicast]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Multicast {
    /// Whether to make multicast faces.
    pub enabled: bool,
    /// On these interfaces; none: on all.
    pub interfaces: Vec<String>,
    /// IPv4 group and port.
    #[serde(deserialize_with = "group_v4")]
    pub group_ipv4: SocketAddrV4,
    /// IPv6 group and port.
    #[serde(deserialize_with = "group_v6")]
    pub group_ipv6: SocketAddrV6,
    /// Whether not all members hear each other.
    pub ad_hoc: bool,
}

impl Default for Multicast {
    fn default() -> Self {
        Multicast {
            enabled: false,
            interfaces: Vec::new(),
            group_ipv4: SocketAddrV4::new(Ipv4Addr::new(224, 0, 23, 170), 56363),
            group_ipv6: SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234), 56363, 0, 0),
            ad_hoc: false,
        }
    }
}

/// `[faces.tcp]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Whether to accept connections.
    pub listen: bool,
    /// TCP port.
    #[serde(deserialize_with = "value::port")]
    pub port: u16,
    /// Over IPv4.
    pub ipv4: bool,
    /// Over IPv6.
    pub ipv6: bool,
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp { listen: true, port: 6363, ipv4: true, ipv6: true }
    }
}

/// `[faces.unix]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Unix {
    /// Whether to accept connections.
    pub listen: bool,
    /// The socket; empty: where clients look first, or else in the user's runtime directory.
    pub path: PathBuf,
}

impl Default for Unix {
    fn default() -> Self {
        Unix { listen: true, path: PathBuf::new() }
    }
}

/// `[faces.websocket]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebSocket {
    /// Whether to accept connections.
    pub listen: bool,
    /// TCP port.
    #[serde(deserialize_with = "value::port")]
    pub port: u16,
    /// Over IPv4.
    pub ipv4: bool,
    /// Over IPv6.
    pub ipv6: bool,
}

impl Default for WebSocket {
    fn default() -> Self {
        WebSocket { listen: true, port: 9696, ipv4: true, ipv6: true }
    }
}

fn group_v4<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddrV4, D::Error> {
    match value::socket_address(deserializer)? {
        SocketAddr::V4(group) if group.ip().is_multicast() => Ok(group),
        other => Err(D::Error::custom(format!(
            "{other} is no IPv4 multicast group; write for example \"224.0.23.170:56363\""
        ))),
    }
}

fn group_v6<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddrV6, D::Error> {
    match value::socket_address(deserializer)? {
        SocketAddr::V6(group) if group.ip().is_multicast() => Ok(group),
        other => Err(D::Error::custom(format!(
            "{other} is no IPv6 multicast group; write for example \"[ff02::1234]:56363\""
        ))),
    }
}
