//! Tests of the fetcher.

use super::*;
use byname_wire::Component;
use byname_wire::data::DataBuilder;
use byname_wire::interest::Interest;

const BOUNDS: Bounds = Bounds { in_flight: 40, bytes: 100_000, timeout_ms: 100 };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn purpose(seq: u64) -> Purpose {
    Purpose::Publication { router: RouterId(1), boot: 1, seq }
}

fn segment_data(base: &Name, number: u64, last: u64, content: Vec<u8>) -> Vec<u8> {
    let last = Name::default().join_number(SEGMENT, last);
    let last: Component<'_> = last.as_ref().component(0).unwrap();
    DataBuilder::new(names::segment(base, number)).final_block(last).content(content).encode()
}

fn sent(fetcher: &mut Fetcher, now_ms: u64) -> Vec<Name> {
    let interests = fetcher.send(now_ms, || 7);
    interests.iter().map(|(wire, _)| Interest::decode(wire).unwrap().name.to_name()).collect()
}

fn deliver(fetcher: &mut Fetcher, wire: &[u8], now_ms: u64) -> Option<Ended> {
    let segment = fetcher.on_data(&Data::decode(wire).unwrap())?;
    fetcher.checked(segment, true, now_ms)
}

#[test]
fn an_object_is_put_together_in_any_order() {
    let mut fetcher = Fetcher::new(BOUNDS);
    let base = name("/a/v=1");
    fetcher.start(purpose(1), base.clone(), None, 10_000, false);
    assert_eq!(sent(&mut fetcher, 0), [name("/a/v=1/seg=0")]);
    assert_eq!(deliver(&mut fetcher, &segment_data(&base, 0, 2, vec![0]), 0), None);
    assert_eq!(sent(&mut fetcher, 0), [name("/a/v=1/seg=1"), name("/a/v=1/seg=2")]);
    assert_eq!(deliver(&mut fetcher, &segment_data(&base, 2, 2, vec![2]), 0), None);
    let ended = deliver(&mut fetcher, &segment_data(&base, 1, 2, vec![1]), 0);
    assert_eq!(ended, Some((purpose(1), Some(vec![0, 1, 2]))));
    assert_eq!((fetcher.fetches.len(), fetcher.in_flight[0], fetcher.bytes, fetcher.due_ms()), (0, 0, 0, u64::MAX));
}

#[test]
fn metadata_is_found_by_prefix() {
    let mut fetcher = Fetcher::new(BOUNDS);
    let purpose = Purpose::Metadata { router: RouterId(1), boot: 1 };
    fetcher.start(purpose, name("/a/32=SNAP/32=metadata"), None, 10_000, false);
    let interests = fetcher.send(0, || 7);
    let interest = Interest::decode(&interests[0].0).unwrap();
    assert!(interest.can_be_prefix && interest.must_be_fresh);
    assert_eq!(interest.name.to_name(), name("/a/32=SNAP/32=metadata"));
    let other = segment_data(&name("/a/32=OTHER/32=metadata/v=5"), 0, 0, vec![1]);
    assert_eq!(deliver(&mut fetcher, &other, 0), None);
    let wire = segment_data(&name("/a/32=SNAP/32=metadata/v=5"), 0, 0, vec![1]);
    assert_eq!(deliver(&mut fetcher, &wire, 0), Some((purpose, Some(vec![1]))));
}

#[test]
fn what_is_lost_is_asked_for_again_and_then_given_up() {
    let mut fetcher = Fetcher::new(BOUNDS);
    fetcher.start(purpose(1), name("/a/v=1"), None, 10_000, false);
    let mut asked = 0;
    let mut now_ms = 0;
    let ended = loop {
        asked += sent(&mut fetcher, now_ms).len();
        now_ms = fetcher.due_ms();
        let ended = fetcher.expire(now_ms);
        if !ended.is_empty() {
            break ended;
        }
    };
    assert_eq!((asked, now_ms), (4, 100 + 200 + 400 + 800));
    assert_eq!(ended, [(purpose(1), None)]);
    assert_eq!(fetcher.in_flight, [0, 0]);
}

#[test]
fn a_nack_hastens_the_next_try() {
    let mut fetcher = Fetcher::new(BOUNDS);
    fetcher.start(purpose(1), name("/a/v=1"), None, 10_000, false);
    sent(&mut fetcher, 0);
    fetcher.on_nack(name("/a/v=1/seg=0").as_ref(), 10);
    assert_eq!(fetcher.due_ms(), 35);
    assert!(fetcher.expire(35).is_empty());
    assert_eq!(sent(&mut fetcher, 35).len(), 1);
}

#[test]
fn a_segment_that_is_not_trusted_does_not_count() {
    let mut fetcher = Fetcher::new(BOUNDS);
    let base = name("/a/v=1");
    fetcher.start(purpose(1), base.clone(), None, 10_000, false);
    sent(&mut fetcher, 0);
    let forged = segment_data(&base, 0, 0, vec![6]);
    let segment = fetcher.on_data(&Data::decode(&forged).unwrap()).unwrap();
    // Meanwhile another copy arrives.
    assert_eq!(fetcher.on_data(&Data::decode(&forged).unwrap()), None);
    assert_eq!(fetcher.checked(segment, false, 5), None);
    fetcher.expire(105);
    assert_eq!(sent(&mut fetcher, 105).len(), 1);
    let ended = deliver(&mut fetcher, &segment_data(&base, 0, 0, vec![1]), 106);
    assert_eq!(ended, Some((purpose(1), Some(vec![1]))));
}

#[test]
fn objects_are_bounded() {
    let mut fetcher = Fetcher::new(BOUNDS);
    let claims = [(0, u64::MAX, 10), (0, 1_000_000, 10), (3, 2, 10), (0, 3, 6000)];
    for (i, (number, last, bytes)) in claims.into_iter().enumerate() {
        let base = name(&format!("/a/v={i}"));
        fetcher.start(purpose(i as u64), base.clone(), None, 5_000, false);
        sent(&mut fetcher, 0);
        let number = if number == 0 { 0 } else { continue };
        let ended = deliver(&mut fetcher, &segment_data(&base, number, last, vec![0; bytes]), 0);
        assert_eq!(ended, Some((purpose(i as u64), None)), "{i}");
    }
    // A segment that was not asked for is not even looked at.
    assert_eq!(deliver(&mut fetcher, &segment_data(&name("/a/v=2"), 3, 2, vec![0]), 0), None);
}

#[test]
fn objects_take_turns_within_the_bound() {
    let mut fetcher = Fetcher::new(BOUNDS);
    for i in 0..100 {
        fetcher.start(purpose(i), name(&format!("/a/v={i}")), None, 100_000, false);
    }
    assert_eq!(sent(&mut fetcher, 0).len(), 20);
    assert_eq!(sent(&mut fetcher, 0).len(), 0);
    for i in 0..2 {
        deliver(&mut fetcher, &segment_data(&name(&format!("/a/v={i}")), 0, 100, vec![0]), 1);
    }
    // The others come before the second segments of these two.
    assert_eq!(sent(&mut fetcher, 1), [name("/a/v=20/seg=0"), name("/a/v=21/seg=0")]);
    fetcher.cancel(|_| true);
    assert_eq!((fetcher.fetches.len(), fetcher.in_flight), (0, [0, 0]));
    assert!(fetcher.timeouts.is_empty());
}

#[test]
fn claims_do_not_stop_what_exists() {
    let mut fetcher = Fetcher::new(BOUNDS);
    for i in 0..1000 {
        fetcher.start(purpose(i), name(&format!("/claimed/v={i}")), None, 100_000, true);
    }
    assert_eq!(sent(&mut fetcher, 0).len(), 20);
    fetcher.start(purpose(1000), name("/real/v=1"), None, 100_000, false);
    assert_eq!(sent(&mut fetcher, 0), [name("/real/v=1/seg=0")]);
    // Claims are given up sooner.
    assert!(fetcher.expire(100).is_empty());
    assert_eq!(sent(&mut fetcher, 100).len(), 20 + 1);
    assert_eq!(fetcher.expire(300).len(), 20);
    assert_eq!(sent(&mut fetcher, 300).len(), 20 + 1);
}
