//! Management tests without sockets. The packet thread has only the internal face. The tests pass Interests in, as the
//! worker would.

use std::sync::Arc;
use std::time::Duration;

use byname_face::io_loop::{self, IoConfig, Running, Workers};
use byname_face::{FaceEvent, FaceStatus, FaceUri};
use byname_forward::dispatch::Dispatcher;
use byname_forward::face_table::{Persistency, Scope};
use byname_forward::tables::Tables;
use byname_forward::worker::WorkerConfig;
use byname_forward::{FaceId, Worker};
use byname_lookup::Control;
use byname_lookup::oracle::TagsetOracle;
use byname_lookup::prefix::LongestFirst;
use byname_wire::data::{DataBuilder, content_type};
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::signature::{SignatureInfo, SignatureType};
use byname_wire::{Component, Data, Name, NameHashKey, digest};
use proptest::prelude::*;

use super::tlv::{ControlParameters, ControlResponse, Element, StrategyName, decode_list};
use super::{Management, Moment, tlv};
use crate::fib_writer::FibWriter;
use crate::security::{Authorizer, Signer};
use crate::tags::{TagLimits, TagRouting};

mod advertised;
mod batch;
mod capture;
mod explain;
mod flat;
mod learning;
mod limits;
mod moving;
mod placed;
mod reload;
mod suspended;
mod trace;
mod traffic;
mod trust;

/// Face of an application.
const APP: FaceId = FaceId(300);
/// Face of a neighbour.
const NEIGHBOUR: FaceId = FaceId(301);
const START: Moment = Moment { ms: 1, unix_ms: 1_700_000_000_000 };

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

fn face(id: FaceId, scope: Scope) -> FaceStatus {
    let local = FaceUri::Unix("/run/nfd/nfd.sock".into());
    FaceStatus { local, persistency: Persistency::OnDemand, ..FaceStatus::plain(id, FaceUri::Fd(id.0), scope) }
}

struct Router {
    management: Management,
    running: Option<Running>,
    now: Moment,
    signer: Signer,
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.handle.shutdown();
            running.thread.join().expect("the packet thread does not panic");
        }
    }
}

impl Router {
    fn new(routes_max: usize) -> Self {
        Router::with_rights(routes_max, Authorizer::local_only())
    }

    fn with_rights(routes_max: usize, authorizer: Authorizer) -> Self {
        Router::with_threads(routes_max, authorizer, 1)
    }

    fn with_threads(routes_max: usize, authorizer: Authorizer, threads: usize) -> Self {
        let key = NameHashKey::new([1, 2]);
        let engine = LongestFirst::new(key, 100_000);
        let tables = Arc::new(Tables::new(engine.query()));
        let dispatcher = Dispatcher::new(key, threads, 0, 1);
        let worker = |number| {
            let mut worker = Worker::new(WorkerConfig::default(), key, tables.clone(), 1);
            worker.join(dispatcher.membership(number));
            worker
        };
        let workers = (0..threads).map(worker).collect();
        let workers = Workers::new(dispatcher, workers, 1024, false);
        let config = IoConfig { rests: false, ..IoConfig::default() };
        let running = io_loop::start(config, workers, vec![]).expect("threads can be had");
        let tags = TagRouting::new(
            FibWriter::new(Box::new(TagsetOracle::new()), tables.clone()),
            TagLimits::default(),
            START.unix_ms,
        );
        let fib = FibWriter::new(Box::new(engine), tables);
        let mut management = Management::new(running.handle.clone(), authorizer, routes_max, fib, tags, [], START);
        management.face_event(&FaceEvent::Created(face(APP, Scope::Local)));
        management.face_event(&FaceEvent::Created(face(NEIGHBOUR, Scope::NonLocal)));
        management.commit();
        Router { management, running: Some(running), now: START, signer: Signer::digest() }
    }

    fn send(&mut self, wire: &[u8], incoming: FaceId) -> Option<ControlResponse> {
        let answer = self.management.answer(wire, incoming, self.now);
        self.management.commit();
        let answer = answer?;
        let data = Data::decode(&answer).expect("answers are Data");
        assert_eq!(data.freshness_ms, 1000);
        assert_eq!(data.signature.value, digest::sha256(&data.signature.signed));
        Some(ControlResponse::decode(data.content).expect("a ControlResponse"))
    }

    /// Sends a command signed by `signer`.
    fn command_by(
        &mut self,
        signer: &Signer,
        uri: &str,
        parameters: &ControlParameters,
        from: FaceId,
    ) -> (u64, String) {
        let command = InterestBuilder::new(name(uri).join(Component::generic(&parameters.encode())), 7);
        let wire = signer.sign_command(&command, self.now.unix_ms).expect("digests can be had");
        let response = self.send(&wire, from).expect("commands are answered");
        (response.code, response.text)
    }

    fn signed(&self, name: Name) -> Vec<u8> {
        self.signer.sign_command(&InterestBuilder::new(name, 7), self.now.unix_ms).expect("digests can be had")
    }

    fn command_from(&mut self, verb: &str, parameters: &ControlParameters, incoming: FaceId) -> ControlResponse {
        let wire = self.signed(name(verb).join(Component::generic(&parameters.encode())));
        self.send(&wire, incoming).expect("commands are answered")
    }

    fn command(&mut self, verb: &str, parameters: &ControlParameters) -> ControlResponse {
        self.command_from(&format!("/localhost/nfd/{verb}"), parameters, APP)
    }

    fn interest(&mut self, name: Name, can_be_prefix: bool) -> Option<Vec<u8>> {
        let wire = InterestBuilder::new(name, 7).can_be_prefix(can_be_prefix).must_be_fresh(can_be_prefix).encode();
        self.management.answer(&wire, APP, self.now).map(|packet| packet.to_vec())
    }

    /// Content of a dataset, fetched segment by segment.
    fn dataset(&mut self, uri: &str) -> Vec<u8> {
        let first = self.interest(name(uri), true).expect("datasets are answered");
        let mut content = Vec::new();
        let mut wire = first;
        for segment in 0.. {
            let data = Data::decode(&wire).expect("segments are Data");
            let last = data.name.component(-1).expect("a segment");
            assert_eq!((last.typ, last.number()), (component_type::SEGMENT, Some(segment)));
            content.extend_from_slice(data.content);
            if data.final_block == Some(last) {
                break;
            }
            let version = data.name.prefix(data.name.len() - 1).to_name();
            let next = version.join_number(component_type::SEGMENT, segment + 1);
            wire = self.interest(next, false).expect("segments are kept");
        }
        content
    }

    /// Routes, without the router's own.
    fn routes(&mut self) -> Vec<tlv::RibEntry> {
        let mut entries: Vec<tlv::RibEntry> = decode_list(&self.dataset("/localhost/nfd/rib/list")).expect("a RIB");
        entries.retain(|entry| !is_own(&entry.name));
        entries
    }

    /// FIB entries, without the router's own.
    fn fib(&mut self) -> Vec<tlv::FibEntry> {
        let mut entries: Vec<tlv::FibEntry> = decode_list(&self.dataset("/localhost/nfd/fib/list")).expect("a FIB");
        entries.retain(|entry| !is_own(&entry.name));
        entries
    }

    fn advance(&mut self, ms: u64) {
        self.now = Moment { ms: self.now.ms + ms, unix_ms: self.now.unix_ms + ms };
        self.management.advance(self.now);
        self.management.commit();
    }
}

/// Whether a prefix belongs to management.
fn is_own(prefix: &Name) -> bool {
    prefix.as_ref().to_string().ends_with("/nfd")
}

fn prefix(uri: &str) -> ControlParameters {
    ControlParameters { name: Some(name(uri)), ..ControlParameters::default() }
}

#[test]
fn a_registration_fills_in_what_is_left_out_and_is_listed_at_once() {
    let mut router = Router::new(100);
    let response = router.command("rib/register", &prefix("/app"));
    assert_eq!((response.code, response.text.as_str()), (200, "OK"));
    let body =
        ControlParameters { face_id: Some(APP.0), origin: Some(0), cost: Some(0), flags: Some(1), ..prefix("/app") };
    assert_eq!(response.parameters(), Ok(body));
    let route = tlv::Route { face_id: APP.0, origin: 0, cost: 0, flags: 1, expiration_period_ms: None, is_stale: None };
    assert_eq!(router.routes(), [tlv::RibEntry { name: name("/app"), routes: vec![route] }]);
    let record = tlv::NextHopRecord { face_id: APP.0, cost: 0 };
    assert_eq!(router.fib(), [tlv::FibEntry { name: name("/app"), next_hop_records: vec![record] }]);

    let other = ControlParameters { face_id: Some(NEIGHBOUR.0), cost: Some(9), ..prefix("/app") };
    assert_eq!(router.command("rib/register", &other).code, 200);
    assert_eq!(router.routes()[0].routes.len(), 2);
    let response = router.command("rib/unregister", &prefix("/app"));
    assert_eq!(response.parameters().expect("a body").face_id, Some(APP.0));
    assert_eq!(router.routes()[0].routes[0].face_id, NEIGHBOUR.0);
    assert_eq!(router.command("rib/unregister", &prefix("/app")).code, 200, "as in NFD, although nothing is there");

    router.management.face_event(&FaceEvent::Destroyed(face(NEIGHBOUR, Scope::NonLocal)));
    router.management.commit();
    assert_eq!((router.routes(), router.fib()), (vec![], vec![]));
}

#[test]
fn routes_expire_and_the_longest_period_is_for_ever() {
    let mut router = Router::new(100);
    let lasting = |ms, uri| ControlParameters { expiration_period_ms: Some(ms), ..prefix(uri) };
    let response = router.command("rib/register", &lasting(5_000, "/a"));
    assert_eq!(response.parameters().expect("a body").expiration_period_ms, Some(5_000));
    for (ms, uri) in [(u64::MAX, "/b"), (i64::MAX as u64, "/c"), (i64::MAX as u64 - 1, "/d")] {
        assert_eq!(router.command("rib/register", &lasting(ms, uri)).code, 200);
    }
    assert_eq!(router.management.next_deadline_ms().map(|at| at.min(5_001)), Some(5_001));
    router.advance(2_000);
    assert_eq!(router.routes()[0].routes[0].expiration_period_ms, Some(3_000));
    router.advance(3_000);
    let names: Vec<String> = router.routes().iter().map(|e| e.name.as_ref().to_string()).collect();
    assert_eq!(names, ["/b", "/c", "/d"]);
    router.command("rib/register", &lasting(0, "/e"));
    router.advance(0);
    assert_eq!(router.routes().len(), 3);
}

#[test]
fn the_older_signed_format_is_accepted() {
    let mut router = Router::new(100);
    let signature_info = {
        let mut out = Vec::new();
        SignatureInfo::new(SignatureType::DigestSha256).push(&mut out, 0x16);
        out
    };
    let timestamp = router.now.unix_ms.to_be_bytes();
    let mut command = name("/localhost/nfd/rib/register").join(Component::generic(&prefix("/old").encode()));
    for part in [&timestamp[..], &[1; 8], &signature_info] {
        command = command.join(Component::generic(part));
    }
    let mut value = vec![0x17, 32];
    value.extend_from_slice(&digest::sha256(&[command.value()]));
    let wire = InterestBuilder::new(command.join(Component::generic(&value)), 7).encode();
    assert_eq!(router.send(&wire, APP).map(|r| r.code), Some(200));
    assert_eq!(router.send(&wire, APP).map(|r| r.code), Some(403), "replayed");
}

#[test]
fn forged_and_replayed_commands_are_refused_and_counted() {
    let mut router = Router::new(100);
    let command = name("/localhost/nfd/rib/register").join(Component::generic(&prefix("/a").encode()));
    let good = router.signed(command.clone());
    let mut forged = good.clone();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert_eq!(router.send(&forged, APP).map(|r| r.code), Some(403));
    assert_eq!(router.send(&good, NEIGHBOUR).map(|r| r.code), Some(403), "only for this host");
    assert_eq!(router.send(&good, FaceId(999)).map(|r| r.code), Some(403), "from a face that is gone");
    assert_eq!(router.send(&good, APP).map(|r| r.code), Some(200));
    assert_eq!(router.send(&good, APP).map(|r| r.code), Some(403));
    let unsigned = InterestBuilder::new(command, 7).encode();
    assert_eq!(router.send(&unsigned, APP).map(|r| r.code), Some(403));
    let counters = router.management.counters();
    assert_eq!((counters.commands_ok, counters.commands_failed), (1, 5));
    assert_eq!(router.management.authorizer.refusals().total(), 5);
}

#[test]
fn each_mistake_has_its_code() {
    let mut router = Router::new(2);
    let code = |router: &mut Router, verb: &str, p: &ControlParameters| router.command(verb, p).code;
    assert_eq!(code(&mut router, "rib/register", &ControlParameters::default()), 400);
    let strange = ControlParameters { count: Some(1), ..prefix("/a") };
    assert_eq!(code(&mut router, "rib/register", &strange), 400);
    let nobody = ControlParameters { face_id: Some(999), ..prefix("/a") };
    for verb in ["rib/register", "fib/add-nexthop"] {
        assert_eq!(code(&mut router, verb, &nobody), 410);
        assert_eq!(code(&mut router, verb, &prefix(&"/x".repeat(33))), 414);
    }
    assert_eq!(code(&mut router, "rib/reboot", &prefix("/a")), 501);
    assert_eq!(code(&mut router, "moon/land", &prefix("/a")), 501);
    // The two management prefixes already fill this RIB.
    assert_eq!(code(&mut router, "rib/register", &prefix("/a")), 507);
    let strategy = |uri| ControlParameters { strategy: Some(StrategyName(name(uri))), ..prefix("/a") };
    assert_eq!(code(&mut router, "strategy-choice/set", &strategy("/localhost/nfd/strategy/none")), 404);
    assert_eq!(code(&mut router, "strategy-choice/set", &prefix("/a")), 400);
    assert_eq!(code(&mut router, "strategy-choice/unset", &prefix("/")), 400);
    assert_eq!(code(&mut router, "cs/erase", &ControlParameters { count: Some(0), ..prefix("/a") }), 400);
    let to = |uri: &str| ControlParameters { uri: Some(uri.into()), ..ControlParameters::default() };
    for (uri, expected) in [
        ("nonsense", 400),
        ("udp://router.example:6363", 400),
        ("udp4://router.example:6363", 400),
        ("udp4://[2001:db8::1]:6363", 400),
        ("udp://192.0.2.1:66000", 400),
        ("udp://192.0.2.1:6363", 504),
        ("udp4://192.0.2.1", 504),
        ("udp4://224.0.23.170:56363", 406),
        ("ether://[01:00:5e:00:17:aa]", 406),
        ("ether://[08:00:27:01:02:03]", 406),
        ("unix:///run/nfd/nfd.sock", 406),
        ("memif:///run/byname/memif.sock?id=0", 504),
        ("udp4://192.0.2.1:6363", 504),
    ] {
        assert_eq!(code(&mut router, "faces/create", &to(uri)), expected, "{uri}; no port here makes faces");
    }
    let with_local =
        ControlParameters { local_uri: Some("udp4://192.0.2.2:6363".into()), ..to("udp4://192.0.2.1:6363") };
    let refused = router.command("faces/create", &with_local);
    assert_eq!((refused.code, refused.text.as_str()), (406, "Unicast UDP faces cannot be created with a LocalUri"));
    let on_demand = ControlParameters { face_persistency: Some(1), ..to("udp4://192.0.2.1:6363") };
    assert_eq!(code(&mut router, "faces/create", &on_demand), 406);
    let id = |id| ControlParameters { face_id: Some(id), ..ControlParameters::default() };
    assert_eq!(code(&mut router, "faces/update", &id(999)), 404);
    assert_eq!(code(&mut router, "faces/destroy", &id(999)), 200);
    assert_eq!(code(&mut router, "faces/destroy", &id(0)), 400);
}

#[test]
fn malformed_parameters_are_answered_if_they_are_authorized() {
    let mut router = Router::new(100);
    for garbage in [&b""[..], b"\x68", b"\x68\x05\x07", b"\x07\x00", b"\x68\x02\x69\x00", &[0xff; 64]] {
        let command = name("/localhost/nfd/rib/register").join(Component::generic(garbage));
        let wire = router.signed(command);
        assert_eq!(router.send(&wire, APP).map(|r| r.code), Some(400), "{garbage:02x?}");
    }
    let wire = router.signed(name("/localhost/nfd/rib/register"));
    assert_eq!(router.send(&wire, APP).map(|r| r.code), Some(400));
}

#[test]
fn localhop_serves_neighbours_registration_only_and_whom_the_rules_allow() {
    let mut router = Router::new(100);
    let register = router.command_from("/localhop/nfd/rib/register", &prefix("/a"), NEIGHBOUR);
    assert_eq!(register.code, 403);
    for verb in ["cs/erase", "strategy-choice/unset", "fib/remove-nexthop", "faces/update", "rib/nonsense"] {
        let command = name(&format!("/localhop/nfd/{verb}")).join(Component::generic(&prefix("/a").encode()));
        assert!(router.send(&router.signed(command), NEIGHBOUR).is_none(), "{verb}");
    }
    let list = InterestBuilder::new(name("/localhop/nfd/rib/list"), 7).can_be_prefix(true).must_be_fresh(true);
    assert!(router.management.answer(&list.encode(), NEIGHBOUR, START).is_none());
}

#[test]
fn localhop_is_localhost_to_clients_of_this_host() {
    let mut router = Router::new(100);
    let mut code = |verb: &str, parameters: &ControlParameters| {
        router.command_from(&format!("/localhop/nfd/{verb}"), parameters, APP).code
    };
    assert_eq!(code("rib/register", &prefix("/a")), 200);
    assert_eq!(code("cs/erase", &prefix("/a")), 200);
    assert_eq!(code("strategy-choice/unset", &prefix("/a")), 200);
    assert_eq!(code("rib/nonsense", &prefix("/a")), 501);
    assert!(router.interest(name("/localhop/nfd/rib/list"), true).is_some());
    assert!(router.interest(name("/elsewhere/nfd/rib/list"), true).is_none());
}

#[test]
fn nexthops_past_the_rib() {
    let mut router = Router::new(100);
    let response = router.command("fib/add-nexthop", &prefix("/f"));
    let body = ControlParameters { face_id: Some(APP.0), cost: Some(0), ..prefix("/f") };
    assert_eq!(response.parameters(), Ok(body));
    assert_eq!((router.fib().len(), router.routes().len()), (1, 0));
    let response = router.command("fib/remove-nexthop", &prefix("/f"));
    assert_eq!(response.parameters().expect("a body").face_id, Some(APP.0));
    assert_eq!(router.fib(), []);
}

#[test]
fn the_routers_own_routes_are_listed_and_stay() {
    let mut router = Router::new(100);
    for own in ["/localhost/nfd", "/localhop/nfd"] {
        for origin in [0, 255] {
            let taken = ControlParameters { face_id: Some(1), origin: Some(origin), ..prefix(own) };
            router.command("rib/unregister", &taken);
        }
    }
    let listed: Vec<tlv::RibEntry> = decode_list(&router.dataset("/localhost/nfd/rib/list")).expect("a RIB");
    let route = tlv::Route { face_id: 1, origin: 0, cost: 0, flags: 1, expiration_period_ms: None, is_stale: None };
    let own = |uri| tlv::RibEntry { name: name(uri), routes: vec![route.clone()] };
    assert_eq!(listed, [own("/localhop/nfd"), own("/localhost/nfd")]);
}

#[test]
fn strategies_have_versions_in_answers_and_lists() {
    let mut router = Router::new(100);
    let asked = name("/localhost/nfd/strategy/multicast");
    let parameters = ControlParameters { strategy: Some(StrategyName(asked.clone())), ..prefix("/a") };
    let answered = router.command("strategy-choice/set", &parameters).parameters().expect("a body");
    let instance = answered.strategy.expect("a strategy").0;
    assert!(asked.as_ref().is_prefix_of(&instance.as_ref()));
    assert_eq!(instance.as_ref().len(), asked.as_ref().len() + 1);
    let list: Vec<tlv::StrategyChoice> =
        decode_list(&router.dataset("/localhost/nfd/strategy-choice/list")).expect("choices");
    let listed: Vec<_> = list.iter().map(|c| c.name.as_ref().to_string()).collect();
    assert_eq!(listed, ["/", "/a"]);
    assert_eq!(list[1].strategy.0, instance);
    assert_eq!(router.command("strategy-choice/unset", &prefix("/a")).code, 200);
    let list = router.dataset("/localhost/nfd/strategy-choice/list");
    assert_eq!(decode_list::<tlv::StrategyChoice>(&list).map(|l| l.len()), Ok(1));
}

#[test]
fn the_content_store_and_the_forwarder_are_described() {
    let mut router = Router::new(100);
    let config = ControlParameters { capacity: Some(10), flags: Some(0), mask: Some(2), ..Default::default() };
    let body = router.command("cs/config", &config).parameters().expect("a body");
    assert_eq!((body.capacity, body.flags), (Some(10), Some(1)));
    let info: Vec<tlv::CsInfo> = decode_list(&router.dataset("/localhost/nfd/cs/info")).expect("a CsInfo");
    assert_eq!((info[0].capacity, info[0].flags, info.len()), (10, 1, 1));
    let erased = router.command("cs/erase", &prefix("/")).parameters().expect("a body");
    assert_eq!((erased.count, erased.capacity, erased.name), (Some(0), None, Some(name("/"))));
    let status = tlv::ForwarderStatus::decode_value(&router.dataset("/localhost/nfd/status/general"));
    let status = status.expect("a ForwarderStatus");
    assert_eq!((status.start_timestamp_ms, status.n_fib_entries), (START.unix_ms, 2));
    assert!(router.dataset("/localhost/nfd/faces/channels").is_empty());
    let faces: Vec<tlv::FaceStatus> = decode_list(&router.dataset("/localhost/nfd/faces/list")).expect("faces");
    let listed: Vec<_> = faces.iter().map(|face| (face.face_id, face.uri.as_str())).collect();
    assert_eq!(listed, [(1, "internal://"), (254, "contentstore://"), (255, "null://")]);
    let query = |filter: &[u8]| name("/localhost/nfd/faces/query").join(Component::generic(filter));
    let filter = tlv::FaceQueryFilter { link_type: Some(2), ..Default::default() };
    let wire = router.interest(query(&filter.encode()), true).expect("an answer");
    assert!(Data::decode(&wire).expect("Data").content.is_empty());
    let wire = router.interest(query(b"x"), true).expect("an answer");
    let nack = Data::decode(&wire).expect("Data");
    assert_eq!(nack.content_type, content_type::NACK);
    assert_eq!(ControlResponse::decode(nack.content).expect("a response").code, 400);
}

#[test]
fn notifications_are_numbered_and_the_last_ones_kept() {
    let mut router = Router::new(100);
    let stream = name("/localhost/nfd/faces/events");
    let number = |n| stream.join_number(component_type::SEQUENCE_NUM, n);
    let latest = router.interest(stream.clone(), true).expect("the latest");
    let latest = Data::decode(&latest).expect("Data");
    assert_eq!(latest.name, number(1).as_ref());
    let event = tlv::FaceEventNotification::decode(latest.content).expect("a notification");
    assert_eq!((event.face_id, event.face_event_kind, event.face_scope), (NEIGHBOUR.0, 1, 0));
    assert!(router.interest(number(0), false).is_some());
    assert!(router.interest(number(2), false).is_none(), "it waits in the PIT");
    let packet = router.management.face_event(&FaceEvent::Destroyed(face(APP, Scope::Local)));
    assert_eq!(Data::decode(&packet).expect("Data").name, number(2).as_ref());
    assert!(router.interest(number(2), false).is_some());
    for _ in 0..1_000 {
        router.management.face_event(&FaceEvent::Up(face(NEIGHBOUR, Scope::NonLocal)));
    }
    assert!(router.interest(number(2), false).is_none(), "long ago");
    assert!(router.interest(number(1_002), false).is_some());
    assert!(router.interest(number(u64::MAX), false).is_none());
}

#[test]
fn announcements_make_routes_of_their_own_origin() {
    let mut router = Router::new(100);
    let announcement = DataBuilder::new(name("/net/app/32=PA/v=1/seg=0"))
        .content_type(content_type::PREFIX_ANN)
        .content(vec![0x6d, 2, 0x0e, 0x10])
        .encode();
    let announce = |router: &Router, parameters: Vec<u8>| {
        let interest = InterestBuilder::new(name("/localhost/nfd/rib/announce"), 7).application_parameters(parameters);
        router.signer.sign_command(&interest, router.now.unix_ms).expect("digests can be had")
    };
    let wire = announce(&router, announcement.clone());
    let body = router.send(&wire, APP).expect("an answer").parameters().expect("a body");
    let expected = ControlParameters {
        face_id: Some(APP.0),
        origin: Some(129),
        cost: Some(2048),
        flags: Some(1),
        expiration_period_ms: Some(3_600),
        ..prefix("/net/app")
    };
    assert_eq!(body, expected);
    assert_eq!(router.routes()[0].routes[0].origin, 129);
    let mut forged = announcement;
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let wire = announce(&router, forged);
    assert_eq!(router.send(&wire, APP).map(|r| r.code), Some(403));
    let wire = announce(&router, vec![]);
    assert_eq!(router.send(&wire, APP).map(|r| r.code), Some(400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_that_is_sent_harms(
        verbs in proptest::collection::vec((0..6usize, 0..8usize, proptest::collection::vec(any::<u8>(), 0..40)), 1..20),
    ) {
        let mut router = Router::new(100);
        let modules = ["rib", "fib", "faces", "cs", "strategy-choice", "status"];
        let names = ["register", "list", "announce", "query", "config", "set", "events", "create"];
        for (module, verb, bytes) in verbs {
            let command = name(&format!("/localhost/nfd/{}/{}", modules[module], names[verb]));
            let mut parameters = vec![0x68, bytes.len() as u8];
            parameters.extend_from_slice(&bytes);
            for component in [&bytes, &parameters] {
                let command = command.join(Component::generic(component));
                router.interest(command.clone(), true);
                router.interest(command.clone(), false);
                let wire = router.signed(command);
                router.management.answer(&wire, APP, router.now);
                router.management.answer(&bytes, APP, router.now);
            }
        }
        router.management.commit();
    }
}
