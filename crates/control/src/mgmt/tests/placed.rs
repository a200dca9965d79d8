//! Trees on which a routing application puts the router.

use byname_lookup::locator::{Next, Trees};
use byname_mgmt::trees::{PlaceGeneration, PlaceNumbering, TreePlace};
use byname_wire::{Label, Locator, TreeId};

use super::*;
use crate::tags::OwnTree;

const TREE: TreeId = TreeId(1);
const UP: FaceId = FaceId(400);

fn place(first: u32) -> TreePlace {
    let numbering = |claim, first| PlaceNumbering {
        claim,
        label: Label::new(first),
        descendants: 9,
        light_descendants: 3,
        up: Some(UP),
        heavy: None,
        light: vec![(1, FaceId(401))],
    };
    TreePlace {
        tree: TREE,
        label: Some(Label::new(first)),
        neighbors: vec![(UP, [1; 32]), (FaceId(401), [2; 32])],
        generations: Vec::new(),
        numberings: vec![numbering(Some((0, 9)), 0), numbering(None, first)],
    }
}

impl Router {
    fn place(&mut self, place: &TreePlace, from: FaceId) -> u64 {
        let parameters = place.encode().expect("it fits");
        let command = InterestBuilder::new(name("/localhost/nfd/tags/place"), 7).application_parameters(parameters);
        let wire = self.signer.sign_command(&command, self.now.unix_ms).expect("digests can be had");
        self.send(&wire, from).expect("an answer").code
    }

    fn next(&self, label: Label) -> Next {
        self.management.fib().tables().trees().forward(&Locator { tree: TREE, label }, FaceId::NONE)
    }
}

#[test]
fn a_place_replaces_the_tree_of_the_configuration_until_it_is_taken_back() {
    let mut router = Router::new(100);
    let alone = OwnTree { id: TREE, label: Some(Label::new(0)), neighbors: vec![], generation: None };
    router.management.join_trees(Trees::new(), vec![alone]);
    assert_eq!(router.place(&place(70), APP), 200);
    let views = router.management.tags().tree_views();
    assert_eq!((views.len(), views[0].label), (1, Some(Label::new(70))));
    assert_eq!(views[0].neighbors, [(UP, true), (FaceId(401), true)]);
    let addresses = router.management.tags().addresses(APP);
    assert_eq!(addresses[0].locator, Locator { tree: TREE, label: Label::new(70) });
    let light = |of: u32| Label::new(of).light_child(of + 1, 1).expect("a short list");
    for (label, expected) in [
        (Label::new(70), Next::Deliver),
        (light(70), Next::Forward(FaceId(401))),
        (Label::new(0), Next::Deliver),
        (light(0), Next::Forward(FaceId(401))),
        (Label::new(50), Next::Forward(UP)),
    ] {
        assert_eq!(router.next(label), expected, "{label:?}");
    }
    // Another place of the same tree, and a router without a label.
    let unlabelled = TreePlace { label: None, numberings: Vec::new(), ..place(70) };
    assert_eq!(router.place(&unlabelled, APP), 200);
    assert_eq!((router.management.tags().addresses(APP), router.next(Label::new(70))), (vec![], Next::Drop));
    assert_eq!(router.place(&TreePlace { neighbors: Vec::new(), ..unlabelled }, APP), 200);
    assert_eq!(router.management.tags().tree_views()[0].label, Some(Label::new(0)));
    // An application that ends leaves no tree behind; the end of another changes nothing.
    assert_eq!(router.place(&place(70), APP), 200);
    router.management.face_event(&FaceEvent::Destroyed(face(NEIGHBOUR, Scope::NonLocal)));
    assert_eq!(router.management.tags().tree_views()[0].label, Some(Label::new(70)));
    router.management.face_event(&FaceEvent::Destroyed(face(APP, Scope::Local)));
    assert_eq!((router.management.tags().tree_views().len(), router.next(Label::new(70))), (1, Next::Drop));
    assert_eq!(router.management.tags().tree_views()[0].label, Some(Label::new(0)));
}

#[test]
fn packets_with_tags_begin_on_the_generation_that_is_complete() {
    let mut router = Router::new(100);
    let generation =
        |id, is_settled, faces: &[FaceId]| PlaceGeneration { id: TreeId(id), is_settled, faces: faces.to_vec() };
    let with = |generations| TreePlace { generations, ..place(70) };
    assert_eq!(router.place(&with(vec![generation(9, true, &[])]), APP), 200);
    router.management.commit();
    let trees = |router: &Router| router.management.fib().tables().trees();
    assert_eq!(trees(&router).in_service(TREE), Some(TreeId(9)));
    let both = vec![generation(17, true, &[UP]), generation(9, true, &[])];
    assert_eq!(router.place(&with(both), APP), 200);
    router.management.commit();
    assert_eq!(trees(&router).in_service(TREE), Some(TreeId(9)), "the neighbour has not told all");
    assert!(trees(&router).contains(TreeId(17)));
    assert_eq!(router.management.tags().addresses(APP).len(), 1, "a generation has no addresses");
    assert_eq!(router.next(Label::new(70)), Next::Deliver);
    router.management.face_event(&FaceEvent::Destroyed(face(APP, Scope::Local)));
    assert!(trees(&router).in_service(TREE).is_none() && !trees(&router).contains(TreeId(17)));
}

#[test]
fn places_have_a_limit_and_must_be_well_formed() {
    let mut router = Router::new(100);
    for tree in 0..64 {
        assert_eq!(router.place(&TreePlace { tree: TreeId(tree), ..place(70) }, APP), 200);
    }
    assert_eq!(router.place(&TreePlace { tree: TreeId(64), ..place(70) }, APP), 507);
    assert_eq!(router.place(&place(71), APP), 200, "a known one may change");
    let command = InterestBuilder::new(name("/localhost/nfd/tags/place"), 7).application_parameters(vec![1, 1, 1]);
    let wire = router.signer.sign_command(&command, router.now.unix_ms).expect("digests can be had");
    assert_eq!(router.send(&wire, APP).expect("an answer").code, 400);
}
