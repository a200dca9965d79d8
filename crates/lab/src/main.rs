//! `byname-lab`: measures byname and its peers.
//!
//! Each experiment is one module and one subcommand; it prints a table and appends JSON lines,
//! one for each measurement, to a file under `lab-results/`.
#![forbid(unsafe_code)]

mod balance;
mod baselines;
mod cables;
mod experiments;
mod flat;
mod forward;
mod hostile;
mod locator;
mod machine;
mod mixed;
mod options;
mod peer;
mod plot;
mod prefix;
mod progress;
mod record;
mod routes;
mod size;
mod switch;
mod tags;
mod timing;
mod wire;
mod workload;
mod writer;

use clap::{Parser, Subcommand};

/// Experiments on byname and on any other NDN forwarder that runs as a process.
#[derive(Parser)]
#[command(name = "byname-lab", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Exchanges of Interest and Data through a forwarder, from another core.
    Wire(wire::Options),
    /// Registers routes in bulk through management, while traffic runs if asked.
    Routes(routes::Options),
    /// Longest name prefix match on one engine, or on several in turn.
    Prefix(prefix::Options),
    /// Exact match of opaque names on one engine, or on several in turn.
    Flat(flat::Options),
    /// Whole packets through the data plane, in memory: one data plane, or several in turn.
    Forward(forward::Options),
    /// Forwarding by locator on the trees of a graph.
    Locator(locator::Options),
    /// Push and pull flows together, by tags and by locator.
    Mixed(mixed::Options),
    /// Subset match of tag sets on one engine, or on several in turn.
    Tags(tags::Options),
    /// Ethernet frames through a flat switch: in memory, or on virtual cables.
    Switch(switch::Options),
    /// How evenly workers are loaded where some names are popular, on simulated cores and on threads.
    Balance(balance::Options),
    /// What hostile packets cost the data plane, and what they leave of others' rate.
    Hostile(hostile::Options),
    /// Runs one experiment of `list`, or `all` of them.
    Run(experiments::Options),
    /// Shows what can be run, with the paper each experiment belongs to.
    List,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().experiment {
        Experiment::Wire(options) => wire::run(&options),
        Experiment::Routes(options) => routes::run(&options),
        Experiment::Prefix(options) => prefix::run(&options),
        Experiment::Flat(options) => flat::run(&options),
        Experiment::Forward(options) => forward::run(&options),
        Experiment::Locator(options) => locator::run(&options),
        Experiment::Mixed(options) => mixed::run(&options),
        Experiment::Tags(options) => tags::run(&options),
        Experiment::Switch(options) => switch::run(&options),
        Experiment::Balance(options) => balance::run(&options),
        Experiment::Hostile(options) => hostile::run(&options),
        Experiment::Run(options) => experiments::run(&options),
        Experiment::List => {
            experiments::list();
            println!("\nand of a whole forwarder, as subcommands of their own:");
            println!("wire    exchanges/s, latency and memory of a forwarder process   [So §4.5]");
            println!("routes  registration of many routes through management           (no paper)");
            Ok(())
        }
    }
}
