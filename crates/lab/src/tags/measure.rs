//! One run: builds, measures in turn, checks, changes, and takes apart again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use byname_lookup::{Change, TagsetFib};

use super::check::check;
use super::engine::{self, Engine, Subject};
use super::options::Options;
use super::packets::Packets;
use super::population::{Population, entry};
use super::reader::{Reader, Sums};
use super::record::Record;
use crate::machine::{self, Reads, Reservation, resident};
use crate::progress::Progress;
use crate::timing::{Checked, median, rate_of_all};
use crate::writer::{self, Changes};

/// Of the repetitions' time, what the machine's own rate is measured for.
const MACHINE_SHARE: f64 = 0.2;
/// Seconds for the rate of changes.
const UPDATES_S_MAX: f64 = 0.5;
/// Changes in a batch.
const BATCH: usize = 256;
/// Descriptors that are added to a table, and removed again.
const FRESH: u64 = 1 << 14;
/// Descriptors whose tags are counted.
const COUNTED: usize = 10_000;

/// An engine under test.
struct Bench {
    engine: &'static Engine,
    subject: Subject,
    fib: Arc<dyn TagsetFib>,
    build_s: f64,
    /// Memory that building it took.
    both_bytes: u64,
}

/// What packets found, of one engine.
struct Found {
    /// Packets a second, of each repetition.
    rates: Vec<f64>,
    sums: Sums,
    checked: Checked,
}

/// Memory of one engine, when it is gone.
struct Memory {
    query_bytes: u64,
    both_bytes: u64,
    counted_bytes: usize,
    machine: Reads,
}

/// A run with all it was asked for.
struct Run<'a> {
    options: &'a Options,
    progress: Progress,
    population: Population,
    packets: Packets,
}

/// Measures some engines in turn: a record of each.
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    let engines: Vec<_> = engines.iter().map(|name| engine::find(name)).collect::<Result<_, _>>()?;
    refuse_impossible(options, &engines)?;
    let run = Run::prepare(options, progress)?;
    let estimate = engines.iter().map(|engine| engine.bytes_per_descriptor * run.population.len()).sum();
    let reservation = Reservation::take(options.pages, estimate, true)?;
    let mut benches = engines.iter().map(|engine| run.build(engine)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(reservation) = &reservation {
        // The machine's own rate is measured on a table of the same size.
        let largest = benches.iter().map(|bench| bench.fib.memory_bytes()).max().unwrap_or(0);
        reservation.trim(largest as u64)?;
    }
    let found = run.look_up(&benches);
    let updates = benches.iter_mut().map(|bench| run.update(bench)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut records = Vec::new();
    for (bench, (found, updates_per_s)) in benches.into_iter().zip(found.iter().zip(updates)) {
        let (engine, build_s) = (bench.engine, bench.build_s);
        let memory = run.take_apart(bench)?;
        records.push(run.record(engine, build_s, found, updates_per_s, &memory));
    }
    if let Some(record) = records.iter().find(|record| record.wrong > 0) {
        bail!("{} answers of {} were wrong, of {}", record.wrong, record.checked, record.engine);
    }
    Ok(records)
}

fn refuse_impossible(options: &Options, engines: &[&Engine]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    ensure!((0.0..=1.0).contains(&options.match_rate), "--match-rate is a share, from 0 to 1");
    ensure!(options.draws > 0 && options.descriptors > 0, "there must be a packet and a descriptor");
    ensure!(!engines.is_empty(), "there must be an engine");
    Ok(())
}

impl<'a> Run<'a> {
    fn prepare(options: &'a Options, progress: Progress) -> anyhow::Result<Self> {
        let bar = progress.bar("making descriptors", options.descriptors);
        let population = Population::draw(options, |made| bar.set_position(made))?;
        bar.finish_and_clear();
        let drawing = progress.spinner("drawing packets");
        let packets = Packets::draw(options, &population);
        drawing.finish_and_clear();
        Ok(Run { options, progress, population, packets })
    }

    fn build(&self, engine: &'static Engine) -> anyhow::Result<Bench> {
        let building = self.progress.spinner(&format!("building {}", engine.name));
        let before = resident::bytes()?;
        let start = Instant::now();
        let subject = (engine.build)(self.options, &self.population);
        let subject = subject.with_context(|| format!("{} was not built", engine.name))?;
        let build_s = start.elapsed().as_secs_f64();
        building.finish_and_clear();
        let fib = subject.query();
        Ok(Bench { engine, subject, fib, build_s, both_bytes: resident::bytes()?.saturating_sub(before) })
    }

    /// Measures all engines in turn, round by round.
    fn look_up(&self, benches: &[Bench]) -> Vec<Found> {
        let options = self.options;
        let step = self.options.measuring.repetition();
        let measuring = self.progress.spinner("asking for packets");
        let start_of = |thread| self.packets.len() / options.measuring.threads * thread;
        let readers =
            || (0..options.measuring.threads).map(|thread| Reader::new(&self.packets, options, start_of(thread)));
        let mut readers: Vec<Vec<_>> = benches.iter().map(|_| readers().collect()).collect();
        let mut rates = vec![Vec::new(); benches.len()];
        let round = |readers: &mut [Reader<'_>], bench: &Bench, duration| {
            // Control halves may not be shared.
            let fib = &*bench.fib;
            rate_of_all(readers, duration, |reader| reader.look_up(fib))
        };
        for (bench, readers) in benches.iter().zip(&mut readers) {
            // The first round finds caches and the processor's clock cold.
            round(readers, bench, step / 2);
        }
        for _ in 0..options.measuring.repetitions {
            for ((bench, readers), rates) in benches.iter().zip(&mut readers).zip(&mut rates) {
                rates.push(round(readers, bench, step));
            }
        }
        let mut found = Vec::new();
        for ((bench, readers), rates) in benches.iter().zip(readers).zip(rates) {
            let checked = check(options, bench.engine, &*bench.fib, &self.population, &self.packets);
            found.push(Found { rates, sums: readers.iter().map(|reader| reader.sums).sum(), checked });
        }
        measuring.finish_and_clear();
        found
    }

    /// Changes a second: descriptors that are not in the table are added, and removed again.
    fn update(&self, bench: &mut Bench) -> anyhow::Result<f64> {
        let spinner = self.progress.spinner(&format!("changing {}", bench.engine.name));
        let fresh: Vec<_> = match self.population.sets.len_max() {
            // A list has no others: those that are there go, and come again.
            Some(_) => self.population.iter().take(FRESH as usize).collect(),
            None => {
                let fresh = (self.population.end()..).map(|i| self.population.sets.descriptor(i));
                fresh.take(FRESH as usize).map(|set| (set.clone(), entry(set.filter()))).collect()
            }
        };
        let sets: Vec<_> = fresh.iter().map(|(set, entry)| Change::Set(set.clone(), *entry)).collect();
        let removes: Vec<_> = fresh.into_iter().map(|(set, _)| Change::Remove(set)).collect();
        let mut changes = match self.population.sets.len_max() {
            Some(_) => Changes::there_and_back(&removes, &sets, BATCH),
            None => Changes::there_and_back(&sets, &removes, BATCH),
        };
        let duration = self.options.measuring.repetition().min(Duration::from_secs_f64(UPDATES_S_MAX));
        let rates = writer::run(&mut *bench.subject, &mut changes, None, None, duration)?;
        changes.go_back(&mut *bench.subject)?;
        bench.fib = bench.subject.query();
        spinner.finish_and_clear();
        Ok(rates.updates_per_s)
    }

    /// Takes an engine apart, half by half, to see what each held; then lets the machine read from a
    /// table of that size.
    fn take_apart(&self, bench: Bench) -> anyhow::Result<Memory> {
        let Bench { subject, fib, both_bytes, .. } = bench;
        let counted_bytes = fib.memory_bytes();
        let query_bytes = resident::of_query_half(both_bytes, counted_bytes, || drop(subject), || drop(fib))?;
        let Options { burst, pages, .. } = *self.options;
        let threads = self.options.measuring.threads;
        let duration = self.options.measuring.share(MACHINE_SHARE);
        let machine = machine::random_reads(counted_bytes, Some(pages), burst, threads, duration)?;
        Ok(Memory { query_bytes, both_bytes, counted_bytes, machine })
    }

    fn record(&self, engine: &Engine, build_s: f64, found: &Found, updates_per_s: f64, memory: &Memory) -> Record {
        let options = self.options;
        let per_descriptor = |bytes: u64| bytes as f64 / self.population.len() as f64;
        let per_packet = |sum: u64| sum as f64 / found.sums.packets as f64;
        let packets_per_s = median(&found.rates);
        let steps_per_packet = per_packet(found.sums.steps);
        let counted = self.population.iter().take(COUNTED).map(|(set, _)| set.tags().len() as f64);
        let tags: Vec<_> = counted.collect();
        Record {
            engine: engine.name.to_owned(),
            tuning: options.tuning.clone(),
            descriptors: self.population.len(),
            workload: options.workload,
            tags_per_descriptor: tags.iter().sum::<f64>() / tags.len() as f64,
            extra_tags: (*options.extra_tags.start(), *options.extra_tags.end()),
            match_rate: options.match_rate,
            algorithm: options.algorithm,
            fanout: options.fanout,
            packets: options.packets,
            packets_prepared: self.packets.len(),
            seed: options.measuring.seed,
            threads: options.measuring.threads,
            pages: options.pages.label(),
            burst: options.burst,
            repetitions: found.rates.len(),
            packets_per_s,
            packets_per_s_min: found.rates.iter().copied().fold(f64::INFINITY, f64::min),
            packets_per_s_max: found.rates.iter().copied().fold(0.0, f64::max),
            ns_per_packet: options.measuring.threads as f64 * 1e9 / packets_per_s,
            matches_per_packet: per_packet(found.sums.matches),
            steps_per_packet,
            cut_off: per_packet(found.sums.cut_off),
            bytes_per_descriptor: per_descriptor(memory.query_bytes),
            bytes_per_descriptor_counted: per_descriptor(memory.counted_bytes as u64),
            control_bytes_per_descriptor: per_descriptor(memory.both_bytes.saturating_sub(memory.query_bytes)),
            build_s,
            updates_per_s,
            checked: found.checked.checked,
            wrong: found.checked.wrong,
            machine_lines_per_s: memory.machine.lines_per_s,
            machine_bytes: memory.machine.bytes,
            of_limit: packets_per_s * steps_per_packet / memory.machine.lines_per_s,
        }
    }
}
