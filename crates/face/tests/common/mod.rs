//! A router in this process: the real loop, worker and ports.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use byname_face::udp::{UdpConfig, UdpPort};
use byname_face::{FaceRequest, FaceStatus, FaceUri, IoConfig, Port, Running, Workers, start};
use byname_forward::dispatch::Dispatcher;
use byname_forward::seat::Seat;
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::WorkerConfig;
use byname_forward::{FaceId, Worker};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Interest, LpPacket, Name, NameHashKey, tlv};

const KEY: NameHashKey = NameHashKey::new([3, 4]);
/// So small that a name becomes hot after a few Interests.
const HOT_WINDOW: u32 = 256;

pub struct Router {
    pub running: Running,
    pub udp: SocketAddr,
    fib: Oracle,
    tables: Arc<Tables>,
    groups: u32,
}

impl Router {
    /// A router with a UDP port on loopback.
    pub fn udp(adjust: impl FnOnce(&mut UdpConfig)) -> Router {
        Router::with(IoConfig::default(), Vec::new(), adjust)
    }

    /// The default settings, with or without threads that rest.
    pub fn config(rests: bool) -> IoConfig {
        IoConfig { rests, ..IoConfig::default() }
    }

    pub fn with(config: IoConfig, ports: Vec<Box<dyn Port>>, adjust: impl FnOnce(&mut UdpConfig)) -> Router {
        Router::of(1, 1024, config, ports, adjust)
    }

    /// A router with this number of packet threads. The first gets `ports`.
    pub fn of(
        threads: usize,
        ring_packets: usize,
        config: IoConfig,
        ports: Vec<Box<dyn Port>>,
        adjust: impl FnOnce(&mut UdpConfig),
    ) -> Router {
        Router::hot(threads, ring_packets, config, ports, adjust, false)
    }

    /// As [`Router::of`]. Chooses whether threads share PIT entries of hot names.
    pub fn hot(
        threads: usize,
        ring_packets: usize,
        config: IoConfig,
        ports: Vec<Box<dyn Port>>,
        adjust: impl FnOnce(&mut UdpConfig),
        shares_pit: bool,
    ) -> Router {
        let mut udp = UdpConfig::new((Ipv4Addr::LOCALHOST, 0).into());
        adjust(&mut udp);
        let udp_ports = UdpPort::bind_for_threads(udp, threads).expect("a port on loopback");
        let udp = udp_ports[0].local_addr();
        let fib = Oracle::default();
        let tables = Arc::new(Tables::new(fib.query()));
        let workers = workers(threads, ring_packets, &tables, shares_pit);
        let running = start(config, workers, ports).expect("the threads start");
        for (thread, port) in udp_ports.into_iter().enumerate() {
            running.handle.add_ports(thread, vec![Box::new(port)]).expect("the port starts");
        }
        Router { running, udp, fib, tables, groups: 0 }
    }

    /// A thread's seat beside another router of this kind: names have the same homes.
    pub fn seat_of_another(threads: usize) -> Seat {
        let tables = Arc::new(Tables::new(Oracle::default().query()));
        workers(threads, 1, &tables, false).seats().expect("there is memory").remove(0)
    }

    pub fn route(&mut self, prefix: &str, face: FaceId) {
        let entry = EntryId(self.groups);
        self.groups += 1;
        self.tables.set_group(entry, Some(NexthopGroup { nexthops: [Nexthop { face, cost: 0 }].into() }));
        self.fib.apply(&[Change::Set(name(prefix), entry)]).expect("the oracle takes all");
        self.tables.replace_fib(self.fib.query());
    }

    /// Creates a persistent face to a peer.
    pub fn face(&self, remote: SocketAddr) -> FaceStatus {
        let request = FaceRequest::to(FaceUri::Udp(remote));
        self.running.handle.create_face(request).expect("a new face")
    }

    pub fn stop(self) {
        self.running.handle.shutdown();
        self.running.thread.join().expect("the thread ends well");
    }
}

/// With an odd number of threads, names are at home where they are first asked for.
fn workers(threads: usize, ring_packets: usize, tables: &Arc<Tables>, shares_pit: bool) -> Workers {
    let mut dispatcher = Dispatcher::new(KEY, threads, 0, 99);
    dispatcher.spread_hot_names(HOT_WINDOW);
    if threads % 2 == 1 {
        dispatcher.claim_names(1 << 16).expect("a few megabytes");
    }
    if shares_pit {
        dispatcher.share_pit_of_hot_names();
    }
    let worker = |number| {
        let mut worker = Worker::new(WorkerConfig::default(), KEY, Arc::clone(tables), 5);
        worker.join(dispatcher.membership(number));
        worker
    };
    let workers = (0..threads).map(worker).collect();
    Workers::new(dispatcher, workers, ring_packets, false)
}

pub fn name(uri: &str) -> Name {
    uri.parse().expect("a name in a test")
}

pub fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name(uri), nonce).lifetime_ms(2000).encode()
}

pub fn data(uri: &str, len: usize) -> Vec<u8> {
    DataBuilder::new(name(uri)).content(vec![7; len]).encode()
}

pub fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket on loopback");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    socket
}

/// The network packet in a frame, with or without a link header.
pub fn network_packet(frame: &[u8]) -> &[u8] {
    LpPacket::decode(frame).expect("a frame").fragment.expect("not idle")
}

/// Answers Interests on a socket until one asks for `/stop`. Returns the number of answers.
pub fn produce(socket: &UdpSocket, content_len: usize) -> usize {
    let (mut buffer, mut answered) = ([0; 9000], 0);
    loop {
        let (len, from) = socket.recv_from(&mut buffer).expect("an Interest in time");
        let interest = Interest::decode(network_packet(&buffer[..len])).expect("an Interest");
        let data = DataBuilder::new(interest.name.to_name()).content(vec![7; content_len]).encode();
        if interest.name.component(-1).is_some_and(|c| c.value == b"stop") {
            return answered;
        }
        socket.send_to(&data, from).expect("sent");
        answered += 1;
    }
}

/// Reads elements from a stream.
pub struct Elements<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl<S: Read> Elements<S> {
    pub fn new(stream: S) -> Self {
        Elements { stream, bytes: Vec::new() }
    }

    /// `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(len) = tlv::element_len(&self.bytes, 9_000).expect("well-formed") {
                return Some(self.bytes.drain(..len).collect());
            }
            let mut buffer = [0; 1 << 16];
            let len = self.stream.read(&mut buffer).expect("bytes in time");
            if len == 0 {
                return None;
            }
            self.bytes.extend_from_slice(&buffer[..len]);
        }
    }
}

/// Answers Interests on a stream until it ends. Returns the number of answers.
pub fn produce_on(stream: TcpStream) -> usize {
    let (mut sink, mut elements, mut answered) = (stream.try_clone().expect("a handle"), Elements::new(stream), 0);
    while let Some(wire) = elements.next() {
        let name = Interest::decode(network_packet(&wire)).expect("an Interest").name.to_name();
        if sink.write_all(&DataBuilder::new(name).content(vec![7; 1_000]).encode()).is_err() {
            break;
        }
        answered += 1;
    }
    answered
}
