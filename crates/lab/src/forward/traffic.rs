//! A worker between consumers and producers: what a port would do, and the worker, in one thread.

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

/// Where Interests come from.
const CONSUMERS: FaceId = FaceId(256);
/// Where they go, and Data comes from.
pub const PRODUCERS: FaceId = FaceId(257);
/// Packets that are timed together; as many Interests are pending at times beyond those asked for.
pub const TURN: u64 = 1024;
/// How long an Interest is pending, in the worker's time.
const WAIT: Duration = Duration::from_millis(400);
/// How long it could be.
pub const LIFETIME_MS: u64 = 4000;

/// Traffic through one worker.
pub struct Traffic<'a> {
    packets: &'a Packets,
    worker: Worker,
    burst: u64,
    /// The first name of this worker.
    first: u64,
    asked: u64,
    answered: u64,
    now: Ticks,
    /// Worker's time between two packets.
    step: Duration,
    /// What is to be received.
    frames: Frames,
    input: Vec<Received>,
    output: Vec<Outgoing>,
    /// For what is not the worker's own.
    stopwatch: Stopwatch,
}

impl<'a> Traffic<'a> {
    /// A worker over `tables` with as many pending Interests as are asked for, and room for `room` more.
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
            prefetch: variant.prefetch.of_worker(),
            ..WorkerConfig::default()
        };
        let mut worker = Worker::new(config, key, tables, options.measuring.seed);
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

    /// Lets [`TURN`] packets pass that are timed, and those that must pass beside them. Returns their time.
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

    /// As [`Traffic::turn`], and adds what each stage took of the packets that are timed.
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

    /// Times the stages of all bursts from now on, which makes them slower by the looks at the clock.
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

    /// Lets [`TURN`] packets pass, Interests and Data in turn, where of each burst the last `others` come
    /// from another face, which `receive` appends. Returns their time.
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

    /// Bursts in a turn of [`Traffic::turn_beside`].
    pub fn bursts(&self) -> u64 {
        TURN / self.burst
    }

    /// Interests that were answered, and those whose Data did not reach who asked.
    pub fn answered(&self) -> (u64, u64) {
        let arrived = self.worker.face_counters(CONSUMERS).map_or(0, |counters| counters.out_data);
        (arrived, self.answered - arrived)
    }

    /// The worker.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The worker, to make other faces known to it.
    pub fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Packets that were dropped, and those that did not go where they should.
    pub fn astray(&self) -> (u64, u64) {
        let counters = self.worker.counters();
        let drops = counters.drops.iter().map(|(_, count)| count).sum();
        let expected = [
            (counters.faces.in_interests, self.asked),
            (counters.faces.out_interests, self.asked),
            (counters.faces.out_data, self.answered),
            (counters.satisfied_interests, self.answered),
            (counters.pit_entries, self.asked - self.answered),
        ];
        (drops, expected.iter().map(|(found, expected)| found.abs_diff(*expected)).sum())
    }

    /// Packets that have passed.
    pub fn passed(&self) -> u64 {
        self.asked + self.answered
    }

    /// Lets so many packets pass, and returns their time from the port's memory on.
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

    /// Puts so many packets into the port's memory, as a network card would.
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

    /// Hands over what was received, when so many packets' time has passed.
    fn forward(&mut self, packets: u64) {
        self.now = self.now + self.step * packets as u32;
        self.worker.poll(self.now, &mut self.input, &mut self.output);
    }

    /// What a port receives next.
    #[inline]
    fn receive(&mut self, is_interest: bool) {
        let received = Received::append(&mut self.input);
        received.face = if is_interest { CONSUMERS } else { PRODUCERS };
        received.packet.fill(Packet::copy_from(self.frames.receive()));
    }
}

/// Worker's time between two packets: in [`WAIT`], as many Interests come as are pending.
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
