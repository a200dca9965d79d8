//! A router among neighbours that send anything. It must not panic, must stay within its limits, and must register no
//! route for names that belong to hosts or to the network itself.
#![no_main]

use byname_routing::status::HelloState;
use byname_routing::tlv::{self, SeqNoEntry};
use byname_routing::trees::message::{Entry, GenerationKey, PUBLIC_KEY_BYTES, RouterKey, Span, Told};
use byname_routing::trees::{GENERATIONS_MAX, Message};
use byname_routing::version::Main;
use byname_routing::{Action, Command, Config, Event, Hello, NeighbourSettings, Policy, Router, Validity};
use byname_trust::{Moment, Rights, Signer};
use byname_wire::data::DataBuilder;
use byname_wire::interest::{Interest, InterestBuilder};
use byname_wire::{Component, FaceId, Label, Name, NameRef, TreeId};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const BOOT: u64 = 1_700_000_000;
const LIMIT: usize = 12;

#[derive(Arbitrary, Debug)]
enum Step {
    Interest {
        bytes: Vec<u8>,
        face: u8,
    },
    Data {
        bytes: Vec<u8>,
    },
    Sync {
        router: u8,
        face: u8,
        boot: u8,
        seq: u8,
        passive: bool,
    },
    Hello {
        router: u8,
        face: u8,
        yours: Option<u8>,
        state: u8,
        number: u8,
        boot: u8,
        uri: bool,
    },
    Trees {
        router: u8,
        face: u8,
        number: u8,
        heard: [u8; 2],
        key: Option<u8>,
        entries: Vec<TreeEntry>,
    },
    Vector {
        sender: u8,
        face: u8,
        entries: Vec<(u8, u8, u64)>,
    },
    /// Answers the last Interest that the router sent.
    Advertisement {
        entries: Vec<(u8, u8, u8, u8)>,
    },
    Prefixes {
        router: u8,
        reset: bool,
        add: Vec<(u8, u64)>,
        remove: Vec<u8>,
    },
    Metadata {
        version: u8,
    },
    Bytes {
        content: Vec<u8>,
        last: u8,
    },
    Nack,
    Face {
        what: u8,
        face: u8,
    },
    Peer {
        uri: u8,
        remove: bool,
        cost: u64,
    },
    Announce {
        prefix: u8,
        face: u8,
        withdraw: bool,
    },
    Installed {
        prefix: u8,
        face: u8,
    },
    Register {
        bytes: Vec<u8>,
    },
    Rules {
        text: String,
    },
    Command {
        what: u8,
    },
    Untrusted {
        times: u8,
    },
    Wait {
        ms: u16,
    },
    Jump {
        ms: u32,
        back: bool,
    },
}

#[derive(Arbitrary, Debug)]
struct TreeEntry {
    tree: u8,
    root: u8,
    priority: u8,
    cost: u8,
    path: Vec<u8>,
    is_child: bool,
    numbers: [u32; 2],
    has: Option<(u32, u32)>,
    gives: Option<(u32, u32)>,
    /// Root, number, tree and the receiver's start.
    generations: Vec<(u8, u8, u8, Option<u8>)>,
    stale: Option<u8>,
}

impl TreeEntry {
    fn entry(self) -> Entry {
        let span = |(first, len)| Span { label: Label::new(first), len };
        let is_right = |(first, len): &(u32, u32)| *len > 0 && first.checked_add(len - 1).is_some();
        let told = |(root, number, id, parent_boot): (u8, u8, u8, Option<u8>)| Told {
            key: GenerationKey { root: RouterKey::of(router_name(root).as_ref()), number: number.into() },
            id: TreeId(id.into()),
            parent_boot: parent_boot.map(u64::from),
        };
        Entry {
            tree: TreeId(u32::from(self.tree % 4)),
            priority: u64::from(self.priority),
            root: router_name(self.root),
            cost: u64::from(self.cost),
            path: self.path.into_iter().take(70).map(|n| RouterKey::of(router_name(n).as_ref())).collect(),
            is_child: self.is_child,
            nodes: self.numbers[0],
            wants: self.numbers[1],
            has: self.has.filter(is_right).map(span),
            gives: self.gives.filter(is_right).map(span),
            generations: self.generations.into_iter().take(GENERATIONS_MAX).map(told).collect(),
            stale: self.stale.map(u64::from),
        }
    }
}

fn router_name(n: u8) -> Name {
    format!("/net/r{}", n % 40).parse().unwrap()
}

fn prefix(n: u8) -> Name {
    match n % 30 {
        0 => "/localhost/nfd".parse().unwrap(),
        1 => "/localhop/net".parse().unwrap(),
        2 => "/net/32=DV/32=PFS/net/r1".parse().unwrap(),
        3 => Name::default(),
        n => format!("/p{n}").parse().unwrap(),
    }
}

struct Stage {
    router: Router,
    now: Moment,
    last: Option<Vec<u8>>,
    untrusted: u8,
    nonce: u32,
}

impl Stage {
    fn tell(&mut self, event: Event<'_>) {
        self.router.handle(event, self.now);
        self.carry_out();
    }

    /// Now and then, a signer may announce only some prefixes.
    fn rights(&self) -> Rights {
        let bound = (self.nonce % 3 == 0).then(|| [prefix(4), prefix(5)].into());
        Rights::default().within(bound.as_ref())
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.router.next_action() {
            match action {
                Action::SendInterest { wire, .. } => {
                    let interest = Interest::decode(&wire).unwrap();
                    if interest.application_parameters.is_none() {
                        self.last = Some(wire);
                    }
                }
                Action::SendData { wire } => assert!(byname_wire::Data::decode(&wire).is_ok()),
                Action::Validate { id, .. } => {
                    let is_trusted = self.untrusted == 0;
                    self.untrusted = self.untrusted.saturating_sub(1);
                    let validity = match is_trusted {
                        true => Validity::Trusted(self.rights()),
                        false => Validity::Refused(String::new()),
                    };
                    self.router.handle(Event::Validated { id, validity }, self.now);
                }
                Action::Register { prefix, face: Some(_), .. } => {
                    let is_of_host = prefix.as_ref().component(0) == Some(Component::generic(b"localhost"));
                    assert!(!is_of_host);
                }
                Action::CreateFace { uri, .. } => {
                    let n = uri.bytes().last().unwrap_or(0);
                    if n % 3 == 0 {
                        self.router.handle(Event::FaceFailed { uri: &uri, why: "no" }, self.now);
                    } else {
                        let face = FaceId(300 + u64::from(n % 4));
                        self.router.handle(Event::FaceCreated { uri: &uri, face, is_new: n % 2 == 0 }, self.now);
                    }
                }
                _ => {}
            }
        }
    }

    fn say(&mut self, name: &str, data: &DataBuilder, face: u8) {
        self.nonce += 1;
        let interest = InterestBuilder::new(name.parse().unwrap(), self.nonce).application_parameters(data.encode());
        self.tell(Event::Interest { wire: &interest.encode(), face: FaceId(300 + u64::from(face % 4)) });
    }

    /// Answers the last Interest with this content.
    fn answer(&mut self, content: Vec<u8>, last: u8, version: Option<u8>) {
        let Some(wire) = self.last.clone() else { return };
        let interest = Interest::decode(&wire).unwrap();
        let mut name = interest.name.to_name();
        if let Some(version) = version {
            name = name.join_number(54, u64::from(version)).join_number(50, 0);
        }
        let last = Name::default().join_number(50, u64::from(last));
        let data = DataBuilder::new(name).final_block(last.as_ref().component(0).unwrap());
        let data = data.content(content[..content.len().min(7000)].to_vec()).encode();
        self.tell(Event::Data { wire: &data });
    }
}

fn step(stage: &mut Stage, step: Step) {
    match step {
        Step::Interest { bytes, face } => stage.tell(Event::Interest { wire: &bytes, face: FaceId(u64::from(face)) }),
        Step::Data { bytes } => stage.tell(Event::Data { wire: &bytes }),
        Step::Sync { router, face, boot, seq, passive } => {
            let name = router_name(router);
            let mut entries = Vec::new();
            let start = SeqNoEntry { boot: BOOT + u64::from(boot), seq: u64::from(seq) };
            tlv::push_state_entry(&mut entries, name.as_ref(), [start]);
            let data = DataBuilder::new(format!("/localhop{name}/32=DV/32=ADV/32=SYNC").parse().unwrap());
            let interest = if passive { "PSV" } else { "ACT" };
            let data = data.content(tlv::encode_state_vector(&entries));
            stage.say(&format!("/localhop/net/32=DV/32=ADS/32={interest}"), &data, face);
        }
        Step::Hello { router, face, yours, state, number, boot, uri } => {
            let hello = Hello {
                state: [HelloState::Down, HelloState::Init, HelloState::Up][usize::from(state % 3)],
                my_discriminator: u64::from(router) + 1,
                your_discriminator: u64::from(yours.unwrap_or(0)),
                interval_ms: 50,
                multiplier: 3,
                boot: BOOT + u64::from(boot),
                number: u64::from(number),
                receiver: (number % 4 == 3).then(|| router_name(number)),
                uris: if uri { vec![format!("udp4://10.0.0.{number}:6363")] } else { Vec::new() },
            };
            let name = format!("/localhop{}/32=DV/32=ADV/32=HELLO", router_name(router));
            let data = DataBuilder::new(name.parse().unwrap()).content(hello.encode());
            stage.say("/localhop/net/32=DV/32=ADS/32=HELLO", &data, face);
        }
        Step::Trees { router, face, number, heard, key, entries } => {
            let message = Message {
                receiver: RouterKey::of(router_name(0).as_ref()),
                boot: BOOT,
                number: u64::from(number),
                version: u64::from(number),
                heard: (BOOT + u64::from(heard[0] % 2), u64::from(heard[1])),
                asks: number % 2 == 0,
                key: key.map(|byte| [byte; PUBLIC_KEY_BYTES]),
                answered_key: None,
                entries: entries.into_iter().take(4).map(TreeEntry::entry).collect(),
            };
            let name = format!("/localhop{}/32=DV/32=ADV/32=TREE", router_name(router));
            let data = DataBuilder::new(name.parse().unwrap()).content(message.encode());
            stage.say("/localhop/net/32=DV/32=ADS/32=TREE", &data, face);
        }
        Step::Vector { sender, face, entries } => {
            let mut out = Vec::new();
            for (router, boot, seq) in entries.into_iter().take(50) {
                let start = SeqNoEntry { boot: BOOT + u64::from(boot), seq };
                tlv::push_state_entry(&mut out, router_name(router).as_ref(), [start]);
            }
            let name = format!("/net/32=DV/32=PFS{}/t={BOOT}/32=svs/v=3", router_name(sender));
            let data = DataBuilder::new(name.parse().unwrap()).content(tlv::encode_state_vector(&out));
            stage.say("/net/32=DV/32=PFS/32=svs/v=3", &data, face);
        }
        Step::Advertisement { entries } => {
            let names: Vec<(Name, Name, u8, u8)> = entries
                .into_iter()
                .take(50)
                .map(|(to, via, cost, other)| (router_name(to), router_name(via), cost, other))
                .collect();
            let entries = names
                .iter()
                .map(|(to, via, cost, other)| (to.as_ref(), via.as_ref(), u64::from(*cost), u64::from(*other)));
            stage.answer(tlv::encode_advertisement(entries), 0, None);
        }
        Step::Prefixes { router, reset, add, remove } => {
            let add: Vec<(Name, u64)> = add.into_iter().take(50).map(|(n, cost)| (prefix(n), cost)).collect();
            let remove: Vec<Name> = remove.into_iter().take(50).map(prefix).collect();
            let content = tlv::encode_prefix_ops(
                &Main,
                router_name(router).as_ref(),
                reset,
                add.iter().map(|(name, cost)| (name.as_ref(), *cost)),
                remove.iter().map(Name::as_ref),
            );
            stage.answer(content, 0, None);
        }
        Step::Metadata { version } => {
            let Some(wire) = stage.last.clone() else { return };
            let name = Interest::decode(&wire).unwrap().name;
            let object = name.prefix(name.len() - 1).to_name().join_number(54, u64::from(version));
            stage.answer(tlv::encode_metadata(object.as_ref(), 0), 0, Some(version));
        }
        Step::Bytes { content, last } => stage.answer(content, last, None),
        Step::Nack => {
            if let Some(wire) = stage.last.clone() {
                stage.tell(Event::Nack { name: Interest::decode(&wire).unwrap().name });
            }
        }
        other => step_of_host(stage, other),
    }
}

fn step_of_host(stage: &mut Stage, step: Step) {
    let face = |face: u8| FaceId(300 + u64::from(face % 4));
    match step {
        Step::Face { what, face: n } => stage.tell(match what % 4 {
            0 => Event::FaceUp { face: face(n) },
            1 => Event::FaceDown { face: face(n) },
            2 => Event::FaceDestroyed { face: face(n) },
            _ => Event::MulticastFace { face: face(n) },
        }),
        Step::Peer { uri, remove, cost } => {
            let uri = format!("udp4://192.0.2.1:{}", uri % 20);
            if remove {
                stage.tell(Event::NeighbourRemoved { uri: &uri });
            } else {
                stage.tell(Event::NeighbourConfigured(NeighbourSettings { uri, cost, mtu: None }));
            }
        }
        Step::Announce { prefix: n, face: at, withdraw } => {
            let (prefix, face) = (prefix(n), face(at));
            stage.tell(match withdraw {
                false => Event::Announced { prefix, face, cost: u64::from(n) },
                true => Event::Withdrawn { prefix, face },
            });
        }
        Step::Installed { prefix: n, face: at } => {
            stage.tell(Event::Installed { prefix: prefix(n), face: face(at), cost: 1 });
        }
        Step::Register { bytes } => {
            let name: Name = "/localhost/nlsr/rib/register".parse().unwrap();
            let name = name.join(Component::generic(&bytes[..bytes.len().min(1000)]));
            let wire = InterestBuilder::new(name, 1).application_parameters(vec![]).encode();
            stage.tell(Event::Interest { wire: &wire, face: FaceId::INTERNAL });
        }
        Step::Rules { text } => {
            if let Ok(policy) = Policy::parse(text.lines().take(20)) {
                stage.tell(Event::Command(Command::SetPolicy(policy)));
            }
        }
        Step::Command { what } => stage.tell(Event::Command(match what {
            0 => Command::Stop,
            1 => Command::Recheck,
            n if n % 2 == 0 => Command::Resync,
            _ => Command::ClearDamping,
        })),
        Step::Untrusted { times } => stage.untrusted = times,
        Step::Wait { ms } => {
            let until = stage.now.ms + u64::from(ms);
            for _ in 0..2_000 {
                let at = stage.router.wake_at_ms();
                if at > until {
                    break;
                }
                stage.now.ms = stage.now.ms.max(at);
                stage.router.poll(stage.now);
                stage.carry_out();
            }
            stage.now.ms = until;
        }
        Step::Jump { ms, back } => {
            let ms = u64::from(ms);
            stage.now.ms = if back { stage.now.ms.saturating_sub(ms) } else { stage.now.ms + ms };
            stage.router.poll(stage.now);
            stage.carry_out();
        }
        _ => {}
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut config = Config::new("/net".parse().unwrap(), router_name(0), BOOT);
    config.limits.neighbours = LIMIT;
    config.limits.routers = LIMIT;
    config.limits.prefixes = LIMIT;
    config.limits.local_prefixes = LIMIT;
    config.limits.boots_per_router = 3;
    config.trees.count = 2;
    config.trees.neighbours_max = LIMIT;
    let now = Moment { ms: 1_000, unix_ms: BOOT * 1000 };
    let router = Router::new(config, Signer::digest(), now).unwrap();
    let mut stage = Stage { router, now, last: None, untrusted: 0, nonce: 0 };
    stage.carry_out();
    for each in steps.into_iter().take(200) {
        step(&mut stage, each);
        let status = stage.router.status();
        assert!(status.neighbours.len() <= LIMIT && status.routers.len() <= LIMIT + 1);
        assert!(status.neighbours.iter().all(|neighbour| neighbour.links.len() <= 4));
        // Prefixes of others, of this host, and a route for the publications of each router. A full table still has room
        // for the fair share of each router.
        assert!(status.prefixes <= 5 * LIMIT, "{}", status.prefixes);
        assert!(stage.router.places().iter().all(|place| place.neighbours.len() <= LIMIT));
    }
    stage.router.explain(NameRef::new(prefix(7).value()).unwrap());
    for prefix in stage.router.prefixes(None, 1000) {
        stage.router.explain(prefix.prefix.as_ref());
    }
});
