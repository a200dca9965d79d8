//! Faces over TLS and QUIC between two routers.

mod common;

use common::{Router, free_port};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

/// A certificate and its key, in a folder that goes with it.
struct Identity {
    folder: tempfile::TempDir,
    fingerprint: String,
}

impl Identity {
    fn new() -> Identity {
        let folder = tempfile::tempdir().expect("a folder");
        let identity = Identity { folder, fingerprint: String::new() };
        identity.renewed()
    }

    /// Writes another certificate and key into the same files.
    fn renewed(mut self) -> Identity {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let params = CertificateParams::new(vec!["router.example".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("signed");
        let write = |name: &str, text: String| std::fs::write(self.folder.path().join(name), text).expect("a file");
        write("key.pem", key.serialize_pem());
        write("certificate.pem", certificate.pem());
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate.der());
        self.fingerprint = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self
    }

    fn settings(&self) -> String {
        let path = |name| self.folder.path().join(name).display().to_string();
        format!("[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n", path("certificate.pem"), path("key.pem"))
    }
}

/// A router that listens over TLS and QUIC, and these two ports.
fn listening(identity: &Identity, more: &str) -> (Router, u16, u16) {
    let (wss, quic) = (free_port(), free_port());
    let router = Router::start_with(&format!(
        "[faces.wss]\nlisten = true\nipv6 = false\nport = {wss}\n\
         [faces.quic]\nlisten = true\nipv6 = false\nport = {quic}\n{}{more}",
        identity.settings()
    ));
    (router, wss, quic)
}

#[test]
fn files_cross_encrypted_links() {
    for threads in [1, 2] {
        let identity = Identity::new();
        let of_threads = format!("[threads]\ncount = {threads}\npin = false\n");
        let (far, wss, quic) = listening(&identity, &of_threads);
        let near = Router::start_with(&format!("[tls]\npeers = [\"{}\"]\n{of_threads}", identity.fingerprint));
        for uri in [format!("wss://localhost:{wss}"), format!("quic://localhost:{quic}")] {
            near.ok(&format!("face create {uri}"));
            near.ok(&format!("route add /demo {}", uri.replace("localhost", "127.0.0.1")));
            let server = near.fetches_whole(&far);
            near.ok(&format!("route remove /demo {}", uri.replace("localhost", "127.0.0.1")));
            drop(server);
        }
        let faces = near.ok("face list");
        assert!(
            faces.contains(&format!("quic://127.0.0.1:{quic}")) && faces.contains(&format!("wss://127.0.0.1:{wss}")),
            "{faces}"
        );
    }
}
