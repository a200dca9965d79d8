// Links that lead to source files in README.md lead to documentation on this page.
//! [`experiments`]: experiments
//! [`harness`]: harness
//! [`prefix`]: prefix
//! [`record`]: record
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod balance;
mod baselines;
mod cables;
mod descriptors;
mod documents;
mod experiments;
mod flat;
mod forward;
mod harness;
mod hostile;
mod idle;
mod libraries;
mod locator;
mod machine;
mod mixed;
mod options;
mod partition;
mod peer;
mod plan;
mod plot;
mod prefix;
mod progress;
mod record;
mod routes;
mod scale;
mod size;
mod switch;
mod table;
mod tags;
mod threads;
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
    /// What packet threads cost a router: processor time and latency of routers with one and several, in turn.
    Threads(threads::Options),
    /// Registers routes in bulk through management.
    Routes(routes::Options),
    /// CPU time and memory of a router without traffic.
    Idle(idle::Options),
    /// Longest name prefix match on one engine, or on several in turn.
    Prefix(prefix::Options),
    /// Exact match of opaque names on one engine, or on several in turn.
    Flat(flat::Options),
    /// byname's tables beside the crates that one would take in their place, on the same keys.
    Libraries(libraries::Options),
    /// One router of several machines: a partition in front of parts of the rules, beside one table of all rules.
    Partition(partition::Options),
    /// A fleet of a thousand routers with ten billion names, simulated with costs measured here: sizes, ways and changes.
    Plan(plan::Options),
    /// Whole packets through the data plane, in memory: one data plane or several in turn.
    Forward(forward::Options),
    /// Forwarding by locator on the trees of a graph.
    Locator(locator::Options),
    /// Push and pull flows together, by tags and by locator.
    Mixed(mixed::Options),
    /// Routing of descriptors in one router of a large network: memory, and time of an update.
    Descriptors(descriptors::Options),
    /// Subset match of tag sets on one engine, or on several in turn.
    Tags(tags::Options),
    /// Ethernet frames through a flat switch: in memory, or on virtual cables.
    Switch(switch::Options),
    /// How evenly workers are loaded when some names are popular, on simulated cores and on threads.
    Balance(balance::Options),
    /// How the rate grows with the number of packet threads, simulated with costs measured here.
    Scale(scale::Options),
    /// The cost of hostile packets for the data plane, and the rate that they leave for ordinary packets.
    Hostile(hostile::Options),
    /// Runs one experiment of `list`, or `all` of them.
    Run(experiments::Options),
    /// Writes the tables of README.md and docs from the records in docs/records, or checks them.
    Tables(documents::Options),
    /// Lists the experiments with their papers.
    List,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().experiment {
        Experiment::Wire(options) => wire::run(&options),
        Experiment::Threads(options) => harness::run(&options),
        Experiment::Routes(options) => routes::run(&options),
        Experiment::Idle(options) => idle::run(&options),
        Experiment::Prefix(options) => prefix::run(&options),
        Experiment::Flat(options) => flat::run(&options),
        Experiment::Libraries(options) => libraries::run(&options),
        Experiment::Partition(options) => harness::run(&options),
        Experiment::Plan(options) => harness::run(&options),
        Experiment::Forward(options) => harness::run(&options),
        Experiment::Locator(options) => harness::run(&options),
        Experiment::Mixed(options) => harness::run(&options),
        Experiment::Descriptors(options) => harness::run(&options),
        Experiment::Tags(options) => tags::run(&options),
        Experiment::Switch(options) => harness::run(&options),
        Experiment::Balance(options) => harness::run(&options),
        Experiment::Scale(options) => harness::run(&options),
        Experiment::Hostile(options) => harness::run(&options),
        Experiment::Run(options) => experiments::run(&options),
        Experiment::Tables(options) => documents::run(&options),
        Experiment::List => {
            experiments::list();
            println!("\nfor a whole forwarder there are separate subcommands:");
            println!("wire    exchanges/s, latency and memory of a forwarder process   [So §4.5]");
            println!("threads processor time and latency by number of packet threads        (no paper)");
            println!("routes  registration of many routes through management           (no paper)");
            println!("idle    CPU time and memory of a router without traffic          (no paper)");
            Ok(())
        }
    }
}
