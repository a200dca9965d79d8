//! The module `trace`: what happens to packets below a prefix, as a stream of events.
//!
//! Each face may have one trace. `trace/start` begins it, in place of an older one. `trace/read` returns the next part of
//! the stream. Its Count is the number of bytes that the reader has, so a lost answer can be asked for again. A trace ends
//! with `trace/stop`, with its face, or if nobody reads it for a while.

use std::collections::HashMap;

use byname_face::ForwarderHandle;
use byname_face::io_loop::Seen;
use byname_forward::FaceId;
use byname_forward::trace::{Event, Filter, PitOutcome, Sent, Subject, Way};

use super::tlv::trace::{TraceChunk, TraceEvent, TraceSent, TraceTime, trace_flags};
use super::tlv::{ControlParameters, ControlResponse, Element, StrategyName};
use super::{Management, Moment};

/// How long a trace goes on without a reader.
const KEPT_MS: u64 = 10_000;
/// Most bytes of the stream in one answer.
const CHUNK_BYTES: usize = 6000;
/// Most events taken from a packet thread for one answer.
const EVENTS_PER_READ: usize = 32;

/// One trace.
struct Trace {
    /// Bytes of the stream that the reader may not have yet.
    stream: Vec<u8>,
    /// Number of bytes of the stream before `stream`.
    offset: u64,
    lost: u64,
    read_ms: u64,
}

/// All traces, by the face of their reader.
#[derive(Default)]
pub(super) struct Traces {
    traces: HashMap<FaceId, Trace>,
}

impl Traces {
    /// When [`Traces::expire`] must be called.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.traces.values().map(|trace| trace.read_ms.saturating_add(KEPT_MS)).min()
    }

    /// Ends the traces that nobody reads.
    pub fn expire(&mut self, forwarder: &ForwarderHandle, now_ms: u64) {
        let is_over = |trace: &Trace| now_ms.saturating_sub(trace.read_ms) >= KEPT_MS;
        let over: Vec<FaceId> = self.traces.iter().filter(|(_, trace)| is_over(trace)).map(|(face, _)| *face).collect();
        over.into_iter().for_each(|face| self.stop(forwarder, face));
    }

    /// Ends the trace of a face, if it has one.
    pub fn stop(&mut self, forwarder: &ForwarderHandle, face: FaceId) {
        if self.traces.remove(&face).is_some() {
            forwarder.unwatch(face.0);
        }
    }
}

impl Management {
    pub(super) fn trace_start(
        &mut self,
        parameters: &ControlParameters,
        incoming: FaceId,
        now: Moment,
    ) -> ControlResponse {
        let flags = parameters.flags.unwrap_or(0);
        if flags & !(trace_flags::ONLY_DROPPED | trace_flags::WITH_PACKETS) != 0 {
            return ControlResponse::new(400, "Unknown flags");
        }
        self.traces.stop(&self.forwarder, incoming);
        let filter = Filter {
            prefix: parameters.name.clone().unwrap_or_default(),
            only_dropped: flags & trace_flags::ONLY_DROPPED != 0,
            with_packets: flags & trace_flags::WITH_PACKETS != 0,
        };
        if !self.forwarder.watch(incoming.0, filter) {
            return ControlResponse::new(503, "Others trace already, as many as can");
        }
        let trace = Trace { stream: Vec::new(), offset: 0, lost: 0, read_ms: now.ms };
        self.traces.traces.insert(incoming, trace);
        ControlResponse::ok(parameters)
    }

    pub(super) fn trace_read(
        &mut self,
        parameters: &ControlParameters,
        incoming: FaceId,
        now: Moment,
    ) -> ControlResponse {
        let Some(trace) = self.traces.traces.get_mut(&incoming) else {
            return ControlResponse::new(404, "This face has no trace");
        };
        let known =
            parameters.count.unwrap_or(0).checked_sub(trace.offset).and_then(|known| usize::try_from(known).ok());
        let Some(known) = known.filter(|known| *known <= trace.stream.len()) else {
            return ControlResponse::new(400, "Count is not a place in what was sent last");
        };
        trace.read_ms = now.ms;
        trace.stream.drain(..known);
        trace.offset += known as u64;
        if trace.stream.len() < CHUNK_BYTES {
            let (events, lost) = self.forwarder.take_events(incoming.0, EVENTS_PER_READ);
            trace.lost += lost;
            events.into_iter().for_each(|seen| encoded(seen, now).encode_to(&mut trace.stream));
        }
        let bytes = trace.stream[..trace.stream.len().min(CHUNK_BYTES)].to_vec();
        let chunk = TraceChunk { offset: trace.offset, lost: trace.lost, bytes: Some(bytes) };
        ControlResponse { body: chunk.encode(), ..ControlResponse::new(200, "OK") }
    }

    pub(super) fn trace_stop(&mut self, parameters: &ControlParameters, incoming: FaceId) -> ControlResponse {
        self.traces.stop(&self.forwarder, incoming);
        ControlResponse::ok(parameters)
    }
}

fn encoded(Seen { thread, age, event }: Seen, now: Moment) -> TraceEvent {
    let times = event.times.map(|times| {
        let all =
            [("waited", times.waited), ("pit-cs", times.pit_cs), ("fib", times.fib), ("strategy", times.strategy)];
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        all.map(|(stage, time)| TraceTime { stage: stage.to_owned(), time_ns: ns(time) })
    });
    let age_us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
    TraceEvent {
        at_unix_us: now.unix_ms.saturating_mul(1000).saturating_sub(age_us),
        thread: thread as u64,
        subject: event.subject.label().to_owned(),
        nack: nack(event.subject),
        face_id: event.face.0,
        packet_bytes: event.bytes as u64,
        nonce: event.nonce.map(u64::from),
        can_be_prefix: event.can_be_prefix.then_some(1),
        must_be_fresh: event.must_be_fresh.then_some(1),
        pit: event.pit.map(|pit| pit.label().to_owned()),
        satisfied: match event.pit {
            Some(PitOutcome::Satisfied(count)) => Some(count),
            _ => None,
        },
        store: event.store.map(|store| store.label().to_owned()),
        way: event.way.map(|way| way_word(way).to_owned()),
        rule: rule(&event),
        why: event.strategy.as_ref().map(|(_, why)| why.words().to_owned()),
        strategy: event.strategy.map(|(name, _)| StrategyName(name)),
        sent: event.sent.iter().map(sent).collect(),
        dropped: event.dropped.map(str::to_owned),
        times: times.into_iter().flatten().collect(),
        packet: event.packet.map(|packet| packet.to_vec()),
        name: event.name,
    }
}

fn way_word(way: Way) -> &'static str {
    match way {
        Way::Rule(_) => "rule",
        Way::NoRule => "no-rule",
        Way::Hint => "hint",
        Way::Chosen => "chosen",
    }
}

fn rule(event: &Event) -> Option<byname_wire::Name> {
    match event.way {
        Some(Way::Rule(depth)) => Some(event.name.as_ref().prefix(depth).to_name()),
        _ => None,
    }
}

fn nack(subject: Subject) -> Option<u64> {
    match subject {
        Subject::Nack(reason) => Some(reason.number()),
        _ => None,
    }
}

fn sent(sent: &Sent) -> TraceSent {
    TraceSent { face_id: sent.face.0, subject: sent.subject.label().to_owned(), nack: nack(sent.subject) }
}
