//! One run: builds, measures in turn, checks, and takes apart again.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;

use super::build::{Built, build};
use super::check::{check, unknown_answered};
use super::delay::{self, Traffic};
use super::engine::{self, Engine, Make, Setup};
use super::hasher::Hasher;
use super::messages::{self, PerChange};
use super::names::Names;
use super::options::{Load, Options};
use super::queries::Queries;
use super::reader::Reader;
use super::record::Record;
use super::table::{Asked, Table};
use super::updates::{self, CheckedReader, Rates};
use crate::machine::{self, PageSize, Reads, Reservation, cores, resident};
use crate::progress::Progress;
use crate::timing::{Checked, median, rate_of_all, sample, times};
use crate::writer;

/// Of the repetitions' time, what the machine's own rate is measured for.
const MACHINE_SHARE: f64 = 0.2;
/// Seconds for rates of changes, in all.
const CHANGES_S_MAX: f64 = 2.0;

/// An engine under test.
struct Bench {
    engine: Engine,
    built: Built,
    /// Memory that building it took.
    both_bytes: u64,
}

/// What queries found, of one engine.
struct Found {
    /// Queries a second, of each repetition.
    rates: Vec<f64>,
    hash_rate: f64,
    p99_ns: u64,
    lines: Option<f64>,
    checked: Checked,
    /// By the engine's own account.
    wrong_rate: f64,
    unknown_answered: f64,
}

/// What changes found, of one engine.
#[derive(Default)]
struct Changed {
    rates: Option<Rates>,
    updates_per_s: Option<f64>,
    queries_per_s: Option<f64>,
    quiet_per_s: Option<f64>,
    /// For additions and alterations.
    messages: Option<[PerChange; 2]>,
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
    hasher: Hasher,
    names: Names,
    queries: Queries,
}

/// Measures some engines in turn: a record of each.
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    let engines: Vec<_> = engines.iter().map(|name| engine::find(name)).collect::<Result<_, _>>()?;
    refuse_impossible(options, &engines)?;
    let run = Run::prepare(options, progress)?;
    let on_pages = engines.iter().filter(|engine| matches!(engine.make, Make::Halves { chooses_pages: true, .. }));
    let estimate = on_pages.map(|engine| engine.bytes_per_name * run.names.len()).sum();
    let reserved = options.reserve.unwrap_or(estimate);
    let reservation = Reservation::take(options.pages, reserved, options.reserve.is_none())?;
    let mut benches = engines.iter().map(|engine| run.build(*engine)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(reservation) = &reservation {
        // The machine's own rate is measured on a table of the same size.
        let largest = benches.iter().map(|bench| bench.built.table.asked().memory_bytes()).max().unwrap_or(0);
        reservation.trim(largest as u64)?;
    }
    let found = run.look_up(&benches)?;
    let changed = benches.iter_mut().map(|bench| run.change(bench)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut records = Vec::new();
    for (bench, (found, changed)) in benches.into_iter().zip(found.iter().zip(&changed)) {
        let (engine, built) = (bench.engine, (bench.built.construct_s, bench.built.load));
        let memory = run.take_apart(bench)?;
        records.push(run.record(&engine, built, found, changed, &memory));
    }
    if let Some(record) = records.iter().find(|record| record.wrong > wrong_max(record)) {
        bail!("{} answers of {} were wrong, of {}", record.wrong, record.checked, record.engine);
    }
    Ok(records)
}

/// Answers that may be wrong: none, but of filters, whose own account is an average.
fn wrong_max(record: &Record) -> u64 {
    let expected = record.wrong_rate * record.checked as f64;
    (expected + 6.0 * expected.sqrt()).ceil() as u64
}

fn refuse_impossible(options: &Options, engines: &[Engine]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    if options.updates || options.updates_per_s.is_some() {
        cores::ensure_enough(2, "a reader beside a writer")?;
        ensure!(options.load != Load::Bulk, "names loaded in bulk take no updates");
    }
    ensure!(!engines.is_empty(), "there must be an engine");
    Ok(())
}

/// Delays of packets on one engine, at each of some rates, in nanoseconds.
pub fn delays(
    options: &Options,
    engine: &str,
    rates: &[f64],
    progress: Progress,
) -> anyhow::Result<Vec<Histogram<u64>>> {
    let engine = engine::find(engine)?;
    refuse_impossible(options, &[engine])?;
    let run = Run::prepare(options, progress)?;
    let bench = run.build(engine)?;
    let simulating = progress.spinner("packets come and wait");
    let asked = bench.built.table.asked();
    let delays = std::thread::scope(|scope| {
        let simulated = scope.spawn(|| {
            cores::pin(0);
            let mut reader = Reader::new(&run.queries, &run.hasher, options.burst, 0);
            let mut at = |&per_s| {
                let (packets, burst, seed) = (options.draws, options.burst, options.measuring.seed);
                delay::simulate(&mut reader, asked, Traffic { packets, per_s, burst, seed })
            };
            rates.iter().map(&mut at).collect()
        });
        simulated.join().expect("engines do not panic")
    });
    simulating.finish_and_clear();
    Ok(delays)
}

impl<'a> Run<'a> {
    fn prepare(options: &'a Options, progress: Progress) -> anyhow::Result<Self> {
        let names = Names::open(
            options.keys,
            options.list.as_deref(),
            options.key_bytes,
            options.names,
            options.measuring.seed,
        )?;
        let bar = progress.bar("drawing names", options.draws);
        let queries =
            Queries::draw(&names, options.trace.as_deref(), options.draws, options.measuring.seed, |drawn| {
                bar.inc(drawn)
            })?;
        bar.finish_and_clear();
        let hasher = Hasher::new(options.hash, options.measuring.seed);
        Ok(Run { options, progress, hasher, names, queries })
    }

    fn setup(&self) -> anyhow::Result<Setup<'_>> {
        let names = self.names.len();
        Ok(Setup {
            names: &self.names,
            hasher: &self.hasher,
            // Changes add some, and delete them again.
            names_max: usize::try_from(names + updates::fresh(names))?,
            action_bits: self.options.action_bits,
            pages: self.options.pages.into(),
        })
    }

    fn build(&self, engine: Engine) -> anyhow::Result<Bench> {
        let before = resident::bytes()?;
        let built = build(&engine, &self.setup()?, self.options.load, self.progress)?;
        Ok(Bench { engine, built, both_bytes: resident::bytes()?.saturating_sub(before) })
    }

    /// Measures all engines in turn, round by round.
    fn look_up(&self, benches: &[Bench]) -> anyhow::Result<Vec<Found>> {
        let setup = self.setup()?;
        let (options, queries) = (self.options, &self.queries);
        let step = self.options.measuring.repetition();
        let measuring = self.progress.spinner("asking for names");
        let start_of = |thread| queries.len() / options.measuring.threads * thread;
        let reader = |thread| Reader::new(queries, &self.hasher, options.burst, start_of(thread));
        let mut readers: Vec<_> = (0..options.measuring.threads).map(reader).collect();
        let mut rates = vec![Vec::new(); benches.len()];
        let round = |readers: &mut [Reader<'_>], bench: &Bench, duration| {
            let asked = bench.built.table.asked();
            rate_of_all(readers, duration, |reader| {
                let names = reader.look_up(asked).len();
                black_box(reader.answers());
                names
            })
        };
        for bench in benches {
            // The first round finds caches and the processor's clock cold.
            round(&mut readers, bench, step / 2);
        }
        for _ in 0..options.measuring.repetitions {
            for (bench, rates) in benches.iter().zip(&mut rates) {
                rates.push(round(&mut readers, bench, step));
            }
        }
        let hash_rate = rate_of_all(&mut readers, step, Reader::hash);
        let mut found = Vec::new();
        for (bench, rates) in benches.iter().zip(rates) {
            let asked = bench.built.table.asked();
            found.push(Found {
                rates,
                hash_rate,
                p99_ns: time_bursts(&mut readers[0], asked, step),
                lines: self.count_lines(asked),
                checked: check(asked, &self.names, options.action_bits, queries, &self.hasher, options.burst),
                wrong_rate: asked.wrong_rate(),
                unknown_answered: unknown_answered(asked, &setup),
            });
        }
        measuring.finish_and_clear();
        Ok(found)
    }

    fn change(&self, bench: &mut Bench) -> anyhow::Result<Changed> {
        let (options, setup) = (self.options, self.setup()?);
        let spinner = self.progress.spinner(&format!("changing names of {}", bench.engine.name));
        let batch = options.batch as usize;
        let duration = Duration::from_secs_f64(options.measuring.seconds.min(CHANGES_S_MAX));
        let rates = updates::rates(&mut bench.built.table, &setup, batch, options.measuring.seed, duration)?;
        let mut found = Changed { rates, ..Changed::default() };
        let Table::Halves { subject: Some(subject), fib } = &mut bench.built.table else { return Ok(found) };
        if options.updates || options.updates_per_s.is_some() {
            let mut changes = updates::prepare(&setup, batch, options.measuring.seed);
            let mut reader = CheckedReader::new(&setup, &self.queries, options.burst);
            let (mut per_s, mut beside, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
            let half = self.options.measuring.repetition() / 2;
            for _ in 0..options.measuring.repetitions {
                quiet.push(writer::read_quietly(&*subject.query(), &mut reader, half));
                let pace = options.updates_per_s;
                let rates = writer::run(&mut **subject, &mut changes, Some(&mut reader), pace, half)?;
                per_s.push(rates.updates_per_s);
                beside.push(rates.lookups_per_s);
            }
            found.updates_per_s = Some(median(&per_s));
            found.queries_per_s = Some(median(&beside));
            found.quiet_per_s = Some(median(&quiet));
            found.checked = Checked { checked: reader.checked, wrong: reader.wrong };
        }
        found.messages = messages::per_change(subject, &setup, batch, options.measuring.seed)?;
        *fib = subject.query();
        spinner.finish_and_clear();
        Ok(found)
    }

    /// Takes an engine apart, half by half, to see what each held; then lets the machine read from a
    /// table of that size.
    fn take_apart(&self, bench: Bench) -> anyhow::Result<Memory> {
        let Bench { engine, built: Built { table, .. }, both_bytes } = bench;
        let counted_bytes = table.asked().memory_bytes();
        let query_bytes = match table {
            Table::Halves { subject, fib } => {
                resident::of_query_half(both_bytes, counted_bytes, || drop(subject), || drop(fib))?
            }
            // One half: what of it only changes need is what the kernel does not say.
            Table::Baseline(baseline) => both_bytes.saturating_sub(baseline.control_bytes() as u64),
        };
        let pages = engine.pages(self.options);
        let (burst, threads) = (self.options.burst, self.options.measuring.threads);
        let duration = self.options.measuring.share(MACHINE_SHARE);
        let machine = machine::random_reads(counted_bytes, pages, burst, threads, duration)?;
        Ok(Memory { query_bytes, both_bytes, counted_bytes, machine })
    }

    /// Cache lines that a query reads, on average over a sample.
    fn count_lines(&self, asked: Asked<'_>) -> Option<f64> {
        const BURST: usize = 32;
        let (mut queries, mut lines) = (0, 0);
        for start in sample(self.queries.len(), BURST) {
            let (names, read) = Reader::new(&self.queries, &self.hasher, BURST, start).count_lines(asked)?;
            queries += names;
            lines += read;
        }
        Some(lines as f64 / queries as f64)
    }

    fn record(
        &self,
        engine: &Engine,
        (construct_s, load): (f64, Load),
        found: &Found,
        changed: &Changed,
        memory: &Memory,
    ) -> Record {
        let options = self.options;
        let names = self.names.len() as f64;
        let queries_per_s = median(&found.rates);
        let ns = |rate: f64| options.measuring.threads as f64 * 1e9 / rate;
        Record {
            engine: engine.name.to_owned(),
            names: self.names.len(),
            keys: options.keys,
            key_bytes: self.queries.mean_bytes(),
            action_bits: options.action_bits,
            queries_prepared: self.queries.len(),
            trace: options.trace.is_some(),
            seed: options.measuring.seed,
            threads: options.measuring.threads,
            pages: engine.pages(options).map_or("heap", PageSize::label),
            burst: options.burst,
            hash: options.hash,
            repetitions: found.rates.len(),
            queries_per_s,
            queries_per_s_min: found.rates.iter().copied().fold(f64::INFINITY, f64::min),
            queries_per_s_max: found.rates.iter().copied().fold(0.0, f64::max),
            ns_per_query: ns(queries_per_s),
            hash_ns: ns(found.hash_rate),
            p99_ns_per_burst: found.p99_ns,
            cache_lines_per_query: found.lines,
            bits_per_name: 8.0 * memory.query_bytes as f64 / names,
            bits_per_name_counted: 8.0 * memory.counted_bytes as f64 / names,
            control_bytes_per_name: memory.both_bytes.saturating_sub(memory.query_bytes) as f64 / names,
            load,
            construct_s,
            construct_ns_per_name: 1e9 * construct_s / names,
            adds_per_s: changed.rates.as_ref().map(|rates| rates.adds_per_s),
            alters_per_s: changed.rates.as_ref().map(|rates| rates.alters_per_s),
            deletes_per_s: changed.rates.as_ref().map(|rates| rates.deletes_per_s),
            message_bytes_per_add: changed.messages.as_ref().map(|[adds, _]| adds.octets),
            message_bytes_per_alter: changed.messages.as_ref().map(|[_, alters]| alters.octets),
            message_entropy_bits_per_add: changed.messages.as_ref().map(|[adds, _]| adds.entropy_bits),
            message_entropy_bits_per_alter: changed.messages.as_ref().map(|[_, alters]| alters.entropy_bits),
            updates_per_s: changed.updates_per_s,
            queries_per_s_updating: changed.queries_per_s,
            queries_per_s_quiet: changed.quiet_per_s,
            checked: found.checked.checked + changed.checked.checked,
            wrong: found.checked.wrong + changed.checked.wrong,
            wrong_rate: found.wrong_rate,
            unknown_answered: found.unknown_answered,
            machine_lines_per_s: memory.machine.lines_per_s,
            machine_bytes: memory.machine.bytes,
            of_limit: found.lines.map(|lines| queries_per_s * lines / memory.machine.lines_per_s),
        }
    }
}

/// The time that 1 burst of 100 exceeds, in nanoseconds.
fn time_bursts(reader: &mut Reader<'_>, asked: Asked<'_>, duration: Duration) -> u64 {
    let times = times(duration, || {
        reader.look_up(asked);
        black_box(reader.answers());
    });
    times.value_at_quantile(0.99)
}
