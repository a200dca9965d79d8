//! `byname ping-server`: answers pings, also those of ndn-tools and ndnd.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, Name, NameRef};

use crate::Connection;
use crate::exit;
use crate::tools::{parse_ms, parse_name, register};
use byname_client::Fields;

/// Arguments of `byname ping-server`.
#[derive(Debug, clap::Args)]
pub struct PingServerArgs {
    /// Prefix whose pings are answered
    #[arg(value_parser = parse_name)]
    prefix: Name,
    /// FreshnessPeriod of the answers, in ms
    #[arg(short = 'x', long, value_name = "MS", default_value = "1000", value_parser = parse_ms)]
    freshness: Duration,
    /// Bytes of content in each answer
    #[arg(short, long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8000))]
    size: u16,
    /// Stop after this many answers [default: on Ctrl-C]
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Let the forwarder announce the prefix to its routing daemon
    #[arg(long)]
    announce: bool,
    /// Do not print a line for each ping
    #[arg(short, long)]
    quiet: bool,
}

/// The number of a ping: text, as ndn-tools sends it, or a typed component, as ndnd sends it.
fn number_text(name: NameRef<'_>) -> String {
    let Some(last) = name.component(-1) else { return String::new() };
    match last.number().filter(|_| last.typ == component_type::SEQUENCE_NUM) {
        Some(number) => number.to_string(),
        None => Name::default().join(last).to_string().split_off(1),
    }
}

/// Runs `byname ping-server`.
pub fn run(args: PingServerArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    exit::on_signals(&client.interrupt_flag())?;
    let base = args.prefix.join(Component::generic(b"ping"));
    register(&mut client, &base, args.announce)?;
    println!("PING SERVER for {}; Ctrl-C stops it", args.prefix);
    let content = vec![b'a'; usize::from(args.size)];
    let mut answered = 0u64;
    let served_all = client.serve(|interest, incoming, outbox| {
        if base.as_ref().is_prefix_of(&interest.name) && interest.name.len() > base.as_ref().len() {
            let data = DataBuilder::new(interest.name.to_name())
                .freshness_ms(args.freshness.as_millis() as u64)
                .content(content.clone())
                .encode();
            outbox.push(&data, Fields { pit_token: incoming.pit_token, congestion_mark: incoming.congestion_mark });
            answered += 1;
            if !args.quiet {
                let _ = writeln!(std::io::stdout(), "interest received: seq={}", number_text(interest.name));
            }
        }
        args.count.is_none_or(|count| answered < count)
    });
    println!("\n--- {} ping server statistics ---\n{answered} answered", args.prefix);
    served_all.with_context(|| format!("{} is no longer served", args.prefix))?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_kinds() {
        for (name, number) in [("/p/ping/123", "123"), ("/p/ping/seq=7", "7"), ("/p/ping/%00", "%00")] {
            let name: Name = name.parse().unwrap();
            assert_eq!(number_text(name.as_ref()), number);
        }
    }
}
