//! TLS with certificates that are known by their fingerprints, and need no authority.
//!
//! A router on a LAN has an address and no name for which an authority could vouch. Clients and other routers know its
//! certificate instead: by SHA-256 of its DER form.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use thiserror::Error;

/// The SHA-256 hash of a certificate in DER form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// A text is no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is not the SHA-256 fingerprint of a certificate: it has 64 hexadecimal digits")]
pub struct FingerprintError(String);

impl Fingerprint {
    /// The hash of this certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate.as_ref());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Fingerprint(bytes)
    }

    /// In Base64, as web pages write it most easily.
    pub fn base64(&self) -> String {
        BASE64.encode(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;
    /// Reads 64 hexadecimal digits, also with colons as `openssl x509 -fingerprint` writes them.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits = text.replace(':', "");
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Fingerprint).ok_or_else(|| FingerprintError(text.to_owned()))
    }
}

/// TLS 1.3 of a client for this protocol (ALPN), with the servers whose certificates `is_known` says to know. Nothing else
/// of a certificate counts: neither its names nor its time.
///
/// # Errors
/// If the cryptography of this build lacks TLS 1.3.
pub fn client(
    protocol: &[u8],
    is_known: impl Fn(Fingerprint) -> bool + Send + Sync + 'static,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = ByFingerprint { is_known, algorithms: provider.signature_verification_algorithms };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// Judges certificates in handshakes.
struct ByFingerprint<F> {
    is_known: F,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<F> fmt::Debug for ByFingerprint<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByFingerprint").finish_non_exhaustive()
    }
}

impl<F: Fn(Fingerprint) -> bool + Send + Sync> ServerCertVerifier for ByFingerprint<F> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_known = (self.is_known)(Fingerprint::of(certificate));
        is_known.then(ServerCertVerified::assertion).ok_or(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
