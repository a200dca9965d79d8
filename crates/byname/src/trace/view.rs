//! An event as a line of text.

use byname_control::mgmt::json::trace::{Event, Sent};

use crate::manage::{paint, text};

/// One line: when, what, from where, and then what each table said.
pub fn line(event: &Event) -> String {
    let at = text::timestamp(event.at_unix_us / 1000);
    let at = at.get(11..23).unwrap_or(&at);
    let mut line = format!("{}{:03} ", paint::faint(at), event.at_unix_us % 1000);
    line += &format!("{:<8} {}", event.subject, paint::title(&event.name));
    words(event).iter().for_each(|(key, value)| line += &format!(" {}{value}", paint::key(&format!("{key}="))));
    if let Some(reason) = &event.dropped {
        line += &format!(" {}", paint::bad(&format!("dropped={reason}")));
    }
    line
}

/// The line without colours, time and name, for the comment in a capture.
pub fn comment(event: &Event) -> String {
    let words = words(event);
    let mut words: Vec<String> = words.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.extend(event.dropped.iter().map(|reason| format!("dropped={reason}")));
    format!("{} {}\n{}", event.subject, event.name, words.join("\n"))
}

/// What there is to tell, in the order in which a packet meets it.
fn words(event: &Event) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    let flags = [(event.can_be_prefix, "CanBePrefix"), (event.must_be_fresh, "MustBeFresh")];
    let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
    if !flags.is_empty() {
        words.push(("with", flags.join(",")));
    }
    words.extend(event.nack.map(|reason| ("reason", reason.to_owned())));
    words.push(("from", with_uri(event.face_id, event.remote_uri.as_deref())));
    words.push(("thread", event.thread.to_string()));
    let pit = |pit: &String| match event.satisfied {
        Some(count) => format!("{pit}:{count}"),
        None => pit.clone(),
    };
    words.extend(event.pit.as_ref().map(|word| ("pit", pit(word))));
    words.extend(event.store.clone().map(|store| ("cs", store)));
    let way = event.rule.as_ref().or(event.way.as_ref());
    words.extend(way.map(|way| ("rule", way.clone())));
    if let Some(strategy) = &event.strategy {
        let word = strategy.strip_prefix("/localhost/nfd/strategy/").unwrap_or(strategy);
        words.push(("strategy", word.to_owned()));
    }
    words.extend(event.why.as_ref().map(|why| ("why", format!("({why})"))));
    if !event.sent.is_empty() {
        words.push(("out", event.sent.iter().map(sent_word).collect::<Vec<_>>().join(",")));
    }
    if !event.times_ns.is_empty() {
        let time = |stage: &str| event.times_ns.get(stage).map(|ns| format!("{stage}:{}", time_word(*ns)));
        let times = ["waited", "pit-cs", "fib", "strategy"].into_iter().filter_map(time);
        words.push(("time", times.collect::<Vec<_>>().join(",")));
    }
    words
}

fn sent_word(sent: &Sent) -> String {
    let subject = sent.nack.map_or(sent.subject.clone(), |reason| format!("nack({reason})"));
    format!("{subject}>{}", with_uri(sent.face_id, sent.remote_uri.as_deref()))
}

fn with_uri(face: u64, uri: Option<&str>) -> String {
    uri.map_or_else(|| face.to_string(), |uri| format!("{face}({uri})"))
}

fn time_word(ns: u64) -> String {
    if ns < 10_000 { format!("{ns}ns") } else { format!("{:.1}us", ns as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use byname_control::mgmt::tlv::StrategyName;
    use byname_control::mgmt::tlv::trace::{TraceEvent, TraceSent, TraceTime};

    use super::*;

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
            line(&event),
            "14:05:00.123456 interest /a/b with=MustBeFresh from=260 thread=1 pit=new cs=miss rule=/a strategy=asf/v=5 \
             why=(lowest round-trip time) out=interest>300(udp4://192.0.2.1:6363) time=pit-cs:900ns,fib:12.3us"
        );
        assert!(comment(&event).starts_with("interest /a/b\nwith=MustBeFresh\nfrom=260\n"));
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
        let line = line(&Event::new(event, &HashMap::new()));
        assert!(line.ends_with("out=nack(no-route)>260 dropped=unsolicited-nack"), "{line}");
        assert!(line.contains("nack     /a reason=no-route from=300"), "{line}");
    }
}
