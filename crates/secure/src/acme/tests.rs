//! With a real authority (Pebble), and with ones that do as they like.

use std::fs;
use std::net::{Ipv4Addr, TcpListener as BoundListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::certificate::Summary;

const BOUNDS: Bounds =
    Bounds { request: Duration::from_secs(2), whole: Duration::from_secs(30), pause: Duration::from_millis(200) };

fn free_port() -> u16 {
    let listener = BoundListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A certificate for 127.0.0.1 in this folder, which vouches for itself.
fn identity(folder: &Path) -> (CertificateDer<'static>, KeyPair) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
    let certificate = params.self_signed(&key).expect("signed");
    fs::write(folder.join("server.pem"), certificate.pem()).expect("a file");
    fs::write(folder.join("server.key"), key.serialize_pem()).expect("a file");
    (certificate.der().clone(), key)
}

fn config(folder: &Path, directory: String) -> AcmeConfig {
    AcmeConfig {
        directory,
        contact: vec!["mailto:operator@example.org".to_owned()],
        names: vec!["127.0.0.1".to_owned()],
        folder: folder.join("acme"),
        listen: (Ipv4Addr::LOCALHOST, free_port()).into(),
        roots: Some(folder.join("server.pem")),
    }
}

/// Pebble, until it is dropped.
struct Pebble(Child);

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts Pebble, whose certificates are valid for so many seconds. `None`: it is not here.
async fn pebble(folder: &Path, validity_s: u64) -> Option<(Pebble, AcmeConfig)> {
    let Some(program) = std::env::var_os("PEBBLE_BIN") else {
        println!("skipped: PEBBLE_BIN names no Pebble, the authority for tests");
        return None;
    };
    identity(folder);
    let port = free_port();
    let config = config(folder, format!("https://127.0.0.1:{port}/dir"));
    let file = |name: &str| folder.join(name).display().to_string();
    let settings = serde_json::json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{port}"),
        "certificate": file("server.pem"), "privateKey": file("server.key"),
        "httpPort": config.listen.port(), "tlsPort": 1, "externalAccountBindingRequired": false,
        "retryAfter": { "authz": 1, "order": 1 }, "keyAlgorithm": "ecdsa",
        "profiles": { "default": { "description": "for tests", "validityPeriod": validity_s } },
    }});
    fs::write(folder.join("pebble.json"), settings.to_string()).expect("a file");
    let child = Command::new(PathBuf::from(program))
        .args(["-config", &file("pebble.json")])
        .env("PEBBLE_VA_NOSLEEP", "1")
        // In percent. A client asks three times, and with 20 % about one certificate in twelve was not given.
        .env("PEBBLE_WFE_NONCEREJECT", "5")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("PEBBLE_BIN is a program");
    let pebble = Pebble(child);
    let deadline = Instant::now() + Duration::from_secs(20);
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(Instant::now() < deadline, "Pebble does not listen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Some((pebble, config))
}

#[tokio::test]
async fn an_authority_gives_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_pebble, config)) = pebble(folder.path(), 7_776_000).await else { return };
    assert!(kept(&config, SystemTime::now()).is_none());
    obtain(&config, BOUNDS).await.expect("a certificate");
    let now = SystemTime::now();
    let certificate = kept(&config, now).expect("it is kept");
    let due = certificate.renewal().and_then(|due| due.duration_since(now).ok()).expect("later");
    assert!((4_500_000..5_300_000).contains(&due.as_secs()), "{due:?}: two thirds of 90 days");
    let files = || {
        let mut files: Vec<_> =
            fs::read_dir(&config.folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
        files.sort();
        files
    };
    let before = files();
    assert_eq!(before.len(), 2, "an account and a certificate: {before:?}");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert!(before.iter().all(|file| mode(file) == 0o600) && mode(&config.folder) == 0o700);
    // Another one, with the same account. Others' files are not found with other names.
    let account = fs::read(&before[0]).expect("a file");
    obtain(&config, BOUNDS).await.expect("another certificate");
    assert_eq!((files(), fs::read(&before[0]).expect("a file")), (before, account));
    let other = AcmeConfig { names: vec!["192.0.2.1".to_owned()], ..config.clone() };
    assert!(kept(&other, now).is_none() && certificate.is_for(&other.names, now).is_err());
}

#[tokio::test]
async fn certificates_are_renewed_and_failures_leave_the_former_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((pebble, config)) = pebble(folder.path(), 6).await else { return };
    let current = Current::open(None, config.names.clone(), SystemTime::now()).map(Arc::new).expect("one made here");
    let mut task = JoinSet::new();
    task.spawn(keep(config, BOUNDS, Arc::clone(&current)));
    let changes = async |before: Summary| {
        let deadline = Instant::now() + Duration::from_secs(40);
        while current.summary() == before {
            assert!(Instant::now() < deadline, "nothing changes");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        current.summary()
    };
    let first = changes(current.summary()).await;
    let second = changes(first).await;
    assert!(second.fingerprint != first.fingerprint && second.failures == first.failures, "it is renewed");
    drop(pebble);
    let third = changes(second).await;
    assert!(third.failures > second.failures);
    assert_eq!((third.fingerprint, third.expires), (second.fingerprint, second.expires), "it stays in use");
}

/// A server that answers every request with what `answer` says, given the path and the server's own URL.
fn authority(folder: &Path, answer: fn(&str, &str) -> String) -> (JoinSet<()>, AcmeConfig) {
    let (certificate, key) = identity(folder);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
        .expect("TLS");
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let bound = BoundListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    bound.set_nonblocking(true).expect("a socket");
    let own = format!("https://{}", bound.local_addr().expect("an address"));
    let config = config(folder, format!("{own}/dir"));
    let mut task = JoinSet::new();
    task.spawn(async move {
        let listener = TcpListener::from_std(bound).expect("a socket");
        let mut peers = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, own) = (acceptor.clone(), own.clone());
            peers.spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = vec![0; 16 << 10];
                let len = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..len]).into_owned();
                let path = request.split(' ').nth(1).unwrap_or_default();
                let answer = answer(path, &own);
                // One that says nothing keeps the connection; one that ends in "..." never ends.
                let Some(endless) = answer.strip_suffix("...") else {
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                    return;
                };
                let _ = stream.write_all(endless.as_bytes()).await;
                while !endless.is_empty() && stream.write_all(&[b' '; 4096]).await.is_ok() {}
                std::future::pending::<()>().await;
            });
        }
    });
    (task, config)
}

fn json(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nReplay-Nonce: n\r\nLocation: https://127.0.0.1:1/a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A directory whose pages are all below `own`.
fn directory(own: &str) -> String {
    let page = |name: &str| format!("\"{name}\":\"{own}/{name}\"");
    json("200 OK", &format!("{{{}}}", ["newNonce", "newAccount", "newOrder"].map(page).join(",")))
}

/// Makes an answer of a hostile authority.
type Answer = fn(&str, &str) -> String;

/// What an authority does, and what the error must say.
const HOSTILE: [(Answer, &str); 11] = [
    (|_, _| "...".to_owned(), "does not answer in time"),
    (|_, _| "HTTP/1.1 200 OK\r\n\r\n{...".to_owned(), "length limit exceeded"),
    (|_, _| "HTTP/1.1 200 OK\r\nA: ...".to_owned(), "too large"),
    (|_, _| "SSH-2.0-hello\r\n\r\n".to_owned(), "invalid HTTP"),
    (|_, own| format!("HTTP/1.1 302 Found\r\nLocation: {own}/dir\r\n\r\n"), "redirects"),
    (|_, _| json("200 OK", "[]"), "no URL for newNonce"),
    (|_, _| json("200 OK", "{\"newNonce\":\"not a URL\"}"), "no URL for newNonce"),
    (|_, _| json("200 OK", "{\"newNonce\":\"http://127.0.0.1/\"}"), "does not begin with https"),
    // Nonces that are always wrong.
    (
        |path, own| match path {
            "/dir" => directory(own),
            "/newNonce" => json("200 OK", ""),
            _ => {
                json("400 Bad Request", "{\"type\":\"urn:ietf:params:acme:error:badNonce\",\"detail\":\"\\u001b[2J\"}")
            }
        },
        "badNonce",
    ),
    // An order without an end, that asks for a wait without one.
    (
        |path, own| match path {
            "/dir" => directory(own),
            "/newNonce" => json("200 OK", ""),
            _ => format!(
                "HTTP/1.1 200 OK\r\nReplay-Nonce: n\r\nLocation: {own}/order\r\nRetry-After: {}\r\n\r\n{}",
                u64::MAX,
                format_args!("{{\"status\":\"pending\",\"authorizations\":[],\"finalize\":\"{own}/finalize\"}}"),
            ),
        },
        "timed out waiting",
    ),
    // A certificate that is none.
    (
        |path, own| match path {
            "/dir" => directory(own),
            "/newNonce" => json("200 OK", ""),
            "/certificate" => json("200 OK", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            _ => {
                // The order is valid once it was finalized.
                static IS_FINALIZED: AtomicBool = AtomicBool::new(false);
                let is_valid = IS_FINALIZED.fetch_or(path == "/finalize", Ordering::Relaxed) || path == "/finalize";
                let status = if is_valid { "valid" } else { "ready" };
                let of = |name: &str| format!("{own}/{name}");
                let body = serde_json::json!({ "status": status, "authorizations": [], "finalize": of("finalize"),
                    "certificate": of("certificate") });
                json("200 OK", &body.to_string()).replace("https://127.0.0.1:1/a", &of("order"))
            }
        },
        "certificate",
    ),
];

#[tokio::test]
async fn authorities_that_do_as_they_like_can_only_refuse() {
    for (number, (answer, said)) in HOSTILE.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_task, config) = authority(folder.path(), answer);
        let began = Instant::now();
        let bounds = Bounds { whole: Duration::from_secs(4), ..BOUNDS };
        let told = obtain(&config, bounds).await.map(|_| ()).expect_err("no certificate").to_string();
        assert!(told.contains(said), "case {number}: \"{told}\" does not say \"{said}\"");
        assert!(told.len() < 600 && !told.contains('\u{1b}'), "case {number}: {told}");
        assert!(began.elapsed() < Duration::from_secs(15), "case {number}: {:?}", began.elapsed());
        assert!(kept(&config, SystemTime::now()).is_none());
    }
}

#[tokio::test]
async fn strangers_get_no_answer_and_hold_up_nobody() {
    let port = free_port();
    let at = (Ipv4Addr::LOCALHOST, port);
    let mut answers = Answers::default();
    answers.add("token", "token.thumb", at.into()).expect("a listener");
    let ask = async |request: &[u8]| {
        let mut stream = tokio::net::TcpStream::connect(at).await.expect("it listens");
        let _ = stream.write_all(request).await;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    };
    let good = b"GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(ask(good).await.ends_with("\r\n\r\ntoken.thumb"));
    for wrong in [
        "GET / HTTP/1.1",
        "GET /.well-known/acme-challenge/other HTTP/1.1",
        "POST /.well-known/acme-challenge/token HTTP/1.1",
    ] {
        assert!(ask(format!("{wrong}\r\n\r\n").as_bytes()).await.starts_with("HTTP/1.1 404"), "{wrong}");
    }
    assert!(!ask(&[b'a'; 100_000]).await.contains("thumb"));
    // More than are answered at a time, and none of them says anything.
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(tokio::net::TcpStream::connect(at).await.expect("it listens"));
    }
    let waited = tokio::time::timeout(Duration::from_secs(25), ask(good)).await.expect("an answer in time");
    assert!(waited.ends_with("token.thumb"));
    drop(answers);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(tokio::net::TcpStream::connect(at).await.is_err(), "nobody listens after the order");
}
