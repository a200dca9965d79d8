//! `[rib.propagate]`: registration of local prefixes at the hub.

use std::path::{Path, PathBuf};
use std::time::Duration;

use byname_face::FaceUri;
use byname_wire::Name;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::initial::{self, InitialRoute};
use super::{Config, RightsError, value};
use crate::own_names::localhop_prefix;
use crate::security::{Signer, identity_of_key};

/// `[rib.propagate]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Propagate {
    /// Whether to propagate.
    pub enabled: bool,
    /// The hub, if the router creates the face and the route to it at startup.
    #[serde(deserialize_with = "hub")]
    pub hub: Option<FaceUri>,
    /// Name of the host's key or of its certificate.
    #[serde(deserialize_with = "value::name_or_none")]
    pub key_name: Name,
    /// File with the host's private key. Empty: none.
    pub key_file: PathBuf,
    /// File with the secret that the host shares with the hub. Empty: none.
    pub hmac_secret_file: PathBuf,
    /// Prefixes to register at the hub. Empty: the key's identity.
    #[serde(deserialize_with = "value::names")]
    pub prefixes: Vec<Name>,
    /// Cost of the hub's routes to this host.
    pub cost: u64,
    /// How long to wait for an answer.
    #[serde(deserialize_with = "value::duration")]
    pub timeout: Duration,
    /// Interval between repetitions of a registration.
    #[serde(deserialize_with = "value::duration")]
    pub refresh: Duration,
}

impl Default for Propagate {
    fn default() -> Self {
        Propagate {
            enabled: false,
            hub: None,
            key_name: Name::default(),
            key_file: PathBuf::new(),
            hmac_secret_file: PathBuf::new(),
            prefixes: Vec::new(),
            cost: 15,
            timeout: Duration::from_secs(10),
            refresh: Duration::from_secs(300),
        }
    }
}

impl Propagate {
    /// Prefixes to register at the hub.
    pub fn prefixes(&self) -> Vec<Name> {
        if self.prefixes.is_empty() { vec![identity_of_key(self.key_name.as_ref())] } else { self.prefixes.clone() }
    }

    /// The route to the hub, if `hub` is set.
    pub fn hub_route(&self) -> Option<InitialRoute> {
        let route = |face: &FaceUri| InitialRoute {
            prefix: localhop_prefix(),
            face: face.clone(),
            cost: 0,
            child_inherit: true,
            capture: false,
        };
        self.hub.as_ref().map(route)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let has = |path: &Path| !path.as_os_str().is_empty();
        match self {
            _ if !self.enabled => Ok(()),
            _ if self.key_name.as_ref().is_empty() => {
                Err("[rib.propagate] is enabled and has no key_name: write the name \
                 of this host's key, for example \"/net/alice/KEY/1\" (`byname keygen` makes a key)"
                    .to_owned())
            }
            _ if has(&self.key_file) == has(&self.hmac_secret_file) => {
                Err("[rib.propagate] needs exactly one of key_file and hmac_secret_file".to_owned())
            }
            _ if self.refresh.is_zero() => Err("[rib.propagate] refresh is 0: write for example \"5 min\"".to_owned()),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// The signer of commands to the hub. `None` if propagation is disabled.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn propagate_signer(&self) -> Result<Option<Signer>, RightsError> {
        let Propagate { enabled, key_name, key_file, hmac_secret_file, .. } = &self.rib.propagate;
        if !enabled {
            return Ok(None);
        }
        if key_file.as_os_str().is_empty() {
            return Ok(Some(Signer::hmac(key_name.clone(), &self.secret(hmac_secret_file)?)));
        }
        self.signer(key_name, key_file).map(Some)
    }
}

/// The URI of a peer, or an empty string for none.
fn hub<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FaceUri>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    initial::parse_remote(&text).map(Some).map_err(D::Error::custom)
}
