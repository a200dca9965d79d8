//! Faces over TLS and QUIC: between routers, from programs, and under attack.

mod acme;
#[path = "../common/mod.rs"]
mod common;
mod handshakes;
mod network;
mod programs;

use std::time::{Duration, Instant};

use common::{Router, free_port};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

/// A certificate and its key in files, which go with this.
struct Identity {
    folder: tempfile::TempDir,
    names: Vec<String>,
    der: Vec<u8>,
    fingerprint: [u8; 32],
}

impl Identity {
    fn new() -> Identity {
        Identity::for_names(&["router.example"])
    }

    fn for_names(names: &[&str]) -> Identity {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let mut identity = Identity { folder, names, der: Vec::new(), fingerprint: [0; 32] };
        identity.renew();
        identity
    }

    /// Writes another certificate and key into the same files.
    fn renew(&mut self) {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let mut params = CertificateParams::new(self.names.clone()).expect("names");
        let now = std::time::SystemTime::now();
        let hour = Duration::from_secs(3600);
        (params.not_before, params.not_after) = ((now - hour).into(), (now + 24 * hour).into());
        let certificate = params.self_signed(&key).expect("signed");
        let write = |name: &str, text: String| std::fs::write(self.folder.path().join(name), text).expect("a file");
        write("key.pem", key.serialize_pem());
        write("certificate.pem", certificate.pem());
        self.der = certificate.der().to_vec();
        self.fingerprint.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, &self.der).as_ref());
    }

    /// The fingerprint as settings have it.
    fn hexadecimal(&self) -> String {
        self.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn settings(&self) -> String {
        let path = |name| self.folder.path().join(name).display().to_string();
        format!("[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n", path("certificate.pem"), path("key.pem"))
    }
}

/// A router that listens over TLS and QUIC.
struct Listening {
    router: Router,
    wss: u16,
    quic: u16,
}

impl Listening {
    /// With this certificate, and additions to the configuration after `[tls]`.
    fn start(identity: &Identity, more: &str) -> Listening {
        let (wss, quic) = (free_port(), free_port());
        let router = Router::start_with(&format!(
            "[faces.wss]\nlisten = true\nipv6 = false\nport = {wss}\n\
             [faces.quic]\nlisten = true\nipv6 = false\nport = {quic}\n{}{more}",
            identity.settings()
        ));
        Listening { router, wss, quic }
    }

    fn uris(&self) -> [String; 2] {
        [format!("wss://127.0.0.1:{}", self.wss), format!("quic://127.0.0.1:{}", self.quic)]
    }
}

/// A router that knows the router with this certificate.
fn knowing(identity: &Identity, more: &str) -> Router {
    Router::start_with(&format!("[tls]\npeers = [\"{}\"]\n{more}", identity.hexadecimal()))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn files_cross_links_between_routers() {
    for threads in [1, 2] {
        let identity = Identity::new();
        let of_threads = format!("[threads]\ncount = {threads}\npin = false\n");
        let far = Listening::start(&identity, &of_threads);
        let near = knowing(&identity, &of_threads);
        for uri in far.uris() {
            near.ok(&format!("face create {}", uri.replace("127.0.0.1", "localhost")));
            near.ok(&format!("route add /demo {uri}"));
            drop(near.fetches_whole(&far.router));
            near.ok(&format!("route remove /demo {uri}"));
            assert!(near.ok("face list").contains(&uri), "the face lasts");
        }
    }
}

#[test]
fn a_router_with_another_certificate_gets_no_face() {
    let [identity, other] = [Identity::new(), Identity::new()];
    let far = Listening::start(&identity, "");
    let near = knowing(&other, "");
    for uri in far.uris() {
        let done = near.run(&format!("face create {uri}"));
        assert_ne!(done.code, 0, "{}", done.stdout);
        assert!(!near.ok("face list").contains(&uri));
    }
    assert!(near.log().contains(&identity.hexadecimal()), "the log says whose certificate it is: {}", near.log());
    // A router that knows nobody says what to do.
    let done = Router::start().run(&format!("face create {}", far.uris()[1]));
    assert!(done.code != 0 && done.stderr.contains("[tls]"), "{}", done.stderr);
}

#[test]
fn links_come_back_after_a_restart_with_another_certificate() {
    let mut identity = Identity::new();
    let mut far = Listening::start(&identity, "");
    let mut near = knowing(&identity, "");
    let _server = far.router.serve("ping-server /demo", "/demo/ping", b"");
    for uri in far.uris() {
        near.ok(&format!("face create {uri} permanent"));
        near.ok(&format!("route add /demo {uri}"));
        assert!(near.reaches("/demo"), "over {uri}");
        near.ok(&format!("route remove /demo {uri}"));
    }
    // The process that takes over serves the same sockets.
    far.router.hand_over();
    for uri in far.uris() {
        near.ok(&format!("route add /demo {uri}"));
        assert!(near.reaches("/demo"), "over {uri} after the restart\n{}\n{}", near.log(), far.router.log());
        near.ok(&format!("route remove /demo {uri}"));
    }
    // So do its own links, when the other end restarts.
    near.hand_over();
    for uri in far.uris() {
        eventually("lasting faces are made again", || near.ok("face list").contains(&uri));
        near.ok(&format!("route add /demo {uri}"));
        assert!(near.reaches("/demo"), "over {uri} after the restart here\n{}", near.log());
        near.ok(&format!("route remove /demo {uri}"));
    }

    // Connections that exist do not notice another certificate, and new ones get it.
    identity.renew();
    far.router.ok("reload");
    let newer = knowing(&identity, "");
    for router in [&near, &newer] {
        for uri in far.uris() {
            router.run(&format!("face create {uri}"));
            router.ok(&format!("route add /demo {uri}"));
            assert!(router.reaches("/demo"), "over {uri} after the reload");
            router.ok(&format!("route remove /demo {uri}"));
        }
    }
}

#[test]
fn a_certificate_that_the_router_makes_is_told() {
    let (quic, http) = (free_port(), free_port());
    let far = Router::start_with(&format!(
        "[faces.quic]\nlisten = true\nipv6 = false\nport = {quic}\n[metrics]\nlisten = \"127.0.0.1:{http}\"\n"
    ));
    let told = programs::get(http, "/certificate");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let fingerprint = told["fingerprint"].as_str().expect("text");
    assert!(far.log().contains(told["sha256"].as_str().expect("text")), "the same as at the start");
    assert!(told["expires"].as_str().is_some_and(|time| time.ends_with('Z')), "{told}");
    let near = Router::start_with(&format!("[tls]\npeers = [\"{fingerprint}\"]\n"));
    near.ok(&format!("face create quic://127.0.0.1:{quic}"));
}
