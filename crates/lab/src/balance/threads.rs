//! The router's own packet threads, on this machine.
//!
//! On each thread, a port without a network simulates consumers. Each consumer has one Interest under way. The port of
//! the first thread also simulates the producer. The ports check that each Interest is answered once, by Data of its
//! name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use byname_face::face::{FaceChange, FaceEvent, FaceStatus, UpdateFaceError};
use byname_face::{FaceUri, IoConfig, Port, PortContext, ThreadStatus, Workers, start};
use byname_forward::dispatch::part_of;
use byname_forward::face_table::{FaceMap, Scope};
use byname_forward::stages::{Stage, StageTimes};
use byname_forward::worker::WorkerCounters;
use byname_forward::{FaceId, LinkFields, Outgoing, Received, Ticks};
use byname_wire::PitToken;

use super::Options;
use super::record::{Cores, Record, extremes};
use super::traffic::{Packets, Shards, workers};
use crate::workload::Popularity;

/// The first face of the first port belongs to the producer.
const PRODUCER: FaceId = FaceId(256);
/// Consumers on all threads together: as many as one PIT entry can record.
const CONSUMERS: usize = 256;
/// Interval at which the main thread checks how many Interests were answered.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Time to wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// Drop reason of a second Data. If an answer takes long, a worker also forwards another consumer's Interest for the
/// same name, and two answers come.
const ANSWERED_TWICE: &str = "unsolicited-data";
/// Capacity of each ring, in packets: more than are ever under way.
const RING: usize = 4096;

/// Runs until the wanted number of Interests was answered, twice. The first half warms up, and the second half is
/// recorded.
pub fn measure(options: &Options, exponent: f64, heavy_hitters: bool) -> anyhow::Result<Record> {
    let Options { threads: count, cs, seed, .. } = *options;
    let window = heavy_hitters.then_some(options.window);
    let (dispatcher, workers) = workers(&Shards { count, cs, window, seed }, &[PRODUCER])?;
    let done = Arc::<Done>::default();
    let workers = Workers::new(dispatcher, workers, RING, true);
    let running = start(IoConfig::default(), workers, Vec::new())?;
    for thread in 0..options.threads {
        let port = ClosedLoop::new(options, exponent, thread, &done)?;
        running.handle.add_ports(thread, vec![Box::new(port)])?;
    }
    let answered = || done.answered.load(Ordering::Relaxed);
    let wait_for = |count: u64| {
        while answered() < count && !running.thread.is_finished() {
            std::thread::sleep(LOOK_EVERY);
        }
    };
    wait_for(options.interests);
    let (begin, from) = (Instant::now(), answered());
    let before = running.handle.thread_statuses();
    wait_for(from + options.interests);
    let after = running.handle.thread_statuses();
    let (measured, elapsed) = (answered() - from, begin.elapsed());
    done.stop.store(true, Ordering::Relaxed);
    let end = Instant::now() + PATIENCE;
    while done.under_way.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        std::thread::sleep(LOOK_EVERY);
    }
    let WorkerCounters { drops, stages: in_workers, .. } = running.handle.counters();
    let mut stages = StageTimes::default();
    running.handle.thread_statuses().iter().for_each(|thread| stages.add(&thread.counters.stages));
    let dispatch = stages.of(Stage::Dispatch);
    running.handle.shutdown();
    running.thread.join().map_err(|_| anyhow!("the packet thread has failed"))?;
    let left = done.under_way.load(Ordering::Relaxed);
    let wrong = done.wrong.load(Ordering::Relaxed);
    ensure!(left == 0 && wrong == 0, "{left} Interests were not answered, and {wrong} answers were unexpected");
    let lost: u64 = drops.iter().filter(|(reason, _)| *reason != ANSWERED_TWICE).map(|(_, count)| count).sum();
    ensure!(lost == 0, "packets were dropped: {drops:?}");
    let sum = |of: fn(&ThreadStatus) -> u64| {
        let all = |threads: &[ThreadStatus]| threads.iter().map(of).sum::<u64>();
        all(&after) - all(&before)
    };
    let packets: Vec<u64> = after.iter().zip(&before).map(|(after, before)| handled(after) - handled(before)).collect();
    let (busiest_to_mean, idlest_to_mean) = extremes(&packets);
    let interests = sum(|thread| thread.counters.faces.in_interests);
    let spread = sum(|thread| thread.counters.spread_interests);
    Ok(Record {
        cores: Cores::Threads,
        workers: options.threads,
        heavy_hitters,
        exponent,
        names: options.names,
        cs: options.cs,
        interests,
        load: None,
        service_ns: None,
        seed: options.seed,
        busiest_to_mean,
        idlest_to_mean,
        packets,
        cs_hits: sum(|thread| thread.counters.cs.hits) as f64 / interests as f64,
        spread: spread as f64 / interests as f64,
        strays: spread - sum(|thread| thread.counters.spread_hits),
        hot_names: after.iter().map(|thread| thread.counters.hot_names).max().unwrap_or_default(),
        wait_ns_mean: None,
        wait_ns_p99: None,
        lost: 0.0,
        lost_of_worst: 0.0,
        interests_per_s: Some(measured as f64 / elapsed.as_secs_f64()),
        dispatch_ns: per_packet(dispatch.ns, dispatch.packets),
        worker_ns: per_packet(in_workers.ns(), in_workers.of(Stage::Parse).packets),
    })
}

/// Mean nanoseconds per packet; `None` without packets.
fn per_packet(ns: u64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| ns as f64 / packets as f64)
}

/// Packets that a thread's worker handled, strays included.
fn handled(thread: &ThreadStatus) -> u64 {
    let counters = &thread.counters;
    counters.faces.in_interests + counters.faces.in_data + counters.spread_interests - counters.spread_hits
}

/// Progress of the port, shared with the measuring thread.
#[derive(Default)]
struct Done {
    answered: AtomicU64,
    /// Answers that nobody waited for, or that carry another name.
    wrong: AtomicU64,
    under_way: AtomicU64,
    /// Set when consumers must stop asking.
    stop: AtomicBool,
}

/// The port of one thread: its consumers, and the producer on the first thread.
struct ClosedLoop {
    packets: Packets,
    popularity: Popularity,
    has_producer: bool,
    /// The face of each consumer.
    faces: Vec<FaceId>,
    /// The consumer of each face.
    consumers: FaceMap<usize>,
    /// The name that each consumer waits for.
    asked: Vec<Option<u64>>,
    idle: Vec<usize>,
    /// Data that the producer has not sent yet: the name, and the token of the Interest that it answers.
    answers: VecDeque<(u64, PitToken)>,
    nonce: u32,
    done: Arc<Done>,
}

impl ClosedLoop {
    fn new(options: &Options, exponent: f64, thread: usize, done: &Arc<Done>) -> anyhow::Result<Self> {
        let consumers = part_of(CONSUMERS, thread, options.threads);
        Ok(ClosedLoop {
            packets: Packets::new(1),
            // Each thread draws others.
            popularity: Popularity::new(options.names, exponent, options.seed.wrapping_add(thread as u64))?,
            has_producer: thread == 0,
            faces: Vec::new(),
            consumers: FaceMap::default(),
            asked: vec![None; consumers],
            idle: (0..consumers).collect(),
            answers: VecDeque::new(),
            // No two threads use the same nonces soon.
            nonce: (thread as u32) << 24,
            done: Arc::clone(done),
        })
    }

    fn stopped(&self) -> bool {
        self.done.stop.load(Ordering::Relaxed)
    }

    fn describe(face: FaceId) -> FaceStatus {
        FaceStatus::plain(face, FaceUri::Null, Scope::NonLocal)
    }

    /// Handles an outgoing packet: the producer answers an Interest, or a consumer checks its answer.
    fn take(&mut self, Outgoing { face, fields, packet }: Outgoing) {
        if self.has_producer && face == PRODUCER {
            return self.answers.push_back((self.packets.name_of(&packet), fields.pit_token));
        }
        let consumer = self.consumers[&face];
        match self.asked[consumer].take() {
            Some(name) if *packet == *self.packets.data(name) => {
                self.idle.push(consumer);
                self.done.under_way.fetch_sub(1, Ordering::Relaxed);
                self.done.answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => _ = self.done.wrong.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Port for ClosedLoop {
    fn name(&self) -> &str {
        "closed loop"
    }

    fn start(&mut self, cx: &mut PortContext<'_>) -> std::io::Result<()> {
        let mut create = || {
            let face = cx.create_face_id();
            cx.report(FaceEvent::Created(Self::describe(face)));
            face
        };
        if self.has_producer {
            assert_eq!(create(), PRODUCER, "it is the first port");
        }
        self.faces = self.idle.iter().map(|_| create()).collect();
        self.consumers = self.faces.iter().enumerate().map(|(consumer, face)| (*face, consumer)).collect();
        Ok(())
    }

    fn has_input(&self) -> bool {
        !self.answers.is_empty() || !self.idle.is_empty() && !self.stopped()
    }

    fn receive(&mut self, cx: &mut PortContext<'_>, packets_max: usize) {
        let answers = self.answers.len().min(packets_max);
        for (name, pit_token) in self.answers.drain(..answers) {
            let fields = LinkFields { pit_token, ..LinkFields::default() };
            cx.deliver(Received { face: PRODUCER, fields, packet: self.packets.data(name) });
        }
        if self.stopped() {
            return;
        }
        for _ in answers..packets_max {
            let Some(consumer) = self.idle.pop() else { return };
            let name = self.popularity.draw();
            self.nonce = self.nonce.wrapping_add(1);
            self.asked[consumer] = Some(name);
            self.done.under_way.fetch_add(1, Ordering::Relaxed);
            let packet = self.packets.interest(name, self.nonce);
            cx.deliver(Received { face: self.faces[consumer], fields: LinkFields::default(), packet });
        }
    }

    fn transmit(&mut self, _cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        burst.iter_mut().for_each(|outgoing| self.take(outgoing.take()));
    }

    fn flush(&mut self, _cx: &mut PortContext<'_>) {}

    fn update_face(
        &mut self,
        _cx: &mut PortContext<'_>,
        _face: FaceId,
        _change: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        Err(UpdateFaceError::NotFound)
    }

    fn destroy_face(&mut self, _cx: &mut PortContext<'_>, _face: FaceId) -> bool {
        false
    }

    fn status(&self, _now: Ticks, face: FaceId) -> Option<FaceStatus> {
        Some(Self::describe(face))
    }
}
