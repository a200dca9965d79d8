//! Live traces, as of `byname trace`: a page starts one, reads what is new again and again, and stops it.
//!
//! A trace is that of a guest at management's door. There are few: packet threads watch for few at a time, and some
//! places are left for `byname trace`. A trace that no page reads makes room for another one.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use byname_control::mgmt::Command;
use byname_control::mgmt::json::trace::Event;
use byname_control::mgmt::tlv::trace::{TraceChunk, TraceEvent, trace_flags};
use byname_control::mgmt::tlv::{ControlParameters, Element};
use byname_control::service::{Door, GUESTS};
use byname_wire::DecodeError;
use byname_wire::tlv::Reader;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answers::{Failure, to_json};
use super::commands::{send, succeeded};
use super::faces::Faces;
use super::questions::Questions;

/// How long a trace lives without a reader.
const KEPT: Duration = Duration::from_secs(8);
/// Most parts of the stream for one answer.
const PARTS_MAX: usize = 8;
/// Most bytes of an event that has not arrived as a whole.
const REST_BYTES_MAX: usize = 1 << 16;

/// The traces. The first guest sends other commands, so it has none.
#[derive(Default)]
pub struct Traces {
    seats: [Mutex<Option<Trace>>; GUESTS - 1],
    /// Number of traces so far.
    count: std::sync::atomic::AtomicU64,
}

struct Trace {
    id: String,
    used: Instant,
    /// Number of bytes of the stream that were read.
    offset: u64,
    /// Bytes that are not yet a whole event.
    rest: Vec<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    prefix: String,
    #[serde(default)]
    only_dropped: bool,
}

#[derive(Serialize)]
struct News {
    events: Vec<Event>,
    /// Events so far that found no room.
    lost: u64,
}

impl Traces {
    /// Starts a trace.
    pub async fn start(&self, door: &Door, body: &[u8]) -> Result<String, Failure> {
        let wanted: Wanted = serde_json::from_slice(body).map_err(|error| Failure::malformed(error.to_string()))?;
        let prefix = wanted.prefix.parse().map_err(|error| Failure::malformed(format!("`prefix`: {error}")))?;
        let flags = if wanted.only_dropped { trace_flags::ONLY_DROPPED } else { 0 };
        for (seat, place) in self.seats.iter().enumerate() {
            // A place in use right now is taken.
            let Ok(mut place) = place.try_lock() else { continue };
            if place.as_ref().is_some_and(|trace| trace.used.elapsed() < KEPT) {
                continue;
            }
            let parameters = ControlParameters { name: Some(prefix), flags: Some(flags), ..Default::default() };
            succeeded(&send(door, seat + 1, Command::TraceStart, parameters).await?)?;
            let number = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let id = format!("{seat}-{number}");
            *place = Some(Trace { id: id.clone(), used: Instant::now(), offset: 0, rest: Vec::new() });
            return Ok(serde_json::json!({ "id": id }).to_string());
        }
        Err(Failure::new(StatusCode::CONFLICT, "other pages trace already, as many as can"))
    }

    /// What has happened since the last call.
    pub async fn read(&self, door: &Door, questions: &Questions, faces: &Faces, id: &str) -> Result<String, Failure> {
        let (events, lost) = self.new_events(door, id).await?;
        let named = |event: &TraceEvent| event.sent.iter().map(|sent| sent.face_id).chain([event.face_id]).collect();
        let ids: BTreeSet<u64> = events.iter().flat_map(|event| -> Vec<u64> { named(event) }).collect();
        let known = faces.uris(questions, &ids).await?;
        let uris: HashMap<u64, Option<String>> = known.into_iter().map(|(id, uri)| (id, Some(uri))).collect();
        let events = events.into_iter().map(|event| Event::new(event, &uris)).collect();
        Ok(to_json(&News { events, lost }))
    }

    async fn new_events(&self, door: &Door, id: &str) -> Result<(Vec<TraceEvent>, u64), Failure> {
        let seat = self.seat(id)?;
        let mut place = self.seats[seat].lock().await;
        let trace = place.as_mut().filter(|trace| trace.id == id).ok_or_else(gone)?;
        let (mut events, mut lost) = (Vec::new(), 0);
        for _ in 0..PARTS_MAX {
            let parameters = ControlParameters { count: Some(trace.offset), ..Default::default() };
            let response = send(door, seat + 1, Command::TraceRead, parameters).await?;
            if response.code == 404 {
                *place = None;
                return Err(gone());
            }
            succeeded(&response)?;
            let malformed = |_| Failure::new(StatusCode::BAD_GATEWAY, "the trace is malformed");
            let chunk = TraceChunk::decode(&response.body).map_err(malformed)?;
            let bytes = chunk.bytes.unwrap_or_default();
            (trace.offset, trace.used, lost) = (chunk.offset + bytes.len() as u64, Instant::now(), chunk.lost);
            trace.rest.extend_from_slice(&bytes);
            take_whole(&mut trace.rest, &mut events).map_err(malformed)?;
            if bytes.is_empty() {
                break;
            }
        }
        Ok((events, lost))
    }

    /// Ends a trace.
    pub async fn stop(&self, door: &Door, id: &str) -> Result<String, Failure> {
        let seat = self.seat(id)?;
        let mut place = self.seats[seat].lock().await;
        if place.take_if(|trace| trace.id == id).is_some() {
            send(door, seat + 1, Command::TraceStop, ControlParameters::default()).await?;
        }
        Ok("{}".to_owned())
    }

    fn seat(&self, id: &str) -> Result<usize, Failure> {
        let seat = id.split_once('-').and_then(|(seat, _)| seat.parse().ok());
        seat.filter(|seat| *seat < self.seats.len()).ok_or_else(gone)
    }
}

fn gone() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "this trace has ended")
}

/// Moves the events that have arrived as a whole.
fn take_whole(stream: &mut Vec<u8>, events: &mut Vec<TraceEvent>) -> Result<(), DecodeError> {
    let (mut reader, mut done) = (Reader::new(stream), 0);
    loop {
        match reader.next_tlv() {
            Ok(Some(tlv)) if tlv.typ == TraceEvent::TYPE => {
                done += tlv.wire.len();
                events.push(TraceEvent::decode_value(tlv.value)?);
            }
            Ok(None) => break,
            Err(DecodeError::Truncated) if stream.len() - done < REST_BYTES_MAX => break,
            Ok(Some(other)) => return Err(DecodeError::UnexpectedCritical(other.typ)),
            Err(error) => return Err(error),
        }
    }
    stream.drain(..done);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_parts() {
        let event = |name: &str| TraceEvent { name: name.parse().expect("a name"), ..TraceEvent::default() };
        let mut stream = event("/a").encode();
        stream.extend(event("/b").encode());
        for part in [1, 7, stream.len()] {
            let (mut rest, mut events) = (Vec::new(), Vec::new());
            for bytes in stream.chunks(part) {
                rest.extend_from_slice(bytes);
                take_whole(&mut rest, &mut events).expect("well-formed");
            }
            assert_eq!(events, [event("/a"), event("/b")]);
            assert!(rest.is_empty());
        }
        let mut strange = vec![7, 1, 0];
        assert!(take_whole(&mut strange, &mut Vec::new()).is_err());
    }
}
