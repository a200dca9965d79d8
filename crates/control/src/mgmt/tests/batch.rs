//! Tests of `rib/batch` and `flat/batch`.

use byname_lookup::locator::Trees;
use byname_mgmt::batch::{BATCH_CHANGES_MAX, BatchChange, BatchOutcome};
use byname_wire::{Descriptor, Label, TreeId};

use super::*;
use crate::security::{Module, Rule, TimeWindow, TrustedSigner};
use crate::tags::OwnTree;

fn to(uri: &str, face: FaceId) -> ControlParameters {
    ControlParameters { face_id: Some(face.0), ..prefix(uri) }
}

impl Router {
    fn batch_by(&mut self, signer: &Signer, verb: &str, changes: &[BatchChange], from: FaceId) -> ControlResponse {
        let mut parameters = Vec::new();
        changes.iter().for_each(|change| assert!(change.push(&mut parameters)));
        let command = InterestBuilder::new(name(&format!("/localhost/nfd/{verb}")), 7);
        let command = command.application_parameters(parameters);
        let wire = signer.sign_command(&command, self.now.unix_ms).expect("digests can be had");
        self.send(&wire, from).expect("an answer")
    }

    fn batch(&mut self, verb: &str, changes: &[BatchChange]) -> (u64, Vec<(u64, u64)>) {
        let response = self.batch_by(&Signer::digest(), verb, changes, APP);
        assert_eq!((response.code, response.text.as_str()), (200, "OK"));
        let outcome = BatchOutcome::decode(&response.body).expect("an outcome");
        (outcome.count, outcome.refusals.iter().map(|refusal| (refusal.index, refusal.code)).collect())
    }
}

#[test]
fn routes_change_in_the_order_of_the_batch_and_each_for_itself() {
    let mut router = Router::new(100);
    let outcome = router.batch(
        "rib/batch",
        &[
            BatchChange::Register(to("/a", APP)),
            BatchChange::Register(to("/nobody", FaceId(999))),
            BatchChange::Register(to("/b", NEIGHBOUR)),
            BatchChange::Unregister(to("/b", NEIGHBOUR)),
            BatchChange::Register(to("/localhost/nfd/faces", APP)),
            BatchChange::Register(ControlParameters { cost: Some(5), ..to("/c", NEIGHBOUR) }),
            BatchChange::Unregister(to("/never", APP)),
            BatchChange::Register(ControlParameters::default()),
            BatchChange::Register(to(&"/x".repeat(33), APP)),
        ],
    );
    assert_eq!(outcome, (5, vec![(1, 410), (4, 403), (7, 400), (8, 414)]));
    let routes: Vec<(String, u64, u64)> = router
        .routes()
        .iter()
        .map(|entry| (entry.name.to_string(), entry.routes[0].face_id, entry.routes[0].cost))
        .collect();
    assert_eq!(routes, [("/a".to_owned(), APP.0, 0), ("/c".to_owned(), NEIGHBOUR.0, 5)]);
    let fib: Vec<String> = router.fib().iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(fib, ["/a", "/c"], "visible when the answer is sent");
    assert_eq!(router.batch("rib/batch", &[]), (0, vec![]));
    assert_eq!(router.management.counters().commands_ok, 2);
}

#[test]
fn a_batch_that_is_not_understood_changes_nothing() {
    let mut router = Router::new(1000);
    let mut code = |changes: &[BatchChange], verb: &str| router.batch_by(&Signer::digest(), verb, changes, APP).code;
    let route = BatchChange::Register(to("/a", APP));
    let flat = BatchChange::FlatReset(prefix("/o/a"));
    assert_eq!(code(&[route.clone(), flat.clone()], "rib/batch"), 400);
    assert_eq!(code(&[flat, route.clone()], "flat/batch"), 400);
    let many = vec![BatchChange::Unregister(to("/a", APP)); BATCH_CHANGES_MAX + 1];
    assert_eq!(code(&many, "rib/batch"), 413);
    let mut parameters = Vec::new();
    assert!(route.push(&mut parameters));
    parameters.extend_from_slice(&[0xfd, 0x01]);
    let command = InterestBuilder::new(name("/localhost/nfd/rib/batch"), 7).application_parameters(parameters);
    let wire = Signer::digest().sign_command(&command, router.now.unix_ms).expect("digests can be had");
    assert_eq!(router.send(&wire, APP).map(|response| response.code), Some(400));
    assert_eq!(router.routes(), []);
}

#[test]
fn each_change_needs_the_rights_of_its_own_command() {
    let signer = Signer::hmac(name("/k/KEY/1"), b"secret");
    let rule = Rule {
        signer: TrustedSigner::Hmac {
            key_name: name("/k/KEY/1"),
            key: crate::security::VerifyingKey::from_hmac_secret(b"secret"),
        },
        modules: vec![Module::Rib],
        remote: false,
        prefixes: Some(vec![name("/mine")]),
    };
    let mut router = Router::with_rights(100, Authorizer::new(vec![rule], TimeWindow::default()));
    let changes = [
        BatchChange::Register(to("/mine/a", NEIGHBOUR)),
        BatchChange::Register(to("/yours", NEIGHBOUR)),
        BatchChange::Unregister(to("/yours", NEIGHBOUR)),
        BatchChange::Advertise { face_id: NEIGHBOUR.0, descriptor: Descriptor::of(["a"]).expect("one tag") },
    ];
    let response = router.batch_by(&signer, "rib/batch", &changes, APP);
    let outcome = BatchOutcome::decode(&response.body).expect("an outcome");
    let codes: Vec<(u64, u64)> = outcome.refusals.iter().map(|one| (one.index, one.code)).collect();
    assert_eq!((outcome.count, codes), (1, vec![(1, 403), (2, 403), (3, 403)]));
    assert!(outcome.refusals[0].text.contains("prefix"), "{}", outcome.refusals[0].text);
    let flat = [BatchChange::FlatReset(prefix("/mine/a"))];
    assert_eq!(router.batch_by(&signer, "flat/batch", &flat, APP).code, 403, "another module");
    assert_eq!(router.batch_by(&Signer::digest(), "rib/batch", &changes, APP).code, 403);
}

#[test]
fn descriptors_lead_to_a_face_that_does_not_advertise_them() {
    let mut router = Router::new(100);
    let descriptor = Descriptor::of(["news", "sport"]).expect("two tags");
    let advertise = |face: FaceId| BatchChange::Advertise { face_id: face.0, descriptor: descriptor.clone() };
    assert_eq!(router.batch("rib/batch", &[advertise(NEIGHBOUR)]), (0, vec![(0, 503)]), "on no tree");
    let tree = OwnTree { id: TreeId(1), label: Some(Label::new(0)), neighbors: vec![], generation: None };
    router.management.join_trees(Trees::new(), vec![tree]);
    assert_eq!(router.batch("rib/batch", &[advertise(NEIGHBOUR), advertise(FaceId(999))]), (1, vec![(1, 410)]));
    assert_eq!(router.management.tags().advertised_by(NEIGHBOUR), std::slice::from_ref(&descriptor));
    let listed: Vec<tlv::TagsEntry> = decode_list(&router.dataset("/localhost/nfd/tags/list")).expect("a list");
    let entry = tlv::TagsEntry { face_id: NEIGHBOUR.0, descriptor: descriptor.clone(), is_stale: None };
    assert_eq!(listed, [entry]);
    let withdraw = BatchChange::Withdraw { face_id: NEIGHBOUR.0, descriptor: descriptor.clone() };
    assert_eq!(router.batch("rib/batch", &[withdraw.clone(), withdraw]), (2, vec![]));
    assert_eq!(router.management.tags().advertised_by(NEIGHBOUR), []);
}
