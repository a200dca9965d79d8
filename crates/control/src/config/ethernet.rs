//! `[[faces.ethernet]]`: interfaces that the router uses frame by frame.

use std::time::Duration;

use byname_face::ethernet::{GROUP, xdp};
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

/// What moves the frames of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EthernetPort {
    /// Packet sockets with rings.
    #[default]
    PacketMmap,
    /// Sockets of AF_XDP.
    Xdp,
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
