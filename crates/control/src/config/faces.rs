//! `[faces]`: transports and listeners.

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
    /// Most on-demand faces per transport.
    #[serde(deserialize_with = "value::at_least_1")]
    pub on_demand_max: usize,
    /// Most connections from one address, counted for TCP and for WebSocket separately.
    #[serde(deserialize_with = "value::at_least_1")]
    pub connections_per_address_max: usize,
    /// Whether on-demand faces mark packets under congestion.
    pub congestion_marking: bool,
    /// UDP.
    pub udp: Udp,
    /// TCP.
    pub tcp: Tcp,
    /// Unix sockets.
    pub unix: Unix,
    /// WebSocket.
    pub websocket: WebSocket,
    /// WebSocket over TLS.
    pub wss: SecureWebSocket,
    /// WebTransport over HTTP/3.
    pub quic: Quic,
    /// Output queues of streams: Unix, TCP and WebSocket.
    pub stream: Stream,
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
            connections_per_address_max: 1024,
            congestion_marking: true,
            udp: Udp::default(),
            tcp: Tcp::default(),
            unix: Unix::default(),
            websocket: WebSocket::default(),
            wss: SecureWebSocket::default(),
            quic: Quic::default(),
            stream: Stream::default(),
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
    /// Whether a packet from a new peer creates a face.
    pub listen: bool,
    /// UDP port.
    #[serde(deserialize_with = "value::port")]
    pub port: u16,
    /// Whether to use IPv4.
    pub ipv4: bool,
    /// Whether to use IPv6.
    pub ipv6: bool,
    /// Idle time after which an on-demand face is closed.
    #[serde(deserialize_with = "value::duration")]
    pub idle_timeout: Duration,
    /// Largest frame to send, in bytes.
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
    /// Whether to create multicast faces.
    pub enabled: bool,
    /// Interfaces to use. Empty: all.
    pub interfaces: Vec<String>,
    /// IPv4 group and port.
    #[serde(deserialize_with = "group_v4")]
    pub group_ipv4: SocketAddrV4,
    /// IPv6 group and port.
    #[serde(deserialize_with = "group_v6")]
    pub group_ipv6: SocketAddrV6,
    /// Whether some members cannot hear each other.
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
    /// Whether to use IPv4.
    pub ipv4: bool,
    /// Whether to use IPv6.
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
    /// Path of the socket. Empty: the path that clients try first, or else one in the user's runtime directory.
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
    /// Whether to use IPv4.
    pub ipv4: bool,
    /// Whether to use IPv6.
    pub ipv6: bool,
    /// Origins of web pages that may command the router from a browser on this host.
    #[serde(deserialize_with = "origins")]
    pub local_origins: Vec<String>,
}

impl Default for WebSocket {
    fn default() -> Self {
        WebSocket { listen: true, port: 9696, ipv4: true, ipv6: true, local_origins: Vec::new() }
    }
}

/// `[faces.wss]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecureWebSocket {
    /// Whether to accept connections.
    pub listen: bool,
    /// TCP port.
    #[serde(deserialize_with = "value::port")]
    pub port: u16,
    /// Whether to use IPv4.
    pub ipv4: bool,
    /// Whether to use IPv6.
    pub ipv6: bool,
}

impl Default for SecureWebSocket {
    fn default() -> Self {
        SecureWebSocket { listen: false, port: 9697, ipv4: true, ipv6: true }
    }
}

/// `[faces.quic]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quic {
    /// Whether to accept connections.
    pub listen: bool,
    /// UDP port.
    #[serde(deserialize_with = "value::port")]
    pub port: u16,
    /// Whether to use IPv4.
    pub ipv4: bool,
    /// Whether to use IPv6.
    pub ipv6: bool,
    /// Whether those that are no routers of the network may connect.
    pub strangers: bool,
}

impl Default for Quic {
    fn default() -> Self {
        Quic { listen: false, port: 9698, ipv4: true, ipv6: true, strangers: true }
    }
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let origins = Vec::<String>::deserialize(deserializer)?;
    match origins.iter().find(|origin| !is_origin(origin)) {
        None => Ok(origins),
        Some(origin) => Err(D::Error::custom(format!(
            "\"{origin}\" is not the origin of a web page; write scheme and host, and the port unless it is the \
             scheme's default, for example \"http://localhost:8080\""
        ))),
    }
}

/// Whether this is an origin as browsers serialize it (RFC 6454 §6.2).
fn is_origin(text: &str) -> bool {
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    text.split_once("://").is_some_and(|(scheme, host)| {
        let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        is_scheme && !host.is_empty() && host.chars().all(is_of_host)
    })
}

/// `[faces.stream]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stream {
    /// Most bytes queued for a peer on another host.
    #[serde(deserialize_with = "value::queue_bytes")]
    pub queue_max: usize,
    /// Most bytes queued for a peer on this host.
    #[serde(deserialize_with = "value::queue_bytes")]
    pub local_queue_max: usize,
    /// Most bytes queued for all peers of one transport.
    #[serde(deserialize_with = "value::queue_bytes")]
    pub queues_max: usize,
    /// How long queued output may make no progress before the connection is closed.
    #[serde(deserialize_with = "value::timeout")]
    pub stall_timeout: Duration,
}

impl Default for Stream {
    fn default() -> Self {
        Stream {
            queue_max: 1 << 20,
            local_queue_max: 16 << 20,
            queues_max: 64 << 20,
            stall_timeout: Duration::from_secs(10),
        }
    }
}

fn group_v4<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddrV4, D::Error> {
    match value::socket_address(deserializer)? {
        SocketAddr::V4(group) if group.ip().is_multicast() => Ok(group),
        other => Err(D::Error::custom(format!(
            "{other} is not an IPv4 multicast group; write for example \"224.0.23.170:56363\""
        ))),
    }
}

fn group_v6<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddrV6, D::Error> {
    match value::socket_address(deserializer)? {
        SocketAddr::V6(group) if group.ip().is_multicast() => Ok(group),
        other => Err(D::Error::custom(format!(
            "{other} is not an IPv6 multicast group; write for example \"[ff02::1234]:56363\""
        ))),
    }
}
