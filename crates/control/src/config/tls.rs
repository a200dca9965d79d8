//! `[tls]`: the certificate of encrypted faces.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Config, Finding};

/// Longest URL of a directory, in bytes.
const DIRECTORY_BYTES_MAX: usize = 1024;
/// Most names in a certificate of an authority.
const NAMES_MAX: usize = 50;
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
    /// Certificates from an authority.
    pub acme: Acme,
}

/// `[tls.acme]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Acme {
    /// URL of the authority's directory. Empty: no authority is asked.
    pub directory: String,
    /// URLs by which it reaches the operator.
    pub contact: Vec<String>,
    /// Where its question is answered.
    pub listen: SocketAddr,
    /// Folder of the account and of certificates. Empty: `acme` in the folder for state.
    pub folder: PathBuf,
    /// File of the roots that vouch for the directory itself. Empty: those of the system.
    pub roots: PathBuf,
}

impl Default for Acme {
    fn default() -> Self {
        let listen = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 80);
        Acme { directory: String::new(), contact: Vec::new(), listen, folder: PathBuf::new(), roots: PathBuf::new() }
    }
}

impl Config {
    /// Whether encrypted faces are possible at all: some are accepted, or made.
    pub fn has_encrypted_faces(&self) -> bool {
        self.faces.wss.listen || self.faces.quic.listen || !self.tls.peers.is_empty() || self.has_network_keys()
    }

    /// Whether this router has keys of a network, with which it proves itself over QUIC.
    pub fn has_network_keys(&self) -> bool {
        self.routing.is_on() && !self.routing.insecure
    }

    /// Checks that both files are named, or none.
    pub(super) fn check_tls(&self, findings: &mut Vec<Finding>) {
        let Tls { certificate, key, .. } = &self.tls;
        if certificate.as_os_str().is_empty() != key.as_os_str().is_empty() {
            let text = "[tls] needs both `certificate` and `key`, or neither; with neither, byname makes a certificate";
            findings.push(Finding::fatal("tls", text));
        } else if self.faces.wss.listen && self.tls.acme.directory.is_empty() && certificate.as_os_str().is_empty() {
            let text = "[faces.wss] listens, but [tls] names no certificate: browsers refuse the one that byname makes, \
                        unless people accept it by hand";
            findings.push(Finding::warning("faces.wss", text));
        }
        if self.faces.quic.listen && !self.faces.quic.strangers && !self.has_network_keys() {
            let text = "[faces.quic] lets no `strangers` in, but this router has no keys of a network in [routing], so \
                        nobody could connect";
            findings.push(Finding::fatal("faces.quic.strangers", text));
        }
        self.check_acme(findings);
    }

    /// Checks what an authority needs, if one is named.
    fn check_acme(&self, findings: &mut Vec<Finding>) {
        let Tls { certificate, names, acme, .. } = &self.tls;
        if acme.directory.is_empty() {
            return;
        }
        let has_host = acme.directory.strip_prefix("https://").is_some_and(|rest| !rest.starts_with(['/', ':']));
        let is_written = acme.directory.bytes().all(|byte| byte.is_ascii_graphic());
        let text = if !has_host || !is_written || acme.directory.len() > DIRECTORY_BYTES_MAX {
            "[tls.acme] `directory` is not a URL that begins with https:// and a host; that of Let's Encrypt is \
             https://acme-v02.api.letsencrypt.org/directory"
        } else if !certificate.as_os_str().is_empty() {
            "[tls] names the files of a certificate, and [tls.acme] an authority that gives others: remove one of them"
        } else if names.is_empty() {
            "[tls.acme] needs `names` under [tls], under which the authority finds this router"
        } else if names.len() > NAMES_MAX || names.iter().any(|name| !is_public(name)) {
            "[tls.acme] takes up to 50 `names` under [tls], of letters, digits, hyphens and dots; wildcards need DNS, \
             which byname does not change"
        } else {
            return;
        };
        findings.push(Finding::fatal("tls.acme", text));
    }
}

/// Whether an authority may find a host of this name, or at this address.
fn is_public(name: &str) -> bool {
    let is_name = |name: &str| {
        let of = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        (1..=253).contains(&name.len()) && name.bytes().all(of)
    };
    is_name(name) || name.parse::<std::net::IpAddr>().is_ok()
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
