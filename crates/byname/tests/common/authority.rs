//! Certificates for TLS.

/// An authority of certificates.
pub struct Authority {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(vec![]).expect("no names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let issuer = rcgen::CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let pem = issuer.pem();
        Authority { issuer, pem }
    }

    /// A certificate and its key, in PEM.
    pub fn issue(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let names = vec![name.to_owned(), "127.0.0.1".to_owned()];
        let params = rcgen::CertificateParams::new(names).expect("names");
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}
