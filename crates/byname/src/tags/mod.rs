//! `byname tags`: sets of tags, for people and shell scripts [TagNet §2.1].
//!
//! `listen` and `advertise` stay connected, because an advertisement ends with its connection. Payloads come from
//! standard input and go to standard output.

mod advertise;
mod ask;
mod listen;
mod send;

use std::io::{IsTerminal, Read, Write};
use std::num::NonZeroU16;

use anyhow::{Context, bail};
use byname_client::Client;
use byname_client::fetch::resume::hex;
use byname_client::tags::{FanOutLimit, Message};
use byname_wire::Descriptor;
use byname_wire::tagnet::Address;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::Connection;
use crate::exit::{self, Failure};
use crate::tools::TextOnly;

/// Largest payload: with the most tags and both addresses, the packet is still within NDN's limit.
const PAYLOAD_BYTES_MAX: usize = 8_500;

/// Arguments of `byname tags`.
#[derive(Debug, Args)]
pub struct TagsArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer the messages whose tags include these, until Ctrl-C
    Advertise(advertise::AdvertiseArgs),
    /// Print the messages whose tags include these, until Ctrl-C
    Listen(listen::ListenArgs),
    /// Send standard input to all who want these tags, or to an address
    Send(send::SendArgs),
    /// Send standard input to one who wants these tags, or to an address, and print the answer
    Ask(ask::AskArgs),
    /// Show the addresses that the router gives to an application, one on each tree
    Locators(LocatorsArgs),
}

/// Runs `byname tags`.
pub fn run(args: TagsArgs, connection: &Connection) -> anyhow::Result<u8> {
    match args.command {
        Command::Advertise(args) => advertise::run(&args, connection),
        Command::Listen(args) => listen::run(&args, connection),
        Command::Send(args) => send::run(&args, connection),
        Command::Ask(args) => ask::run(&args, connection),
        Command::Locators(args) => locators(&args, connection),
    }
}

/// Sets of tags that an application is interested in.
#[derive(Debug, Args)]
struct Interests {
    /// Tags that a message must have, all of them; none: any message
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
    /// Tags of another set, with commas between them; may be repeated
    #[arg(long = "or", value_name = "TAG,TAG...")]
    others: Vec<String>,
}

impl Interests {
    fn descriptors(&self) -> anyhow::Result<Vec<Descriptor>> {
        let others = self.others.iter().map(|set| Descriptor::of(set.split(',').map(str::trim)));
        Ok(std::iter::once(Descriptor::of(&self.tags)).chain(others).collect::<Result<_, _>>()?)
    }
}

/// Where a message goes.
#[derive(Debug, Args)]
struct Destination {
    /// Tags of the message
    #[arg(value_name = "TAG", required_unless_present = "to")]
    tags: Vec<String>,
    /// Send to this address instead, as an earlier message has shown it (TREE:LABEL:ENDPOINT)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "tags")]
    to: Option<Address>,
    /// Send on this tree [default: the first one of the router]
    #[arg(long, value_name = "ID", conflicts_with = "to")]
    tree: Option<u32>,
}

impl Destination {
    /// The address that answers go to, on the tree of the message.
    fn source(&self, client: &mut Client) -> anyhow::Result<Address> {
        let addresses = addresses(client)?;
        let tree = self.to.map(|to| to.locator.tree.0).or(self.tree);
        let found = addresses.iter().find(|address| tree.is_none_or(|tree| address.locator.tree.0 == tree));
        found.copied().with_context(|| format!("the router is not on tree {}", tree.unwrap_or_default()))
    }

    fn send(&self, client: &mut Client, limit: FanOutLimit, source: Address, payload: &[u8]) -> anyhow::Result<()> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            bail!("the message has {} bytes, and a packet carries at most {PAYLOAD_BYTES_MAX}", payload.len());
        }
        match self.to {
            Some(to) => client.send_to(to, source, payload)?,
            None => client.send_to_tags(&Descriptor::of(&self.tags)?, limit, source, payload)?,
        }
        Ok(())
    }
}

/// Reads `all` or a number.
fn parse_fan_out(text: &str) -> Result<FanOutLimit, String> {
    match text.parse::<NonZeroU16>() {
        Ok(limit) => Ok(FanOutLimit::Some(limit)),
        Err(_) if text == "all" => Ok(FanOutLimit::All),
        Err(_) => Err("must be 'all' or a number from 1 to 65535".into()),
    }
}

/// Reads a message from standard input.
fn payload() -> anyhow::Result<Vec<u8>> {
    let mut payload = Vec::new();
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut payload).context("cannot read standard input")?;
    Ok(payload)
}

/// The addresses of this application.
fn addresses(client: &mut Client) -> anyhow::Result<Vec<Address>> {
    let addresses = client.addresses()?;
    if addresses.is_empty() {
        bail!("the router is on no tree: see the section [tags] of its configuration");
    }
    Ok(addresses)
}

/// A message. These are the fields of `--json`, one message on each line.
#[derive(Debug, Serialize)]
struct Shown {
    /// The address of the sender, for an answer.
    source: Option<String>,
    by_tags: bool,
    /// The payload, if it is text.
    payload: Option<String>,
    payload_hex: String,
}

/// Prints a message on standard output.
fn show(message: &Message, json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let shown = Shown {
            source: message.source.map(|source| source.to_string()),
            by_tags: message.by_tags,
            payload: std::str::from_utf8(&message.payload).ok().map(str::to_owned),
            payload_hex: hex(&message.payload),
        };
        writeln!(out, "{}", serde_json::to_string(&shown)?)?;
    } else if out.is_terminal() && TextOnly::default().check(&message.payload).is_err() {
        writeln!(out, "({} bytes that are not text; see --json)", message.payload.len())?;
    } else {
        out.write_all(&message.payload)?;
    }
    Ok(out.flush()?)
}

#[derive(Debug, Args)]
struct LocatorsArgs {
    /// Print a list as JSON
    #[arg(long)]
    json: bool,
}

fn locators(args: &LocatorsArgs, connection: &Connection) -> anyhow::Result<u8> {
    let addresses: Vec<String> = addresses(&mut connection.application()?)?.iter().map(Address::to_string).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&addresses)?)?;
    } else {
        addresses.iter().try_for_each(|address| writeln!(out, "{address}"))?;
    }
    Ok(exit::OK)
}

/// Nothing came in time.
fn no_answer(wait: std::time::Duration) -> anyhow::Error {
    Failure::new(exit::TIMEOUT, format!("no answer within {} ms", wait.as_millis())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fan_out_is_a_number_or_all() {
        assert_eq!(parse_fan_out("all"), Ok(FanOutLimit::All));
        assert_eq!(parse_fan_out("3"), Ok(FanOutLimit::Some(NonZeroU16::new(3).unwrap())));
        assert!(parse_fan_out("0").is_err() && parse_fan_out("some").is_err());
    }

    #[test]
    fn several_sets_of_tags() {
        let interests = Interests { tags: vec!["a".into(), "b".into()], others: vec!["c, d".into()] };
        let expected = [Descriptor::of(["b", "a"]).unwrap(), Descriptor::of(["d", "c"]).unwrap()];
        assert_eq!(interests.descriptors().unwrap(), expected);
    }
}
