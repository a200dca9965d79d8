//! One run: builds the engines, measures them in turn, checks answers, changes descriptors and measures memory.

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
use crate::harness::{self, Beside, Memory, beside_writer, warm_in_turn};
use crate::progress::Progress;
use crate::timing::{Checked, Spread, rate, rate_of_all};
use crate::writer::{self, Changes};

/// Maximum time for measuring the rate of changes without a reader, in seconds.
const UPDATES_S_MAX: f64 = 0.5;
/// Number of descriptors whose tags are counted.
const COUNTED: usize = 10_000;

/// An engine under test.
struct Bench {
    engine: &'static Engine,
    subject: Subject,
    fib: Arc<dyn TagsetFib>,
    build_s: f64,
    /// Memory that the build used, in bytes.
    both_bytes: u64,
}

/// Results of packets on one engine.
struct Found {
    /// Packets per second in each repetition.
    rates: Vec<f64>,
    sums: Sums,
    /// Number of packets prepared.
    packets: usize,
}

/// Results of changes on one engine.
struct Updates {
    per_s: f64,
    beside: Option<Beside>,
    checked: Checked,
}

/// A prepared run.
struct Run<'a> {
    options: &'a Options,
    progress: Progress,
    population: Population,
}

/// Measures engines in turn. Returns a record of each engine for each kind of packets.
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
    let (mut benches, _reservation) = harness::reserved(
        options.pages,
        (estimate, true),
        || engines.iter().map(|engine| run.build(engine)).collect(),
        |bench: &Bench| bench.fib.memory_bytes(),
    )?;
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
        bail!("{} of {} answers were wrong (engine {})", record.wrong, record.checked, record.engine);
    }
    Ok(records)
}

fn refuse_impossible(options: &Options, engines: &[&Engine], askings: &[Asking]) -> anyhow::Result<()> {
    options.measuring.ensure_possible()?;
    crate::options::ensure_descriptors_fit(options.descriptors)?;
    options.updating.ensure_possible()?;
    if options.updating.is_wanted() {
        let has_fanout = options.asking.fanout.is_some();
        ensure!(!has_fanout, "with --fanout, answers cannot be compared while entries change");
    }
    for asking in askings {
        ensure!((0.0..=1.0).contains(&asking.match_rate), "--match-rate is a share, from 0 to 1");
    }
    ensure!(options.draws > 0 && options.descriptors > 0, "there must be at least one packet and one descriptor");
    ensure!(!engines.is_empty() && !askings.is_empty(), "there must be at least one engine and one kind of packets");
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
        let start = Instant::now();
        let (subject, both_bytes) = harness::growth(|| (engine.build)(self.options, &self.population))
            .with_context(|| format!("cannot build {}", engine.name))?;
        let build_s = start.elapsed().as_secs_f64();
        building.finish_and_clear();
        let fib = subject.query();
        Ok(Bench { engine, subject, fib, build_s, both_bytes })
    }

    /// Measures all engines in turn, round by round.
    fn look_up(&self, asking: &Asking, benches: &[Bench]) -> (Vec<Found>, Sample) {
        let options = self.options;
        let packets = self.packets(asking);
        let measuring = self.progress.spinner("looking up packets");
        let start_of = |thread| packets.len() / options.measuring.threads * thread;
        let reader = |thread| Reader::new(&packets, asking, options.burst, start_of(thread));
        let readers = || (0..options.measuring.threads).map(reader).collect();
        // Control halves are not `Sync`, so threads get only the query half.
        let mut tables: Vec<(_, Vec<_>)> = benches.iter().map(|bench| (&*bench.fib, readers())).collect();
        let rates = warm_in_turn(&mut tables, &options.measuring, |(fib, readers), duration| {
            rate_of_all(readers, duration, |reader| reader.look_up(*fib).len())
        });
        let sums = tables.iter().map(|(_, readers)| readers.iter().map(|reader| reader.sums).sum());
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

    /// Changes the table, beside a reader if the options ask for it. Then restores the table.
    fn update(&self, bench: &mut Bench) -> anyhow::Result<Updates> {
        let options = self.options;
        let spinner = self.progress.spinner(&format!("changing {}", bench.engine.name));
        let mut changes = updates::prepare(&self.population, options.updating.batch as usize, options.measuring.seed);
        let found = match options.updating.is_wanted() {
            true => self.update_beside_reader(bench, &mut changes)?,
            false => {
                let duration = options.measuring.repetition().min(Duration::from_secs_f64(UPDATES_S_MAX));
                let rates = writer::run(&mut *bench.subject, &mut changes, None, None, duration)?;
                Updates { per_s: rates.updates_per_s, beside: None, checked: Checked::default() }
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
        let Options { measuring, updating, .. } = options;
        let beside = beside_writer(&mut *bench.subject, changes, &mut reader, measuring, updating)?;
        Ok(Updates { per_s: beside.updates_per_s, beside: Some(beside), checked: reader.checked })
    }

    /// Drops an engine half by half to measure the memory of each half. Then measures the machine's random reads on a
    /// table of that size.
    fn take_apart(&self, bench: Bench) -> anyhow::Result<Memory> {
        let Bench { subject, fib, both_bytes, .. } = bench;
        let counted_bytes = fib.memory_bytes();
        let (burst, pages) = (self.options.burst, Some(self.options.pages));
        Memory::of_halves(both_bytes, counted_bytes, (subject, fib), pages, burst, &self.options.measuring)
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
        let rate = Spread::of(&found.rates);
        let packets_per_s = rate.median;
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
            packets_per_s_min: rate.min,
            packets_per_s_max: rate.max,
            ns_per_packet: options.measuring.threads as f64 * 1e9 / packets_per_s,
            matches_per_packet: per_packet(found.sums.matches),
            steps_per_packet,
            cut_off: per_packet(found.sums.cut_off),
            bytes_per_descriptor: per_descriptor(memory.query_bytes),
            bytes_per_descriptor_counted: per_descriptor(memory.counted_bytes as u64),
            control_bytes_per_descriptor: per_descriptor(memory.control_bytes()),
            build_s,
            updates_per_s: updates.per_s,
            packets_per_s_updating: updates.beside.map(|beside| beside.lookups_per_s),
            packets_per_s_quiet: updates.beside.map(|beside| beside.quiet_per_s),
            checked: checked.checked + updates.checked.checked,
            wrong: checked.wrong + updates.checked.wrong,
            machine_lines_per_s: memory.machine.lines_per_s,
            machine_bytes: memory.machine.bytes,
            of_limit: packets_per_s * steps_per_packet / memory.machine.lines_per_s,
        }
    }
}
