//! One run: builds the engines, measures them in turn, checks answers and measures memory.

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
use crate::harness::{self, Beside, Memory, beside_writer, in_turn, warm_in_turn};
use crate::progress::Progress;
use crate::timing::{Checked, Spread, p99_ns, rate_of_all};
use crate::workload::{self, Drawing, NameChoice, NameSet, Random, Workload};
use crate::writer;

/// Maximum time for measuring the rate of updates without a reader, in seconds.
const UPDATES_S_MAX: f64 = 0.5;

/// An engine under test.
struct Bench {
    engine: &'static Engine,
    built: Built,
    /// Memory that the build used, in bytes.
    both_bytes: u64,
}

/// Results of lookups of some names on one engine.
struct Lookups {
    /// Lookups per second in each repetition.
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
    /// Nanoseconds per lookup, hashing included.
    pub ns_per_lookup: f64,
    /// Nanoseconds for parsing and hashing alone.
    pub hash_ns_per_lookup: f64,
}

/// Results of changes on one engine.
#[derive(Default)]
struct Updates {
    per_s: Option<f64>,
    beside: Option<Beside>,
    checked: Checked,
}

/// A prepared run.
struct Run<'a> {
    options: &'a Options,
    progress: Progress,
    key: NameHashKey,
    workload: Box<dyn Workload>,
}

/// Measures engines in turn. Returns a record of each engine for each choice of names.
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
    let (mut benches, _reservation) = harness::reserved(
        options.pages,
        (reserved, options.reserve.is_none()),
        || engines.iter().map(|engine| run.build(engine)).collect(),
        |bench: &Bench| bench.built.fib.memory_bytes(),
    )?;
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
        bail!("{wrong} answers were wrong (engines: {})", engines.join(", "));
    }
    Ok(records)
}

/// Measures tables of different rules in turn, with all tables in memory at once. The first of `runs`
/// says how many turns each gets, and how long they are.
///
/// # Errors
/// As for `measure_all`.
pub fn measure_in_turn(runs: &[Options], choice: &NameChoice, progress: Progress) -> anyhow::Result<Vec<Vec<Turn>>> {
    let Some(Options { measuring, .. }) = runs.first() else { return Ok(Vec::new()) };
    let mut ready = Vec::new();
    for options in runs {
        let engine = engine::find(&options.engine)?;
        refuse_impossible(options, &[engine])?;
        let run = Run::open(options, progress)?;
        ready.push((run.build(engine)?, run.names(choice)?, run));
    }
    let mut tables: Vec<_> = ready
        .iter()
        .map(|(bench, names, run)| (&*bench.built.fib, [Reader::new(names, &run.key, run.options.burst, 0)]))
        .collect();
    let spinner = progress.spinner("looking up in turn");
    let found = in_turn(&mut tables, measuring, |(fib, reader), duration| {
        // Warms up: evicts the lines that the other tables' turns left in the caches.
        lookups_per_s(reader, *fib, duration / 4);
        Ok(Turn {
            ns_per_lookup: 1e9 / lookups_per_s(reader, *fib, duration),
            hash_ns_per_lookup: 1e9 / rate_of_all(reader, duration / 2, |reader| reader.hash(*fib)),
        })
    })?;
    spinner.finish_and_clear();
    Ok(found)
}

/// Looks up a burst. Returns its number of names.
fn look_up(reader: &mut Reader<'_>, fib: &dyn PrefixFib) -> usize {
    let names = reader.look_up(fib).len();
    black_box(reader.answers());
    names
}

/// Lookups per second of all readers together.
fn lookups_per_s(readers: &mut [Reader<'_>], fib: &dyn PrefixFib, duration: Duration) -> f64 {
    rate_of_all(readers, duration, |reader| look_up(reader, fib))
}

fn refuse_impossible(options: &Options, engines: &[&Engine]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    crate::options::ensure_rules_fit(options.rules, "--rules")?;
    options.updating.ensure_possible()?;
    ensure!(!options.updating.is_wanted() || options.load != Load::Bulk, "rules loaded in bulk take no updates");
    ensure!(options.rules > 0, "there must be at least one rule");
    ensure!(!engines.is_empty(), "no engine was given");
    for option in options.tuning.given() {
        if !engines.iter().any(|engine| engine.takes.contains(&option)) {
            let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
            bail!("{} does not take --{option}", names.join(", "));
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
            // Updates add some rules and remove them again.
            rules_max: usize::try_from(rules + updates::fresh(rules))?,
            workload: &*self.workload,
            pages: self.options.pages.into(),
            tuning: &self.options.tuning.only(engine.takes),
        };
        let load = if self.options.updating.is_wanted() { Load::Changes } else { self.options.load };
        let (built, both_bytes) = harness::growth(|| build(engine, &setup, load, self.progress))?;
        Ok(Bench { engine, built, both_bytes })
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
        let mut fibs: Vec<_> = benches.iter().map(|bench| &*bench.built.fib).collect();
        let rates =
            warm_in_turn(&mut fibs, &options.measuring, |fib, duration| lookups_per_s(&mut readers, *fib, duration));
        let mut found = Vec::new();
        for (bench, rates) in benches.iter().zip(rates) {
            let fib = &*bench.built.fib;
            found.push(Lookups {
                rates,
                hash_rate: rate_of_all(&mut readers, step / 2, |reader| reader.hash(fib)),
                p99_ns: p99_ns(step, || _ = look_up(&mut readers[0], fib)),
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
        let names = if self.options.updating.is_wanted() { Some(self.names(&NameChoice::Hit)?) } else { None };
        benches.iter_mut().map(|bench| self.update_one(bench, names.as_ref())).collect()
    }

    fn update_one(&self, bench: &mut Bench, names: Option<&NameSet>) -> anyhow::Result<Updates> {
        let options = self.options;
        let Some(subject) = &mut bench.built.subject else { return Ok(Updates::default()) };
        let spinner = self.progress.spinner(&format!("changing rules of {}", bench.engine.name));
        let mut changes = updates::prepare(&*self.workload, options.updating.batch as usize, options.measuring.seed);
        let found = match names {
            None => {
                let duration = self.options.measuring.repetition().min(Duration::from_secs_f64(UPDATES_S_MAX));
                let rates = writer::run(&mut **subject, &mut changes, None, None, duration)?;
                Updates { per_s: Some(rates.updates_per_s), ..Updates::default() }
            }
            Some(names) => {
                let mut reader = CheckedReader::new(&*self.workload, names, &self.key, options.burst);
                let Options { measuring, updating, .. } = options;
                let beside = beside_writer(&mut **subject, &mut changes, &mut reader, measuring, updating)?;
                let checked = Checked { checked: reader.checked, wrong: reader.wrong };
                Updates { per_s: Some(beside.updates_per_s), beside: Some(beside), checked }
            }
        };
        // From here on readers use only the newest query half.
        bench.built.fib = subject.query();
        spinner.finish_and_clear();
        Ok(found)
    }

    /// Drops an engine half by half to measure the memory of each half. Then measures the machine's random reads on a
    /// table of that size.
    fn take_apart(&self, bench: Bench) -> anyhow::Result<(Memory, (f64, Load))> {
        let Bench { engine, built: Built { subject, fib, build_s, load }, both_bytes } = bench;
        let counted_bytes = fib.memory_bytes();
        let pages = engine.chooses_pages.then_some(self.options.pages);
        let (burst, measuring) = (self.options.burst, &self.options.measuring);
        let memory = Memory::of_halves(both_bytes, counted_bytes, (subject, fib), pages, burst, measuring)?;
        Ok((memory, (build_s, load)))
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
        let rate = Spread::of(&found.rates);
        let lookups_per_s = rate.median;
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
            lookups_per_s_min: rate.min,
            lookups_per_s_max: rate.max,
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
            lookups_per_s_updating: updates.beside.map(|beside| beside.lookups_per_s),
            lookups_per_s_quiet: updates.beside.map(|beside| beside.quiet_per_s),
            checked: found.checked.checked + updates.checked.checked,
            wrong: found.checked.wrong + updates.checked.wrong,
            machine_lines_per_s: memory.machine.lines_per_s,
            machine_bytes: memory.machine.bytes,
            of_limit: found.lines.map(|lines| lookups_per_s * lines / memory.machine.lines_per_s),
        }
    }
}
