//! Descriptors of applications in the store.

use byname_wire::{Descriptor, Label, TreeId};

use super::*;
use crate::mgmt::Restored;
use crate::state::Change;
use crate::state::records::{AdvertisementRecord, Snapshot};
use crate::tags::OwnTree;
use crate::tags::message::DescriptorList;
use byname_lookup::locator::Trees;

/// Face of an application that comes back.
const LASTING: FaceId = FaceId(302);

fn router() -> Router {
    let mut router = Router::new(100);
    router.management.restore(Snapshot::default(), 120_000, START);
    let lasting = FaceStatus { persistency: Persistency::Permanent, ..face(LASTING, Scope::Local) };
    router.management.face_event(&FaceEvent::Created(lasting));
    router
}

fn join_a_tree(router: &mut Router) {
    let alone = OwnTree { id: TreeId(1), label: Some(Label::new(0)), neighbors: vec![], generation: None };
    router.management.join_trees(Trees::new(), vec![alone]);
}

fn descriptor(tag: &str) -> Descriptor {
    Descriptor::of([tag]).expect("one tag")
}

impl Router {
    /// Sends a tag command. Returns the changes for the store.
    fn tags(&mut self, verb: &str, tag: &str, from: FaceId) -> Vec<Change> {
        let mut list = DescriptorList::default();
        assert!(list.push(&descriptor(tag)));
        let uri = format!("/localhost/nfd/tags/{verb}");
        let command = InterestBuilder::new(name(&uri), 7).application_parameters(list.bytes().to_vec());
        let wire = self.signer.sign_command(&command, self.now.unix_ms).expect("digests can be had");
        assert_eq!(self.send(&wire, from).expect("an answer").code, 200);
        self.management.take_changes(self.now)
    }
}

#[test]
fn descriptors_of_lasting_faces_are_kept_once_and_those_of_others_not() {
    let mut router = router();
    join_a_tree(&mut router);
    let changes = router.tags("advertise", "a", LASTING);
    let [Change::Face(face), Change::Advertisement(record)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((record.face, &record.descriptor), (face.number, &descriptor("a")));
    assert_eq!(router.tags("advertise", "a", LASTING), [], "applications repeat their advertisements");
    assert_eq!(router.tags("advertise", "a", APP), []);
    assert_eq!(router.tags("withdraw", "a", LASTING), [Change::ForgetAdvertisement(record.clone())]);
}

#[test]
fn descriptors_come_back_when_there_is_a_tree_and_go_unless_they_are_confirmed() {
    let mut router = router();
    let record = |tag| AdvertisementRecord { face: 1, descriptor: descriptor(tag) };
    let mut restored = Restored::default();
    router.management.advertisements_are_back(LASTING, vec![record("a"), record("b")], &mut restored);
    assert_eq!((restored.descriptors, router.management.tags().len()), (2, 0));
    join_a_tree(&mut router);
    assert_eq!(router.management.tags().len(), 2);
    router.tags("advertise", "a", LASTING);
    let mut listed: Vec<tlv::TagsEntry> = decode_list(&router.dataset("/localhost/nfd/tags/list")).expect("a list");
    listed.sort_by_key(|one| one.is_stale);
    let entry = |tag, is_stale| tlv::TagsEntry { face_id: LASTING.0, descriptor: descriptor(tag), is_stale };
    assert_eq!(listed, [entry("a", None), entry("b", Some(1))], "only one was advertised again");
    router.advance(119_000);
    assert_eq!(router.management.tags().len(), 2);
    router.advance(1_000);
    assert_eq!(router.management.tags().advertised_by(LASTING), [descriptor("a")]);
    let changes = router.management.take_changes(router.now);
    assert!(matches!(&changes[..], [.., Change::ForgetAdvertisement(gone)] if gone.descriptor == descriptor("b")));
    router.management.face_event(&FaceEvent::Destroyed(face(LASTING, Scope::Local)));
    assert_eq!(router.management.tags().len(), 0);
}
