//! Attacks by strangers on a running router: unrequested Data, and Interests from many addresses.

mod common;

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, LpPacket, Name};
use common::Router;

const PATIENCE: Duration = Duration::from_secs(10);

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// A peer that uses UDP.
struct Peer(UdpSocket);

impl Peer {
    fn of(router: &Router) -> Peer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(("127.0.0.1", router.port)).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        Peer(socket)
    }

    fn uri(&self) -> String {
        format!("udp4://{}", self.0.local_addr().expect("bound"))
    }

    fn send(&self, packet: &[u8]) {
        self.0.send(packet).expect("sent");
    }

    /// The next packet without its link header, and whether it is a Nack.
    fn receive(&self, what: &str) -> (Vec<u8>, bool) {
        let mut frame = [0; 9000];
        let len = self.0.recv(&mut frame).unwrap_or_else(|error| panic!("{what}: {error}"));
        let packet = LpPacket::decode(&frame[..len]).expect("a frame");
        (packet.fragment.expect("a packet").to_vec(), packet.nack.is_some())
    }
}

fn data(name: &Name, content: &str) -> Vec<u8> {
    DataBuilder::new(name.clone()).freshness_ms(3_600_000).content(content.into()).encode()
}

fn content(wire: &[u8]) -> String {
    String::from_utf8_lossy(Data::decode(wire).expect("Data").content).into_owned()
}

fn with_threads(count: usize) -> Router {
    Router::start_with(&format!("[threads]\ncount = {count}\npin = false\n"))
}

fn serve_by(router: &Router, producer: &Peer, prefix: &str) {
    router.ok(&format!("face create {}", producer.uri()));
    router.ok(&format!("route add {prefix} {}", producer.uri()));
}

#[test]
fn strangers_cannot_answer_for_the_producer() {
    for threads in [1, 2, 3] {
        let router = with_threads(threads);
        let [producer, consumer, stranger] = std::array::from_fn(|_| Peer::of(&router));
        serve_by(&router, &producer, "/p");
        for i in 0..20u32 {
            let asked = name(&format!("/p/{i}"));
            // Names with two components, and a prefix that is shorter than the part of a name that selects the worker.
            let prefix = if i % 2 == 0 { asked.clone() } else { name("/p") };
            let ask = |nonce| {
                let interest = InterestBuilder::new(prefix.clone(), nonce);
                consumer.send(&interest.can_be_prefix(i % 2 == 1).must_be_fresh(i % 2 == 1).encode());
            };
            ask(i);
            let when = format!("{threads} threads, round {i}");
            let (forwarded, _) = producer.receive(&when);
            assert_eq!(forwarded.first(), Some(&5), "an Interest");
            stranger.send(&data(&asked, "forged"));
            producer.send(&data(&asked, &format!("{i}")));
            let (answer, nack) = consumer.receive(&when);
            assert!(!nack);
            assert_eq!(content(&answer), i.to_string(), "{when}");
            stranger.send(&data(&asked, "forged"));
            ask(1000 + i);
            let (cached, _) = consumer.receive(&when);
            assert!(cached == answer, "{when}: {asked} from the content store");
            // The next Interest must go to the producer.
            router.ok("cs erase /p");
        }
    }
}

/// Waits until Nacks have left this many of the peers without an answer, who stay.
fn await_nacks(peers: &mut Vec<Peer>, left: usize) {
    let deadline = Instant::now() + PATIENCE;
    while peers.len() > left {
        assert!(Instant::now() < deadline, "{} are left", peers.len());
        peers.retain(|peer| {
            peer.0.set_nonblocking(true).expect("set");
            let has_answer = peer.0.peek(&mut [0; 1]).is_ok();
            peer.0.set_nonblocking(false).expect("set");
            assert!(!has_answer || peer.receive("a Nack").1);
            !has_answer
        });
    }
    assert_eq!(peers.len(), left);
}

#[test]
fn a_crowd_of_forged_sources_does_not_keep_an_honest_consumer_from_his_data() {
    for threads in [1, 2, 3] {
        let router = with_threads(threads);
        let producer = Peer::of(&router);
        serve_by(&router, &producer, "/p");
        let wanted = name("/p/wanted/by/all");
        // All are in 127.0.0.0/24. Each has its own port, and so its own face.
        let mut crowd: Vec<Peer> = (0..300).map(|_| Peer::of(&router)).collect();
        for (nonce, peer) in (0..).zip(&crowd) {
            peer.send(&InterestBuilder::new(wanted.clone(), nonce).lifetime_ms(60_000).encode());
            if nonce == 0 {
                assert!(!producer.receive("the Interest").1);
            }
        }
        // Those who are too many get Nacks. Once all of these have come, the router has received all Interests.
        await_nacks(&mut crowd, 256);
        let mut honest = UnixStream::connect(router.socket()).expect("connected");
        honest.set_read_timeout(Some(PATIENCE)).expect("set");
        honest.write_all(&InterestBuilder::new(wanted.clone(), 1000).lifetime_ms(60_000).encode()).expect("sent");
        // The router drops one peer of the crowd and sends it a Nack.
        await_nacks(&mut crowd, 255);
        let answer = data(&wanted, "answer");
        producer.send(&answer);
        let mut bytes = vec![0; answer.len()];
        honest.read_exact(&mut bytes).expect("the Data");
        assert!(bytes == answer, "{threads} threads");
    }
}
