//! Routers that prove over QUIC to be of one network, and others that try to.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::common::{PROGRAM, Router, free_port};
use super::programs::{runtime, webtransport};
use super::{Identity, Listening, eventually};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use wtransport::{Connection, Endpoint, ServerConfig};

/// Longer than a router waits for a proof.
const PATIENCE: Duration = Duration::from_secs(20);

/// Folders with the keys of routers `a` and `b` of `/net`.
fn keys() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut command = Command::new(PROGRAM);
    command.args([
        "key",
        "--folder",
        &at("anchor"),
        "network",
        "/net",
        "--out",
        &at("of"),
        "--type",
        "ed25519",
        "a",
        "b",
    ]);
    let made = command.output().expect("byname key");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

/// The configuration of a router with its keys.
fn of(name: &str, keys: &TempDir) -> String {
    let folder = keys.path().join("of").join(name);
    settings(name, &folder)
}

fn settings(name: &str, folder: &Path) -> String {
    format!(
        "[routing]\nnetwork = \"/net\"\nname = \"/net/{name}\"\nmulticast = false\nkeys = \"{}\"\n\
         advertise_interval = \"1 s\"\ndead_interval = \"3 s\"\n",
        folder.display()
    )
}

fn connects(near: &Router, port: u16) -> bool {
    near.run(&format!("face create quic://127.0.0.1:{port}")).code == 0
}

#[test]
fn routers_of_a_network_connect_without_fingerprints() {
    let keys = keys();
    let identity = Identity::new();
    let far = Listening::start(&identity, &of("b", &keys));
    let neighbor = format!("[[routing.neighbor]]\nface = \"quic://127.0.0.1:{}\"\n", far.quic);
    let near = Router::start_with(&format!("{}{neighbor}", of("a", &keys)));
    eventually("the caller knows whom it called", || {
        near.log().contains("connected over QUIC to a router of the network") && near.log().contains("/net/b")
    });
    eventually("the callee knows who called", || {
        far.router.log().contains("a router of the network has connected over QUIC")
            && far.router.log().contains("/net/a")
    });
    let _server = far.router.serve("ping-server --announce /demo", "/demo/ping", b"");
    eventually("routes cross the link", || near.ok("route list").contains("/demo"));
    assert!(near.reaches("/demo"));
    // Over TLS, certificates must be listed as before.
    assert_ne!(near.run(&format!("face create wss://127.0.0.1:{}", far.wss)).code, 0);
}

#[test]
fn strangers_and_other_networks_are_refused() {
    let (keys, others) = (keys(), keys());
    let identity = Identity::new();
    // Other anchor, same names.
    let far = Listening::start(&identity, &of("b", &keys));
    let other = Router::start_with(&of("a", &others));
    assert!(!connects(&other, far.quic));
    // A router that has no keys proves nothing.
    let unkeyed = Listening::start(&identity, "");
    let near = Router::start_with(&of("a", &keys));
    assert!(!connects(&near, unkeyed.quic));
    // One that is listed needs no keys, nor does the other then.
    let listing = Router::start_with(&format!("[tls]\npeers = [\"{}\"]\n", identity.hexadecimal()));
    assert!(connects(&listing, far.quic) && connects(&listing, unkeyed.quic));
    let both = Router::start_with(&format!("[tls]\npeers = [\"{}\"]\n{}", identity.hexadecimal(), of("a", &others)));
    assert!(connects(&both, far.quic) && connects(&both, unkeyed.quic));

    // A router that lets no strangers in.
    let quic = free_port();
    let closed = Router::start_with(&format!(
        "[faces.quic]\nlisten = true\nipv6 = false\nport = {quic}\nstrangers = false\n{}{}",
        identity.settings(),
        of("b", &keys)
    ));
    assert!(connects(&near, quic));
    runtime().block_on(async {
        let page = webtransport(quic, "/ndn", &identity).await.expect("a session");
        timeout(PATIENCE, page.closed()).await.expect("it is closed in time");
    });
    let _ = both.run(&format!("face create quic://127.0.0.1:{quic}"));
    eventually("others' faces end", || !both.ok("face list").contains(&format!("quic://127.0.0.1:{quic}")));
    let is_quic = |face: &serde_json::Value| face["remote_uri"].as_str().is_some_and(|uri| uri.starts_with("quic://"));
    let faces = closed.json("face list");
    let count = faces.as_array().into_iter().flatten().filter(|face| is_quic(face)).count();
    assert_eq!(count, 1, "that of the router of the network: {faces}");
}

/// Sends a message as a router that connects does. Returns the answer.
async fn answer(connection: &Connection, message: &[u8]) -> Vec<u8> {
    let (mut to, mut from) = connection.open_bi().await.expect("a stream").await.expect("a stream");
    let mut answer = Vec::new();
    // Both fail if the router ends the stream early.
    let _ = to.write_all(message).await;
    let _ = to.finish().await;
    let _ = timeout(PATIENCE, from.read_to_end(&mut answer)).await.expect("an end in time");
    answer
}

#[test]
fn proofs_hold_for_one_connection_and_one_side() {
    let keys = keys();
    let identity = Identity::new();
    let far = Listening::start(&identity, &of("b", &keys));
    let near = Router::start_with(&of("a", &keys));
    runtime().block_on(async {
        // Somebody between the two, or an impostor of the far one.
        let folder = Identity::for_names(&["localhost"]).folder;
        let file = |name| folder.path().join(name);
        let loaded = wtransport::Identity::load_pemfiles(file("certificate.pem"), file("key.pem")).await;
        let server = loaded.expect("a certificate");
        let port = free_port();
        let config =
            ServerConfig::builder().with_bind_address(([127, 0, 0, 1], port).into()).with_identity(server).build();
        let between = Endpoint::server(config).expect("a listener");
        let mut command = near.command(&format!("face create quic://127.0.0.1:{port}"));
        let asked = std::thread::spawn(move || command.output().expect("an end"));
        let request = between.accept().await.await.expect("the near router connects");
        let connection = request.accept().await.expect("a session");
        let (mut to, mut from) = connection.accept_bi().await.expect("its proof");
        let mut proof = Vec::new();
        from.read_to_end(&mut proof).await.expect("its proof");
        assert!(proof.len() > 100, "a signature and a certificate: {} bytes", proof.len());

        // It is nothing to the far router, whole, cut or changed, nor is anything else.
        let mut tries =
            vec![proof.clone(), Vec::new(), vec![0x06], vec![0xff; 5000], vec![0x06; 100_000], proof.repeat(2)];
        tries.extend((0..proof.len()).step_by(proof.len() / 12).map(|len| proof[..len].to_vec()));
        tries.extend((0..proof.len()).step_by(proof.len() / 12).map(|at| {
            let mut changed = proof.clone();
            changed[at] ^= 1;
            changed
        }));
        for (number, message) in tries.iter().enumerate() {
            let stranger = webtransport(far.quic, "/ndn", &identity).await.expect("a session");
            assert!(answer(&stranger, message).await.is_empty(), "message {number} is believed");
        }
        // Nor to the one that said it.
        to.write_all(&proof).await.expect("sent");
        to.finish().await.expect("sent");
        let done = tokio::task::spawn_blocking(move || asked.join().expect("an end")).await.expect("an end");
        assert!(!done.status.success(), "the near router believes itself");
    });
    assert!(!near.ok("face list").contains("quic://"));
    assert!(!far.router.log().contains("a router of the network has connected"));
}
