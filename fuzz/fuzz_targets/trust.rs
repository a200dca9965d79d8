//! Trust. Schemas in both forms must compile or be refused, and encode to what decodes to the same. A key that is
//! permitted by its whole certificate must also be by its beginning. SafeBags, certificates and lists of revoked keys must
//! not panic. A validator that gets any Data, at any time, must stay within its bounds, and must trust no packet: no
//! anchor's key is known to the fuzzer.
#![no_main]

use std::sync::OnceLock;
use std::time::Duration;

use byname_trust::Moment;
use byname_trust::safe_bag::SafeBag;
use byname_trust::schema::Schema;
use byname_trust::validator::{Begun, Domain, DomainSet, Limits, Origin, Signed};
use byname_trust::{Certificate, KeyType, NewKey, Revocations, Rule, Terms, Validator, issue};
use byname_wire::data::DataBuilder;
use byname_wire::{Component, Data, Name, NameRef};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Action {
    /// Any bytes as a packet whose chain is followed.
    Packet {
        bytes: Vec<u8>,
        face: u8,
    },
    /// A packet that a key of the fuzzer has signed.
    Signed {
        name: Vec<u8>,
        locator: Vec<u8>,
        face: u8,
    },
    /// A certificate by the fuzzer's key, under any name.
    Certificate {
        name: Vec<u8>,
        version: u8,
    },
    Data {
        bytes: Vec<u8>,
    },
    Nack {
        name: Vec<u8>,
    },
    Wait {
        ms: u16,
    },
}

#[derive(Arbitrary, Debug)]
struct Input {
    schema_text: String,
    schema_bytes: Vec<u8>,
    list: String,
    bag: Vec<u8>,
    names: [Vec<u8>; 2],
    actions: Vec<Action>,
}

fn name(bytes: &[u8]) -> Name {
    match NameRef::new(bytes) {
        Ok(name) => name.to_name(),
        Err(_) => Name::from_components(bytes.chunks(3).take(100).map(Component::generic)),
    }
}

fn keys() -> &'static (NewKey, Certificate) {
    static KEYS: OnceLock<(NewKey, Certificate)> = OnceLock::new();
    KEYS.get_or_init(|| {
        let identity = |uri: &str| uri.parse::<Name>().expect("a name");
        let anchor = NewKey::generate(&identity("/a"), KeyType::Ecdsa).expect("a key");
        let terms = Terms { issuer: Component::generic(b"self"), version: 1, valid: (Duration::ZERO, Duration::MAX) };
        let packet = issue(anchor.name(), anchor.spki(), anchor.signer(), terms).expect("signed");
        let own = NewKey::generate(&identity("/a/b"), KeyType::Ecdsa).expect("a key");
        (own, Certificate::decode(&packet).expect("a certificate"))
    })
}

fn schemas(input: &Input) {
    let (packet, key) = (name(&input.names[0]), name(&input.names[1]));
    for schema in [Schema::compile(&input.schema_text), Schema::decode(&input.schema_bytes)].into_iter().flatten() {
        assert_eq!(Schema::decode(&schema.encode()).as_ref().ok(), Some(&schema));
        schema.rules_of(packet.as_ref());
        // An implicit digest counts only at the end of a name.
        let has_digest = key.as_ref().components().any(|component| component.typ == 1);
        if schema.permits(packet.as_ref(), key.as_ref()) && key.as_ref().len() > 2 && !has_digest {
            let beginning = key.as_ref().prefix(key.as_ref().len() - 2);
            assert!(schema.may_permit(packet.as_ref(), beginning));
        }
    }
}

fuzz_target!(|input: Input| {
    schemas(&input);
    let _ = Certificate::decode(&input.bag);
    // Not opened: that takes long by design.
    if let Ok(bag) = SafeBag::decode(&input.bag) {
        SafeBag::decode(&bag.encode()).expect("what is written is a bag");
    }
    let revocations = Revocations::parse(&input.list).unwrap_or_default();
    let (own, anchor) = keys();
    let limits = Limits { waiting_max: 16, certificates_max: 4, ..Limits::default() };
    let domains = vec![Domain { anchors: vec![anchor.clone()], rule: Rule::Hierarchical }];
    let mut validator = Validator::new(domains, revocations, limits);
    let mut now = Moment { ms: 1, unix_ms: 1_795_000_000_000 };
    for action in input.actions.into_iter().take(50) {
        let (packet, face) = match action {
            Action::Packet { bytes, face } => (bytes, face),
            Action::Signed { name: of, locator, face } => {
                let signer = byname_trust::Signer::from_pkcs8(name(&locator), own.pkcs8()).expect("a signer");
                (signer.sign_data(&DataBuilder::new(name(&of))).expect("signed"), face)
            }
            Action::Certificate { name: of, version } => {
                let valid = (Duration::ZERO, Duration::MAX);
                let terms = Terms { issuer: Component::generic(b"x"), version: version.into(), valid };
                let packet = issue(&name(&of), own.spki(), own.signer(), terms).expect("signed");
                if let Ok(data) = Data::decode(&packet) {
                    validator.on_data(&data, now);
                }
                continue;
            }
            Action::Data { bytes } => {
                if let Ok(data) = Data::decode(&bytes) {
                    validator.on_data(&data, now);
                }
                continue;
            }
            Action::Nack { name: of } => {
                validator.on_nack(name(&of).as_ref(), now);
                continue;
            }
            Action::Wait { ms } => {
                now = Moment { ms: now.ms + u64::from(ms), unix_ms: now.unix_ms + u64::from(ms) };
                validator.poll(now);
                continue;
            }
        };
        let Ok(data) = Data::decode(&packet) else { continue };
        let origin = Origin { face: Some(face.into()), forwarding_hint: Vec::new() };
        if let Begun::Done(outcome) = validator.begin(&Signed::data(&data), DomainSet::one(0), origin, now) {
            assert!(outcome.is_err(), "only the anchor's key could sign this");
        }
        assert!(validator.waiting() <= 16);
    }
    now = Moment { ms: now.ms + 10_000, unix_ms: now.unix_ms + 10_000 };
    validator.poll(now);
    validator.poll(now);
    assert!(validator.take_done().iter().all(|(_, outcome)| outcome.is_err()));
    assert_eq!((validator.waiting(), validator.cached()), (0, 0));
});
