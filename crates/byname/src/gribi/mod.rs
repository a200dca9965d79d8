//! `byname gribi`: a server of gRIBI's semantics beside a router, and a client of it. docs/gribi.md has more.

mod line;
mod load;
mod serve;
mod show;

use std::path::PathBuf;

use anyhow::Context;
use byname_gribi::block_on;
use byname_gribi::client::{Client, ClientError, Session, Target};
use byname_gribi::core::{Ack, Params, Persistence};
use byname_gribi::proto::operation::Kind;
use byname_gribi::proto::result::Status;
use clap::{Args, Subcommand};

use crate::Connection;
use crate::exit::{self, Failure};

const EXAMPLES: &str = "\
Entries:
  next-hop INDEX URI                               a face of the router, by the address of its peer
  group ID INDEX[:COST]...                         next-hops that entries use together
  prefix NAME GROUP [--no-inherit] [--capture]     Interests below a prefix
  flat NAME GROUP                                  a name in a flat namespace
  tags TAG[,TAG...] GROUP                          packets whose tags include these
To delete, the key is enough: `delete group 7`.

Examples:
  byname gribi serve                               beside the router of this host
  byname gribi add next-hop 1 udp4://192.0.2.1:6363
  byname gribi add group 7 1:10
  byname gribi add prefix /example/video 7
  byname gribi get
  byname gribi load entries.txt                    many lines, such as `add prefix /example/video 7`

Each command is a session of its own, with the election id of --election. What it adds stays when it ends.";

/// Options of `byname gribi`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GribiArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Command,
}

/// Where the server is, for its clients.
#[derive(Debug, Args)]
struct ServerArgs {
    /// Address of the server: http://HOST:PORT, or https://HOST:PORT with --ca
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9340", global = true)]
    server: String,
    /// Certificates that an https:// server is checked with, in PEM
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// Certificate of this client, in PEM
    #[arg(long, value_name = "FILE", requires = "key", global = true)]
    certificate: Option<PathBuf>,
    /// Private key of this client, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate", global = true)]
    key: Option<PathBuf>,
    /// Election id of this client; only the client with the highest one may change anything
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_election, global = true)]
    election: u128,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve controllers, and program the router of this host
    Serve(serve::ServeArgs),
    /// Make an entry, or replace it
    Add(EntryArgs),
    /// Replace an entry that exists
    Replace(EntryArgs),
    /// Delete an entry
    Delete(EntryArgs),
    /// Show what the server has
    Get {
        /// Only entries of this kind
        #[arg(value_enum, default_value_t = show::Kind::All)]
        kind: show::Kind,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove all entries, groups and next-hops
    Flush {
        /// Also if a client with a higher election id is known
        #[arg(long = "override")]
        overrides: bool,
    },
    /// Carry out many operations: one on each line, such as `add prefix /a 7`; `#` begins a comment
    Load(load::LoadArgs),
    /// Become the primary client with this election id, if none is higher; print the highest one
    Elect {
        /// The election id, in place of --election
        #[arg(value_parser = parse_election)]
        id: Option<u128>,
    },
}

/// An entry on the command line.
#[derive(Debug, Args)]
struct EntryArgs {
    /// Kind of the entry, its key, and where it leads: see below
    #[arg(required = true, value_name = "ENTRY")]
    words: Vec<String>,
    /// Do not pass the routes of a prefix on to longer prefixes that have their own routes
    #[arg(long)]
    no_inherit: bool,
    /// Do not take over routes of shorter prefixes, for this prefix and longer ones
    #[arg(long)]
    capture: bool,
}

fn parse_election(text: &str) -> Result<u128, String> {
    match text.parse() {
        Ok(0) => Err("an election id is at least 1".to_owned()),
        Ok(id) => Ok(id),
        Err(_) => Err("an election id is a number of up to 128 bits".to_owned()),
    }
}

impl ServerArgs {
    fn target(&self) -> anyhow::Result<Target> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        if !self.server.starts_with("http://") && !self.server.starts_with("https://") {
            let message = format!("'{}' is no address of a server: try http://{}", self.server, self.server);
            return Err(Failure::new(exit::USAGE, message).into());
        }
        if self.server.starts_with("https://") && self.ca.is_none() {
            let message = "https:// needs --ca: the certificates that the server is checked with";
            return Err(Failure::new(exit::USAGE, message).into());
        }
        let identity_pem = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok(Target { endpoint: self.server.clone(), ca_pem: self.ca.as_ref().map(read).transpose()?, identity_pem })
    }

    /// A session that is primary.
    async fn session(&self, client: &Client, persistence: Persistence) -> anyhow::Result<Session> {
        let params = Params { persistence, ack: Ack::RibAndFib };
        let session = client.modify(params, self.election).await?;
        if session.is_primary() {
            return Ok(session);
        }
        let message = format!(
            "the primary client has the election id {}, and this one {}: to take over, use --election {0} or a higher one",
            session.highest(),
            self.election
        );
        Err(Failure::new(exit::FAILED, message).into())
    }
}

/// Runs `byname gribi`.
pub fn run(args: GribiArgs, connection: &Connection) -> anyhow::Result<u8> {
    let GribiArgs { server, command } = args;
    match command {
        Command::Serve(args) => serve::run(&args, connection),
        command => block_on(carry_out(&server, command)).context("cannot start the runtime")?,
    }
}

async fn carry_out(server: &ServerArgs, command: Command) -> anyhow::Result<u8> {
    let target = server.target()?;
    let connect = async || Client::connect(&target).await;
    match command {
        // It has a runtime of its own.
        Command::Serve(_) => Ok(exit::USAGE),
        Command::Add(args) => one(server, &connect().await, Kind::Add, &args).await,
        Command::Replace(args) => one(server, &connect().await, Kind::Replace, &args).await,
        Command::Delete(args) => one(server, &connect().await, Kind::Delete, &args).await,
        Command::Get { kind, json } => show::get(&connect().await?, kind, json).await,
        Command::Flush { overrides } => {
            connect().await?.flush((!overrides).then_some(server.election)).await?;
            Ok(exit::OK)
        }
        Command::Load(args) => load::run(server, &args, &target).await,
        Command::Elect { id } => {
            let election = id.unwrap_or(server.election);
            let params = Params { persistence: Persistence::Preserve, ack: Ack::RibAndFib };
            let session = connect().await?.modify(params, election).await?;
            println!("{}", session.highest());
            Ok(if session.is_primary() { exit::OK } else { exit::FAILED })
        }
    }
}

/// Carries out one operation.
async fn one(
    server: &ServerArgs,
    client: &Result<Client, ClientError>,
    kind: Kind,
    args: &EntryArgs,
) -> anyhow::Result<u8> {
    let flags = [(args.no_inherit, "--no-inherit"), (args.capture, "--capture")];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag);
    let words: Vec<&str> = args.words.iter().map(String::as_str).chain(flags).collect();
    // Before it is told that there is no server.
    let entry = line::entry(kind, &words).map_err(|why| Failure::new(exit::USAGE, why))?;
    let client = client.as_ref().map_err(|error| Failure::new(exit::FAILED, error.to_string()))?;
    let mut session = server.session(client, Persistence::Preserve).await?;
    let operation = session.operation(kind, entry);
    session.send(vec![operation]).await?;
    loop {
        let result = session.result().await?;
        match result.status() {
            Status::RibProgrammed | Status::Unspecified => {}
            Status::FibProgrammed => return Ok(exit::OK),
            Status::Failed => return Err(Failure::new(exit::FAILED, result.error).into()),
            Status::FibFailed => {
                let message = format!("the server has it, but the router refuses: {}", result.error);
                return Err(Failure::new(exit::FAILED, message).into());
            }
        }
    }
}
