//! Text about workers and packet threads: table sizes, drops, and the time of each stage.

use serde::Serialize;

use super::text::{self, Items};
use super::view::General;

/// One worker. A field is `None` if the worker has no such ring or its FIB does not count.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Worker {
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

impl Worker {
    fn items(&self, number: usize) -> Items {
        let mut items: Items = vec![
            ("worker", number.to_string()),
            ("nPitEntries", self.pit_entries.to_string()),
            ("nCsEntries", self.cs_entries.to_string()),
            ("counters", format!("{{in={{{}i {}d {}n}}}}", self.in_interests, self.in_data, self.in_nacks)),
        ];
        if let (Some(input), Some(output)) = (self.input_depth, self.output_depth) {
            items.push(("waiting", format!("{{in={input} out={output}}}")));
        }
        if let (Some(lookups @ 1..), Some(lines)) = (self.fib_lookups_counted, self.fib_lines_read) {
            items.push(("fib-lines", format!("{:.2}", lines as f64 / lookups as f64)));
        }
        items
    }
}

/// A line for each worker.
pub fn workers(general: &General) -> String {
    let workers: Vec<_> = general.workers.iter().enumerate().map(|(number, worker)| worker.items(number)).collect();
    text::columns(&workers)
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
    let of_thread = |(thread, stages): (String, &[Stage])| -> Vec<Items> {
        let passed = stages.iter().filter(|stage| stage.packets > 0);
        let items = passed.map(|stage| {
            let ns = stage.time_ns as f64 / stage.packets as f64;
            vec![
                ("thread", thread.clone()),
                ("stage", stage.stage.clone()),
                ("time", format!("{ns:.0}ns")),
                ("packets", stage.packets.to_string()),
            ]
        });
        items.collect()
    };
    let of_workers = general.workers.iter().enumerate();
    let of_workers = of_workers.map(|(number, worker)| (format!("worker{number}"), &*worker.stages));
    let threads = std::iter::once(("packets".to_owned(), &*general.stages)).chain(of_workers);
    text::columns(&threads.flat_map(of_thread).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use byname_control::mgmt::tlv::{self, Element};

    use super::super::decode;
    use super::*;

    #[test]
    fn a_forwarder_with_two_workers_as_text() {
        let stage = |stage: &str, n_packets, time_ns| tlv::StageTime { stage: stage.into(), n_packets, time_ns };
        let busy = tlv::WorkerStatus {
            n_pit_entries: 5,
            n_in_interests: 7,
            input_depth: Some(1),
            output_depth: Some(0),
            stages: vec![stage("timers", 0, 90), stage("parse", 64, 6_400), stage("fib", 20, 410)],
            n_fib_lookups_counted: Some(20),
            n_fib_lines_read: Some(25),
            ..tlv::WorkerStatus::default()
        };
        let status = tlv::ForwarderStatus {
            workers: vec![busy, tlv::WorkerStatus { n_fib_lookups_counted: Some(0), ..Default::default() }],
            stages: vec![stage("send", 3, 900)],
            drops: vec![tlv::DropCount { reason: "scope".into(), n_packets: 12 }],
            closed: vec![tlv::CloseCount { reason: "tcp_stalled".into(), n_faces: 2 }],
            ..tlv::ForwarderStatus::default()
        };
        let mut content = Vec::new();
        status.encode_value(&mut content);
        let general = decode::general(&content).expect("encoded as it is decoded");
        assert_eq!(
            workers(&general),
            "worker=0 nPitEntries=5 nCsEntries=0 counters={in={7i 0d 0n}} waiting={in=1 out=0} fib-lines=1.25\n\
             worker=1 nPitEntries=0 nCsEntries=0 counters={in={0i 0d 0n}}\n"
        );
        assert_eq!(
            stages(&general),
            "thread=packets stage=send  time=300ns packets=3\n\
             thread=worker0 stage=parse time=100ns packets=64\n\
             thread=worker0 stage=fib   time=20ns  packets=20\n"
        );
        assert_eq!(drops(&general), "scope=12\n");
        assert_eq!(closed(&general), "tcp_stalled=2\n");
    }
}
