//! `[tls]`: the certificate of encrypted faces.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Config, Finding};

/// Hexadecimal digits of a SHA-256 hash.
const DIGITS: usize = 64;

/// `[tls]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// File of the certificate. Empty: one is made.
    pub certificate: PathBuf,
    /// File of its key.
    pub key: PathBuf,
    /// Names and addresses for a certificate that is made.
    pub names: Vec<String>,
    /// Fingerprints of routers that faces may connect to: 64 hexadecimal digits in lower case.
    #[serde(deserialize_with = "fingerprints")]
    pub peers: Vec<String>,
}

impl Config {
    /// Whether encrypted faces are possible at all: some are accepted, or made.
    pub fn has_encrypted_faces(&self) -> bool {
        self.faces.wss.listen || self.faces.quic.listen || !self.tls.peers.is_empty()
    }

    /// Checks that both files are named, or none.
    pub(super) fn check_tls(&self, findings: &mut Vec<Finding>) {
        let Tls { certificate, key, .. } = &self.tls;
        if certificate.as_os_str().is_empty() != key.as_os_str().is_empty() {
            let text = "[tls] needs both `certificate` and `key`, or neither; with neither, byname makes a certificate";
            findings.push(Finding::fatal("tls", text));
        } else if self.faces.wss.listen && certificate.as_os_str().is_empty() {
            let text = "[faces.wss] listens, but [tls] names no certificate: browsers refuse the one that byname makes, \
                        unless people accept it by hand";
            findings.push(Finding::warning("faces.wss", text));
        }
    }
}

fn fingerprints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let given = Vec::<String>::deserialize(deserializer)?;
    given.into_iter().map(|text| fingerprint(&text).map_err(D::Error::custom)).collect()
}

/// As `openssl x509 -fingerprint -sha256` writes it, or without colons.
fn fingerprint(text: &str) -> Result<String, String> {
    let digits = text.replace(':', "").to_ascii_lowercase();
    if digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Ok(digits);
    }
    Err(format!(
        "\"{text}\" is not the SHA-256 fingerprint of a certificate, which has {DIGITS} hexadecimal digits; \
         `openssl x509 -noout -fingerprint -sha256 -in FILE` shows it"
    ))
}
