//! `[[faces.memif]]`: interfaces in memory shared with another program.

use std::path::PathBuf;

use byname_face::memif::message::SECRET_BYTES;
use byname_face::memif::rings::{SLOTS_LOG2_MAX, SLOTS_LOG2_MIN};
use byname_face::memif::{Framing, MemifConfig, Role};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::ethernet::EthernetUdp;
use super::queues::Queues;
use super::value;

/// Typical MTU of a link, in bytes of an IP packet.
const IP_MTU: usize = 1500;

/// `[[faces.memif]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memif {
    /// Path of the control socket.
    #[serde(deserialize_with = "socket")]
    pub socket: PathBuf,
    /// The router's role on this interface.
    #[serde(default)]
    pub role: MemifRole,
    /// Number of the interface, the same at both ends.
    #[serde(default)]
    pub id: u32,
    /// Framing of packets.
    #[serde(default)]
    pub framing: MemifFraming,
    /// A secret that both ends must know. Empty: none.
    #[serde(default, deserialize_with = "secret")]
    pub secret: String,
    /// Rings in each direction, if the other end has as many.
    #[serde(default)]
    pub queues: Queues,
    /// Slots in each ring.
    #[serde(default = "ring", deserialize_with = "slots")]
    pub ring: u16,
    /// Bytes of each buffer.
    #[serde(default = "buffer", deserialize_with = "buffer_bytes")]
    pub buffer: u32,
    /// Largest link packet to send, in bytes. With UDP, limited to the payload of a frame of 1,514 bytes.
    #[serde(default = "mtu", deserialize_with = "value::mtu")]
    pub mtu: u64,
    /// The UDP peer in Ethernet frames: at most one, because the interface has one other end.
    #[serde(default)]
    pub udp: Vec<EthernetUdp>,
    /// Whether the peer is an application on this host, with local scope.
    #[serde(default)]
    pub local: bool,
}

/// Role on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemifRole {
    /// Listens.
    #[default]
    Server,
    /// Connects.
    Client,
}

/// Framing on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemifFraming {
    /// Bare link packets.
    #[default]
    Packets,
    /// Link packets in Ethernet frames.
    Ethernet,
}

impl Memif {
    /// What tells it apart from others: the socket and the number.
    pub fn key(&self) -> String {
        format!("{}, id {}", self.socket.display(), self.id)
    }

    /// Settings of the port.
    pub fn port(&self, congestion_marking: bool) -> MemifConfig {
        let role = match self.role {
            MemifRole::Server => Role::Server,
            MemifRole::Client => Role::Client,
        };
        let mut secret = [0; SECRET_BYTES];
        secret[..self.secret.len()].copy_from_slice(self.secret.as_bytes());
        let datagrams = self.udp.first().map(EthernetUdp::of_port);
        let mtu_max = datagrams.map_or(usize::MAX, |peer| IP_MTU - peer.path.overhead());
        MemifConfig {
            id: self.id,
            framing: match self.framing {
                MemifFraming::Packets => Framing::Packets,
                MemifFraming::Ethernet => Framing::Ethernet,
            },
            secret,
            slots_log2: self.ring.ilog2() as u8,
            buffer_bytes: self.buffer,
            datagrams,
            mtu: usize::try_from(self.mtu).unwrap_or(usize::MAX).min(mtu_max),
            local: self.local,
            congestion_marking,
            ..MemifConfig::new(&self.socket, role)
        }
    }

    /// Checks settings against each other.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = self.socket.display();
        match &self.udp[..] {
            [] => Ok(()),
            [_] if self.framing != MemifFraming::Ethernet => {
                Err(format!("{name} has a peer in `udp`, which needs Ethernet frames: write framing = \"ethernet\""))
            }
            [peer] => peer.check(&name),
            peers => Err(format!("{name} has {} peers in `udp`, but an interface can have only one", peers.len())),
        }
    }
}

fn ring() -> u16 {
    1024
}

fn buffer() -> u32 {
    2048
}

fn mtu() -> u64 {
    8800
}

fn socket<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    // A Unix socket address has room for 107 bytes and a terminator.
    if !path.is_absolute() || path.as_os_str().len() > 107 {
        let path = path.display();
        return Err(D::Error::custom(format!(
            "\"{path}\" is not an absolute path of at most 107 bytes; write for example \"/run/byname/memif.sock\""
        )));
    }
    Ok(path)
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let secret = String::deserialize(deserializer)?;
    match secret.len() {
        0..=SECRET_BYTES => Ok(secret),
        len => Err(D::Error::custom(format!("a secret of {len} bytes is too long; memif has room for {SECRET_BYTES}"))),
    }
}

fn slots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let slots = u64::deserialize(deserializer)?;
    let range = 1 << SLOTS_LOG2_MIN..=1 << SLOTS_LOG2_MAX;
    u16::try_from(slots).ok().filter(|_| slots.is_power_of_two() && range.contains(&slots)).ok_or_else(|| {
        D::Error::custom(format!(
            "a ring of {slots} slots is not possible; write a power of two, {} to {}",
            range.start(),
            range.end()
        ))
    })
}

fn buffer_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match value::bytes(deserializer)? {
        bytes @ 64..=65_536 if bytes.is_multiple_of(64) => Ok(bytes as u32),
        bytes => Err(D::Error::custom(format!(
            "buffers of {bytes} bytes are not possible; write a multiple of 64, \"64 B\" to \"64 KiB\""
        ))),
    }
}
