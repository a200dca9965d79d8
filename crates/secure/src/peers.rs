//! Which routers this one connects to: those whose certificates it knows.
//!
//! Faces have addresses and no names, so authorities cannot vouch for them. The configuration lists the SHA-256
//! fingerprints of the certificates instead. Over QUIC, a router may prove after the handshake that it is of this one's
//! network ([`network`](crate::network)); until then it is a stranger.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::certificate::Fingerprint;
use crate::network::NetworkKeys;

/// Who is trusted at the moment.
pub(crate) struct Known {
    trusted: RwLock<Trusted>,
}

/// Whom this router trusts.
#[derive(Default)]
pub struct Trusted {
    /// Certificates of routers.
    pub certificates: Vec<Fingerprint>,
    /// The keys of the network that this router belongs to. `None`: it belongs to none.
    pub network: Option<Arc<NetworkKeys>>,
}

impl Known {
    pub(crate) fn new(trusted: Trusted) -> Self {
        Known { trusted: RwLock::new(trusted) }
    }

    pub(crate) fn set(&self, trusted: Trusted) {
        *self.trusted.write().unwrap_or_else(PoisonError::into_inner) = trusted;
    }

    /// Whether a certificate is one of those that are listed.
    pub(crate) fn lists(&self, fingerprint: Fingerprint) -> bool {
        self.trusted.read().unwrap_or_else(PoisonError::into_inner).certificates.contains(&fingerprint)
    }

    /// The keys of the network.
    pub(crate) fn network(&self) -> Option<Arc<NetworkKeys>> {
        self.trusted.read().unwrap_or_else(PoisonError::into_inner).network.clone()
    }

    /// TLS of a client for this protocol, with the certificates that are listed. If `others_prove`, also with others while
    /// there are keys of a network; the caller then has them prove themselves.
    pub(crate) fn client(self: &Arc<Self>, protocol: &[u8], others_prove: bool) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Verifier { known: Arc::clone(self), others_prove, algorithms };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}

/// Judges certificates in handshakes.
struct Verifier {
    known: Arc<Known>,
    others_prove: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint = Fingerprint::of(certificate);
        let is_known = self.known.lists(fingerprint) || self.others_prove && self.known.network().is_some();
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
