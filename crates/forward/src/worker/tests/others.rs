//! Packets of one peer must neither harm another peer nor mix up the records of both.

use super::*;
use crate::pit_cs::SlotId;

#[test]
fn a_burst_of_garbage_does_not_take_along_what_comes_after() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    let received =
        |bytes: &[u8]| Received { face: APP, fields: LinkFields::default(), packet: Packet::copy_from(bytes) };
    let mut input: Vec<_> = (0..2 * BURST_MAX).map(|_| received(&[5, 0])).collect();
    input.push(received(&interest("/a/b", 1).encode()));
    assert_eq!(shape(&b.poll(input)), ["I300"]);
}

#[test]
fn who_asks_in_one_burst_is_sent_with_the_nonce_that_is_recorded() {
    let mut b = bench();
    b.route("/a", &[HOST, HOST_2]);
    let received = |face, nonce| Received {
        face,
        fields: LinkFields::default(),
        packet: Packet::copy_from(&interest("/a/b", nonce).encode()),
    };
    let sent = b.poll(vec![received(APP, 1), received(APP_2, 2)]);
    assert_eq!(shape(&sent), ["I300"]);
    let nack = |reason| LinkFields { nack: Some(reason), ..Default::default() };
    let next = b.receive_with(HOST, &sent[0].packet, nack(NackReason::NoRoute));
    assert_eq!(shape(&next), ["I301"], "the peer refuses what it was sent");
    assert!(b.receive(APP, &interest("/a/b", 3).encode()).is_empty(), "suppressed");
    let refused = b.receive_with(HOST_2, &next[0].packet, nack(NackReason::NoRoute));
    assert_eq!(shape(&refused), ["N256", "N257"]);
    assert_eq!(b.dropped(DropReason::UnsolicitedNack), 0);
}

#[test]
fn hops_left_are_those_of_the_packet_that_is_sent() {
    let mut b = bench();
    b.route("/a", &[APP_2, HOST]);
    assert_eq!(shape(&b.receive(HOST_2, &interest("/a/b", 1).encode())), ["I257"]);
    b.wait(Duration::from_millis(20));
    let again = b.receive(HOST_3, &interest("/a/b", 2).hop_limit(1).encode());
    assert_eq!(shape(&again), ["I257"], "no hop left for another host");
    b.wait(Duration::from_millis(50));
    assert_eq!(shape(&b.receive(HOST_3, &interest("/a/b", 3).hop_limit(9).encode())), ["I300"]);
}

#[test]
fn an_upstream_that_asks_in_its_turn_does_not_end_the_wait_of_others() {
    for strategy in ["best-route/v=5", "multicast/v=5", "asf/v=5", "access/v=1", "random/v=1"] {
        let mut b = bench();
        b.route("/a", &[HOST]);
        let strategy = name(&format!("/localhost/nfd/strategy/{strategy}"));
        b.worker.set_strategy_choices(&[StrategyChoice { prefix: name("/"), strategy }]);
        assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
        b.wait(Duration::from_millis(20));
        assert!(b.receive(HOST, &interest("/a/b", 2).encode()).is_empty());
        assert_eq!(shape(&b.receive(HOST, &data("/a/b"))), ["D256"]);
    }
}

#[test]
fn a_nexthop_that_cannot_be_used_does_not_end_the_wait_of_others() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.worker.set_local_fields(APP_2, true);
    assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
    let fields = LinkFields { next_hop_face_id: Some(FaceId(999)), ..Default::default() };
    assert!(b.receive_with(APP_2, &interest("/a/b", 2).encode(), fields).is_empty());
    assert_eq!(shape(&b.receive(HOST, &data("/a/b"))), ["D256", "D257"]);
}

#[test]
fn after_a_nack_an_interest_stays_on_the_way_that_was_chosen_for_it() {
    let mut b = bench();
    b.route("/a", &[HOST_3]);
    b.route("/isp", &[HOST, HOST_2]);
    let nack = || LinkFields { nack: Some(NackReason::NoRoute), ..Default::default() };
    let hinted = interest("/a/b", 1).forwarding_hint(vec![name("/isp")]).encode();
    assert_eq!(shape(&b.receive(APP, &hinted)), ["I300"]);
    assert_eq!(shape(&b.receive_with(HOST, &hinted, nack())), ["I301"], "by the hint");
    assert_eq!(shape(&b.receive_with(HOST_2, &hinted, nack())), ["N256"]);

    b.worker.set_local_fields(APP, true);
    let fields = LinkFields { next_hop_face_id: Some(HOST_2), ..Default::default() };
    let directed = interest("/a/c", 2).encode();
    assert_eq!(shape(&b.receive_with(APP, &directed, fields)), ["I301"]);
    assert_eq!(shape(&b.receive_with(HOST_2, &directed, nack())), ["N256"], "there and nowhere else");
}

#[test]
fn data_for_very_many_who_wait_does_not_hold_up_the_worker() {
    let mut b = bench();
    b.route("/", &[HOST]);
    let faces: Vec<FaceId> = (1000..1200).map(FaceId).collect();
    for &face in &faces {
        b.worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
    }
    let deep = (0..100).map(|i| format!("/{i}")).collect::<String>();
    let whole = name(&deep);
    let mut waiting = 0u32;
    for depth in 1..=100 {
        let prefix = whole.as_ref().prefix(depth).to_name();
        for &face in &faces {
            waiting += 1;
            let pit_token = PitToken::new(&waiting.to_be_bytes()).expect("short");
            let interest = InterestBuilder::new(prefix.clone(), waiting).can_be_prefix(true).encode();
            b.receive_with(face, &interest, LinkFields { pit_token, ..Default::default() });
        }
    }
    let start = std::time::Instant::now();
    assert_eq!(b.receive(HOST, &data(&deep)).len(), waiting as usize);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn who_waits_with_several_interests_is_answered_once() {
    let mut b = bench();
    b.route("/", &[HOST]);
    for (i, face) in (1000..1100).map(FaceId).enumerate() {
        b.worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
        for (j, uri) in ["/a", "/a/b"].into_iter().enumerate() {
            b.receive(face, &interest(uri, (2 * i + j) as u32).can_be_prefix(true).encode());
        }
    }
    assert_eq!(b.receive(HOST, &data("/a/b/c")).len(), 100);
}

#[test]
fn extreme_parameters_of_strategies_are_harmless() {
    // The last parameter is refused, so the default strategy serves.
    for parameters in [
        "retx-suppression-multiplier~1e300",
        "retx-suppression-max~9223372036854775807",
        "retx-suppression-max~18446744073709551615",
    ] {
        let mut b = bench();
        b.route("/a", &[HOST]);
        let strategy = name(&format!("/localhost/nfd/strategy/best-route/v=5/{parameters}"));
        b.worker.set_strategy_choices(&[StrategyChoice { prefix: name("/"), strategy }]);
        assert_eq!(shape(&b.receive(APP, &interest("/a/b", 1).encode())), ["I300"]);
        b.wait(Duration::from_millis(300));
        assert_eq!(shape(&b.receive(APP, &interest("/a/b", 2).encode())), ["I300"]);
    }
}

#[test]
fn a_content_store_of_any_capacity_is_made() {
    for cs_policy in [CsPolicy::Lru, CsPolicy::S3Fifo] {
        let mut b = bench_with(WorkerConfig { cs_policy, ..Default::default() });
        b.route("/a", &[HOST]);
        b.worker.cs_config(Some(usize::MAX), None, None);
        b.receive(APP, &interest("/a/b", 1).encode());
        assert_eq!(shape(&b.receive(HOST, &data("/a/b"))), ["D256"]);
        assert_eq!(b.worker.cs_info().packets, 1);
    }
}

#[test]
fn downstreams_of_all_entries_together_are_bounded() {
    let mut b = bench_with(WorkerConfig { pit_entries_max: 100, ..Default::default() });
    b.route("/", &[HOST]);
    let faces: Vec<FaceId> = (1000..1050).map(FaceId).collect();
    for &face in &faces {
        b.worker.face_up(face, Scope::NonLocal, LinkType::PointToPoint);
    }
    b.receive(APP, &interest("/good", 0).encode());
    for i in 0..90 {
        for (j, &face) in faces.iter().enumerate() {
            b.receive(face, &interest(&format!("/flood/{i}"), 1 + 100 * i + j as u32).encode());
            let slots: Vec<SlotId> = b.worker.shard.table.pending().collect();
            let downstreams = |s: &SlotId| b.worker.shard.table.slot(*s).pit().map_or(0, |p| p.in_records.len());
            assert!(slots.iter().map(downstreams).sum::<usize>() <= 200);
        }
    }
    assert_eq!(shape(&b.receive(HOST, &data("/good"))), ["D256"]);
}

#[test]
fn a_nonce_sent_to_who_answered_is_dead_if_the_data_goes_stale_at_once() {
    let mut b = bench();
    b.route("/a", &[HOST]);
    b.receive(APP, &interest("/a/b", 1).must_be_fresh(true).encode());
    let stale = DataBuilder::new(name("/a/b")).encode();
    assert_eq!(shape(&b.receive(HOST, &stale)), ["D256"]);
    // The upstream forwarded the Interest before it answered, and the Interest loops back another way.
    let looped = b.receive(HOST_2, &interest("/a/b", 1).must_be_fresh(true).encode());
    assert_eq!(shape(&looped), ["N301"]);
    assert_eq!(looped[0].fields.nack, Some(NackReason::Duplicate));
}

#[test]
fn pending_interests_are_bounded_in_bytes_too() {
    let mut b = bench_with(WorkerConfig { pit_entries_max: 1000, ..Default::default() });
    b.route("/", &[HOST]);
    b.receive(APP, &interest("/good", 0).encode());
    let long = "x".repeat(8000);
    for i in 0..1000 {
        b.receive(HOST_2, &interest(&format!("/{i}/{long}"), 1 + i).encode());
    }
    let bytes = |s| b.worker.shard.table.slot(s).packet.memory_bytes();
    assert!(b.worker.shard.table.pending().map(bytes).sum::<usize>() <= 1000 * 1024 + 9216);
    assert_eq!(shape(&b.receive(HOST, &data("/good"))), ["D256"]);
}
