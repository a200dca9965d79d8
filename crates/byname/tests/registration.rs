//! An application that registers a prefix while Interests for it keep arriving, as ndn-tools' ndnpingserver does.
//!
//! The application sets its Interest filter when it receives the answer to its registration, and drops Interests that
//! arrive before. So the router must refuse Interests before the answer, and forward Interests only after it.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element};
use byname_control::security::Signer;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::element_len;
use byname_wire::{Component, Data, Interest, LpPacket, Name};
use common::Router;

const ROUNDS: u32 = 30;
const PATIENCE: Duration = Duration::from_secs(20);

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// Packets from a stream.
struct Stream {
    socket: UnixStream,
    bytes: Vec<u8>,
}

impl Stream {
    fn connect(router: &Router) -> Stream {
        let socket = UnixStream::connect(router.socket()).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        Stream { socket, bytes: Vec::new() }
    }

    /// The next packet, without its link header.
    fn receive(&mut self) -> Vec<u8> {
        loop {
            if let Ok(Some(len)) = element_len(&self.bytes, 9000)
                && len <= self.bytes.len()
            {
                let frame: Vec<u8> = self.bytes.drain(..len).collect();
                let packet = LpPacket::decode(&frame).expect("a frame");
                return packet.fragment.expect("a packet").to_vec();
            }
            let mut more = [0; 9000];
            let len = self.socket.read(&mut more).expect("a packet within seconds");
            assert!(len > 0, "the router closed the connection");
            self.bytes.extend_from_slice(&more[..len]);
        }
    }
}

fn register(prefix: &Name) -> Vec<u8> {
    let parameters = ControlParameters { name: Some(prefix.clone()), ..Default::default() }.encode();
    let command = name("/localhost/nfd/rib/register").join(Component::generic(&parameters));
    let unix_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    Signer::digest().sign_command(&InterestBuilder::new(command, rand::random()), unix_ms).expect("signed")
}

/// Sends Interests for the prefix of the present round until the test is over.
fn ask(mut socket: UnixStream, round: &AtomicU32, over: &AtomicBool) {
    let start = Instant::now();
    for i in 0u32.. {
        if over.load(Ordering::Relaxed) || start.elapsed() > 2 * PATIENCE {
            return;
        }
        let round = round.load(Ordering::Relaxed);
        let interest = InterestBuilder::new(name(&format!("/race/{round}/{i}")), i).lifetime_ms(100);
        if socket.write_all(&interest.encode()).is_err() {
            // The test has ended. If not, it fails for want of Interests.
            return;
        }
        if i % 8 == 7 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Ends the consumer's threads with the test, even if the test fails.
struct End<'a> {
    over: &'a AtomicBool,
    consumer: &'a UnixStream,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.consumer.shutdown(std::net::Shutdown::Both);
    }
}

#[test]
fn the_answer_to_a_registration_comes_before_interests_for_the_prefix() {
    for threads in [1, 2] {
        let router = Router::start_with(&format!("[threads]\ncount = {threads}\npin = false\n"));
        let (round, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let consumer = UnixStream::connect(router.socket()).expect("connected");
        std::thread::scope(|scope| {
            let (mut refusals, asking) = (consumer.try_clone().expect("cloned"), consumer.try_clone().expect("cloned"));
            scope.spawn(|| ask(asking, &round, &over));
            // Read the Nacks, or the router would have to queue them.
            scope.spawn(move || while refusals.read(&mut [0; 65_536]).is_ok_and(|len| len > 0) {});
            let _end = End { over: &over, consumer: &consumer };
            for number in 0..ROUNDS {
                round.store(number, Ordering::Relaxed);
                let mut application = Stream::connect(&router);
                application.socket.write_all(&register(&name(&format!("/race/{number}")))).expect("sent");
                let first = application.receive();
                let answer = Data::decode(&first);
                let answer = answer.unwrap_or_else(|_| {
                    let early = Interest::decode(&first).map(|interest| interest.name.to_string());
                    panic!("round {number} of {threads} threads: {early:?} came before the answer")
                });
                assert_eq!(ControlResponse::decode(answer.content).expect("a response").code, 200);
                Interest::decode(&application.receive()).expect("then Interests come");
            }
        });
    }
}
