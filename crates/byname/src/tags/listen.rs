//! `byname tags listen`: prints messages.

use std::time::Duration;

use super::{Connection, Interests, addresses, show};
use crate::exit;
use crate::tools::parse_ms;

/// Longest wait between two looks at the limits.
const WAIT: Duration = Duration::from_millis(200);

/// Arguments of `byname tags listen`.
#[derive(Debug, clap::Args)]
pub(super) struct ListenArgs {
    #[command(flatten)]
    interests: Interests,
    /// End after this many messages
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// End after this time, in ms
    #[arg(long = "for", value_name = "MS", value_parser = parse_ms)]
    duration: Option<Duration>,
    /// Print messages as JSON, one on each line, with the sender's address
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ListenArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.application()?;
    exit::on_signals(&client.interrupt_flag())?;
    let addresses = addresses(&mut client)?;
    client.advertise(&args.interests.descriptors()?)?;
    let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    eprintln!("listening; my addresses are {}; Ctrl-C stops", list.join(", "));
    let start = std::time::Instant::now();
    let mut count = 0;
    loop {
        let left = args.duration.map_or(WAIT, |duration| duration.saturating_sub(start.elapsed()).min(WAIT));
        if left.is_zero() || client.interrupted() {
            return Ok(exit::OK);
        }
        for message in client.messages(left)? {
            show(&message, args.json)?;
            count += 1;
            if args.count.is_some_and(|limit| count >= limit) {
                return Ok(exit::OK);
            }
        }
    }
}
