//! Hostile peers: they send Data that they were not asked for, or send Interests from many addresses.

use std::net::SocketAddr;

use super::*;
use crate::whereabouts::Whereabouts;

const GROUP: FaceId = FaceId(400);
const STATION: FaceId = FaceId(401);

fn forged(uri: &str) -> Vec<u8> {
    DataBuilder::new(name(uri)).freshness_ms(3_600_000).content(b"forged".to_vec()).encode()
}

fn host(address: &str) -> Whereabouts {
    Whereabouts::Host(address.parse::<SocketAddr>().expect("an address with a port"))
}

#[test]
fn data_from_a_face_that_was_not_asked_is_neither_delivered_nor_cached() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b", 1).encode());
    for stranger in [HOST_2, APP_2, APP] {
        assert!(b.receive(stranger, &forged("/a/b")).is_empty());
    }
    assert_eq!((b.dropped(DropReason::UnaskedData), b.dropped(DropReason::UnsolicitedData)), (3, 0));
    assert_eq!((b.worker.cs_info().packets, b.worker.counters().pit_entries), (0, 1));
    let answer = b.receive(HOST, &data("/a/b"));
    assert_eq!(shape(&answer), ["D256"]);
    assert_eq!(&*answer[0].packet, &data("/a/b")[..]);
    assert_eq!(&*b.receive(APP_2, &interest("/a/b", 2).encode())[0].packet, &data("/a/b")[..]);
}

#[test]
fn data_in_one_burst_with_the_interest_counts_from_the_face_that_is_asked() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let received =
        |face, packet: &[u8]| Received { face, fields: LinkFields::default(), packet: Packet::copy_from(packet) };
    let ask = interest("/a/b", 1).encode();
    let sent = b.poll(vec![received(APP, &ask), received(HOST_2, &forged("/a/b")), received(HOST, &data("/a/b"))]);
    assert_eq!(shape(&sent), ["I300", "D256"]);
    assert_eq!(&*sent[1].packet, &data("/a/b")[..]);
}

#[test]
fn every_face_that_was_asked_may_answer() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    // The first upstream refuses and the Interest goes to the second. Then the first answers after all.
    b.receive(APP, &interest("/a/1", 1).encode());
    let nack = LinkFields { nack: Some(NackReason::NoRoute), ..Default::default() };
    assert_eq!(shape(&b.receive_with(HOST, &interest("/a/1", 1).encode(), nack)), ["I301"]);
    assert_eq!(shape(&b.receive(HOST, &data("/a/1"))), ["D256"]);
    // The Interest is sent again to another upstream, and the first answers late.
    b.receive(APP, &interest("/a/2", 2).encode());
    b.wait(Duration::from_millis(20));
    assert_eq!(shape(&b.receive(APP, &interest("/a/2", 3).encode())), ["I301"]);
    assert_eq!(shape(&b.receive(HOST, &data("/a/2"))), ["D256"]);
    // The consumer chooses the face.
    b.worker.set_local_fields(APP, true);
    let fields = LinkFields { next_hop_face_id: Some(HOST_3), ..Default::default() };
    assert_eq!(shape(&b.receive_with(APP, &interest("/a/3", 4).encode(), fields)), ["I302"]);
    assert!(b.receive(HOST, &forged("/a/3")).is_empty());
    assert_eq!(shape(&b.receive(HOST_3, &data("/a/3"))), ["D256"]);
    // An out-record stays valid as long as its entry, even if the Interest that made it had a short lifetime.
    b.receive(APP, &interest("/a/4", 5).lifetime_ms(100).encode());
    b.wait(Duration::from_millis(50));
    b.receive(APP_2, &interest("/a/4", 6).lifetime_ms(4000).encode());
    b.wait(Duration::from_millis(500));
    assert_eq!(shape(&b.receive(HOST, &data("/a/4"))), ["D257"]);
}

#[test]
fn each_entry_that_data_meets_decides_by_whom_it_asked() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.route("/a/b", &[HOST_2]);
    b.receive(APP, &interest("/a", 1).can_be_prefix(true).encode());
    b.receive(APP_2, &interest("/a/b/c", 2).encode());
    assert!(b.receive(HOST_3, &forged("/a/b/c")).is_empty());
    assert_eq!(shape(&b.receive(HOST, &data("/a/b/c"))), ["D256"]);
    assert_eq!(b.worker.counters().pit_entries, 1, "the other waits for whom it asked");
    assert_eq!(shape(&b.receive(APP_2, &interest("/a/b/c", 3).encode())), ["D257"], "what was accepted is cached");
    assert_eq!(shape(&b.receive(HOST_2, &data("/a/b/c"))), ["D257"]);
    assert_eq!((b.worker.counters().pit_entries, b.worker.cs_info().packets), (0, 1));
}

#[test]
fn peers_on_the_link_of_a_group_may_answer_for_it() {
    let mut b = bench();
    let eth0 = || Whereabouts::Stations("eth0".into());
    b.worker.face_up_at(GROUP, Scope::NonLocal, LinkType::MultiAccess, eth0());
    b.worker.face_up_at(STATION, Scope::NonLocal, LinkType::PointToPoint, eth0());
    let elsewhere = FaceId(402);
    b.worker.face_up_at(elsewhere, Scope::NonLocal, LinkType::PointToPoint, Whereabouts::Stations("eth1".into()));
    b.route("/a", &[GROUP]);
    for (nonce, face) in [(1, STATION), (2, GROUP)] {
        let uri = format!("/a/{nonce}");
        assert_eq!(shape(&b.receive(APP, &interest(&uri, nonce).encode())), ["I400"]);
        assert!(b.receive(elsewhere, &forged(&uri)).is_empty());
        assert!(b.receive(HOST, &forged(&uri)).is_empty());
        assert_eq!(shape(&b.receive(face, &data(&uri))), ["D256"]);
    }
    // An Interest that was sent to one station can be answered by that station only.
    b.route("/b", &[STATION]);
    b.receive(APP, &interest("/b/1", 9).encode());
    assert!(b.receive(GROUP, &forged("/b/1")).is_empty());
    assert_eq!(shape(&b.receive(STATION, &data("/b/1"))), ["D256"]);
    assert_eq!(b.dropped(DropReason::UnaskedData), 5);
}

#[test]
fn a_setting_lets_anybody_answer() {
    let mut b = bench_with(WorkerConfig { accept_unasked_data: true, ..Default::default() });
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b", 1).encode());
    assert_eq!(shape(&b.receive(HOST_2, &data("/a/b"))), ["D256"]);
}

#[test]
fn the_routers_own_notifications_are_not_unsolicited() {
    let mut b = bench();
    b.worker.face_up(FaceId::INTERNAL, Scope::Local, LinkType::PointToPoint);
    assert!(b.receive(FaceId::INTERNAL, &data("/localhost/nfd/faces/events/seq=1")).is_empty());
    assert_eq!(b.dropped(DropReason::UnsolicitedData), 0);
    assert_eq!(b.worker.cs_info().packets, 0);
}

/// Sends an Interest for one name from each of these faces, whose addresses `address` gives.
fn crowd(b: &mut Bench, uri: &str, faces: std::ops::Range<u64>, address: impl Fn(u64) -> String) -> Vec<Outgoing> {
    let mut output = Vec::new();
    for face in faces {
        b.worker.face_up_at(FaceId(face), Scope::NonLocal, LinkType::PointToPoint, host(&address(face)));
        output.append(&mut b.receive(FaceId(face), &interest(uri, face as u32).encode()));
    }
    output
}

#[test]
fn the_largest_source_yields_where_too_many_wait_for_one_name() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let forged = |face: u64| format!("198.51.100.{}:{face}", face % 250);
    let refused = crowd(&mut b, "/a/b", 1000..1300, forged);
    assert_eq!(shape(&refused)[0], "I300");
    assert_eq!(refused.len(), 1 + 300 - 256, "who is one too many hears of it");
    assert!(refused[1..].iter().all(|o| o.fields.nack == Some(NackReason::Congestion) && o.face.0 >= 1256));
    // Honest consumers: a local application, and two hosts of another network.
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["N1255"]);
    let honest = crowd(&mut b, "/a/b", 2000..2002, |face| format!("192.0.2.1:{face}"));
    assert_eq!(shape(&honest), ["N1254", "N1253"]);
    assert!(honest.iter().all(|o| o.fields.nack == Some(NackReason::Congestion)));
    assert_eq!(nonce_of(&honest[0]), Some(1254), "a Nack carries the nonce that the peer sent");
    assert_eq!(b.dropped(DropReason::TooManyDownstreams), 300 - 256 + 3);
    let answered = shape(&b.receive(HOST, &data("/a/b")));
    assert_eq!(answered.len(), 256);
    for face in ["D256", "D2000", "D2001", "D1000"] {
        assert!(answered.iter().any(|a| a == face), "{face}");
    }
}

#[test]
fn faces_that_have_gone_make_room_first() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    crowd(&mut b, "/a/b", 1000..1256, |face| format!("198.51.{}.1:1", face - 1000));
    let all_alike = crowd(&mut b, "/a/b", 2000..2001, |_| "192.0.2.1:1".into());
    assert_eq!(shape(&all_alike), ["N2000"], "no source has more than the newcomer would have");
    b.worker.face_down(FaceId(1007));
    assert!(crowd(&mut b, "/a/b", 2001..2002, |_| "192.0.2.1:1".into()).is_empty());
    assert!(shape(&b.receive(HOST, &data("/a/b"))).iter().any(|a| a == "D2001"));
}

#[test]
fn a_flood_from_many_addresses_of_one_network_is_one_share_of_the_pit() {
    let mut b = bench_with(WorkerConfig { pit_entries_max: 1000, ..Default::default() });
    b.route("/a", &[HOST]);
    for i in 0..100 {
        b.receive(APP, &interest(&format!("/a/good/{i}"), i).encode());
    }
    for i in 0..200u64 {
        let face = FaceId(1000 + i);
        b.worker.face_up_at(face, Scope::NonLocal, LinkType::PointToPoint, host(&format!("198.51.100.{i}:1")));
        for j in 0..20 {
            b.receive(face, &interest(&format!("/a/flood/{i}/{j}"), 1000 + j).encode());
        }
    }
    let answered = (0..100).filter(|i| !b.receive(HOST, &data(&format!("/a/good/{i}"))).is_empty()).count();
    assert_eq!(answered, 100, "no face of the flood has as many entries as the honest one");
}
