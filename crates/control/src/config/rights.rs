//! `[[authorization]]`: converts the file's rights into the rules of [`crate::security`].

use std::path::{Path, PathBuf};

use byname_wire::Name;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use thiserror::Error as ThisError;

use super::{Config, Finding, value};
use crate::own_names::{is_own_name, localhop_prefix};
use crate::security::{
    Authorizer, Certificate, CertificateError, Module, Rule, Signer, TimeWindow, TrustedSigner, VerifyingKey,
    read_private_key,
};

/// Fewest bytes of a shared secret, so that it cannot be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// The right of one signer.
#[derive(Debug, Clone, PartialEq)]
pub struct Authorization {
    /// Faces that its commands may come from.
    pub from: Reach,
    /// The signer.
    pub signer: RightSigner,
    /// Modules that it may command.
    pub modules: Vec<Module>,
    /// Names that its commands may concern. `None`: as [`Rule::prefixes`] says.
    pub prefixes: Option<Vec<Name>>,
}

impl Default for Authorization {
    /// Everybody on this host may use all modules.
    fn default() -> Self {
        Authorization { from: Reach::Host, signer: RightSigner::Any, modules: Module::ALL.to_vec(), prefixes: None }
    }
}

/// Faces that commands may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Faces of this host only.
    #[default]
    Host,
    /// Any face.
    Network,
}

/// The signer of a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RightSigner {
    /// Everybody; no signature is needed.
    Any,
    /// The holder of the private key for the certificate in this file.
    Certificate(PathBuf),
    /// Everybody who has the secret in this file.
    Hmac {
        /// Name in the command's KeyLocator.
        key_name: Name,
        /// File with the secret: all its bytes, except one line feed at the end.
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
            #[serde(default, deserialize_with = "value::names")]
            prefixes: Vec<Name>,
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
                key_name: key.parse().map_err(|e| D::Error::custom(format!("\"{key}\" is not a name: {e}")))?,
                secret_file,
            },
            _ => {
                return Err(D::Error::custom(
                    "an [[authorization]] needs exactly one of signer = \"any\", certificate = \"FILE\", \
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
        let prefixes = written.prefixes;
        if let Some(own) = prefixes.iter().find_map(|prefix| own_prefix(prefix, written.from)) {
            return Err(D::Error::custom(format!(
                "`prefixes` has {own}, which belongs to this router's management: leave it out \
                 (with from = \"host\", \"/localhop/nfd\" itself lets a signer name the hub)"
            )));
        }
        let prefixes = Some(prefixes).filter(|prefixes| !prefixes.is_empty());
        Ok(Authorization { from: written.from, signer, modules: written.modules, prefixes })
    }
}

/// Returns `prefix` if no signer may be given it, because it belongs to management. The exception lets a signer on this
/// host name the hub.
fn own_prefix(prefix: &Name, from: Reach) -> Option<&Name> {
    let names_hub = from == Reach::Host && *prefix == localhop_prefix();
    (is_own_name(prefix.as_ref()) && !names_hub).then_some(prefix)
}

/// Why a right of the configuration cannot be granted.
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
    /// A secret is too short.
    #[error(
        "hmac_secret_file {} holds {bytes} bytes; write at least {SECRET_BYTES_MIN}, \
         for example with `openssl rand -base64 32`", path.display()
    )]
    ShortSecret {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A private key cannot be used.
    #[error("key_file {}: {problem}", path.display())]
    PrivateKey {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

impl RightsError {
    /// The setting that names the file.
    pub fn setting(&self) -> &'static str {
        match self {
            RightsError::Certificate { .. } => "certificate",
            RightsError::Secret { .. } | RightsError::ShortSecret { .. } => "hmac_secret_file",
            RightsError::PrivateKey { .. } => "key_file",
        }
    }
}

impl Config {
    /// Reads the files named in `[[authorization]]` and `[rib]`, and creates the authorizer.
    ///
    /// # Errors
    /// One finding for each file that cannot be used.
    pub fn authorizer(&self) -> Result<Authorizer, Vec<Finding>> {
        let window = TimeWindow { past: self.security.time_window, ahead: self.security.time_ahead };
        let (mut rules, mut findings) = (Vec::new(), Vec::new());
        let mut note = |key: String, error: RightsError| findings.push(Finding::fatal(key, error.to_string()));
        for (n, right) in self.authorizations.iter().enumerate() {
            match self.trusted_signer(&right.signer) {
                Ok(signer) => {
                    rules.push(Rule {
                        remote: right.from == Reach::Network,
                        signer,
                        modules: right.modules.clone(),
                        prefixes: right.prefixes.clone(),
                    });
                }
                Err(error) => note(format!("authorization.{n}.{}", error.setting()), error),
            }
        }
        for (n, anchor) in self.rib.localhop_anchors.iter().enumerate() {
            match self.certificate(anchor) {
                Ok(signer) => rules.push(Rule { remote: true, signer, modules: vec![Module::Rib], prefixes: None }),
                Err(error) => note(format!("rib.localhop_anchors.{n}"), error),
            }
        }
        if findings.is_empty() { Ok(Authorizer::new(rules, window)) } else { Err(findings) }
    }

    /// Reads the key that verifies a signer's signatures.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(super) fn trusted_signer(&self, signer: &RightSigner) -> Result<TrustedSigner, RightsError> {
        match signer {
            RightSigner::Any => Ok(TrustedSigner::Any),
            RightSigner::Certificate(path) => self.certificate(path),
            RightSigner::Hmac { key_name, secret_file } => {
                let key = VerifyingKey::from_hmac_secret(&self.secret(secret_file)?);
                Ok(TrustedSigner::Hmac { key_name: key_name.clone(), key })
            }
        }
    }

    /// The signer for the private key in a file.
    pub(super) fn signer(&self, key_name: &Name, file: &Path) -> Result<Signer, RightsError> {
        let path = self.folder.join(file);
        let fail = |problem: String| RightsError::PrivateKey { path: path.clone(), problem };
        let pkcs8 = read_private_key(&path).map_err(|error| fail(error.to_string()))?;
        Signer::from_pkcs8(key_name.clone(), &pkcs8).map_err(|error| fail(error.to_string()))
    }

    /// Reads a shared secret: all bytes of a file, except one line feed at the end.
    pub(super) fn secret(&self, file: &Path) -> Result<Vec<u8>, RightsError> {
        let path = self.folder.join(file);
        let mut secret = std::fs::read(&path).map_err(|source| RightsError::Secret { path: path.clone(), source })?;
        secret.pop_if(|last| *last == b'\n');
        if secret.len() < SECRET_BYTES_MIN {
            return Err(RightsError::ShortSecret { path, bytes: secret.len() });
        }
        Ok(secret)
    }

    fn certificate(&self, path: &Path) -> Result<TrustedSigner, RightsError> {
        let path = self.folder.join(path);
        match Certificate::load(&path) {
            Ok(certificate) => Ok(TrustedSigner::Certificate(Box::new(certificate))),
            Err(source) => Err(RightsError::Certificate { path, source }),
        }
    }
}
