//! `[[authorization]]`: from the file to the rules of [`crate::security`].

use std::path::{Path, PathBuf};

use byname_wire::Name;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use thiserror::Error as ThisError;

use super::Config;
use crate::security::{
    Authorizer, Certificate, CertificateError, Module, Rule, TimeWindow, TrustedSigner, VerifyingKey,
};

/// Fewest octets of a shared secret: what keeps guessing out of reach.
const SECRET_BYTES_MIN: usize = 16;

/// A right.
#[derive(Debug, Clone, PartialEq)]
pub struct Authorization {
    /// Where commands may come from.
    pub from: Reach,
    /// Who signs them.
    pub signer: RightSigner,
    /// What they may command.
    pub modules: Vec<Module>,
}

impl Default for Authorization {
    /// Anyone on this host may do everything.
    fn default() -> Self {
        Authorization { from: Reach::Host, signer: RightSigner::Any, modules: Module::ALL.to_vec() }
    }
}

/// Where commands may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Faces of this host.
    #[default]
    Host,
    /// Any face.
    Network,
}

/// Who signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RightSigner {
    /// Whoever can send.
    Any,
    /// The holder of the key of the certificate in this file.
    Certificate(PathBuf),
    /// Whoever shares the secret in this file.
    Hmac {
        /// What KeyLocator names.
        key_name: Name,
        /// Holds the secret: all its octets, but for one line end.
        secret_file: PathBuf,
    },
}

impl<'de> Deserialize<'de> for Authorization {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            #[serde(default)]
            from: Reach,
            signer: Option<Anyone>,
            certificate: Option<PathBuf>,
            hmac_key: Option<String>,
            hmac_secret_file: Option<PathBuf>,
            modules: Vec<Module>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Anyone {
            Any,
        }
        let written = Written::deserialize(deserializer)?;
        let signer = match (written.signer, written.certificate, written.hmac_key, written.hmac_secret_file) {
            (Some(Anyone::Any), None, None, None) => RightSigner::Any,
            (None, Some(certificate), None, None) => RightSigner::Certificate(certificate),
            (None, None, Some(key), Some(secret_file)) => RightSigner::Hmac {
                key_name: key.parse().map_err(|e| D::Error::custom(format!("\"{key}\" is no name: {e}")))?,
                secret_file,
            },
            _ => {
                return Err(D::Error::custom(
                    "an [[authorization]] wants exactly one of signer = \"any\", certificate = \"FILE\", \
                     or hmac_key = \"/name\" with hmac_secret_file = \"FILE\"",
                ));
            }
        };
        if signer == RightSigner::Any && written.from == Reach::Network {
            return Err(D::Error::custom(
                "signer = \"any\" with from = \"network\" would let anyone command this router: \
                 name a certificate, or write from = \"host\"",
            ));
        }
        Ok(Authorization { from: written.from, signer, modules: written.modules })
    }
}

/// Why the rights of a configuration cannot be set up.
#[derive(Debug, ThisError)]
pub enum RightsError {
    /// A certificate cannot be used.
    #[error("certificate {}: {source}; check the file name and see `byname default-config`", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CertificateError,
    },
    /// A secret cannot be read.
    #[error("hmac_secret_file {}: {source}", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A secret is too short to be one.
    #[error(
        "hmac_secret_file {} holds {octets} octets; write at least {SECRET_BYTES_MIN}, \
         for example with `openssl rand -base64 32`", path.display()
    )]
    ShortSecret {
        /// The file.
        path: PathBuf,
        /// Its octets.
        octets: usize,
    },
}

impl Config {
    /// Reads the files that `[[authorization]]` and `[rib]` name, and makes the authorizer.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn authorizer(&self) -> Result<Authorizer, RightsError> {
        let window = TimeWindow { past: self.security.time_window, ahead: self.security.time_ahead };
        let mut rules = Vec::new();
        for right in &self.authorizations {
            let signer = self.trusted_signer(&right.signer)?;
            rules.push(Rule { remote: right.from == Reach::Network, signer, modules: right.modules.clone() });
        }
        for anchor in &self.rib.localhop_anchors {
            let signer = self.certificate(anchor)?;
            rules.push(Rule { remote: true, signer, modules: vec![Module::Rib] });
        }
        Ok(Authorizer::new(rules, window))
    }

    fn trusted_signer(&self, signer: &RightSigner) -> Result<TrustedSigner, RightsError> {
        match signer {
            RightSigner::Any => Ok(TrustedSigner::Any),
            RightSigner::Certificate(path) => self.certificate(path),
            RightSigner::Hmac { key_name, secret_file } => {
                let path = self.folder.join(secret_file);
                let secret =
                    std::fs::read(&path).map_err(|source| RightsError::Secret { path: path.clone(), source })?;
                let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
                if secret.len() < SECRET_BYTES_MIN {
                    return Err(RightsError::ShortSecret { path, octets: secret.len() });
                }
                Ok(TrustedSigner::Hmac { key_name: key_name.clone(), key: VerifyingKey::from_hmac_secret(secret) })
            }
        }
    }

    fn certificate(&self, path: &Path) -> Result<TrustedSigner, RightsError> {
        let path = self.folder.join(path);
        match Certificate::load(&path) {
            Ok(certificate) => Ok(TrustedSigner::Certificate(Box::new(certificate))),
            Err(source) => Err(RightsError::Certificate { path, source }),
        }
    }
}
