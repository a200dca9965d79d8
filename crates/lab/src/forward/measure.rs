//! One run: builds FIBs and workers, and measures them in turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use byname_control::config::Threads;
use byname_forward::stages::{Stage, StageTimes};
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_lookup::{EntryId, PrefixFib};
use byname_wire::NameHashKey;
use hdrhistogram::Histogram;

use super::consumers::producer;
use super::lockstep::Lockstep;
use super::options::{Mix, Options};
use super::packets::Packets;
use super::plane::{Plane, TRACED_SHARE, Totals};
use super::record::Record;
use super::traffic::{LIFETIME_MS, TURN, Traffic};
use super::updates::{self, Updates, Written};
use super::variant::{Look, Variant};
use crate::harness::warm_in_turn;
use crate::machine::{self, Reads, Reservation, cores};
use crate::options::Measuring;
use crate::prefix::{self, Built, Engine, Load, Setup, Tuning};
use crate::progress::Progress;
use crate::timing::{Spread, median};
use crate::workload::{self, Drawing, NameChoice, NameSet, Random, Workload};

/// Share of the measuring time for the machine's own rate, and the same share for the stages.
const SHARE: f64 = 0.2;
/// Random reads under way while the machine's own rate is measured: as many as a burst of packets could have.
const LINES_UNDER_WAY: usize = 64;

/// Turns are recorded up to this time.
const TURN_NS_MAX: u64 = 60_000_000_000;

/// A FIB shared by some data planes.
pub struct Fib {
    engine: &'static Engine,
    tuning: Tuning,
    built: Built,
    /// The tables that workers read.
    pub tables: Arc<Tables>,
    lines: Option<f64>,
    machine: Reads,
}

/// Results of one data plane.
struct Found {
    rates: Vec<Rate>,
    /// Rates beside updates, and the results of these updates.
    beside: Vec<Rate>,
    written: Option<Written>,
    /// Times of turns, in nanoseconds.
    turns: Histogram<u64>,
    stages: StageTimes,
    /// Number of packets that `stages` covers.
    staged: u64,
    totals: Totals,
}

/// What one thread did in its timed work.
struct Done {
    packets: u64,
    /// Data packets that came to its consumers.
    arrived: u64,
    time: Duration,
    /// Times of turns, in nanoseconds.
    turns: Histogram<u64>,
}

/// Packets of all threads, and Data that came to consumers, per second of the timed work of the busiest thread.
#[derive(Clone, Copy)]
struct Rate {
    packets: f64,
    exchanges: f64,
}

/// Measures the data planes in turn. Returns one record of each.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Vec<Record>> {
    options.measuring.ensure_possible()?;
    crate::options::ensure_rules_fit(options.fib, "--fib")?;
    if let Some(per_s) = options.fib_updates_per_s {
        ensure!(per_s > 0, "--fib-updates-per-s must be more than 0");
        let threads = options.measuring.threads + 1;
        cores::ensure_enough(threads, "a writer of routes beside the workers (--fib-updates-per-s)")?;
    }
    ensure!(options.fib > 0 && options.pit > 0, "there must be at least one rule and one pending Interest");
    if let Some(exponent) = options.zipf {
        ensure!((0.0..=4.0).contains(&exponent), "exponents go from 0 to 4 (--zipf)");
        ensure!(options.mix == Mix::Both, "a content store answers popular names at once: --mix both only (--zipf)");
    }
    if options.compare.iter().any(|variant| variant.one_thread) {
        ensure!(options.fib_updates_per_s.is_none(), "a data plane with `one-thread` is measured without updates");
    }
    let run = Run::open(options, progress)?;
    let packets = run.packets()?;
    let mut fibs = run.fibs()?;
    let updates = fibs.iter_mut().map(|fib| run.updates(fib)).collect();
    let found = run.pass(&fibs, updates, &packets)?;
    let records: Vec<_> = options
        .compare
        .iter()
        .zip(&found)
        .map(|(variant, found)| run.record(variant, fib_of(options, &fibs, variant), &packets, found))
        .collect();
    if let Some(record) = records.iter().find(|record| record.wrong > 0) {
        bail!("of {} packets, {} went to a wrong face or were lost without a drop", record.checked, record.wrong);
    }
    Ok(records)
}

fn fib_of<'a>(options: &Options, fibs: &'a [Fib], variant: &Variant) -> &'a Fib {
    &fibs[number_of(options, fibs, variant)]
}

fn number_of(options: &Options, fibs: &[Fib], variant: &Variant) -> usize {
    let is_its = |fib: &Fib| fib.engine.name == variant.engine && fib.tuning == tuning(options, fib.engine, variant);
    fibs.iter().position(is_its).expect("each variant's FIB was built")
}

/// The options of one data plane.
fn options_of(options: &Options, variant: &Variant) -> Options {
    let mut options = options.clone();
    if variant.one_thread {
        options.measuring.threads = 1;
    }
    options
}

/// Tables with rules that lead to the producers of so many threads.
fn tables_over(fib: Arc<dyn PrefixFib>, threads: usize) -> Arc<Tables> {
    let tables = Arc::new(Tables::new(fib));
    for group in 0..workload::GROUPS {
        let nexthops = [Nexthop { face: producer(group as usize % threads, threads), cost: 0 }].into();
        tables.set_group(EntryId(group), Some(NexthopGroup { nexthops }));
    }
    tables
}

/// Makes a key of the chosen hash function.
pub fn key_of(options: &Options, secret: [u64; 2]) -> NameHashKey {
    NameHashKey::with_function(options.hash.into(), secret)
}

fn tuning(options: &Options, engine: &Engine, variant: &Variant) -> Tuning {
    let prefetch = options.tuning.prefetch.or(variant.prefetch.of_engine());
    Tuning { prefetch, ..options.tuning.clone() }.only(engine.takes)
}

/// The parts that all data planes of a run share.
pub struct Run<'a> {
    options: &'a Options,
    progress: Progress,
    key: NameHashKey,
    workload: Box<dyn Workload>,
    names: NameSet,
}

impl<'a> Run<'a> {
    /// Generates the rules and draws names.
    pub fn open(options: &'a Options, progress: Progress) -> anyhow::Result<Self> {
        let spinner = progress.spinner("making the rules");
        let components = usize::from(options.components);
        let workload = workload::open(&options.workload, options.fib, components, options.measuring.seed)?;
        spinner.set_message("drawing names");
        let drawing =
            Drawing { choice: &NameChoice::Hit, suffix: 0, draws: options.draws, seed: options.measuring.seed };
        let names = NameSet::draw(&*workload, &drawing, |_| ())?;
        spinner.finish_and_clear();
        let mut random = Random::new(options.measuring.seed);
        let key = key_of(options, [random.bits(), random.bits()]);
        Ok(Run { options, progress, key, workload, names })
    }

    /// The secret key with which names are hashed.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }

    /// Encodes packets for other names, below the rules or outside them.
    pub fn other_packets(&self, choice: &NameChoice, draws: u64, lifetime_ms: u64) -> anyhow::Result<Packets> {
        let drawing = Drawing { choice, suffix: 0, draws, seed: !self.options.measuring.seed };
        let names = NameSet::draw(&*self.workload, &drawing, |_| ())?;
        Packets::encode(&names, lifetime_ms, usize::try_from(self.options.content)?)
    }

    /// Number of components of the deepest rules.
    pub fn components(&self) -> usize {
        self.workload.components_max()
    }

    /// Encodes the ordinary packets.
    pub fn packets(&self) -> anyhow::Result<Packets> {
        let spinner = self.progress.spinner("encoding packets");
        let packets = Packets::encode(&self.names, LIFETIME_MS, usize::try_from(self.options.content)?);
        spinner.finish_and_clear();
        packets
    }

    /// Builds each engine once for each of its tunings.
    pub fn fibs(&self) -> anyhow::Result<Vec<Fib>> {
        let mut wanted: Vec<(&'static Engine, Tuning)> = Vec::new();
        for variant in &self.options.compare {
            let engine = prefix::find(&variant.engine)?;
            let tuning = tuning(self.options, engine, variant);
            if !wanted.iter().any(|(e, t)| e.name == engine.name && *t == tuning) {
                wanted.push((engine, tuning));
            }
        }
        let on_pages = wanted.iter().filter(|(engine, _)| engine.chooses_pages);
        let estimate = on_pages.map(|(engine, _)| engine.bytes_per_rule * self.workload.rules()).sum();
        let _reservation = Reservation::take(self.options.pages, estimate, true)?;
        wanted.into_iter().map(|(engine, tuning)| self.fib(engine, tuning)).collect()
    }

    fn fib(&self, engine: &'static Engine, tuning: Tuning) -> anyhow::Result<Fib> {
        let rules = self.workload.rules();
        let (more, load) = match self.options.fib_updates_per_s {
            Some(_) => (updates::added(rules), Load::Changes),
            None => (0, Load::Auto),
        };
        let setup = Setup {
            key: self.key,
            rules_max: usize::try_from(rules + more)?,
            workload: &*self.workload,
            pages: self.options.pages.into(),
            tuning: &tuning,
        };
        let built = prefix::build(engine, &setup, load, self.progress)?;
        let fib = built.fib.clone();
        let lines = prefix::count_lines(&self.names, &self.key, &*fib);
        let machine = self.machine(engine, &*fib)?;
        let tables = tables_over(fib, self.options.measuring.threads);
        Ok(Fib { engine, tuning, built, tables, lines, machine })
    }

    /// The writer of routes, if updates are wanted. It takes the control half out of the FIB.
    fn updates(&self, fib: &mut Fib) -> Option<Updates> {
        self.options.fib_updates_per_s?;
        let engine = fib.built.subject.take()?;
        let Measuring { threads, seed, .. } = self.options.measuring;
        Some(Updates::new(engine, &fib.tables, &*self.workload, threads, seed))
    }

    fn machine(&self, engine: &Engine, fib: &dyn PrefixFib) -> anyhow::Result<Reads> {
        let pages = engine.chooses_pages.then_some(self.options.pages);
        let duration = self.options.measuring.share(SHARE);
        machine::random_reads(fib.memory_bytes(), pages, LINES_UNDER_WAY, self.options.measuring.threads, duration)
    }

    fn pass(&self, fibs: &[Fib], mut updates: Vec<Option<Updates>>, packets: &Packets) -> anyhow::Result<Vec<Found>> {
        let options = self.options;
        let spinner = self.progress.spinner("filling PITs");
        let mut planes: Vec<Plane<'_>> = Vec::new();
        for variant in &options.compare {
            let fib = fib_of(options, fibs, variant);
            let tables = match variant.one_thread {
                true => tables_over(fib.built.fib.clone(), 1),
                false => Arc::clone(&fib.tables),
            };
            planes.push(Plane::new(&options_of(options, variant), variant, self.key, &tables, packets, TURN)?);
        }
        spinner.set_message("forwarding");
        let mut subjects: Vec<_> = planes.iter_mut().zip(&options.compare).collect();
        let passed = warm_in_turn(&mut subjects, &options.measuring, |(plane, variant), duration| {
            let mut pass = || plane.run(|traffic, lockstep| forward(traffic, lockstep, options.mix, duration));
            let found = pass();
            let writer = updates[number_of(options, fibs, variant)].as_mut().zip(options.fib_updates_per_s);
            let beside = writer.map(|(updates, per_s)| updates.beside(per_s, options.measuring.threads, pass));
            (found, beside.as_deref().map(rate_of))
        });
        for updates in updates.iter().flatten() {
            ensure!(updates.refused() == 0, "the FIB refused {} updates", updates.refused());
        }
        let step = options.measuring.repetition().mul_f64(SHARE);
        let found = planes.into_iter().zip(passed).zip(&options.compare).map(|((mut plane, passed), variant)| {
            let (mut rates, mut beside, mut turns) = (Vec::new(), Vec::new(), no_turns());
            for (found, found_beside) in passed {
                rates.push(rate_of(&found));
                beside.extend(found_beside);
                found.into_iter().for_each(|done| turns.add(done.turns).expect("equal bounds"));
            }
            let written = updates[number_of(options, fibs, variant)].as_ref().map(Updates::written);
            let (staged, stages) = stages(&mut plane, options.mix, step);
            Found { rates, beside, written, turns, stages, staged, totals: plane.finish() }
        });
        let found = found.collect();
        spinner.finish_and_clear();
        Ok(found)
    }

    fn record(&self, variant: &Variant, fib: &Fib, packets: &Packets, found: &Found) -> Record {
        let options = &options_of(self.options, variant);
        let of = |rates: &[Rate], of: fn(&Rate) -> f64| rates.iter().map(of).collect::<Vec<_>>();
        let (rates, beside_rates) = (of(&found.rates, |rate| rate.packets), of(&found.beside, |rate| rate.packets));
        let rate = Spread::of(&rates);
        let exchanges = (options.mix == Mix::Both).then(|| Spread::of(&of(&found.rates, |rate| rate.exchanges)));
        let packets_per_s = rate.median;
        let left: Vec<_> = beside_rates.iter().zip(&rates).map(|(beside, alone)| beside / alone).collect();
        let beside = |rates: &[f64]| found.written.map(|_| median(rates));
        let (interest_bytes, data_bytes) = packets.mean_bytes();
        let per_packet = |ns: u64| ns as f64 / found.staged as f64;
        let of_stage = |stage| per_packet(found.stages.of(stage).ns);
        let (receive, send) = (of_stage(Stage::Receive), of_stage(Stage::Send));
        let totals = &found.totals;
        let interests = match options.mix {
            Mix::Interest => 1.0,
            Mix::Both => totals.asked as f64 / totals.received as f64,
            Mix::Data => 0.0,
        };
        let several = options.measuring.threads > 1;
        // The machine's own rate is that of all threads.
        let lines = fib.lines.filter(|_| options.measuring.threads == self.options.measuring.threads);
        Record {
            engine: variant.engine.clone(),
            prefetch: variant.prefetch,
            burst: variant.burst,
            look: variant.look,
            traced_share: (variant.look == Some(Look::Traced)).then(|| packets.prefix_of_share(TRACED_SHARE).1),
            mix: options.mix,
            fib: self.workload.rules(),
            components: self.workload.components_max(),
            workload: options.workload.label(),
            pit: options.pit,
            cs: options.cs,
            zipf: options.zipf,
            heavy_hitters: several.then_some(options.heavy_hitters),
            ring_packets: several.then(|| Threads::default().ring_packets),
            names_prepared: packets.len(),
            interest_bytes,
            data_bytes,
            seed: options.measuring.seed,
            threads: options.measuring.threads,
            pages: if fib.engine.chooses_pages { options.pages.label() } else { "heap" },
            hash: options.hash,
            load: fib.built.load,
            fib_bytes: fib.built.fib.memory_bytes(),
            repetitions: found.rates.len(),
            packets_per_s,
            packets_per_s_min: rate.min,
            packets_per_s_max: rate.max,
            exchanges_per_s: exchanges.map(|rate| rate.median),
            exchanges_per_s_min: exchanges.map(|rate| rate.min),
            exchanges_per_s_max: exchanges.map(|rate| rate.max),
            ns_per_packet: options.measuring.threads as f64 * 1e9 / packets_per_s,
            turn_ns_per_packet: found.turns.value_at_quantile(0.5) as f64 / TURN as f64,
            turn_ns_per_packet_p99: found.turns.value_at_quantile(0.99) as f64 / TURN as f64,
            receive_ns_per_packet: receive,
            forward_ns_per_packet: per_packet(found.stages.ns()) - receive - send,
            dispatch_ns_per_packet: of_stage(Stage::Dispatch),
            timers_ns_per_packet: of_stage(Stage::Timers),
            parse_ns_per_packet: of_stage(Stage::Parse),
            pit_cs_ns_per_packet: of_stage(Stage::PitCs),
            fib_ns_per_packet: of_stage(Stage::Fib),
            strategy_ns_per_packet: of_stage(Stage::Strategy),
            send_ns_per_packet: send,
            updates_per_s: found.written.map(|written| written.per_s),
            packets_per_s_beside_updates: beside(&beside_rates),
            rate_left_beside_updates: beside(&left),
            update_us: found.written.map(|written| written.us),
            update_us_p99: found.written.map(|written| written.us_p99),
            update_us_max: found.written.map(|written| written.us_max),
            fib_lines_per_interest: fib.lines,
            home_share: totals.home_share,
            cs_hits: totals.cs_hits,
            spread: totals.spread,
            shared_pit: several.then_some(variant.shared_pit),
            lent: several.then_some(variant.lent),
            first_come: several.then_some(variant.first_come),
            joined: totals.joined,
            checked: totals.received,
            exchanges: totals.arrived,
            lost: totals.lost,
            drops: totals.drops.iter().map(|(_, count)| count).sum(),
            drops_by_reason: totals.drops.iter().copied().collect(),
            wrong: totals.wrong,
            machine_lines_per_s: fib.machine.lines_per_s,
            machine_bytes: fib.machine.bytes,
            of_limit: lines.map(|lines| packets_per_s * interests * lines / fib.machine.lines_per_s),
        }
    }
}

/// The rate of all threads together.
fn rate_of(threads: &[Done]) -> Rate {
    let longest = threads.iter().map(|done| done.time).max().unwrap_or_default();
    let per_s = |count: fn(&Done) -> u64| threads.iter().map(count).sum::<u64>() as f64 / longest.as_secs_f64();
    Rate { packets: per_s(|done| done.packets), exchanges: per_s(|done| done.arrived) }
}

/// Lets one thread pass packets for so long.
fn forward(traffic: &mut Traffic<'_>, lockstep: &Lockstep, mix: Mix, duration: Duration) -> Done {
    let mut done = Done { packets: 0, arrived: 0, time: Duration::ZERO, turns: no_turns() };
    let start = Instant::now();
    while start.elapsed() < duration && !lockstep.is_stopped() {
        let turn = traffic.turn(mix);
        done.turns.saturating_record(turn.time.as_nanos() as u64 * TURN / turn.packets.max(1));
        done.packets += turn.packets;
        done.arrived += turn.arrived;
        done.time += turn.time;
    }
    done
}

fn no_turns() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TURN_NS_MAX, 3).expect("these bounds are allowed")
}

/// Times the stages of all threads. Returns the number of packets, and their times.
fn stages(plane: &mut Plane<'_>, mix: Mix, duration: Duration) -> (u64, StageTimes) {
    let of_threads = plane.run(|traffic, lockstep| {
        let start = Instant::now();
        let (mut packets, mut stages) = (0, StageTimes::default());
        traffic.time_stages();
        while start.elapsed() < duration && !lockstep.is_stopped() {
            let turn = traffic.turn(mix);
            packets += turn.packets;
            stages.add(&turn.stages);
        }
        (packets, stages)
    });
    of_threads.into_iter().fold((0, StageTimes::default()), |(packets, mut stages), (more, times)| {
        stages.add(&times);
        (packets + more, stages)
    })
}
