//! `byname tags send`: sends messages.

use std::io::{BufRead, Write};

use anyhow::Context;
use byname_client::tags::FanOutLimit;
use serde::Serialize;

use super::{Connection, Destination, parse_fan_out, payload};
use crate::exit;

/// Arguments of `byname tags send`.
#[derive(Debug, clap::Args)]
pub(super) struct SendArgs {
    #[command(flatten)]
    destination: Destination,
    /// Number of applications that a message may reach, or 'all'
    #[arg(short = 'k', long, value_name = "N", default_value = "all", value_parser = parse_fan_out)]
    fan_out: FanOutLimit,
    /// Send each line of standard input as a message, as soon as it is there
    #[arg(short, long)]
    lines: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

/// These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Sent {
    messages: u64,
    bytes: u64,
    source: String,
}

pub(super) fn run(args: &SendArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.application()?;
    let source = args.destination.source(&mut client)?;
    let mut sent = Sent { messages: 0, bytes: 0, source: source.to_string() };
    let mut send = |payload: &[u8]| {
        sent.messages += 1;
        sent.bytes += payload.len() as u64;
        args.destination.send(&mut client, args.fan_out, source, payload)
    };
    if args.lines {
        for line in std::io::stdin().lock().split(b'\n') {
            let mut line = line.context("cannot read standard input")?;
            line.push(b'\n');
            send(&line)?;
        }
    } else {
        send(&payload()?)?;
    }
    if args.json {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string_pretty(&sent)?)?;
    }
    Ok(exit::OK)
}
