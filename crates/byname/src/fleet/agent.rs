//! `byname agent`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use byname_client::transport::Environment;
use byname_control::config::{Config, Log};
use byname_fleet::agent::Options;
use byname_fleet::follow::{FollowOptions, follow};
use byname_fleet::label::Label;
use byname_fleet::{Stop, block_on};
use clap::Args;

use super::{EtcdArgs, parse_label};
use crate::exit::{self, Failure};
use crate::{Connection, process, run as router};

const EXAMPLES: &str = "\
Examples:
  byname agent --node r1
  byname agent --node r1 --etcd https://e1.example:2379,https://e2.example:2379 --etcd-ca ca.pem

The agent follows the intent of a fleet, which `byname fleet` writes, and tells the router of this host by management
commands. When the agent or etcd is away, the router forwards with what it has. docs/fleet.md has more.";

/// Options of `byname agent`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArgs {
    /// Name of this node in the fleet
    #[arg(long, value_name = "NODE", value_parser = parse_label)]
    node: Label,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// File that says which strategies the agent has set [default: agent-FLEET-NODE.json in the folder for byname's
    /// state: /var/lib/byname, or ~/.local/state/byname]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Remove routes that are no longer wanted after so many seconds, if the writer does not say earlier that all nodes
    /// are ready
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    grace: u64,
    /// Compare the router with what the agent knows, every so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    compare: u64,
    /// Most keys of an intent; the agent changes nothing if there are more
    #[arg(long, value_name = "N", default_value_t = 1_200_000)]
    keys_max: usize,
}

/// Runs `byname agent` until a signal ends it.
pub fn run(args: AgentArgs, connection: &Connection) -> anyhow::Result<u8> {
    let router = Environment::of_process()
        .candidates(connection.transport.as_deref())
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    let options = FollowOptions {
        agent: Options {
            grace_ms: args.grace.saturating_mul(1_000),
            keys_max: args.keys_max,
            ..Options::new(args.etcd.space(), args.node.clone())
        },
        etcd: args.etcd.login()?,
        router,
        state: match args.state {
            Some(path) => path,
            None => default_state(&args.etcd.fleet, &args.node)?,
        },
        compare: Duration::from_secs(args.compare),
        version: env!("BYNAME_VERSION").to_owned(),
    };
    process::end_on_panic();
    router::start_log(&Log::default())?;
    let stop = Arc::new(Stop::default());
    let on_signal = stop.clone();
    process::on_signal(move || on_signal.now(), || {})?;
    block_on(follow(options, stop.asked())).context("cannot start the runtime")??;
    Ok(exit::OK)
}

/// A file in the first folder in which this user may write.
fn default_state(fleet: &Label, node: &Label) -> anyhow::Result<PathBuf> {
    let folders = router::state::folders(&Config::default());
    let is_writable = |folder: &Path| {
        std::fs::create_dir_all(folder).is_ok() && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
    };
    let folder = folders.iter().find(|folder| is_writable(folder));
    let none = || Failure::new(exit::FAILED, "there is no folder for the agent's state: name a file with --state");
    Ok(folder.ok_or_else(none)?.join(format!("agent-{fleet}-{node}.json")))
}
