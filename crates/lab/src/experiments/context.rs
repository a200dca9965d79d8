//! What an experiment is given: its sizes, the machine's bounds, and places for its results.

use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

use super::{Experiment, Options, table};
use crate::flat;
use crate::forward;
use crate::machine::memory_free;
use crate::mixed;
use crate::plot::Chart;
use crate::prefix::{self, Record};
use crate::progress::Progress;
use crate::record::Recorder;
use crate::switch;
use crate::tags;
use crate::workload::{NameChoice, TagKind};

/// Of the memory that is free, what a table may fill: the machine must not begin to swap.
const MEMORY_SHARE: f64 = 0.9;
/// Names prepared with `--quick`.
const QUICK_DRAWS: u64 = 100_000;
/// Interests pending, and Data cached, with it.
const QUICK_PENDING: u64 = 10_000;
/// Packets with tags prepared with it.
const QUICK_TAG_DRAWS: u64 = 10_000;

/// Memory that frames lie in.
const QUICK_FRAME_BYTES: u64 = 16 << 20;

/// One run of one experiment.
pub struct Context<'a> {
    experiment: &'a Experiment,
    options: &'a Options,
    recorder: Recorder,
    plots: u32,
}

impl<'a> Context<'a> {
    pub(super) fn new(experiment: &'a Experiment, options: &'a Options) -> anyhow::Result<Self> {
        let recorder = Recorder::new(experiment.id, options.json)?;
        Ok(Context { experiment, options, recorder, plots: 0 })
    }

    /// Rules of the tables to build.
    pub fn rules(&self) -> Vec<u64> {
        let needs = &self.experiment.needs;
        match &self.options.rules {
            Some(rules) => rules.clone(),
            None if self.options.quick => needs.quick_rules.to_vec(),
            None => needs.rules.to_vec(),
        }
    }

    /// Whether small and short is wanted.
    pub fn quick(&self) -> bool {
        self.options.quick
    }

    /// How long to measure each thing, in seconds.
    pub fn seconds(&self) -> f64 {
        self.options.seconds.unwrap_or(if self.options.quick { 0.2 } else { 3.0 })
    }

    /// A file of the folder with real data.
    pub fn data(&self, file: &str) -> PathBuf {
        self.options.data.join(file)
    }

    /// Whether the machine has this much memory free now.
    pub fn fits(&self, bytes: u64) -> bool {
        bytes as f64 <= memory_free() as f64 * MEMORY_SHARE
    }

    /// Why the experiment cannot be run here, if so.
    pub(super) fn missing(&self) -> Option<String> {
        let needs = &self.experiment.needs;
        if let Some(file) = needs.data.iter().find(|file| !self.data(file).exists()) {
            return Some(format!("{} is not there (see --data)", self.data(file).display()));
        }
        let bytes = self.rules().iter().max().map_or(0, |rules| rules * needs.bytes_per_rule);
        (!self.fits(bytes)).then(|| {
            let (needed, free) = (bytes as f64 / 1e9, memory_free() as f64 / 1e9);
            format!("it needs {needed:.1} GB of memory, and {free:.1} are free (see --rules)")
        })
    }

    /// What `byname-lab prefix` does by itself with this engine and so many rules: the experiment
    /// sets what it varies.
    pub fn prefix(&self, engine: &str, rules: u64) -> prefix::Options {
        let mut options = prefix::Options { engine: engine.to_owned(), rules, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_DRAWS;
        }
        options
    }

    /// What `byname-lab flat` does by itself with so many names, hashed by the fastest function: the
    /// experiment sets what it varies.
    pub fn flat(&self, names: u64) -> flat::Options {
        let hash = flat::Function::Keyed(prefix::Hash::Aes);
        let mut options = flat::Options { names, hash, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_DRAWS;
        }
        options
    }

    /// Measures and records flat engines, one after the other; an engine that refuses the names, or
    /// that there is no memory for, is left out, and why is said.
    pub fn measure_flat(
        &mut self,
        options: &flat::Options,
        engines: &[&'static str],
    ) -> anyhow::Result<Vec<(&'static str, flat::Record)>> {
        let mut found = Vec::new();
        for &engine in engines {
            let names = table::count(options.names);
            // An engine that does not exist is refused below.
            let bytes = flat::bytes_per_name(engine).unwrap_or_default();
            if !self.fits(options.names * bytes) {
                println!("{engine} is left out at {names} names: no memory");
                continue;
            }
            match flat::measure(options, &[engine], Progress::SHOWN) {
                Ok(mut records) => {
                    let record = records.remove(0);
                    self.record(&record)?;
                    found.push((engine, record));
                }
                Err(error) => println!("{engine} is left out at {names} names: {error:#}"),
            }
        }
        Ok(found)
    }

    /// What `byname-lab tags` does by itself with the paper's trie and so many descriptors: the
    /// experiment sets what it varies.
    pub fn tags(&self, workload: TagKind, descriptors: u64) -> tags::Options {
        let (engine, data) = ("trie".to_owned(), self.options.data.clone());
        let mut options = tags::Options { engine, workload, descriptors, data, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_TAG_DRAWS;
        }
        options
    }

    /// What `byname-lab switch` does by itself with so many names, hashed by the fastest function.
    pub fn switch(&self, on: switch::Place, names: Vec<u64>) -> switch::Options {
        let mut options = switch::Options { on, names, hash: prefix::Hash::Aes, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            (options.draws, options.frame_memory) = (QUICK_DRAWS, QUICK_FRAME_BYTES);
        }
        options
    }

    /// What `byname-lab mixed` does by itself with an engine and so many descriptors.
    pub fn mixed(&self, engine: &str, workload: TagKind, descriptors: u64) -> mixed::Options {
        let (engine, data) = (engine.to_owned(), self.options.data.clone());
        let mut options = mixed::Options { engine, workload, descriptors, data, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            options.draws = QUICK_TAG_DRAWS;
        }
        options
    }

    /// What `byname-lab forward` does by itself with so many rules: the experiment sets what it varies.
    pub fn forward(&self, fib: u64) -> forward::Options {
        let mut options = forward::Options { fib, ..Default::default() };
        options.measuring.seconds = self.seconds();
        if self.quick() {
            (options.draws, options.pit, options.cs) = (QUICK_DRAWS, QUICK_PENDING, QUICK_PENDING);
        }
        options
    }

    /// Measures and records data planes in turn; a record of each.
    pub fn measure_forward(&mut self, options: &forward::Options) -> anyhow::Result<Vec<forward::Record>> {
        let records = forward::measure(options, Progress::SHOWN)?;
        records.iter().try_for_each(|record| self.record(record))?;
        Ok(records)
    }

    /// Measures and records mixes of push and pull flows on one table; a record for each.
    pub fn measure_mixed(
        &mut self,
        options: &mixed::Options,
        mixes: &[mixed::Mix],
    ) -> anyhow::Result<Vec<mixed::Record>> {
        let records = mixed::measure(options, mixes, Progress::SHOWN)?;
        records.iter().try_for_each(|record| self.record(record))?;
        Ok(records)
    }

    /// Measures engines in turn over several kinds of packets, on tables that are there at the same time:
    /// for each kind, a record of each engine.
    pub fn measure_tags(
        &mut self,
        options: &tags::Options,
        engines: &[&str],
        askings: &[tags::Asking],
    ) -> anyhow::Result<Vec<tags::Record>> {
        let records = tags::measure_all(options, engines, askings, Progress::SHOWN)?;
        records.iter().try_for_each(|record| self.record(record))?;
        Ok(records)
    }

    /// Measures and records.
    pub fn measure(&mut self, options: &prefix::Options) -> anyhow::Result<Record> {
        let record = prefix::measure(options, Progress::SHOWN)?;
        self.record(&record)?;
        Ok(record)
    }

    /// Measures several choices of names on one table; a record for each.
    pub fn measure_names(&mut self, options: &prefix::Options, names: &[NameChoice]) -> anyhow::Result<Vec<Record>> {
        self.record_all(prefix::measure_all(options, &[&options.engine], names, Progress::SHOWN)?)
    }

    /// Measures engines in turn over the same names, so that what else the machine does hits all of
    /// them; a record for each. Their tables are in memory at the same time.
    pub fn compare(&mut self, options: &prefix::Options, engines: &[&str]) -> anyhow::Result<Vec<Record>> {
        let names = std::slice::from_ref(&options.names);
        self.record_all(prefix::measure_all(options, engines, names, Progress::SHOWN)?)
    }

    fn record_all(&mut self, records: Vec<Record>) -> anyhow::Result<Vec<Record>> {
        records.iter().try_for_each(|record| self.record(record))?;
        Ok(records)
    }

    /// Appends one record to `lab-results/ID.jsonl`.
    pub fn record(&mut self, measured: &impl Serialize) -> anyhow::Result<()> {
        self.recorder.add(measured)
    }

    /// Draws the results as `lab-results/ID.svg`; a second plot is `ID-2.svg`.
    pub fn plot(&mut self, chart: &Chart) -> anyhow::Result<()> {
        self.plots += 1;
        let number = if self.plots == 1 { String::new() } else { format!("-{}", self.plots) };
        let path = PathBuf::from("lab-results").join(format!("{}{number}.svg", self.experiment.id));
        chart.draw(&path).with_context(|| format!("cannot draw {}", path.display()))?;
        println!("plot: {}", path.display());
        Ok(())
    }
}
