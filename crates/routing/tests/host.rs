//! A router and its host: applications, the forwarder, faces that many share, and the end.

use std::collections::BTreeMap;

use byname_routing::note::DownReason;
use byname_routing::status::HelloState;
use byname_routing::tlv::{self, SeqNoEntry};
use byname_routing::{Action, Command, Config, Event, Hello, NeighbourSettings, Note, Router, Validity};
use byname_trust::{Moment, Rights, Signer};
use byname_wire::data::DataBuilder;
use byname_wire::interest::{Interest, InterestBuilder};
use byname_wire::tlv::{decode_nni, decode_only, push_nested, push_nni, push_tlv};
use byname_wire::{Component, Data, FaceId, Name};

const BOOT: u64 = 1_700_000_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

struct Host {
    router: Router,
    now_ms: u64,
    actions: Vec<Action>,
    objects: BTreeMap<Name, Vec<u8>>,
}

impl Host {
    fn new(configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(name("/net"), name("/net/me"), BOOT);
        configure(&mut config);
        let router = Router::new(config, Signer::digest(), Moment { ms: 0, unix_ms: BOOT * 1000 }).unwrap();
        let mut host = Host { router, now_ms: 0, actions: Vec::new(), objects: BTreeMap::new() };
        host.collect();
        host
    }

    fn moment(&self) -> Moment {
        Moment { ms: self.now_ms, unix_ms: BOOT * 1000 + self.now_ms }
    }

    /// Trusts all, answers what has an answer, and keeps the actions.
    fn collect(&mut self) {
        while let Some(action) = self.router.next_action() {
            let now = self.moment();
            match &action {
                Action::Validate { id, .. } => {
                    self.router
                        .handle(Event::Validated { id: *id, validity: Validity::Trusted(Rights::default()) }, now);
                }
                Action::SendInterest { wire, .. } => {
                    let interest = Interest::decode(wire).unwrap();
                    if let Some(content) = self.objects.get(&interest.name.to_name()) {
                        let last = Name::default().join_number(50, 0);
                        let data = DataBuilder::new(interest.name.to_name())
                            .final_block(last.as_ref().component(0).unwrap())
                            .content(content.clone());
                        self.router.handle(Event::Data { wire: &data.encode() }, now);
                    }
                }
                _ => {}
            }
            self.actions.push(action);
        }
    }

    fn tell(&mut self, event: Event<'_>) -> Vec<Action> {
        self.actions.clear();
        let now = self.moment();
        self.router.handle(event, now);
        self.collect();
        self.actions.clone()
    }

    fn run(&mut self, for_ms: u64) {
        let until_ms = self.now_ms + for_ms;
        while self.router.wake_at_ms() <= until_ms {
            self.now_ms = self.now_ms.max(self.router.wake_at_ms());
            let now = self.moment();
            self.router.poll(now);
            self.collect();
        }
        self.now_ms = until_ms;
    }

    /// Asks, and returns the content of the answer.
    fn ask(&mut self, interest: Name) -> Option<Vec<u8>> {
        self.ask_from(FaceId::INTERNAL, interest)
    }

    fn ask_from(&mut self, face: FaceId, interest: Name) -> Option<Vec<u8>> {
        let wire = InterestBuilder::new(interest, 1).must_be_fresh(true).application_parameters(vec![]).encode();
        let actions = self.tell(Event::Interest { wire: &wire, face });
        actions.iter().find_map(|action| match action {
            Action::SendData { wire: data } => {
                let data = Data::decode(data).unwrap();
                assert_eq!(data.name, Interest::decode(&wire).unwrap().name);
                Some(data.content.to_vec())
            }
            _ => None,
        })
    }

    fn command(&mut self, verb: &str, prefix: &str, face: u64, cost: u64) -> u64 {
        self.command_from(FaceId::INTERNAL, verb, prefix, face, cost)
    }

    fn command_from(&mut self, from: FaceId, verb: &str, prefix: &str, face: u64, cost: u64) -> u64 {
        let mut parameters = Vec::new();
        push_nested(&mut parameters, 0x68, |out| {
            push_tlv(out, 7, name(prefix).value());
            push_nni(out, 0x69, face);
            push_nni(out, 0x6a, cost);
        });
        let interest = name(&format!("/localhost/nlsr/rib/{verb}")).join(Component::generic(&parameters));
        let answer = self.ask_from(from, interest).unwrap();
        let response = decode_only(&answer, 0x65).unwrap();
        assert_eq!(response[0], 0x66);
        decode_nni(0x66, &response[2..2 + usize::from(response[1])]).unwrap()
    }

    fn hear(&mut self, interest: &str, data: &DataBuilder, face: u64) -> Vec<Action> {
        let wire = InterestBuilder::new(name(interest), 7).application_parameters(data.encode()).encode();
        self.tell(Event::Interest { wire: &wire, face: FaceId(face) })
    }

    /// A neighbour says on a face that it lives. Its advertisement has only itself.
    fn hear_sync(&mut self, router: &str, face: u64, seq: u64) -> Vec<Action> {
        let mut entries = Vec::new();
        tlv::push_state_entry(&mut entries, name(router).as_ref(), [SeqNoEntry { boot: BOOT, seq }]);
        let via = name(router);
        let content = tlv::encode_advertisement([(via.as_ref(), via.as_ref(), 0, 16)]);
        self.objects.insert(name(&format!("/localhop{router}/32=DV/32=ADV/t={BOOT}/v={seq}/seg=0")), content);
        let data = DataBuilder::new(name(&format!("/localhop{router}/32=DV/32=ADV/32=SYNC")));
        self.hear("/localhop/net/32=DV/32=ADS/32=ACT", &data.content(tlv::encode_state_vector(&entries)), face)
    }
}

fn registers(actions: &[Action], prefix: &str) -> Vec<(Option<FaceId>, u64)> {
    let fits = |action: &Action| match action {
        Action::Register { prefix: known, face, cost } if *known == name(prefix) => Some((*face, *cost)),
        _ => None,
    };
    actions.iter().filter_map(fits).collect()
}

#[test]
fn the_first_actions_are_those_of_ndn_dv() {
    let host = Host::new(|_| {});
    for prefix in [
        "/localhop/net/32=DV/32=ADS",
        "/localhop/net/me/32=DV/32=ADV",
        "/net/32=DV/32=PFS/32=svs",
        "/net/32=DV/32=PFS/net/me",
        "/localhost/nlsr",
    ] {
        assert_eq!(registers(&host.actions, prefix), [(None, 0)], "{prefix}");
    }
    let multicast = ["/localhop/net/32=DV/32=ADS", "/net/32=DV/32=PFS/32=svs"];
    for prefix in multicast.map(name) {
        assert!(host.actions.contains(&Action::SetMulticastStrategy { prefix }));
    }
}

#[test]
fn applications_are_announced_by_commands() {
    let mut host = Host::new(|config| config.limits.local_prefixes = 2);
    host.run(1000);
    assert_eq!(host.command("register", "/app", 300, 5), 200);
    assert_eq!(host.command("register", "/app", 301, 3), 200);
    assert_eq!(host.command("register", "/localhost/nfd", 301, 3), 403);
    assert_eq!(host.command("register", "/other", 301, 3), 200);
    assert_eq!(host.command("register", "/third", 301, 3), 403);
    assert_eq!(host.command("rename", "/app", 301, 3), 501);
    host.run(1000);
    assert_eq!((host.router.status().local_prefixes, host.router.status().publication), (2, 2));
    let explanation = host.router.explain(name("/app/x").as_ref());
    assert_eq!(explanation.local.unwrap().faces, [(FaceId(300), 5), (FaceId(301), 3)]);
    // A face that is gone takes its applications with it.
    host.tell(Event::FaceDestroyed { face: FaceId(301) });
    host.run(1000);
    assert_eq!(host.router.status().local_prefixes, 1);
    assert_eq!(host.command("unregister", "/app", 300, 0), 200);
    host.run(1000);
    assert_eq!(host.router.status().local_prefixes, 0);
    let malformed = name("/localhost/nlsr/rib/register").join(Component::generic(b"nonsense"));
    assert_eq!(host.ask(malformed).unwrap()[2..5], [0x66, 2, 1], "400 begins with 1");
    assert!(host.ask(name("/localhost/nlsr/lsdb")).is_none());
}

#[test]
fn only_the_forwarder_tells_what_applications_serve() {
    let mut host = Host::new(|_| {});
    for face in [FaceId::NONE, FaceId(400)] {
        assert_eq!(host.command_from(face, "register", "/app", 300, 5), 403);
    }
    assert_eq!(host.command("register", "/app", 300, 5), 200);
    assert_eq!(host.command_from(FaceId(400), "unregister", "/app", 300, 0), 403);
    host.run(1000);
    let status = host.router.status();
    assert_eq!((status.local_prefixes, status.counters.denied), (1, 3));
}

#[test]
fn the_status_dataset_counts() {
    let mut host = Host::new(|config| config.software = "test 1".to_owned());
    host.hear_sync("/net/a", 300, 1);
    host.run(100);
    let content = host.ask(name("/localhost/nlsr/status")).unwrap();
    // Two routers, one neighbour, and the route for the neighbour's publications.
    let expected = tlv::encode_status("test 1", name("/net").as_ref(), name("/net/me").as_ref(), [2, 1, 1]);
    assert_eq!(content, expected);
}

#[test]
fn two_links_to_one_neighbour_share_the_load_and_replace_each_other() {
    let mut host = Host::new(|config| config.hello.enabled = false);
    host.hear_sync("/net/a", 300, 1);
    host.hear_sync("/net/a", 301, 1);
    host.run(100);
    let nexthops = |host: &Host| {
        let routers = host.router.status().routers;
        routers[0].nexthops.iter().map(|nexthop| nexthop.face.0).collect::<Vec<_>>()
    };
    assert_eq!(nexthops(&host), [300, 301]);
    let actions = host.tell(Event::FaceDown { face: FaceId(300) });
    // The forwarder hears of the face first, and of the routes afterwards.
    assert!(actions.contains(&Action::Suspend { face: FaceId(300) }));
    assert!(!actions.iter().any(|action| matches!(action, Action::Unregister { .. })));
    host.actions.clear();
    host.run(1);
    assert_eq!(nexthops(&host), [301]);
    let prefix = name("/net/32=DV/32=PFS/net/a");
    assert!(host.actions.contains(&Action::Unregister { prefix, face: Some(FaceId(300)) }));
}

#[test]
fn a_neighbour_on_a_shared_link_gets_a_face_of_its_own() {
    let mut host = Host::new(|config| config.uris = vec!["udp4://192.0.2.7:6363".to_owned()]);
    let is_sync = |action: &Action| matches!(action, Action::SendInterest { face: Some(FaceId(256)), .. });
    host.run(10);
    assert!(host.tell(Event::MulticastFace { face: FaceId(256) }).iter().any(is_sync));
    host.hear_sync("/net/a", 256, 1);
    host.actions.clear();
    host.run(10);
    let own = hello_on(&host, FaceId(256)).expect("a hello was sent");
    assert_eq!(own.uris, ["udp4://192.0.2.7:6363"]);
    let hello = Hello {
        state: HelloState::Init,
        my_discriminator: 5,
        your_discriminator: own.my_discriminator,
        number: 9,
        receiver: None,
        uris: vec!["udp4://192.0.2.8:6363".to_owned()],
        ..own
    };
    let data = DataBuilder::new(name("/localhop/net/a/32=DV/32=ADV/32=HELLO")).content(hello.encode());
    let actions = host.hear("/localhop/net/32=DV/32=ADS/32=HELLO", &data, 256);
    let uri = "udp4://192.0.2.8:6363".to_owned();
    assert!(actions.contains(&Action::CreateFace { uri: uri.clone(), mtu: None }));
    host.tell(Event::FaceCreated { uri: &uri, face: FaceId(300), is_new: true });
    // It never answers there: the face goes.
    host.actions.clear();
    for seq in 0..10 {
        host.hear_sync("/net/a", 256, 2 + seq);
        host.actions.clear();
        host.run(5_000);
        if host.actions.contains(&Action::DestroyFace { face: FaceId(300) }) {
            return;
        }
    }
    panic!("the face was kept");
}

/// The last hello that was sent on a face.
fn hello_on(host: &Host, face: FaceId) -> Option<Hello> {
    host.actions.iter().rev().find_map(|action| match action {
        Action::SendInterest { wire, face: Some(to) } if *to == face => {
            let interest = Interest::decode(wire).unwrap();
            Hello::decode(Data::decode(interest.application_parameters?).ok()?.content).ok()
        }
        _ => None,
    })
}

/// The neighbour /net/a answers the last hello on a face.
fn answer_hello(host: &mut Host, face: FaceId, state: HelloState, number: u64, uris: &[&str]) {
    let own = hello_on(host, face).expect("a hello was sent");
    let uris = uris.iter().map(|uri| (*uri).to_owned()).collect();
    let hello = Hello {
        state,
        my_discriminator: face.0,
        your_discriminator: own.my_discriminator,
        number,
        receiver: None,
        uris,
        ..own
    };
    let data = DataBuilder::new(name("/localhop/net/a/32=DV/32=ADV/32=HELLO")).content(hello.encode());
    host.hear("/localhop/net/32=DV/32=ADS/32=HELLO", &data, face.0);
}

#[test]
fn a_shared_link_rests_while_the_neighbour_has_a_link_of_its_own() {
    let mut host = Host::new(|_| {});
    let (group, own) = (FaceId(256), FaceId(300));
    host.tell(Event::MulticastFace { face: group });
    host.hear_sync("/net/a", group.0, 1);
    host.run(10);
    answer_hello(&mut host, group, HelloState::Init, 10, &["udp4://192.0.2.8:6363"]);
    host.run(10);
    let used = |host: &Host| -> Vec<_> {
        let links = host.router.status().neighbours.remove(0).links;
        links.iter().map(|link| (link.face, link.is_used)).collect()
    };
    assert_eq!(used(&host), [(group, true)]);
    host.tell(Event::FaceCreated { uri: "udp4://192.0.2.8:6363", face: own, is_new: true });
    host.hear_sync("/net/a", own.0, 1);
    host.run(10);
    answer_hello(&mut host, own, HelloState::Init, 11, &[]);
    host.run(10);
    assert_eq!(used(&host), [(own, true)]);
    let control = name("/localhop/net/a/32=DV");
    assert!(host.actions.contains(&Action::Unregister { prefix: control.clone(), face: Some(group) }));
    // Nothing is said on the shared link, and its silence means nothing.
    host.actions.clear();
    for number in 12..112 {
        host.run(100);
        answer_hello(&mut host, own, HelloState::Up, number, &[]);
        if number % 20 == 0 {
            host.hear_sync("/net/a", group.0, 1);
            host.hear_sync("/net/a", own.0, 1);
        }
    }
    assert_eq!(hello_on(&host, group), None);
    let is_down = |action: &Action| matches!(action, Action::Note(Note::LinkDown { .. }));
    assert!(!host.actions.iter().any(is_down));
    assert_eq!(used(&host), [(own, true)]);
    // Without its own link, the shared one is asked, and used only when it answers.
    let mut actions = host.tell(Event::FaceDown { face: own });
    host.run(10);
    actions.extend_from_slice(&host.actions);
    assert!(used(&host).iter().all(|(_, is_used)| !is_used), "{:?}", used(&host));
    assert!(actions.contains(&Action::Register { prefix: control, face: Some(group), cost: 0 }));
    answer_hello(&mut host, group, HelloState::Init, 200, &[]);
    host.run(10);
    answer_hello(&mut host, group, HelloState::Up, 201, &[]);
    host.run(10);
    assert!(used(&host).contains(&(group, true)), "{:?}", used(&host));
}

#[test]
fn faces_are_asked_for_again() {
    let mut host = Host::new(|_| {});
    let uri = "tcp4://192.0.2.1:6363".to_owned();
    let create = Action::CreateFace { uri: uri.clone(), mtu: Some(1400) };
    let settings = NeighbourSettings { uri: uri.clone(), cost: 2, mtu: Some(1400) };
    assert!(host.tell(Event::NeighbourConfigured(settings)).contains(&create));
    host.tell(Event::FaceFailed { uri: &uri, why: "refused" });
    assert!(host.actions.iter().any(|action| matches!(action, Action::Note(Note::FaceFailed { .. }))));
    host.actions.clear();
    host.run(900);
    assert!(!host.actions.contains(&create));
    host.run(200);
    assert!(host.actions.contains(&create));
    host.tell(Event::FaceCreated { uri: &uri, face: FaceId(300), is_new: true });
    host.hear_sync("/net/a", 300, 1);
    host.run(100);
    let link = host.router.status().neighbours[0].links[0].clone();
    assert_eq!((link.uri, link.cost, link.is_used), (Some(uri.clone()), 2, true));
    assert_eq!(host.router.status().routers[0].cost, Some(2));
    let actions = host.tell(Event::NeighbourRemoved { uri: &uri });
    assert!(actions.contains(&Action::DestroyFace { face: FaceId(300) }));
    let is_removed = |action: &Action| matches!(action, Action::Note(Note::LinkDown { why: DownReason::Removed, .. }));
    assert!(actions.iter().any(is_removed));
    assert!(host.router.status().neighbours.is_empty());
}

#[test]
fn a_router_that_stops_leaves_nothing() {
    let mut host = Host::new(|_| {});
    host.hear_sync("/net/a", 300, 1);
    host.run(100);
    host.command("register", "/app", 500, 0);
    host.run(100);
    let actions = host.tell(Event::Command(Command::Stop));
    let prefix = name("/net/32=DV/32=PFS/net/a");
    assert!(actions.contains(&Action::Unregister { prefix, face: Some(FaceId(300)) }));
    assert_eq!(host.router.wake_at_ms(), u64::MAX);
    assert!(host.hear_sync("/net/b", 301, 1).is_empty());
    // The last advertisement has no routers, so that nobody comes this way.
    let is_sync = |action: &Action| matches!(action, Action::SendInterest { face: Some(FaceId(300)), .. });
    assert!(actions.iter().any(is_sync));
    // The links did not fail.
    let is_fault = |action: &Action| matches!(action, Action::Suspend { .. } | Action::Note(Note::LinkDown { .. }));
    assert!(!actions.iter().any(is_fault), "{actions:?}");
}
