//! `byname cs`.

use byname_control::mgmt::tlv::ControlParameters;
use byname_wire::Name;
use serde::Serialize;

use super::view::Cs;
use super::{Switch, decode, human, print, show, text};
use crate::tools::parse_name;
use byname_client::Link;
use byname_client::management::{command, dataset};

/// Bits of the Flags of `cs/config`.
const ADMIT: u64 = 1;
const SERVE: u64 = 2;

/// Arguments of `byname cs`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CsArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show size, hits and misses (the default)
    Info {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change capacity, admission and serving
    #[command(after_help = "Example: byname cs config --capacity 100000 --admit on")]
    Config {
        /// Maximum number of packets to keep
        #[arg(long, value_name = "PACKETS")]
        capacity: Option<u64>,
        /// Whether new Data is kept
        #[arg(long, value_name = "on|off")]
        admit: Option<Switch>,
        /// Whether Interests are answered from the content store
        #[arg(long, value_name = "on|off")]
        serve: Option<Switch>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Erase Data under a prefix
    Erase {
        /// Prefix of the Data
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Maximum number of packets to erase [default: all]
        count: Option<u64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Serialize)]
struct Config {
    capacity: u64,
    admit: bool,
    serve: bool,
}

#[derive(Debug, Serialize)]
struct Erased {
    prefix: String,
    count: u64,
}

impl CsArgs {
    /// Whether the command only shows what is.
    pub fn only_shows(&self) -> bool {
        matches!(self.command, None | Some(Command::Info { .. }))
    }
}

/// Runs `byname cs`.
pub fn run(args: CsArgs, client: &mut Link) -> anyhow::Result<()> {
    match args.command.unwrap_or(Command::Info { json: args.json }) {
        Command::Info { json } => {
            let cs = info(client)?;
            show(json, &cs, || text::lines(&cs.items()), |_| human::cs(&cs))?;
        }
        Command::Config { capacity, admit, serve, json } => config(client, capacity, admit, serve, json)?,
        Command::Erase { prefix, count, json } => {
            let count = erase(client, &prefix, count)?;
            let erased = Erased { prefix: prefix.to_string(), count };
            print(json, &erased, || format!("cs-erased prefix={prefix} count={count}\n"))?;
        }
    }
    Ok(())
}

/// Fetches the state of the content store.
pub fn info(client: &mut Link) -> anyhow::Result<Cs> {
    decode::cs_info(&dataset(client, "cs", "info", None)?)
}

fn config(
    client: &mut Link,
    capacity: Option<u64>,
    admit: Option<Switch>,
    serve: Option<Switch>,
    json: bool,
) -> anyhow::Result<()> {
    let bit = |switch: Option<Switch>, bit: u64| match switch {
        Some(switch) => (u64::from(switch.is_on()) * bit, bit),
        None => (0, 0),
    };
    let (admit, serve) = (bit(admit, ADMIT), bit(serve, SERVE));
    let mask = admit.1 | serve.1;
    let parameters = ControlParameters {
        capacity,
        flags: (mask != 0).then_some(admit.0 | serve.0),
        mask: (mask != 0).then_some(mask),
        ..ControlParameters::default()
    };
    let answer = command(client, "cs", "config", &parameters)?;
    let flags = answer.flags.unwrap_or(0);
    let config =
        Config { capacity: answer.capacity.unwrap_or(0), admit: flags & ADMIT != 0, serve: flags & SERVE != 0 };
    print(json, &config, || {
        let (admit, serve) = (text::on_off(config.admit), text::on_off(config.serve));
        format!("cs-config-updated capacity={} admit={admit} serve={serve}\n", config.capacity)
    })
}

/// Erases repeatedly, because the forwarder may limit how many packets one command erases. Returns the total.
fn erase(client: &mut Link, prefix: &Name, count: Option<u64>) -> anyhow::Result<u64> {
    let mut erased = 0;
    loop {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            count: count.map(|count| count - erased),
            ..ControlParameters::default()
        };
        let answer = command(client, "cs", "erase", &parameters)?;
        let now = answer.count.unwrap_or(0);
        erased += now;
        // The answer contains Capacity if the forwarder stopped at its limit and there is more to erase.
        if answer.capacity.is_none() || now == 0 || count.is_some_and(|count| erased >= count) {
            return Ok(erased);
        }
    }
}
