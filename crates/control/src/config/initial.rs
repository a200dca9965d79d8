//! `[[face]]` and `[[route]]`: what is there from the start.

use byname_face::{FaceRequest, FaceUri, LinkFlags};
use byname_forward::face_table::Persistency;
use byname_wire::Name;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::value;

/// `[[face]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialFace {
    /// The peer.
    #[serde(deserialize_with = "remote")]
    pub remote: FaceUri,
    /// The interface, for stations on an Ethernet.
    #[serde(default, deserialize_with = "device")]
    pub local: Option<FaceUri>,
    /// Permanent unless said otherwise.
    #[serde(default)]
    pub persistency: InitialPersistency,
    /// Largest frame to send.
    #[serde(default, deserialize_with = "value::mtu_option")]
    pub mtu: Option<u64>,
    /// NextHopFaceId and the like.
    #[serde(default)]
    pub local_fields: bool,
    /// Send lost frames again.
    #[serde(default)]
    pub reliability: bool,
    /// Mark packets under congestion.
    #[serde(default = "yes")]
    pub congestion_marking: bool,
}

/// How long an initial face lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InitialPersistency {
    /// Until its socket fails.
    Persistent,
    /// Reconnects.
    #[default]
    Permanent,
}

/// `[[route]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialRoute {
    /// Names under it.
    #[serde(deserialize_with = "value::name")]
    pub prefix: Name,
    /// Go to this peer.
    #[serde(deserialize_with = "remote")]
    pub face: FaceUri,
    /// Lower is better.
    #[serde(default)]
    pub cost: u64,
    /// Longer prefixes use it too.
    #[serde(default = "yes")]
    pub child_inherit: bool,
    /// Longer prefixes do not use shorter routes.
    #[serde(default)]
    pub capture: bool,
}

impl InitialFace {
    /// A permanent face with all else as it is by default.
    pub fn new(remote: FaceUri) -> Self {
        InitialFace {
            remote,
            local: None,
            persistency: InitialPersistency::Permanent,
            mtu: None,
            local_fields: false,
            reliability: false,
            congestion_marking: true,
        }
    }

    /// What to ask of the packet thread.
    pub fn request(&self) -> FaceRequest {
        FaceRequest {
            remote: self.remote.clone(),
            local: self.local.clone(),
            persistency: match self.persistency {
                InitialPersistency::Persistent => Persistency::Persistent,
                InitialPersistency::Permanent => Persistency::Permanent,
            },
            mtu: self.mtu,
            flags: LinkFlags {
                local_fields: self.local_fields,
                reliability: self.reliability,
                congestion_marking: self.congestion_marking,
            },
            base_congestion_marking_interval_ns: None,
            default_congestion_threshold_bytes: None,
        }
    }
}

fn yes() -> bool {
    true
}

fn device<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FaceUri>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(uri @ FaceUri::Dev(_)) => Ok(Some(uri)),
        _ => Err(D::Error::custom(format!("\"{text}\" is no interface; write for example \"dev://eth0\""))),
    }
}

pub(super) fn remote<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FaceUri, D::Error> {
    let text = String::deserialize(deserializer)?;
    let uri =
        text.parse().map_err(|e| D::Error::custom(format!("{e}; write for example \"udp4://192.0.2.1:6363\"")))?;
    match uri {
        FaceUri::Udp(_) | FaceUri::Tcp(_) | FaceUri::Ethernet(_) | FaceUri::Memif { .. } => Ok(uri),
        _ => Err(D::Error::custom(format!(
            "\"{text}\" cannot be connected to; write for example \"udp4://192.0.2.1:6363\" or \"tcp6://[2001:db8::1]:6363\""
        ))),
    }
}
