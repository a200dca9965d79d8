//! The stream port on Unix sockets, in virtual time. Peers send and read as they like, or do not read. A peer that
//! reads must be served within a bounded number of rounds, without loss. Queues must stay within their bounds. A peer
//! that does not read must be closed in time.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use byname_face::Port;
use byname_face::face::FaceEvent;
use byname_face::port::bench::Bench;
use byname_face::stream::{StreamConfig, StreamPort};
use byname_forward::{FaceId, Packet};
use byname_wire::tlv;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const PEERS_MAX: usize = 16;
const QUEUE_BYTES_MAX: usize = 200_000;
const QUEUES_BYTES_MAX: usize = 400_000;
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of rounds until a peer that reads is served: each round may be another peer's turn.
const ROUNDS_MAX: usize = PEERS_MAX + 4;

#[derive(Arbitrary, Debug)]
enum Action {
    Connect,
    /// The router sends Data to a peer.
    Answer {
        peer: u8,
        packets: u8,
        len: u16,
    },
    /// A peer sends Interests, Data, or bytes.
    Ask {
        peer: u8,
        packets: u8,
    },
    Produce {
        peer: u8,
        len: u16,
    },
    Say {
        peer: u8,
        bytes: Vec<u8>,
    },
    Read {
        peer: u8,
        len: u16,
    },
    Leave {
        peer: u8,
    },
    Wait {
        ms: u16,
    },
    /// The reading peer sends Interests and must get answers.
    Serve {
        packets: u8,
        len: u16,
    },
}

/// A peer and its face.
struct Peer {
    stream: UnixStream,
    face: FaceId,
}

struct Router {
    port: StreamPort,
    bench: Bench,
    folder: tempfile::TempDir,
}

impl Router {
    fn new() -> Router {
        let folder = tempfile::tempdir().expect("a folder");
        let config = StreamConfig {
            local_queue_bytes_max: QUEUE_BYTES_MAX,
            queues_bytes_max: QUEUES_BYTES_MAX,
            stall_timeout: STALL_TIMEOUT,
            ..StreamConfig::default()
        };
        let mut port = StreamPort::unix(&[folder.path().join("s")], config).expect("a listener");
        let mut bench = Bench::new();
        port.start(&mut bench.cx()).expect("started");
        Router { port, bench, folder }
    }

    fn connect(&mut self) -> Peer {
        let stream = UnixStream::connect(self.folder.path().join("s")).expect("accepted");
        stream.set_nonblocking(true).expect("non-blocking");
        let before = self.bench.events.len();
        loop {
            self.round();
            let events = self.bench.events[before..].iter();
            let created = events.filter_map(|(_, event)| match event {
                FaceEvent::Created(status) => Some(status.id),
                _ => None,
            });
            if let Some(face) = created.last() {
                return Peer { stream, face };
            }
        }
    }

    fn round(&mut self) {
        self.bench.round(&mut self.port, 0);
        assert!(self.port.queued_bytes() <= QUEUES_BYTES_MAX);
    }

    fn send(&mut self, face: FaceId, packets: usize, packet: &[u8]) {
        for _ in 0..packets {
            self.bench.send(&mut self.port, face, &[Packet::copy_from(packet)]);
            assert!(self.port.queued_bytes() <= QUEUES_BYTES_MAX);
        }
    }

    /// Lets a reading peer send `packets` Interests and checks that it gets Data for each.
    fn serve(&mut self, reader: &mut Peer, packets: usize, len: usize) {
        let (interest, data) = (element(5, 40), element(6, len));
        for _ in 0..packets {
            self.bench.received.clear();
            reader.stream.write_all(&interest).expect("room for an Interest");
            let asked = |router: &Router| router.bench.received.iter().any(|r| r.face == reader.face);
            (0..ROUNDS_MAX).find(|_| {
                self.round();
                asked(self)
            });
            assert!(asked(self), "the Interest of a peer that reads is not taken");
            self.send(reader.face, 1, &data);
            let mut answer = Vec::new();
            for _ in 0..ROUNDS_MAX {
                self.round();
                read(&mut reader.stream, usize::MAX, &mut answer);
                if answer.len() >= data.len() {
                    break;
                }
            }
            assert!(answer == data, "{} bytes of {} came to a peer that reads", answer.len(), data.len());
        }
        let status = self.port.status(self.bench.now, reader.face).expect("it is there");
        assert_eq!(status.link.out_drops, 0);
    }
}

/// An element of this type with a value of `len` bytes.
fn element(typ: u64, len: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    tlv::push_tlv(&mut wire, typ, &vec![7; len]);
    wire
}

/// Reads up to about `len` bytes, as far as they have arrived.
fn read(stream: &mut UnixStream, len: usize, out: &mut Vec<u8>) {
    let (mut buffer, before) = ([0; 1 << 14], out.len());
    while out.len() - before < len {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => out.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fuzz_target!(|actions: Vec<Action>| {
    let mut router = Router::new();
    let mut reader = router.connect();
    let mut peers: Vec<Peer> = Vec::new();
    for action in actions.into_iter().take(60) {
        let count = peers.len();
        let which = |peer: u8| usize::from(peer) % count.max(1);
        match action {
            Action::Connect if count < PEERS_MAX => peers.push(router.connect()),
            Action::Wait { ms } => router.bench.now = router.bench.now + Duration::from_millis(ms.into()),
            Action::Serve { packets, len } => {
                router.serve(&mut reader, usize::from(packets % 4), usize::from(len % 8_000));
            }
            _ if count == 0 => continue,
            Action::Answer { peer, packets, len } => {
                let face = peers[which(peer)].face;
                router.send(face, packets.into(), &element(6, usize::from(len % 8_000)));
            }
            Action::Ask { peer, packets } => {
                let _ = peers[which(peer)].stream.write(&element(5, 40).repeat(packets.into()));
            }
            Action::Produce { peer, len } => {
                let _ = peers[which(peer)].stream.write(&element(6, usize::from(len % 8_000)));
            }
            Action::Say { peer, bytes } => {
                let _ = peers[which(peer)].stream.write(&bytes);
            }
            Action::Read { peer, len } => read(&mut peers[which(peer)].stream, len.into(), &mut Vec::new()),
            Action::Leave { peer } => drop(peers.swap_remove(which(peer))),
            Action::Connect => {}
        }
        router.round();
        router.bench.received.clear();
    }
    router.serve(&mut reader, 1, 8_000);
    // No peer reads from now on. Peers with queued output are closed, and their queues are freed.
    for _ in 0..3 {
        router.bench.now = router.bench.now + STALL_TIMEOUT;
        router.round();
        router.round();
    }
    assert_eq!(router.port.queued_bytes(), 0);
    router.serve(&mut reader, 1, 8_000);
});
