//! Management commands, with nfdc's words: the Interests that they send, and the output of the answers.
//!
//! `view` holds the types that `--json` prints. Their field names are the documented interface for scripts
//! (`docs/json.md`). `text` formats the same data for people.

pub mod cs;
mod decode;
pub mod explain;
pub mod face;
pub mod face_uri;
mod human;
pub mod paint;
pub mod reload;
pub mod route;
pub mod routing;
pub mod status;
pub mod strategy;
pub mod table;
pub mod text;
pub mod threads;
pub mod view;

use std::io::Write;

use serde::Serialize;

use byname_client::Link;

/// A command to a running router.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the state of the forwarder
    Status(status::StatusArgs),
    /// List, show, create and destroy faces
    Face(face::FaceArgs),
    /// List, show, add and remove routes
    Route(route::RouteArgs),
    /// List the forwarding table (FIB)
    Fib(route::FibArgs),
    /// List the addresses that the forwarder listens on
    Channel(face::ChannelArgs),
    /// Show, configure and erase the content store
    Cs(cs::CsArgs),
    /// List, show, set and unset forwarding strategies
    Strategy(strategy::StrategyArgs),
    /// Show what routing knows, and why; add and remove neighbors
    Routing(routing::RoutingArgs),
    /// Take over the changed configuration file
    Reload(reload::ReloadArgs),
}

impl Command {
    /// Whether the command only shows what is.
    pub fn only_shows(&self) -> bool {
        match self {
            Command::Status(_) | Command::Fib(_) | Command::Channel(_) => true,
            Command::Face(args) => args.only_shows(),
            Command::Route(args) => args.only_shows(),
            Command::Cs(args) => args.only_shows(),
            Command::Strategy(args) => args.only_shows(),
            Command::Routing(args) => args.only_shows(),
            Command::Reload(_) => false,
        }
    }

    /// Carries out the command and prints its result.
    pub fn run(self, client: &mut Link) -> anyhow::Result<()> {
        match self {
            Command::Status(args) => status::run(args, client),
            Command::Face(args) => face::run(args, client),
            Command::Route(args) => route::run(args, client),
            Command::Fib(args) => route::run_fib(args, client),
            Command::Channel(args) => face::run_channel(args, client),
            Command::Cs(args) => cs::run(args, client),
            Command::Strategy(args) => strategy::run(args, client),
            Command::Routing(args) => routing::run(args, client),
            Command::Reload(args) => reload::run(args, client),
        }
    }
}

/// Prints `value` as JSON, or else `text`.
pub fn print(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(value)?)?;
    } else {
        out.write_all(text().as_bytes())?;
    }
    Ok(out.flush()?)
}

/// Prints `value` as JSON; or else as a table of the terminal's width; or else, in a pipe, as `text`.
fn show(
    json: bool,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
    table: impl FnOnce(usize) -> String,
) -> anyhow::Result<()> {
    let width = table::terminal_width();
    print(json, value, || width.map_or_else(text, table))
}

/// `on` or `off`, as in nfdc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

impl Switch {
    fn is_on(self) -> bool {
        self == Switch::On
    }
}
