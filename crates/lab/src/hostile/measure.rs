//! Turns of ordinary packets, of an attack, and of both together.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use byname_forward::face_table::{LinkType, Scope};
use hdrhistogram::Histogram;

use super::Options;
use super::attack::{ATTACKER, Attack, Attacker};
use super::record::Record;
use crate::forward::{self, Fib, Packets, Plane, Run, TURN, Traffic};
use crate::progress::Progress;
use crate::timing::on_cores;

/// After this many times `pit` packets, the worker's time has advanced by more than an Interest's lifetime.
const LIFETIME_PITS: u64 = 22;
/// Turns are recorded up to this time.
const TURN_NS_MAX: u64 = 60_000_000_000;

/// Measures the attacks on the default data plane. Returns one record of each.
///
/// # Errors
/// If the tables cannot be built, or an ordinary Interest was not answered.
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
        let attacked = |of_burst| Attacked::new(attack, &run, options, &fibs[0], &packets, of_burst);
        let (alone, beside, after) = (attacked(plane.burst as u64)?, attacked(*of_burst)?, attacked(*of_burst)?);
        let mut sides = Sides { alone, beside, after, burst: plane.burst as u64 };
        let found = on_cores(std::slice::from_mut(&mut sides), |sides| sides.measure(options)).remove(0);
        let record = record(options, attack, &sides, &found);
        spinner.finish_and_clear();
        ensure!(record.lost == 0, "{} ordinary Interests were not answered beside {attack:?}", record.lost);
        records.push(record);
    }
    Ok(records)
}

/// Three workers: one with only the attack, one with ordinary packets beside the attack, and one after an attack that
/// has ended.
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

/// A worker with an attacker on one of its faces.
pub(super) struct Attacked<'a> {
    pub(super) traffic: Traffic<'a>,
    pub(super) attacker: Attacker,
    /// Packets of the attack per burst.
    of_burst: u64,
}

/// Times of turns, in nanoseconds.
struct Found {
    ordinary: Histogram<u64>,
    attack: Histogram<u64>,
    beside: Histogram<u64>,
}

impl Sides<'_> {
    /// Fills the PIT and the caches with the attack, then measures.
    fn measure(&mut self, options: &forward::Options) -> Found {
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
        let note = |turns: &mut Histogram<u64>, took: Duration| turns.saturating_record(took.as_nanos() as u64);
        let start = Instant::now();
        while start.elapsed() < duration {
            note(&mut found.ordinary, self.after.turn(0));
            for (attacked, turns) in [(&mut self.alone, &mut found.attack), (&mut self.beside, &mut found.beside)] {
                note(turns, attacked.turn(attacked.of_burst));
            }
        }
        found
    }
}

impl<'a> Attacked<'a> {
    /// Makes the worker, with its ordinary pending Interests, and the attacker.
    pub(super) fn new(
        attack: Attack,
        run: &Run<'_>,
        options: &forward::Options,
        fib: &Fib,
        packets: &'a Packets,
        of_burst: u64,
    ) -> anyhow::Result<Self> {
        let room = attacker_room(options);
        let plane = Plane::new(options, &options.compare[0], *run.key(), &fib.tables, packets, room)?;
        let mut traffic = plane.into_alone();
        traffic.worker_mut().face_up(ATTACKER, Scope::NonLocal, LinkType::PointToPoint);
        Ok(Attacked { traffic, attacker: Attacker::new(attack, run, options)?, of_burst })
    }

    /// Number of packets that were dropped.
    fn drops(&self) -> u64 {
        let drops = self.traffic.worker().counters().drops;
        drops.iter().map(|(_, count)| count).sum::<u64>() + self.attacker.link_drops()
    }

    /// Runs a turn with `of_burst` packets of the attack in each burst.
    pub(super) fn turn(&mut self, of_burst: u64) -> Duration {
        let attacker = &mut self.attacker;
        attacker.write(self.traffic.bursts() * of_burst);
        self.traffic.turn_beside(of_burst, |now, packets, input| attacker.receive(now, packets, input))
    }
}

/// Room for PIT entries beyond those of the ordinary Interests. The attacker's Interests fill it.
pub(super) fn attacker_room(options: &forward::Options) -> u64 {
    options.pit + 2 * TURN
}

fn record(options: &forward::Options, attack: Attack, sides: &Sides<'_>, found: &Found) -> Record {
    let per_packet = |turns: &Histogram<u64>, packets: f64| turns.value_at_quantile(0.5) as f64 / packets;
    let attacker_share = sides.beside.of_burst as f64 / sides.burst as f64;
    let ns_per_packet = per_packet(&found.ordinary, TURN as f64);
    let attack_ns_per_packet = per_packet(&found.attack, TURN as f64);
    let beside_ns_per_packet = per_packet(&found.beside, TURN as f64 * (1.0 - attacker_share));
    let (answered, lost) = sides.beside.traffic.exchanges();
    Record {
        attack,
        engine: options.compare[0].engine.clone(),
        fib: options.fib,
        pit: options.pit,
        cs: options.cs,
        hash: options.hash,
        seed: options.measuring.seed,
        turns: found.ordinary.len(),
        ns_per_packet,
        attack_ns_per_packet,
        times: attack_ns_per_packet / ns_per_packet,
        attacker_share,
        beside_ns_per_packet,
        rate_left: ns_per_packet / beside_ns_per_packet,
        answered,
        lost,
        attack_packets: sides.alone.attacker.sent(),
        drops: sides.alone.drops(),
        longest_chain: sides.after.traffic.worker().longest_chain(),
        attacked_longest_chain: sides.alone.traffic.worker().longest_chain(),
    }
}
