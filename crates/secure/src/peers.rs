//! Which routers this one connects to: those whose certificates it knows.
//!
//! Faces have addresses and no names, so authorities cannot vouch for them. The configuration lists the SHA-256
//! fingerprints of the certificates instead.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::certificate::Fingerprint;

/// The fingerprints that are trusted at the moment.
#[derive(Debug)]
pub(crate) struct Known {
    trusted: RwLock<Vec<Fingerprint>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Known {
    pub(crate) fn new(trusted: Vec<Fingerprint>) -> Self {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Known { trusted: RwLock::new(trusted), algorithms }
    }

    pub(crate) fn set(&self, trusted: Vec<Fingerprint>) {
        *self.trusted.write().unwrap_or_else(PoisonError::into_inner) = trusted;
    }

    /// TLS of a client that trusts these, for this protocol.
    pub(crate) fn client(self: &Arc<Self>, protocol: &[u8]) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(self) as Arc<dyn ServerCertVerifier>)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint = Fingerprint::of(certificate);
        let is_known = self.trusted.read().unwrap_or_else(PoisonError::into_inner).contains(&fingerprint);
        if !is_known {
            tracing::warn!(%fingerprint, "a router's certificate is not among `peers` under [tls]");
        }
        is_known.then(ServerCertVerified::assertion).ok_or(CertificateError::UnknownIssuer.into())
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
