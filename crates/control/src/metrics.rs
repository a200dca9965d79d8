//! Metrics for Prometheus, over HTTP.
//!
//! Each scrape asks the packet thread for its counts as they are; nothing is counted twice. Faces
//! come and go, so only the oldest [`FACES_MAX`] have series of their own; all are in the sums.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use byname_face::{FaceStatus, ForwarderHandle, RingStatus, WorkerStatus};
use byname_forward::face_table::FaceCounters;
use byname_forward::stages::{StageTime, StageTimes};
use byname_forward::worker::WorkerCounters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use thiserror::Error;

use crate::security::{Refusal, RefusalCounters};

/// Most faces with series of their own.
pub const FACES_MAX: usize = 256;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the control thread knows, for the metrics thread to read.
#[derive(Debug, Default)]
pub struct ControlGauges {
    /// Routes in the RIB.
    pub routes: AtomicU64,
    /// Prefixes in the FIB.
    pub fib_entries: AtomicU64,
    /// Descriptors in the FIB of descriptors.
    pub descriptors: AtomicU64,
    /// Descriptors of neighbours that were not taken, and updates that neighbours refused.
    pub descriptors_refused: AtomicU64,
}

/// All that is shown, at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Counts of all workers together.
    pub worker: WorkerCounters,
    /// Each worker.
    pub workers: Vec<WorkerStatus>,
    /// Stages of the packet thread.
    pub stages: StageTimes,
    /// All faces, by id.
    pub faces: Vec<FaceStatus>,
    /// Routes in the RIB.
    pub routes: u64,
    /// Prefixes in the FIB.
    pub fib_entries: u64,
    /// Descriptors in the FIB of descriptors.
    pub descriptors: u64,
    /// Descriptors of neighbours that were not taken, and updates that neighbours refused.
    pub descriptors_refused: u64,
    /// Commands refused, by reason.
    pub refusals: Vec<(&'static str, u64)>,
}

impl Snapshot {
    /// Takes one.
    pub fn take(handle: &ForwarderHandle, control: &ControlGauges, refusals: &RefusalCounters) -> Self {
        Snapshot {
            worker: handle.counters(),
            workers: handle.workers(),
            stages: handle.stages(),
            faces: handle.faces(),
            routes: control.routes.load(Ordering::Relaxed),
            fib_entries: control.fib_entries.load(Ordering::Relaxed),
            descriptors: control.descriptors.load(Ordering::Relaxed),
            descriptors_refused: control.descriptors_refused.load(Ordering::Relaxed),
            refusals: Refusal::ALL.into_iter().map(|refusal| (refusal.label(), refusals.of(refusal))).collect(),
        }
    }

    /// The text that Prometheus reads (OpenMetrics 1.0).
    pub fn encode(self) -> String {
        let mut registry = Registry::with_prefix("byname");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes all that is written");
        text
    }
}

/// One kind of packet in one direction.
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

type FaceCount = (&'static str, &'static str, fn(&FaceStatus) -> u64);

const FACE_COUNTS: [FaceCount; 7] = [
    ("face_in_bytes", "Octets received on a face", |f| f.link.in_bytes),
    ("face_out_bytes", "Octets sent on a face", |f| f.link.out_bytes),
    ("face_in_malformed", "Frames received on a face that were no packets", |f| f.link.in_malformed),
    ("face_reassembly_timeouts", "Reassemblies given up on a face", |f| f.link.in_reassembly_timeouts),
    ("face_out_drops", "Packets not sent on a face", |f| f.link.out_drops),
    ("face_congestion_marks", "Packets marked as congested on a face", |f| f.link.congestion_marks),
    ("face_retransmissions", "Frames sent again on a face", |f| f.link.retransmissions),
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
        to.gauge("fib_entries", "Prefixes in the FIB", self.fib_entries)?;
        to.gauge("descriptors", "Descriptors in the FIB of descriptors", self.descriptors)?;
        to.counter(
            "descriptors_refused",
            "Descriptors of neighbours that were not taken, and updates that neighbours refused",
            self.descriptors_refused,
        )?;
        to.gauge("faces", "Faces", self.faces.len() as u64)?;
        let by_reason = |(reason, count): &(&'static str, u64)| ([("reason", (*reason).to_owned())], *count);
        to.family("drops", "Packets dropped", worker.drops.iter().map(by_reason))?;
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
        for (name, help, count) in FACE_COUNTS {
            to.family(name, help, shown.iter().map(|face| (of_face(face), count(face))))?;
        }
        Ok(())
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
        to.gauges("worker_ring_depth", "Packets between a worker and the packet thread", depths)?;
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

    /// A gauge with labels.
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

    /// A counter with labels.
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

/// Why metrics are not served.
#[derive(Debug, Error)]
#[error("cannot serve metrics on {address}: {reason}")]
pub struct MetricsError {
    /// Where.
    pub address: SocketAddr,
    /// What the system said.
    pub reason: String,
}

/// A thread that answers scrapes until this is dropped.
pub struct MetricsServer {
    server: Arc<tiny_http::Server>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl MetricsServer {
    /// Listens on `address` (port 0: any) and answers with what `snapshot` yields.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(address: SocketAddr, snapshot: impl Fn() -> Snapshot + Send + 'static) -> Result<Self, MetricsError> {
        let fail = |reason: String| MetricsError { address, reason };
        let server = tiny_http::Server::http(address).map_err(|e| fail(e.to_string()))?;
        let bound = server.server_addr().to_ip().unwrap_or(address);
        let server = Arc::new(server);
        let requests = Arc::clone(&server);
        let thread = std::thread::Builder::new()
            .name("byname-metrics".into())
            .spawn(move || {
                for request in requests.incoming_requests() {
                    answer(request, &snapshot);
                }
            })
            .map_err(|e| fail(e.to_string()))?;
        Ok(MetricsServer { server, thread: Some(thread), address: bound })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported when it happened; the router goes on without metrics.
            let _ = thread.join();
        }
    }
}

fn answer(request: tiny_http::Request, snapshot: &impl Fn() -> Snapshot) {
    let path = request.url().split('?').next().unwrap_or("");
    let (code, content_type, body) = match (request.method(), path) {
        (tiny_http::Method::Get | tiny_http::Method::Head, "/metrics") => (200, CONTENT_TYPE, snapshot().encode()),
        (tiny_http::Method::Get | tiny_http::Method::Head, "/") => {
            (200, "text/plain; charset=utf-8", "byname: metrics are at /metrics\n".to_owned())
        }
        (tiny_http::Method::Get | tiny_http::Method::Head, _) => {
            (404, "text/plain; charset=utf-8", "metrics are at /metrics\n".to_owned())
        }
        _ => (405, "text/plain; charset=utf-8", "only GET and HEAD\n".to_owned()),
    };
    let header = tiny_http::Header::from_bytes("Content-Type", content_type).expect("the types above are ASCII");
    // A scraper that went away is its own affair.
    let _ = request.respond(tiny_http::Response::from_string(body).with_status_code(code).with_header(header));
}

#[cfg(test)]
mod tests;
