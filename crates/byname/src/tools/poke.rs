//! `byname poke`: serves one Data packet with the content of standard input.

use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::Context;
use byname_wire::data::{DataBuilder, content_type};
use byname_wire::{Data, Name};

use crate::Connection;
use crate::exit::{self, Failure};
use crate::tools::{check_packet_size, parse_ms, parse_packet_name, register};
use byname_client::{Fields, Link, satisfies};

/// Arguments of `byname poke`.
#[derive(Debug, clap::Args)]
pub struct PokeArgs {
    /// Name of the Data; its content is read from standard input
    #[arg(value_parser = parse_packet_name)]
    name: Name,
    /// FreshnessPeriod, in ms [default: none]
    #[arg(short = 'x', long, value_name = "MS", value_parser = parse_ms)]
    freshness: Option<Duration>,
    /// Set FinalBlockId to the last component of the name
    #[arg(short = 'F', long)]
    final_block: bool,
    /// ContentType number
    #[arg(long, value_name = "N", default_value_t = content_type::BLOB)]
    content_type: u64,
    /// Send the Data at once, without waiting for an Interest
    #[arg(short, long)]
    unsolicited: bool,
    /// Time to wait for an Interest before giving up, in ms [default: forever]
    #[arg(short = 'w', long, value_name = "MS", value_parser = parse_ms)]
    timeout: Option<Duration>,
}

/// Runs `byname poke`.
pub fn run(args: PokeArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    let mut content = Vec::new();
    let limit = byname_wire::PACKET_BYTES_MAX as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut content).context("cannot read standard input")?;
    let mut builder = DataBuilder::new(args.name.clone()).content_type(args.content_type).content(content);
    if let Some(freshness) = args.freshness {
        builder = builder.freshness_ms(freshness.as_millis() as u64);
    }
    if let (true, Some(last)) = (args.final_block, args.name.as_ref().component(-1)) {
        builder = builder.final_block(last);
    }
    let packet = builder.encode();
    check_packet_size(packet.len())?;
    exit::on_signals(&client.interrupt_flag())?;
    if args.unsolicited {
        client.outbox().push(&packet, Fields::default());
        client.flush()?;
        return Ok(exit::OK);
    }
    register(&mut client, &args.name, false)?;
    wait_for_interest(&mut client, &args, &packet)
}

fn wait_for_interest(client: &mut Link, args: &PokeArgs, packet: &[u8]) -> anyhow::Result<u8> {
    let data = Data::decode(packet).context("cannot build the Data")?;
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let mut served = false;
    while !served {
        if client.interrupted() {
            return Ok(exit::INTERRUPTED);
        }
        let wait = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        if wait.is_zero() {
            let ms = args.timeout.unwrap_or_default().as_millis();
            return Err(Failure::new(exit::TIMEOUT, format!("no Interest for {} within {ms} ms", args.name)).into());
        }
        client.receive(wait, |incoming, outbox| {
            let Ok(interest) = byname_wire::Interest::decode(incoming.packet) else { return };
            if incoming.nack.is_none() && !served && satisfies(&interest, &data) {
                outbox
                    .push(packet, Fields { pit_token: incoming.pit_token, congestion_mark: incoming.congestion_mark });
                served = true;
            }
        })?;
    }
    Ok(exit::OK)
}
