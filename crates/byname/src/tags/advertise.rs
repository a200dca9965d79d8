//! `byname tags advertise`: answers messages.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::{Connection, Interests, PAYLOAD_BYTES_MAX, addresses, payload};
use crate::exit;

/// Longest wait between two looks at the flag of signals.
const WAIT: Duration = Duration::from_millis(200);

/// Arguments of `byname tags advertise`.
#[derive(Debug, clap::Args)]
pub(super) struct AdvertiseArgs {
    #[command(flatten)]
    interests: Interests,
    /// Run this shell command for each message. It reads the message from standard input, and its output is the answer
    /// [default: the answer is this command's own standard input]
    #[arg(short, long, value_name = "COMMAND")]
    command: Option<String>,
    /// End after this many answers
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

pub(super) fn run(args: &AdvertiseArgs, connection: &Connection) -> anyhow::Result<u8> {
    let fixed = match &args.command {
        Some(_) => Vec::new(),
        None => payload()?,
    };
    let mut client = connection.application()?;
    exit::on_signals(&client.interrupt_flag())?;
    let addresses = addresses(&mut client)?;
    client.advertise(&args.interests.descriptors()?)?;
    eprintln!("advertised; Ctrl-C stops");
    let mut count = 0;
    while !client.interrupted() && args.count.is_none_or(|limit| count < limit) {
        for message in client.messages(WAIT)? {
            let Some(asker) = message.source else { continue };
            // Answers come from the tree that the question came by.
            let here = addresses.iter().find(|address| address.locator.tree == asker.locator.tree);
            let Some(here) = here else { continue };
            let answer = match &args.command {
                Some(command) => match output_of(command, &message.payload) {
                    Ok(answer) => answer,
                    Err(error) => {
                        eprintln!("{error:#}");
                        continue;
                    }
                },
                None => fixed.clone(),
            };
            if answer.len() > PAYLOAD_BYTES_MAX {
                eprintln!("an answer of {} bytes is too large for a packet ({PAYLOAD_BYTES_MAX})", answer.len());
                continue;
            }
            client.send_to(asker, *here, &answer)?;
            count += 1;
        }
    }
    Ok(exit::OK)
}

/// What a shell command writes when it reads this. The message is never part of the command.
fn output_of(command: &str, message: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut process = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a shell")?;
    if let Some(mut input) = process.stdin.take() {
        // A command need not read its input.
        let _ = input.write_all(message);
    }
    let output = process.wait_with_output().context("the command has failed")?;
    anyhow::ensure!(output.status.success(), "the command has failed: {}", output.status);
    Ok(output.stdout)
}
