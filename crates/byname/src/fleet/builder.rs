//! `byname builder`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use byname_client::transport::Environment;
use byname_control::config::Log;
use byname_fleet::builder::{BuilderOptions, build};
use byname_fleet::follow::ChunkOptions;
use byname_fleet::table::store::Store;
use byname_fleet::{Stop, block_on};
use byname_wire::Name;
use clap::Args;

use super::copy::places;
use super::{EtcdArgs, state_folder, who};
use crate::exit::{self, Failure};
use crate::tools::parse_name;
use crate::{Connection, process, run as router};

const EXAMPLES: &str = "\
Examples:
  byname builder
  byname builder --chunks-from /srv/fleet-main.chunks --network /example/net
  byname fleet table load world rules.txt --built

The builder makes files of the tables that were loaded with --built or --flat. It cuts them into
blocks, and serves these through the router of its host. Agents (`byname agent --tables FILE`)
fetch the blocks that differ. Several builders may run: one leads, and another one goes on when it
ends. docs/fleet.md has more.";

/// Options of `byname builder`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BuilderArgs {
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Folder for blocks, which belongs to this builder alone [default: builder-FLEET.chunks in the folder for byname's state:
    /// /var/lib/byname, or ~/.local/state/byname]
    #[arg(long, value_name = "FOLDER")]
    chunks: Option<PathBuf>,
    /// Take chunks of tables from this folder, before the network is asked, or from this object store (s3://BUCKET/PATH, gs://…,
    /// az://…, https://…) if nobody answers there; may be given more than once [default:
    /// fleet-FLEET.chunks in the folder for byname's state, where `byname fleet table` writes them]
    #[arg(long, value_name = "FOLDER|URL")]
    chunks_from: Vec<String>,
    /// The network: chunks are fetched and served below /NETWORK/32=fleet [default: /FLEET]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    network: Option<Name>,
    /// Build a table so many ms after its last change
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pause: u64,
    /// Keep tables with their names in so many MiB of memory: a change then takes as long as what changes. A table that does not fit is
    /// read and built whole for each change, and needs memory for the table alone. A million rules take about 90 MiB. 0: keep none
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    names_memory_max: usize,
}

/// Runs `byname builder` until a signal ends it.
pub fn run(args: BuilderArgs, connection: &Connection) -> anyhow::Result<u8> {
    let router = Environment::of_process()
        .candidates(connection.transport.as_deref())
        .map_err(|error| Failure::new(exit::USAGE, error.to_string()))?;
    let fleet = args.etcd.fleet.clone();
    let opened = |folder: &Path| Store::open(folder).with_context(|| folder.display().to_string());
    let own = match args.chunks {
        Some(folder) => folder,
        None => state_folder("--chunks")?.join(format!("builder-{fleet}.chunks")),
    };
    let (others, stores) = match args.chunks_from.is_empty() {
        true => (vec![opened(&state_folder("--chunks-from")?.join(format!("fleet-{fleet}.chunks")))?], Vec::new()),
        false => places(&args.chunks_from)?,
    };
    let options = BuilderOptions {
        space: args.etcd.space(),
        etcd: args.etcd.login()?,
        router,
        chunks: ChunkOptions {
            own: opened(&own)?,
            network: args.etcd.network(args.network),
            others,
            stores,
            rows_max: u64::MAX,
        },
        pause: Duration::from_millis(args.pause),
        names_bytes_max: args.names_memory_max.saturating_mul(1 << 20),
        by: who(),
    };
    process::end_on_panic();
    router::start_log(&Log::default())?;
    let stop = Arc::new(Stop::default());
    let on_signal = stop.clone();
    process::on_signal(move || on_signal.now(), || {})?;
    block_on(build(options, stop.asked())).context("cannot start the runtime")?;
    Ok(exit::OK)
}
