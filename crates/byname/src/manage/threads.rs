//! Text about packet threads: load, packets, drops, and the time of each stage.

use serde::Serialize;

use super::text::{self, Items};
use super::view::General;

/// One packet thread. A field is `None` if the thread is alone and has no rings, if it is not bound to a processor, if
/// its FIB does not count, or if the forwarder is older than the field.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Thread {
    pub load_percent: Option<f64>,
    pub busy_ns: Option<u64>,
    pub sleeps: Option<u64>,
    pub rests: Option<u64>,
    pub home_packets: Option<u64>,
    pub foreign_packets: Option<u64>,
    pub taken_packets: Option<u64>,
    pub faces: Option<u64>,
    pub faces_come: Option<u64>,
    pub faces_left: Option<u64>,
    pub node: Option<u64>,
    pub pit_entries: u64,
    pub cs_entries: u64,
    pub in_interests: u64,
    pub in_data: u64,
    pub in_nacks: u64,
    pub satisfied_interests: u64,
    pub unsatisfied_interests: u64,
    pub input_depth: Option<u64>,
    pub input_drops: Option<u64>,
    pub output_depth: Option<u64>,
    pub output_drops: Option<u64>,
    pub spread_interests: u64,
    pub spread_hits: u64,
    pub spread_joins: u64,
    pub spread_busy: u64,
    pub drops: Vec<Drops>,
    pub stages: Vec<Stage>,
    pub fib_lookups_counted: Option<u64>,
    pub fib_lines_read: Option<u64>,
}

/// Number of packets dropped for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Drops {
    pub reason: String,
    pub packets: u64,
}

/// Number of faces that the forwarder closed for one reason, while their peers were still there.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Closed {
    pub reason: String,
    pub faces: u64,
}

/// Time that one stage of forwarding took, summed over the bursts that were timed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Stage {
    pub stage: String,
    pub packets: u64,
    pub time_ns: u64,
}

impl Thread {
    /// How busy it is, and what it does for its packets. A thread that is `alone` does what the forwarder does. If
    /// threads are `on_nodes`, they have processors of several memory nodes.
    fn items(&self, number: usize, alone: bool, on_nodes: bool) -> Items {
        let mut items: Items = vec![("thread", number.to_string())];
        if on_nodes {
            items.push(("node", self.node.map_or_else(|| "-".to_owned(), |node| node.to_string())));
        }
        items.extend(self.load_percent.map(|load| ("load", format!("{load:.1}%"))));
        items.extend(self.sleeps.map(|sleeps| ("sleeps", sleeps.to_string())));
        if !alone {
            items.extend(self.rests.map(|rests| ("rests", rests.to_string())));
            items.extend(self.crossing());
            items.extend(self.faces());
            items.push(("drops", self.drops.iter().map(|drops| drops.packets).sum::<u64>().to_string()));
            items.push(("nPitEntries", self.pit_entries.to_string()));
            items.push(("nCsEntries", self.cs_entries.to_string()));
        }
        if let (Some(lookups @ 1..), Some(lines)) = (self.fib_lookups_counted, self.fib_lines_read) {
            items.push(("fib-lines", format!("{:.2}", lines as f64 / lookups as f64)));
        }
        items
    }

    /// Its faces, and how many came from other threads or left for them.
    fn faces(&self) -> Option<(&'static str, String)> {
        let (now, come, left) = (self.faces?, self.faces_come?, self.faces_left?);
        Some(("faces", format!("{{now={now} come={come} left={left}}}")))
    }

    /// Ways of packets, and how many wait in its rings.
    fn crossing(&self) -> Items {
        let mut items = Items::new();
        if let (Some(home), Some(foreign), Some(taken)) = (self.home_packets, self.foreign_packets, self.taken_packets)
        {
            items.push(("packets", format!("{{home={home} foreign={foreign} taken={taken}}}")));
        }
        if let (Some(input), Some(output)) = (self.input_depth, self.output_depth) {
            items.push(("waiting", format!("{{in={input} out={output}}}")));
        }
        items
    }
}

/// A line for each thread. The last line tells how unequal their work is.
pub fn threads(general: &General) -> String {
    let alone = general.threads.len() == 1;
    let on_nodes = general.threads.iter().any(|thread| thread.node != general.threads[0].node);
    let threads = general.threads.iter().enumerate().map(|(number, thread)| thread.items(number, alone, on_nodes));
    let mut text = text::columns(&threads.collect::<Vec<_>>());
    text.extend(general.imbalance.map(|imbalance| format!("imbalance={imbalance:.2}\n")));
    text
}

/// A line for each reason.
pub fn drops(general: &General) -> String {
    general.drops.iter().map(|drops| format!("{}={}\n", drops.reason, drops.packets)).collect()
}

/// A line for each reason.
pub fn closed(general: &General) -> String {
    general.closed.iter().map(|closed| format!("{}={}\n", closed.reason, closed.faces)).collect()
}

/// A line for each stage of each thread, with its time per packet.
pub fn stages(general: &General) -> String {
    let of_thread = |(number, thread): (usize, &Thread)| -> Vec<Items> {
        let passed = thread.stages.iter().filter(|stage| stage.packets > 0);
        let items = passed.map(|stage| {
            let ns = stage.time_ns as f64 / stage.packets as f64;
            vec![
                ("thread", number.to_string()),
                ("stage", stage.stage.clone()),
                ("time", format!("{ns:.0}ns")),
                ("packets", stage.packets.to_string()),
            ]
        });
        items.collect()
    };
    text::columns(&general.threads.iter().enumerate().flat_map(of_thread).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use byname_control::mgmt::tlv::{self, Element};

    use super::super::decode;
    use super::*;

    fn stage(stage: &str, n_packets: u64, time_ns: u64) -> tlv::StageTime {
        tlv::StageTime { stage: stage.into(), n_packets, time_ns }
    }

    fn decoded(status: &tlv::ForwarderStatus) -> General {
        let mut content = Vec::new();
        status.encode_value(&mut content);
        decode::general(&content).expect("encoded as it is decoded")
    }

    #[test]
    fn a_forwarder_with_two_threads_as_text() {
        let busy = tlv::ThreadStatus {
            load_permille: Some(437),
            n_sleeps: Some(12),
            n_rests: Some(0),
            n_home_packets: Some(3),
            n_foreign_packets: Some(4),
            n_taken_packets: Some(5),
            n_faces: Some(9),
            n_faces_come: Some(2),
            n_faces_left: Some(0),
            n_pit_entries: 5,
            n_in_interests: 7,
            input_depth: Some(1),
            output_depth: Some(0),
            drops: vec![tlv::DropCount { reason: "scope".into(), n_packets: 12 }],
            stages: vec![
                stage("receive", 3, 900),
                stage("timers", 0, 90),
                stage("parse", 64, 6_400),
                stage("fib", 20, 410),
            ],
            n_fib_lookups_counted: Some(20),
            n_fib_lines_read: Some(25),
            ..tlv::ThreadStatus::default()
        };
        let resting = tlv::ThreadStatus {
            load_permille: Some(0),
            n_sleeps: Some(1),
            n_rests: Some(2),
            n_home_packets: Some(0),
            n_foreign_packets: Some(0),
            n_taken_packets: Some(0),
            n_fib_lookups_counted: Some(0),
            ..tlv::ThreadStatus::default()
        };
        let general = decoded(&tlv::ForwarderStatus {
            threads: vec![busy, resting],
            imbalance_percent: Some(160),
            drops: vec![tlv::DropCount { reason: "scope".into(), n_packets: 12 }],
            closed: vec![tlv::CloseCount { reason: "tcp_stalled".into(), n_faces: 2 }],
            ..tlv::ForwarderStatus::default()
        });
        assert_eq!(
            threads(&general),
            "thread=0 load=43.7% sleeps=12 rests=0 packets={home=3 foreign=4 taken=5} waiting={in=1 out=0} \
             faces={now=9 come=2 left=0} drops=12 \
             nPitEntries=5 nCsEntries=0 fib-lines=1.25\n\
             thread=1 load=0.0%  sleeps=1  rests=2 packets={home=0 foreign=0 taken=0}                                                  drops=0  \
             nPitEntries=0 nCsEntries=0\n\
             imbalance=1.60\n"
        );
        assert_eq!(
            stages(&general),
            "thread=0 stage=receive time=300ns packets=3\n\
             thread=0 stage=parse   time=100ns packets=64\n\
             thread=0 stage=fib     time=20ns  packets=20\n"
        );
        assert_eq!(drops(&general), "scope=12\n");
        assert_eq!(closed(&general), "tcp_stalled=2\n");
    }

    #[test]
    fn nodes_are_shown_where_threads_are_on_several() {
        let on = |node| tlv::ThreadStatus { node, ..tlv::ThreadStatus::default() };
        let shown = |nodes: [Option<u64>; 2]| {
            let general = decoded(&tlv::ForwarderStatus { threads: nodes.map(on).into(), ..Default::default() });
            threads(&general)
        };
        let told = shown([Some(0), Some(1)]);
        assert!(told.starts_with("thread=0 node=0 ") && told.contains("\nthread=1 node=1 "), "{told}");
        assert!(shown([Some(2), None]).contains("\nthread=1 node=- "));
        for same in [[Some(0), Some(0)], [None, None]] {
            assert!(!shown(same).contains("node="));
        }
    }

    #[test]
    fn one_thread_is_one_short_line() {
        let thread =
            tlv::ThreadStatus { load_permille: Some(3), n_sleeps: Some(40), n_rests: Some(0), ..Default::default() };
        let general = decoded(&tlv::ForwarderStatus { threads: vec![thread], ..Default::default() });
        assert_eq!(threads(&general), "thread=0 load=0.3% sleeps=40\n");
    }
}
