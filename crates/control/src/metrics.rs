//! Prometheus metrics: a snapshot of the counters, and its text.
//!
//! The control thread takes a [`Snapshot`] on request (`service::Snapshots`): it queries the counters of the
//! packet threads. No counter is kept twice. Faces come and go, so only the oldest ones have series of their own, at
//! most `faces_max`. The sums cover all faces.

mod format;
mod process;
mod routing;

use std::fmt;

use byname_face::face::LinkCounters;
use byname_face::{FaceStatus, LinkTotals, RingStatus, ThreadStatus, imbalance};
use byname_forward::face_table::FaceCounters;
use byname_forward::rounds::{Distribution, NS_BOUNDS, PACKETS_BOUNDS};
use byname_forward::worker::WorkerCounters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

pub use self::format::Format;
use self::process::ProcessMetrics;
pub use self::routing::RoutingCounts;
use crate::state::StoreStatus;
use crate::state::writer::Condition;

/// All exported values at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counters summed over all threads. Drops include those of ports and rings.
    pub counters: WorkerCounters,
    /// Status of each packet thread.
    pub threads: Vec<ThreadStatus>,
    /// All faces, sorted by id.
    pub faces: Vec<FaceStatus>,
    /// Most faces that have series of their own: those with the lowest ids.
    pub faces_max: usize,
    /// Link counters summed over all faces, including closed ones.
    pub links: LinkTotals,
    /// Routes in the RIB.
    pub routes: u64,
    /// Prefix announcements in store.
    pub announcements: u64,
    /// Outcomes of the announcements that came with Data.
    pub learning: [(&'static str, u64); 4],
    /// The validator of chains of certificates: its counters, the packets that wait, and the certificates it keeps.
    pub trust: (byname_trust::validator::Counters, u64, u64),
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
    /// The store of state that survives a restart. `None`: there is none.
    pub store: Option<StoreStatus>,
    /// Lines that the audit log lost.
    pub audit_lost: u64,
    /// Counters of routing, which others than the control thread keep. `None`: there is no routing.
    pub routing: Option<RoutingCounts>,
    /// The certificate of encrypted faces. `None`: there are no such faces.
    pub certificate: Option<CertificateCounts>,
}

/// The certificate of encrypted faces at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CertificateCounts {
    /// Its end, in seconds since the Unix epoch, if it could be read.
    pub ends_s: Option<u64>,
    /// How often no other certificate could be got though it was due.
    pub failures: u64,
}

impl Snapshot {
    /// The text of these values and of the process, in OpenMetrics 1.0; see [`Format`] for others.
    pub fn encode(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics));
        registry.sub_registry_with_prefix("byname").register_collector(Box::new(self));
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
        let counters = &self.counters;
        let build = [("version", env!("CARGO_PKG_VERSION").to_owned())];
        to.gauges("build_info", "Version of the program; the value is 1", std::iter::once((build, 1)))?;
        to.counter("satisfied_interests", "Interests that Data answered", counters.satisfied_interests)?;
        to.counter("unsatisfied_interests", "Interests that nothing answered", counters.unsatisfied_interests)?;
        to.gauge("pit_entries", "Interests pending", counters.pit_entries)?;
        to.gauge("cs_packets", "Data packets in the content store", counters.cs.packets)?;
        to.gauge("cs_packets_max", "Data packets that the content store may hold", counters.cs.packets_max)?;
        to.gauge("cs_bytes", "Memory of the content store's packets", counters.cs.bytes)?;
        to.counter("cs_hits", "Interests that the content store answered", counters.cs.hits)?;
        to.counter("cs_misses", "Interests that the content store did not answer", counters.cs.misses)?;
        to.gauge("hot_names", "Names whose Data all threads share, as very many ask for it", counters.hot_names)?;
        to.gauge(
            "shared_pit_entries",
            "Pending Interests for such names that any thread may join",
            counters.shared_pit_entries,
        )?;
        to.gauge("measurements", "Prefixes with measurements", counters.measurements)?;
        to.gauge("strategy_choices", "Prefixes with a strategy of their own", counters.strategy_choices)?;
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
        self.encode_store(&mut to)?;
        to.counter("audit_lost", "Lines that the audit log lost", self.audit_lost)?;
        if let Some(CertificateCounts { ends_s, failures }) = self.certificate {
            let failed = "Times that no other certificate of encrypted faces could be got though it was due";
            to.counter("tls_certificate_failures", failed, failures)?;
            if let Some(ends) = ends_s {
                to.gauge(
                    "tls_certificate_ends_seconds",
                    "End of the certificate of encrypted faces, since 1970",
                    ends,
                )?;
            }
        }
        if let Some(routing) = &self.routing {
            routing.encode(&mut to)?;
        }
        to.gauge("faces", "Faces", self.faces.len() as u64)?;
        let by_reason = |(reason, count): &(&'static str, u64)| ([("reason", word(reason))], *count);
        to.family("drops", "Packets dropped", counters.drops.iter().map(by_reason))?;
        let by_outcome = |(outcome, count): &(&'static str, u64)| ([("outcome", word(outcome))], *count);
        to.family(
            "learned_routes",
            "Prefix announcements that came with Data, and routes of them that were withdrawn",
            self.learning.iter().map(by_outcome),
        )?;
        let (chains, waiting, certificates) = &self.trust;
        let outcomes = [("accepted", chains.accepted), ("rejected", chains.rejected), ("waited", chains.waited)];
        to.family("trust_chains", "Signers whose certificates were followed", outcomes.iter().map(by_outcome))?;
        to.counter("trust_interests", "Interests for certificates", chains.interests)?;
        to.counter("trust_unwanted", "Data that was no right certificate", chains.unwanted)?;
        to.gauge("trust_waiting", "Commands and announcements that wait for certificates", *waiting)?;
        to.gauge("trust_certificates", "Certificates whose chains are known", *certificates)?;
        to.family("command_refusals", "Management commands refused", self.refusals.iter().map(by_reason))?;
        to.family(
            "packets",
            "Network packets on all faces since the start",
            PACKETS.iter().map(|(direction, kind, count)| {
                let labels = [("direction", (*direction).to_owned()), ("type", (*kind).to_owned())];
                (labels, count(&counters.faces))
            }),
        )?;
        self.encode_threads(&mut to)?;
        let shown = &self.faces[..self.faces.len().min(self.faces_max)];
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

/// A counter of a thread: its name, its help text and its accessor.
type ThreadCount = (&'static str, &'static str, fn(&ThreadStatus) -> u64);

const THREAD_GAUGES: [ThreadCount; 3] = [
    ("thread_faces", "Faces of a packet thread", |t| t.faces),
    ("thread_pit_entries", "Interests pending on a packet thread", |t| t.counters.pit_entries),
    ("thread_cs_packets", "Data packets in a thread's content store", |t| t.counters.cs.packets),
];

const THREAD_COUNTS: [ThreadCount; 15] = [
    ("thread_faces_come", "Faces that came to a thread from another one", |t| t.faces_come),
    ("thread_faces_left", "Faces that left a thread for another one", |t| t.faces_left),
    ("thread_sleeps", "Times that a thread slept", |t| t.activity.sleeps),
    ("thread_rests", "Times that a thread began to rest; the first thread then works for it", |t| t.activity.rests),
    ("thread_in_interests", "Interests that a thread handled", |t| t.counters.faces.in_interests),
    ("thread_in_data", "Data that a thread handled", |t| t.counters.faces.in_data),
    ("thread_cs_hits", "Interests that a thread's content store answered", |t| t.counters.cs.hits),
    ("thread_satisfied_interests", "Interests on a thread that Data answered", |t| t.counters.satisfied_interests),
    ("thread_unsatisfied_interests", "Interests on a thread that nothing answered", |t| {
        t.counters.unsatisfied_interests
    }),
    ("thread_spread_interests", "Interests for hot names given to a thread that need not be their home", |t| {
        t.counters.spread_interests
    }),
    ("thread_spread_hits", "Of these, answered by the content store that threads share", |t| t.counters.spread_hits),
    ("thread_spread_joins", "Of these, joined to PIT entries that threads share", |t| t.counters.spread_joins),
    ("thread_spread_busy", "Times that another thread had the lock of such a PIT entry", |t| t.counters.spread_busy),
    ("thread_fib_lookups_counted", "FIB lookups of a thread of which lines were counted", |t| {
        t.counters.fib_lines.lookups
    }),
    ("thread_fib_lines_read", "Cache lines that these read", |t| t.counters.fib_lines.lines),
];

/// A value of a thread's rings: its label and its accessor.
type RingValue = (&'static str, fn(&RingStatus) -> u64);

const RING_WAYS: [RingValue; 3] = [("home", |r| r.home), ("foreign", |r| r.foreign), ("taken", |r| r.taken)];
const RING_DEPTHS: [RingValue; 2] = [("in", |r| r.input_depth), ("out", |r| r.output_depth)];
const RING_DROPS: [RingValue; 2] = [("in", |r| r.input_drops), ("out", |r| r.output_drops)];

const STAGE_COUNTS: [(&str, &str); 2] = [
    ("stage_packets", "Packets that passed a stage in the bursts that are timed"),
    ("stage_seconds", "Time that these took in it"),
];

/// Nanoseconds in seconds.
const NS: f64 = 1e-9;
const NS_PER_S: u64 = 1_000_000_000;

/// A value of a label. All are in one style, whatever they are called elsewhere.
fn word(text: &str) -> String {
    text.replace('-', "_")
}

impl Snapshot {
    fn encode_store(&self, to: &mut Writer<'_>) -> fmt::Result {
        let is_good = self.store.as_ref().is_some_and(|store| store.condition == Condition::Good);
        to.gauge("state_durable", "1 if changes of the state reach the disk, otherwise 0", u64::from(is_good))?;
        let Some(store) = &self.store else { return Ok(()) };
        to.counter("state_changes", "Changes of the state that have reached the disk", store.written)?;
        to.counter("state_commits", "Commits of such changes, each of many at a time", store.commits)?;
        to.gauge("state_waiting", "Changes of the state on their way to the disk", store.waiting)
    }

    fn encode_threads(&self, to: &mut Writer<'_>) -> fmt::Result {
        let label = |number: usize| ("thread", number.to_string());
        let threads = || self.threads.iter().enumerate().map(|(number, thread)| (label(number), thread));
        for (name, help, count) in THREAD_GAUGES {
            to.gauges(name, help, threads().map(|(label, thread)| ([label], count(thread))))?;
        }
        let nodes = threads().filter_map(|(label, thread)| Some(([label], u64::from(thread.node?))));
        to.gauges("thread_node", "Memory node of a thread's processor, if it is bound to one", nodes)?;
        for (name, help, count) in THREAD_COUNTS {
            to.family(name, help, threads().map(|(label, thread)| ([label], count(thread))))?;
        }
        let drops = threads().flat_map(|(label, thread)| {
            let drops = thread.counters.drops.iter();
            drops.map(move |(reason, count)| ([label.clone(), ("reason", word(reason))], *count))
        });
        to.family("thread_drops", "Packets that a thread dropped", drops)?;
        for (name, help) in STAGE_COUNTS {
            let series = threads().flat_map(|(label, thread)| {
                let stages = thread.counters.stages.all();
                stages.map(move |(stage, time)| ([label.clone(), ("stage", word(stage.label()))], time))
            });
            match name {
                "stage_packets" => to.family(name, help, series.map(|(labels, time)| (labels, time.packets)))?,
                _ => to.seconds(name, help, series.map(|(labels, time)| (labels, time.ns)))?,
            }
        }
        let rounds = threads().map(|(label, thread)| ([label], &thread.rounds.packets));
        let help = "Packets of a round of a thread, in the rounds that are timed";
        to.histogram("round_packets", help, &PACKETS_BOUNDS, 1, rounds)?;
        let rounds = threads().map(|(label, thread)| ([label], &thread.rounds.ns));
        let help =
            "Time of a round of a thread, from looking for packets until all are sent, in the rounds that are timed";
        to.histogram("round_seconds", help, &NS_BOUNDS, NS_PER_S, rounds)?;
        let busy = threads().map(|(label, thread)| ([label], thread.activity.busy_ns));
        to.seconds("thread_busy_seconds", "Time that a thread has worked", busy)?;
        let ways = self.of_rings("way", &RING_WAYS);
        to.family("thread_packets", "Packets that a thread kept, gave to other threads, or took from them", ways)?;
        let depths = self.of_rings("direction", &RING_DEPTHS);
        to.gauges("thread_ring_depth", "Packets on their way from a thread to other threads", depths)?;
        let drops = self.of_rings("direction", &RING_DROPS);
        to.family("thread_ring_drops", "Packets that found no room in a ring", drops)?;
        let help = "Packets that the busiest thread handled in the last 5 to 10 seconds, over the mean of all threads";
        imbalance(&self.threads).map_or(Ok(()), |ratio| to.ratio("thread_imbalance", help, ratio))
    }

    /// These values of each thread, if there are several.
    fn of_rings<'a>(
        &'a self,
        label: &'static str,
        values: &'a [RingValue],
    ) -> impl Iterator<Item = ([(&'static str, String); 2], u64)> + 'a {
        let threads = self.threads.iter().enumerate();
        let rings = threads.filter_map(|(number, thread)| Some((number.to_string(), thread.rings.as_ref()?)));
        rings.flat_map(move |(number, rings)| {
            let labels = move |word: &str| [("thread", number.clone()), (label, word.to_owned())];
            values.iter().map(move |(word, of)| (labels(word), of(rings)))
        })
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

    fn ratio(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
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

    /// Writes a counter of nanoseconds with labels, in seconds.
    fn seconds<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        times_ns: impl Iterator<Item = ([(&'static str, String); N], u64)>,
    ) -> fmt::Result {
        let mut encoder = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, ns) in times_ns {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, u64>(&(ns as f64 * NS), None)?;
        }
        Ok(())
    }

    /// Writes a histogram with labels. Bounds and values are in parts, `parts` of which are a unit.
    fn histogram<'a, const N: usize, const B: usize>(
        &mut self,
        name: &str,
        help: &str,
        bounds: &[u64; B],
        parts: u64,
        series: impl Iterator<Item = ([(&'static str, String); N], &'a Distribution<B>)>,
    ) -> fmt::Result {
        // Divided, not multiplied: bounds are written as short numbers.
        let units = |count: u64| count as f64 / parts as f64;
        let mut encoder = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, values) in series {
            let bounds = bounds.iter().map(|bound| units(*bound)).chain([f64::INFINITY]);
            let counts = values.counts.into_iter().chain([values.above]);
            let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
            let (sum, count) = (units(values.sum), values.count());
            encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
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
mod shipped;
#[cfg(test)]
mod tests;
