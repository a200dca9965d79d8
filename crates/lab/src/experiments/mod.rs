//! The experiments of the papers, and ours: one module each, registered in [`ALL`].
//!
//! An experiment says where it comes from and what it needs, measures, prints a table with the
//! paper's figures beside ours, appends its records to `lab-results/ID.jsonl` and draws
//! `lab-results/ID.svg`. To add one: a module with `pub(super) const EXPERIMENT: Experiment`, and
//! its line in [`ALL`].

mod adversarial;
mod compact_components;
mod concise_bits;
mod concise_construction;
mod concise_delay;
mod concise_lengths;
mod concise_messages;
mod concise_names;
mod concise_setsep;
mod concise_sharing;
mod concise_switch;
mod concise_table1;
mod concise_update_speed;
mod concise_updates;
mod concise_validity;
mod context;
mod counting;
mod engines;
mod hasegawa_balance;
mod hasegawa_waiting;
mod hash_functions;
mod hashes;
mod learned_index;
mod papers;
mod so_denial;
mod so_forward;
mod so_load_factor;
mod so_memory;
mod so_prefetch;
mod so_start_depth;
pub mod table;
mod tagnet_compression;
mod tagnet_extra_tags;
mod tagnet_hostile;
mod tagnet_labels;
mod tagnet_layout;
mod tagnet_match_rate;
mod tagnet_memory;
mod tagnet_mixed;
mod tagnet_sizes;
mod tagnet_threads;
mod updates;
mod yuan_components;
mod yuan_level_pulling;
mod yuan_pages;
mod yuan_prefetch;
mod yuan_sizes;
mod yuan_system;
mod yuan_threads;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;

pub use context::Context;
pub use table::Table;

use crate::size;

/// Every experiment, in the order in which `list` shows and `run all` runs them.
const ALL: &[&Experiment] = &[
    &yuan_pages::EXPERIMENT,
    &yuan_prefetch::EXPERIMENT,
    &yuan_sizes::EXPERIMENT,
    &yuan_components::EXPERIMENT,
    &yuan_threads::EXPERIMENT,
    &yuan_system::EXPERIMENT,
    &yuan_level_pulling::EXPERIMENT,
    &hash_functions::EXPERIMENT,
    &so_prefetch::EXPERIMENT,
    &so_memory::EXPERIMENT,
    &so_load_factor::EXPERIMENT,
    &so_start_depth::EXPERIMENT,
    &so_forward::FIGURE_10,
    &so_forward::FIGURE_11,
    &so_forward::FIGURE_12,
    &engines::EXPERIMENT,
    &updates::EXPERIMENT,
    &adversarial::EXPERIMENT,
    &so_denial::EXPERIMENT,
    &compact_components::EXPERIMENT,
    &hashes::EXPERIMENT,
    &concise_table1::EXPERIMENT,
    &concise_bits::EXPERIMENT,
    &concise_names::EXPERIMENT,
    &concise_lengths::EXPERIMENT,
    &concise_updates::EXPERIMENT,
    &concise_delay::EXPERIMENT,
    &concise_construction::EXPERIMENT,
    &concise_update_speed::EXPERIMENT,
    &concise_messages::EXPERIMENT,
    &concise_setsep::EXPERIMENT,
    &concise_sharing::EXPERIMENT,
    &concise_validity::EXPERIMENT,
    &concise_switch::FIGURE_9,
    &concise_switch::FIGURE_11,
    &learned_index::EXPERIMENT,
    &hasegawa_waiting::EXPERIMENT,
    &hasegawa_balance::EXPERIMENT,
    &tagnet_labels::EXPERIMENT,
    &tagnet_match_rate::EXPERIMENT,
    &tagnet_extra_tags::EXPERIMENT,
    &tagnet_memory::EXPERIMENT,
    &tagnet_compression::EXPERIMENT,
    &tagnet_layout::EXPERIMENT,
    &tagnet_threads::ALL_SUBSETS,
    &tagnet_threads::LARGEST_SUBSET,
    &tagnet_sizes::EXPERIMENT,
    &tagnet_hostile::EXPERIMENT,
    &tagnet_mixed::FIGURE_11,
    &tagnet_mixed::TABLE_1,
];

/// One experiment.
pub struct Experiment {
    /// What `byname-lab run` takes, and the name of the files of its results.
    pub id: &'static str,
    /// What it finds out, in a few words.
    pub title: &'static str,
    /// The paper with the section and its figure or table: `[Yuan §3.3.2] Figure 5`.
    pub source: &'static str,
    /// What has to be there.
    pub needs: Needs,
    /// Measures, prints and records.
    pub run: fn(&mut Context<'_>) -> anyhow::Result<()>,
}

/// What an experiment needs to run.
pub struct Needs {
    /// Rules, flat names or descriptors, of the tables it builds, one table after the other.
    pub rules: &'static [u64],
    /// The same for `--quick`: small enough that all experiments together take few minutes.
    pub quick_rules: &'static [u64],
    /// Memory for each rule of the largest table, at its peak, in bytes: both halves of the largest
    /// engine in it. An experiment that leaves out what does not fit by itself
    /// ([`Context::fits`]) says what its smallest engine needs.
    pub bytes_per_rule: u64,
    /// Files of the folder with real data (`--data`).
    pub data: &'static [&'static str],
    /// How long it takes at its default sizes, about.
    pub minutes: u32,
}

/// Options of `byname-lab run`.
#[derive(Args)]
pub struct Options {
    /// The experiment, as `byname-lab list` names it, or `all`.
    id: String,
    /// Small tables and short measurements: shows that it works, not how fast.
    #[arg(long)]
    quick: bool,
    /// Sizes in place of the experiment's own, in rules, flat names or descriptors.
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
    json: bool,
}

/// Prints every experiment with its paper, and what it needs.
pub fn list() {
    let mut table = Table::new(&["id", "what", "from", "rules, names or sets up to", "GB", "minutes", "data"]);
    for experiment in ALL {
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

/// Runs one experiment or all of them. One whose data or memory is not there is skipped; one that
/// fails does not keep the others from running.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let chosen: Vec<_> = ALL.iter().filter(|e| options.id == "all" || options.id == e.id).collect();
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
        for (i, experiment) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|e| e.id != experiment.id), "{} twice", experiment.id);
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
