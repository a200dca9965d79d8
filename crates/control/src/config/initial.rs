//! `[[face]]` and `[[route]]`: faces and routes that the router creates at startup.

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
    /// URI of the peer.
    #[serde(deserialize_with = "remote")]
    pub remote: FaceUri,
    /// The interface, for Ethernet peers.
    #[serde(default, deserialize_with = "device")]
    pub local: Option<FaceUri>,
    /// Persistency; permanent by default.
    #[serde(default)]
    pub persistency: InitialPersistency,
    /// Largest frame to send, in bytes.
    #[serde(default, deserialize_with = "value::mtu_option")]
    pub mtu: Option<u64>,
    /// Whether local link fields, such as NextHopFaceId, are enabled.
    #[serde(default)]
    pub local_fields: bool,
    /// Whether to retransmit lost frames.
    #[serde(default)]
    pub reliability: bool,
    /// Whether to mark packets under congestion.
    #[serde(default = "yes")]
    pub congestion_marking: bool,
}

/// Persistency of an initial face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InitialPersistency {
    /// Until its socket fails.
    Persistent,
    /// Until it is destroyed; reconnects after a failure.
    #[default]
    Permanent,
}

/// `[[route]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialRoute {
    /// Names to which the route applies.
    #[serde(deserialize_with = "value::name")]
    pub prefix: Name,
    /// The peer to which the route leads.
    #[serde(deserialize_with = "remote")]
    pub face: FaceUri,
    /// Cost; lower is better.
    #[serde(default)]
    pub cost: u64,
    /// Whether longer prefixes inherit the route.
    #[serde(default = "yes")]
    pub child_inherit: bool,
    /// Whether longer prefixes do not inherit routes of shorter prefixes.
    #[serde(default)]
    pub capture: bool,
}

impl InitialFace {
    /// A permanent face with default settings.
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

    /// The request to the packet thread.
    pub fn request(&self) -> FaceRequest {
        FaceRequest {
            remote: self.remote.clone(),
            local: self.local.clone(),
            persistency: match self.persistency {
                InitialPersistency::Persistent => Persistency::Persistent,
                InitialPersistency::Permanent => Persistency::Permanent,
            },
            connect_within: None,
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
        _ => Err(D::Error::custom(format!("\"{text}\" is not an interface; write for example \"dev://eth0\""))),
    }
}

pub(super) fn remote<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FaceUri, D::Error> {
    parse_remote(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A URI that the router can connect to.
///
/// # Errors
/// What is wrong with it, and how it should be written.
pub fn parse_remote(text: &str) -> Result<FaceUri, String> {
    match text.parse().map_err(|e| format!("{e}; write for example \"udp4://192.0.2.1:6363\""))? {
        uri @ (FaceUri::Udp(_)
        | FaceUri::Tcp(_)
        | FaceUri::SecureWebSocket(_)
        | FaceUri::Quic(_)
        | FaceUri::Ethernet(_)
        | FaceUri::Memif { .. }) => Ok(uri),
        _ => Err(format!(
            "\"{text}\" cannot be connected to; write for example \"udp4://192.0.2.1:6363\" or \"tcp6://[2001:db8::1]:6363\""
        )),
    }
}
