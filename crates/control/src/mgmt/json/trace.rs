//! What happened to a packet.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::nack_word;
use crate::mgmt::tlv::trace::{TraceEvent, TraceSent};

/// What happened to one packet. These are the fields of `byname trace --json`, and of the dashboard;
/// `docs/json.md` documents them.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Event {
    pub at_unix_us: u64,
    pub thread: u64,
    pub subject: String,
    pub nack: Option<&'static str>,
    pub name: String,
    pub face_id: u64,
    pub remote_uri: Option<String>,
    pub bytes: u64,
    pub nonce: Option<u64>,
    pub can_be_prefix: bool,
    pub must_be_fresh: bool,
    pub pit: Option<String>,
    pub satisfied: Option<u64>,
    pub store: Option<String>,
    pub way: Option<String>,
    pub rule: Option<String>,
    pub strategy: Option<String>,
    pub why: Option<String>,
    pub sent: Vec<Sent>,
    pub dropped: Option<String>,
    /// By stage, in nanoseconds.
    pub times_ns: BTreeMap<String, u64>,
}

/// A packet that was sent.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Sent {
    pub face_id: u64,
    pub remote_uri: Option<String>,
    pub subject: String,
    pub nack: Option<&'static str>,
}

impl Event {
    /// From the protocol, with URIs as far as they are known.
    pub fn new(event: TraceEvent, uris: &HashMap<u64, Option<String>>) -> Self {
        let uri = |face: u64| uris.get(&face).cloned().flatten();
        let sent = |sent: TraceSent| Sent {
            face_id: sent.face_id,
            remote_uri: uri(sent.face_id),
            subject: sent.subject,
            nack: sent.nack.map(nack_word),
        };
        Event {
            at_unix_us: event.at_unix_us,
            thread: event.thread,
            subject: event.subject,
            nack: event.nack.map(nack_word),
            name: event.name.to_string(),
            face_id: event.face_id,
            remote_uri: uri(event.face_id),
            bytes: event.packet_bytes,
            nonce: event.nonce,
            can_be_prefix: event.can_be_prefix == Some(1),
            must_be_fresh: event.must_be_fresh == Some(1),
            pit: event.pit,
            satisfied: event.satisfied,
            store: event.store,
            way: event.way,
            rule: event.rule.map(|rule| rule.to_string()),
            strategy: event.strategy.map(|strategy| strategy.0.to_string()),
            why: event.why,
            sent: event.sent.into_iter().map(sent).collect(),
            dropped: event.dropped,
            times_ns: event.times.into_iter().map(|time| (time.stage, time.time_ns)).collect(),
        }
    }
}
