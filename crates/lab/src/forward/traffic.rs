//! A worker between consumers and producers. One thread runs the worker and does the port's work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_forward::face_table::{LinkType, Scope};
use byname_forward::stages::{Stage, StageTimes, Stopwatch};
use byname_forward::tables::Tables;
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, Outgoing, Packet, Received, Ticks};
use byname_wire::NameHashKey;

use super::options::{Mix, Options};
use super::packets::{Frames, Packets};
use super::variant::Variant;

/// The face from which Interests come.
const CONSUMERS: FaceId = FaceId(256);
/// The face to which Interests go, and from which Data comes.
pub const PRODUCERS: FaceId = FaceId(257);
/// Number of packets that are timed together. During a turn, up to this many more Interests are pending.
pub const TURN: u64 = 1024;
/// Time for which an Interest is pending, in the worker's time.
const WAIT: Duration = Duration::from_millis(400);
/// Lifetime of an Interest.
pub const LIFETIME_MS: u64 = 4000;

/// Traffic through one worker.
pub struct Traffic<'a> {
    packets: &'a Packets,
    worker: Worker,
    burst: u64,
    /// The first packet number of this worker.
    first: u64,
    asked: u64,
    answered: u64,
    now: Ticks,
    /// The worker's time between two packets.
    step: Duration,
    /// Packets that the port will receive.
    frames: Frames,
    input: Vec<Received>,
    output: Vec<Outgoing>,
    /// Times the stages outside the worker.
    stopwatch: Stopwatch,
}

impl<'a> Traffic<'a> {
    /// Makes a worker over `tables` with the wanted number of pending Interests, and room for `room` more.
    pub fn new(
        options: &Options,
        variant: &Variant,
        key: NameHashKey,
        tables: Arc<Tables>,
        packets: &'a Packets,
        thread: usize,
        room: u64,
    ) -> Self {
        let config = WorkerConfig {
            pit_entries_max: (options.pit + room) as usize,
            cs_packets_max: options.cs as usize,
            cs_bytes_max: usize::MAX,
            ..WorkerConfig::default()
        };
        let mut worker = Worker::new(config, key, tables, options.measuring.seed);
        worker.set_prefetch(variant.prefetch.of_worker());
        worker.face_up(CONSUMERS, Scope::NonLocal, LinkType::PointToPoint);
        worker.face_up(PRODUCERS, Scope::NonLocal, LinkType::PointToPoint);
        let mut traffic = Traffic {
            packets,
            worker,
            burst: variant.burst as u64,
            first: (packets.len() / options.measuring.threads * thread) as u64,
            asked: 0,
            answered: 0,
            now: Ticks(0),
            step: step(options),
            frames: Frames::default(),
            input: Vec::new(),
            output: Vec::new(),
            stopwatch: Stopwatch::default(),
        };
        for passed in (0..options.pit).step_by(TURN as usize) {
            traffic.pass(TURN.min(options.pit - passed), |_| true);
        }
        traffic
    }

    /// Passes [`TURN`] timed packets, and the untimed packets that must pass with them. Returns the time of the timed
    /// ones.
    pub fn turn(&mut self, mix: Mix) -> Duration {
        match mix {
            Mix::Both => self.pass(TURN, is_interest_in_turn),
            Mix::Interest => {
                let time = self.pass(TURN, |_| true);
                self.pass(TURN, |_| false);
                time
            }
            Mix::Data => {
                self.pass(TURN, |_| true);
                self.pass(TURN, |_| false)
            }
        }
    }

    /// Like [`Traffic::turn`], and adds the time of each stage for the timed packets to `times`.
    pub fn turn_by_stages(&mut self, mix: Mix, times: &mut StageTimes) {
        if mix == Mix::Data {
            self.pass(TURN, |_| true);
        }
        let before = self.stages();
        match mix {
            Mix::Both => self.pass(TURN, is_interest_in_turn),
            Mix::Interest => self.pass(TURN, |_| true),
            Mix::Data => self.pass(TURN, |_| false),
        };
        times.add(&self.stages().since(&before));
        if mix == Mix::Interest {
            self.pass(TURN, |_| false);
        }
    }

    /// Times the stages of all bursts from now on. Reading the clock makes bursts slower.
    pub fn time_stages(&mut self) {
        let epoch = Instant::now();
        let stopwatch = || Stopwatch::new(1, move || Ticks(epoch.elapsed().as_nanos() as u64));
        self.stopwatch = stopwatch();
        self.worker.time_stages(stopwatch());
    }

    fn stages(&self) -> StageTimes {
        let mut times = self.worker.counters().stages;
        times.add(self.stopwatch.times());
        times
    }

    /// Passes [`TURN`] packets, Interests and Data alternating. The last `others` packets of each burst come from
    /// another face, and `receive` appends them. Returns the time.
    pub fn turn_beside(&mut self, others: u64, mut receive: impl FnMut(Ticks, u64, &mut Vec<Received>)) -> Duration {
        let bursts = self.bursts();
        self.frames.clear();
        (0..bursts).for_each(|_| self.write(self.burst - others, is_interest_in_turn));
        timed(|| {
            for _ in 0..bursts {
                for i in 0..self.burst - others {
                    self.receive(is_interest_in_turn(i));
                }
                receive(self.now, others, &mut self.input);
                self.forward(self.burst);
                self.output.clear();
            }
        })
    }

    /// Number of bursts in a turn of [`Traffic::turn_beside`].
    pub fn bursts(&self) -> u64 {
        TURN / self.burst
    }

    /// Number of Interests that were answered, and of Interests whose Data did not reach the consumer.
    pub fn answered(&self) -> (u64, u64) {
        let arrived = self.worker.face_counters(CONSUMERS).map_or(0, |counters| counters.out_data);
        (arrived, self.answered - arrived)
    }

    /// The worker.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The worker, mutable, for adding faces.
    pub fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Number of dropped packets, and of packets that went to a wrong face.
    pub fn astray(&self) -> (u64, u64) {
        let counters = self.worker.counters();
        let drops = counters.drops.iter().map(|(_, count)| count).sum();
        let of_face = |face| self.worker.face_counters(face).unwrap_or_default();
        let (consumers, producers) = (of_face(CONSUMERS), of_face(PRODUCERS));
        let expected = [
            (consumers.in_interests, self.asked),
            (producers.out_interests, self.asked),
            (producers.in_data, self.answered),
            (consumers.out_data, self.answered),
            (counters.satisfied_interests, self.answered),
            (counters.pit_entries, self.asked - self.answered),
        ];
        (drops, expected.iter().map(|(found, expected)| found.abs_diff(*expected)).sum())
    }

    /// Number of packets that have passed.
    pub fn passed(&self) -> u64 {
        self.asked + self.answered
    }

    /// Passes `packets` packets. Returns their time, from the port's memory on.
    fn pass(&mut self, packets: u64, is_interest: fn(u64) -> bool) -> Duration {
        self.frames.clear();
        self.write(packets, is_interest);
        timed(|| {
            let mut done = 0;
            while done < packets {
                let burst = self.burst.min(packets - done);
                self.stopwatch.start();
                for i in done..done + burst {
                    self.receive(is_interest(i));
                }
                self.stopwatch.lap(Stage::Receive, burst as usize);
                self.forward(burst);
                self.stopwatch.skip();
                self.output.clear();
                self.stopwatch.lap(Stage::Send, burst as usize);
                self.stopwatch.stop(false);
                done += burst;
            }
        })
    }

    /// Writes packets to the port's memory, as a network card would.
    fn write(&mut self, packets: u64, is_interest: fn(u64) -> bool) {
        for i in 0..packets {
            if is_interest(i) {
                self.packets.write_interest(self.first + self.asked, &mut self.frames);
                self.asked += 1;
            } else {
                self.packets.write_data(self.first + self.answered, &mut self.frames);
                self.answered += 1;
            }
        }
    }

    /// Advances the worker's time by `packets` packets, and hands it the received ones.
    fn forward(&mut self, packets: u64) {
        self.now = self.now + self.step * packets as u32;
        self.worker.poll(self.now, &mut self.input, &mut self.output);
    }

    /// Receives the port's next packet.
    #[inline]
    fn receive(&mut self, is_interest: bool) {
        let received = Received::append(&mut self.input);
        received.face = if is_interest { CONSUMERS } else { PRODUCERS };
        received.packet.fill(Packet::copy_from(self.frames.receive()));
    }
}

/// The worker's time between two packets: as many Interests come within [`WAIT`] as are pending.
pub fn step(options: &Options) -> Duration {
    WAIT / u32::try_from(2 * options.pit).unwrap_or(u32::MAX)
}

fn is_interest_in_turn(i: u64) -> bool {
    i.is_multiple_of(2)
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
