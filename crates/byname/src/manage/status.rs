//! `byname status`: the whole state of the forwarder.

use serde::Serialize;

use super::view::{Channel, Cs, Face, FibEntry, General, Route, StrategyChoice};
use super::{cs, decode, face, human, print, route, strategy, table, text, threads};
use byname_client::Link;
use byname_client::management::{ManagementError, dataset};

/// Arguments of `byname status`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct StatusArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show version, uptime, table sizes and packet counters
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the output of all list commands (the default)
    Report {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The whole report. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    general: General,
    channels: Vec<Channel>,
    faces: Vec<Face>,
    fib: Vec<FibEntry>,
    rib: Vec<Route>,
    cs: Cs,
    strategies: Vec<StrategyChoice>,
}

/// Runs `byname status`.
pub fn run(args: StatusArgs, client: &mut Link) -> anyhow::Result<()> {
    match args.command.unwrap_or(Command::Report { json: args.json }) {
        Command::Show { json } => {
            let general = general(client)?;
            print(json, &general, || text::lines(&general.items()))?;
        }
        // A list of all routes would not fit.
        Command::Report { json: false } if table::terminal_width().is_some() => {
            let (general, faces, cs) = (general(client)?, face::list(client)?, cs::info(client)?);
            let width = table::terminal_width().unwrap_or_default();
            print(false, &(), || human::status(&general, &faces, &cs, width))?;
        }
        Command::Report { json } => {
            let report = Report {
                general: general(client)?,
                channels: channels(client)?,
                faces: face::list(client)?,
                fib: route::fib(client)?,
                rib: route::list(client)?,
                cs: cs::info(client)?,
                strategies: strategy::list(client)?,
            };
            print(json, &report, || report.text())?;
        }
    }
    Ok(())
}

/// Some forwarders (ndnd) refuse to list their channels. Show the rest of their report anyway.
fn channels(client: &mut Link) -> anyhow::Result<Vec<Channel>> {
    match face::channels(client) {
        Err(error) if matches!(error.downcast_ref(), Some(ManagementError::Refused { .. })) => Ok(Vec::new()),
        other => other,
    }
}

fn general(client: &mut Link) -> anyhow::Result<General> {
    decode::general(&dataset(client, "status", "general", None)?)
}

impl Report {
    fn text(&self) -> String {
        let section = |title: &str, body: String| format!("{title}:\n{}", text::indented(&body));
        [
            section("General status", text::lines(&self.general.items())),
            section("Threads", threads::threads(&self.general)),
            section("Time of a packet in each stage (sampled)", threads::stages(&self.general)),
            section("Drops", threads::drops(&self.general)),
            section("Faces closed", threads::closed(&self.general)),
            section("Channels", self.channels.iter().map(|channel| format!("{}\n", channel.local_uri)).collect()),
            section("Faces", text::columns(&self.faces.iter().map(Face::items).collect::<Vec<_>>())),
            section("FIB", self.fib.iter().map(FibEntry::line).collect()),
            section("RIB", text::columns(&self.rib.iter().map(Route::items).collect::<Vec<_>>())),
            section("CS information", text::lines(&self.cs.items())),
            section(
                "Strategy choices",
                text::columns(&self.strategies.iter().map(StrategyChoice::items).collect::<Vec<_>>()),
            ),
        ]
        .concat()
    }
}
