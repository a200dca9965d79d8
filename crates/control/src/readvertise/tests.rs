//! Tests in virtual time, with daemons and hubs that answer, refuse or stay silent.

use byname_wire::data::DataBuilder;
use byname_wire::{Interest, tlv};

use super::*;

const UNIX_MS: u64 = 1_795_000_000_000;

fn name(uri: &str) -> Name {
    uri.parse().expect("a name written in this file")
}

fn daemon(now: Instant) -> Readvertiser {
    Readvertiser::new(Destination::daemon(Readvertise::default()), now)
}

fn route(uri: &str, origin: u64, added: bool) -> RouteEvent {
    RouteEvent { name: name(uri), face: FaceId(300), origin, added }
}

impl Readvertiser {
    /// A client route was added or removed.
    fn client(&mut self, uri: &str, added: bool) {
        self.route_changed(&route(uri, origin::CLIENT, added), true, Instant::now());
    }
}

/// Answers all commands with `code`, as the daemon. Returns the commands.
fn answer(readvertiser: &mut Readvertiser, interests: &[Vec<u8>], code: u64, now: Instant) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    for wire in interests {
        let interest = Interest::decode(wire).expect("an Interest");
        assert_eq!(interest.name.len(), 6, "ndnd wants exactly six components");
        assert!(name("/localhost/nlsr/rib").as_ref().is_prefix_of(&interest.name));
        let verb = String::from_utf8(interest.name.component(3).expect("a verb").value.to_vec()).expect("text");
        let parameters =
            ControlParameters::decode(interest.name.component(4).expect("parameters").value).expect("parameters");
        heard.push((verb, parameters.name.expect("a name").to_string()));
        let response = ControlResponse::new(code, "").encode();
        let data = DataBuilder::new(interest.name.to_name()).content(response).encode();
        assert!(readvertiser.on_data(&Data::decode(&data).expect("Data"), now));
    }
    heard
}

fn heard(readvertiser: &mut Readvertiser, now: Instant) -> Vec<(String, String)> {
    let interests = readvertiser.poll(now, UNIX_MS);
    answer(readvertiser, &interests, 200, now)
}

fn said(verb: &str, prefix: &str) -> (String, String) {
    (verb.to_owned(), prefix.to_owned())
}

#[test]
fn a_prefix_is_advertised_once_and_withdrawn_with_its_last_route() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    readvertiser.client("/app", true);
    readvertiser.client("/app", true);
    assert_eq!(heard(&mut readvertiser, now), [said("register", "/app")]);
    readvertiser.client("/app", false);
    assert_eq!(heard(&mut readvertiser, now), []);
    readvertiser.client("/app", false);
    assert_eq!(heard(&mut readvertiser, now), [said("unregister", "/app")]);
    assert!(readvertiser.is_empty());
    assert_eq!(readvertiser.poll(now, UNIX_MS).len(), 0);
}

#[test]
fn a_daemon_that_goes_forgets_everything_or_is_waited_for_no_longer_than_it_may_take() {
    let now = Instant::now();
    let until = now + Duration::from_secs(10);
    let mut leaving = daemon(now);
    leaving.client("/app", true);
    assert_eq!(heard(&mut leaving, now), [said("register", "/app")]);
    // This one was not told yet.
    leaving.client("/app/2", true);
    leaving.retire(until);
    leaving.client("/late", true);
    assert!(!leaving.has_retired(now) && leaving.next_deadline().is_some_and(|at| at <= until));
    assert_eq!(heard(&mut leaving, now), [said("unregister", "/app")]);
    assert!(leaving.has_retired(now));
    let mut slow = daemon(now);
    slow.client("/app", true);
    heard(&mut slow, now);
    slow.retire(until);
    slow.poll(now, UNIX_MS);
    assert!(!slow.has_retired(now) && slow.has_retired(until));
    let mut silent = daemon(now);
    silent.client("/app", true);
    silent.poll(now, UNIX_MS);
    silent.retire(until);
    assert!(silent.has_retired(now), "nobody is there");
}

#[test]
fn local_prefixes_stay_here() {
    let mut readvertiser = daemon(Instant::now());
    readvertiser.client("/localhost/app", true);
    readvertiser.client("/localhop/app", true);
    assert!(readvertiser.is_empty());
}

#[test]
fn a_silent_daemon_is_probed_with_one_command_ever_less_often() {
    let start = Instant::now();
    let mut readvertiser = daemon(start);
    for i in 0..100 {
        readvertiser.client(&format!("/app/{i}"), true);
    }
    let mut now = start;
    let mut probes = Vec::new();
    while now < start + Duration::from_secs(600) {
        for wire in readvertiser.poll(now, UNIX_MS) {
            let interest = Interest::decode(&wire).expect("an Interest");
            assert!(readvertiser.on_nack(interest.name, now));
            probes.push((now - start).as_secs());
        }
        now = readvertiser.next_deadline().expect("prefixes wait");
    }
    assert_eq!(probes, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543]);
    assert_eq!(readvertiser.waiting.len(), 100, "none is lost, none is doubled");

    // The daemon appears: all prefixes follow at once.
    readvertiser.route_changed(&route("/localhost/nlsr", 0, true), true, now);
    let mut all = Vec::new();
    for _ in 0..20 {
        all.extend(heard(&mut readvertiser, now));
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 100);
}

#[test]
fn no_answer_is_waited_for_longer_than_the_timeout() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    readvertiser.client("/app", true);
    assert_eq!(readvertiser.poll(now, UNIX_MS).len(), 1);
    assert_eq!(readvertiser.next_deadline(), Some(now + Duration::from_secs(10)));
    let later = now + Duration::from_secs(10);
    assert_eq!(readvertiser.poll(later, UNIX_MS).len(), 0);
    let probe = readvertiser.next_deadline().expect("a probe");
    assert_eq!(heard(&mut readvertiser, probe), [said("register", "/app")]);
}

#[test]
fn what_changes_while_a_command_is_in_flight_is_told_afterwards() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    readvertiser.client("/app", true);
    let interests = readvertiser.poll(now, UNIX_MS);
    readvertiser.client("/app", false);
    assert_eq!(answer(&mut readvertiser, &interests, 200, now), [said("register", "/app")]);
    assert_eq!(heard(&mut readvertiser, now), [said("unregister", "/app")]);
    assert!(readvertiser.is_empty());
}

#[test]
fn advertisements_are_refreshed() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    readvertiser.client("/app", true);
    assert_eq!(heard(&mut readvertiser, now).len(), 1);
    let hour = now + Duration::from_secs(3600);
    assert_eq!(readvertiser.next_deadline(), Some(hour));
    assert_eq!(heard(&mut readvertiser, hour), [said("register", "/app")]);
    assert_eq!(readvertiser.refreshes.len(), 1);
}

#[test]
fn a_refusal_is_not_repeated_before_the_refresh() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    readvertiser.client("/app", true);
    let interests = readvertiser.poll(now, UNIX_MS);
    answer(&mut readvertiser, &interests, 403, now);
    assert_eq!(readvertiser.poll(now + Duration::from_secs(100), UNIX_MS).len(), 0);
}

#[test]
fn commands_are_signed_interests() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    readvertiser.client("/app", true);
    let interests = readvertiser.poll(now, UNIX_MS);
    let interest = Interest::decode(&interests[0]).expect("an Interest");
    assert!(interest.parameters_digest_matches());
    assert_eq!(interest.signature.expect("signed").info.time_ms, Some(UNIX_MS));
    assert_eq!(interest.wire[0], tlv::types::INTEREST as u8);
}

#[test]
fn others_data_is_not_ours() {
    let now = Instant::now();
    let mut readvertiser = daemon(now);
    let data = DataBuilder::new(name("/other")).encode();
    assert!(!readvertiser.on_data(&Data::decode(&data).expect("Data"), now));
    assert!(!readvertiser.on_nack(name("/other").as_ref(), now));
}

/// A host with the key `/net/alice/KEY/1`, before its hub has answered anything.
fn host(now: Instant) -> Readvertiser {
    let config = Propagate { key_name: name("/net/alice/KEY/1"), ..Propagate::default() };
    let signer = Signer::hmac(config.key_name.clone(), b"secret");
    Readvertiser::new(Destination::hub(&config, signer), now)
}

/// Answers a host's commands with `code`, as the hub. Returns verbs, prefixes and signature times.
fn told(host: &mut Readvertiser, code: u64, now: Instant) -> Vec<(String, String, u64)> {
    let mut heard = Vec::new();
    loop {
        let interests = host.poll(now, UNIX_MS);
        if interests.is_empty() {
            return heard;
        }
        for wire in interests {
            let interest = Interest::decode(&wire).expect("an Interest");
            assert!(name("/localhop/nfd/rib").as_ref().is_prefix_of(&interest.name));
            let signature = interest.signature.as_ref().expect("signed").info;
            assert_eq!(signature.typ, byname_wire::signature::SignatureType::HmacWithSha256);
            let verb = String::from_utf8(interest.name.component(3).expect("a verb").value.to_vec()).expect("text");
            let parameters = ControlParameters::decode(interest.name.component(4).expect("parameters").value);
            let parameters = parameters.expect("parameters");
            assert_eq!((parameters.face_id, parameters.origin), (None, Some(origin::CLIENT)));
            let (cost, expires) = if verb == "register" { (Some(15), Some(1_200_000)) } else { (None, None) };
            assert_eq!((parameters.cost, parameters.expiration_period_ms), (cost, expires));
            heard.push((verb, parameters.name.expect("a name").to_string(), signature.time_ms.expect("a time")));
            let data = DataBuilder::new(interest.name.to_name()).content(ControlResponse::new(code, "").encode());
            assert!(host.on_data(&Data::decode(&data.encode()).expect("Data"), now));
        }
    }
}

fn verbs(told: &[(String, String, u64)]) -> Vec<(&str, &str)> {
    told.iter().map(|(verb, prefix, _)| (verb.as_str(), prefix.as_str())).collect()
}

#[test]
fn a_hub_hears_of_local_applications_below_the_identity_as_the_identity() {
    let now = Instant::now();
    let mut host = host(now);
    for (uri, is_local) in [("/net/alice/a", true), ("/net/alice/b", true), ("/net/alice", false), ("/net/bob", true)] {
        host.route_changed(&route(uri, 0, true), is_local, now);
    }
    host.route_changed(&route("/localhop/x", 0, true), true, now);
    assert_eq!(verbs(&told(&mut host, 200, now)), [("register", "/net/alice")]);
    assert_eq!(host.accepted(), 1);
    // Remove one of two routes, then one that was never advertised, then the last.
    host.route_changed(&route("/net/alice/a", 0, false), false, now);
    host.route_changed(&route("/net/alice", 0, false), false, now);
    assert!(told(&mut host, 200, now).is_empty());
    host.route_changed(&route("/net/alice/b", 0, false), false, now);
    assert_eq!(verbs(&told(&mut host, 200, now)), [("unregister", "/net/alice")]);
    assert!(host.is_empty() && host.accepted() == 0 && host.refreshes.is_empty());
}

#[test]
fn a_hub_is_told_again_in_time_and_what_it_refuses_ever_less_often() {
    let start = Instant::now();
    let mut host = host(start);
    host.route_changed(&route("/net/alice/a", 0, true), true, start);
    let mut commands = Vec::new();
    let mut now = start;
    for code in [403, 403, 507, 403, 403, 200, 200, 403, 200] {
        let heard = told(&mut host, code, now);
        assert_eq!(verbs(&heard), [("register", "/net/alice")], "{code}");
        commands.push(((now - start).as_secs(), code));
        now = host.next_deadline().expect("it is told again");
    }
    let times: Vec<u64> = commands.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 60, 180, 420, 720, 1020, 1320, 1620, 1680]);
    assert_eq!((host.failures(), host.accepted()), (6, 1));
}

#[test]
fn whatever_is_lost_a_hub_knows_in_the_end_what_there_is() {
    // The hub loses half of the commands and half of its answers, and restarts from time to time.
    let start = Instant::now();
    for seed in 1..20u64 {
        let mut random = seed;
        let mut chance = move |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n == 0
        };
        let mut host = host(start);
        let (mut hub_knows, mut serves, mut now) = (false, 0, start);
        let mut signed_ms = 0;
        let end = start + Duration::from_secs(40_000);
        while now < end {
            let is_quiet = now > start + Duration::from_secs(30_000);
            if !is_quiet && chance(3) {
                let added = serves == 0 || chance(2);
                let nth = if added { serves } else { serves - 1 };
                serves = if added { serves + 1 } else { serves - 1 };
                host.route_changed(&route(&format!("/net/alice/{nth}"), 0, added), true, now);
            }
            if !is_quiet && chance(50) {
                hub_knows = false;
            }
            for wire in host.poll(now, UNIX_MS + (now - start).as_millis() as u64) {
                let interest = Interest::decode(&wire).expect("an Interest");
                let time_ms = interest.signature.expect("signed").info.time_ms.expect("a time");
                assert!(time_ms > signed_ms, "NFD takes rising times only");
                signed_ms = time_ms;
                if !is_quiet && chance(2) {
                    continue;
                }
                hub_knows = interest.name.component(3) == Some(Component::generic(b"register"));
                if !is_quiet && chance(2) {
                    continue;
                }
                let response = ControlResponse::new(200, "").encode();
                let data = DataBuilder::new(interest.name.to_name()).content(response).encode();
                assert!(host.on_data(&Data::decode(&data).expect("Data"), now));
            }
            assert!(host.in_flight.len() <= 1 && host.refreshes.len() <= 1 && host.waiting.len() <= 1);
            let step = now + Duration::from_secs(5);
            now = host.next_deadline().map_or(step, |at| at.min(step)).max(now + Duration::from_millis(1));
        }
        assert_eq!(hub_knows, serves > 0, "seed {seed}");
    }
}

#[test]
fn a_hub_that_appears_is_told_at_once() {
    let start = Instant::now();
    let mut host = host(start);
    host.route_changed(&route("/net/alice/a", 0, true), true, start);
    for _ in 0..3 {
        let now = host.next_deadline().expect("a probe");
        for wire in host.poll(now, UNIX_MS) {
            assert!(host.on_nack(Interest::decode(&wire).expect("an Interest").name, now), "no route");
        }
    }
    let now = start + Duration::from_secs(4);
    assert!(host.poll(now, UNIX_MS).is_empty());
    host.route_changed(&route("/localhop/nfd", 66, true), false, now);
    assert_eq!(verbs(&told(&mut host, 200, now)), [("register", "/net/alice")]);
    host.destination_appeared(now);
    assert_eq!(verbs(&told(&mut host, 200, now)), [("register", "/net/alice")]);
}

#[test]
fn signatures_do_not_stay_ahead_of_a_clock_that_is_set_back() {
    let now = Instant::now();
    let mut host = host(now);
    let time = |host: &mut Readvertiser, unix_ms| {
        host.destination_appeared(now);
        let wire = host.poll(now, unix_ms).pop().expect("a command");
        let interest = Interest::decode(&wire).expect("an Interest");
        assert!(host.on_nack(interest.name, now));
        interest.signature.expect("signed").info.time_ms.expect("a time")
    };
    host.route_changed(&route("/net/alice/a", 0, true), true, now);
    assert_eq!([time(&mut host, UNIX_MS), time(&mut host, UNIX_MS)], [UNIX_MS, UNIX_MS + 1]);
    assert_eq!(time(&mut host, UNIX_MS - 1_000), UNIX_MS + 2);
    assert_eq!(time(&mut host, UNIX_MS - 3_600_000), UNIX_MS - 3_600_000);
}

#[test]
fn after_a_restart_prefixes_of_applications_that_do_not_come_back_are_unregistered() {
    let start = Instant::now();
    let mut before = daemon(start);
    for prefix in ["/stays", "/goes", "/gone"] {
        before.client(prefix, true);
    }
    // The first command probes the daemon, the others follow.
    assert_eq!((heard(&mut before, start).len(), heard(&mut before, start).len()), (1, 2));
    before.client("/gone", false);
    heard(&mut before, start);
    let told = |prefix: &str, is_told| (name(prefix), is_told);
    let changes = before.take_told();
    assert_eq!(changes, [told("/stays", true), told("/goes", true), told("/gone", true), told("/gone", false)]);
    // It is told again from time to time, which changes nothing.
    before.destination_appeared(start);
    assert_eq!(heard(&mut before, start).len(), 1);
    assert_eq!((heard(&mut before, start).len(), before.take_told()), (1, vec![]));

    let mut after = daemon(start);
    let until = start + Duration::from_secs(120);
    after.inherit([name("/stays"), name("/goes")], until);
    // The daemon has restarted, too. That is no reason to give up the applications.
    after.route_changed(&route("/localhost/nlsr", origin::APP, true), true, start);
    assert_eq!((heard(&mut after, start), after.next_deadline()), (vec![], Some(until)));
    after.client("/stays", true);
    assert_eq!(heard(&mut after, start), [said("register", "/stays")]);
    assert_eq!(heard(&mut after, until - Duration::from_secs(1)), []);
    assert_eq!(heard(&mut after, until), [said("unregister", "/goes")]);
    assert_eq!((after.take_told(), after.len()), (vec![told("/goes", false)], 1));
}
