//! One run: builds, measures in turn, checks, changes, and takes apart again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use byname_lookup::TagsetFib;
use byname_wire::Descriptor;

use super::asking::Asking;
use super::check::{self, Sample};
use super::engine::{self, Engine, Subject};
use super::options::Options;
use super::packets::Packets;
use super::population::Population;
use super::reader::{Reader, Sums};
use super::record::Record;
use super::updates::{self, CheckedReader};
use crate::machine::{self, Reads, Reservation, cores, resident};
use crate::progress::Progress;
use crate::timing::{Checked, median, rate, rate_of_all};
use crate::writer::{self, Changes};

/// Of the repetitions' time, what the machine's own rate is measured for.
const MACHINE_SHARE: f64 = 0.2;
/// Seconds for a rate of changes that nobody asked for.
const UPDATES_S_MAX: f64 = 0.5;
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
    /// Packets prepared.
    packets: usize,
}

/// What changes found, of one engine.
struct Updates {
    per_s: f64,
    /// Packets a second beside the writer, and of the same reader without it.
    beside_and_quiet: Option<(f64, f64)>,
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
}

/// Measures some engines in turn: for each kind of packets, a record of each engine.
pub fn measure_all(
    options: &Options,
    engines: &[&str],
    askings: &[Asking],
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    let engines: Vec<_> = engines.iter().map(|name| engine::find(name)).collect::<Result<_, _>>()?;
    refuse_impossible(options, &engines, askings)?;
    let run = Run::prepare(options, progress)?;
    let estimate = engines.iter().map(|engine| engine.bytes_per_descriptor * run.population.len()).sum();
    let reservation = Reservation::take(options.pages, estimate, true)?;
    let mut benches = engines.iter().map(|engine| run.build(engine)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(reservation) = &reservation {
        // The machine's own rate is measured on a table of the same size.
        let largest = benches.iter().map(|bench| bench.fib.memory_bytes()).max().unwrap_or(0);
        reservation.trim(largest as u64)?;
    }
    let (found, samples): (Vec<_>, _) = askings.iter().map(|asking| run.look_up(asking, &benches)).unzip();
    let checked = run.check(samples);
    let updates = benches.iter_mut().map(|bench| run.update(bench)).collect::<anyhow::Result<Vec<_>>>()?;
    let builds: Vec<_> = benches.iter().map(|bench| (bench.engine, bench.build_s)).collect();
    let memory = benches.into_iter().map(|bench| run.take_apart(bench)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut records = Vec::new();
    for ((asking, found), checked) in askings.iter().zip(&found).zip(&checked) {
        for (at, build) in builds.iter().enumerate() {
            records.push(run.record(asking, *build, (&found[at], checked[at]), &updates[at], &memory[at]));
        }
    }
    if let Some(record) = records.iter().find(|record| record.wrong > 0) {
        bail!("{} answers of {} were wrong, of {}", record.wrong, record.checked, record.engine);
    }
    Ok(records)
}

fn refuse_impossible(options: &Options, engines: &[&Engine], askings: &[Asking]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    if options.is_updating() {
        cores::ensure_enough(2, "a reader beside a writer")?;
        let has_fanout = options.asking.fanout.is_some();
        ensure!(!has_fanout, "which entries a fan-out leaves cannot be compared while they change");
    }
    for asking in askings {
        ensure!((0.0..=1.0).contains(&asking.match_rate), "--match-rate is a share, from 0 to 1");
    }
    ensure!(options.draws > 0 && options.descriptors > 0, "there must be a packet and a descriptor");
    ensure!(!engines.is_empty() && !askings.is_empty(), "there must be an engine, and packets to ask for");
    Ok(())
}

impl<'a> Run<'a> {
    fn prepare(options: &'a Options, progress: Progress) -> anyhow::Result<Self> {
        let bar = progress.bar("making descriptors", options.descriptors);
        let population = Population::draw(options, |made| bar.set_position(made))?;
        bar.finish_and_clear();
        Ok(Run { options, progress, population })
    }

    fn packets(&self, asking: &Asking) -> Packets {
        let drawing = self.progress.spinner("drawing packets");
        let packets = Packets::draw(self.options, asking, &self.population);
        drawing.finish_and_clear();
        packets
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
    fn look_up(&self, asking: &Asking, benches: &[Bench]) -> (Vec<Found>, Sample) {
        let options = self.options;
        let packets = self.packets(asking);
        let step = self.options.measuring.repetition();
        let measuring = self.progress.spinner("asking for packets");
        let start_of = |thread| packets.len() / options.measuring.threads * thread;
        let reader = |thread| Reader::new(&packets, asking, options.burst, start_of(thread));
        let readers = || (0..options.measuring.threads).map(reader);
        let mut readers: Vec<Vec<_>> = benches.iter().map(|_| readers().collect()).collect();
        let mut rates = vec![Vec::new(); benches.len()];
        let round = |readers: &mut [Reader<'_>], bench: &Bench, duration| {
            // Control halves may not be shared.
            let fib = &*bench.fib;
            rate_of_all(readers, duration, |reader| reader.look_up(fib).len())
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
        let sums = readers.iter().map(|readers| readers.iter().map(|reader| reader.sums).sum());
        let found = rates.into_iter().zip(sums).map(|(rates, sums)| Found { rates, sums, packets: packets.len() });
        let asked: Vec<_> = benches.iter().map(|bench| self.asked(bench)).collect();
        let sample = Sample::ask(&packets, &asked);
        measuring.finish_and_clear();
        (found.collect(), sample)
    }

    fn asked<'b>(&self, bench: &'b Bench) -> check::Asked<'b> {
        let by_filters = bench.engine.by_filters;
        check::Asked { fib: &*bench.fib, by_filters, is_any_right: by_filters && self.options.tuning.papers_search }
    }

    fn check(&self, samples: Vec<Sample>) -> Vec<Vec<Checked>> {
        let checking = self.progress.spinner("comparing with all descriptors");
        let checked = check::check(samples, &self.population);
        checking.finish_and_clear();
        checked
    }

    /// Changes the table, beside a reader if that is asked for, and leaves it as it was.
    fn update(&self, bench: &mut Bench) -> anyhow::Result<Updates> {
        let options = self.options;
        let spinner = self.progress.spinner(&format!("changing {}", bench.engine.name));
        let mut changes = updates::prepare(&self.population, options.batch as usize, options.measuring.seed);
        let found = match options.is_updating() {
            true => self.update_beside_reader(bench, &mut changes)?,
            false => {
                let duration = options.measuring.repetition().min(Duration::from_secs_f64(UPDATES_S_MAX));
                let rates = writer::run(&mut *bench.subject, &mut changes, None, None, duration)?;
                Updates { per_s: rates.updates_per_s, beside_and_quiet: None, checked: Checked::default() }
            }
        };
        changes.go_back(&mut *bench.subject)?;
        bench.fib = bench.subject.query();
        spinner.finish_and_clear();
        Ok(found)
    }

    fn update_beside_reader(&self, bench: &mut Bench, changes: &mut Changes<Descriptor>) -> anyhow::Result<Updates> {
        let options = self.options;
        let packets = self.packets(&options.asking);
        let mut reader = CheckedReader::new(&packets, options);
        rate(options.measuring.repetition(), || reader.learn(&*bench.fib));
        let (mut per_s, mut beside, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
        let half = options.measuring.repetition() / 2;
        for _ in 0..options.measuring.repetitions {
            reader.rewind();
            quiet.push(writer::read_quietly(&*bench.subject.query(), &mut reader, half));
            reader.rewind();
            let rates = writer::run(&mut *bench.subject, changes, Some(&mut reader), options.updates_per_s, half)?;
            per_s.push(rates.updates_per_s);
            beside.push(rates.lookups_per_s);
        }
        let beside_and_quiet = Some((median(&beside), median(&quiet)));
        Ok(Updates { per_s: median(&per_s), beside_and_quiet, checked: reader.checked })
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

    fn record(
        &self,
        asking: &Asking,
        (engine, build_s): (&Engine, f64),
        (found, checked): (&Found, Checked),
        updates: &Updates,
        memory: &Memory,
    ) -> Record {
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
            extra_tags: (*asking.extra_tags.start(), *asking.extra_tags.end()),
            traffic: asking.traffic,
            match_rate: asking.match_rate,
            algorithm: asking.algorithm,
            fanout: asking.fanout,
            packets: asking.packets,
            packets_prepared: found.packets,
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
            updates_per_s: updates.per_s,
            packets_per_s_updating: updates.beside_and_quiet.map(|(beside, _)| beside),
            packets_per_s_quiet: updates.beside_and_quiet.map(|(_, quiet)| quiet),
            checked: checked.checked + updates.checked.checked,
            wrong: checked.wrong + updates.checked.wrong,
            machine_lines_per_s: memory.machine.lines_per_s,
            machine_bytes: memory.machine.bytes,
            of_limit: packets_per_s * steps_per_packet / memory.machine.lines_per_s,
        }
    }
}
