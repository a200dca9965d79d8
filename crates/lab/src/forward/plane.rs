//! All threads of one data plane, connected as in the router.

use std::sync::Arc;

use byname_control::config::Threads;
use byname_forward::Ticks;
use byname_forward::dispatch::{Dispatcher, part_of};
use byname_forward::face_table::{LinkType, Scope};
use byname_forward::hot::WINDOW;
use byname_forward::loans::Loan;
use byname_forward::seat::{Workers, owner};
use byname_forward::tables::Tables;
use byname_forward::trace::Filter;
use byname_forward::worker::{NoMemory, Worker, WorkerConfig, WorkerCounters};
use byname_wire::NameHashKey;

use super::consumers::producer;
use super::lockstep::Lockstep;
use super::options::Options;
use super::packets::Packets;
use super::post::Post;
use super::traffic::{TURN, Traffic};
use super::variant::{Look, Variant};
use crate::timing::on_cores;
use crate::workload::Random;

/// Names take random homes, so a shard has a few more pending Interests than another: room for this part of them.
const UNEVEN: u64 = 16;

/// Share of the names that a trace wants, about.
pub const TRACED_SHARE: f64 = 0.01;
/// The watch of the trace.
const WATCH: u64 = 1;

/// The threads of a data plane.
pub struct Plane<'a> {
    /// The traffic of each thread.
    pub traffic: Vec<Traffic<'a>>,
    lockstep: Arc<Lockstep>,
    repeats: bool,
}

/// Results of all threads after the last Data has come.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Packets that ports received.
    pub received: u64,
    /// Interests that consumers sent.
    pub asked: u64,
    /// Data packets that came to consumers.
    pub arrived: u64,
    /// Interests without Data.
    pub lost: u64,
    /// Drops by reason, each with a number above 0.
    pub drops: Vec<(&'static str, u64)>,
    /// Data that nobody waited for, counters that do not agree, and Interests lost without a drop.
    pub wrong: u64,
    /// Share of the received packets that were at home on the thread that received them.
    pub home_share: f64,
    /// Share of the Interests that a content store answered.
    pub cs_hits: f64,
    /// Share of the Interests that did not need to go home, because their names were hot.
    pub spread: f64,
    /// Share of the Interests that joined a PIT entry which threads share.
    pub joined: f64,
}

impl<'a> Plane<'a> {
    /// Makes workers over `tables` with the wanted number of pending Interests, and room for `room` more on each.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn new(
        options: &Options,
        variant: &Variant,
        key: NameHashKey,
        tables: &Arc<Tables>,
        packets: &'a Packets,
        room: u64,
    ) -> anyhow::Result<Self> {
        let threads = options.measuring.threads;
        let Threads { dispatch_components, ring_packets, .. } = Threads::default();
        let mark = Random::new(options.measuring.seed).bits() as u32;
        let mut dispatcher = Dispatcher::new(key, threads, dispatch_components, mark);
        if variant.first_come {
            dispatcher.claim_names((0..threads).map(|thread| config(options, thread, room).entries_max()).sum())?;
        }
        if options.heavy_hitters {
            dispatcher.spread_hot_names(WINDOW);
        }
        if variant.shared_pit {
            dispatcher.share_pit_of_hot_names();
        }
        let make = |thread| {
            let config = config(options, thread, room);
            let mut worker = Worker::try_new(config, key, tables.clone(), options.measuring.seed + thread as u64)?;
            worker.set_prefetch(variant.prefetch.of_worker());
            Ok::<_, NoMemory>(worker)
        };
        let seats = Workers::make(dispatcher, ring_packets, true, make)?.seats()?;
        // A turn's packets are dealt out to the rings of all threads. So with more threads, more turns fit into a ring.
        let lockstep = Arc::new(Lockstep::new(threads, threads as u64 - 1));
        let traffic = |(seat, post)| Traffic::new(options, packets, seat, post, Arc::clone(&lockstep), variant.burst);
        let traffic = seats.into_iter().zip(Post::of_threads(threads)).map(traffic).collect::<anyhow::Result<_>>()?;
        let mut plane = Plane { traffic, lockstep, repeats: options.zipf.is_some() };
        plane.raise_faces(variant.lent && threads > 1);
        if !plane.repeats {
            plane.fill(options.pit);
        }
        plane.look(variant.look, packets);
        Ok(plane)
    }

    /// Tells all workers the faces of all threads. Each thread tells its own worker, as in the router. So its tables are
    /// in memory of that thread.
    fn raise_faces(&mut self, are_lent: bool) {
        let threads = self.traffic.len();
        let consumers = self.traffic.iter().flat_map(|traffic| traffic.consumers().faces());
        let faces: Vec<_> = consumers.chain((0..threads).map(|thread| producer(thread, threads))).collect();
        self.run(|traffic, _| {
            for &face in &faces {
                traffic.worker_mut().face_up(face, Scope::NonLocal, LinkType::PointToPoint);
                traffic.worker_mut().lend_face(face, are_lent.then(|| Arc::new(()) as Loan));
            }
            traffic.hear_of_loans();
        });
    }

    /// Begins to look at the packets of all threads.
    fn look(&mut self, look: Option<Look>, packets: &Packets) {
        match look {
            None => {}
            Some(Look::Counted) => {
                self.traffic.iter_mut().for_each(|traffic| traffic.worker_mut().count_popular(Ticks(0), true));
            }
            Some(Look::Traced) => {
                let (prefix, _) = packets.prefix_of_share(TRACED_SHARE);
                for traffic in &mut self.traffic {
                    let filter = Filter { prefix: prefix.clone(), only_dropped: false, with_packets: false };
                    traffic.worker_mut().watch(WATCH, filter);
                    traffic.read_trace(WATCH);
                }
            }
        }
    }

    /// Sends `pit` Interests from each thread.
    fn fill(&mut self, pit: u64) {
        self.run(|traffic, _| (0..pit).step_by(TURN as usize).for_each(|sent| traffic.ask(TURN.min(pit - sent))));
    }

    /// The traffic of each thread.
    pub fn into_threads(self) -> Vec<Traffic<'a>> {
        self.traffic
    }

    /// Runs all threads together, each on its own core.
    pub fn run<T: Send>(&mut self, work: impl Fn(&mut Traffic<'a>, &Lockstep) -> T + Sync) -> Vec<T> {
        // Threads stop in the middle of an exchange. The packets left in rings would add to those of the first turns.
        while self.traffic.iter_mut().fold(false, |is_busy, traffic| traffic.empty_rings() | is_busy) {}
        let lockstep = &*self.lockstep;
        let done = on_cores(&mut self.traffic, |traffic| {
            let _stopper = traffic.stopper();
            work(traffic, lockstep)
        });
        lockstep.begin();
        done
    }

    /// Answers all Interests that wait, without new ones, and sums up.
    pub fn finish(mut self) -> Totals {
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for traffic in &mut self.traffic {
                let answered = traffic.pass_untimed(0, traffic.waiting().min(TURN));
                is_busy |= answered > 0 || traffic.empty_rings();
            }
        }
        self.totals()
    }

    fn totals(&mut self) -> Totals {
        let workers: Vec<WorkerCounters> = self.traffic.iter().map(|traffic| traffic.worker().counters()).collect();
        let sum = |of: fn(&WorkerCounters) -> u64| workers.iter().map(of).sum::<u64>();
        let of_all = |of: fn(&Traffic<'_>) -> u64| self.traffic.iter().map(of).sum::<u64>();
        let asked = of_all(|traffic| traffic.consumers().asked());
        let arrived = of_all(|traffic| traffic.consumers().arrived());
        let lost = of_all(|traffic| traffic.consumers().waiting());
        let unexpected = of_all(|traffic| traffic.consumers().unexpected());
        let answered = of_all(|traffic| traffic.answered());
        let drops = self.drops(&workers);
        let mut expected = vec![
            (asked, arrived + lost),
            (sum(|worker| worker.faces.in_interests), asked),
            (sum(|worker| worker.faces.in_data), answered),
            (sum(|worker| worker.faces.out_data), arrived),
            (sum(|worker| worker.faces.out_interests), answered),
            (sum(|worker| worker.pit_entries), 0),
            (lost, 0),
        ];
        if !self.repeats {
            expected.push((answered, asked));
        }
        let wrong = match drops.is_empty() {
            true => expected.iter().map(|(found, expected)| found.abs_diff(*expected)).sum(),
            false => 0,
        };
        Totals {
            received: asked + answered,
            asked,
            arrived,
            lost,
            drops,
            wrong: wrong + unexpected,
            home_share: self.home_share(),
            cs_hits: sum(|worker| worker.cs.hits) as f64 / asked as f64,
            spread: sum(|worker| worker.spread_hits) as f64 / asked as f64,
            joined: sum(|worker| worker.spread_joins) as f64 / asked as f64,
        }
    }

    /// Drops of workers, dispatchers and rings.
    fn drops(&self, workers: &[WorkerCounters]) -> Vec<(&'static str, u64)> {
        let of_workers = workers.iter().flat_map(|worker| worker.drops.clone());
        let of_seats = self.traffic.iter().flat_map(|traffic| traffic.ring_drops());
        let mut drops: Vec<(&'static str, u64)> = Vec::new();
        for (reason, count) in of_workers.chain(of_seats).filter(|(_, count)| *count > 0) {
            match drops.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sum)) => *sum += count,
                None => drops.push((reason, count)),
            }
        }
        drops
    }

    /// Share of the received packets that did not cross to another thread. Without loans it is also that of the sent
    /// packets, because an answer takes the way of its Interest back.
    fn home_share(&self) -> f64 {
        let threads = self.traffic.len();
        let (mut at_home, mut all) = (0, 0);
        for (here, traffic) in self.traffic.iter().enumerate() {
            let consumers = self.traffic.iter().flat_map(|traffic| traffic.consumers().faces());
            for face in consumers.chain((0..threads).map(|thread| producer(thread, threads))) {
                let counters = traffic.worker().face_counters(face).unwrap_or_default();
                let received = counters.in_interests + counters.in_data;
                all += received;
                at_home += match owner(face, threads) == here {
                    true => received,
                    false if traffic.borrows(face) => counters.in_data,
                    false => 0,
                };
            }
        }
        at_home as f64 / all as f64
    }
}

/// The tables of one thread's worker.
fn config(options: &Options, thread: usize, room: u64) -> WorkerConfig {
    let threads = options.measuring.threads;
    let room = if threads == 1 { room } else { room + options.pit / UNEVEN + 3 * TURN };
    WorkerConfig {
        pit_entries_max: (options.pit + room) as usize,
        cs_packets_max: part_of(options.cs as usize, thread, threads),
        cs_bytes_max: usize::MAX,
        ..WorkerConfig::default()
    }
}
