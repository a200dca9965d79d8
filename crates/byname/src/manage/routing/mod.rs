//! `byname routing`: what a router's routing knows, and its neighbours at run time.
//!
//! Routing answers questions below `/localhost/nlsr/byname` with JSON (`report`). Neighbours are added and removed by
//! commands of management, which needs the rights for it.

pub mod report;
mod words;

use byname_control::mgmt::tlv::ControlParameters;
use byname_wire::{Component, Name};
use serde::de::DeserializeOwned;

use self::report::{Explained, Neighbor, Page, Prefix, RouterSeen, Status, TreePlace};
use super::face_uri::{canonical, parse_uri};
use super::print;
use crate::exit;
use crate::tools::parse_name;
use byname_client::Link;
use byname_client::management::{LIFETIME, command, dataset_at};

/// Arguments of `byname routing`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RoutingArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show routing as a whole (the default)
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List, add and remove neighbors
    #[command(visible_alias = "neighbours")]
    Neighbors(NeighborsArgs),
    /// List the routers of the network
    Routers {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show this router's places on the trees for tags and locators
    Trees {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the prefixes of the network
    Prefixes {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show why a name goes where it goes
    Explain {
        /// The name
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
struct NeighborsArgs {
    #[command(subcommand)]
    command: Option<NeighborsCommand>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum NeighborsCommand {
    /// Make a link to a neighbor, until the router ends; the configuration keeps links for longer
    Add {
        /// URI of the neighbor, for example udp://r2.example.net
        #[arg(value_parser = parse_uri)]
        uri: String,
        /// Cost of the link
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..16))]
        cost: u64,
        /// Largest frame to send, in bytes
        #[arg(long)]
        mtu: Option<u64>,
    },
    /// Leave a neighbor
    Remove {
        /// URI of the neighbor, as in the list
        #[arg(value_parser = parse_uri)]
        uri: String,
    },
}

impl RoutingArgs {
    /// Whether the command only shows what is.
    pub fn only_shows(&self) -> bool {
        !matches!(&self.command, Some(Command::Neighbors(NeighborsArgs { command: Some(_), .. })))
    }
}

/// Runs `byname routing`.
pub fn run(args: RoutingArgs, client: &mut Link) -> anyhow::Result<()> {
    match args.command.unwrap_or(Command::Status { json: args.json }) {
        Command::Status { json } => {
            let status = ask_status(client)?;
            print(json, &status, || words::status(&status))
        }
        Command::Neighbors(NeighborsArgs { command: None, json }) => {
            let neighbors: Vec<Neighbor> = ask(client, report::questions().join(Component::generic(b"neighbors")))?;
            print(json, &neighbors, || words::neighbors(&neighbors))
        }
        Command::Neighbors(NeighborsArgs { command: Some(change), .. }) => change_neighbors(change, client),
        Command::Routers { json } => {
            let routers = ask_routers(client)?;
            print(json, &routers, || words::routers(&routers))
        }
        Command::Trees { json } => {
            let trees: Vec<TreePlace> = ask(client, report::questions().join(Component::generic(b"trees")))?;
            print(json, &trees, || words::trees(&trees))
        }
        Command::Prefixes { json } => {
            let prefixes = all_prefixes(client)?;
            print(json, &prefixes, || words::prefixes(&prefixes))
        }
        Command::Explain { prefix, json } => {
            let question = report::questions().join(Component::generic(b"explain"));
            let explained: Explained = ask(client, question.join(Component::generic(prefix.value())))?;
            print(json, &explained, || words::explained(&explained))
        }
    }
}

/// Asks for routing as a whole.
pub fn ask_status(client: &mut Link) -> anyhow::Result<Status> {
    ask(client, report::questions().join(Component::generic(b"status")))
}

/// Asks for the routers of the network.
pub fn ask_routers(client: &mut Link) -> anyhow::Result<Vec<RouterSeen>> {
    ask(client, report::questions().join(Component::generic(b"routers")))
}

fn all_prefixes(client: &mut Link) -> anyhow::Result<Vec<Prefix>> {
    let question = report::questions().join(Component::generic(b"prefixes"));
    let (mut prefixes, mut after) = (Vec::new(), Name::default());
    loop {
        let page: Page = ask(client, question.join(Component::generic(after.value())))?;
        prefixes.extend(page.prefixes);
        match page.next {
            Some(next) => after = next.parse()?,
            None => return Ok(prefixes),
        }
    }
}

fn change_neighbors(change: NeighborsCommand, client: &mut Link) -> anyhow::Result<()> {
    let (verb, parameters) = match change {
        NeighborsCommand::Add { uri, cost, mtu } => {
            let uri = Some(canonical(&uri)?);
            ("add-neighbor", ControlParameters { uri, cost: Some(cost), mtu, ..ControlParameters::default() })
        }
        NeighborsCommand::Remove { uri } => {
            ("remove-neighbor", ControlParameters { uri: Some(canonical(&uri)?), ..ControlParameters::default() })
        }
    };
    command(client, "config", verb, &parameters)?;
    Ok(())
}

/// Asks routing a question. A router without routing has nobody who answers.
fn ask<T: DeserializeOwned>(client: &mut Link, question: Name) -> anyhow::Result<T> {
    let content = dataset_at(client, "routing", question, (LIFETIME, 2)).map_err(|error| {
        let text = format!("{error}; does this router take part in routing? See `byname run --network` and [routing]");
        exit::Failure::new(exit::code_of(&error.into()), text)
    })?;
    Ok(serde_json::from_slice(&content)?)
}
