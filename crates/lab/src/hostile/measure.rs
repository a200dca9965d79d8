//! Turns of ordinary packets, of an attack, and of both together.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use byname_forward::face_table::{LinkType, Scope};
use hdrhistogram::Histogram;

use super::Options;
use super::attack::{Attack, Attacker, attacker};
use super::record::Record;
use crate::forward::{self, Consumers, Fib, Packets, Plane, Run, TURN, Traffic, Turn};
use crate::progress::Progress;
use crate::timing::on_cores;

/// After this many times `pit` packets, the worker's time has advanced by more than an Interest's lifetime.
const LIFETIME_PITS: u64 = 22;
/// Turns are recorded up to this time.
const TURN_NS_MAX: u64 = 60_000_000_000;

/// Measures the attacks on the default data plane. Returns one record of each.
///
/// # Errors
/// If the tables cannot be built, or more ordinary Interests were not answered than full rings shed.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<Record>> {
    let Options { attacks, of_burst, .. } = options;
    let options = &options.ordinary()?;
    crate::options::ensure_rules_fit(options.fib, "--fib")?;
    let plane = options.compare.first().context("there is a default data plane")?;
    ensure!(
        plane.burst as u64 > *of_burst,
        "a burst of {} packets has no room for {of_burst} attack packets and others",
        plane.burst
    );
    let run = Run::open(options, progress)?;
    let packets = run.packets()?;
    let fibs = run.fibs()?;
    let mut records = Vec::new();
    for &attack in attacks {
        let spinner = progress.spinner(&format!("{attack:?}"));
        let attacked = |of_burst| Attacked::of_all(attack, &run, options, &fibs[0], &packets, of_burst);
        let (alone, beside, after) = (attacked(plane.burst as u64)?, attacked(*of_burst)?, attacked(*of_burst)?);
        let threads = alone.into_iter().zip(beside).zip(after);
        let side = |((alone, beside), after)| Sides { alone, beside, after, burst: plane.burst as u64 };
        let mut sides: Vec<Sides<'_>> = threads.map(side).collect();
        let found = on_cores(&mut sides, |sides| sides.measure(options));
        while sides.iter_mut().fold(false, |is_busy, sides| sides.beside.traffic.empty_rings() | is_busy) {}
        let record = record(options, attack, &sides, &found);
        spinner.finish_and_clear();
        let Record { lost, shed, turns, .. } = record;
        ensure!(turns > 0, "no turn beside {attack:?} was measured");
        ensure!(
            lost <= shed,
            "{lost} ordinary Interests were not answered beside {attack:?}; full rings shed {shed} packets"
        );
        records.push(record);
    }
    Ok(records)
}

/// One thread of three data planes: of one with only the attack, one with ordinary packets beside the attack, and one
/// after an attack that has ended.
///
/// The worker after an attack gives the cost of ordinary packets. Its PIT has been in use for a while, so its entries
/// are scattered. In a worker that was never attacked, the PIT was filled in order and is answered in order, so
/// neighbouring entries are adjacent, which is faster than normal.
struct Sides<'a> {
    alone: Attacked<'a>,
    beside: Attacked<'a>,
    after: Attacked<'a>,
    /// Packets per burst.
    burst: u64,
}

/// A thread with an attacker on one of its faces.
pub(super) struct Attacked<'a> {
    pub(super) traffic: Traffic<'a>,
    pub(super) attacker: Attacker,
    /// Packets of the attack per burst.
    of_burst: u64,
}

/// Times of [`TURN`] packets, in nanoseconds.
struct Found {
    ordinary: Histogram<u64>,
    attack: Histogram<u64>,
    beside: Histogram<u64>,
}

impl Sides<'_> {
    /// Fills the PIT and the caches with the attack, then measures.
    fn measure(&mut self, options: &forward::Options) -> Found {
        let _stoppers = [&self.after, &self.alone, &self.beside].map(|attacked| attacked.traffic.stopper());
        let duration = Duration::from_secs_f64(options.measuring.seconds);
        for attacked in [&mut self.alone, &mut self.beside, &mut self.after] {
            for _ in 0..attacker_room(options).div_ceil(TURN) {
                attacked.turn(self.burst);
            }
        }
        let lifetime = LIFETIME_PITS * options.pit.div_ceil(TURN);
        for attacked in [&mut self.beside, &mut self.after] {
            (0..lifetime).for_each(|_| _ = attacked.turn(attacked.of_burst));
        }
        // The attacker's last Interests expire.
        (0..lifetime).for_each(|_| _ = self.after.turn(0));
        let turns = || Histogram::new_with_bounds(1, TURN_NS_MAX, 3).expect("these bounds are allowed");
        let mut found = Found { ordinary: turns(), attack: turns(), beside: turns() };
        let note = |turns: &mut Histogram<u64>, turn: Turn| {
            let times = TURN as f64 / turn.packets.max(1) as f64;
            turns.saturating_record((turn.time.as_nanos() as f64 * times) as u64);
        };
        let start = Instant::now();
        while start.elapsed() < duration && !self.after.traffic.is_stopped() {
            note(&mut found.ordinary, self.after.turn(0));
            for (attacked, turns) in [(&mut self.alone, &mut found.attack), (&mut self.beside, &mut found.beside)] {
                note(turns, attacked.turn(attacked.of_burst));
            }
        }
        found
    }
}

impl<'a> Attacked<'a> {
    /// Makes the workers of all threads, with their ordinary pending Interests, and the attackers.
    pub(super) fn of_all(
        attack: Attack,
        run: &Run<'_>,
        options: &forward::Options,
        fib: &Fib,
        packets: &'a Packets,
        of_burst: u64,
    ) -> anyhow::Result<Vec<Self>> {
        let (room, threads) = (attacker_room(options), options.measuring.threads);
        let plane = Plane::new(options, &options.compare[0], *run.key(), &fib.tables, packets, room)?;
        let attacked = |(thread, mut traffic): (usize, Traffic<'a>)| {
            for face in (0..threads).map(|thread| attacker(thread, threads)) {
                traffic.worker_mut().face_up(face, Scope::NonLocal, LinkType::PointToPoint);
            }
            Ok(Attacked { traffic, attacker: Attacker::new(attack, thread, run, options)?, of_burst })
        };
        plane.into_threads().into_iter().enumerate().map(attacked).collect()
    }

    /// Number of packets that were dropped.
    fn drops(&self) -> u64 {
        let drops = self.traffic.worker().counters().drops;
        drops.iter().map(|(_, count)| count).sum::<u64>() + self.attacker.link_drops()
    }

    /// Runs a turn with `of_burst` packets of the attack in each burst.
    pub(super) fn turn(&mut self, of_burst: u64) -> Turn {
        let attacker = &mut self.attacker;
        attacker.write(self.traffic.bursts() * of_burst);
        self.traffic.turn_beside(of_burst, |now, packets, input| attacker.receive(now, packets, input))
    }
}

/// Room for PIT entries beyond those of the ordinary Interests. The attacker's Interests fill it.
pub(super) fn attacker_room(options: &forward::Options) -> u64 {
    options.pit + 2 * TURN
}

fn record(options: &forward::Options, attack: Attack, sides: &[Sides<'_>], found: &[Found]) -> Record {
    let of_all = |turns: fn(&Found) -> &Histogram<u64>| {
        let mut all = turns(&found[0]).clone();
        found[1..].iter().for_each(|found| all.add(turns(found)).expect("they have the same bounds"));
        all
    };
    let (ordinary, attacks, beside) =
        (of_all(|found| &found.ordinary), of_all(|found| &found.attack), of_all(|found| &found.beside));
    let per_packet = |turns: &Histogram<u64>, packets: f64| turns.value_at_quantile(0.5) as f64 / packets;
    let sum = |of: &dyn Fn(&Sides<'_>) -> u64| sides.iter().map(of).sum::<u64>();
    let longest = |of: &dyn Fn(&Sides<'_>) -> usize| sides.iter().map(of).max().unwrap_or_default();
    let attacker_share = sides[0].beside.of_burst as f64 / sides[0].burst as f64;
    let ns_per_packet = per_packet(&ordinary, TURN as f64);
    let attack_ns_per_packet = per_packet(&attacks, TURN as f64);
    let beside_ns_per_packet = per_packet(&beside, TURN as f64 * (1.0 - attacker_share));
    let of_consumers = |count: fn(&Consumers) -> u64| sum(&|sides| count(sides.beside.traffic.consumers()));
    let (asked, arrived) = (of_consumers(Consumers::asked), of_consumers(Consumers::arrived));
    Record {
        attack,
        engine: options.compare[0].engine.clone(),
        fib: options.fib,
        threads: options.measuring.threads,
        pit: options.pit,
        cs: options.cs,
        hash: options.hash,
        seed: options.measuring.seed,
        turns: ordinary.len(),
        ns_per_packet,
        attack_ns_per_packet,
        times: attack_ns_per_packet / ns_per_packet,
        attacker_share,
        beside_ns_per_packet,
        rate_left: ns_per_packet / beside_ns_per_packet,
        answered: arrived,
        lost: asked - arrived - sum(&|sides| sides.beside.traffic.waiting()),
        shed: sum(&|sides| sides.beside.traffic.shed()),
        attack_packets: sum(&|sides| sides.alone.attacker.sent()),
        drops: sum(&|sides| sides.alone.drops()),
        longest_chain: longest(&|sides| sides.after.traffic.worker().longest_chain()),
        attacked_longest_chain: longest(&|sides| sides.alone.traffic.worker().longest_chain()),
    }
}
