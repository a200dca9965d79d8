//! NDN certificates, version 2 [NDN Packet Specification v0.3, "Certificate"].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use byname_wire::data::content_type;
use byname_wire::digest::{Sha256Digest, sha256};
use byname_wire::signature::KeyLocator;
use byname_wire::tlv::{Reader, types};
use byname_wire::{Component, Data, DecodeError, Name};
use thiserror::Error;

use super::keys::{KeyError, VerifyingKey};
use super::{identity_of_key, locator_names, rights};

pub(super) const NOT_BEFORE: u64 = 0xfe;
pub(super) const NOT_AFTER: u64 = 0xff;

/// TLV-TYPE of a SafeBag.
pub(super) const SAFE_BAG: u64 = 0x80;

/// Largest certificate file, in bytes: a packet in base64, with room for line ends.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The first bytes of a file in PEM.
const PEM_BEGIN: &[u8] = b"-----BEGIN ";

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds neither a packet, nor base64 or PEM of one.
    #[error("the file is neither a Data packet, nor base64 or PEM of one; `ndnsec cert-dump` writes what is wanted")]
    Encoding,
    /// Not a Data packet.
    #[error("not a Data packet: {0}")]
    Packet(#[from] DecodeError),
    /// The Data is not a certificate.
    #[error("{0} is not a certificate: {1}")]
    NotCertificate(Name, &'static str),
    /// The certificate's key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A certificate: binds a key to a name for a period of time.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// `/<identity>/KEY/<key id>/<issuer>/<version>`.
    pub name: Name,
    /// `/<identity>/KEY/<key id>`.
    pub key_name: Name,
    /// The key.
    pub key: VerifyingKey,
    /// Start of its validity, in ms since the Unix epoch.
    pub not_before_ms: u64,
    /// End of its validity, in ms since the Unix epoch.
    pub not_after_ms: u64,
    /// The prefixes that it binds: its owner, and those whose certificates its owner signs, announce nothing else.
    /// `None`: it restricts nothing. See [`rights`](crate::rights).
    pub announces: Option<Arc<[Name]>>,
    /// The Data packet.
    pub packet: Arc<[u8]>,
    /// SHA-256 of the SubjectPublicKeyInfo. A KeyLocator may identify the key by it.
    key_digest: Sha256Digest,
}

impl Certificate {
    /// Decodes a certificate packet. Does not verify its signature: the configuration that names the certificate is
    /// trusted.
    pub fn decode(wire: &[u8]) -> Result<Self, CertificateError> {
        let data = Data::decode(wire)?;
        let not_certificate = |reason| CertificateError::NotCertificate(data.name.to_name(), reason);
        if data.content_type != content_type::KEY {
            return Err(not_certificate("its content type is not KEY"));
        }
        let len = data.name.len();
        if len < 4 || data.name.component(-4) != Some(Component::generic(b"KEY")) {
            return Err(not_certificate("its name is not /<identity>/KEY/<key id>/<issuer>/<version>"));
        }
        let info = signature_info(wire).ok_or_else(|| not_certificate("it has no SignatureInfo"))?;
        let (not_before_ms, not_after_ms) = find(info, types::VALIDITY_PERIOD)
            .and_then(decode_validity_period)
            .ok_or_else(|| not_certificate("it has no valid ValidityPeriod"))?;
        let announces = rights::decode(info).map_err(not_certificate)?;
        Ok(Certificate {
            name: data.name.to_name(),
            key_name: data.name.prefix(len - 2).to_name(),
            key: VerifyingKey::from_spki(data.content)?,
            not_before_ms,
            not_after_ms,
            announces,
            packet: data.wire.into(),
            key_digest: sha256(&[data.content]),
        })
    }

    /// Reads a certificate file: a packet, either bare or in base64 as from `ndnsec cert-dump`.
    pub fn load(path: &Path) -> Result<Self, CertificateError> {
        Certificate::decode(&read_packet_file(path)?)
    }

    /// The packet, decoded.
    pub fn data(&self) -> Data<'_> {
        Data::decode(&self.packet).expect("it was decoded before")
    }

    /// The identity that the key belongs to.
    pub fn identity(&self) -> Name {
        identity_of_key(self.key_name.as_ref())
    }

    /// Whether the certificate's key signed it, and its name says so.
    pub fn is_self_signed(&self) -> bool {
        let signature = self.data().signature;
        signature.info.key_locator.is_some_and(|locator| self.is_located_by(locator))
            && self.key.verifies(signature.info.typ, &signature.signed, signature.value)
    }

    /// Whether `unix_ms` is within its validity.
    pub fn is_valid_at(&self, unix_ms: u64) -> bool {
        (self.not_before_ms..=self.not_after_ms).contains(&unix_ms)
    }

    /// Whether a KeyLocator identifies this certificate, another certificate of its key, or the key.
    pub fn is_located_by(&self, locator: KeyLocator<'_>) -> bool {
        match locator {
            KeyLocator::Name(_) => locator_names(locator, &self.key_name),
            KeyLocator::Digest(digest) => digest == self.key_digest,
        }
    }
}

/// Contents of a file with a packet or a SafeBag, decoded if they are in base64, or in PEM with headers, as
/// `ndnd sec sign-cert` writes it.
///
/// # Errors
/// If the file cannot be read, or is neither.
pub fn read_packet_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    use std::io::Read;
    let fail = |source| CertificateError::Read { path: path.display().to_string(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes)).map_err(fail)?;
    if bytes.first().is_some_and(|first| [types::DATA, SAFE_BAG].contains(&u64::from(*first))) {
        return Ok(bytes);
    }
    let base64 = if bytes.starts_with(PEM_BEGIN) { pem_body(&bytes) } else { Some(&bytes[..]) };
    let mut base64 = base64.ok_or(CertificateError::Encoding)?.to_vec();
    base64.retain(|byte| !byte.is_ascii_whitespace());
    data_encoding::BASE64.decode(&base64).map_err(|_| CertificateError::Encoding)
}

/// What is between the empty line after the headers of the first block and its end.
fn pem_body(text: &[u8]) -> Option<&[u8]> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, body) = text.split_once("\n\n").or_else(|| text.split_once("\r\n\r\n"))?;
    let (body, _) = body.split_once("-----END")?;
    Some(body.as_bytes())
}

/// The elements of a Data packet's SignatureInfo.
fn signature_info(data: &[u8]) -> Option<&[u8]> {
    find(Reader::new(data).next_tlv().ok()??.value, types::SIGNATURE_INFO)
}

/// Reads NotBefore and NotAfter from the TLV-VALUE of a ValidityPeriod.
pub fn decode_validity_period(period: &[u8]) -> Option<(u64, u64)> {
    let not_before = find(period, NOT_BEFORE).and_then(parse_iso_ms)?;
    let not_after = find(period, NOT_AFTER).and_then(parse_iso_ms)?;
    Some((not_before, not_after))
}

/// Value of the first element of this type.
fn find(elements: &[u8], typ: u64) -> Option<&[u8]> {
    let mut reader = Reader::new(elements);
    while let Some(element) = reader.next_tlv().ok()? {
        if element.typ == typ {
            return Some(element.value);
        }
    }
    None
}

/// Parses `YYYYMMDDThhmmss` in UTC. Returns ms since the Unix epoch.
fn parse_iso_ms(text: &[u8]) -> Option<u64> {
    if text.len() != 15 || text[8] != b'T' {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        text[range].iter().try_fold(0u16, |n, digit| digit.is_ascii_digit().then(|| n * 10 + u16::from(digit - b'0')))
    };
    let small = |range| number(range).and_then(|n| u8::try_from(n).ok());
    let time =
        der::DateTime::new(number(0..4)?, small(4..6)?, small(6..8)?, small(9..11)?, small(11..13)?, small(13..15)?);
    u64::try_from(time.ok()?.unix_duration().as_millis()).ok()
}

/// Formats a time as `YYYYMMDDThhmmss`. Times beyond the range give the last one in it.
pub(super) fn format_iso(since_epoch: Duration) -> String {
    match der::DateTime::from_unix_duration(since_epoch) {
        Ok(t) => {
            let (year, month, day) = (t.year(), t.month(), t.day());
            format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}", t.hour(), t.minutes(), t.seconds())
        }
        Err(_) => "99991231T235959".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_of_ndnd_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n1.cert");
        // By `ndnd sec keygen` and `ndnd sec sign-cert`, 2026-11-26.
        let text = include_str!("vectors/ndnd.cert");
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            std::fs::write(&path, text).unwrap();
            let certificate = Certificate::load(&path).unwrap();
            assert_eq!(certificate.identity(), "/net/n1/32=DV".parse().unwrap());
            assert!(certificate.is_self_signed());
        }
        for bad in ["-----BEGIN NDN CERT-----\n\nAAAA", "-----BEGIN NDN CERT-----", "-----BEGIN \n\n?-----END"] {
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(read_packet_file(&path), Err(CertificateError::Encoding)), "{bad}");
        }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(parse_iso_ms(b"19700101T000000"), Some(0));
        assert_eq!(parse_iso_ms(b"20201231T235959"), Some(1_609_459_199_000));
        assert_eq!(format_iso(Duration::from_secs(1_609_459_199)), "20201231T235959");
        assert_eq!(format_iso(Duration::MAX), "99991231T235959");
        for bad in [&b"20201231T23595"[..], b"20201331T235959", b"20201231 235959", b"2020123xT235959", b""] {
            assert_eq!(parse_iso_ms(bad), None);
        }
    }
}
