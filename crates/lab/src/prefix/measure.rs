//! One run: builds, measures in turn, checks, and takes apart again.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{bail, ensure};
use byname_lookup::PrefixFib;
use byname_wire::NameHashKey;

use super::build::{Built, build};
use super::check::check;
use super::engine::{self, Engine, Setup};
use super::options::{Load, Options};
use super::reader::{self, Reader};
use super::record::Record;
use super::updates::{self, CheckedReader};
use crate::machine::{self, Reads, Reservation, cores, resident};
use crate::progress::Progress;
use crate::timing::{Checked, median, rate_of_all, times};
use crate::workload::{self, Drawing, NameChoice, NameSet, Random, Workload};
use crate::writer;

/// Of the repetitions' time, what the machine's own rate is measured for.
const MACHINE_SHARE: f64 = 0.2;
/// Seconds for a rate of updates that nobody asked for.
const UPDATES_S_MAX: f64 = 0.5;

/// An engine under test.
struct Bench {
    engine: &'static Engine,
    built: Built,
    /// Memory that building it took.
    both_bytes: u64,
}

/// What lookups of some names found, of one engine.
struct Lookups {
    /// Lookups a second, of each repetition.
    rates: Vec<f64>,
    hash_rate: f64,
    p99_ns: u64,
    lines: Option<f64>,
    checked: Checked,
    names: usize,
    name_bytes: f64,
}

/// One turn of one table, see [`measure_in_turn`].
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Of a lookup, hashing included.
    pub ns_per_lookup: f64,
    /// Of parsing and hashing alone.
    pub hash_ns_per_lookup: f64,
}

/// What changes found, of one engine.
#[derive(Default)]
struct Updates {
    per_s: Option<f64>,
    lookups_per_s: Option<f64>,
    quiet_per_s: Option<f64>,
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
    key: NameHashKey,
    workload: Box<dyn Workload>,
}

/// Measures some engines in turn: for each choice of names, a record of each engine.
pub fn measure_all(
    options: &Options,
    engines: &[&str],
    choices: &[NameChoice],
    progress: Progress,
) -> anyhow::Result<Vec<Record>> {
    let engines: Vec<_> = engines.iter().map(|name| engine::find(name)).collect::<Result<_, _>>()?;
    refuse_impossible(options, &engines)?;
    let run = Run::open(options, progress)?;

    let on_pages = engines.iter().filter(|engine| engine.chooses_pages);
    let estimate = on_pages.map(|engine| engine.bytes_per_rule * run.workload.rules()).sum();
    let reserved = options.reserve.unwrap_or(estimate);
    let reservation = Reservation::take(options.pages, reserved, options.reserve.is_none())?;
    let mut benches = engines.iter().map(|engine| run.build(engine)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(reservation) = &reservation {
        // The machine's own rate is measured on a table of the same size.
        let largest = benches.iter().map(|bench| bench.built.fib.memory_bytes()).max().unwrap_or(0);
        reservation.trim(largest as u64)?;
    }
    let found = choices.iter().map(|choice| run.look_up(choice, &benches)).collect::<anyhow::Result<Vec<_>>>()?;
    let updates = run.update(&mut benches)?;
    let memory = benches.into_iter().map(|bench| run.take_apart(bench)).collect::<anyhow::Result<Vec<_>>>()?;

    let mut records = Vec::new();
    for (choice, found) in choices.iter().zip(&found) {
        for (((engine, found), updates), (memory, build)) in engines.iter().zip(found).zip(&updates).zip(&memory) {
            records.push(run.record(engine, choice, found, updates, memory, *build));
        }
    }
    let wrong: u64 = records.iter().map(|record| record.wrong).sum();
    if wrong > 0 {
        let engines: Vec<_> = records.iter().filter(|r| r.wrong > 0).map(|r| r.engine.as_str()).collect();
        bail!("{wrong} answers were wrong, of {}", engines.join(", "));
    }
    Ok(records)
}

/// Measures tables of different rules in turn, which are all there at once: for each of `runs`, as
/// many turns as it has repetitions (all have the same number).
///
/// # Errors
/// As `measure_all`.
pub fn measure_in_turn(runs: &[Options], choice: &NameChoice, progress: Progress) -> anyhow::Result<Vec<Vec<Turn>>> {
    let turns = runs.iter().map(|options| options.measuring.repetitions).min().unwrap_or(0);
    let mut ready = Vec::new();
    for options in runs {
        let engine = engine::find(&options.engine)?;
        refuse_impossible(options, &[engine])?;
        let run = Run::open(options, progress)?;
        ready.push((run.build(engine)?, run.names(choice)?, run));
    }
    let mut readers: Vec<_> =
        ready.iter().map(|(_, names, run)| [Reader::new(names, &run.key, run.options.burst, 0)]).collect();
    let mut found = vec![Vec::new(); runs.len()];
    let bar = progress.bar("looking up in turn", turns.into());
    for _ in 0..turns {
        for (((bench, _, run), reader), found) in ready.iter().zip(&mut readers).zip(&mut found) {
            let (fib, duration) = (&*bench.built.fib, run.options.measuring.repetition());
            // What the other tables' turns have put into the caches goes out of them again.
            lookups_per_s(reader, fib, duration / 4);
            found.push(Turn {
                ns_per_lookup: 1e9 / lookups_per_s(reader, fib, duration),
                hash_ns_per_lookup: 1e9 / rate_of_all(reader, duration / 2, |reader| reader.hash(fib)),
            });
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(found)
}

/// Lookups a second of all readers.
fn lookups_per_s(readers: &mut [Reader<'_>], fib: &dyn PrefixFib, duration: Duration) -> f64 {
    rate_of_all(readers, duration, |reader| {
        let names = reader.look_up(fib).len();
        black_box(reader.answers());
        names
    })
}

fn refuse_impossible(options: &Options, engines: &[&Engine]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    if options.updates || options.updates_per_s.is_some() {
        cores::ensure_enough(2, "a reader beside a writer")?;
        ensure!(options.load != Load::Bulk, "rules loaded in bulk take no updates");
    }
    ensure!(options.rules > 0, "there must be a rule");
    ensure!(!engines.is_empty(), "there must be an engine");
    for option in options.tuning.given() {
        if !engines.iter().any(|engine| engine.takes.contains(&option)) {
            let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
            bail!("{} has no --{option}", names.join(", "));
        }
    }
    Ok(())
}

impl<'a> Run<'a> {
    fn open(options: &'a Options, progress: Progress) -> anyhow::Result<Self> {
        let reading = progress.spinner("making the rules");
        let workload = workload::open(&options.workload, options.rules, options.components, options.measuring.seed)?;
        reading.finish_and_clear();
        let mut random = Random::new(options.measuring.seed);
        let key = NameHashKey::with_function(options.hash.into(), [random.bits(), random.bits()]);
        Ok(Run { options, progress, key, workload })
    }

    fn build(&self, engine: &'static Engine) -> anyhow::Result<Bench> {
        let rules = self.workload.rules();
        let setup = Setup {
            key: self.key,
            // Updates add some, and remove them again.
            rules_max: usize::try_from(rules + updates::fresh(rules))?,
            workload: &*self.workload,
            pages: self.options.pages.into(),
            tuning: &self.options.tuning.only(engine.takes),
        };
        let updating = self.options.updates || self.options.updates_per_s.is_some();
        let load = if updating { Load::Changes } else { self.options.load };
        let before = resident::bytes()?;
        let built = build(engine, &setup, load, self.progress)?;
        Ok(Bench { engine, built, both_bytes: resident::bytes()?.saturating_sub(before) })
    }

    fn names(&self, choice: &NameChoice) -> anyhow::Result<NameSet> {
        let options = self.options;
        let bar = self.progress.bar("drawing names", options.draws);
        let drawing = Drawing { choice, suffix: options.suffix, draws: options.draws, seed: options.measuring.seed };
        let names = NameSet::draw(&*self.workload, &drawing, |drawn| bar.inc(drawn));
        bar.finish_and_clear();
        names
    }

    /// Measures all engines in turn, round by round.
    fn look_up(&self, choice: &NameChoice, benches: &[Bench]) -> anyhow::Result<Vec<Lookups>> {
        let options = self.options;
        let names = self.names(choice)?;
        let step = self.options.measuring.repetition();
        let measuring = self.progress.spinner(&format!("looking up, {}", choice.label()));
        let start_of = |thread| names.len() / options.measuring.threads * thread;
        let reader = |thread| Reader::new(&names, &self.key, options.burst, start_of(thread));
        let mut readers: Vec<_> = (0..options.measuring.threads).map(reader).collect();
        let mut rates = vec![Vec::new(); benches.len()];
        for bench in benches {
            // The first round finds caches and the processor's clock cold.
            lookups_per_s(&mut readers, &*bench.built.fib, step / 2);
        }
        for _ in 0..options.measuring.repetitions {
            for (bench, rates) in benches.iter().zip(&mut rates) {
                rates.push(lookups_per_s(&mut readers, &*bench.built.fib, step));
            }
        }
        let mut found = Vec::new();
        for (bench, rates) in benches.iter().zip(rates) {
            let fib = &*bench.built.fib;
            found.push(Lookups {
                rates,
                hash_rate: rate_of_all(&mut readers, step / 2, |reader| reader.hash(fib)),
                p99_ns: time_bursts(&mut readers[0], fib, step),
                lines: reader::count_lines(&names, &self.key, fib),
                checked: check(fib, &*self.workload, &names, &self.key, options.burst),
                names: names.len(),
                name_bytes: names.mean_bytes(),
            });
        }
        measuring.finish_and_clear();
        Ok(found)
    }

    fn update(&self, benches: &mut [Bench]) -> anyhow::Result<Vec<Updates>> {
        let with_reader = self.options.updates || self.options.updates_per_s.is_some();
        let names = if with_reader { Some(self.names(&NameChoice::Hit)?) } else { None };
        benches.iter_mut().map(|bench| self.update_one(bench, names.as_ref())).collect()
    }

    fn update_one(&self, bench: &mut Bench, names: Option<&NameSet>) -> anyhow::Result<Updates> {
        let options = self.options;
        let Some(subject) = &mut bench.built.subject else { return Ok(Updates::default()) };
        let spinner = self.progress.spinner(&format!("changing rules of {}", bench.engine.name));
        let mut changes = updates::prepare(&*self.workload, options.batch as usize, options.measuring.seed);
        let mut found = Updates::default();
        match names {
            None => {
                let duration = self.options.measuring.repetition().min(Duration::from_secs_f64(UPDATES_S_MAX));
                let rates = writer::run(&mut **subject, &mut changes, None, None, duration)?;
                found.per_s = Some(rates.updates_per_s);
            }
            Some(names) => {
                let mut reader = CheckedReader::new(&*self.workload, names, &self.key, options.burst);
                let (mut per_s, mut beside, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
                let half = self.options.measuring.repetition() / 2;
                for _ in 0..options.measuring.repetitions {
                    quiet.push(writer::read_quietly(&*subject.query(), &mut reader, half));
                    let pace = options.updates_per_s;
                    let rates = writer::run(&mut **subject, &mut changes, Some(&mut reader), pace, half)?;
                    per_s.push(rates.updates_per_s);
                    beside.push(rates.lookups_per_s);
                }
                found = Updates {
                    per_s: Some(median(&per_s)),
                    lookups_per_s: Some(median(&beside)),
                    quiet_per_s: Some(median(&quiet)),
                    checked: Checked { checked: reader.checked, wrong: reader.wrong },
                };
            }
        }
        // Readers have none but the newest half from here on.
        bench.built.fib = subject.query();
        spinner.finish_and_clear();
        Ok(found)
    }

    /// Takes an engine apart, half by half, to see what each held; then lets the machine read from a
    /// table of that size.
    fn take_apart(&self, bench: Bench) -> anyhow::Result<(Memory, (f64, Load))> {
        let Bench { engine, built: Built { subject, fib, build_s, load }, both_bytes } = bench;
        let counted_bytes = fib.memory_bytes();
        let query_bytes = resident::of_query_half(both_bytes, counted_bytes, || drop(subject), || drop(fib))?;
        let Options { burst, pages, .. } = *self.options;
        let threads = self.options.measuring.threads;
        let pages = engine.chooses_pages.then_some(pages);
        let duration = self.options.measuring.share(MACHINE_SHARE);
        let machine = machine::random_reads(counted_bytes, pages, burst, threads, duration)?;
        Ok((Memory { query_bytes, both_bytes, counted_bytes, machine }, (build_s, load)))
    }

    fn record(
        &self,
        engine: &Engine,
        choice: &NameChoice,
        found: &Lookups,
        updates: &Updates,
        memory: &Memory,
        (build_s, load): (f64, Load),
    ) -> Record {
        let options = self.options;
        let rules = self.workload.rules();
        let per_rule = |bytes: u64| bytes as f64 / rules as f64;
        let lookups_per_s = median(&found.rates);
        let ns = |rate: f64| options.measuring.threads as f64 * 1e9 / rate;
        Record {
            engine: engine.name.to_owned(),
            tuning: options.tuning.only(engine.takes),
            rules,
            components: self.workload.components_max(),
            workload: options.workload.label(),
            names: choice.label(),
            suffix: options.suffix,
            names_prepared: found.names,
            name_bytes: found.name_bytes,
            seed: options.measuring.seed,
            threads: options.measuring.threads,
            pages: if engine.chooses_pages { options.pages.label() } else { "heap" },
            burst: options.burst,
            hash: options.hash,
            repetitions: found.rates.len(),
            lookups_per_s,
            lookups_per_s_min: found.rates.iter().copied().fold(f64::INFINITY, f64::min),
            lookups_per_s_max: found.rates.iter().copied().fold(0.0, f64::max),
            ns_per_lookup: ns(lookups_per_s),
            hash_ns_per_lookup: ns(found.hash_rate),
            p99_ns_per_burst: found.p99_ns,
            cache_lines_per_lookup: found.lines,
            bytes_per_rule: per_rule(memory.query_bytes),
            bytes_per_rule_both: per_rule(memory.both_bytes),
            bytes_per_rule_counted: per_rule(memory.counted_bytes as u64),
            load,
            build_s,
            updates_per_s: updates.per_s,
            lookups_per_s_updating: updates.lookups_per_s,
            lookups_per_s_quiet: updates.quiet_per_s,
            checked: found.checked.checked + updates.checked.checked,
            wrong: found.checked.wrong + updates.checked.wrong,
            machine_lines_per_s: memory.machine.lines_per_s,
            machine_bytes: memory.machine.bytes,
            of_limit: found.lines.map(|lines| lookups_per_s * lines / memory.machine.lines_per_s),
        }
    }
}

/// The time that 1 burst of 100 exceeds, in nanoseconds.
fn time_bursts(reader: &mut Reader<'_>, fib: &dyn PrefixFib, duration: Duration) -> u64 {
    let times = times(duration, || {
        reader.look_up(fib);
        black_box(reader.answers());
    });
    times.value_at_quantile(0.99)
}
