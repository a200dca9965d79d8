//! `byname tags ask`: sends a message until there is an answer.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::bail;
use byname_client::tags::FanOutLimit;

use super::{Connection, Destination, no_answer, payload, show};
use crate::exit;
use crate::tools::parse_ms;

/// Arguments of `byname tags ask`.
#[derive(Debug, clap::Args)]
pub(super) struct AskArgs {
    #[command(flatten)]
    destination: Destination,
    /// Time to wait for an answer, in ms
    #[arg(short = 'w', long, value_name = "MS", default_value = "4000", value_parser = parse_ms)]
    timeout: Duration,
    /// Time after which the message is sent again, in ms: the network may lose it
    #[arg(short, long, value_name = "MS", default_value = "250", value_parser = parse_ms)]
    interval: Duration,
    /// Print the address of the one who answers, and not the answer
    #[arg(short, long, conflicts_with = "json")]
    source: bool,
    /// Print the answer as JSON, with the sender's address
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &AskArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.application()?;
    exit::on_signals(&client.interrupt_flag())?;
    let source = args.destination.source(&mut client)?;
    let payload = payload()?;
    let end = Instant::now() + args.timeout;
    while Instant::now() < end {
        args.destination.send(&mut client, FanOutLimit::One, source, &payload)?;
        let again = end.min(Instant::now() + args.interval);
        while Instant::now() < again {
            let answers = client.messages(again.saturating_duration_since(Instant::now()))?;
            if client.interrupted() {
                return Ok(exit::INTERRUPTED);
            }
            // What was sent by tags is no answer: answers go to the address of the one who asks.
            if let Some(answer) = answers.iter().find(|answer| !answer.by_tags) {
                match (args.source, answer.source) {
                    (true, Some(source)) => writeln!(std::io::stdout().lock(), "{source}")?,
                    (true, None) => bail!("the answer does not say where it came from"),
                    (false, _) => show(answer, args.json)?,
                }
                return Ok(exit::OK);
            }
        }
    }
    Err(no_answer(args.timeout))
}
