//! `byname ping-server`: answers pings, those of ndn-tools and ndnd as well.

use std::io::Write;
use std::time::Duration;

use byname_wire::data::DataBuilder;
use byname_wire::{Component, Name};

use crate::Connection;
use crate::client::Fields;
use crate::exit;
use crate::tools::{parse_ms, parse_name, register};

/// Arguments of `byname ping-server`.
#[derive(Debug, clap::Args)]
pub struct PingServerArgs {
    /// Prefix to answer under
    #[arg(value_parser = parse_name)]
    prefix: Name,
    /// FreshnessPeriod of the answers, in ms
    #[arg(short = 'x', long, value_name = "MS", default_value = "1000", value_parser = parse_ms)]
    freshness: Duration,
    /// Octets of content in each answer
    #[arg(short, long, value_name = "OCTETS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8000))]
    size: u16,
    /// Stop after this many answers [default: on Ctrl-C]
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Let the forwarder announce the prefix to its routing daemon
    #[arg(long)]
    announce: bool,
    /// Print no line for each ping
    #[arg(short, long)]
    quiet: bool,
}

/// Runs `byname ping-server`.
pub fn run(args: PingServerArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    client.catch_signals()?;
    register(&mut client, &args.prefix, args.announce)?;
    println!("PING SERVER for {}; Ctrl-C stops it", args.prefix);
    let base = args.prefix.join(Component::generic(b"ping"));
    let content = vec![b'a'; usize::from(args.size)];
    let mut answered = 0u64;
    client.serve(|interest, incoming, outbox| {
        if base.as_ref().is_prefix_of(&interest.name) && interest.name.len() > base.as_ref().len() {
            let data = DataBuilder::new(interest.name.to_name())
                .freshness_ms(args.freshness.as_millis() as u64)
                .content(content.clone())
                .encode();
            outbox.push(&data, Fields { pit_token: incoming.pit_token, congestion_mark: incoming.congestion_mark });
            answered += 1;
            if !args.quiet {
                let last = interest.name.component(-1).map(|number| number.value).unwrap_or_default();
                let _ = writeln!(std::io::stdout(), "interest received: seq={}", String::from_utf8_lossy(last));
            }
        }
        args.count.is_none_or(|count| answered < count)
    })?;
    println!("\n--- {} ping server statistics ---\n{answered} answered", args.prefix);
    Ok(exit::OK)
}
