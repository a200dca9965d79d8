//! Programs that connect as web pages do: WebSocket over TLS, and WebTransport.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Data, Name};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tungstenite::{Message, WebSocket};
use wtransport::tls::Sha256Digest;
use wtransport::{Connection, Endpoint};

use super::common::{command_at, finish};
use super::{Identity, Listening, eventually};

/// The body of what the router says over HTTP.
pub fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

/// TLS of a program that trusts this certificate.
pub fn tls(identity: &Identity) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(identity.der.clone())).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("router.example").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a connection")
}

/// A WebSocket over TLS to the router.
pub fn websocket(listening: &Listening, identity: &Identity) -> WebSocket<StreamOwned<ClientConnection, TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", listening.wss)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let stream = StreamOwned::new(tls(identity), stream);
    tungstenite::client(format!("wss://router.example:{}/", listening.wss), stream).expect("a WebSocket").0
}

/// A session of WebTransport with the router, at this path.
pub async fn webtransport(port: u16, path: &str, identity: &Identity) -> anyhow::Result<Connection> {
    let config = wtransport::ClientConfig::builder()
        .with_bind_default()
        .with_server_certificate_hashes([Sha256Digest::new(identity.fingerprint)])
        .build();
    Ok(Endpoint::client(config)?.connect(format!("https://127.0.0.1:{port}{path}")).await?)
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn interest(name: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name.parse::<Name>().expect("a name"), nonce).lifetime_ms(4000).encode()
}

#[test]
fn programs_get_data() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let _server = listening.router.serve("put /demo/text -", "/demo/text", b"encrypted");
    let asked = {
        let mut interest = InterestBuilder::new("/demo/text".parse().expect("a name"), 7);
        interest = interest.can_be_prefix(true);
        interest.encode()
    };

    let mut socket = websocket(&listening, &identity);
    socket.send(Message::binary(asked.clone())).expect("sent");
    let answer = socket.read().expect("an answer").into_data();
    assert!(Data::decode(&answer).expect("Data").name.to_string().starts_with("/demo/text"));
    assert!(listening.router.ok("face list").contains("wsclient://127.0.0.1"));

    runtime().block_on(async {
        let connection = webtransport(listening.quic, "/ndn", &identity).await.expect("a session");
        // None of these is a packet. They cost nothing but themselves.
        for wrong in
            [&b""[..], b"\x05", b"\x06\x05abc", b"\x50\x01a", &[0xff; 1000], &[asked.as_slice(), b"\x00"].concat()]
        {
            connection.send_datagram(wrong).expect("sent");
        }
        connection.send_datagram(&asked).expect("sent");
        let answer = connection.receive_datagram().await.expect("an answer");
        assert!(Data::decode(&answer).expect("Data").name.to_string().starts_with("/demo/text"));
        // Management of the host is not for web pages, even on this host.
        connection.send_datagram(interest("/localhost/nfd/status/general", 8)).expect("sent");
        let none = tokio::time::timeout(Duration::from_millis(300), connection.receive_datagram()).await;
        assert!(none.is_err(), "{none:?}");
        assert!(webtransport(listening.quic, "/other", &identity).await.is_err(), "packets are at /ndn");
        connection.close(0u32.into(), b"");
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    eventually("faces end with their peers", || !listening.router.ok("face list").contains("quic://"));
}

#[test]
fn a_peer_that_does_not_read_is_closed() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "[faces.stream]\nstall_timeout = \"1s\"\n");
    let file = listening.router.path("file");
    // The system keeps up to ten megabytes for a connection. On a busy machine, some Interests expire unanswered.
    std::fs::write(&file, vec![7; 24 << 20]).expect("a file");
    let put = format!("put /demo/file {} --segment-size 7800", file.display());
    let _server = listening.router.serve(&put, "/demo/file", b"");
    let name: Name = {
        let mut socket = websocket(&listening, &identity);
        let first = InterestBuilder::new("/demo/file".parse().expect("a name"), 1).can_be_prefix(true).encode();
        socket.send(Message::binary(first)).expect("sent");
        Data::decode(&socket.read().expect("an answer").into_data()).expect("Data").name.to_name()
    };
    let version = name.as_ref().prefix(name.as_ref().len() - 1).to_name();
    let mut socket = websocket(&listening, &identity);
    for segment in 0..3000 {
        let interest = InterestBuilder::new(version.join_number(component_type::SEGMENT, segment.into()), segment);
        // It fails once the router has closed the connection.
        if socket.send(Message::binary(interest.encode())).is_err() {
            break;
        }
    }
    eventually("the face ends", || !listening.router.ok("face list").contains("wsclient"));
}

#[test]
fn peers_over_quic_that_read_slowly_or_open_streams_harm_nobody() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let file = listening.router.path("file");
    std::fs::write(&file, vec![7; 4 << 20]).expect("a file");
    let put = format!("put /demo/file {} --segment-size 7800", file.display());
    let _server = listening.router.serve(&put, "/demo/file", b"");
    runtime().block_on(async {
        let first = webtransport(listening.quic, "/ndn", &identity).await.expect("a session");
        let asked = InterestBuilder::new("/demo/file".parse().expect("a name"), 1).can_be_prefix(true).encode();
        first.send_datagram(&asked).expect("sent");
        let before = resident_bytes(listening.router.pid());
        // They ask for 4 MB each and take none of it: nothing here polls for datagrams. They open all the streams that they
        // may, fill them, and leave them open.
        let mut slow = Vec::new();
        for peer in 0..20 {
            let connection = webtransport(listening.quic, "/ndn", &identity).await.expect("a session");
            for number in 0..500 {
                let name: Name = format!("/demo/file/{number}").parse().expect("a name");
                let nonce = peer * 1000 + number;
                let interest = InterestBuilder::new(name, nonce).can_be_prefix(true).lifetime_ms(4000).encode();
                if connection.send_datagram(interest).is_err() {
                    break;
                }
            }
            let mut streams = Vec::new();
            for _ in 0..20 {
                let opened = async { connection.open_bi().await.ok()?.await.ok() };
                let Ok(Some((mut to, from))) = tokio::time::timeout(Duration::from_millis(50), opened).await else {
                    break;
                };
                let fill = vec![0x06; 1 << 20];
                let _ = tokio::time::timeout(Duration::from_millis(50), to.write_all(&fill)).await;
                streams.push((to, from));
            }
            assert!(streams.len() < 10, "the router allows {} streams", streams.len());
            slow.push((connection, streams));
        }
        let grown = resident_bytes(listening.router.pid()).saturating_sub(before);
        assert!(grown < 64 << 20, "20 peers made the router grow by {grown} bytes");
        // Others get what they ask for, meanwhile.
        let other = webtransport(listening.quic, "/ndn", &identity).await.expect("a session");
        other
            .send_datagram(InterestBuilder::new("/demo/file".parse().expect("a name"), 2).can_be_prefix(true).encode())
            .expect("sent");
        let answer = tokio::time::timeout(Duration::from_secs(10), other.receive_datagram()).await.expect("in time");
        assert!(!answer.expect("an answer").is_empty());
        assert!(websocket(&listening, &identity).can_write());
    });
}

/// Memory of a process.
pub fn resident_bytes(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a number");
    let kib = line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
    kib << 10
}

#[test]
fn tools_connect_over_tls_to_a_certificate_that_they_name() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let _server = listening.router.serve("put /demo/text -", "/demo/text", b"encrypted");
    let uri = |fingerprint: &str| format!("wss://127.0.0.1:{}/#sha256={fingerprint}", listening.wss);
    let get = |uri: &str| finish(command_at(uri, "get /demo/text"));
    let got = get(&uri(&identity.hexadecimal()));
    assert_eq!((got.code, got.stdout.as_str()), (0, "encrypted"), "{}", got.stderr);
    // Another certificate, and one that no authority vouches for.
    for wrong in [uri(&"ab".repeat(32)), format!("wss://localhost:{}", listening.wss)] {
        let done = get(&wrong);
        assert!(done.code != 0 && done.stderr.contains("ertificate"), "{wrong}: {}", done.stderr);
    }
}
