//! Handshakes that are cut, that never end, or come from addresses that are not the sender's.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::programs::{resident_bytes, runtime, tls, websocket, webtransport};
use super::{Identity, Listening, eventually};

/// The shortest datagram that may begin a connection over QUIC, in bytes (RFC 9000 §14.1).
const FIRST_BYTES_MIN: usize = 1200;

/// A stream that ends after some written bytes.
struct Cut {
    stream: TcpStream,
    left: usize,
    written: usize,
}

impl Read for Cut {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Cut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = self.stream.write(&bytes[..bytes.len().min(self.left)])?;
        (self.left, self.written) = (self.left - written, self.written + written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A handshake of which the router gets this many bytes. Returns how many were sent.
fn handshake(listening: &Listening, identity: &Identity, bytes: usize) -> usize {
    let stream = TcpStream::connect(("127.0.0.1", listening.wss)).expect("it listens");
    let mut stream = Cut { stream, left: bytes, written: 0 };
    let mut connection = tls(identity);
    while connection.is_handshaking() || connection.wants_write() {
        if connection.complete_io(&mut stream).is_err() {
            break;
        }
    }
    stream.written
}

#[test]
fn handshakes_of_tls_cut_at_every_byte() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let whole = handshake(&listening, &identity, usize::MAX);
    assert!(whole > 250, "hello and end: {whole} bytes");
    for bytes in 0..whole {
        assert_eq!(handshake(&listening, &identity, bytes), bytes);
    }
    websocket(&listening, &identity);
    eventually("no face is left", || !listening.router.ok("face list").contains("wsclient"));
}

#[test]
fn handshakes_that_never_end_lock_nobody_out() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let begun: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", listening.wss)).expect("it listens");
            stream.write_all(&[0x16, 3, 1]).expect("sent");
            stream
        })
        .collect();
    // The oldest have to go, long before the time for a handshake is over.
    let mut first = &begun[0];
    first.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let ended = first.read(&mut [0; 100]);
    assert!(matches!(ended, Ok(0)) || ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset));
    let _socket = websocket(&listening, &identity);
    assert!(listening.router.ok("face list").contains("wsclient"));
}

/// What the router answers within a short time, in bytes.
fn answers(socket: &UdpSocket, wait: Duration) -> Vec<usize> {
    socket.set_read_timeout(Some(wait)).expect("a timeout");
    std::iter::from_fn(|| socket.recv(&mut [0; 2000]).ok()).collect()
}

/// Passes datagrams on between a client and the router.
struct Between {
    front: UdpSocket,
    back: UdpSocket,
    of_client: SocketAddr,
    client: JoinHandle<anyhow::Result<()>>,
}

impl Between {
    /// Starts a client. Returns its first datagram, too.
    fn start(listening: &Listening, identity: Identity) -> (Between, Vec<u8>) {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = front.local_addr().expect("bound").port();
        let client = std::thread::spawn(move || {
            runtime().block_on(async {
                let connection = webtransport(port, "/ndn", &identity).await?;
                // The router has a datagram of the client only if the connection works.
                connection.send_datagram(b"\x64\x00")?;
                tokio::time::sleep(Duration::from_millis(300)).await;
                anyhow::Ok(())
            })
        });
        front.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let mut buffer = [0; 2000];
        let (len, of_client) = front.recv_from(&mut buffer).expect("the first datagram");
        (Between { front, back: to(listening.quic), of_client, client }, buffer[..len].to_vec())
    }

    /// Passes on one answer. Returns the client's next datagram.
    fn back_and_forth(&self) -> Vec<u8> {
        let mut buffer = [0; 2000];
        let len = self.back.recv(&mut buffer).expect("an answer");
        self.front.send_to(&buffer[..len], self.of_client).expect("sent");
        let len = self.front.recv(&mut buffer).expect("another datagram");
        buffer[..len].to_vec()
    }

    /// Passes on all from this datagram, until the client has succeeded. Before each of the first ones, the router gets
    /// what `spoil` makes of it; the client does not see the answers to that.
    fn finish(self, mut datagram: Vec<u8>, spoil: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
        const SPOILT: usize = 6;
        let mut buffer = [0; 2000];
        let (mut passed, mut answered) = (0, 0);
        while !self.client.is_finished() {
            if !datagram.is_empty() {
                if passed < SPOILT {
                    for spoilt in spoil(&datagram) {
                        self.back.send(&spoilt).expect("sent");
                    }
                    answers(&self.back, Duration::from_millis(20));
                }
                self.back.send(&datagram).expect("sent");
                passed += 1;
            }
            self.back.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
            while let Ok(len) = self.back.recv(&mut buffer) {
                answered += 1;
                self.front.send_to(&buffer[..len], self.of_client).expect("sent");
            }
            self.front.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
            datagram = self.front.recv(&mut buffer).map_or(Vec::new(), |len| buffer[..len].to_vec());
        }
        self.client.join().expect("no panic").expect("the connection works");
        assert!(passed >= 3 && answered >= 3, "{passed} and {answered} datagrams");
    }
}

/// A socket that talks to the router.
fn to(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(("127.0.0.1", port)).expect("an address");
    socket
}

#[test]
fn sources_that_are_not_verified_get_less_than_they_send() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let (between, first) = Between::start(&listening, identity);
    assert!(first.len() >= FIRST_BYTES_MIN);

    let stranger = to(listening.quic);
    let short = Duration::from_millis(200);
    for len in 1..FIRST_BYTES_MIN {
        stranger.send(&first[..len]).expect("sent");
    }
    assert_eq!(answers(&stranger, short), Vec::<usize>::new(), "the first datagram must be long");
    stranger.send(&first).expect("sent");
    let retry = answers(&stranger, short);
    assert!(retry.len() == 1 && retry[0] < FIRST_BYTES_MIN / 3, "one short packet: {retry:?}");
    for _ in 0..50 {
        stranger.send(&first).expect("sent");
    }
    let sum: usize = answers(&stranger, short).iter().sum();
    assert!(sum <= 50 * retry[0], "{sum} bytes");
    // A version that does not exist.
    let mut other = first.clone();
    other[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
    stranger.send(&other).expect("sent");
    let sum: usize = answers(&stranger, short).iter().sum();
    assert!(sum < FIRST_BYTES_MIN / 3, "{sum} bytes");
    // A packet of a connection that does not exist.
    for len in 1..100 {
        stranger.send(&vec![0x41; len]).expect("sent");
    }
    let sum: usize = answers(&stranger, short).iter().sum();
    assert!(sum <= (1..100).sum(), "{sum} bytes");

    // The client itself. Each of its datagrams comes whole after all that is cut.
    between.back.send(&first).expect("sent");
    let second = between.back_and_forth();
    stranger.send(&second).expect("sent");
    let sum: usize = answers(&stranger, short).iter().sum();
    assert!(sum < FIRST_BYTES_MIN / 3, "the token is of another address: {sum} bytes");
    between.finish(second, |datagram| (1..datagram.len()).map(|len| datagram[..len].to_vec()).collect());
    assert!(listening.router.ok("status").contains("ersion"), "the router goes on");
}

#[test]
fn handshakes_over_quic_altered_at_every_byte() {
    let identity = Identity::new();
    let listening = Listening::start(&identity, "");
    let (between, first) = Between::start(&listening, identity);
    between.finish(first, |datagram| {
        (0..datagram.len())
            .map(|at| {
                let mut altered = datagram.to_vec();
                altered[at] ^= 1 << (at % 8);
                altered
            })
            .collect()
    });
    let faces = listening.router.ok("face list");
    assert!(faces.matches("remote=quic").count() <= 1, "that of the client, at most: {faces}");
}

/// Passes on so many datagrams of a client, and all answers.
async fn pass_on(front: tokio::net::UdpSocket, router: u16, datagrams: usize) {
    let back = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    back.connect(("127.0.0.1", router)).await.expect("an address");
    let (mut of_client, mut of_router) = ([0; 2000], [0; 2000]);
    let (mut passed, mut client) = (0, None);
    loop {
        tokio::select! {
            Ok((len, from)) = front.recv_from(&mut of_client) => {
                client = Some(from);
                if passed < datagrams {
                    passed += 1;
                    back.send(&of_client[..len]).await.expect("sent");
                }
            }
            Ok(len) = back.recv(&mut of_router), if client.is_some() => {
                if let Some(client) = client {
                    let _ = front.send_to(&of_router[..len], client).await;
                }
            }
        }
    }
}

/// Clients that are silent after some of their datagrams leave nothing behind, and keep nobody away.
#[test]
fn handshakes_over_quic_that_end_after_each_datagram() {
    // More than the router has places for handshakes.
    const CLIENTS: usize = 280;
    const SILENT_AFTER: [usize; 6] = [0, 1, 2, 3, 4, 5];
    let identity = Arc::new(Identity::new());
    let listening = Listening::start(&identity, "");
    let memory = || resident_bytes(listening.router.pid());
    // One thread holds all clients. Each of them reaches the router through a port that passes on only so many datagrams.
    let silent_after = |datagrams: usize| {
        runtime().block_on(async {
            let mut clients = tokio::task::JoinSet::new();
            for _ in 0..CLIENTS {
                let front = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a port");
                let port = front.local_addr().expect("bound").port();
                let (router, identity) = (listening.quic, Arc::clone(&identity));
                clients.spawn(async move {
                    let tries = async {
                        tokio::join!(pass_on(front, router, datagrams), webtransport(port, "/ndn", &identity))
                    };
                    let _ = tokio::time::timeout(Duration::from_millis(1500), tries).await;
                });
            }
            clients.join_all().await;
        });
    };
    silent_after(1);
    let before = memory();
    for datagrams in SILENT_AFTER {
        silent_after(datagrams);
        runtime()
            .block_on(async { webtransport(listening.quic, "/ndn", &identity).await.map(drop) })
            .expect("a session");
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    let faces = listening.router.ok("face list");
    assert!(faces.matches("remote=quic").count() <= SILENT_AFTER.len(), "those of whole clients, at most: {faces}");
}
