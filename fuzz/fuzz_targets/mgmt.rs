//! Management. Elements of the protocol must decode, encode and decode to the same value. Whole commands, with valid
//! signatures or not, must not panic, and their answers must fit into packets.
#![no_main]

use std::sync::{Arc, OnceLock};

use byname_control::fib_writer::FibWriter;
use byname_control::mgmt::tlv::trees::TreePlace;
use byname_control::mgmt::tlv::{self as mgmt, Element};
use byname_control::mgmt::{Management, Moment};
use byname_control::security::{Authorizer, Certificate, Signer};
use byname_control::tags::message::{self, DescriptorList, Update};
use byname_control::tags::{TagLimits, TagRouting};
use byname_face::{ForwarderHandle, IoConfig, Running};
use byname_forward::tables::Tables;
use byname_forward::worker::WorkerConfig;
use byname_forward::{FaceId, Worker};
use byname_lookup::Control;
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Name, NameHashKey};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const VERBS: [(&str, &str); 26] = [
    ("tags", "place"),
    ("tags", "advertise"),
    ("tags", "withdraw"),
    ("tags", "locators"),
    ("faces", "create"),
    ("faces", "update"),
    ("faces", "destroy"),
    ("faces", "list"),
    ("faces", "query"),
    ("faces", "channels"),
    ("faces", "events"),
    ("fib", "add-nexthop"),
    ("fib", "remove-nexthop"),
    ("fib", "list"),
    ("rib", "register"),
    ("rib", "unregister"),
    ("rib", "announce"),
    ("rib", "list"),
    ("cs", "config"),
    ("cs", "erase"),
    ("cs", "info"),
    ("strategy-choice", "set"),
    ("strategy-choice", "unset"),
    ("strategy-choice", "list"),
    ("status", "general"),
    ("other", "verb"),
];

#[derive(Arbitrary, Debug)]
struct Parameters {
    name: Option<Vec<u8>>,
    strategy: Option<Vec<u8>>,
    uri: Option<String>,
    uri_padding: u16,
    local_uri: Option<String>,
    numbers: [Option<u64>; 11],
}

impl Parameters {
    fn element(&self) -> Vec<u8> {
        let name = |bytes: &Vec<u8>| match byname_wire::NameRef::new(bytes) {
            Ok(name) => name.to_name(),
            Err(_) => Name::from_components(bytes.chunks(3).map(Component::generic)),
        };
        let n = self.numbers;
        mgmt::ControlParameters {
            name: self.name.as_ref().map(name),
            strategy: self.strategy.as_ref().map(|bytes| mgmt::StrategyName(name(bytes))),
            uri: self.uri.as_ref().map(|uri| uri.clone() + &"a".repeat(usize::from(self.uri_padding % 8000))),
            local_uri: self.local_uri.clone(),
            face_id: n[0],
            origin: n[1],
            cost: n[2],
            capacity: n[3],
            count: n[4],
            flags: n[5],
            mask: n[6],
            expiration_period_ms: n[7],
            face_persistency: n[8],
            base_congestion_marking_interval_ns: n[9],
            mtu: n[10],
            ..mgmt::ControlParameters::default()
        }
        .encode()
    }
}

#[derive(Arbitrary, Debug)]
enum Action {
    /// A well-signed command.
    Command {
        verb: u8,
        incoming: u8,
        parameters: Parameters,
        application_parameters: Option<Vec<u8>>,
    },
    /// A command with any bytes as parameters.
    Bytes {
        verb: u8,
        incoming: u8,
        parameters: Vec<u8>,
        application_parameters: Vec<u8>,
    },
    Dataset {
        verb: u8,
        filter: Vec<u8>,
        tail: Option<(u32, u8)>,
    },
    Packet {
        bytes: Vec<u8>,
    },
    Wait {
        ms: u32,
    },
}

#[derive(Arbitrary, Debug)]
struct Input {
    element: Vec<u8>,
    actions: Vec<Action>,
}

fn element<E: Element + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    for value in [E::decode_value(bytes), E::decode(bytes)] {
        if let Ok(value) = value {
            assert_eq!(E::decode(&value.encode()).as_ref(), Ok(&value));
        }
    }
    let _ = mgmt::decode_list::<E>(bytes);
}

/// One packet thread for all runs: management only sends it requests.
fn forwarder() -> (ForwarderHandle, Arc<Tables>) {
    static RUNNING: OnceLock<(Running, Arc<Tables>)> = OnceLock::new();
    let (running, tables) = RUNNING.get_or_init(|| {
        let tables = Arc::new(Tables::new(Oracle::new().query()));
        let worker = Worker::new(WorkerConfig::default(), NameHashKey::new([1, 2]), Arc::clone(&tables), 3);
        (byname_face::start(IoConfig::default(), worker, Vec::new()).expect("a thread"), tables)
    });
    (running.handle.clone(), Arc::clone(tables))
}

fn command(verb: u8, parameters: &[u8]) -> Name {
    let (module, verb) = VERBS[usize::from(verb) % VERBS.len()];
    let name: Name = format!("/localhost/nfd/{module}/{verb}").parse().expect("a name");
    if parameters.is_empty() { name } else { name.join(Component::generic(parameters)) }
}

fn incoming(n: u8) -> FaceId {
    if n.is_multiple_of(2) { FaceId::INTERNAL } else { FaceId(256 + u64::from(n)) }
}

/// What encodes again is the same place, except for earlier numberings without room.
fn place(bytes: &[u8]) {
    let Ok(place) = TreePlace::decode(bytes) else { return };
    let Some(again) = place.encode() else { return };
    let again = TreePlace::decode(&again).expect("what is encoded decodes");
    assert_eq!((again.tree, again.label, &again.neighbors), (place.tree, place.label, &place.neighbors));
    assert_eq!(again.numberings.last(), place.numberings.last());
}

/// What neighbours on a tree tell each other, and what applications are told.
fn tags(bytes: &[u8]) {
    if let Ok(update) = Update::decode(bytes) {
        let mut lists = [DescriptorList::default(), DescriptorList::default()];
        let all = [&update.advertised, &update.withdrawn];
        let fits = lists.iter_mut().zip(all).all(|(list, of)| of.iter().all(|descriptor| list.push(descriptor)));
        if fits {
            let [advertised, withdrawn] = &lists;
            let again =
                Update::encode(update.tree, update.session, update.sequence, update.echo, advertised, withdrawn);
            assert_eq!(Update::decode(&again), Ok(update));
        }
    }
    if let Ok(session) = message::decode_session(bytes) {
        assert_eq!(message::decode_session(&message::encode_session(session)), Ok(session));
    }
    if let Ok(addresses) = message::decode_locators(bytes) {
        assert_eq!(message::decode_locators(&message::encode_locators(&addresses)), Ok(addresses));
    }
}

fuzz_target!(|input: Input| {
    tags(&input.element);
    element::<mgmt::ControlParameters>(&input.element);
    element::<mgmt::ControlResponse>(&input.element);
    place(&input.element);
    element::<mgmt::FaceQueryFilter>(&input.element);
    element::<mgmt::FaceStatus>(&input.element);
    element::<mgmt::FaceEventNotification>(&input.element);
    element::<mgmt::ChannelStatus>(&input.element);
    element::<mgmt::FibEntry>(&input.element);
    element::<mgmt::RibEntry>(&input.element);
    element::<mgmt::StrategyChoice>(&input.element);
    let _ = Certificate::decode(&input.element);

    let (handle, tables) = forwarder();
    let mut now = Moment { ms: 1_000_000, unix_ms: 1_700_000_000_000 };
    let tag_fib = FibWriter::new(Box::new(TagsetOracle::new()), tables.clone());
    let tags = TagRouting::new(tag_fib, TagLimits::default(), now.unix_ms);
    let fib = FibWriter::new(Box::new(Oracle::new()), tables);
    let mut management = Management::new(handle, Authorizer::local_only(), 100, fib, tags, [], now);
    let signer = Signer::digest();
    for action in input.actions.into_iter().take(20) {
        let (wire, from) = match action {
            Action::Command { verb, incoming: from, parameters, application_parameters } => {
                let mut builder = InterestBuilder::new(command(verb, &parameters.element()), 1);
                if let Some(parameters) = application_parameters {
                    builder = builder.application_parameters(parameters);
                }
                let Ok(wire) = signer.sign_command(&builder, now.unix_ms) else { continue };
                (wire, incoming(from))
            }
            Action::Bytes { verb, incoming: from, parameters, application_parameters } => {
                let builder = InterestBuilder::new(command(verb, &parameters), 1);
                (builder.application_parameters(application_parameters).encode(), incoming(from))
            }
            Action::Dataset { verb, filter, tail } => {
                let mut name = command(verb, &filter);
                if let Some((version, segment)) = tail {
                    name = name.join_number(54, version.into()).join_number(50, segment.into());
                }
                (InterestBuilder::new(name, 1).can_be_prefix(true).encode(), FaceId::INTERNAL)
            }
            Action::Packet { bytes } => (bytes, FaceId::INTERNAL),
            Action::Wait { ms } => {
                now.ms += u64::from(ms);
                now.unix_ms += u64::from(ms);
                management.advance(now);
                continue;
            }
        };
        if let Some(answer) = management.answer(&wire, from, now) {
            Data::decode(&answer).expect("answers are Data that packets can carry");
        }
        now.unix_ms += 1;
    }
    // Nothing is committed: the FIB belongs to the forwarder, which all runs share.
});
