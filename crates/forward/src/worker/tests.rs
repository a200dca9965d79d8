//! The worker as ports see it: packets in, packets out, in virtual time.

mod addressed;
mod depths;
mod explain;
mod hostile;
mod others;
mod popular;
mod stages;
mod strategies;
mod traces;

use std::time::Duration;

use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Data, Interest, NackReason, Name, PitToken};

use super::*;
use crate::counters::DropReason;
use crate::packet_pool::Packet;
use crate::port::LinkFields;
use crate::tables::{Nexthop, NexthopGroup};

const KEY: NameHashKey = NameHashKey::new([7, 11]);
/// Faces 256 and 257 are applications. Faces from 300 on are other hosts.
const APP: FaceId = FaceId(256);
const APP_2: FaceId = FaceId(257);
const HOST: FaceId = FaceId(300);
const HOST_2: FaceId = FaceId(301);
const HOST_3: FaceId = FaceId(302);

/// A worker with a clock.
struct Bench {
    worker: Worker,
    fib: Oracle,
    tables: Arc<Tables>,
    groups: u32,
    now: Ticks,
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name in a test")
}

fn bench_with(config: WorkerConfig) -> Bench {
    let fib = Oracle::default();
    let tables = Arc::new(Tables::new(fib.query()));
    let mut worker = Worker::new(config, KEY, Arc::clone(&tables), 1);
    for face in [APP, APP_2] {
        worker.face_up(face, Scope::Local, LinkType::PointToPoint);
    }
    for face in [HOST, HOST_2, HOST_3] {
        worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
    }
    Bench { worker, fib, tables, groups: 0, now: Ticks::from_ms(1_000_000) }
}

fn bench() -> Bench {
    bench_with(WorkerConfig::default())
}

impl Bench {
    fn route(&mut self, prefix: &str, faces: &[FaceId]) {
        let nexthops = faces.iter().zip(0..).map(|(f, cost)| Nexthop { face: *f, cost }).collect();
        let entry = EntryId(self.groups);
        self.groups += 1;
        self.tables.set_group(entry, Some(NexthopGroup { nexthops }));
        self.fib.apply(&[Change::Set(name(prefix), entry)]).expect("the oracle takes all");
        self.tables.replace_fib(self.fib.query());
    }

    fn poll(&mut self, received: Vec<Received>) -> Vec<Outgoing> {
        let (mut input, mut output) = (received, Vec::new());
        self.worker.poll(self.now, &mut input, &mut output);
        output
    }

    fn receive(&mut self, face: FaceId, packet: &[u8]) -> Vec<Outgoing> {
        self.receive_with(face, packet, LinkFields::default())
    }

    fn receive_with(&mut self, face: FaceId, packet: &[u8], fields: LinkFields) -> Vec<Outgoing> {
        self.poll(vec![Received { face, fields, packet: Packet::copy_from(packet) }])
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        assert!(self.poll(Vec::new()).is_empty());
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.worker.shard.drops.of(reason)
    }
}

fn interest(uri: &str, nonce: u32) -> InterestBuilder {
    InterestBuilder::new(name(uri), nonce)
}

fn data(uri: &str) -> Vec<u8> {
    DataBuilder::new(name(uri)).freshness_ms(1000).content(b"content".to_vec()).encode()
}

/// Type and face of each sent packet: `I300` is an Interest to face 300, `D` Data, `N` a Nack.
fn shape(output: &[Outgoing]) -> Vec<String> {
    let kind = |o: &Outgoing| match (o.fields.nack, o.packet[0]) {
        (Some(_), _) => 'N',
        (None, 5) => 'I',
        (None, _) => 'D',
    };
    output.iter().map(|o| format!("{}{}", kind(o), o.face)).collect()
}

fn nonce_of(sent: &Outgoing) -> Option<u32> {
    Interest::decode(&sent.packet).expect("an Interest").nonce
}

#[test]
fn data_returns_to_who_asked_with_his_token() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let token = PitToken::new(b"token").expect("short");
    let fields = LinkFields { pit_token: token, ..Default::default() };
    let sent = b.receive_with(APP, &interest("/a/b", 1).encode(), fields);
    assert_eq!(shape(&sent), ["I300"]);
    assert_eq!(sent[0].fields.incoming_face_id, Some(APP));
    assert!(sent[0].fields.pit_token.is_empty());
    let got = b.receive(HOST, &data("/a/b"));
    assert_eq!(shape(&got), ["D256"]);
    assert_eq!(got[0].fields.pit_token, token);
    assert_eq!(got[0].fields.incoming_face_id, Some(HOST));
    assert_eq!(&*got[0].packet, &data("/a/b")[..]);
    assert!(b.receive(HOST, &data("/a/b")).is_empty());
    assert_eq!(b.dropped(DropReason::UnsolicitedData), 1);
    assert_eq!(b.worker.counters().satisfied_interests, 1);
    assert_eq!(b.worker.counters().pit_entries, 0);
}

#[test]
fn equal_interests_go_upstream_once() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
    assert!(b.receive(APP_2, &interest("/a/b", 2).encode()).is_empty());
    assert_eq!(shape(&b.receive(HOST, &data("/a/b"))), ["D256", "D257"]);
}

#[test]
fn equal_interests_in_one_burst_go_upstream_once() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let received = |face, nonce| Received {
        face,
        fields: LinkFields::default(),
        packet: Packet::copy_from(&interest("/a/b", nonce).encode()),
    };
    let sent = b.poll(vec![received(APP, 1), received(APP_2, 2)]);
    assert_eq!(shape(&sent), ["I300"]);
}

#[test]
fn a_consumer_who_asks_again_is_heeded_after_the_suppression_interval() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
    b.wait(Duration::from_millis(5));
    assert!(b.receive(APP, &interest("/a/b", 2).encode()).is_empty());
    b.wait(Duration::from_millis(20));
    let again = b.receive(APP, &interest("/a/b", 3).encode());
    assert_eq!(shape(&again), ["I301"], "best route tries the nexthop not asked yet");
    assert_eq!(nonce_of(&again[0]), Some(3));
    b.wait(Duration::from_millis(30));
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 4).encode())), ["I300"], "then the one asked longest ago");
}

#[test]
fn the_content_store_answers_what_it_has() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b/c", 1).encode());
    b.receive(HOST, &data("/a/b/c"));
    let hit = b.receive(APP_2, &interest("/a/b/c", 2).encode());
    assert_eq!(shape(&hit), ["D257"]);
    assert_eq!(hit[0].fields.incoming_face_id, Some(FaceId::CONTENT_STORE));
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 3).can_be_prefix(true).encode())), ["D256"]);
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 4).encode())), ["I300"], "no CanBePrefix, no Data below");
    let fresh = |nonce| interest("/a/b/c", nonce).must_be_fresh(true).encode();
    assert_eq!(shape(&b.receive(APP, &fresh(5))), ["D256"]);
    b.wait(Duration::from_millis(1001));
    assert_eq!(shape(&b.receive(APP, &fresh(6))), ["I300"], "stale by now");
    assert_eq!(shape(&b.receive(HOST, &data("/a/b/c"))), ["D256"]);
    let cs = b.worker.cs_info();
    assert_eq!((cs.packets, cs.hits, cs.misses), (1, 3, 3));
}

#[test]
fn can_be_prefix_is_answered_by_data_below_and_only_then() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b", 1).can_be_prefix(true).encode());
    b.receive(APP_2, &interest("/a/b", 2).encode());
    assert_eq!(shape(&b.receive(HOST, &data("/a/b/v=1/seg=0"))), ["D256"]);
    assert_eq!(shape(&b.receive(HOST, &data("/a/b"))), ["D257"]);
}

#[test]
fn an_implicit_digest_names_one_packet() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let packet = data("/a/b");
    let digest = Data::decode(&packet).expect("built above").implicit_digest();
    let full = name("/a/b").join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &digest });
    let other = name("/a/b").join(Component { typ: component_type::IMPLICIT_SHA256_DIGEST, value: &[9; 32] });
    b.receive(APP, &InterestBuilder::new(full.clone(), 1).encode());
    b.receive(APP_2, &InterestBuilder::new(other, 2).encode());
    assert_eq!(shape(&b.receive(HOST, &packet)), ["D256"]);
    assert_eq!(shape(&b.receive(APP, &InterestBuilder::new(full, 3).encode())), ["D256"], "from the content store");
}

#[test]
fn loops_are_cut_and_refused() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b", 1).encode());
    let looped = b.receive(HOST, &interest("/a/b", 1).encode());
    assert_eq!(shape(&looped), ["N300"]);
    assert_eq!(looped[0].fields.nack, Some(NackReason::Duplicate));
    b.wait(Duration::from_secs(5));
    assert_eq!(b.worker.counters().unsatisfied_interests, 1);
    assert_eq!(shape(&b.receive(HOST_2, &interest("/a/b", 1).encode())), ["N301"], "its nonce is dead, not forgotten");
    assert_eq!(b.dropped(DropReason::Loop), 2);
}

#[test]
fn a_neighbour_may_send_the_same_nonce_again() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b", 1).encode());
    b.wait(Duration::from_millis(50));
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
}

#[test]
fn hop_limit_is_lowered_and_ends_at_the_host() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.route("/app", &[APP_2]);
    let sent = b.receive(HOST_2, &interest("/a/b", 1).hop_limit(2).encode());
    assert_eq!(shape(&sent), ["I300"]);
    let limit = Interest::decode(&sent[0].packet).expect("an Interest").hop_limit.expect("it had one");
    assert_eq!(limit.value, 1);
    assert!(b.receive(HOST_2, &interest("/a/c", 2).hop_limit(1).encode()).is_empty(), "no hop left");
    assert_eq!((b.dropped(DropReason::HopLimit), b.worker.counters().pit_entries), (1, 1));
    assert_eq!(shape(&b.receive(HOST_2, &interest("/app/c", 3).hop_limit(1).encode())), ["I257"], "this host may");
    assert!(b.receive(HOST_2, &interest("/app/d", 4).hop_limit(0).encode()).is_empty());
    assert_eq!(b.dropped(DropReason::HopLimit), 2);
    assert_eq!(shape(&b.receive(HOST_2, &interest("/b", 5).hop_limit(1).encode())), ["N301"], "there is no route");
    // An Interest without a nonce is rewritten with one after its limit was lowered.
    let bare = [5, 11, 7, 6, 8, 1, b'a', 8, 1, b'z', 0x22, 1, 1];
    assert!(b.receive(HOST_2, &bare).is_empty());
    assert_eq!(b.dropped(DropReason::HopLimit), 3);
}

#[test]
fn scopes_keep_names_at_home() {
    let mut b = bench();
    b.route("/", &[HOST, APP_2]);
    assert_eq!(shape(&b.receive(APP, &interest("/localhost/x", 1).encode())), ["I257"]);
    assert!(b.receive(HOST, &interest("/localhost/x", 2).encode()).is_empty());
    assert!(b.receive(HOST, &data("/localhost/x")).is_empty());
    assert_eq!(b.dropped(DropReason::Scope), 2);
    assert_eq!(shape(&b.receive(APP, &interest("/localhop/x", 3).encode())), ["I300"]);
    assert_eq!(shape(&b.receive(HOST_2, &interest("/localhop/y", 4).encode())), ["I257"], "one hop, no further");
}

#[test]
fn without_a_route_the_interest_is_refused() {
    let mut b = bench();
    let refused = b.receive(APP, &interest("/nowhere", 1).encode());
    assert_eq!(shape(&refused), ["N256"]);
    assert_eq!(refused[0].fields.nack, Some(NackReason::NoRoute));
    assert_eq!(nonce_of(&refused[0]), Some(1));
    assert_eq!(b.worker.counters().pit_entries, 0);
    b.route("/back", &[HOST]);
    assert_eq!(shape(&b.receive(HOST, &interest("/back/x", 2).encode())), ["N300"], "never back where it came from");
}

#[test]
fn after_a_nack_the_next_nexthop_is_tried_then_downstream_hears_of_it() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    let nack = |reason| LinkFields { nack: Some(reason), ..Default::default() };
    b.receive(APP, &interest("/a/b", 1).encode());
    b.receive(APP_2, &interest("/a/b", 2).encode());
    assert!(b.receive_with(HOST, &interest("/a/b", 9).encode(), nack(NackReason::NoRoute)).is_empty(), "wrong nonce");
    let next = b.receive_with(HOST, &interest("/a/b", 1).encode(), nack(NackReason::NoRoute));
    assert_eq!(shape(&next), ["I301"]);
    let refused = b.receive_with(HOST_2, &next[0].packet, nack(NackReason::Congestion));
    assert_eq!(shape(&refused), ["N256", "N257"]);
    assert!(refused.iter().all(|o| o.fields.nack == Some(NackReason::Congestion)), "the mildest reason");
    assert_eq!((nonce_of(&refused[0]), nonce_of(&refused[1])), (Some(1), Some(2)));
    assert_eq!(b.dropped(DropReason::UnsolicitedNack), 1);
}

#[test]
fn a_consumer_who_asks_again_reaches_who_is_silent_and_not_who_has_refused() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    let nack = LinkFields { nack: Some(NackReason::NoRoute), ..Default::default() };
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
    assert_eq!(shape(&b.receive_with(HOST, &interest("/a/b", 1).encode(), nack)), ["I301"]);
    for nonce in 2..5 {
        b.wait(Duration::from_millis(300));
        assert_eq!(shape(&b.receive(APP, &interest("/a/b", nonce).encode())), ["I301"]);
    }
}

#[test]
fn a_forwarding_hint_leads_where_the_name_does_not() {
    let mut b = bench_with(WorkerConfig { producer_regions: vec![name("/region/home")], ..Default::default() });
    b.route("/", &[HOST_3]);
    b.route("/isp", &[HOST]);
    b.route("/a", &[HOST_2]);
    let hinted = |nonce, hint: &str| interest("/a/b", nonce).forwarding_hint(vec![name(hint)]);
    assert_eq!(shape(&b.receive(APP, &hinted(1, "/isp/x").encode())), ["I300"]);
    b.wait(Duration::from_secs(5));
    assert_eq!(shape(&b.receive(APP, &hinted(2, "/unknown").encode())), ["I302"], "the default route of the hint");
    b.wait(Duration::from_secs(5));
    let home = b.receive(APP, &hinted(3, "/region").encode());
    assert_eq!(shape(&home), ["I301"], "in the producer's region the name leads");
    assert_eq!(&*home[0].packet, &interest("/a/b", 3).encode()[..], "and the hint is gone");
}

#[test]
fn next_hop_face_id_is_heeded_from_faces_that_may() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let fields = LinkFields { next_hop_face_id: Some(HOST_2), ..Default::default() };
    assert_eq!(shape(&b.receive_with(APP, &interest("/a/1", 1).encode(), fields.clone())), ["I300"]);
    b.worker.set_local_fields(APP, true);
    assert_eq!(shape(&b.receive_with(APP, &interest("/a/2", 2).encode(), fields)), ["I301"]);
    let nowhere = LinkFields { next_hop_face_id: Some(FaceId(999)), ..Default::default() };
    assert!(b.receive_with(APP, &interest("/a/3", 3).encode(), nowhere).is_empty());
    assert_eq!(b.dropped(DropReason::NextHopFaceId), 1);
    assert_eq!(b.worker.counters().pit_entries, 2);
}

#[test]
fn an_interest_without_a_nonce_gets_one() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    // Only the name `/a`: the specification allows such an Interest from applications.
    let sent = b.receive(APP, &[5, 5, 7, 3, 8, 1, b'a']);
    assert_eq!(shape(&sent), ["I300"]);
    assert!(nonce_of(&sent[0]).is_some());
}

#[test]
fn who_floods_a_full_pit_drives_out_his_own() {
    let mut b = bench_with(WorkerConfig { pit_entries_max: 1000, ..Default::default() });
    b.route("/a", &[HOST]);
    for i in 0..100 {
        b.receive(APP, &interest(&format!("/a/good/{i}"), i).encode());
    }
    for i in 0..10_000 {
        b.receive(HOST_2, &interest(&format!("/a/flood/{i}"), 1000 + i).encode());
        assert!(b.worker.shard.table.pit_len() <= 1000);
    }
    let answered = (0..100).filter(|i| !b.receive(HOST, &data(&format!("/a/good/{i}"))).is_empty()).count();
    assert_eq!(answered, 100);
    assert_eq!(b.dropped(DropReason::PitFull), 9100);
}

#[test]
fn the_content_store_keeps_within_its_bytes_and_packets() {
    for cs_policy in [CsPolicy::Lru, CsPolicy::S3Fifo] {
        let config = WorkerConfig { cs_packets_max: 100, cs_bytes_max: 20_000, cs_policy, ..Default::default() };
        let mut b = bench_with(config);
        b.route("/a", &[HOST]);
        for i in 0..500 {
            b.receive(APP, &interest(&format!("/a/{i}"), i).encode());
            assert_eq!(shape(&b.receive(HOST, &data(&format!("/a/{i}")))), ["D256"]);
            let cs = b.worker.cs_info();
            assert!(cs.packets <= 100 && cs.bytes <= 20_000);
        }
        assert!(b.worker.cs_info().packets > 50);
        b.worker.cs_config(Some(10), None, None);
        assert_eq!(b.worker.cs_info().packets, 10);
        b.worker.cs_config(Some(0), None, None);
        assert_eq!(b.worker.cs_info().packets, 0);
        b.receive(APP, &interest("/a/x", 900).encode());
        assert_eq!(shape(&b.receive(HOST, &data("/a/x"))), ["D256"]);
        assert_eq!(b.worker.cs_info().packets, 0);
    }
}

#[test]
fn erasing_takes_what_is_below_the_prefix() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    for i in 0..30 {
        let uri = format!("/a/{}/{i}", i % 3);
        b.receive(APP, &interest(&uri, i).encode());
        b.receive(HOST, &data(&uri));
    }
    assert_eq!(b.worker.cs_erase(name("/a/1").as_ref(), 4), (4, true));
    assert_eq!(b.worker.cs_erase(name("/a/1").as_ref(), 100), (6, false));
    assert_eq!(b.worker.cs_erase(name("/nothing").as_ref(), 100), (0, false));
    assert_eq!(b.worker.cs_erase(name("/").as_ref(), 100), (20, false));
}

#[test]
fn multicast_asks_all_and_serves_only_its_prefix() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2, HOST_3]);
    let choice = StrategyChoice {
        prefix: name("/a/m"),
        strategy: crate::strategy::instance_name(name("/localhost/nfd/strategy/multicast").as_ref()).expect("known"),
    };
    b.worker.set_strategy_choices(&[choice]);
    assert_eq!(shape(&b.receive(HOST_2, &interest("/a/m/x", 1).encode())), ["I300", "I302"]);
    assert_eq!(shape(&b.receive(HOST_2, &interest("/a/n/x", 2).encode())), ["I300"]);
    assert_eq!(b.worker.counters().strategy_choices, 2);
}

#[test]
fn adaptive_moves_to_the_faster_upstream_and_away_from_a_dead_one() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    let choice =
        StrategyChoice { prefix: name("/"), strategy: name("/localhost/nfd/strategy/asf/v=5/probing-interval~1000") };
    b.worker.set_strategy_choices(&[choice]);
    let (mut to_slow, mut to_fast) = (0, 0);
    for i in 0..400u32 {
        let uri = format!("/a/{i}");
        let sent = b.receive(APP, &interest(&uri, i).encode());
        for out in &sent {
            // The first upstream answers after 50 ms. The second answers after 5 ms and is dead from Interest 300 on.
            if out.face == HOST_2 {
                to_fast += 1;
            } else {
                to_slow += 1;
            }
        }
        b.now = b.now + Duration::from_millis(5);
        if i < 300 && sent.iter().any(|o| o.face == HOST_2) {
            b.receive(HOST_2, &data(&uri));
        }
        b.now = b.now + Duration::from_millis(45);
        if sent.iter().any(|o| o.face == HOST) {
            b.receive(HOST, &data(&uri));
        }
        if i == 299 {
            assert!(to_fast > 150, "{to_fast} to the fast one, {to_slow} to the slow one");
            (to_slow, to_fast) = (0, 0);
        }
    }
    b.wait(Duration::from_secs(5));
    (to_slow, to_fast) = (0, to_fast);
    for i in 400..420u32 {
        to_slow += b.receive(APP, &interest(&format!("/a/{i}"), i).encode()).iter().filter(|o| o.face == HOST).count();
    }
    assert!(to_slow >= 19, "{to_slow} of 20 after {to_fast} were lost");
}

#[test]
fn garbage_is_counted_and_dropped() {
    let mut b = bench();
    for packet in [&[][..], &[5, 0], &[6, 0], &[5, 200, 1], &[0x64, 0], &[5, 4, 7, 2, 8, 0, 0]] {
        assert!(b.receive(APP, packet).is_empty());
    }
    let deep = InterestBuilder::new((0..129).fold(Name::default(), |n, _| n.join(Component::generic(b"x"))), 1);
    assert!(b.receive(APP, &deep.encode()).is_empty());
    assert_eq!(b.dropped(DropReason::TooManyComponents), 1);
    assert!(b.dropped(DropReason::Malformed) >= 5);
    assert!(b.receive(FaceId(12345), &interest("/a", 1).encode()).is_empty());
    assert_eq!(b.dropped(DropReason::UnknownFace), 1);
}

#[test]
fn the_worker_asks_to_be_woken_for_its_timers() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    assert_eq!(b.worker.next_deadline(), None);
    b.receive(APP, &interest("/a/b", 1).lifetime_ms(100).encode());
    let deadline = b.worker.next_deadline().expect("an Interest is pending");
    assert!(deadline >= b.now + Duration::from_millis(100) && deadline <= b.now + Duration::from_millis(102));
    b.now = deadline;
    b.poll(Vec::new());
    assert_eq!(b.worker.counters().pit_entries, 0);
    assert_eq!(b.worker.next_deadline(), None);
}
