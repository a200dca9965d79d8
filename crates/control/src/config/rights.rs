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
    /// Everybody whose certificates lead to an anchor of `[trust]`.
    Trusted {
        /// The identity must be at or below one of these. Empty: any.
        identities: Vec<Name>,
    },
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
            #[serde(default, deserialize_with = "value::names")]
            identities: Vec<Name>,
            modules: Vec<Module>,
            #[serde(default, deserialize_with = "value::names")]
            prefixes: Vec<Name>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Anyone {
            Any,
            Trusted,
        }
        let written = Written::deserialize(deserializer)?;
        let signer = match (written.signer, written.certificate, written.hmac_key, written.hmac_secret_file) {
            (Some(Anyone::Any), None, None, None) => RightSigner::Any,
            (Some(Anyone::Trusted), None, None, None) => {
                RightSigner::Trusted { identities: written.identities.clone() }
            }
            (None, Some(certificate), None, None) => RightSigner::Certificate(certificate),
            (None, None, Some(key), Some(secret_file)) => RightSigner::Hmac {
                key_name: key.parse().map_err(|e| D::Error::custom(format!("\"{key}\" is not a name: {e}")))?,
                secret_file,
            },
            _ => {
                return Err(D::Error::custom(
                    "an [[authorization]] needs exactly one of signer = \"any\", signer = \"trusted\", certificate = \"FILE\", \
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
        if !written.identities.is_empty() && !matches!(signer, RightSigner::Trusted { .. }) {
            return Err(D::Error::custom("`identities` belongs to signer = \"trusted\""));
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
    /// Nobody can be trusted.
    #[error("signer = \"trusted\" needs a trust anchor: write [trust] anchors = [\"FILE\"]")]
    NoAnchors,
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
            RightsError::NoAnchors => "signer",
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
        let (mut anchors, mut of_trust) = (Vec::new(), Vec::new());
        for (n, anchor) in self.rib.localhop_anchors.iter().enumerate() {
            match self.certificate(anchor) {
                Ok(certificate) => anchors.push(certificate),
                Err(error) => of_trust.push(Finding::fatal(format!("rib.localhop_anchors.{n}"), error.to_string())),
            }
        }
        let trusting = self.trusting(anchors.clone()).map_err(|found| of_trust.extend(found)).ok();
        for (n, right) in self.authorizations.iter().enumerate() {
            let general = trusting.as_ref().and_then(|trusting| trusting.general);
            let signer = match (&right.signer, general) {
                (RightSigner::Trusted { .. }, None) if trusting.is_none() => continue,
                (RightSigner::Trusted { identities }, Some(domain)) => {
                    Ok(TrustedSigner::Chain { domain, identities: identities.clone() })
                }
                (signer, _) => self.trusted_signer(signer),
            };
            match signer {
                Ok(signer) => {
                    rules.push(Rule {
                        remote: right.from == Reach::Network,
                        signer,
                        modules: right.modules.clone(),
                        prefixes: right.prefixes.clone(),
                    });
                }
                Err(error) => {
                    let key = format!("authorization.{n}.{}", error.setting());
                    findings.push(Finding::fatal(key, error.to_string()));
                }
            }
        }
        findings.extend(of_trust);
        let registers = |signer| Rule { remote: true, signer, modules: vec![Module::Rib], prefixes: None };
        rules.extend(anchors.into_iter().map(|anchor| registers(TrustedSigner::Certificate(Box::new(anchor)))));
        let (Some(trusting), true) = (trusting, findings.is_empty()) else { return Err(findings) };
        // Those whose certificates the anchors have signed may register, too.
        let chained = |domain| registers(TrustedSigner::Chain { domain, identities: Vec::new() });
        rules.extend(trusting.localhop.map(chained));
        Ok(Authorizer::new(rules, window).with_trust(trusting.validator, trusting.served))
    }

    /// Reads the key that verifies a signer's signatures.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(super) fn trusted_signer(&self, signer: &RightSigner) -> Result<TrustedSigner, RightsError> {
        match signer {
            RightSigner::Any => Ok(TrustedSigner::Any),
            RightSigner::Trusted { .. } => Err(RightsError::NoAnchors),
            RightSigner::Certificate(path) => {
                self.certificate(path).map(|certificate| TrustedSigner::Certificate(Box::new(certificate)))
            }
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

    fn certificate(&self, path: &Path) -> Result<Certificate, RightsError> {
        let path = self.folder.join(path);
        Certificate::load(&path).map_err(|source| RightsError::Certificate { path, source })
    }
}
