//! Round trips, and vectors from ndn-cxx's unit tests (`tests/unit/mgmt/nfd`).

use super::*;
use byname_wire::{DecodeError, Name};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter(u8::is_ascii_hexdigit).map(|b| (b as char).to_digit(16).expect("hex") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

fn check<T: Element + PartialEq + std::fmt::Debug>(value: &T, wire: &str) {
    let wire = hex(wire);
    assert_eq!(value.encode(), wire);
    assert_eq!(&T::decode(&wire).expect("a vector"), value);
    for cut in 0..wire.len() {
        assert!(T::decode(&wire[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn control_parameters_of_a_registration() {
    let parameters = ControlParameters {
        name: Some(name("/localhost/reg/test")),
        face_id: Some(0),
        origin: Some(255),
        cost: Some(0),
        flags: Some(1),
        ..ControlParameters::default()
    };
    // Assembled by hand.
    check(
        &parameters,
        "68 24 07 16 08 09 6c6f63616c686f7374 08 03 726567 08 04 74657374
         69 01 00 6f 01 ff 6a 01 00 6c 01 01",
    );
}

#[test]
fn control_parameters_with_every_field() {
    let parameters = ControlParameters {
        name: Some(name("/A/B")),
        face_id: Some(3_000),
        uri: Some("udp4://192.0.2.1:6363".into()),
        local_uri: Some("udp4://192.0.2.2:6363".into()),
        origin: Some(65),
        cost: Some(1_000_000),
        capacity: Some(u64::MAX),
        count: Some(2),
        flags: Some(1),
        mask: Some(3),
        strategy: Some(StrategyName(name("/localhost/nfd/strategy/asf"))),
        expiration_period_ms: Some(i64::MAX as u64),
        face_persistency: Some(2),
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold_bytes: Some(65_536),
        mtu: Some(1_400),
        thread: Some(63),
        label: Some(name("/up/1")),
    };
    assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters));
}

#[test]
fn link_settings_stand_before_flags_and_persistency_for_python_ndn() {
    let parameters = ControlParameters {
        face_id: Some(300),
        flags: Some(4),
        face_persistency: Some(0),
        base_congestion_marking_interval_ns: Some(100),
        default_congestion_threshold_bytes: Some(200),
        mtu: Some(210),
        ..ControlParameters::default()
    };
    assert_eq!(parameters.encode(), hex("68 13 69 02 012c 6c 01 04 85 01 00 87 01 64 88 01 c8 89 01 d2"));
    let first = parameters.encode_link_settings_first();
    assert_eq!(first, hex("68 13 69 02 012c 87 01 64 88 01 c8 89 01 d2 6c 01 04 85 01 00"));
    assert_eq!(ControlParameters::decode(&first), Ok(parameters));
}

#[test]
fn fields_come_in_any_order_and_unknown_ones_are_skipped() {
    let decoded =
        ControlParameters::decode(&hex("68 0c 6a 01 07 f1 02 0000 69 01 05 6f 00")).map_err(|e| e.to_string());
    assert!(decoded.is_err(), "an empty number is malformed");
    let decoded = ControlParameters::decode(&hex("68 0a 6a 01 07 f1 02 0000 69 01 05")).unwrap();
    assert_eq!((decoded.cost, decoded.face_id), (Some(7), Some(5)));
    assert_eq!(ControlParameters::decode(&hex("68 02 07 05")), Err(DecodeError::Truncated));
    assert!(ControlParameters::decode(&hex("68 05 72 03 ff fe fd")).is_err(), "not UTF-8");
    assert!(ControlParameters::decode(&hex("68 02 6b 00")).is_err(), "a Strategy without a Name");
}

#[test]
fn control_response() {
    let response = ControlResponse::new(404, "Nothing not found");
    // ndn-cxx, control-response.t.cpp.
    check(&response, "65 17 66 02 0194 67 11 4e6f7468696e67206e6f7420666f756e64");
    let body = ControlParameters { face_id: Some(10), ..ControlParameters::default() };
    let response = ControlResponse::ok(&body);
    assert_eq!(response.encode(), hex("65 0c 66 01 c8 67 02 4f4b 68 03 69 01 0a"));
    assert_eq!(ControlResponse::decode(&response.encode()).unwrap().parameters(), Ok(body));
}

#[test]
fn face_status() {
    let status = FaceStatus {
        face_id: 100,
        uri: "tcp4://192.0.2.1:6363".into(),
        local_uri: "tcp4://192.0.2.2:55555".into(),
        expiration_period_ms: Some(10_000),
        face_scope: 1,
        face_persistency: 1,
        link_type: 1,
        base_congestion_marking_interval_ns: Some(5),
        default_congestion_threshold_bytes: Some(7),
        mtu: Some(9),
        n_in_interests: 10,
        n_in_data: 200,
        n_in_nacks: 1,
        n_out_interests: 3_000,
        n_out_data: 4,
        n_out_nacks: 2,
        n_in_bytes: 1_329_719_163,
        n_out_bytes: 999_110_448,
        flags: 7,
        ..FaceStatus::default()
    };
    // ndn-cxx, face-status.t.cpp.
    check(
        &status,
        "80 6a 69 01 64 72 15 746370343a2f2f3139322e302e322e313a36333633
         81 16 746370343a2f2f3139322e302e322e323a3535353535 6d 02 2710
         84 01 01 85 01 01 86 01 01 87 01 05 88 01 07 89 01 09
         90 01 0a 91 01 c8 97 01 01 92 02 0bb8 93 01 04 98 01 02
         94 04 4f41e77b 95 04 3b8d3730 6c 01 07",
    );
    let mut short = status.clone();
    (short.expiration_period_ms, short.mtu) = (None, None);
    assert_eq!(FaceStatus::decode(&short.encode()), Ok(short));
    assert_eq!(FaceStatus::decode(&hex("80 03 69 01 64")), Err(DecodeError::Missing(types::URI)));
}

#[test]
fn channels_filters_and_events() {
    // ndn-cxx, channel-status.t.cpp and face-query-filter.t.cpp.
    check(
        &ChannelStatus { local_uri: "udp4://192.168.2.1".into() },
        "82 14 81 12 756470343a2f2f3139322e3136382e322e31",
    );
    let filter = FaceQueryFilter {
        face_id: Some(100),
        uri_scheme: Some("tcp4".into()),
        uri: Some("tcp4://192.0.2.1:6363".into()),
        local_uri: Some("tcp4://192.0.2.2:55555".into()),
        face_scope: Some(1),
        face_persistency: Some(1),
        link_type: Some(1),
    };
    check(
        &filter,
        "96 41 69 01 64 83 04 74637034 72 15 746370343a2f2f3139322e302e322e313a36333633
         81 16 746370343a2f2f3139322e302e322e323a3535353535 84 01 01 85 01 01 86 01 01",
    );
    assert_eq!(FaceQueryFilter::decode(&hex("96 00")), Ok(FaceQueryFilter::default()));
    let event = FaceEventNotification {
        face_event_kind: FaceEventKind::Created.number(),
        face_id: 20,
        uri: "tcp4://192.0.2.1:55555".into(),
        local_uri: "tcp4://192.0.2.2:6363".into(),
        face_scope: 1,
        face_persistency: 1,
        link_type: 1,
        flags: 3,
    };
    // ndn-cxx, face-event-notification.t.cpp.
    check(
        &event,
        "c0 41 c1 01 01 69 01 14 72 16 746370343a2f2f3139322e302e322e313a3535353535
         81 15 746370343a2f2f3139322e302e322e323a36333633 84 01 01 85 01 01 86 01 01 6c 01 03",
    );
    for n in 0..6 {
        assert_eq!(FaceEventKind::from_number(n).map(FaceEventKind::number), (1..=4).contains(&n).then_some(n));
    }
}

#[test]
fn routes_and_nexthops() {
    let fib = FibEntry {
        name: name("/this/is/a/test"),
        next_hop_records: [(10, 200), (20, 300), (30, 400), (40, 500)]
            .map(|(face_id, cost)| NextHopRecord { face_id, cost })
            .into(),
    };
    // ndn-cxx, fib-entry.t.cpp.
    check(
        &fib,
        "80 38 07 13 08 04 74686973 08 02 6973 08 01 61 08 04 74657374
         81 06 69 01 0a 6a 01 c8 81 07 69 01 14 6a 02 012c
         81 07 69 01 1e 6a 02 0190 81 07 69 01 28 6a 02 01f4",
    );
    let route = Route {
        face_id: 1,
        origin: origin::NLSR,
        cost: 100,
        flags: route_flags::CAPTURE,
        expiration_period_ms: Some(10_000),
        is_stale: None,
    };
    let unlimited = Route { expiration_period_ms: None, ..route.clone() };
    check(&unlimited, "81 0c 69 01 01 6f 01 80 6a 01 64 6c 01 02");
    let inherited =
        Route { face_id: 2, origin: 0, cost: 32, flags: 1, expiration_period_ms: Some(5_000), is_stale: None };
    let rib = RibEntry { name: name("/hello/world"), routes: vec![route, inherited] };
    // ndn-cxx, rib-entry.t.cpp.
    check(
        &rib,
        "80 34 07 0e 08 05 68656c6c6f 08 05 776f726c64
         81 10 69 01 01 6f 01 80 6a 01 64 6c 01 02 6d 02 2710
         81 10 69 01 02 6f 01 00 6a 01 20 6c 01 01 6d 02 1388",
    );
    let list = [rib.encode(), rib.encode()].concat();
    assert_eq!(decode_list::<RibEntry>(&list), Ok(vec![rib.clone(), rib]));
    assert!(decode_list::<ChannelStatus>(&list).is_err());
}

#[test]
fn strategies_and_status() {
    let choice =
        StrategyChoice { name: name("/hello/world"), strategy: StrategyName(name("/some/non/existing/strategy/name")) };
    // ndn-cxx, strategy-choice.t.cpp.
    check(
        &choice,
        "80 39 07 0e 08 05 68656c6c6f 08 05 776f726c64
         6b 27 07 25 08 04 736f6d65 08 03 6e6f6e 08 08 6578697374696e67
         08 08 7374726174656779 08 04 6e616d65",
    );
    let info =
        CsInfo { capacity: 20_177, flags: cs_flags::SERVE, n_cs_entries: 5_509, n_hits: 12_951, n_misses: 28_179 };
    // ndn-cxx, cs-info.t.cpp.
    check(&info, "80 13 83 02 4ed1 6c 01 02 87 02 1585 81 02 3297 82 02 6e13");
    let receive = StageTime { stage: "receive".into(), n_packets: 64, time_ns: 70_000 };
    let fib = StageTime { stage: "fib".into(), ..receive.clone() };
    let thread = ThreadStatus {
        input_depth: Some(2),
        stages: vec![receive, fib],
        n_fib_lines_read: Some(3),
        load_permille: Some(1000),
        busy_ns: Some(u64::MAX),
        n_sleeps: Some(4),
        n_rests: Some(5),
        n_home_packets: Some(6),
        n_foreign_packets: Some(700),
        n_taken_packets: Some(0),
        node: Some(1),
        ..ThreadStatus::default()
    };
    let status = ForwarderStatus {
        nfd_version: "0.6.5-1-g123456".into(),
        start_timestamp_ms: 375_193_249_325,
        current_timestamp_ms: 886_109_034_272,
        n_name_tree_entries: 1_849_943_160,
        n_fib_entries: 621_739_748,
        n_satisfied_interests: Some(8),
        n_unsatisfied_interests: Some(9),
        threads: vec![thread.clone(), ThreadStatus::default()],
        imbalance_percent: Some(150),
        drops: vec![DropCount { reason: "scope".into(), n_packets: 300 }],
        n_out_drops: Some(77),
        closed: vec![CloseCount { reason: "tcp_stalled".into(), n_faces: 3 }],
        ..ForwarderStatus::default()
    };
    let mut value = Vec::new();
    status.encode_value(&mut value);
    assert_eq!(ForwarderStatus::decode_value(&value), Ok(status));
    let wire = thread.encode();
    assert!((0..wire.len()).all(|len| ThreadStatus::decode(&wire[..len]).is_err()), "a thread that is cut short");
    assert!(ForwarderStatus::decode_value(&[]).is_err());
}
