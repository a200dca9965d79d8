//! An event as JSON and as a line of text.

use std::collections::{BTreeMap, HashMap};

use byname_control::mgmt::tlv::trace::{TraceEvent, TraceSent};
use serde::Serialize;

use crate::manage::explain::nack_word;
use crate::manage::{paint, text};

/// What happened to one packet. These are the fields of `--json`; `docs/json.md` documents them.
#[derive(Debug, Serialize)]
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

    /// One line: when, what, from where, and then what each table said.
    pub fn line(&self) -> String {
        let at = text::timestamp(self.at_unix_us / 1000);
        let at = at.get(11..23).unwrap_or(&at);
        let mut line = format!("{}{:03} ", paint::faint(at), self.at_unix_us % 1000);
        line += &format!("{:<8} {}", self.subject, paint::title(&self.name));
        self.words().iter().for_each(|(key, value)| line += &format!(" {}{value}", paint::key(&format!("{key}="))));
        if let Some(reason) = &self.dropped {
            line += &format!(" {}", paint::bad(&format!("dropped={reason}")));
        }
        line
    }

    /// The line without colours, time and name, for the comment in a capture.
    pub fn comment(&self) -> String {
        let words = self.words();
        let mut words: Vec<String> = words.iter().map(|(key, value)| format!("{key}={value}")).collect();
        words.extend(self.dropped.iter().map(|reason| format!("dropped={reason}")));
        format!("{} {}\n{}", self.subject, self.name, words.join("\n"))
    }

    /// What there is to tell, in the order in which a packet meets it.
    fn words(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::new();
        let flags = [(self.can_be_prefix, "CanBePrefix"), (self.must_be_fresh, "MustBeFresh")];
        let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
        if !flags.is_empty() {
            words.push(("with", flags.join(",")));
        }
        words.extend(self.nack.map(|reason| ("reason", reason.to_owned())));
        words.push(("from", with_uri(self.face_id, self.remote_uri.as_deref())));
        words.push(("thread", self.thread.to_string()));
        let pit = |pit: &String| match self.satisfied {
            Some(count) => format!("{pit}:{count}"),
            None => pit.clone(),
        };
        words.extend(self.pit.as_ref().map(|word| ("pit", pit(word))));
        words.extend(self.store.clone().map(|store| ("cs", store)));
        let way = self.rule.as_ref().or(self.way.as_ref());
        words.extend(way.map(|way| ("rule", way.clone())));
        if let Some(strategy) = &self.strategy {
            let word = strategy.strip_prefix("/localhost/nfd/strategy/").unwrap_or(strategy);
            words.push(("strategy", word.to_owned()));
        }
        words.extend(self.why.as_ref().map(|why| ("why", format!("({why})"))));
        if !self.sent.is_empty() {
            words.push(("out", self.sent.iter().map(Sent::word).collect::<Vec<_>>().join(",")));
        }
        if !self.times_ns.is_empty() {
            let time = |stage: &str| self.times_ns.get(stage).map(|ns| format!("{stage}:{}", time_word(*ns)));
            let times = ["waited", "pit-cs", "fib", "strategy"].into_iter().filter_map(time);
            words.push(("time", times.collect::<Vec<_>>().join(",")));
        }
        words
    }
}

impl Sent {
    fn word(&self) -> String {
        let subject = self.nack.map_or(self.subject.clone(), |reason| format!("nack({reason})"));
        format!("{subject}>{}", with_uri(self.face_id, self.remote_uri.as_deref()))
    }
}

fn with_uri(face: u64, uri: Option<&str>) -> String {
    uri.map_or_else(|| face.to_string(), |uri| format!("{face}({uri})"))
}

fn time_word(ns: u64) -> String {
    if ns < 10_000 { format!("{ns}ns") } else { format!("{:.1}us", ns as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_control::mgmt::tlv::StrategyName;
    use byname_control::mgmt::tlv::trace::TraceTime;

    #[test]
    fn a_line_tells_the_way_of_a_packet() {
        let event = TraceEvent {
            at_unix_us: 1_795_183_500_123_456,
            thread: 1,
            subject: "interest".into(),
            name: "/a/b".parse().unwrap(),
            face_id: 260,
            packet_bytes: 40,
            must_be_fresh: Some(1),
            pit: Some("new".into()),
            store: Some("miss".into()),
            way: Some("rule".into()),
            rule: Some("/a".parse().unwrap()),
            strategy: Some(StrategyName("/localhost/nfd/strategy/asf/v=5".parse().unwrap())),
            why: Some("lowest round-trip time".into()),
            sent: vec![TraceSent { face_id: 300, subject: "interest".into(), nack: None }],
            times: vec![
                TraceTime { stage: "pit-cs".into(), time_ns: 900 },
                TraceTime { stage: "fib".into(), time_ns: 12_345 },
            ],
            ..TraceEvent::default()
        };
        let uris = HashMap::from([(300, Some("udp4://192.0.2.1:6363".to_owned())), (260, None)]);
        let event = Event::new(event, &uris);
        assert_eq!(
            event.line(),
            "14:05:00.123456 interest /a/b with=MustBeFresh from=260 thread=1 pit=new cs=miss rule=/a strategy=asf/v=5 \
             why=(lowest round-trip time) out=interest>300(udp4://192.0.2.1:6363) time=pit-cs:900ns,fib:12.3us"
        );
        assert!(event.comment().starts_with("interest /a/b\nwith=MustBeFresh\nfrom=260\n"));
    }

    #[test]
    fn a_line_tells_why_a_packet_was_dropped() {
        let event = TraceEvent {
            subject: "nack".into(),
            nack: Some(150),
            name: "/a".parse().unwrap(),
            face_id: 300,
            pit: Some("matched".into()),
            sent: vec![TraceSent { face_id: 260, subject: "nack".into(), nack: Some(150) }],
            dropped: Some("unsolicited-nack".into()),
            ..TraceEvent::default()
        };
        let line = Event::new(event, &HashMap::new()).line();
        assert!(line.ends_with("out=nack(no-route)>260 dropped=unsolicited-nack"), "{line}");
        assert!(line.contains("nack     /a reason=no-route from=300"), "{line}");
    }
}
