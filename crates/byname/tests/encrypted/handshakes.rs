//! Handshakes that are cut, that never end, or come from addresses that are not the sender's.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use super::programs::{runtime, tls, websocket, webtransport};
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
    // A client's datagrams come here, and the test passes them on.
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
    let first = buffer[..len].to_vec();
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
    let back = to(listening.quic);
    back.send(&first).expect("sent");
    let len = back.recv(&mut buffer).expect("an answer");
    front.send_to(&buffer[..len], of_client).expect("sent");
    let (len, _) = front.recv_from(&mut buffer).expect("with the token");
    let second = buffer[..len].to_vec();
    stranger.send(&second).expect("sent");
    let sum: usize = answers(&stranger, short).iter().sum();
    assert!(sum < FIRST_BYTES_MIN / 3, "the token is of another address: {sum} bytes");
    let mut datagram = second;
    let (mut passed, mut answered) = (0, 0);
    while !client.is_finished() {
        if !datagram.is_empty() {
            if passed < 6 {
                for len in 1..datagram.len() {
                    back.send(&datagram[..len]).expect("sent");
                }
            }
            back.send(&datagram).expect("sent");
            passed += 1;
        }
        back.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        while let Ok(len) = back.recv(&mut buffer) {
            answered += 1;
            front.send_to(&buffer[..len], of_client).expect("sent");
        }
        front.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
        datagram = front.recv(&mut buffer).map_or(Vec::new(), |len| buffer[..len].to_vec());
    }
    client.join().expect("no panic").expect("the connection works");
    assert!(passed >= 3 && answered >= 3, "{passed} and {answered} datagrams");
    assert!(listening.router.ok("status").contains("ersion"), "the router goes on");
}
