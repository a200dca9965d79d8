//! Routing by tags: neighbours whose updates about descriptors are signed, forged, repeated and out of order, answers to
//! this router's own updates, applications, changing trees, and time. The router stays within its limits, hears only
//! neighbours of a tree, and forgets those that are silent.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use byname_control::fib_writer::FibWriter;
use byname_control::mgmt::Moment;
use byname_control::security::{Signer, TrustedSigner, VerifyingKey};
use byname_control::tags::message::{self, DescriptorList, Update};
use byname_control::tags::{NeighborKeys, OwnGeneration, OwnNeighbor, OwnTree, TagLimits, TagRouting, TagRoutingError};
use byname_forward::FaceId;
use byname_forward::tables::Tables;
use byname_lookup::Control;
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Descriptor, Interest, Label, Name, TreeId};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const NEIGHBORS: u64 = 1000;
const APPLICATION: FaceId = FaceId(300);
const LIMITS: TagLimits =
    TagLimits { descriptors_max: 24, descriptors_per_face_max: 8, descriptors_per_neighbor_max: 10, aggregate: false };
/// Longer than any neighbour may be silent.
const SILENCE_MS: u64 = 10 * 60_000;

#[derive(Arbitrary, Debug)]
enum Action {
    /// Other trees. Each bit is a neighbour.
    Trees {
        first: u8,
        second: u8,
        is_generation: bool,
        is_settled: bool,
    },
    /// An update of a neighbour, or of somebody else.
    Hear {
        face: u8,
        tree: u8,
        session: u8,
        sequence: u8,
        knows_echo: bool,
        told: Told,
        is_signed: bool,
    },
    /// Bytes instead of an update.
    Bytes {
        face: u8,
        bytes: Vec<u8>,
        is_signed: bool,
    },
    /// An answer to an update of this router.
    Answer {
        which: u8,
        session: u8,
        code: u8,
        is_signed: bool,
    },
    Advertise(Vec<u8>),
    Withdraw(Vec<u8>),
    RemoveFace(u8),
    Wait(u16),
}

#[derive(Arbitrary, Debug)]
struct Told {
    advertised: Vec<u8>,
    withdrawn: Vec<u8>,
    is_complete: bool,
}

fn descriptors(numbers: &[u8]) -> Vec<Descriptor> {
    numbers.iter().take(40).map(|n| Descriptor::of([format!("tag {}", n % 64)]).expect("one tag")).collect()
}

fn list(numbers: &[u8]) -> DescriptorList {
    let mut list = DescriptorList::default();
    for descriptor in &descriptors(numbers) {
        list.push(descriptor);
    }
    list
}

fn face(number: u8) -> FaceId {
    FaceId(NEIGHBORS + u64::from(number % 4))
}

/// Neighbours with odd numbers sign.
fn must_sign(face: FaceId) -> bool {
    face.0 % 2 == 1
}

struct Stage {
    routing: TagRouting,
    keys: Arc<NeighborKeys>,
    now: Moment,
    trees: BTreeMap<TreeId, u8>,
    echoes: BTreeMap<FaceId, u64>,
    /// Updates of this router that wait for an answer.
    sent: Vec<(FaceId, Vec<u8>)>,
}

impl Stage {
    fn pass(&mut self, ms: u64) {
        self.now = Moment { ms: self.now.ms + ms, unix_ms: self.now.unix_ms + ms };
    }

    fn set_trees(&mut self, masks: [u8; 2], generation: Option<bool>) {
        let neighbors = |mask: u8| {
            let of_mask = (0..4).filter(|n| mask & 1 << n != 0).map(face);
            let neighbor = |face| OwnNeighbor { face, keys: must_sign(face).then(|| Arc::clone(&self.keys)) };
            of_mask.map(neighbor).collect()
        };
        let tree = |id: u32, mask, generation| OwnTree {
            id: TreeId(id),
            label: Some(Label::new(id)),
            neighbors: neighbors(mask),
            generation,
        };
        let of_first = generation.map(|is_settled| OwnGeneration { of: TreeId(1), is_settled });
        let trees = vec![tree(1, masks[0], None), tree(2, masks[1], of_first)];
        self.routing.replace_trees(trees);
        self.trees = [(TreeId(1), masks[0]), (TreeId(2), masks[1])].into();
    }

    fn is_neighbor(&self, tree: TreeId, face: FaceId) -> bool {
        self.trees.get(&tree).is_some_and(|mask| mask & 1 << (face.0 - NEIGHBORS) != 0)
    }

    fn hear(&mut self, face: FaceId, parameters: Vec<u8>, is_signed: bool) {
        let command: Name = "/localhop/nfd/tags/update".parse().expect("a name");
        let builder = InterestBuilder::new(command, 7).application_parameters(parameters);
        let wire = match is_signed {
            true => self.keys.signer.sign_command(&builder, self.now.unix_ms).expect("a secret signs"),
            false => builder.encode(),
        };
        let interest = Interest::decode(&wire).expect("an Interest");
        let Ok(update) = Update::decode(interest.application_parameters.expect("set")) else { return };
        let tree = update.tree;
        match self.routing.hear(face, (&interest, update), self.now) {
            Ok(heeded) => {
                assert!(self.is_neighbor(tree, face), "a stranger is not heard");
                assert!(is_signed || !must_sign(face), "a forged update is not heard");
                self.echoes.insert(face, heeded.session);
            }
            Err(TagRoutingError::NoNeighbor { .. }) => assert!(!self.is_neighbor(tree, face)),
            Err(TagRoutingError::Unsigned) => assert!(!is_signed && must_sign(face)),
            Err(TagRoutingError::TooMany) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn answer(&mut self, which: u8, session: u8, code: u8, is_signed: bool) {
        if self.sent.is_empty() {
            return;
        }
        let (_, wire) = self.sent.swap_remove(usize::from(which) % self.sent.len());
        let name = Interest::decode(&wire).expect("it was checked").name.to_name();
        let data = DataBuilder::new(name);
        let answer = match is_signed {
            true => self.keys.signer.sign_data(&data).expect("a secret signs"),
            false => data.encode(),
        };
        let code = [200, 409, 403, u64::from(code)][usize::from(code) % 4];
        let body = message::encode_session(session.into());
        self.routing.answered(&Data::decode(&answer).expect("Data"), (code, &body), self.now);
    }

    fn poll(&mut self) {
        for (face, wire) in self.routing.poll(self.now) {
            let interest = Interest::decode(&wire).expect("what it sends decodes");
            let parameters = interest.application_parameters.expect("an update");
            let update = Update::decode(parameters).expect("what it sends decodes");
            assert!(self.is_neighbor(update.tree, face), "only neighbours are told");
            if self.sent.len() < 64 {
                self.sent.push((face, wire));
            }
        }
        self.routing.commit();
    }

    fn check(&self) {
        assert!(self.routing.len() <= LIMITS.descriptors_max);
        let all = self.routing.descriptors(|_| true, 0, usize::MAX);
        assert_eq!(all.items.len(), self.routing.len());
        let mut of_face: BTreeMap<FaceId, usize> = BTreeMap::new();
        for (_, nexthops) in &all.items {
            assert!(!nexthops.is_empty() && nexthops.is_sorted());
            for nexthop in nexthops {
                *of_face.entry(nexthop.face).or_default() += 1;
                assert!(nexthop.face == APPLICATION || self.is_neighbor(nexthop.tree, nexthop.face));
            }
        }
        for (face, count) in of_face {
            let max = if face == APPLICATION {
                LIMITS.descriptors_per_face_max * 2
            } else {
                LIMITS.descriptors_per_neighbor_max
            };
            assert!(count <= max, "{face}: {count}");
            assert!(self.routing.has_routes(face));
        }
    }
}

fuzz_target!(|input: (bool, Vec<Action>)| {
    let (aggregate, actions) = input;
    let limits = TagLimits { aggregate, ..LIMITS };
    let name: Name = "/net".parse().expect("a name");
    let secret = b"a secret of all";
    let trusted = TrustedSigner::Hmac { key_name: name.clone(), key: VerifyingKey::from_hmac_secret(secret) };
    let tables = Arc::new(Tables::new(Oracle::new().query()));
    let now = Moment { ms: 1_000, unix_ms: 1_700_000_000_000 };
    let mut stage = Stage {
        routing: TagRouting::new(FibWriter::new(Box::new(TagsetOracle::new()), tables), limits, now.unix_ms),
        keys: Arc::new(NeighborKeys { signer: Signer::hmac(name, secret), trusted }),
        now,
        trees: BTreeMap::new(),
        echoes: BTreeMap::new(),
        sent: Vec::new(),
    };
    stage.set_trees([0b0011, 0b0110], None);
    for action in actions.into_iter().take(300) {
        match action {
            Action::Trees { first, second, is_generation, is_settled } => {
                stage.set_trees([first, second], is_generation.then_some(is_settled));
            }
            Action::Hear { face: from, tree, session, sequence, knows_echo, told, is_signed } => {
                let face = face(from);
                let echo = if knows_echo { stage.echoes.get(&face).copied().unwrap_or(0) } else { 0 };
                let (tree, session) = (TreeId(u32::from(tree % 4)), u64::from(session % 4));
                let (advertised, withdrawn) = (list(&told.advertised), list(&told.withdrawn));
                let mut parameters = Update::encode(tree, session, sequence.into(), echo, &advertised, &withdrawn);
                if told.is_complete {
                    Update::push_complete(&mut parameters);
                }
                stage.hear(face, parameters, is_signed);
            }
            Action::Bytes { face: from, bytes, is_signed } => stage.hear(face(from), bytes, is_signed),
            Action::Answer { which, session, code, is_signed } => stage.answer(which, session, code, is_signed),
            Action::Advertise(numbers) => drop(stage.routing.advertise(APPLICATION, descriptors(&numbers))),
            Action::Withdraw(numbers) => stage.routing.withdraw(APPLICATION, descriptors(&numbers)),
            Action::RemoveFace(from) => {
                let face = if from % 5 == 4 { APPLICATION } else { face(from) };
                stage.routing.remove_face(face);
                assert!(!stage.routing.has_routes(face));
            }
            Action::Wait(ms) => stage.pass(ms.into()),
        }
        stage.poll();
        stage.check();
    }
    stage.routing.remove_face(APPLICATION);
    stage.pass(SILENCE_MS);
    stage.poll();
    assert!(stage.routing.is_empty(), "those that are silent are forgotten");
});
