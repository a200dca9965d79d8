//! Tests of routes learned from prefix announcements in Data.

use byname_forward::Packet;
use byname_forward::learning::{Notice, Taught};

use super::*;
use crate::mgmt::LearningCounters;
use crate::security::{Module, Rule, TimeWindow, TrustedSigner, VerifyingKey};

const SECRET: &[u8] = b"what the routers share";

fn key_name() -> Name {
    name("/net/KEY/1")
}

/// A router that trusts signatures with [`SECRET`] from any face.
fn router() -> Router {
    let hmac = TrustedSigner::Hmac { key_name: key_name(), key: VerifyingKey::from_hmac_secret(SECRET) };
    let rules = vec![
        Rule { remote: false, signer: TrustedSigner::Any, modules: Module::ALL.to_vec(), prefixes: None },
        Rule { remote: true, signer: hmac, modules: vec![Module::Rib], prefixes: None },
    ];
    Router::with_rights(1000, Authorizer::new(rules, TimeWindow::default()))
}

fn announcement(prefix: &str, expiration_ms: u32) -> DataBuilder {
    let mut content = vec![0x6d, 4];
    content.extend_from_slice(&expiration_ms.to_be_bytes());
    let name = name(prefix).join_name(name("/32=PA/v=1/seg=0").as_ref());
    DataBuilder::new(name).content_type(content_type::PREFIX_ANN).content(content)
}

fn trusted(prefix: &str, expiration_ms: u32) -> Vec<u8> {
    let signer = Signer::hmac(key_name(), SECRET);
    signer.sign_data(&announcement(prefix, expiration_ms)).expect("secrets sign")
}

impl Router {
    fn hear(&mut self, taught: Taught, uri: &str, face: FaceId, announcement: Option<&[u8]>) {
        let announcement = announcement.map(Packet::copy_from);
        self.management.notice(&Notice { taught, name: name(uri), face, announcement }, self.now);
        self.management.commit();
    }

    fn hear_announced(&mut self, uri: &str, announcement: &[u8]) {
        self.hear(Taught::Announced, uri, NEIGHBOUR, Some(announcement));
    }

    /// Names with an announced route, and the route's face.
    fn announced_routes(&mut self) -> Vec<(String, u64)> {
        let of = |entry: tlv::RibEntry| {
            let routes = entry.routes.into_iter().filter(|r| r.origin == 129);
            routes.map(move |r| (entry.name.to_string(), r.face_id)).collect::<Vec<_>>()
        };
        self.routes().into_iter().flat_map(of).collect()
    }

    fn counters(&self) -> LearningCounters {
        self.management.learning_counters()
    }

    fn wait(&mut self, ms: u64) {
        self.now = Moment { ms: self.now.ms + ms, unix_ms: self.now.unix_ms + ms };
        self.management.advance(self.now);
        self.management.commit();
    }

    fn sent_along(&self, uri: &str) -> Option<Vec<u8>> {
        let reader = self.management.fib().tables().reader();
        reader.announcement(name(uri).as_ref()).map(|packet| packet.to_vec())
    }
}

#[test]
fn announcements_that_are_trusted_make_routes() {
    let mut router = router();
    let wire = trusted("/net/app", 900_000);
    router.hear_announced("/net/app/1", &wire);
    let route = router.routes()[0].routes[0].clone();
    assert_eq!((route.face_id, route.origin, route.cost, route.flags), (NEIGHBOUR.0, 129, 2048, 1));
    assert_eq!(route.expiration_period_ms, Some(600_000), "less than it says, unless Data comes");
    assert_eq!(router.sent_along("/net/app/2"), Some(wire), "for others to learn");
    assert_eq!(router.sent_along("/net"), None);
    assert_eq!(router.counters().learned, 1);
}

#[test]
fn announcements_that_are_not_trusted_make_none() {
    let mut router = router();
    let mut forged = trusted("/net/app", 3_600_000);
    *forged.last_mut().expect("a signature") ^= 1;
    let of_a_stranger =
        Signer::hmac(key_name(), b"what he made up").sign_data(&announcement("/net/app", 1000)).expect("signed");
    let unsigned = announcement("/net/app", 1000).encode();
    let no_announcement = DataBuilder::new(name("/net/app/1")).encode();
    for wire in [&forged, &of_a_stranger, &unsigned, &no_announcement, &vec![6, 0]] {
        router.hear_announced("/net/app/1", wire);
    }
    router.hear_announced("/other/app/1", &trusted("/net/app", 1000));
    router.hear_announced("/other/app/1", &trusted("/other", 1000));
    router.hear_announced("/net/app/1", &trusted("/", 1000));
    router.hear_announced("/net/app/1", &trusted("/net/app", 0));
    router.hear(Taught::Announced, "/net/app/1", FaceId(999), Some(&trusted("/net/app", 1000)));
    router.hear(Taught::Announced, "/net/app/1", NEIGHBOUR, None);
    assert_eq!(router.announced_routes(), []);
    assert_eq!(router.sent_along("/net/app/1"), None);
    assert_eq!(router.counters(), LearningCounters { refused: 11, ..Default::default() });
}

#[test]
fn without_a_right_for_other_hosts_nothing_is_learned() {
    let mut router = Router::new(1000);
    router.hear_announced("/net/app/1", &trusted("/net/app", 1000));
    router.hear_announced("/net/app/1", &announcement("/net/app", 1000).encode());
    assert_eq!((router.announced_routes(), router.counters().refused), (vec![], 2));
}

#[test]
fn learned_routes_live_as_long_as_data_comes_by_them() {
    let mut router = router();
    router.hear_announced("/net/app/1", &trusted("/net/app", 1_300_000));
    router.wait(500_000);
    router.hear(Taught::Answered, "/net/app/2", NEIGHBOUR, None);
    router.hear(Taught::Answered, "/net/app/2", APP, None);
    router.hear(Taught::Answered, "/net", NEIGHBOUR, None);
    router.wait(599_000);
    assert_eq!(router.announced_routes().len(), 1, "renewed");
    router.hear_announced("/net/app/3", &trusted("/net/app", 1_300_000));
    assert_eq!(router.counters().learned, 1, "known already: it was renewed as well");
    router.wait(200_999);
    assert_eq!(router.announced_routes().len(), 1);
    router.wait(2);
    assert_eq!(router.announced_routes(), [], "no longer than the announcement said");
    assert_eq!((router.sent_along("/net/app/1"), router.management.announcements()), (None, 0));

    router.hear_announced("/net/app/1", &trusted("/net/app", 3_600_000));
    router.wait(600_001);
    assert_eq!(router.announced_routes(), [], "no Data came by it");
}

#[test]
fn a_nexthop_without_a_route_withdraws_its_own_and_no_other() {
    let mut router = router();
    let wire = trusted("/net/app", 1_000_000);
    let parameters = InterestBuilder::new(name("/localhost/nfd/rib/announce"), 7).application_parameters(wire.clone());
    let command = router.signer.sign_command(&parameters, router.now.unix_ms).expect("signed");
    assert_eq!(router.send(&command, APP).map(|r| r.code), Some(200));
    assert_eq!(router.sent_along("/net/app/1"), Some(wire.clone()), "rib/announce keeps the announcement");
    router.hear_announced("/net/app/1", &wire);
    router.hear(Taught::Refused, "/net/app/1", APP, None);
    router.hear(Taught::Refused, "/net", NEIGHBOUR, None);
    let of = |face: FaceId| ("/net/app".to_owned(), face.0);
    assert_eq!(router.announced_routes(), [of(APP), of(NEIGHBOUR)], "an application's own word stays");
    router.hear(Taught::Refused, "/net/app/1/2", NEIGHBOUR, None);
    assert_eq!((router.announced_routes(), router.counters().withdrawn), (vec![of(APP)], 1));
    let unregister = ControlParameters { origin: Some(129), ..prefix("/net/app") };
    assert_eq!(router.command("rib/unregister", &unregister).code, 200);
    assert_eq!((router.announced_routes(), router.sent_along("/net/app/1")), (vec![], None));
}

#[test]
fn what_a_face_announced_goes_with_it() {
    let mut router = router();
    router.hear_announced("/net/app/1", &trusted("/net/app", 1000));
    router.management.face_event(&FaceEvent::Destroyed(face(NEIGHBOUR, Scope::NonLocal)));
    router.management.commit();
    assert_eq!((router.announced_routes(), router.management.announcements()), (vec![], 0));
    assert_eq!(router.sent_along("/net/app"), None);
}

#[test]
fn one_face_cannot_learn_us_more_than_its_share() {
    let mut router = router();
    router.management.limit_announcements(80);
    for i in 0..20 {
        let prefix = format!("/net/{i}");
        router.hear_announced(&prefix, &trusted(&prefix, 60_000));
    }
    assert_eq!((router.announced_routes().len(), router.counters().limited), (10, 10), "an eighth");
    // A known announcement may be replaced at the limit.
    router.hear_announced("/net/3", &trusted("/net/3", 61_000));
    assert_eq!((router.counters().learned, router.counters().limited), (11, 10));
}

#[test]
fn few_announcements_a_second_are_verified() {
    let mut router = router();
    let hear = |router: &mut Router, range: std::ops::Range<u32>| {
        for i in range {
            let prefix = format!("/net/{i}");
            router.hear_announced(&prefix, &announcement(&prefix, 60_000).encode());
        }
        (router.counters().refused, router.counters().limited)
    };
    assert_eq!(hear(&mut router, 0..200), (50, 150));
    router.wait(1000);
    assert_eq!(hear(&mut router, 200..300), (60, 240));
}
