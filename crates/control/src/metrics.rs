//! Prometheus metrics: a snapshot of the counters, and its text.
//!
//! The control thread takes a [`Snapshot`] on request (`service::Snapshots`): it queries the counters of the
//! packet thread and of the workers. No counter is kept twice. Faces come and go, so only the [`FACES_MAX`] oldest have
//! series of their own. The sums cover all faces.

use std::fmt;

use byname_face::face::LinkCounters;
use byname_face::{FaceStatus, LinkTotals, RingStatus, WorkerStatus};
use byname_forward::face_table::FaceCounters;
use byname_forward::stages::{StageTime, StageTimes};
use byname_forward::worker::WorkerCounters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Most faces that have their own series.
pub const FACES_MAX: usize = 256;

/// Media type of the text that [`Snapshot::encode`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All exported values at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counters summed over all workers. Drops include those of ports and rings.
    pub worker: WorkerCounters,
    /// Status of each worker.
    pub workers: Vec<WorkerStatus>,
    /// Stage times of the packet threads, without those of their workers.
    pub stages: StageTimes,
    /// All faces, sorted by id.
    pub faces: Vec<FaceStatus>,
    /// Link counters summed over all faces, including closed ones.
    pub links: LinkTotals,
    /// Routes in the RIB.
    pub routes: u64,
    /// Prefix announcements in store.
    pub announcements: u64,
    /// Outcomes of the announcements that came with Data.
    pub learning: [(&'static str, u64); 4],
    /// Prefixes in the FIB.
    pub fib_entries: u64,
    /// Descriptors in the tag FIB.
    pub descriptors: u64,
    /// Descriptors of neighbours that this router refused, and updates that neighbours refused.
    pub descriptors_refused: u64,
    /// Refused commands by reason.
    pub refusals: Vec<(&'static str, u64)>,
    /// For each destination: its label, the number of prefixes that it accepted, and the number of failed commands.
    pub advertised: Vec<(&'static str, u64, u64)>,
}

impl Snapshot {
    /// The text that Prometheus reads (OpenMetrics 1.0).
    pub fn encode(self) -> String {
        let mut registry = Registry::with_prefix("byname");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes all that is written");
        text
    }
}

/// A packet counter: direction, packet type and accessor.
type PacketCount = (&'static str, &'static str, fn(&FaceCounters) -> u64);

const PACKETS: [PacketCount; 10] = [
    ("in", "interest", |c| c.in_interests),
    ("in", "data", |c| c.in_data),
    ("in", "nack", |c| c.in_nacks),
    ("out", "interest", |c| c.out_interests),
    ("out", "data", |c| c.out_data),
    ("out", "nack", |c| c.out_nacks),
    ("in", "tags", |c| c.in_tag_packets),
    ("in", "locator", |c| c.in_locator_packets),
    ("out", "tags", |c| c.out_tag_packets),
    ("out", "locator", |c| c.out_locator_packets),
];

/// A link counter: its name, its help text, to which "on a face" or "on all faces" is appended, and its accessor.
type LinkCount = (&'static str, &'static str, fn(&LinkCounters) -> u64);

const LINK_COUNTS: [LinkCount; 7] = [
    ("in_bytes", "Bytes received", |link| link.in_bytes),
    ("out_bytes", "Bytes sent", |link| link.out_bytes),
    ("in_malformed", "Frames received that were no packets", |link| link.in_malformed),
    ("reassembly_timeouts", "Reassemblies given up", |link| link.in_reassembly_timeouts),
    ("out_drops", "Packets not sent", |link| link.out_drops),
    ("congestion_marks", "Packets marked as congested", |link| link.congestion_marks),
    ("retransmissions", "Frames sent again", |link| link.retransmissions),
];

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut to = Writer { encoder };
        let worker = &self.worker;
        to.counter("satisfied_interests", "Interests that Data answered", worker.satisfied_interests)?;
        to.counter("unsatisfied_interests", "Interests that nothing answered", worker.unsatisfied_interests)?;
        to.gauge("pit_entries", "Interests pending", worker.pit_entries)?;
        to.gauge("cs_packets", "Data packets in the content store", worker.cs.packets)?;
        to.gauge("cs_packets_max", "Data packets that the content store may hold", worker.cs.packets_max)?;
        to.gauge("cs_bytes", "Memory of the content store's packets", worker.cs.bytes)?;
        to.counter("cs_hits", "Interests that the content store answered", worker.cs.hits)?;
        to.counter("cs_misses", "Interests that the content store did not answer", worker.cs.misses)?;
        to.gauge("hot_names", "Names whose Data all workers share, as very many ask for it", worker.hot_names)?;
        to.gauge("measurements", "Prefixes with measurements", worker.measurements)?;
        to.gauge("strategy_choices", "Prefixes with a strategy of their own", worker.strategy_choices)?;
        to.gauge("routes", "Routes in the RIB", self.routes)?;
        to.gauge("announcements", "Prefix announcements that are kept", self.announcements)?;
        to.gauge("fib_entries", "Prefixes in the FIB", self.fib_entries)?;
        to.gauge("descriptors", "Descriptors in the FIB of descriptors", self.descriptors)?;
        to.counter(
            "descriptors_refused",
            "Descriptors of neighbours that were not taken, updates that neighbours refused, and updates without a \
             neighbour's signature",
            self.descriptors_refused,
        )?;
        let to_whom = |to: &'static str| [("to", to.to_owned())];
        let prefixes = self.advertised.iter().map(|(to, prefixes, _)| (to_whom(to), *prefixes));
        to.gauges("advertised_prefixes", "Prefixes that the routing daemon or the hub has accepted", prefixes)?;
        let failures = self.advertised.iter().map(|(to, _, failures)| (to_whom(to), *failures));
        to.family("advertise_failures", "Commands that it refused, or did not answer", failures)?;
        to.gauge("faces", "Faces", self.faces.len() as u64)?;
        let by_reason = |(reason, count): &(&'static str, u64)| ([("reason", (*reason).to_owned())], *count);
        to.family("drops", "Packets dropped", worker.drops.iter().map(by_reason))?;
        let by_outcome = |(outcome, count): &(&'static str, u64)| ([("outcome", (*outcome).to_owned())], *count);
        to.family(
            "learned_routes",
            "Prefix announcements that came with Data, and routes of them that were withdrawn",
            self.learning.iter().map(by_outcome),
        )?;
        to.family("command_refusals", "Management commands refused", self.refusals.iter().map(by_reason))?;
        to.family(
            "packets",
            "Network packets on all faces since the start",
            PACKETS.iter().map(|(direction, kind, count)| {
                let labels = [("direction", (*direction).to_owned()), ("type", (*kind).to_owned())];
                (labels, count(&worker.faces))
            }),
        )?;
        self.encode_workers(&mut to)?;
        let shown = &self.faces[..self.faces.len().min(FACES_MAX)];
        let of_face = |face: &FaceStatus| [("face", face.id.to_string()), ("remote", face.remote.to_string())];
        to.family(
            "face_packets",
            "Network packets on a face",
            shown.iter().flat_map(|face| {
                PACKETS.iter().map(move |(direction, kind, count)| {
                    let [id, remote] = of_face(face);
                    let labels = [id, remote, ("direction", (*direction).to_owned()), ("type", (*kind).to_owned())];
                    (labels, count(&face.counters))
                })
            }),
        )?;
        for (name, help, count) in LINK_COUNTS {
            let (of_one, of_all) = (format!("face_{name}"), format!("links_{name}"));
            to.counter(&of_all, &format!("{help} on all faces since the start"), count(&self.links.counters))?;
            let series = shown.iter().map(|face| (of_face(face), count(&face.link)));
            to.family(&of_one, &format!("{help} on a face"), series)?;
        }
        let help = "Faces that the router closed though their peers had not left";
        to.family("faces_closed", help, self.links.closed.iter().map(by_reason))
    }
}

type WorkerCount = (&'static str, &'static str, fn(&WorkerCounters) -> u64);

const WORKER_GAUGES: [WorkerCount; 2] = [
    ("worker_pit_entries", "Interests pending in a worker", |c| c.pit_entries),
    ("worker_cs_packets", "Data packets in a worker's content store", |c| c.cs.packets),
];

const WORKER_COUNTS: [WorkerCount; 9] = [
    ("worker_in_interests", "Interests that came to a worker", |c| c.faces.in_interests),
    ("worker_in_data", "Data that came to a worker", |c| c.faces.in_data),
    ("worker_cs_hits", "Interests that a worker's content store answered", |c| c.cs.hits),
    ("worker_satisfied_interests", "Interests in a worker that Data answered", |c| c.satisfied_interests),
    ("worker_unsatisfied_interests", "Interests in a worker that nothing answered", |c| c.unsatisfied_interests),
    ("worker_spread_interests", "Interests for hot names given to a worker that need not be their home", |c| {
        c.spread_interests
    }),
    ("worker_spread_hits", "Of these, answered by the content store that workers share", |c| c.spread_hits),
    ("worker_fib_lookups_counted", "FIB lookups of a worker of which lines were counted", |c| c.fib_lines.lookups),
    ("worker_fib_lines_read", "Cache lines that these read", |c| c.fib_lines.lines),
];

type StageCount = (&'static str, &'static str, fn(&StageTime) -> u64);

const STAGE_COUNTS: [StageCount; 2] = [
    ("stage_packets", "Packets that passed a stage in the bursts that are timed", |time| time.packets),
    ("stage_nanoseconds", "Time that these took in it", |time| time.ns),
];

impl Snapshot {
    fn encode_workers(&self, to: &mut Writer<'_>) -> fmt::Result {
        let label = |number: usize| ("worker", number.to_string());
        for (name, help, count) in WORKER_GAUGES {
            let gauges = self.workers.iter().enumerate();
            to.gauges(name, help, gauges.map(|(number, worker)| ([label(number)], count(&worker.counters))))?;
        }
        for (name, help, count) in WORKER_COUNTS {
            let counts = self.workers.iter().enumerate();
            to.family(name, help, counts.map(|(number, worker)| ([label(number)], count(&worker.counters))))?;
        }
        let drops = self.workers.iter().enumerate().flat_map(|(number, worker)| {
            let with_labels = move |(reason, count): &(&'static str, u64)| {
                ([label(number), ("reason", (*reason).to_owned())], *count)
            };
            worker.counters.drops.iter().map(with_labels)
        });
        to.family("worker_drops", "Packets that a worker dropped", drops)?;
        self.encode_stages(to)?;
        let rings = |of: [fn(&RingStatus) -> u64; 2]| {
            let with_rings = self.workers.iter().enumerate().filter_map(|(n, worker)| Some((n, worker.rings?)));
            with_rings.flat_map(move |(number, rings)| {
                ["in", "out"]
                    .into_iter()
                    .zip(of)
                    .map(move |(direction, of)| ([label(number), ("direction", direction.to_owned())], of(&rings)))
            })
        };
        let depths = rings([|rings| rings.input_depth, |rings| rings.output_depth]);
        to.gauges("worker_ring_depth", "Packets on their way from a worker's thread to other threads", depths)?;
        let drops = rings([|rings| rings.input_drops, |rings| rings.output_drops]);
        to.family("worker_ring_drops", "Packets that found no room in a ring", drops)
    }

    fn encode_stages(&self, to: &mut Writer<'_>) -> fmt::Result {
        let of_workers = self.workers.iter().enumerate();
        let of_workers = of_workers.map(|(number, worker)| (format!("worker{number}"), &worker.counters.stages));
        let threads: Vec<_> = std::iter::once(("packets".to_owned(), &self.stages)).chain(of_workers).collect();
        for (name, help, of) in STAGE_COUNTS {
            let series = threads.iter().flat_map(|(thread, times)| {
                times.all().map(move |(stage, time)| {
                    ([("thread", thread.clone()), ("stage", stage.label().to_owned())], of(&time))
                })
            });
            to.family(name, help, series)?;
        }
        Ok(())
    }
}

struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn counter(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        self.encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, u64, u64>(&count, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes a gauge with labels.
    fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = ([(&'static str, String); N], u64)>,
    ) -> fmt::Result {
        let mut encoder = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            encoder.encode_family(&labels)?.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
        }
        Ok(())
    }

    /// Writes a counter with labels.
    fn family<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        counts: impl Iterator<Item = ([(&'static str, String); N], u64)>,
    ) -> fmt::Result {
        let mut encoder = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, count) in counts {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
