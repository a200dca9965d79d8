//! `byname`: a router for Named Data Networking, and its command-line tools.
//!
//! README.md of the repository says what they are for, and how to use them. Read these modules first:
//!
//! - [`run`]: `byname run`, from the configuration to the last packet. `check` and `default-config` are there, too.
//! - [`process`]: signals, and what happens when one of the threads fails.
//! - [`exit`]: exit codes, for scripts.
//!
//! [`manage`] speaks to a running router by the NFD management protocol, and [`batch`] does so for a file of commands.
//! [`tools`] publish and fetch, by the crate `byname-client`. [`demo`] starts networks on this machine. [`switch`] forwards
//! Ethernet frames instead of NDN packets.
#![forbid(unsafe_code)]
// Doc comments on arguments are help texts, where `HOST[:PORT]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

mod batch;
mod dashboard;
mod demo;
mod exit;
mod flat;
mod fleet;
mod gribi;
mod in_flight;
mod key;
mod keygen;
mod line;
mod manage;
mod nfdc_words;
#[cfg(test)]
mod odd_port;
mod partition;
mod process;
mod reference;
mod restart;
mod run;
mod switch;
mod table;
mod tags;
mod tools;
mod top;
mod trace;
mod trees;
mod watch;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::tools::{get, peek, ping, ping_server, poke, put};
use byname_client::transport::Environment;
use byname_client::{Client, ClientOptions, Link};

/// Overview that `byname --help` shows instead of clap's flat list.
const OVERVIEW: &str = "\
Forwarder:
  run             Start the forwarder; needs no configuration
  check           Check a configuration file
  default-config  Print the default configuration, with comments
  restart         Let a new process take over from the running forwarder; closes no connection
  key             Make a network's trust anchor, keys and certificates; renew and revoke them
  keygen          Make a key and its certificate, for a host or an operator
  table           Make, check and ask files of rules that the forwarder maps at its start
  partition       Cut rules into tables for several machines that are one router
  flat            Make, check and ask files of flat names that the forwarder looks up below a prefix
  trees           Show the spanning trees of a network, for routing by tags and locators

Management of a running forwarder (nfdc's words work: `route add prefix /a nexthop 300`):
  status          Show the whole state, or its summary
  face            List, show, create and destroy faces
  route           List, show, add and remove routes (RIB)
  fib             List the forwarding table (FIB)
  channel         List the addresses that the forwarder listens on
  cs              Show, configure and erase the content store
  strategy        List, show, set and unset forwarding strategies
  routing         Show what routing knows, and why; add and remove neighbors
  reload          Take over the changed configuration file
  top             Show what the forwarder is busy with: rates by face, prefix and thread
  trace           Show what happens to packets, and why, as it happens
  dashboard       Open the router's pages in a browser

Tools:
  ping            Ping the producer of a prefix
  ping-server     Answer pings
  peek            Fetch one packet
  poke            Serve one packet from standard input
  get             Fetch a file in segments; resumes an interrupted fetch
  put             Publish a file in segments
  tags            Send, ask, listen and answer by sets of tags
  demo            Run a network on this machine: routers, with applications, or switches with hosts

Ethernet by flat names:
  switch             Forward Ethernet frames by destination address, as a controller decides
  switch-controller  Tell the switches of a network where hosts are

A fleet of routers with one intent, in etcd:
  agent           Follow the intent beside a router
  builder         Make tables for routers that do not have their names
  fleet           Show how far each node is; change links, groups, routes and strategies of all

A controller writes into one router, over gRPC with gRIBI's semantics:
  gribi           Serve controllers beside a router; add, replace, delete, list and flush entries

Installation:
  completions     Print completions for a shell
  man             Write the manual pages into a folder";

const EXAMPLES: &str = "\
The help of a command: `byname help route` or `byname route --help`. `--json`, before or after a command, prints JSON.

Examples:
  byname run                                        start the forwarder
  byname route add /ndn udp://router.example.net    forward /ndn to another router
  byname put /demo/song song.ogg                    publish a file ...
  byname get /demo/song -o song.ogg                 ... and fetch it, from anywhere
  byname status --json | jq .faces                  for scripts
  byname -f commands.txt                            carry out commands, one on each line";

/// The forwarder that forwards by name: a router for Named Data Networking, and its tools.
#[derive(Debug, Parser)]
#[command(name = "byname", version = env!("BYNAME_VERSION"), about, max_term_width = 110)]
#[command(help_template = "{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}")]
#[command(before_help = OVERVIEW)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
struct Cli {
    /// Address of the forwarder: unix:///PATH, tcp://HOST[:PORT], udp://HOST[:PORT] or ws://HOST[:PORT] [default: from
    /// NDN_CLIENT_TRANSPORT or client.conf, else /run/nfd/nfd.sock or nfd/nfd.sock in the user's runtime directory]
    #[arg(long, value_name = "URI")]
    transport: Option<String>,
    /// Repeat a management command that shows something, every SECONDS (2 if not given), until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
    /// Carry out the management commands in FILE (-: standard input), one on each line, as `nfdc -f` does; the first
    /// that fails ends the batch
    #[arg(long, short = 'f', value_name = "FILE")]
    batch: Option<PathBuf>,
    /// Go on after a command of the batch that fails, and list all that fail
    #[arg(long, requires = "batch")]
    keep_going: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the forwarder; needs no configuration
    Run(run::RunArgs),
    /// Check a configuration file
    Check(run::CheckArgs),
    /// Print the default configuration, with comments
    DefaultConfig,
    /// Let a new process take over from the running forwarder; closes no connection
    Restart(restart::RestartArgs),
    /// Make a network's trust anchor, keys and certificates; renew and revoke them
    Key(key::KeyArgs),
    /// Make a key and its certificate, for a host or an operator
    Keygen(keygen::KeygenArgs),
    /// Make, check and ask files of rules that the forwarder maps at its start
    Table(table::TableArgs),
    /// Cut rules into tables for several machines that are one router
    Partition(partition::PartitionArgs),
    /// Make, check and ask files of flat names that the forwarder looks up below a prefix
    Flat(flat::FlatArgs),
    /// Show the spanning trees of a network, for routing by tags and locators
    Trees(trees::TreesArgs),
    #[command(flatten)]
    Manage(manage::Command),
    /// Show what the forwarder is busy with: rates by face, prefix and thread
    Top(top::TopArgs),
    /// Show what happens to packets, and why, as it happens
    Trace(trace::TraceArgs),
    /// Open the router's pages in a browser
    Dashboard(dashboard::DashboardArgs),
    /// Ping the producer of a prefix
    Ping(ping::PingArgs),
    /// Answer pings under a prefix
    PingServer(ping_server::PingServerArgs),
    /// Fetch one packet
    Peek(peek::PeekArgs),
    /// Serve one packet from standard input
    Poke(poke::PokeArgs),
    /// Fetch a file in segments; resumes an interrupted fetch
    Get(get::GetArgs),
    /// Publish a file in segments
    Put(put::PutArgs),
    /// Send, ask, listen and answer by sets of tags
    Tags(tags::TagsArgs),
    /// Run a network on this machine: routers, with applications, or switches with hosts
    Demo(demo::DemoArgs),
    /// Forward Ethernet frames by destination address, as a controller decides
    Switch(switch::SwitchArgs),
    /// Tell the switches of a network where hosts are
    SwitchController(switch::ControllerArgs),
    /// Follow the intent of a fleet, beside a router
    Agent(fleet::AgentArgs),
    /// Make tables of a fleet, for routers that do not have their names
    Builder(fleet::BuilderArgs),
    /// Show and change the intent of a fleet of routers, in etcd
    Fleet(fleet::FleetArgs),
    /// Serve controllers over gRPC beside a router, or be one: next-hops, groups and entries
    Gribi(gribi::GribiArgs),
    /// Print completions for a shell
    Completions(reference::CompletionsArgs),
    /// Write the manual pages into a folder
    Man(reference::ManArgs),
}

/// How commands reach the forwarder.
#[derive(Debug, Clone)]
pub struct Connection {
    transport: Option<String>,
}

impl Connection {
    /// Connects to the forwarder that the user named, or to the default one.
    pub fn connect(&self) -> anyhow::Result<Link> {
        let candidates = Environment::of_process()
            .candidates(self.transport.as_deref())
            .map_err(|error| exit::Failure::new(exit::USAGE, error.to_string()))?;
        Ok(Link::connect(&candidates)?)
    }

    /// The same connection, for applications. When the forwarder is gone, the command ends.
    pub fn application(&self) -> anyhow::Result<Client> {
        self.application_through(Duration::ZERO)
    }

    /// The same, for applications that outlive their forwarder: requests wait at most `outage_max` until it is back. Zero:
    /// the command ends.
    pub fn application_through(&self, outage_max: Duration) -> anyhow::Result<Client> {
        let link = self.connect()?;
        let mut options = ClientOptions::new(vec![link.transport().clone()]);
        options.session.outage_max = outage_max;
        if outage_max.is_zero() {
            options.reconnect = None;
        }
        Ok(Client::over(link, options))
    }
}

fn main() -> ExitCode {
    let line = nfdc_words::rewrite(line::in_usual_order(std::env::args_os().collect()));
    let (cli, connection) = line::parse(&line).unwrap_or_else(|error| error.exit());
    if let Some(seconds) = cli.watch {
        return finish(watch::run(&line, Duration::from_secs(seconds), &connection));
    }
    let result = match (cli.command, cli.batch) {
        (Some(command), None) => carry_out(command, &connection),
        (None, Some(file)) => batch::run(&file, cli.keep_going, &connection),
        (Some(_), Some(_)) => usage_error(ErrorKind::ArgumentConflict, "--batch reads its commands from a file"),
        (None, None) => usage_error(ErrorKind::MissingSubcommand, "a command is missing"),
    };
    finish(result)
}

fn finish(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => code.into(),
        Err(error) if is_broken_pipe(&error) => exit::OK.into(),
        Err(error) => {
            // Standard error may be closed. The exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "error: {}", exit::message_of(&error));
            exit::code_of(&error).into()
        }
    }
}

fn usage_error(kind: ErrorKind, message: &str) -> ! {
    line::command().error(kind, message).exit()
}

fn carry_out(command: Command, connection: &Connection) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => run::check(args),
        Command::DefaultConfig => run::print_default_config(),
        Command::Restart(args) => restart::run(args, connection),
        Command::Key(args) => key::run(args),
        Command::Keygen(args) => keygen::run(args),
        Command::Table(args) => table::run(args),
        Command::Partition(args) => partition::run(args),
        Command::Flat(args) => flat::run(args, connection),
        Command::Trees(args) => trees::run(args),
        Command::Manage(command) => command.run(&mut connection.connect()?).map(|()| exit::OK),
        Command::Top(args) => top::run(args, connection),
        Command::Trace(args) => trace::run(args, connection),
        Command::Dashboard(args) => dashboard::run(args),
        Command::Ping(args) => ping::run(args, connection),
        Command::PingServer(args) => ping_server::run(args, connection),
        Command::Peek(args) => peek::run(args, connection),
        Command::Poke(args) => poke::run(args, connection),
        Command::Get(args) => get::run(args, connection),
        Command::Put(args) => put::run(args, connection),
        Command::Tags(args) => tags::run(args, connection),
        Command::Demo(args) => demo::run(args),
        Command::Switch(args) => switch::run(args),
        Command::SwitchController(args) => switch::run_controller(args),
        Command::Agent(args) => fleet::run_agent(args, connection),
        Command::Builder(args) => fleet::run_builder(args, connection),
        Command::Fleet(args) => fleet::run(args, connection),
        Command::Gribi(args) => gribi::run(args, connection),
        Command::Completions(args) => reference::completions(args),
        Command::Man(args) => reference::man(args),
    }
}

/// Whether the reader of our output went away, as `head` does. This is not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_the_overview_complete() {
        let command = line::command();
        command.clone().debug_assert();
        for subcommand in command.get_subcommands() {
            let line = format!("\n  {} ", subcommand.get_name());
            assert!(OVERVIEW.contains(&line), "{} is not in the overview", subcommand.get_name());
        }
    }
}
