//! One run: builds the engines, measures them in turn, checks answers and measures memory.

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
use crate::harness::{self, Beside, Memory, beside_writer, lines_per_lookup, warm_in_turn};
use crate::machine::{PageSize, cores, resident};
use crate::progress::Progress;
use crate::timing::{Checked, Spread, p99_ns, rate_of_all};

/// Maximum time for measuring rates of changes, in seconds.
const CHANGES_S_MAX: f64 = 2.0;

/// An engine under test.
struct Bench {
    engine: Engine,
    built: Built,
    /// Memory that the build used, in bytes.
    both_bytes: u64,
    /// Memory of the query half when it was built, as the engine counts it. Changes may make it larger.
    counted_bytes: usize,
}

/// Results of queries on one engine.
struct Found {
    /// Queries per second in each repetition.
    rates: Vec<f64>,
    hash_rate: f64,
    p99_ns: u64,
    lines: Option<f64>,
    checked: Checked,
    /// Expected share of wrong answers, by the engine's own formula.
    wrong_rate: f64,
    unknown_answered: f64,
}

/// Results of changes on one engine.
#[derive(Default)]
struct Changed {
    rates: Option<Rates>,
    beside: Option<Beside>,
    /// For additions and alterations.
    messages: Option<[PerChange; 2]>,
    checked: Checked,
}

/// A prepared run.
struct Run<'a> {
    options: &'a Options,
    progress: Progress,
    hasher: Hasher,
    names: Names,
    queries: Queries,
}

/// Measures engines in turn. Returns one record of each.
pub fn measure(options: &Options, engines: &[&str], progress: Progress) -> anyhow::Result<Vec<Record>> {
    let engines: Vec<_> = engines.iter().map(|name| engine::find(name)).collect::<Result<_, _>>()?;
    refuse_impossible(options, &engines)?;
    let run = Run::prepare(options, progress)?;
    let on_pages = engines
        .iter()
        .filter(|engine| matches!(engine.make, Make::Halves { chooses_pages: true, .. } | Make::Files(_)));
    let estimate = on_pages.map(|engine| engine.bytes_per_name * run.names.len()).sum();
    let reserved = options.reserve.unwrap_or(estimate);
    let (mut benches, _reservation) = harness::reserved(
        options.pages,
        (reserved, options.reserve.is_none()),
        || engines.iter().map(|engine| run.build(*engine)).collect(),
        |bench: &Bench| bench.counted_bytes,
    )?;
    let found = run.look_up(&benches)?;
    let changed = benches.iter_mut().map(|bench| run.change(bench)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut records = Vec::new();
    for (bench, (found, changed)) in benches.into_iter().zip(found.iter().zip(&changed)) {
        let (engine, built) = (bench.engine, (bench.built.construct_s, bench.built.load));
        let memory = run.take_apart(bench)?;
        records.push(run.record(&engine, built, found, changed, &memory));
    }
    if let Some(record) = records.iter().find(|record| record.wrong > wrong_max(record)) {
        bail!("{} of {} answers were wrong (engine {})", record.wrong, record.checked, record.engine);
    }
    Ok(records)
}

/// Maximum number of wrong answers: 0, except for filters, whose formula gives a mean.
fn wrong_max(record: &Record) -> u64 {
    let expected = record.wrong_rate * record.checked as f64;
    (expected + 6.0 * expected.sqrt()).ceil() as u64
}

fn refuse_impossible(options: &Options, engines: &[Engine]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    crate::options::ensure_names_fit(options.names)?;
    options.updating.ensure_possible()?;
    ensure!(!options.updating.is_wanted() || options.load != Load::Bulk, "names loaded in bulk take no updates");
    ensure!(!engines.is_empty(), "no engine was given");
    Ok(())
}

/// Measures delays of packets on one engine at several rates, in nanoseconds.
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
    let simulating = progress.spinner("simulating packets");
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
            // Changes add some names and delete them again.
            names_max: usize::try_from(names + updates::fresh(names))?,
            action_bits: self.options.action_bits,
            pages: self.options.pages.into(),
        })
    }

    fn build(&self, engine: Engine) -> anyhow::Result<Bench> {
        let setup = self.setup()?;
        let (built, both_bytes) = harness::growth(|| build(&engine, &setup, self.options.load, self.progress))?;
        let counted_bytes = built.table.asked().memory_bytes();
        Ok(Bench { engine, built, both_bytes, counted_bytes })
    }

    /// Measures all engines in turn, round by round.
    fn look_up(&self, benches: &[Bench]) -> anyhow::Result<Vec<Found>> {
        let setup = self.setup()?;
        let (options, queries) = (self.options, &self.queries);
        let step = self.options.measuring.repetition();
        let measuring = self.progress.spinner("looking up names");
        let start_of = |thread| queries.len() / options.measuring.threads * thread;
        let reader = |thread| Reader::new(queries, &self.hasher, options.burst, start_of(thread));
        let mut readers: Vec<_> = (0..options.measuring.threads).map(reader).collect();
        let mut tables: Vec<_> = benches.iter().map(|bench| bench.built.table.asked()).collect();
        let rates = warm_in_turn(&mut tables, &options.measuring, |asked, duration| {
            rate_of_all(&mut readers, duration, |reader| look_up(reader, *asked))
        });
        let hash_rate = rate_of_all(&mut readers, step, Reader::hash);
        let mut found = Vec::new();
        for (bench, rates) in benches.iter().zip(rates) {
            let asked = bench.built.table.asked();
            found.push(Found {
                rates,
                hash_rate,
                p99_ns: p99_ns(step, || _ = look_up(&mut readers[0], asked)),
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
        let batch = options.updating.batch as usize;
        let duration = Duration::from_secs_f64(options.measuring.seconds.min(CHANGES_S_MAX));
        let rates = updates::rates(&mut bench.built.table, &setup, batch, options.measuring.seed, duration)?;
        let mut found = Changed { rates, ..Changed::default() };
        let Table::Halves { subject: Some(subject), fib } = &mut bench.built.table else { return Ok(found) };
        if options.updating.is_wanted() {
            let mut changes = updates::prepare(&setup, batch, options.measuring.seed);
            let mut reader = CheckedReader::new(&setup, &self.queries, options.burst);
            let Options { measuring, updating, .. } = options;
            found.beside = Some(beside_writer(&mut **subject, &mut changes, &mut reader, measuring, updating)?);
            found.checked = Checked { checked: reader.checked, wrong: reader.wrong };
        }
        found.messages = messages::per_change(subject, &setup, batch, options.measuring.seed)?;
        *fib = subject.query();
        spinner.finish_and_clear();
        Ok(found)
    }

    /// Drops an engine half by half to measure the memory of each half. Then measures the machine's random reads on a
    /// table of that size.
    fn take_apart(&self, bench: Bench) -> anyhow::Result<Memory> {
        let Bench { engine, built: Built { table, .. }, both_bytes, counted_bytes } = bench;
        let pages = engine.pages(self.options);
        let (burst, measuring) = (self.options.burst, &self.options.measuring);
        let query_bytes = match table {
            Table::Halves { subject, fib } => {
                return Memory::of_halves(both_bytes, counted_bytes, (subject, fib), pages, burst, measuring);
            }
            // A baseline is not split into halves, so its control half is known only by its own count.
            Table::Baseline(_) if resident::is_small(counted_bytes) => counted_bytes as u64,
            Table::Baseline(baseline) => both_bytes.saturating_sub(baseline.control_bytes() as u64),
        };
        Memory::known(both_bytes, query_bytes, counted_bytes, pages, burst, measuring)
    }

    /// Mean number of cache lines that a query reads, over a sample.
    fn count_lines(&self, asked: Asked<'_>) -> Option<f64> {
        lines_per_lookup(self.queries.len(), |start, burst| {
            Reader::new(&self.queries, &self.hasher, burst, start).count_lines(asked)
        })
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
        let rate = Spread::of(&found.rates);
        let queries_per_s = rate.median;
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
            queries_per_s_min: rate.min,
            queries_per_s_max: rate.max,
            ns_per_query: ns(queries_per_s),
            hash_ns: ns(found.hash_rate),
            p99_ns_per_burst: found.p99_ns,
            cache_lines_per_query: found.lines,
            bits_per_name: 8.0 * memory.query_bytes as f64 / names,
            bits_per_name_counted: 8.0 * memory.counted_bytes as f64 / names,
            control_bytes_per_name: memory.control_bytes() as f64 / names,
            load,
            construct_s,
            construct_ns_per_name: 1e9 * construct_s / names,
            adds_per_s: changed.rates.as_ref().map(|rates| rates.adds_per_s),
            alters_per_s: changed.rates.as_ref().map(|rates| rates.alters_per_s),
            deletes_per_s: changed.rates.as_ref().map(|rates| rates.deletes_per_s),
            message_bytes_per_add: changed.messages.as_ref().map(|[adds, _]| adds.bytes),
            message_bytes_per_alter: changed.messages.as_ref().map(|[_, alters]| alters.bytes),
            message_entropy_bits_per_add: changed.messages.as_ref().map(|[adds, _]| adds.entropy_bits),
            message_entropy_bits_per_alter: changed.messages.as_ref().map(|[_, alters]| alters.entropy_bits),
            updates_per_s: changed.beside.map(|beside| beside.updates_per_s),
            queries_per_s_updating: changed.beside.map(|beside| beside.lookups_per_s),
            queries_per_s_quiet: changed.beside.map(|beside| beside.quiet_per_s),
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

/// Queries a burst. Returns its number of names.
fn look_up(reader: &mut Reader<'_>, asked: Asked<'_>) -> usize {
    let names = reader.look_up(asked).len();
    black_box(reader.answers());
    names
}
