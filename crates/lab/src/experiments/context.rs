//! The context of an experiment: its sizes, the machine's limits, and files for its results.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::{Experiment, Options};
use crate::flat;
use crate::forward;
use crate::machine::memory_free;
use crate::mixed;
use crate::options::Hash;
use crate::plot::Chart;
use crate::prefix::{self, Record};
use crate::progress::Progress;
use crate::record::{self, Recorder};
use crate::switch;
use crate::table;
use crate::tags;
use crate::workload::{self, NameChoice, TagKind};

/// Share of the free memory that a table may fill: the machine must not begin to swap.
const MEMORY_SHARE: f64 = 0.9;
/// Number of names prepared with `--quick`.
const QUICK_DRAWS: u64 = 100_000;
/// Number of pending Interests, and of cached Data, with `--quick`.
const QUICK_PENDING: u64 = 10_000;
/// Number of packets with tags prepared with `--quick`.
const QUICK_TAG_DRAWS: u64 = 10_000;

/// Memory of the frames with `--quick`, in bytes.
const QUICK_FRAME_BYTES: u64 = 16 << 20;

/// Options of `run`, with the experiment's own sizes where none were given.
#[derive(Serialize)]
struct Parameters<'a> {
    rules: Vec<u64>,
    seconds: f64,
    data: &'a Path,
}

/// One run of one experiment.
pub struct Context<'a> {
    experiment: &'a Experiment,
    options: &'a Options,
    recorder: Recorder,
    plots: u32,
}

impl<'a> Context<'a> {
    pub(super) fn new(experiment: &'a Experiment, options: &'a Options) -> anyhow::Result<Self> {
        let recorder = Recorder::new(experiment.id, options.json)?.mark_quick(options.quick);
        Ok(Context { experiment, options, recorder, plots: 0 })
    }

    /// Numbers of rules of the tables to build.
    pub fn rules(&self) -> Vec<u64> {
        let needs = &self.experiment.needs;
        match &self.options.rules {
            Some(rules) => rules.clone(),
            None if self.options.quick => needs.quick_rules.to_vec(),
            None => needs.rules.to_vec(),
        }
    }

    /// Whether a small and short run is wanted.
    pub fn quick(&self) -> bool {
        self.options.quick
    }

    /// Time to measure each engine or setting, in seconds.
    pub fn seconds(&self) -> f64 {
        self.options.seconds.unwrap_or(if self.options.quick { 0.2 } else { 3.0 })
    }

    /// Path of a file in the folder of real data.
    pub fn data(&self, file: &str) -> PathBuf {
        self.options.data.join(file)
    }

    /// Whether the machine has this much memory free now.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes as f64 <= memory_free() as f64 * MEMORY_SHARE
    }

    /// The reason why the experiment cannot run here, if there is one.
    pub(super) fn missing(&self) -> Option<String> {
        let needs = &self.experiment.needs;
        if let Some(file) = needs.data.iter().find(|file| !self.data(file).exists()) {
            let source = workload::source_of(Path::new(file)).unwrap_or("its source is not known");
            return Some(format!("{} does not exist: {source} (see --data)", self.data(file).display()));
        }
        let bytes = self.rules().iter().max().map_or(0, |rules| rules.saturating_mul(needs.bytes_per_rule));
        (!self.fits(bytes)).then(|| {
            let (needed, free) = (bytes as f64 / 1e9, memory_free() as f64 / 1e9);
            format!("it needs {needed:.1} GB of memory, but only {free:.1} GB are free (see --rules)")
        })
    }

    /// Default options of `byname-lab prefix` with this engine and number of rules. The experiment sets what it varies.
    pub fn prefix(&self, engine: &str, rules: u64) -> prefix::Options {
        let mut options = prefix::Options { engine: engine.to_owned(), rules, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_DRAWS;
        }
        options
    }

    /// Default options of `byname-lab flat` with this number of names, hashed by the fastest function. The experiment
    /// sets what it varies.
    pub fn flat(&self, names: u64) -> flat::Options {
        let hash = flat::Function::Keyed(Hash::Aes);
        let mut options = flat::Options { names, hash, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_DRAWS;
        }
        options
    }

    /// Measures and records flat engines, one after the other. Leaves out an engine that refuses the names or does not
    /// fit in memory, and prints the reason.
    pub fn measure_flat(
        &mut self,
        options: &flat::Options,
        engines: &[&'static str],
    ) -> anyhow::Result<Vec<(&'static str, flat::Record)>> {
        let mut found = Vec::new();
        for &engine in engines {
            let names = table::count(options.names);
            // An unknown engine is refused below.
            let bytes = flat::bytes_per_name(engine).unwrap_or_default();
            if !self.fits(options.names * bytes) {
                println!("{engine} is left out at {names} names: not enough memory");
                continue;
            }
            match flat::measure(options, &[engine], Progress::SHOWN) {
                Ok(mut records) => {
                    let record = records.remove(0);
                    self.record_of(options, &record)?;
                    found.push((engine, record));
                }
                Err(error) => println!("{engine} is left out at {names} names: {error:#}"),
            }
        }
        Ok(found)
    }

    /// Default options of `byname-lab tags` with the paper's trie and this number of descriptors. The experiment sets
    /// what it varies.
    pub fn tags(&self, workload: TagKind, descriptors: u64) -> tags::Options {
        let (engine, data) = ("trie".to_owned(), self.options.data.clone());
        let mut options = tags::Options { engine, workload, descriptors, data, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_TAG_DRAWS;
        }
        options
    }

    /// Default options of `byname-lab switch` with these numbers of names, hashed by the fastest function.
    pub fn switch(&self, on: switch::Place, names: Vec<u64>) -> switch::Options {
        let mut options = switch::Options { on, names, hash: Hash::Aes, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            (options.draws, options.frame_memory) = (QUICK_DRAWS, QUICK_FRAME_BYTES);
        }
        options
    }

    /// Default options of `byname-lab mixed` with this engine and number of descriptors.
    pub fn mixed(&self, engine: &str, workload: TagKind, descriptors: u64) -> mixed::Options {
        let (engine, data) = (engine.to_owned(), self.options.data.clone());
        let mut options = mixed::Options { engine, workload, descriptors, data, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_TAG_DRAWS;
        }
        options
    }

    /// Default options of `byname-lab forward` with this number of rules. The experiment sets what it varies.
    pub fn forward(&self, fib: u64) -> forward::Options {
        let mut options = forward::Options { fib, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            (options.draws, options.pit, options.cs) = (QUICK_DRAWS, QUICK_PENDING, QUICK_PENDING);
        }
        options
    }

    /// Measures data planes in turn and records them. Returns one record of each.
    pub fn measure_forward(&mut self, options: &forward::Options) -> anyhow::Result<Vec<forward::Record>> {
        let records = forward::measure(options, Progress::SHOWN)?;
        self.record_all(options, &records)?;
        Ok(records)
    }

    /// Measures mixes of push and pull flows on one table and records them. Returns one record of each.
    pub fn measure_mixed(
        &mut self,
        options: &mixed::Options,
        mixes: &[mixed::Mix],
    ) -> anyhow::Result<Vec<mixed::Record>> {
        let records = mixed::measure(options, mixes, Progress::SHOWN)?;
        self.record_all(options, &records)?;
        Ok(records)
    }

    /// Measures engines in turn over several kinds of packets, with all tables in memory at the same time. Returns one
    /// record of each engine for each kind.
    pub fn measure_tags(
        &mut self,
        options: &tags::Options,
        engines: &[&str],
        askings: &[tags::Asking],
    ) -> anyhow::Result<Vec<tags::Record>> {
        let records = tags::measure_all(options, engines, askings, Progress::SHOWN)?;
        self.record_all(options, &records)?;
        Ok(records)
    }

    /// Measures and records one engine.
    pub fn measure(&mut self, options: &prefix::Options) -> anyhow::Result<Record> {
        let record = prefix::measure(options, Progress::SHOWN)?;
        self.record_of(options, &record)?;
        Ok(record)
    }

    /// Measures several choices of names on one table. Returns one record of each.
    pub fn measure_names(&mut self, options: &prefix::Options, names: &[NameChoice]) -> anyhow::Result<Vec<Record>> {
        let records = prefix::measure_all(options, &[&options.engine], names, Progress::SHOWN)?;
        self.record_all(options, &records)?;
        Ok(records)
    }

    /// Measures engines in turn over the same names, so that other load on the machine affects all of them. Returns one
    /// record of each. The tables are in memory at the same time.
    pub fn compare(&mut self, options: &prefix::Options, engines: &[&str]) -> anyhow::Result<Vec<Record>> {
        let names = std::slice::from_ref(&options.names);
        let records = prefix::measure_all(options, engines, names, Progress::SHOWN)?;
        self.record_all(options, &records)?;
        Ok(records)
    }

    /// Appends records that these options led to, to `lab-results/ID.jsonl`.
    pub fn record_all(&mut self, options: &impl Serialize, records: &[impl Serialize]) -> anyhow::Result<()> {
        records.iter().try_for_each(|record| self.record_of(options, record))
    }

    /// Appends one record that these options led to.
    pub fn record_of(&mut self, options: &impl Serialize, measured: &impl Serialize) -> anyhow::Result<()> {
        self.recorder.add(options, measured)
    }

    /// Appends one record of an experiment that takes no options but those of `run`.
    pub fn record(&mut self, measured: &impl Serialize) -> anyhow::Result<()> {
        let parameters = Parameters { rules: self.rules(), seconds: self.seconds(), data: &self.options.data };
        self.recorder.add(&parameters, measured)
    }

    /// Draws the results as `lab-results/ID.svg`; a second plot is `ID-2.svg`.
    pub fn plot(&mut self, chart: &Chart) -> anyhow::Result<()> {
        self.plots += 1;
        let number = if self.plots == 1 { String::new() } else { format!("-{}", self.plots) };
        let path = PathBuf::from("lab-results").join(format!("{}{number}.svg", self.experiment.id));
        chart
            .draw(&path, &record::provenance(), self.quick())
            .with_context(|| format!("cannot draw {}", path.display()))?;
        println!("plot: {}", path.display());
        Ok(())
    }
}
