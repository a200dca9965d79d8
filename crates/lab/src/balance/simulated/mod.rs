//! Packet threads on simulated cores: a discrete-event simulation in virtual time.
//!
//! Dispatchers and workers are the router's own (`router`), and so are their decisions: homes, hot names, content
//! stores. Only time is simulated. Each step of a core takes the time that [`Costs`] says.
//!
//! Each core owns equally many faces of consumers and of producers. Interests come at random moments (a Poisson
//! process) at a rate that gives the cores the wanted load, or each consumer keeps a number of Interests under way. A
//! producer's Data comes one round trip after its Interest left.
//!
//! Not simulated: threads that rest or are woken, processors that share caches, memory or clock rate with others, and
//! memory on other nodes. A link takes no time.

mod consumers;
mod costs;
mod queue;
mod router;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::ensure;
use byname_forward::seat::owner;
use byname_forward::{FaceId, LinkFields, Outgoing, Received};
use byname_wire::PitToken;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::traffic::{Packets, Shards, workers};
use crate::workload::{Popularity, Random};
use consumers::Consumers;
pub use costs::{Costs, Forwarding, Moving};
pub use router::Counts;
use router::{Kind, Router, Sizes, Totals};

/// Faces of consumers: as many for each core, and fewer in all than a PIT entry can record. There are as many of
/// producers.
const CONSUMERS_PER_CORE: usize = 8;
const CONSUMERS_MAX: usize = 176;
/// After this many Interests, their rate is adapted to the time that an exchange takes now.
const RATE_EVERY: u64 = 1024;
/// Consumers with a window begin at random moments of this time.
const BEGINNING_NS: u64 = 10_000;

/// How many Interests come.
#[derive(Serialize, Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// As many as keep the cores busy for this share of the time.
    Open(f64),
    /// This many are under way for each core.
    Window(usize),
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Setting {
    pub cores: usize,
    /// Window of the sketches; `None`: hot names are not spread.
    pub hot_window: Option<u32>,
    pub exponent: f64,
    pub names: u64,
    pub cs: u64,
    pub load: Load,
    /// Interests to measure, after as many for warming up.
    pub interests: u64,
    pub rtt_ns: u64,
    /// Packets that a round takes from a port.
    pub burst: usize,
    /// Capacity of a ring and of a port.
    pub ring: usize,
    pub costs: Costs,
    pub seed: u64,
}

/// Results of the measured Interests, unless stated otherwise.
pub struct Outcome {
    pub elapsed_ns: u64,
    pub answered: u64,
    /// By core.
    pub counts: Vec<Counts>,
    pub latencies: Histogram<u64>,
    pub waits: Histogram<u64>,
    pub depth_max: usize,
    /// Packets dropped because a port or a ring was full.
    pub port_drops: u64,
    pub input_drops: u64,
    pub output_drops: u64,
    /// Packets that crossed a ring.
    pub crossed: u64,
    /// Interests that content stores answered, those that were spread, and those of them that were sent home.
    pub cs_hits: u64,
    pub spread: u64,
    pub strays: u64,
    /// Names whose Data all workers shared at the end.
    pub hot_names: u64,
    /// From the start until nothing was under way: Interests sent, answered, and given up or lost.
    pub sent_in_all: u64,
    pub answered_in_all: u64,
    pub lost_in_all: u64,
}

/// Simulates the wanted number of Interests twice. The first half warms up, and the second half is recorded.
pub fn simulate(setting: &Setting) -> anyhow::Result<Outcome> {
    let mut run = Run::new(setting)?;
    run.until(setting.interests)?;
    let (from, answered, before, totals) =
        (run.now, run.consumers.answered, run.router.worker_counters(), run.router.totals);
    run.router.reset_counts();
    run.consumers.latencies.reset();
    run.until(2 * setting.interests)?;
    let (after, since) = (run.router.worker_counters(), run.router.totals);
    let count = |of: fn(&Totals) -> u64| of(&since) - of(&totals);
    let mut outcome = Outcome {
        elapsed_ns: run.now - from,
        answered: run.consumers.answered - answered,
        counts: run.router.counts().collect(),
        latencies: run.consumers.latencies.clone(),
        waits: run.router.waits.clone(),
        depth_max: run.router.depth_max(),
        port_drops: count(|t| t.port_drops),
        input_drops: count(|t| t.input_drops),
        output_drops: count(|t| t.output_drops),
        crossed: count(|t| t.crossed),
        cs_hits: after.cs.hits - before.cs.hits,
        spread: after.spread_interests - before.spread_interests,
        strays: count(|t| t.strays),
        hot_names: after.hot_names,
        sent_in_all: 0,
        answered_in_all: 0,
        lost_in_all: 0,
    };
    run.finish()?;
    outcome.sent_in_all = run.consumers.sent();
    outcome.answered_in_all = run.consumers.answered;
    outcome.lost_in_all = run.consumers.given_up + run.consumers.under_way();
    Ok(outcome)
}

#[derive(Clone, Copy)]
enum Event {
    /// A core begins a round.
    Turn(usize),
    /// Data of a producer comes.
    Answer { face: FaceId, name: u64, pit_token: PitToken },
    /// A consumer sends an Interest; `None`: any consumer.
    Ask(Option<FaceId>),
}

struct Run<'a> {
    setting: &'a Setting,
    router: Router,
    packets: Packets,
    popularity: Popularity,
    random: Random,
    consumers: Consumers,
    consumer_faces: Range<u64>,
    /// By time, and then in the order in which they were planned.
    events: BTreeMap<(u64, u64), Event>,
    planned: u64,
    now: u64,
    stopped: bool,
    /// Time of all cores for one exchange, and from when on it is counted next.
    exchange_ns: f64,
    counted: (u64, f64),
    turns: Vec<(u64, usize)>,
}

impl<'a> Run<'a> {
    fn new(setting: &'a Setting) -> anyhow::Result<Self> {
        let Setting { cores, hot_window: window, cs, seed, .. } = *setting;
        let of_core = (CONSUMERS_MAX / cores).clamp(1, CONSUMERS_PER_CORE);
        let count = (of_core * cores) as u64;
        let faces = FaceId::FIRST.0..FaceId::FIRST.0 + 2 * count;
        let consumer_faces = faces.start..faces.start + count;
        let producers: Vec<_> = (consumer_faces.end..faces.end).map(FaceId).collect();
        let (dispatcher, workers) = workers(&Shards { count: cores, cs, window, seed }, &producers)?;
        let sizes = Sizes { burst: setting.burst, ring: setting.ring, costs: setting.costs, spreads: window.is_some() };
        let mut run = Run {
            setting,
            router: Router::new(&dispatcher, workers, faces, producers[0], &sizes),
            packets: Packets::new(producers.len()),
            popularity: Popularity::new(setting.names, setting.exponent, seed)?,
            random: Random::new(seed),
            consumers: Consumers::new(),
            consumer_faces,
            events: BTreeMap::new(),
            planned: 0,
            now: 0,
            stopped: false,
            exchange_ns: setting.costs.exchange_alone_ns().max(1.0),
            counted: (0, 0.0),
            turns: Vec::new(),
        };
        match setting.load {
            Load::Open(_) => run.plan(0, Event::Ask(None)),
            Load::Window(window) => {
                for i in 0..window * cores {
                    let face = FaceId(run.consumer_faces.start + i as u64 % count);
                    let at = run.random.below(BEGINNING_NS);
                    run.plan(at, Event::Ask(Some(face)));
                }
            }
        }
        Ok(run)
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.events.insert((at, self.planned), event);
        self.planned += 1;
    }

    /// Simulates until so many Interests were sent. Checks that all packets are accounted for.
    fn until(&mut self, sent: u64) -> anyhow::Result<()> {
        while self.consumers.sent() < sent {
            if !self.step() {
                // All that was under way is lost.
                self.now = self.consumers.next_at().unwrap_or(self.now);
            }
            while let Some(face) = self.consumers.give_up(self.now) {
                if let Load::Window(_) = self.setting.load {
                    self.plan(self.now, Event::Ask(Some(face)));
                }
            }
        }
        self.check()
    }

    /// Lets all answers come.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.stopped = true;
        while self.step() {}
        self.check()?;
        let lost = self.consumers.given_up + self.consumers.under_way();
        let Totals { port_drops, input_drops, output_drops, .. } = self.router.totals;
        let dropped = port_drops + input_drops + output_drops;
        ensure!(lost == 0 || dropped > 0, "{lost} Interests were lost, but no packet was dropped");
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        let Consumers { answered, given_up, .. } = self.consumers;
        let (sent, under_way) = (self.consumers.sent(), self.consumers.under_way());
        ensure!(
            sent == answered + given_up + under_way,
            "{sent} Interests were sent, {answered} answered, {given_up} given up, and {under_way} are under way"
        );
        ensure!(self.router.is_balanced(), "packets were lost or doubled between cores");
        Ok(())
    }

    /// Handles the next event. Returns whether there was one.
    fn step(&mut self) -> bool {
        let Some(((now, _), event)) = self.events.pop_first() else { return false };
        self.now = now;
        match event {
            Event::Turn(core) => self.round(now, core),
            Event::Answer { face, name, pit_token } => {
                let fields = LinkFields { pit_token, ..LinkFields::default() };
                self.arrive(Kind::Data, Received { face, fields, packet: self.packets.data(name) });
            }
            Event::Ask(_) if self.stopped => {}
            Event::Ask(face) => self.ask(face),
        }
        true
    }

    fn arrive(&mut self, kind: Kind, received: Received) {
        if let Some((at, core)) = self.router.arrive(self.now, kind, received) {
            self.plan(at, Event::Turn(core));
        }
    }

    fn ask(&mut self, face: Option<FaceId>) {
        let face = face.unwrap_or_else(|| {
            let Range { start, end } = self.consumer_faces;
            FaceId(start + self.random.below(end - start))
        });
        let name = self.popularity.draw();
        let packet = self.packets.interest(name, self.consumers.sent() as u32);
        self.consumers.ask(self.now, face, name);
        self.arrive(Kind::Interest, Received { face, fields: LinkFields::default(), packet });
        if let Load::Open(load) = self.setting.load {
            self.adapt();
            let mean_ns = self.exchange_ns / (load * self.router.len() as f64);
            let gap_ns = -(1.0 - self.random.unit()).ln() * mean_ns;
            self.plan(self.now + gap_ns as u64, Event::Ask(None));
        }
    }

    /// Follows the time that an exchange takes: names become known to the content stores.
    fn adapt(&mut self) {
        if !self.consumers.sent().is_multiple_of(RATE_EVERY) {
            return;
        }
        let busy_ns: u64 = self.router.counts().map(|counts| counts.busy_ns).sum();
        let (answered, busy_before) = self.counted;
        let lately = self.consumers.answered - answered;
        self.counted = (self.consumers.answered, busy_ns as f64);
        // The counts of cores start anew when warming up is over.
        let spent = busy_ns as f64 - busy_before;
        if lately > 0 && spent > 0.0 {
            self.exchange_ns += (spent / lately as f64 - self.exchange_ns) / 16.0;
        }
    }

    fn round(&mut self, now: u64, core: usize) {
        let mut turns = std::mem::take(&mut self.turns);
        let round = self.router.round(now, core, &mut turns);
        turns.drain(..).for_each(|(at, core)| self.plan(at, Event::Turn(core)));
        self.turns = turns;
        let Some((end, sent)) = round else { return };
        for Outgoing { face, fields, packet } in sent {
            debug_assert_eq!(owner(face, self.router.len()), core);
            if !self.consumer_faces.contains(&face.0) {
                let (name, pit_token) = (self.packets.name_of(&packet), fields.pit_token);
                self.plan(end + self.setting.rtt_ns, Event::Answer { face, name, pit_token });
                continue;
            }
            let answered = self.consumers.answer(end, face, self.packets.name_of_data(&packet));
            if let Load::Window(_) = self.setting.load {
                (0..answered).for_each(|_| self.plan(end, Event::Ask(Some(face))));
            }
        }
    }
}
