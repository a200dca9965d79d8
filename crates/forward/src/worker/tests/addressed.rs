//! Tag-addressed and locator-addressed packets.

use byname_lookup::locator::{Graph, Labelling, SpanningTree, Trees};
use byname_lookup::oracle::TagsetOracle;
use byname_wire::tagnet::{Address, Endpoint, LocatorPacket, LocatorPacketBuilder, TagPacket, TagPacketBuilder};
use byname_wire::{Descriptor, Label, Locator, TreeId};

use super::*;
use crate::tables::TreeFace;

const TREE: TreeId = TreeId(1);
const OTHER_TREE: TreeId = TreeId(2);

fn tags(text: &str) -> Descriptor {
    Descriptor::of(text.split_whitespace()).expect("few tags")
}

/// A worker that is the root of two trees, with HOST, HOST_2 and HOST_3 as its children, and the label of HOST's only
/// child.
fn router(advertised: &[(&str, &[(TreeId, FaceId)])]) -> (Bench, Label) {
    let bench = bench();
    let mut tag_fib = TagsetOracle::new();
    let mut changes = Vec::new();
    for (entry, (text, pairs)) in (0..).map(EntryId).zip(advertised) {
        let mut nexthops: Vec<_> = pairs.iter().map(|&(tree, face)| TreeFace { tree, face }).collect();
        nexthops.sort_unstable();
        bench.tables.set_tag_group(entry, Some(NexthopGroup { nexthops: nexthops.into() }));
        changes.push(Change::Set(tags(text), entry));
    }
    tag_fib.apply(&changes).expect("the oracle takes all");
    bench.tables.replace_tag_fib(tag_fib.query());
    let graph = Graph::new(5, &[(0, 1), (0, 2), (0, 3), (1, 4)]).expect("edges of five nodes");
    let labelling = Labelling::new(SpanningTree::breadth_first(&graph, 0));
    let faces = [FaceId::NONE, HOST, HOST_2, HOST_3];
    let mut trees = Trees::new();
    for tree in [TREE, OTHER_TREE] {
        let ports = labelling.neighbors(0).map(|(port, node)| (port, faces[node]));
        trees.set(tree, labelling.table(0).expect("on the tree"), ports);
    }
    bench.tables.replace_trees(trees);
    (bench, labelling.label(4).expect("on the tree"))
}

fn address(label: Label, endpoint: FaceId) -> Address {
    Address { locator: Locator { tree: TREE, label }, endpoint: Endpoint(endpoint.0) }
}

fn ask(text: &str, fan_out: Option<u16>) -> Vec<u8> {
    let builder = TagPacketBuilder::new(TREE, &tags(text)).payload(b"x").hop_limit(9);
    fan_out.map_or(builder.clone(), |k| builder.fan_out(k.try_into().expect("not 0"))).encode()
}

impl Bench {
    fn send(&mut self, packets: &[(FaceId, Vec<u8>)]) -> Vec<Outgoing> {
        let received = packets.iter().map(|(face, wire)| Received {
            face: *face,
            fields: LinkFields::default(),
            packet: Packet::copy_from(wire),
        });
        self.poll(received.collect())
    }

    /// The faces that a packet goes to, and the fan-out limit of each copy.
    fn copies(&mut self, from: FaceId, wire: Vec<u8>) -> Vec<(FaceId, Option<u16>)> {
        let mut copies: Vec<_> = self
            .send(&[(from, wire)])
            .iter()
            .map(|sent| {
                let packet = TagPacket::decode(&sent.packet).expect("it was forwarded");
                assert_eq!((packet.hop_limit.value, packet.payload), (8, &b"x"[..]));
                (sent.face, packet.fan_out.map(|fan_out| fan_out.limit.get()))
            })
            .collect();
        copies.sort_unstable();
        copies
    }
}

#[test]
fn anycast_goes_to_the_largest_subset_that_has_a_face_to_go_to() {
    let (mut router, _) = router(&[
        ("a", &[(TREE, HOST_2)]),
        ("a b", &[(TREE, HOST), (TREE, APP)]),
        ("a b c", &[(TREE, HOST), (OTHER_TREE, HOST_3)]),
        ("d", &[(TREE, FaceId(999))]),
    ]);
    assert_eq!(router.copies(APP, ask("a b c x", Some(1))), [(HOST, Some(1))]);
    // The only face of the largest subset on this tree is the ingress of the packet.
    assert_eq!(router.copies(HOST, ask("a b c x", Some(1))), [(APP, Some(1))]);
    assert_eq!(router.copies(HOST, ask("a c", Some(1))), [(HOST_2, Some(1))]);
    assert_eq!(router.copies(HOST_2, ask("a c", Some(1))), []);
    assert_eq!(router.copies(HOST, ask("d", Some(1))), [], "a face that is not there");
    assert_eq!(router.copies(HOST, ask("b c", None)), []);
    assert_eq!(router.dropped(DropReason::NoSubset), 3);
    let counters = router.worker.counters().faces;
    assert_eq!((counters.in_tag_packets, counters.out_tag_packets), (6, 3));
}

#[test]
fn a_packet_that_begins_here_stays_on_the_generation_in_service() {
    let generation = TreeId(9);
    let (mut router, label) = router(&[("a", &[(TREE, HOST), (generation, HOST_2), (TreeId(17), HOST_3)])]);
    let mut trees = router.tables.trees().as_ref().clone();
    trees.set_generations(TREE, [TreeId(17), generation], Some(generation));
    router.tables.replace_trees(trees);
    let sent = |router: &mut Bench, from, wire: Vec<u8>| {
        let sent = router.send(&[(from, wire)]);
        let tree = |sent: &Outgoing| TagPacket::decode(&sent.packet).expect("it was forwarded").tree;
        sent.iter().map(|sent| (sent.face, tree(sent))).collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut router, APP, ask("a", None)), [(HOST_2, generation)]);
    let source = address(label, APP);
    let with_source = TagPacketBuilder::new(TREE, &tags("a")).source(source).fan_out(1.try_into().expect("not 0"));
    let copies = router.send(&[(APP, with_source.encode())]);
    let packet = TagPacket::decode(&copies[0].packet).expect("it was forwarded");
    assert_eq!((packet.tree, packet.source, copies[0].face), (generation, Some(source), HOST_2));
    let on = |tree| TagPacketBuilder::new(tree, &tags("a")).hop_limit(9).encode();
    // A packet on its way stays where it is, also on a generation that is not in service here.
    assert_eq!(sent(&mut router, HOST_2, on(TreeId(17))), [(HOST_3, TreeId(17))]);
    assert_eq!(sent(&mut router, HOST, on(generation)), [(HOST_2, generation)]);
    assert_eq!(sent(&mut router, HOST, on(TreeId(25))), []);
    assert_eq!(router.dropped(DropReason::NoSuchTree), 1);
}

#[test]
fn a_packet_to_all_goes_to_each_face_once_and_not_back() {
    let (mut router, _) = router(&[
        ("a", &[(TREE, HOST), (TREE, APP)]),
        ("b", &[(TREE, HOST), (TREE, HOST_2), (TREE, APP_2)]),
        ("a b", &[(OTHER_TREE, HOST_3)]),
        ("c", &[(TREE, HOST_3)]),
    ]);
    assert_eq!(router.copies(HOST, ask("a b", None)), [(APP, None), (APP_2, None), (HOST_2, None)]);
    let filter = TagPacketBuilder::of_filter(TREE, tags("a b").filter()).payload(b"x").hop_limit(9).encode();
    assert_eq!(router.copies(APP, filter), [(APP_2, None), (HOST, None), (HOST_2, None)]);
}

#[test]
fn a_fan_out_limit_is_split_over_the_copies() {
    let all = [(TREE, APP), (TREE, APP_2), (TREE, HOST), (TREE, HOST_2)];
    let (mut router, _) = router(&[("a", &all)]);
    for k in 1..20 {
        let copies = router.copies(HOST_3, ask("a", Some(k)));
        let limits = copies.iter().map(|(_, limit)| limit.expect("it had one"));
        assert_eq!((limits.clone().sum::<u16>(), copies.len()), (k, usize::from(k.min(4))));
        assert!(limits.clone().max() <= limits.min().map(|least| least + 1));
    }
}

#[test]
fn hop_limits_end_at_applications() {
    let (mut router, label) = router(&[("a", &[(TREE, HOST), (TREE, APP)])]);
    router.worker.set_endpoint(APP);
    let hops = |hops| TagPacketBuilder::new(TREE, &tags("a")).hop_limit(hops).encode();
    let sent = |router: &mut Bench, wire| router.send(&[(HOST_2, wire)]).iter().map(|o| o.face).collect::<Vec<_>>();
    assert_eq!(sent(&mut router, hops(0)), []);
    assert_eq!(sent(&mut router, hops(1)), [APP]);
    assert_eq!(sent(&mut router, hops(2)), [APP, HOST]);
    let hops = |label, hops| LocatorPacketBuilder::new(address(label, APP)).hop_limit(hops).encode();
    assert_eq!(sent(&mut router, hops(label, 0)), []);
    assert_eq!(sent(&mut router, hops(label, 1)), []);
    assert_eq!(sent(&mut router, hops(label, 2)), [HOST]);
    assert_eq!(sent(&mut router, hops(Label::new(0), 1)), [APP]);
    assert_eq!(router.dropped(DropReason::HopLimit), 3);
}

#[test]
fn locators_lead_to_neighbours_and_to_applications_that_asked_for_one() {
    let (mut router, label) = router(&[]);
    let to = |label, endpoint| LocatorPacketBuilder::new(address(label, endpoint)).payload(b"x").encode();
    let sent = router.send(&[(HOST_2, to(label, APP)), (APP, to(Label::new(0), APP_2))]);
    let faces: Vec<_> = sent.iter().map(|sent| sent.face).collect();
    assert_eq!(faces, [HOST]);
    let packet = LocatorPacket::decode(&sent[0].packet).expect("it was forwarded");
    assert_eq!((packet.destination, packet.payload), (address(label, APP), &b"x"[..]));
    assert_eq!(router.dropped(DropReason::NoSuchEndpoint), 1);
    assert!(router.worker.set_endpoint(APP_2) && !router.worker.set_endpoint(FaceId(999)));
    assert_eq!(router.send(&[(APP, to(Label::new(0), APP_2))])[0].face, APP_2);
    // A node that does not exist, and one in the direction that the packet came from.
    assert!(router.send(&[(APP, to(Label::new(99), APP)), (HOST, to(label, APP))]).is_empty());
    assert_eq!(router.dropped(DropReason::Label), 2);
    let mut strange = address(label, APP);
    strange.locator.tree = TreeId(3);
    assert!(router.send(&[(APP, LocatorPacketBuilder::new(strange).encode())]).is_empty());
    let strange = TagPacketBuilder::new(TreeId(3), &tags("a")).encode();
    assert!(router.send(&[(APP, strange), (FaceId(999), to(label, APP)), (APP, vec![0xc1, 0])]).is_empty());
    let counts =
        [DropReason::NoSuchTree, DropReason::UnknownFace, DropReason::Malformed].map(|reason| router.dropped(reason));
    assert_eq!(counts, [2, 1, 1]);
}

#[test]
fn a_burst_may_have_packets_of_all_kinds() {
    let (mut router, label) = router(&[("a", &[(TREE, HOST), (TREE, HOST_2)])]);
    router.route("/a", &[HOST_3]);
    let mut packets = Vec::new();
    for i in 0..200u32 {
        let interest = InterestBuilder::new(name(&format!("/a/{i}")), i).encode();
        let located = LocatorPacketBuilder::new(address(label, APP)).encode();
        packets.extend([interest, ask("a b", Some(1)), ask("a", None), located].map(|wire| (APP, wire)));
    }
    let sent = router.send(&packets);
    let to = |face| sent.iter().filter(|sent| sent.face == face).count();
    assert_eq!([HOST, HOST_2, HOST_3].map(to), [600, 200, 200]);
}

#[test]
fn a_search_without_end_is_cut_off_and_counted() {
    let many: Vec<(TreeId, FaceId)> = (0..4000).map(|i| (TREE, FaceId(10_000 + i))).collect();
    let texts: Vec<String> = (0..32).map(|i| format!("t{i}")).collect();
    let advertised: Vec<(&str, &[(TreeId, FaceId)])> = texts.iter().map(|text| (text.as_str(), &many[..])).collect();
    let (mut router, _) = router(&advertised);
    assert!(router.copies(APP, ask(&texts.join(" "), None)).is_empty());
    assert_eq!((router.dropped(DropReason::SubsetsCutOff), router.dropped(DropReason::NoSubset)), (1, 1));
}
