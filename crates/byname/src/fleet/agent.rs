//! `byname agent`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use byname_client::transport::Environment;
use byname_control::config::Log;
use byname_fleet::agent::Options;
use byname_fleet::follow::{ChunkOptions, FileOptions, FollowOptions, follow};
use byname_fleet::label::Label;
use byname_fleet::table::store::Store;
use byname_fleet::{Stop, block_on};
use byname_wire::Name;
use clap::Args;

use super::copy::places;
use super::{EtcdArgs, parse_label, state_folder};
use crate::exit::{self, Failure};
use crate::tools::parse_name;
use crate::{Connection, process, run as router};

const EXAMPLES: &str = "\
Examples:
  byname agent --node r1
  byname agent --node r1 --tables /var/lib/byname/tables/fleet.toml
  byname agent --node r1 --etcd https://e1.example:2379,https://e2.example:2379 --etcd-ca ca.pem

The agent follows the intent of a fleet, which `byname fleet` writes, and tells the router of this
host by management commands. When the agent or etcd is away, the router forwards with what it has.
docs/fleet.md has more.";

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
    /// Folder for chunks of tables, which the agent also serves to others [default: agent-FLEET-NODE.chunks in the same
    /// folder]
    #[arg(long, value_name = "FOLDER")]
    chunks: Option<PathBuf>,
    /// The network: chunks are fetched and served below /NETWORK/32=fleet [default: /FLEET]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    network: Option<Name>,
    /// Take chunks from this folder or object store (s3://BUCKET/PATH, gs://…, az://…, https://…) if nobody answers in the
    /// network; may be given more than once
    #[arg(long, value_name = "FOLDER|URL")]
    chunks_from: Vec<String>,
    /// Settings that this agent writes for its router: tables that `byname builder` has made, and rules of routing (`byname fleet
    /// policy`). The router's configuration names the same file ([fleet] tables). The tables are in the same folder, which belongs to the agent
    #[arg(long, value_name = "FILE")]
    tables: Option<PathBuf>,
    /// Most rules of a table; the agent changes nothing if there are more
    #[arg(long, value_name = "N", default_value_t = 8_000_000)]
    rows_max: u64,
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

/// Makes the folder of these settings.
fn files(settings: PathBuf) -> anyhow::Result<FileOptions> {
    let settings = std::path::absolute(&settings).with_context(|| settings.display().to_string())?;
    let folder = settings.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(FileOptions { settings })
}

/// Runs `byname agent` until a signal ends it.
pub fn run(args: AgentArgs, connection: &Connection) -> anyhow::Result<u8> {
    let router = Environment::of_process()
        .candidates(connection.transport.as_deref())
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    let (fleet, node) = (args.etcd.fleet.clone(), args.node.clone());
    let path = |given: Option<PathBuf>, option: &str, end: &str| -> anyhow::Result<PathBuf> {
        given.map_or_else(|| Ok(state_folder(option)?.join(format!("agent-{fleet}-{node}.{end}"))), Ok)
    };
    let opened = |folder: &Path| Store::open(folder).with_context(|| folder.display().to_string());
    let (others, stores) = places(&args.chunks_from)?;
    let options = FollowOptions {
        agent: Options {
            grace_ms: args.grace.saturating_mul(1_000),
            keys_max: args.keys_max,
            takes_files: args.tables.is_some(),
            ..Options::new(args.etcd.space(), args.node.clone())
        },
        etcd: args.etcd.login()?,
        router,
        state: path(args.state, "--state", "json")?,
        chunks: ChunkOptions {
            own: opened(&path(args.chunks, "--chunks", "chunks")?)?,
            network: args.etcd.network(args.network),
            others,
            stores,
            rows_max: args.rows_max,
        },
        files: args.tables.map(files).transpose()?,
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
