//! Which routers this one connects to: those whose certificates it knows.
//!
//! Faces have addresses and no names, so authorities cannot vouch for them. The configuration lists the SHA-256
//! fingerprints of the certificates instead. Over QUIC, a router may prove after the handshake that it is of this one's
//! network ([`network`](crate::network)); until then it is a stranger.

use std::sync::{Arc, PoisonError, RwLock};

use byname_trust::tls::{self, Fingerprint};
use rustls::{ClientConfig, Error};

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
        let known = Arc::clone(self);
        tls::client(protocol, move |fingerprint| {
            let is_known = known.lists(fingerprint) || others_prove && known.network().is_some();
            if !is_known {
                tracing::warn!(%fingerprint, "a router's certificate is not among `peers` under [tls]");
            }
            is_known
        })
    }
}
