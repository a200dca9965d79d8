//! Routers that find producers by themselves: the strategy `self-learning` over several processes.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use byname_control::security::Signer;
use byname_wire::data::{DataBuilder, content_type};
use byname_wire::interest::InterestBuilder;
use byname_wire::lp::LpPacket;
use byname_wire::tlv::Reader;
use byname_wire::{Interest, Name};
use common::Router;

const SECRET: &str = "a secret of all routers";

fn name(uri: &str) -> Name {
    uri.parse().expect("a name in a test")
}

/// A router of a network whose routers share a secret.
fn router(threads: usize, folder: &Path) -> Router {
    let secret = folder.join("secret");
    std::fs::write(&secret, SECRET).expect("written");
    let rights = "modules = [\"faces\", \"fib\", \"rib\", \"cs\", \"strategy-choice\", \"tags\"]";
    Router::start_with(&format!(
        "[threads]\ncount = {threads}\n\
         [tables.strategies]\n\"/\" = \"self-learning\"\n\"/localhost\" = \"best-route\"\n\
         [[authorization]]\nsigner = \"any\"\n{rights}\n\
         [[authorization]]\nfrom = \"network\"\nhmac_key = \"/net/KEY/1\"\nhmac_secret_file = \"{}\"\n\
         modules = [\"rib\"]\n",
        secret.display()
    ))
}

fn join(a: &Router, b: &Router) {
    a.ok(&format!("face create udp4://127.0.0.1:{} permanent", b.port));
    b.ok(&format!("face create udp4://127.0.0.1:{} permanent", a.port));
}

/// An application that announces a prefix and answers all Interests below it.
struct Producer {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    fn start(router: &Router, prefix: &str, signer: &Signer) -> Producer {
        let announcement = DataBuilder::new(name(prefix).join_name(name("/32=PA/v=1/seg=0").as_ref()))
            .content_type(content_type::PREFIX_ANN)
            .content(vec![0x6d, 4, 0, 0x36, 0xee, 0x80]);
        let announcement = signer.sign_data(&announcement).expect("signed");
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
        let command = InterestBuilder::new(name("/localhost/nfd/rib/announce"), 7).application_parameters(announcement);
        let command = Signer::digest().sign_command(&command, since_epoch.as_millis() as u64).expect("signed");
        let mut stream = UnixStream::connect(router.socket()).expect("connected");
        stream.write_all(&command).expect("written");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let thread = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while !is_ending.load(Ordering::Relaxed) {
                answer_interests(&mut stream, &mut bytes);
            }
        });
        let producer = Producer { ending, thread: Some(thread) };
        until("the announcement makes a route", || has_route(router, prefix));
        producer
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("joined once").join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Reads the bytes that have arrived, and answers the Interests in them.
fn answer_interests(stream: &mut UnixStream, bytes: &mut Vec<u8>) {
    let mut part = [0; 9000];
    let Ok(len) = stream.read(&mut part) else { return };
    bytes.extend_from_slice(&part[..len]);
    let mut used = 0;
    let mut reader = Reader::new(bytes);
    while let Ok(Some(frame)) = reader.next_tlv() {
        used += frame.wire.len();
        let frame = LpPacket::decode(frame.wire).expect("routers send link packets");
        assert!(frame.prefix_announcement.is_none(), "applications need none");
        let Some(Ok(interest)) = frame.fragment.map(Interest::decode) else { continue };
        let data = DataBuilder::new(interest.name.to_name()).content(b"here you are".to_vec()).encode();
        let mut answer = Vec::new();
        LpPacket { fragment: Some(&data), pit_token: frame.pit_token, ..LpPacket::default() }.encode(&mut answer);
        stream.write_all(&answer).expect("written");
    }
    bytes.drain(..used);
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_route(router: &Router, prefix: &str) -> bool {
    let routes = router.json("route list --origin prefixann");
    routes.as_array().expect("a list").iter().any(|route| route["prefix"] == prefix)
}

fn interests_from(router: &Router, peer: &Router) -> u64 {
    let faces = router.json("face list");
    let uri = format!("udp4://127.0.0.1:{}", peer.port);
    let face = faces.as_array().expect("a list").iter().find(|face| face["remote_uri"] == uri.as_str());
    face.expect("a face to the peer")["in_interests"].as_u64().expect("a count")
}

/// A consumer's router, a router in the middle, a producer's router, and a router on a side branch.
fn learns_the_way_and_unlearns_it(threads: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let [near, between, far, beside] = std::array::from_fn(|_| router(threads, folder.path()));
    for (a, b) in [(&near, &between), (&between, &far), (&between, &beside)] {
        join(a, b);
    }
    let trusted = Signer::hmac(name("/net/KEY/1"), SECRET.as_bytes());
    let producer = Producer::start(&far, "/net/app", &trusted);
    let stranger = Producer::start(&far, "/stranger/app", &Signer::digest());
    let fetch = |uri: &str| near.run(&format!("peek {uri} --payload --lifetime 2000 --tries 5"));

    assert_eq!(fetch("/net/app/1").stdout, "here you are");
    for router in [&near, &between] {
        until("the way is learned", || has_route(router, "/net/app"));
    }
    let flooded = interests_from(&beside, &between);
    assert!(flooded >= 1, "the first Interest went everywhere");
    for i in 2..20 {
        assert_eq!(fetch(&format!("/net/app/{i}")).stdout, "here you are");
    }
    assert_eq!(interests_from(&beside, &between), flooded, "later ones went one way");

    // Data also comes from a producer that nobody trusts, but its announcement creates no route.
    assert_eq!(fetch("/stranger/app/1").stdout, "here you are");
    assert_eq!(fetch("/stranger/app/2").stdout, "here you are");
    assert!(interests_from(&beside, &between) >= flooded + 2);
    assert!(![&near, &between].into_iter().any(|router| has_route(router, "/stranger/app")));

    drop((producer, stranger));
    until("the producer has gone", || !has_route(&far, "/net/app"));
    assert_ne!(fetch("/net/app/new").code, 0);
    for router in [&near, &between] {
        until("a route that leads nowhere goes", || !has_route(router, "/net/app"));
    }
    let _producer = Producer::start(&beside, "/net/app", &trusted);
    assert_eq!(fetch("/net/app/moved").stdout, "here you are", "it is found where it is now");
}

#[test]
fn routers_learn_the_way_to_a_producer_and_unlearn_it() {
    learns_the_way_and_unlearns_it(1);
}

#[test]
fn with_two_threads_routers_learn_as_well() {
    learns_the_way_and_unlearns_it(2);
}
