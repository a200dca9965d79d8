//! The papers' experiments and ours: one module each, in the folder of its paper.
//!
//! An experiment declares its source and its needs. It measures, prints a table with the paper's figures beside ours,
//! appends its records to `lab-results/ID.jsonl` and draws `lab-results/ID.svg`. To add one, write a module in the
//! folder of its paper, with `pub(super) const EXPERIMENT: Experiment`, and list it in `ALL` of that folder.

mod concise;
mod context;
mod counting;
mod hasegawa;
mod ours;
mod so;
mod tagnet;
mod yuan;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;

pub use context::Context;

use crate::size;
use crate::table::{self, Table};

/// The experiments of each paper, and ours, in the order of `list` and `run all`.
const PAPERS: [&[&Experiment]; 6] = [yuan::ALL, so::ALL, concise::ALL, hasegawa::ALL, tagnet::ALL, ours::ALL];

/// Every experiment.
fn all() -> impl Iterator<Item = &'static Experiment> {
    PAPERS.into_iter().flatten().copied()
}

/// One experiment.
pub struct Experiment {
    /// The argument of `byname-lab run`, and the name of the result files.
    pub id: &'static str,
    /// Its subject, in a few words.
    pub title: &'static str,
    /// The paper with section and figure or table: `[Yuan §3.3.2] Figure 5`.
    pub source: &'static str,
    /// Memory, data and time that it needs.
    pub needs: Needs,
    /// Measures, prints and records.
    pub run: fn(&mut Context<'_>) -> anyhow::Result<()>,
}

/// The needs of an experiment.
pub struct Needs {
    /// Sizes of the tables, in rules, flat names or descriptors. They are built one after the other.
    pub rules: &'static [u64],
    /// Sizes with `--quick`: so small that all experiments together take a few minutes.
    pub quick_rules: &'static [u64],
    /// Peak memory for each rule of the largest table, in bytes, with both halves of the largest engine. An experiment
    /// that itself leaves out tables that do not fit ([`Context::fits`]) states the need of its smallest engine.
    pub bytes_per_rule: u64,
    /// Required files of the folder with real data (`--data`).
    pub data: &'static [&'static str],
    /// Approximate duration at its default sizes.
    pub minutes: u32,
}

/// Options of `byname-lab run`.
#[derive(Args, Serialize)]
pub struct Options {
    /// The experiment, as `byname-lab list` names it, or `all`.
    id: String,
    /// Use small tables and short measurements: a test that it works, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Sizes instead of the experiment's own, in rules, flat names or descriptors.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size::count)]
    rules: Option<Vec<u64>>,
    /// Seconds for each measurement.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Folder with the real data: URL lists, traces, routing tables.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    data: PathBuf,
    /// Print each record as JSON.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// Prints every experiment with its source and its needs.
pub fn list() {
    let mut table = Table::new(&["id", "subject", "source", "largest table", "GB", "minutes", "data"]);
    for experiment in all() {
        let needs = &experiment.needs;
        let rules = needs.rules.iter().max().copied().unwrap_or_default();
        table.row([
            experiment.id.to_owned(),
            experiment.title.to_owned(),
            experiment.source.to_owned(),
            table::count(rules),
            format!("{:.1}", (rules * needs.bytes_per_rule) as f64 / 1e9),
            needs.minutes.to_string(),
            needs.data.join(" "),
        ]);
    }
    print!("{table}");
}

/// Runs one experiment or all. An experiment without enough data or memory is skipped. After one fails, the others
/// still run.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let chosen: Vec<_> = all().filter(|e| options.id == "all" || options.id == e.id).collect();
    if chosen.is_empty() {
        bail!("there is no experiment '{}'; `byname-lab list` shows them", options.id);
    }
    let mut failed = Vec::new();
    for experiment in &chosen {
        println!("\n== {}: {} ({})", experiment.id, experiment.title, experiment.source);
        let mut context = Context::new(experiment, options)?;
        if let Some(missing) = context.missing() {
            println!("skipped: {missing}");
            continue;
        }
        if let Err(error) = (experiment.run)(&mut context).with_context(|| format!("{} failed", experiment.id)) {
            if chosen.len() == 1 {
                return Err(error);
            }
            println!("{error:#}");
            failed.push(experiment.id);
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} experiments failed: {}", failed.len(), chosen.len(), failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_one_of_a_kind_and_fit_a_file_name() {
        for (i, experiment) in all().enumerate() {
            assert!(all().take(i).all(|e| e.id != experiment.id), "{} twice", experiment.id);
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(experiment.id != "all" && experiment.id.chars().all(fits), "{}", experiment.id);
            assert!(
                !experiment.needs.rules.is_empty() && !experiment.needs.quick_rules.is_empty(),
                "{}",
                experiment.id
            );
        }
    }
}
