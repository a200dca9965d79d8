//! Transfers from routers and producers of all kinds.

use std::time::Duration;

use byname_wire::data::{DataBuilder, content_type};
use byname_wire::name::component_type;
use byname_wire::{Component, Interest, NackReason, Name};

use super::SECOND;
use super::router::{Host, Reply, name};
use crate::fetch::pipeline::PipelineError;
use crate::fetch::{Discovery, FetchError, FetchOptions, Object};
use crate::session::{Event, FetchId};
use crate::verify::Doubt;

/// The number of the segment that an Interest asks for.
fn segment_of(interest: &Interest<'_>) -> Option<u64> {
    interest.name.component(-1).filter(|last| last.typ == component_type::SEGMENT)?.number()
}

fn content(segment: u64) -> Vec<u8> {
    segment.to_be_bytes().repeat(10)
}

/// A segment that says that `last` is the last one.
fn segment(of: &Name, segment: u64, last: Option<u64>) -> DataBuilder {
    let builder = DataBuilder::new(of.join_number(component_type::SEGMENT, segment)).content(content(segment));
    let Some(last) = last else { return builder };
    let last = Name::default().join_number(component_type::SEGMENT, last);
    let component: Option<Component<'_>> = last.as_ref().component(0);
    builder.final_block(component.expect("one component"))
}

/// An object of so many segments.
fn whole(interest: &Interest<'_>, segments: u64) -> Vec<Reply> {
    match segment_of(interest) {
        Some(number) if number < segments => {
            vec![Reply::Data(segment(&name("/file/v=1"), number, Some(segments - 1)).encode())]
        }
        _ => vec![],
    }
}

fn begin(host: &mut Host, options: FetchOptions) -> FetchId {
    host.with(|session, now, outbox| session.fetch(name("/file/v=1"), options, now, outbox))
}

/// Takes segments until the transfer is over. Returns the content.
fn finish(host: &mut Host, id: FetchId) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    let end = host.now.elapsed + Duration::from_secs(600);
    loop {
        while let Some(chunk) = host.session.take_chunk(id, host.now)? {
            bytes.extend_from_slice(chunk.content());
        }
        if host.session.is_fetched(id) {
            return Ok(bytes);
        }
        assert!(host.step(end), "it takes forever");
    }
}

fn fetch(host: &mut Host, options: FetchOptions) -> Result<Vec<u8>, FetchError> {
    let id = begin(host, options);
    finish(host, id)
}

fn expected(segments: u64) -> Vec<u8> {
    (0..segments).flat_map(content).collect()
}

#[test]
fn an_object_comes_whole_although_packets_are_lost_and_marked() {
    let mut count = 0;
    let mut host = Host::new(move |interest, _| {
        count += 1;
        match count % 7 {
            0 => vec![],
            1 => whole(interest, 500)
                .into_iter()
                .map(|reply| match reply {
                    Reply::Data(data) => Reply::Marked(data),
                    other => other,
                })
                .collect(),
            // Some arrive twice.
            2 => whole(interest, 500).into_iter().chain(whole(interest, 500)).collect(),
            _ => whole(interest, 500),
        }
    });
    let id = begin(&mut host, FetchOptions::default());
    assert_eq!(finish(&mut host, id).unwrap(), expected(500));
    let counters = host.session.fetch_counters(id);
    assert!(counters.retransmissions > 0 && counters.congestion_marks > 0, "{counters:?}");
    assert_eq!((counters.segments, counters.last), (500, Some(499)));
}

#[test]
fn a_transfer_resumes_at_the_segment_that_is_missing() {
    let mut host = Host::new(|interest, _| whole(interest, 20));
    let options = FetchOptions { first: 15, last: Some(19), ..FetchOptions::default() };
    assert_eq!(fetch(&mut host, options).unwrap(), expected(20)[15 * 80..]);
    let options = FetchOptions { first: 20, last: Some(19), ..FetchOptions::default() };
    assert_eq!(fetch(&mut host, options).unwrap(), b"", "nothing was missing");
}

#[test]
fn a_router_that_disappears_in_any_phase_loses_nothing() {
    // The connection is lost after so many steps: before the first answer, within each window, and near the end.
    for steps in (0..40).step_by(3) {
        let mut host = Host::new(|interest, _| whole(interest, 300));
        let id = begin(&mut host, FetchOptions { tries: 2, ..FetchOptions::default() });
        let end = host.now.elapsed + Duration::from_secs(600);
        let mut bytes = Vec::new();
        for _ in 0..steps {
            host.step(end);
            while let Some(chunk) = host.session.take_chunk(id, host.now).unwrap() {
                bytes.extend_from_slice(chunk.content());
            }
        }
        for _ in 0..5 {
            host.lose_connection();
            host.run_for(10 * SECOND);
            host.connect();
        }
        bytes.extend(finish(&mut host, id).unwrap());
        assert!(bytes == expected(300), "after {steps} steps");
    }
}

#[test]
fn a_router_that_disappears_during_the_search_loses_nothing() {
    let mut host = Host::new(|interest, _| match segment_of(interest) {
        None if interest.name.to_string() == "/file" => {
            vec![Reply::Data(segment(&name("/file/v=1"), 0, Some(0)).encode())]
        }
        _ => vec![],
    });
    host.with(|session, now, outbox| session.find(name("/file"), Discovery::Prefix, SECOND, now, outbox));
    host.lose_connection();
    host.run_for(SECOND / 2);
    host.connect();
    let Event::Found { result: Ok(Object::Segmented(object)), .. } = host.event() else { panic!("it is there") };
    assert_eq!(object, name("/file/v=1"));
}

#[test]
fn a_silent_router_ends_the_transfer() {
    let mut host =
        Host::new(|interest, _| segment_of(interest).filter(|n| *n < 3).map_or(vec![], |_| whole(interest, 9)));
    let error = fetch(&mut host, FetchOptions { tries: 4, ..FetchOptions::default() }).unwrap_err();
    assert!(matches!(error, FetchError::Pipeline(PipelineError::Lost { segment: 3, tries: 4 })), "{error}");
}

#[test]
fn data_with_other_names_does_not_count() {
    let mut host = Host::new(|interest, _| {
        let Some(number) = segment_of(interest) else { return vec![] };
        let others = [name("/file/v=2"), name("/file"), name("/file/v=1/seg=0"), name("/")];
        others.iter().map(|other| Reply::Data(segment(other, number, Some(0)).encode())).collect()
    });
    let error = fetch(&mut host, FetchOptions { tries: 2, ..FetchOptions::default() }).unwrap_err();
    assert!(matches!(error, FetchError::Pipeline(PipelineError::Lost { segment: 0, tries: 2 })), "{error}");
}

/// A packet whose signature is wrong.
fn forged(mut packet: Vec<u8>) -> Reply {
    *packet.last_mut().expect("a signature") ^= 1;
    Reply::Data(packet)
}

#[test]
fn a_forged_segment_is_asked_for_again_and_the_object_given_up_if_all_are_forged() {
    for (forgeries, is_fetched) in [(1, true), (2, true), (3, false)] {
        let mut left = forgeries;
        let mut host = Host::new(move |interest, _| {
            if segment_of(interest) == Some(5) && left > 0 {
                left -= 1;
                return vec![forged(segment(&name("/file/v=1"), 5, Some(0)).encode())];
            }
            whole(interest, 9)
        });
        let id = begin(&mut host, FetchOptions::default());
        match finish(&mut host, id) {
            Ok(bytes) => assert!(is_fetched && bytes == expected(9), "{forgeries}"),
            Err(FetchError::Untrusted { name, doubt: Doubt::Digest }) => {
                assert!(!is_fetched && name.to_string() == "/file/v=1/seg=5", "{forgeries}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_end_of_an_object_may_move_further_away_and_never_nearer() {
    let ends = |ends: Vec<Option<u64>>| {
        Host::new(move |interest, _| match segment_of(interest) {
            Some(number) if (number as usize) < ends.len() => {
                vec![Reply::Data(segment(&name("/file/v=1"), number, ends[number as usize]).encode())]
            }
            _ => vec![],
        })
    };
    let options = || FetchOptions { tries: 2, ..FetchOptions::default() };
    let mut grows = ends(vec![Some(1), Some(3), None, Some(4), Some(4)]);
    assert_eq!(fetch(&mut grows, options()).unwrap(), expected(5));
    let mut only_the_last_says = ends(vec![None, None, None, Some(3)]);
    assert_eq!(fetch(&mut only_the_last_says, options()).unwrap(), expected(4));
    for (what, segment, last, before) in [
        (vec![Some(9), Some(5), None], 1, 5, 9),
        (vec![Some(9), Some(0), None], 1, 0, 9),
        (vec![None, None, Some(1)], 2, 1, 2),
        (vec![Some(u64::MAX), Some(3), None], 1, 3, u64::MAX),
    ] {
        match fetch(&mut ends(what), options()).unwrap_err() {
            FetchError::Shrunk { segment: s, last: l, before: b } => assert_eq!((s, l, b), (segment, last, before)),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn an_object_without_end_is_too_large() {
    let endless = |interest: &Interest<'_>| match segment_of(interest) {
        Some(number) => vec![Reply::Data(segment(&name("/file/v=1"), number, None).encode())],
        None => vec![],
    };
    let mut host = Host::new(move |interest, _| endless(interest));
    let options = FetchOptions { bytes_max: 80_000, ..FetchOptions::default() };
    let error = fetch(&mut host, options).unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { bytes_max: 80_000, .. }), "{error}");
    // Segments without content reach the other limit.
    let mut host = Host::new(move |interest, _| vec![Reply::Data(DataBuilder::new(interest.name.to_name()).encode())]);
    let options = FetchOptions { bytes_max: 10, segments_max: 1000, ..FetchOptions::default() };
    let error = fetch(&mut host, options).unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { segments_max: 1000, .. }), "{error}");
}

#[test]
fn while_nobody_takes_segments_only_so_many_are_requested() {
    let mut host = Host::new(|interest, _| match segment_of(interest) {
        Some(number) => vec![Reply::Data(segment(&name("/file/v=1"), number, None).encode())],
        None => vec![],
    });
    begin(&mut host, FetchOptions::default());
    host.run_for(5 * SECOND);
    assert_eq!(host.sent.len(), 8192);
}

#[test]
fn bursts_of_nacks_do_not_end_a_transfer_that_goes_on() {
    let mut tries = [0; 9];
    let mut host = Host::new(move |interest, _| {
        let Some(tries) = segment_of(interest).and_then(|number| tries.get_mut(number as usize)) else { return vec![] };
        *tries += 1;
        match (segment_of(interest), *tries) {
            (Some(2), ..=2) => vec![Reply::Nacks(NackReason::NoRoute, 100)],
            (Some(4), ..=5) => vec![Reply::Nacks(NackReason::Congestion, 100)],
            (Some(6), ..=20) => vec![Reply::Nacks(NackReason::Duplicate, 2)],
            _ => whole(interest, 9),
        }
    });
    // Each burst counts as one refusal, so that there is time for a route to come back.
    match fetch(&mut host, FetchOptions { tries: 300, ..FetchOptions::default() }) {
        Ok(bytes) => assert!(bytes == expected(9)),
        Err(error) => panic!("{error}"),
    }
    let mut host = Host::new(|_, _| vec![Reply::Nacks(NackReason::NoRoute, 100)]);
    let began = host.now.elapsed;
    let error = fetch(&mut host, FetchOptions::default()).unwrap_err();
    assert!(matches!(error, FetchError::Pipeline(PipelineError::Refused { .. })), "{error}");
    assert!(host.now.elapsed - began >= SECOND, "a burst is one refusal");
}

#[test]
fn a_producer_may_say_that_there_is_nothing() {
    let mut host = Host::new(|interest, _| {
        vec![Reply::Data(DataBuilder::new(interest.name.to_name()).content_type(content_type::NACK).encode())]
    });
    let error = fetch(&mut host, FetchOptions::default()).unwrap_err();
    assert!(matches!(error, FetchError::NoSuchData(name) if name.to_string() == "/file/v=1/seg=0"));
}
